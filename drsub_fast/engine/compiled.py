"""What kernels call that Numba does not know, in compiled code: `drsub_fast.engine.primitives`, and other kernels by
their address.

What is private of Numba in it is listed in `drsub_fast.engine.linked`.
"""

import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import get_cython_function_address, intrinsic, lower_builtin, overload

from drsub_fast.engine.jit import Kernel, compiling
from drsub_fast.engine.primitives import gemm, potrf, prefetch, split, syrk, trsm

#: Numba's types of the arguments of a call.
Signature = tuple[Any, ...]


def _fortran(module, name):
    """A routine of SciPy, callable from compiled code with one tuple: arrays by their data, scalars by reference.

    The call returns the last scalar as the routine leaves it, which is LAPACK's ``info``. The addresses of routines
    change from process to process, so code refers to them by names that are registered here.
    """
    symbol = f"drsub_fast_{name}"
    binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))

    @intrinsic
    def call(typingctx, arguments):
        def codegen(context, builder, called, values):
            byte = ir.IntType(8).as_pointer()
            pointers = []
            for index, numba_type in enumerate(called.args[0].types):
                value = builder.extract_value(values[0], index)
                if isinstance(numba_type, types.Array):
                    address = context.make_array(numba_type)(context, builder, value).data
                else:
                    address = cgutils.alloca_once_value(builder, value)
                pointers.append(builder.bitcast(address, byte))
            routine = ir.FunctionType(ir.VoidType(), [byte] * len(pointers))
            builder.call(cgutils.get_or_insert_function(builder.module, routine, symbol), pointers)
            return builder.load(address)

        return types.int32(arguments), codegen

    return call


_dpotrf = _fortran("cython_lapack", "dpotrf")
_dtrsm = _fortran("cython_blas", "dtrsm")
_dgemm = _fortran("cython_blas", "dgemm")
_dsyrk = _fortran("cython_blas", "dsyrk")

_int = np.int32
_RIGHT, _UPPER, _LOWER, _PLAIN, _TRANSPOSED = (np.uint8(ord(letter)) for letter in "RULNT")


@overload(potrf)
def _potrf(A, n):
    def compiled(A, n):
        return _dpotrf((_UPPER, _int(n), A, _int(A.shape[1]), _int(0)))

    return compiled


@overload(trsm)
def _trsm(C, n, B, m):
    def compiled(C, n, B, m):
        ldc, ldb = _int(C.strides[0] // 8), _int(B.strides[0] // 8)
        _dtrsm((_RIGHT, _UPPER, _PLAIN, _PLAIN, _int(m), _int(n), 1.0, C, ldc, B, ldb))

    return compiled


@overload(gemm)
def _gemm(scale, A, m, B, n, k, C):
    def compiled(scale, A, m, B, n, k, C):
        # Rows may be parts of longer ones.
        lda, ldb, ldc = _int(A.strides[0] // 8), _int(B.strides[0] // 8), _int(C.strides[0] // 8)
        _dgemm((_PLAIN, _TRANSPOSED, _int(n), _int(m), _int(k), float(scale), B, ldb, A, lda, 1.0, C, ldc))

    return compiled


@overload(syrk)
def _syrk(scale, A, n, k, C):
    def compiled(scale, A, n, k, C):
        _dsyrk((_LOWER, _PLAIN, _int(n), _int(k), float(scale), A, _int(A.shape[1]), 1.0, C, _int(C.shape[1])))

    return compiled


@infer_global(split)
class _TypeOfParts(AbstractTemplate):
    def generic(self, arguments, keywords):
        flat, *shapes = arguments
        if isinstance(flat, types.Array) and flat.ndim == 1 and flat.layout == "C":
            views = [flat.copy(ndim=len(shape) if isinstance(shape, types.BaseTuple) else 1) for shape in shapes]
            return types.Tuple(views)(*arguments)


def _lengths(context, builder, shape, shape_type):
    """The numbers of a shape, as sizes of arrays."""
    pairs = [(shape, shape_type)]
    if isinstance(shape_type, (types.UniTuple, types.Tuple)):
        pairs = list(zip(cgutils.unpack_tuple(builder, shape), shape_type, strict=True))
    return [context.cast(builder, value, integer, types.intp) for value, integer in pairs]


@lower_builtin(split, types.Array, types.VarArg(types.Any))
def _parts(context, builder, called, values):
    given = context.make_array(called.args[0])(context, builder, values[0])
    start = context.get_constant(types.intp, 0)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(called.args[0].dtype)))
    parts = []
    for view_type, shape, shape_type in zip(called.return_type, values[1:], called.args[1:], strict=True):
        lengths = _lengths(context, builder, shape, shape_type)
        size, strides = lengths[-1], [itemsize]
        if view_type.ndim == 2:
            size, strides = builder.mul(*lengths), [builder.mul(size, itemsize), itemsize]
        view = context.make_array(view_type)(context, builder)
        view.data, view.meminfo, view.parent = builder.gep(given.data, [start]), given.meminfo, given.parent
        view.shape, view.strides = cgutils.pack_array(builder, lengths), cgutils.pack_array(builder, strides)
        view.nitems, view.itemsize = size, itemsize
        parts.append(view._getvalue())
        start = builder.add(start, size)
    views = context.make_tuple(builder, called.return_type, parts)
    if context.enable_nrt:  # the parts are counted as holders of the array
        context.nrt.incref(builder, called.return_type, views)
    return views


