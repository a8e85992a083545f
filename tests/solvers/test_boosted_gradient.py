"""The boosted gradient: its function by numerical integration, its bound, and its way out of traps."""

import math

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.objectives.boosted import Boosted, boosted

PART = 1.0 - 1.0 / math.e


def monotone_quadratic(random, n):
    H = -random.random((n, n))
    H = H + H.T
    return ds.Quadratic(H, -H.sum(axis=1) * (1.0 + random.random(n)), c=float(random.random()))


@pytest.mark.parametrize("seed", range(5))
def test_the_function_is_the_integral(seed):
    random = np.random.default_rng(seed)
    n = 3
    x = random.random(n)
    z = (np.arange(20_000) + 0.5) / 20_000
    f = monotone_quadratic(random, n)
    for inner in (f, ds.Multilinear.coverage((random.random((n, 4)) < 0.6).astype(float))):
        F = Boosted(inner)
        at = [inner.value_and_gradient(t * x) for t in z[::10]]
        base = inner.value(np.zeros(n))
        value = np.mean([math.exp(t - 1.0) / t * (v - base) for t, (v, _) in zip(z[::10], at, strict=True)])
        gradient = np.mean([math.exp(t - 1.0) * g for t, (_, g) in zip(z[::10], at, strict=True)], axis=0)
        assert F.value(x) == pytest.approx(value, rel=2e-3)
        np.testing.assert_allclose(F.gradient(x), gradient, rtol=2e-3)
    np.testing.assert_allclose(boosted(f).gradient(x), Boosted(f).gradient(x), rtol=1e-12)
    assert boosted(f).value(x) == pytest.approx(Boosted(f).value(x), rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_inequality_behind_the_bound(seed):
    random = np.random.default_rng(seed)
    n = 4
    f = monotone_quadratic(random, n)
    F = boosted(f)
    for _ in range(50):
        x, y = random.random(n), random.random(n)
        slope = F.gradient(x) @ (y - x)
        assert slope >= PART * f.value(y) - f.value(x) + f.value(np.zeros(n)) / math.e - 1e-12


@pytest.mark.parametrize("n", [2, 4])
def test_it_leaves_a_trap_of_half_the_maximum(n):
    # On the simplex e_0 is stationary for f = sum_j a_j x_j - x_0 sum_{j > 0} x_j, and e_{n-1} has twice its value.
    H = np.zeros((n, n))
    H[0, 1:] = H[1:, 0] = -1.0
    linear = np.ones(n)
    linear[-1] = 1.99
    f, P, trap = ds.Quadratic(H, linear), ds.Simplex(n), np.eye(n)[0]
    assert ds.frank_wolfe(f, P, x0=trap).value == 1.0
    r = ds.boosted_gradient(f, P, x0=trap)
    assert r.value == pytest.approx(1.99)
    assert P.contains(r.x)


def test_the_guarantee_and_the_bound_hold_over_sets_that_are_not_down_closed():
    for seed in range(30):
        random = np.random.default_rng(seed)
        n = 4
        f = monotone_quadratic(random, n)
        P = ds.GeneralPolytope(A_eq=[random.random(n)], b_eq=[0.8], upper=np.ones(n)) if seed % 2 else ds.Simplex(n)
        best = max(f.value(P.lmo(random.normal(size=n))) for _ in range(40))
        r = ds.boosted_gradient(f, P)
        assert r.guarantee.holds is True
        assert r.guarantee.ratio == pytest.approx(PART)
        best = max(best, r.value)
        assert r.value >= PART * best - max(r.phases[0].fw_gap, 0.0)
        assert best <= r.upper_bound <= best / PART * 1.01 + 1e-6


def test_maximize_takes_it_where_f_is_monotone_and_the_set_not_down_closed():
    r = ds.maximize(monotone_quadratic(np.random.default_rng(0), 3), ds.Simplex(3))
    assert r.guarantee.ratio == pytest.approx(PART)
    assert r.guarantee.holds is True
    assert "boosted gradient" in r.message


@pytest.mark.parametrize(
    ("options", "status"),
    [({"callback": lambda progress: True}, ds.Status.CALLBACK), ({"time_limit": 0.0}, ds.Status.TIME_LIMIT)],
)
def test_an_unfinished_run_promises_nothing(options, status):
    f = ds.Quadratic(-np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), np.full(5, 6.0))
    r = ds.boosted_gradient(f, ds.Simplex(5), x0=np.eye(5)[0], **options)
    assert r.status is status
    assert r.guarantee.ratio is None


def test_a_function_that_stops_being_finite():
    def cliff(x):
        return (math.nan if x.sum() > 0.5 else x.sum()), np.ones(2)

    f = ds.CallableObjective(cliff, 2, dr_submodular=True, monotone=True)
    r = ds.boosted_gradient(f, ds.Box([1.0, 1.0]))
    assert math.isfinite(r.value)
    assert not r.success


def test_f_must_be_finite_at_0():
    def log_of_sum(x):
        return (math.log(x.sum()) if x.sum() > 0.0 else -math.inf), np.ones(2)

    f = ds.CallableObjective(log_of_sum, 2, dr_submodular=True, monotone=True)
    with pytest.raises(ValueError, match="finite at 0"):
        ds.boosted_gradient(f, ds.Simplex(2))
