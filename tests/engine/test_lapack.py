"""LAPACK and BLAS from kernels: compiled and plain Python agree, and the disk cache is hit."""

import subprocess
import sys

import numpy as np
import pytest

from drsub_fast.engine import primitives as lapack
from drsub_fast.engine.jit import COMPILE, kernel


@kernel
def _potrf(A, n):
    return lapack.potrf(A, n)


@kernel
def _trsm(C, n, B, m):
    return lapack.trsm(C, n, B, m)


@kernel
def _gemm(scale, A, m, B, n, k, C):
    return lapack.gemm(scale, A, m, B, n, k, C)


@kernel
def _syrk(scale, A, n, k, C):
    return lapack.syrk(scale, A, n, k, C)


@pytest.fixture(params=["compiled", "python"])
def routine(request):
    """Looks up a routine as kernels see it, or as plain Python does."""
    return lambda name: globals()[f"_{name}"] if request.param == "compiled" else getattr(lapack, name)


def definite(n, room, rng):
    """A positive definite leading block in a larger array."""
    B = rng.standard_normal((n, n))
    A = np.full((room, room), 7.0)
    A[:n, :n] = B @ B.T + np.eye(n)
    return A


def test_product_with_itself_touches_one_triangle(routine):
    rng = np.random.default_rng(5)
    A, C = rng.standard_normal((4, 9)), np.full((8, 8), 7.0)
    routine("syrk")(-2.0, A, 6, 3, C)
    expected = np.full((8, 8), 7.0)
    expected[:6, :6] -= np.triu(2.0 * A[:3, :6].T @ A[:3, :6])
    np.testing.assert_allclose(C, expected, rtol=1e-14)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_cholesky_factor_and_solve(routine, n):
    rng = np.random.default_rng(n)
    A = definite(n, n + 3, rng)
    C = A.copy()
    assert routine("potrf")(C, n) == 0
    factor = np.tril(C[:n, :n])
    np.testing.assert_allclose(factor @ factor.T, A[:n, :n], rtol=1e-12, atol=1e-12)
    assert (C[n:] == 7.0).all()
    assert (C[:, n:] == 7.0).all()
    B = rng.standard_normal((n, 6))
    Y = B.copy()
    routine("trsm")(C, n, Y, 4)
    np.testing.assert_allclose(factor @ Y[:, :4], B[:, :4], rtol=1e-10, atol=1e-11)
    np.testing.assert_array_equal(Y[:, 4:], B[:, 4:])


def test_an_indefinite_matrix_is_reported(routine):
    assert routine("potrf")(np.diag([1.0, -1.0, 2.0]), 3) == 2


def test_product(routine):
    rng = np.random.default_rng(0)
    A, B, C = rng.standard_normal((5, 4)), rng.standard_normal((6, 7)), rng.standard_normal((4, 8))
    expected = C.copy()
    expected[:3, :6] -= 0.5 * A[:4, :3].T @ B[:4, :6]
    routine("gemm")(-0.5, A, 3, B, 6, 4, C)
    np.testing.assert_allclose(C, expected, rtol=1e-13)
    expected[1:, 2:] += A[1:4, 1:].T @ B[1:4, 1:]
    routine("gemm")(1.0, A[1:, 1:], 3, B[1:, 1:], 6, 3, C[1:, 2:])
    np.testing.assert_allclose(C, expected, rtol=1e-13)


_RUN = """
import numpy as np
import drsub_fast as ds
from drsub_fast.objectives.base import _value_and_gradient
assert ds.Softmax(np.diag([2.0, 3.0]), unit_box=False).value([1.0, 1.5]) > 0.0
stats = _value_and_gradient.standalone.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.skipif(COMPILE != "now", reason="kernels are not compiled")
def test_a_second_process_finds_the_compiled_kernel():
    def hits_and_misses():
        return subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, check=True).stdout.split()

    hits_and_misses()
    assert hits_and_misses() == ["1", "0"]
