"""From a fractional point to a set of items.

The value of a set is f at its 0/1 vector, where a multilinear or softmax extension agrees with its set function.

- ``pipage`` (Ageev and Sviridenko 2004; Calinescu et al. 2011), in groups of items that share a constraint
  (`drsub_fast.discrete.pipage`): two fractional items of a group exchange weight, t / w_i for t / w_j, until one is 0
  or 1; the load stays. A multilinear f is convex along that line, so at one end of it f has not fallen: where it is
  rising. Where items are edges between nodes with capacities, the exchange is along a cycle or a path. One item a
  knapsack stays fractional at last: it joins if it fits, else it is dropped, and what is lost is at most its own value.
- ``threshold``: items by decreasing x, each kept if it fits; the best of the sets met on the way.
- ``randomized`` (dependent rounding, Gandhi et al. 2006): an end at random such that the expectation of every
  x_i is kept, with no value of f on the way; the best of several draws. Over other sets: independent draws,
  items taken in random order while they fit.
- ``auto``: pipage where it applies, else threshold; under a knapsack also the greedy choice by gain and by gain per
  weight, which a fractional point need not beat there; then the items that still fit and raise f.

`improve_set` adds, drops and exchanges single items while the value rises.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_flag, as_items, as_seed, as_vector, one_of
from drsub_fast.discrete.item_set import ItemChoice
from drsub_fast.discrete.moves import Evaluations, improved
from drsub_fast.discrete.packing import as_packing, require_down_closed
from drsub_fast.discrete.pipage import INTEGRAL, BetterEnd, RandomEnd, RisingEnd, can_pipage, pipage
from drsub_fast.discrete.set_function import as_set_function, indicator
from drsub_fast.discrete.set_greedy import bound_beside, lazy_choice
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.multilinear import MaximaExtension, Multilinear
from drsub_fast.result import Certificate
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.matching import MatchingPolytope
from drsub_fast.sets.problem import require_problem

METHODS = ("auto", "pipage", "threshold", "randomized")


@dataclass(frozen=True, eq=False)
class RoundedSet(ItemChoice):
    """A set of items and what it is worth.

    Attributes
    ----------
    items : ndarray of int
        The items, increasing, each once; their 0/1 vector is in the feasible set.
    value : float
        f at that vector.
    fractional_value : float
        f at the fractional point that was rounded; NaN if there was none.
    n_values : int
        How often f was evaluated, at a point or for an item's gain.
    message : str
        How the set was found.
    certificate : Certificate
        What `upper_bound` is computed from when it is first read.
    upper_bound : float
        Proven upper bound on f over all sets that were allowed, infinite where f is not known to be submodular;
        computed when it is first read. ``bound`` is an older name of it.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Multilinear.coverage([{0, 1}, {1, 2}, {2}])
    >>> s = ds.round_solution(f, ds.Budget(1, [1.0] * 3), [0.5, 0.5, 0.0])
    >>> s.items.size, s.value, s.fractional_value
    (1, 2.0, 1.75)
    """

    items: NDArray[np.int64]
    value: float
    fractional_value: float
    n_values: int
    message: str
    certificate: Certificate = field(repr=False)

    @property
    def lost(self) -> float:
        """What rounding cost: fractional_value - value; negative where the set is worth more than the point."""
        return self.fractional_value - self.value


def round_solution(
    f: Objective,
    P: FeasibleSet,
    x: ArrayLike,
    method: Literal["auto", "pipage", "threshold", "randomized"] = "auto",
    improve: bool = False,
    n_draws: int = 16,
    seed: int = 0,
    *,
    size: int | None = None,
) -> "RoundedSet":
    """Round a fractional point to a feasible set of items.

    Parameters
    ----------
    f : Objective
        Its values at 0/1 vectors are those of the set function.
    P : FeasibleSet
        Down-closed. ``pipage`` needs a Box, Budget, PartitionMatroid, Knapsack or MatchingPolytope.
    x : array_like, shape (n,)
        A point of P; entries above 1 count as 1.
    method : {"auto", "pipage", "threshold", "randomized"}
        "pipage" shifts weight between two fractional items until one is 0 or 1, so that f does not fall; "threshold"
        takes items by decreasing x while they fit; "randomized" is the best of ``n_draws`` random sets of expectation
        x; "auto" is pipage where it applies, else threshold.
    improve : bool, default False
        Whether `improve_set` follows.
    n_draws : int, default 16
        Number of sets drawn by ``randomized``.
    seed : int, default 0
        Seed of ``randomized``.
    size : int, optional
        Exactly this many items: the best ones are added, or the worst ones left out, one by one.

    Returns
    -------
    RoundedSet

    Raises
    ------
    ValueError
        If x is not in P, for an unknown method, or a ``size`` that P does not let in.
    UnsupportedError
        If P is not down-closed, or ``pipage`` cannot treat it.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Softmax([[3.0, 2.5, 0.0], [2.5, 3.0, 0.0], [0.0, 0.0, 2.0]])
    >>> P = ds.Budget(2, [1.0, 1.0, 1.0])
    >>> ds.round_solution(f, P, [0.5, 0.5, 1.0]).items
    array([0, 2])
    """
    one_of(method, "method", METHODS)
    require_problem(f, P)
    require_down_closed(P)
    improve = as_flag(improve, "improve")
    x = as_vector(x, "x", n=P.n)
    if not P.contains(x, tol=1e-6):
        raise ValueError(f"x is not in {P!r}: round a point of the set")
    family = as_packing(P, P.n, size)
    x = np.clip(x, 0.0, 1.0)
    g = Evaluations(f)
    fractional_value = g.value(x)
    if method == "auto":
        method = "pipage" if can_pipage(P) else "threshold"
        fills = size is None and family.is_weighted
    else:
        fills = False
    if method == "pipage":
        items = _fitting(family, _by_pipage(g, P, x), x)
    elif method == "threshold":
        items = _by_threshold(g, family, x)
    else:
        items = _best_draw(g, P, family, x, as_count(n_draws, "n_draws", lower=1), np.random.default_rng(as_seed(seed)))
    message = f"the point was rounded by {method}"
    if fills:
        items = _filled(g, family, items)
        message += ", or a greedy choice was better"
    return _finished(g, family, items, size, improve, fractional_value, message)


def improve_set(f: Objective, P: FeasibleSet, items: ArrayLike, *, size: int | None = None) -> "RoundedSet":
    """Add, drop and exchange single items while the value rises.

    Parameters
    ----------
    f : Objective
        Its values at 0/1 vectors are those of the set function.
    P : FeasibleSet
        Down-closed.
    items : array_like of int
        The set to begin with, each item once.
    size : int, optional
        Exactly this many items: the best ones are added, or the worst ones left out, and then only exchanges are made.

    Returns
    -------
    RoundedSet
        No single addition, removal or exchange betters it.

    Raises
    ------
    ValueError
        For an item twice, an item that does not exist, a set that is not in P, or a ``size`` that P does not let in.
    UnsupportedError
        If P is not down-closed.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.improve_set(ds.Softmax([[4.0, 0.0], [0.0, 9.0]]), ds.Budget(1, [1.0, 1.0]), [0]).items
    array([1])
    """
    require_problem(f, P)
    require_down_closed(P)
    family = as_packing(P, P.n, size)
    items = as_items(items, P.n)
    chosen = indicator(items, P.n)
    if chosen.sum() < items.size:
        values, counts = np.unique(items, return_counts=True)
        raise ValueError(f"item {values[counts > 1][0]} is given twice")
    if not P.contains(chosen):
        raise ValueError(f"the items are not in {P!r}: {P.violation(chosen)}")
    return _finished(Evaluations(f), family, np.flatnonzero(chosen), size, True, np.nan, "the set that was given")


def _finished(g, family, items, size, improve, fractional_value, message):
    if improve:
        message += "; no single move betters it"
    if improve or (size is not None and items.size != size):
        items = improved(g, family, items, size, exchanges=improve)
    items = np.sort(items)
    value = g.set_value(items)
    if not value < np.inf:
        raise ValueError(f"f of the {items.size} items is {value}: no set function has that value")
    certificate = Certificate(np.inf, partial(bound_beside, g.f, family, size, items))
    return RoundedSet(items, value, fractional_value, g.n_values, message, certificate)


def _fitting(family, items, x):
    """Those items of a rounded set that fit together, by decreasing x: entries within rounding of 1 were taken as 1."""
    load, fitting = family.no_load(), []
    for j in items[np.argsort(-x[items], kind="stable")]:
        if family.allowed[j] and family.fit(load, np.array([j]))[0]:
            family.add(load, j)
            fitting.append(j)
    return np.array(fitting, dtype=np.int64)


def _by_pipage(g, P, x):
    """Pipage; of an extension by maxima on the items that are not 0, which are all that the sets on the way hold."""
    used = np.flatnonzero(x)
    part = _Embedded(g.f.restricted(used), used) if isinstance(g.f, MaximaExtension) and used.size else g
    # Along a cycle or path of edges not even a multilinear f is convex.
    rises = isinstance(g.f, Multilinear) and not isinstance(P, MatchingPolytope)
    rounded = pipage(P, x, RisingEnd(part) if rises else BetterEnd(part))
    if part is not g:
        g.n_values += part.n_values
    return np.flatnonzero(rounded)


class _Embedded(Evaluations):
    """A restricted f at points of all items."""

    def __init__(self, f, used):
        super().__init__(f)
        self.used = used

    def value_and_gradient(self, x):
        value, grad = super().value_and_gradient(x[self.used])
        full = np.zeros(x.size)
        full[self.used] = grad
        return value, full


def _by_threshold(g, family, x):
    """The best set among those met while items join by decreasing x."""
    chosen, load = np.zeros(family.n), family.no_load()
    best, best_value, count = chosen.copy(), g.set_value([]), 0
    for j in np.argsort(-x, kind="stable"):
        if x[j] <= INTEGRAL or count == family.most:
            break
        if not (family.allowed[j] and family.fit(load, np.array([j]))[0]):
            continue
        chosen[j] = 1.0
        count += 1
        family.add(load, j)
        value = g.set_value(np.flatnonzero(chosen))
        if value > best_value:
            best, best_value = chosen.copy(), value
    return np.flatnonzero(best)


def _best_draw(g, P, family, x, n_draws, rng):
    """The best of several random sets, drawn with the marginals x where pipage applies."""
    best, best_value = np.zeros(family.n), -np.inf
    for _ in range(n_draws):
        if can_pipage(P):
            chosen = indicator(_fitting(family, np.flatnonzero(pipage(P, x, RandomEnd(rng))), x), family.n)
        else:
            chosen = _independent_draw(family, x, rng)
        value = g.set_value(np.flatnonzero(chosen))
        if value > best_value:
            best, best_value = chosen, value
    return np.flatnonzero(best)


def _independent_draw(family, x, rng):
    """Item j with chance x_j, taken in random order while the set fits."""
    chosen, load = np.zeros(family.n), family.no_load()
    for j in rng.permutation(np.flatnonzero(rng.random(family.n) < x)):
        if chosen.sum() < family.most and family.allowed[j] and family.fit(load, np.array([j]))[0]:
            chosen[j] = 1.0
            family.add(load, j)
    return chosen


def _filled(g, family, items):
    """The best of a rounded set with what fits beside it, and of the greedy choices by gain and by gain per weight."""
    function = as_set_function(g.f)
    choices = [
        lazy_choice(function, family, start=items), lazy_choice(function, family),
        lazy_choice(function, family, weight=family.relative_weight()),
    ]  # fmt: skip
    g.n_values += function.n_values
    return np.array(sorted(max(choices, key=lambda choice: choice.value).items), dtype=np.int64)
