"""What a feasible set offers to the solvers.

A set is an immutable description with `n`, `upper`, `contains`, `lmo`, `project` and a parameter
namedtuple, and kernels registered for the class of that tuple (see `drsub_fast.engine.dispatch`):

``set_size(params)``, ``set_carve(params, floats, integers)``
    Workspace, as for objectives (default: none). The integers are zero at the start of a solve and keep
    whatever a warm start needs from call to call.
``lmo(params, work, direction, upper, v)``
    v = argmax <direction, v> over the set intersected with v <= upper (never above the set's own
    bound). Returns `OK`, `NEEDS_SOLVER` (call the set's solver from Python, then go on), `PAUSED` (the
    linear program is unfinished: call again to go on) or `FAILED` (no point of the set lies below ``upper``, or
    the arithmetic broke down).
``track(params, work, rate)``
    Prepares `follow` for gradients that move along ``rate``; False if the set cannot (default).
``follow(params, work, decay, gamma, upper, v)``
    The direction became decay * direction + gamma * rate and the bounds are now ``upper``: True if v, the
    vertex of the last `lmo`, is still optimal (default False).
``project(params, work, y, upper, out)``
    Euclidean projection of y onto the set intersected with out <= upper: `OK`, `NEEDS_SOLVER` (default) or
    `FAILED`.

A set that is not down-closed (`is_down_closed` False) need not hold x = 0: solvers begin at `start()`, and the
method of Mualem and Feldman (2023) at `min_max_norm_point()`. `with_upper` gives the part of the set below a
tighter bound, e.g. the set Q of Algorithm 1; it checks the bound and shares everything else.
"""

from collections import namedtuple
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_real, as_vector
from drsub_fast.engine.codes import FAILED, NEEDS_SOLVER, OK, PAUSED
from drsub_fast.engine.dispatch import operation, register
from drsub_fast.engine.jit import kernel
from drsub_fast.errors import OracleError, UnsupportedError

if TYPE_CHECKING:
    from drsub_fast.lp.highs import HighsOracle

#: Names of linear oracles (`frank_wolfe` says what they are).
ORACLES = ("auto", "highs", "kernel")

NoWork = namedtuple("NoWork", "floats")


@kernel
def _no_size(params):
    return 0, 0


@kernel(memory=True)
def _no_carve(params, floats, integers):
    return NoWork(floats)


@kernel
def _cannot_track(params, work, rate):
    return False


@kernel
def _no(params):
    return False


@kernel
def _yes(params):
    return True


@kernel
def _cannot_follow(params, work, decay, gamma, upper, v):
    return False


@kernel
def _no_projection(params, work, y, upper, out):
    return NEEDS_SOLVER


set_size = operation("set_size", _no_size)
set_carve = operation("set_carve", _no_carve)
lmo = operation("lmo")
track = operation("track", _cannot_track)
#: ``tracks(params)``: whether the set has a `track` of its own, so that a rate is worth writing.
tracks = operation("tracks", _no)
follow = operation("follow", _cannot_follow)
project = operation("project", _no_projection)


def register_set(params_class: type, **kernels: Callable[..., Any]) -> None:
    """Register the kernels of a feasible set for its parameter class, by operation name."""
    register(params_class, **kernels)
    if "track" in kernels:
        register(params_class, tracks=_yes)


def projects_by_kernel(P: "FeasibleSet") -> bool:
    """Whether the projection onto P is a kernel, which needs no solver."""
    return type(P.params()) in project.table


