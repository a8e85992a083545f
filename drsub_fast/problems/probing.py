"""Constraints given as functions, as SLSQP takes them: found linear by probing, or refused.

A constraint ``{"type": "ineq", "fun": c}`` asks for c(x) >= 0, "eq" for c(x) = 0. Most are linear without saying so.
Then c(x) = A x + a, and n + 1 calls find A and a; more calls at other points within the bounds tell whether that is
all there is to c.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint

from drsub_fast.errors import UnsupportedError

#: Points at which a constraint that was found linear is called again.
_CHECKS = 4
#: Part of the size of a constraint that its values may differ from linear ones, and that a coefficient counts as 0.
_ROUNDING, _NOTHING = 1e-8, 1e-12


class ProbedConstraint(NamedTuple):
    """A constraint that was found linear.

    Attributes
    ----------
    linear : scipy.optimize.LinearConstraint
        The same constraint.
    value : callable
        The user's function: ``value(x)`` is an array, at least 0 or equal to 0.
    is_equation : bool
    name : str
        How messages call it.
    """

    linear: LinearConstraint
    value: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    is_equation: bool
    name: str

    def violation(self, x: NDArray[np.float64]) -> float:
        """By how much the user's function says that x breaks the constraint."""
        values = self.value(x)
        broken = np.abs(values) if self.is_equation else -values
        return float(np.max(broken, initial=0.0)) if np.isfinite(values).all() else np.inf


def _reach(point, lower, upper):
    """Steps from a point, one for each coordinate, that stay within the bounds; 0 where they leave no room."""
    longest = np.maximum(1.0, np.abs(point))
    up, down = np.minimum(0.5 * (upper - point), longest), np.minimum(0.5 * (point - lower), longest)
    return np.where(up >= down, up, -down)


def _samples(lower, upper, point):
    """A few points within the bounds, always the same ones."""
    rng = np.random.default_rng(0)
    low = np.where(np.isfinite(lower), lower, point - np.maximum(1.0, np.abs(point)))
    high = np.where(np.isfinite(upper), upper, low + 2.0 * np.maximum(1.0, np.abs(low)))
    return low + rng.random((_CHECKS, point.size)) * (high - low)


def probe(
    constraint: dict[str, Any],
    x0: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    name: str,
) -> "ProbedConstraint":
    """The linear constraint that a dictionary of SciPy describes.

    Parameters
    ----------
    constraint : dict
        With the entries type, fun and, if given, jac and args, as `scipy.optimize.minimize` documents them.
    x0 : ndarray, shape (n,)
        A point; it is moved within the bounds first.
    lower, upper : ndarray, shape (n,)
        Bounds; the function is called between them only.
    name : str
        How messages call the constraint.

    Returns
    -------
    ProbedConstraint

    Raises
    ------
    ValueError, TypeError
        For a dictionary without a function or of another type than "ineq" and "eq".
    UnsupportedError
        For a function that is not linear, with a point that shows it.
    """
    kind, function = constraint.get("type"), constraint.get("fun")
    if not isinstance(kind, str) or kind.lower() not in ("ineq", "eq"):
        raise ValueError(f"{name}: its type is {kind!r}; choose from 'ineq', 'eq'")
    if not callable(function):
        raise TypeError(f"{name}: its fun must be callable, got {type(function).__name__}")
    arguments = tuple(constraint.get("args", ()))

    def value(x):
        return np.atleast_1d(np.asarray(function(x, *arguments), np.float64)).ravel()

    point = np.clip(x0, lower, upper)
    start, steps = value(point.copy()), _reach(point, lower, upper)
    jac = constraint.get("jac")
    if callable(jac):
        A = np.array(np.atleast_2d(np.asarray(jac(point.copy(), *arguments), np.float64)))
    else:
        A = np.zeros((start.size, point.size))
        for j in np.flatnonzero(steps):
            moved = point.copy()
            moved[j] += steps[j]
            A[:, j] = (value(moved) - start) / (moved[j] - point[j])
    # What a coordinate can add to a row, beside the row's size: differences leave rounding where nothing is.
    size = np.abs(start) + np.abs(A) @ np.maximum(np.abs(point), np.abs(steps))
    A[np.abs(A) * np.abs(steps) <= _NOTHING * size[:, np.newaxis]] = 0.0
    constant = start - A @ point
    for x in _samples(lower, upper, point):
        miss = np.abs(value(x.copy()) - (A @ x + constant))
        allowed = _ROUNDING * (size + np.abs(A) @ np.abs(x))
        if not (miss <= allowed).all():
            i = int(np.argmax(~(miss <= allowed)))
            raise UnsupportedError(
                f"{name} is not linear: row {i} of its fun differs by {miss[i]:.3g} from a linear function at "
                f"x = {np.array2string(x, precision=4, threshold=8)}"
            )
    upper_side = -constant if kind.lower() == "eq" else np.full(constant.size, np.inf)
    return ProbedConstraint(LinearConstraint(A, -constant, upper_side), value, kind.lower() == "eq", name)
