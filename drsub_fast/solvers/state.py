"""What a solver loop keeps from call to call, and the steps that all loops share.

A loop is one kernel with the signature

    loop(objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap)

It keeps everything it needs in the two flat arrays, so that it can return at any time with one of the
codes of `drsub_fast.engine.codes` and go on at the same step when called again. The same text runs compiled or, for
objectives given as Python callables, as plain Python. Beside its mathematics a loop does the following, in this order:

1. `open_run`: views into the flat arrays. The first call (STARTED is 0) evaluates f by `begin`; where f is not finite
   it ends with NON_FINITE.
2. At iterate K, a loop that has the gap of every iterate enters it by `note_iterate`, and says by `keep_iterate`
   whether this is the one to return. A loop that has it for the first and the last iterate alone asks by `measure_gap`.
3. At K = k_stop it returns BREAK: Python wants to look at the clock or to call the callback, after the last step too.
4. Once K is k_max, or the gap is small (`small_gap`), it ends by CONVERGED, FINISHED or STALLED, after `close_run` in
   the first case; in the second it sets CLOSING and evaluates f at the last iterate anew.
5. Call `next_vertex` for a vertex, or `ask_oracle` for a cost other than the gradient. A code other than OK is
   returned as it is; Python answers it, and the loop asks again at the same place.
6. After the step, a loop of the first kind counts it in K. One of the second checks it by `stays_finite`, keeps x in
   `previous`, and enters the value by `note_step` and, if it is the largest, x by `note_top` or `note_higher`. Then
   `after_step`, if the oracle can follow the gradient.
"""

import math
from collections import namedtuple

import numpy as np

from drsub_fast._checks import as_real
from drsub_fast.engine.codes import NEEDS_SOLVER, OK
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import assign, clip_above, fill, replace, slope
from drsub_fast.objectives.base import evaluate, gradient_rate, objective_carve, objective_size, prepare
from drsub_fast.objectives.lazy_gradient import refresh_gradient
from drsub_fast.objectives.sparse_steps import gradient_is_finite, keep_moved
from drsub_fast.sets.base import follow, lmo, set_carve, track, tracks

# Entries of `State.control`.
K, STARTED, SUPPLIED, VERTEX, TRACKED, N_LMO, BEST_K, CLOSING, BASED, TOP_K = range(10)
N_CONTROL = 10

# What `VERTEX` says of v: to be asked for; optimal for this iterate; optimal for the next one too.
STALE, CURRENT, FOLLOWED = range(3)

# Entries of `State.numbers`. From BASE the rise of f is counted: f at the start, unless it was set and BASED says so.
VALUE, GAP, BEST_GAP, TOP_VALUE, BASE = range(5)
N_NUMBERS = 5

#: What a loop keeps from call to call: v is the vertex in use, `candidate` the oracle's newest answer
#: (or the projection), `bound` the upper bounds handed to the oracle, `best` the iterate the method
#: returns, `top` the iterate of the largest value, `previous` the iterate before the last step, `cost` the
#: direction for which Python is asked to solve a linear program.
State = namedtuple("State", "control numbers v candidate bound rate best top previous cost")

#: Floats that the numbers and n-vectors of `State` take.
STATE_VECTORS = 8

#: A run may stop at a gap of ``absolute``, in units of f, or of ``relative`` times the scale of f, see `as_tolerance`.
Tolerance = namedtuple("Tolerance", "absolute relative")

#: The gap that counts as small where no ``tol`` is given, as a part of the scale of f.
DEFAULT_TOL = 1e-6

#: Part of its terms by which the sum that an oracle maximises may miss the maximum: ten times the simplex's tolerance.
_ORACLE_TOL = 1e-9

#: A gap of DEFAULT_TOL times this part of |f| (a few units in its last place) is lost in the rounding of f.
_ROUNDING = 1e-9


def as_tolerance(tol: float | None) -> Tolerance:
    """What ``tol`` means, a number or None.

    A number is a gap in units of f. None is 1e-6 of the scale of f, by which is meant the most that a value met in the
    run exceeds f at the set's own starting point (0 for down-closed sets; where another ``x0`` is given, f half-way
    between the two, since f need not be finite at the first). It is at most the rise of f to its maximum, so a gap this
    small is at least as small a part of that. It changes with f as f does, and with neither a constant added to f nor
    the units of x. Where f is so large beside its rise that this is less than the rounding of f, it is the latter.
    """
    return Tolerance(0.0, DEFAULT_TOL) if tol is None else Tolerance(as_real(tol, "tol", lower=0.0), 0.0)


