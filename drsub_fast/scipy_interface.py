"""The package's methods under `scipy.optimize.minimize`."""

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from drsub_fast._checks import as_real, as_vector, first_few, one_of
from drsub_fast.errors import OracleError, UnsupportedError
from drsub_fast.methods import METHODS, maximize, options_of
from drsub_fast.objectives.user import CallableObjective
from drsub_fast.problems.probing import probe
from drsub_fast.problems.standard_form import set_of_rows
from drsub_fast.result import Status
from drsub_fast.sets.rows import ScipyBounds, bounds_from_scipy, rows_from_scipy
from drsub_fast.solvers.record import Method, MethodName

#: SciPy's status numbers: 0 is success, 1 the limit of iterations, 99 a callback that stopped the run. A run in which
#: rounding lets the value rise no further has what ``ftol`` asks for.
STATUS_NUMBERS = {
    Status.CONVERGED: 0, Status.COMPLETED: 0, Status.OPTIMAL: 0, Status.STALLED: 0, Status.MAX_ITER: 1,
    Status.NODE_LIMIT: 1, Status.TIME_LIMIT: 3, Status.INTERRUPTED: 4, Status.NON_FINITE: 5, Status.FAILED: 6,
    Status.CALLBACK: 99,
}  # fmt: skip
#: The status of a run whose answer breaks a constraint that was given as a function, and of one whose ``jac`` is not
#: the gradient of ``fun``.
BROKEN_CONSTRAINT, WRONG_GRADIENT = 7, 8

#: Options of SciPy's L-BFGS-B, SLSQP and trust-constr that mean nothing to the methods of this package.
_WITHOUT_EFFECT = (
    "maxcor", "maxfun", "maxls", "iprint", "finite_diff_rel_step", "workers", "xtol", "barrier_tol", "verbose",
    "initial_tr_radius", "initial_constr_penalty",
)  # fmt: skip

#: How gradients are found without ``jac``: forward differences, or complex steps of this length.
DIFFERENCES, _COMPLEX_STEP = ("2-point", "cs"), 1e-100
#: What the message says where SciPy may have dropped a ``jac`` that is a text.
_DROPPED = "gradients by differences (SciPy hands on no jac='cs': the option differences='cs' asks for complex steps)"
#: Relative step of a difference, and part of a constraint's size by which an answer may break it.
_STEP, _FEASIBLE = 1.5e-8, 1e-6
#: Part of a line by which a difference along it steps to each side, and part of its size by which ``jac`` may differ.
_PROBE, _DISAGREEMENT = 1e-4, 1e-2


class _Minimized:
    """-fun in the coordinates y = x - shift, with its gradient; counts the calls, and keeps them within the bounds."""

    def __init__(self, fun, jac, args, lower, upper, step, differences):
        self.fun, self.jac, self.args, self.differences = fun, jac, args, differences
        self.lower, self.upper, self.step = lower, upper, step
        self.nfev = self.njev = 0

    def point(self, y):
        """x for y, exactly within the bounds."""
        return np.clip(self.lower + y, self.lower, self.upper)

    def value_at(self, x):
        self.nfev += 1
        return float(np.squeeze(self.fun(x.copy(), *self.args)))

    def jacobian(self, x, value):
        """The gradient of fun at x, where it has the value ``value``."""
        if callable(self.jac):
            self.njev += 1
            return np.asarray(self.jac(x.copy(), *self.args), np.float64).ravel()
        if self.differences == "cs":
            return np.array([self._complex_step(x, j) for j in range(x.size)])
        gradient = np.zeros(x.size)
        for j in range(x.size):
            step = self.step * max(1.0, abs(x[j]))
            if x[j] + step > self.upper[j]:
                # Backwards, or as far as the longer side goes; nothing moves where the bounds meet.
                up, down = self.upper[j] - x[j], x[j] - self.lower[j]
                step = -step if down >= step else up if up > down else -down
            if step != 0.0:
                moved = x.copy()
                moved[j] = np.clip(x[j] + step, self.lower[j], self.upper[j])
                gradient[j] = (self.value_at(moved) - value) / (moved[j] - x[j])
        return gradient

    def _complex_step(self, x, j):
        """The derivative along coordinate j by a complex step: no difference, so right to the last digits."""
        moved = x.astype(complex)
        moved[j] += _COMPLEX_STEP * 1j
        self.nfev += 1
        value = np.asarray(self.fun(moved, *self.args)).squeeze()
        if value.dtype.kind != "c":
            raise ValueError(
                f"complex steps need a fun that takes complex numbers and returns one, and it returned {value.dtype}; "
                "give jac, or differences='2-point'"
            )
        return float(value.imag) / _COMPLEX_STEP

    def wrong_gradient(self, x):
        """What is wrong with ``jac`` half-way from x to the centre of the box, in words; "" if nothing is seen."""
        if not callable(self.jac):
            return ""
        move = 0.5 * (self.lower + self.upper) - x
        middle = np.clip(x + 0.5 * move, self.lower, self.upper)
        parts = self.jacobian(middle, math.nan) * move
        ends = [self.value_at(np.clip(middle + t * move, self.lower, self.upper)) for t in (-_PROBE, _PROBE)]
        difference, size = (ends[1] - ends[0]) / (2.0 * _PROBE), np.abs(parts).sum()
        allowed = _DISAGREEMENT * (size + abs(difference)) + 1e-12 * max(map(abs, ends)) / _PROBE
        if not math.isfinite(difference + size) or abs(difference - parts.sum()) <= allowed:
            return ""
        return f"jac is not the gradient of fun: along one line it says {parts.sum():.4g}, differences {difference:.4g}"

    def __call__(self, y):
        x = self.point(y)
        value = self.value_at(x)
        return -value, -self.jacobian(x, value)


