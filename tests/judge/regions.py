"""Mean feasible sets, each with its rows beside it, in units in which it is an ordinary one.

x = D y: what is drawn is a set of ordinary numbers y, its variables and rows multiplied by powers of two, which changes
no digit. Truths are found in y.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

import drsub_fast as ds
from drsub_fast._kinds import SETS

from . import draws


class Region(NamedTuple):
    """A set P, and {y : A y <= b, A_eq y = b_eq, lower <= y <= upper, norm(y) <= radius} with x = D y.

    Attributes
    ----------
    kind : str
        Its name in the table of sets.
    by_example : bool
        Whether no rows are known here: what P says of points and directions is taken for true.
    """

    kind: str
    P: ds.FeasibleSet
    D: np.ndarray
    A: np.ndarray
    b: np.ndarray
    A_eq: np.ndarray
    b_eq: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    radius: float = np.inf
    by_example: bool = False

    @property
    def n(self):
        """Number of variables."""
        return self.D.size

    def inside(self, upper):
        """The part of it where y <= upper."""
        return self._replace(upper=np.minimum(self.upper, upper))


def powers(rng, count, span):
    """Powers of two: one common to all, and a spread of their own of up to ``span`` decades each way."""
    if span == 0:
        return np.ones(count)
    decades = rng.uniform(-span, span) + rng.uniform(-1, 1, count) * draws.one_of(rng, 0.0, 2.0, span)
    return 2.0 ** np.round(np.log2(10.0) * np.clip(decades, -12, 16))


def uppers(rng, n):
    """Upper bounds of ordinary size, a few of them 0."""
    return np.round(rng.uniform(0.3, 1.5, n), 2) * (rng.random(n) < 0.93) if rng.random() < 0.6 else np.ones(n)


def _made(kind, P, D, *, A=None, b=(), A_eq=None, b_eq=(), lower=None, upper=None, radius=np.inf):
    n = D.size
    A, A_eq = (np.zeros((0, n)) if rows is None else np.asarray(rows, float).reshape(-1, n) for rows in (A, A_eq))
    lower = np.zeros(n) if lower is None else lower
    return Region(kind, P, D, A, np.asarray(b, float), A_eq, np.asarray(b_eq, float), lower, upper, radius)


def _box(rng, n, span):
    D, u = powers(rng, n, span), uppers(rng, n)
    return _made("box", ds.Box(u * D), D, upper=u)


def _side(rng, row, u):
    """A side for a row of weights: often nothing, just the row's value at a corner, or more than it can reach."""
    return float(row @ u * draws.one_of(rng, 0.0, 0.3, 0.5, 0.8, 1.0, 2.0))


def _budget(rng, n, span):
    D, u = np.full(n, powers(rng, 1, span)[0]), uppers(rng, n)
    k = _side(rng, np.ones(n), u)
    return _made("budget", ds.Budget(k * D[0], u * D), D, A=np.ones((1, n)), b=[k], upper=u)


def _knapsack(rng, n, span):
    D, R, u = powers(rng, n, span), powers(rng, 1, span)[0], uppers(rng, n)
    w = np.round(rng.uniform(0.0, 2.0, n), 1) * (rng.random(n) < 0.85)
    c = _side(rng, w, u)
    return _made("knapsack", ds.Knapsack(w * R / D, c * R, u * D), D, A=w, b=[c], upper=u)


def _partition(rng, n, span):
    D, u, groups = np.full(n, powers(rng, 1, span)[0]), uppers(rng, n), rng.integers(0, 2, n)
    groups[0] = 1
    A = (groups == np.arange(2)[:, None]).astype(float)
    c = np.array([_side(rng, row, u) for row in A])
    return _made("partition-matroid", ds.PartitionMatroid(groups, c * D[0], u * D), D, A=A, b=c, upper=u)


