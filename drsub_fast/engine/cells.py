"""Calls by address: how compiled code reaches kernels that it does not link in."""

import ctypes
import signal
import threading
from functools import cached_property
from typing import Any

import numba
from llvmlite import ir
from llvmlite.binding import add_symbol
from numba.core import cgutils

from drsub_fast.engine.jit import compiling


class Cell:
    """Where compiled code finds the address of a kernel that it does not link in.

    The symbols of the cell and of what fills it are registered in every process, so that code from the disk cache is
    linked to the cell of its process; a call that finds the cell empty has it filled.
    """

    name: str
    kernel: Any
    is_separate: bool

    def __init__(self, name: str, kernel: Any, find_signature: Any, is_separate: bool = False) -> None:
        self.name, self.kernel, self._find_signature, self.is_separate = name, kernel, find_signature, is_separate
        self._address, self._lock = ctypes.c_int64(0), threading.Lock()
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int64)(self.fill)
        add_symbol(f"{name}.cell", ctypes.addressof(self._address))
        add_symbol(f"{name}.fill", ctypes.cast(self._callback, ctypes.c_void_p).value)

    @cached_property
    def signature(self) -> Any:
        """Types of the arguments."""
        return self._find_signature()

    def described(self) -> Any:
        """What `cell_of` takes, for other processes; separate kernels make their cells there themselves."""
        return (self.name,) if self.is_separate else (self.name, self.kernel, self.signature)

    def fill(self) -> int:
        """Compiles the kernel and notes its address. Ctrl-C waits meanwhile: it cannot pass through compiled code."""
        interrupted = False
        with self._lock:
            while not self._address.value:
                try:
                    self._address.value = self._compiled()
                except KeyboardInterrupt:
                    interrupted = True
        if interrupted:
            signal.raise_signal(signal.SIGINT)
        return self._address.value

    def _compiled(self):
        function = self.kernel.standalone
        with compiling():
            function.compile(self.signature)
        result = function.overloads[self.signature]
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


CELLS = {}


def cell_of(name: str, kernel: Any = None, signature: Any = None) -> Cell:
    """The cell of a kernel for a signature, one for each name."""
    if name not in CELLS and kernel is not None:
        CELLS[name] = Cell(name, kernel, lambda: signature)
    return CELLS[name]


def call_by_cell(context: Any, builder: Any, arguments: Any, values: Any, name: str) -> Any:
    """Code that calls what the cell of a name holds."""
    convention, integer = context.call_conv, ir.IntType(64)
    place = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), f"{name}.cell")
    fill = cgutils.get_or_insert_function(builder.module, ir.FunctionType(integer, []), f"{name}.fill")
    address = cgutils.alloca_once_value(builder, builder.load(builder.bitcast(place, integer.as_pointer())))
    empty = builder.icmp_unsigned("==", builder.load(address), integer(0))
    with builder.if_then(empty, likely=False):
        builder.store(builder.call(fill, []), address)
    function_type = convention.get_function_type(numba.types.int64, arguments)
    callee = builder.inttoptr(builder.load(address), function_type.as_pointer())
    # A kernel never raises, so its status is not looked at.
    _, result = convention.call_function(builder, callee, numba.types.int64, arguments, values)
    return result
