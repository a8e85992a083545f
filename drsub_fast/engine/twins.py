"""Kernels as plain Python that calls no compiled code: the same text with its names bound to twins.

Numbers follow C in it, as in compiled code: see `drsub_fast.engine.floats`. A twin is watched or not: in a watched one
each call of a kernel raises `OutOfTime` where the time of the thread is over.
"""

import math
import types
from collections.abc import Callable
from typing import Any

from drsub_fast.engine import floats
from drsub_fast.engine.clock import require_time
from drsub_fast.engine.signatures import is_jitted

_NAMESPACES = {}


def twin(function: Any, is_watched: bool) -> Any:
    """The twin of a function."""
    cells = function.__closure__
    if cells is not None:
        cells = tuple(types.CellType(_twin_of(cell.cell_contents, is_watched)) for cell in cells)
    return types.FunctionType(
        function.__code__, _namespace(function.__globals__, is_watched), function.__name__, function.__defaults__, cells
    )


def watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises `OutOfTime` where it is called too late."""

    def call(*arguments):
        require_time()
        return function(*arguments)

    return call


def _namespace(names, is_watched):
    """Globals of the twins of a module."""
    known = _NAMESPACES.get((id(names), is_watched))
    if known is None:
        # Entered before it is filled: modules may refer to each other.
        known = _NAMESPACES[id(names), is_watched] = dict(names)
        for name, value in names.items():
            known[name] = _twin_of(value, is_watched)
    return known


def _twin_of(value, is_watched):
    """What stands for a value in plain Python."""
    if value is math:
        return floats
    if hasattr(type(value), "watched"):  # a `Kernel`
        return value.watched if is_watched else value.interpreted
    if is_jitted(value):
        return twin(value.py_func, is_watched)
    if isinstance(value, types.FunctionType) and hasattr(value, "twin"):
        return value.watched if is_watched else value.twin
    return value
