"""What every chooser of items must keep, by enumeration of small problems: rooms in rows, scales, bounds, limits."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.discrete import bounds, set_greedy
from drsub_fast.solvers.greedy_vertex import greedy_vertex

CHOOSERS = (ds.exact_map, ds.greedy_map, ds.map_dpp)


def _sets(P, n):
    sets = (S for k in range(n + 1) for S in itertools.combinations(range(n), k))
    return [list(S) for S in sets if P.contains(np.isin(np.arange(n), S).astype(float), tol=1e-12)]


@pytest.mark.parametrize("upper", [[0.5, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_what_is_not_allowed_or_does_not_fit_takes_no_room(upper, scale):
    L = np.diag([9.0, 8.0, 3.0, 2.0])
    edges = [[0, 0], [0, 1], [1, 1], [1, 2]]
    for P in (
        ds.Polytope([[scale, scale, scale, 0.0], [0.0, 0.0, 0.0, 3.0 * scale]], [scale, scale], upper),
        ds.MatchingPolytope(edges, 2, 3, [1, 0, 1, 1, 1], upper),
        ds.LaminarMatroid([[0, 1, 2, 3], [0, 1]], [1.0, 0.0], upper),
        ds.PartitionMatroid([0, 0, 1, 1], [0.0, 1.0], upper),
        ds.Knapsack(np.array([5.0, 5.0, 1.0, 1.0]) * scale, scale, upper),
    ):
        best = max(np.log(L.diagonal()[S]).sum() for S in _sets(P, 4))
        for choose in CHOOSERS:
            s = choose(L, P)
            assert s.value == pytest.approx(best), (P, choose)
            assert s.bound >= best - 1e-9


def test_whole_weights_are_kept_to_the_last_unit():
    w = np.array([5e10, 2.0, 1.0])
    P, F = ds.Knapsack(w, 5e10, np.ones(3)), ds.Multilinear.coverage(np.eye(3))
    found = [ds.greedy(F, P).items, ds.round_solution(F, P, [1.0, 0.0, 0.0], improve=True).items]
    for method in ("pipage", "threshold", "randomized"):
        found.append(ds.round_solution(F, P, [1.0 - 1e-11, 0.5, 0.0], method).items)
    assert all(w[items].sum() <= 5e10 for items in found)
    # Weights of one decimal add up with rounding, which a budget forgives.
    assert ds.greedy(F, ds.Knapsack([0.1, 0.1, 0.1], 0.3, np.ones(3))).items.size == 3


@pytest.mark.parametrize("spread", [0.0, 6.0, 12.0])
def test_the_units_of_items_make_no_difference(spread):
    rng = np.random.default_rng(5)
    B = rng.standard_normal((8, 5))
    d = 10.0 ** rng.uniform(-spread, spread, 8)
    L = (B @ B.T) * np.outer(d, d)
    sets = [list(S) for S in itertools.combinations(range(8), 4)]
    best = max(np.linalg.slogdet((B @ B.T)[np.ix_(S, S)])[1] + 2.0 * np.log(d[S]).sum() for S in sets)
    assert ds.exact_map(L, size=4).value == pytest.approx(best)
    for choose in (ds.greedy_map, ds.map_dpp):
        s = choose(L, size=4)
        assert best - 1.0 <= s.value <= best + 1e-7
        assert s.bound >= best - 1e-7
    assert ds.greedy(ds.Softmax(L), size=4).value >= best - 1.0
    assert ds.map_dpp(L, size=6).value == -np.inf  # of rank 5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_refused(value):
    with pytest.raises(ValueError, match=r"F\(\[0, 1, 2\]\) = .* is not finite"):
        ds.greedy(lambda items: value if {1, 2} <= set(items) else float(len(items)), ds.Budget(3, np.ones(3)))


def test_bounds_are_computed_when_read_and_once(monkeypatch):
    calls = []
    for module, name in ((set_greedy, "set_bound"), (bounds, "_least_bound")):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, own=own: calls.append(1) or own(*a))
    F, L = ds.Multilinear.facility_location(np.eye(4) + 0.1), np.eye(4) * 2.0
    found = [
        ds.greedy(F, 2), ds.greedy(F, 2, improve=True), ds.map_dpp(L, 2), ds.map_dpp(L, size=2, method="best"),
        ds.round_solution(F, ds.Budget(2, np.ones(4)), np.full(4, 0.5)),
    ]  # fmt: skip
    for s in found:
        assert repr(s)
        assert str(s)
        assert copy.copy(s) == s
        assert pickle.loads(pickle.dumps(s)) == s
    assert not calls
    for s in found:
        before = len(calls)
        assert s.value <= s.bound < np.inf
        count = len(calls)
        assert count > before
        assert s.bound <= s.value + 1e3
        assert len(calls) == count


@pytest.mark.parametrize("seed", range(4))
def test_improving_keeps_the_better_bound_and_value(seed):
    X = np.random.default_rng(seed).random((25, 4))
    F = ds.Multilinear.facility_location(X @ X.T)
    plain, better = ds.greedy(F, 4), ds.greedy(F, 4, improve=True)
    assert better.bound <= plain.bound * (1.0 + 1e-12)
    assert better.value >= plain.value * (1.0 - 1e-12)


@pytest.mark.parametrize("options", [{"size": 3}, {"constraint": 3}, {"size": 3, "method": "greedy"}])
def test_a_time_limit_does_not_choose_the_method(options):
    X = np.random.default_rng(2).standard_normal((30, 6))
    free, limited = ds.map_dpp(features=X, **options), ds.map_dpp(features=X, **options, time_limit=60.0)
    assert free.method == limited.method == "greedy"
    np.testing.assert_array_equal(free.items, limited.items)


def test_a_search_that_its_time_ended_claims_nothing():
    X = np.random.default_rng(3).standard_normal((24, 24))
    s = ds.map_dpp(features=X, size=12, method="exact", time_limit=0.0)
    assert s.items.size == 12
    assert s.bound > s.value + 1e-6
    assert "time limit" in s.message


def test_options_that_do_not_exist_say_what_is_meant():
    with pytest.raises(TypeError, match="size=4 is exactly so many items, constraint=4 at most"):
        ds.map_dpp(np.eye(5), k=4)
    with pytest.raises(TypeError, match=r"np.unique\(groups, return_inverse=True\)"):
        ds.PartitionMatroid(["shoes", "hats"], 1)
    with pytest.raises(ValueError, match="give n numbers"):
        ds.Box(1.0)


def test_moves_of_dependent_items_end():
    X = np.random.default_rng(1).standard_normal((12, 2)) * 10.0 ** np.arange(-6, 6)[:, None]
    for size in (3, 5, 12):
        s = ds.map_dpp(features=X, similarity="inner", size=size)
        assert len(set(s.items.tolist())) == size
        assert s.value == -np.inf


@pytest.mark.parametrize("columns", [3, 20])
def test_the_graph_of_neighbours_is_that_of_the_largest_cosines(columns):
    X = np.random.default_rng(7).standard_normal((60, columns))
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    full = (U @ U.T).clip(0.0)
    W = ds.Multilinear.facility_location(features=X, neighbours=5).rows().toarray()
    kept = np.where(full >= np.sort(full, axis=0)[-5], full, 0.0)
    np.testing.assert_allclose(W, kept, atol=1e-12)
    np.testing.assert_allclose(ds.Multilinear.facility_location(features=X).rows(), full, atol=1e-12)
    with pytest.raises(TypeError, match="either W or features"):
        ds.Multilinear.facility_location()


def test_the_vertex_to_begin_with_is_the_greedy_choice_of_sparse_weights():
    rng = np.random.default_rng(4)
    F = ds.Multilinear.facility_location(features=rng.standard_normal((50, 3)), neighbours=6)
    for P in (
        ds.Budget(5, np.ones(50)), ds.PartitionMatroid(np.arange(50) % 4, 2),
        ds.Knapsack(0.2 + rng.random(50), 2.0, np.ones(50)),
    ):  # fmt: skip
        x = greedy_vertex(F, P, np.ones(50))
        assert P.contains(x)
        assert F.set_value(np.flatnonzero(x)) == pytest.approx(ds.greedy(F, P).value)


def test_the_best_set_where_the_greedy_one_of_that_size_is_dependent():
    # Groups {0, 1} and {3} beside item 2 or 4: greedy takes 4 and 0, and then nothing independent fits.
    L = np.diag([4.0, 3.0, 2.0, 1.0, 9.0])
    L[3, 4] = L[4, 3] = 3.0
    P = ds.PartitionMatroid([0, 0, 1, 2, 1], [1.0, 1.0, 1.0])
    for found in (ds.exact_map(L, P, size=3), ds.map_dpp(L, constraint=P, size=3, method="exact")):
        assert sorted(found.items.tolist()) == [0, 2, 3]
        assert found.value == pytest.approx(np.log(8.0))
        assert found.upper_bound >= found.value


@pytest.mark.parametrize("unit_box", [True, False])
def test_exchanges_lead_away_from_a_dependent_set(unit_box):
    L = np.diag([4.0, 3.0, 2.0, 1.0, 9.0])
    L[3, 4] = L[4, 3] = 3.0
    f, P = ds.Softmax(L, unit_box=unit_box), ds.PartitionMatroid([0, 0, 1, 2, 1], [1.0, 1.0, 1.0])
    for found in (
        ds.improve_set(f, P, [0, 3, 4], size=3), ds.greedy(f, P, size=3, improve=True),
        ds.round_solution(f, P, [1.0, 0.0, 0.0, 1.0, 1.0], size=3, improve=True),
    ):  # fmt: skip
        assert found.value == pytest.approx(np.log(8.0))
