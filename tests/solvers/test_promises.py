"""What a result claims: guarantees of whole runs, premises that are declared or refuted, bounds above the value."""

import math

import numpy as np
import pytest

import drsub_fast as ds

N = 4
ONES = np.ones(N)
BOX = ds.Box(ONES)
POSITIVE = ds.Quadratic(-np.eye(N), 0.75 * ONES, 1.0)
PROMISING = {
    "nonmonotone-frank-wolfe": 1.0 / math.e,
    "monotone-frank-wolfe": 1.0 - 1.0 / math.e,
    "boosted-gradient": 1.0 - 1.0 / math.e,
    "double-greedy": 0.5,
    "mualem-feldman": 0.25,
    "two-phase-frank-wolfe": 0.25,
}
MONOTONE = ds.Quadratic(-0.1 * np.eye(N), ONES, 1.0)


def function(f, **facts):
    return ds.CallableObjective(f.value_and_gradient, f.n, **facts)


@pytest.mark.parametrize(("name", "ratio"), PROMISING.items())
def test_whole_runs_keep_their_guarantee(name, ratio):
    r = ds.maximize(MONOTONE, BOX, method=name)
    assert r.guarantee.holds is True
    assert r.guarantee.ratio == pytest.approx(ratio)
    assert "known to hold" in str(r.guarantee)


# The phases of the boosted gradient end in one step here: its own tests stop it elsewhere.
@pytest.mark.parametrize("name", [name for name in PROMISING if name != "boosted-gradient"])
@pytest.mark.parametrize("stop", ["time", "callback", "keyboard", "not finite"])
def test_runs_that_end_early_promise_nothing(name, stop):
    def interrupt(progress):
        raise KeyboardInterrupt

    f, options = MONOTONE if name == "monotone-frank-wolfe" else POSITIVE, {}
    if stop == "time":
        options = {"time_limit": 0.0}
    elif stop == "callback":
        options = {"callback": lambda progress: True}
    elif stop == "keyboard":
        options = {"callback": interrupt}
    else:
        evaluate = f.value_and_gradient

        def cliff(x):
            value, grad = evaluate(x)
            return (math.nan if x.sum() > 0.5 else value), grad

        f = ds.CallableObjective(cliff, N, dr_submodular=True, nonnegative=True, monotone=True)
        if name == "double-greedy":
            pytest.skip("f is evaluated at the upper bounds first")
    r = ds.maximize(f, BOX, method=name, **options)
    assert not r.success
    assert r.guarantee.ratio is None
    assert r.guarantee.holds is False
    assert str(r.guarantee).startswith("none, because ")
    assert r.status.value in str(r.guarantee)


def test_a_part_of_double_greedy_promises_nothing():
    r = ds.double_greedy(MONOTONE, BOX, max_iter=2)
    assert (r.n_iter, r.status, r.guarantee.ratio) == (2, ds.Status.MAX_ITER, None)
    assert ds.double_greedy(MONOTONE, BOX, max_iter=10).guarantee.ratio == 0.5


@pytest.mark.parametrize("name", PROMISING)
def test_declared_premises_read_declared(name):
    f = function(MONOTONE, dr_submodular=True, nonnegative=True, monotone=True)
    r = ds.maximize(f, BOX, method=name)
    assert r.guarantee.holds == "declared"
    assert "(declared, not checked)" in str(r.guarantee)
    assert "known to hold" not in str(r.guarantee)


def test_one_declared_premise_of_two_is_enough_to_read_so():
    mixed = ds.MeanField(ds.Multilinear.sampled(len, N, nonnegative=True))
    assert mixed.declared == {"nonnegative"}


@pytest.mark.parametrize("name", ["nonmonotone-frank-wolfe", "two-phase-frank-wolfe", "mualem-feldman", "auto"])
@pytest.mark.parametrize("nonnegative", [True, None])
def test_a_negative_value_refutes_that_f_is_not_negative(name, nonnegative):
    negative = ds.Quadratic(-np.eye(N), 0.75 * ONES, -1.0)
    r = ds.maximize(function(negative, dr_submodular=True, nonnegative=nonnegative), BOX, method=name)
    assert r.guarantee.holds is False
    assert r.upper_bound >= r.value
    if name != "auto":
        assert "f(x) = -1 < 0 was met" in str(r.guarantee)


def test_a_fall_refutes_that_f_is_monotone():
    f = ds.Quadratic(-np.eye(N), 0.75 * ONES, 1.0)
    r = ds.monotone_frank_wolfe(function(f, dr_submodular=True, monotone=True), BOX)
    falls = np.diff(r.trace.value).min() < 0.0
    assert falls == (r.guarantee.holds is False)
    wrong = ds.CallableObjective(lambda x: (-x.sum(), ONES), N, dr_submodular=True, monotone=True)
    assert "f fell from" in str(ds.monotone_frank_wolfe(wrong, BOX).guarantee)


