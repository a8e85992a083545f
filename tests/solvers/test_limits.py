"""Limits, callbacks and starting points reach every solve that a method makes; the clock is handed in."""

import inspect
import math
import signal

import numpy as np
import pytest
import scipy.sparse

import drsub_fast as ds
from drsub_fast.engine import clock as clocks
from drsub_fast.solvers import multi_start
from drsub_fast.solvers.domain import early_point
from drsub_fast.solvers.greedy_vertex import greedy_vertex
from drsub_fast.solvers.multi_start import local_solver

N = 6
MATRIX = np.random.default_rng(0).random((N, N))
H = -0.1 * (MATRIX + MATRIX.T) - 2.0 * np.diag(1.0 + MATRIX[0])
F = ds.Quadratic(H, -H @ np.linspace(0.55, 0.8, N))  # its maximum is inside the box
BOX, BUDGET = ds.Box(np.ones(N)), ds.Budget(2.0, np.ones(N))
POLYTOPE = ds.Polytope(0.1 + np.random.default_rng(1).random((4, N)), np.ones(4))
SIMPLEX = ds.Simplex(N)


def pairs():
    """Every method with every set that it takes."""
    for name in ("auto", *ds.METHODS):
        for P in (BOX, BUDGET, POLYTOPE, SIMPLEX):
            needs = () if name == "auto" else ds.METHODS[name].needs
            if (P.is_down_closed or "down-closed" not in needs) and (P is BOX or "box" not in needs):
                yield pytest.param(name, P, id=f"{name}-{type(P).__name__}")


def fast_reach(name):
    """Options with which a method has no reason to stop early."""
    takes_tol = name == "auto" or "tol" in inspect.signature(ds.METHODS[name]).parameters
    return {"tol": 0.0} if takes_tol else {}


class Clock:
    """A clock that moves when it is told to, or by ``tick`` at every look."""

    def __init__(self, tick=0.0):
        self.time, self.tick = 100.0, tick

    def __call__(self):
        self.time += self.tick
        return self.time


def slow(clock, seconds=1.0, **facts):
    """F as a Python function whose evaluations take a while on the clock."""

    def evaluate(x):
        clock.time += seconds
        return F.value_and_gradient(x)

    return ds.CallableObjective(evaluate, N, **facts)


