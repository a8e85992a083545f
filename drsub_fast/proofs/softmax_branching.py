"""Branching on the split bound of a softmax extension (`proofs.softmax_relaxations`), for few items.

Seen from a point l, f is a softmax extension again, of items l + y that count from l:

    f(l + y) = f(l) + log det(I + Y M_l),   M_l = M (I + diag(l) M)^-1,

so a box l <= x <= w has the bounds of the whole set. The box with the largest bound is halved, where the chord in the
split bound is furthest from what it stands for: K_jj y_j (w_j - l_j - y_j), y the maximiser of the bound.
"""

import heapq
import math
from collections import namedtuple
from collections.abc import Generator
from typing import Any

import numpy as np

from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.rungs import CALL
from drsub_fast.proofs.search import halves
from drsub_fast.proofs.softmax_relaxations import search, spectral_split, split_parts
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.knapsack import DisjointKnapsacks
from drsub_fast.sets.polytope import Polytope

#: Most items: beyond them halves come too slowly to tell.
MOST_ITEMS = 40

#: Part of a box that either half has at least.
_LEAST_HALF = 0.2
#: A coordinate at its end in the maximiser counts as if it were this far from it: its width is in the bound.
_OFF_END = 0.02
#: Steps of the search in one box.
_STEPS = 2

#: A box: its corners, a bound on f there, and where to halve it, None where the bound is f(l).
_Leaf = namedtuple("_Leaf", "lower upper bound split")


def seen_from(P: FeasibleSet, lower: Any, width: Any) -> Any:
    """{y : lower + y in P, 0 <= y <= width} for rows A x <= b with A >= 0; None if empty, and for others."""
    if isinstance(P, Box):
        return Box(width)
    if isinstance(P, DisjointKnapsacks) and P.is_down_closed:
        used = np.bincount(P.groups, P.weights * lower, minlength=P.capacities.size)
        left = P.capacities - used
        return None if (left < 0.0).any() else DisjointKnapsacks(P.groups, P.weights, left, width)
    if isinstance(P, Polytope):
        left = P.b - P.A @ lower
        return None if (left < 0.0).any() else Polytope(P.A, left, width)
    return None


def _leaf(P, M, lower, upper, known):
    """The box with its bound, at most the one known."""
    n = len(lower)
    B = np.eye(n) + lower[:, None] * M
    sign, base = np.linalg.slogdet(B)
    P = seen_from(P, lower, upper - lower)
    if P is None or not sign > 0.0:
        return _Leaf(lower, upper, -math.inf, None)
    K = M @ np.linalg.inv(B)
    K = 0.5 * (K + K.T)
    # The gradient is antitone: where it is not positive at l, x_j = l_j is best.
    width = np.where(K.diagonal() > 0.0, P.upper, 0.0)
    base += 1e-12 * n * (1.0 + abs(base))
    if not width.any():
        return _Leaf(lower, upper, min(known, base), None)
    best, y = math.inf, np.zeros(n)
    for step, (bound, point) in enumerate(search(spectral_split(K, P, width), P, width, y)):
        best, y = bound, point
        if step >= _STEPS:
            break
    strength = np.linalg.norm(split_parts(K)[0], axis=1) ** 2
    score = strength * np.maximum(y * (width - y), _OFF_END * width**2)
    j = int(score.argmax())
    at = lower[j] + min(max(y[j], _LEAST_HALF * width[j]), (1.0 - _LEAST_HALF) * width[j])
    return _Leaf(lower, lower + width, min(known, base + best), (j, at))


def softmax_branching_steps(problem: Any) -> Generator[Any, None, None]:
    """The rung: one box is halved in a step."""
    f, P, upper, _, _ = problem
    n = f.n
    if not isinstance(f, Softmax) or n > MOST_ITEMS or not n or upper.max() > 1.0:
        return
    if seen_from(P, np.zeros(n), upper) is None:
        return
    price = 2 * (_STEPS + 1) * (8 * n**3 + 100 * n**2 + 80 * CALL)
    yield math.inf, price
    M = f.L - np.eye(n)
    root = _leaf(P, M, np.zeros(n), upper, math.inf)
    leaves, count, closed = [(-root.bound, 0, root)], 0, -math.inf
    while leaves:
        _, _, leaf = heapq.heappop(leaves)
        if leaf.split is None:
            closed = max(closed, leaf.bound)
        else:
            for lower, upper in halves(leaf.lower, leaf.upper, *leaf.split):
                count += 1
                half = _leaf(P, M, lower, upper, leaf.bound)
                heapq.heappush(leaves, (-half.bound, count, half))
        yield max(closed, -leaves[0][0] if leaves else -math.inf), price
