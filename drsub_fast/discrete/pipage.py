"""Pipage: a fractional point becomes a 0/1 vector by moves along lines on which the constraint stays as tight.

A rule says which end of a line to go to: `RisingEnd` and `BetterEnd` look at f, `RandomEnd` keeps the expectation of
every entry.

Items of disjoint groups (a budget, a partition matroid, a knapsack) move in pairs within a group, along
e_i / w_i - e_j / w_j, until one of them is 0 or 1; the other meets the next fractional item of its group. Where a rule
looks at f, many pairs of a large group move at once, and f is looked at afterwards. Edges of a bipartite graph move
along a cycle, or a path between two nodes of fractional degree 1, of fractional edges: t onto its odd and -t onto its
even edges. Items of nested sets move in pairs within the innermost sets first; the one that is left fractional goes on
to the set around.
"""

from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray

from drsub_fast.discrete.moves import Evaluations
from drsub_fast.engine.jit import kernel
from drsub_fast.errors import UnsupportedError
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.knapsack import DisjointKnapsacks
from drsub_fast.sets.laminar import LaminarMatroid
from drsub_fast.sets.matching import MatchingPolytope

#: Distance from 0 or 1 below which an entry counts as integral.
INTEGRAL = 1e-9
#: Fractional items of a group from which many pairs move at a time: one out of so many items goes up. From x = k / n,
#: values after one of 2, 4, 8, 16, and after single pairs: 30 of 1000 by facility location 541, 555, 554, 555 and 543,
#: a cut of 300 nodes 3145, 3300, 3328, 3340 and 3155; gradients for 50 of 3000 by facility location 30, 45, 67, 105 and
#: 2951 (0.8, 1.0, 1.0, 1.6 and 21.5 s).
_MANY, _PART = 32, 8
#: Part of a value that is rounding.
_ROUNDING = 1e-13


def can_pipage(P: FeasibleSet) -> bool:
    """Whether `pipage` knows the set."""
    return isinstance(P, (Box, DisjointKnapsacks, MatchingPolytope, LaminarMatroid))


def pipage(
    P: FeasibleSet,
    x: NDArray[np.float64],
    choose: Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], float, float], bool],
) -> NDArray[np.float64]:
    """A 0/1 point of P from x in P.

    ``choose(x, items, direction, room_up, room_down)`` says of every line from x, along ``direction`` at ``items``,
    whether to go up it, as far as there is room, or else down.

    Raises
    ------
    UnsupportedError
        For another set than Box, Budget, PartitionMatroid, Knapsack, LaminarMatroid or MatchingPolytope.
    """
    x = np.where(P.upper >= 1.0 - INTEGRAL, x, 0.0)
    if isinstance(P, Box):
        return _by_groups(choose, _snapped(x), np.arange(P.n), np.ones(P.n), np.full(P.n, np.inf))
    if isinstance(P, DisjointKnapsacks):
        integral = np.equal(P.weights, 1.0).all()
        capacity = np.floor(P.capacities + INTEGRAL) if integral else P.capacities
        load = np.bincount(P.groups, P.weights * x, capacity.size)
        scale = _shares(capacity, load)
        return _by_groups(choose, _snapped(x * scale[P.groups]), P.groups, P.weights, capacity)
    if isinstance(P, MatchingPolytope):
        return _by_lines(choose, P, x)
    if isinstance(P, LaminarMatroid):
        return _by_nested_sets(choose, P, x)
    raise UnsupportedError(f"pipage cannot treat a {type(P).__name__}; it treats groups, nested sets and matchings")


def _shares(capacity, load, slack=0.0):
    """What loads are multiplied by so that those above their capacity are at it."""
    return np.divide(capacity, load, out=np.ones(load.size), where=load > capacity + slack)


class BetterEnd:
    """The end of larger value, for f of any kind."""

    #: Whether f is no less at the end than at x.
    keeps = False

    def __init__(self, g: Evaluations) -> None:
        self.g = g

    def __call__(
        self,
        x: NDArray[np.float64],
        items: NDArray[np.int64],
        direction: NDArray[np.float64],
        room_up: float,
        room_down: float,
    ) -> bool:
        here, values = x[items], []
        for step in (room_up, -room_down):
            _move(x, items, direction, step)
            values.append(self.g.value(x))
            x[items] = here
        return bool(values[0] >= values[1])


