"""The oracle by HiGHS: optimal vertices, warm starts, and no answer in place of a failure."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse
from highspy import _core

from drsub_fast.errors import OracleError
from drsub_fast.lp import highs, rows
from drsub_fast.lp.highs import HighsOracle


def program(n, m, seed):
    rng = np.random.default_rng(seed)
    A, b = 0.01 + rng.random((m, n)), np.ones(m)
    return A, b, (b[:, None] / A).min(axis=0), rng


def test_warm_values_equal_cold_ones_with_moving_bounds():
    A, b, upper, rng = program(20, 12, 0)
    warm = HighsOracle(A, b, upper)
    for _ in range(200):
        cost = rng.standard_normal(20)
        bound = upper * rng.random(20)
        v = warm.maximize(cost, bound)
        cold = HighsOracle(A, b, bound).maximize(cost, bound)
        assert cost @ v == pytest.approx(cost @ cold, rel=1e-11)
        assert (A @ v <= b + 1e-11).all()
        assert (v <= bound).all()


def test_same_cost_again_takes_no_iteration():
    A, b, upper, rng = program(30, 20, 1)
    oracle = HighsOracle(A, b, upper)
    cost = rng.random(30)
    oracle.maximize(cost, upper)
    before = oracle.pivots
    assert before > 0
    oracle.maximize(cost, upper)
    assert oracle.pivots == before


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1.0, 1e7])
def test_cost_scale_does_not_matter(scale):
    A, b, upper, rng = program(16, 16, 2)
    cost = rng.standard_normal(16)
    best = cost @ HighsOracle(A, b, upper).maximize(cost, upper)
    assert cost @ HighsOracle(A, b, upper).maximize(scale * cost, upper) == pytest.approx(best, rel=1e-12)


def test_zero_cost_gives_zero_also_when_warm():
    A, b, upper, rng = program(5, 3, 3)
    oracle = HighsOracle(A, b, upper)
    oracle.maximize(rng.random(5), upper)
    assert not oracle.maximize(np.zeros(5), upper).any()


def test_sparse_dense_and_no_rows_agree():
    A, b, _upper, rng = program(8, 6, 4)
    A *= rng.random(A.shape) < 0.5
    cost = rng.standard_normal(8)
    dense = HighsOracle(A, b, np.ones(8)).maximize(cost, np.ones(8))
    sparse = HighsOracle(scipy.sparse.csr_array(A), b, np.ones(8)).maximize(cost, np.ones(8))
    assert cost @ dense == pytest.approx(cost @ sparse, rel=1e-12)
    free = HighsOracle(np.zeros((0, 8)), np.zeros(0), np.ones(8)).maximize(cost, np.ones(8))
    np.testing.assert_array_equal(free, cost > 0)


@pytest.mark.parametrize("m", [0, 2])
def test_rows_without_an_entry(m):
    for A in (np.zeros((m, 3)), scipy.sparse.csc_array((m, 3)), scipy.sparse.csc_array(np.zeros((m, 3)))):
        v = HighsOracle(A, np.ones(m), np.ones(3)).maximize(np.array([1.0, -1.0, 2.0]), np.ones(3))
        np.testing.assert_array_equal(v, [1.0, 0.0, 1.0])


def test_equations_and_lower_bounds():
    oracle = HighsOracle(
        np.array([[1.0, 1.0]]), np.array([1.0]), np.ones(2), row_lower=np.array([1.0]), lower=np.array([0.25, 0.0])
    )
    np.testing.assert_allclose(oracle.maximize(np.array([-1.0, -2.0]), np.ones(2)), [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(oracle.maximize(np.array([-2.0, -1.0]), np.ones(2)), [0.25, 0.75], atol=1e-12)
    assert oracle.maximize(np.zeros(2), np.ones(2)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("shift", [-8.9e-16, -1e-7, 8.9e-16])
def test_bounds_around_zero_are_clipped(shift):
    A, b, upper, _ = program(4, 3, 5)
    bound = upper.copy()
    bound[1] = shift
    v = HighsOracle(A, b, upper).maximize(np.ones(4), bound)
    assert v[1] <= max(shift, 0.0)
    assert np.ones(4) @ v > 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_costs_that_are_not_finite_are_refused(bad):
    A, b, upper, _ = program(4, 3, 6)
    with pytest.raises(OracleError, match="not finite"):
        HighsOracle(A, b, upper).maximize(np.array([1.0, bad, 1.0, 1.0]), upper)
    with pytest.raises(OracleError, match="NaN"):
        HighsOracle(A, b, upper).maximize(np.ones(4), np.full(4, np.nan))


def test_infeasible_program_raises_with_the_status():
    oracle = HighsOracle(np.ones((1, 2)), np.ones(1), np.ones(2), lower=np.ones(2))
    with pytest.raises(OracleError) as caught:
        oracle.maximize(np.ones(2), np.ones(2))
    assert caught.value.status == "Infeasible"


def test_time_limit_is_told_apart_and_the_oracle_recovers():
    A, b, upper, rng = program(120, 120, 7)
    oracle = HighsOracle(A, b, upper)
    cost = rng.random(120)
    with pytest.raises(OracleError) as caught:
        oracle.maximize(cost, upper, time_limit=0.0)
    assert caught.value.status == "Time limit reached"
    best = cost @ HighsOracle(A, b, upper).maximize(cost, upper)
    assert cost @ oracle.maximize(cost, upper, time_limit=60.0) == pytest.approx(best, rel=1e-10)


def test_a_basis_that_leads_nowhere_is_left():
    class FirstRunLost:
        def __init__(self, model):
            self._model, self.lost = model, True

        def __getattr__(self, name):
            return getattr(self._model, name)

        def getModelStatus(self):
            return _core.HighsModelStatus.kUnknown if self.lost else self._model.getModelStatus()

        def clearSolver(self):
            self.lost = False
            return self._model.clearSolver()

    A, b, upper, rng = program(20, 12, 3)
    oracle, cost = HighsOracle(A, b, upper), rng.random(20)
    expected = oracle.maximize(cost, upper)
    oracle._model = FirstRunLost(oracle._model)
    np.testing.assert_allclose(oracle.maximize(cost, upper), expected, atol=1e-12)
    assert not oracle._model.lost


def test_multipliers_are_zero_where_no_cost_can_gain():
    A, b, upper, _ = program(6, 3, 2)
    oracle = HighsOracle(A, b, upper)
    oracle.maximize(np.ones(6), upper)
    assert oracle.row_duals().any()
    oracle.maximize(-np.ones(6), upper)
    assert not oracle.row_duals().any()


def test_basis_names_as_many_tight_rows_as_basic_columns():
    A, b, upper, rng = program(10, 7, 8)
    oracle = HighsOracle(A, b, upper)
    v = oracle.maximize(rng.random(10), upper)
    columns, rows = oracle.basis()
    assert (columns == 1).sum() == (rows != 1).sum()
    np.testing.assert_allclose((A @ v)[rows != 1], b[rows != 1], atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_another_user_of_highs_with_other_threads(threads):
    code = f"""
        import highspy, numpy as np
        other = highspy._core._Highs()
        other.setOptionValue("output_flag", False)
        other.setOptionValue("threads", {threads})
        other.passModel(1, 1, 1, 1, -1, 0.0, np.ones(1), np.zeros(1), np.ones(1), -np.ones(1), np.ones(1),
                        np.array([0, 1], np.int32), np.zeros(1, np.int32), np.ones(1), np.zeros(1, np.int32))
        other.run()
        from drsub_fast.errors import OracleError
        from drsub_fast.lp.highs import HighsOracle
        oracle = HighsOracle(np.array([[1.0, 2.0]]), np.array([2.0]), np.ones(2))
        try:
            v = oracle.maximize(np.ones(2), np.ones(2))
        except OracleError:
            raise SystemExit(0)
        assert np.allclose(v, [1.0, 0.5]), v
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_program_whose_factors_would_fill_up_goes_to_the_first_order_method(monkeypatch):
    rng = np.random.default_rng(1)
    n, m = 120, 60
    A = scipy.sparse.csr_matrix((rng.random((m, n)) + 0.1) * (rng.random((m, n)) < 0.1))
    upper, cost = 2.0 * rng.random(n), rng.standard_normal(n)
    exact, first_order = (HighsOracle(A, np.ones(m), upper) for _ in range(2))
    for _ in range(3):
        best = cost @ exact.maximize(cost, upper)
        with monkeypatch.context() as patch:
            patch.setattr("drsub_fast.lp.highs._LARGE", 10)
            patch.setattr("drsub_fast.lp.highs._FILLED", 0)
            v = first_order.maximize(cost, upper)
        assert cost @ v == pytest.approx(best, rel=1e-7)
        assert (A @ v <= 1.0 + 1e-12).all()
        assert ((v >= 0.0) & (v <= upper)).all()
        cost = cost + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-7])
