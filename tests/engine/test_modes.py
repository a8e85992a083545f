"""When a kernel runs as plain Python and when it is compiled, and that the answers are the same."""

import logging
import math

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine import floats, jit
from drsub_fast.solvers.continuous_greedy import additive_loop


@pytest.fixture
def auto(monkeypatch):
    """Interpreted first, in a process that may have compiled already: only kernels of this file are new to it."""
    if jit.COMPILE == "never":
        pytest.skip("kernels are not compiled")
    monkeypatch.setattr(jit, "COMPILE", "auto")
    monkeypatch.setattr(jit.Kernel, "_is_stored", lambda self, kind: False)


def _new_kernel():
    @jit.kernel
    def add_to_all(a, amount):
        for i in range(a.size):
            a[i] += amount
        return a.size

    return add_to_all


def test_a_kernel_is_interpreted_until_it_has_taken_long(auto, caplog):
    kernel, a = _new_kernel(), np.zeros(3)
    arguments = a, 1.0
    for _ in range(3):
        run = kernel.choose(arguments, operations=10)
        assert isinstance(run, jit.Interpreted)
        assert run(*arguments) == 3
    (kind,) = kernel.spent
    kernel.spent[kind] = 1e3
    with caplog.at_level(logging.INFO, "drsub_fast"):
        run = kernel.choose(arguments, operations=10)
    assert not isinstance(run, jit.Interpreted)
    assert caplog.text.count("compiling") == 1
    assert "drsub-fast warmup" in caplog.text
    assert run(*arguments) == 3
    assert kernel.choose((np.zeros(5), 2.0), operations=10) is run
    np.testing.assert_array_equal(a, np.full(3, 4.0))


def test_a_call_that_takes_long_is_compiled_at_once(auto):
    assert not isinstance(_new_kernel().choose((np.zeros(3), 1.0), operations=1e9), jit.Interpreted)


def test_kernels_are_compiled_where_that_is_asked_for(auto):
    kernel = _new_kernel()
    with jit.compiling():
        assert kernel(np.zeros(3), 1.0) == 3
    assert not kernel.spent


def test_nothing_is_compiled_where_that_is_never_wanted(monkeypatch):
    monkeypatch.setattr(jit, "COMPILE", "never")
    kernel = _new_kernel()
    with jit.compiling():
        assert isinstance(kernel.choose((np.zeros(3), 1.0), operations=1e12), jit.Interpreted)


def test_an_interrupted_call_leaves_its_arrays_as_they_were():
    @jit.kernel
    def half_done(a, stop):
        a[0] = 1.0
        stop(a)

    def stop(a):
        raise KeyboardInterrupt

    a = np.zeros(2)
    run = jit.Interpreted(half_done, "kind", 1.0)
    run.arrays = (a,)
    with pytest.raises(KeyboardInterrupt):
        run(a, stop)
    np.testing.assert_array_equal(a, np.zeros(2))


def _quadratic(n=6, m=3):
    rng = np.random.default_rng(5)
    H = -rng.random((n, n))
    return ds.Quadratic((H + H.T) / 2, n * rng.random(n) / 2), ds.Box(rng.uniform(0.2, 1.0, n))


def test_a_run_changes_over_on_the_way_with_the_same_answer(monkeypatch):
    if jit.COMPILE == "never":
        pytest.skip("kernels are not compiled")
    f, P = _quadratic()
    with jit.compiling():
        compiled = ds.nonmonotone_frank_wolfe(f, P)
    chosen, choose = [], additive_loop.entry

    def first_interpreted(kind, arguments, operations):
        if chosen:
            return choose(kind, arguments, operations)
        chosen.append(jit.Interpreted(additive_loop, kind, -1.0))
        return chosen[0]

    monkeypatch.setattr(jit, "COMPILE", "auto")
    monkeypatch.setattr(additive_loop, "entry", first_interpreted)
    mixed = ds.nonmonotone_frank_wolfe(f, P)
    assert chosen
    assert mixed.compiled
    assert mixed.value == pytest.approx(compiled.value, rel=1e-12)
    np.testing.assert_allclose(mixed.trace.value, compiled.trace.value, rtol=1e-12)


def test_users_of_plain_python_get_their_own_floating_point_errors():
    def function(x):
        return float(np.float64(0.0) / x[0]), np.zeros(2)

    f = ds.CallableObjective(function, 2)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        ds.frank_wolfe(f, ds.Box(np.ones(2)))


@pytest.mark.parametrize("x", [-2.0, -1.0, -0.0, 0.0, 0.3, 1.0, 800.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("name", ["cos", "exp", "expm1", "log", "log1p", "sinh", "sqrt"])
def test_functions_of_plain_python_follow_c(name, x):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
        np.testing.assert_allclose(getattr(floats, name)(x), expected, rtol=1e-15)
        assert np.isinf(1.0 / floats.exp(-math.inf))


@pytest.mark.parametrize(("x", "exponent"), [(0.5, 3), (1.0, 5000), (-1.0, 5000), (1.0, -5000)])
def test_scaling_follows_c(x, exponent):
    with np.errstate(all="ignore"):
        assert floats.ldexp(x, exponent) == np.ldexp(x, exponent)