@pytest.mark.parametrize(
    "name", ["auto", *(name for name in ds.METHODS if name not in ("boosted-gradient", "mualem-feldman"))]
)
def test_a_value_above_the_bound_withdraws_what_rests_on_diminishing_returns(name):
    # x'1 + 10 (x'1)^2: not DR-submodular, its bound from 0 is 4.
    def convex(x):
        return x.sum() + 10.0 * x.sum() ** 2, (1.0 + 20.0 * x.sum()) * ONES

    r = ds.maximize(ds.CallableObjective(convex, N, dr_submodular=True, nonnegative=True), BOX, method=name)
    assert r.value > 40.0
    assert r.upper_bound == math.inf
    assert r.guarantee.ratio is None


@pytest.mark.parametrize("name", ["auto", *ds.METHODS])
@pytest.mark.parametrize("seed", range(10))
def test_no_value_exceeds_its_bound(name, seed):
    rng = np.random.default_rng(seed)
    f = ds.Quadratic(np.zeros((3, 3)), rng.random(3))
    r = ds.maximize(f, ds.Box(rng.random(3)), method=name)
    assert r.value <= r.upper_bound
    assert r.best_value <= r.upper_bound


def test_softmax_beyond_the_unit_box_has_a_bound_that_holds():
    for n in (1, 2, 3):
        f, P = ds.Softmax(0.2 * np.eye(n), unit_box=False), ds.Box(np.full(n, 100.0))
        for name in ("auto", "frank-wolfe", "multi-start", "two-phase-frank-wolfe", "nonmonotone-frank-wolfe"):
            r = ds.maximize(f, P, method=name)
            # f is a sum of log(1 - 0.8 x_j): 0 is the maximum.
            assert 0.0 <= r.upper_bound <= 1e-6
            assert r.guarantee.holds is not True
        assert 0.0 <= ds.certificates.linear_bound(f, P) <= 1e-6
    inside = ds.Softmax(2.0 * np.eye(2), unit_box=False)
    r = ds.maximize(inside, ds.Box([3.0, 3.0]))
    assert r.value <= r.upper_bound < math.inf
    assert inside.dr_submodular_on(np.array([3.0, 3.0])) is True
    assert ds.Softmax(0.2 * np.eye(2)).dr_submodular_on(np.array([100.0, 100.0])) is True


@pytest.mark.parametrize("scale", [1e60, 1e150, 1e160, 1e300])
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_log_det_of_extreme_kernels(scale, n):
    f = ds.Softmax(scale * np.eye(n))
    assert f.value(np.ones(n)) == pytest.approx(n * math.log(scale), rel=1e-12)


@pytest.mark.parametrize(("solver", "citation"), [
    (ds.nonmonotone_frank_wolfe, "Theorem 2 and Corollary 1"), (ds.two_phase_frank_wolfe, "Theorem 1"),
])  # fmt: skip
def test_bounds_are_cited_as_the_paper_numbers_them(solver, citation):
    assert citation in solver(POSITIVE, BOX).guarantee.statement
    assert citation in solver.__doc__


@pytest.mark.parametrize("method", ["mualem-feldman", "boosted-gradient", "auto"])
@pytest.mark.parametrize("point", [-2.0, -0.5])
def test_premises_are_asked_where_x_is_negative(method, point):
    f = ds.Quadratic(np.zeros((1, 1)), [1.0])
    P = ds.GeneralPolytope(lower=[-3.0], upper=[1.0], A_eq=[[1.0]], b_eq=[point])
    r = ds.maximize(f, P, method=method)
    assert r.value == point
    assert r.guarantee.holds is not True


def test_mualem_and_feldman_over_a_set_moved_below_0():
    # f >= 0 on all of [-1, 1]^2; the least maximum norm is that of the set moved by (1, 1).
    H, h = np.array([[-1.0, -0.5], [-0.5, -1.0]]), np.array([1.0, 1.2])
    f = ds.Quadratic(H, h, 6.0)
    P = ds.GeneralPolytope(A=[[1.0, 1.0]], b=[1.0], lower=[-1.0, -1.0], upper=[1.0, 1.0])
    r = ds.mualem_feldman(f, P)
    assert r.guarantee.holds is True
    assert "[lower, upper]" in r.guarantee.premise
    assert r.value >= r.guarantee.ratio * ds.global_maximum(f, P).value


def test_converged_speaks_of_the_point_that_is_returned():
    rng = np.random.default_rng(0)
    R = rng.random((20000, 16, 16))[6624]
    A = rng.random((8, 16))
    H = -(R + R.T) / 2
    h = -0.2 * H.sum(1)
    f, P = ds.Quadratic(H, h), ds.Polytope(A, np.ones(8))
    r = ds.multi_start(f, P, n_starts=16)
    assert r.status is ds.Status.CONVERGED
    assert r.phase == 3
    assert r.value > r.phases[1].value > r.phases[0].value
    assert r.fw_gap <= 2e-6 * r.value
    stacked = ds.maximize_stacked(H=H[None], h=h[None], A=A, b=np.ones(8), method="multi-start")
    assert stacked.status[0] is r.status
    np.testing.assert_array_equal(stacked.x[0], r.x)
    two = ds.two_phase_frank_wolfe(f, P, subroutine="fully-corrective-frank-wolfe", max_iter=1000)
    assert two.status is not ds.Status.CONVERGED or two.fw_gap <= 2e-6 * two.value
