"""Mean field: the evidence lower bound and the log-partition function."""

import math
import pickle

import numpy as np
import pytest
from objective_checks import assert_gradient, interior_points

import drsub_fast as ds


def small_model(rng, n=7):
    return ds.Multilinear.flid(rng.normal(0.0, 1.0, n), rng.exponential(1.0, (n, 3)))


def distribution(f, extension):
    """log-probabilities of all sets, up to log Z."""
    n = f.n
    return np.array([extension.set_value([i for i in range(n) if s >> i & 1]) for s in range(1 << n)])


def test_value_is_log_partition_minus_divergence():
    rng = np.random.default_rng(0)
    extension = small_model(rng)
    f = ds.MeanField(extension)
    scores = distribution(f, extension)
    log_z = np.logaddexp.reduce(scores)
    assert f.log_partition() == pytest.approx(log_z, rel=1e-12)
    for x in interior_points(rng, 7):
        bits = (np.arange(128)[:, None] >> np.arange(7)) & 1
        q = np.where(bits, x, 1.0 - x).prod(axis=1)
        divergence = q @ (np.log(q) - (scores - log_z))
        assert f.value(x) == pytest.approx(log_z - divergence, rel=1e-10)


def test_gradient_and_diminishing_returns():
    rng = np.random.default_rng(1)
    f = ds.MeanField(small_model(rng))
    assert_gradient(f, interior_points(rng, 7))
    assert f.check_dr()


def test_bounds_are_exact_in_the_value_and_finite_in_the_gradient():
    extension = small_model(np.random.default_rng(2))
    f = ds.MeanField(extension)
    corner = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    assert f.value(corner) == extension.value(corner)
    share = f.gradient(corner) - extension.gradient(corner)
    np.testing.assert_allclose(share, np.where(corner, -1.0, 1.0) * math.log(1e12), rtol=1e-5)


def test_modular_model_is_exact():
    # F(S) = sum u_i: p factorises, so the best x is the logistic function of u and f(x) = log Z.
    u = np.array([0.5, -1.0, 2.0])
    f = ds.MeanField(ds.Multilinear.flid(u, np.zeros((3, 1))))
    x = 1.0 / (1.0 + np.exp(-u))
    assert f.value(x) == pytest.approx(f.log_partition(), rel=1e-14)
    np.testing.assert_allclose(f.gradient(x), 0.0, atol=1e-14)


def test_maximum_stays_below_the_log_partition():
    f = ds.MeanField(small_model(np.random.default_rng(3)))
    run = ds.nonmonotone_frank_wolfe(f, ds.Budget(7, np.ones(7)), max_iter=100)
    assert 0.0 < run.value <= f.log_partition()


def test_known_signs():
    cut = ds.MeanField(ds.Multilinear.cut([[0, 1], [1, 0]]))
    assert cut.nonnegative_on(np.ones(2)) is True
    assert cut.monotone_on(np.ones(2)) is False
    assert cut.monotone_on(np.full(2, 0.4)) is True
    assert ds.MeanField(ds.Multilinear.from_table([-1.0, 0.0])).nonnegative_on(np.ones(1)) is False


def cardinality_root(S):
    return len(S) ** 0.5


def test_sampled_extension_runs_as_python():
    f = ds.MeanField(ds.Multilinear.sampled(cardinality_root, 4, n_samples=20))
    assert not f.compiled
    run = ds.nonmonotone_frank_wolfe(f, ds.Budget(2, np.ones(4)), max_iter=10)
    assert run.value > 0.0
    assert f.log_partition() == pytest.approx(
        math.log(sum(math.comb(4, k) * math.exp(k**0.5) for k in range(5))), rel=1e-12
    )
    assert pickle.loads(pickle.dumps(f)).value(run.x) == f.value(run.x)


def test_fitted_models_obey_the_bound(shared_data):
    models = np.load(shared_data / "flid" / "amazon_registries.npz")
    rng = np.random.default_rng(4)
    for name in ("carseats_d03", "furniture_d10", "safety_d02"):
        utilities, W = models[f"{name}__utilities"], models[f"{name}__W"]
        items = rng.choice(len(utilities), 12, replace=False)
        f = ds.MeanField(ds.Multilinear.flid(utilities[items], W[items]))
        log_z = f.log_partition()
        run = ds.nonmonotone_frank_wolfe(f, ds.Budget(12, np.ones(12)), max_iter=100)
        assert all(f.value(x) <= log_z for x in rng.random((50, 12)))
        assert f.value(np.full(12, 0.5)) < run.value <= log_z


def test_fitted_models_at_full_size(shared_data):
    models = np.load(shared_data / "flid" / "amazon_registries.npz")
    f = ds.MeanField(ds.Multilinear.flid(models["feeding_d20__utilities"], models["feeding_d20__W"]))
    assert_gradient(f, interior_points(np.random.default_rng(5), 100, count=1))
    assert f.check_dr(n_samples=3)


def test_errors():
    with pytest.raises(TypeError, match="must be a Multilinear, got Quadratic"):
        ds.MeanField(ds.Quadratic([[-1.0]], [1.0]))
    with pytest.raises(ValueError, match="at most 20 items"):
        ds.MeanField(ds.Multilinear.coverage([[0]] * 21)).log_partition()
