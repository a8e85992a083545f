"""A 0/1 point to begin with, for multilinear extensions that are too large for many starts.

One variable after the other is set to 1, the one of the largest partial derivative among those that the linear oracle
takes in beside those before: the greedy choice of items for the set function, by the oracle alone. Every item that is
surely chosen makes the next gradient of an extension by maxima cheaper. With sparse weights even that is too much for
many items: gains only fall, so each is computed anew only where the last one known is the largest (Minoux 1978).
"""

import heapq

import numpy as np
import scipy
from numpy.typing import NDArray

from drsub_fast.engine.clock import OutOfTime, require_time
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.multilinear import MaximaExtension
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.knapsack import DisjointKnapsacks

#: Distance from 1 below which an entry of a vertex counts as 1.
_WHOLE = 1e-9


def greedy_vertex(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """A 0/1 point of a down-closed P below ``upper``, to which no further variable of positive slope was added.

    Where the time of the thread ends, it is the point so far.
    """
    if isinstance(f, MaximaExtension) and scipy.sparse.issparse(f.rows()):
        tried = [_lazily(f, P, upper, np.ones(P.n))]
        if isinstance(P, DisjointKnapsacks) and P.weights.max() > P.weights.min():  # by gain per weight as well
            tried.append(_lazily(f, P, upper, np.maximum(P.weights, 1e-9 * P.weights.max())))
        return max(tried, key=lambda x: f.set_value(np.flatnonzero(x)))
    x = np.zeros(P.n)
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


def _lazily(f, P, upper, weight):
    """The greedy choice by gain per ``weight`` for sparse W; an item that does not fit is left out for good."""
    W, cover, x = f.rows(), np.zeros(f.rows().shape[1]), np.zeros(P.n)
    possible = np.flatnonzero((upper >= 1.0 - _WHOLE) & (P.upper >= 1.0 - _WHOLE))
    gains = f.linear + np.asarray(W.sum(axis=1)).ravel()
    heap = [(-gains[j] / weight[j], int(j), 0) for j in possible if gains[j] > 0.0]
    heapq.heapify(heap)
    count, space = 0, float(P.lmo(np.ones(P.n), np.minimum(upper, 1.0)).sum()) + _WHOLE
    while heap and count + 1 <= space:
        require_time()
        gain, j, known = heapq.heappop(heap)
        own = slice(W.indptr[j], W.indptr[j + 1])
        columns, weights = W.indices[own], W.data[own]
        if known < count:
            gain = -(f.linear[j] + np.maximum(weights - cover[columns], 0.0).sum()) / weight[j]
            if gain < 0.0:
                heapq.heappush(heap, (gain, j, count))
            continue
        x[j] = 1.0
        if P.contains(x):
            count += 1
            cover[columns] = np.maximum(cover[columns], weights)
        else:
            x[j] = 0.0
    return x
