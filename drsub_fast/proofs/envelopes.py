"""Branch and bound for logistic losses with a regulariser that is not convex, in any coordinates x = shift + alpha y.

Minus the loss is concave and minus the regulariser separable, so over a box f is at most the sum of the first and the
concave envelopes of the second's terms. With u = gamma^(1/2) |t| these are the terms themselves up to the point p where
the tangent goes through the end v of the range, and that tangent from there on:

    smooth  u^2 / (1 + u^2):   p = (1 + v^2)^(1/2) - v,       capped  min(u^2, 1):   p = v - (v^2 - 1)^(1/2);

a range on one side of 0 that begins beyond p has its chord. The sum is smooth and concave: its value and Frank-Wolfe
gap bound f over the box wherever the search for its maximum stops. Boxes are halved where the envelope is furthest from
its term.
"""

import math
from collections import namedtuple
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.logistic import LogisticNonconvex
from drsub_fast.objectives.user import CallableObjective
from drsub_fast.proofs.rungs import CALL, Problem, largest
from drsub_fast.proofs.search import Incumbent, Limits, Proof, best_first, branching_bounds, halves, tolerance
from drsub_fast.proofs.softmax_branching import seen_from
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe

#: f as a function of y: the margins are rows @ y + offsets, the regulariser's arguments shift + alpha * y.
_Composite = namedtuple("_Composite", "rows offsets alpha shift weight gamma capped")
#: Concave envelopes of the terms: -weight r(t) for t between ``low`` and ``high``, lines with the slopes beyond.
_Envelopes = namedtuple("_Envelopes", "low high slope_low slope_high")

#: Part of a box that either half has at least, and where the search in a box stops, relative to the tolerance.
_LEAST_HALF, _CLOSE = 0.15, 0.05
_EPS = 2.0**-52


def composite(f: Objective) -> _Composite | None:
    """The parts of a logistic loss in any coordinates of an orthant, or None for other objectives."""
    inner = getattr(f, "g", f)
    if not isinstance(inner, LogisticNonconvex):
        return None
    ones, zeros = np.ones(f.n), np.zeros(f.n)
    alpha, shift = (ones, zeros) if inner is f else (f.params.alpha, f.params.shift)
    _, rows, weight, gamma, capped = inner.params
    return _Composite(rows * alpha, rows @ shift, alpha, shift, weight, gamma, capped)


def _penalty(parts, t):
    """(-weight r(t), its derivative)."""
    square = parts.gamma * t * t
    if parts.capped:
        return -parts.weight * np.minimum(square, 1.0), np.where(
            square < 1.0, -2.0 * parts.weight * parts.gamma * t, 0.0
        )
    share = 1.0 / (1.0 + square)
    return -parts.weight * square * share, -2.0 * parts.weight * parts.gamma * t * share**2


def _reach(parts, end):
    """p for ranges that end at ``end`` >= 0; at most the end."""
    v = math.sqrt(parts.gamma) * end
    if parts.capped:
        u = np.where(v > 1.0, 1.0 / (v + np.sqrt(np.maximum(v * v - 1.0, 0.0)) + (v <= 1.0)), v)
    else:
        u = np.minimum(1.0 / (v + np.sqrt(1.0 + v * v)), v)
    return u / math.sqrt(parts.gamma)


