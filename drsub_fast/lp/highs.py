"""The linear oracle by HiGHS, warm-started: the only file that imports highspy.

One model per solve: between calls only the cost and the column bounds change, so each run of the (dual or
primal) simplex starts from the last basis. What the wrapper takes care of:

- HiGHS's tolerances are absolute, so it is given a scaled program: columns in units of their sizes, rows in units of
  their largest term or side, all powers of two. In units of 1e-8 an unscaled row may be broken by four times its side.
  The cost is divided by its largest gain, or magnitude: with max|c| = 1e-7 an unscaled cost loses 2.6e-2 of the optimal
  value, a scaled one 4e-14.
- A run may end without an optimum and still leave a vector behind (that of the previous call, or zeros):
  both the run status and the model status are checked, and anything but an optimum raises.
- HiGHS accepts infinite costs and sometimes NaN, and a bound of -1e-16 is infeasible to it: inputs are checked,
  and bounds clipped.
- HiGHS drops matrix entries below 1e-12 with a warning. Of a scaled row they are less than rounding in its other
  entries; they are left out beforehand.
- Tightening HiGHS's tolerances does not improve its primal values; solving once more with the factors of
  the final basis does (from 1e-7 to 1e-13), and is cheap beside a run. What a row still misses is mended by the
  functions of `lp.rows`.
- ``threads`` is never set: HiGHS's scheduler belongs to the whole process, and a size other than the one
  it started with makes a run fail.

Source: Huangfu and Hall, Parallelizing the dual revised simplex method, Math. Prog. Comp. 10 (2018).
"""

from typing import NamedTuple

import numpy as np
import scipy
from highspy import _core
from numpy.typing import NDArray

from drsub_fast._checks import Matrix
from drsub_fast.engine.clock import require_time, thread_time_left
from drsub_fast.errors import OracleError
from drsub_fast.lp.rows import move_into_rows, powers_of_two, shrink_into_rows

# The base class: highspy.Highs prints a banner and switches callbacks on in its constructor.
_Model = _core._Highs
# With the default dual tolerance of 1e-7, Frank-Wolfe runs end visibly elsewhere (5e-7 of f) than with exact vertices.
_OPTIONS = {
    "output_flag": False,
    "solver": "simplex",
    "presolve": "off",
    "parallel": "off",
    "dual_feasibility_tolerance": 1e-10,
    "primal_feasibility_tolerance": 1e-10,
    "pdlp_optimality_tolerance": 1e-7,
    "small_matrix_value": 1e-12,
}
#: As `small_matrix_value`: entries of scaled rows below it are left out before HiGHS does so with a warning.
_SMALLEST_ENTRY = 1e-12
#: Of a down-closed program: costs below minus this, in units of the largest gain, can only keep a variable at 0.
_LARGEST_LOSS = 1e6
#: Of the largest gain of a column in its whole unit, the share that costs are measured in at least.
_SMALLEST_SHARE = 1e-6
#: Programs with more rows and columns together than the first number begin, in every call, with as many simplex
#: iterations from the last basis as the second number times those; what is left undone then is left to the interior
#: point. Random rows with 0.1 % nonzero, b = 1, seconds of the simplex and the interior point: 5000 columns and half as
#: many rows 0.07 and 0.13, 10,000 columns 5.2 and 0.9, and 5.6 from the basis for a cost that differs by 1 %. Where few
#: rows are tight or a cost hardly changes the simplex ends within its share. Where it did not, it is not tried in the
#: next call, where it did not again, in the next 3, and so on up to the third number: it costs a tenth of a second to
#: begin, and 100 steps with shrinking bounds at 10,000 columns take 138 s if it is always tried, 86 with pauses.
_LARGE, _SHARE, _LONGEST_PAUSE = 10_000, 0.05, 15
#: Sum of the squares of the columns' numbers of entries, about the entries of A A', from which on a first-order method
#: (PDLP) takes the place of the interior point, whose factors fill up: at 20,000 columns, half as many rows, 0.1 %
#: nonzero (2.2 million) one step of the interior point takes 3 s and it ends after 22, PDLP after less than 60 s in
#: all; at 10,000 columns (300,000) 0.9 s against 7. Its tolerances: at 1e-10 it hardly ends.
_FILLED, _PDLP_TOLERANCE = 1_000_000, 1e-8
_BY_STEPS = {
    "solver": "pdlp",
    "pdlp_optimality_tolerance": _PDLP_TOLERANCE,
    "dual_feasibility_tolerance": _PDLP_TOLERANCE,
    "primal_feasibility_tolerance": _PDLP_TOLERANCE,
}
_COLUMN_WISE, _MAXIMIZE, _NO_LIMIT = 1, -1, 2_147_483_647
# A refinement that moves a value by more than this, relative, is no refinement.
_REFINEMENT = 1e-6


