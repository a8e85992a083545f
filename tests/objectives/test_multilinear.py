"""Multilinear extensions against their definition, a sum over all sets."""

import pickle
import re
from itertools import product

import networkx
import numpy as np
import pytest
import scipy.sparse
from objective_checks import assert_gradient, interior_points

import drsub_fast as ds
from drsub_fast.objectives import maxima

N = 6


def expectation(function, x):
    """The definition: sum over all sets of F(S) times the probability of S."""
    total = 0.0
    for bits in product([0, 1], repeat=x.size):
        bits = np.array(bits)
        total += function(np.flatnonzero(bits).tolist()) * np.prod(np.where(bits, x, 1.0 - x))
    return total


def benefits(rng):
    W = rng.exponential(1.0, (N, 4))
    W[rng.random((N, 4)) < 0.2] = 0.0
    W[1] = W[0]
    return W


def cases():
    rng = np.random.default_rng(3)
    W = benefits(rng)
    utilities = rng.normal(0.5, 1.0, N)
    sets = [{"a", "b"}, {"b"}, {"c", "d", "a"}, {"e"}, set(), {"e", "a"}]
    weights = {"a": 1.0, "b": 2.5, "c": 0.0, "d": 0.3, "e": 1.1}
    A = rng.random((N, N)) * (rng.random((N, N)) < 0.6)
    np.fill_diagonal(A, 0.0)

    def covered(S):
        return sum(weights[e] for e in set().union(*(sets[i] for i in S)))

    def best(S):
        return W[S].max(axis=0).sum() if S else 0.0

    def diverse(S):
        return utilities[S].sum() + best(S) - W[S].sum()

    def cut(S):
        rest = [j for j in range(N) if j not in S]
        return A[np.ix_(S, rest)].sum()

    return {
        "coverage": (ds.Multilinear.coverage(sets, weights), covered),
        "facility location": (ds.Multilinear.facility_location(W), best),
        "flid": (ds.Multilinear.flid(utilities, W), diverse),
        "cut": (ds.Multilinear.cut(A), cut),
        "function": (ds.Multilinear.from_function(diverse, N), diverse),
    }


CASES = cases()


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request):
    return CASES[request.param]


def test_value_is_the_expectation(case):
    f, function = case
    rng = np.random.default_rng(0)
    for x in [*interior_points(rng, N), np.zeros(N), np.ones(N), np.array([1.0, 0.0, 0.5, 1.0, 0.2, 0.0])]:
        assert f.value(x) == pytest.approx(expectation(function, x), rel=1e-12, abs=1e-12)


def test_set_value_is_the_function(case):
    f, function = case
    for S in ([], [2], [0, 1, 5], list(range(N))):
        assert f.set_value(S) == pytest.approx(function(S), abs=1e-12)


def test_gradient_is_the_expected_marginal_gain_also_at_0_and_1(case):
    f, _ = case
    rng = np.random.default_rng(1)
    corner = np.array([1.0, 0.0, 0.5, 1.0, 0.2, 0.0])
    for x in [*interior_points(rng, N), corner, np.zeros(N), np.ones(N)]:
        for i, derivative in enumerate(f.gradient(x)):
            with_i, without_i = x.copy(), x.copy()
            with_i[i], without_i[i] = 1.0, 0.0
            assert derivative == pytest.approx(f.value(with_i) - f.value(without_i), abs=1e-11)


def test_gradient_against_finite_differences(case):
    assert_gradient(case[0], interior_points(np.random.default_rng(2), N))


def test_dr_submodular(case):
    assert case[0].check_dr()


def test_pickles(case):
    f, _ = case
    x = np.full(N, 0.3)
    assert pickle.loads(pickle.dumps(f)).value(x) == f.value(x)