@kernel
def allowed_gap(tol, top, base):
    """The gap that counts as small, where ``top`` is the largest value met and its rise is counted from ``base``."""
    return max(tol.absolute, tol.relative * max(top - base, _ROUNDING * abs(top)))


@kernel
def small_gap(tol, numbers):
    """The gap at which the run may stop."""
    return allowed_gap(tol, numbers[TOP_VALUE], numbers[BASE])


@kernel(memory=True)
def open_run(objective, feasible_set, n, floats, integers):
    """Views into the flat arrays: loop state, objective workspace, set workspace."""
    n_floats, n_integers = objective_size(objective)
    rest = floats.size - (N_NUMBERS + STATE_VECTORS * n + n_floats), integers.size - (N_CONTROL + n_integers)
    views = split(floats, N_NUMBERS, n, n, n, n, n, n, n, n, n_floats, rest[0])
    control, work_integers, set_integers = split(integers, N_CONTROL, n_integers, rest[1])
    work = objective_carve(objective, views[-2], work_integers)
    set_work = set_carve(feasible_set, views[-1], set_integers)
    state = State(control, *views[:-2])
    return state, work, set_work


@kernel
def begin(objective, work, state, x, upper, trace_value, trace_gap):
    """First evaluation, and entry 0 of the traces; whether f is finite.

    The starting point is the iterate to return, until there is a better one.
    """
    control, numbers = state.control, state.numbers
    control[BEST_K] = -1
    control[TOP_K] = 0
    numbers[VALUE] = numbers[TOP_VALUE] = trace_value[0] = evaluate(objective, work, x)
    numbers[GAP] = trace_gap[0] = math.nan
    numbers[BEST_GAP] = math.inf
    if control[BASED] == 0:
        numbers[BASE] = numbers[VALUE]
    assign(state.bound, upper)
    assign(state.best, x)
    assign(state.top, x)
    assign(state.previous, x)
    fill(state.v, math.nan)
    control[STARTED] = 1
    return math.isfinite(numbers[VALUE])


@kernel
def note_iterate(state, x, gap, trace_value, trace_gap):
    """Enters the value and the gap of iterate K; goes back to the one kept and returns False if f is not finite."""
    control, numbers = state.control, state.numbers
    k = control[K]
    if not (math.isfinite(gap) and math.isfinite(numbers[VALUE])):
        control[K] = max(k - 1, 0)
        assign(x, state.best)
        return False
    numbers[GAP] = trace_gap[k] = gap
    trace_value[k] = numbers[VALUE]
    note_top(state, x)
    return True


@kernel
def stays_finite(objective, work, state, x, value):
    """Whether f and its gradient are finite at the x just reached; if not, x goes back to `state.previous`."""
    if math.isfinite(value) and gradient_is_finite(objective, work):
        return True
    assign(x, state.previous)
    return False


@kernel
def note_step(state, value, trace_value, trace_gap):
    """Enters the value of iterate K + 1, whose gap nobody asks for."""
    control, numbers = state.control, state.numbers
    k = control[K] = control[K] + 1
    numbers[VALUE] = trace_value[k] = value
    numbers[GAP] = trace_gap[k] = math.nan


@kernel
def keep_iterate(state, x):
    """Iterate K, of the gap just entered, is the one to return, until there is a better one."""
    state.control[BEST_K] = state.control[K]
    state.numbers[BEST_GAP] = state.numbers[GAP]
    assign(state.best, x)


@kernel
def close_run(objective, work, state, x, upper):
    """Returns to the iterate that was kept, its value from scratch; the last one stays in `previous`."""
    state.control[CLOSING] = 1
    assign(state.previous, x)
    assign(x, state.best)
    clip_above(x, upper)
    state.numbers[VALUE] = evaluate(objective, work, x)
    state.numbers[GAP] = state.numbers[BEST_GAP]


