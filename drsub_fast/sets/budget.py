"""Budget set {x : 0 <= x <= upper, sum x <= k}: the knapsack with unit weights."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_real, as_vector
from drsub_fast._kinds import NUMBER, SETS, array, register_kind
from drsub_fast.sets.knapsack import DisjointKnapsacks, stack_of_knapsacks


class Budget(DisjointKnapsacks):
    """Budget set {x : 0 <= x <= upper, sum x <= k}.

    Parameters
    ----------
    k : float
        Budget, at least 0.
    upper : array_like, shape (n,)
        Upper bounds, at least 0.

    Raises
    ------
    ValueError
        For a negative budget or bound, or an entry that is not finite.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.Budget(1.5, [1.0, 1.0, 1.0]).lmo([3.0, 1.0, 2.0])
    array([1. , 0. , 0.5])
    """

    k: float

    def __init__(self, k: float, upper: ArrayLike) -> None:
        self.k = as_real(k, "k", lower=0.0)
        upper = as_vector(upper, "upper", lower=0.0)
        super().__init__(np.zeros(upper.size, np.int64), np.ones(upper.size), np.array([self.k]), upper)

    def __repr__(self) -> str:
        return f"Budget(k={self.k:g}, n={self.n})"

    def violation(self, x: NDArray[np.float64]) -> str:
        """Words for the budget that x breaks."""
        return f"sum x = {x.sum():g} is above the budget {self.k:g}"


def _stack(k, upper):
    return stack_of_knapsacks(np.ones((1, upper.shape[1])), k, upper)


register_kind(
    SETS, "budget", Budget, stack=_stack, k=NUMBER, upper=array("n"), about="sum x <= k",
    example=lambda n: {"k": 1.5, "upper": np.ones(n)},
)  # fmt: skip
