"""Constants of every objective: against their definitions, and near what is found."""

import numpy as np
import pytest
import scipy

import drsub_fast as ds

pytestmark = pytest.mark.usefixtures("interpreted")


def quadratic(n, seed, concave):
    """f with its minimum 0 over the unit box at a corner."""
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    H = (H + H.T) / 2 - concave * np.eye(n)
    h = -H.sum(1) * rng.random(n)
    corners = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(float)
    return ds.Quadratic(H, h, -min(ds.Quadratic(H, h).value(corner) for corner in corners))


RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(5, 3))
KERNEL = FEATURES @ FEATURES.T + 0.3 * np.eye(5)
SIGNED = np.abs(RNG.normal(size=(7, 5)))
FLID = ds.Multilinear.flid(RNG.random(5), RNG.random((5, 3)))
#: Every kind of objective with known constants, on [0, upper].
OBJECTIVES = {
    "dense": (quadratic(5, 1, 0.5), 1.5),
    "sparse": (
        ds.Quadratic(scipy.sparse.csr_array(-np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1)), np.ones(5)),
        1.0,
    ),
    "factored": (ds.Quadratic(factor=np.abs(FEATURES), diagonal=np.ones(5), h=np.ones(5)), 1.0),
    "price": (ds.PriceOptimization(np.full(5, 9.0), -np.eye(5) - 0.1, cost=np.ones(5)), 3.0),
    "stability": (ds.StabilityNumber(np.eye(5, k=1) + np.eye(5, k=-1)), 1.0),
    "cut": (ds.Multilinear.cut(np.triu(RNG.random((5, 5)), 1)), 1.0),
    "softmax": (ds.Softmax(KERNEL), 1.0),
    "softmax, large eigenvalues": (ds.Softmax(KERNEL + 2.0 * np.eye(5)), 1.0),
    "softmax, low rank": (ds.Softmax(factor=FEATURES), 0.6),
    "softmax, beyond the unit box": (ds.Softmax(KERNEL + np.eye(5), unit_box=False), 1.4),
    "coverage": (ds.Multilinear.coverage([{0, 1}, {1, 2}, {2, 3, 0}, {3}, {0, 4}]), 1.0),
    "facility location": (ds.Multilinear.facility_location(RNG.random((5, 4))), 1.0),
    "flid": (FLID, 1.0),
    "table": (ds.Multilinear.from_function(lambda S: len(S) ** 0.5, 5), 1.0),
    "mean field": (ds.MeanField(FLID), 0.9),
    "spectral, factors": (ds.Spectral(factors=FEATURES, offset=np.eye(3)), 1.0),
    "spectral, matrices": (ds.Spectral([np.outer(a, a) + np.eye(3) for a in FEATURES], offset=np.eye(3)), 1.0),
    "spectral, no offset": (ds.Spectral(factors=FEATURES), 1.0),
    "logistic": (ds.LogisticNonconvex(SIGNED, [1, -1, 1, 1, -1, 1, -1], gamma=0.2), 1.0),
    "logistic, capped": (ds.LogisticNonconvex(SIGNED, np.ones(7), gamma=0.2, regularizer="capped"), 1.0),
    "principal components": (ds.NonnegativePCA(SIGNED), 1.0),
}


def points_of(name, count):
    """The objective, its bounds, and random points between them, half of them corners."""
    f, upper = OBJECTIVES[name]
    rng = np.random.default_rng(8)
    shares = rng.random((count, 5))
    shares[::2] = np.round(shares[::2])
    return f, np.full(5, upper), upper * shares