def test_known_signs(case):
    f, _ = case
    upper = np.array([1.0, 0.5, 2.0, 1.0, 0.7, 1.0])
    corners = np.array(list(product([0.0, 1.0], repeat=N))) * np.minimum(upper, 1.0)
    smallest = min(f.value(corner) for corner in corners)
    slopes = min(f.gradient(corner).min() for corner in corners)
    if f.nonnegative_on(upper) is not None:
        assert f.nonnegative_on(upper) == (smallest >= 0.0)
    assert f.monotone_on(upper) == (slopes >= 0.0)


def test_curvature_bound_holds_along_segments(case):
    f, _ = case
    rng = np.random.default_rng(5)
    upper = np.array([1.0, 0.5, 1.0, 1.0, 0.7, 1.0])
    bound = f.curvature_bound(upper)
    largest = 0.0
    for _ in range(300):
        x, v = upper * rng.integers(0, 2, N), upper * rng.integers(0, 2, N)
        gamma = rng.uniform(0.1, 1.0)
        shortfall = f.value(x) + gamma * (f.gradient(x) @ (v - x)) - f.value(x + gamma * (v - x))
        largest = max(largest, 2.0 * shortfall / gamma**2)
    assert 0.0 < largest <= bound * (1.0 + 1e-9)


def test_coverage_and_location_are_known_to_be_monotone_and_nonnegative():
    for name in ("coverage", "facility location"):
        f, _ = CASES[name]
        assert f.nonnegative_on(np.ones(N)) is True
        assert f.monotone_on(np.ones(N)) is True
    assert CASES["cut"][0].nonnegative_on(np.ones(N)) is True
    assert isinstance(CASES["cut"][0], ds.Quadratic)


def test_tiny_gains_keep_their_relative_accuracy():
    # d_0 f = prod over the other covers of (1 - x) = 1e-30: no difference of near equals.
    f = ds.Multilinear.coverage([{0}, {0}, {0}])
    assert f.gradient([0.5, 1.0 - 2.0**-50, 1.0 - 2.0**-50])[0] == 2.0**-100


def test_coverage_input_forms_agree():
    sets = [[0, 1], [1, 2, 2], [3]]
    matrix = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
    weights = [1.0, 2.0, 3.0, 4.0]
    x = np.array([0.3, 0.6, 0.9])
    forms = [
        ds.Multilinear.coverage(sets, weights),
        ds.Multilinear.coverage(matrix, np.array(weights)),
        ds.Multilinear.coverage(scipy.sparse.csr_matrix(matrix), weights),
        ds.Multilinear.coverage([[str(e) for e in s] for s in sets], {"0": 1, "1": 2, "2": 3, "3": 4}),
    ]
    for f in forms:
        assert f.value(x) == pytest.approx(forms[0].value(x), rel=1e-14)


def test_sparse_benefits_agree_with_dense():
    W = benefits(np.random.default_rng(6))
    x = np.random.default_rng(7).random(N)
    dense = ds.Multilinear.flid(np.ones(N), W)
    sparse = ds.Multilinear.flid(np.ones(N), scipy.sparse.csr_matrix(W))
    assert sparse.value(x) == pytest.approx(dense.value(x), rel=1e-14)
    assert dense.params.items.size == np.count_nonzero(W)
    with pytest.raises(ValueError, match=r"W.data\[0\] = -1 is negative"):
        ds.Multilinear.facility_location(scipy.sparse.csr_matrix([[-1.0]]))


def test_cut_takes_graphs():
    graph = networkx.path_graph(4)
    x = np.array([0.1, 0.5, 0.7, 1.0])
    dense = ds.Multilinear.cut(networkx.to_numpy_array(graph))
    assert ds.Multilinear.cut(graph).value(x) == dense.value(x)
    assert ds.Multilinear.cut(networkx.to_scipy_sparse_array(graph)).value(x) == dense.value(x)


def root(S):
    return float(len(S)) ** 0.5


