"""The compiled loop over stacked problems.

A stack is a namedtuple like the parameters of an objective, a set or the options of a method, its arrays
with one more axis in front; an array with one row serves all problems. `solve_stack` takes problem i out of
the stacks and runs the loop of the ordinary solver on it, in a workspace that all problems share: no
allocation and no call from Python is left per problem, and the answers are those of single solves.

What that loop cannot do (a linear program it gives up, a projection by a solver, data it does not accept as
they stand) is said by a code and left to the caller.
"""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.dispatch import operation
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import assign, dot, slope
from drsub_fast.objectives.base import evaluate, is_dr_submodular, is_nonnegative, objective_size
from drsub_fast.objectives.quadratic import QuadraticParams
from drsub_fast.objectives.softmax import LowRankSoftmaxParams, SoftmaxParams
from drsub_fast.sets.base import OK, PAUSED, lmo, set_size
from drsub_fast.sets.box import BoxParams
from drsub_fast.sets.knapsack import KnapsackParams
from drsub_fast.sets.polytope import scale_polytope
from drsub_fast.solvers.continuous_greedy import AdditiveOptions
from drsub_fast.solvers.frank_wolfe import FrankWolfeOptions
from drsub_fast.solvers.fully_corrective import FullyCorrectiveOptions
from drsub_fast.solvers.loops import run_loop
from drsub_fast.solvers.projected_gradient import ProjectedGradientOptions
from drsub_fast.solvers.run import BASE, BASED, CONVERGED, FINISHED, GAP, N_LMO, STALLED, VALUE, K, open_run
from drsub_fast.solvers.spectral_steps import SpectralOptions

#: Code of a problem whose data the loop does not accept as they stand; the others are those of the loops.
REFUSED = -1

#: ``take(stack, i)``: parameters of problem i. ``is_sound(stack, i)``: whether its data are finite and of the
#: right sign and symmetry. ``run(options, objective, feasible_set, scratch, x, upper, k_max, value, gap)``: solves one
#: problem from x = 0, with its traces, and returns (code of the loop, upper bound of the maximum).
take, TAKE = operation("take")
is_sound, IS_SOUND = operation("is_sound")
run, RUN = operation("run")

QuadraticStack = namedtuple("QuadraticStack", "H h c")
SoftmaxStack = namedtuple("SoftmaxStack", "L D")
FactorStack = namedtuple("FactorStack", "factor D")
LowRankStack = namedtuple("LowRankStack", "factor BT")
#: ``scaled``: scratch for the parameters of one polytope.
PolytopeStack = namedtuple("PolytopeStack", "A b upper scaled")
BoxStack = namedtuple("BoxStack", "upper")
BudgetStack = namedtuple("BudgetStack", KnapsackParams._fields)
TwoPhaseStack = namedtuple("TwoPhaseStack", "phase")
TwoPhaseOptions = namedtuple("TwoPhaseOptions", "phase")
MultiStartOptions = namedtuple("MultiStartOptions", "costs phase")

#: Workspace of one worker: flat arrays of the loop; for methods of several solves the iterate, bounds and
#: traces of one of them, and what is known of the best.
Scratch = namedtuple("Scratch", "floats integers x upper value gap best_numbers best_counts")
_BEST_VALUE, _BEST_GAP = range(2)
_BEST_CODE, _BEST_K, _BEST_LMO = range(3)

#: Where answers go, each with one row a problem (the traces may have one row in all).
Answers = namedtuple("Answers", "x value fw_gap upper_bound code n_iter n_lmo trace_value trace_gap")


@kernel
def _row(array, i):
    """The row of problem i: the only one if all problems share it."""
    return i if array.shape[0] > 1 else 0


@kernel
def _all_between(array, low, high):
    """Whether every entry is a number in [low, high]."""
    n_bad = 0
    for value in array.flat:
        n_bad += not (low <= value <= high)
    return n_bad == 0


_LARGEST = np.finfo(np.float64).max


@kernel(memory=True)
def _take_quadratic(stack, i):
    return QuadraticParams(stack.H[_row(stack.H, i)], stack.h[_row(stack.h, i)], stack.c[_row(stack.c, i)])


@kernel
def _quadratic_is_sound(stack, i):
    H = stack.H[_row(stack.H, i)]
    n = H.shape[0]
    for row in range(n):
        for column in range(row + 1):
            if not (-_LARGEST <= H[row, column] <= 0.0 and H[row, column] == H[column, row]):
                return False
    return _all_between(stack.h[_row(stack.h, i)], -_LARGEST, _LARGEST) and math.isfinite(stack.c[_row(stack.c, i)])


@kernel(memory=True)
def _take_softmax(stack, i):
    L, D = stack.L[_row(stack.L, i)], stack.D
    for row in range(D.shape[0]):
        assign(D[row], L[row])
        D[row, row] -= 1.0
    return SoftmaxParams(D)


@kernel
def _softmax_is_sound(stack, i):
    # Finite, symmetric, and positive definite after the small shift that `Softmax` allows for rounding.
    L, C = stack.L[_row(stack.L, i)], stack.D
    n = L.shape[0]
    largest = 0.0
    for row in range(n):
        for column in range(row + 1):
            if not (math.isfinite(L[row, column]) and L[row, column] == L[column, row]):
                return False
        largest = max(largest, L[row, row])
    for row in range(n):
        for column in range(row + 1):
            C[row, column] = L[row, column] - dot(C[row, :column], C[column, :column])
            if column < row:
                C[row, column] /= C[column, column]
        pivot = C[row, row] + 1e-10 * largest
        if not pivot > 0.0:
            return False
        C[row, row] = math.sqrt(pivot)
    return True


