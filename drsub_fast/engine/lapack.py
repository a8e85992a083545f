"""LAPACK and BLAS for kernels, with a disk cache that outlives the process.

The routines are SciPy's own (``scipy.linalg.cython_lapack`` and ``cython_blas``). Their addresses change
from process to process, so compiled code refers to them by a symbol name that is registered at import;
a cached kernel is linked to the present address when it is loaded.

Convention: every matrix is a C-ordered array, possibly larger than the problem (only its leading block is
used, its row length is the leading dimension), and triangles are lower. Fortran reads a C-ordered
buffer as the transpose: a lower triangle C with A = C C' is Fortran's upper U = C' with A = U'U, and
``C^-1 B`` is computed as ``B' U^-1``. The integer results are LAPACK's ``info``: 0 for success.

Each routine is a Python function on SciPy's wrappers with a compiled twin, so that kernels also run as
plain Python. Both overwrite the same arguments.
"""

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic, overload
from scipy.linalg import blas, lapack


def _fortran(module, name):
    """A routine callable from compiled code with one tuple: arrays by their data, scalars by reference.

    The call returns the last scalar as the routine leaves it, which is LAPACK's ``info``.
    """
    symbol = f"drsub_fast_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))

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


def potrf(A, n):
    """Cholesky factor of A[:n, :n], reading and overwriting its lower triangle."""
    factor, info = lapack.dpotrf(A[:n, :n].T, lower=0, clean=0)
    A[:n, :n] = factor.T
    return info


@overload(potrf)
def _potrf(A, n):
    def compiled(A, n):
        return _dpotrf((_UPPER, _int(n), A, _int(A.shape[1]), _int(0)))

    return compiled


def trsm(C, n, B, m):
    """B[:n, :m] becomes C^-1 B for the lower triangle C[:n, :n]."""
    B[:n, :m] = blas.dtrsm(1.0, C[:n, :n].T, B[:n, :m].T, side=1, lower=0).T


@overload(trsm)
def _trsm(C, n, B, m):
    def compiled(C, n, B, m):
        ldc, ldb = _int(C.strides[0] // 8), _int(B.strides[0] // 8)
        _dtrsm((_RIGHT, _UPPER, _PLAIN, _PLAIN, _int(m), _int(n), 1.0, C, ldc, B, ldb))

    return compiled


def gemm(scale, A, m, B, n, k, C):
    """C[:m, :n] += scale * A[:k, :m]' B[:k, :n]."""
    C[:m, :n] += scale * (A[:k, :m].T @ B[:k, :n])


@overload(gemm)
def _gemm(scale, A, m, B, n, k, C):
    def compiled(scale, A, m, B, n, k, C):
        # Rows may be parts of longer ones.
        lda, ldb, ldc = _int(A.strides[0] // 8), _int(B.strides[0] // 8), _int(C.strides[0] // 8)
        _dgemm((_PLAIN, _TRANSPOSED, _int(n), _int(m), _int(k), float(scale), B, ldb, A, lda, 1.0, C, ldc))

    return compiled


def syrk(scale, A, n, k, C):
    """The upper triangle of C[:n, :n] += scale * A[:k, :n]' A[:k, :n]."""
    C[:n, :n] += np.triu(scale * (A[:k, :n].T @ A[:k, :n]))


@overload(syrk)
def _syrk(scale, A, n, k, C):
    def compiled(scale, A, n, k, C):
        _dsyrk((_LOWER, _PLAIN, _int(n), _int(k), float(scale), A, _int(A.shape[1]), 1.0, C, _int(C.shape[1])))

    return compiled


def gesv(A, n, pivots, B, m):
    """B[:m, :n] becomes the transpose of A^-T B' by LU with row exchanges; A holds the factors.

    In terms of rows: each row b of B is replaced by the solution z of A' z = b. ``pivots`` is int32,
    shape (n,), counted from 1; A[i, i] are the pivots.
    """
    factor, order, solution, info = lapack.dgesv(A[:n, :n].T, B[:m, :n].T)
    A[:n, :n] = factor.T
    B[:m, :n] = solution.T
    pivots[:n] = order + 1
    return info


@overload(gesv)
def _gesv(A, n, pivots, B, m):
    def compiled(A, n, pivots, B, m):
        return _dgesv((_int(n), _int(m), A, _int(A.shape[1]), pivots, B, _int(B.shape[1]), _int(0)))

    return compiled
