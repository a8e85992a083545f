"""Sets of items under packing rows: what fits, at the cost of the rows that an item is in.

The 0/1 points of every down-closed set of the package but the curved ones are the sets S of items with
sum_{i in S} w_ri <= c_r for some rows r of weights w >= 0: one row of ones for a budget, a row a group for a partition
matroid, a row a node for a matching, a row of weights for a knapsack, the rows of A for a polytope. Each item lists its
rows; a row that nothing can overload is left out, so that a mere number of items costs nothing.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np
import scipy
from numpy.typing import NDArray

from drsub_fast._checks import as_count
from drsub_fast.errors import UnsupportedError
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.knapsack import DisjointKnapsacks
from drsub_fast.sets.laminar import LaminarMatroid
from drsub_fast.sets.polytope import Polytope

#: Part of a capacity that a load may exceed it by at most: rounding.
_SLACK = 1e-10
_EPS = float(np.finfo(float).eps)


class Packing:
    """Sets of at most ``most`` items whose load is within capacity in every row.

    Attributes
    ----------
    n : int
        Number of items.
    most : int
        Most items of a set, as far as it is known without solving anything.
    allowed : ndarray of bool, shape (n,)
        Whether an item fits by itself.
    rows : ndarray of int, shape (n, p)
        The rows that each item is in; unused places name a row without limit, the last one.
    weights : ndarray, shape (n, p)
    capacity : ndarray
        Of each row, what rounding may exceed it by included.
    """

    #: Whether the rows are those of a laminar family.
    nested: bool = False
    #: The set that this is the family of; None for a mere number of items.
    P: FeasibleSet | None = None

    def __init__(
        self,
        rows: NDArray[np.int64],
        weights: NDArray[np.float64],
        capacity: NDArray[np.float64],
        upper: NDArray[np.float64],
        most: int | None = None,
    ) -> None:
        self.n = upper.size
        self.allowed = upper >= 1.0 - 1e-9
        if rows.shape[1]:
            self._set_rows(rows, weights, capacity)
        else:
            self.rows, self.weights, self.capacity = rows, weights, np.full(1, np.inf)
        self.most = int(self.allowed.sum())
        if most is not None:
            self.most = min(self.most, most)
        if self.rows.shape[1] and self.n:
            self.most = self._most_by_rows()

    def _set_rows(self, rows, weights, capacity):
        """The items that fit by themselves, and the rows that those can overload."""
        self.capacity = np.append(_with_rounding(rows, weights, capacity), np.inf)
        self.rows, self.weights = rows, weights
        self.allowed &= self.fit(self.no_load(), np.arange(self.n))
        counted = np.where(self.allowed[:, None], weights, 0.0)
        binds = np.bincount(rows.ravel(), counted.ravel(), minlength=self.capacity.size) > self.capacity
        keep = binds[rows].any(axis=0)
        rows = rows[:, keep]
        self.rows = np.where(binds[rows], rows, capacity.size)
        self.weights = np.where(binds[rows], weights[:, keep], 0.0)

    @property
    def is_count(self) -> bool:
        """Whether all sets of at most ``most`` allowed items are in the family."""
        return self.rows.shape[1] == 0

    @property
    def depth(self) -> int:
        """A number p for which greedy keeps 1 / (p + 1) of the maximum: 1 for nested rows, else the most of an item."""
        return 1 if self.nested else self.rows.shape[1]

    @property
    def is_weighted(self) -> bool:
        """Whether items use different parts of a row."""
        used = self.weights[self.allowed][self.rows[self.allowed] < self.capacity.size - 1]
        return bool(used.size and used.max() > used.min())

    def relative_weight(self) -> NDArray[np.float64]:
        """The parts of the capacities that each item uses, summed; the largest is 1, and the least 1e-9."""
        parts = np.where(self.allowed, self._parts(slice(None)).sum(axis=1), 0.0)
        return np.clip(parts / (parts.max(initial=0.0) or 1.0), 1e-9, 1.0)

    def _parts(self, items):
        """The parts of the capacities of its rows that each of some items uses."""
        weights, capacity = self.weights[items], self.capacity[self.rows[items]]
        return np.divide(weights, capacity, out=np.zeros(weights.shape), where=capacity >= weights.clip(1e-300))

    def without(self, items: NDArray[np.int64]) -> "Packing":
        """The family on the other items; the rows are shared."""
        other = copy(self)
        other.allowed = self.allowed.copy()
        other.allowed[items] = False
        return other

    def no_load(self) -> NDArray[np.float64]:
        """Loads of the empty set."""
        return np.zeros(self.capacity.size)

    def load(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Loads of a set, shape (n_rows + 1,)."""
        items = np.asarray(items, dtype=np.int64)
        loads = np.bincount(self.rows[items].ravel(), self.weights[items].ravel(), minlength=self.capacity.size)
        return loads.astype(np.float64)  # those of no item come as whole numbers, to which parts would not be added

    def add(self, load: NDArray[np.float64], item: int, sign: float = 1.0) -> None:
        """Brings the loads up to date when an item joins (or, with sign -1, leaves)."""
        if self.is_count:
            return
        np.add.at(load, self.rows[item], sign * self.weights[item])

    def fit(self, load: NDArray[np.float64], items: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of some items fits beside the loads."""
        rows = self.rows[items]
        return np.logical_and.reduce(load[rows] + self.weights[items] <= self.capacity[rows], axis=1)

    def some(self, size: int) -> NDArray[np.int64]:
        """Any set of ``size`` items: the lightest that fit one after the other, or a vertex of the set.

        Raises
        ------
        ValueError
            If neither has so many.
        """
        items: list[int] = []
        load = self.no_load()
        for j in np.argsort(self.relative_weight(), kind="stable"):
            if len(items) < size and self.allowed[j] and self.fit(load, np.array([j]))[0]:
                items.append(int(j))
                self.add(load, j)
        if len(items) < size and self.P is not None:
            v = self.P.lmo(np.ones(self.n), np.minimum(self.P.upper, 1.0))
            vertex = np.flatnonzero(v > 1.0 - 1e-9)
            items = vertex[:size].tolist() if vertex.size > len(items) else items
        if len(items) < size:
            raise ValueError(f"size = {size}, but no set of more than {len(items)} items was found in the constraint")
        return np.array(sorted(items), dtype=np.int64)

    def _most_by_rows(self):
        """The most items as a bound over rows that share no item: each column of ``rows`` that covers all items.

        Of every row the lightest allowed items; parts of capacities are summed, whose rounding is allowed for.
        """
        best, allowed = self.most, np.flatnonzero(self.allowed)
        for rows, parts in zip(self.rows[allowed].T, self._parts(allowed).T, strict=True):
            order = np.lexsort((parts, rows))
            start = np.flatnonzero(np.diff(rows[order], prepend=-1))
            total = np.cumsum(parts[order])
            before = np.repeat((total - parts[order])[start], np.diff(np.append(start, order.size)))
            rounding = 2.0 * _EPS * (order.size + 4) * (1.0 + total.max(initial=0.0))
            best = min(best, int((total - before <= 1.0 + rounding).sum()))
        return best


def _with_rounding(rows, weights, capacity):
    """Capacities with what the sum of a row's weights may exceed them by, by rounding.

    Whole numbers below 2^53 add up exactly, so a row of them has a whole capacity.
    """
    used = weights.ravel() > 0.0
    rows, weights = rows.ravel()[used], weights.ravel()[used]
    counts = np.bincount(rows, minlength=capacity.size)[: capacity.size]
    slack = np.minimum(_SLACK, 2.0 * _EPS * (4 + counts)) * capacity
    whole = np.bincount(rows, weights, minlength=capacity.size)[: capacity.size] < 2.0**53
    whole[np.unique(rows[weights != np.floor(weights)])] = False
    return np.where(whole, np.floor(capacity + np.minimum(_SLACK * capacity, 1e-6)), capacity + slack)


def as_packing(constraint: int | FeasibleSet | None, n: int, size: int | None = None) -> Packing:
    """The family of a constraint: a number of items, a down-closed set, or None.

    Parameters
    ----------
    constraint : int, FeasibleSet or None
    n : int
        Number of items there are.
    size : int, optional
        A number of items that a set is to have.

    Raises
    ------
    TypeError
        For neither a constraint nor a size.
    ValueError
        For sizes that differ, or a size that no set has.
    UnsupportedError
        For a set that is not down-closed.
    """
    if constraint is None and size is None:
        raise TypeError("give size=k for exactly k items, or constraint= a number of items at most or a set")
    if size is not None:
        size = as_count(size, "size", lower=1)
        if size > n:
            raise ValueError(f"size = {size} is more than the {n} items there are")
    if isinstance(constraint, FeasibleSet):
        if constraint.n != n:
            raise ValueError(f"the kernel has {n} items, the constraint {constraint.n}")
        family = _of_set(constraint)
        family.P = constraint
    else:
        most = n if constraint is None else as_count(constraint, "constraint")
        family = _count(np.ones(n), most)
    if size is not None and size > family.most:
        raise ValueError(f"size = {size}, but the constraint lets no more than {family.most} items in")
    return family


def _count(upper, most):
    return Packing(np.zeros((upper.size, 0), np.int64), np.zeros((upper.size, 0)), np.zeros(0), upper, most)


def require_down_closed(P: FeasibleSet) -> None:
    """Raise UnsupportedError for a set from whose points items cannot be left out."""
    if not P.is_down_closed:
        raise UnsupportedError(f"{type(P).__name__} is not down-closed: items cannot be left out to make a set fit")


def _of_set(P):
    require_down_closed(P)
    if isinstance(P, Box):
        return _count(P.upper, P.n)
    if isinstance(P, DisjointKnapsacks):
        if P.capacities.size == 1 and (P.weights == 1.0).all():
            return _count(P.upper, int(np.floor(P.capacities[0] * (1.0 + _SLACK))))
        return Packing(P.groups[:, None], P.weights[:, None], P.capacities, P.upper)
    if isinstance(P, (LaminarMatroid, Polytope)):
        rows, weights = _by_items(P.A)
        family = Packing(rows, weights, P.b, P.upper)
        family.nested = isinstance(P, LaminarMatroid)
        return family
    return ByMembership(P)


class ByMembership(Packing):
    """The 0/1 points of a down-closed set that is no polytope, by its own test: O(n) an item. Loads are 0/1 vectors."""

    P: FeasibleSet

    def __init__(self, P: FeasibleSet) -> None:
        self.P = P
        super().__init__(np.zeros((P.n, 0), np.int64), np.zeros((P.n, 0)), np.zeros(0), P.upper)
        alone = np.flatnonzero(self.allowed)
        self.allowed[alone] = self.fit(self.no_load(), alone)
        self.most = int(self.allowed.sum())

    @property
    def is_count(self) -> bool:
        return False

    def no_load(self) -> NDArray[np.float64]:
        return np.zeros(self.n)

    def load(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        load = self.no_load()
        load[np.asarray(items, dtype=np.int64)] = 1.0
        return load

    def add(self, load: NDArray[np.float64], item: int, sign: float = 1.0) -> None:
        load[item] += sign

    def fit(self, load: NDArray[np.float64], items: NDArray[np.int64]) -> NDArray[np.bool_]:
        fits = np.zeros(len(items), bool)
        for place, item in enumerate(items):
            load[item] += 1.0
            fits[place] = self.P.contains(load)
            load[item] -= 1.0
        return fits


def _by_items(A):
    """(rows, weights), each (n, p): the nonzeros of every column of A, filled up with the row after the last one."""
    A = scipy.sparse.csc_array(A)
    counts = np.diff(A.indptr)
    p = int(counts.max(initial=0))
    place = np.arange(A.nnz) - np.repeat(A.indptr[:-1], counts)
    item = np.repeat(np.arange(A.shape[1]), counts)
    rows, weights = np.full((A.shape[1], p), A.shape[0]), np.zeros((A.shape[1], p))
    rows[item, place], weights[item, place] = A.indices, A.data
    return rows, weights
