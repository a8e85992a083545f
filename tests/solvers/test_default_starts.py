"""The default number of starts: as many as a budget of counted operations pays."""

import zipfile

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine import jit
from drsub_fast.problems.files import read_problem
from drsub_fast.solvers.multi_start import default_starts, start_costs, starts_wanted
from drsub_fast.solvers.starts import ROUND, solve_starts


def trap(n, deep):
    """Over the simplex, f has its maximum at vertex ``deep`` and local ones at all others."""
    values = np.full(n, 1.0)
    values[deep] = 0.25
    H = -6.0 * np.ones((n, n))
    H[np.diag_indices(n)] = -2.0 * values
    return ds.Quadratic(H, np.zeros(n)), ds.Simplex(n)


@pytest.mark.parametrize("n", [4, 40])
def test_cheap_starts_find_the_one_vertex_among_many(n):
    f, P = trap(n, n - 2)
    r = ds.multi_start(f, P)
    assert r.value == pytest.approx(-0.25, abs=1e-9)
    assert r.n_starts > default_starts(n)
    assert ds.multi_start(f, P).n_starts == r.n_starts


@pytest.mark.parametrize("n", [50, 500])
@pytest.mark.parametrize("seed", range(3))
def test_a_standard_quadratic_program_is_not_worse_than_its_best_vertex(n, seed):
    Q = np.random.default_rng((seed, n)).random((n, n))
    f = ds.Quadratic(-(Q + Q.T) / 2.0, np.zeros(n))
    assert ds.maximize(f, ds.Simplex(n)).value >= 0.5 * f.hessian_diagonal().max()


@pytest.mark.parametrize(("n", "expected"), [(4, 32), (120, 24)])
def test_starts_that_all_lead_to_one_maximum_are_soon_enough(n, expected):
    r = ds.multi_start(ds.Quadratic(-np.eye(n) - 1.0, np.full(n, 2.0)), ds.Budget(n / 4, np.ones(n)))
    assert (r.n_starts, r.n_best) == (expected, expected)


def test_the_share_of_unseen_maxima_decides():
    # 1 * 2 / (21 * 20) = 0.0048, 1 * 2 / (20 * 19) = 0.0053; 4 * 5 / (64 * 63) = 0.00496, 4 * 5 / (63 * 62) = 0.0051.
    assert starts_wanted(1) == 21
    assert starts_wanted(4) == 64


def test_more_starts_begin_with_the_same_ones():
    assert np.array_equal(start_costs(5, 40, 7)[:16], start_costs(5, 16, 7))


def test_later_starts_look_back_alike_in_threads_and_stacks():
    n = 10
    f, P = ds.instances.FAMILIES["quadratic-uniform"](n, 5, 3)
    few, one, many = (ds.multi_start(f, P, n_starts=k, n_jobs=j) for k, j in ((ROUND, 1), (43, 1), (43, 3)))
    assert one.value >= few.value
    assert np.array_equal(one.x, many.x)
    assert (one.n_lmo, one.n_best) == (many.n_lmo, many.n_best)
    stacked = ds.maximize_stacked(
        H=np.stack([f.H] * 2), h=np.stack([f.h] * 2), A=np.stack([P.A] * 2), b=P.b, upper=P.upper,
        method="multi-start", n_starts=43,
    )  # fmt: skip
    assert stacked.value.tolist() == [one.value] * 2
    assert stacked.n_lmo.tolist() == [one.n_lmo] * 2


def test_a_number_that_is_given_is_kept():
    f, P = trap(12, 3)
    assert ds.multi_start(f, P, n_starts=5).n_starts == 5
    assert ds.maximize(f, P, n_starts=5).n_starts == 5


def test_a_start_of_the_caller_s_own_is_one_more():
    f, P = trap(6, 2)
    r = ds.multi_start(f, P, x0=np.eye(6)[2])
    assert r.value == pytest.approx(-0.25, abs=1e-9)
    assert r.n_starts == ds.multi_start(f, P).n_starts + 1


def test_an_oracle_with_a_solver_has_the_first_starts_only():
    f, _ = trap(5, 1)
    P = ds.GeneralPolytope(A_eq=np.ones((1, 5)), b_eq=[1.0], upper=np.ones(5))
    assert ds.multi_start(f, P).n_starts <= default_starts(5)


def test_the_number_does_not_depend_on_what_is_compiled(compiled, monkeypatch):
    rng = np.random.default_rng(4)
    B = rng.random((10, 10))
    problems = [
        (ds.Quadratic(-B - B.T, 10 * rng.random(10)), ds.Polytope(0.01 + rng.random((5, 10)), np.ones(5))),
        (ds.Softmax(B @ B.T), ds.Budget(3.0, np.ones(10))),
    ]
    compiled = [ds.multi_start(*problem) for problem in problems]
    monkeypatch.setattr(jit, "COMPILE", "never")
    monkeypatch.setattr(solve_starts, "_code", {})
    monkeypatch.setattr(solve_starts, "entries", {})
    for problem, known in zip(problems, compiled, strict=True):
        r = ds.multi_start(*problem)
        assert (r.compiled, known.compiled) == (False, True)
        assert r.n_starts == known.n_starts
        assert r.value == pytest.approx(known.value, rel=1e-12)


@pytest.mark.skipif(jit.COMPILE == "never", reason="one solve takes a minute")
@pytest.mark.parametrize("seed", range(3))
def test_qplib_2712_gets_its_best_known_value(shared_data, tmp_path, seed):
    with zipfile.ZipFile(shared_data / "QPLIB_2712.qplib.zip") as archive:
        archive.extractall(tmp_path)
    problem = read_problem(next(tmp_path.rglob("*.qplib")))
    r = ds.maximize(problem.f, problem.P, seed=seed)
    assert -r.value == pytest.approx(0.012888, abs=1e-8)
