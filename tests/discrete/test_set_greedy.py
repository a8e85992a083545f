"""Lazy greedy against the plain one, its bound against enumeration, and its guarantees against their definition."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest
import scipy

import drsub_fast as ds
from drsub_fast.discrete import moves, packing, set_function

N = 9


def functions(rng):
    A = np.triu(rng.random((N, N)), 1)
    W = rng.random((N, 6)) * (rng.random((N, 6)) < 0.6)
    sets = [rng.choice(12, 3, replace=False).tolist() for _ in range(N)]
    root = rng.random(N)
    return {
        "facility location": ds.Multilinear.facility_location(W),
        "sparse": ds.Multilinear.facility_location(scipy.sparse.csr_array(W)),
        "coverage": ds.Multilinear.coverage(sets),
        "flid": ds.Multilinear.flid(rng.random(N), W),
        "cut": ds.Multilinear.cut(A + A.T),
        "table": ds.Multilinear.from_function(lambda S: sum(root[i] for i in S) ** 0.5, N),
        "sampled": ds.Multilinear.sampled(lambda S: len({i // 2 for i in S}), N, n_samples=4),
        "softmax": ds.Softmax.from_features(rng.standard_normal((N, 6)), 2.0 * np.ones(N)),
        "quadratic": ds.Quadratic(-A - A.T, 2.0 * rng.random(N)),
        "function": lambda S: len({i // 3 for i in S}) + 0.1 * len(S),
    }


def value_of(F, items):
    items = sorted(map(int, items))
    if isinstance(F, ds.Multilinear) and hasattr(F, "function"):
        return float(F.function(items))
    if not isinstance(F, ds.Objective):
        return float(F(items))
    chosen = np.zeros(N)
    chosen[items] = 1.0
    return F.value(chosen)


def constraints(rng):
    edges = np.column_stack([rng.integers(0, 4, N), rng.integers(0, 3, N)])
    return [
        ds.Budget(3, np.ones(N)), ds.PartitionMatroid(np.arange(N) % 3, [1, 2, 1]), ds.MatchingPolytope(edges, 4, 3),
        ds.Box(np.ones(N)), ds.Knapsack(0.3 + rng.random(N), 1.6, np.ones(N)),
        ds.Polytope(rng.random((2, N)), [1.2, 1.0], np.ones(N)),
    ]  # fmt: skip


def fits(P, items):
    return P.contains(np.isin(np.arange(N), list(items)).astype(float))


def plain_greedy(F, P):
    S = []
    while True:
        gains = {j: value_of(F, [*S, j]) - value_of(F, S) for j in range(N) if j not in S and fits(P, [*S, j])}
        if not gains or max(gains.values()) <= 1e-12:
            return value_of(F, S)
        S.append(max(gains, key=gains.get))


@pytest.mark.parametrize("name", list(functions(np.random.default_rng(0))))
def test_lazy_greedy_is_greedy_and_its_bound_holds(name):
    for seed in range(2):
        rng = np.random.default_rng([seed, 1])
        F = functions(rng)[name]
        for P in constraints(rng):
            s = ds.greedy(F, P)
            assert fits(P, s.items)
            assert s.value == pytest.approx(value_of(F, s.items), abs=1e-9)
            assert s.value >= plain_greedy(F, P) - 1e-9
            assert s.table["value"][-1] == pytest.approx(s.value) if s.items.size else s.value == value_of(F, [])
            sets = (S for r in range(N + 1) for S in itertools.combinations(range(N), r))
            best = max(value_of(F, S) for S in sets if fits(P, S))
            assert s.value - 1e-9 <= best <= s.bound + 1e-9
            if s.guarantee.ratio is not None and s.guarantee.holds:
                assert s.value >= s.guarantee.ratio * best - 1e-9
        k = 4
        s = ds.greedy(F, ds.Box(np.ones(N)), size=k)
        best = max(value_of(F, S) for S in itertools.combinations(range(N), k))
        assert s.items.size == k
        assert s.value - 1e-9 <= best <= s.bound + 1e-9


def test_laziness_saves_work_and_keeps_the_items():
    rng = np.random.default_rng(2)
    W = rng.random((400, 50)) ** 8
    cover, items = np.zeros(50), []
    for _ in range(12):
        gains = np.maximum(W - cover, 0.0).sum(axis=1)
        items.append(int(gains.argmax()))
        cover = np.maximum(cover, W[items[-1]])
    s = ds.greedy(ds.Multilinear.facility_location(W), 12)
    np.testing.assert_array_equal(s.items, items)
    assert s.n_values < 0.5 * 12 * 400


def test_what_is_promised():
    rng = np.random.default_rng(3)
    F = functions(rng)["facility location"]
    for P, ratio in zip(constraints(rng), [1 - 1 / np.e, 1 / 2, 1 / 3, 1 - 1 / np.e, (1 - 1 / np.e) / 2, None],
                        strict=True):  # fmt: skip
        guarantee = ds.greedy(F, P).guarantee
        assert guarantee.ratio == (None if ratio is None else pytest.approx(ratio))
        assert ratio is None or guarantee.holds
    assert ds.greedy(functions(rng)["cut"], 3).guarantee.holds is False
    assert ds.greedy(functions(rng)["function"], ds.Budget(3, np.ones(N))).guarantee.holds is None


def test_one_heavy_item_beats_many_light_ones():
    W, weights = np.array([[2.0], [1.0], [50.0]]), np.array([0.02, 0.01, 1.0])
    s = ds.greedy(ds.Multilinear.facility_location(W), ds.Knapsack(weights, 1.0, np.ones(3)))
    np.testing.assert_array_equal(s.items, [2])


def test_stochastic_greedy():
    rng = np.random.default_rng(4)
    F = ds.Multilinear.facility_location(rng.random((500, 40)))
    whole = ds.greedy(F, 10)
    values = [ds.greedy(F, 10, epsilon=0.2, seed=seed) for seed in range(8)]
    assert np.mean([s.value for s in values]) >= (1 - 1 / np.e - 0.2) * whole.value
    assert all(s.value <= s.bound and s.items.size == 10 for s in values)
    assert values[0].n_values < 0.5 * 10 * 500 + 1000
    assert ds.greedy(F, 10, epsilon=0.2, seed=0).items.tolist() == values[0].items.tolist()
    with pytest.raises(ds.UnsupportedError, match="epsilon goes with a number of items"):
        ds.greedy(F, ds.PartitionMatroid(np.arange(500) % 2, 1), epsilon=0.1)
    with pytest.raises(ValueError, match="epsilon = 1 must be between 0 and 1"):
        ds.greedy(F, 3, epsilon=1.0)


def test_a_size_that_greedy_alone_misses():
    # The heaviest item has the largest gain and leaves no room for a second one.
    F, P = ds.Multilinear.facility_location(np.diag([5.0, 1.0, 1.0])), ds.Knapsack([1.0, 0.5, 0.5], 1.0, np.ones(3))
    np.testing.assert_array_equal(np.sort(ds.greedy(F, P, size=2).items), [1, 2])
    with pytest.raises(ValueError, match="size = 3, but the constraint lets no more than 2 items in"):
        ds.greedy(F, P, size=3)
    edges = [(0, 0), (0, 1), (1, 0)]
    s = ds.greedy(ds.Multilinear.facility_location(np.diag([5.0, 1.0, 1.0])), ds.MatchingPolytope(edges, 2, 2), size=2)
    np.testing.assert_array_equal(np.sort(s.items), [1, 2])


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="F must be an objective or a function"):
        ds.greedy(3, ds.Box(np.ones(2)))
    with pytest.raises(TypeError, match="needs a set, P, that says how many items"):
        ds.greedy(len, 2)
    with pytest.raises(TypeError, match="give size=k for exactly k items"):
        ds.greedy(functions(np.random.default_rng(0))["cut"])


def test_the_rows_come_back_after_an_evaluation():
    rng = np.random.default_rng(5)
    W = rng.random((7, 130)) * (rng.random((7, 130)) < 0.8)
    F = ds.Multilinear.facility_location(W)
    before = ds.greedy(F, 3)
    F.value(np.full(7, 0.5))
    np.testing.assert_array_equal(F.rows(), W)
    np.testing.assert_array_equal(F.W.toarray(), W)
    np.testing.assert_array_equal(ds.greedy(F, 3).items, before.items)
    kept = sum(array.nbytes for array in (*F.params[2:], *([] if F._rows is None else [F._rows])))
    assert kept <= 2 * W.nbytes


@pytest.mark.parametrize("name", ["facility location", "sparse", "flid", "cut", "softmax"])
def test_single_moves_better_the_choice(name):
    for seed in range(3):
        rng = np.random.default_rng([seed, 6])
        F = functions(rng)[name]
        for P in constraints(rng):
            plain, better = ds.greedy(F, P), ds.greedy(F, P, improve=True)
            assert fits(P, better.items)
            assert better.value >= plain.value - 1e-9
            assert better.value == pytest.approx(value_of(F, better.items), abs=1e-9)
            sets = (S for r in range(N + 1) for S in itertools.combinations(range(N), r))
            assert max(value_of(F, S) for S in sets if fits(P, S)) <= better.bound + 1e-9
        assert ds.greedy(F, size=4, improve=True).items.size == 4
    with pytest.raises(TypeError, match="improve goes with an objective"):
        ds.greedy(len, ds.Box(np.ones(3)), improve=True)


def test_compiled_gains_and_exchanges_are_those_of_numpy(monkeypatch):
    rng = np.random.default_rng(7)
    W = rng.random((60, 40)) * (rng.random((60, 40)) < 0.5)
    F = ds.Multilinear.facility_location(W)
    plain = ds.greedy(F, 8, improve=True)
    gain, changes = set_function._gain_above, moves._row_changes
    monkeypatch.setattr(set_function, "compiled_for", lambda W, kernel, arguments: (gain, nullcontext))
    np.testing.assert_array_equal(ds.greedy(F, 8).items, ds.greedy(F, 8, improve=False).items)
    state = moves._Maxima(moves.Evaluations(F), packing.as_packing(8, 60), plain.items)
    state.trial = np.empty(8)
    for item in state.outside():
        state.compiled = None
        by_numpy = state.changes(int(item), state.losses())
        state.compiled = changes
        np.testing.assert_allclose(state.changes(int(item), state.losses()), by_numpy, atol=1e-12)
    assert ds.greedy(F, 8, improve=True).value == pytest.approx(plain.value)


@pytest.mark.parametrize("unit_box", [True, False])
@pytest.mark.parametrize("improve", [True, False])
def test_as_many_as_asked_for_where_all_sets_are_dependent(unit_box, improve):
    f = ds.Softmax(np.ones((3, 3)), unit_box=unit_box)
    for P in (ds.Box(np.ones(3)), ds.Knapsack([1.0, 2.0, 3.0], 9.0), 3):
        for size in (2, 3):
            s = ds.greedy(f, P, size=size, improve=improve)
            assert len(set(s.items.tolist())) == size
            assert s.value == -np.inf
            assert not np.isnan(s.upper_bound)
