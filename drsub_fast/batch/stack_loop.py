"""The compiled loop over stacked problems.

`solve_stack` runs the loop of the ordinary solver on problem i of the stacks of objectives, sets and options
(`drsub_fast.engine.dispatch`), in a workspace that all problems share: no allocation and no call from Python is left
per problem, and the answers are those of single solves.

What that loop cannot do (a linear program it gives up, a projection by a solver, data it does not accept as
they stand) is said by a code and left to the caller.
"""

import math
from collections import namedtuple

from drsub_fast.claims.premises import ROUNDING
from drsub_fast.engine.codes import CONVERGED, OK, PAUSED, SOLVED
from drsub_fast.engine.dispatch import operation, own, problem_at, register, row_of
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import assign
from drsub_fast.objectives.base import evaluate, is_dr_submodular, is_nonnegative
from drsub_fast.sets.base import lmo
from drsub_fast.solvers.frank_wolfe import FrankWolfeOptions
from drsub_fast.solvers.loops import run_loop
from drsub_fast.solvers.starts import UNSOLVED, local_global_bound, solve_starts
from drsub_fast.solvers.state import GAP, N_LMO, TOP_VALUE, VALUE, K, allowed_gap, gap_at, linear_bound, open_run

#: Code of a problem whose data the loop does not accept as they stand, or that wants one more solve; and of one that
#: converged in its second phase, though not over all of the set. The others are those of the loops.
REFUSED, ELSEWHERE = -1, 20

#: Options of a method that solves from starts, and once more over what the best of them leaves: those of one solve, its
#: `Tolerance`, and whether an answer of the second phase that is not stationary over all of the set is solved from.
PhasesOptions = namedtuple("PhasesOptions", "phase tol polish")

#: Workspace of one worker: flat arrays of the loop; for `PhasesOptions` the bounds of the second phase, and its starts,
#: of which the last is the second phase.
Scratch = namedtuple("Scratch", "floats integers upper starts")

#: Where answers go, each with one row a problem (the traces may have one row in all).
Answers = namedtuple("Answers", "x value fw_gap upper_bound code n_iter n_lmo trace_value trace_gap")


@kernel(memory=True)
def _frank_wolfe_at(stack, i):
    return FrankWolfeOptions(stack.step_size, stack.tol, own(stack.scale, i))


@kernel(memory=True)
def _phases_at(stack, i):
    return PhasesOptions(problem_at(stack.phase, i), stack.tol, stack.polish)


register(FrankWolfeOptions, problem_at=_frank_wolfe_at)
register(PhasesOptions, problem_at=_phases_at)


@kernel
def _run_loop(options, objective, feasible_set, scratch, x, upper, k_max, value, gap):
    code = PAUSED
    while code == PAUSED:
        code = run_loop(
            options, objective, feasible_set, scratch.floats, scratch.integers, x, upper, k_max, k_max + 1, value, gap
        )
    return code, linear_bound(value, gap)


@kernel
def _solve_starts(options, objective, feasible_set, scratch, upper, base, k_max, first, last):
    """Solves starts first .. last - 1; the code of the first one that cannot be solved here, or of the last."""
    s, starts = first, scratch.starts
    while s < last:
        s = solve_starts(
            objective, feasible_set, options.phase, scratch.floats, scratch.integers, starts, upper, base, k_max,
            last * (k_max + 1), s, last,
        )  # fmt: skip
    for s in range(first, last):
        if starts.codes[s] not in SOLVED:
            return starts.codes[s]
    return starts.codes[last - 1]


@kernel
def _measure_gap(objective, feasible_set, scratch, x, upper):
    """(code of the oracle, gap of x over all of P)."""
    scratch.integers[:] = 0
    state, work, set_work = open_run(objective, feasible_set, x.size, scratch.floats, scratch.integers)
    evaluate(objective, work, x)
    code = PAUSED
    while code == PAUSED:
        code = lmo(feasible_set, set_work, work.grad, upper, state.v)
    return code, gap_at(work.grad, state.v, x)


