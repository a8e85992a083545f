"""Mean constraints on sets of items, each with its rows beside it."""

from typing import NamedTuple

import numpy as np

import drsub_fast as ds

from . import draws


class Family(NamedTuple):
    """A constraint and what it says, in plain arrays.

    Attributes
    ----------
    P : FeasibleSet or int
        What the doors are given.
    A, b : ndarray
        Rows A x <= b of the 0/1 points.
    allowed : ndarray of bool
        Items whose upper bound is 1 or more.
    most : int or None
        Most items of a set.
    weighted : bool
        Whether a row weighs items differently.
    """

    P: object
    A: np.ndarray
    b: np.ndarray
    allowed: np.ndarray
    most: int | None = None
    weighted: bool = False

    @property
    def is_exact(self):
        """Whether its rows are sums of whole numbers, which floating point adds up exactly."""
        return bool((np.round(self.A) == self.A).all() and np.abs(self.A).sum(initial=0.0) < 2.0**52)


def _upper(rng, n):
    if rng.random() < 0.4:
        return np.ones(n)
    return rng.choice([0.0, 0.5, 1.0, 1.0, 1.0, 2.0], n)


def _count(rng, n):
    k = int(rng.integers(1, n + 1))
    return Family(k, np.zeros((0, n)), np.zeros(0), np.ones(n, bool), k)


def _box(rng, n):
    u = _upper(rng, n)
    return Family(ds.Box(u), np.zeros((0, n)), np.zeros(0), u >= 1.0)


def _budget(rng, n):
    u, k = _upper(rng, n), float(draws.one_of(rng, 0.0, 0.5, 1.0, 2.0, 2.7, 3.0, 1e9))
    return Family(ds.Budget(k, u), np.ones((1, n)), np.array([k]), u >= 1.0)


def weights(rng, n):
    """Weights of a row: whole numbers, decimals that add up inexactly, zeros, wide spreads."""
    kind = rng.integers(5)
    if kind == 0:
        return rng.integers(0, 5, n).astype(float)
    if kind == 1:
        return rng.integers(0, 5, n) / 10.0
    if kind == 2:
        return rng.random(n)
    if kind == 3:
        return 10.0 ** rng.uniform(-8, 8, n)
    return np.round(10.0 ** rng.uniform(0, 11, n))


def side(rng, w):
    """A capacity for a row of weights: nothing, just what some items weigh, a part of all, more than all."""
    kind = rng.integers(6)
    if kind == 0:
        return 0.0
    if kind <= 2:
        return float(w[rng.random(w.size) < 0.5].sum())
    if kind == 3:
        return float(w.max())
    return float(w.sum() * rng.uniform(0.05, 1.1))


def _knapsack(rng, n):
    u, w = _upper(rng, n), weights(rng, n)
    c = side(rng, w)
    return Family(ds.Knapsack(w, c, u), w[None], np.array([c]), u >= 1.0, weighted=True)


def _partition(rng, n):
    groups, u = rng.integers(0, 3, n), _upper(rng, n)
    groups[0] = 2
    c = rng.choice([0.0, 0.5, 1.0, 1.0, 2.0], 3)
    A = (groups == np.arange(3)[:, None]).astype(float)
    return Family(ds.PartitionMatroid(groups, c, u), A, c, u >= 1.0)


def _laminar(rng, n):
    order, u = rng.permutation(n), _upper(rng, n)
    A = np.zeros((4, n))
    A[0], A[1, order[: n // 2]], A[2, order[n // 2 :]], A[3, order[:1]] = 1.0, 1.0, 1.0, 1.0
    A = A[: int(rng.integers(1, 5))]
    A = A[A.any(axis=1)]
    c = rng.choice([0.0, 1.0, 1.5, 2.0, 3.0], len(A))
    return Family(ds.LaminarMatroid(A, c, u), A, c, u >= 1.0)


def _matching(rng, n):
    left, right, u = rng.integers(0, 3, n), rng.integers(0, 3, n), _upper(rng, n)
    c = np.ones(6) if rng.random() < 0.5 else rng.choice([0.0, 0.5, 1.0, 1.0, 2.0], 6)
    A = np.array([left == i for i in range(3)] + [right == i for i in range(3)]).astype(float)
    return Family(ds.MatchingPolytope(np.column_stack([left, right]), 3, 3, c, u), A, c, u >= 1.0)


def _polytope(rng, n):
    u = _upper(rng, n)
    rows = [weights(rng, n) for _ in range(int(rng.integers(1, 4)))]
    if rng.random() < 0.3:
        rows.append(2.0 * rows[0])
    A = np.array(rows) * (rng.random((len(rows), n)) < 0.8)
    b = np.array([side(rng, row) for row in A])
    return Family(ds.Polytope(A, b, u), A, b, u >= 1.0, weighted=True)


FAMILIES = {
    "count": _count, "box": _box, "budget": _budget, "knapsack": _knapsack, "partition-matroid": _partition,
    "laminar-matroid": _laminar, "matching-polytope": _matching, "polytope": _polytope,
}  # fmt: skip

#: Sets whose 0/1 points are no family of items that the choosers take: curved, or without the empty set.
NO_FAMILY = {"ball", "simplex", "general-polytope"}


def random_family(rng, n):
    """A constraint on n items."""
    return draws.one_of(rng, *FAMILIES.values())(rng, n)
