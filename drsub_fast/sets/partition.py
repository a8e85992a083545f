"""Partition matroid polytope {x : 0 <= x <= upper, sum_{j in group g} x_j <= c_g}.

With integer capacities and bounds its vertices are integral (a generalised partition matroid).
"""

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_labels, as_number_or_vector, as_numbers, as_vector, require_at_least
from drsub_fast._kinds import SETS, array, register_kind
from drsub_fast.sets.knapsack import DisjointKnapsacks


class PartitionMatroid(DisjointKnapsacks):
    """Partition matroid polytope {x : 0 <= x <= upper, sum_{j in group g} x_j <= capacities_g}.

    Parameters
    ----------
    groups : array_like of int, shape (n,)
        Group of each variable, from 0.
    capacities : array_like, shape (n_groups,), or float
        Capacity of each group, at least 0; one number serves all groups.
    upper : array_like, shape (n,), or float, default 1
        Upper bounds, at least 0.

    Raises
    ------
    ValueError
        For a label that is not an integer in range, a negative capacity or bound, or an entry that is not
        finite.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.PartitionMatroid([0, 0, 1, 1], [1.0, 2.0])
    >>> P.lmo([1.0, 2.0, 3.0, -1.0])
    array([0., 1., 1., 0.])
    """

    def __init__(self, groups: ArrayLike, capacities: ArrayLike, upper: ArrayLike = 1.0) -> None:
        are_names = isinstance(groups, (list, tuple)) and any(isinstance(group, str) for group in groups)
        if are_names or (isinstance(groups, np.ndarray) and groups.dtype.kind in "UST"):
            raise TypeError(
                "groups are numbers from 0 on, not names: names, groups = np.unique(groups, return_inverse=True)"
            )
        if np.shape(as_numbers(capacities, "capacities")) == ():
            groups = as_labels(groups, "groups")
            capacities = as_number_or_vector(capacities, "capacities", int(groups.max()) + 1)
        else:
            capacities = as_vector(capacities, "capacities")
            groups = as_labels(groups, "groups", count=capacities.size)
        require_at_least(capacities, 0.0, "capacities", ": the set is empty")
        upper = as_number_or_vector(upper, "upper", groups.size, lower=0.0)
        super().__init__(groups, np.ones(groups.size), capacities, upper)

    def __repr__(self) -> str:
        return f"PartitionMatroid(groups={self.capacities.size}, n={self.n})"


register_kind(
    SETS, "partition-matroid", PartitionMatroid, groups=array("n"),
    capacities=array("groups", may_be_number=True), upper=array("n", may_be_number=True),
    about="a budget a group", example=lambda n: {"groups": np.arange(n) // 2, "capacities": 1.0},
)  # fmt: skip
