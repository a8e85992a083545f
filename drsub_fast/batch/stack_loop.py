"""The compiled loop over stacked problems.

`solve_stack` runs the loop of the ordinary solver on problem i of the stacks of objectives, sets and options
(`drsub_fast.engine.stack`), in a workspace that all problems share: no allocation and no call from Python is left per
problem, and the answers are those of single solves.

What that loop cannot do (a linear program it gives up, a projection by a solver, data it does not accept as
they stand) is said by a code and left to the caller.
"""

import math
from collections import namedtuple

from drsub_fast.engine.codes import CONVERGED, FINISHED, OK, PAUSED, STALLED
from drsub_fast.engine.dispatch import operation
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.stack import PROBLEM_AT, problem_at, row_of
from drsub_fast.engine.vector import assign, slope
from drsub_fast.objectives.base import evaluate, is_dr_submodular, is_nonnegative
from drsub_fast.sets.base import lmo
from drsub_fast.solvers.atoms import FullyCorrectiveOptions
from drsub_fast.solvers.continuous_greedy import AdditiveOptions
from drsub_fast.solvers.frank_wolfe import FrankWolfeOptions
from drsub_fast.solvers.loops import run_loop
from drsub_fast.solvers.multi_start import SMALLEST_BOUND
from drsub_fast.solvers.projected_gradient import ProjectedGradientOptions
from drsub_fast.solvers.spectral_steps import SpectralOptions
from drsub_fast.solvers.state import BASE, BASED, GAP, N_LMO, VALUE, K, open_run

#: Code of a problem whose data the loop does not accept as they stand; the others are those of the loops.
REFUSED = -1

#: ``run(options, objective, feasible_set, scratch, x, upper, k_max, value, gap)``: solves one problem from x = 0, with
#: its traces, and returns (code of the loop, upper bound of the maximum).
run, RUN = operation("run")

TwoPhaseOptions = namedtuple("TwoPhaseOptions", "phase")
MultiStartOptions = namedtuple("MultiStartOptions", "costs phase")

#: Workspace of one worker: flat arrays of the loop; for methods of several solves the iterate, bounds and
#: traces of one of them, and what is known of the best.
Scratch = namedtuple("Scratch", "floats integers x upper value gap best_numbers best_counts")
_BEST_VALUE, _BEST_GAP = range(2)
_BEST_CODE, _BEST_K, _BEST_LMO = range(3)

#: Where answers go, each with one row a problem (the traces may have one row in all).
Answers = namedtuple("Answers", "x value fw_gap upper_bound code n_iter n_lmo trace_value trace_gap")


@kernel(memory=True)
def _frank_wolfe_at(stack, i):
    return FrankWolfeOptions(stack.step_size, stack.tol, stack.scale[row_of(stack.scale, i)])


@kernel(memory=True)
def _two_phase_at(stack, i):
    return TwoPhaseOptions(problem_at(stack.phase, i))


@kernel
def _bound(value, gap):
    """f(0) + max <grad f(0), v>, an upper bound by concavity along non-negative directions."""
    bound = value[0] + gap[0]
    return math.inf if math.isnan(bound) else bound


@kernel
def _run_one(options, objective, feasible_set, scratch, x, upper, k_max, value, gap):
    code = PAUSED
    while code == PAUSED:
        code = run_loop(
            options, objective, feasible_set, scratch.floats, scratch.integers, x, upper, k_max, k_max, value, gap
        )
    return code, _bound(value, gap)


@kernel
def is_solved(code):
    """Whether the loop itself came to its end."""
    return code in (CONVERGED, FINISHED, STALLED)


@kernel
def _forget(scratch):
    """Before the first of several solves of a problem."""
    scratch.best_numbers[:] = -math.inf
    scratch.best_counts[:] = 0


@kernel
def _consider(scratch, code, x, value, gap):
    """Keeps the answer of one of several solves, in the scratch arrays, if its value is the largest so far."""
    numbers, counts = scratch.best_numbers, scratch.best_counts
    counts[_BEST_LMO] += scratch.integers[N_LMO]
    if scratch.floats[VALUE] > numbers[_BEST_VALUE]:
        numbers[_BEST_VALUE], numbers[_BEST_GAP] = scratch.floats[VALUE], scratch.floats[GAP]
        counts[_BEST_K], counts[_BEST_CODE] = scratch.integers[K], code
        assign(x, scratch.x)
        for k in range(counts[_BEST_K] + 1):
            value[k] = scratch.value[k]
            gap[k] = scratch.gap[k]


