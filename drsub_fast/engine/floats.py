"""The `math` of kernels that run as plain Python: infinite and undefined results are values, as in compiled code.

Python raises where C returns inf or NaN, and divides its own floats by zero with an error; so every function here
returns a numpy float, whose arithmetic follows C.
"""

import math
from math import ceil, e, floor, frexp, inf, isfinite, isinf, isnan, nan, pi

from numpy import float64

__all__ = [
    "ceil", "copysign", "e", "exp", "expm1", "floor", "frexp", "inf", "isfinite", "isinf", "isnan", "ldexp", "log",
    "log1p", "nan", "pi", "sqrt",
]  # fmt: skip


def sqrt(x):
    """Square root; NaN below 0."""
    return float64(math.sqrt(x)) if x >= 0.0 else float64(nan)


def log(x):
    """Natural logarithm; -inf at 0, NaN below."""
    return float64(math.log(x)) if x > 0.0 else float64(-inf if x == 0.0 else nan)


def log1p(x):
    """log(1 + x); -inf at -1, NaN below."""
    return float64(math.log1p(x)) if x > -1.0 else float64(-inf if x == -1.0 else nan)


def exp(x):
    """Exponential; inf where it overflows."""
    try:
        return float64(math.exp(x))
    except OverflowError:
        return float64(inf)


def expm1(x):
    """exp(x) - 1; inf where it overflows."""
    try:
        return float64(math.expm1(x))
    except OverflowError:
        return float64(inf)


def ldexp(x, exponent):
    """x 2^exponent; inf where it overflows."""
    try:
        return float64(math.ldexp(x, int(exponent)))
    except OverflowError:
        return float64(math.copysign(inf, x))


def copysign(x, y):
    """|x| with the sign of y."""
    return float64(math.copysign(x, y))
