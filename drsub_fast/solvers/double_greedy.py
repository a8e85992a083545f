"""DR-DoubleGreedy over a box (Bian, Buhmann, Krause 2019): half the maximum in one pass.

x starts at 0, y at u. For each coordinate i: the best move of x_i gains a, the best move of y_i gains b, both
by an exact one-dimensional maximisation, concave because f is DR-submodular; x_i = y_i = the mean of the two
best values with weights a and b. At the end x = y and

    f(x) >= 1/2 f(x*) + 1/4 [f(0) + f(u)].

Two gradients are kept up to date: O(n) a coordinate for quadratics.
"""

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from drsub_fast._checks import as_count
from drsub_fast.claims.gate import Promise
from drsub_fast.claims.premises import CORNERS
from drsub_fast.engine.codes import BREAK, FINISHED, NON_FINITE, OK
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import assign
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective, coordinate_maximum, evaluate, objective_carve, objective_size, shift
from drsub_fast.result import Guarantee, Result, Status
from drsub_fast.sets.box import Box
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.record import Method, named_options, register_method
from drsub_fast.solvers.run import Run, objective_kind
from drsub_fast.solvers.state import (
    CLOSING,
    STARTED,
    TOP_K,
    TOP_VALUE,
    VALUE,
    K,
    begin,
    measure_gap,
    note_step,
    note_top,
    open_run,
)

#: ``singular`` is whether f may be -infinity at 0.
DoubleGreedyOptions = namedtuple("DoubleGreedyOptions", "n singular")


_PROMISE = Promise(0.5, "f(x) >= f(x*)/2 + [f(0) + f(upper)]/4 (Bian, Buhmann, Krause 2019, DR-DoubleGreedy)", CORNERS)
_UNFINISHED = Guarantee(None, "none: not all coordinates were gone through")


@kernel
def _move(objective, work, x, i, target, unit, value):
    """Moves x_i to ``target``; returns the new value."""
    value = shift(objective, work, x, i, target - x[i], unit, value)
    x[i] = target
    return value


@kernel
def _note_higher(state, x, i):
    """`note_top` after step i, which moves x_i alone."""
    control, numbers = state.control, state.numbers
    if numbers[VALUE] > numbers[TOP_VALUE]:
        if control[TOP_K] == i:
            state.top[i] = x[i]
            numbers[TOP_VALUE] = numbers[VALUE]
        else:
            note_top(state, x)
        control[TOP_K] = i + 1


@kernel
def _gain(before, after):
    """What a move gains; -infinity (a singular kernel) is left by an infinite gain."""
    if before == -math.inf:
        return math.inf if after > before else 0.0
    return max(0.0, after - before)


@kernel
def double_greedy_loop(
    objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap
):
    n = x.size
    state, work, set_work = open_run(objective, feasible_set, n, floats, integers)
    control, numbers = state.control, state.numbers
    # The upper point, its value and its workspace live at the ends of the flat arrays.
    n_floats, n_integers = objective_size(objective)
    tail = floats[floats.size - n_floats - n - 1 :]
    y = tail[:n]
    y_work = objective_carve(objective, tail[n + 1 :], integers[integers.size - n_integers :])
    unit = state.candidate
    if control[STARTED] == 0:
        defined = begin(objective, work, state, x, upper, trace_value, trace_gap)
        assign(y, upper)
        tail[n] = evaluate(objective, y_work, y)
        defined = defined or (options.singular and numbers[VALUE] == -math.inf)
        if not defined or math.isnan(tail[n]):
            return NON_FINITE
        measure_gap(objective, work, feasible_set, set_work, state, x, trace_gap)
        for j in range(n):
            unit[j] = 0.0
    while control[K] < k_max:
        i = control[K]
        if i >= k_stop:
            return BREAK
        x_best = coordinate_maximum(objective, work, x, i, upper[i])
        y_best = coordinate_maximum(objective, y_work, y, i, upper[i])
        x_value = _move(objective, work, x, i, x_best, unit, numbers[VALUE])
        y_value = _move(objective, y_work, y, i, y_best, unit, tail[n])
        x_gain, y_gain = _gain(numbers[VALUE], x_value), _gain(tail[n], y_value)
        share = 1.0 if x_gain + y_gain <= 0.0 else 0.0 if y_gain == math.inf else x_gain / (x_gain + y_gain)
        if x_gain == math.inf:
            share = 0.5 if y_gain == math.inf else 1.0
        target = min(share * x_best + (1.0 - share) * y_best, upper[i])
        value = _move(objective, work, x, i, target, unit, x_value)
        tail[n] = _move(objective, y_work, y, i, target, unit, y_value)
        note_step(state, value, trace_value, trace_gap)
        _note_higher(state, x, i)
    if control[CLOSING] == 0:
        if control[K] >= k_stop:
            return BREAK
        control[CLOSING] = 1
        numbers[VALUE] = trace_value[control[K]] = evaluate(objective, work, x)
    code = measure_gap(objective, work, feasible_set, set_work, state, x, trace_gap)
    return FINISHED if code == OK else code


@named_options
def double_greedy(
    f: Objective,
    P: Box,
    *,
    max_iter: int | None = None,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """DR-DoubleGreedy: one pass over the coordinates of a box, with a 1/2 guarantee.

    Parameters
    ----------
    f : Objective
        DR-submodular function to maximise.
    P : Box
        Feasible set.
    max_iter : int, optional
        Coordinates to go through, one an update; all by default, and no more. The guarantee is for all.
    {lmo, callback, callback_every, time_limit, progress}

    Returns
    -------
    Result

    Raises
    ------
    UnsupportedError
        If P is not a box.

    Notes
    -----
    Bian, Buhmann, Krause 2019, Algorithm 4: f(x) >= f(x*)/2 + [f(0) + f(upper)]/4, tight among methods that
    evaluate f polynomially often (Feige, Mirrokni, Vondrak 2011).

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.double_greedy(f, ds.Box([1.0, 1.0])).value, 2)
    0.57
    """
    require_problem(f, P)
    if not isinstance(P, Box):
        raise UnsupportedError(f"double_greedy needs a Box, got {P!r}; use maximize or two_phase_frank_wolfe")
    n_steps = f.n if max_iter is None else min(f.n, as_count(max_iter, "max_iter"))
    x0 = None if f.finite_at_zero else np.zeros(f.n)
    run = Run(f, P, x0, n_steps, lmo, None, callback, callback_every, time_limit, progress)
    floats, integers, _ = objective_kind(f)
    finished = Status.COMPLETED if n_steps == f.n else Status.MAX_ITER
    options = DoubleGreedyOptions(f.n, not f.finite_at_zero)
    status = run.solve(double_greedy_loop, options, finished, (floats + f.n + 1, integers))
    promise = _PROMISE if n_steps == f.n else _UNFINISHED
    return run.result("double-greedy", status, promise)


register_method(
    Method(
        "double-greedy", double_greedy, "Double greedy", Status.COMPLETED, needs=("down-closed", "box"), marker="*",
        colour="tab:olive", claim="1/2, f(0) + f(upper) >= 0", about="one pass over the coordinates",
    )
)  # fmt: skip
