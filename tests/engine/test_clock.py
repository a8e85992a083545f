"""Time limits in plain Python, and of compiling."""

import math

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine import clock, jit, worth
from drsub_fast.engine.clock import OutOfTime, is_limited, last_moment, require_time, thread_time_left, until, untimed
from drsub_fast.engine.jit import Interpreted, kernel
from drsub_fast.solvers import frank_wolfe


@kernel
def _step(out, k):
    out[0] = k


@kernel
def _walk(out):
    for k in range(out.size):
        _step(out[k:], k + 1.0)
    return 7


def test_limits_nest():
    assert not is_limited()
    assert thread_time_left() == math.inf
    with until(None):
        assert not is_limited()
        require_time()
    with until(clock.now() + 1000.0):
        assert 900.0 < thread_time_left() <= 1000.0
        with until(clock.now() - 1.0):
            assert thread_time_left() == 0.0
            with until(None), pytest.raises(OutOfTime):
                require_time()
        require_time()
        with until(clock.now() - 1.0), untimed():
            require_time()
    assert last_moment(5.0, None) is None
    assert 5.0 + 2.0 < last_moment(5.0, 2.0) < 5.0 + 1.2 * 2.0 + 0.01


def test_plain_python_gives_up_and_leaves_its_arrays_as_they_were():
    out = np.zeros(10_000_000)
    run = Interpreted(_walk, ())
    run.arrays = (out,)
    with until(clock.now() + 0.05), pytest.raises(OutOfTime):
        run(out)
    assert not out.any()
    run.arrays = (out[:100],)
    assert run(out[:100]) == 7
    np.testing.assert_array_equal(out[:100], np.arange(1.0, 101.0))


@pytest.mark.parametrize("mode", ["auto", "now"])
@pytest.mark.parametrize("limit", [None, 5.0, 1e6])
def test_nothing_is_compiled_that_the_limit_leaves_no_time_for(mode, limit, monkeypatch):
    compiled = []

    def compile(kernel, types, arguments, reason):
        compiled.append(kernel)
        return lambda *given: kernel.interpreted(*given)

    monkeypatch.setattr(jit, "COMPILE", mode)
    monkeypatch.setattr(worth, "cost", lambda name, size: 3.0)
    monkeypatch.setattr(worth.series, "ahead", lambda key: 4.0)  # so that compiling pays
    monkeypatch.setattr(jit.Kernel, "_is_stored", lambda self, types: False)
    monkeypatch.setattr(jit.Kernel, "compile", compile)
    monkeypatch.setattr(frank_wolfe.frank_wolfe_loop, "entries", {})
    monkeypatch.setattr(frank_wolfe.frank_wolfe_loop, "_code", {})
    monkeypatch.setattr(frank_wolfe.frank_wolfe_loop, "_facts", {})
    r = ds.frank_wolfe(ds.Quadratic(-np.eye(2), np.ones(2)), ds.Box(np.ones(2)), max_iter=3, time_limit=limit)
    assert r.value > 0.9
    assert (frank_wolfe.frank_wolfe_loop in compiled) == (mode == "now" or limit != 5.0)
    assert r.compiled == (mode == "now" or limit != 5.0)


@pytest.mark.parametrize(("has_engine", "limit", "loads"), [
    (False, 0.5, False), (False, 5.0, True), (True, 0.1, False), (True, 1.0, True), (True, None, True),
])  # fmt: skip
def test_stored_code_is_loaded_where_there_is_time(has_engine, limit, loads, monkeypatch):
    monkeypatch.setattr(jit, "COMPILE", "auto")
    monkeypatch.setattr(jit, "has_engine", lambda: has_engine)
    monkeypatch.setattr(jit.Kernel, "_is_stored", lambda self, types: True)
    monkeypatch.setattr(jit.Kernel, "compile", lambda self, types, arguments, reason: "loaded")
    with until(None if limit is None else clock.now() + limit):
        assert (jit.kernel(lambda a: a).choose((1.0,)) == "loaded") == loads
