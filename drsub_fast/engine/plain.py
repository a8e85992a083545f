"""Kernels by Numba's public means alone: slower to compile and to run, not cached, for any version of Numba.

Each kernel is an ordinary ``numba.njit`` function, which Numba links into its callers as it does by itself.
"""

from typing import Any

import numba
from numba.extending import overload, typeof_impl

from drsub_fast.engine.jit import Kernel, call_alone

_REDUCTION_FLAGS = {"reassoc", "contract", "arcp", "nsz"}


@typeof_impl.register(Kernel)
def _type_of_kernel(kernel, context):
    return numba.typeof(kernel.linked)


def linked_function(kernel: Any) -> Any:
    """The kernel as a Numba function."""
    flags = _REDUCTION_FLAGS if kernel.options["reductions"] else False
    return numba.njit(nogil=True, error_model="numpy", fastmath=flags)(kernel.py_func)


def standalone_function(kernel: Any) -> Any:
    """The same."""
    return kernel.linked


def compile(kernel: Any, arguments: Any) -> Any:
    """The kernel, compiled for arguments of these types."""
    kernel.linked.compile(tuple(map(numba.typeof, arguments)))
    return kernel.linked


def add_operation(call: Any, table: Any) -> None:
    """Makes a generic operation known to Numba."""

    @overload(call)
    def implementation(params, *args):
        kernel = table.lookup(getattr(params, "instance_class", None))
        return lambda params, *args: kernel(params, *args)


def add_separate(separate: Any) -> None:
    """Makes a separate kernel known to Numba: an ordinary call."""
    kernel = separate.kernel

    @overload(separate.call)
    def implementation(*args):
        return lambda *args: kernel(*args)


@overload(call_alone)
def _call_alone(function, arguments):
    return lambda function, arguments: function(*arguments)
