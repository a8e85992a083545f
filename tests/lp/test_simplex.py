"""The warm simplex against HiGHS and against its own certificate: weak duality proves every vertex."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine.codes import OK, PAUSED
from drsub_fast.lp.simplex import READY, UNIT, simplex_maximize
from drsub_fast.lp.tableau import BETA, COST, D_RATE, NONBASIC, PHASE, PIVOTS, TROUBLES, D
from drsub_fast.sets.base import follow, set_carve, set_size, track


class Oracle:
    """The kernel with a workspace that lives from call to call."""

    def __init__(self, P):
        self.P, self.params = P, P.params("kernel")
        floats, integers = set_size(self.params)
        self.work = set_carve(self.params, np.full(floats, np.nan), np.zeros(integers, np.int64))
        self.v = np.empty(P.n)

    def __call__(self, cost, upper):
        status = PAUSED
        while status == PAUSED:
            status = simplex_maximize(self.params, self.work, cost, upper, self.v)
        assert status == OK
        return self.v.copy()

    @property
    def pivots(self):
        return int(self.work.state[PIVOTS])

    def proven_bound(self, cost, upper):
        """b'y + upper' max(c - A'y, 0) for the duals y >= 0 of the final basis: no vertex can do better."""
        p, n = self.params, self.P.n
        unit = self.work.numbers[UNIT]
        if unit == 0.0:
            return 0.0
        y, nonbasic = np.zeros(self.P.m), self.work.places[NONBASIC, :n]
        y[nonbasic[nonbasic >= n] - n] = np.maximum(-self.work.table[D, :n][nonbasic >= n], 0.0)
        reduced = cost * p.scale / unit - p.A.T @ y
        room = np.divide(upper, p.scale, out=np.zeros(n), where=p.scale > 0.0)
        return unit * (p.b @ y + room @ np.maximum(reduced, 0.0))


def check(P, oracle, cost, upper, exact=None):
    v = oracle(cost, upper)
    value = cost @ v
    scale = max(abs(value), 1e-12 * np.abs(cost).max(initial=0.0))
    assert (v >= 0.0).all()
    assert (v <= upper).all()
    assert (P.A @ v <= P.b * (1.0 + 1e-8) + 1e-300).all()
    assert oracle.proven_bound(cost, upper) - value <= 1e-9 * scale
    if exact is not None:
        assert value == pytest.approx(cost @ exact.maximize(cost, upper), rel=1e-9, abs=1e-9 * scale)
    return v


def polytope(kind, n, m, rng):
    A = rng.random((m, n))
    b = np.ones(m)
    if kind == "binary":
        A = (A < 0.4).astype(float)
        b = rng.integers(1, 4, m).astype(float)
    elif kind == "integer":
        A = rng.integers(0, 4, (m, n)).astype(float)
        b = rng.integers(1, 6, m).astype(float)
    elif kind == "duplicates":
        A = A[rng.integers(0, max(1, m // 2), m)] if m else A
        A = A[:, rng.integers(0, max(1, n // 2), n)]
    elif kind == "zero right-hand sides":
        A = (A < 0.3) * A
        b = (rng.random(m) < 0.7).astype(float)
    elif kind == "degenerate":
        A = rng.integers(0, 2, (m, n)).astype(float)
        b = A @ np.full(n, 0.5)
    elif kind == "wide scales":
        A = A * 10.0 ** rng.uniform(-6, 6, (m, 1)) * 10.0 ** rng.uniform(-6, 6, n)
        b = 10.0 ** rng.uniform(-6, 6, m)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(A > 0.0, b[:, None] / A, np.inf).min(axis=0, initial=np.inf)
    upper = np.where(np.isfinite(ratios), ratios, 1.0)
    if kind == "zero right-hand sides" and rng.random() < 0.5:
        upper = np.ones(n)  # looser than the rows, which fix some columns at 0
    if kind == "zero bounds":
        upper = upper * (rng.random(n) < 0.7)
    return ds.Polytope(A, b, upper)


KINDS = [
    "random",
    "binary",
    "integer",
    "duplicates",
    "zero right-hand sides",
    "degenerate",
    "zero bounds",
    "wide scales",
]


@pytest.mark.parametrize("kind", KINDS)
def test_many_programs(kind):
    # 2,600 programs a kind, 20,800 in all, on warm oracles; HiGHS answers every fourth.
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(130):
        n, m = rng.integers(1, 13), rng.integers(0, 13)
        P = polytope(kind, n, m, rng)
        oracle = Oracle(P)
        # HiGHS would drop the smallest entries of the wide ones.
        exact = None if kind == "wide scales" else P.solver(P.upper)
        for k in range(20):
            cost = rng.integers(-2, 4, n).astype(float) if kind == "integer" else rng.standard_normal(n)
            upper = P.upper * (1.0 if k % 3 else rng.choice([0.0, 0.5, 1.0], n))
            check(P, oracle, cost, upper, exact if k % 4 == 0 else None)
        assert oracle.work.state[TROUBLES] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_larger_programs(kind):
    # Large enough for pivots to be logged.
    rng = np.random.default_rng(100 + KINDS.index(kind))
    for _ in range(6):
        n, m = rng.integers(50, 110, 2)
        P = polytope(kind, n, m, rng)
        oracle = Oracle(P)
        assert oracle.work.U.shape[0] > 1
        exact = None if kind == "wide scales" else P.solver(P.upper)
        for k in range(12):
            cost = rng.standard_normal(n) if k % 2 else rng.random(n)
            upper = P.upper * (1.0 if k % 3 else rng.choice([0.0, 0.5, 1.0], n))
            check(P, oracle, cost, upper, exact if k % 4 == 0 else None)
        assert oracle.work.state[TROUBLES] == 0


@pytest.mark.parametrize(("n", "m"), [(12, 9), (70, 60)])
def test_rounding_errors_in_the_tableau_are_corrected_and_worse_ones_start_it_anew(n, m):
    rng = np.random.default_rng(n)
    P = ds.Polytope(0.01 + rng.random((m, n)), np.ones(m))
    oracle, exact = Oracle(P), P.solver(P.upper)
    check(P, oracle, rng.random(n), P.upper, exact)
    for size, troubles in ((1e-9, 0), (0.5, 1)):
        oracle.work.T[:m, :n] += size * rng.standard_normal((m, n))
        oracle.work.table[BETA, :m] += size * rng.standard_normal(m)
        check(P, oracle, rng.random(n), P.upper, exact)
        assert min(oracle.work.state[TROUBLES], 1) == troubles


@pytest.mark.parametrize(("n", "m"), [(16, 16), (24, 60), (90, 70)])
@pytest.mark.parametrize("additive", [False, True])
def test_trajectories(n, m, additive):
    rng = np.random.default_rng(n + m)
    A = 0.01 + rng.random((m, n))
    P = ds.Polytope(A, np.ones(m))
    oracle, exact = Oracle(P), P.solver(P.upper)
    H = -rng.random((n, n))
    h = -0.4 * H @ P.upper
    x = np.zeros(n)
    for k in range(60):
        upper = np.maximum(P.upper - x, 0.0) if additive else P.upper
        v = check(P, oracle, 0.5 * (H + H.T) @ x + h, upper, exact if k % 5 == 0 else None)
        x = x + v / 60 if additive else x + 2.0 / (k + 2) * (v - x)


def test_cold_start_by_the_dual_simplex_and_bounds_that_cut_the_vertex_off():
    rng = np.random.default_rng(5)
    n, m = 100, 80
    A = 0.01 + rng.random((m, n))
    full = 0.02 * (0.5 + rng.random(n))
    P = ds.Polytope(A, A @ full * rng.uniform(0.2, 0.5, m), full)  # many columns at their upper bounds
    oracle, exact = Oracle(P), P.solver(P.upper)
    cost = 1.0 + rng.random(n)
    upper = P.upper.copy()
    check(P, oracle, cost, upper, exact)
    cold = oracle.pivots
    for _ in range(20):
        cost = cost * rng.uniform(0.99, 1.01, n)
        upper = upper * rng.uniform(0.97, 1.0, n)
        check(P, oracle, cost, upper, exact)
    assert oracle.pivots - cold < 20 * cold


@pytest.mark.parametrize("scale", [1e-200, 1e-7, 1e7, 1e200])
def test_cost_scale_does_not_matter(scale):
    rng = np.random.default_rng(6)
    P = ds.Polytope(0.01 + rng.random((9, 11)), np.ones(9))
    cost = rng.standard_normal(11)
    best = cost @ Oracle(P)(cost, P.upper)
    assert cost @ Oracle(P)(scale * cost, P.upper) == pytest.approx(best, rel=1e-12)


def test_small_gains_beside_large_losses():
    P = ds.Polytope(np.ones((1, 3)), np.ones(1))
    v = Oracle(P)(np.array([1e-9, 2e-9, -1e12]), P.upper)
    np.testing.assert_allclose(v, [0.0, 1.0, 0.0])


@pytest.mark.parametrize("mode", ["kernel", "highs"])
@pytest.mark.parametrize("share", [1.0, 1e-3, 1e-6])
def test_gains_are_measured_within_bounds_far_below_those_of_the_set(mode, share):
    P = ds.Polytope(np.zeros((1, 3)), [1.0], upper=np.array([1e-6, 1.0, 1e-3]) / share)
    upper, cost = np.array([1e-6, 1.0, 1e-3]), np.array([1.0, 10.0, 1.0])
    assert (P.with_upper(upper).lmo(cost) == upper).all()
    assert (P.solver(upper, "highs").maximize(cost, upper) == upper).all()
    P = ds.Polytope(np.zeros((1, 3)), [1.0], upper=np.array([1e-6, 1.0 / share, 1e-3]))
    r = ds.frank_wolfe(ds.Quadratic(np.zeros((3, 3)), cost), P.with_upper(upper), lmo=mode)
    assert r.value == pytest.approx(cost @ upper, rel=1e-15)
    assert r.fw_gap >= 0.0


def test_no_gain_and_directions_that_are_not_finite():
    P = ds.Polytope(np.ones((1, 3)), np.ones(1))
    oracle = Oracle(P)
    assert not oracle(np.zeros(3), P.upper).any()
    assert not oracle(np.array([-1.0, 0.0, -2.0]), P.upper).any()
    assert not oracle(np.ones(3), np.zeros(3)).any()
    for bad in (np.nan, np.inf, -np.inf):
        assert np.isnan(oracle(np.array([1.0, bad, 1.0]), P.upper)).all()
    np.testing.assert_allclose(oracle(np.array([1.0, 3.0, 2.0]), P.upper), [0.0, 1.0, 0.0])


def test_same_cost_again_takes_no_pivot():
    rng = np.random.default_rng(7)
    P = ds.Polytope(0.01 + rng.random((20, 30)), np.ones(20))
    oracle = Oracle(P)
    cost = rng.random(30)
    v = oracle(cost, P.upper)
    before = oracle.pivots
    assert before > 0
    np.testing.assert_array_equal(oracle(2.0 * cost, P.upper), v)
    assert oracle.pivots == before


def long_program(seed):
    """More pivots than one call makes."""
    rng = np.random.default_rng(seed)
    A = 0.01 + rng.random((100, 3000))
    return ds.Polytope(A, 0.4 * A.sum(axis=1), np.ones(3000)), 0.5 + rng.random(3000)


def test_interrupted_program_goes_on_to_the_optimum():
    P, cost = long_program(8)
    oracle = Oracle(P)
    calls = 1
    while simplex_maximize(oracle.params, oracle.work, cost, P.upper, oracle.v) == PAUSED:
        calls += 1
    assert calls > 1
    v, pivots = oracle.v.copy(), oracle.pivots
    np.testing.assert_array_equal(check(P, oracle, cost, P.upper), v)
    assert oracle.pivots == pivots


def test_interrupted_program_with_other_arguments():
    P, cost = long_program(9)
    oracle = Oracle(P)
    assert simplex_maximize(oracle.params, oracle.work, cost, P.upper, oracle.v) == PAUSED
    check(P, oracle, cost[::-1].copy(), 0.5 * P.upper)


def test_one_row_and_many_columns_take_few_pivots():
    # The primal simplex would flip the columns one by one.
    n = 8000
    rng = np.random.default_rng(8)
    weight, cost = 0.5 + rng.random(n), 0.5 + rng.random(n)
    P = ds.Polytope(weight[None, :], [0.8 * weight.sum()], np.ones(n))
    oracle = Oracle(P)
    v = check(P, oracle, cost, P.upper)
    order = np.argsort(-cost / weight)
    room = P.b[0] - np.concatenate([[0.0], np.cumsum(weight[order])[:-1]])
    greedy = cost[order] @ np.clip(room / weight[order], 0.0, 1.0)
    assert cost @ v == pytest.approx(greedy, rel=1e-10)
    check(P, oracle, cost[::-1].copy(), P.upper)
    check(P, oracle, rng.standard_normal(n), 0.5 * P.upper)
    assert oracle.pivots < 20


@pytest.mark.parametrize(("n", "m"), [(12, 9), (60, 80)])
def test_basis_of_highs_is_taken_over(n, m):
    rng = np.random.default_rng(n)
    P = ds.Polytope(0.01 + rng.random((m, n)), np.ones(m), np.full(n, 0.08))
    cost = rng.standard_normal(n)
    exact = P.solver(P.upper)
    best = exact.maximize(cost, P.upper)
    oracle = Oracle(P)
    P.load_basis(exact, oracle.params, oracle.work)
    assert oracle.work.state[PHASE] == READY
    assert cost @ check(P, oracle, cost, P.upper) == pytest.approx(cost @ best, rel=1e-11)
    assert oracle.pivots == 0


@pytest.mark.parametrize("additive", [False, True])
def test_follow_says_when_the_vertex_changes(additive):
    rng = np.random.default_rng(10)
    n, m = 12, 10
    P = ds.Polytope(0.01 + rng.random((m, n)), np.ones(m))
    H = -rng.random((n, n))
    H = 0.5 * (H + H.T)
    h = -0.4 * H @ P.upper
    x, grad = np.zeros(n), h.copy()
    oracle, fresh = Oracle(P), Oracle(P)
    kept = 0
    upper = P.upper
    v = oracle(grad, upper)
    assert track(oracle.params, oracle.work, H @ v if additive else H @ v + h)
    for k in range(100):
        gamma = 0.01 if additive else 2.0 / (k + 3)
        x = x + gamma * v if additive else x + gamma * (v - x)
        grad = H @ x + h
        upper = P.upper - x if additive else P.upper
        best = grad @ fresh(grad, upper)
        if follow(oracle.params, oracle.work, 1.0 if additive else 1.0 - gamma, gamma, upper, v):
            kept += 1
            assert (v <= upper).all()
            assert grad @ v == pytest.approx(best, rel=1e-9)
        else:
            v = oracle(grad, upper)
            assert grad @ v == pytest.approx(best, rel=1e-9)
            assert track(oracle.params, oracle.work, H @ v if additive else H @ v + h)
    assert kept > 20
    assert np.isfinite(oracle.work.table[COST, :n]).all()
    assert np.isfinite(oracle.work.table[D_RATE, :n]).all()


def test_workspace_of_the_solver_mode_is_small():
    P = ds.Polytope(np.ones((50, 40)), np.ones(50))
    assert sum(set_size(P.params("highs"))) < 100
    assert sum(set_size(P.params("kernel"))) > 40 * 40