@kernel(plain=lambda grad, v, x: np.add.reduce(np.abs(grad) * (np.abs(v) + np.abs(x))))
def _terms(grad, v, x):
    """Sum of the sizes of the terms of <grad, v - x>."""
    size = 0.0
    for j in range(x.size):
        size += abs(grad[j]) * (abs(v[j]) + abs(x[j]))
    return size


@kernel
def gap_at(grad, v, x):
    """The Frank-Wolfe gap <grad, v - x>, v being the oracle's vertex for grad.

    It is not negative, since x is a point of the set itself: what an oracle loses by its tolerance is taken for 0. A
    larger loss is a fault of the oracle, and stays to be seen.
    """
    gap = slope(grad, v, x)
    if gap < 0.0 and gap >= -_ORACLE_TOL * _terms(grad, v, x):
        gap = 0.0
    return gap


@kernel
def linear_bound(trace_value, trace_gap):
    """f(0) + max <grad f(0), v> by the traces of a run from 0: an upper bound, f being concave along all v >= 0."""
    bound = trace_value[0] + trace_gap[0]
    return math.inf if math.isnan(bound) else bound


@kernel
def ask_oracle(feasible_set, set_work, state, cost, v):
    """v = argmax <cost, v> over the set below state.bound, or the answer that Python gave; returns the oracle's code.

    A loop that is told NEEDS_SOLVER returns it to Python, which solves for state.cost, and asks again.
    """
    if state.control[SUPPLIED]:
        state.control[SUPPLIED] = 0
        assign(v, state.candidate)
        return OK
    code = lmo(feasible_set, set_work, cost, state.bound, v)
    if code == NEEDS_SOLVER:
        assign(state.cost, cost)
    return code


@kernel
def next_vertex(objective, work, feasible_set, set_work, state, x, additive):
    """Sets state.v to the oracle's vertex for the current gradient; returns the oracle's code.

    A vertex that is known to be optimal (CURRENT or FOLLOWED) is taken as it is, and one that comes again keeps what
    the objective has prepared for it.
    """
    control = state.control
    if control[VERTEX] == CURRENT:
        return OK
    if control[VERTEX] == FOLLOWED:
        control[VERTEX] = CURRENT
        control[N_LMO] += 1
        return OK
    while True:
        code = ask_oracle(feasible_set, set_work, state, work.grad, state.candidate)
        if code != OK:
            return code
        control[N_LMO] += 1
        if not refresh_gradient(objective, work, x, state.candidate):
            break
    control[VERTEX] = CURRENT
    v, candidate = state.v, state.candidate
    if replace(v, candidate):
        prepare(objective, work, x, v)
    control[TRACKED] = 0
    if tracks(feasible_set) and gradient_rate(objective, work, v, additive, state.rate):
        control[TRACKED] = track(feasible_set, set_work, state.rate)
    return OK


@kernel
def measure_gap(objective, work, feasible_set, set_work, state, x, trace_gap):
    """Asks the oracle for the gap of iterate K, if the loop did not ask for it; returns the oracle's code."""
    state.control[VERTEX] = STALE
    code = next_vertex(objective, work, feasible_set, set_work, state, x, True)
    if code == OK:
        state.numbers[GAP] = trace_gap[state.control[K]] = gap_at(work.grad, state.v, x)
    return code


@kernel
def after_step(feasible_set, set_work, state, decay, gamma):
    """The gradient became decay * gradient + gamma * rate: is v still optimal?"""
    control = state.control
    control[VERTEX] = STALE
    if control[TRACKED] and follow(feasible_set, set_work, decay, gamma, state.bound, state.v):
        control[VERTEX] = FOLLOWED


@kernel
def note_higher(objective, work, state, x):
    """`note_top` after an additive step, which moves x from iterate K - 1 to K at some places only."""
    control, numbers = state.control, state.numbers
    if numbers[VALUE] > numbers[TOP_VALUE]:
        if control[TOP_K] == control[K] - 1:
            keep_moved(objective, work, state.top, x)
            numbers[TOP_VALUE] = numbers[VALUE]
        else:
            note_top(state, x)
        control[TOP_K] = control[K]


@kernel
def note_top(state, x):
    """Remembers the iterate of the largest value."""
    if state.numbers[VALUE] > state.numbers[TOP_VALUE]:
        state.numbers[TOP_VALUE] = state.numbers[VALUE]
        assign(state.top, x)
