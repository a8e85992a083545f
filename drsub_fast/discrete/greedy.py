"""Greedy choice for determinantal point processes, on the items that can still be chosen.

It maximises log det L_SS over the sets of a `Packing`. With the Cholesky factor of L_SS, the gain of item i is
log d_i^2, where

    d_i^2 = L_ii - |c_i|^2,  c_i the solution of chol(L_SS) c_i = L_S,i,

and choosing j appends e_i = (L_ji - <c_j, c_i>) / d_j to c_i and takes e_i^2 off d_i^2: O(n k) for the k-th item,
O(n k^2) in all (Chen, Zhang, Zhou, Fast greedy MAP inference for determinantal point process, NIPS 2018). From
features a row of L costs O(n r), and L is never formed.

d_i^2 only falls, so L_ii bounds it. Items are taken up by decreasing L_ii, and only as far as the best d_i^2 of those
at hand is below the next L_ii: what was never taken up costs nothing at all (lazy greedy in blocks; Minoux 1978;
Hemmi, Oki, Sakaue, Fujii, Iwata, Lazy and fast greedy MAP inference for determinantal point process, NeurIPS 2022, do
it item by item). The c_i of a block are one triangular system with many right-hand sides. All of it is BLAS, at its
best speed from the first call on.

An item that counts as dependent (`drsub_fast.discrete.dependence`) is not chosen: a greedy choice stops at the rank of
L and says so. Where a number of items must be reached, it begins anew among the rest then (log det is -inf, whatever is
chosen).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from drsub_fast._checks import as_flag
from drsub_fast.discrete.bounds import hadamard_bound
from drsub_fast.discrete.choice import FULL, MATRIX, NO_GAIN, RANK, Users
from drsub_fast.discrete.dependence import DEPENDENT, NEARLY_SINGULAR, gain_floor
from drsub_fast.discrete.few_items import EXACTLY, NO_LABELS, NO_QUALITY, Chosen, at_most, choose_few, choose_from
from drsub_fast.discrete.item_set import AS_MANY, MapResult, gains_in_order
from drsub_fast.discrete.packing import Packing, as_packing
from drsub_fast.objectives.similarity import ItemKernel, Similarity, as_features, as_kernel_matrix
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.result import Certificate
from drsub_fast.sets.base import FeasibleSet

#: Where half of the diagonal is above this part of its maximum, all items are taken up at first.
_ALIKE = 0.8
#: Items taken up at first; each further block adds a half at least, and at most doubles them. n = 100,000, r = 200,
#: k = 100, lognormal qualities: 128 at first 41 ms, 512 39 ms, 2048 47 ms.
_FIRST_BLOCK = 512

_MESSAGES = {
    FULL: "no further item fits the constraint",
    NO_GAIN: "no fitting item raises the determinant; full=True goes on, size=k asks for exactly k items",
    RANK: "every fitting item is linearly dependent on the chosen ones: the rank of the kernel is exhausted",
}


class _Active:
    """The items taken up so far, by decreasing L_ii: their coefficients c_i and squared gains.

    ``items`` are their numbers, None where these are all items in their own order.
    """

    def __init__(self, kernel, family, most, weight):
        self.kernel, self.family, self.weight = kernel, family, weight
        self.chosen = np.empty(most, np.int64)
        self.pivots = np.empty(most)
        self.factor = np.zeros((most, most))  # chol(L_SS)
        self.count = 0
        everything = kernel.n <= 2 * _FIRST_BLOCK or np.median(kernel.diagonal) > _ALIKE * kernel.diagonal.max()
        self.taken = kernel.n if everything else 0
        self.part = kernel.part(None) if everything else None
        if not everything:
            ceiling = self._score(kernel.diagonal, np.arange(kernel.n))
            self.order = np.argsort(-ceiling, kind="stable")
            self.ceiling = ceiling[self.order]
        self.items = np.arange(self.taken)
        self.squared = kernel.diagonal[: self.taken].copy()
        self.open = family.allowed[: self.taken].copy()
        self.C = np.empty((most, kernel.n))  # columns beyond ``taken`` are never touched, nor made by the system

    def _score(self, squared, items):
        """What the best item has most of: the squared gain, or the gain per weight."""
        return squared if self.weight is None else np.log(np.maximum(squared, 1e-300)) / self.weight[items]

    def best(self, load, floor):
        """The place of the best fitting item of a squared gain above its ``floor``; -1 where there is none."""
        while True:
            place, score = self._best_at_hand(load, floor)
            if self.taken == self.kernel.n or score >= self.ceiling[self.taken]:
                return place
            above = np.searchsorted(-self.ceiling, -score, side="left") - self.taken
            self._take_up(min(max(above, 1, self.taken // 2), max(_FIRST_BLOCK, self.taken)))

    def _best_at_hand(self, load, floor):
        if not self.taken:
            return -1, -np.inf
        if self.family.is_count:
            score = np.where(self.open, self._score(self.squared, self.items), -np.inf)
            place = int(score.argmax())
            if score[place] > -np.inf and self.squared[place] <= floor[self.items[place]]:
                self.open &= self.squared > floor[self.items]
                return self._best_at_hand(load, floor)
            return (place, float(score[place])) if score[place] > -np.inf else (-1, -np.inf)
        self.open &= self.squared > floor[self.items]
        at = np.flatnonzero(self.open)
        fits = self.family.fit(load, self.items[at])
        self.open[at[~fits]] = False  # loads only grow: it will never fit again
        at = at[fits]
        if not at.size:
            return -1, -np.inf
        scores = self._score(self.squared[at], self.items[at])
        best = int(scores.argmax())
        return int(at[best]), float(scores[best])

    def dependent(self, floor):
        """The allowed items that count as dependent on the chosen ones."""
        return self.items[self.family.allowed[self.items] & (self.squared <= floor[self.items])]

    def _take_up(self, more):
        """Adds the next items, with the coefficients that they would have by now."""
        t, taken = self.count, self.taken
        new = self.order[taken : taken + more]
        part = self.kernel.part(new)
        self.part = part if taken == 0 else self.kernel.join(self.part, part)
        squared = self.kernel.diagonal[new]
        if t:
            block = self.kernel.block(self.chosen[:t], new)
            C = solve_triangular(self.factor[:t, :t], block, lower=True, check_finite=False)
            self.C[:t, taken : taken + new.size] = C
            squared = squared - np.einsum("ti,ti->i", C, C)
        self.items = np.concatenate([self.items, new])
        self.squared = np.concatenate([self.squared, squared])
        self.open = np.concatenate([self.open, self.family.allowed[new] & ~np.isin(new, self.chosen[:t])])
        self.taken += new.size

    def choose(self, place):
        """Adds an item to the set; the others' squared gains fall."""
        t, item = self.count, int(self.items[place])
        squared = self.squared
        pivot = np.sqrt(squared[place])
        row = self.C[t, : self.taken]
        if t:
            np.matmul(self.C[:t, place], self.C[:t, : self.taken], out=row)
            np.subtract(self.kernel.row(item, self.part), row, out=row)
        else:
            row[:] = self.kernel.row(item, self.part)
        row *= 1.0 / pivot
        self.factor[t, :t], self.factor[t, t] = self.C[:t, place], pivot
        frozen = squared[place]
        squared -= row * row
        squared[place] = frozen
        self.open[place] = False
        self.chosen[t], self.pivots[t] = item, pivot
        self.count += 1
        return item


