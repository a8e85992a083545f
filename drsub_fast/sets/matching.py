"""Matching polytope {x : 0 <= x <= upper, sum_{edges e at v} x_e <= capacities_v} of a bipartite multigraph.

One variable for every edge; {x : 0 <= x <= upper, sum of x over the edges at a node <= its capacity}. The
incidence matrix of a bipartite graph is totally unimodular, so with integer capacities and bounds every
vertex is integral, i.e. a (b-)matching (Schrijver, Combinatorial Optimization, 2003, theorem 21.2).

The oracle is a transportation problem, solved by successive shortest paths (Tomizawa 1971; Ahuja, Magnanti, Orlin,
Network Flows, 1993, section 9.7). Left nodes enter one by one, each with its capacity as supply; a unit goes to a
right node with residual capacity, or stays unmatched, at the entering node or at another that gives up one of its own.
With duals y >= 0 of the nodes,

    y_l + y_r >= d_e where x_e < upper_e,   y_l + y_r <= d_e where x_e > 0,
    y_r = 0 where r has residual capacity,   y_l = 0 where supply of l stays unmatched,

prove the flow optimal; the shortest paths are those of the slacks of the first line (Dijkstra's method, ended at
the first node where a path may stop), and raising or lowering y by what is left of the distance keeps all
four. Bounds and capacities need not be integers. It has no tolerances, and is exact up to
rounding in y; where that may show, because gains differ by many decades, HiGHS answers.
"""

import math
from collections import namedtuple
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, as_count, as_number_or_vector, require_at_least
from drsub_fast._kinds import COUNT, SETS, array, register_kind
from drsub_fast.engine.codes import NEEDS_SOLVER, OK
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.sets.base import register_set
from drsub_fast.sets.polytope import Polytope

#: Edges by their end nodes (all numbered jointly, the left ones first), the edges at each node, capacities, and the
#: number of paths after which HiGHS takes over.
MatchingParams = namedtuple("MatchingParams", "left right start incident capacity n_left max_paths")
MatchingWork = namedtuple("MatchingWork", "dual distance residual parent queue first next")

#: Paths allowed for each edge and node. Integer data need one for each unit of supply.
_PATHS = 20
#: Relative rounding of the duals, and the part of the value that it may cost before HiGHS takes over: gains and
#: capacities then differ by many decades from edge to edge.
_ROUNDING, _LOSS = 1e-15, 1e-9
#: Marks an edge that is in no list, and the end of a list.
_UNLISTED, _END = -2, -1


@kernel
def _size(params):
    n_nodes = params.capacity.size
    return 3 * n_nodes, 3 * n_nodes + params.left.size


@kernel(memory=True)
def _carve(params, floats, integers):
    k = params.capacity.size
    return MatchingWork(*split(floats, k, k, k), *split(integers, k, k, k, params.left.size))


@kernel
def _relax(params, work, node, direction, upper, v, count):
    """Shortens the distances of the neighbours of a node whose own is final; returns the number of nodes reached."""
    dual, distance, parent, queue = work.dual, work.distance, work.parent, work.queue
    forward = node < params.n_left
    neighbours = params.right if forward else params.left
    # A left node leads to its edges below their bounds, a right one back along those that carry flow, which it lists.
    position = params.start[node]
    e = params.incident[position] if forward and position < params.start[node + 1] else work.first[node]
    while e != _END:
        if (v[e] < upper[e]) if forward else (v[e] > 0.0):
            other = neighbours[e]
            slack = dual[node] + dual[other] - direction[e]
            length = distance[node] + max(slack if forward else -slack, 0.0)
            if length < distance[other]:
                if distance[other] == math.inf:
                    queue[count] = other
                    count += 1
                distance[other] = length
                parent[other] = e
        if forward:
            position += 1
            e = params.incident[position] if position < params.start[node + 1] else _END
        else:
            e = work.next[e]
    return count


