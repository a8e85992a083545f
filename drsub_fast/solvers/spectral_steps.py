"""Spectral projected gradient ascent: the step length is the inverse of the curvature along the last step.

With s and y, by which x and its gradient changed in the last step, and the vertex v of the oracle,

    lambda = min(b, l),  b = s's / -s'y or -s'y / y'y by turns,  l = |v - x|^2 / <grad f(x), v - x>
    (lambda = l if s'y >= 0, and in the first step),
    d = projection of x + lambda grad f(x) onto P, minus x,
    x <- x + gamma d,  gamma = 1 or less by a line search.

b is exact for the curvature met in the last step (Barzilai and Borwein 1988; by turns: Dai and Fletcher 2005); l takes
x as far as v lies, where f curves upwards. Both scale as x^2 / f, so the iterates depend on the units of neither.
The search asks for f to rise by 1e-4 gamma <grad f(x), d> and shortens gamma to where the secant of the slopes is
zero, but to 0.1 to 0.5 of itself; it also turns back where f is not finite. Where such a rise would be lost in rounding
f need only not fall by more than rounding, so that the gap goes on shrinking.

Source: Birgin, Martinez, Raydan 2000. Their search lets f fall below its last value but not below its last ten; here
it does not fall.
"""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.codes import BREAK, CONVERGED, FINISHED, NEEDS_PROJECTION, NEEDS_SOLVER, NON_FINITE, OK, STALLED
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import add_scaled, assign, is_finite, slope
from drsub_fast.objectives.base import evaluate
from drsub_fast.sets.base import project
from drsub_fast.solvers.state import (
    BEST_GAP,
    BEST_K,
    CLOSING,
    CURRENT,
    GAP,
    N_LMO,
    STALE,
    STARTED,
    SUPPLIED,
    TOP_VALUE,
    VALUE,
    VERTEX,
    K,
    ask_oracle,
    begin,
    close_run,
    gap_at,
    keep_iterate,
    note_iterate,
    open_run,
    small_gap,
)

SpectralOptions = namedtuple("SpectralOptions", "tol")

#: The share of the rise in sight that the search asks for, and its trials before rounding is taken to hide the rise.
_ENOUGH, _TRIALS = 1e-4, 40

#: Relative error that an evaluation may have.
_ROUNDING = 1e-14

#: Steps without a rise of f or a smaller gap after which rounding is taken to be the reason.
_IDLE_LIMIT = 20


@kernel(plain=lambda a, b: np.add.reduce((a - b) ** 2), reductions=True)
def _squared_distance(a, b):
    total = 0.0
    for j in range(a.size):
        total += (a[j] - b[j]) ** 2
    return total


def _changes_in_arrays(grad, x, before, previous):
    s, y = x - previous, before - grad
    return np.add.reduce(s * s), np.add.reduce(s * y), np.add.reduce(y * y)


@kernel(plain=_changes_in_arrays, reductions=True)
def _changes(grad, x, before, previous):
    """<s, s>, <s, y> and <y, y> of the last change s of x and that of the gradient, -y."""
    change = curvature = turn = 0.0
    for j in range(x.size):
        s, y = x[j] - previous[j], before[j] - grad[j]
        change += s * s
        curvature += s * y
        turn += y * y
    return change, curvature, turn


@kernel
def _step_length(grad, x, before, previous, vertex, gap, k):
    """The lambda of step k."""
    longest = _squared_distance(vertex, x) / gap
    if k == 0:
        return longest
    change, curvature, turn = _changes(grad, x, before, previous)
    if curvature <= 0.0:
        return longest
    return min(change / curvature if k % 2 == 1 else curvature / turn, longest)


def _move_in_arrays(x, origin, target, gamma, upper):
    x[:] = target if gamma == 1.0 else np.minimum(origin + gamma * (target - origin), upper[: x.size])


