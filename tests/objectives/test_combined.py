"""Sums and multiples of objectives, feature-based functions, functions that are declared concave."""

import pickle

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast import extend
from drsub_fast.claims.premises import property_holds
from drsub_fast.objectives.combined import Sum

pytestmark = pytest.mark.usefixtures("interpreted")

N = 4
ONES = np.ones(N)
RNG = np.random.default_rng(0)
W = RNG.random((N, 3)) * (RNG.random((N, 3)) < 0.8)
Q = ds.Quadratic(-np.ones((N, N)) - np.eye(N), 2.0 * ONES)
SOFTMAX = ds.Softmax(2.0 * np.eye(N) + 0.2)
ROOTS = ds.FeatureBased(W)
LOGS = ds.FeatureBased(W, "log", [1.0, 0.0, 2.0])
PYTHON = ds.CallableObjective(lambda x: (float(np.log1p(x).sum()), 1.0 / (1.0 + x)), N, concave=True, monotone=True)
SUMS = {
    "quadratic and softmax": Q + SOFTMAX,
    "with weights": 0.5 * ROOTS + 2.0 * SOFTMAX,
    "three": Q + LOGS + 3.0 * ds.Multilinear.cut(1.0 - np.eye(N)),
    "with Python": Q + 2.0 * PYTHON,
    "a multiple": 2.5 * ROOTS,
    "mean field": ds.MeanField(ds.Multilinear.facility_location(W)) + LOGS,
}


def total(f, x):
    return sum(weight * part.value(x) for part, weight in zip(f.parts, f.weights, strict=True))


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_sums_and_pass_the_trials(name):
    f = SUMS[name]
    for x in RNG.random((3, N)):
        assert f.value(x) == pytest.approx(total(f, x), rel=1e-12)
    extend.check_objective(f)


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_units(factor):
    f, P = factor * (Q + LOGS), ds.Budget(2.0, ONES)
    r, s = ds.maximize(f, P), ds.maximize(Q + LOGS, P)
    assert r.value / factor == pytest.approx(s.value, rel=1e-6)
    assert r.upper_bound >= r.value
    assert r.upper_bound / factor == pytest.approx(s.upper_bound, rel=1e-4)


def test_plain_quadratics_stay_quadratics():
    f = Q + 2.0 * Q
    assert type(f) is ds.Quadratic
    np.testing.assert_array_equal(f.H, 3.0 * Q.H)
    assert ds.global_maximum(f, ds.Box(ONES)).status is ds.Status.OPTIMAL
    assert (Q + SOFTMAX + Q).parts[0].H[0, 0] == 2.0 * Q.H[0, 0]
    sparse = pytest.importorskip("scipy.sparse").csr_array(Q.H)
    assert (ds.Quadratic(sparse, Q.h) + Q).value(0.5 * ONES) == pytest.approx(2.0 * Q.value(0.5 * ONES))
    factored = ds.Quadratic(factor=W, diagonal=ONES, h=ONES)
    assert (Q + factored).value(0.5 * ONES) == pytest.approx(Q.value(0.5 * ONES) + factored.value(0.5 * ONES))


def test_what_is_known_of_a_sum_is_what_all_parts_have():
    falls = ds.Quadratic(-np.eye(N), -ONES)
    assert (ROOTS + LOGS).monotone_on(ONES) is True
    assert (falls + ROOTS).monotone_on(ONES) is not True
    assert (falls + ROOTS).nonnegative_on(ONES) is not True
    assert (ROOTS + LOGS).concave_on(ONES) is True
    assert (SOFTMAX + ROOTS).concave_on(ONES) is None
    unknown = ds.CallableObjective(lambda x: (0.0, 0.0 * x), N)
    assert (Q + unknown).dr_submodular_on(ONES) is None
    assert (Q + PYTHON).declared == {"concave", "monotone"}
    assert (0.0 * unknown + Q).dr_submodular_on(ONES) is True
    zero = 0.0 * unknown
    assert (zero.value(ONES), zero.monotone_on(ONES)) == (0.0, True)
    assert (Q + SOFTMAX).unit_box
    assert not (Q + LOGS).unit_box


