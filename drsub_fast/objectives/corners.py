"""What value and gradient at the corners 0 and u of a box say about a DR-submodular function on it.

The gradient is antitone, so on [0, u]

    f(x) >= f(0) + <grad f(u), x>,   f(x) >= f(u) - <grad f(0), u - x>,

and f is non-decreasing if and only if grad f(u) >= 0.
"""

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.base import Objective


def nonnegative(f: Objective, upper: NDArray[np.float64]) -> bool | None:
    """Whether f >= 0 on [0, upper]: True or False where the corners decide it, else None."""
    value_low, grad_low = f.value_and_gradient(np.zeros(f.n))
    value_high, grad_high = f.value_and_gradient(upper)
    if value_low + np.minimum(0.0, grad_high * upper).sum() >= 0.0:
        return True
    if value_high - np.maximum(0.0, grad_low * upper).sum() >= 0.0:
        return True
    if value_low < 0.0 or value_high < 0.0:
        return False
    return None


def monotone(f: Objective, upper: NDArray[np.float64]) -> bool:
    """Whether f is non-decreasing on [0, upper]."""
    return bool(f.gradient(upper).min() >= 0.0)
