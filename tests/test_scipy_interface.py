"""`scipy.optimize.minimize` with a method of the package: programs written for SciPy's own methods run unchanged."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint, OptimizeResult, OptimizeWarning, minimize

import drsub_fast as ds
from drsub_fast.scipy_interface import BROKEN_CONSTRAINT, WRONG_GRADIENT

METHOD = ds.scipy_method("fully-corrective-frank-wolfe")


def convex_problem(seed=0, n=4, m=3):
    """A minimisation with a positive Hessian, so that its negative is DR-submodular."""
    rng = np.random.default_rng(seed)
    H = rng.random((n, n)) + n * np.eye(n)
    H = H + H.T
    h = -n * rng.random(n) * 3
    A, b = rng.random((m, n)), np.ones(m)
    return H, h, A, b


def quadratic(seed=0):
    H, h, A, b = convex_problem(seed)
    return (lambda x: x @ H @ x / 2 + h @ x), (lambda x: H @ x + h), A, b


def test_the_maximum_of_the_negative():
    H, h, A, b = convex_problem()
    constraints = [LinearConstraint(A[:2], ub=b[:2]), LinearConstraint(scipy.sparse.csr_array(A[2:]), ub=b[2:])]
    result = minimize(
        lambda x, shift: x @ H @ x / 2 + h @ x + shift, np.zeros(4), args=(2.0,), jac=lambda x, shift: H @ x + h,
        bounds=Bounds(0.0, 1.0), constraints=constraints, tol=1e-7, method=METHOD,
    )  # fmt: skip
    reference = minimize(
        lambda x: x @ H @ x / 2 + h @ x + 2.0, np.zeros(4), jac=lambda x: H @ x + h, bounds=[(0, 1)] * 4,
        constraints=LinearConstraint(A, ub=b), method="SLSQP", options={"ftol": 1e-12},
    )  # fmt: skip
    assert isinstance(result, OptimizeResult)
    assert result.fun == pytest.approx(reference.fun, rel=1e-6)
    assert np.allclose(result.jac, H @ result.x + h)
    assert (result.success, result.status) == (True, 0)
    assert result.lower_bound <= result.fun
    assert result.nfev > 0
    assert result.njev > 0
    assert result.maxcv <= 1e-9
    assert result.guarantee.ratio is None


@pytest.mark.parametrize("method", ["auto", "frank-wolfe", "fully-corrective-frank-wolfe", "projected-gradient"])
def test_programs_for_slsqp_and_l_bfgs_b_run_unchanged(method):
    fun, jac, A, b = quadratic()
    rows = [{"type": "ineq", "fun": lambda x, i=i: b[i] - A[i] @ x} for i in range(3)]
    total = {"type": "eq", "fun": lambda x, t: x.sum() - t, "args": (1.5,)}
    programs = [
        dict(jac=jac, bounds=[(0, 1)] * 4, constraints=rows, options={"maxiter": 200, "ftol": 1e-9, "disp": False}),
        dict(bounds=[(0, 1)] * 4, constraints={"type": "ineq", "fun": lambda x: b - A @ x, "jac": lambda x: -A}),
        dict(jac=jac, bounds=Bounds(0.1, 0.9), callback=lambda x: None, options={"gtol": 1e-9, "maxiter": 300}),
        dict(bounds=[(0.0, 0.7)] * 4, options={"eps": 1e-7, "ftol": 1e-10}),
        dict(jac=jac, bounds=[(0, 1)] * 4, constraints=[total]),
        dict(jac=jac, bounds=[(0, 1)] * 4, constraints=(rows[0], LinearConstraint(A[1:], ub=b[1:])), tol=1e-9),
    ]  # fmt: skip
    for program in programs:
        own = "SLSQP" if "constraints" in program else "L-BFGS-B"
        theirs = minimize(fun, np.full(4, 0.2), method=own, **program)
        ours = minimize(fun, np.full(4, 0.2), method=ds.scipy_method(method), **program)
        slack = 2e-2 if method in ("frank-wolfe", "projected-gradient") else 1e-5
        assert ours.fun <= theirs.fun + slack * abs(theirs.fun)
        assert ours.maxcv <= 1e-7
        assert ours.status in (0, 1)


def test_jac_true_returns_both():
    fun, jac, *_ = quadratic()
    result = minimize(lambda x: (fun(x), jac(x)), np.zeros(4), jac=True, bounds=[(0, 1)] * 4, method=METHOD)
    assert result.success
    assert result.fun == pytest.approx(minimize(fun, np.zeros(4), jac=jac, bounds=[(0, 1)] * 4).fun, rel=1e-6)


@pytest.mark.parametrize("method", ["auto", "frank-wolfe"])
def test_a_function_is_never_called_outside_its_bounds(method):
    lower, upper = np.array([0.5, 0.0, 0.2]), np.array([1.0, 0.3, 0.2])
    seen = []

    def fun(x):
        seen.append(x)
        return -np.log1p(x).sum() if ((x >= lower) & (x <= upper)).all() else np.nan

    result = minimize(fun, lower, bounds=list(zip(lower, upper, strict=True)), method=ds.scipy_method(method))
    assert np.isfinite([fun(x) for x in list(seen)]).all()
    np.testing.assert_allclose(result.x, upper, atol=1e-6)


def test_x0_is_one_of_the_starts_of_the_default():
    # -inf at 0, where the other starts begin.
    @np.errstate(divide="ignore")
    def fun_and_jac(x):
        return -np.log(x).sum(), -1.0 / x

    result = minimize(fun_and_jac, [0.3, 0.4], jac=True, bounds=[(0, 1), (0, 1)],
                      constraints=LinearConstraint([[1.0, 1.0]], ub=1.0), method=ds.scipy_method())  # fmt: skip
    assert result.fun == pytest.approx(2.0 * np.log(2.0), rel=1e-5)


def test_an_x0_outside_the_set_is_moved_into_it():
    fun, jac, A, b = quadratic()
    result = minimize(fun, np.full(4, 5.0), jac=jac, bounds=[(0, 1)] * 4, constraints=LinearConstraint(A, ub=b),
                      method=METHOD)  # fmt: skip
    assert result.success


def test_callbacks_of_both_signatures():
    seen = []

    def by_point(x):
        seen.append(x)

    def by_result(intermediate_result):
        seen.append(intermediate_result.fun)
        raise StopIteration

    options = {"bounds": [(1.0, 2.0)], "jac": lambda x: 2 * (x - 1.5), "options": {"max_iter": 3}}
    for callback in (by_point, by_result):
        result = minimize(
            lambda x: (x[0] - 1.5) ** 2, [1.0], callback=callback, method=ds.scipy_method("frank-wolfe"), **options
        )
    assert seen[0].shape == (1,)
    assert 1.0 <= seen[0][0] <= 2.0
    assert (result.status, result.success) == (99, False)


def test_status_numbers_are_those_of_scipy():
    fun, jac, *_ = quadratic()
    result = minimize(fun, np.zeros(4), jac=jac, bounds=[(0, 1)] * 4, method=ds.scipy_method("frank-wolfe"),
                      options={"maxiter": 2, "ftol": 0.0})  # fmt: skip
    assert (result.status, result.success, result.nit) == (1, False, 2)


def test_what_a_method_cannot_take_is_refused_by_name():
    covering = LinearConstraint([[1.0, 1.0]], lb=0.5)
    options = {"bounds": [(0, 1), (0, 1)], "jac": lambda x: -np.ones(2)}
    with pytest.raises(ds.UnsupportedError, match="row 0 has a lower side"):
        minimize(lambda x: -x.sum(), [0.0, 0.0], constraints=covering, method=ds.scipy_method("two-phase-frank-wolfe"),
                 **options)  # fmt: skip
    ball = NonlinearConstraint(lambda x: x @ x, 0.0, 1.0)
    with pytest.raises(ds.UnsupportedError, match=r"is not a scipy\.optimize\.LinearConstraint"):
        minimize(lambda x: -x.sum(), [0.0, 0.0], constraints=[ball], method=ds.scipy_method(), **options)
    disc = {"type": "ineq", "fun": lambda x: 1.0 - x @ x}
    with pytest.raises(ds.UnsupportedError, match="constraint 1 is not linear"):
        minimize(lambda x: -x.sum(), [0.0, 0.0], constraints=[covering, disc], method=ds.scipy_method(), **options)
    for wrong, error, words in (
        ({"type": "leq", "fun": sum}, ValueError, "'ineq', 'eq'"),
        ({"type": "eq"}, TypeError, "fun must be callable"),
    ):
        with pytest.raises(error, match=words):
            minimize(lambda x: -x.sum(), [0.0, 0.0], constraints=wrong, method=ds.scipy_method(), **options)
    with pytest.raises(TypeError, match="stepsize"):
        minimize(lambda x: -x.sum(), [0.0, 0.0], method=ds.scipy_method(), options={"stepsize": 1}, **options)
    with pytest.raises(ValueError, match="unknown method"):
        ds.scipy_method("SLSQP")


def test_a_constraint_that_only_looked_linear_is_a_failure():
    def fun(x):  # linear but in one corner, which no probe meets
        return np.array([1.0 if (x > 0.999).all() else -1.0]) * -1.0

    result = minimize(lambda x: -x.sum(), [0.0, 0.0], jac=lambda x: -np.ones(2), bounds=[(0, 1)] * 2,
                      constraints={"type": "ineq", "fun": fun}, method=METHOD)  # fmt: skip
    assert (result.success, result.status) == (False, BROKEN_CONSTRAINT)
    assert "constraint 0 is broken" in result.message
    assert result.maxcv == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", ["sign", "size", "one entry", "another function"])
def test_a_jac_that_differences_of_fun_contradict_is_a_failure(wrong):
    fun, jac, A, b = quadratic()
    jacs = {
        "sign": lambda x: -jac(x), "size": lambda x: 2.0 * jac(x), "one entry": lambda x: jac(x) + 2.0 * np.eye(4)[1],
        "another function": lambda x: 2.0 * x - 1.0,
    }  # fmt: skip
    options = {"bounds": [(0, 1)] * 4, "constraints": LinearConstraint(A, ub=b), "method": METHOD}
    right = minimize(fun, np.zeros(4), jac=jac, **options)
    assert right.success
    result = minimize(fun, np.zeros(4), jac=jacs[wrong], **options)
    assert (result.success, result.status) == (False, WRONG_GRADIENT)
    assert result.message.startswith("jac is not the gradient of fun: along one line it says ")


def test_scales_constants_kinks_and_missing_values_are_no_contradiction():
    fun, jac, A, b = quadratic()
    options = {"bounds": [(0, 1)] * 4, "constraints": LinearConstraint(A, ub=b), "method": METHOD}
    assert minimize(lambda x: 1e9 * fun(x) + 1e15, np.zeros(4), jac=lambda x: 1e9 * jac(x), **options).success
    kinked = minimize(
        lambda x: fun(x) + np.abs(x - 0.3).sum(), np.zeros(4), jac=lambda x: jac(x) + np.sign(x - 0.3), **options
    )
    assert kinked.status != WRONG_GRADIENT
    half = minimize(lambda x: fun(x) if (A @ x <= b + 1e-9).all() else np.nan, np.zeros(4), jac=jac, **options)
    assert half.success


def test_what_is_not_used_is_named():
    fun, jac, *_ = quadratic()
    with pytest.warns(RuntimeWarning, match="does not use Hessian information"):
        minimize(fun, np.zeros(4), jac=jac, hess=lambda x: np.eye(4), bounds=[(0, 1)] * 4, method=METHOD)
    with pytest.warns(OptimizeWarning, match="'maxcor' has no effect"):
        minimize(fun, np.zeros(4), jac=jac, bounds=[(0, 1)] * 4, method=METHOD, options={"maxcor": 20})


def test_disp_prints_and_the_method_pickles(capsys):
    fun, jac, *_ = quadratic()
    method = pickle.loads(pickle.dumps(METHOD))
    assert method == METHOD
    minimize(fun, np.zeros(4), jac=jac, bounds=[(0, 1)] * 4, method=method, options={"disp": True})
    assert "calls of fun" in capsys.readouterr().out


def test_complex_steps_are_asked_for_by_an_option():
    """SciPy drops ``jac="cs"``, and the message says so; the option gives gradients to the last digits."""
    kinds = set()

    def fun(x):
        kinds.add(x.dtype.kind)
        return -np.sqrt(1.0 + x).sum()

    given = {"bounds": [(0, 0.5)] * 2, "method": ds.scipy_method()}
    r = minimize(fun, [0.0, 0.0], jac="cs", **given)
    assert kinds == {"f"}
    assert "differences='cs'" in r.message
    r = minimize(fun, [0.0, 0.0], options={"differences": "cs"}, **given)
    assert kinds == {"f", "c"}
    assert r.jac == pytest.approx([-0.5 / np.sqrt(1.5)] * 2, rel=1e-15)
    assert "differences" not in r.message
    with pytest.raises(ValueError, match="complex steps need a fun"):
        minimize(lambda x: float(np.abs(x).sum()), [0.0, 0.0], options={"differences": "cs"}, **given)
    with pytest.raises(ValueError, match="unknown differences '3-point'"):
        minimize(fun, [0.0, 0.0], options={"differences": "3-point"}, **given)
    assert "differences" not in minimize(fun, [0.0, 0.0], jac=lambda x: -0.5 / np.sqrt(1.0 + x), **given).message


def test_a_record_is_a_method_and_the_method_with_proof_is_refused_by_name():
    with pytest.raises(ds.UnsupportedError, match=r"call drsub_fast\.global_maximum"):
        ds.scipy_method("global-maximum")
    with pytest.raises(ValueError, match="unknown method 'steepest'"):
        ds.scipy_method("steepest")
    answers = [
        scipy.optimize.minimize(
            lambda x: 0.5 * x @ x - x.sum(), np.zeros(2), jac=lambda x: x - 1.0, bounds=[(0, 1)] * 2,
            method=ds.scipy_method(method),
        )
        for method in ("frank-wolfe", ds.METHODS["frank-wolfe"])
    ]  # fmt: skip
    assert np.array_equal(answers[0].x, answers[1].x)
    assert str(ds.scipy_method(ds.METHODS["frank-wolfe"])) == "scipy_method('frank-wolfe')"
