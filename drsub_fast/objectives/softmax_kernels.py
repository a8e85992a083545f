"""Softmax extensions: the operations of an objective, by what `softmax_rows` holds (see `softmax`)."""

import math

import numpy as np

from drsub_fast.engine.dispatch import own
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import assign
from drsub_fast.objectives import lazy_gradient  # noqa: F401  the operations
from drsub_fast.objectives.base import PIECES, best_step, register_objective
from drsub_fast.objectives.softmax_elimination import (
    CURRENT,
    HELD,
    LOGGED,
    NARROW,
    SoftmaxParams,
    evaluate_anew,
    softmax_carve,
    softmax_size,
)
from drsub_fast.objectives.softmax_rows import (
    apply_log,
    hold_rows,
    move_and_evaluate,
    refresh_entries,
    value_at_end,
)

# What `_run_task` is asked for: evaluate, advance, the rows of P of given coordinates, increase, refresh, final value.
_EVALUATE, _ADVANCE, _HOLD, _INCREASE, _REFRESH, _FINAL_VALUE = range(6)

#: Coordinates from which on increases leave bounds (time without them to that with them: n = 64 0.98, 128 1.02,
#: 256 1.12, 512 1.28, 1024 1.45), and rows made at once (n = 1024: 16 at once 23 ms of a run, 32 17, 64 19).
_NARROW_FROM = 100


@kernel(wide=True, separate=True)
def _run_task(params, work, task, x, v, gamma, value):
    """The large kernels in one, compiled once; its answer is in ``work.value`` or returned."""
    if task == _EVALUATE:
        work.value[0] = evaluate_anew(params, work, x)
    elif task in (_ADVANCE, _INCREASE):
        narrow = task == _INCREASE and x.size >= _NARROW_FROM
        work.value[0] = move_and_evaluate(params, work, x, v, gamma, value, int(narrow))
    elif task == _REFRESH:
        return int(refresh_entries(params, work, v))
    elif task == _FINAL_VALUE:
        work.value[0] = value_at_end(params, work, x, value)
    else:
        if work.state[CURRENT] == 0 or work.state[NARROW] == 1:
            work.value[0] = evaluate_anew(params, work, x)
        if work.state[CURRENT] == 1:
            if work.state[LOGGED] > 0:
                apply_log(params, work, x)
            hold_rows(params, work, v)
    return work.state[CURRENT]


@kernel
def _evaluate(params, work, x):
    _run_task(params, work, _EVALUATE, x, x, 0.0, 0.0)
    return float(work.value[0])


@kernel
def _advance(params, work, x, v, gamma, value):
    _run_task(params, work, _ADVANCE, x, v, float(gamma), float(value))
    return float(work.value[0])


@kernel
def _increase(params, work, x, v, gamma, value):
    _run_task(params, work, _INCREASE, x, v, float(gamma), float(value))
    return float(work.value[0])


@kernel
def _refresh_gradient(params, work, x, v):
    if work.state[NARROW] == 0:
        return False
    n_bounds = 0
    for j in range(v.size):
        n_bounds += (v[j] != 0.0) & (work.place[j] >= work.state[HELD])
    return n_bounds > 0 and _run_task(params, work, _REFRESH, x, v, 0.0, 0.0) != 0


@kernel
def _final_value(params, work, x, value):
    _run_task(params, work, _FINAL_VALUE, x, x, 0.0, float(value))
    return float(work.value[0])


@kernel
def _hessian_product(params, work, x, d, out):
    # Rows of the coordinates where d is nonzero are enough: P is symmetric.
    if _run_task(params, work, _HOLD, x, d, 0.0, 0.0) == 0:
        for j in range(d.size):
            out[j] = np.nan
        return 1
    squares, order = work.trial, work.order
    for p in range(d.size):
        squares[p] = 0.0
    for r in range(work.state[HELD]):
        scale = d[order[r]]
        if scale != 0.0:
            row = work.P[r]
            for p in range(d.size):
                squares[p] -= scale * row[p] * row[p]
    for p in range(d.size):
        out[order[p]] = squares[p]
    return 1


@kernel
def _coordinate_maximum(params, work, x, i, upper):
    # exp f is affine in x_i.
    return upper if work.grad[i] >= 0.0 else 0.0


@kernel
def best_step_along(params, work, x, v, limit, value):
    """`best_step`: f is concave along directions of one sign; along others it may have several peaks.

    The gradient stays that at x.
    """
    rises = falls = False
    for j in range(x.size):
        rises = rises or v[j] > x[j]
        falls = falls or v[j] < x[j]
    assign(work.saved, work.grad)
    gamma = best_step(params, work, x, v, limit, value, PIECES if rises and falls else 1)
    assign(work.grad, work.saved)
    return gamma


@kernel
def _exact_step(params, work, x, v, limit, value):
    gamma = best_step_along(params, work, x, v, limit, value)
    work.state[CURRENT] = 0  # it describes a trial point
    return gamma


@kernel
def rises(grad):
    """Whether f rises from f(0) = 0: its gradient, which is antitone, is ``grad`` at the upper bounds."""
    n_falling = 0
    for j in range(grad.size):
        n_falling += not grad[j] >= 0.0
    return n_falling == 0


@kernel
def _is_definite_at(params, work, upper):
    """Whether S is definite at the upper bounds, where it is evaluated (see `Softmax._at_corner`)."""
    return math.isfinite(_evaluate(params, work, upper))


@kernel
def _is_dr_submodular(params, work, upper):
    beyond = 0
    for j in range(upper.size):
        beyond += upper[j] > 1.0
    return beyond == 0 or _is_definite_at(params, work, upper)


@kernel
def _is_nonnegative(params, work, upper):
    return _is_definite_at(params, work, upper) and rises(work.grad)


@kernel(memory=True)
def _problem_at(stack, i):
    return SoftmaxParams(own(stack.D, i), own(stack.own, i))


register_objective(
    SoftmaxParams,
    problem_at=_problem_at,
    objective_size=softmax_size,
    objective_carve=softmax_carve,
    evaluate=_evaluate,
    advance=_advance,
    exact_step=_exact_step,
    coordinate_maximum=_coordinate_maximum,
    hessian_product=_hessian_product,
    is_dr_submodular=_is_dr_submodular,
    is_nonnegative=_is_nonnegative,
    increase=_increase,
    refresh_gradient=_refresh_gradient,
    final_value=_final_value,
)
