"""Down-closed polytope {x : A x <= b, 0 <= x <= upper} with A >= 0 and b >= 0."""

import math
from collections import namedtuple
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import MatrixLike, as_array, as_sparse, as_vector, dense, entry, first_few, require_at_least
from drsub_fast._kinds import LARGEST, SETS, array, register_kind, within
from drsub_fast.engine.codes import NEEDS_SOLVER
from drsub_fast.engine.dispatch import own, row_of
from drsub_fast.engine.jit import kernel
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.lp.projection import project_onto_rows
from drsub_fast.lp.rows import breaches, shrink_into_rows
from drsub_fast.lp.simplex import simplex_follow, simplex_load, simplex_maximize, simplex_track
from drsub_fast.lp.tableau import simplex_carve, simplex_size
from drsub_fast.sets.base import FeasibleSet, register_set
from drsub_fast.sets.rows import (
    ScipyBounds,
    ScipyConstraints,
    bounds_from_scipy,
    rows_from_scipy,
    rows_from_zero,
    variables_in_scipy,
)

#: Up to so many entries of A the kernel is faster whatever their pattern.
_MANY_ENTRIES = 100_000

#: How the oracle answers: by the compiled simplex where it can, or by the solver alone.
KERNEL, SOLVER = 0, 1

#: The data in scaled units (see `scale_polytope`), the unit of each column, the mode, and the address of the
#: compiled `_run_task` in this process.
PolytopeParams = namedtuple("PolytopeParams", "A b scale mode")

# What `_run_task` is asked for.
_MAXIMIZE, _TRACK = range(2)


@kernel
def _power_of_two(x):
    """The power of two below x > 0, within the range that keeps products finite."""
    _, exponent = math.frexp(x)
    return math.ldexp(1.0, min(max(exponent - 1, -500), 500))


def _powers_of_two(x):
    """Those of `_power_of_two`; 0 where x is not above 0."""
    return np.where(x > 0.0, np.ldexp(1.0, np.clip(np.frexp(x)[1] - 1, -500, 500)), 0.0)


def _scale_in_arrays(A, b, upper, params):
    units = _powers_of_two(b)
    per_unit = np.divide(1.0, units, out=np.zeros_like(b), where=units > 0.0)
    params.scale[:] = _powers_of_two(upper)
    params.b[:] = np.where(units > 0.0, b * per_unit, 1.0)
    np.multiply(A, per_unit[:, None], out=params.A)
    np.multiply(params.A, params.scale, out=params.A)


@kernel(plain=_scale_in_arrays)
def scale_polytope(A, b, upper, params):
    """Writes {A x <= b, 0 <= x <= upper} into params, columns in units of upper and rows in units of b.

    All units are powers of two, so nothing is rounded. ``upper`` must not exceed what the rows imply: a row with
    b = 0 fixes its columns at 0 and is left empty, and a column fixed at 0 has the unit 0.
    """
    m, n = A.shape
    for j in range(n):
        params.scale[j] = _power_of_two(upper[j]) if upper[j] > 0.0 else 0.0
    for i in range(m):
        per_unit = 1.0 / _power_of_two(b[i]) if b[i] > 0.0 else 0.0
        params.b[i] = b[i] * per_unit if b[i] > 0.0 else 1.0
        for j in range(n):
            params.A[i, j] = A[i, j] * per_unit * params.scale[j]


@kernel
def _size(params):
    return simplex_size(params.A.shape[0], params.A.shape[1])


@kernel(memory=True)
def _carve(params, floats, integers):
    return simplex_carve(params.A.shape[0], params.A.shape[1], floats, integers)


@kernel(separate=True)
def _run_task(params, work, task, direction, upper, v):
    """What is compiled once, not again inside every loop."""
    if task == _TRACK:
        return int(simplex_track(params, work, direction))
    return simplex_maximize(params, work, direction, upper, v)


@kernel
def _lmo(params, work, direction, upper, v):
    if params.mode == SOLVER:
        return NEEDS_SOLVER
    return _run_task(params, work, _MAXIMIZE, direction, upper, v)


@kernel
def _track(params, work, rate):
    return params.mode == KERNEL and _run_task(params, work, _TRACK, rate, rate, rate) != 0


@kernel
def _follow(params, work, decay, gamma, upper, v):
    return params.mode == KERNEL and simplex_follow(params, work, decay, gamma, upper, v)


@kernel(memory=True)
def _problem_at(stack, i):
    return PolytopeParams(own(stack.A, i), own(stack.b, i), own(stack.scale, i), stack.mode)


register_set(
    PolytopeParams,
    set_size=_size,
    set_carve=_carve,
    lmo=_lmo,
    track=_track,
    follow=_follow,
    problem_at=_problem_at,
)


def blank_params(m: int, n: int, mode: int) -> PolytopeParams:
    """Parameters to be filled in by `scale_polytope`."""
    return PolytopeParams(np.empty((m, n)), np.empty(m), np.empty(n), mode)