@pytest.mark.parametrize("name", OBJECTIVES)
def test_smoothness_and_strong_dr_hold(name):
    f, upper, points = points_of(name, 60)
    L, mu = f.smoothness_on(upper), f.strong_dr_on(upper)
    assert (L is None) == (name in ("mean field", "spectral, no offset"))
    assert (mu is None) == (name == "principal components")
    for x, y in zip(points, np.roll(points, 1, axis=0), strict=True):
        if L is not None:
            assert np.linalg.norm(f.gradient(x) - f.gradient(y)) <= L * np.linalg.norm(x - y) * (1 + 1e-9) + 1e-12
        low, high = np.minimum(x, y), np.maximum(x, y)
        for start, end in ((low, high), (high, low)):
            value, gradient = f.value_and_gradient(start)
            if mu is not None and np.isfinite(value):
                v = end - start
                assert f.value(end) <= value + gradient @ v - mu / 2.0 * v @ v + 1e-9


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if "logistic" not in name and "components" not in name])
def test_no_larger_strong_dr_constant_holds(name):
    f, upper, points = points_of(name, 400)
    mu, step = f.strong_dr_on(upper), 1e-4
    points = np.vstack([np.full(5, 0.5), upper, np.full(5, 1e-3), points])
    inside = np.clip(points, 1e-3, upper - 1e-3)
    least = min(
        -(f.gradient(x + step * e)[j] - f.gradient(x)[j]) / step for x in inside for j, e in enumerate(np.eye(5))
    )
    # Of the softmax extension the points may not meet the zero of a derivative that changes its sign.
    assert mu - 1e-6 <= least <= mu + (0.05 + 0.05 * mu)


@pytest.mark.parametrize("P", [ds.Box(np.full(5, 0.9)), ds.Budget(1.5, np.full(5, 0.9)), ds.Simplex(5)], ids=repr)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_curvature_is_above_what_is_found(name, P):
    f, _ = OBJECTIVES[name]
    if name == "softmax, low rank" and P.upper.max() == 1.0:
        f = ds.Softmax(factor=0.5 * FEATURES)
    c = ds.constants(f, P)
    if c.curvature is None:
        assert name in ("mean field", "spectral, no offset", "softmax, low rank")
        assert c.curvature_factor is None
        return
    assert c.curvature_found <= c.curvature * (1 + 1e-9) + 1e-9
    assert c.curvature_factor >= 1.0 - 1e-6
    rng = np.random.default_rng(1)
    for _ in range(40):
        x, v = (P.project(rng.normal(size=5)) for _ in range(2))
        value, gradient = f.value_and_gradient(x)
        for g in (1.0, 0.3, 0.02):
            rest = 2.0 / g**2 * (value + g * gradient @ (v - x) - f.value(x + g * (v - x)))
            assert rest <= c.curvature + 1e-8 * (1.0 + abs(value)) / g**2


@pytest.mark.parametrize("family", ["quadratic-uniform", "quadratic-exponential"])
def test_the_curvature_is_near_what_is_found_on_the_papers_families(family):
    # Over the box around the polytopes, the bound was 15 times what was found.
    factors = [ds.constants(*ds.instances.FAMILIES[family](n, n, 3)).curvature_factor for n in (8, 16)]
    assert max(factors) < 4.0


@pytest.mark.parametrize("name", ["dense", "cut", "coverage", "flid", "table", "mean field", "softmax"])
def test_the_minimum_is_below_all_values(name):
    f, upper, points = points_of(name, 400)
    P = ds.Box(upper)
    c = ds.constants(f, P, shift=True)
    lowest = min(f.value(x) for x in points)
    assert c.minimum <= lowest + 1e-9
    assert c.shift + lowest >= -1e-9
    assert ds.constants(f, P).minimum is ds.constants(f, P).shift is None


def test_the_minimum_of_a_quadratic_is_found():
    for seed in range(20):
        f = quadratic(4, seed, 0.0)  # its minimum over the box is 0
        shifted = ds.Quadratic(f.H, f.h, f.c - 3.0)
        c = ds.constants(shifted, ds.Box(np.ones(4)), shift=True)
        assert c.minimum == pytest.approx(-3.0, abs=1e-4)
        assert c.shift == pytest.approx(3.3, abs=1e-4)