def greedy_choice(
    kernel: ItemKernel,
    family: Packing,
    most: int,
    least: float,
    floor: NDArray[np.float64] | float,
    load: NDArray[np.float64] | None = None,
    weight: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """(items, squared gains, reason): at most ``most`` items while their squared gain is above ``least``.

    None of a squared gain up to its ``floor``. By gain, or by gain per ``weight``. ``load`` is what other items have
    used of the family's capacity, and is brought up to date.
    """
    load = family.no_load() if load is None else load
    active = _Active(kernel, family, min(most, kernel.n), weight)
    reason = FULL
    while active.count < most:
        place = active.best(load, floor)
        if place < 0:
            reason = RANK if family.fit(load, active.dependent(floor)).any() else FULL
            break
        if active.squared[place] <= least:
            reason = NO_GAIN
            break
        family.add(load, active.choose(place))
    _require_psd(kernel, active)
    return active.chosen[: active.count].copy(), active.pivots[: active.count] ** 2, reason


def _require_psd(kernel, active):
    kernel.require_valid()
    lowest = active.squared.min(initial=0.0)
    if np.isnan(lowest) or lowest < -kernel.indefinite * kernel.diagonal.max():
        i = int(active.items[np.argmin(active.squared)])
        raise ValueError(
            f"L is not positive semidefinite: the squared gain of item {i} fell to {lowest:g}; "
            "drsub_fast.nearest_psd(L) is the closest kernel"
        )


def exactly(kernel: ItemKernel, family: Packing, size: int) -> tuple[NDArray[np.int64], str]:
    """(items, message): ``size`` items by greedy choice; past the rank of the kernel, anew among the rest.

    Where the choice ends in a smaller set that nothing fits beside, any set of the size.
    """
    floor = gain_floor(kernel.diagonal, NEARLY_SINGULAR)
    load, items, rank = family.no_load(), np.empty(0, np.int64), size
    while items.size < size:
        rest = family.without(items)
        new, _, reason = greedy_choice(kernel, rest, size - items.size, -1.0, floor, load)
        if not new.size and reason == FULL:
            return family.some(size), (
                f"{AS_MANY}: nothing fits beside the {items.size} of the greedy choice, so these are others"
            )
        if not new.size:  # nothing but zeros on the diagonal is left
            new = np.flatnonzero(rest.allowed & rest.fit(load, np.arange(kernel.n)))[:1]
            family.add(load, new[0])
        rank = min(rank, items.size if items.size else new.size)
        items = np.concatenate([items, new])
    return items, size_message(size, rank)


def size_message(size: int, independent: int) -> str:
    """What is said of exactly ``size`` items."""
    if independent < size:
        return f"no more than {independent} items are independent, so the determinant is 0".replace(
            " 1 items are", " 1 item is"
        )
    return AS_MANY


def as_item_kernel(
    L: ArrayLike | Softmax | None,
    features: ArrayLike | None = None,
    quality: ArrayLike | None = None,
    similarity: Similarity = "cosine",
    gamma: float | None = None,
) -> ItemKernel:
    """The kernel of the arguments that the choice of items takes.

    Raises
    ------
    TypeError
        If not exactly one of ``L`` and ``features`` is given, or what goes with features comes with L.
    """
    if (L is None) == (features is None):
        raise TypeError("give either L or features")
    if features is not None:
        return as_features(features, quality, similarity, gamma)
    if quality is not None:
        raise TypeError("quality goes with features; scale L by it: L = q[:, None] * S * q")
    if not isinstance(L, Softmax):
        return as_kernel_matrix(L)
    if not L.unit_box:
        raise ValueError("the softmax extension must keep to the unit box: Softmax(L, unit_box=True)")
    return as_kernel_matrix(L.L) if L.factor is None else as_features(L.factor, similarity="inner")


def greedy_map(
    L: ArrayLike | Softmax | None = None,
    constraint: int | FeasibleSet | None = None,
    *,
    features: ArrayLike | None = None,
    quality: ArrayLike | None = None,
    size: int | None = None,
    similarity: Similarity = "cosine",
    gamma: float | None = None,
    full: bool = False,
) -> MapResult:
    """Greedy MAP inference: add the item that raises log det L_SS most.

    Parameters
    ----------
    L : array_like, sparse matrix or Softmax, shape (n, n), optional
        Kernel: symmetric, positive semidefinite. An array of float64 is read where it is, and checked on the rows that
        are used.
    constraint : int or FeasibleSet, optional
        A number of items at most, or the down-closed set whose 0/1 points are allowed.
    features, quality : array_like, shapes (n, r) and (n,), optional
        Instead of L: feature vectors, dense or sparse, and qualities (1 by default), see ``similarity``.
    size : int, optional
        Exactly this many items, within the constraint if there is one.
    similarity : {"cosine", "inner", "rbf"}
        What L is made of, by the rule of `drsub_fast.objectives.similarity`: L_ij = q_i q_j times the cosine of the
        feature vectors, their inner product, or exp(-gamma |v_i - v_j|^2).
    gamma : float, optional
        By default 1 / (r times the variance of the features).
    full : bool, default False
        Go on while items fit, also where they lower the determinant.

    Returns
    -------
    MapResult
        Its message says why the choice ended. Its bound is Hadamard's; `map_dpp` has better ones.

    Raises
    ------
    TypeError
        If not exactly one of ``L`` and ``features`` is given, or neither ``constraint`` nor ``size``.
    ValueError
        For an asymmetric L, one that the choice shows to be indefinite, sizes that differ, or a ``size`` that the
        constraint does not let in.
    UnsupportedError
        For a set without packing rows.

    Notes
    -----
    Chen, Zhang, Zhou 2018, on the items that can still be chosen; those that
    cannot be the next choice are not looked at. At most O(n k^2) time and O(n k)
    memory for k chosen items, and O(n r) for each with features. Under a knapsack or rows of different weights, the
    choice by log d^2 per weight is tried too, and the better set returned.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> L = [[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]
    >>> r = ds.greedy_map(L, size=2)
    >>> r.items, round(r.value, 3)
    (array([0, 2]), 2.079)
    """
    full = as_flag(full, "full")
    few = choose_few(L, features, quality, similarity, gamma, constraint, size, full)
    if few is not None:
        return _result_of(few, constraint, size)
    kernel = as_item_kernel(L, features, quality, similarity, gamma)
    family = as_packing(constraint, kernel.n, size)
    items, message = choose(kernel, family, size, full)
    return MapResult(items=items, order=items, **described(kernel, family, items, size, message))


def _result_of(few, constraint, size):
    """The result of a choice by one kernel call."""
    n = few.diagonal.size
    message = few_message(few, size)
    if few.reason == NO_GAIN and size is None:
        message = _with_count(message, few.items.size, as_packing(constraint, n, size).most)
    bound = _hadamard_later(few.diagonal, lambda: as_packing(constraint, n, size), size, few.value)
    return MapResult(few.items, few.value, few.gains, few.items, bound, message)


def few_message(few: Chosen, size: int | None) -> str:
    """Why a choice by one kernel call ended."""
    return _MESSAGES[few.reason] if size is None else size_message(size, few.independent)


def _hadamard_later(diagonal, family, size, value):
    """Hadamard's bound, when it is read; it holds on to L_ii, not to the data of the kernel."""
    return Certificate(math.inf, lambda: max(hadamard_bound(diagonal, family(), size), value))


def choose(
    kernel: ItemKernel, family: Packing, size: int | None = None, full: bool = False
) -> tuple[NDArray[np.int64], str]:
    """(items, message) of the greedy choice; under weights that differ, the better of two."""
    few = _of_matrix(kernel, family, size, full)
    if few is not None:
        return few.items, _MESSAGES[few.reason] if size is None else size_message(size, few.independent)
    if size is not None:
        return exactly(kernel, family, size)
    floor, least = gain_floor(kernel.diagonal, DEPENDENT), -1.0 if full else 1.0
    items, squared, reason = greedy_choice(kernel, family, family.most, least, floor)
    if family.is_weighted and not full:
        other, other_squared, other_reason = greedy_choice(
            kernel, family, family.most, least, floor, weight=family.relative_weight()
        )
        if np.log(other_squared).sum() > np.log(squared).sum():
            items, reason = other, other_reason
    return items, _MESSAGES[reason]


def _of_matrix(kernel, family, size, full):
    """The choice of any allowed items by a matrix that compiled code reads where it is, or None."""
    L, most = kernel.matrix(), family.most if size is None else size
    if L is None or not L.flags.writeable or not family.is_count or not most:
        return None
    groups, limits = NO_LABELS, NO_LABELS
    if not family.allowed.all():
        groups, limits = np.where(family.allowed, 0, 1), np.array([kernel.n, 0])
    users = Users(MATRIX, np.nan, L, NO_QUALITY, groups, limits)
    return choose_from(users, most, at_most(full) if size is None else EXACTLY)


def described(
    kernel: ItemKernel,
    family: Packing,
    items: NDArray[np.int64],
    size: int | None,
    message: str,
    certificate: Certificate | None = None,
    gains: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Value, gains, certificate (by Hadamard's bound if not given) and message of a set, in the order given."""
    gains = gains_in_order(kernel, items) if gains is None else gains
    value = float(gains.sum())
    if size is None:
        message = _with_count(message, items.size, family.most)
    if certificate is None:
        certificate = _hadamard_later(kernel.diagonal, lambda: family, size, value)
    return {"value": value, "gains": gains, "certificate": certificate, "message": message}


def _with_count(message, count, most):
    return f"{count} of at most {most} items: {message}" if count < most and message == _MESSAGES[NO_GAIN] else message
