"""Euclidean ball in the positive orthant, {x : 0 <= x <= upper, |x|_2 <= radius}.

Oracle and projection both end at v(s) = min(s d+, upper), d+ the positive part of the cost (or of the
point). Oracle: the s with |v(s)| = radius, or v = upper where d > 0 if that is inside (KKT: v_j = d_j / lambda
unless at its bound). Projection: the same with s <= 1 (KKT: x_j = y_j / (1 + t)). Coordinate j reaches its
bound at s = u_j / d_j; a heap takes these breakpoints in order, and between two of them |v(s)|^2 is a
quadratic in s, so s is exact: O(n + r log n) for r coordinates at their bounds.
"""

import math
from collections import namedtuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_real, as_vector
from drsub_fast._kinds import COUNT, NUMBER, SETS, array, register_kind
from drsub_fast.engine.codes import OK
from drsub_fast.engine.heap import heapify, pop
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.sets.base import FeasibleSet, register_set

BallParams = namedtuple("BallParams", "radius n")
BallWork = namedtuple("BallWork", "positive limit heap")


@kernel
def _size(params):
    return 2 * params.n, params.n


@kernel(memory=True)
def _carve(params, floats, integers):
    positive, limit = split(floats, params.n, params.n)
    return BallWork(positive, limit, integers)


@kernel
def _positive_part(d, upper, work):
    """positive = d+ / max d+ where there is room, limit = upper / positive; returns (max d+, how many > 0)."""
    largest = 0.0
    for j in range(d.size):
        if upper[j] > 0.0:
            largest = max(largest, d[j])
    count = 0
    for j in range(d.size):
        work.positive[j] = 0.0
        if d[j] > 0.0 and upper[j] > 0.0:
            work.positive[j] = d[j] / largest
            work.limit[j] = upper[j] / work.positive[j]
            work.heap[count] = j
            count += 1
    return largest, count


@kernel
def _sum_of_squares(a, items, count):
    total = 0.0
    for i in range(count):
        total += a[items[i]] ** 2
    return total


@kernel
def _scale_to_norm(radius, upper, work, count):
    """The s with |min(s positive, upper)| = radius; infinity if the norm is never above the radius."""
    positive, limit, heap = work.positive, work.limit, work.heap
    heapify(heap, count, limit)
    rest = fresh = _sum_of_squares(positive, heap, count)
    bounded = reached = 0.0
    while count > 0:
        squares = max(radius * radius - bounded, 0.0)
        scale = max(math.sqrt(squares / rest), reached)
        j = heap[0]
        if scale <= limit[j]:
            return scale
        reached = limit[j]
        bounded += upper[j] ** 2
        pop(heap, count, limit)
        count -= 1
        rest -= positive[j] ** 2
        # Differences lose digits: form the sum anew whenever it has halved.
        if rest < 0.5 * fresh:
            rest = fresh = _sum_of_squares(positive, heap, count)
    return math.inf


@kernel
def _scaled(scale, upper, work, out):
    for j in range(out.size):
        out[j] = min(scale * work.positive[j], upper[j]) if work.positive[j] > 0.0 else 0.0


@kernel
def _lmo(params, work, direction, upper, v):
    _, count = _positive_part(direction, upper, work)
    _scaled(_scale_to_norm(params.radius, upper, work, count), upper, work, v)
    return OK


@kernel
def _project(params, work, y, upper, out):
    largest, count = _positive_part(y, upper, work)
    _scaled(min(_scale_to_norm(params.radius, upper, work, count), largest), upper, work, out)
    return OK


register_set(BallParams, set_size=_size, set_carve=_carve, lmo=_lmo, project=_project)


class Ball(FeasibleSet):
    """Euclidean ball in the positive orthant, {x : 0 <= x <= upper, |x|_2 <= radius}.

    Parameters
    ----------
    radius : float
        Radius, at least 0.
    n : int, optional
        Number of variables; needed when ``upper`` is not given.
    upper : array_like, shape (n,), optional
        Upper bounds, at least 0. By default the radius.

    Raises
    ------
    ValueError
        For a negative radius or bound, an entry that is not finite, or neither ``n`` nor ``upper``.

    Notes
    -----
    Down-closed, but no polytope: its extreme points are the arc |x| = radius, and solvers that keep an active
    set of vertices may go on adding to it.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.Ball(5.0, 3).lmo([3.0, 4.0, -1.0])
    array([3., 4., 0.])
    >>> ds.Ball(5.0, 3).lmo([3.0, 4.0, -1.0], upper=[5.0, 3.0, 5.0])
    array([4., 3., 0.])
    """

    radius: float

    def __init__(self, radius: float, n: int | None = None, upper: ArrayLike | None = None) -> None:
        self.radius = as_real(radius, "radius", lower=0.0)
        if n is None and upper is None:
            raise ValueError("give the number of variables n, or upper bounds")
        n = None if n is None else as_count(n, "n", lower=1)
        upper = np.full(n, self.radius) if upper is None else as_vector(upper, "upper", n=n, lower=0.0)
        super().__init__(BallParams(self.radius, upper.size), np.minimum(upper, self.radius))

    def __repr__(self) -> str:
        return f"Ball(radius={self.radius:g}, n={self.n})"

    def constraints_hold(self, x: NDArray[np.float64], tol: float) -> bool:
        return bool(np.linalg.norm(x) <= self.radius * (1.0 + tol))

    def into_constraints(self, x: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        norm = np.linalg.norm(x)
        return x * (self.radius / norm) if norm > self.radius else x

    def diameter(self, upper: ArrayLike | None = None) -> float:
        u = self._clipped(upper)
        return min(float(np.linalg.norm(u)), math.sqrt(2.0) * self.radius)

    def spread(self, cost: ArrayLike, upper: ArrayLike | None = None) -> float:
        # |x - y| <= sqrt(2) radius for points without a common part.
        cost = as_vector(cost, "cost", n=self.n, lower=0.0)
        u = self._clipped(upper)
        return float(cost @ Ball(math.sqrt(2.0) * self.radius, upper=u).lmo(cost))

    def violation(self, x: NDArray[np.float64]) -> str:
        """Words for the radius that x breaks."""
        return f"its norm {np.linalg.norm(x):g} is above the radius {self.radius:g}"


register_kind(
    SETS, "ball", Ball, radius=NUMBER, n=COUNT, upper=array("n"), about="norm(x) <= radius, x >= 0",
    example=lambda n: {"radius": 1.0, "n": n},
)  # fmt: skip