def _require(status, what):
    if status != _core.HighsStatus.kOk:
        raise OracleError(f"HiGHS refused the {what} of the linear program ({status.name})", status.name)


def _set(model, options):
    for name, value in options.items():
        _require(model.setOptionValue(name, value), f"option {name}")


def _model_of(cost, lower, upper, row_lower, row_upper, matrix, integer, options):
    """A model that maximises; ``matrix`` by columns, ``integer`` (n,) where variables are."""
    m, n = matrix.shape
    model = _Model()
    _set(model, options)
    _require(
        model.passModel(
            n, m, matrix.nnz, _COLUMN_WISE, _MAXIMIZE, 0.0, cost, lower, upper, row_lower, row_upper,
            matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data, integer.astype(np.int32),
        ),
        "model",
    )  # fmt: skip
    return model


class HighsOracle:
    """Maximise <direction, v> over {v : row_lower <= A v <= b, lower <= v <= upper} by warm-started HiGHS.

    Parameters
    ----------
    A : ndarray or scipy.sparse matrix, shape (m, n)
        Constraint matrix.
    b : ndarray, shape (m,)
        Upper sides of the rows.
    upper : ndarray, shape (n,)
        Upper bounds of the first call.
    row_lower : ndarray, shape (m,), optional
        Lower sides of the rows; by default none. Equal to ``b`` for equations.
    lower : ndarray, shape (n,), optional
        Lower bounds of the columns; by default 0.
    sizes : ndarray, shape (n,), optional
        How large each variable can be over the rows and bounds; 0 for one that is 0 throughout. By default the larger
        of its bounds.
    inside : ndarray, shape (n,), optional
        A point of the set, as in `move_into_rows`.

    Attributes
    ----------
    pivots : int
        Simplex iterations of all calls so far, those of a crossover included.
    direction, upper : ndarray, shape (n,)
        Cost and bounds of the last call.

    Notes
    -----
    One object serves one thread.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = HighsOracle(np.array([[1.0, 2.0]]), np.array([2.0]), np.array([1.0, 1.0]))
    >>> oracle.maximize(np.array([1.0, 1.0]), np.array([1.0, 1.0]))
    array([1. , 0.5])
    """

    direction: NDArray[np.float64]
    upper: NDArray[np.float64]
    pivots: int

    def __init__(
        self,
        A: Matrix,
        b: NDArray[np.float64],
        upper: NDArray[np.float64],
        row_lower: NDArray[np.float64] | None = None,
        lower: NDArray[np.float64] | None = None,
        sizes: NDArray[np.float64] | None = None,
        inside: NDArray[np.float64] | None = None,
    ) -> None:
        self._m, self._n = m, n = A.shape
        self._inside = inside
        self._A = A.tocsr() if hasattr(A, "tocsr") else A
        self._b = np.asarray(b, dtype=np.float64)
        self._lower = np.zeros(n) if lower is None else np.array(lower, dtype=np.float64)
        self._row_lower = np.full(m, -np.inf) if row_lower is None else np.array(row_lower, dtype=np.float64)
        self.direction, self._cost_unit = np.zeros(n), 1.0
        self.upper = self._bounds(upper)
        sizes = np.maximum(np.abs(self._lower), np.abs(self.upper)) if sizes is None else sizes
        self._sizes = sizes
        self._fixed = sizes <= 0.0
        self._scale = powers_of_two(sizes)
        matrix, row_scale = self._scaled_rows()
        self._matrix, self._row_scale = matrix, row_scale
        self._sides = self._row_lower / row_scale, self._b / row_scale
        # Rows and bounds that 0 satisfies, and any point below one that does.
        self._is_down_closed = (
            not self._lower.any() and (self._row_lower == -np.inf).all() and matrix.data.min(initial=0.0) >= 0.0
        )
        # Without nonzeros HiGHS solves by inspection, and asking for its factors crashes the process.
        self._has_factors = matrix.nnz > 0
        self._columns = np.arange(n, dtype=np.int32)
        self._range = self._scaled_bounds()
        self.pivots = 0
        self._has_solved = False
        self._pause, self._to_skip = 0, 0
        self._may_go_by_steps, self._by_steps = True, False
        self._model = _model_of(np.zeros(n), *self._range, *self._sides, matrix, np.zeros(n), _OPTIONS)

    def _scaled_rows(self):
        """The matrix in units of columns and rows, without what is nothing beside its row, and the rows' units."""
        matrix = scipy.sparse.csc_matrix(self._A, dtype=np.float64, copy=True)
        per_column = np.diff(matrix.indptr)
        with np.errstate(over="ignore"):
            matrix.data *= np.repeat(np.where(self._fixed, 0.0, self._scale), per_column)
        if not np.isfinite(matrix.data).all():
            raise OracleError(
                "an entry of A times its variable's bound is above the largest float: rescale the variables or rows",
                "Out of range",
            )
        largest = np.zeros(self._m)
        np.maximum.at(largest, matrix.indices, np.abs(matrix.data))
        for side in (self._b, self._row_lower):
            np.maximum(largest, np.where(np.isfinite(side), np.abs(side), 0.0), out=largest)
        row_scale = powers_of_two(largest)
        matrix.data /= row_scale[matrix.indices]
        matrix.data[np.abs(matrix.data) <= _SMALLEST_ENTRY] = 0.0
        matrix.eliminate_zeros()
        return matrix, row_scale

    def _scaled_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Bounds of the columns in their units."""
        upper = np.where(self._fixed, self._lower, self.upper)
        with np.errstate(over="ignore"):  # beyond what the rows allow
            return self._lower / self._scale, upper / self._scale

    def maximize(
        self,
        direction: NDArray[np.float64],
        upper: NDArray[np.float64],
        time_limit: float | None = None,
        mend: bool = True,
    ) -> NDArray[np.float64]:
        """A vertex that maximises <direction, v>.

        Parameters
        ----------
        direction : ndarray, shape (n,)
            Cost.
        upper : ndarray, shape (n,)
            Upper bounds; a bound below the lower one counts as equal to it.
        time_limit : float, optional
            Seconds for this call.
        mend : bool, default True
            Whether rows that hold up to HiGHS's tolerances only are mended. Where <direction, v> alone is asked for,
            they need not be.

        Returns
        -------
        v : ndarray, shape (n,)
            A new array.

        Raises
        ------
        OracleError
            For an input that is not finite, or when HiGHS ends without an optimum; its ``status`` is HiGHS's own
            text, "Time limit reached" when the time is up. With the status "Out of range" where the data span more
            than doubles hold.
        """
        direction = np.array(direction, dtype=np.float64)
        if not np.isfinite(direction).all():
            raise OracleError("the cost of the linear program is not finite", "Not finite")
        upper = self._bounds(upper)
        model = self._model
        if not np.array_equal(upper, self.upper):
            self.upper = upper
            self._range = self._scaled_bounds()
            _require(model.changeColsBounds(self._n, self._columns, *self._range), "bounds")
        self.direction = direction
        cost = self._scaled_cost()
        has_zero = not self._lower.any() and (self._row_lower <= 0.0).all() and (self._b >= 0.0).all()
        self._has_solved = bool(cost.any() or not has_zero)
        if not self._has_solved:
            # Every point is optimal, 0 too. A warm model would return the vertex of the previous call.
            return np.zeros(self._n)
        _require(model.changeColsCost(self._n, self._columns, cost), "cost")
        # HiGHS's clock runs on from call to call.
        left = min(np.inf if time_limit is None else time_limit, thread_time_left())
        limit = model.getRunTime() + left
        _require(model.setOptionValue("time_limit", limit), "time limit")
        run_status, model_status = self._run()
        if run_status == _core.HighsStatus.kError or model_status != _core.HighsModelStatus.kOptimal:
            status = model.modelStatusToString(model_status)
            require_time()
            raise OracleError(f"the linear program ended with HiGHS's status '{status}' ({run_status.name})", status)
        v = np.clip(self._vertex() * self._scale, self._lower, self.upper)
        if not mend:
            return v
        if self._is_down_closed:
            return shrink_into_rows(v, self._A, self._b)
        try:
            return move_into_rows(
                v, self._A, self._b, self._row_lower, self.upper, self._lower, self._sizes, self._inside
            )
        except OracleError:
            if not self._by_steps:
                raise
        self._may_go_by_steps = False  # its tolerances are too coarse for these rows
        return self.maximize(direction, upper, max(0.0, limit - model.getRunTime()))

    def _run(self):
        """Solves the program as it stands: (status of the run, status of the model)."""
        model, size = self._model, self._n + self._m
        self._by_steps = False
        if size <= _LARGE:
            statuses = self._run_once()
            if statuses[1] == _core.HighsModelStatus.kUnknown:  # the last basis leads nowhere
                _require(model.clearSolver(), "new beginning")
                statuses = self._run_once()
            return statuses
        if self._to_skip:
            self._to_skip -= 1
        else:
            _require(model.setOptionValue("simplex_iteration_limit", int(_SHARE * size)), "iteration limit")
            statuses = self._run_once()
            _require(model.setOptionValue("simplex_iteration_limit", _NO_LIMIT), "iteration limit")
            if statuses[1] not in (_core.HighsModelStatus.kIterationLimit, _core.HighsModelStatus.kUnknown):
                self._pause = 0
                return statuses
            self._pause = min(2 * self._pause + 1, _LONGEST_PAUSE)
            self._to_skip = self._pause
        fills = np.square(np.diff(self._matrix.indptr).astype(float)).sum() > _FILLED
        self._by_steps = fills and self._may_go_by_steps
        if self._by_steps:
            statuses = self._run_by(_BY_STEPS)
            self._by_steps = statuses[1] != _core.HighsModelStatus.kUnknown
        if not self._by_steps:
            statuses = self._run_by({"solver": "ipm"})
        return statuses

    def _run_by(self, options):
        """Solves the program anew by another method."""
        _set(self._model, options)
        # HiGHS keeps the simplex's factors, and would go on with them from the basis that another method has left: up
        # to 1.16 it ends in errors ("excessive primal values") and memory faults then.
        _require(self._model.clearSolver(), "new beginning")
        statuses = self._run_once()
        _set(self._model, {name: _OPTIONS[name] for name in options})
        return statuses

    def _run_once(self):
        status = self._model.run()
        self.pivots += max(0, self._model.getInfoValue("simplex_iteration_count")[1])
        return status, self._model.getModelStatus()

    def basis(self) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Status of the columns and rows in the last basis.

        Returns
        -------
        columns, rows : ndarray of int8, shapes (n,) and (m,)
            HiGHS's codes: 0 at the lower bound, 1 basic, 2 at the upper bound.
        """
        basis = self._model.getBasis()
        columns = np.fromiter(map(int, basis.col_status), np.int8, self._n)
        rows = np.fromiter(map(int, basis.row_status), np.int8, self._m)
        return columns, rows

    def row_duals(self) -> NDArray[np.float64]:
        """Multipliers of the rows at the last vertex, shape (m,): at least 0 where the upper side is tight."""
        if not self._has_solved:
            return np.zeros(self._m)
        duals = np.fromiter(self._model.getSolution().row_dual, np.float64, self._m)
        return duals * self._cost_unit / self._row_scale

    def _bounds(self, upper):
        upper = np.maximum(np.asarray(upper, dtype=np.float64), self._lower)
        if np.isnan(upper).any():
            raise OracleError("a bound of the linear program is NaN", "Not finite")
        return upper

    def _scaled_cost(self):
        """The direction for scaled columns, divided by what counts most in it; zeros if there is nothing to gain.

        That is the largest gain of one column within its bounds, which may be far below its unit, or a millionth of
        what one could gain in its whole unit, if that is more: larger costs would be lost in rounding.
        """
        largest = np.abs(self.direction).max()
        self._cost_unit = largest
        cost = self.direction / largest * self._scale if largest > 0.0 else self.direction
        lower, upper = self._range
        cost = np.where(lower < upper, cost, 0.0)
        gains = np.maximum(cost, 0.0) if self._is_down_closed else np.abs(cost)
        unit = max((gains * np.minimum(upper - lower, 1.0)).max(), _SMALLEST_SHARE * gains.max())
        if unit <= 0.0:
            return np.zeros(self._n)
        self._cost_unit = largest * unit
        return np.maximum(cost / unit, -_LARGEST_LOSS) if self._is_down_closed else cost / unit

    def _vertex(self):
        """The solution in scaled units, its basic variables recomputed from the factors of the final basis."""
        solution = self._model.getSolution()
        v = np.fromiter(solution.col_value, np.float64, self._n)
        if self._has_factors:
            activity = np.fromiter(solution.row_value, np.float64, self._m)
            self._refine(v, activity)
        return np.clip(v, *self._range)

    def _refine(self, v, activity):
        """Overwrites the basic variables of v by the solution of the basis's own equations."""
        status, basic = self._model.getBasicVariables()
        if status != _core.HighsStatus.kOk:
            return
        is_column = basic >= 0  # a basic row i is written as -1 - i
        columns = basic[is_column]
        nonbasic = v.copy()
        nonbasic[columns] = 0.0
        # A row that is not basic sits at the side it reaches; what a basic row holds does not matter.
        low, high = self._sides
        side = np.where(np.abs(activity - high) <= np.abs(activity - low), high, low)
        side[-1 - basic[~is_column]] = 0.0
        status, solution = self._model.getBasisSolve(side - self._matrix @ nonbasic)[:2]
        if status != _core.HighsStatus.kOk:
            return
        refined = solution[is_column]
        change = np.abs(refined - v[columns]).max(initial=0.0)
        if change <= _REFINEMENT * (1.0 + np.abs(v).max()):
            v[columns] = refined