def _laminar(rng, n, span):
    D, u = np.full(n, powers(rng, 1, span)[0]), uppers(rng, n)
    A = np.array([np.ones(n), np.arange(n) <= n // 2, np.arange(n) < 1]).astype(float)
    c = np.array([_side(rng, row, u) for row in A])
    return _made("laminar-matroid", ds.LaminarMatroid(A, c * D[0], u * D), D, A=A, b=c, upper=u)


def _matching(rng, n, span):
    D, u = np.full(n, powers(rng, 1, span)[0]), uppers(rng, n)
    ends = rng.integers(0, 2, (2, n))
    A = np.array([ends[0] == 0, ends[0] == 1, ends[1] == 0, ends[1] == 1]).astype(float)
    c = np.array([_side(rng, row, u) for row in A])
    P = ds.MatchingPolytope(ends.T, 2, 2, c * D[0], u * D)
    return _made("matching-polytope", P, D, A=A, b=c, upper=u)


def _simplex(rng, n, span):
    D, total = np.full(n, powers(rng, 1, span)[0]), draws.one_of(rng, 1.0, 0.7, 3.0)
    return _made("simplex", ds.Simplex(n, total * D[0]), D, A_eq=np.ones((1, n)), b_eq=[total], upper=np.full(n, total))


def _ball(rng, n, span):
    D, u = np.full(n, powers(rng, 1, span)[0]), uppers(rng, n)
    radius = float(np.round(np.linalg.norm(u) * rng.uniform(0.2, 1.2), 2))
    return _made("ball", ds.Ball(radius * D[0], upper=u * D), D, upper=u, radius=radius)


def _polytope(rng, n, span):
    D, u, m = powers(rng, n, span), uppers(rng, n), int(rng.integers(1, 4))
    A = np.round(rng.uniform(0.05, 1.0, (m, n)), 2) * (rng.random((m, n)) < 0.8)
    if rng.random() < 0.3:
        A = np.vstack([A, A[:1], 2.0 * A[:1]])
    b = np.array([_side(rng, row, u) for row in A])
    R = powers(rng, len(A), span)
    given = A * R[:, None] / D
    P = ds.Polytope(scipy.sparse.csr_array(given) if rng.random() < 0.2 else given, b * R, u * D)
    return _made("polytope", P, D, A=A, b=b, upper=u)


def _general(rng, n, span):
    """Rows of both signs, equations, negative lower bounds; a point that is drawn first is inside."""
    D, m, m_eq = powers(rng, n, min(span, 4)), int(rng.integers(0, 3)), int(rng.integers(0, 2)) * (n > 1)
    lower = np.round(rng.uniform(-1.0, 0.4, n), 2) * draws.one_of(rng, 0.0, 1.0)
    upper = lower + np.round(rng.uniform(0.0, 1.5, n), 2)
    inside = lower + (upper - lower) * rng.choice([0.0, 0.25, 0.5, 1.0], n)
    A = np.round(rng.uniform(-1.0, 1.0, (m + m_eq, n)), 2)
    sides = A @ inside
    sides[:m] += rng.choice([0.0, 0.1, 0.5], m)
    R = powers(rng, m + m_eq, min(span, 4))
    given, right = A * R[:, None] / D, sides * R
    rows = dict(A=given[:m], b=right[:m]) if m else {}
    rows |= dict(A_eq=given[m:], b_eq=right[m:]) if m_eq else {}
    P = ds.GeneralPolytope(**rows, lower=lower * D, upper=upper * D)
    parts = dict(A=A[:m], b=sides[:m], A_eq=A[m:], b_eq=sides[m:])
    return _made("general-polytope", P, D, **parts, lower=lower, upper=upper)


REGIONS = {
    "box": _box, "budget": _budget, "knapsack": _knapsack, "partition-matroid": _partition, "laminar-matroid": _laminar,
    "matching-polytope": _matching, "simplex": _simplex, "ball": _ball, "polytope": _polytope,
    "general-polytope": _general,
}  # fmt: skip


def by_example(name):
    """Draws the example of a registered set that has no rows here."""

    def drawn(rng, n, span):
        P = SETS[name].example_of(n)
        lower = np.broadcast_to(P._lower, P.n).astype(float)
        return _made(name, P, np.ones(P.n), lower=lower, upper=P.upper.copy())._replace(by_example=True)

    return drawn


def every_region():
    """All sets that are registered, by name: by rows where they are known here, else by example."""
    return REGIONS | {name: by_example(name) for name in SETS if name not in REGIONS}


def random_region(rng, n, span=0, kinds=None):
    """A set of n variables; their units span up to so many decades each way."""
    known = every_region()
    return known[draws.one_of(rng, *(kinds or known))](rng, n, span)
