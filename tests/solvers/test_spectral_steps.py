"""Spectral projected gradient: gaps, optima, scales, interruptions; and multi-start with it."""

import math

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.solvers.multi_start import CORRECTIVE, SPECTRAL, local_solver

N = 12
rng = np.random.default_rng(4)
WEIGHTS, GROUPS = rng.uniform(0.5, 2.0, N), np.arange(N) % 3
SETS = {
    "box": ds.Box(rng.uniform(0.3, 1.0, N)),
    "budget": ds.Budget(2.5, np.ones(N)),
    "knapsack": ds.Knapsack(WEIGHTS, 3.0, np.ones(N)),
    "partition": ds.PartitionMatroid(GROUPS, [1, 1, 2]),
    "simplex": ds.Simplex(N),
    "ball": ds.Ball(1.2, N),
    "polytope": ds.Polytope(0.01 + rng.random((5, N)), np.ones(5)),
}


def spectral(f, P, x0=None, **options):
    return ds.projected_gradient(f, P, x0=x0, step_size="spectral", **{"max_iter": 1000} | options)


def concave(seed=0):
    """A strongly concave quadratic whose optimum lies inside faces of the sets above."""
    rng = np.random.default_rng(seed)
    A = rng.random((N, N))
    return ds.Quadratic(-(A @ A.T) / N - 0.3 * np.eye(N), rng.uniform(0.0, 2.0, N))


def softmax(n, k=None):
    rng = np.random.default_rng(n)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    L = (Q * rng.uniform(0.0, 6.0, n)) @ Q.T
    return ds.Softmax((L + L.T) / 2), ds.Budget(min(20, n // 2) if k is None else k, np.ones(n))


def scaled(f, by):
    """``by`` times f."""
    return ds.CallableObjective(lambda x: (by * f.value(x), by * f.gradient(x)), f.n)


def assert_same(a, b):
    for field in ("value", "fw_gap", "n_iter", "n_lmo", "status"):
        assert getattr(a, field) == getattr(b, field)
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.trace.value, b.trace.value)
    np.testing.assert_array_equal(a.trace.fw_gap, b.trace.fw_gap)


@pytest.mark.parametrize("P", SETS.values(), ids=list(SETS))
@pytest.mark.parametrize("f", [concave(), softmax(N)[0]], ids=["quadratic", "softmax"])
def test_the_gap_is_small_and_true_and_f_never_falls(f, P):
    r = spectral(f, P, tol=1e-9)
    assert r.status is ds.Status.CONVERGED
    assert r.n_iter < 100
    assert r.n_lmo == r.n_iter + 1
    assert P.contains(r.x)
    gradient = f.gradient(r.x)
    assert gradient @ (P.lmo(gradient) - r.x) <= 1e-9 * 1.001
    assert r.value == f.value(r.x)
    assert np.diff(r.trace.value).min() >= -1e-13
    assert np.isfinite(r.trace.fw_gap).all()
    assert r.value <= r.upper_bound + 1e-12


@pytest.mark.parametrize("P", SETS.values(), ids=list(SETS))
def test_a_concave_quadratic_is_maximised(P):
    # By strong concavity the points lie near each other if both gaps are small.
    f = concave()
    known = ds.fully_corrective_frank_wolfe(f, P, tol=1e-11, max_iter=5000)
    r = spectral(f, P, tol=1e-10)
    assert r.value == pytest.approx(known.value, abs=1e-9)
    np.testing.assert_allclose(r.x, known.x, atol=2e-4)


def test_a_separable_quadratic_over_a_box_has_a_known_maximum():
    curvature, peak = np.logspace(-2.0, 2.0, N), np.linspace(-0.5, 1.5, N)
    r = spectral(ds.Quadratic(-np.diag(curvature), curvature * peak), ds.Box(np.ones(N)), tol=1e-12)
    np.testing.assert_allclose(r.x, np.clip(peak, 0.0, 1.0), atol=1e-5)


@pytest.mark.parametrize("P", [SETS["budget"], SETS["simplex"]], ids=["budget", "simplex"])
def test_the_scale_of_f_does_not_matter(P):
    f, _ = softmax(N)
    plain = spectral(f, P, tol=1e-8)
    for by in (2.0**-30, 1e-6, 1e6, 2.0**30):
        other = spectral(scaled(f, by), P, tol=1e-8 * by)
        assert abs(other.n_iter - plain.n_iter) <= (0 if math.log2(by) % 1.0 == 0.0 else 3)
        np.testing.assert_allclose(other.x, plain.x, atol=1e-6)


def test_the_scale_of_the_variables_does_not_matter():
    f = concave()
    plain = spectral(f, ds.Budget(2.5, np.ones(N)), tol=1e-8)
    for by in (1e-6, 1e6):
        g = ds.Quadratic(f.H / by**2, f.h / by)
        other = spectral(g, ds.Budget(2.5 * by, np.full(N, by)), tol=1e-8)
        assert abs(other.n_iter - plain.n_iter) <= 3
        np.testing.assert_allclose(other.x / by, plain.x, atol=1e-5)


def test_a_tolerance_of_zero_goes_as_far_as_rounding_lets_it():
    for f, P in (softmax(20), (concave(), SETS["simplex"])):
        r = spectral(f, P, tol=0.0, max_iter=5000)
        assert r.status in (ds.Status.STALLED, ds.Status.CONVERGED)
        assert r.n_iter < 300
        assert r.fw_gap < 1e-13 * max(1.0, abs(r.value)) * 10
        assert r.fw_gap == r.trace.fw_gap.min()
        assert np.diff(r.trace.value).min() >= -1e-12


def test_it_begins_where_it_is_told_and_stops_when_told():
    f, P = softmax(N)
    first = spectral(f, P, tol=1e-10)
    again = spectral(f, P, first.x, tol=1e-8)
    assert (again.n_iter, again.n_lmo) == (0, 1)
    np.testing.assert_array_equal(again.x, first.x)
    other = spectral(f, P, np.full(N, 0.3), tol=1e-8)
    assert other.trace.value[0] == f.value(np.full(N, 0.3))
    few = spectral(f, P, max_iter=3, tol=0.0)
    assert (few.status, few.n_iter, few.n_lmo) == (ds.Status.MAX_ITER, 3, 4)
    np.testing.assert_array_equal(few.trace.value, first.trace.value[:4])
    assert spectral(f, P, max_iter=0).status is ds.Status.MAX_ITER


def test_it_turns_back_from_points_where_f_is_not_finite():
    # A kernel of rank one, singular at the corner where the first trial lies.
    f, P = ds.Softmax(np.full((6, 6), 2.25)), ds.Box(np.ones(6))
    assert f.value(np.ones(6)) == -math.inf
    r = spectral(f, P, tol=1e-8)
    assert r.status is ds.Status.CONVERGED
    assert r.value > 0.28  # a saddle on the diagonal, by symmetry

    def log_barrier(x):
        room = 1.5 - x.sum()
        return (math.log(room) + 2.0 * x.sum(), 2.0 - np.full(3, 1.0 / room)) if room > 0.0 else (math.nan, x)

    r = spectral(ds.CallableObjective(log_barrier, 3), ds.Box(np.ones(3)), tol=1e-9)
    assert r.x.sum() == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ValueError, match="not finite at the starting point"):
        spectral(ds.CallableObjective(log_barrier, 3), ds.Box(np.ones(3)), np.ones(3))


