"""Radial similarities of long rows, and kernels in numbers coarser than float64."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.objectives.similarity import as_features


@pytest.mark.parametrize("unit", [1.0, 1e5, 1e8, 1e12, 1e160])
def test_radial_similarities_of_long_rows(unit):
    rng = np.random.default_rng(0)
    C = rng.standard_normal((3, 4)) * unit
    X = np.concatenate([C, C, C + 0.3 * rng.standard_normal((3, 4)), C + 1.0])
    with np.errstate(over="ignore"):
        S = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1))
    every = np.arange(len(X))
    np.testing.assert_allclose(as_features(X, None, "rbf", 0.5).block(every, every), S, rtol=1e-11, atol=1e-300)
    options = dict(size=4, similarity="rbf", gamma=0.5)
    found, stacked = ds.greedy_map(features=X, **options), ds.greedy_map_stacked(features=X[None], **options)
    np.testing.assert_array_equal(found.items, stacked.items[0])
    assert found.value == pytest.approx(np.linalg.slogdet(S[np.ix_(found.items, found.items)])[1], abs=1e-9)
    assert stacked.value[0] == pytest.approx(found.value, abs=1e-12)
    twins = ds.greedy_map(features=X[[0, 3]], **options | {"size": 2})
    assert twins.value == -np.inf


@pytest.mark.parametrize("n", [6, 40])
def test_kernels_of_low_rank_in_float32_are_accepted(n):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 3)).astype(np.float32)
    q = np.exp(rng.uniform(-2, 2, n)).astype(np.float32)
    for L in (X @ X.T, q[:, None] * (X @ X.T) * q, np.asfortranarray((X * q[:, None]) @ (X * q[:, None]).T)):
        f = ds.Softmax(L)
        np.testing.assert_allclose(f.L, L, atol=1e-5 * L.max())
        assert np.linalg.eigvalsh(f.L)[0] >= -1e-10 * np.linalg.eigvalsh(f.L)[-1]
        assert np.isfinite(f.value(np.full(n, 0.5)))
        assert np.isfinite(ds.greedy_map(L, size=3).value)
        assert ds.map_dpp(L, size=3).items.size == ds.greedy_map(L, size=4).items.size - 1 == 3
        assert ds.ItemSelector(3, "dpp", similarity="precomputed").fit(L).ranking_.size == 3
        stacked = ds.greedy_map_stacked(np.array([L, L]), size=4)
        assert stacked.status_names().tolist() == ["COMPLETED", "COMPLETED"]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_indefinite_kernels_are_refused_in_any_type(kind):
    for L in ([[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]]):
        for call in (ds.Softmax, lambda L: ds.greedy_map(L, size=len(L))):
            with pytest.raises(ValueError, match="not positive semidefinite"):
                call(np.array(L, kind))
    X = np.random.default_rng(1).standard_normal((30, 3)).astype(np.float32)
    with pytest.raises(ValueError, match="not positive semidefinite"):
        ds.Softmax((X @ X.T).astype(float))
