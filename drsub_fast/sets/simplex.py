"""Simplex {x >= 0, sum x = total}. It is not down-closed: x = 0 is outside.

The guarantees for down-closed sets (1/4, 1/e) do not hold over it; that of Mualem and Feldman (2023),
(1 - min |x|_inf) / 4 over [0, 1]^n, does.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_real, as_vector
from drsub_fast._kinds import COUNT, NUMBER, SETS, register_kind
from drsub_fast.sets.knapsack import DisjointKnapsacks


class Simplex(DisjointKnapsacks):
    """Simplex {x >= 0, sum x = total}.

    Parameters
    ----------
    n : int
        Number of variables, at least 1.
    total : float, default 1
        Sum of the variables, at least 0.

    Raises
    ------
    ValueError
        For n < 1, or a total that is negative or not finite.
    OracleError
        By the oracle and the projection, when bounds from `with_upper` sum to less than ``total``.

    Notes
    -----
    Not down-closed: solvers begin at `start()`, the centre.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.Simplex(3)
    >>> P.lmo([-3.0, -1.0, -2.0])
    array([0., 1., 0.])
    >>> P.start().round(3)
    array([0.333, 0.333, 0.333])
    """

    total: float

    def __init__(self, n: int, total: float = 1.0) -> None:
        n = as_count(n, "n", lower=1)
        self.total = as_real(total, "total", lower=0.0)
        super().__init__(
            np.zeros(n, np.int64), np.ones(n), np.array([self.total]), np.full(n, self.total), equality=True
        )

    def __repr__(self) -> str:
        return f"Simplex(n={self.n}, total={self.total:g})"

    def start(self, upper: ArrayLike | None = None) -> NDArray[np.float64]:
        """The centre, or the point closest to it below the upper bounds, shape (n,)."""
        P = self if upper is None else self.with_upper(upper)
        return P.project(np.full(self.n, self.total / self.n))

    def diameter(self, upper: ArrayLike | None = None) -> float:
        u = self._clipped(upper)
        # From vertex to vertex; |x - y|^2 <= |x|^2 + |y|^2 and |x|^2 <= max(u) sum x.
        largest = min(self.total, float(u.max()))
        return 0.0 if self.n == 1 else float(min(np.linalg.norm(u), np.sqrt(2.0 * self.total * largest)))

    def spread(self, cost: ArrayLike, upper: ArrayLike | None = None) -> float:
        cost = as_vector(cost, "cost", n=self.n, lower=0.0)
        u = self._clipped(upper)
        # What is above the other point's entries sums to the same on both sides, at most to the total.
        below = DisjointKnapsacks(self.groups, self.weights, self.capacities, 0.5 * u)
        return 0.0 if self.n == 1 else float(2.0 * (cost @ below.lmo(cost)))

    def min_max_norm_point(self, upper: ArrayLike | None = None) -> NDArray[np.float64]:
        """The point whose largest entry, in units of the upper bounds, is smallest, shape (n,): they are filled alike.

        Raises
        ------
        OracleError
            If the bounds sum to less than ``total``.
        """
        P = self if upper is None else self.with_upper(upper)
        most = P._upper.sum()
        if most < self.total * (1.0 - 1e-10):
            raise P._no_answer("point of least norm")
        return P._upper * (self.total / most) if most > 0.0 else np.zeros(self.n)


register_kind(
    SETS, "simplex", Simplex, n=COUNT, total=NUMBER, about="sum x = total", example=lambda n: {"n": n, "total": 1.0}
)
