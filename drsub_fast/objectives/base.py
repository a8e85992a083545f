"""What an objective offers to the solvers.

An objective is a class with `value`, `gradient` and a parameter namedtuple, and a family of kernels
registered for the class of that tuple (see `drsub_fast.engine.dispatch`):

``objective_size(params)``
    (floats, integers) of workspace that a solve needs.
``objective_carve(params, floats, integers)``
    The workspace: a namedtuple of views into two flat arrays, the integers zero at the start of a
    solve. It has a field ``grad`` (n,), the gradient at the current iterate.
``evaluate(params, work, x)``
    Value at x, from scratch; sets ``work.grad`` and whatever else the incremental kernels keep.
``prepare(params, work, x, v)``
    Announces the vertex or direction of the next steps (default: nothing). The same v may serve many
    steps in a row.
``advance(params, work, x, v, gamma, value)``
    x += gamma v; returns the new value, given the present one (default: move and evaluate).
``shift(params, work, x, i, change, unit, value)``
    x_i += change; returns the new value. ``unit`` is a zero vector that may be used meanwhile (default: an advance
    along it with a 1 at i).
``contract(params, work, x, v, gamma, value)``
    x = (1 - gamma) x + gamma v, likewise.
``exact_step(params, work, x, v, limit, value)``
    argmax of f(x + gamma (v - x)) over [0, limit], after `prepare` (default: a search by
    `derivative_along`, which may leave the workspace at another point, so that a `contract` that evaluates
    anew must follow).
``derivative_along(params, work, x, v, gamma)``
    (value, derivative) of f at x + gamma (v - x), after `prepare`: what the search of `exact_step` asks for
    (default: evaluate there).
``gradient_rate(params, work, v, additive, rate)``
    For objectives whose gradient is affine: writes d(grad)/d(gamma) for the additive step (H v) or the
    gradient at v for the classical one, and returns True (default: False). After `prepare`.
``coordinate_maximum(params, work, x, i, upper)``
    The value of x_i in [0, upper] that maximises f with the other coordinates fixed, a concave problem for
    DR-submodular f, at the point that the workspace describes (default: bisection on the derivative).
``hessian_product(params, work, x, d, out)``
    out = Hessian(x) d; returns 2 if the Hessian is constant, 1 if it depends on x (then x is the
    point last evaluated), 0 if there is no such kernel (default).
``is_dr_submodular(params, work, upper)``
    Whether f is DR-submodular on [0, upper], as `Objective.dr_submodular_on` finds it, for bounds in stacks (default:
    yes, as all objectives are that can be stacked). It uses up the workspace.
``is_nonnegative(params, work, upper)``
    Whether f >= 0 on [0, upper] is known, as `Objective.nonnegative_on` finds it, for the local-global bound in stacks
    (default: no). It uses up the workspace.
"""

import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_real, as_seed, as_vector
from drsub_fast._records import Record
from drsub_fast.engine.dispatch import operation, register
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import add_scaled, assign, blend, slope
from drsub_fast.objectives.gradient_check import GradientCheck, compare_gradient

GradientWork = namedtuple("GradientWork", "grad trial")


@kernel
def _default_size(params):
    return 2 * params.n, 0


@kernel(memory=True)
def _default_carve(params, floats, integers):
    return GradientWork(*split(floats, params.n, params.n))


objective_size = operation("objective_size", _default_size)
objective_carve = operation("objective_carve", _default_carve)
evaluate = operation("evaluate")


@kernel
def _default_prepare(params, work, x, v):
    pass


@kernel
def _default_advance(params, work, x, v, gamma, value):
    add_scaled(x, gamma, v)
    return evaluate(params, work, x)


@kernel
def _default_shift(params, work, x, i, change, unit, value):
    unit[i] = 1.0
    prepare(params, work, x, unit)
    value = advance(params, work, x, unit, change, value)
    unit[i] = 0.0
    return value


@kernel
def _default_contract(params, work, x, v, gamma, value):
    blend(x, gamma, v)
    return evaluate(params, work, x)


@kernel
def _default_derivative_along(params, work, x, v, gamma):
    trial = work.trial
    for j in range(x.size):
        trial[j] = x[j] + gamma * (v[j] - x[j])
    value = evaluate(params, work, trial)
    return value, slope(work.grad, v, x)


derivative_along = operation("derivative_along", _default_derivative_along)

