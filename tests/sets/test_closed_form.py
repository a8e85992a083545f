"""Sets with closed-form oracles: optimality by duality, projections by their variational inequality."""

import doctest
import importlib

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar

import drsub_fast as ds
from drsub_fast.engine.codes import OK
from drsub_fast.sets.base import lmo, set_carve, set_size

SIZES = [1, 2, 5, 12, 40]


def random_set(kind, n, rng):
    """A random set of a kind, with zero bounds and zero weights among its data."""
    upper = rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.9)
    if kind == "box":
        return ds.Box(upper)
    if kind == "budget":
        return ds.Budget(rng.uniform(0.0, 0.6) * n, upper)
    if kind == "knapsack":
        return ds.Knapsack(rng.uniform(0.0, 3.0, n) * (rng.random(n) < 0.8), rng.uniform(0.0, 0.6) * n, upper)
    if kind == "partition":
        n_groups = int(rng.integers(1, n + 1))
        return ds.PartitionMatroid(rng.integers(0, n_groups, n), rng.uniform(0.0, 2.0, n_groups), upper)
    if kind == "simplex":
        return ds.Simplex(n, rng.uniform(0.1, 3.0))
    return ds.Ball(rng.uniform(0.1, 0.6) * np.sqrt(n), upper=upper)


LINEAR = ["box", "budget", "knapsack", "partition", "simplex"]
KINDS = [*LINEAR, "ball"]


def linear_description(P):
    """(A, b) of the rows and whether they are equalities."""
    if isinstance(P, ds.Box):
        return np.zeros((1, P.n)), np.zeros(1), False
    A = np.zeros((P.capacities.size, P.n))
    A[P.groups, np.arange(P.n)] = P.weights
    return A, P.capacities, not P.is_down_closed


def best_by_linprog(P, direction, upper):
    A, b, equality = linear_description(P)
    rows = {"A_eq": A, "b_eq": b} if equality else {"A_ub": A, "b_ub": b}
    answer = linprog(-direction, bounds=np.column_stack([np.zeros(P.n), upper]), method="highs", **rows)
    assert answer.status == 0, answer.message
    return -answer.fun


def best_on_ball(P, direction, upper):
    """min over lambda > 0 of max_{0 <= x <= upper} <d, x> - lambda/2 (|x|^2 - r^2): the Lagrangian dual."""

    def dual(log_multiplier):
        multiplier = np.exp(log_multiplier)
        x = np.clip(direction / multiplier, 0.0, upper)
        return direction @ x - 0.5 * multiplier * (x @ x - P.radius**2)

    return minimize_scalar(dual, bounds=(-30.0, 10.0), method="bounded", options={"xatol": 1e-9}).fun


def tighter(P, rng):
    """Random tighter bounds that leave the set a point."""
    scale = rng.uniform(0.0, 1.3, P.n)
    upper = np.minimum(scale * P.upper, P.upper)
    if not P.is_down_closed:
        upper = np.maximum(upper, P.total / P.n)
    return upper