def _as_constraint_matrix(A: MatrixLike) -> Any:
    """A as a C-contiguous float64 array or a CSC matrix, entries checked: finite and >= 0."""
    if scipy.sparse.issparse(A):
        matrix = as_sparse(A, "A", scipy.sparse.csc_matrix)
        values = matrix.data
        if values.min(initial=0.0) < 0.0:
            bad = int(np.flatnonzero(values < 0.0)[0])
            where = (matrix.indices[bad], np.searchsorted(matrix.indptr, bad, side="right") - 1)
            raise ValueError(f"{entry('A', where)} = {values[bad]:g} is negative: the set is not down-closed")
        return matrix
    matrix = as_array(A, "A", 2)
    require_at_least(matrix, 0.0, "A", ": the set is not down-closed; use GeneralPolytope for such a set")
    return matrix


def _tightest_upper(A: Any, b: NDArray[np.float64]) -> NDArray[np.float64]:
    """u_j = min_i b_i / A_ij over the rows with A_ij > 0, as in the paper."""
    if scipy.sparse.issparse(A):
        upper = np.full(A.shape[1], np.inf)
        columns = np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))
        positive = A.data > 0.0
        with np.errstate(over="ignore"):
            np.minimum.at(upper, columns[positive], b[A.indices[positive]] / A.data[positive])
        return upper
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.where(A > 0.0, b[:, None] / A, np.inf)
    return ratios.min(axis=0, initial=np.inf)


