"""From a fractional point to a set of items.

The value of a set is f at its 0/1 vector, where a multilinear or softmax extension agrees with its set function.

- ``threshold``: items by decreasing x, each kept if it fits; the best of the sets met on the way.
- ``pipage`` (Ageev and Sviridenko 2004; Calinescu et al. 2011): where items are edges between nodes with
  capacities (`drsub_fast.discrete.bipartite`), the fractional edges hold a cycle or a path between two nodes
  of fractional degree 1. Adding t to its odd and -t to its even edges keeps every load within capacity, until an
  edge becomes 0 or 1 at either end of the range of t. Taking the better end is the method of conditional
  expectations: f never falls if it is multilinear, or convex along such lines, as it is along e_i - e_j.
- ``randomized`` (dependent rounding, Gandhi et al. 2006): an end at random such that the expectation of every
  x_i is kept, with no value of f on the way; the best of several draws. Over other sets: independent draws,
  items taken in random order while they fit.

`improve_set` adds, drops and swaps single items while the value rises. The gradient at the 0/1 vector orders
the candidates: exactly for a multilinear f (its entries are the gains), and for a softmax extension, since exp f
is multilinear and log(1 + grad_i) the gain.
"""

from dataclasses import dataclass

import numpy as np

from drsub_fast._checks import as_count, as_items, as_seed, as_vector, one_of
from drsub_fast.discrete.bipartite import as_bipartite
from drsub_fast.errors import UnsupportedError

#: Distance from 0 or 1 below which an entry counts as integral.
_INTEGRAL = 1e-9


@dataclass(frozen=True)
class RoundedSet:
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
        How often f was evaluated.
    """

    items: np.ndarray
    value: float
    fractional_value: float
    n_values: int


class _SetFunction:
    """f on 0/1 vectors, with NaN (a singular kernel) as -inf; counts evaluations."""

    def __init__(self, f):
        self.f = f
        self.n_values = 0

    def value_and_gradient(self, x):
        self.n_values += 1
        value, grad = self.f.value_and_gradient(x)
        return (-np.inf if np.isnan(value) else value), grad

    def value(self, x):
        return self.value_and_gradient(x)[0]


def round_solution(f, P, x, method="pipage", improve=False, n_draws=16, seed=0):
    """Round a fractional point to a feasible set of items.

    Parameters
    ----------
    f : Objective
        Its values at 0/1 vectors are those of the set function.
    P : FeasibleSet
        Down-closed. ``pipage`` needs a Box, Budget, PartitionMatroid or MatchingPolytope.
    x : array_like, shape (n,)
        A point of P; entries above 1 count as 1.
    method : {"pipage", "threshold", "randomized"}
        See the module.
    improve : bool, default False
        Whether `improve_set` follows.
    n_draws : int, default 16
        Number of sets drawn by ``randomized``.
    seed : int, default 0
        Seed of ``randomized``.

    Returns
    -------
    RoundedSet

    Raises
    ------
    ValueError
        If x is not in P, or for an unknown method.
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
    one_of(method, "method", ("pipage", "threshold", "randomized"))
    _require_down_closed(P)
    x = as_vector(x, "x", n=P.n)
    if not P.contains(x, tol=1e-6):
        raise ValueError(f"x is not in {P!r}: round a point of the set")
    x = np.clip(x, 0.0, 1.0)
    g = _SetFunction(f)
    fractional_value = g.value(x)
    if method == "threshold":
        chosen = _threshold(g, P, x)
    elif method == "pipage":
        chosen = _pipage(_better_end(g), as_bipartite(P), x)
    else:
        chosen = _best_draw(g, P, x, as_count(n_draws, "n_draws", lower=1), np.random.default_rng(as_seed(seed)))
    if improve:
        chosen = _improved(g, P, chosen)
    return _package(g, chosen, fractional_value)


def improve_set(f, P, items):
    """Add, drop and swap single items while the value rises.

    Parameters
    ----------
    f : Objective
        Its values at 0/1 vectors are those of the set function.
    P : FeasibleSet
        Down-closed.
    items : array_like of int
        The set to begin with, each item once.

    Returns
    -------
    RoundedSet
        No single addition, removal or swap (the best partner by the gradient for each item) betters it.

    Raises
    ------
    ValueError
        For an item twice, an item that does not exist, or a set that is not in P.
    UnsupportedError
        If P is not down-closed.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.improve_set(ds.Softmax([[4.0, 0.0], [0.0, 9.0]]), ds.Budget(1, [1.0, 1.0]), [0]).items
    array([1])
    """
    _require_down_closed(P)
    chosen = np.zeros(P.n)
    items = as_items(items, P.n)
    chosen[items] = 1.0
    if chosen.sum() < items.size:
        values, counts = np.unique(items, return_counts=True)
        raise ValueError(f"item {values[counts > 1][0]} is given twice")
    if not P.contains(chosen):
        raise ValueError(f"the items are not in {P!r}: {P.violation(chosen)}")
    g = _SetFunction(f)
    return _package(g, _improved(g, P, chosen), np.nan)


def _require_down_closed(P):
    if not P.is_down_closed:
        raise UnsupportedError(f"{type(P).__name__} is not down-closed: items cannot be left out to make a set fit")


def _package(g, chosen, fractional_value):
    value = g.value(chosen)
    return RoundedSet(np.flatnonzero(chosen), value, fractional_value, g.n_values)