def test_where_the_first_order_method_is_too_coarse_the_interior_point_takes_over(monkeypatch, tolerance):
    rng = np.random.default_rng(170)
    n, m = 120, 60
    A = scipy.sparse.csr_array(rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.1))
    upper, cost = np.ones(n), rng.standard_normal(n)
    side = A @ (0.5 * rng.random(n))
    best = cost @ HighsOracle(A, side, upper, row_lower=side).maximize(cost, upper)
    coarse = {name: tolerance if "tolerance" in name else value for name, value in highs._BY_STEPS.items()}
    monkeypatch.setattr(highs, "_LARGE", 10)
    monkeypatch.setattr(highs, "_FILLED", 0)
    monkeypatch.setattr(highs, "_BY_STEPS", coarse)
    v = HighsOracle(A, side, upper, row_lower=side).maximize(cost, upper)
    assert cost @ v == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(A @ v, side, atol=1e-9)


def test_multipliers_are_in_the_user_s_units():
    rng = np.random.default_rng(0)
    A = rng.random((4, 6)) * np.array([[1e-3], [1.0], [1e6], [10.0]])
    b, upper, cost = 0.3 * A.sum(axis=1), np.full(6, 7.0), 1e4 * rng.random(6)
    oracle = HighsOracle(A, b, upper)
    v, y = oracle.maximize(cost, upper), oracle.row_duals()
    # Strong duality: the multipliers prove that v is optimal.
    assert y.min() >= 0.0
    assert y @ b + np.maximum(cost - A.T @ y, 0.0) @ upper == pytest.approx(cost @ v, rel=1e-9)


