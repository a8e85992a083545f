"""Rounding: feasible, unique items; what each method promises; and its work counted."""

import doctest

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.discrete import rounding
from drsub_fast.discrete.pipage import RandomEnd, can_pipage, pipage

N = 12


def extension(rng):
    """A coverage function's multilinear extension: monotone; its values at vertices are the function's."""
    return ds.Multilinear.coverage([rng.choice(15, 4, replace=False) for _ in range(N)])


def bipartite_sets(rng):
    edges = np.column_stack([rng.integers(0, 4, N), rng.integers(0, 5, N)])
    return [
        ds.Budget(4, np.ones(N)),
        ds.Budget(3.5, np.ones(N)),
        ds.PartitionMatroid(np.arange(N) % 4, [1, 2, 1, 1]),
        ds.MatchingPolytope(edges, 4, 5),
        ds.MatchingPolytope(edges, 4, 5, rng.integers(0, 4, 9)),
        ds.Box(np.where(np.arange(N) == 3, 0.5, 1.0)),
    ]


def fractional_point(P, rng):
    """A mean of vertices, so that several constraints are tight."""
    return np.mean([P.lmo(rng.random(P.n)) for _ in range(4)], axis=0)


def is_a_set_of(P, result):
    chosen = np.zeros(P.n)
    chosen[result.items] = 1.0
    return np.unique(result.items).size == result.items.size and P.contains(chosen)


@pytest.mark.parametrize("method", ["auto", "pipage", "threshold", "randomized"])
def test_rounded_sets_are_feasible_and_their_values_true(method):
    rng = np.random.default_rng(1)
    f = extension(rng)
    others = [ds.Knapsack(rng.random(N), 2.0, np.ones(N)), ds.Polytope(rng.random((2, N)), [2, 2], np.ones(N))]
    for P in [*bipartite_sets(rng), *others]:
        x = fractional_point(P, rng)
        if method == "pipage" and not can_pipage(P):
            with pytest.raises(ds.UnsupportedError, match="pipage cannot treat a Polytope"):
                ds.round_solution(f, P, x, method=method)
            continue
        result = ds.round_solution(f, P, x, method=method, seed=3)
        assert is_a_set_of(P, result)
        assert result.value == pytest.approx(f.set_value(result.items), rel=1e-12)
        assert result.fractional_value == pytest.approx(f.value(x), rel=1e-12)
        assert result.lost == result.fractional_value - result.value
        again = ds.round_solution(f, P, x, method=method, seed=3)
        np.testing.assert_array_equal(again.items, result.items)


def test_pipage_loses_nothing_on_a_multilinear_extension():
    # Budget and partition lines move along e_i - e_j, where a submodular f is convex.
    rng = np.random.default_rng(2)
    for _ in range(5):
        f = extension(rng)
        for P in (ds.Budget(4, np.ones(N)), ds.PartitionMatroid(np.arange(N) % 4, [1, 2, 1, 1])):
            x = fractional_point(P, rng)
            result = ds.round_solution(f, P, x)
            assert result.value >= f.value(x) - 1e-9
            # One gradient for each move, each move makes one entry integral; one value for x and one for the set.
            assert result.n_values <= N + 2


def test_many_pairs_at_a_time_lose_nothing_either():
    rng = np.random.default_rng(21)
    n = 90
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.1), 1)
    weights = 0.5 + rng.random(n)
    for f in (
        ds.Multilinear.coverage([set(rng.integers(0, 60, 4).tolist()) for _ in range(n)]),
        ds.Multilinear.facility_location(rng.random((n, 50)) ** 4), ds.Multilinear.cut(A + A.T),
    ):  # fmt: skip
        for P in (ds.Budget(6, np.ones(n)), ds.PartitionMatroid(np.arange(n) % 2, [40, 3])):
            x = np.mean([P.lmo(rng.random(n)) for _ in range(40)], axis=0)
            result = ds.round_solution(f, P, x, "pipage")
            assert is_a_set_of(P, result)
            assert result.value >= f.value(x) - 1e-9
            assert result.n_values <= 0.8 * np.count_nonzero((x > 0.0) & (x < 1.0))  # one for every item otherwise
        P = ds.Knapsack(weights, 5.0, np.ones(n))
        x = np.mean([P.lmo(rng.random(n)) for _ in range(40)], axis=0)
        result = ds.round_solution(f, P, x, "pipage")
        assert weights[result.items].sum() <= 5.0 * (1 + 1e-9)
        assert result.lost <= max(f.value(row) for row in np.eye(n)) + 1e-9  # at most the item that was left over


