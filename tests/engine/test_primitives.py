"""Parts of flat arrays: the same entries compiled and as plain Python, without a copy."""

import gc

import numpy as np
import pytest

from drsub_fast.engine.jit import compiling, engine, kernel
from drsub_fast.engine.primitives import split


@kernel(memory=True)
def _write(floats, integers, n):
    first, grid, rest = split(floats, n, (2, n), floats.size - 3 * n)
    _, counts = split(integers, 1, 2)
    for j in range(n):
        first[j] = 1.0 + j
        grid[0, j] = 10.0 + j
        grid[1, j] = 20.0 + j
    rest[:] = -1.0
    counts[:] = grid.shape
    return rest.size


@kernel(memory=True)
def _outlives(n):
    values = np.arange(float(n))
    return split(values, 1, n - 2)[1]


@kernel(memory=True)
def _part_of(array):
    return split(array, 1)[0]


@pytest.mark.parametrize("compiled", [True, False])
def test_parts_are_views(compiled):
    floats, integers = np.zeros(11), np.zeros(4, np.int64)
    with compiling():
        size = (_write if compiled else _write.interpreted)(floats, integers, 3)
    assert size == 2
    np.testing.assert_array_equal(floats, [1, 2, 3, 10, 11, 12, 20, 21, 22, -1, -1])
    np.testing.assert_array_equal(integers, [0, 2, 3, 0])


def test_a_part_keeps_its_array_alive():
    with compiling():
        kept = [_outlives(1000) for _ in range(100)]
    gc.collect()
    for values in kept:
        np.testing.assert_array_equal(values, np.arange(1.0, 999.0))


def test_only_flat_arrays_have_parts():
    engine()
    from numba.core.errors import TypingError

    with compiling(), pytest.raises(TypingError):
        _part_of(np.zeros((2, 2)))


def test_the_collector_runs_again_after_a_compilation():
    assert gc.isenabled()
    with compiling():
        _write(np.zeros(11), np.zeros(4, np.int64), 3)
    assert gc.isenabled()
