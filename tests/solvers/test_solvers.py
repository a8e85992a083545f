"""Every solver against the reference twin, and the behaviour that all of them share."""

import math
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast import reference
from drsub_fast.solvers.multi_start import start_costs
from drsub_fast.solvers.starts import start_direction

SOLVERS = {
    "frank-wolfe": ds.frank_wolfe,
    "frank-wolfe-exact": lambda f, P, **o: ds.frank_wolfe(f, P, step_size="exact", **o),
    "fully-corrective": ds.fully_corrective_frank_wolfe,
    "nonmonotone": ds.nonmonotone_frank_wolfe,
    "monotone": ds.monotone_frank_wolfe,
    "two-phase": ds.two_phase_frank_wolfe,
    "projected-gradient": ds.projected_gradient,
    "multi-start": ds.multi_start,
    "mualem-feldman": ds.mualem_feldman,
}
LOOPS = [name for name in SOLVERS if name not in ("two-phase", "multi-start", "mualem-feldman")]


def quadratic(n, seed, concave=0.0):
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    H = (H + H.T) / 2 - concave * np.sqrt(n) * np.eye(n)
    return ds.Quadratic(H, -0.3 * H.sum(1) * rng.uniform(0.5, 1.5, n))


def polytope(n, m, seed):
    rng = np.random.default_rng(seed)
    return ds.Polytope(0.01 + rng.random((m, n)), np.ones(m))


