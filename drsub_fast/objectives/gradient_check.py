"""Whether a gradient is that of the values: differences to both sides of a point."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drsub_fast._records import Record

#: Step of a difference, as a part of 1 + |x_j|, and the units of the last place of f that it may miss.
_STEP, _ROUNDING = 6e-6, 1e-15


@dataclass(frozen=True, eq=False)
class GradientCheck(Record):
    """What `Objective.check_gradient` found; true if gradient and differences agree.

    Attributes
    ----------
    holds : bool
        Whether they agree at this point. It is evidence, not proof.
    gradient : ndarray, shape (n,)
        What f says.
    differences : ndarray, shape (n,)
        The mean of the differences to both sides; NaN where f is finite on neither.
    message : str
        The finding in words.
    """

    holds: bool
    gradient: NDArray[np.float64]
    differences: NDArray[np.float64]
    message: str

    def __bool__(self) -> bool:
        return self.holds


def compare_gradient(
    value: Callable[..., float], grad: NDArray[np.float64], x: NDArray[np.float64], tol: float
) -> GradientCheck:
    """`GradientCheck` at x; at a kink a derivative between the differences to both sides agrees."""
    here, steps = value(x), _STEP * (1.0 + np.abs(x))
    sides = np.empty((2, x.size))
    for side, sign in zip(sides, (-1.0, 1.0), strict=True):
        for j, step in enumerate(sign * steps):
            y = x.copy()
            y[j] += step
            with np.errstate(all="ignore"):
                side[j] = (value(y) - here) / (y[j] - x[j])
    sides[~np.isfinite(sides)] = np.nan
    low, high = np.fmin(*sides), np.fmax(*sides)
    means = np.where(np.isnan(sides[0]), sides[1], np.where(np.isnan(sides[1]), sides[0], 0.5 * (low + high)))
    scale = max(np.abs(grad[np.isfinite(grad)]).max(initial=0.0), np.abs(means[np.isfinite(means)]).max(initial=0.0))
    allowed = tol * scale + _ROUNDING * abs(here) / steps
    missed = np.fmax(np.fmax(low - grad, grad - high) - allowed, 0.0)
    missed[~np.isfinite(grad) & np.isfinite(means)] = np.inf
    if not missed.any():
        return GradientCheck(True, grad, means, "gradient and differences agree")
    j = int(missed.argmax())
    message = f"the derivative in x[{j}] is {grad[j]:.6g}, and by differences of the values {means[j]:.6g}"
    return GradientCheck(False, grad, means, message)