class MixedIntegerAnswer(NamedTuple):
    """Answer of a mixed-integer program: HiGHS's own status text, the point, if there is one, and the bound."""

    status: str
    x: NDArray[np.float64] | None
    bound: float
    n_nodes: int


def maximize_mixed_integer(
    cost: NDArray[np.float64],
    rows: NDArray[np.float64],
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    upper: NDArray[np.float64],
    integer: NDArray[np.bool_],
    relative_gap: float,
    absolute_gap: float,
    time_limit: float | None = None,
    max_nodes: int | None = None,
) -> MixedIntegerAnswer:
    """Maximise <cost, x> over {row_lower <= rows x <= row_upper, 0 <= x <= upper}, some x integer, by HiGHS.

    Parameters
    ----------
    cost, upper : ndarray, shape (n,)
    rows : ndarray, shape (m, n)
    row_lower, row_upper : ndarray, shape (m,)
    integer : ndarray of bool, shape (n,)
    relative_gap, absolute_gap : float
        Either of them closes the search.
    time_limit : float, optional
        Seconds.
    max_nodes : int, optional

    Returns
    -------
    MixedIntegerAnswer
        The bound holds up to HiGHS's tolerances (1e-6 on the rows and on integrality).
    """
    options: dict[str, float] = {"output_flag": False, "mip_rel_gap": relative_gap, "mip_abs_gap": absolute_gap}
    options["small_matrix_value"] = _SMALLEST_ENTRY
    if time_limit is not None:
        options["time_limit"] = time_limit
    if max_nodes is not None:
        options["mip_max_nodes"] = max_nodes
    lower, matrix = np.zeros(cost.size), scipy.sparse.csc_matrix(np.where(np.abs(rows) > _SMALLEST_ENTRY, rows, 0.0))
    model = _model_of(cost, lower, upper, row_lower, row_upper, matrix, integer, options)
    run_status = model.run()
    status = model.modelStatusToString(model.getModelStatus())
    if run_status == _core.HighsStatus.kError:
        raise OracleError(f"the mixed-integer program ended with HiGHS's status '{status}' ({run_status.name})", status)
    info = model.getInfo()
    solution = model.getSolution()
    x = np.fromiter(solution.col_value, np.float64, cost.size) if solution.value_valid else None
    return MixedIntegerAnswer(status, x, float(info.mip_dual_bound), int(info.mip_node_count))