@pytest.mark.parametrize("kind", KINDS)
def test_oracle_is_optimal(kind):
    rng = np.random.default_rng(1)
    for n in SIZES:
        for trial in range(12):
            P = random_set(kind, n, rng)
            direction = rng.standard_normal(n)
            if trial % 3 == 0:
                direction = np.round(direction)  # ties and zeros
            upper = tighter(P, rng) if trial % 2 else P.upper
            v = P.lmo(direction, upper=upper)
            assert P.contains(v, tol=1e-12 * max(1.0, n))
            assert (v <= upper).all()
            best = best_on_ball(P, direction, upper) if kind == "ball" else best_by_linprog(P, direction, upper)
            assert direction @ v == pytest.approx(best, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("change", ["slow", "sudden"])
def test_knapsack_oracle_is_the_greedy_fill_whatever_it_was_asked_before(change):
    rng = np.random.default_rng(7)
    for _ in range(60):
        n = int(rng.integers(1, 60))
        # Exact arithmetic: halves and quarters, with ties.
        weights, upper = rng.choice([0.5, 1.0, 2.0], n), rng.choice([0.0, 0.25, 0.5, 1.0], n)
        P = ds.Knapsack(weights, rng.integers(0, 4 * n) / 8, upper)
        n_floats, n_integers = set_size(P.params())
        work = set_carve(P.params(), np.full(n_floats, np.nan), np.zeros(n_integers, np.int64))
        direction, v = rng.integers(-2, 9, n) * 1.0, np.empty(n)
        for _ in range(8):
            assert lmo(P.params(), work, direction, P.upper, v) == OK
            left = P.budget
            for j in np.argsort(-direction / weights, kind="stable"):
                amount = min(P.upper[j], left / weights[j]) if direction[j] > 0.0 else 0.0
                assert v[j] == amount
                left -= amount * weights[j]
            direction -= rng.integers(0, 2, n) * (0.25 if change == "slow" else rng.choice([-6.0, 6.0]))


@pytest.mark.parametrize("kind", KINDS)
def test_projection_satisfies_its_variational_inequality(kind):
    rng = np.random.default_rng(2)
    for n in SIZES:
        for trial in range(12):
            P = random_set(kind, n, rng)
            if trial % 2:
                P = P.with_upper(tighter(P, rng))
            y = 10.0 ** rng.integers(-2, 3) * rng.standard_normal(n)
            p = P.project(y)
            assert P.contains(p, tol=1e-9)
            # p is the projection iff <y - p, z - p> <= 0 for every z of the set, so for the oracle's vertex.
            assert (y - p) @ (P.lmo(y - p) - p) <= 1e-10 * (1.0 + y @ y)


@pytest.mark.parametrize("kind", KINDS)
def test_projection_of_a_member_is_itself(kind):
    rng = np.random.default_rng(3)
    P = random_set(kind, 12, rng)
    x = 0.5 * (P.lmo(rng.standard_normal(12)) + P.lmo(rng.standard_normal(12)))
    np.testing.assert_allclose(P.project(x), x, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_start_and_smallest_norm_point_are_members(kind):
    rng = np.random.default_rng(4)
    P = random_set(kind, 12, rng)
    assert P.contains(P.start())
    assert P.contains(P.min_max_norm_point())
    assert P.is_down_closed == P.contains(np.zeros(12))


def test_simplex_smallest_norm_point_below_bounds():
    P = ds.Simplex(4).with_upper([0.1, 1.0, 1.0, 0.2])
    np.testing.assert_allclose(P.min_max_norm_point(), np.array([0.1, 1.0, 1.0, 0.2]) / 2.3, atol=1e-15)
    with pytest.raises(ds.OracleError, match="point of least norm of Simplex"):
        ds.Simplex(2).with_upper([0.1, 0.2]).min_max_norm_point()


@pytest.mark.parametrize("kind", KINDS)
def test_with_upper_is_the_shrunken_set(kind):
    rng = np.random.default_rng(5)
    P = random_set(kind, 12, rng)
    upper, direction = tighter(P, rng), rng.standard_normal(12)
    before = P.lmo(direction)
    Q = P.with_upper(upper)
    assert Q.params() is P.params()
    np.testing.assert_array_equal(Q.upper, np.minimum(upper, P.upper))
    np.testing.assert_array_equal(Q.lmo(direction), P.lmo(direction, upper=upper))
    np.testing.assert_array_equal(P.lmo(direction), before)


@pytest.mark.parametrize("kind", KINDS)
def test_room_negative_by_rounding_counts_as_none(kind):
    P = random_set(kind, 5, np.random.default_rng(6))
    room = P.upper - np.nextafter(P.upper, np.inf)
    if P.is_down_closed:
        np.testing.assert_array_equal(P.with_upper(room).lmo(np.ones(5)), np.zeros(5))
    else:
        with pytest.raises(ds.OracleError, match=r"oracle of Simplex\(n=5"):
            P.with_upper(room).lmo(np.ones(5))
        with pytest.raises(ds.OracleError, match="projection of Simplex"):
            P.with_upper(room).project(np.ones(5))
    with pytest.raises(ValueError, match=r"upper\[2\] = -1 is below the set's lower bound"):
        P.with_upper([0.0, 0.0, -1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"upper\[1\] = nan is not finite"):
        P.with_upper([0.0, np.nan, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "simplex"])
def test_down_closed_sets_answer_zero_to_costs_without_gain(kind):
    P = random_set(kind, 8, np.random.default_rng(7))
    np.testing.assert_array_equal(P.lmo(np.zeros(8)), np.zeros(8))
    np.testing.assert_array_equal(P.lmo(-np.ones(8)), np.zeros(8))


def test_ball_oracle_without_active_bounds_is_the_scaled_cost():
    direction = np.array([3e-200, 4e-200, -1.0, 0.0])
    np.testing.assert_allclose(ds.Ball(10.0, 4).lmo(direction), [6.0, 8.0, 0.0, 0.0], rtol=1e-15)


def test_ball_oracle_keeps_its_digits_over_many_scales():
    # Costs over 150 orders of magnitude, each but the last at its bound: the last takes what is left.
    direction = 10.0 ** -np.arange(0.0, 160.0, 10.0)
    upper = np.full(16, 0.25)
    v = ds.Ball(np.sqrt(15 / 16 + 0.01), upper=upper).lmo(direction)
    np.testing.assert_allclose(v[:15], 0.25, rtol=1e-15)
    assert v[15] == pytest.approx(0.1, rel=1e-12)


def test_partition_with_a_group_of_no_items_and_one_capacity_for_all():
    P = ds.PartitionMatroid([0, 2, 2], [1.0, 5.0, 1.0])
    np.testing.assert_array_equal(P.lmo([1.0, 1.0, 2.0]), [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(ds.PartitionMatroid([0, 2, 2], 2).capacities, [2.0, 2.0, 2.0])


@pytest.mark.parametrize("equality", [False, True])
def test_pairs_and_heap_fill_a_knapsack_alike(equality):
    rng = np.random.default_rng(8)
    n, more = 12, 40  # items that nobody wants leave the group to the heap
    for trial in range(300):
        direction = rng.integers(-2 if not equality else 1, 4, n) * (1.0 if trial % 3 else rng.random(n))
        upper = rng.integers(0, 3, n) * (1.0 if trial % 2 else rng.random(n))
        if equality:
            capacity = 0.6 * upper.sum()
            small = ds.Simplex(n, capacity).with_upper(upper)
            large = ds.Simplex(n + more, capacity).with_upper(np.append(upper, np.ones(more)))
        else:
            weights, capacity = rng.integers(0, 4, n) * 1.0, rng.integers(0, 9) * 1.0
            small = ds.Knapsack(weights, capacity, upper)
            large = ds.Knapsack(np.append(weights, np.ones(more)), capacity, np.append(upper, np.ones(more)))
        got = small.lmo(direction)
        expected = large.lmo(np.append(direction, np.full(more, -5.0)))[:n]
        np.testing.assert_allclose(got, expected, atol=1e-14)
        assert small.contains(got)


def test_knapsack_takes_free_items_whole():
    P = ds.Knapsack([0.0, 1.0], 0.5, [3.0, 1.0])
    np.testing.assert_array_equal(P.lmo([1e-9, 1.0]), [3.0, 0.5])
    np.testing.assert_array_equal(P.lmo([-1e-9, 1.0]), [0.0, 0.5])
    np.testing.assert_array_equal(P.upper, [3.0, 0.5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ds.Knapsack([1.0, -2.0], 1.0), r"weights\[1\] = -2 is negative"),
        (lambda: ds.Knapsack([1.0, 0.0], 1.0), r"weights\[1\] = 0 leaves x\[1\] without a bound"),
        (lambda: ds.Knapsack([1.0], -1.0), "budget = -1 must be at least 0"),
        (lambda: ds.Knapsack([1.0, 1.0], 1.0, [1.0]), "upper has 1 entries, expected 2"),
        (lambda: ds.Budget(np.inf, [1.0]), "k = inf is not finite"),
        (lambda: ds.Budget(1.0, [1.0, -0.5]), r"upper\[1\] = -0.5 is negative"),
        (lambda: ds.Box([1.0, np.nan]), r"upper\[1\] = nan is not finite"),
        (lambda: ds.Simplex(0), "n = 0 must be at least 1"),
        (lambda: ds.Simplex(2, -1.0), "total = -1 must be at least 0"),
        (lambda: ds.PartitionMatroid([0, 0.5], 1), r"groups\[1\] = 0.5 is not a non-negative integer"),
        (lambda: ds.PartitionMatroid([0, 2], [1, 1]), r"groups\[1\] = 2 is not an integer from 0 to 1"),
        (lambda: ds.PartitionMatroid([0, 1], [1, -1]), r"capacities\[1\] = -1 is negative: the set is empty"),
        (lambda: ds.PartitionMatroid([0, 1], 1, [1.0]), "upper has 1 entries, expected 2"),
        (lambda: ds.Ball(-1.0, 2), "radius = -1 must be at least 0"),
        (lambda: ds.Ball(1.0), "give the number of variables"),
        (lambda: ds.Ball(1.0, 3, [1.0]), "upper has 1 entries, expected 3"),
    ],
)
def test_bad_data_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_kinds_of_arguments_are_checked():
    with pytest.raises(TypeError, match="n must be an integer"):
        ds.Simplex(2.0)
    with pytest.raises(TypeError, match="budget must be a number"):
        ds.Knapsack([1.0], "1")


def test_violations_are_worded():
    assert ds.Budget(1.0, [1.0, 1.0]).violation(np.ones(2)) == "sum x = 2 is above the budget 1"
    P = ds.PartitionMatroid([0, 1, 1], [1, 1])
    assert P.violation(np.ones(3)) == "the load 2 of group 1 is above its capacity 1"
    assert ds.Simplex(2).violation(np.zeros(2)) == "the load 0 of group 0 is not its capacity 1"
    assert ds.Ball(1.0, 4).violation(np.ones(4)) == "its norm 2 is above the radius 1"


@pytest.mark.parametrize("module", ["box", "budget", "knapsack", "partition", "simplex", "ball", "general", "matching"])
def test_examples(module):
    assert doctest.testmod(importlib.import_module(f"drsub_fast.sets.{module}")).failed == 0


@pytest.mark.parametrize("seed", range(6))
def test_the_projection_onto_a_large_knapsack_meets_its_conditions(seed, interpreted):
    # Groups above the size up to which breakpoints are sorted. At the projection x of y, x = clip(y - t w, 0, upper).
    n, rng = 700, np.random.default_rng([5, seed])
    weights = np.where(rng.random(n) < 0.1, 0.0, rng.random(n)) * 10.0 ** rng.integers(-3, 4)
    upper = np.where(rng.random(n) < 0.2, 0.0, rng.random(n))
    y = rng.standard_normal(n) * 10.0 ** rng.integers(-2, 3, size=n)
    for share in (0.0, 1e-6, 0.2, 0.9, 2.0):
        P = ds.Knapsack(weights, share * (weights @ np.clip(y, 0.0, upper)), upper)
        x = P.project(y)
        load = weights @ x
        assert P.contains(x)
        if share > 1.0:
            np.testing.assert_array_equal(x, np.clip(y, 0.0, P.upper))
            continue
        assert load == pytest.approx(P.budget, rel=1e-9)
        free = (x > 1e-9) & (x < P.upper * (1.0 - 1e-9)) & (weights > 0.0)
        if free.any():
            t = np.median((y - x)[free] / weights[free])
            clipped = np.clip(y - t * weights, 0.0, P.upper)
            np.testing.assert_allclose(x, clipped, atol=1e-8 * np.abs(y).max())


def greedy_gain(P, direction, upper):
    """max <direction, v> over a knapsack below ``upper``, by sorting all ratios."""
    gains, loads = np.maximum(direction, 0.0) * upper, P.weights * upper
    order = np.argsort(-np.divide(direction, P.weights, out=np.full(P.n, np.inf), where=P.weights > 0.0))
    left = np.clip(P.budget - np.cumsum(loads[order]) + loads[order], 0.0, loads[order])
    return (gains[order] * np.divide(left, loads[order], out=np.ones(P.n), where=loads[order] > 0.0)).sum()


@pytest.mark.parametrize("n", [150, 20_000])  # a sample of the second is looked at first
def test_a_knapsack_oracle_that_expects_ratios_fills_as_one_that_sorts_all(n, interpreted):
    rng = np.random.default_rng(7)
    weights, upper = np.where(rng.random(n) < 0.1, 0.0, rng.random(n)), rng.random(n)
    P = ds.Knapsack(weights, 0.2 * (weights @ upper), upper)
    n_floats, n_integers = set_size(P.params())
    work = set_carve(P.params(), np.full(n_floats, np.nan), np.zeros(n_integers, np.int64))
    direction, v = rng.standard_normal(n), np.empty(n)
    for call in range(40 if n < 1000 else 14):
        # Small moves, a jump, few gains, none, ties.
        direction += 0.02 * rng.standard_normal(n)
        asked = {5: direction.round(), 10: 5.0 * direction, 12: direction - 2.0, 25: -np.abs(direction)}.get(
            call, direction
        )
        bound = upper * rng.random(n) if call % 7 == 3 else upper
        assert lmo(P.params(), work, asked, bound, v) == OK
        assert P.contains(v)
        assert (v <= bound).all()
        assert asked @ v == pytest.approx(greedy_gain(P, asked, bound), rel=1e-11, abs=1e-11)
