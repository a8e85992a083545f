"""Softmax extensions of L = B B' with few columns, by k x k matrices (see `drsub_fast.objectives.softmax`)."""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.lapack import gemm, potrf, trsm
from drsub_fast.engine.parts import split
from drsub_fast.engine.stack import own
from drsub_fast.engine.vector import assign
from drsub_fast.objectives.base import register_objective
from drsub_fast.objectives.softmax_elimination import NOISE, eliminate
from drsub_fast.objectives.softmax_kernels import best_step_along, rises

LowRankSoftmaxParams = namedtuple("LowRankSoftmaxParams", "B BT")

#: ``inner`` is x with the coordinates near 1 set to 0, ``T`` (k, k) the factor C, ``H`` = C^-1 B' (k, n), and
#: ``rows`` are the rows of P at ``inner`` of the coordinates near 1; the rest is as in `SoftmaxWork`, positions being
#: coordinates.
LowRankSoftmaxWork = namedtuple(
    "LowRankSoftmaxWork",
    "grad diagonal trial saved inner weight delta limit pivots T H picked scaled rows scratch U moved source",
)

#: Coordinates above 1 - _NEAR_ONE are moved there one by one: 1 / (1 - x) would cost them their digits.
_NEAR_ONE = 1e-3


@kernel
def _most_near_one(params):
    """How many coordinates near 1 are treated with care; more than k at 1 exactly mean f = -inf."""
    n, k = params.B.shape
    return min(n, 2 * k)


@kernel
def _low_rank_size(params):
    n, k = params.B.shape
    return 10 * n + 13 + k * k + 3 * n * k + 3 * n * _most_near_one(params), 2 * n + 6


@kernel(memory=True)
def _low_rank_carve(params, floats, integers):
    n, k = params.B.shape
    most = _most_near_one(params)
    views = split(
        floats, n, n, n, n, n + 3, n + 3, n + 3, 4, (k, k), (k, n), (n, k), (n, k), (most, n), (most, n), (most + 3, n)
    )
    return LowRankSoftmaxWork(views[0], *views, *split(integers, n + 3, n + 3))


@kernel
def _set_near_one_apart(work, x):
    """Sets ``work.inner`` and the move from there to x; the number of its coordinates, -1 if too many are 1.

    Those at 1 go first: if there is no room for all, those slightly below can do without.
    """
    assign(work.inner, x)
    s = 0
    for exactly in (True, False):
        for i in range(x.size):
            if x[i] == 1.0 if exactly else 1.0 - _NEAR_ONE < x[i] < 1.0:
                if s == work.rows.shape[0]:
                    return -1 if exactly else s
                work.inner[i] = 0.0
                work.moved[s] = i
                work.source[s] = s
                work.delta[s] = x[i]
                s += 1
    return s


@kernel
def _low_rank_inner(params, work):
    """Value at ``work.inner`` and H; NaN if the determinant is not positive."""
    B, T, H, inner = params.B, work.T, work.H, work.inner
    n, k = B.shape
    value = 0.0
    product = 1.0
    s = 0
    for i in range(n):
        if inner[i] != 0.0:
            ratio = inner[i] / (1.0 - inner[i])
            for j in range(k):
                work.picked[s, j] = B[i, j]
                work.scaled[s, j] = ratio * B[i, j]
            s += 1
            product *= 1.0 - inner[i]
            if product < 1e-200:
                value += math.log(product)
                product = 1.0
    for i in range(k):
        for j in range(k):
            T[i, j] = 0.0
        T[i, i] = 1.0
        assign(H[i], params.BT[i])
    gemm(1.0, work.scaled, k, work.picked, k, s, T)
    if potrf(T, k) != 0:
        return np.nan
    for i in range(k):
        value += 2.0 * math.log(T[i, i])
    trsm(T, k, H, n)
    return value + math.log(product)


@kernel
def _low_rank_rows(work, s):
    """Gradient at ``work.inner``, and the rows of P of the s coordinates that are to be moved."""
    grad, H, inner, rows = work.grad, work.H, work.inner, work.rows
    k, n = H.shape
    for j in range(n):
        grad[j] = inner[j] - 1.0
    for t in range(k):
        h = H[t]
        for j in range(n):
            grad[j] += h[j] * h[j]
        for a in range(s):
            work.scratch[t, a] = h[work.moved[a]]
    for a in range(s):
        for j in range(n):
            rows[a, j] = 0.0
    gemm(1.0, work.scratch, s, H, n, k, rows)
    for a in range(s):
        rows[a, work.moved[a]] -= 1.0
    for j in range(n):
        gap = 1.0 - inner[j]
        grad[j] /= gap * gap
        for a in range(s):
            rows[a, j] /= gap


@kernel
def _low_rank_evaluate(params, work, x):
    usable = True
    for i in range(x.size):
        usable = usable and x[i] <= 1.0
    value = np.nan
    if usable:
        s = _set_near_one_apart(work, x)
        value = -np.inf if s < 0 else _low_rank_inner(params, work)
        if math.isfinite(value):
            _low_rank_rows(work, s)
            change = eliminate(work, work.rows, x.size, 0, s, NOISE * (s + 10))
            value = value + change if math.isfinite(change) else -np.inf
    if not math.isfinite(value):
        for j in range(x.size):
            work.grad[j] = np.nan
    return value


@kernel
def _low_rank_is_nonnegative(params, work, upper):
    _low_rank_evaluate(params, work, upper)
    return rises(work.grad)


@kernel(memory=True)
def _low_rank_problem_at(stack, i):
    return LowRankSoftmaxParams(own(stack.B, i), own(stack.BT, i))


register_objective(
    LowRankSoftmaxParams,
    problem_at=_low_rank_problem_at,
    objective_size=_low_rank_size,
    objective_carve=_low_rank_carve,
    evaluate=_low_rank_evaluate,
    exact_step=best_step_along,
    is_nonnegative=_low_rank_is_nonnegative,
)
