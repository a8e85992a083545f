"""Budget set {x : 0 <= x <= upper, sum x <= k}.

Oracle: fill the coordinates of largest positive cost until the budget is spent. Projection: clip(y - t)
with the smallest t >= 0 whose sum is at most k, found among the breakpoints of that sum.
"""

from collections import namedtuple

import numpy as np

from drsub_fast._checks import as_real, as_vector
from drsub_fast._jit import kernel
from drsub_fast.sets.base import OK, FeasibleSet, register_set

BudgetParams = namedtuple("BudgetParams", "k upper")
BudgetWork = namedtuple("BudgetWork", "heap")


@kernel
def _size(params):
    return 0, params.upper.size


@kernel
def _carve(params, floats, integers):
    return BudgetWork(integers)


@kernel
def _sift_down(heap, start, count, score):
    """Restores the max-heap property of ``heap[:count]`` (indices, by score, ties by index) below ``start``."""
    item = heap[start]
    parent = start
    while True:
        child = 2 * parent + 1
        if child >= count:
            break
        right = child + 1
        if right < count and (
            score[heap[right]] > score[heap[child]]
            or (score[heap[right]] == score[heap[child]] and heap[right] < heap[child])
        ):
            child = right
        if score[heap[child]] > score[item] or (score[heap[child]] == score[item] and heap[child] < item):
            heap[parent] = heap[child]
            parent = child
        else:
            break
    heap[parent] = item


@kernel
def _lmo(params, work, direction, upper, v):
    # A heap finds the few coordinates that spend the budget in O(n + s log n).
    heap = work.heap
    count = 0
    for j in range(v.size):
        v[j] = 0.0
        if direction[j] > 0.0 and upper[j] > 0.0:
            heap[count] = j
            count += 1
    for start in range(count // 2 - 1, -1, -1):
        _sift_down(heap, start, count, direction)
    left = params.k
    while count > 0 and left > 0.0:
        j = heap[0]
        v[j] = min(upper[j], left)
        left -= v[j]
        count -= 1
        heap[0] = heap[count]
        if count > 0:
            _sift_down(heap, 0, count, direction)
    return OK


@kernel
def _clipped_sum(y, upper, shift):
    total = 0.0
    for j in range(y.size):
        total += min(max(y[j] - shift, 0.0), upper[j])
    return total


@kernel
def _project(params, work, y, upper, out):
    n = y.size
    shift = 0.0
    if _clipped_sum(y, upper, 0.0) > params.k:
        # The sum is piecewise linear and falling in the shift: bisect its breakpoints, then interpolate.
        points = np.empty(2 * n + 1)
        points[0] = 0.0
        for j in range(n):
            points[2 * j + 1] = max(y[j], 0.0)
            points[2 * j + 2] = max(y[j] - upper[j], 0.0)
        points.sort()
        low, high = 0, 2 * n
        while high - low > 1:
            mid = (low + high) // 2
            if _clipped_sum(y, upper, points[mid]) > params.k:
                low = mid
            else:
                high = mid
        above = _clipped_sum(y, upper, points[low])
        below = _clipped_sum(y, upper, points[high])
        shift = points[high]
        if above > below:
            shift = points[low] + (points[high] - points[low]) * (above - params.k) / (above - below)
    for j in range(n):
        out[j] = min(max(y[j] - shift, 0.0), upper[j])
    return OK


register_set(BudgetParams, set_size=_size, set_carve=_carve, lmo=_lmo, project=_project)


class Budget(FeasibleSet):
    """Budget set {x : 0 <= x <= upper, sum x <= k}.

    Parameters
    ----------
    k : float
        Budget, at least 0.
    upper : array_like, shape (n,)
        Upper bounds, at least 0.

    Raises
    ------
    ValueError
        For a negative budget or bound, or an entry that is not finite.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.Budget(1.5, [1.0, 1.0, 1.0]).lmo([3.0, 1.0, 2.0])
    array([1. , 0. , 0.5])
    """

    def __init__(self, k, upper):
        self.k = as_real(k, "k", lower=0.0)
        self._upper = np.minimum(as_vector(upper, "upper", lower=0.0), self.k)
        self.n = self._upper.size
        self._params = BudgetParams(self.k, self._upper)

    def __repr__(self):
        return f"Budget(k={self.k:g}, n={self.n})"

    def contains(self, x, tol=1e-9):
        """Whether x is in the set, each constraint up to ``tol`` (absolute)."""
        x = as_vector(x, "x", n=self.n)
        return bool((x >= -tol).all() and (x <= self._upper + tol).all() and x.sum() <= self.k + tol)

    def violation(self, x):
        return f"sum x = {x.sum():g} is above the budget {self.k:g}"

    def with_upper(self, upper):
        """The set with tighter upper bounds."""
        return Budget(self.k, np.minimum(upper, self._upper))
