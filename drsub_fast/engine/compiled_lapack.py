"""The routines of `drsub_fast.engine.lapack` in compiled code, with a disk cache that outlives the process.

They are SciPy's own (``scipy.linalg.cython_lapack`` and ``cython_blas``). Their addresses change from process to
process, so compiled code refers to them by a symbol name that is registered here; a cached kernel is linked to the
present address when it is loaded.
"""

import numpy as np
from llvmlite import ir
from llvmlite.binding import add_symbol
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic, overload

from drsub_fast.engine.lapack import gemm, gesv, potrf, syrk, trsm


def _fortran(module, name):
    """A routine callable from compiled code with one tuple: arrays by their data, scalars by reference.

    The call returns the last scalar as the routine leaves it, which is LAPACK's ``info``.
    """
    symbol = f"drsub_fast_{name}"
    add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))

    @intrinsic
    def call(typingctx, arguments):
        def codegen(context, builder, signature, values):
            byte = ir.IntType(8).as_pointer()
            pointers = []
            for index, kind in enumerate(signature.args[0].types):
                value = builder.extract_value(values[0], index)
                if isinstance(kind, types.Array):
                    address = context.make_array(kind)(context, builder, value).data
                else:
                    address = cgutils.alloca_once_value(builder, value)
                pointers.append(builder.bitcast(address, byte))
            routine = ir.FunctionType(ir.VoidType(), [byte] * len(pointers))
            builder.call(cgutils.get_or_insert_function(builder.module, routine, symbol), pointers)
            return builder.load(address)

        return types.int32(arguments), codegen

    return call


_dpotrf = _fortran("cython_lapack", "dpotrf")
_dgesv = _fortran("cython_lapack", "dgesv")
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


@overload(gesv)
def _gesv(A, n, pivots, B, m):
    def compiled(A, n, pivots, B, m):
        return _dgesv((_int(n), _int(m), A, _int(A.shape[1]), pivots, B, _int(B.shape[1]), _int(0)))

    return compiled
