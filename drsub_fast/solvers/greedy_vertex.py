"""A 0/1 point to begin with, for multilinear extensions that are too large for many starts.

One variable after the other is set to 1, the one of the largest partial derivative among those that the linear oracle
takes in beside those before: the greedy choice of items for the set function, by the oracle alone. Every item that is
surely chosen makes the next gradient of an extension by maxima cheaper. That is too much for many items, so with
weights by rows each gain is computed anew only where the last one known is the largest, since gains only fall (Minoux
1978).
"""

import heapq

import numpy as np
from numpy.typing import NDArray

from drsub_fast.engine.clock import OutOfTime, require_time, thread_time_left
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.multilinear import MaximaExtension
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.knapsack import DisjointKnapsacks

#: Distance from 1 below which an entry of a vertex counts as 1.
_WHOLE = 1e-9

#: Rows of a dense W whose gains are computed at a time.
_AT_A_TIME = 32
#: Seconds for an operation of f that rows of a dense W take where only its sorted columns are kept: 0.3 s for 9e6.
_ROWS_SECONDS = 1e-8


def greedy_vertex(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """A 0/1 point of a down-closed P below ``upper``, to which no further variable of positive slope was added.

    Where the time of the thread ends, it is the point so far.
    """
    x = np.zeros(P.n)
    if isinstance(f, MaximaExtension) and (f.has_rows or thread_time_left() > _ROWS_SECONDS * f.operations):
        other = np.zeros(P.n)
        try:
            _add_lazily(W := f.rows(), f, P, upper, np.ones(P.n), x)
            if isinstance(P, DisjointKnapsacks) and P.weights.max() > P.weights.min():  # by gain per weight as well
                _add_lazily(W, f, P, upper, np.maximum(P.weights, 1e-9 * P.weights.max()), other)
        except OutOfTime:
            return x
        return max(x, other, key=lambda x: f.set_value(np.flatnonzero(x))) if other.any() else x
    while True:
        try:
            grad = f.gradient(x)
            inside = x == 1.0
            # More than all others together: the oracle keeps what is chosen wherever it can.
            cost = np.where(inside, 2.0 * np.maximum(grad, 0.0).sum(), grad)
            whole = P.lmo(cost, upper) >= 1.0 - _WHOLE
        except OutOfTime:
            return x
        new = whole & ~inside & (grad > 0.0)
        if not (new.any() and whole[inside].all()):
            return x
        x[int(np.where(new, grad, -np.inf).argmax())] = 1.0


def _add_lazily(W, f, P, upper, weight, x):
    """Adds the greedy choice by gain per ``weight`` to x = 0, by rows of W; what does not fit is left out for good."""
    cover = np.zeros(W.shape[1])
    possible = np.flatnonzero((upper >= 1.0 - _WHOLE) & (P.upper >= 1.0 - _WHOLE))
    gains = f.linear + np.asarray(W.sum(axis=1)).ravel()
    heap = [(-gains[j] / weight[j], int(j), 0) for j in possible if gains[j] > 0.0]
    heapq.heapify(heap)
    count, space = 0, float(P.lmo(np.ones(P.n), np.minimum(upper, 1.0)).sum()) + _WHOLE
    at_a_time = _AT_A_TIME if isinstance(W, np.ndarray) else 1
    while heap and count + 1 <= space:
        if count > 0:
            require_time()
        old: list[int] = []
        while heap and heap[0][2] < count and len(old) < at_a_time:
            old.append(heapq.heappop(heap)[1])
        if old:
            for j, gain in zip(old, f.linear[old] + _rises(W, old, cover), strict=True):
                if gain > 0.0:
                    heapq.heappush(heap, (-gain / weight[j], j, count))
            continue
        j = heapq.heappop(heap)[1]
        x[j] = 1.0
        if P.contains(x):
            count += 1
            columns, weights = _row(W, j)
            cover[columns] = np.maximum(cover[columns], weights)
        else:
            x[j] = 0.0


def _rises(W, items, cover):
    """What each of some items adds to the sum of the largest weights, ``cover`` so far."""
    if isinstance(W, np.ndarray):
        return np.maximum(W[items] - cover, 0.0).sum(axis=1)
    rows = [_row(W, j) for j in items]
    return np.array([np.maximum(weights - cover[columns], 0.0).sum() for columns, weights in rows])


def _row(W, j):
    """(columns, weights) of an item."""
    if isinstance(W, np.ndarray):
        return slice(None), W[j]
    own = slice(W.indptr[j], W.indptr[j + 1])
    return W.indices[own], W.data[own]
