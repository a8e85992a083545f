"""Global maximum of a softmax extension over a polytope, by branch and bound on separable bounds.

For a DR-submodular f and a box [l, w] gains shrink as the rest grows, so for x in the box

    f(x) <= f(l) + sum_j [f(l + (x_j - l_j) e_j) - f(l)],
    f(x) <= f(w) - sum_j [f(w) - f(w - (w_j - x_j) e_j)],

both concave and separable. Along one coordinate the softmax extension is explicit,
f(x + t e_j) = f(x) + log(1 + t d_j f(x)), so the bounds need one gradient each. Their minimum is maximised over the
polytope by linear cuts (Kelley): a linear program in x and t with the tangents of both bounds.

Two facts shrink a node first: where d_j f(l) <= 0, x_j = l_j is optimal (gradients are antitone); and where
w is feasible and its gradient is non-negative, w is.

The gap of these bounds closes slowly: fine for n up to 16 or so, and for kernels whose eigenvalues are not
far above 1. Where f is not defined (x outside [0, 1]^n, unit_box=False) it counts as -inf; the points where it
is defined form a down-closed set, so the bounds hold on it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.search import best_first, halves, tolerance

#: Rounds of cuts for one node.
_ROUNDS = 4
#: A round that lowers the bound by less than this share of what is left to the incumbent is the last.
_PROGRESS = 0.02


def _tangent(value, gradient, offset, at):
    """(constant, slope) of the tangent at x = ``at`` of value + sum_j log(1 + gradient_j (x_j - offset_j))."""
    inside = np.maximum(1.0 + gradient * (at - offset), 1e-300)
    slope = gradient / inside
    return value + np.log(inside).sum() - slope @ at, slope


class _Box:
    """One node: the box, tightened, with f and its gradient at both corners."""

    def __init__(self, f, A, b, lower, upper):
        self.empty = True
        left = b - A @ lower
        if (left < 0.0).any():
            return
        self.lower_value, self.lower_gradient = f.value_and_gradient(lower)
        if not np.isfinite(self.lower_value):
            return
        self.empty = False
        with np.errstate(divide="ignore", invalid="ignore"):
            slack = np.where(A > 0.0, left[:, None] / A, np.inf).min(axis=0, initial=np.inf)
        width = np.minimum(upper - lower, slack)
        width[self.lower_gradient <= 0.0] = 0.0
        self.free = width > 0.0
        self.lower, self.upper = lower, lower + width
        self.upper_value, self.upper_gradient = f.value_and_gradient(self.upper)
        self.has_upper = np.isfinite(self.upper_value) and np.isfinite(self.upper_gradient).all()
        fits = (A @ self.upper <= b).all()
        self.solved = fits and self.has_upper and (self.upper_gradient[self.free] >= 0.0).all()

    def tangents(self, x):
        """Tangents at x of the bounds that exist."""
        yield _tangent(self.lower_value, np.where(self.free, self.lower_gradient, 0.0), self.lower, x)
        if self.has_upper:
            yield _tangent(self.upper_value, np.where(self.free, self.upper_gradient, 0.0), self.upper, x)

    def halves(self, x):
        """The two halves of the box, split where the gradient varies most."""
        width = self.upper - self.lower
        drop = self.lower_gradient - (self.upper_gradient if self.has_upper else 0.0)
        j = int(np.where(self.free, width * np.maximum(drop, 1e-12), -1.0).argmax())
        at = self.lower[j] + width[j] * np.clip(0.5 * (x[j] - self.lower[j]) / width[j] + 0.25, 0.1, 0.9)
        return halves(self.lower, self.upper, j, at)


def _maximise_tangents(A, b, box, cuts):
    """(bound, x): the largest t below all cuts over the node's points."""
    n = len(box.lower)
    slopes = np.array([slope for _, slope in cuts])
    sides = np.array([constant for constant, _ in cuts]) - box.lower_value
    rows = np.vstack([np.column_stack([A, np.zeros(len(A))]), np.column_stack([-slopes, np.ones(len(cuts))])])
    most = (sides + np.maximum(slopes * box.upper, slopes * box.lower).sum(axis=1)).max()
    upper = np.append(box.upper, max(most, 0.0))
    # t, counted from f(lower), is at least 0: every cut allows it at x = lower.
    oracle = HighsOracle(
        rows, np.concatenate([b, np.maximum(sides, -slopes @ box.lower)]), upper, lower=np.append(box.lower, 0.0)
    )
    answer = oracle.maximize(np.append(np.zeros(n), 1.0), upper)
    return box.lower_value + answer[n], answer[:n]


def separable_bounds(
    f: Softmax, A: NDArray[np.float64], b: NDArray[np.float64], upper: NDArray[np.float64], incumbent: Any, limits: Any
) -> Any:
    """Proves how good the incumbent is for max f over {A x <= b, 0 <= x <= upper}, and improves it.

    Parameters
    ----------
    f : Softmax
    A, b, upper : ndarray
    incumbent, limits : Incumbent, Limits

    Returns
    -------
    Proof
    """

    def bound_node(node, bound):
        box = _Box(f, A, b, *node)
        if box.empty:
            return -np.inf, ()
        target = incumbent.value + tolerance(incumbent.value, limits)
        if box.solved or not box.free.any():
            x, value = (box.upper, box.upper_value) if box.solved else (box.lower, box.lower_value)
            if value > target:
                incumbent.try_from(x)
            return min(bound, value), ()
        x, cuts = box.lower, list(box.tangents(box.lower))
        if box.has_upper:
            cuts += list(box.tangents(box.upper))
        for _ in range(_ROUNDS):
            try:
                reached, x = _maximise_tangents(A, b, box, cuts)
            except OracleError:
                break
            bound = min(bound, reached + 1e-9 * max(1.0, abs(reached)))
            if bound <= target:
                return bound, ()
            fresh = list(box.tangents(x))
            cuts += fresh
            if reached - min(constant + slope @ x for constant, slope in fresh) < _PROGRESS * (reached - target):
                break
        if f.value(x) > incumbent.value:
            incumbent.try_from(x)
        return bound, box.halves(x)

    root = (np.zeros(f.n), upper)
    value, gradient = f.value_and_gradient(root[0])
    # The first bound at 0, each term at its largest.
    first = value + np.log1p(np.maximum(gradient, 0.0) * upper).sum()
    return best_first(root, first, bound_node, incumbent, limits)
