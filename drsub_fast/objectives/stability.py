"""Stability number s(G) of a graph by the theorem of Motzkin and Straus (1965):

    1 / s(G) = min {x'(A + I)x : x >= 0, sum x = 1},

A the adjacency matrix. As a maximum: f(x) = -x'(A + I)x, a quadratic with Hessian -2(A + I) <= 0. The simplex is
not down-closed, and f <= 0 on it, so the bounds of the paper's Theorems 1 and 2 do not apply; any x certifies
s(G) >= 1 / x'(A + I)x.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import Graph, as_adjacency, as_symmetric, as_vector, entry
from drsub_fast._kinds import OBJECTIVES, array, register_kind
from drsub_fast.objectives.quadratic import Quadratic


class StabilityNumber(Quadratic):
    """-x'(A + I)x, whose maximum over the simplex is -1 / s(G).

    Parameters
    ----------
    graph : array_like, sparse matrix or networkx graph
        Undirected graph without loops and weights: a symmetric adjacency matrix of zeros and ones.

    Raises
    ------
    ValueError
        For an entry other than 0 and 1, a loop, or an asymmetric matrix.

    Notes
    -----
    Bian et al. 2017; Motzkin and Straus 1965.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.StabilityNumber([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> f.lower_bound([0.5, 0.0, 0.5]), f.stable_set([0.2, 0.5, 0.3]).tolist()
    (2.0, [0, 2])
    """

    def __init__(self, graph: Graph) -> None:
        A = as_symmetric(as_adjacency(graph, "graph"), "graph")
        weighted = np.argwhere((A != 0.0) & (A != 1.0))
        if weighted.size:
            where = tuple(weighted[0])
            raise ValueError(f"{entry('graph', where)} = {A[where]:g}: edges have no weight here, use 0 and 1")
        super().__init__(-2.0 * (A + np.eye(len(A))), np.zeros(len(A)))

    def __repr__(self) -> str:
        return f"StabilityNumber(n={self.n})"

    @property
    def graph(self) -> NDArray[np.float64]:
        """Adjacency matrix A, shape (n, n)."""
        return -0.5 * self.H - np.eye(self.n)

    def lower_bound(self, x: ArrayLike) -> float:
        """The bound s(G) >= 1 / x'(A + I)x, for x >= 0 scaled to sum to 1."""
        return -1.0 / self.value(self._scaled(x))

    def stable_set(self, x: ArrayLike) -> NDArray[np.int64]:
        """A maximal stable set with at least ``lower_bound(x)`` vertices.

        Between two adjacent vertices the quadratic is linear, so all mass can move to one of them without
        loss; on a stable support S it is at least 1 / |S|.

        Parameters
        ----------
        x : array_like, shape (n,)
            Point >= 0, not 0.

        Returns
        -------
        vertices : ndarray of int, sorted
        """
        x = self._scaled(x)
        adjacent = self.H - np.diag(self.H.diagonal()) < 0.0
        grad = self.gradient(x)
        for i in range(self.n):
            while x[i] > 0.0:
                rivals = np.flatnonzero(adjacent[i] & (x > 0.0))
                if not rivals.size:
                    break
                j = rivals[0]
                gone, kept = (j, i) if grad[i] >= grad[j] else (i, j)
                grad += x[gone] * (self.H[:, kept] - self.H[:, gone])
                x[kept] += x[gone]
                x[gone] = 0.0
        chosen = x > 0.0
        for i in range(self.n):
            if not (adjacent[i] & chosen).any():
                chosen[i] = True
        return np.flatnonzero(chosen)

    def _scaled(self, x: ArrayLike) -> NDArray[np.float64]:
        x = as_vector(x, "x", n=self.n, lower=0.0)
        if not x.any():
            raise ValueError("x is 0: a point of the simplex is needed")
        return x / x.sum()


register_kind(
    OBJECTIVES, "stability-number", StabilityNumber, graph=array("n n", may_be_sparse=True),
    about="-x'(A + I)x of a graph", example=lambda n: {"graph": np.ones((n, n)) - np.eye(n)},
)  # fmt: skip