@pytest.mark.parametrize(("name", "P"), list(pairs()))
@pytest.mark.parametrize("limit", [40.0, 200.0])
def test_a_time_limit_ends_every_solve(name, P, limit, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(clocks, "clock", clock)
    f = slow(clock, dr_submodular=True, nonnegative=True)
    r = ds.maximize(f, P, method=name, time_limit=limit, **fast_reach(name))
    # One step may be under way, and its answer is evaluated again. A coordinate of double greedy takes two bisections.
    assert clock.time - 100.0 <= 1.2 * limit + (150.0 if name in ("auto", "double-greedy") and P is BOX else 30.0)
    assert P.contains(r.x)
    assert r.value == pytest.approx(F.value(r.x), rel=1e-12)
    if clock.time - 100.0 >= limit:
        assert r.status in (ds.Status.TIME_LIMIT, ds.Status.CONVERGED, ds.Status.COMPLETED, ds.Status.STALLED)
    if r.status is ds.Status.TIME_LIMIT:
        assert "time limit" in r.message
        assert r.guarantee.holds is False or r.guarantee.ratio is None


@pytest.mark.parametrize(("name", "P"), list(pairs()))
def test_no_time_still_gives_a_point_and_no_promise(name, P):
    r = ds.maximize(F, P, method=name, time_limit=0.0)
    assert r.status is ds.Status.TIME_LIMIT
    assert P.contains(r.x)
    assert r.guarantee.ratio is None
    assert r.value == pytest.approx(F.value(r.x), rel=1e-12)


@pytest.mark.parametrize(("name", "P"), list(pairs()))
@pytest.mark.parametrize("f", [F, ds.Softmax(np.eye(N) + 0.1 * (MATRIX + MATRIX.T) / N)], ids=["quadratic", "softmax"])
@pytest.mark.parametrize("limit", [60.0, 400.0, 5000.0])
def test_a_limit_holds_within_a_step_of_plain_python(name, P, f, limit, monkeypatch, interpreted):
    clock = Clock(1.0)  # every call of a kernel takes a second
    monkeypatch.setattr(clocks, "clock", clock)
    r = ds.maximize(f, P, method=name, time_limit=limit, bound="cheap", **fast_reach(name))
    assert clock.time - 100.0 <= 1.2 * limit + 10.0
    assert P.contains(r.x)
    assert r.value == pytest.approx(f.value(r.x), rel=1e-9, abs=1e-12)
    assert len(r.trace.value) == len(r.trace.fw_gap) == r.n_iter + 1
    assert np.isfinite(r.trace.value).all()
    assert r.value <= r.upper_bound


@pytest.mark.parametrize("looks", [3, 10, 30])
def test_compiled_loops_look_at_the_clock(looks, monkeypatch):
    monkeypatch.setattr(clocks, "clock", Clock(1.0))
    for method, P in (("frank-wolfe", POLYTOPE), ("multi-start", POLYTOPE), ("two-phase-frank-wolfe", BUDGET)):
        r = ds.maximize(F, P, method=method, max_iter=10**6, tol=0.0, time_limit=float(looks))
        assert r.status is ds.Status.TIME_LIMIT
        assert P.contains(r.x)


@pytest.mark.parametrize(("name", "P"), list(pairs()))
def test_callbacks_see_every_solve_and_stop_it(name, P):
    seen = []

    def look(progress):
        seen.append(progress)
        return len(seen) == 3

    r = ds.maximize(F, P, method=name, callback=look, **fast_reach(name))
    assert len(seen) == 3
    assert r.status is ds.Status.CALLBACK
    assert r.guarantee.ratio is None
    assert P.contains(r.x)
    assert all(P.contains(progress.x) and math.isfinite(progress.value) for progress in seen)


@pytest.mark.parametrize(("name", "P"), list(pairs()))
@pytest.mark.parametrize("call", [8, 20])
def test_ctrl_c_ends_every_solve(name, P, call):
    calls = []

    def evaluate(x):
        calls.append(x)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return F.value_and_gradient(x)

    f = ds.CallableObjective(evaluate, N, dr_submodular=True, nonnegative=True)
    r = ds.maximize(f, P, method=name, **fast_reach(name))
    assert r.status is ds.Status.INTERRUPTED
    assert r.guarantee.ratio is None
    assert P.contains(r.x)
    assert r.value == pytest.approx(F.value(r.x), rel=1e-12)


@pytest.mark.parametrize(("name", "P"), list(pairs()))
def test_a_callback_that_only_looks_changes_nothing(name, P):
    steps = []
    options = {} if name == "double-greedy" else {"max_iter": 30}
    seen = ds.maximize(F, P, method=name, callback=lambda p: steps.append(p.n_iter), callback_every=2, **options)
    plain = ds.maximize(F, P, method=name, **options)
    np.testing.assert_array_equal(seen.x, plain.x)
    assert (seen.value, seen.status, seen.n_lmo, seen.upper_bound) == (
        plain.value, plain.status, plain.n_lmo, plain.upper_bound,
    )  # fmt: skip
    assert all(step % 2 == 0 for step in steps)


@pytest.mark.parametrize(("name", "P"), list(pairs()))
def test_max_iter_reaches_every_solve(name, P):
    steps = []
    r = ds.maximize(F, P, method=name, max_iter=5, callback=lambda p: steps.append(p.n_iter))
    assert steps
    assert max(steps) <= 5
    assert r.n_iter <= 5
    assert len(r.trace.value) == r.n_iter + 1


def test_continuous_greedy_behind_the_door_takes_the_steps_asked_for():
    f = ds.Quadratic(-0.01 * np.eye(N), np.ones(N))
    steps = []
    r = ds.maximize(f, BUDGET, max_iter=5, callback=lambda p: steps.append(p.n_iter))
    assert steps[-5:] == [1, 2, 3, 4, 5]
    assert "continuous greedy adds" in r.message


def test_the_message_says_what_ran():
    assert "double greedy adds" in ds.maximize(F, BOX).message
    stopped = ds.maximize(F, BOX, time_limit=0.0)
    assert "double greedy did not run" in stopped.message
    assert "of 16 starts" in stopped.message
    assert "adds" not in stopped.message
    counted = []

    def in_double_greedy(progress):
        counted.append(progress.n_iter)
        return False

    ds.maximize(F, BOX, callback=in_double_greedy)
    last = len(counted)
    seen = []
    r = ds.maximize(F, BOX, callback=lambda p: seen.append(p) or len(seen) == last)
    assert r.status is ds.Status.CALLBACK
    assert "double greedy was stopped" in r.message


@pytest.mark.parametrize("P", [BOX, BUDGET, POLYTOPE, SIMPLEX])
def test_x0_is_one_more_start(P):
    best = ds.maximize(F, P, n_starts=32)
    few = ds.maximize(F, P, n_starts=1, x0=best.x)
    assert few.n_starts == 2
    assert few.value >= best.value - 1e-12
    again = ds.maximize(F, P, method="frank-wolfe", x0=best.x)
    assert (again.n_iter, again.status) == (0, ds.Status.CONVERGED)
    with pytest.raises(ValueError, match="x0"):
        ds.maximize(F, P, x0=np.full(N, 2.0))


def test_x0_starts_the_first_phase_only():
    x0 = np.full(N, 0.1)
    r = ds.two_phase_frank_wolfe(F, BUDGET, x0=x0)
    assert r.phases[0].trace.value[0] == pytest.approx(F.value(x0), rel=1e-12)
    assert r.phases[1].trace.value[0] == pytest.approx(F.value(np.zeros(N)), abs=1e-12)


@pytest.mark.parametrize("name", ["auto", *ds.METHODS])
def test_unknown_options_are_refused_with_those_that_exist(name):
    with pytest.raises(TypeError, match=r"takes no option 'maxiter'; its options are .*max_iter.*time_limit"):
        ds.maximize(F, BOX, method=name, maxiter=3)


def test_everything_after_the_problem_goes_by_name():
    for solver in (ds.maximize, *ds.METHODS.values()):
        with pytest.raises(TypeError, match="positional"):
            solver(F, BOX, 3)


@pytest.mark.parametrize("name", ["auto", *ds.METHODS])
def test_progress_goes_to_standard_error(name, capsys):
    ds.maximize(F, BOX, method=name, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "%" in err


def test_options_of_a_subroutine_are_checked():
    r = ds.two_phase_frank_wolfe(F, BUDGET, step_size="exact")
    assert r.value > 0.0
    with pytest.raises(TypeError, match="takes no option 'step_size'; its options are"):
        ds.two_phase_frank_wolfe(F, BUDGET, subroutine="fully-corrective-frank-wolfe", step_size="exact")


def test_a_limit_within_every_start_leaves_the_point_where_the_first_begins(monkeypatch):
    def late(*arguments, **options):
        raise clocks.OutOfTime

    monkeypatch.setattr(multi_start, "local_solver", lambda f, P: local_solver(f, P)._replace(solve=late))
    r = ds.multi_start(F, POLYTOPE, n_starts=3, time_limit=60.0, lmo="highs")
    assert r.status is ds.Status.TIME_LIMIT
    assert r.value == F.value(r.x)


def test_the_early_point_is_the_best_before_the_time_ended():
    class Ends(ds.CallableObjective):
        left = 10

        def value_and_gradient(self, x):
            self.left -= 1
            if self.left < 0:
                raise clocks.OutOfTime
            return super().value_and_gradient(x)

    f, values = Ends(F.value_and_gradient, N), []
    for left in range(1, 6):
        f.left = left
        x, value = early_point(f, BOX, BOX.upper)
        values.append(value)
        assert value == F.value(x)
        assert BOX.contains(x)
    assert values[0] == 0.0
    assert values == sorted(values)
    assert values[-1] > 0.0


def test_the_greedy_vertex_of_a_cut_run_is_the_choice_so_far(monkeypatch):
    W = np.random.default_rng(0).random((40, 30))
    f, P = ds.Multilinear.facility_location(W), ds.Budget(6, np.ones(40))
    whole = greedy_vertex(f, P, np.ones(40))
    np.testing.assert_array_equal(
        whole, greedy_vertex(ds.Multilinear.facility_location(scipy.sparse.csr_array(W)), P, np.ones(40))
    )
    clock = Clock(1.0)
    monkeypatch.setattr(clocks, "clock", clock)
    sizes = []
    for limit in (0.0, 5.0, 12.0, 100.0):
        with clocks.until(clock.time + limit):
            x = greedy_vertex(f, P, np.ones(40))
        assert (whole[x > 0.0] == 1.0).all()
        sizes.append(int(x.sum()))
    assert sizes[0] < sizes[-1] == 6
    assert sizes == sorted(sizes)