@kernel
def _run_phases(options, objective, feasible_set, scratch, x, upper, k_max, value, gap):
    """Solves from all starts, and for the best x over Q = {y in P : y <= u - x}, as in Algorithm 1."""
    starts = scratch.starts
    values, gaps, second = starts.values, starts.gaps, starts.codes.size - 1
    starts.points[:] = 0.0
    values[:] = -math.inf
    starts.codes[:] = UNSOLVED
    # The rise of f is counted from f(0), which the first start finds.
    code = _solve_starts(options, objective, feasible_set, scratch, upper, math.nan, k_max, 0, 1)
    if code in SOLVED and second > 1:
        base = starts.trace_value[0, 0]
        code = _solve_starts(options, objective, feasible_set, scratch, upper, base, k_max, 1, second)
    if code not in SOLVED:
        return code, math.inf
    best = n_lmo = 0
    for s in range(second):
        n_lmo += starts.counts[s, 1]
        if values[s] > values[best]:
            best = s
    for j in range(x.size):
        scratch.upper[j] = max(upper[j] - starts.points[best, j], 0.0)
    code = _solve_starts(options, objective, feasible_set, scratch, scratch.upper, math.nan, k_max, second, second + 1)
    if code not in SOLVED:
        return code, math.inf
    bound = linear_bound(starts.trace_value[0], starts.trace_gap[0])
    better = second if values[second] > values[best] else best
    local_global = local_global_bound(values[better], gaps[best], gaps[second])
    if local_global < bound:
        scratch.integers[:] = 0
        _, work, _ = open_run(objective, feasible_set, x.size, scratch.floats, scratch.integers)
        if is_nonnegative(objective, work, upper):
            bound = local_global
    assign(x, starts.points[better])
    n_lmo += starts.counts[second, 1]
    if better == second:
        small = allowed_gap(options.tol, scratch.floats[TOP_VALUE], starts.trace_value[second, 0])
        code, gaps[second] = _measure_gap(objective, feasible_set, scratch, x, upper)
        if code != OK:
            return code, math.inf
        n_lmo += 1
        if starts.codes[second] == CONVERGED and not gaps[second] <= small:
            if options.polish:
                return REFUSED, math.inf
            starts.codes[second] = ELSEWHERE
    k = starts.counts[better, 0]
    assign(value[: k + 1], starts.trace_value[better])
    assign(gap[: k + 1], starts.trace_gap[better])
    scratch.floats[VALUE], scratch.floats[GAP] = values[better], gaps[better]
    scratch.integers[K], scratch.integers[N_LMO] = k, n_lmo
    return starts.codes[better], bound


#: ``run(options, objective, feasible_set, scratch, x, upper, k_max, value, gap)``: solves one problem from x = 0, with
#: its traces, and returns (code of the loop, upper bound of the maximum).
run = operation("run", _run_loop)
register(PhasesOptions, run=_run_phases)


@kernel
def solve_stack(objectives, sets, bounds, accepted, options, scratch, k_max, answers):
    """Solves the problems of the stacks one after the other; problem i answers in row i."""
    control, numbers = scratch.integers, scratch.floats
    for i in range(answers.code.size):
        upper = bounds[row_of(bounds, i)]
        if not accepted[i]:
            answers.code[i] = REFUSED
            continue
        x = answers.x[i]
        x[:] = 0.0
        control[:] = 0
        trace_row = row_of(answers.trace_value, i)
        objective, feasible_set = problem_at(objectives, i), problem_at(sets, i)
        code, bound = run(
            problem_at(options, i), objective, feasible_set, scratch, x, upper, k_max,
            answers.trace_value[trace_row], answers.trace_gap[trace_row],
        )  # fmt: skip
        answers.value[i] = numbers[VALUE]
        answers.fw_gap[i] = numbers[GAP]
        if bound < math.inf:
            _, work, _ = open_run(objective, feasible_set, x.size, scratch.floats, scratch.integers)
            if not is_dr_submodular(objective, work, upper):
                bound = math.inf
        value = numbers[VALUE]
        if value - bound > ROUNDING * max(abs(value), abs(bound)):
            bound = math.inf  # a value that was met contradicts it
        answers.upper_bound[i] = max(bound, value)
        answers.n_iter[i] = control[K]
        answers.n_lmo[i] = control[N_LMO]
        answers.code[i] = code
        if answers.trace_value.shape[0] > 1 or answers.code.size == 1:
            for k in range(control[K] + 1, k_max + 1):
                answers.trace_value[trace_row, k] = math.nan
                answers.trace_gap[trace_row, k] = math.nan
