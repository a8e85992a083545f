"""Greedy choice for submodular set functions, lazily, under any packing constraint.

An item's gain only falls while the set grows, so the last gain that was computed bounds it: the item of largest bound
is evaluated, and chosen if its gain is still above the next bound (Minoux 1978). Under weights the choice by gain per
weight is made too, and the better of both and of the best single item is returned. What the answer is worth, for
monotone F with F(empty) = 0:

- at most k items: (1 - 1/e) of the maximum (Nemhauser, Wolsey, Fisher 1978),
- items in one group each, or in nested groups: 1/2; in p rows each: 1 / (p + 1) (Fisher, Nemhauser, Wolsey 1978),
- one knapsack: (1 - 1/e) / 2 (Leskovec et al. 2007),
- stochastic greedy, at most k items: 1 - 1/e - epsilon in expectation (Mirzasoleiman et al. 2015).

The bound on the maximum holds for any submodular F (Nemhauser, Wolsey, Fisher 1978): for every set S,

    F(T) <= F(S) + sum_{j in T - S} (F(S + j) - F(S)) - sum_{i in S - T} (F(N) - F(N - i)),

maximised over T by one call of the linear oracle; the last sum is at least 0 for monotone F, and left out.
"""

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast._checks import as_real, as_seed
from drsub_fast.claims.premises import property_holds
from drsub_fast.discrete.bounds import log_det_bound
from drsub_fast.discrete.item_set import AS_MANY, ItemChoice
from drsub_fast.discrete.moves import Evaluations, improved
from drsub_fast.discrete.packing import Packing, as_packing
from drsub_fast.discrete.set_function import DeterminantFunction, SetFunction, as_set_function
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.result import Certificate, Guarantee
from drsub_fast.sets.base import FeasibleSet

