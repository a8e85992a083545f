"""Polytopes with signs and equations, and matchings: oracles by linprog and enumeration, projections by duality."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linprog

import drsub_fast as ds
from drsub_fast.solvers.domain import solver_upper


def general(rng, n, signed):
    """A random polytope around a point that it is sure to hold."""
    m, m_eq = 3, max(1, n // 4)
    lower = -rng.random(n) if signed else 0.2 * rng.random(n)
    upper = lower + rng.random(n)
    inside = lower + rng.random(n) * (upper - lower)
    A, A_eq = rng.standard_normal((m, n)), rng.standard_normal((m_eq, n))
    return ds.GeneralPolytope(A, A @ inside + 0.1, A_eq, A_eq @ inside, lower, upper)


def best_by_linprog(P, direction, upper):
    answer = linprog(
        -direction,
        A_ub=P.A.toarray(),
        b_ub=P.b,
        A_eq=P.A_eq.toarray(),
        b_eq=P.b_eq,
        bounds=np.column_stack([P.lower, upper]),
        method="highs",
    )
    assert answer.status == 0, answer.message
    return -answer.fun


@pytest.mark.parametrize("signed", [False, True])
def test_general_oracle_start_and_projection(signed):
    rng = np.random.default_rng(1)
    for n in (4, 4, 9, 20):
        P = general(rng, n, signed)
        assert P.contains(P.start())
        for _ in range(4):
            direction = rng.standard_normal(n)
            v = P.lmo(direction)
            assert P.contains(v)
            assert direction @ v == pytest.approx(best_by_linprog(P, direction, P.upper), rel=1e-8, abs=1e-8)
            y = 3.0 * rng.standard_normal(n)
            p = P.project(y)
            assert P.contains(p, tol=1e-8)
            assert (y - p) @ (P.lmo(y - p) - p) <= 1e-7 * (1.0 + y @ y)


@pytest.mark.parametrize("signed", [False, True])
def test_general_shrunken_bounds(signed):
    rng = np.random.default_rng(2)
    P = general(rng, 9, signed)
    x = P.start()
    upper = x + 0.5 * (P.upper - x)  # holds x, so the set is not empty
    Q = P.with_upper(upper)
    direction = rng.standard_normal(9)
    best = best_by_linprog(P, direction, upper)
    for v in (P.lmo(direction, upper=upper), Q.lmo(direction)):
        assert (v <= upper + 1e-12).all()
        assert direction @ v == pytest.approx(best, rel=1e-8, abs=1e-8)
    assert Q.contains(Q.start())
    assert (P.start(upper) <= upper + 1e-12).all()


@pytest.mark.parametrize("signed", [False, True])
def test_smallest_norm_point(signed):
    rng = np.random.default_rng(3)
    P = general(rng, 7, signed)
    x = P.min_max_norm_point()
    assert P.contains(x)
    # Among points of the box |x| <= t s, s the bounds' magnitude, with t just smaller there is none of the set.
    s = np.maximum(np.abs(P.lower), np.abs(P.upper))
    t = s * (np.abs(x) / s).max() * (1.0 - 1e-6)
    with pytest.raises(ValueError, match=r"empty|above upper|lower bound"):
        ds.GeneralPolytope(P.A, P.b, P.A_eq, P.b_eq, np.maximum(P.lower, -t), np.minimum(P.upper, t))


def test_general_polytope_agrees_with_the_simplex():
    P, Q = ds.Simplex(5, 2.0), ds.GeneralPolytope(A_eq=np.ones((1, 5)), b_eq=[2.0], upper=np.full(5, 2.0))
    rng = np.random.default_rng(4)
    y = rng.standard_normal(5)
    np.testing.assert_allclose(P.project(y), Q.project(y), atol=1e-9)
    assert y @ P.lmo(y) == pytest.approx(y @ Q.lmo(y))
    assert P.min_max_norm_point().max() == pytest.approx(Q.min_max_norm_point().max())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"upper": None}, "give upper"),
        ({"upper": [1.0], "lower": [2.0]}, r"lower\[0\] = 2 is above upper\[0\] = 1"),
        ({"upper": [1.0], "A": [[1.0, 2.0]], "b": [1.0]}, "A has 2 columns, upper has 1"),
        ({"upper": [1.0], "A_eq": [[1.0]]}, "give both A_eq and b_eq"),
        ({"upper": [1.0], "A_eq": [[1.0]], "b_eq": [1.0, 2.0]}, "b_eq has 2 entries, A_eq has 1 rows"),
        (
            {"upper": [1.0], "A": [[1.0]], "b": [1.0], "A_eq": [[1.0]], "b_eq": [2.0]},
            r"the set is empty: between lower and upper, row 0 of A_eq x is in \[0, 1\], and not b_eq\[0\] = 2; change",
        ),
        (
            {"lower": [1.0, 1.0], "upper": [2.0, 4.0], "A": [[0.0, 1.0], [1.0, -0.5]], "b": [2.0, -1.5]},
            r"row 1 of A x is in \[-1, 1.5\], above b\[1\] = -1.5",
        ),
        (
            {"upper": [1.0, 1.0], "A": [[-1.0, -1.0]], "b": [-1.0], "A_eq": [[1.0, 1.0]], "b_eq": [0.5]},
            r"each row can hold between lower and upper, but not all .* together; check the signs",
        ),
        ({"upper": [1.0, 1.0], "A": [[1.0, 1.0]], "b": [-1.0]}, r"row 0 of A x is in \[0, 2\], above b\[0\] = -1"),
        (
            {"upper": [1.0, 1.0], "A": [[1.0, 0.0], [-1.0, -1.0], [0.0, 1.0]], "b": [0.4, -1.0, 0.4]},
            r"each row can hold between lower and upper, but not all .* together; check the signs",
        ),
        ({"upper": [1.0], "A": scipy.sparse.csr_matrix([[np.nan]]), "b": [1.0]}, r"A\[0, 0\] = nan is not finite"),
    ],
)
def test_bad_general_polytopes_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ds.GeneralPolytope(**arguments)


def test_a_set_without_the_origin_has_a_start_and_an_oracle_for_no_direction():
    P = ds.GeneralPolytope(A=[[-1.0, -2.0], [1.0, 0.0]], b=[-1.0, 0.5], upper=[1.0, 1.0])
    assert P.contains(P.start())
    assert P.contains(P.lmo(np.zeros(2)))


def test_general_violations_are_worded():
    P = ds.GeneralPolytope([[1.0, 1.0]], [1.0], [[1.0, -1.0]], [0.0], [-1.0, -1.0], [1.0, 1.0])
    assert P.violation(np.array([1.0, 1.0])) == "row 0 of A x = 2 is above b[0] = 1"
    assert P.violation(np.array([0.0, 0.5])) == "row 0 of A_eq x = -0.5 is not b_eq[0] = 0"
    with pytest.raises(ValueError, match=r"x0\[0\] = -2 is below its lower bound -1"):
        ds.frank_wolfe(ds.CallableObjective(lambda x: (-x @ x, -2.0 * x), n=2), P, x0=[-2.0, -2.0])


def multigraph(rng, n, n_left, n_right):
    return np.column_stack([rng.integers(0, n_left, n), rng.integers(0, n_right, n)])


def test_matching_oracle_against_enumeration():
    rng = np.random.default_rng(5)
    for _ in range(10):
        edges = multigraph(rng, 9, 3, 4)
        capacities = rng.integers(0, 3, 7)
        P = ds.MatchingPolytope(edges, 3, 4, capacities)
        direction = rng.standard_normal(9)
        v = P.lmo(direction)
        subsets = np.array(list(itertools.product([0.0, 1.0], repeat=9)))
        feasible = (subsets @ P.A.T <= capacities).all(axis=1)
        assert direction @ v == pytest.approx((subsets[feasible] @ direction).max(), abs=1e-9)
        np.testing.assert_allclose(v, np.round(v), atol=1e-9)


def test_matching_oracle_with_fractional_room():
    rng = np.random.default_rng(6)
    P = ds.MatchingPolytope(multigraph(rng, 30, 6, 7), 6, 7)
    upper, direction = rng.random(30), rng.standard_normal(30)
    answer = linprog(-direction, A_ub=P.A, b_ub=P.b, bounds=np.column_stack([np.zeros(30), upper]), method="highs")
    for v in (P.lmo(direction, upper=upper), P.with_upper(upper).lmo(direction)):
        assert P.contains(v)
        assert direction @ v == pytest.approx(-answer.fun, rel=1e-9)


def test_matching_oracle_of_large_graphs_agrees_with_highs():
    rng = np.random.default_rng(7)
    for capacities, fractional in ((1, False), (3, False), (rng.uniform(0.0, 4.0, 120), True)):
        P = ds.MatchingPolytope(multigraph(rng, 2000, 60, 60), 60, 60, capacities)
        upper = rng.random(2000) * (rng.random(2000) < 0.7) if fractional else P.upper
        for direction in (rng.standard_normal(2000), np.round(2.0 * rng.random(2000)), 1e-9 * rng.random(2000)):
            v = P.lmo(direction, upper=upper)
            assert P.contains(v)
            assert (v <= upper).all()
            assert direction @ v == pytest.approx(direction @ P.solver(upper).maximize(direction, upper), rel=1e-7)
            if not fractional:
                np.testing.assert_array_equal(v, np.round(v))


def test_matching_projection():
    rng = np.random.default_rng(8)
    P = ds.MatchingPolytope(multigraph(rng, 20, 5, 5), 5, 5, 1.5, upper=0.75)
    y = rng.standard_normal(20)
    p = P.project(y)
    assert P.contains(p)
    assert (y - p) @ (P.lmo(y - p) - p) <= 1e-8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ds.MatchingPolytope([(0, 0), (0, 2)], 1, 2), r"edges\[1, 1\] = 2 is not a right node from 0 to 1"),
        (lambda: ds.MatchingPolytope([(0.5, 0)], 1, 2), r"edges\[0, 0\] = 0.5 is not a left node from 0 to 0"),
        (lambda: ds.MatchingPolytope([(0, 0, 1)], 1, 2), r"edges must have shape \(n, 2\)"),
        (lambda: ds.MatchingPolytope([(0, 0)], 1, 1, [1, -1]), r"capacities\[1\] = -1 is negative"),
        (lambda: ds.MatchingPolytope([(0, 0)], 1, 1, [1]), "capacities has 1 entries, expected 2"),
    ],
)
def test_bad_graphs_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_overloaded_node_is_worded():
    P = ds.MatchingPolytope([(0, 0), (1, 0)], 2, 1)
    assert P.violation(np.ones(2)) == "the load 2 of right node 0 is above its capacity 1"


def test_tighter_bounds_replace_the_unit_box_that_a_solver_remembered():
    class OnUnitBox:
        unit_box = True

    P = ds.Polytope(np.ones((1, 3)), [4.0], [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(solver_upper(OnUnitBox, P), np.ones(3))
    Q = P.with_upper([0.5, 1.5, 2.0])
    assert Q.A is P.A
    np.testing.assert_array_equal(solver_upper(OnUnitBox, Q), [0.5, 1.0, 1.0])
