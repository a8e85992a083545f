"""Branch and bound for softmax extensions over down-closed sets, on concave functions above them.

With M = L - I, f seen from a point l of its domain is a softmax extension again, of items l + y that count from l:

    f(l + y) = f(l) + log det(I + Y K),   K = M (I + diag(l) M)^-1,

so a box l <= x <= w has the bounds of the whole set (`proofs.softmax_relaxations`). Points of the domain with x >= l
have l in the domain: a box without it holds nothing. Two facts shrink a box first, gradients being antitone: where
d_j f(l) <= 0, x_j = l_j is best; and where w is in P and its gradient is not negative, w is best. The tangent at which
a bound was taken tells where points better than the incumbent can be: multipliers of the rows leave each variable a
range, as in `proofs.quadratic`.

The box with the largest bound is halved, where the chord in the split bound is furthest from what it stands for:
K_jj y_j (w_j - l_j - y_j), y the maximiser of the bound. Rounding is allowed for by Skeel's condition number of
I + diag(l) M, which scales of the items do not change: log det and K err by no more than a multiple of it, and K plus
that multiple of I is above K in the order of semidefinite matrices.
"""

import itertools
import math
from collections import namedtuple
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.program import constraint_rows
from drsub_fast.proofs.rungs import CALL, Problem
from drsub_fast.proofs.search import Incumbent, Limits, Proof, best_first, branching_bounds, halves, tolerance
from drsub_fast.proofs.softmax_relaxations import block_sum, grow_blocks, search, separable, spectral_split
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.knapsack import DisjointKnapsacks
from drsub_fast.sets.polytope import Polytope

#: Most items of the rung: beyond them halves come too slowly to tell.
MOST_ITEMS = 40

#: Part of a box that either half has at least.
_LEAST_HALF = 0.2
#: A coordinate at its end in the maximiser counts as if it were this far from it: its width is in the bound.
_OFF_END = 0.02
#: Steps of the search for the maximum of each concave function in one box.
_STEPS = 3
#: A kind of functions is tried in the halves of a box if its bound was above the best by less than this part of a gap.
_ALIKE = 0.5
#: A point whose relative rounding is above this one has no bound of its own.
_MOST_ROUNDING = 1e-3

#: A box whose mean width falls below this part is looked at again before it is halved.
_SMALLER = 0.7

#: f seen from a point: ``value`` there and ``K``, both with room for rounding; ``rounding`` is what was added to K_jj.
_View = namedtuple("_View", "value K rounding")


def seen_from(P: FeasibleSet, lower: NDArray[np.float64], width: NDArray[np.float64]) -> FeasibleSet | None:
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


def _view(M, point):
    """The `_View` from a point, "outside" if f is not defined there, None if rounding leaves nothing of it."""
    n = len(point)
    B = np.eye(n) + point[:, None] * M
    if point.max() > 1.0:
        root = np.sqrt(point)
        eigenvalues = np.linalg.eigvalsh(np.eye(n) + root[:, None] * M * root)
        if eigenvalues[0] <= 0.0:
            return "outside" if eigenvalues[0] < -1e-12 * n * eigenvalues[-1] else None
    try:
        inverse = np.linalg.inv(B)
    except np.linalg.LinAlgError:
        return None
    sign, value = np.linalg.slogdet(B)
    rounding = 1e-15 * n * float((np.abs(inverse) @ np.abs(B)).sum(axis=1).max())
    if not (sign > 0.0 and rounding <= _MOST_ROUNDING):
        return None
    K = M @ inverse
    error = rounding * float((np.abs(M) @ np.abs(inverse)).max())
    K = 0.5 * (K + K.T)
    K[np.diag_indices(n)] += error
    return _View(value + n * rounding + 1e-14 * abs(value), K, error)


def _bounds(K, P, width, weight, close, kinds):
    """Yields (bound, y, gradient, kind) of concave functions above log det(I + YK), y where the bound was taken.

    The separable function has two steps; kinds 0 and 1 are the blocks', grown by the ``weight``, and the split one.
    """
    start = np.zeros(len(K))
    for step in itertools.islice(search(separable(K), P, width, start, close=close), 2):
        yield *step, None
        start = step[1]
    for kind in kinds:
        if kind == 0:
            above = block_sum(K, grow_blocks(K, (start if weight is None else weight) + 1e-3 * width))
        else:
            above = spectral_split(K, P, width)
        for step in itertools.islice(search(above, P, width, start, close=close), _STEPS):
            yield *step, kind


def _is_best(f, P, M, upper, free):
    """Whether f over a box with these free variables is largest at its upper corner, as that is in P."""
    if not P.contains(upper) or not math.isfinite(f.value(upper)):
        return False
    view = _view(M, upper)
    return isinstance(view, _View) and bool((view.K.diagonal()[free] >= 2.0 * view.rounding).all())