def _as_callback(callback, minimized):
    """SciPy's callback, in either of its signatures, as one of ours."""
    takes_result = list(inspect.signature(callback).parameters) == ["intermediate_result"]

    def report(progress):
        x = minimized.point(progress.x)
        try:
            if takes_result:
                return callback(intermediate_result=scipy.optimize.OptimizeResult(x=x, fun=-progress.value))
            return callback(x)
        except StopIteration:
            return True

    return report


def _constraints(constraints, x0, lower, upper):
    """(linear constraints, those of them that were given as functions)."""
    if isinstance(constraints, dict) or not isinstance(constraints, (list, tuple)):
        constraints = (constraints,)
    linear, probed = [], []
    for i, constraint in enumerate(constraints):
        if isinstance(constraint, dict):
            probed.append(probe(constraint, x0, lower, upper, f"constraint {i}"))
            constraint = probed[-1].linear
        linear.append(constraint)
    return linear, probed


def _tolerance(options, width):
    """The gap that SciPy's tolerances ask for, None where there are none; they are taken out of the options.

    A projected gradient of at most gtol in every coordinate leaves a gap of at most gtol times the widths' sum.
    """
    asked = []
    for name, scale in (("tol", 1.0), ("ftol", 1.0), ("gtol", float(width.sum()))):
        if (value := options.pop(name, None)) is not None:
            asked.append(as_real(value, name, lower=0.0) * scale)
    return min(asked, default=None)


def _start(P, y):
    """A point of P at or near y, or None."""
    y = np.clip(y, 0.0, P.upper)
    if P.contains(y):
        return y
    try:
        return P.project(y)
    except (UnsupportedError, OracleError):
        return None


def _largest_violation(x, lower, upper, linear, probed):
    """The largest amount by which x breaks a bound or a constraint, at least 0."""
    worst = max(0.0, float((lower - x).max()), float((x - upper).max()), *(c.violation(x) for c in probed))
    A, low, high = rows_from_scipy(linear, x.size)
    values = A @ x
    return max(worst, float(np.max(low - values, initial=0.0)), float(np.max(values - high, initial=0.0)))


