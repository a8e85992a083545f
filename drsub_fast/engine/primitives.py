"""What kernels call that Numba does not know, as plain Python; the compiled twins are in `drsub_fast.engine.compiled`.

LAPACK and BLAS: every matrix is a C-ordered array, possibly larger than the problem (only its leading block is
used, its row length is the leading dimension), and triangles are lower. Fortran reads a C-ordered
buffer as the transpose: a lower triangle C with A = C C' is Fortran's upper U = C' with A = U'U, and
``C^-1 B`` is computed as ``B' U^-1``. The integer results are LAPACK's ``info``: 0 for success. Both twins overwrite
the same arguments.

Parts of the flat arrays that a workspace is made of: slices do the same, but compiled code spends fifty instructions on
each for what these never are: steps, negative or missing ends, ends beyond the array. A solver loop opens some thirty
parts.
"""

import math

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


def split(flat, *shapes):
    """Views of a flat array, one after the other: of each shape, a number of entries or (rows, columns)."""
    parts: tuple[np.ndarray, ...] = ()
    start = 0
    for shape in shapes:
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        parts += (flat[start : start + size].reshape(shape),)
        start += size
    return parts


def prefetch(array, place):
    """Tells the processor that the entries from ``place`` on of a vector will be read soon; the place must be there."""
