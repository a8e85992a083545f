"""Kernels: compiled, as plain Python, and when which."""

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.errors import TypingError

import drsub_fast as ds
from drsub_fast.engine import jit
from drsub_fast.objectives.base import evaluate
from drsub_fast.solvers.continuous_greedy import additive_loop

needs_compiler = pytest.mark.skipif(jit.COMPILE != "now", reason="kernels are not compiled")


@jit.kernel
def _scaled_sum(a, first, scale):
    total = 0.0
    for value in a[first:]:
        total += value
    return scale * total


@jit.kernel
def _two_sums(a):
    return _scaled_sum(a, 0, 1) + _scaled_sum(a, 1, 2)


def compiled_anew(kernel):
    """The kernel as Python calls it, not from the cache: code from there cannot be looked into."""
    function = jit.engine().standalone_function(kernel)
    function._cache = NullCache()
    return function


@needs_compiler
def test_a_kernel_is_compiled_once_whatever_numbers_it_is_called_with():
    assert compiled_anew(_two_sums)(np.ones(3)) == 7.0
    assert len(_scaled_sum.linked.signatures) == 1


@needs_compiler
def test_kernels_count_no_references():
    function = compiled_anew(_two_sums)
    assert function(np.ones(3)) == 7.0
    (code,) = function.inspect_llvm().values()
    assert "_two_sums" in code
    assert "NRT_incref" not in code


@jit.kernel
def _halves(a):
    return a[: a.size // 2], a[a.size // 2 :]


@needs_compiler
def test_a_kernel_that_counts_no_references_returns_no_array_to_python():
    with pytest.raises(TypingError, match="_halves returns arrays uncounted: it needs memory=True"):
        _halves(np.ones(4))


@jit.kernel
def _first_of_halves(a):
    return _halves(a)[0][0]


@needs_compiler
def test_nor_to_other_kernels():
    with pytest.raises(TypingError, match="_halves returns arrays uncounted: it needs memory=True"):
        _first_of_halves(np.ones(4))


@jit.kernel(wide=True)
def _doubled(a):
    for i in range(a.size):
        a[i] *= 2.0


@needs_compiler
def test_wide_kernels_ask_for_wide_vectors():
    for kernel, wide in ((_doubled, True), (_two_sums, False)):
        function, a = compiled_anew(kernel), np.arange(21.0)
        function(a)
        (code,) = function.inspect_llvm().values()
        assert ('"prefer-vector-width"="512"' in code) == wide
        if wide:
            np.testing.assert_array_equal(a, 2.0 * np.arange(21.0))


@needs_compiler
def test_a_kernel_serves_python_other_kernels_and_code_of_users():
    @numba.njit
    def of_a_user(a):
        return _two_sums(a) + _scaled_sum(a, 2, 1)

    a = np.arange(4.0)
    assert _two_sums(a) + _scaled_sum(a, 2, 1) == of_a_user(a) == 23.0
    assert _scaled_sum.py_func(a, 2, 1) == 5.0


@needs_compiler
def test_a_solve_finds_its_compiled_code_by_the_kind_of_the_problem():
    P = ds.Box(np.ones(2))
    before = dict(additive_loop.entries)
    first = ds.nonmonotone_frank_wolfe(ds.Quadratic(-np.eye(2), np.ones(2)), P)
    known = dict(additive_loop.entries)
    again = ds.nonmonotone_frank_wolfe(ds.Quadratic(np.asfortranarray(-np.eye(2, dtype=int)), [1, 1]), P)
    assert additive_loop.entries == known
    assert len(known) <= len(before) + 1
    np.testing.assert_array_equal(first.x, again.x)
    # Objectives of one class whose parameters differ in type.
    table = ds.Multilinear.from_table(np.array([0.0, 1.0, 1.0, 1.5]))
    for extension in (table, ds.Multilinear.coverage([[0], [0, 1]], [1.0, 1.0]), table):
        f = ds.MeanField(extension)
        x = ds.nonmonotone_frank_wolfe(f, P, max_iter=10).x
        assert f.value(x) >= f.value(np.full(2, 0.01))


def test_sources_change_with_the_text_of_a_kernel_and_of_what_is_registered_for_a_class(monkeypatch):
    def registered(slope):
        @jit.kernel
        def evaluate(params, work, x):
            return slope * x.sum()

        return evaluate

    class Params(tuple):
        __slots__ = ()

    def sources(slope):
        monkeypatch.setitem(evaluate.table, Params, registered(slope))
        return additive_loop.sources({Params, tuple})

    assert sources(1.0) == sources(1.0) != sources(2.0)
    assert additive_loop.sources({tuple}) not in (None, sources(1.0))
    assert registered(1.0).sources(set()) == registered(1.0).sources(set()) != registered(2.0).sources(set())
    assert registered(value for value in "ab").sources(set()) is None  # nobody can tell what a generator holds