#: Rounds in which the items that the bound rests on are evaluated anew.
_BOUND_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class GreedySet(ItemChoice):
    """A set of items chosen by `greedy`.

    Attributes
    ----------
    items : ndarray of int
        The items in the order of choice.
    certificate : Certificate
        What `upper_bound` is computed from when it is first read.
    value : float
        F of the set.
    gains : ndarray
        What each item added.
    upper_bound : float
        Proven upper bound on F over all sets that were allowed, if F is submodular; computed when it is first read.
        ``bound`` is an older name of it.
    guarantee : Guarantee
        What the greedy choice promises ahead, and whether its premise is known to hold.
    n_values : int
        Gains and values that were computed for the choice.
    message : str
        Why the choice ended.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> s = ds.greedy(ds.Multilinear.coverage([{0, 1}, {1, 2}, {2}]), size=2)
    >>> s.items.tolist(), s.value, round(s.ratio, 6)
    ([0, 1], 3.0, 1.0)
    """

    items: NDArray[np.int64]
    value: float
    gains: NDArray[np.float64]
    certificate: Certificate = field(repr=False)
    guarantee: Guarantee = field(repr=False)
    n_values: int
    message: str

    @property
    def ratio(self) -> float:
        """value / upper_bound, a proven part of the maximum; NaN where the bound is not above 0."""
        return self.value / self.upper_bound if self.upper_bound > 0.0 else math.nan

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Columns by name, one entry an item in the order of choice: item, gain, and the value so far."""
        start = self.value - self.gains.sum() if math.isfinite(self.value) else 0.0
        return {"item": self.items, "gain": self.gains, "value": start + np.cumsum(self.gains)}


def greedy(
    F: Objective | Callable[[list[int]], float],
    P: int | FeasibleSet | None = None,
    *,
    size: int | None = None,
    improve: bool = False,
    epsilon: float | None = None,
    seed: int = 0,
) -> "GreedySet":
    """Lazy greedy choice for a submodular set function.

    Parameters
    ----------
    F : Objective or callable
        A `Multilinear` or another objective, whose values at 0/1 vectors are those of the set function, or a function
        of a sorted list of items.
    P : int or FeasibleSet, optional
        A number of items at most, or the down-closed set whose 0/1 points are allowed.
    size : int, optional
        Exactly this many items, also where they lower F.
    improve : bool, default False
        Whether single additions, removals and exchanges follow (`improve_set`); for objectives.
    epsilon : float, optional
        Stochastic greedy for the largest: each choice is the best of (n / k) log(1 / epsilon) random items; in (0, 1).
        For a number of items only.
    seed : int, default 0
        Of the random items.

    Returns
    -------
    GreedySet

    Raises
    ------
    TypeError
        For neither ``P`` nor ``size``, or an F that is neither objective nor function.
    ValueError
        For sizes that differ, a ``size`` that P does not let in, or an ``epsilon`` outside (0, 1).
    UnsupportedError
        For a set that is not down-closed, or ``epsilon`` with more than a number of items.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> F = ds.Multilinear.coverage([{"a", "b"}, {"b", "c"}, {"c", "d", "e"}])
    >>> s = ds.greedy(F, 2)
    >>> s.items, s.value, round(s.upper_bound, 6)
    (array([2, 0]), 5.0, 5.0)
    """
    n = F.n if isinstance(F, Objective) else P.n if isinstance(P, FeasibleSet) else None
    function = as_set_function(F, n)
    family = as_packing(P, function.n, size)
    seed = as_seed(seed)
    if epsilon is None:
        choices = [lazy_choice(function, family, size)]
        if family.is_weighted:
            choices.append(lazy_choice(function, family, size, family.relative_weight()))
        best = max(choices, key=lambda choice: choice.value)
    else:
        best = _stochastic_choice(function, family, size, epsilon, np.random.default_rng(seed))
    if family.is_weighted and size is None:
        _better_single(best)
    if size is not None and len(best.items) < size:
        best = lazy_choice(function, family, size, start=family.some(size))
        best.message = f"{AS_MANY}: nothing fits beside the smaller greedy choice, so these are others"
    choices = [best]
    if improve:
        choices.append(_improved(F, function, family, size, best))
        best = choices[1]
    if not best.value < math.inf:
        raise ValueError(f"F of the {len(best.items)} items chosen is {best.value}: scale F down")
    monotone = F.monotone_on(np.ones(function.n)) if isinstance(F, Objective) else None
    guarantee = _guarantee(family, epsilon, monotone, best.start)
    items, gains = np.array(best.items, np.int64), np.array(best.gains, np.float64)
    n_values = function.n_values

    submodular = not isinstance(F, Objective) or property_holds(F, "dr_submodular", np.zeros(F.n), np.ones(F.n))

    def bound():
        return min(set_bound(function, family, size, choice, monotone) for choice in choices)

    certificate = Certificate(math.inf, bound if submodular not in (False, None) else None)
    return GreedySet(items, float(best.value), gains, certificate, guarantee, n_values, best.message)


class _Choice:
    """A set on its way: its items and gains; of all items the gains alone, the last ones known, and which are fresh."""

    def __init__(self, function, family):
        function.clear()
        self.function, self.family = function, family
        self.start = self.value = function.value
        self.items, self.gains, self.load, self.message = [], [], family.no_load(), ""
        self.singles = np.where(family.allowed, function.gains(np.arange(function.n)), -np.inf)
        self.last = self.singles.copy()
        self.fresh = np.ones(function.n, bool)

    def add(self, item, gain):
        self.function.add(item, gain)
        self.family.add(self.load, item)
        self.items.append(int(item))
        self.gains.append(gain)
        self.value = self.function.value


def lazy_choice(
    function: SetFunction,
    family: Packing,
    size: int | None = None,
    weight: NDArray[np.float64] | None = None,
    start: Sequence[int] | NDArray[np.int64] = (),
) -> _Choice:
    """A `_Choice` by gain, or by gain per ``weight``; exactly ``size`` items, or while the gain is positive.

    The items of ``start`` are in it from the beginning.
    """
    choice = _Choice(function, family)
    most = family.most if size is None else size
    key = choice.last if weight is None else choice.last / weight
    order = np.argsort(-key, kind="stable")
    order = order[: int((key > -np.inf).sum())].tolist()
    following = ((-key[j], j) for j in order)
    heap = list(islice(following, 1))  # the first item that was never evaluated anew, and all that were
    for j in start:
        choice.add(j, function.gains([j])[0])
    taken = set(choice.items)
    choice.message = "no further item fits the constraint" if size is None else AS_MANY
    evaluated = np.zeros(function.n, np.int64)  # the size of the set when the item was last evaluated
    while len(choice.items) < most:
        while heap:
            j = heapq.heappop(heap)[1]
            if not evaluated[j]:
                for entry in islice(following, 1):
                    heapq.heappush(heap, entry)
            if j in taken or not (family.is_count or family.fit(choice.load, np.array([j]))[0]):
                continue
            if evaluated[j] == len(choice.items):
                break
            choice.last[j] = function.gains([j])[0]
            evaluated[j] = len(choice.items)
            key_j = choice.last[j] if weight is None else choice.last[j] / weight[j]
            if not heap or key_j > -heap[0][0]:
                break
            heapq.heappush(heap, (-key_j, j))
        else:
            break
        if size is None and choice.last[j] <= 0.0:
            choice.message = "no fitting item raises the value"
            break
        choice.add(j, choice.last[j])
    choice.fresh = evaluated == len(choice.items)
    return choice


def _stochastic_choice(function, family, size, epsilon, rng):
    """Each choice is the best of a sample of the items that are left."""
    if not family.is_count:
        raise UnsupportedError("epsilon goes with a number of items, P = k or size = k, not with other constraints")
    if not 0.0 < as_real(epsilon, "epsilon") < 1.0:
        raise ValueError(f"epsilon = {epsilon:g} must be between 0 and 1")
    choice = _Choice(function, family)
    most = family.most if size is None else size
    left = np.flatnonzero(family.allowed)
    n_sampled = math.ceil(left.size / max(most, 1) * -math.log(epsilon))
    for _ in range(most):
        sample = rng.choice(left.size, min(n_sampled, left.size), replace=False)
        candidates = left[np.sort(sample)]
        found = function.gains(candidates)
        choice.last[candidates] = found
        best = int(found.argmax())
        if size is None and found[best] <= 0.0:
            continue
        choice.add(candidates[best], found[best])
        left = left[left != candidates[best]]
    choice.message = f"each item is the best of {n_sampled} random ones"
    choice.fresh = np.zeros(function.n, bool)
    return choice


def _improved(F, function, family, size, best):
    """The choice after single moves, its items in their greedy order."""
    if not isinstance(F, Objective):
        raise TypeError(f"improve goes with an objective, not with a {type(F).__name__}")
    g = Evaluations(F)
    items = improved(g, family, np.array(best.items, np.int64), size)
    within = family.without(np.setdiff1d(np.arange(function.n), items))
    order = lazy_choice(function, within, size=items.size).items
    order += [int(j) for j in np.setdiff1d(items, order)]  # those that count as dependent by themselves
    choice = lazy_choice(function, family, size=items.size, start=order)
    choice.message = f"{best.message}; {g.n_values} single moves were tried"
    return choice


def _better_single(best):
    """The best item by itself, if it is worth more than the whole set."""
    j = int(best.singles.argmax())
    if best.singles[j] > best.value - best.start:
        best.items, best.gains, best.value = [j], [best.singles[j]], best.start + best.singles[j]
        best.last, best.fresh = best.singles.copy(), np.zeros_like(best.fresh)
        best.message = "the best single item is worth more than the greedy choice"


def set_bound(
    function: SetFunction, family: Packing, size: int | None, choice: "_Choice", monotone: bool | None
) -> float:
    """The bound of the module at the empty set and at the one chosen; of determinants `log_det_bound`."""
    if isinstance(function, DeterminantFunction):
        return log_det_bound(function.kernel, family, size, choice.items)
    k = family.most if size is None else size
    P = None if family.is_count else family.P

    def most(costs):
        """(largest <costs, y>, the items it rests on) over sets of the family, or of the size."""
        costs = np.where(family.allowed, costs, -np.inf)
        largest = np.argpartition(-costs, k - 1)[:k] if k < costs.size else np.flatnonzero(family.allowed)
        if size is None:
            largest = largest[costs[largest] > 0.0]
        if P is None or size is not None:
            return costs[largest].sum(), largest
        costs = costs.clip(0.0)
        v = P.lmo(costs, np.minimum(P.upper, 1.0))
        return float(costs @ v), np.flatnonzero(v)

    function.clear()
    for item, gain in zip(choice.items, choice.gains, strict=True):
        function.add(item, gain)
    inside = np.zeros(function.n, bool)
    inside[choice.items] = True
    ends = np.zeros(function.n)
    if not monotone:
        ends[inside] = function.last_gains(choice.items)
    for _ in range(_BOUND_ROUNDS):
        _, used = most(np.where(inside, ends, choice.last))
        stale = used[~choice.fresh[used] & ~inside[used]]
        if not stale.size:
            break
        choice.last[stale] = function.gains(stale)
        choice.fresh[stale] = True
    at_start = choice.start + most(choice.singles)[0]
    if not (np.isfinite(ends).all() and np.isfinite(choice.value)):  # sets of which F is -inf
        return float(at_start)
    at_end = choice.value - ends[inside].sum() + most(np.where(inside, ends, choice.last))[0]
    return float(min(at_start, at_end) + 1e-12 * abs(choice.value))


def bound_beside(f: Objective, family: Packing, size: int | None, items: NDArray[np.int64]) -> float:
    """`set_bound` at any set of the family; infinite where f is not known to be submodular."""
    ones = np.ones(f.n)
    if property_holds(f, "dr_submodular", np.zeros(f.n), ones) in (False, None):
        return math.inf
    function = as_set_function(f)
    choice = lazy_choice(function, family, size=len(items), start=items.tolist())
    return set_bound(function, family, size, choice, f.monotone_on(ones))


def _guarantee(family, epsilon, monotone, start):
    """What greedy promises; the premise is a monotone submodular F with F(empty) = 0."""
    if epsilon is not None:
        ratio, source = 1.0 - 1.0 / math.e - epsilon, "in expectation (Mirzasoleiman et al. 2015)"
    elif family.is_count:
        ratio, source = 1.0 - 1.0 / math.e, "(Nemhauser, Wolsey, Fisher 1978)"
    elif family.is_weighted:
        ratio = 0.5 * (1.0 - 1.0 / math.e) if family.depth == 1 and family.capacity.size == 2 else None
        source = "(Leskovec et al. 2007)"
    else:
        ratio, source = 1.0 / (family.depth + 1.0), "(Fisher, Nemhauser, Wolsey 1978)"
    if ratio is None:
        return Guarantee(None, "the greedy choice promises nothing under several rows of different weights")
    holds = None if monotone is None else bool(monotone and start == 0.0)
    return Guarantee(
        ratio, f"F(S) >= {ratio:.4g} of the maximum {source}", "F is submodular, monotone and 0 for no item", holds
    )
