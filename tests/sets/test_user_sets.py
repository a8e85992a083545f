"""Sets by a linear oracle of the user's: answers as over the built-in set, refusals, mistakes of oracles."""

import pickle
from itertools import count

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast import extend

N = 5
UPPER = np.array([1.0, 0.5, 2.0, 1.0, 1.5])


def fill(direction, upper, total=2.0, all_of_it=False):
    v, left = np.zeros(len(upper)), total
    for j in np.argsort(-direction, kind="stable"):
        if direction[j] > 0.0 or all_of_it:
            v[j] = min(upper[j], left)
            left -= v[j]
    return v


CALLS = count()


def fill_whole(direction):
    return fill(direction, UPPER)


def fill_simplex(direction, upper):
    return fill(direction, upper, all_of_it=True)


def in_budget(x):
    return x.sum() <= 2.0


BUDGET = ds.Budget(2.0, UPPER)
ONE = ds.CallableSet(fill_whole, N, upper=UPPER)
TWO = ds.CallableSet(fill, N, upper=UPPER, contains=in_budget)
SIMPLEX = ds.CallableSet(fill_simplex, N, upper=UPPER, is_down_closed=False)
EQUAL = ds.GeneralPolytope(A_eq=np.ones((1, N)), b_eq=[2.0], upper=UPPER)


def quadratic(seed, unit=1.0):
    rng = np.random.default_rng(seed)
    H = -rng.random((N, N))
    return ds.Quadratic((H + H.T) / unit**2, N * rng.random(N) / unit)


@pytest.mark.parametrize("P", [ONE, TWO, SIMPLEX, TWO.with_upper(0.7 * UPPER)], ids=repr)
def test_the_bench_passes(P, interpreted):
    extend.check_set(P)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("name", ["auto", *ds.METHODS])
def test_answers_are_those_of_the_built_in_set(name, unit, interpreted):
    f = quadratic(1, unit)
    P = ds.CallableSet(lambda d, u: fill(d, u, 2.0 * unit), N, upper=unit * UPPER)
    if name == "double-greedy" or name == "projected-gradient":
        with pytest.raises(ds.UnsupportedError, match=r"Box|has no projection"):
            ds.maximize(f, P, method=name)
        return
    a, b = (ds.maximize(f, Q, method=name) for Q in (P, ds.Budget(2.0 * unit, unit * UPPER)))
    assert a.value == pytest.approx(b.value, rel=1e-4)
    assert ds.Budget(2.0 * unit, unit * UPPER).contains(a.x, 1e-7)
    assert a.value <= a.upper_bound
    assert a.guarantee.ratio == b.guarantee.ratio
    assert a.guarantee.holds in ("declared", None, False)


def test_a_direction_alone_serves_methods_that_ask_for_points_of_the_whole_set(interpreted):
    f = quadratic(2)
    for name in ("auto", "frank-wolfe", "fully-corrective-frank-wolfe", "monotone-frank-wolfe", "boosted-gradient",
                 "mualem-feldman", "multi-start"):  # fmt: skip
        assert ds.maximize(f, ONE, method=name).value == pytest.approx(
            ds.maximize(f, BUDGET, method=name).value, rel=0.02
        )
    for method in (ds.nonmonotone_frank_wolfe, ds.two_phase_frank_wolfe):
        with pytest.raises(ds.UnsupportedError, match="an oracle that answers below tighter upper bounds"):
            method(f, ONE)
    with pytest.raises(ds.UnsupportedError, match="needs answers below tighter upper bounds"):
        ONE.lmo(np.ones(N), 0.5 * UPPER)
    with pytest.raises(ds.UnsupportedError, match="down-closed set"):
        ds.two_phase_frank_wolfe(f, SIMPLEX)