@kernel(plain=_move_in_arrays)
def _move(x, origin, target, gamma, upper):
    """x = origin + gamma (target - origin), and not above ``upper`` by rounding."""
    if gamma == 1.0:
        assign(x, target)
    else:
        for j in range(x.size):
            x[j] = min(origin[j] + gamma * (target[j] - origin[j]), upper[j])


@kernel
def _measure_gap(work, feasible_set, set_work, state, x, trace_value, trace_gap):
    """The gap at x, by the oracle, whose vertex goes to state.v; returns the oracle's code, or NON_FINITE."""
    control, numbers = state.control, state.numbers
    code = ask_oracle(feasible_set, set_work, state, work.grad, state.v)
    if code != OK:
        return code
    control[N_LMO] += 1
    control[VERTEX] = CURRENT
    top = numbers[TOP_VALUE]
    if not note_iterate(state, x, gap_at(work.grad, state.v, x), trace_value, trace_gap):
        return NON_FINITE
    if numbers[VALUE] > top + 0.1 * _ROUNDING * abs(top) or numbers[GAP] < numbers[BEST_GAP]:
        keep_iterate(state, x)
    return OK


@kernel
def _search(objective, work, state, x):
    """Moves x towards the candidate until f has risen enough; whether it has."""
    numbers, origin, target = state.numbers, state.previous, state.candidate
    value, rise = numbers[VALUE], slope(work.grad, target, x)
    rounding = _ROUNDING * abs(numbers[TOP_VALUE])
    enough = _ENOUGH * rise if rise > 10.0 * rounding else -math.inf
    assign(origin, x)
    assign(state.rate, work.grad)
    gamma = 1.0
    for _ in range(_TRIALS):
        _move(x, origin, target, gamma, state.bound)
        numbers[VALUE] = trial = evaluate(objective, work, x)
        shorter = 0.5
        if math.isfinite(trial) and is_finite(work.grad):
            if trial >= max(value + gamma * enough, numbers[TOP_VALUE] - rounding):
                return True
            end = slope(work.grad, target, origin)
            if end < rise:
                shorter = min(max(rise / (rise - end), 0.1), 0.5)
        gamma *= shorter
    return False


@kernel(separate=True)
def spectral_loop(objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap):
    # VERTEX says what a supplied candidate is: the vertex while that is STALE, the projection once it is CURRENT.
    # `previous` and `rate` hold the last iterate and its gradient.
    state, work, set_work = open_run(objective, feasible_set, x.size, floats, integers)
    control, numbers = state.control, state.numbers
    if control[STARTED] == 0 and not begin(objective, work, state, x, upper, trace_value, trace_gap):
        return NON_FINITE
    while True:
        k = control[K]
        if control[VERTEX] == STALE:
            code = _measure_gap(work, feasible_set, set_work, state, x, trace_value, trace_gap)
            if code != OK:
                return code
        if k >= k_stop:
            return BREAK
        small = numbers[GAP] <= small_gap(options.tol, numbers)
        if small or k >= k_max or k - control[BEST_K] >= _IDLE_LIMIT:
            if control[BEST_K] < k:
                close_run(objective, work, state, x, upper)
            control[CLOSING] = 1  # an iterate that was kept has been evaluated from scratch
            return CONVERGED if small else FINISHED if k >= k_max else STALLED
        if control[SUPPLIED]:
            control[SUPPLIED] = 0
        else:
            step = _step_length(work.grad, x, state.rate, state.previous, state.v, numbers[GAP], k)
            aim = state.v
            assign(aim, x)
            add_scaled(aim, step, work.grad)
            code = project(feasible_set, set_work, aim, state.bound, state.candidate)
            if code == NEEDS_SOLVER:
                assign(state.candidate, aim)
                return NEEDS_PROJECTION
            if code != OK:
                return code
        if not _search(objective, work, state, x):
            close_run(objective, work, state, x, upper)
            return STALLED
        control[K] = k + 1
        control[VERTEX] = STALE
