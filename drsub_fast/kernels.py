"""Compiled building blocks for your own loops: everything here can be called from your ``numba.njit`` functions.

Objectives and sets enter compiled code as their parameters, ``f.params`` and ``P.params()``: namedtuples of
arrays. Every function below takes them, and is compiled for their kind.

Objectives, with a workspace from ``objective_work(params)`` that keeps ``work.grad`` and what incremental
moves need:

``evaluate(params, work, x) -> value``
    Value from scratch; the gradient into ``work.grad``.
``prepare(params, work, x, v)``
    Announces the vertex v of the next moves. Call it before them whenever v changes.
``advance(params, work, x, v, gamma, value) -> value``
    x += gamma v; value and gradient follow, from their present state.
``contract(params, work, x, v, gamma, value) -> value``
    x = (1 - gamma) x + gamma v, likewise.
``exact_step(params, work, x, v, limit, value) -> gamma``
    The best step towards v, at most ``limit``.
``hessian_product(params, work, x, d, out) -> 0, 1 or 2``
    out = Hessian(x) d; 2 if it is constant, 0 if the objective has none.
``value_and_gradient(params, x, grad) -> value``
    One evaluation without a workspace of yours; the gradient into ``grad``.

Sets, with a workspace from ``set_work(params)`` that keeps the last basis, so that the next call starts there:

``lmo(params, work, direction, upper, v) -> status``
    v = argmax <direction, v> over the set with v <= upper. `OK`; `PAUSED`: call again to go on; `NEEDS_SOLVER`: this
    linear program needs HiGHS, use ``P.lmo`` from Python; `FAILED`: there is no such point.
``project(params, work, y, upper, out) -> status``
    The nearest point of the set, likewise.

Vectors: ``dot(a, b)``, ``slope(grad, v, x)`` = <grad, v - x> (the Frank-Wolfe gap at a vertex of the oracle),
``shrink(upper, x, out)``: the residual bound u - x of Algorithm 2.

No function allocates except the two that make workspaces and `value_and_gradient`, and none raises.

Examples
--------
Five steps of the continuous greedy method for a monotone function, in compiled code:

>>> import numba
>>> import numpy as np
>>> import drsub_fast as ds
>>> from drsub_fast import kernels
>>> @numba.njit
... def continuous_greedy(objective, feasible_set, upper, n_steps):
...     work, set_work = kernels.objective_work(objective), kernels.set_work(feasible_set)
...     x, v = np.zeros(upper.size), np.empty(upper.size)
...     value = kernels.evaluate(objective, work, x)
...     for k in range(n_steps):
...         if kernels.lmo(feasible_set, set_work, work.grad, upper, v) != kernels.OK:
...             return x, np.nan
...         kernels.prepare(objective, work, x, v)
...         value = kernels.advance(objective, work, x, v, 1.0 / n_steps, value)
...     return x, value
>>> f, P = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0]), ds.Box([0.5, 0.25])
>>> x, value = continuous_greedy(f.params, P.params(), P.upper.copy(), 5)
>>> x.round(3), round(float(value), 4)
(array([0.5 , 0.25]), 0.5)
"""

import numpy as np

from drsub_fast.engine.codes import FAILED, NEEDS_SOLVER, OK, PAUSED
from drsub_fast.engine.jit import engine, kernel
from drsub_fast.engine.vector import dot, shrink, slope
from drsub_fast.objectives.base import _value_and_gradient as value_and_gradient
from drsub_fast.objectives.base import (
    advance,
    contract,
    evaluate,
    exact_step,
    hessian_product,
    objective_carve,
    objective_size,
    prepare,
)
from drsub_fast.sets.base import lmo, project, set_carve, set_size

__all__ = [
    "FAILED",
    "NEEDS_SOLVER",
    "OK",
    "PAUSED",
    "advance",
    "contract",
    "dot",
    "evaluate",
    "exact_step",
    "hessian_product",
    "lmo",
    "objective_work",
    "prepare",
    "project",
    "set_work",
    "shrink",
    "slope",
    "value_and_gradient",
]


engine()  # Numba has to know these functions before it compiles the user's.


@kernel(memory=True)
def objective_work(params):
    """A fresh workspace of an objective."""
    n_floats, n_integers = objective_size(params)
    return objective_carve(params, np.empty(n_floats), np.zeros(n_integers, np.int64))


@kernel(memory=True)
def set_work(params):
    """A fresh workspace of a set; one serves one sequence of calls."""
    n_floats, n_integers = set_size(params)
    return set_carve(params, np.empty(n_floats), np.zeros(n_integers, np.int64))