def _envelopes(parts, a, b):
    """The envelopes over a <= t <= b, shape (n,) each."""
    low, high = np.maximum(a, -_reach(parts, np.maximum(-a, 0.0))), np.minimum(b, _reach(parts, np.maximum(b, 0.0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        chord = (_penalty(parts, b)[0] - _penalty(parts, a)[0]) / (b - a)
    chord = np.where(b > a, chord, 0.0)
    right, left = a > high, b < low
    slope_low, slope_high = _penalty(parts, low)[1], _penalty(parts, high)[1]
    return _Envelopes(
        np.where(right, a, np.where(left, b, low)), np.where(right, a, np.where(left, b, high)),
        np.where(left, chord, slope_low), np.where(right, chord, slope_high),
    )  # fmt: skip


def _over(parts, envelopes, y):
    """(value, gradient, terms) of the concave function above f; ``terms`` (n,) are the envelopes' values."""
    t = parts.shift + parts.alpha * y
    inside = np.clip(t, envelopes.low, envelopes.high)
    terms, slopes = _penalty(parts, inside)
    below, above = t - inside < 0.0, t - inside > 0.0
    slopes = np.where(below, envelopes.slope_low, np.where(above, envelopes.slope_high, slopes))
    terms = terms + slopes * (t - inside)
    margins = parts.rows @ y + parts.offsets
    m = len(margins)
    value = terms.sum() - np.logaddexp(0.0, -margins).sum() / m
    return float(value), expit(-margins) @ parts.rows / m + parts.alpha * slopes, terms


def _maximum_over(parts, envelopes, P, lower, width, y, close):
    """(bound, y): the maximum of the concave function over lower + z in the set, 0 <= z <= width."""

    def at(z):
        return _over(parts, envelopes, lower + z)[:2]

    z = np.clip(y - lower, 0.0, width)
    if isinstance(P, Box):
        found = minimize(
            lambda z: tuple(-part for part in at(z)), z, jac=True, method="L-BFGS-B",
            bounds=np.column_stack([np.zeros(len(z)), width]), options={"maxiter": 300, "ftol": 1e-13, "gtol": 1e-9},
        )  # fmt: skip
        z = np.clip(found.x, 0.0, width)
    else:
        z = fully_corrective_frank_wolfe(CallableObjective(at, len(z)), P, tol=close, max_iter=200).x
    value, gradient = at(z)
    size = abs(value) + np.abs(gradient) @ (np.abs(z) + width) + parts.weight * len(z)
    rounding = 8 * (len(z) + len(parts.offsets)) * _EPS * (size + np.abs(parts.offsets).max(initial=0.0))
    return value + max(largest(P, gradient, width) - float(gradient @ z), 0.0) + rounding, lower + z


def _bound_node(f, P, parts, incumbent, limits):
    """``bound_node`` of `best_first`; a node is its two corners and a point of the parent."""

    def bound_node(node, known):
        lower, upper, y = node
        inside = seen_from(P, lower, upper - lower)
        if inside is None:
            return -math.inf, ()
        ends = parts.shift + parts.alpha * lower, parts.shift + parts.alpha * upper
        envelopes = _envelopes(parts, np.minimum(*ends), np.maximum(*ends))
        allowed = tolerance(incumbent.value, limits)
        bound, y = _maximum_over(parts, envelopes, inside, lower, inside.upper, y, _CLOSE * allowed)
        bound = min(bound, known)
        if f.value(y) > incumbent.value:
            incumbent.try_from(y)
        if bound <= incumbent.value + tolerance(incumbent.value, limits):
            return bound, ()
        width = upper - lower
        over = _over(parts, envelopes, y)[2] - _penalty(parts, parts.shift + parts.alpha * y)[0]
        j = int(np.where(width > 0.0, over, -1.0).argmax())
        at = lower[j] + min(max(y[j] - lower[j], _LEAST_HALF * width[j]), (1.0 - _LEAST_HALF) * width[j])
        if not lower[j] < at < upper[j]:
            return bound, ()
        return bound, [(*half, y) for half in halves(lower, upper, j, at)]

    return bound_node


def envelope_branch_and_bound(
    f: Objective, P: FeasibleSet, upper: NDArray[np.float64], known: float, incumbent: Incumbent, limits: Limits
) -> Proof:
    """Proves how good the incumbent is for a logistic loss over a down-closed set with rows; see `best_first`."""
    node = _bound_node(f, P, composite(f), incumbent, limits)
    return best_first((np.zeros(f.n), upper, incumbent.x), known, node, incumbent, limits)


def envelope_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung: one box a step."""
    f, P, upper, x, value = problem
    parts = composite(f)
    if parts is None or seen_from(P, np.zeros(f.n), upper) is None:
        return
    price = 30 * (4.0 * parts.rows.size + 12 * CALL)
    yield math.inf, price
    incumbent = Incumbent(x, value, lambda y: (y, f.value(y)))
    node: Callable[..., Any] = _bound_node(f, P, parts, incumbent, Limits(1e-6, 1.0, None, None))
    for bound in branching_bounds((np.zeros(f.n), upper, x), node):
        yield bound, price