def test_every_objective_is_solved_over_them(interpreted):
    for kind in extend.OBJECTIVES.values():
        f = kind.example_of(N)
        for P in (ONE, TWO, SIMPLEX):
            Q = ds.CallableSet(fill, N, upper=np.ones(N)) if f.unit_box and P is not TWO else P
            if f.unit_box and P is TWO:
                Q = TWO.with_upper(np.minimum(UPPER, 1.0))
            r = ds.maximize(f, Q)
            assert r.value <= r.upper_bound, kind.name
            assert r.value == pytest.approx(f.value(r.x), rel=1e-9, abs=1e-12)


def test_the_set_that_is_not_down_closed(interpreted):
    f = quadratic(3)
    assert ds.maximize(f, SIMPLEX).value == pytest.approx(ds.maximize(f, EQUAL).value, rel=1e-5)
    assert SIMPLEX.contains(SIMPLEX.min_max_norm_point())
    assert (SIMPLEX.min_max_norm_point() / UPPER).max() < 0.5
    assert not SIMPLEX.contains(0.5 * SIMPLEX.start())


@pytest.mark.parametrize(
    ("lmo", "contains", "reason"),
    [
        (lambda d, u: np.zeros(N + 1), None, r"an array of 5 numbers, shape \(5,\), got an array of shape \(6,\)"),
        (lambda d, u: np.zeros((N, N)), None, "got an array of shape"),
        (lambda d, u: None, None, "must return an array of 5 numbers"),
        (lambda d, u: ["a"] * N, None, "must return an array of 5 numbers"),
        (lambda d, u: np.full(N, np.nan), None, "is not finite"),
        (lambda d, u: np.full(N, np.inf), None, "is not finite"),
        (lambda d, u: 1.001 * u, None, "is above; its upper bound is"),
        (lambda d, u: -u, None, "is below 0"),
        (lambda d, u: u.copy(), in_budget, "contains.x. is False"),
        (lambda d, u: u * (np.arange(N) == next(CALLS) % N), None, "is no maximum"),
        (lambda d, u: np.zeros(N), None, None),
    ],
)
@pytest.mark.parametrize("method", ["frank-wolfe", "nonmonotone-frank-wolfe", "auto"])
def test_answers_that_cannot_be_right_are_refused(lmo, contains, reason, method, interpreted):
    P = ds.CallableSet(lmo, N, upper=UPPER, contains=contains)
    if reason is None:
        assert not ds.maximize(quadratic(4), P, method=method).x.any()
        return
    f = ds.Quadratic(-np.eye(N), np.linspace(1.0, 2.0, N))
    with pytest.raises(ValueError, match=reason):
        ds.maximize(f, P, method=method)


def test_projections(interpreted):
    P = ds.CallableSet(fill, N, upper=UPPER, project=BUDGET.project)
    f = quadratic(5)
    expected = ds.projected_gradient(f, BUDGET).value
    assert ds.projected_gradient(f, P).value == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ds.UnsupportedError, match="give project"):
        ds.projected_gradient(f, TWO)
    wrong = ds.CallableSet(fill, N, upper=UPPER, project=lambda y: np.full(N, np.nan))
    with pytest.raises(ValueError, match=r"project\(y\)\[0\] = nan"):
        ds.projected_gradient(f, wrong)


def test_membership_by_the_oracle_alone(interpreted):
    rng = np.random.default_rng(6)
    P = ds.CallableSet(fill, N, upper=UPPER)
    for _ in range(60):
        x = UPPER * rng.random(N) * rng.choice([0.3, 0.6, 1.0])
        if abs(x.sum() - 2.0) > 1e-5:
            assert P.contains(x) == BUDGET.contains(x)