@kernel
def _shortest_path(params, work, source, direction, upper, v):
    """The node where the shortest path from ``source`` ends; updates the duals by the distances."""
    dual, distance, queue = work.dual, work.distance, work.queue
    distance[source] = 0.0
    queue[0] = source
    count, final = 1, 0  # nodes reached, and how many of them, the first in the queue, have their final distance
    end, best = source, math.inf
    while True:
        place, least = -1, best
        for i in range(final, count):
            if distance[queue[i]] < least:
                place, least = i, distance[queue[i]]
        if place < 0:
            break
        node = queue[place]
        queue[place] = queue[final]
        queue[final] = node
        final += 1
        if (node < params.n_left or work.residual[node] > 0.0) and least + dual[node] < best:
            end, best = node, least + dual[node]
        count = _relax(params, work, node, direction, upper, v, count)
    for i in range(final):
        node = queue[i]
        change = max(best - distance[node], 0.0)
        dual[node] = max(dual[node] - change, 0.0) if node < params.n_left else dual[node] + change
    for i in range(count):
        distance[queue[i]] = math.inf
    return end


@kernel
def _push(params, work, source, end, upper, v):
    """Sends as much as fits along the path that `_shortest_path` found."""
    amount = work.residual[source]
    if end >= params.n_left:
        amount = min(amount, work.residual[end])
    node = end
    while node != source:
        e = work.parent[node]
        amount = min(amount, upper[e] - v[e] if node >= params.n_left else v[e])
        node = params.left[e] + params.right[e] - node
    node = end
    while node != source:
        e = work.parent[node]
        if node >= params.n_left:
            if work.next[e] == _UNLISTED:
                work.next[e] = work.first[node]
                work.first[node] = e
            # What is filled is filled exactly, so that the path is not found again.
            v[e] = upper[e] if upper[e] - v[e] <= amount else v[e] + amount
        else:
            v[e] = 0.0 if v[e] <= amount else v[e] - amount
        node = params.left[e] + params.right[e] - node
    work.residual[source] -= amount
    work.residual[end] += amount if end < params.n_left else -amount


@kernel
def _lmo(params, work, direction, upper, v):
    dual, residual = work.dual, work.residual
    for e in range(v.size):
        v[e] = 0.0
        work.next[e] = _UNLISTED
    for i in range(dual.size):
        dual[i] = 0.0
        work.distance[i] = math.inf
        work.first[i] = _END
        residual[i] = params.capacity[i]
    paths = params.max_paths
    for source in range(params.n_left):
        for i in range(params.start[source], params.start[source + 1]):
            e = params.incident[i]
            if upper[e] > 0.0:
                dual[source] = max(dual[source], direction[e] - dual[params.right[e]])
        while residual[source] > 0.0 and dual[source] > 0.0:
            end = _shortest_path(params, work, source, direction, upper, v)
            if end == source:
                break
            _push(params, work, source, end, upper, v)
            paths -= 1
            if paths < 0:
                return NEEDS_SOLVER
    return OK if _is_precise(params, direction, upper, v) else NEEDS_SOLVER


@kernel
def _is_precise(params, direction, upper, v):
    """Whether rounding in the duals, as large as the largest gain's, cannot have cost a visible part of the value."""
    largest = value = most = 0.0
    for e in range(v.size):
        if direction[e] > 0.0 and upper[e] > 0.0:
            largest = max(largest, direction[e])
            value += direction[e] * v[e]
            most += min(upper[e], params.capacity[params.left[e]], params.capacity[params.right[e]])
    return _ROUNDING * largest * most <= _LOSS * value


register_set(MatchingParams, set_size=_size, set_carve=_carve, lmo=_lmo)


def _as_edges(edges, n_left, n_right):
    """The end nodes of each edge, as two vectors of int64."""
    ends = as_array(edges, "edges", 2)
    if ends.shape[1] != 2 or len(ends) == 0:
        raise ValueError(f"edges must have shape (n, 2) with n >= 1, got {ends.shape}")
    for side, count in ((0, n_left), (1, n_right)):
        bad = (ends[:, side] != np.floor(ends[:, side])) | (ends[:, side] < 0) | (ends[:, side] >= count)
        if bad.any():
            e = int(bad.argmax())
            place = ("left", "right")[side]
            raise ValueError(f"edges[{e}, {side}] = {ends[e, side]:g} is not a {place} node from 0 to {count - 1}")
    return ends[:, 0].astype(np.int64), ends[:, 1].astype(np.int64)