#: To be read, and to be kept in all caches; from the data.
_READ, _KEEP, _DATA = 0, 3, 1


@intrinsic
def _prefetch(typingctx, array, place):
    def codegen(context, builder, called, values):
        address = builder.gep(context.make_array(array)(context, builder, values[0]).data, [values[1]])
        address = builder.bitcast(address, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [address.type], ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        )
        builder.call(hint, [address, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, place), codegen


#: As kernels call it, without the typing context.
_prefetched: Callable[..., None] = _prefetch


@overload(prefetch)
def _prefetch_in_kernels(array, place):
    def compiled(array, place):
        _prefetched(array, place)

    return compiled


class Cell:
    """Where compiled code finds the address of a kernel that it does not link in.

    The symbols of the cell and of what fills it are registered in every process, so that code from the disk cache is
    linked to the cell of its process; a call that finds the cell empty has it filled.
    """

    def __init__(self, name: str, kernel: Kernel, signature: Signature) -> None:
        self.described = name, kernel, signature
        self._address, self._lock = ctypes.c_int64(0), threading.Lock()
        self._callback = ctypes.CFUNCTYPE(ctypes.c_int64)(self.fill)
        binding.add_symbol(f"{name}.cell", ctypes.addressof(self._address))
        binding.add_symbol(f"{name}.fill", ctypes.cast(self._callback, ctypes.c_void_p).value)

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
        _, kernel, signature = self.described
        with compiling():
            kernel.standalone.compile(signature)
        result = kernel.standalone.overloads[signature]
        return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


CELLS: dict[str, Cell] = {}


def cell_of(name: str, kernel: Kernel, signature: Signature) -> Cell:
    """The cell of a kernel for a signature, one for each name."""
    if name not in CELLS:
        CELLS[name] = Cell(name, kernel, signature)
    return CELLS[name]


def call_by_cell(context, builder, arguments, values, name):
    """Code that calls what the cell of a name holds."""
    convention, integer = context.call_conv, ir.IntType(64)
    place = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), f"{name}.cell")
    fill = cgutils.get_or_insert_function(builder.module, ir.FunctionType(integer, []), f"{name}.fill")
    address = cgutils.alloca_once_value(builder, builder.load(builder.bitcast(place, integer.as_pointer())))
    empty = builder.icmp_unsigned("==", builder.load(address), integer(0))
    with builder.if_then(empty, likely=False):
        builder.store(builder.call(fill, []), address)
    function_type = convention.get_function_type(types.int64, arguments)
    callee = builder.inttoptr(builder.load(address), function_type.as_pointer())
    # A kernel never raises, so its status is not looked at.
    _, result = convention.call_function(builder, callee, types.int64, arguments, values)
    return result
