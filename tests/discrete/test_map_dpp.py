"""MAP inference: kernels from data, every way to a set, and the bound."""

import doctest
import itertools
import sys

import numpy as np
import pandas as pd
import pytest
import scipy
import sklearn.datasets
import sklearn.metrics

import drsub_fast as ds
from drsub_fast.discrete import greedy, packing
from drsub_fast.engine import clock
from drsub_fast.objectives import similarity as similarity_rule

map_dpp_module = sys.modules["drsub_fast.discrete.map_dpp"]


def _kernel(n, seed):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((n, n))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    q = np.exp(rng.uniform(-0.2, 0.8, n))
    return q[:, None] * (V @ V.T) * q


def _sets(n):
    rng = np.random.default_rng(1)
    return {
        "count": 4,
        "budget": ds.Budget(3, np.ones(n)),
        "groups": ds.PartitionMatroid(np.arange(n) % 3, [1.0, 2.0, 1.0]),
        "matching": ds.MatchingPolytope(np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n)]), 4, 3),
    }


def _log_det(L, items):
    return np.linalg.slogdet(L[np.ix_(items, items)])[1] if len(items) else 0.0


@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize("n", [6, 40])
def test_kernel_from_features_is_quality_times_similarity(n, similarity):
    rng = np.random.default_rng(n)
    V, q = rng.standard_normal((n, 5)), rng.uniform(0.5, 2.0, n)
    f = ds.Softmax.from_features(V, q, similarity=similarity)
    S = V @ V.T
    if similarity == "cosine":
        norms = np.linalg.norm(V, axis=1)
        S /= np.outer(norms, norms)
    np.testing.assert_allclose(f.L, q[:, None] * S * q, rtol=1e-12, atol=1e-12)
    assert (f.factor is None) == (n == 6)
    assert ds.Softmax.from_features(V, similarity=similarity).L[0, 0] == pytest.approx(S[0, 0])


def test_bad_features_are_named():
    with pytest.raises(ValueError, match=r"features\[1\] is zero"):
        ds.Softmax.from_features([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"quality\[0\] = -1 is negative"):
        ds.Softmax.from_features([[1.0], [2.0]], [-1.0, 1.0])
    with pytest.raises(ValueError, match="quality has 1 entries, expected 2"):
        ds.Softmax.from_features([[1.0], [2.0]], [1.0])
    with pytest.raises(ValueError, match="unknown similarity 'cos'"):
        ds.Softmax.from_features([[1.0], [2.0]], similarity="cos")


@pytest.mark.parametrize("L", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 3.0], [1.0, 1.0]]])
def test_no_kernel_is_refused_with_its_smallest_eigenvalue_and_a_way_out(L):
    with pytest.raises(ValueError, match=r"(?s)smallest eigenvalue.* is -1.*nearest_psd\(L\)"):
        ds.Softmax(L)
    for options in ({"size": 1}, {"constraint": 1}, {"constraint": 1, "method": "continuous"}):
        with pytest.raises(ValueError, match=r"(?s)(not positive semidefinite|not symmetric).*nearest_psd\(L\)"):
            ds.map_dpp(L, **options)
    assert ds.map_dpp(ds.nearest_psd(L), 1).items.size == 1


def test_nearest_psd_is_the_projection():
    L = np.random.default_rng(0).standard_normal((7, 7))
    symmetric = (L + L.T) / 2
    nearest = ds.nearest_psd(L)
    rest = symmetric - nearest
    # A projection onto the cone of psd matrices: what is left over is negative semidefinite and orthogonal.
    assert np.linalg.eigvalsh(nearest)[0] > -1e-12
    assert np.linalg.eigvalsh(rest)[-1] < 1e-12
    assert abs((rest * nearest).sum()) < 1e-12
    kernel = _kernel(5, 0)
    np.testing.assert_allclose(ds.nearest_psd(kernel), kernel, atol=1e-12)