def test_many_pairs_of_a_softmax_extension():
    # Not convex along lines: rounds end where a single pair loses, and both ends of the rest are compared.
    rng = np.random.default_rng(22)
    n = 70
    for B in (rng.standard_normal((n, n)) / 6.0, rng.standard_normal((n, 12))):
        f, P = ds.Softmax(factor=B), ds.Budget(8, np.ones(n))
        x = np.mean([P.lmo(rng.random(n)) for _ in range(40)], axis=0)
        result = ds.round_solution(f, P, x)
        assert is_a_set_of(P, result)
        assert result.value == pytest.approx(np.linalg.slogdet((B @ B.T)[np.ix_(result.items, result.items)])[1])
        assert result.value >= f.value(x)
        assert result.n_values <= 2 * n + 2


def test_where_many_pairs_would_lose_fewer_move():
    # Half of the items are copies of each other: each of them rises, not all together.
    f = ds.Multilinear.coverage([{0, 1, 2} if j < 40 else {j} for j in range(80)])
    x = np.where(np.arange(80) < 40, 0.05, 0.5)
    result = ds.round_solution(f, ds.Budget(22, np.ones(80)), x, "pipage")
    assert result.value >= f.value(x) - 1e-9


def test_randomized_rounding_keeps_the_marginals():
    rng = np.random.default_rng(3)
    for P in bipartite_sets(rng)[2:4]:
        x = fractional_point(P, rng)
        n_draws, choose = 2000, RandomEnd(np.random.default_rng(4))
        mean = np.mean([pipage(P, x, choose) for _ in range(n_draws)], axis=0)
        # Four standard deviations of a mean of 0/1 draws.
        assert np.abs(mean - x).max() <= 4.0 * np.sqrt(0.25 / n_draws)


def test_integral_points_are_left_alone():
    rng = np.random.default_rng(5)
    f = extension(rng)
    for P in bipartite_sets(rng):
        x = np.floor(P.lmo(rng.random(N)) + 1e-9)
        result = ds.round_solution(f, P, x)
        np.testing.assert_array_equal(result.items, np.flatnonzero(x))


def test_better_sets_by_more_draws():
    rng = np.random.default_rng(6)
    f, P = extension(rng), ds.Budget(4, np.ones(N))
    x = fractional_point(P, rng)
    values = [ds.round_solution(f, P, x, "randomized", n_draws=n, seed=0).value for n in (1, 8, 64)]
    assert values == sorted(values)


def test_log_det_through_every_step():
    rng = np.random.default_rng(7)
    edges = np.column_stack([rng.integers(0, 4, N), rng.integers(0, 4, N)])
    for P in (ds.Budget(4, np.ones(N)), ds.MatchingPolytope(edges, 4, 4)):
        for _ in range(3):
            B = 1.5 * rng.standard_normal((N, 6))
            f = ds.Softmax(factor=B)
            best = ds.exact_map(B @ B.T, P).value
            x = fractional_point(P, rng)
            for method in ("pipage", "threshold", "randomized"):
                plain = ds.round_solution(f, P, x, method)
                improved = ds.round_solution(f, P, x, method, improve=True)
                assert is_a_set_of(P, improved)
                assert plain.value <= improved.value + 1e-9
                assert improved.value <= best + 1e-9
                assert improved.value >= 0.9 * best


def test_improvement_ends_where_no_single_item_helps():
    rng = np.random.default_rng(8)
    B = 1.2 * rng.standard_normal((N, 8))
    f, L = ds.Softmax(factor=B), B @ B.T
    P = ds.PartitionMatroid(np.arange(N) % 3, [2, 1, 1])
    result = ds.improve_set(f, P, [])
    chosen = set(result.items.tolist())

    def log_det(items):
        items = sorted(items)
        indicator = np.zeros(N)
        indicator[items] = 1.0
        return np.linalg.slogdet(L[np.ix_(items, items)])[1] if P.contains(indicator) else -np.inf

    assert result.value == pytest.approx(log_det(chosen), rel=1e-9)
    neighbours = [chosen | {j} for j in range(N)] + [chosen - {i} for i in chosen]
    neighbours += [chosen - {i} | {j} for i in chosen for j in range(N)]
    assert max(map(log_det, neighbours)) <= result.value + 1e-8


def set_value(f, items):
    chosen = np.zeros(f.n)
    chosen[list(items)] = 1.0
    return f.value(chosen)


