"""Objectives that are quadratics: stability number, price optimisation, non-negative PCA."""

import pickle

import networkx
import numpy as np
import pytest
from objective_checks import assert_gradient, interior_points

import drsub_fast as ds


def largest_stable_set(graph):
    return len(max(networkx.find_cliques(networkx.complement(graph)), key=len))


@pytest.mark.parametrize("seed", range(5))
def test_stability_number_bounds_hold(seed):
    rng = np.random.default_rng(seed)
    graph = networkx.gnp_random_graph(12, 0.4, seed=seed)
    A = networkx.to_numpy_array(graph)
    f = ds.StabilityNumber(graph)
    s = largest_stable_set(graph)
    for x in rng.dirichlet(np.full(12, 0.3), 20):
        assert f.value(x) == pytest.approx(-x @ (A + np.eye(12)) @ x)
        found = f.stable_set(x)
        assert not A[np.ix_(found, found)].any()
        assert f.lower_bound(x) <= len(found) + 1e-9
        assert len(found) <= s


def test_motzkin_straus_at_the_best_point():
    graph = networkx.petersen_graph()
    f = ds.StabilityNumber(networkx.to_scipy_sparse_array(graph))
    best = max(networkx.find_cliques(networkx.complement(graph)), key=len)
    x = np.zeros(10)
    x[best] = 1.0 / len(best)
    assert f.lower_bound(x) == pytest.approx(largest_stable_set(graph)) == pytest.approx(4.0)
    assert isinstance(f, ds.Quadratic)
    assert f.check_dr()


def test_stability_number_over_the_simplex():
    graph = networkx.gnp_random_graph(15, 0.3, seed=1)
    f = ds.StabilityNumber(graph)
    run = ds.frank_wolfe(f, ds.Simplex(15), step_size="exact", max_iter=100)
    assert 1.0 <= f.lower_bound(run.x) <= len(f.stable_set(run.x)) <= largest_stable_set(graph)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ([[0, 2], [2, 0]], r"graph\[0, 1\] = 2: edges have no weight"),
        ([[0, 1], [0, 0]], "graph is not symmetric"),
        ([[1, 0], [0, 0]], r"graph\[0, 0\] = 1: a graph without loops"),
    ],
)
def test_stability_number_errors(graph, message):
    with pytest.raises(ValueError, match=message):
        ds.StabilityNumber(graph)


def market(rng, n=4):
    effects = -rng.random((n, n)) * 0.3 - 2.0 * np.eye(n)
    return rng.uniform(5.0, 10.0, n), effects, rng.uniform(0.5, 1.0, n)


def test_profit_is_margin_times_demand():
    rng = np.random.default_rng(0)
    base, effects, cost = market(rng)
    start = np.array([1.0, 2.0, 3.0, 1.5])
    f = ds.PriceOptimization(base, effects, cost, start)
    for x in interior_points(rng, 4, 3.0):
        p = start + x
        np.testing.assert_allclose(f.prices(x), p)
        np.testing.assert_allclose(f.demand(x), base + effects @ p)
        assert f.value(x) == pytest.approx((p - cost) @ (base + effects @ p))
    assert_gradient(f, interior_points(rng, 4, 3.0))
    assert f.check_dr(3.0 * np.ones(4))
    assert pickle.loads(pickle.dumps(f)).value(x) == f.value(x)


def test_substitutes_need_a_discount_on_one_side():
    rng = np.random.default_rng(1)
    base, effects, cost = market(rng, 2)
    effects[0, 1] = effects[1, 0] = 0.4
    with pytest.raises(ValueError, match=r"goods 0 and 1 are substitutes: effects\[0, 1\] \+ effects\[1, 0\] = 0.8"):
        ds.PriceOptimization(base, effects, cost)
    f = ds.PriceOptimization(base, effects, cost, start=[1.0, 4.0], signs=[1, -1])
    x = np.array([0.5, 1.5])
    p = np.array([1.5, 2.5])
    assert f.value(x) == pytest.approx((p - cost) @ (base + effects @ p))
    assert f.check_dr()


def test_price_errors():
    base, effects, cost = market(np.random.default_rng(2), 2)
    with pytest.raises(ValueError, match="goods 0 and 1 are complements"):
        ds.PriceOptimization(base, effects, cost, signs=[1, -1])
    with pytest.raises(ValueError, match=r"signs\[1\] = 0.5"):
        ds.PriceOptimization(base, effects, cost, signs=[1, 0.5])
    effects[1, 1] = 3.0
    with pytest.raises(ValueError, match=r"effects\[1, 1\] = 3 is positive"):
        ds.PriceOptimization(base, effects, cost)


def test_pca_value_and_gradient():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(20, 5))
    f = ds.NonnegativePCA(Z)
    for x in interior_points(rng, 5):
        assert f.value(x) == pytest.approx((Z @ x) @ (Z @ x) / 40.0)
    assert_gradient(f, interior_points(rng, 5))


def test_pca_over_the_orthant():
    """The paper's problem, its f divided by the 2 rows of data: without x >= 0 the answer would be (0.957, -0.290)."""
    f = ds.NonnegativePCA([[1.0, -2.0], [3.0, 0.0]])
    r = ds.frank_wolfe(f, ds.Ball(1.0, 2), x0=[0.5, 0.5], step_size="exact")
    np.testing.assert_allclose(r.x, [1.0, 0.0], atol=1e-9)
    assert r.value == pytest.approx(2.5, rel=1e-12)


def test_pca_on_data_of_one_sign_is_dr_supermodular():
    # The caution of the paper's appendix: maximising f is minimising a DR-submodular function.
    rng = np.random.default_rng(4)
    f = ds.NonnegativePCA(rng.random((20, 5)))
    assert not f.check_dr()
    assert f.dr_submodular_on(np.ones(5)) is False
    assert ds.CallableObjective(lambda x: (-f.value(x), -f.gradient(x)), 5).check_dr()
    assert f.monotone_on(np.ones(5)) is True
    assert f.nonnegative_on(np.ones(5)) is True
    assert ds.NonnegativePCA([[1.0, -1.0]]).monotone_on(np.ones(2)) is False


def test_pca_over_the_ball_reaches_a_stationary_point_by_full_steps():
    rng = np.random.default_rng(5)
    f = ds.NonnegativePCA(rng.random((30, 6)))
    run = ds.frank_wolfe(f, ds.Ball(1.0, 6), x0=np.full(6, 0.1), step_size="exact", tol=1e-10)
    # Positive data: the non-negative direction is the leading eigenvector.
    assert run.value == pytest.approx(0.5 * np.linalg.eigvalsh(f.params.H)[-1], rel=1e-8)
    assert (np.diff(run.trace.value) >= -1e-14).all()