def _better_points(P, width, gradient, room):
    """(low, high): where the points of P below ``width`` are that lose no more than ``room`` against a linear bound.

    With multipliers m >= 0 of the rows A y <= b and r = gradient - A'm, <gradient, y> is at most m'b + sum of the
    positive r_j w_j, and by -r_j y_j less where r_j < 0, by r_j (w_j - y_j) less where r_j > 0.
    """
    A, b, *_ = constraint_rows(P)
    multipliers = np.zeros(len(b))
    if len(b):
        oracle = HighsOracle(A, b, width)
        try:
            most = float(gradient @ oracle.maximize(gradient, width, mend=False))
        except OracleError:
            return np.zeros(len(width)), width
        multipliers = np.maximum(oracle.row_duals(), 0.0)
        reduced = gradient - multipliers @ A
        room = room + max(0.0, float(multipliers @ b + np.maximum(reduced, 0.0) @ width) - most)
    else:
        reduced = gradient
    with np.errstate(divide="ignore", over="ignore"):
        loss = room * (1.0 + 1e-9) / np.abs(reduced)
    low = np.where(reduced > 0.0, np.maximum(0.0, width - loss), 0.0)
    return low, np.where(reduced < 0.0, np.minimum(width, loss), width)


def bound_box(
    f: Softmax,
    P: FeasibleSet,
    M: NDArray[np.float64],
    node: tuple[Any, ...],
    known: float,
    incumbent: Incumbent,
    limits: Limits,
) -> tuple[float, Sequence[Any]]:
    """(bound, children) of a box, its bound at most the one known; see `best_first`.

    A node is two corners and the kinds of functions to try: in children, those that were about as good as the best.
    """
    lower, upper, kinds, x = node
    inside, view = seen_from(P, lower, upper - lower), _view(M, lower)
    if inside is None or view == "outside":
        return -math.inf, ()
    if view is None:
        j = int((upper - lower).argmax())
        at = 0.5 * (lower[j] + upper[j])
        return known, _nodes(halves(lower, upper, j, at), kinds, x) if lower[j] < at < upper[j] else ()
    width = np.where(view.K.diagonal() > 0.0, inside.upper, 0.0)
    if not width.any():
        _offer(f, incumbent, lower)
        return min(known, view.value), ()
    upper = lower + width
    if _is_best(f, P, M, upper, width > 0.0):
        value = f.value(upper)
        _offer(f, incumbent, upper)
        return min(known, value + 1e-12 * max(1.0, abs(value))), ()
    best, y, slope, reached = math.inf, np.zeros(len(width)), view.K.diagonal(), {}
    allowed = tolerance(incumbent.value, limits)
    weight = None if x is None else np.clip(x - lower, 0.0, width)
    for bound, point, gradient, kind in _bounds(view.K, inside, width, weight, 0.2 * allowed, kinds):
        reached[kind] = bound
        if bound < best:
            best, y, slope = bound, point, gradient
        if view.value + best <= incumbent.value + allowed:
            break
    _offer(f, incumbent, lower + y)
    bound = min(known, view.value + best)
    if bound <= incumbent.value + tolerance(incumbent.value, limits):
        return bound, ()
    low, high = _better_points(inside, width, slope, view.value + best - incumbent.value)
    if (low > high).any():
        return min(bound, incumbent.value), ()
    x, gap = lower + y, view.value + best - incumbent.value
    lower, upper = lower + low, np.minimum(upper, lower + high)
    kinds = tuple(k for k in kinds if reached.get(k, math.inf) - best <= _ALIKE * gap) or kinds
    if (high - low).sum() <= _SMALLER * width.sum():
        return bound, _nodes([(lower, upper)], kinds, x)
    y, width = np.clip(y - low, 0.0, high - low), high - low
    j = int((np.maximum(view.K.diagonal(), 0.0) * np.maximum(y * (width - y), _OFF_END * width**2)).argmax())
    at = lower[j] + min(max(y[j], _LEAST_HALF * width[j]), (1.0 - _LEAST_HALF) * width[j])
    return bound, _nodes(halves(lower, upper, j, at), kinds, x) if lower[j] < at < upper[j] else ()


def _nodes(boxes, kinds, x):
    """Nodes of boxes, whose bounds are looked for by these kinds of functions, x being where the parent's was taken."""
    return [(*box, kinds, x) for box in boxes]


def _offer(f, incumbent, x):
    """Looks for a better incumbent near x, if x itself is one."""
    if f.value(x) > incumbent.value:
        incumbent.try_from(x)


def softmax_branch_and_bound(
    f: Softmax, P: FeasibleSet, upper: NDArray[np.float64], known: float, incumbent: Incumbent, limits: Limits
) -> Proof:
    """Proves how good the incumbent is for max f over the points of P below ``upper``, and improves it.

    Parameters
    ----------
    f : Softmax
    P : FeasibleSet
        Down-closed, with rows.
    upper : ndarray, shape (n,)
    known : float
        A bound that is known already.
    incumbent, limits : Incumbent, Limits

    Returns
    -------
    Proof
    """
    return best_first(
        (np.zeros(f.n), upper, (0, 1), None), known, _bound_node(f, P, incumbent, limits), incumbent, limits
    )


def _bound_node(f, P, incumbent, limits):
    """``bound_node`` of `best_first`."""
    M = f.L - np.eye(f.n)
    return lambda node, known: bound_box(f, P, M, node, known, incumbent, limits)


def softmax_branching_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung: one box a step."""
    f, P, upper, x, value = problem
    n = f.n
    if not isinstance(f, Softmax) or n > MOST_ITEMS or seen_from(P, np.zeros(n), upper) is None:
        return
    price = _STEPS * (8 * n**3 + 100 * n**2 + 80 * CALL)
    yield math.inf, price
    incumbent = Incumbent(x, value, lambda x: (x, f.value(x)))
    for bound in branching_bounds(
        (np.zeros(n), upper, (0, 1), None), _bound_node(f, P, incumbent, Limits(1e-6, 1.0, None, None))
    ):
        yield bound, price
