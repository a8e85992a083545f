"""User objectives: Python pairs and compiled functions; the numeric DR check."""

import math
import pickle

import numpy as np
import pytest
from numba import njit
from numba.core import event

import drsub_fast as ds
from drsub_fast.engine.jit import COMPILE
from drsub_fast.objectives.base import contract, derivative_along, evaluate, exact_step, objective_carve, objective_size
from drsub_fast.objectives.user import OBJECTIVE_PARAMS, compiled_params

H = np.array([[-1.0, -0.5, -0.2], [-0.5, -2.0, -0.1], [-0.2, -0.1, -0.5]])
h = np.array([1.0, 2.0, 0.3])


needs_compiler = pytest.mark.skipif(COMPILE == "never", reason="kernels are not compiled")


def pair(x):
    return 0.5 * x @ H @ x + h @ x, H @ x + h


def value_only(x):
    return pair(x)[0]


def gradient_only(x):
    return pair(x)[1]


@njit
def compiled_pair(x, grad, H, h):
    grad[:] = H @ x
    value = 0.5 * (grad @ x) + h @ x
    grad += h
    return value


@njit
def concave_sum(x, grad):
    grad[:] = 1.0 / (1.0 + x.sum())
    return np.log1p(x.sum())


def kinds():
    return [
        ds.CallableObjective(pair, 3),
        ds.CallableObjective(value_only, 3, gradient_only),
        ds.CompiledObjective(compiled_pair, (H, h), 3),
    ]


@pytest.mark.parametrize("f", kinds(), ids=["pair", "two functions", "compiled"])
def test_user_objectives_agree_with_the_quadratic(f):
    x = np.array([0.2, 0.7, 1.0])
    reference = ds.Quadratic(H, h)
    assert f.value(x) == pytest.approx(reference.value(x), rel=1e-14)
    np.testing.assert_allclose(f.gradient(x), reference.gradient(x), rtol=1e-14)


@pytest.mark.parametrize("f", kinds(), ids=["pair", "two functions", "compiled"])
def test_user_objectives_pickle(f):
    copy = pickle.loads(pickle.dumps(f))
    x = np.array([0.2, 0.7, 1.0])
    assert copy.value(x) == f.value(x)
    assert type(copy.params) is type(f.params)


def test_declarations_survive_pickling():
    f = ds.CompiledObjective(concave_sum, (), 2, unit_box=True, nonnegative=True, monotone=True)
    copy = pickle.loads(pickle.dumps(f))
    assert (copy.unit_box, copy.nonnegative_on(np.ones(2)), copy.monotone_on(np.ones(2))) == (True, True, True)
    assert ds.CallableObjective(pair, 3).nonnegative_on(np.ones(3)) is None


def test_python_objective_runs_the_default_kernels():
    f = ds.CallableObjective(pair, 3)
    n_floats, n_integers = objective_size(f.params)
    work = objective_carve(f.params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    x, v = np.zeros(3), np.array([1.0, 1.0, 0.5])
    value = evaluate(f.params, work, x)
    gamma = exact_step(f.params, work, x, v, 1.0, value)
    assert gamma == pytest.approx(-(h @ v) / (v @ H @ v), rel=1e-9)
    assert derivative_along(f.params, work, x, v, gamma)[1] == pytest.approx(0.0, abs=1e-9)
    assert contract(f.params, work, x, v, gamma, value) == pytest.approx(pair(gamma * v)[0])
    np.testing.assert_allclose(x, gamma * v)


@needs_compiler
def test_compiled_objective_reuses_what_is_compiled():
    first = ds.CompiledObjective(compiled_pair, (H, h), 3)
    second = ds.CompiledObjective(compiled_pair, (np.asfortranarray(2 * H), 2 * h), 3)
    assert type(first.params) is type(second.params) is compiled_params(compiled_pair, *OBJECTIVE_PARAMS)
    x = np.ones(3)
    first.value(x)
    before = len(compiled_pair.signatures)
    assert second.value(x) == pytest.approx(2 * first.value(x))
    assert len(compiled_pair.signatures) == before


def with_rate(rate):
    @njit
    def function(x, grad):
        grad[:] = rate / (1.0 + x.sum())
        return rate * np.log1p(x.sum())

    return ds.CompiledObjective(function, (), 2)


@needs_compiler
def test_closures_that_do_the_same_share_their_code():
    P, first = ds.Box(np.ones(2)), with_rate(0.5)
    expected = ds.nonmonotone_frank_wolfe(first, P).value
    with event.install_recorder("numba:compile") as recorder:
        assert ds.nonmonotone_frank_wolfe(with_rate(0.5), P).value == expected
    assert not recorder.buffer
    assert type(with_rate(0.5).params) is type(first.params) is not type(with_rate(0.25).params)


def test_python_function_sees_a_copy():
    def careless(x):
        value, grad = pair(x)
        x[:] = 7.0
        return value, grad

    x = np.array([0.2, 0.7, 1.0])
    ds.CallableObjective(careless, 3).value(x)
    np.testing.assert_array_equal(x, [0.2, 0.7, 1.0])


def test_user_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"gradient has shape \(2,\), expected \(3,\)"):
        ds.CallableObjective(lambda x: (0.0, x[:2]), 3).value(np.zeros(3))
    with pytest.raises(TypeError, match="args must be a tuple"):
        ds.CompiledObjective(compiled_pair, [H, h], 3)
    with pytest.raises(TypeError, match="gradient must be a function"):
        ds.CallableObjective(pair, 3, gradient=1.0)


