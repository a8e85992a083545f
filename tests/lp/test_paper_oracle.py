"""The oracle of the authors' runs, on its own; `test_values` holds the runs themselves against theirs."""

import numpy as np
import pytest
import scipy.sparse

import drsub_fast as ds
from drsub_fast.errors import OracleError
from drsub_fast.lp import paper
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.lp.paper import PaperOracle


def program(n, m, seed, density=1.0):
    rng = np.random.default_rng(seed)
    A = (0.01 + rng.exponential(4.0, (m, n))) * (rng.random((m, n)) < density)
    return A, 0.5 + rng.random(m), 0.1 + rng.random(n), rng


SHAPES = [(16, 24, 1.0), (60, 40, 1.0), (30, 30, 0.1), (5, 1, 0.5), (150, 120, 1.0)]


@pytest.mark.parametrize(("n", "m", "density"), SHAPES)
def test_the_vertex_is_best_within_the_tolerance(n, m, density):
    A, b, upper, rng = program(n, m, n, density)
    oracle, exact = PaperOracle(A, b), HighsOracle(A, b, upper)
    for bound in (upper, upper * rng.random(n), upper * (rng.random(n) < 0.5)):
        for cost in (rng.random(n), rng.standard_normal(n)):
            v = oracle.maximize(cost, bound)
            assert (A @ v <= b + 1e-11).all()
            assert (v >= 0.0).all()
            assert (v <= bound).all()
            assert cost @ v == pytest.approx(cost @ exact.maximize(cost, bound), rel=1e-6)


def test_a_cost_below_the_tolerance_counts_as_none():
    oracle = PaperOracle(np.ones((1, 2)), np.ones(1))
    np.testing.assert_array_equal(oracle.maximize(np.array([1.1e-7, 0.9e-7]), np.full(2, 0.4)), [0.4, 0.0])


def test_zero_cost_zero_bounds_and_rows_without_room_give_zero():
    A, b, upper, rng = program(6, 4, 1)
    assert not PaperOracle(A, b).maximize(np.zeros(6), upper).any()
    assert not PaperOracle(A, b).maximize(rng.random(6), np.zeros(6)).any()
    assert not PaperOracle(A, np.zeros(4)).maximize(rng.random(6), upper).any()


def test_sparse_dense_and_no_rows_agree():
    A, b, upper, rng = program(8, 6, 2, density=0.4)
    A[2], A[:, 3] = 0.0, 0.0
    cost = rng.standard_normal(8)
    dense, sparse = PaperOracle(A, b), PaperOracle(scipy.sparse.csc_array(A), b)
    np.testing.assert_array_equal(dense.maximize(cost, upper), sparse.maximize(cost, upper))
    for rows in (0, 2):
        free = PaperOracle(np.zeros((rows, 8)), np.ones(rows)).maximize(cost, upper)
        np.testing.assert_array_equal(free, np.where(cost > 0.0, upper, 0.0))


def test_entries_of_any_size():
    oracle = PaperOracle(np.array([[1e-300, 1e300]]), np.ones(1))
    np.testing.assert_array_equal(oracle.maximize(np.ones(2), np.ones(2)), [1.0, 0.0])


def test_scaling_ends_with_largest_entries_of_one():
    A = program(12, 9, 3, density=0.5)[0] * np.logspace(-3.0, 3.0, 12)
    B, column, row = paper._scaled(A)
    np.testing.assert_allclose(B * column * row[:, None], A, rtol=1e-14)
    assert B.max() == pytest.approx(1.0)
    positive, before = B[B > 0.0], A[A > 0.0]
    assert positive.max() / positive.min() < 0.01 * before.max() / before.min()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
    A, b, upper, _ = program(4, 3, 4)
    with pytest.raises(OracleError, match="not finite"):
        PaperOracle(A, b).maximize(np.array([1.0, bad, 1.0, 1.0]), upper)
    with pytest.raises(OracleError, match="not finite"):
        PaperOracle(A, b).maximize(np.ones(4), np.full(4, np.nan))


def test_a_program_that_goes_on_and_on_is_given_up(monkeypatch):
    A, b, upper, rng = program(20, 20, 5)
    oracle, cost = PaperOracle(A, b), rng.random(20)
    monkeypatch.setattr(paper, "_PIVOTS", 1)
    with pytest.raises(OracleError) as caught:
        oracle.maximize(cost, upper, time_limit=0.0)
    assert caught.value.status == "Time limit reached"
    monkeypatch.setattr(paper, "_ROUNDS", 2)
    with pytest.raises(OracleError, match="pivots"):
        oracle.maximize(cost, upper)


def test_other_sets_answer_as_ever():
    f = ds.Quadratic(-np.ones((3, 3)), [1.0, 2.0, 1.5])
    for P in (ds.Box(np.ones(3)), ds.GeneralPolytope(np.ones((1, 3)), [2.0], upper=np.ones(3))):
        np.testing.assert_array_equal(ds.frank_wolfe(f, P, lmo="paper").x, ds.frank_wolfe(f, P).x)


def test_matchings_are_solved_as_linear_programs():
    P = ds.MatchingPolytope([(0, 0), (0, 1), (1, 0)], n_left=2, n_right=2)
    f = ds.Quadratic(-np.eye(3), [3.0, 2.0, 2.0])
    assert ds.frank_wolfe(f, P, lmo="paper").value == pytest.approx(ds.frank_wolfe(f, P).value, rel=1e-12)