#: Pieces of a segment that are searched for a peak each where f need not be concave along it.
PIECES = 8


@kernel
def best_step(params, work, x, v, limit, value, pieces):
    """argmax of f(x + gamma (v - x)) over [0, limit] by values and derivatives, for at most one peak in each piece."""
    best, best_value = 0.0, value
    low, slope_low = 0.0, slope(work.grad, v, x)
    for piece in range(1, pieces + 1):
        end = limit * piece / pieces
        value_end, slope_end = derivative_along(params, work, x, v, end)
        if value_end > best_value:
            best, best_value = end, value_end
        if slope_low > 0.0 and not slope_end >= 0.0:
            # <grad, v - x> = 0 by the Illinois method.
            high, slope_high, small, side = end, slope_end, 1e-10 * slope_low, 0
            for _ in range(60):
                gamma = 0.5 * (low + high)
                if math.isfinite(slope_high):
                    gamma = (low * slope_high - high * slope_low) / (slope_high - slope_low)
                trial_value, trial_slope = derivative_along(params, work, x, v, gamma)
                if trial_value > best_value:
                    best, best_value = gamma, trial_value
                if abs(trial_slope) <= small or high - low <= 1e-14 * limit:
                    break
                if trial_slope > 0.0:
                    low, slope_low = gamma, trial_slope
                    slope_high *= 0.5 if side == 1 else 1.0
                    side = 1
                else:
                    high, slope_high = gamma, trial_slope
                    slope_low *= 0.5 if side == -1 else 1.0
                    side = -1
        low, slope_low = end, slope_end
    return best


@kernel
def _default_exact_step(params, work, x, v, limit, value):
    return best_step(params, work, x, v, limit, value, PIECES)


#: Halvings after which a bracket is below the last place of its ends.
_BISECTIONS = 60


@kernel
def _default_coordinate_maximum(params, work, x, i, upper):
    kept = x[i]
    low, high = 0.0, upper
    if work.grad[i] >= 0.0:
        low = kept
    else:
        high = kept
    x[i] = high
    evaluate(params, work, x)
    if work.grad[i] >= 0.0:
        low = high
    else:
        x[i] = low
        evaluate(params, work, x)
        if work.grad[i] <= 0.0:
            high = low
    if low < high:
        for _ in range(_BISECTIONS):
            x[i] = 0.5 * (low + high)
            evaluate(params, work, x)
            if work.grad[i] > 0.0:
                low = x[i]
            else:
                high = x[i]
    # An advance goes on from what the workspace describes.
    x[i] = kept
    evaluate(params, work, x)
    return 0.5 * (low + high)


@kernel
def _no_rate(params, work, v, additive, rate):
    return False


@kernel
def _no_hessian(params, work, x, d, out):
    return 0


@kernel
def _always_dr_submodular(params, work, upper):
    return True


@kernel
def _unknown_sign(params, work, upper):
    return False


prepare = operation("prepare", _default_prepare)
advance = operation("advance", _default_advance)
shift = operation("shift", _default_shift)
contract = operation("contract", _default_contract)
exact_step = operation("exact_step", _default_exact_step)
coordinate_maximum = operation("coordinate_maximum", _default_coordinate_maximum)
gradient_rate = operation("gradient_rate", _no_rate)
hessian_product = operation("hessian_product", _no_hessian)
is_dr_submodular = operation("is_dr_submodular", _always_dr_submodular)
is_nonnegative = operation("is_nonnegative", _unknown_sign)

#: ``register_objective(Params, evaluate=.., ..)``: makes the kernels of an objective known, by operation.
register_objective = register


def _entries(params):
    """Number of the floats and integers in a parameter tuple, nested ones included."""
    if isinstance(params, tuple):
        return sum(_entries(item) for item in params)
    return getattr(params, "size", 1)