def test_bad_arguments():
    for arguments, error in (
        (dict(upper=[1.0]), ValueError), (dict(upper=np.full(N, np.inf)), ValueError), (dict(upper=-UPPER), ValueError),
        (dict(upper=UPPER, contains=3), TypeError), (dict(upper=UPPER, project=3), TypeError),
        (dict(upper=UPPER, is_down_closed="no"), TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            ds.CallableSet(fill, N, **arguments)
    for lmo, n in ((3, N), (fill, 0), (None, N)):
        with pytest.raises((TypeError, ValueError)):
            ds.CallableSet(lmo, n, upper=UPPER)


def test_one_variable_and_a_point(interpreted):
    P = ds.CallableSet(lambda d: (d > 0.0) * 1.0, 1, upper=[1.0])
    assert ds.maximize(ds.Quadratic([[-2.0]], [1.0]), P).value == pytest.approx(0.25)
    point = ds.CallableSet(lambda d, u: 0.0 * u, 2, upper=[0.0, 0.0])
    assert ds.maximize(ds.Quadratic(-np.eye(2), [1.0, 1.0]), point).value == 0.0


def test_copies_and_batches(interpreted):
    f = quadratic(7)
    again = pickle.loads(pickle.dumps(TWO.with_upper(0.5 * UPPER)))
    assert again.contains(again.lmo(np.ones(N)))
    np.testing.assert_array_equal(again.upper, 0.5 * UPPER)
    batch = ds.maximize_many([(f, TWO), (f, BUDGET), (f, ONE)], "frank-wolfe", n_jobs=2)
    assert batch[0].value == pytest.approx(batch[1].value, rel=1e-9)
    assert batch[2].value == pytest.approx(batch[1].value, rel=1e-9)
    with pytest.raises(ds.UnsupportedError, match="cannot be written"):
        ds.write_problem("p.npz", f, TWO)


def fill_compiled(direction, upper, v, total):
    left = total
    v[:] = 0.0
    for j in np.argsort(-direction):
        if direction[j] > 0.0:
            v[j] = min(upper[j], left)
            left -= v[j]


def twice_the_bound(direction, upper, v, total):
    v[:] = 2.0 * upper


def second_is_worse(direction, upper, v, total):
    v[:] = 0.0
    v[int(direction.argmin())] = 0.5 * upper.min()


def test_compiled_sets():
    numba = pytest.importorskip("numba")
    lmo = numba.njit(fill_compiled)
    P, f = ds.CompiledSet(lmo, (2.0,), N, upper=UPPER), quadratic(8)
    for name in ("frank-wolfe", "nonmonotone-frank-wolfe", "two-phase-frank-wolfe", "auto"):
        r = ds.maximize(f, P, method=name)
        assert r.value == pytest.approx(ds.maximize(f, BUDGET, method=name).value, rel=1e-6)
        assert BUDGET.contains(r.x)
    other = ds.CompiledSet(lmo, (1.0,), N, upper=UPPER)
    assert ds.nonmonotone_frank_wolfe(f, other).value < ds.nonmonotone_frank_wolfe(f, P).value
    extend.check_set(P)
    again = pickle.loads(pickle.dumps(other.with_upper(0.5 * UPPER)))
    assert again.lmo(np.ones(N)).sum() == pytest.approx(1.0)
    for wrong, reason in ((twice_the_bound, "is above"), (second_is_worse, "is no maximum|a worse point")):
        Q = ds.CompiledSet(numba.njit(wrong), (2.0,), N, upper=UPPER)
        with pytest.raises(ValueError, match=reason):
            ds.frank_wolfe(ds.Quadratic(-np.eye(N), np.arange(N) - 1.5), Q)
    with pytest.raises(ValueError, match=r"contains\(x\) is False"):
        ds.frank_wolfe(f, ds.CompiledSet(lmo, (2.0,), N, upper=UPPER, contains=lambda x: x.sum() <= 1.0))
    with pytest.raises(TypeError, match="must be a tuple"):
        ds.CompiledSet(lmo, 2.0, N, upper=UPPER)


def test_a_python_function_is_no_compiled_set():
    from drsub_fast.engine import jit

    if jit.COMPILE == "never":
        pytest.skip("plain functions will do where nothing is compiled")
    with pytest.raises(TypeError, match=r"not compiled by Numba: decorate it with numba\.njit, or use CallableSet"):
        ds.CompiledSet(fill_compiled, (2.0,), N, upper=UPPER)
