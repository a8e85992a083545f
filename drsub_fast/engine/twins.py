"""Kernels as plain Python that calls no compiled code: the same text with its names bound to twins.

Numbers follow C in it, as in compiled code: see `drsub_fast.engine.floats`.
"""

import math
import types
from typing import Any

from drsub_fast.engine import floats
from drsub_fast.engine.signatures import is_jitted

_NAMESPACES = {}


def twin(function: Any) -> Any:
    """The twin of a function."""
    cells = function.__closure__
    if cells is not None:
        cells = tuple(types.CellType(_twin_of(cell.cell_contents)) for cell in cells)
    return types.FunctionType(
        function.__code__, _namespace(function.__globals__), function.__name__, function.__defaults__, cells
    )


def _namespace(names):
    """Globals of the twins of a module."""
    known = _NAMESPACES.get(id(names))
    if known is None:
        # Entered before it is filled: modules may refer to each other.
        known = _NAMESPACES[id(names)] = dict(names)
        for name, value in names.items():
            known[name] = _twin_of(value)
    return known


def _twin_of(value):
    """What stands for a value in plain Python."""
    if value is math:
        return floats
    if hasattr(type(value), "interpreted"):  # a `Kernel`
        return value.interpreted
    if is_jitted(value):
        return twin(value.py_func)
    if isinstance(value, types.FunctionType) and hasattr(value, "twin"):
        return value.twin
    return value