@dataclass(frozen=True)
class ScipyMethod:
    """What `scipy_method` returns: a method of this package as `scipy.optimize.minimize` calls it."""

    method: MethodName | Method

    def __call__(
        self,
        fun: Callable[..., float],
        x0: ArrayLike,
        args: tuple[Any, ...] = (),
        jac: Callable[..., ArrayLike] | str | bool | None = None,
        hess: object = None,
        hessp: object = None,
        bounds: ScipyBounds = None,
        constraints: Any = (),
        callback: Callable[..., Any] | None = None,
        *,
        maxiter: int | None = None,
        disp: bool = False,
        eps: float = _STEP,
        differences: str | None = None,
        **options: Any,
    ) -> "scipy.optimize.OptimizeResult":
        method = self.method
        x0 = as_vector(x0, "x0")
        if hess is not None or hessp is not None:
            name = "hess" if hess is not None else "hessp"
            warnings.warn(f"{self} does not use Hessian information ({name})", RuntimeWarning, stacklevel=3)
        for name in [name for name in options if name in _WITHOUT_EFFECT]:
            warnings.warn(f"the option {name!r} has no effect in {self}", scipy.optimize.OptimizeWarning, stacklevel=3)
            del options[name]
        lower, upper = bounds_from_scipy(bounds, x0.size)
        linear, probed = _constraints(constraints, x0, lower, upper)
        A, row_lower, row_upper = rows_from_scipy(linear, x0.size)
        P, reasons = set_of_rows(A, row_lower, row_upper, lower, upper)
        record = method if isinstance(method, Method) else METHODS.get(method)
        if reasons and record is not None and "down-closed" in record.needs:
            raise UnsupportedError(
                f"{record.name} needs a down-closed set, which this one is not: {first_few(reasons)}"
            )
        # The rows may imply upper bounds that were not given.
        upper = np.minimum(upper, lower + P.upper)
        known = options_of(method)
        tolerance = _tolerance(options, P.upper)
        if tolerance is not None and "tol" in known:
            options["tol"] = tolerance
        if maxiter is not None:
            options["max_iter"] = maxiter
        if isinstance(jac, str):
            jac, differences = None, jac
        rule = one_of("2-point" if differences is None else differences, "differences", DIFFERENCES)
        minimized = _Minimized(fun, jac, args, lower, upper, as_real(eps, "eps", lower=0.0, strict=True), rule)
        if "x0" in known and (start := _start(P, x0 - lower)) is not None:
            options["x0"] = start
        if callback is not None:
            options["callback"] = _as_callback(callback, minimized)
        f = CallableObjective(minimized, x0.size)
        result = maximize(f, P, method=method, **({"bound": "cheap"} | options))
        if jac is None and differences is None:
            result = replace(result, note=f"{result.note}; {_DROPPED}" if result.note else _DROPPED)
        return self._result(result, minimized, lower, upper, linear, probed, disp)

    def _result(self, result, minimized, lower, upper, linear, probed, disp):
        """The answer in SciPy's words."""
        x = minimized.point(result.x)
        value = minimized.value_at(x)
        status, message = STATUS_NUMBERS[result.status], result.message
        for constraint in probed:
            size = 1.0 + np.abs(constraint.linear.A) @ np.abs(x) + np.abs(constraint.linear.lb)
            if constraint.violation(x) > _FEASIBLE * size.max(initial=1.0):
                status = BROKEN_CONSTRAINT
                message = f"{constraint.name} is broken at the answer, though it looked linear: {message}"
                break
        if wrong := minimized.wrong_gradient(x):
            status, message = WRONG_GRADIENT, f"{wrong}; {message}"
        if disp:
            print(f"{message}\n  value: {value:.10g}, iterations: {result.n_iter}, calls of fun: {minimized.nfev}")
        return scipy.optimize.OptimizeResult(
            x=x, fun=value, jac=minimized.jacobian(x, value), nit=result.n_iter, nfev=minimized.nfev,
            njev=minimized.njev, success=status == 0, status=status, message=message,
            maxcv=_largest_violation(x, lower, upper, linear, probed), fw_gap=result.fw_gap,
            lower_bound=-result.upper_bound, guarantee=result.guarantee, method=result.method,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"scipy_method({getattr(self.method, 'name', self.method)!r})"


def scipy_method(method: MethodName | Method = "auto") -> Callable[..., Any]:
    """A method of this package for ``scipy.optimize.minimize(.., method=..)``.

    Parameters
    ----------
    method : str or Method
        As in `maximize`, except "global-maximum", which proves for quadratics and softmax extensions only.

    Returns
    -------
    callable
        To be given as ``method``; it can be pickled. It minimises ``fun``, that is, maximises its negative, which
        should be DR-submodular, over bounds and linear constraints; lower bounds are moved to 0. Constraints that are
        dictionaries, as SLSQP takes them, are called at n + 5 points within the bounds and taken if they are linear.

        ``x0``, moved into the set if it lies outside, is where the method starts, or one more of its starts; methods
        that begin at 0 do not use it. Without ``jac`` gradients are differences of step ``eps``, forwards, and
        backwards where a bound is near: ``fun`` is never called outside the bounds. With the option
        ``differences="cs"`` they are complex steps, right to the last digits, of a ``fun`` that takes complex numbers:
        SciPy hands on no text given as ``jac``, and the message says so. ``callback`` may have either of SciPy's
        signatures; StopIteration or a true value ends the run.

        Options are those of the method, and of SciPy's own: ``maxiter``; ``ftol`` and ``tol``, the Frank-Wolfe gap to
        stop at, in units of fun; ``gtol``, the same by the largest entry of the projected gradient; ``eps``; ``disp``.

        The `OptimizeResult` has SciPy's fields x, fun, jac, nit, nfev, njev, maxcv, success, status (0 for success, 1
        for the limit of iterations, 3 time limit, 4 interrupted, 5 not finite, 6 failed, 7 a constraint that was not
        linear after all, 8 a ``jac`` that differences of ``fun`` contradict, 99 stopped by the callback) and message,
        and from here fw_gap, lower_bound, guarantee (of the maximisation of -fun) and method.

    Raises
    ------
    UnsupportedError
        For "global-maximum"; when called, for constraints that are not linear, or a method that needs a down-closed
        set where the constraints are not; the message has the reasons.
    ValueError, TypeError
        When called: for a variable that neither bounds nor rows bound, or an option that the method does not have.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import LinearConstraint, minimize
    >>> import drsub_fast as ds
    >>> H = np.array([[1.0, 0.5], [0.5, 2.0]])
    >>> r = minimize(
    ...     lambda x: x @ H @ x / 2 - x.sum(), np.zeros(2), jac=lambda x: H @ x - 1.0, bounds=[(0, 1), (0, 1)],
    ...     constraints=LinearConstraint([[1.0, 1.0]], ub=0.5), method=ds.scipy_method("two-phase-frank-wolfe"))
    >>> round(r.fun, 2), r.success
    (-0.39, True)
    """
    if method == "global-maximum":
        raise UnsupportedError(
            "global-maximum proves for quadratics and softmax extensions, and SciPy hands on a function: call "
            "drsub_fast.global_maximum(f, P)"
        )
    if not isinstance(method, Method):
        one_of(method, "method", ("auto", *METHODS))
    return ScipyMethod(method)
