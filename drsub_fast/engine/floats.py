"""The `math` of kernels that run as plain Python: infinite and undefined results are values, as in compiled code.

Python raises where C returns inf or NaN, and divides its own floats by zero with an error; so every function here
returns a numpy float, whose arithmetic follows C.
"""

import math
from math import ceil, e, floor, frexp, inf, isfinite, isinf, isnan, nan, pi
from typing import Any

from numpy import float64

__all__ = [
    "ceil", "copysign", "e", "exp", "expm1", "floor", "frexp", "inf", "isfinite", "isinf", "isnan", "ldexp", "log",
    "log1p", "nan", "pi", "sqrt",
]  # fmt: skip


def sqrt(x: Any) -> Any:
    """Square root; NaN below 0."""
    return float64(math.sqrt(x)) if x >= 0.0 else float64(nan)


def log(x: Any) -> Any:
    """Natural logarithm; -inf at 0, NaN below."""
    return float64(math.log(x)) if x > 0.0 else float64(-inf if x == 0.0 else nan)


def log1p(x: Any) -> Any:
    """log(1 + x); -inf at -1, NaN below."""
    return float64(math.log1p(x)) if x > -1.0 else float64(-inf if x == -1.0 else nan)


def exp(x: Any) -> Any:
    """Exponential; inf where it overflows."""
    try:
        return float64(math.exp(x))
    except OverflowError:
        return float64(inf)


def expm1(x: Any) -> Any:
    """exp(x) - 1; inf where it overflows."""
    try:
        return float64(math.expm1(x))
    except OverflowError:
        return float64(inf)


def ldexp(x: Any, exponent: Any) -> Any:
    """x 2^exponent; inf where it overflows."""
    try:
        return float64(math.ldexp(x, int(exponent)))
    except OverflowError:
        return float64(math.copysign(inf, x))


def copysign(x: Any, y: Any) -> Any:
    """|x| with the sign of y."""
    return float64(math.copysign(x, y))
