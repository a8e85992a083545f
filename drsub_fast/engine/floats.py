"""The `math` of kernels that run as plain Python: infinite and undefined results are values, as in compiled code.

Python raises where C returns inf or NaN, and divides its own floats by zero with an error; so every function here
returns a numpy float, whose arithmetic follows C, and where `math` raises numpy answers.
"""

import math

import numpy as np


def _as_in_c(name, function):
    by_numpy = getattr(np, name, lambda *arguments: np.float64(np.nan))

    def call(*arguments):
        try:
            result = function(*arguments)
        except (ValueError, OverflowError):
            return by_numpy(*arguments)
        return np.float64(result) if isinstance(result, float) else result

    return call


for _name, _item in vars(math).items():
    if not _name.startswith("_"):
        globals()[_name] = _as_in_c(_name, _item) if callable(_item) else _item