@pytest.mark.parametrize("name", ["count", "budget", "groups", "matching"])
def test_sets_are_feasible_and_between_their_value_and_the_bound(name):
    n = 12
    constraint = _sets(n)[name]
    P = ds.Budget(constraint, np.ones(n)) if name == "count" else constraint
    for seed in range(3):
        L = _kernel(n, seed)
        exact = ds.map_dpp(L, constraint, method="exact")
        assert exact.bound == exact.value
        assert exact.gains.sum() == pytest.approx(exact.value)
        for method in (
            "auto",
            "continuous",
            "greedy",
            "best",
            *(("nonmonotone-frank-wolfe",) if name == "matching" else ()),
        ):
            r = ds.map_dpp(L, constraint, method)
            chosen = np.zeros(n)
            chosen[r.items] = 1.0
            assert chosen.sum() == r.items.size
            assert (np.diff(r.items) > 0).all()
            assert P.contains(chosen)
            assert r.value == pytest.approx(_log_det(L, r.items), abs=1e-9)
            assert r.value <= exact.value + 1e-9 <= r.bound + 2e-9
            assert np.isnan(r.fractional_value) == (r.result is None)
            assert method not in ("greedy", "continuous") or (r.result is None) == (method == "greedy")
            assert r.time > 0.0


def test_best_is_the_better_and_says_which():
    L, P = _kernel(12, 5), _sets(12)["matching"]
    solutions = [ds.map_dpp(L, P, method, improve=False) for method in ("continuous", "greedy")]
    best = ds.map_dpp(L, P, "best", improve=False)
    assert best.value == max(s.value for s in solutions)
    assert best.method in {s.method for s in solutions if s.value == best.value}
    assert ds.map_dpp(L, P, "best").value >= best.value


def test_features_and_kernel_agree():
    rng = np.random.default_rng(3)
    V, q = rng.standard_normal((40, 6)), rng.uniform(1.0, 3.0, 40)
    f = ds.Softmax.from_features(V, q)
    by_features = ds.map_dpp(features=V, quality=q, constraint=5, method="greedy", improve=False)
    by_objective = ds.map_dpp(f, 5, "greedy", improve=False)
    by_matrix = ds.map_dpp(f.L, 5, "greedy", improve=False)
    assert by_features.value == pytest.approx(by_objective.value, abs=1e-9)
    assert by_features.value == pytest.approx(by_matrix.value, abs=1e-9)
    assert by_features.bound <= by_matrix.bound + 1e-9


def test_the_bounds_are_attained():
    # Orthogonal items: Hadamard's inequality is an equation.
    r = ds.map_dpp(np.diag([4.0, 3.0, 2.0, 0.5]), 2)
    assert r.bound == pytest.approx(r.value) == pytest.approx(np.log(12.0))
    # 20 copies each of two orthogonal vectors: only the eigenvalues tell that a third item adds nothing.
    V = np.kron(np.eye(2), np.ones((20, 1)))
    bound = ds.map_dpp(features=V, constraint=5, method="greedy", improve=False).bound
    assert bound == 0.0
    V[0] *= 2.0
    assert ds.map_dpp(ds.Softmax(factor=V), 5, "greedy", improve=False).bound == pytest.approx(np.log(4.0))


def test_no_item_where_none_raises_the_determinant():
    for method in ("continuous", "greedy", "exact", "best"):
        r = ds.map_dpp(np.diag([0.5, 0.9]), 2, method)
        assert (r.items.size, r.value, r.bound) == (0, 0.0, 0.0)


def test_options_reach_the_solver():
    r = ds.map_dpp(_kernel(12, 0), 3, "two-phase-frank-wolfe", max_iter=1, rounding="threshold", improve=False)
    assert [phase.n_iter for phase in r.result.phases] == [1, 1]


