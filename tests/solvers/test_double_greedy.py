"""Double greedy, Mualem-Feldman, and the choice of `maximize`, against the maximum found by enumeration."""

import math

import numpy as np
import pytest

import drsub_fast as ds


def nonnegative_quadratic(n, seed):
    """A quadratic shifted so that its minimum over the box, which is at a corner, is 0; its corner values too."""
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    H = (H + H.T) / 2
    h = -H.sum(1) * rng.random(n)
    f = ds.Quadratic(H, h)
    corners = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(float)
    values = np.array([f.value(corner) for corner in corners])
    return ds.Quadratic(H, h, -values.min()), values - values.min()


def test_half_of_the_maximum_and_a_quarter_of_the_ends():
    for seed in range(60):
        f, corner_values = nonnegative_quadratic(6, seed)
        box = ds.Box(np.ones(6))
        r = ds.double_greedy(f, box)
        best = max(corner_values.max(), ds.maximize(f, box, n_starts=16).value)
        ends = f.value(np.zeros(6)) + f.value(np.ones(6))
        assert r.value >= 0.5 * best + 0.25 * ends - 1e-9
        assert r.value == pytest.approx(f.value(r.x), rel=1e-12)
        assert r.upper_bound >= best - 1e-9
        assert r.n_iter == 6


def test_coordinates_along_which_f_is_linear():
    rng = np.random.default_rng(1)
    for _ in range(20):
        f = ds.Multilinear.cut(np.where(rng.random((6, 6)) < 0.5, 1.0, 0.0) * (1.0 - np.eye(6)))
        best = max(f.set_value([i for i in range(6) if subset >> i & 1]) for subset in range(64))
        r = ds.double_greedy(f, ds.Box(np.ones(6)))
        assert 0.5 * best - 1e-9 <= r.value <= best + 1e-9


def test_softmax_with_a_singular_kernel():
    B = np.random.default_rng(0).standard_normal((12, 4))
    r = ds.double_greedy(ds.Softmax(B @ B.T), ds.Box(np.ones(12)))
    assert math.isfinite(r.value)
    assert r.value > 0.0


def test_python_objective_gives_the_same_answer():
    f, _ = nonnegative_quadratic(5, 1)
    g = ds.CallableObjective(lambda x: (f.value(x), f.gradient(x)), 5)
    box = ds.Box(np.ones(5))
    assert ds.double_greedy(g, box).value == pytest.approx(ds.double_greedy(f, box).value, rel=1e-9)


def test_other_sets_are_refused_with_an_alternative():
    f, _ = nonnegative_quadratic(3, 0)
    with pytest.raises(ds.UnsupportedError, match=r"double_greedy needs a Box, got Budget.*use maximize"):
        ds.double_greedy(f, ds.Budget(1.0, np.ones(3)))


def test_mualem_feldman_keeps_its_bound_over_a_simplex():
    for seed in range(20):
        f, _ = nonnegative_quadratic(5, seed)
        simplex = ds.Simplex(5)
        r = ds.mualem_feldman(f, simplex, max_iter=200)
        best = max(r.value, ds.multi_start(f, simplex, n_starts=16).value)
        assert simplex.contains(r.x)
        assert r.guarantee.ratio == pytest.approx((1.0 - 1.0 / 5.0) / 4.0)
        assert r.value >= r.guarantee.ratio * best - 1e-9


def test_maximize_says_which_bound_it_chose():
    ones = np.ones(3)
    monotone = ds.Quadratic(-np.eye(3), 2.0 * ones)
    r = ds.maximize(monotone, ds.Budget(2.0, ones))
    assert r.guarantee.ratio == pytest.approx(1.0 - 1.0 / math.e)
    assert r.guarantee.holds
    assert "monotone" in r.message
    r = ds.maximize(ds.Quadratic(-np.eye(3), 0.75 * ones, 1.0), ds.Box(ones))
    assert r.guarantee.ratio == 0.5
    assert "box" in r.message
    r = ds.maximize(ds.Quadratic(-np.eye(3), 0.75 * ones, 1.0), ds.Budget(2.0, ones))
    assert r.guarantee.ratio == 0.25
    r = ds.maximize(ds.Quadratic(-np.eye(3), 0.75 * ones, 1.0), ds.Simplex(3))
    assert r.guarantee.ratio == pytest.approx((1.0 - 1.0 / 3.0) / 4.0)
    assert "not down-closed" in r.message
