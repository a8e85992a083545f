"""What a user's compiled function or kernel does, as a digest that is the same in every process.

Compiled code depends on a function's instructions and constants and on the values of the globals and closure that
it names, which Numba freezes; so functions with equal digests share their compiled code. What belongs to this package
counts by its name: its files have a digest of their own (`drsub_fast.engine.store`).
"""

import hashlib
import sys
import types
from typing import Any

import numpy as np

from drsub_fast.engine.signatures import is_jitted

#: Packages whose contents are known by name and version.
_KNOWN = ("builtins", "cmath", "drsub_fast", "math", "numba", "numpy", "operator", "scipy")


class _Unknown(Exception):
    """A value that another process may not have."""


def is_known(module: Any) -> bool:
    """Whether what a module holds is known by its name."""
    return str(module).partition(".")[0] in _KNOWN


def fingerprint(function: Any) -> Any:
    """Digest of a function or kernel, or None where it uses something that cannot be told in words."""
    digest = hashlib.sha256()
    try:
        _add(digest.update, function, set())
    except _Unknown:
        return None
    return digest.hexdigest()


def _add(write, value, seen):
    """Writes a description of a value, each function once."""
    if is_jitted(value) or hasattr(type(value), "interpreted"):  # a `Kernel`
        options = value.targetoptions if is_jitted(value) else value.options
        write(repr(sorted(options.items(), key=str)).encode())
        value = value.py_func
    value = getattr(value, "kernel", value)  # of a separate one
    if isinstance(value, types.FunctionType) and not is_known(value.__module__):
        if value.__code__ not in seen:
            seen.add(value.__code__)
            _add_function(write, value, seen)
        write(value.__qualname__.encode())
    elif isinstance(value, types.CodeType):
        write(repr((value.co_name, value.co_names, value.co_varnames, value.co_argcount, value.co_flags)).encode())
        write(value.co_code)
        _add(write, value.co_consts, seen)
    elif isinstance(value, (tuple, frozenset, list)):
        write(f"{type(value).__name__} {len(value)}".encode())
        for item in sorted(value, key=repr) if isinstance(value, frozenset) else value:
            _add(write, item, seen)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        write(f"{value.dtype.str} {value.shape}".encode())
        write(value.tobytes())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, type(...))):
        write(f"{type(value).__name__} {value!r}".encode())
    elif isinstance(value, type) and hasattr(value, "_fields"):
        write(f"{value.__qualname__} {value._fields}".encode())
    else:
        write(_name_of(value).encode())


def _add_function(write, function, seen):
    _add(write, function.__code__, seen)
    _add(write, function.__defaults__, seen)
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            write(name.encode())
            _add(write, function.__globals__[name], seen)
    for cell in function.__closure__ or ():
        _add(write, cell.cell_contents, seen)


def _names(code):
    """Names that a function and those inside it look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _name_of(value):
    """Name and version of something from a known package."""
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if module is None and isinstance(value, (np.ufunc, types.BuiltinFunctionType)):
        module = "numpy"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not is_known(module) or name is None:
        raise _Unknown
    return f"{module} {name} {getattr(sys.modules.get(str(module).partition('.')[0]), '__version__', '')}"
