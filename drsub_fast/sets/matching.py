"""Matching polytope of a bipartite multigraph with node capacities.

One variable for every edge; {x : 0 <= x <= upper, sum of x over the edges at a node <= its capacity}. The
incidence matrix of a bipartite graph is totally unimodular, so with integer capacities and bounds every
vertex is integral, i.e. a (b-)matching (Schrijver, Combinatorial Optimization, 2003, theorem 21.2).

The set is a sparse down-closed polytope, and its oracle is that of `Polytope`.
"""

import numpy as np
import scipy.sparse

from drsub_fast._checks import as_array, as_count, as_vector, require_at_least
from drsub_fast.sets.polytope import Polytope

#: Entries of the incidence matrix up to which it is kept dense, for the compiled simplex.
_DENSE_ENTRIES = 200_000


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
    """Matching polytope of a bipartite multigraph with node capacities.

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

    def __init__(self, edges, n_left, n_right, capacities=1.0, upper=1.0):
        self.n_left, self.n_right = as_count(n_left, "n_left", lower=1), as_count(n_right, "n_right", lower=1)
        self.left, self.right = _as_edges(edges, self.n_left, self.n_right)
        n, n_nodes = self.left.size, self.n_left + self.n_right
        capacities = np.full(n_nodes, capacities) if np.ndim(capacities) == 0 else capacities
        self.capacities = as_vector(capacities, "capacities", n=n_nodes)
        require_at_least(self.capacities, 0.0, "capacities", ": the set is empty")
        rows = np.concatenate([self.left, self.n_left + self.right])
        columns = np.concatenate([np.arange(n), np.arange(n)])
        A = scipy.sparse.csc_matrix((np.ones(2 * n), (rows, columns)), shape=(n_nodes, n))
        upper = as_vector(np.full(n, upper) if np.ndim(upper) == 0 else upper, "upper", n=n, lower=0.0)
        alone = np.minimum(self.capacities[self.left], self.capacities[self.n_left + self.right])
        super().__init__(A.toarray() if n_nodes * n <= _DENSE_ENTRIES else A, self.capacities, np.minimum(upper, alone))

    def __repr__(self):
        return f"MatchingPolytope(edges={self.n}, n_left={self.n_left}, n_right={self.n_right})"

    def violation(self, x):
        """Words for the node that x overloads most."""
        load = self.A @ x
        node = int((load - self.capacities).argmax())
        name = f"left node {node}" if node < self.n_left else f"right node {node - self.n_left}"
        return f"the load {load[node]:g} of {name} is above its capacity {self.capacities[node]:g}"
