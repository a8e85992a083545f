"""General polytope {x : A x <= b, A_eq x = b_eq, lower <= x <= upper}, entries of any sign.

Not down-closed in general: x = 0 may be outside, and what lies below a point of the set may be outside too. The
oracle is HiGHS, warm-started. Stationary points are found as over any convex set; of the guarantees only that
of Mualem and Feldman (2023), (1 - min |x|_inf) / 4 for a set in [0, 1]^n, holds, and it begins at the point
that `GeneralPolytope.min_max_norm_point` finds by the linear program min {t : -t u <= x <= t u, x in P}.
"""

from collections import namedtuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import Matrix, MatrixLike, as_array, as_sparse, as_vector
from drsub_fast._kinds import SETS, array, register_kind
from drsub_fast.engine.codes import NEEDS_SOLVER
from drsub_fast.engine.jit import kernel
from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.lp.projection import project_onto_rows
from drsub_fast.lp.rows import breaches, implied_sizes, move_into_rows
from drsub_fast.sets.base import FeasibleSet, register_set

GeneralParams = namedtuple("GeneralParams", "n")

#: Variables up to which the diameter looks for the range of each: two programs of half a millisecond or so.
_RANGES_UP_TO = 500


@kernel
def _lmo(params, work, direction, upper, v):
    return NEEDS_SOLVER


register_set(GeneralParams, lmo=_lmo)


def _as_rows(A, b, name, n):
    """A pair (CSC matrix, right-hand sides), empty where both are None."""
    side = "b" + name[1:]
    if A is None and b is None:
        return scipy.sparse.csc_matrix((0, n)), np.zeros(0)
    if A is None or b is None:
        raise ValueError(f"give both {name} and {side}, or neither")
    if scipy.sparse.issparse(A):
        matrix = as_sparse(A, name, scipy.sparse.csc_matrix)
    else:
        matrix = scipy.sparse.csc_matrix(as_array(A, name, 2))
    if matrix.shape[1] != n:
        raise ValueError(f"{name} has {matrix.shape[1]} columns, upper has {n} entries")
    b = as_array(b, side, 1)
    if b.size != matrix.shape[0]:
        raise ValueError(f"{side} has {b.size} entries, {name} has {matrix.shape[0]} rows")
    return matrix, b


