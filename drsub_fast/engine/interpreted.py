"""Kernels as plain Python that calls no compiled code: the same text with its names bound to twins, timed.

Numbers follow C in it, as in compiled code: infinite and undefined results are values. Python raises where C returns
inf or NaN, and divides its own floats by zero with an error; so the functions of `floats`, which stands for `math`,
return numpy floats, whose arithmetic follows C, and where `math` raises numpy answers.
"""

import math
import threading
import time
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from drsub_fast.engine.clock import OutOfTime, call_with_alarm, call_without_alarm
from drsub_fast.engine.signatures import Types, is_jitted


def _as_in_c(name, function):
    by_numpy = getattr(np, name, lambda *arguments: np.float64(np.nan))

    def call(*arguments):
        try:
            result = function(*arguments)
        except (ValueError, OverflowError):
            return by_numpy(*arguments)
        return np.float64(result) if isinstance(result, float) else result

    return call


floats = types.SimpleNamespace(
    **{name: _as_in_c(name, item) if callable(item) else item for name, item in vars(math).items() if name[0] != "_"}
)

_NAMESPACES: dict[int, dict[str, Any]] = {}


def twin(function: Any) -> types.FunctionType:
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


class _Timed(Protocol):
    """What `Interpreted` asks of a kernel."""

    @property
    def interpreted(self) -> Callable[..., Any]: ...

    def note(self, types: Types, seconds: float) -> None: ...

    def pays(self, types: Types, ahead: float = 0.0, most: float = math.inf) -> str | None: ...


_state = threading.local()


class Interpreted:
    """A kernel as plain Python, timed: what it takes counts towards compiling it.

    Attributes
    ----------
    seconds : float
        Processor seconds of its calls so far.
    arrays : tuple of ndarray
        Arguments that Ctrl-C or the end of the time must not leave half-written: they get back what they were before
        the call.
    """

    def __init__(self, kernel: _Timed, types: Types) -> None:
        self._kernel, self._types = kernel, types
        self.seconds = 0.0
        self.arrays: tuple[np.ndarray, ...] = ()
        self._kept: list[np.ndarray] = []  # new memory would cost more than copies into it

    def __call__(self, *arguments: Any) -> Any:
        kept = self._copies()
        before = getattr(_state, "errors", None)
        _state.errors, _state.outside, began = before or np.geterr(), 0.0, time.thread_time()
        try:
            with np.errstate(all="ignore"):
                return call_with_alarm(self._kernel.interpreted, *arguments)
        except (KeyboardInterrupt, OutOfTime):
            for array, values in zip(self.arrays, kept, strict=True):
                array[:] = values
            raise
        finally:
            self.count(time.thread_time() - began - _state.outside)
            _state.errors = before

    def _copies(self):
        if [array.shape for array in self._kept] != [array.shape for array in self.arrays]:
            self._kept = [np.empty_like(array) for array in self.arrays]
        for copy, array in zip(self._kept, self.arrays, strict=True):
            copy[:] = array
        return self._kept

    def count(self, seconds: float) -> None:
        """Adds processor seconds."""
        self.seconds += seconds
        self._kernel.note(self._types, seconds)

    @contextmanager
    def counted(self) -> Generator[None, None, None]:
        """A context of code that runs in the kernel's place."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.count(time.thread_time() - began)

    def pays(self, ahead: float = 0.0, most: float = math.inf) -> bool:
        """Whether compiled code had better do the rest, see `Kernel.pays`."""
        return self._kernel.pays(self._types, ahead, most) is not None


def call_outside(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a user's function from a kernel that runs as plain Python.

    It handles floating-point errors as the user has asked numpy to, and its time does not count as the kernel's.
    """
    errors = getattr(_state, "errors", None)
    if errors is None:
        return function(*arguments)
    began = time.thread_time()
    try:
        with np.errstate(**errors):
            return call_without_alarm(function, *arguments)
    finally:
        _state.outside += time.thread_time() - began