@needs_compiler
def test_a_function_without_a_compiler_is_refused():
    with pytest.raises(TypeError, match=r"decorate it with numba\.njit"):
        ds.CompiledObjective(pair, (), 3)


def test_check_dr_accepts_a_dr_submodular_function():
    check = ds.Quadratic(H, h).check_dr()
    assert check
    assert check.pair is None


def test_check_dr_names_the_pair_and_the_point():
    bad = H.copy()
    bad[0, 2] = bad[2, 0] = 0.3
    check = ds.CallableObjective(lambda x: (0.5 * x @ bad @ x + h @ x, bad @ x + h), 3).check_dr(2.0 * np.ones(3))
    assert not check
    assert set(check.pair) == {0, 2}
    assert check.rate == pytest.approx(0.3)
    assert (check.x <= 2.0).all()
    assert "the derivative in x[" in check.message


def test_check_dr_stays_in_the_unit_box():
    def steep_above_one(x):
        return -np.abs(x - 1.0).sum(), np.where(x > 1.0, 9.0, 1.0)

    assert ds.CallableObjective(steep_above_one, 2, unit_box=True).check_dr([3.0, 3.0])
    assert not ds.CallableObjective(steep_above_one, 2).check_dr([3.0, 3.0])


def test_check_dr_sees_a_convex_coordinate():
    # Submodular but not DR: positive curvature along a single coordinate.
    check = ds.CallableObjective(lambda x: (x[1] ** 2 - x[0], np.array([-1.0, 2.0 * x[1]])), 2).check_dr()
    assert check.pair == (1, 1)


@pytest.mark.parametrize("f", kinds()[::2], ids=["pair", "compiled"])
def test_solvers_take_user_objectives(f):
    P = ds.Budget(1.5, np.ones(3))
    run = ds.nonmonotone_frank_wolfe(f, P, max_iter=20)
    reference = ds.nonmonotone_frank_wolfe(ds.Quadratic(H, h), P, max_iter=20)
    assert run.value == pytest.approx(reference.value, rel=1e-12)
    np.testing.assert_allclose(run.trace.value, reference.trace.value, rtol=1e-12)


def test_python_objective_in_the_exact_step():
    P = ds.Budget(1.5, np.ones(3))
    run = ds.frank_wolfe(ds.CallableObjective(pair, 3), P, step_size="exact", max_iter=500, tol=1e-3)
    assert run.fw_gap <= 1e-3


def test_an_error_in_the_users_function_reaches_the_user():
    def broken(x):
        raise ZeroDivisionError("in the user's function")

    with pytest.raises(ZeroDivisionError, match="in the user's function"):
        ds.nonmonotone_frank_wolfe(ds.CallableObjective(broken, 3), ds.Box(np.ones(3)))


def test_bounds_are_claimed_only_where_diminishing_returns_are_declared():
    P = ds.Budget(1.5, np.ones(3))
    reference = ds.nonmonotone_frank_wolfe(ds.Quadratic(H, h), P, max_iter=5)
    silent = ds.nonmonotone_frank_wolfe(ds.CallableObjective(pair, 3, nonnegative=True), P, max_iter=5)
    declared = ds.nonmonotone_frank_wolfe(
        ds.CallableObjective(pair, 3, dr_submodular=True, nonnegative=True), P, max_iter=5
    )
    refuted = ds.nonmonotone_frank_wolfe(ds.CallableObjective(pair, 3, dr_submodular=False), P, max_iter=5)
    assert silent.upper_bound == refuted.upper_bound == np.inf
    assert declared.upper_bound == pytest.approx(reference.upper_bound)
    assert (silent.guarantee.holds, declared.guarantee.holds, refuted.guarantee.holds) == (None, "declared", False)
    assert "DR-submodular" in silent.guarantee.premise


def test_compiled_functions_may_use_all_of_math():
    @njit
    def wave(x, grad):
        grad[:] = -math.sin(x[0])
        return math.cos(x[0])

    f = ds.CompiledObjective(wave, (), n=1)
    assert f.value([0.5]) == pytest.approx(math.cos(0.5), abs=1e-15)
    assert f.gradient([0.5]) == pytest.approx(-math.sin(0.5), abs=1e-15)