class MatchingPolytope(Polytope):
    """Matching polytope {x : 0 <= x <= upper, sum_{edges e at v} x_e <= capacities_v} of a bipartite multigraph.

    Parameters
    ----------
    edges : array_like of int, shape (n, 2)
        Left and right end of each edge, counted from 0 on each side; parallel edges are allowed.
    n_left, n_right : int
        Number of nodes on each side.
    capacities : array_like, shape (n_left + n_right,), or float, default 1
        Capacity of each node, the left ones first; one number serves all nodes.
    upper : array_like, shape (n,), or float, default 1
        Upper bounds.

    Raises
    ------
    ValueError
        For an end that is no node, a negative capacity or bound, or an entry that is not finite.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.MatchingPolytope([(0, 0), (0, 1), (1, 0)], n_left=2, n_right=2)
    >>> P.lmo([3.0, 2.0, 2.0])
    array([0., 1., 1.])
    """

    n_left: int
    n_right: int
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    capacities: NDArray[np.float64]

    def __init__(
        self, edges: ArrayLike, n_left: int, n_right: int, capacities: ArrayLike = 1.0, upper: ArrayLike = 1.0
    ) -> None:
        self.n_left, self.n_right = as_count(n_left, "n_left", lower=1), as_count(n_right, "n_right", lower=1)
        self.left, self.right = _as_edges(edges, self.n_left, self.n_right)
        n, n_nodes = self.left.size, self.n_left + self.n_right
        self.capacities = as_number_or_vector(capacities, "capacities", n_nodes)
        require_at_least(self.capacities, 0.0, "capacities", ": the set is empty")
        ends = np.concatenate([self.left, self.n_left + self.right])
        A = scipy.sparse.csc_matrix((np.ones(2 * n), (ends, np.tile(np.arange(n), 2))), shape=(n_nodes, n))
        upper = as_number_or_vector(upper, "upper", n, lower=0.0)
        super().__init__(A, self.capacities, np.minimum(upper, self.capacities[ends].reshape(2, n).min(axis=0)))
        start = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n_nodes))]).astype(np.int64)
        incident = np.argsort(ends, kind="stable").astype(np.int64) % n
        self._network = MatchingParams(
            ends[:n], ends[n:], start, incident, self.capacities, self.n_left, _PATHS * (n + n_nodes)
        )

    def __repr__(self) -> str:
        return f"MatchingPolytope(edges={self.n}, n_left={self.n_left}, n_right={self.n_right})"

    @property
    def edges(self) -> NDArray[np.float64]:
        """Left and right end of each edge, shape (n, 2)."""
        return np.column_stack([self.left, self.right])

    def params(self, lmo: str = "auto") -> tuple[Any, ...]:
        return super().params(lmo) if lmo == "highs" else self._network

    def load_basis(self, solver: HighsOracle, params: tuple[Any, ...], work: tuple[Any, ...]) -> None:
        """Nothing: the oracle starts afresh at every call."""

    def violation(self, x: NDArray[np.float64]) -> str:
        """Words for the node that x overloads most."""
        load = self.A @ x
        node = int((load - self.capacities).argmax())
        name = f"left node {node}" if node < self.n_left else f"right node {node - self.n_left}"
        return f"the load {load[node]:g} of {name} is above its capacity {self.capacities[node]:g}"


register_kind(
    SETS, "matching-polytope", MatchingPolytope, edges=array("n 2"), n_left=COUNT, n_right=COUNT,
    capacities=array("nodes", may_be_number=True), upper=array("n", may_be_number=True),
    about="a bipartite graph",
    example=lambda n: {"edges": np.array([[j % 2, (j + 1) // 2 % 2] for j in range(n)]), "n_left": 2, "n_right": 2},
)  # fmt: skip
