"""Softmax extensions of L = B B' with few columns, by k x k matrices (see `drsub_fast.objectives.softmax`)."""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.dispatch import own
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import gemm, potrf, split, trsm
from drsub_fast.engine.vector import assign
from drsub_fast.objectives.base import register_objective
from drsub_fast.objectives.softmax_elimination import eliminate
from drsub_fast.objectives.softmax_kernels import best_step_along, rises
from drsub_fast.objectives.softmax_sweep import NOISE, is_extreme, sweep

LowRankSoftmaxParams = namedtuple("LowRankSoftmaxParams", "B BT")

#: ``inner`` is x with the coordinates near 1 set to 0, ``T`` (k, k) the factor C, ``H`` = C^-1 B' (k, n), and
#: ``rows`` are the rows of P at ``inner`` of the coordinates near 1; the rest is as in `SoftmaxWork`, positions being
#: coordinates.
LowRankSoftmaxWork = namedtuple(
    "LowRankSoftmaxWork",
    "grad diagonal trial saved inner weight delta limit pivots T H picked scaled rows scratch U moved source columns",
)

#: A diagonal entry of T from which the digits of I are too few in it: the same factor comes by reflections then.
_LARGE_SUM = 1e5

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
    return 10 * n + 13 + 2 * k * k + 3 * n * k + 3 * n * _most_near_one(params), 2 * n + 6 + k


@kernel(memory=True)
def _low_rank_carve(params, floats, integers):
    n, k = params.B.shape
    most = _most_near_one(params)
    views = split(
        floats,
        n,
        n,
        n,
        n,
        n + 3,
        n + 3,
        n + 3,
        4,
        (k, k),
        (k, n),
        (n + k, k),
        (n, k),
        (most, n),
        (most, n),
        (most + 3, n),
    )
    return LowRankSoftmaxWork(views[0], *views, *split(integers, n + 3, n + 3, k))


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


def _take_reflection_plain(A, j, v):
    A[j:, j + 1 :] -= (2.0 / (v @ v) * v)[:, None] * (v @ A[j:, j + 1 :])


@kernel(plain=_take_reflection_plain)
def _take_reflection(A, j, v):
    """Reflects the columns after column j of the rows from j on by I - 2 v v' / v'v."""
    square = 0.0
    for r in range(v.size):
        square += v[r] * v[r]
    for c in range(j + 1, A.shape[1]):
        total = 0.0
        for r in range(v.size):
            total += v[r] * A[j + r, c]
        total *= 2.0 / square
        for r in range(v.size):
            A[j + r, c] -= total * v[r]


@kernel(plain=lambda A, j: int(j + np.square(A[j:, j:]).sum(axis=0).argmax()))
def _longest_column(A, j):
    """Where the rest, from (j, j) on, has its longest column."""
    best, most = j, -1.0
    for c in range(j, A.shape[1]):
        total = 0.0
        for r in range(j, A.shape[0]):
            total += A[r, c] * A[r, c]
        if total > most:
            best, most = c, total
    return best


@kernel(memory=True)
def _factor_by_reflections(A, columns, v, T):
    """T = R' with A[:, columns] = Q R. The longest column and the largest entry go first, so that short rows of A keep
    their digits beside long ones (Cox and Higham 1998).
    """
    m, k = A.shape
    for c in range(k):
        columns[c] = c
    for j in range(k):
        c = _longest_column(A, j)
        columns[j], columns[c] = columns[c], columns[j]
        top = j
        for r in range(m):
            A[r, j], A[r, c] = A[r, c], A[r, j]
            if r >= j and abs(A[r, j]) > abs(A[top, j]):
                top = r
        square = 0.0
        for b in range(k):
            A[j, b], A[top, b] = A[top, b], A[j, b]
        for r in range(j, m):
            v[r - j] = A[r, j]
            square += A[r, j] * A[r, j]
        root = math.copysign(math.sqrt(square), v[0])
        v[0] += root
        _take_reflection(A, j, v[: m - j])
        A[j, j] = -root
    for j in range(k):
        for b in range(j + 1):
            T[j, b] = A[b, j]


@kernel(memory=True)
def _factor_anew(params, work):
    """The factor of T by that of the rows it is the sum of, and H made ready for it."""
    A, k = work.picked, params.B.shape[1]
    s = 0
    for i in range(work.inner.size):
        if work.inner[i] != 0.0:
            root = math.sqrt(work.inner[i] / (1.0 - work.inner[i]))
            for j in range(k):
                A[s, j] = root * params.B[i, j]
            s += 1
    for i in range(k):
        for j in range(k):
            A[s + i, j] = 0.0
        A[s + i, i] = 1.0
    _factor_by_reflections(A[: s + k], work.columns, work.U.reshape(-1), work.T)
    for i in range(k):
        assign(work.H[i], params.BT[work.columns[i]])


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
    largest = 0.0
    for i in range(k):
        largest = max(largest, T[i, i])
    if largest > _LARGE_SUM:
        _factor_anew(params, work)
    elif potrf(T, k) != 0:
        return np.nan
    for i in range(k):
        value += 2.0 * math.log(abs(T[i, i]))
    trsm(T, k, H, n)
    return value + math.log(product)


@kernel
def _low_rank_rows(work, s):
    """Gradient at ``work.inner``, the rows of P of the s coordinates that are to be moved, and 1 + P_ii of these."""
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
        work.trial[a] = rows[a, work.moved[a]]
        rows[a, work.moved[a]] -= 1.0
    for j in range(n):
        gap = 1.0 - inner[j]
        grad[j] /= gap * gap
        for a in range(s):
            rows[a, j] /= gap


@kernel(memory=True)
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
            own, delta = work.trial[:s], work.delta[:s]
            if is_extreme(delta, own):
                change = sweep(work.rows[:s], own, work.limit, work.moved[:s], delta, work.diagonal)
            else:
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
