"""Logistic regression with non-convex regularisers: values, lattices, line search."""

import math
import pickle

import numpy as np
import pytest
from objective_checks import assert_gradient

import drsub_fast as ds
from drsub_fast.objectives.base import (
    contract,
    derivative_along,
    evaluate,
    exact_step,
    objective_carve,
    objective_size,
    prepare,
)

M, N = 15, 4


def data(seed=0):
    rng = np.random.default_rng(seed)
    return np.abs(rng.normal(size=(M, N))), rng.choice([-1.0, 1.0], M)


@pytest.mark.parametrize("regularizer", ["smooth", "capped"])
def test_value_and_gradient(regularizer):
    Z, y = data()
    f = ds.LogisticNonconvex(Z, y, weight=0.3, gamma=2.0, regularizer=regularizer)
    rng = np.random.default_rng(1)
    for x in rng.normal(size=(4, N)):
        r = 2.0 * x**2 / (1.0 + 2.0 * x**2) if regularizer == "smooth" else np.minimum(2.0 * x**2, 1.0)
        assert f.value(x) == pytest.approx(-np.log1p(np.exp(-y * (Z @ x))).mean() - 0.3 * r.sum(), rel=1e-12)
    assert_gradient(f, rng.normal(size=(4, N)))


def test_large_margins_do_not_overflow():
    f = ds.LogisticNonconvex([[1.0], [1.0]], [1, -1], weight=0.0)
    assert f.value([2000.0]) == -1000.0
    assert f.gradient([2000.0]) == pytest.approx([-0.5])


@pytest.mark.parametrize("regularizer", ["smooth", "capped"])
def test_dr_up_to_the_radius_and_not_beyond(regularizer):
    Z, y = data()
    f = ds.LogisticNonconvex(Z, y, weight=5.0, gamma=2.0, regularizer=regularizer)
    assert f.check_dr(np.full(N, f.dr_radius))
    beyond = f.check_dr(np.full(N, 2.0 * f.dr_radius))
    assert not beyond
    assert beyond.pair[0] == beyond.pair[1]


def test_mixed_signs_are_not_submodular_but_flipped_ones_are():
    Z, y = data()
    alpha = np.array([1.0, -1.0, -1.0, 1.0])
    f = ds.LogisticNonconvex(Z * alpha, y, weight=0.0)
    check = f.check_dr()
    i, j = check.pair
    assert alpha[i] * alpha[j] < 0.0
    assert ds.CallableObjective(lambda x: (f.value(alpha * x), alpha * f.gradient(alpha * x)), N).check_dr()


def test_line_search_on_the_margins():
    Z, y = data()
    f = ds.LogisticNonconvex(Z, y, weight=0.05, gamma=1.0)
    n_floats, n_integers = objective_size(f.params)
    work = objective_carve(f.params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    x, v = np.zeros(N), np.array([2.0, 0.0, 1.0, 0.0])
    value = evaluate(f.params, work, x)
    prepare(f.params, work, x, v)
    along, slope = derivative_along(f.params, work, x, v, 0.3)
    assert along == pytest.approx(f.value(0.3 * v))
    assert slope == pytest.approx(f.gradient(0.3 * v) @ v)
    gamma = exact_step(f.params, work, x, v, 1.0, value)
    best = max(f.value(g * v) for g in np.linspace(0.0, 1.0, 101))
    assert contract(f.params, work, x, v, gamma, value) >= best - 1e-12
    np.testing.assert_allclose(work.grad, f.gradient(x), rtol=1e-12)


def test_what_is_known():
    Z, y = data()
    f = ds.LogisticNonconvex(Z, y, weight=0.1)
    upper = np.full(N, 2.0)
    assert f.nonnegative_on(upper) is False
    assert f.monotone_on(upper) is None
    bound = f.curvature_bound(upper)
    rng = np.random.default_rng(3)
    for _ in range(200):
        a, b = upper * rng.random((2, N))
        shortfall = f.value(a) + f.gradient(a) @ (b - a) - f.value(b)
        assert 2.0 * shortfall <= bound
    assert ds.LogisticNonconvex(Z, y, weight=0.0).dr_radius == math.inf
    assert pickle.loads(pickle.dumps(f)).value(upper) == f.value(upper)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(y=[1, 0]), r"y\[1\] = 0: labels"),
        (dict(y=[1]), "y has 1 entries, expected 2"),
        (dict(weight=-1.0), "weight = -1"),
        (dict(gamma=0.0), "gamma = 0 must be above 0"),
        (dict(regularizer="l1"), "unknown regularizer 'l1'"),
    ],
)
def test_errors(arguments, message):
    arguments = {"Z": [[1.0, 2.0], [0.5, 1.0]], "y": [1, -1], **arguments}
    with pytest.raises(ValueError, match=message):
        ds.LogisticNonconvex(**arguments)


def test_where_diminishing_returns_are_known():
    Z, y = data()
    f = ds.LogisticNonconvex(Z, y, weight=0.1, gamma=2.0)
    assert f.dr_submodular_on(np.full(N, f.dr_radius)) is True
    assert f.dr_submodular_on(np.full(N, 1.1 * f.dr_radius)) is None
    alpha = np.array([1.0, -1.0, -1.0, 1.0])
    mixed = ds.LogisticNonconvex(Z * alpha, y, weight=0.1, gamma=2.0)
    assert mixed.dr_submodular_on(np.full(N, 0.1)) is None
    assert ds.OrthantObjective(mixed, alpha).dr_submodular_on(np.full(N, 0.1)) is True
    assert ds.OrthantObjective(mixed, alpha, 0.5 * alpha).dr_submodular_on(np.full(N, 0.1)) is None