def sets(n):
    return [ds.Box(np.ones(n)), ds.Budget(n / 4, np.ones(n)), polytope(n, n // 2, 5)]


@pytest.fixture(params=[0, 1, 2], ids=["box", "budget", "polytope"])
def problem(request):
    return quadratic(8, 3), sets(8)[request.param]


@pytest.mark.parametrize("step_size", ["open-loop", "exact", "short"])
def test_frank_wolfe_follows_the_reference(problem, step_size):
    f, P = problem
    mine = ds.frank_wolfe(f, P, step_size=step_size, max_iter=30)
    theirs = reference.frank_wolfe(f, P, step_size=step_size, max_iter=30)
    assert mine.value == pytest.approx(theirs.value, rel=1e-9)
    assert mine.fw_gap == pytest.approx(theirs.fw_gap, rel=1e-7, abs=1e-9)
    np.testing.assert_allclose(mine.trace.value, theirs.trace.value, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mine.trace.fw_gap, theirs.trace.fw_gap, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("method", ["nonmonotone_frank_wolfe", "monotone_frank_wolfe", "projected_gradient"])
def test_fixed_step_methods_follow_the_reference(problem, method):
    f, P = problem
    mine, theirs = getattr(ds, method)(f, P, max_iter=25), getattr(reference, method)(f, P, max_iter=25)
    assert mine.value == pytest.approx(theirs.value, rel=1e-8)
    assert mine.fw_gap == pytest.approx(theirs.fw_gap, rel=1e-6, abs=1e-7)
    assert mine.n_iter == 25
    np.testing.assert_allclose(mine.trace.value, theirs.trace.value, rtol=1e-8, atol=1e-9)


def test_two_phases_follow_the_reference(problem):
    f, P = problem
    mine, theirs = ds.two_phase_frank_wolfe(f, P, max_iter=30), reference.two_phase_frank_wolfe(f, P, max_iter=30)
    assert mine.value == pytest.approx(theirs.value, rel=1e-9)
    assert mine.value == max(phase.value for phase in mine.phases)
    assert mine.phases[mine.phase - 1].value == mine.value
    assert all(P.contains(phase.x) for phase in mine.phases)
    assert (mine.phases[0].x + mine.phases[1].x <= P.upper + 1e-9).all()


@pytest.mark.parametrize("name", SOLVERS)
def test_result_is_consistent(problem, name):
    f, P = problem
    r = SOLVERS[name](f, P, max_iter=40)
    assert P.contains(r.x)
    assert r.value == pytest.approx(f.value(r.x), rel=1e-12)
    assert len(r.trace.value) == len(r.trace.fw_gap) == r.n_iter + 1
    assert r.best_value >= r.value - 1e-12
    assert r.best_value == pytest.approx(f.value(r.best_x), rel=1e-9)
    if not math.isnan(r.fw_gap):
        gap = f.gradient(r.x) @ (P.lmo(f.gradient(r.x)) - r.x)
        assert r.fw_gap == pytest.approx(gap, rel=1e-8, abs=1e-9)
    assert r.n_lmo >= 1
    assert r.time > 0.0
    assert r.status.value in r.message
    assert r.value <= r.upper_bound
    assert pickle.loads(pickle.dumps(r)).value == r.value


@pytest.mark.parametrize("concave", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_fully_corrective_reaches_a_tiny_gap_and_never_falls(seed, concave):
    f, P = quadratic(20, seed, concave), polytope(20, 10, seed)
    r = ds.fully_corrective_frank_wolfe(f, P, tol=1e-10)
    assert r.status is ds.Status.CONVERGED
    assert r.fw_gap <= 1e-10
    assert (np.diff(r.trace.value) >= -1e-12).all()
    gradient = f.gradient(r.x)
    assert gradient @ (P.lmo(gradient) - r.x) <= 1e-9
    if concave:  # enough for one maximum, which the open loop comes near
        open_loop = ds.frank_wolfe(f, P, max_iter=400)
        assert r.value >= open_loop.value - 2.0 * open_loop.fw_gap


def test_fully_corrective_starts_from_x0_and_counts_its_calls():
    f, P = quadratic(12, 1, 0.3), polytope(12, 6, 1)
    first = ds.fully_corrective_frank_wolfe(f, P, tol=1e-12)
    again = ds.fully_corrective_frank_wolfe(f, P, x0=first.x, tol=1e-10)
    assert again.n_iter == 0
    assert again.n_lmo == 1
    assert first.n_lmo == first.n_iter + 1


def test_unreachable_tolerance_ends_as_stalled():
    f, P = quadratic(12, 1, 0.3), polytope(12, 6, 1)
    r = ds.fully_corrective_frank_wolfe(f, P, tol=0.0, max_iter=10_000)
    assert r.status in (ds.Status.STALLED, ds.Status.CONVERGED)
    assert r.n_iter < 200
    assert r.fw_gap < 1e-13


def test_multi_start_is_at_least_as_good_and_independent_of_threads():
    f, P = quadratic(14, 7), polytope(14, 7, 7)
    one = ds.multi_start(f, P, n_starts=12, seed=3)
    two = ds.multi_start(f, P, n_starts=12, seed=3, n_jobs=3)
    np.testing.assert_array_equal(one.x, two.x)
    assert one.value == two.value
    assert one.value >= ds.two_phase_frank_wolfe(f, P, subroutine="fully-corrective-frank-wolfe").value - 1e-12
    assert one.n_starts == 12
    assert 1 <= one.n_best <= 12
    assert ds.maximize(f, P, n_starts=12, seed=3).value == one.value


def test_costs_of_starts_follow_the_scale_and_are_fresh():
    costs = start_costs(3, 5, seed=2)
    assert not costs[0].any()
    assert (costs[1:] != 0.0).all()
    assert (costs[1::2] > 0.0).all()
    assert (costs[2::2] < 0.0).any()
    direction, upper = np.full(3, 7.0), np.array([1.0, 0.0, 4.0])
    softmax, quadratic = ds.Softmax(np.eye(3)).params, ds.Quadratic(-np.eye(3), [1.0, 2.0, 3.0]).params
    for s, params in ((1, softmax), (2, quadratic)):
        assert start_direction(params, costs[s], s, upper, direction)
        assert direction.tolist() == [costs[s, 0], 0.0, costs[s, 2] / 4.0]
    assert start_direction(quadratic, costs[1], 1, upper, direction)
    assert direction.tolist() == [0.5, 2.0, 1.0]  # (f(u_j e_j) - f(0)) / u_j
    assert not start_direction(quadratic, costs[0], 1, upper, direction)
    kept = costs.copy()
    costs[:] = 7.0
    assert (start_costs(3, 5, seed=2) == kept).all()
    assert (start_costs(3, 5, seed=3) != kept).any()


def test_multi_start_needs_an_integer_seed():
    f, P = ds.Quadratic([[-1.0]], [1.0]), ds.Box([1.0])
    with pytest.raises(TypeError, match="seed must be an integer"):
        ds.multi_start(f, P, seed=None)


def test_multi_start_reaches_the_maximum_over_a_box():
    f = quadratic(10, 2)
    corners = (np.arange(2**10)[:, None] >> np.arange(10)) & 1
    best = max(f.value(corner.astype(float)) for corner in corners)
    assert ds.maximize(f, ds.Box(np.ones(10)), n_starts=64).value >= best - 1e-9


@pytest.mark.parametrize("name", LOOPS)
def test_python_mode_agrees_with_the_compiled_loop(name):
    f, P = quadratic(5, 4), ds.Budget(2.0, np.ones(5))
    g = ds.CallableObjective(lambda x: (f.value(x), f.gradient(x)), 5)
    compiled, plain = SOLVERS[name](f, P, max_iter=12), SOLVERS[name](g, P, max_iter=12)
    if name == "fully-corrective":  # differences instead of the Hessian: another path
        assert plain.value == pytest.approx(compiled.value, rel=0.1)
    else:
        assert plain.value == pytest.approx(compiled.value, rel=1e-9)
        assert plain.n_lmo == compiled.n_lmo


@pytest.mark.parametrize("name", LOOPS)
def test_callback_sees_every_step_and_can_stop(name):
    f, P = quadratic(8, 3), ds.Budget(2.0, np.ones(8))
    seen = []

    def stop_at_three(progress):
        seen.append(progress.n_iter)
        assert P.contains(progress.x)
        assert math.isfinite(progress.value)
        return progress.n_iter == 3

    options = {} if name == "frank-wolfe-exact" else {"max_iter": 10}
    r = SOLVERS[name](f, P, callback=stop_at_three, **options)
    assert seen == [1, 2, 3]
    assert r.status is ds.Status.CALLBACK
    assert r.n_iter == 3
    assert P.contains(r.x)
    assert math.isfinite(r.fw_gap)


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("lmo", ["kernel", "highs"])
@pytest.mark.parametrize("name", ["frank-wolfe", "nonmonotone", "projected-gradient", "mualem-feldman"])
def test_callback_is_called_at_the_same_steps_whoever_solves_the_programs(name, lmo, every):
    seen = []
    options = {"max_iter": 20, "lmo": lmo, "callback_every": every}
    SOLVERS[name](quadratic(10, 9), polytope(10, 10, 9), callback=lambda p: seen.append(p.n_iter), **options)
    assert seen == list(range(every, 21, every))


@pytest.mark.parametrize("lmo", ["kernel", "highs"])
def test_chunks_do_not_change_the_answer(lmo):
    f, P = quadratic(10, 9), polytope(10, 10, 9)
    for solver in (ds.frank_wolfe, ds.nonmonotone_frank_wolfe, ds.fully_corrective_frank_wolfe):
        whole = solver(f, P, max_iter=50, lmo=lmo)
        chunked = solver(f, P, max_iter=50, lmo=lmo, callback=lambda progress: None, callback_every=7)
        np.testing.assert_array_equal(whole.x, chunked.x)
        np.testing.assert_array_equal(whole.trace.value, chunked.trace.value)
        assert whole.n_lmo == chunked.n_lmo


def test_lmo_counts():
    f, P = quadratic(10, 9), polytope(10, 10, 9)
    assert ds.frank_wolfe(f, P, max_iter=20, tol=0.0).n_lmo == 21
    assert ds.nonmonotone_frank_wolfe(f, P, max_iter=10).n_lmo == 11
    assert ds.projected_gradient(f, P, max_iter=10).n_lmo == 2


@pytest.mark.parametrize("lmo", ["highs", "kernel", "auto"])
def test_every_oracle_gives_the_same_value(lmo):
    f, P = quadratic(10, 9), polytope(10, 10, 9)
    expected = reference.nonmonotone_frank_wolfe(f, P, max_iter=20).value
    assert ds.nonmonotone_frank_wolfe(f, P, max_iter=20, lmo=lmo).value == pytest.approx(expected, rel=1e-9)


def test_zero_time_limit_still_returns_a_point():
    f, P = quadratic(8, 3), polytope(8, 8, 3)
    for solver in (ds.frank_wolfe, ds.nonmonotone_frank_wolfe, ds.two_phase_frank_wolfe, ds.maximize):
        r = solver(f, P, time_limit=0.0)
        assert r.status is ds.Status.TIME_LIMIT
        assert P.contains(r.x)


def test_ctrl_c_returns_what_there_is():
    """Pressed in a thread of its own once the run has come to step 50; by itself it would not end."""
    f, P = quadratic(60, 3, 0.1), polytope(60, 30, 3)
    is_running = threading.Event()

    def press():
        if is_running.wait(timeout=300.0):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    r = ds.frank_wolfe(
        f, P, max_iter=100_000_000, tol=0.0, time_limit=300.0, callback_every=50, callback=lambda _: is_running.set()
    )
    thread.join()
    assert r.status is ds.Status.INTERRUPTED
    assert P.contains(r.x)
    assert r.n_iter > 0
    assert "interrupted" in r.message


@pytest.mark.parametrize(("bad", "message"), [
    ([0.5, 0.5, 0.5], "x0 has 3 entries, expected 2"),
    ([2.0, 0.0], r"x0\[0\] = 2 is above its upper bound 1"),
    ([-0.1, 0.0], r"x0\[0\] = -0.1 is negative"),
    ([1.0, 1.0], "above the budget"),
    ([np.nan, 0.0], r"x0\[0\] = nan is not finite"),
])  # fmt: skip
def test_bad_x0(bad, message):
    f, P = quadratic(2, 0), ds.Budget(1.0, [1.0, 1.0])
    for solver in (ds.frank_wolfe, ds.fully_corrective_frank_wolfe, ds.projected_gradient):
        with pytest.raises(ValueError, match=message):
            solver(f, P, x0=bad)


def test_bad_options():
    f, P = quadratic(3, 0), ds.Box(np.ones(3))
    with pytest.raises(
        ValueError, match=r"unknown method 'no-such'; choose from 'auto', .*'double-greedy', 'frank-wolfe'"
    ):
        ds.maximize(f, P, method="no-such")
    with pytest.raises(ValueError, match="unknown step_size 'armijo'; choose from 'open-loop'"):
        ds.frank_wolfe(f, P, step_size="armijo")
    with pytest.raises(ValueError, match="unknown lmo 'glpk'; choose from 'auto', 'highs', 'kernel'"):
        ds.frank_wolfe(f, P, lmo="glpk")
    with pytest.raises(ValueError, match="unknown subroutine"):
        ds.two_phase_frank_wolfe(f, P, subroutine="newton")
    with pytest.raises(ValueError, match="max_iter = -1 must be at least 0"):
        ds.frank_wolfe(f, P, max_iter=-1)
    with pytest.raises(TypeError, match="max_iter must be an integer, got float"):
        ds.frank_wolfe(f, P, max_iter=2.5)
    with pytest.raises(ValueError, match="tol = -1 must be at least 0"):
        ds.frank_wolfe(f, P, tol=-1.0)
    with pytest.raises(ValueError, match="tol = nan is not finite"):
        ds.frank_wolfe(f, P, tol=math.nan)
    with pytest.raises(ValueError, match="time_limit = -2 must be at least 0"):
        ds.frank_wolfe(f, P, time_limit=-2.0)
    with pytest.raises(ValueError, match="the objective has 3 variables, the set 2"):
        ds.frank_wolfe(f, ds.Box(np.ones(2)))
    with pytest.raises(ValueError, match="has one start"):
        ds.maximize(f, P, method="frank-wolfe", n_starts=4)


@pytest.mark.parametrize("name", SOLVERS)
def test_degenerate_sets_and_objectives(name):
    solver = SOLVERS[name]
    point = solver(quadratic(3, 0), ds.Box(np.zeros(3)), max_iter=5)
    np.testing.assert_array_equal(point.x, np.zeros(3))
    flat = solver(ds.Quadratic(np.zeros((3, 3)), np.zeros(3), 2.5), ds.Box(np.ones(3)), max_iter=5)
    assert flat.value == 2.5
    assert flat.fw_gap == 0.0
    single = solver(ds.Quadratic([[-1.0]], [1.0]), ds.Box([2.0]), max_iter=200)
    assert single.value == pytest.approx(0.5, abs=1e-2)
    if name != "mualem-feldman":
        none = solver(quadratic(3, 0), ds.Box(np.ones(3)), max_iter=0)
        assert none.n_iter == 0


def test_guarantees_say_what_is_known_of_their_premise():
    box = ds.Box(np.ones(2))
    positive = ds.Quadratic([[-1.0, 0.0], [0.0, -1.0]], [1.0, 1.0], 1.0)
    negative = ds.Quadratic([[-1.0, 0.0], [0.0, -1.0]], [0.1, 0.1])
    r = ds.nonmonotone_frank_wolfe(positive, box)
    assert r.guarantee.holds is True
    assert r.guarantee.ratio == pytest.approx(1 / math.e)
    assert "known to hold" in str(r.guarantee)
    assert ds.nonmonotone_frank_wolfe(negative, box).guarantee.holds is False
    assert ds.two_phase_frank_wolfe(positive, box).guarantee.ratio == 0.25
    assert ds.frank_wolfe(positive, box).guarantee.ratio is None
    # The memory of a premise belongs to one set: another set, another answer.
    assert ds.nonmonotone_frank_wolfe(negative, ds.Box([0.1, 0.1])).guarantee.holds is True


def test_upper_bound_is_valid_over_a_box():
    for seed in range(20):
        f = quadratic(6, seed)
        corners = (np.arange(64)[:, None] >> np.arange(6)) & 1
        best = max(f.value(corner.astype(float)) for corner in corners)
        for solver in (ds.frank_wolfe, ds.nonmonotone_frank_wolfe, ds.maximize):
            assert solver(f, ds.Box(np.ones(6))).upper_bound >= best - 1e-9


@pytest.mark.parametrize("lmo", ["kernel", "highs"])
def test_projected_gradient_bounds_the_maximum_from_its_first_iterate(lmo):
    f, P = quadratic(8, 11), polytope(8, 6, 11)
    seen = []
    r = ds.projected_gradient(f, P, max_iter=10, lmo=lmo, callback=lambda progress: seen.append(progress.fw_gap))
    other = ds.frank_wolfe(f, P, max_iter=10)
    assert r.upper_bound == pytest.approx(other.upper_bound, rel=1e-12)
    assert r.trace.fw_gap[0] == pytest.approx(other.trace.fw_gap[0], rel=1e-12)
    assert r.trace.fw_gap[-1] == r.fw_gap
    assert np.isnan(r.trace.fw_gap[1:-1]).all()
    assert np.isnan(seen[1:]).all()
    assert ds.projected_gradient(f, P, x0=0.5 * r.x, max_iter=10).upper_bound == math.inf


def test_ratio_is_a_proven_fraction():
    f = ds.Quadratic([[-1.0, 0.0], [0.0, -1.0]], [1.0, 1.0], 1.0)
    r = ds.maximize(f, ds.Box(np.ones(2)))
    assert r.ratio == pytest.approx(r.value / r.upper_bound)
    assert 0.0 < r.ratio <= 1.0
    assert math.isnan(ds.maximize(ds.Quadratic([[-1.0]], [-1.0], -1.0), ds.Box([1.0])).ratio)


def test_auto_begins_elsewhere_where_the_objective_is_not_finite_at_zero():
    def log_of_sum(x):
        total = x.sum()
        return (math.log(total), np.full(3, 1.0 / total)) if total > 0.0 else (-math.inf, np.ones(3))

    f = ds.CallableObjective(log_of_sum, n=3, dr_submodular=True, monotone=True)
    r = ds.maximize(f, ds.Budget(2.0, np.ones(3)))
    assert r.value == pytest.approx(math.log(2.0), abs=1e-9)
    assert r.guarantee.ratio is None
    assert "not finite at 0" in r.message


def test_non_finite_objective_stops_with_the_last_good_iterate():
    def cliff(x):
        return (math.nan if x.sum() > 0.6 else x.sum()), np.ones(2)

    r = ds.nonmonotone_frank_wolfe(ds.CallableObjective(cliff, 2), ds.Box(np.ones(2)), max_iter=10)
    assert r.status is ds.Status.NON_FINITE
    assert r.n_iter == 3
    assert r.value == pytest.approx(2 * (1 - 0.9**3))

    def edge(x):
        return (x.sum() if x.sum() == 0.0 else math.nan), np.ones(2)

    for method in ("frank-wolfe", "nonmonotone-frank-wolfe", "projected-gradient"):
        r = ds.maximize(ds.CallableObjective(edge, 2), ds.Box(np.ones(2)), method=method, max_iter=10, bound="cheap")
        assert (r.x.tolist(), r.value, r.n_iter) == ([0.0, 0.0], 0.0, 0), method
        assert np.isfinite(r.trace.value).all(), method

    def nowhere(x):
        return -math.inf, np.ones(2)

    with pytest.raises(ValueError, match=r"not finite at the starting point: f\(x0\) = -inf; give another x0"):
        ds.frank_wolfe(ds.CallableObjective(nowhere, 2), ds.Box(np.ones(2)))


def test_errors_of_a_python_objective_reach_the_user():
    def broken(x):
        raise RuntimeError("my own error")

    with pytest.raises(RuntimeError, match="my own error"):
        ds.frank_wolfe(ds.CallableObjective(broken, 2), ds.Box(np.ones(2)))


def test_one_specialisation_whatever_the_input(compiled):
    from drsub_fast.solvers.frank_wolfe import frank_wolfe_loop

    H, h, A = -np.eye(4), np.ones(4), np.ones((2, 4))
    ds.frank_wolfe(ds.Quadratic(H, h), ds.Polytope(A, [1.0, 1.0]))
    before = len(frank_wolfe_loop.standalone.signatures)
    read_only = A.copy()
    read_only.flags.writeable = False
    for matrix in (A.astype(np.float32), np.asfortranarray(A), read_only, A.tolist(), A[:, ::-1]):
        ds.frank_wolfe(ds.Quadratic(np.asfortranarray(H), h.astype(np.float32)), ds.Polytope(matrix, [1, 1]))
    assert len(frank_wolfe_loop.standalone.signatures) == before


def test_solving_prints_nothing_and_works_without_jit():
    code = (
        "import drsub_fast as ds, numpy as np\n"
        "f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])\n"
        "for P in (ds.Box([1.0, 1.0]), ds.Budget(1.0, [1.0, 1.0]), ds.Polytope([[1.0, 2.0]], [2.0])):\n"
        "    for name in ['auto', *ds.METHODS]:\n"
        "        if name == 'double-greedy' and not isinstance(P, ds.Box): continue\n"
        "        options = {} if name == 'double-greedy' else {'max_iter': 20}\n"
        "        assert P.contains(ds.maximize(f, P, method=name, **options).x), name\n"
    )
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["frank-wolfe", "fully-corrective-frank-wolfe", "multi-start", "projected-gradient"])
def test_a_callback_sees_a_run_of_one_step(name):
    seen = []
    f, P = ds.Quadratic(np.zeros((2, 2)), [1.0, 2.0]), ds.Box([1.0, 1.0])
    r = ds.maximize(f, P, method=name, callback=lambda p: seen.append(p.n_iter), max_iter=1)
    assert r.n_iter == 1
    assert seen.count(1) >= 1


@pytest.mark.parametrize("method", ["auto", "frank-wolfe", "boosted-gradient", "double-greedy", "mualem-feldman"])
@pytest.mark.parametrize("facts", [{}, {"dr_submodular": True, "nonnegative": True, "monotone": True}])
def test_ctrl_c_in_any_call_of_a_function_returns_an_answer(method, facts):
    for call in range(1, 40):
        count = []

        def root(x, call=call, count=count):
            count.append(None)
            if len(count) == call:
                raise KeyboardInterrupt
            return float(np.sqrt(1.0 + x).sum()), 0.5 / np.sqrt(1.0 + x)

        r = ds.maximize(ds.CallableObjective(root, 3, **facts), ds.Box(np.ones(3)), method=method)
        assert r.status is ds.Status.INTERRUPTED or len(count) < call, call
        assert math.isfinite(r.value)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("method", ["frank-wolfe", "fully-corrective-frank-wolfe", "multi-start"])
def test_answers_keep_their_bounds_to_the_last_bit(method, seed):
    r = np.random.default_rng(seed + 12)
    upper = 10.0 ** r.uniform(-4, 0, 3)
    lower = upper * r.random(3) * 0.3
    P = ds.GeneralPolytope(A=r.standard_normal((2, 3)), b=np.full(2, 9.0), lower=lower, upper=upper)
    f = ds.Quadratic(-np.eye(3) / upper, r.standard_normal(3) * 0.5)
    x = ds.maximize(f, P, method=method, max_iter=30).x
    assert (x >= lower).all()
    assert (x <= upper).all()


def test_best_value_is_that_of_best_x_to_the_last_digit():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        H = rng.uniform(-1.0, 1.0, (3, 3))
        f = ds.Quadratic(1e6 * (H + H.T), -3e6 * rng.random(3), require_dr=False)
        r = ds.frank_wolfe(f, ds.Box(np.ones(3)), x0=rng.random(3), max_iter=30)
        assert r.best_value == f.value(r.best_x)