def test_a_convex_function_is_climbed_to_a_vertex():
    f = ds.Quadratic(-np.ones((4, 4)) + np.eye(4), np.array([1.0, 1.1, 1.2, 1.3]))
    g = ds.CallableObjective(lambda x: (x @ x + x[0], 2.0 * x + np.eye(4)[0]), 4)
    assert spectral(g, ds.Budget(1.0, np.ones(4))).value == pytest.approx(2.0)
    assert spectral(f, ds.Box(np.ones(4))).status is ds.Status.CONVERGED


@pytest.mark.parametrize(("name", "lmo"), [("budget", "auto"), ("polytope", "kernel"), ("polytope", "highs")])
def test_interruptions_do_not_change_the_answer(name, lmo):
    f, P = concave(), SETS[name]
    whole = spectral(f, P, tol=1e-8, lmo=lmo)
    seen = []
    every = spectral(f, P, tol=1e-8, lmo=lmo, callback=lambda progress: seen.append(progress))
    assert_same(every, whole)
    assert_same(spectral(f, P, tol=1e-8, lmo=lmo, callback=lambda progress: None, callback_every=4), whole)
    assert_same(spectral(f, P, tol=1e-8, lmo=lmo, time_limit=60.0), whole)
    assert [p.n_iter for p in seen] == list(range(1, whole.n_iter + 1))
    np.testing.assert_array_equal([p.value for p in seen], whole.trace.value[1:])
    np.testing.assert_array_equal([p.fw_gap for p in seen], whole.trace.fw_gap[1:])
    stopped = spectral(f, P, lmo=lmo, callback=lambda progress: progress.n_iter == 3)
    assert stopped.status is ds.Status.CALLBACK
    assert stopped.n_iter == 3
    assert stopped.value == whole.trace.value[3]
    assert stopped.fw_gap == whole.trace.fw_gap[3]


