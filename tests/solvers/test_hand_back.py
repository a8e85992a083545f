"""Linear programs that a loop hands back to Python are those of the loop's own cost."""

from collections import namedtuple

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine.codes import BREAK, FINISHED, OK
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import add_scaled, assign
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.objectives.base import evaluate
from drsub_fast.result import Guarantee
from drsub_fast.solvers.run import Run
from drsub_fast.solvers.state import N_LMO, STARTED, VALUE, K, ask_oracle, begin, open_run

MeasuredOptions = namedtuple("MeasuredOptions", "n_steps")


@kernel
def measured_loop(objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap):
    """Measured continuous greedy: the oracle's cost is the gradient times 1 - x/u, and so is the step."""
    state, work, set_work = open_run(objective, feasible_set, x.size, floats, integers)
    control, numbers = state.control, state.numbers
    if control[STARTED] == 0:
        begin(objective, work, state, x, upper, trace_value, trace_gap)
        trace_gap[0] = 0.0
    cost = state.rate
    while control[K] < k_max:
        k = control[K]
        if k >= k_stop:
            return BREAK
        assign(cost, work.grad)
        for j in range(x.size):
            cost[j] *= 1.0 - x[j] / upper[j]
        code = ask_oracle(feasible_set, set_work, state, cost, state.v)
        if code != OK:
            return code
        control[N_LMO] += 1
        for j in range(x.size):
            state.v[j] *= 1.0 - x[j] / upper[j]
        add_scaled(x, 1.0 / options.n_steps, state.v)
        numbers[VALUE] = evaluate(objective, work, x)
        control[K] = k + 1
        trace_value[k + 1], trace_gap[k + 1] = numbers[VALUE], 0.0
    return FINISHED


def measured_greedy(f, P, lmo, **options):
    run = Run(f, P, None, 40, lmo, **options)
    status = run.solve(measured_loop, MeasuredOptions(40))
    return run.result("measured", status, Guarantee(None, "none"))


@pytest.mark.parametrize("seed", range(5))
def test_solver_kernel_and_closed_form_agree(seed):
    n = 8
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    f = ds.Quadratic(H + H.T, 2.0 * rng.random(n) * n / 4 + 2.0)
    weights = rng.uniform(0.5, 2.0, n)
    closed = measured_greedy(f, ds.Knapsack(weights, 3.0, np.ones(n)), "auto")
    P = ds.Polytope(weights[None], [3.0], np.ones(n))
    kernel_, highs = measured_greedy(f, P, "kernel"), measured_greedy(f, P, "highs")
    general = measured_greedy(f, ds.GeneralPolytope(weights[None], [3.0], upper=np.ones(n)), "auto")
    assert kernel_.value == pytest.approx(closed.value, rel=1e-12)
    assert highs.value == pytest.approx(closed.value, rel=1e-12)
    assert general.value == pytest.approx(closed.value, rel=1e-12)
    assert highs.n_lmo == closed.n_lmo == 40
    watched = measured_greedy(f, P, "highs", callback=lambda progress: False, callback_every=3)
    assert watched.value == pytest.approx(closed.value, rel=1e-12)


@pytest.mark.parametrize("method", ["frank-wolfe", "fully-corrective-frank-wolfe"])
def test_a_linear_program_that_uses_up_the_time_leaves_a_whole_trace(method, monkeypatch):
    rng = np.random.default_rng(0)
    f = ds.Quadratic(-np.eye(6), 1.0 + rng.random(6))
    P = ds.GeneralPolytope(0.1 + rng.random((3, 6)), np.ones(3), upper=np.ones(6))
    make = P.solver

    class Slow:
        calls = 0

        def __init__(self, *arguments):
            self.inner = make(*arguments)

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def maximize(self, *arguments):
            self.calls += 1
            if self.calls == 3:
                raise ds.OracleError("HiGHS stopped", "Time limit reached")
            return self.inner.maximize(*arguments)

    whole = ds.maximize(f, P, method=method, max_iter=2, bound="cheap", lmo="highs")
    monkeypatch.setattr(P, "solver", Slow)
    r = ds.maximize(f, P, method=method, max_iter=20, time_limit=1000.0, bound="cheap", lmo="highs")
    assert r.status is ds.Status.TIME_LIMIT
    assert r.n_iter == 2
    assert r.trace.value.tolist() == whole.trace.value.tolist()
    assert np.isnan(r.trace.fw_gap[2])


@pytest.mark.parametrize("method", ["frank-wolfe", "fully-corrective-frank-wolfe", "projected-gradient"])
def test_a_solver_that_is_exact_up_to_its_tolerances_makes_no_gap_negative(method, monkeypatch):
    f, P = ds.Quadratic([[-1.0, 0.0], [0.0, -1.0]], [3.0, 3.0]), ds.Polytope([[1.0, 1.0]], [1.0])
    exact = HighsOracle.maximize

    def nearly(self, direction, upper, *rest):
        return (1.0 - 1e-9) * exact(self, direction, upper, *rest)

    monkeypatch.setattr(HighsOracle, "maximize", nearly)
    x0 = np.array([0.5, 0.5])
    r = ds.maximize(f, P, method=method, x0=x0, lmo="highs", max_iter=5)
    assert r.fw_gap >= 0.0
    assert r.value >= f.value(x0)


def test_a_vertex_that_is_worse_by_more_than_tolerances_shows_in_the_gap(monkeypatch):
    f, P = ds.Quadratic([[-1.0, 0.0], [0.0, -1.0]], [3.0, 3.0]), ds.Polytope([[1.0, 1.0]], [1.0])
    monkeypatch.setattr(HighsOracle, "maximize", lambda self, direction, upper, *rest: np.zeros(2))
    assert ds.frank_wolfe(f, P, x0=[0.5, 0.5], lmo="highs", max_iter=0).fw_gap < -1.0