class RisingEnd:
    """The end towards which f rises at x: f is convex along the line, so it is no less there than at x."""

    keeps = True

    def __init__(self, g: Evaluations) -> None:
        self.g = g

    def __call__(
        self,
        x: NDArray[np.float64],
        items: NDArray[np.int64],
        direction: NDArray[np.float64],
        room_up: float,
        room_down: float,
    ) -> bool:
        if room_up == 0.0 or room_down == 0.0:
            return bool(room_down == 0.0)
        return bool(self.g.value_and_gradient(x)[1][items] @ direction >= 0.0)


class RandomEnd:
    """A random end, the present point in expectation."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(
        self,
        x: NDArray[np.float64],
        items: NDArray[np.int64],
        direction: NDArray[np.float64],
        room_up: float,
        room_down: float,
    ) -> bool:
        return self.rng.random() * (room_up + room_down) < room_down


def _move(x, items, direction, step):
    x[items] = _snapped(x[items] + step * direction)


def _snapped(x):
    """x with the entries within rounding of 0 or 1 set to it."""
    return np.where(x < INTEGRAL, 0.0, np.where(x > 1.0 - INTEGRAL, 1.0, x))


def _go(choose, x, items, direction, room_up, room_down):
    """Moves x, in place, to the end of a line that the rule chooses."""
    up = choose(x, items, direction, room_up, room_down)
    _move(x, items, direction, room_up if up else -room_down)


def _by_groups(choose, x, groups, weights, capacity):
    """Pairs within the groups, then the one item of each that is left fractional."""
    fractional = np.flatnonzero((x > 0.0) & (x < 1.0))
    fractional = fractional[np.argsort(groups[fractional], kind="stable")]
    load = np.bincount(groups, weights * x, capacity.size)
    for members in np.split(fractional, np.flatnonzero(np.diff(groups[fractional])) + 1):
        free, heavy = members[weights[members] == 0.0], members[weights[members] > 0.0]
        for i in [*free, *_paired(choose, x, heavy, weights)]:
            group, before = groups[i], x[i]
            fits = load[group] + weights[i] * (1.0 - before) <= capacity[group] * (1.0 + INTEGRAL)
            _alone(choose, x, i, fits)
            load[group] += weights[i] * (x[i] - before)
    return x


def _by_nested_sets(choose, P, x):
    """Pairs within the sets of a laminar family, from the innermost ones outwards."""
    forest, ones = P.params(), np.ones(P.n)
    capacity, load = np.floor(forest.capacity + INTEGRAL), P.A @ x
    # Fractional capacities: items of a set whose whole capacity they exceed are scaled down.
    scale = _shares(np.floor(P.b + INTEGRAL), load)
    inside = scipy.sparse.coo_array(P.A)
    smallest = ones.copy()
    np.minimum.at(smallest, inside.col, scale[inside.row])
    x = _snapped(x * smallest)
    waiting: list[list[int]] = [[] for _ in range(capacity.size + 1)]
    for j in np.flatnonzero((x > 0.0) & (x < 1.0)):
        waiting[forest.inner[j]].append(int(j))
    for s in range(capacity.size - 1, -1, -1):
        waiting[forest.parent[s]] += _paired(choose, x, waiting[s], ones)
    for alone in waiting[-1]:  # items outside of all sets, and those that the outermost sets left over
        up = x.copy()
        up[alone] = 1.0
        _alone(choose, x, alone, P.contains(np.floor(up + INTEGRAL)))
    return x


def _alone(choose, x, j, fits):
    """An end of the unit interval for one fractional item, 1 only if it fits."""
    if fits:
        _go(choose, x, np.array([j]), np.ones(1), 1.0 - x[j], x[j])
    else:
        x[j] = 0.0


def _paired(choose, x, members, weights):
    """Items of one group exchange weight in pairs, until at most one of them, which is returned in a list, is left."""
    members = list(members)
    if isinstance(choose, RandomEnd) and len(members) > 1:
        left = _random_pairs(x, np.array(members, dtype=np.int64), weights, choose.rng.random(len(members)), INTEGRAL)
        return [left] if left >= 0 else []
    if isinstance(choose, (RisingEnd, BetterEnd)) and len(members) >= _MANY:
        members = _merged(choose, x, np.array(members, dtype=np.int64), weights)
    while len(members) > 1:
        i, j = members[-2:]
        direction = np.array([1.0 / weights[i], -1.0 / weights[j]])
        room_up = min((1.0 - x[i]) * weights[i], x[j] * weights[j])
        room_down = min(x[i] * weights[i], (1.0 - x[j]) * weights[j])
        _go(choose, x, np.array([i, j]), direction, room_up, room_down)
        members = members[:-2] + [a for a in (i, j) if 0.0 < x[a] < 1.0]
    return members


def _merged(rule, x, members, weights):
    """Many pairs at a time, in place, the items of largest slope with those of least; the items left.

    Along many lines at once f need not be convex, so it is looked at, and where it fell, fewer pairs are tried from the
    same point. A single one loses nothing by a rule that keeps the value, and ends the rounds by another one.
    """
    g = rule.g
    value, grad = g.value_and_gradient(x)
    count = members.size
    while members.size >= _MANY:
        count = max(min(count, members.size // _PART), 1)
        order = members[np.argsort(-grad[members] / weights[members], kind="stable")]
        up, down = order[:count], order[: -count - 1 : -1]
        load = np.minimum((1.0 - x[up]) * weights[up], x[down] * weights[down])
        trial = x.copy()
        _move(trial, up, 1.0 / weights[up], load)
        _move(trial, down, -1.0 / weights[down], load)
        new_value, new_grad = g.value_and_gradient(trial)
        if new_value < value - _ROUNDING * abs(value):
            if count > 1:
                count //= 4
                continue
            if not rule.keeps:
                break
        x[order] = trial[order]
        value, grad, count = new_value, new_grad, 2 * count
        members = members[(x[members] > 0.0) & (x[members] < 1.0)]
    return members.tolist()


@kernel
def _random_pairs(x, members, weights, uniforms, integral):
    """`_paired` at random ends, in place; the item that is left fractional, or -1."""
    left = -1
    for t in range(members.size):
        i = members[t]
        if left < 0:
            left = i
            continue
        j, w, v = left, weights[i], weights[left]
        room_up = min((1.0 - x[i]) * w, x[j] * v)
        room_down = min(x[i] * w, (1.0 - x[j]) * v)
        step = room_up if uniforms[t] * (room_up + room_down) < room_down else -room_down
        x[i] += step / w
        x[j] -= step / v
        left = -1
        for a in (i, j):
            if x[a] < integral:
                x[a] = 0.0
            elif x[a] > 1.0 - integral:
                x[a] = 1.0
            else:
                left = a
    return left


def _by_lines(choose, P, x):
    """Cycles and paths of fractional edges."""
    left, right = P.left, P.n_left + P.right
    capacity = np.floor(P.capacities + INTEGRAL)
    load = np.bincount(left, x, capacity.size) + np.bincount(right, x, capacity.size)
    scale = _shares(capacity, load, INTEGRAL)
    x = _snapped(x * np.minimum(scale[left], scale[right]))
    ends = np.concatenate([left, right])
    edges = np.tile(np.arange(P.n), 2)[np.argsort(ends, kind="stable")]
    first = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=capacity.size))])
    walk, marks = np.empty(capacity.size + 1, np.int64), np.empty((2, capacity.size), np.int64)
    while True:
        begin, end = _cycle_or_path(x, left, right, edges, first, walk, *marks)
        if begin == end:
            return x
        line = walk[begin:end]
        direction = np.where(np.arange(line.size) % 2 == 0, 1.0, -1.0)
        odd, even = line[0::2], line[1::2]
        room_up = min((1.0 - x[odd]).min(), x[even].min(initial=1.0))
        room_down = min(x[odd].min(), (1.0 - x[even]).min(initial=1.0))
        _go(choose, x, line, direction, room_up, room_down)


@kernel
def _cycle_or_path(x, left, right, edges, first, line, degree, place):
    """A cycle of fractional edges, or a path of such between two nodes with one each: ``line[begin:end]``, in order.

    ``edges[first[i] : first[i + 1]]`` are those of the node i. Without a fractional edge begin equals end.
    """
    n_nodes = first.size - 1
    for i in range(n_nodes):
        degree[i] = 0
        place[i] = -1  # in the line, of a node that was come to
    start = -1
    for e in range(x.size):
        if 0.0 < x[e] < 1.0:
            degree[left[e]] += 1
            degree[right[e]] += 1
            if start < 0:
                start = left[e]
    if start < 0:
        return 0, 0
    for i in range(n_nodes):
        if degree[i] == 1:
            start = i
            break
    node, count, last = start, 0, -1  # nobody goes back over the last edge
    while place[node] < 0:
        place[node] = count
        taken = -1
        for t in range(first[node], first[node + 1]):
            e = edges[t]
            if e != last and 0.0 < x[e] < 1.0:
                taken = e
                break
        if taken < 0:
            return 0, count
        line[count] = last = taken
        count += 1
        node = right[taken] if node == left[taken] else left[taken]
    return place[node], count