@kernel(memory=True)
def _value_and_gradient(params, x, grad):
    """Value at x, gradient into grad, with a workspace of its own."""
    n_floats, n_integers = objective_size(params)
    work = objective_carve(params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    value = evaluate(params, work, x)
    assign(grad, work.grad)
    return value


@dataclass(frozen=True, eq=False)
class DRCheck(Record):
    """What `Objective.check_dr` found; true if it found no violation.

    Attributes
    ----------
    holds : bool
        Whether no violation was found. It is evidence, not proof.
    pair : tuple of int, or None
        The coordinates (i, j) of the worst violation: raising x_j raised the derivative in x_i.
    x : ndarray, shape (n,), or None
        The point from which x_j was raised.
    rate : float
        How much the derivative rose per unit of x_j: the mean of d_ij f on the way.
    message : str
        The finding in words.
    """

    holds: bool
    pair: tuple[int, int] | None
    x: NDArray[np.float64] | None
    rate: float
    message: str

    def __bool__(self) -> bool:
        return self.holds


#: What adds and multiplies objectives: `drsub_fast.objectives.combined`.
COMBINE: "dict[str, Callable[[Objective, Any], Objective]]" = {}


class Objective:
    """A continuous function to be maximised, with its gradient.

    Attributes
    ----------
    n : int
        Number of variables.
    unit_box : bool
        Whether the function is meant for [0, 1]^n only; solvers then clip the upper bound to 1.
    compiled : bool
        Whether its kernels are compiled, so that a solve can run as one compiled loop.
    finite_at_zero : bool
        False where f falls to -infinity at 0, so that solvers begin elsewhere.
    uses_blas : bool
        Whether the loop calls BLAS for products that BLAS might share out among threads. Solves keep it to one.
    declared : frozenset of {"dr_submodular", "nonnegative", "monotone"}
        What is known of f by the user's word only.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Softmax([[2.0, 0.5], [0.5, 1.5]])
    >>> f.n, f.unit_box, round(f([1.0, 0.0]), 4), f.gradient([0.0, 0.0])
    (2, True, 0.6931, array([1. , 0.5]))
    """

    n: int
    declared: frozenset[str] = frozenset()
    unit_box: bool = False
    compiled: bool = True
    uses_blas: bool = False
    finite_at_zero: bool = True

    def __init__(self, n: int, params: tuple[Any, ...]) -> None:
        """An objective of n variables with parameters ``params``, of a registered class."""
        self.n = n
        self._params: Any = params

    def __getstate__(self) -> dict[str, Any]:
        # What solves have remembered about the object is left out: equal objects have equal states.
        return {name: item for name, item in vars(self).items() if name not in ("_guarantees", "_kind")}

    @property
    def params(self) -> Any:
        """Parameter namedtuple that the kernels take."""
        return self._params

    @property
    def operations(self) -> float:
        """Multiplications and additions of one value and gradient, roughly: a pass over all parameters."""
        return 2 * _entries(self.params)

    def value_and_gradient(self, x: ArrayLike) -> tuple[float, NDArray[np.float64]]:
        """Value and gradient at x, shape (n,)."""
        x = as_vector(x, "x", n=self.n)
        grad = np.empty(self.n)
        run = _value_and_gradient if self.compiled else _value_and_gradient.interpreted
        return float(run(self._params, x, grad)), grad

    def __call__(self, x: ArrayLike) -> float:
        """The same as `value`: f(x), for x of shape (n,)."""
        return self.value(x)

    def value(self, x: ArrayLike) -> float:
        """f(x), for x of shape (n,)."""
        return self.value_and_gradient(x)[0]

    def gradient(self, x: ArrayLike) -> NDArray[np.float64]:
        """Gradient of f at x, shape (n,)."""
        return self.value_and_gradient(x)[1]

    def __add__(self, other: "Objective") -> "Objective":
        """f + g, for an objective g of as many variables."""
        return COMBINE["add"](self, other)

    def __mul__(self, factor: float) -> "Objective":
        """c * f, for a number c >= 0."""
        return COMBINE["multiply"](self, factor)

    __rmul__ = __mul__
    __array_ufunc__ = None  # a number of numpy leaves the product to f

    def check_dr(
        self, upper: ArrayLike | None = None, n_samples: int = 20, seed: int = 0, tol: float = 1e-8
    ) -> "DRCheck":
        """Look for a counterexample to DR-submodularity on [0, upper].

        f is DR-submodular where its gradient is antitone (Bian et al. 2017). From random
        points single coordinates are raised by steps of all lengths; no derivative may rise.

        Parameters
        ----------
        upper : array_like, shape (n,), optional
            Corner of the box (default: all ones); clipped to 1 where the objective lives on the unit box.
        n_samples : int, default 20
            Number of points; each costs one gradient for itself and one for each of at most 50 coordinates.
        seed : int, default 0
            Seed of the random points.
        tol : float, default 1e-8
            Rise of a derivative, relative to 1 + the largest entry of the gradient, that counts as rounding.

        Returns
        -------
        DRCheck
            True if no violation was found, else with the pair of coordinates and the point at fault.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> ds.CallableObjective(lambda x: (x[0] * x[1], x[::-1]), n=2).check_dr().pair
        (0, 1)
        """
        upper = np.ones(self.n) if upper is None else as_vector(upper, "upper", n=self.n, lower=0.0)
        if self.unit_box:
            upper = np.minimum(upper, 1.0)
        rng, tol = np.random.default_rng(as_seed(seed)), as_real(tol, "tol", lower=0.0)
        pair, point, worst_rate = None, np.zeros(0), 0.0
        for _ in range(as_count(n_samples, "n_samples", lower=1)):
            x = upper * rng.random(self.n)
            grad = self.gradient(x)
            for j in rng.permutation(self.n)[:50]:
                y = x.copy()
                y[j] += (upper[j] - x[j]) * 10.0 ** rng.uniform(-3.0, 0.0)
                rise = self.gradient(y) - grad
                i = int(rise.argmax())
                if rise[i] > tol * (1.0 + np.abs(grad).max()) and rise[i] > worst_rate * (y[j] - x[j]):
                    pair, point, worst_rate = (i, int(j)), x, float(rise[i] / (y[j] - x[j]))
        if pair is None:
            return DRCheck(True, None, None, 0.0, "no violation found")
        i, j = pair
        message = (
            f"not DR-submodular: the derivative in x[{i}] rises by {worst_rate:.3g} per unit of x[{j}] from "
            f"x = {np.array2string(point, precision=4, threshold=10)}"
        )
        return DRCheck(False, pair, point, worst_rate, message)

    def check_gradient(self, x: ArrayLike, tol: float = 1e-5) -> GradientCheck:
        """Compare the gradient at x with differences of values; takes 2 n values of f.

        Parameters
        ----------
        x : array_like, shape (n,)
        tol : float, default 1e-5
            Part of the largest derivative by which they may differ.

        Returns
        -------
        GradientCheck
            True if they agree, else with the coordinate at fault in its message.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> ds.CallableObjective(lambda x: (x[0] * x[1], 3.0 * x[::-1]), n=2).check_gradient([0.5, 1.0]).message
        'the derivative in x[0] is 3, and by differences of the values 1'
        """
        x, tol = as_vector(x, "x", n=self.n), as_real(tol, "tol", lower=0.0)
        return compare_gradient(self.value, self.gradient(x), x, tol)

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        """Whether f is known to be DR-submodular on [0, upper]: True, False or None.

        Bounds and guarantees of solvers are claimed where it is True.
        """
        return None

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        """Whether f >= 0 on [0, upper] is known: True, False (a negative value is known), or None."""
        return None

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        """Whether f is known to be non-decreasing on [0, upper]: True, False or None."""
        return None

    def concave_on(self, upper: NDArray[np.float64]) -> bool | None:
        """Whether f is known to be concave on [0, upper]: True, False or None. Value and gap are then a bound."""
        return None

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        """A bound on C_f(P) of Algorithm 3 (paper, Option II) for sets in [0, upper], or None."""
        return None

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """A >= 0, shape (n, n), with |d'H(x)d| <= |d|'A|d| for every d and the Hessian H(x) on [0, upper], or None."""
        return None

    def smoothness_on(self, upper: NDArray[np.float64]) -> float | None:
        """L with |grad f(x) - grad f(y)| <= L |x - y| on [0, upper], or None where none is known."""
        A = self.curvature_matrix(upper)
        return None if A is None else largest_eigenvalue(A)

    def likely_peak(self) -> NDArray[np.float64] | None:
        """A point about which a maximum inside a set is worth a start, for functions with such maxima; else None."""
        return None

    def strong_dr_on(self, upper: NDArray[np.float64]) -> float | None:
        """The mu of strong DR-submodularity on [0, upper], None where f is not known to be DR-submodular.

        f(x + v) <= f(x) + <grad f(x), v> - mu/2 |v|^2 for v >= 0 or v <= 0. The largest such number is the least
        -d_jj f on the box, as the other entries of -H(x) are not negative.
        """
        return 0.0 if self.dr_submodular_on(upper) else None


def largest_eigenvalue(A: NDArray[np.float64]) -> float:
    """Largest eigenvalue of a symmetric matrix, with room for rounding."""
    return float(np.linalg.eigvalsh(A)[-1] + 1e-15 * len(A) * np.abs(A).max())