def test_table_and_function_agree_with_closed_forms_at_16_items():
    rng = np.random.default_rng(8)
    W = rng.exponential(1.0, (16, 3))
    exact = ds.Multilinear.facility_location(W)
    table = ds.Multilinear.from_function(lambda S: W[S].max(axis=0).sum() if S else 0.0, 16)
    x = rng.random(16)
    assert table.value(x) == pytest.approx(exact.value(x), rel=1e-12)
    np.testing.assert_allclose(table.gradient(x), exact.gradient(x), rtol=1e-10)
    np.testing.assert_array_equal(ds.Multilinear.from_table(table.values).gradient(x), table.gradient(x))


def test_sampled_is_within_its_standard_error():
    exact = ds.Multilinear.from_function(root, 8)
    f = ds.Multilinear.sampled(root, 8, n_samples=500, seed=4)
    x = np.linspace(0.0, 1.0, 8)
    value, gradient = f.value_and_gradient(x)
    error, gradient_error = f.standard_error(x)
    assert 0.0 < error < 0.1
    assert abs(value - exact.value(x)) < 4.0 * error
    assert (np.abs(gradient - exact.gradient(x)) < 4.0 * gradient_error + 1e-12).all()


def test_standard_error_shrinks_like_the_root_of_the_samples():
    x = np.full(8, 0.4)
    few = ds.Multilinear.sampled(root, 8, n_samples=200).standard_error(x)[0]
    many = ds.Multilinear.sampled(root, 8, n_samples=5000).standard_error(x)[0]
    assert few / many == pytest.approx(5.0, rel=0.2)


def test_sampled_is_exact_at_corners_and_repeats():
    f = ds.Multilinear.sampled(root, 5, n_samples=10)
    corner = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    assert f.value(corner) == root([0, 2])
    assert f.standard_error(corner)[0] == 0.0
    x = np.full(5, 0.5)
    assert f.value(x) == ds.Multilinear.sampled(root, 5, n_samples=10).value(x)
    assert f.value(x) != ds.Multilinear.sampled(root, 5, n_samples=10, seed=1).value(x)
    assert pickle.loads(pickle.dumps(f)).value(x) == f.value(x)


def test_sampled_gradient_is_antitone():
    assert ds.Multilinear.sampled(root, 5, n_samples=30).check_dr()