class GeneralPolytope(FeasibleSet):
    """Polytope {x : A x <= b, A_eq x = b_eq, lower <= x <= upper}.

    Parameters
    ----------
    A : array_like or scipy.sparse matrix, shape (m, n), optional
        Rows of the inequalities, of any sign.
    b : array_like, shape (m,), optional
        Their right-hand sides.
    A_eq : array_like or scipy.sparse matrix, shape (m_eq, n), optional
        Rows of the equations.
    b_eq : array_like, shape (m_eq,), optional
        Their right-hand sides.
    lower : array_like, shape (n,), optional
        Lower bounds, by default 0. Negative ones suit functions that are DR-submodular there, or the
        reduction `to_orthant`.
    upper : array_like, shape (n,)
        Upper bounds, finite: the set must be bounded.

    Raises
    ------
    ValueError
        For wrong shapes, an entry that is not finite, a lower bound above the upper one, or an empty set.

    Notes
    -----
    Not down-closed, as a point below one of the set may be outside: solvers begin at `start()`, a vertex found by
    HiGHS.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.GeneralPolytope(A_eq=[[1.0, 1.0, 1.0]], b_eq=[1.0], upper=[1.0, 0.5, 0.25])
    >>> P.lmo([-3.0, -1.0, -2.0])
    array([0.25, 0.5 , 0.25])
    >>> round(float((P.min_max_norm_point() / P.upper).max()), 3)
    0.571
    """

    b: NDArray[np.float64]
    A: Matrix
    A_eq: Matrix
    b_eq: NDArray[np.float64]

    is_down_closed = False
    _lower: NDArray[np.float64]

    def __init__(
        self,
        A: MatrixLike | None = None,
        b: ArrayLike | None = None,
        A_eq: MatrixLike | None = None,
        b_eq: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> None:
        if upper is None:
            raise ValueError("give upper: the set must be bounded")
        self._upper = as_vector(upper, "upper")
        self.n = n = self._upper.size
        self._lower = np.zeros(n) if lower is None else as_vector(lower, "lower", n=n)
        crossed = np.flatnonzero(self._lower > self._upper)
        if crossed.size:
            j = int(crossed[0])
            raise ValueError(
                f"the set is empty: lower[{j}] = {self._lower[j]:g} is above upper[{j}] = {self._upper[j]:g}"
            )
        self.A, self.b = _as_rows(A, b, "A", n)
        self.A_eq, self.b_eq = _as_rows(A_eq, b_eq, "A_eq", n)
        self._rows = scipy.sparse.vstack([self.A, self.A_eq], format="csc")
        self._row_upper = np.concatenate([self.b, self.b_eq])
        self._row_lower = np.concatenate([np.full(self.b.size, -np.inf), self.b_eq])
        self._sizes = implied_sizes(self._rows, self._row_upper, self._row_lower, self._upper, self._lower)
        self._params = GeneralParams(n)
        self._first_vertex: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        try:
            self._first_vertex = self._upper, self.start()
        except OracleError as error:
            if error.status == "Infeasible":
                raise ValueError(f"the set is empty: {self._contradiction()}") from None
            raise ValueError(f"no point of the set was found: {error}") from None

    def __repr__(self) -> str:
        return f"GeneralPolytope(m={self.b.size}, m_eq={self.b_eq.size}, n={self.n})"

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower bounds, shape (n,) (read-only)."""
        view = self._lower.view()
        view.flags.writeable = False
        return view

    def solver(self, upper: NDArray[np.float64], lmo: str = "auto") -> HighsOracle:
        return HighsOracle(
            self._rows, self._row_upper, upper, row_lower=self._row_lower, lower=self._lower, sizes=self._sizes,
            inside=self._inside,
        )  # fmt: skip

    @property
    def _inside(self):
        """A point of the set, where one was found already."""
        return None if self._first_vertex is None else self._first_vertex[1]

    def constraints_hold(self, x: NDArray[np.float64], tol: float) -> bool:
        return bool((breaches(self._rows, x, self._row_upper, self._row_lower) <= tol).all())

    def into_constraints(self, x: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        sides = self._row_upper, self._row_lower, upper, self._lower
        return move_into_rows(x, self._rows, *sides, self._sizes, self._inside)

    def violation(self, x: NDArray[np.float64]) -> str:
        """Words for the row that x breaks most."""
        rows = self._rows @ x
        excess = np.maximum(rows - self._row_upper, self._row_lower - rows)
        i = int(excess.argmax())
        if i < self.b.size:
            return f"row {i} of A x = {rows[i]:g} is above b[{i}] = {self.b[i]:g}"
        i -= self.b.size
        return f"row {i} of A_eq x = {rows[i + self.b.size]:g} is not b_eq[{i}] = {self.b_eq[i]:g}"

    def _contradiction(self):
        """Words for what leaves no point."""
        up, down = self._rows.maximum(0.0), self._rows.minimum(0.0)
        low = up @ self._lower + down @ self._upper
        high = up @ self._upper + down @ self._lower
        excess = np.maximum(low - self._row_upper, self._row_lower - high)
        i = int(excess.argmax())
        if excess[i] <= 1e-9:
            return (
                "each row can hold between lower and upper, but not all of A x <= b and A_eq x = b_eq together; check "
                "the signs of A and A_eq (a row >= is given as -row <=), and raise b or change b_eq"
            )
        name, k = ("A", i) if i < self.b.size else ("A_eq", i - self.b.size)
        relation, side = ("above b", self.b) if name == "A" else ("and not b_eq", self.b_eq)
        return (
            f"between lower and upper, row {k} of {name} x is in [{low[i]:g}, {high[i]:g}], {relation}[{k}] = "
            f"{side[k]:g}; change that entry, the row or the bounds"
        )

    def start(self, upper: ArrayLike | None = None) -> NDArray[np.float64]:
        """A vertex of the set, below ``upper``, shape (n,)."""
        upper = self._clipped(upper)
        if self._first_vertex is not None and np.array_equal(upper, self._first_vertex[0]):
            return self._first_vertex[1].copy()
        return self.solver(upper).maximize(np.zeros(self.n), upper)

    def diameter(self, upper: ArrayLike | None = None) -> float:
        u = self._clipped(upper)
        return float(np.sqrt(self.spread(self._ranges(u), u)))

    def _ranges(self, u):
        """max x_j - min x_j over the set below u, shape (n,): two linear programs a variable, for a few hundred."""
        width = u - self._lower
        if self.n > _RANGES_UP_TO:
            return width
        oracle, cost, ends = self.solver(u), np.zeros(self.n), np.empty((2, self.n))
        for j in range(self.n):
            for side, sign in zip(ends, (1.0, -1.0), strict=True):
                cost[j] = sign
                side[j] = oracle.maximize(cost, u)[j]
            cost[j] = 0.0
        # The oracle's answers are optimal up to its tolerance.
        return np.clip(ends[0] - ends[1] + 1e-9 * width, 0.0, width)

    def spread(self, cost: ArrayLike, upper: ArrayLike | None = None) -> float:
        # |x_j - y_j| <= t_j with t = min(2 (s - l), 2 (u - s), u - l) at the middle s of x and y, a point of the set.
        cost = as_vector(cost, "cost", n=self.n, lower=0.0)
        u = self._clipped(upper)
        n, identity = self.n, scipy.sparse.identity(self.n)
        rows = scipy.sparse.bmat(
            [[self._rows, None], [-2.0 * identity, identity], [2.0 * identity, identity]], format="csc"
        )
        row_upper = np.concatenate([self._row_upper, -2.0 * self._lower, 2.0 * u])
        row_lower = np.concatenate([self._row_lower, np.full(2 * n, -np.inf)])
        width = u - self._lower
        bound, lower = np.concatenate([u, width]), np.concatenate([self._lower, np.zeros(n)])
        oracle = HighsOracle(rows, row_upper, bound, row_lower=row_lower, lower=lower)
        return float(cost @ oracle.maximize(np.concatenate([np.zeros(n), cost]), bound)[n:])

    def min_max_norm_point(self, upper: ArrayLike | None = None) -> NDArray[np.float64]:
        """A point of the set, below ``upper``, whose largest entry, in units of the bounds, is smallest, shape (n,)."""
        upper = self._clipped(upper)
        # Variables (x, t), with the rows x - s t <= 0 and -x - s t <= 0 below the set's; s: the bounds' magnitude.
        n, identity = self.n, scipy.sparse.identity(self.n)
        magnitude = np.maximum(np.abs(self._lower), np.abs(upper))
        column = scipy.sparse.csc_matrix(magnitude[:, np.newaxis])
        rows = scipy.sparse.bmat([[self._rows, None], [identity, -column], [-identity, -column]], format="csc")
        row_upper = np.concatenate([self._row_upper, np.zeros(2 * n)])
        row_lower = np.concatenate([self._row_lower, np.full(2 * n, -np.inf)])
        bound, lower = np.append(upper, 1.0), np.append(self._lower, 0.0)
        sizes = np.append(self._sizes, 1.0)
        oracle = HighsOracle(rows, row_upper, bound, row_lower=row_lower, lower=lower, sizes=sizes)
        return self.move_inside(oracle.maximize(np.append(np.zeros(n), -1.0), bound)[:n], upper)

    def project_by_solver(self, y: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        return project_onto_rows(
            y, self._rows, self._row_upper, upper, self._row_lower, self._lower, self._sizes, self._inside
        )


register_kind(
    SETS, "general-polytope", GeneralPolytope, A=array("m n", may_be_sparse=True), b=array("m"),
    A_eq=array("m_eq n", may_be_sparse=True), b_eq=array("m_eq"), lower=array("n"), upper=array("n"),
    about="any rows and equations",
    example=lambda n: {"A": np.ones((2, n)) * [[1.0], [-1.0]], "b": np.array([1.5, -0.5]), "upper": np.ones(n)},
)  # fmt: skip
