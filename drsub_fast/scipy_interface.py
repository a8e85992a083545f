"""The package's methods under `scipy.optimize.minimize`."""

import inspect

import numpy as np
import scipy

from drsub_fast._checks import as_vector, first_few, one_of
from drsub_fast.errors import UnsupportedError
from drsub_fast.methods import METHODS, maximize, options_of
from drsub_fast.objectives.user import CallableObjective
from drsub_fast.problems.standard_form import set_of_rows
from drsub_fast.result import Status
from drsub_fast.sets.rows import bounds_from_scipy, rows_from_scipy


class _Minimized:
    """-fun in the coordinates y = x - shift, with its gradient; counts the calls."""

    def __init__(self, fun, jac, args, shift):
        self.fun, self.jac, self.args, self.shift = fun, jac, args, shift
        self.nfev = self.njev = 0

    def value_at(self, x):
        self.nfev += 1
        return -float(np.squeeze(self.fun(x, *self.args)))

    def value(self, y):
        return self.value_at(self.shift + y)

    def gradient(self, y):
        x = self.shift + y
        if not callable(self.jac):
            return scipy.optimize.approx_fprime(x, self.value_at, 1.5e-8)
        self.njev += 1
        return -np.asarray(self.jac(x, *self.args), np.float64).ravel()


def _as_callback(callback, shift):
    """SciPy's callback, in either of its signatures, as one of ours."""
    if callback is None:
        return None
    takes_result = list(inspect.signature(callback).parameters) == ["intermediate_result"]

    def report(progress):
        x = shift + progress.x
        try:
            if takes_result:
                return callback(intermediate_result=scipy.optimize.OptimizeResult(x=x, fun=-progress.value))
            return callback(x)
        except StopIteration:
            return True

    return report


def scipy_method(method="auto"):
    """A method of this package for ``scipy.optimize.minimize(.., method=..)``.

    Parameters
    ----------
    method : str
        As in `maximize`.

    Returns
    -------
    callable
        To be given as ``method``. It minimises ``fun``, that is, maximises its negative, which should be
        DR-submodular, over bounds and linear constraints; lower bounds are moved to 0. ``options`` (and
        ``maxiter``) go to the method. ``x0`` is used by methods that take one and otherwise tells n only. Without
        ``jac`` gradients are forward differences. The `OptimizeResult` has SciPy's fields x, fun, jac, nit, nfev,
        njev, success, status, message, and from here fw_gap, lower_bound and method.

    Raises
    ------
    UnsupportedError
        When called: for constraints that are not linear, or a method that needs a down-closed set where the
        constraints are not; the message has the reasons.

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
    one_of(method, "method", ("auto", *METHODS))
    needs_down_closed = method != "auto" and "down-closed" in METHODS[method].needs
    takes_start = "x0" in options_of(method)

    def run(fun, x0, args=(), jac=None, hess=None, hessp=None, bounds=None, constraints=(), callback=None, **options):
        x0 = as_vector(x0, "x0")
        shift, upper = bounds_from_scipy(bounds, x0.size)
        P, reasons = set_of_rows(*rows_from_scipy(constraints, x0.size), shift, upper)
        if reasons and needs_down_closed:
            raise UnsupportedError(f"{method} needs a down-closed set, which this one is not: {first_few(reasons)}")
        if "maxiter" in options:
            options["max_iter"] = options.pop("maxiter")
        if takes_start:
            options["x0"] = x0 - shift
        if callback is not None:
            options["callback"] = _as_callback(callback, shift)
        minimized = _Minimized(fun, jac, args, shift)
        f = CallableObjective(minimized.value, shift.size, minimized.gradient)
        result = maximize(f, P, method=method, **({"bound": "cheap"} | options))
        gradient = minimized.gradient(result.x)
        return scipy.optimize.OptimizeResult(
            x=shift + result.x, fun=-result.value, jac=-gradient, nit=result.n_iter, nfev=minimized.nfev,
            njev=minimized.njev, success=result.success, status=list(Status).index(result.status),
            message=result.message, fw_gap=result.fw_gap, lower_bound=-result.upper_bound, method=result.method,
        )  # fmt: skip

    return run
