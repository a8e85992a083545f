"""The selector: scikit-learn's own checks, the choices of the functions behind it, and life without scikit-learn."""

import importlib.util
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import drsub_fast as ds

#: These take a transformer to keep the number of rows, or to treat each row by itself; a choice of rows does neither.
KEEP_ROWS = {
    "check_transformer_data_not_an_array", "check_transformer_general", "check_methods_sample_order_invariance",
    "check_methods_subset_invariance", "check_fit_idempotent",
}  # fmt: skip


@pytest.mark.parametrize("function", ["facility-location", "dpp", "max-coverage"])
def test_scikit_learns_checks(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(ds.ItemSelector(3, function), on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert set(failed) <= KEEP_ROWS, failed
    assert sum(result["status"] == "passed" for result in results) > 30


@pytest.mark.parametrize("similarity", ["cosine", "rbf", "precomputed"])
def test_it_chooses_as_the_functions_do(similarity):
    X = load_iris().data
    kernel = ds.Softmax.from_features(X, similarity="cosine" if similarity == "cosine" else "rbf").L
    given = kernel if similarity == "precomputed" else X
    selector = ds.ItemSelector(4, similarity=similarity).fit(given)
    chosen = ds.greedy(ds.Multilinear.facility_location(kernel), size=4)
    np.testing.assert_array_equal(selector.ranking_, chosen.items)
    assert selector.value_ == pytest.approx(chosen.value)
    assert selector.value_ <= selector.bound_
    np.testing.assert_allclose(selector.gains_, chosen.gains)
    np.testing.assert_array_equal(selector.transform(given), given[chosen.items])
    dpp = ds.ItemSelector(4, "dpp", similarity=similarity).fit(given)
    assert dpp.value_ == pytest.approx(ds.map_dpp(kernel, size=4).value, abs=1e-8)


def test_frames_sparse_matrices_and_pipelines():
    X = load_iris().data
    frame = pd.DataFrame(X, columns=list("abcd"), index=[f"flower {i}" for i in range(150)])
    selector = ds.ItemSelector(3)
    chosen = selector.fit_transform(frame)
    assert chosen.index.tolist() == [f"flower {i}" for i in selector.ranking_]
    assert selector.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(ds.ItemSelector(3).fit(scipy.sparse.csr_array(X)).ranking_, selector.ranking_)
    assert make_pipeline(StandardScaler(), ds.ItemSelector(5, "dpp")).fit_transform(X).shape == (5, 4)
    assert clone(ds.ItemSelector(7, gamma=2.0)).get_params() == ds.ItemSelector(7, gamma=2.0).get_params()
    assert repr(ds.ItemSelector(7, gamma=2.0)) == "ItemSelector(n_items=7, gamma=2.0)"


def test_stochastic_greedy():
    X = load_iris().data
    whole = ds.ItemSelector(5, similarity="rbf").fit(X)
    fast = ds.ItemSelector(5, similarity="rbf", epsilon=0.1, seed=1).fit(X)
    assert 0.8 * whole.value_ <= fast.value_ <= whole.value_ + 1e-9
    with pytest.raises(ValueError, match="epsilon goes with facility-location"):
        ds.ItemSelector(5, "dpp", epsilon=0.1).fit(X)


def test_without_scikit_learn(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sklearn" else find(name))
    X = load_iris().data
    selector = ds.ItemSelector(3)
    with pytest.raises(ValueError, match="not fitted yet"):
        selector.transform(X)
    assert selector.fit(X).transform(X).shape == (3, 4)
    with pytest.raises(ValueError, match="X has 3 features, but 4 were fitted"):
        selector.transform(X[:, :3])
    with pytest.raises(ValueError, match="X has 10 rows, but the choice is among 150"):
        selector.transform(X[:10])
    with pytest.raises(ValueError, match="unknown function 'cut'"):
        ds.ItemSelector(function="cut").fit(X)
    with pytest.raises(ValueError, match="no parameter 'k'"):
        selector.set_params(k=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gamma": -1.0}, "gamma goes with similarity='rbf', not with 'cosine'"),
        ({"gamma": 1.0, "function": "dpp"}, "gamma goes with similarity='rbf'"),
        ({"gamma": 1.0, "similarity": "rbf", "function": "max-coverage"}, "not with 'rbf' for max-coverage"),
        ({"gamma": math.nan, "similarity": "rbf"}, "gamma"),
        ({"seed": -1, "function": "dpp"}, "seed"),
        ({"epsilon": 2.0}, "epsilon"),
        ({"epsilon": 0.1, "function": "dpp"}, "epsilon goes with"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ds.ItemSelector(2, **options).fit(np.eye(3))


def test_quality_and_constraint_are_those_of_map_dpp():
    X = load_iris().data
    q = np.linspace(1.0, 2.0, 150)
    P = ds.PartitionMatroid(np.arange(150) % 10, 1)
    own = ds.ItemSelector(5, "dpp", quality=q, constraint=P).fit(X)
    assert set(own.ranking_) == set(ds.map_dpp(features=X, quality=q, constraint=P, size=5).items)
    again = ds.ItemSelector(5, "dpp", constraint=P).fit(X, quality=q)
    np.testing.assert_array_equal(own.ranking_, again.ranking_)
    assert own.bound_ >= own.value_
    within = ds.ItemSelector(5, constraint=P).fit(X)
    assert len(set(within.ranking_ % 10)) == 5
    with pytest.raises(ValueError, match="quality goes with the features of dpp"):
        ds.ItemSelector(5, quality=q).fit(X)


def test_more_rows_than_the_rank_end_with_a_message():
    X = np.random.default_rng(0).standard_normal((60, 3)) @ np.ones((3, 8)) + np.arange(8.0)
    selector = ds.ItemSelector(9, "dpp").fit(X)
    assert len(set(selector.ranking_)) == 9
    assert "independent" in selector.message_


@pytest.mark.parametrize("function", ["dpp", "facility-location"])
def test_cosines_have_no_units(function):
    X = np.random.default_rng(3).random((15, 6))
    own = ds.ItemSelector(4, function).fit(X)
    for unit in (1e-300, 1e-170, 1e160, 1e300):
        other = ds.ItemSelector(4, function).fit(X * unit)
        assert set(other.ranking_) == set(own.ranking_)
        assert other.value_ == pytest.approx(own.value_)


def test_frames_on_request():
    X = load_iris().data
    frame = ds.ItemSelector(3).set_output(transform="pandas").fit_transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert frame.shape == (3, 4)
    assert list(frame.columns) == ["x0", "x1", "x2", "x3"]
    with pytest.raises(ValueError, match="square matrix of similarities"):
        ds.ItemSelector(3, similarity="precomputed").fit(X)