@kernel(memory=True)
def _take_factor(stack, i):
    factor, D = stack.factor[_row(stack.factor, i)], stack.D
    for row in range(D.shape[0]):
        for column in range(row + 1):
            D[row, column] = D[column, row] = dot(factor[row], factor[column])
        D[row, row] -= 1.0
    return SoftmaxParams(D)


@kernel
def _transpose(A, AT):
    for row in range(A.shape[0]):
        for column in range(A.shape[1]):
            AT[column, row] = A[row, column]


@kernel(memory=True)
def _take_low_rank(stack, i):
    factor = stack.factor[_row(stack.factor, i)]
    _transpose(factor, stack.BT)
    return LowRankSoftmaxParams(factor, stack.BT)


@kernel
def _factor_is_sound(stack, i):
    return _all_between(stack.factor[_row(stack.factor, i)], -_LARGEST, _LARGEST)


@kernel(memory=True)
def _take_polytope(stack, i):
    A, b, upper = stack.A[_row(stack.A, i)], stack.b[_row(stack.b, i)], stack.upper[_row(stack.upper, i)]
    # The scale starts from the tightest bound, as in `Polytope`.
    tightest = stack.scaled.scale
    assign(tightest, upper)
    for row in range(A.shape[0]):
        for column in range(A.shape[1]):
            implied = b[row] / A[row, column] if A[row, column] > 0.0 else math.inf
            tightest[column] = min(tightest[column], implied)
    scale_polytope(A, b, tightest, stack.scaled)
    return stack.scaled


@kernel
def _polytope_is_sound(stack, i):
    return _all_between(stack.A[_row(stack.A, i)], 0.0, _LARGEST) and _all_between(
        stack.b[_row(stack.b, i)], 0.0, _LARGEST
    )


@kernel(memory=True)
def _take_box(stack, i):
    return BoxParams(stack.upper[_row(stack.upper, i)])


@kernel
def _box_is_sound(stack, i):
    return True  # the upper bounds are checked for every set


@kernel(memory=True)
def _take_budget(stack, i):
    capacity = stack.capacity[_row(stack.capacity, i)]
    return KnapsackParams(stack.members, stack.start, stack.weights, capacity, stack.equality)


@kernel
def _budget_is_sound(stack, i):
    return _all_between(stack.capacity[_row(stack.capacity, i)], 0.0, _LARGEST)


@kernel(memory=True)
def _take_frank_wolfe(stack, i):
    return FrankWolfeOptions(stack.step_size, stack.tol, stack.scale[_row(stack.scale, i)])


@kernel(memory=True)
def _take_two_phase(stack, i):
    return TwoPhaseOptions(take(stack.phase, i))


@kernel(memory=True)
def _take_same(options, i):
    return options


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
                scratch.upper[j] = options.costs[s, j] / upper[j] if upper[j] > 0.0 else 0.0
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


TAKE.table.update(
    {
        QuadraticStack: _take_quadratic,
        SoftmaxStack: _take_softmax,
        FactorStack: _take_factor,
        LowRankStack: _take_low_rank,
        PolytopeStack: _take_polytope,
        BoxStack: _take_box,
        BudgetStack: _take_budget,
        FrankWolfeOptions: _take_frank_wolfe,
        TwoPhaseStack: _take_two_phase,
        AdditiveOptions: _take_same,
        FullyCorrectiveOptions: _take_same,
        MultiStartOptions: _take_same,
        ProjectedGradientOptions: _take_same,
        SpectralOptions: _take_same,
    }
)
IS_SOUND.table.update(
    {
        QuadraticStack: _quadratic_is_sound,
        SoftmaxStack: _softmax_is_sound,
        FactorStack: _factor_is_sound,
        LowRankStack: _factor_is_sound,
        PolytopeStack: _polytope_is_sound,
        BoxStack: _box_is_sound,
        BudgetStack: _budget_is_sound,
    }
)
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
def work_size(objectives, sets):
    """Lengths of the flat arrays of one solve."""
    floats, integers = objective_size(take(objectives, 0))
    set_floats, set_integers = set_size(take(sets, 0))
    return floats + set_floats, integers + set_integers


@kernel
def solve_stack(objectives, sets, bounds, options, scratch, k_max, answers):
    """Solves the problems of the stacks one after the other; problem i answers in row i."""
    control, numbers = scratch.integers, scratch.floats
    for i in range(answers.code.size):
        upper = bounds[_row(bounds, i)]
        if not (is_sound(objectives, i) and is_sound(sets, i) and _all_between(upper, 0.0, _LARGEST)):
            answers.code[i] = REFUSED
            continue
        x = answers.x[i]
        x[:] = 0.0
        control[:] = 0
        trace_row = _row(answers.trace_value, i)
        objective, feasible_set = take(objectives, i), take(sets, i)
        code, bound = run(
            take(options, i), objective, feasible_set, scratch, x, upper, k_max,
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
