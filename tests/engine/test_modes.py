"""When a kernel runs as plain Python and when it is compiled, and that the answers are the same."""

import logging
import math

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine import jit, store, worth
from drsub_fast.engine.interpreted import floats
from drsub_fast.engine.signatures import type_code
from drsub_fast.solvers.continuous_greedy import additive_loop


@pytest.fixture
def auto(monkeypatch, tmp_path):
    """Interpreted first, from an empty cache, in a process that may have compiled other kernels already."""
    if jit.COMPILE == "never":
        pytest.skip("kernels are not compiled")
    monkeypatch.setattr(jit, "COMPILE", "auto")
    monkeypatch.setenv("DRSUB_FAST_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(worth, "_slowness", lambda: 1.0)
    for known in (store.folders, worth.record):
        known.cache_clear()
    yield
    for known in (store.folders, worth.record):
        known.cache_clear()


def _new_kernel():
    @jit.kernel
    def add_to_all(a, amount):
        for i in range(a.size):
            a[i] += amount
        return a.size

    return add_to_all


ARGUMENTS = np.zeros(3), 1.0


def _spent(kernel, seconds):
    """The kernel, as if it had run as plain Python for so long."""
    jit.Interpreted(kernel, tuple(map(type_code, ARGUMENTS))).count(seconds)
    return kernel


@pytest.mark.parametrize(("cost", "level"), [(3.0, logging.WARNING), (1.0, logging.INFO)])
def test_a_kernel_is_interpreted_until_it_has_taken_what_compiling_takes(auto, caplog, monkeypatch, cost, level):
    monkeypatch.setattr(worth, "cost", lambda name, size: cost)
    kernel = _new_kernel()
    for _ in range(3):
        run = kernel.choose(ARGUMENTS)
        assert isinstance(run, jit.Interpreted)
        assert run(*ARGUMENTS) == 3
    assert isinstance(_spent(kernel, 0.9 * cost).choose(ARGUMENTS), jit.Interpreted)
    with caplog.at_level(logging.INFO, "drsub_fast"):
        run = _spent(kernel, 0.1 * cost).choose(ARGUMENTS)
    assert not isinstance(run, jit.Interpreted)
    (said,) = caplog.records
    assert said.levelno == level
    for part in ("add_to_all", f"about {cost:.0f} s", "were spent", str(jit.cache_folder()), "drsub-fast warmup"):
        assert part in said.message
    assert "\n" not in said.message
    assert run(*ARGUMENTS) == 3
    assert kernel.choose((np.zeros(5), 2.0)) is run
    assert worth.record().costs


def test_what_is_ahead_counts_and_what_a_call_has_left(auto):
    kernel = _spent(_new_kernel(), 100.0)
    assert isinstance(kernel.choose(ARGUMENTS, most=0.1), jit.Interpreted)
    assert not isinstance(kernel.choose(ARGUMENTS, most=100.0), jit.Interpreted)
    assert not isinstance(_new_kernel().choose(ARGUMENTS, ahead=100.0), jit.Interpreted)


def test_problems_that_follow_are_work_ahead(auto):
    kernel = _new_kernel()
    assert isinstance(_spent(kernel, 0.1).choose(ARGUMENTS), jit.Interpreted)
    with worth.series(1000) as following:
        for _ in range(2):
            following.begin_next()
            _spent(kernel, 0.1)
        with worth.series(1) as alone:
            alone.begin_next()
            assert isinstance(kernel.choose(ARGUMENTS), jit.Interpreted)
        assert not isinstance(kernel.choose(ARGUMENTS), jit.Interpreted)


def test_what_earlier_processes_spent_counts(auto):
    _spent(_new_kernel(), 0.6)
    worth.write_spent()
    worth.record.cache_clear()
    kernel = _new_kernel()
    assert isinstance(kernel.choose(ARGUMENTS), jit.Interpreted)
    assert not isinstance(_spent(kernel, 0.6).choose(ARGUMENTS), jit.Interpreted)
    worth.write_spent()
    worth.record.cache_clear()
    (name,) = worth.record().costs
    assert worth.record().spent[name] == 0.0  # it is compiled
    assert worth.cost(name, 0) == worth.record().costs[name][0]


@pytest.mark.parametrize("content", [
    b"", b"\0\xff\n" * 9, b"spent nan a\nspent -1 a\nspent inf a\nspent 1e3\nspent\ncompiled 1 2\ncompiled x 2 a\n",
    b"spent 1 2 a\ncompiled 1 b\n" + b"x" * 100_000,
])  # fmt: skip
def test_a_record_that_says_nothing_is_no_record(auto, content):
    path = jit.cache_folder() / store.record_name()
    path.write_bytes(content)
    assert worth.record().spent == worth.record().costs == {}
    worth.note_spent("b", 2.0)
    worth.record.cache_clear()
    assert worth.record().spent == {"b": 2.0}


def test_a_long_record_is_summed_up(auto):
    for _ in range(6000):
        store.extend_record("spent 0.5 a\n")
    store.extend_record("compiled 2.5 700 b\n")
    before = worth.record()
    assert (jit.cache_folder() / store.record_name()).stat().st_size < 100
    worth.record.cache_clear()
    assert worth.record().spent == before.spent == {"a": 3000.0, "b": 0.0}
    assert worth.record().costs == {"b": (2.5, 700)}


def test_kernels_are_compiled_where_that_is_asked_for(auto):
    kernel = _new_kernel()
    with jit.compiling():
        assert kernel(np.zeros(3), 1.0) == 3
    assert not any(kernel.spent.values())


def test_nothing_is_compiled_where_that_is_never_wanted(monkeypatch):
    monkeypatch.setattr(jit, "COMPILE", "never")
    kernel = _new_kernel()
    with jit.compiling():
        assert isinstance(kernel.choose(ARGUMENTS, ahead=1e12), jit.Interpreted)


def test_an_interrupted_call_leaves_its_arrays_as_they_were():
    @jit.kernel
    def half_done(a, stop):
        a[0] = 1.0
        stop(a)

    def stop(a):
        raise KeyboardInterrupt

    a = np.zeros(2)
    run = jit.Interpreted(half_done, ())
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

    def first_interpreted(family, arguments):
        if chosen:
            return choose(family, arguments)
        chosen.append(jit.Interpreted(additive_loop, tuple(map(type_code, arguments))))
        chosen[0].pays = lambda most: True
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