@pytest.mark.parametrize("name", ["dr_submodular", "nonnegative", "monotone"])
def test_what_is_declared_of_one_part_says_nothing_of_the_others_where_x_is_negative(name):
    declared = ds.CallableObjective(lambda x: (1.0, 0.0 * x), N, dr_submodular=True, nonnegative=True, monotone=True)
    linear, logistic = ds.Quadratic(np.zeros((N, N)), 3.0 * ONES), ds.LogisticNonconvex(np.eye(N), ONES)
    low, small = np.full(N, -3.0), np.full(N, 0.1)
    assert property_holds(declared, name, low, small) is True
    assert property_holds(declared + linear, name, low, small) is (True if name != "nonnegative" else None)
    assert property_holds(declared + logistic, name, low, small) is None
    assert property_holds(declared + 2.0 * linear, name, 0.0 * low, small) is True


def test_a_sum_that_is_negative_in_a_box_below_0_has_no_guarantee_that_needs_it():
    declared = ds.CallableObjective(lambda x: (0.0, 0.0 * x), 2, dr_submodular=True, nonnegative=True)
    P = ds.GeneralPolytope(lower=[-1.0, -1.0], upper=[0.5, 0.5], A=[[1.0, 1.0]], b=[-1.0])
    result = ds.frank_wolfe(declared + ds.Quadratic(np.zeros((2, 2)), [3.0, 3.0]), P)
    assert result.value == pytest.approx(-3.0)
    assert result.guarantee.ratio is None or not result.guarantee.holds


@pytest.mark.parametrize("factor", [-1.0, np.nan, np.inf, "2", None, 1j])
def test_other_factors_are_refused(factor):
    with pytest.raises((ValueError, TypeError)):
        factor * ROOTS


def test_other_summands_are_refused():
    with pytest.raises(ValueError, match="objectives of 4 and 1 variables"):
        Q + ds.Quadratic([[-1.0]], [1.0])
    with pytest.raises(TypeError):
        Q + 1.0
    with pytest.raises(TypeError):
        Q * Q
    assert np.float64(2.0) * ROOTS == 2.0 * ROOTS or isinstance(np.float64(2.0) * ROOTS, Sum)


def test_bounds_of_sums_hold_and_use_what_parts_have():
    for f in SUMS.values():
        for P in (ds.Budget(1.5, ONES), ds.Box(ONES), ds.Simplex(N)):
            grid = RNG.dirichlet(ONES, 400) * (1.0 if isinstance(P, ds.Simplex) else 1.5)
            best = max(f.value(np.minimum(x, 1.0)) for x in grid)
            assert ds.certificates.upper_bound(f, P) >= best - 1e-12
            for method in ("frank-wolfe", "auto"):
                r = ds.maximize(f, P, method=method, bound="tight")
                assert r.upper_bound >= max(best, r.value) - 1e-12


def test_sums_in_batches_and_copies():
    f, P = SUMS["with weights"], ds.Budget(2.0, ONES)
    again = pickle.loads(pickle.dumps(f))
    assert again.value(0.3 * ONES) == f.value(0.3 * ONES)
    assert ds.maximize_many([(f, P)] * 2, "frank-wolfe", n_jobs=1)[1].value == ds.frank_wolfe(f, P).value
    with pytest.raises(ds.UnsupportedError, match="cannot be written"):
        ds.write_problem("p.npz", f, P)
    assert ds.greedy(ROOTS + LOGS, size=2).items.size == 2