@kernel
def _measure_gap(objective, feasible_set, scratch, x, upper):
    """The gap of x over all of P, into the scratch; the code of the oracle."""
    scratch.integers[:] = 0
    _, work, set_work = open_run(objective, feasible_set, x.size, scratch.floats, scratch.integers)
    evaluate(objective, work, x)
    code = PAUSED
    while code == PAUSED:
        code = lmo(feasible_set, set_work, work.grad, upper, scratch.x)
    scratch.best_numbers[_BEST_GAP] = slope(work.grad, scratch.x, x)
    scratch.best_counts[_BEST_LMO] += 1
    return code


@kernel
def _second_phase(options, objective, feasible_set, scratch, x, upper, k_max, value, gap, bound):
    """One more solve, over Q = {y in P : y <= u - x}, as in Algorithm 1: (code of the better answer, upper bound)."""
    numbers, counts = scratch.best_numbers, scratch.best_counts
    first_value, first_gap = numbers[_BEST_VALUE], numbers[_BEST_GAP]
    for j in range(x.size):
        scratch.x[j] = 0.0
        scratch.upper[j] = max(upper[j] - x[j], 0.0)
    scratch.integers[:] = 0
    code, _ = run(
        options, objective, feasible_set, scratch, scratch.x, scratch.upper, k_max, scratch.value, scratch.gap
    )
    if not is_solved(code):
        return code, bound
    _consider(scratch, code, x, value, gap)
    local_global = 4.0 * numbers[_BEST_VALUE] + first_gap + scratch.floats[GAP]
    if local_global < bound:
        scratch.integers[:] = 0
        _, work, _ = open_run(objective, feasible_set, x.size, scratch.floats, scratch.integers)
        if is_nonnegative(objective, work, upper):
            bound = local_global
    if numbers[_BEST_VALUE] > first_value:
        code = _measure_gap(objective, feasible_set, scratch, x, upper)
        if code != OK:
            return code, bound
    scratch.floats[VALUE], scratch.floats[GAP] = numbers[_BEST_VALUE], numbers[_BEST_GAP]
    scratch.integers[K], scratch.integers[N_LMO] = counts[_BEST_K], counts[_BEST_LMO]
    return counts[_BEST_CODE], bound


@kernel
def _run_two_phase(options, objective, feasible_set, scratch, x, upper, k_max, value, gap):
    _forget(scratch)
    assign(scratch.x, x)
    code, bound = run(
        options.phase, objective, feasible_set, scratch, scratch.x, upper, k_max, scratch.value, scratch.gap
    )
    if not is_solved(code):
        return code, bound
    _consider(scratch, code, x, value, gap)
    return _second_phase(options.phase, objective, feasible_set, scratch, x, upper, k_max, value, gap, bound)


@kernel
def _run_multi_start(options, objective, feasible_set, scratch, x, upper, k_max, value, gap):
    _forget(scratch)
    bound, base = math.inf, math.nan
    n = x.size
    for s in range(options.costs.shape[0]):
        scratch.integers[:] = 0
        if math.isfinite(base):
            scratch.floats[BASE], scratch.integers[BASED] = base, 1
        scratch.x[:] = 0.0
        if s > 0:
            for j in range(n):
                scratch.upper[j] = options.costs[s, j] / upper[j] if upper[j] > SMALLEST_BOUND else 0.0
            _, _, set_work = open_run(objective, feasible_set, n, scratch.floats, scratch.integers)
            code = lmo(feasible_set, set_work, scratch.upper, upper, scratch.x)
            if code != OK:
                return code, bound
        code, start_bound = run(
            options.phase, objective, feasible_set, scratch, scratch.x, upper, k_max, scratch.value, scratch.gap
        )
        if not is_solved(code):
            return code, bound
        if s == 0:
            bound, base = start_bound, scratch.value[0]
        _consider(scratch, code, x, value, gap)
    return _second_phase(options.phase, objective, feasible_set, scratch, x, upper, k_max, value, gap, bound)


PROBLEM_AT.table.update({FrankWolfeOptions: _frank_wolfe_at, TwoPhaseOptions: _two_phase_at})
RUN.table.update(
    {
        FrankWolfeOptions: _run_one,
        AdditiveOptions: _run_one,
        FullyCorrectiveOptions: _run_one,
        MultiStartOptions: _run_multi_start,
        ProjectedGradientOptions: _run_one,
        SpectralOptions: _run_one,
        TwoPhaseOptions: _run_two_phase,
    }
)


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
        answers.upper_bound[i] = max(bound, numbers[VALUE])
        answers.n_iter[i] = control[K]
        answers.n_lmo[i] = control[N_LMO]
        answers.code[i] = code
        if answers.trace_value.shape[0] > 1 or answers.code.size == 1:
            for k in range(control[K] + 1, k_max + 1):
                answers.trace_value[trace_row, k] = math.nan
                answers.trace_gap[trace_row, k] = math.nan