_ANOTHER_METHOD = """
import numpy as np, scipy.sparse
from drsub_fast.lp import highs, rows

highs._LARGE, highs._SHARE, highs._LONGEST_PAUSE = 0, 0.01, 0  # first the simplex, then the interior point
rng = np.random.default_rng(0)
n, m = 600, 300
A = scipy.sparse.random_array((m, n), density=0.01, rng=rng, format="csr")
b, upper = 0.3 * A.sum(axis=1) + 0.1, np.ones(n)
warm, runs = highs.HighsOracle(A, b, upper), []
once = warm._run_once
warm._run_once = lambda: runs.append(once()) or runs[-1]
for k in range(60):
    cost, bound = rng.standard_normal(n), 1.0 - k / 60 * rng.random(n)
    if k % 2:
        cost = warm.direction + 0.01 * cost
    v, cold = warm.maximize(cost, bound), highs.HighsOracle(A, b, bound).maximize(cost, bound)
    assert abs(cost @ v - cost @ cold) <= 1e-7 * abs(cost @ cold), k
    assert (A @ v <= b + 1e-12).all() and (v <= bound).all()
print(len(runs) > 100)
"""


def test_the_simplex_goes_on_from_the_basis_of_the_interior_point():
    run = subprocess.run([sys.executable, "-c", _ANOTHER_METHOD], capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "True\n"


def test_a_simplex_that_does_not_end_within_its_share_is_tried_less_often(monkeypatch):
    A, b, upper, rng = program(60, 40, 5)
    oracle, runs = HighsOracle(A, b, upper), []
    monkeypatch.setattr(highs, "_LARGE", 0)
    monkeypatch.setattr(highs, "_SHARE", 0.01)
    once = oracle._run_once
    monkeypatch.setattr(oracle, "_run_once", lambda: runs.append(oracle._pause) or once())
    for _ in range(12):
        cost = rng.standard_normal(60)
        v = oracle.maximize(cost, upper)
        assert cost @ v == pytest.approx(cost @ HighsOracle(A, b, upper).maximize(cost, upper), rel=1e-9)
    # Twice in calls 1, 3 and 7, once in the others.
    assert len(runs) == 12 + 3
    oracle.maximize(cost, upper)
    oracle._to_skip = 0
    runs.clear()
    oracle.maximize(cost, upper)
    assert len(runs) == 1, "the last basis is optimal"
    assert oracle._pause == 0


def test_broken_rows_are_mended_by_products_as_by_a_dense_matrix(monkeypatch):
    rng = np.random.default_rng(2)
    A = scipy.sparse.csr_array(rng.standard_normal((30, 80)) * (rng.random((30, 80)) < 0.2))
    x = rng.random(80)
    side, lower, upper = A @ x, np.zeros(80), np.ones(80)
    outside = np.clip(x + 1e-8 * rng.standard_normal(80), 0.0, 1.0)
    arguments = A, side, side, upper, lower, np.ones(80)
    dense = rows.move_into_rows(outside, *arguments)
    monkeypatch.setattr(rows, "_MANY_ENTRIES", 0)
    by_products = rows.move_into_rows(outside, *arguments)
    np.testing.assert_allclose(by_products, dense, atol=1e-12)
    assert (
        rows.breaches(A, by_products, side, side).max() <= rows.PRECISION < rows.breaches(A, outside, side, side).max()
    )