@pytest.mark.parametrize("kind", ["softmax", "coverage", "flid", "cut", "quadratic"])
def test_no_single_move_betters_an_improved_set(kind):
    rng = np.random.default_rng(11)
    for _ in range(3):
        B, A = 1.2 * rng.standard_normal((N, 8)), np.triu(rng.random((N, N)), 1)
        f = {
            "softmax": lambda: ds.Softmax(factor=B),
            "coverage": lambda: extension(rng),
            "flid": lambda: ds.Multilinear.flid(rng.random(N), rng.random((N, 4)) * (rng.random((N, 4)) < 0.6)),
            "cut": lambda: ds.Multilinear.cut(A + A.T),
            "quadratic": lambda: ds.Quadratic(-A - A.T, rng.random(N) * 3.0),
        }[kind]()
        for P in (ds.Budget(4, np.ones(N)), ds.PartitionMatroid(np.arange(N) % 3, [2, 1, 1]),
                  ds.Knapsack(0.3 + rng.random(N), 2.5, np.ones(N))):  # fmt: skip
            for size in (None, 3):
                S = set(ds.improve_set(f, P, [0], size=size).items.tolist())
                moves = [S - {i} | {j} for i in S for j in range(N) if j not in S]
                if size is None:
                    moves += [S | {j} for j in range(N)] + [S - {i} for i in S]
                else:
                    assert len(S) == size
                fitting = [T for T in moves if P.contains(np.isin(np.arange(N), list(T)).astype(float))]
                assert kind in ("cut", "quadratic") or all(set_value(f, T) <= set_value(f, S) + 1e-8 for T in fitting)
                assert P.contains(np.isin(np.arange(N), list(S)).astype(float))
                assert set_value(f, S) >= set_value(f, [0]) - 1e-9 or size is not None


def test_a_size_is_kept():
    rng = np.random.default_rng(12)
    f, P = extension(rng), ds.Budget(4, np.ones(N))
    for k in (1, 4):
        for method in ("auto", "threshold", "randomized"):
            assert ds.round_solution(f, P, np.full(N, 4 / N), method, size=k).items.size == k
    with pytest.raises(ValueError, match="size = 5, but the constraint lets no more than 4 items in"):
        ds.round_solution(f, P, np.zeros(N), size=5)


def test_a_knapsack_loses_at_most_one_item():
    rng = np.random.default_rng(13)
    for _ in range(20):
        f, weights = extension(rng), 0.2 + rng.random(N)
        P = ds.Knapsack(weights, 2.0, np.ones(N))
        x = fractional_point(P, rng)
        pipage_alone = ds.round_solution(f, P, x, "pipage")
        assert weights[pipage_alone.items].sum() <= 2.0 * (1 + 1e-9)
        # f(x) <= F(S) + F(the item dropped), since the last point has one fractional item.
        assert pipage_alone.lost <= max(f.set_value([i]) for i in range(N)) + 1e-9
        best = ds.round_solution(f, P, x)
        assert best.value >= pipage_alone.value - 1e-12
        assert best.value >= ds.greedy(f, P).value - 1e-12


def test_a_set_of_dependent_items_is_left():
    B = np.ones((4, 1)) * np.array([[3.0], [2.0], [2.0], [1.0]])
    f = ds.Softmax(factor=B)
    result = ds.improve_set(f, ds.Box(np.ones(4)), [1, 2])
    np.testing.assert_array_equal(result.items, [0])
    assert result.value == pytest.approx(np.log(9.0))


def test_bad_arguments_are_named():
    f, P = extension(np.random.default_rng(9)), ds.Budget(2, np.ones(N))
    with pytest.raises(ValueError, match=r"x is not in Budget\(k=2, n=12\)"):
        ds.round_solution(f, P, np.ones(N))
    with pytest.raises(ValueError, match="unknown method 'floor'"):
        ds.round_solution(f, P, np.zeros(N), "floor")
    with pytest.raises(ds.UnsupportedError, match="Simplex is not down-closed"):
        ds.round_solution(f, ds.Simplex(N), np.full(N, 1 / N))
    with pytest.raises(ValueError, match="item 3 is given twice"):
        ds.improve_set(f, P, [3, 3])
    with pytest.raises(ValueError, match=r"items\[0\] = 12 is not an integer from 0 to 11"):
        ds.improve_set(f, P, [12])
    with pytest.raises(ValueError, match="sum x = 3 is above the budget 2"):
        ds.improve_set(f, P, [0, 1, 2])


def test_examples():
    assert doctest.testmod(rounding).failed == 0


def test_a_set_that_grows_from_nothing_keeps_a_capacity_that_is_no_whole_number():
    # Loads of the empty set were whole numbers, and parts of weights were lost when they were added to them.
    w = [0.22, 0.56, 0.17, 0.86, 0.54]
    P, F = ds.Knapsack(w, 1.64, np.ones(5)), ds.Multilinear.facility_location(np.diag([1.0, 0.1, 1.0, 5.0, 1.0]))
    for improve in (False, True):
        s = ds.round_solution(F, P, np.zeros(5), size=4, improve=improve)
        assert s.items.size == 4
        assert np.array(w)[s.items].sum() <= 1.64


def test_where_the_best_set_is_empty_nothing_is_exchanged():
    s = ds.improve_set(ds.Softmax(np.diag([0.5, 1e-11])), ds.Box(np.ones(2)), [1])
    assert s.items.size == 0
    assert s.value == 0.0