def test_continuous_greedy_for_a_set_function():
    f = ds.Multilinear.sampled(root, 6, n_samples=50)
    run = ds.monotone_frank_wolfe(f, ds.Budget(3, np.ones(6)), max_iter=10)
    assert run.value == pytest.approx(root(range(3)), rel=0.1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ds.Multilinear.coverage([[0], [1]], [1.0, -2.0]), "weight -2 of element 1"),
        (lambda: ds.Multilinear.coverage([["a"]], {"b": 1.0}), "element 'a' has no weight"),
        (lambda: ds.Multilinear.coverage([]), "sets is empty"),
        (lambda: ds.Multilinear.facility_location([[1.0, -0.5]]), r"W\[0, 1\] = -0.5 is negative"),
        (lambda: ds.Multilinear.flid([1.0], [[1.0], [2.0]]), "utilities has 1 entries, expected 2"),
        (lambda: ds.Multilinear.cut([[0, -1], [1, 0]]), r"adjacency\[0, 1\] = -1 is negative"),
        (lambda: ds.Multilinear.cut([[0, 1], [1, 2]]), r"adjacency\[1, 1\] = 2: a graph without loops"),
        (lambda: ds.Multilinear.from_function(lambda S: len(S) ** 2.0, 3), r"F\(S \+ 0 \+ 1\) - F\(S \+ 1\)"),
        (lambda: ds.Multilinear.from_function(len, 21), r"use Multilinear\.sampled"),
        (lambda: ds.Multilinear.from_table([0.0, 1.0, 2.0]), "expected 2"),
        (lambda: ds.Multilinear.from_table([0.0, np.nan]), r"values\[1\] = nan"),
    ],
)
def test_errors_name_the_entry(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_submodularity_error_names_a_set_that_violates():
    def function(S):
        return len(S) - 1.0 * (S == [0, 1, 3]) - 1.0 * (S == [0, 2, 3])

    with pytest.raises(ValueError, match="not submodular") as caught:
        ds.Multilinear.from_function(function, 4)
    found = re.search(r"S = \{(.*)\}, F\(S \+ (\d) \+ (\d)\).* by (.*)$", str(caught.value))
    S, i, j = {int(item) for item in found[1].split(",") if item}, int(found[2]), int(found[3])
    late = function(sorted(S | {i, j})) - function(sorted(S | {j}))
    early = function(sorted(S | {i})) - function(sorted(S))
    assert late - early == float(found[4]) > 0.0


def test_the_class_itself_is_not_an_objective():
    with pytest.raises(TypeError, match="choose a kind"):
        ds.Multilinear()


def test_rows_are_the_same_before_and_after_the_columns_are_sorted(interpreted):
    rng = np.random.default_rng(12)
    W = rng.random((7, 70)) * (rng.random((7, 70)) < 0.5)
    given = ds.Multilinear.flid(rng.random(7), W)
    sorted_ = ds.Multilinear.flid(given.utilities, W)
    sorted_.value(np.full(7, 0.5))
    x = rng.random(3)
    for items in ([2, 0, 5], [6, 1, 3]):
        assert sorted_.set_value(items) == pytest.approx(given.set_value(items), rel=1e-14)
        assert sorted_.restricted(np.array(items)).value(x) == given.restricted(np.array(items)).value(x)


def test_items_after_two_that_are_surely_chosen_do_not_matter(interpreted):
    rng = np.random.default_rng(13)
    W = rng.random((9, 20)) * (rng.random((9, 20)) < 0.8)
    f = ds.Multilinear.facility_location(W)
    for sure in range(5):
        x = rng.random(9)
        x[:sure] = 1.0
        grad = f.gradient(x)
        for i in range(9):  # f is multilinear: a difference across the whole interval is the derivative
            up, down = x.copy(), x.copy()
            up[i], down[i] = 1.0, 0.0
            assert grad[i] == pytest.approx(f.value(up) - f.value(down), abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_columns_at_a_time_are_the_kernel(seed):
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(1, 12)), int(rng.integers(1, 300))
    W = rng.exponential(1.0, (n, D)) * 10.0 ** rng.integers(-8, 9)
    W[rng.random((n, D)) < rng.random()] = 0.0
    params = ds.Multilinear.facility_location(np.round(W, 3) if seed % 2 else W).params
    near_one = 1.0 - 2.0 ** -rng.integers(1, 53, n)
    some = rng.random(n) < 0.5
    for x in (rng.random(n), np.zeros(n), np.ones(n), 1.0 * some, near_one, np.where(some, 1.0, near_one)):
        works = [maxima.MaximaWork(*np.zeros((3, n))) for _ in range(2)]
        value = maxima._maxima_evaluate.py_func(params, works[0], x)
        assert maxima._maxima_evaluate.interpreted(params, works[1], x) == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(works[1].grad, works[0].grad, rtol=1e-11)


def test_zero_and_small_sets_are_evaluated_without_sorted_columns(monkeypatch):
    W = np.random.default_rng(0).random((9, 5))
    f = ds.Multilinear.facility_location(W)
    known = ds.Multilinear.facility_location(W)
    operations, x = 2.0 * (9 + 5 + 2 + 2 * W.size), np.eye(9)[2] + 0.5 * np.eye(9)[4]
    assert known.value(x) > 0.0
    calls = []
    original = maxima.sorted_columns
    monkeypatch.setattr(maxima, "sorted_columns", lambda W: calls.append(W.shape) or original(W))
    assert f.value(np.zeros(9)) == 0.0
    np.testing.assert_allclose(f.gradient(np.zeros(9)), known.gradient(np.zeros(9)), rtol=1e-14)
    assert f.operations == operations == known.operations
    assert not calls
    assert f.late_value(x) == pytest.approx(known.value(x), rel=1e-14)
    assert calls == [(2, 5)]