@kernel(memory=True)
def _lmo_once(params, direction, upper, v):
    """One oracle call with a workspace of its own."""
    n_floats, n_integers = set_size(params)
    work = set_carve(params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    code = lmo(params, work, direction, upper, v)
    while code == PAUSED:
        code = lmo(params, work, direction, upper, v)
    return code


@kernel(memory=True)
def _project_once(params, y, upper, out):
    """One projection with a workspace of its own."""
    n_floats, n_integers = set_size(params)
    work = set_carve(params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    return project(params, work, y, upper, out)


def is_within(
    x: NDArray[np.float64], lower: NDArray[np.float64] | float, upper: NDArray[np.float64], tol: float = 1e-9
) -> bool:
    """Whether lower <= x <= upper, each bound up to ``tol`` of the larger of the two."""
    slack = tol * np.maximum(np.abs(lower), np.abs(upper))
    return bool((x >= lower - slack).all() and (x <= upper + slack).all())


class FeasibleSet:
    """A compact convex set in the positive orthant with a linear maximisation oracle.

    Attributes
    ----------
    n : int
        Number of variables.
    upper : ndarray, shape (n,)
        Upper bound of every variable over the set (read-only).
    is_down_closed : bool
        Whether 0 <= y <= x and x in the set imply y in the set.
    answers_below : bool
        Whether the oracle answers below any tighter upper bounds, as methods need that shrink the set.
    declared : frozenset of {"down_closed"}
        What is known of the set by the user's word only.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.Budget(1.0, [1.0, 1.0])
    >>> P.contains([0.5, 0.5]), P.lmo([1.0, 2.0]), P.project([1.0, 1.0])
    (True, array([0., 1.]), array([0.5, 0.5]))
    """

    n: int
    is_down_closed: bool = True
    answers_below: bool = True
    declared: frozenset[str] = frozenset()
    _unit_upper: NDArray[np.float64] | None = None
    _lower: NDArray[np.float64] | float = 0.0

    def __init__(self, params: tuple[Any, ...], upper: ArrayLike) -> None:
        """A set with parameters ``params``, of a registered class, and the bounds ``upper``, shape (n,)."""
        self._params: Any = params
        self._upper = as_vector(upper, "upper", lower=0.0)
        self.n = self._upper.size

    def __getstate__(self) -> dict[str, Any]:
        # What solves have remembered about the object is left out: equal objects have equal states.
        return {name: item for name, item in vars(self).items() if name not in ("_unit_upper", "_kinds")}

    def __copy__(self) -> Self:
        # For `with_upper`: everything is shared, prepared parameters included.
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def params(self, lmo: str = "auto") -> Any:
        """Parameter namedtuple that the kernels take; ``lmo`` matters to polytopes only."""
        return self._params

    def solver(self, upper: NDArray[np.float64], lmo: str = "auto") -> Any:
        """The linear-programming solver for calls that the kernel hands back, or None."""
        return None

    def load_basis(self, solver: "HighsOracle", params: tuple[Any, ...], work: tuple[Any, ...]) -> None:
        """Hands the solver's last basis to the kernel's workspace, for warm starts (default: nothing)."""

    def start(self, upper: ArrayLike | None = None) -> NDArray[np.float64]:
        """A fresh feasible point to start from, below ``upper``, shape (n,): zeros for down-closed sets."""
        return np.zeros(self.n)

    def contains(self, x: ArrayLike, tol: float = 1e-9) -> bool:
        """Whether x is in the set.

        Parameters
        ----------
        x : array_like, shape (n,)
            The point.
        tol : float, default 1e-9
            How much of its own unit each constraint may be broken by, whatever the units of the data: of a bound that
            bound, of a row a x <= b or a x = b the larger of |b| and sum_j |a_j| |x_j|, of a norm the radius.

        Returns
        -------
        bool
        """
        x, tol = as_vector(x, "x", n=self.n), as_real(tol, "tol", lower=0.0)
        return is_within(x, self._lower, self._upper, tol) and self.constraints_hold(x, tol)

    def constraints_hold(self, x: NDArray[np.float64], tol: float) -> bool:
        """Whether x keeps the constraints other than its bounds, each up to ``tol`` of its unit; every set says so."""
        raise NotImplementedError(
            f"{type(self).__name__} must say by constraints_hold(x, tol) which points it contains"
        )

    def move_inside(self, x: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """x, outside the set by hardly more than rounding, moved inside: exactly within its bounds and ``upper``.

        Raises
        ------
        OracleError
            If the data span more than doubles hold.
        """
        return self.into_constraints(np.clip(x, self._lower, upper), upper)

    def into_constraints(self, x: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """x, within its bounds, moved into the other constraints."""
        return x

    def violation(self, x: NDArray[np.float64]) -> str:
        """Words for the constraint that x breaks most, bounds aside."""
        return f"it is outside {self!r}"

    def lmo(
        self, direction: ArrayLike, upper: ArrayLike | None = None, *, time_limit: float | None = None
    ) -> NDArray[np.float64]:
        """A vertex that maximises <direction, v> over the set.

        Parameters
        ----------
        direction : array_like, shape (n,)
            Cost to maximise.
        upper : array_like, shape (n,), optional
            Tighter upper bound, as in the shrunken oracle of Algorithm 2.
        time_limit : float, optional
            Seconds that a linear program may take.

        Returns
        -------
        v : ndarray, shape (n,)

        Raises
        ------
        OracleError
            If the set has no point below ``upper``, or a linear program is not solved within its time.
        """
        direction = as_vector(direction, "direction", n=self.n)
        if time_limit is not None:
            time_limit = as_real(time_limit, "time_limit", lower=0.0)
        bound = self._clipped(upper)
        v = np.empty(self.n)
        status = _lmo_once(self.params(), direction, bound, v)
        if status == FAILED:
            raise self.why_failed(direction, bound)
        if status != OK:
            v = self.solver(bound).maximize(direction, bound, time_limit)
        return v

    def project(self, y: ArrayLike) -> NDArray[np.float64]:
        """Euclidean projection of y, shape (n,), onto the set."""
        y = as_vector(y, "y", n=self.n)
        out = np.empty(self.n)
        status = _project_once(self.params(), y, self._upper, out)
        if status == FAILED:
            raise self._no_answer("projection")
        if status != OK:
            out = self.project_by_solver(y, self._upper)
        return out

    def project_by_solver(self, y: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """Projection for calls that the kernel hands back."""
        raise UnsupportedError(f"{type(self).__name__} has no projection")

    def with_upper(self, upper: ArrayLike) -> Self:
        """The set with tighter upper bounds, shape (n,); everything else is shared, not copied."""
        other = copy(self)
        other._upper, other._unit_upper = self._clipped(upper), None
        return other

    def min_max_norm_point(self, upper: ArrayLike | None = None) -> NDArray[np.float64]:
        """A point of the set whose largest entry, in units of ``upper``, is smallest, shape (n,): 0 if down-closed."""
        return np.zeros(self.n)

    def diameter(self, upper: ArrayLike | None = None) -> float:
        """The largest distance of two points of the set, below ``upper`` (n,) if given: exact, or a bound from above.

        Exact for boxes, for simplices, balls without tighter bounds, and where no variable of the answer of the
        linear program is split between two points; a bound else.

        Notes
        -----
        |x - y|^2 <= sum_j r_j |x_j - y_j|, where r_j is the range of x_j: see `spread`.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> ds.Budget(2.0, [1.0] * 50).diameter()
        2.0
        """
        u = self._clipped(upper)
        return float(np.sqrt(self.spread(u, u)))

    def spread(self, cost: ArrayLike, upper: ArrayLike | None = None) -> float:
        """A bound on the largest sum_j cost_j |x_j - y_j| of two points of the set, below ``upper`` (n,) if given.

        Parameters
        ----------
        cost : array_like, shape (n,)
            Weights, at least 0.
        upper : array_like, shape (n,), optional
            Tighter bounds.

        Notes
        -----
        Down-closed: without their common part the two points are in the set still, and z = x + y <= u. Then
        sum_j cost_j |x_j - y_j| = <cost, z>, and z/2 is in the set: one linear program.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> ds.Simplex(3).spread([3.0, 2.0, 1.0])
        5.0
        """
        cost = as_vector(cost, "cost", n=self.n, lower=0.0)
        u = self._clipped(upper)
        return float(2.0 * (cost @ self.lmo(cost, 0.5 * u)))

    def _clipped(self, upper: ArrayLike | None) -> NDArray[np.float64]:
        """A user's tighter bound, checked, and never above the set's own, which None means.

        u - x may be negative by rounding.
        """
        if upper is None:
            return self._upper
        upper = as_vector(upper, "upper", n=self.n)
        slack = 1e-9 * np.maximum(np.abs(self._lower), np.abs(self._upper))
        below = upper < self._lower - slack
        if below.any():
            j = int(below.argmax())
            raise ValueError(f"upper[{j}] = {upper[j]:g} is below the set's lower bound: no point is left")
        return np.minimum(np.maximum(upper, self._lower), self._upper)

    def why_failed(self, direction: NDArray[np.float64], upper: NDArray[np.float64]) -> Exception:
        """The error of an oracle that failed for this direction, below these bounds."""
        return self._no_answer("oracle")

    def verify(self, x: NDArray[np.float64], gap: float = 0.0) -> None:
        """Raises ValueError for an answer of a solve, or its relative gap, that a set of the user's refuses."""

    def _no_answer(self, what):
        return OracleError(f"the {what} of {self!r} failed: the set has no point below the upper bounds", "empty")

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper bound of every variable over the set, shape (n,), read-only."""
        view = self._upper.view()
        view.flags.writeable = False
        return view