def test_ctrl_c_in_the_middle_of_a_trial_returns_the_last_iterate():
    f, P = softmax(N)
    calls = []

    def function(x):
        calls.append(x)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return f.value(x), f.gradient(x)

    r = spectral(ds.CallableObjective(function, N), P, tol=1e-9)
    assert r.status is ds.Status.INTERRUPTED
    assert P.contains(r.x)
    np.testing.assert_array_equal(r.x, calls[r.n_iter])
    assert r.fw_gap == r.trace.fw_gap[-1]


@pytest.mark.parametrize("name", ["budget", "polytope"])
def test_a_python_objective_gives_the_same_iterates(name):
    f, P = softmax(N)[0], SETS[name]
    compiled, plain = spectral(f, P, tol=1e-6), spectral(scaled(f, 1.0), P, tol=1e-6)
    assert plain.n_iter == compiled.n_iter
    np.testing.assert_allclose(plain.x, compiled.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.trace.value, compiled.trace.value, rtol=1e-12)


def test_two_phases_of_it():
    f, P = softmax(N)
    r = ds.two_phase_frank_wolfe(f, P, subroutine="projected-gradient", step_size="spectral")
    assert all(phase.status is ds.Status.CONVERGED for phase in r.phases)


def test_unknown_steps_are_refused():
    with pytest.raises(ValueError, match="unknown step_size 'armijo'; choose from 'diminishing', 'spectral'"):
        ds.projected_gradient(*softmax(N), step_size="armijo")


@pytest.mark.parametrize("n", [16, 40])
def test_multi_start_takes_it_where_it_suits(n):
    f, P = softmax(n)
    one, two = (ds.multi_start(f, P, n_starts=6, n_jobs=jobs, tol=1e-6) for jobs in (1, 2))
    assert_same(one, two)
    assert one.fw_gap <= 1e-6
    assert one.value >= ds.fully_corrective_frank_wolfe(f, P, tol=1e-4).value - 1e-9
    first = spectral(f, P, tol=1e-6)
    assert one.value >= first.value
    assert one.upper_bound <= first.upper_bound
    again = ds.multi_start(scaled(f, 1.0), P, n_starts=6)
    assert again.value == pytest.approx(one.value, rel=1e-9)


def test_who_solves_the_starts():
    quadratic, other = ds.Quadratic(-np.eye(N), np.ones(N)), softmax(N)[0]
    for name, P in SETS.items():
        assert local_solver(quadratic, P) is CORRECTIVE
        assert local_solver(other, P) is (CORRECTIVE if name == "polytope" else SPECTRAL)
    assert local_solver(scaled(other, 2.0), SETS["ball"]) is SPECTRAL


def test_maximize_needs_few_oracle_calls_for_a_softmax():
    f, P = softmax(100)
    r = ds.maximize(f, P)
    assert r.status is ds.Status.CONVERGED
    assert r.n_starts == 16
    # 16 starts and a second phase; 101 are continuous greedy's where f is monotone.
    assert r.n_lmo < 101 + 17 * 20


def test_starts_where_f_is_not_finite_begin_at_half_the_vertex():
    b = np.full(6, 1.5)
    f, P = ds.Softmax(np.outer(b, b)), ds.Box(np.ones(6))
    r = ds.multi_start(f, P, n_starts=8)
    assert r.n_starts == 8
    # Which of its local maxima is met depends on the costs: f is all but singular.
    assert 0.25 < r.value < math.log(2.25) + 1e-6


def test_stacks_choose_as_single_problems_do():
    rng = np.random.default_rng(8)
    factor = rng.normal(size=(5, N, N))
    options = {"method": "multi-start", "n_starts": 3, "max_iter": 50}
    upper = rng.uniform(0.4, 1.0, (5, N))
    for sets in ({"upper": upper}, {"k": np.full(5, 3.0), "upper": upper}):
        r = ds.maximize_stacked(L=factor @ factor.transpose(0, 2, 1), n_jobs=1, **options, **sets)
        for i in range(5):
            P = ds.Budget(3.0, upper[i]) if "k" in sets else ds.Box(upper[i])
            single = ds.maximize(ds.Softmax(factor[i] @ factor[i].T), P, **options)
            np.testing.assert_array_equal(r.x[i], single.x)
            assert (r.value[i], r.fw_gap[i], r.n_lmo[i]) == (single.value, single.fw_gap, single.n_lmo)