def test_errors_say_what_to_do():
    L = np.eye(3)
    with pytest.raises(TypeError, match="either L or features"):
        ds.map_dpp(constraint=1)
    with pytest.raises(TypeError, match="either L or features"):
        ds.map_dpp(L, 1, features=L)
    with pytest.raises(TypeError, match="give size=k"):
        ds.map_dpp(L)
    with pytest.raises(TypeError, match="quality goes with features"):
        ds.map_dpp(L, 1, quality=[1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="kernel has 3 items, the constraint 2"):
        ds.map_dpp(L, ds.Budget(1, [1.0, 1.0]))
    with pytest.raises(ValueError, match="unit_box=True"):
        ds.map_dpp(ds.Softmax(L, unit_box=False), 1)
    with pytest.raises(ValueError, match=r"unknown method 'magic'.*'best'"):
        ds.map_dpp(L, 1, "magic")
    with pytest.raises(TypeError, match="'greedy' has no option max_iter"):
        ds.map_dpp(L, 1, "greedy", max_iter=3)
    with pytest.raises(ds.UnsupportedError, match="Simplex is not down-closed"):
        ds.map_dpp(L, ds.Simplex(3), "greedy")
    with pytest.raises(ValueError, match="gamma is that of similarity='rbf'"):
        ds.map_dpp(features=L, size=1, gamma=1.0)
    with pytest.raises(ValueError, match=r"features\[1\] is zero: it has no cosine"):
        ds.map_dpp(features=[[1.0], [0.0]], size=1)


def _unit(rng, n, d):
    V = rng.standard_normal((n, d))
    return V / np.linalg.norm(V, axis=1, keepdims=True)


def _best_of_size(L, k, P=None):
    """By enumeration."""
    sets = np.array(list(itertools.combinations(range(len(L)), k)))
    values = np.linalg.slogdet(L[sets[:, :, None], sets[:, None, :]])[1]
    if P is not None:
        values = values[[P.contains(np.isin(np.arange(len(L)), S).astype(float)) for S in sets]]
    return values.max()


@pytest.mark.parametrize("d", [5, 12, 20])
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
def test_exactly_k_items_below_a_bound_that_no_set_is_above(d, scale):
    for seed in range(4):
        rng = np.random.default_rng([seed, d])
        B = scale * _unit(rng, 11, d) * np.exp(0.3 * rng.standard_normal(11))[:, None]
        L, norms = B @ B.T, np.linalg.norm(B, axis=1)
        for k in (1, 4):
            best = _best_of_size(L, k)
            exact = ds.exact_map(L, size=k)
            assert exact.value == pytest.approx(best, abs=1e-9)
            for r in (
                ds.map_dpp(L, size=k), ds.map_dpp(features=7.0 * B, quality=norms, size=k),
                ds.map_dpp(features=B, size=k, similarity="inner"), ds.map_dpp(L, size=k, method="continuous"),
                ds.greedy_map(L, size=k),
            ):  # fmt: skip
                assert np.unique(r.items).size == r.items.size == r.order.size == k
                assert r.value == pytest.approx(_log_det(L, r.items), abs=1e-9)
                assert r.value <= best + 1e-9 <= r.bound + 2e-9
                assert 0.0 < r.ratio <= 1.0
                assert r.gains.sum() == pytest.approx(r.value, abs=1e-9)
                assert (r.table["value"][-1], len(r.table["item"])) == (pytest.approx(r.value, abs=1e-9), k)
            assert r.items.tolist() == r.order.tolist()
        P = ds.PartitionMatroid(np.arange(11) % 4, [1, 2, 1, 1])
        r = ds.map_dpp(L, P, size=4)
        chosen = np.isin(np.arange(11), r.items).astype(float)
        assert P.contains(chosen)
        assert chosen.sum() == 4
        assert r.value <= _best_of_size(L, 4, P) + 1e-9 <= r.bound + 2e-9
        assert ds.exact_map(L, P, size=4).value == pytest.approx(_best_of_size(L, 4, P), abs=1e-9)


@pytest.mark.parametrize("d", [3, 8, 16])
def test_bounds_of_at_most_k_items_hold_under_every_constraint(d):
    rng = np.random.default_rng(d)
    n = 10
    constraints = [
        *_sets(n).values(), ds.Knapsack(0.3 + rng.random(n), 2.0, np.ones(n)), ds.Box(np.ones(n)),
        ds.Polytope(rng.random((2, n)), [1.5, 1.0], np.ones(n)),
    ]  # fmt: skip
    for scale in (0.8, 1.2, 3.0):
        B = scale * _unit(rng, n, d) * np.exp(0.2 * rng.standard_normal(n))[:, None]
        for constraint in constraints:
            best = ds.exact_map(B @ B.T, constraint).value
            for method in ("greedy", "best"):
                r = ds.map_dpp(B @ B.T, constraint, method)
                assert r.value <= best + 1e-9 <= r.bound + 2e-9
            r = ds.map_dpp(features=B, similarity="inner", constraint=constraint, improve=False)
            assert r.value <= best + 1e-9 <= r.bound + 2e-9


def test_fewer_items_than_allowed_come_with_a_message():
    V = _unit(np.random.default_rng(0), 30, 8)
    for choose in (ds.map_dpp, ds.greedy_map):
        r = choose(features=V, constraint=5)
        assert r.items.size == 0
        assert "0 of at most 5 items" in r.message
        assert "size=k" in r.message
        assert choose(features=V, size=5).items.size == 5


def test_more_items_than_the_rank_have_no_determinant():
    V = _unit(np.random.default_rng(1), 20, 4)
    for choose in (ds.map_dpp, ds.greedy_map):
        r = choose(features=V, size=7)
        assert np.unique(r.items).size == 7
        assert r.value == -np.inf
        assert "no more than 4 items are independent" in r.message
        assert r.ratio == 0.0
        # The first four, and a second choice among the rest, are diverse.
        assert np.isfinite(r.gains).sum() == 4
        np.testing.assert_array_equal(np.sort(choose(np.zeros((3, 3)), size=2).items), [0, 1])


@pytest.mark.parametrize("similarity", ["cosine", "inner", "rbf"])
def test_features_mean_the_same_everywhere(similarity):
    rng = np.random.default_rng(2)
    V, q = rng.standard_normal((15, 3)), rng.uniform(0.5, 2.0, 15)
    if similarity == "rbf":
        distance = ((V[:, None] - V) ** 2).sum(axis=2)
        S = np.exp(-distance / (3 * V.var()))
    else:
        norms = np.linalg.norm(V, axis=1) if similarity == "cosine" else np.ones(15)
        S = V @ V.T / np.outer(norms, norms)
    L = q[:, None] * S * q
    frame = pd.DataFrame(V, index=[f"item {i}" for i in range(15)])
    for choose in (ds.map_dpp, ds.greedy_map, ds.exact_map):
        for features in (V, V.astype(np.float32).astype(float), frame, scipy.sparse.csr_matrix(V), V.tolist()):
            r = choose(features=features, quality=q, size=3, similarity=similarity)
            by_matrix = choose(L, size=3)
            if features is not frame and not isinstance(features, list):
                assert r.value == pytest.approx(by_matrix.value, rel=1e-5)
            else:
                np.testing.assert_array_equal(r.items, by_matrix.items)
                assert r.value == pytest.approx(_log_det(L, r.items), abs=1e-9)
    np.testing.assert_allclose(ds.Softmax.from_features(V, q, similarity=similarity).L, L, atol=1e-12)
    for sparse in (scipy.sparse.csr_array(L), scipy.sparse.coo_matrix(L), pd.DataFrame(L)):
        np.testing.assert_array_equal(ds.map_dpp(sparse, size=3).items, ds.map_dpp(L, size=3).items)


def test_a_large_choice_takes_up_what_it_needs():
    rng = np.random.default_rng(3)
    V, q = _unit(rng, 6000, 20), np.exp(0.5 * rng.standard_normal(6000))
    Q = q[:, None] * V
    items, gains = _plain_greedy(Q, 12)
    r = ds.greedy_map(features=V, quality=q, size=12)
    np.testing.assert_array_equal(r.items, items)
    np.testing.assert_allclose(r.gains, gains, rtol=1e-9)
    read = []
    kernel = similarity_rule.as_features(V, q)
    row = kernel.row
    kernel.row = lambda item, part: read.append(len(part)) or row(item, part)
    family = packing.as_packing(None, 6000, 12)
    greedy.choose(kernel, family, 12)
    assert sum(read) < 0.5 * 12 * 6000
    better = ds.map_dpp(features=V, quality=q, size=12)
    assert r.value <= better.value <= better.bound < r.bound


def _plain_greedy(Q, k):
    squared, C, items, gains = (Q * Q).sum(axis=1), np.zeros((k, len(Q))), [], []
    for t in range(k):
        j = int(squared.argmax())
        items.append(j)
        gains.append(np.log(squared[j]))
        C[t] = (Q @ Q[j] - C[:t, j] @ C[:t]) / np.sqrt(squared[j])
        squared -= C[t] ** 2
        squared[items] = -np.inf
    return items, gains


def test_exchanges_find_what_greedy_missed():
    # Greedy takes the longest vector first, which blocks the two orthogonal ones.
    V = np.array([[1.0, 1.0, 0.1], [1.3, 0.0, 0.0], [0.0, 1.3, 0.0]])
    assert 0 in ds.greedy_map(features=V, similarity="inner", size=2).items
    np.testing.assert_array_equal(ds.map_dpp(features=V, similarity="inner", size=2).items, [1, 2])


def test_examples():
    assert doctest.testmod(map_dpp_module).failed == 0


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes"])
def test_data_sets_of_scikit_learn_give_k_items(name):
    X = getattr(sklearn.datasets, f"load_{name}")().data
    for similarity, k in itertools.product(("cosine", "rbf"), (3, 10)):
        L = sklearn.metrics.pairwise.cosine_similarity(X) if similarity == "cosine" else None
        for given in ({"features": X, "similarity": similarity}, *([] if L is None else [{"L": L}])):
            r = ds.map_dpp(**given, size=k)
            assert np.unique(r.items).size == k
            assert r.value <= r.bound < np.inf
            if name == "iris" and similarity == "cosine" and k > X.shape[1]:
                assert r.value == -np.inf
                assert "no more than 4 items are independent" in r.message
            else:
                assert r.value >= ds.greedy_map(**given, size=k).value - 1e-9
                assert L is None or r.value == pytest.approx(_log_det(L, r.items), abs=1e-8)


@pytest.mark.parametrize("limit", [0.0, 100.0, 1e4, 1e7])
@pytest.mark.parametrize("size", [None, 4])
def test_a_time_limit_is_for_everything(limit, size, monkeypatch, interpreted):
    seconds = itertools.count(step=1.0)  # each call of a kernel takes one
    first = next(seconds)
    monkeypatch.setattr(clock, "clock", lambda: next(seconds))
    X = np.random.default_rng(0).standard_normal((12, 6))
    P = ds.PartitionMatroid(np.arange(12) % 4, 2.0)
    s = ds.map_dpp(features=X, quality=np.full(12, 2.0), constraint=P, size=size, time_limit=limit)
    assert next(seconds) - first <= 1.2 * limit + 20.0
    assert P.contains(np.isin(np.arange(12), s.items).astype(float))
    assert s.items.size == size if size is not None else 0 < s.items.size <= 8
    assert s.value <= s.bound
    if limit == 0.0:
        assert s.method == "greedy" or "the greedy choice" in s.message