class Polytope(FeasibleSet):
    """Down-closed polytope {x : A x <= b, 0 <= x <= upper}.

    Parameters
    ----------
    A : array_like or scipy.sparse matrix, shape (m, n)
        Constraint matrix, entrywise >= 0. m may be 0.
    b : array_like, shape (m,)
        Right-hand sides, >= 0.
    upper : array_like, shape (n,), optional
        Upper bounds, >= 0. By default the tightest bound that the rows imply, min_i b_i / A_ij.

    Raises
    ------
    ValueError
        For a wrong shape, an entry that is not finite, a negative entry of A, b or upper, or a variable
        that no row bounds when ``upper`` is not given.

    Notes
    -----
    A >= 0 and b >= 0 make the set down-closed, and x = 0 feasible.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.Polytope([[1.0, 2.0]], [2.0])
    >>> P.upper
    array([2., 1.])
    >>> P.lmo([1.0, 1.0])
    array([2., 0.])
    """

    m: int
    A: Any
    b: NDArray[np.float64]

    def __init__(self, A: MatrixLike, b: ArrayLike, upper: ArrayLike | None = None) -> None:
        self.A = _as_constraint_matrix(A)
        m, n = self.A.shape
        if n == 0:
            raise ValueError("A has no columns: at least one variable is needed")
        b = as_array(b, "b", 1)
        if b.size != m:
            raise ValueError(f"b has {b.size} entries, A has {m} rows")
        require_at_least(b, 0.0, "b", ": the set is empty")
        tightest = _tightest_upper(self.A, b)
        if upper is None:
            if not np.isfinite(tightest).all():
                j = int(np.flatnonzero(~np.isfinite(tightest))[0])
                if self.A[:, [j]].sum() > 0.0:
                    raise ValueError(f"the bound that the rows imply for x[{j}] is above the largest float: give upper")
                raise ValueError(f"no row bounds x[{j}] (column {j} of A is zero): give upper")
            upper = tightest
        else:
            upper = as_vector(upper, "upper", n=n, lower=0.0)
        self.n, self.m = n, m
        self.b = b
        self._upper = upper
        self._scale_from = np.minimum(upper, tightest)
        self._prepared: dict[int, PolytopeParams] = {}

    @classmethod
    def from_scipy(cls, bounds: ScipyBounds, constraints: ScipyConstraints = ()) -> "Polytope":
        """The polytope of SciPy's bounds and linear constraints.

        Parameters
        ----------
        bounds : scipy.optimize.Bounds or sequence of pairs
            Lower bounds 0; upper bounds may be infinite where rows imply them.
        constraints : LinearConstraint or list of LinearConstraint
            Rows.

        Returns
        -------
        Polytope

        Raises
        ------
        ValueError
            If the set is not down-closed (the entries at fault are named) or not bounded.
        UnsupportedError
            For a constraint that is not linear.

        Examples
        --------
        >>> from scipy.optimize import Bounds, LinearConstraint
        >>> import drsub_fast as ds
        >>> ds.Polytope.from_scipy(Bounds(0.0, 1.0), LinearConstraint([[1.0, 2.0]], ub=1.5))
        Polytope(m=1, n=2)
        """
        n = variables_in_scipy(bounds, constraints)
        lower, upper = bounds_from_scipy(bounds, n)
        shifted = np.flatnonzero(lower != 0.0)
        if shifted.size:
            names = first_few(f"{entry('lb', (j,))} = {lower[j]:g}" for j in shifted)
            raise ValueError(f"not down-closed: lower bounds that are not 0: {names}; substitute x = lb + y")
        A, row_lower, row_upper = rows_from_scipy(constraints, n)
        rows = rows_from_zero(A, row_lower, row_upper, lower, upper)
        if rows.reasons:
            raise ValueError(f"not down-closed: {first_few(rows.reasons)}; use GeneralPolytope for such a set")
        return cls(rows.A, rows.b, rows.upper)

    def __repr__(self) -> str:
        return f"Polytope(m={self.m}, n={self.n})"

    def params(self, lmo: str = "auto") -> tuple[Any, ...]:
        by_solver = lmo == "highs" or (lmo == "auto" and self._is_large_and_sparse)
        mode = SOLVER if by_solver else KERNEL
        if mode not in self._prepared:
            self._prepared[mode] = self._prepare(mode)
        return self._prepared[mode]

    @cached_property
    def _is_large_and_sparse(self):
        """Whether HiGHS answers sooner than the kernel, which works with all m n entries.

        Time of HiGHS over that of the kernel, first program / 50 non-monotone steps: dense 500 x 500 46 / 47,
        1000 x 1000 31 / 26; random 300 x 300 with 1 % nonzero 2.2 / 8.3, 1000 x 1000 with 5 %, 1 % and 0.2 %
        4.3 / 4.3, 2.2 / 0.95 and 0.26 / 0.44; one entry a column 100 x 1000 4.2 / 6.4, 500 x 2000 0.17 / 0.55.
        """
        sparse, entries = scipy.sparse.issparse(self.A), self.m * self.n
        if entries <= _MANY_ENTRIES:
            return False
        if sparse and entries > 4_000_000:  # 100 MB in the kernel
            return True
        return bool((self.A.nnz if sparse else np.count_nonzero(self.A)) < 0.02 * entries)

    def _prepare(self, mode):
        if mode == SOLVER:
            return blank_params(0, 0, mode)
        params = blank_params(self.m, self.n, mode)
        scale_polytope(np.ascontiguousarray(dense(self.A)), self.b, self._scale_from, params)
        return params

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_prepared": {}}

    def load_basis(self, solver: HighsOracle, params: Any, work: tuple[Any, ...]) -> None:
        if params.mode == KERNEL:
            columns, rows = solver.basis()
            simplex_load(params, work, columns, rows, solver.direction, solver.upper)

    def solver(self, upper: NDArray[np.float64], lmo: str = "auto") -> HighsOracle:
        return HighsOracle(self.A, self.b, upper, sizes=self._scale_from)

    def constraints_hold(self, x: NDArray[np.float64], tol: float) -> bool:
        return bool((breaches(self.A, x, self.b) <= tol).all())

    def into_constraints(self, x: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        return shrink_into_rows(x, self.A, self.b)

    def project_by_solver(self, y: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        return project_onto_rows(y, self.A, self.b, upper, sizes=self._scale_from)


@kernel
def _scale_stack(A, b, upper, tightest, stack, accepted):
    """`scale_polytope` for every polytope of a stack, with the tightest bounds; which of them can be solved so."""
    m, n = A.shape[1:]
    for i in range(accepted.size):
        rows, sides, bounds, implied = A[row_of(A, i)], b[row_of(b, i)], upper[row_of(upper, i)], tightest[i]
        n_bad = 0
        for j in range(n):
            implied[j] = math.inf
        for r in range(m):
            n_bad += not 0.0 <= sides[r] <= LARGEST
            for j in range(n):
                n_bad += not 0.0 <= rows[r, j] <= LARGEST
                implied[j] = min(implied[j], sides[r] / rows[r, j] if rows[r, j] > 0.0 else math.inf)
        scale = stack.scale[i]
        for j in range(n):
            scale[j] = min(implied[j], bounds[j])
            n_bad += not scale[j] < math.inf
        accepted[i] = n_bad == 0
        if n_bad == 0:
            scale_polytope(rows, sides, scale, PolytopeParams(stack.A[i], stack.b[i], scale, stack.mode))


def _stack(A, b, upper=None):
    m, n = A.shape[1:]
    if m * n > _MANY_ENTRIES:
        return None  # each for itself, by the kernel or HiGHS
    bounds = np.full((1, n), np.inf) if upper is None else upper
    count = max(len(A), len(b), len(bounds))
    stack = PolytopeParams(np.empty((count, m, n)), np.empty((count, m)), np.empty((count, n)), KERNEL)
    tightest, accepted = np.empty((count, n)), np.empty(count, bool)
    _scale_stack(A, b, bounds, tightest, stack, accepted)
    upper = tightest if upper is None else upper
    return stack, upper, accepted & within(upper, 0.0, LARGEST)


register_kind(
    SETS,
    "polytope",
    Polytope,
    stack=_stack,
    A=array("m n", may_be_sparse=True),
    b=array("m"),
    upper=array("n"),
    about="Ax <= b with A, b >= 0",
    example=lambda n: {
        "A": np.array([1.0, 2.0, 0.5] * n)[:n] ** [[1.0], [-1.0]],
        "b": np.array([1.2, 0.8]),
        "upper": np.ones(n),
    },
)
