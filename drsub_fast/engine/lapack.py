"""LAPACK and BLAS for kernels.

Convention: every matrix is a C-ordered array, possibly larger than the problem (only its leading block is
used, its row length is the leading dimension), and triangles are lower. Fortran reads a C-ordered
buffer as the transpose: a lower triangle C with A = C C' is Fortran's upper U = C' with A = U'U, and
``C^-1 B`` is computed as ``B' U^-1``. The integer results are LAPACK's ``info``: 0 for success.

Each routine is a Python function on SciPy's wrappers with a compiled twin in `drsub_fast.engine.compiled`, so
that kernels also run as plain Python. Both overwrite the same arguments.
"""

import numpy as np
from scipy.linalg import blas, lapack


def potrf(A, n):
    """Cholesky factor of A[:n, :n], reading and overwriting its lower triangle."""
    factor, info = lapack.dpotrf(A[:n, :n].T, lower=0, clean=0)
    A[:n, :n] = factor.T
    return info


def trsm(C, n, B, m):
    """B[:n, :m] becomes C^-1 B for the lower triangle C[:n, :n]."""
    B[:n, :m] = blas.dtrsm(1.0, C[:n, :n].T, B[:n, :m].T, side=1, lower=0).T


def gemm(scale, A, m, B, n, k, C):
    """C[:m, :n] += scale * A[:k, :m]' B[:k, :n]."""
    C[:m, :n] += scale * (A[:k, :m].T @ B[:k, :n])


def syrk(scale, A, n, k, C):
    """The upper triangle of C[:n, :n] += scale * A[:k, :n]' A[:k, :n]."""
    C[:n, :n] += np.triu(scale * (A[:k, :n].T @ A[:k, :n]))