SHAPES = {"sqrt": np.sqrt, "log": np.log1p, "min": lambda t: np.minimum(t, 0.7)}


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("concave", SHAPES)
def test_feature_based(concave, unit):
    cap = 0.7 if concave == "min" else None
    f = ds.FeatureBased(W, concave, weights=unit * np.array([1.0, 2.0, 0.0]), cap=cap)
    for x in RNG.random((4, N)):
        expected = unit * np.array([1.0, 2.0, 0.0]) @ SHAPES[concave](W.T @ x)
        assert f.value(x) == pytest.approx(expected, rel=1e-13)
    assert f.value(np.zeros(N)) == 0.0
    extend.check_objective(f)
    for P in (ds.Budget(1.5, ONES), ds.Knapsack([1.0, 2.0, 1.0, 3.0], 2.0, ONES), ds.Ball(1.0, N)):
        r = ds.maximize(f, P)
        if concave != "min" or not isinstance(P, ds.Ball):
            assert r.value <= r.upper_bound <= 1.0001 * r.value
        assert P.contains(r.x)


def test_features_that_nothing_has_and_wrong_arguments():
    f = ds.FeatureBased([[1.0, 0.0], [2.0, 0.0]])
    assert f.gradient([0.5, 0.5]).tolist() == pytest.approx([0.5 / 1.5**0.5, 1.0 / 1.5**0.5])
    assert np.isfinite(f.gradient([0.0, 0.0])).all()
    assert ds.maximize(f, ds.Box([1.0, 1.0])).value == pytest.approx(3.0**0.5)
    assert ds.maximize(ds.FeatureBased([[0.0]], "min", cap=0.0), ds.Box([1.0])).value == 0.0
    for arguments, reason in (
        (([[-1.0]],), r"W\[0, 0\]"), (([[1.0]], "exp"), "unknown concave"), (([[1.0]], "min"), "needs cap"),
        (([[1.0]], "log", None, 1.0), "cap goes with"), (([[1.0]], "sqrt", [-1.0]), "weights"),
        (([[np.nan]],), "W"), ((np.zeros((0, 2)),), "at least one"), (([[1.0]], "min", None, [1.0, 2.0]), "cap"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=reason):
            ds.FeatureBased(*arguments)


def test_value_and_gap_bound_what_is_declared_concave():
    f, P = PYTHON, ds.Budget(1.5, ONES)
    r = ds.maximize(f, P)
    assert r.value <= r.upper_bound <= (1.0 + 1e-6) * r.value
    unknown = ds.CallableObjective(f._function, N)
    assert ds.maximize(unknown, P).upper_bound == np.inf
    assert pickle.loads(pickle.dumps(ds.CallableObjective(_pair, 2, concave=True))).concave_on(ONES) is True
    with pytest.raises(TypeError):
        ds.CallableObjective(_pair, 2, concave="yes")


def _pair(x):
    return 0.0, 0.0 * x


@pytest.mark.parametrize(("concave", "x"), [("sqrt", -0.1), ("log", -1.0), ("log", -2.0)])
def test_features_are_not_defined_where_their_function_is_not(concave, x):
    f = ds.FeatureBased([[1.0]], concave)
    value, gradient = f.value_and_gradient([x])
    assert np.isnan(value)
    assert np.isnan(gradient).all()
    P = ds.GeneralPolytope(A=[[1.0]], b=[x], lower=[x], upper=[1.0])
    with pytest.raises(ValueError, match="not finite"):
        ds.frank_wolfe(f, P)
    assert ds.FeatureBased([[1.0]], "min", cap=1.0).value([x]) == x


def test_multiples_that_overflow_name_the_entry():
    with pytest.raises(ValueError, match=r"H\[0, 0\] = -inf is not finite"):
        1e308 * ds.Quadratic([[-9.0]], [1.0])
    with pytest.raises(ValueError, match=r"h\[0\] = inf is not finite"):
        ds.Quadratic([[-9.0]], [1e308]) + ds.Quadratic([[-9.0]], [1e308])