def _threshold(g, P, x):
    """The best set among those met while items join by decreasing x."""
    chosen = np.zeros(P.n)
    best, best_value = chosen.copy(), g.value(chosen)
    for j in np.argsort(-x, kind="stable"):
        if x[j] <= _INTEGRAL:
            break
        chosen[j] = 1.0
        if not P.contains(chosen):
            chosen[j] = 0.0
            continue
        value = g.value(chosen)
        if value > best_value:
            best, best_value = chosen.copy(), value
    return best


def _better_end(g):
    """A rule for `_pipage`: the end of larger value."""

    def choose(up, down, room_up, room_down):
        return up if g.value(up) >= g.value(down) else down

    return choose


def _random_end(rng):
    """A rule for `_pipage`: a random end, the present point in expectation."""

    def choose(up, down, room_up, room_down):
        return up if rng.random() * (room_up + room_down) < room_down else down

    return choose


def _pipage(choose, family, x):
    """A 0/1 point of the family, from x by moves along cycles and paths of fractional edges."""
    x = _snapped(_inside(family, x))
    while True:
        fractional = np.flatnonzero((x > 0.0) & (x < 1.0))
        if fractional.size == 0:
            return x
        line = _cycle_or_path(family, fractional)
        odd, even = line[0::2], line[1::2]
        room_up = min((1.0 - x[odd]).min(), x[even].min(initial=1.0))
        room_down = min(x[odd].min(), (1.0 - x[even]).min(initial=1.0))
        x = choose(_moved(x, odd, even, room_up), _moved(x, odd, even, -room_down), room_up, room_down)


def _moved(x, odd, even, step):
    moved = x.copy()
    moved[odd] += step
    moved[even] -= step
    return _snapped(moved)


def _snapped(x):
    """x with the entries within rounding of 0 or 1 set to it."""
    return np.where(x < _INTEGRAL, 0.0, np.where(x > 1.0 - _INTEGRAL, 1.0, x))


def _inside(family, x):
    """x without the items that do not fit, scaled down at the nodes whose whole capacity it exceeds."""
    x = np.where(family.allowed, x, 0.0)
    load = np.bincount(family.left, x, family.capacity.size) + np.bincount(family.right, x, family.capacity.size)
    scale = np.where(load > family.capacity + _INTEGRAL, family.capacity / np.maximum(load, _INTEGRAL), 1.0)
    return x * np.minimum(scale[family.left], scale[family.right])


def _cycle_or_path(family, edges):
    """Edges, in order, of a cycle, or of a path between two nodes of degree 1 in the graph of ``edges``."""
    at = {}
    for e in edges.tolist():
        at.setdefault(int(family.left[e]), []).append(e)
        at.setdefault(int(family.right[e]), []).append(e)
    node = next((node for node, ends in at.items() if len(ends) == 1), int(family.left[edges[0]]))
    line, place, used = [], {node: 0}, set()
    while True:
        edge = next((e for e in at[node] if e not in used), None)
        if edge is None:
            return np.array(line)
        used.add(edge)
        line.append(edge)
        left, right = int(family.left[edge]), int(family.right[edge])
        node = right if node == left else left
        if node in place:
            return np.array(line[place[node] :])
        place[node] = len(line)


def _best_draw(g, P, x, n_draws, rng):
    """The best of several random sets, drawn with the marginals x where the family is bipartite."""
    try:
        family = as_bipartite(P)
    except UnsupportedError:
        family = None
    best, best_value = np.zeros(P.n), -np.inf
    for _ in range(n_draws):
        chosen = _independent_draw(P, x, rng) if family is None else _pipage(_random_end(rng), family, x)
        value = g.value(chosen)
        if value > best_value:
            best, best_value = chosen, value
    return best


def _independent_draw(P, x, rng):
    """Item j with chance x_j, taken in random order while the set fits."""
    chosen = np.zeros(P.n)
    for j in rng.permutation(np.flatnonzero(rng.random(P.n) < x)):
        chosen[j] = 1.0
        if not P.contains(chosen):
            chosen[j] = 0.0
    return chosen


def _improved(g, P, chosen):
    """Local search by single items; every accepted move raises the value."""
    value, grad = g.value_and_gradient(chosen)
    if value == -np.inf:
        chosen = np.zeros(P.n)
        value, grad = g.value_and_gradient(chosen)
    while True:
        least = value + 1e-10 * (1.0 + abs(value))
        for candidate in _neighbours(g, P, chosen, grad):
            candidate_value, candidate_grad = g.value_and_gradient(candidate)
            if candidate_value > least:
                chosen, value, grad = candidate, candidate_value, candidate_grad
                break
        else:
            return chosen


def _neighbours(g, P, chosen, grad):
    """The best addition, the best removal, and for each item the best swap, as the gradient ranks them."""
    addition = _with_best_item(P, chosen, grad, exclude=-1)
    if addition is not None:
        yield addition
    items = np.flatnonzero(chosen)
    items = items[np.argsort(grad[items], kind="stable")]
    for rank, i in enumerate(items):
        without = chosen.copy()
        without[i] = 0.0
        if rank == 0:
            yield without
        swapped = _with_best_item(P, without, g.value_and_gradient(without)[1], exclude=i)
        if swapped is not None:
            yield swapped


def _with_best_item(P, chosen, grad, exclude):
    """The set with the fitting item of largest positive gradient, or None."""
    open_items = np.flatnonzero((chosen == 0.0) & (grad > 0.0))
    for j in open_items[np.argsort(-grad[open_items], kind="stable")]:
        if j != exclude:
            candidate = chosen.copy()
            candidate[j] = 1.0
            if P.contains(candidate):
                return candidate
    return None
