"""Families of item sets as degree bounds in a bipartite graph.

Cardinality constraints, partition matroids and bipartite matchings are one thing to a combinatorial method:
every item is an edge between a left and a right node, and a node takes at most its capacity of items. An
item without a constraint of its own on one side gets a node to itself there.
"""

from collections import namedtuple

import numpy as np

from drsub_fast.errors import UnsupportedError
from drsub_fast.sets.box import Box
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.matching import MatchingPolytope
from drsub_fast.sets.partition import PartitionMatroid

#: Ends ``left`` and ``right`` (n,) of the items among the nodes, capacities of the nodes (integers), and
#: whether an item fits by itself (n,).
BipartiteFamily = namedtuple("BipartiteFamily", "left right capacity allowed")


def as_bipartite(P):
    """The 0/1 points of a set as a `BipartiteFamily`.

    Parameters
    ----------
    P : Box, Budget, PartitionMatroid or MatchingPolytope
        Fractional capacities are rounded down, as 0/1 points cannot use the rest.

    Raises
    ------
    UnsupportedError
        For any other set.
    """
    own = np.arange(P.n)
    if isinstance(P, Box):
        left, right, capacity = own, P.n + own, np.ones(2 * P.n)
    elif isinstance(P, (Budget, PartitionMatroid)):
        n_groups = P.capacities.size
        left, right, capacity = P.groups, n_groups + own, np.concatenate([P.capacities, np.ones(P.n)])
    elif isinstance(P, MatchingPolytope):
        left, right, capacity = P.left, P.n_left + P.right, P.capacities
    else:
        raise UnsupportedError(
            f"{type(P).__name__} is no bipartite constraint; a Box, Budget, PartitionMatroid or MatchingPolytope is one"
        )
    allowed = P.upper >= 1.0 - 1e-9
    return BipartiteFamily(left, right, np.floor(capacity + 1e-9).astype(np.int64), allowed)
