"""Answers of sets and solvers are in their sets, whatever the units of variables, rows and f."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from unit_cases import KINDS, breach, random_quadratic, random_set, units

import drsub_fast as ds

# Many kinds of sets and methods, each for a few tiny problems.
pytestmark = pytest.mark.usefixtures("interpreted")

TOLERANCE = 1e-9

METHODS = {
    "frank-wolfe": (ds.frank_wolfe, {"max_iter": 8}),
    "exact steps": (ds.frank_wolfe, {"max_iter": 8, "step_size": "exact"}),
    "non-monotone": (ds.nonmonotone_frank_wolfe, {"max_iter": 7}),
    "monotone": (ds.monotone_frank_wolfe, {"max_iter": 7}),
    "two-phase": (ds.two_phase_frank_wolfe, {"max_iter": 5}),
    "fully corrective": (ds.fully_corrective_frank_wolfe, {"max_iter": 10}),
    "projected gradient": (ds.projected_gradient, {"max_iter": 4}),
    "spectral": (ds.projected_gradient, {"max_iter": 4, "step_size": "spectral"}),
    "boosted gradient": (ds.boosted_gradient, {"max_iter": 5}),
    "mualem-feldman": (ds.mualem_feldman, {"max_iter": 5}),
    "multi-start": (ds.multi_start, {"n_starts": 2, "max_iter": 10}),
    "maximize": (ds.maximize, {}),
}
NEED_DOWN_CLOSED = {"non-monotone", "monotone", "two-phase"}


def cases(kind, count, seed):
    for trial in range(count):
        rng = np.random.default_rng([seed, trial, KINDS.index(kind)])
        yield rng, *random_set(kind, rng)


def assert_inside(P, rows, x):
    assert breach(P, rows, x) <= TOLERANCE
    assert P.contains(x)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_sets_are_inside(kind):
    for rng, P, D, rows in cases(kind, 40, 1):
        direction = rng.standard_normal(P.n) / D * 10.0 ** rng.uniform(-8.0, 8.0)
        y = rng.uniform(-0.5, 2.5, P.n) * D * 10.0 ** rng.choice([0.0, 0.0, 1.0, 4.0])
        start = P.start()
        tighter = P.upper * rng.random(P.n) if P.is_down_closed else np.maximum(start, 0.9 * P.upper)
        cut = P.lmo(direction, upper=tighter)
        assert (cut <= tighter).all()
        for x in (start, P.min_max_norm_point(), P.lmo(direction), cut, P.project(y)):
            assert_inside(P, rows, x)
            # What is farther outside than its unit allows is refused.
            if isinstance(P, ds.Ball) or not len(rows[0]):
                continue
            i = int(np.argmax(rows[0] @ x / np.maximum(rows[2], 1e-300)))
            if x.any() and rows[2][i] > 0.0 and rows[0][i] @ x > 0.5 * rows[2][i]:
                outside = x * (rows[2][i] / (rows[0][i] @ x)) * (1.0 + 1e-6)
                if (rows[0][i] >= 0.0).all():
                    assert not P.contains(outside)


@pytest.mark.parametrize("kind", ["polytope", "sparse", "matching"])
def test_both_oracles_of_a_polytope_are_inside_and_agree(kind):
    for rng, P, D, rows in cases(kind, 60, 2):
        direction = rng.standard_normal(P.n) / D * 10.0 ** rng.uniform(-8.0, 8.0)
        mine, theirs = P.lmo(direction), P.solver(P.upper, "highs").maximize(direction, P.upper)
        assert_inside(P, rows, theirs)
        assert direction @ mine == pytest.approx(direction @ theirs, rel=0.0, abs=1e-9 * (np.abs(direction) @ P.upper))


@pytest.mark.parametrize("kind", KINDS)
def test_projections_satisfy_their_variational_inequality(kind):
    for rng, P, D, _ in cases(kind, 40, 3):
        y = rng.uniform(-0.5, 2.5, P.n) * D
        p = P.project(y)
        away = y - p
        if away.any():
            # |p - p*|^2 <= <y - p, v - p>: the error is a small part of the set's largest size.
            assert away @ (P.lmo(away) - p) <= (1e-4 * P.upper.max()) ** 2


@pytest.mark.parametrize("kind", ["box", "budget", "knapsack", "partition", "simplex", "ball", "laminar"])
@pytest.mark.parametrize("far", [3, 9, 16])
def test_projections_by_kernels_of_points_however_far(kind, far):
    for rng, P, D, _ in cases(kind, 30, 5):
        y = (rng.standard_normal(P.n) + 0.5) * D * 10.0**far
        p = P.project(y)
        assert P.contains(p)
        away = y - p
        assert away @ (P.lmo(away) - p) <= 1e-12 * (np.abs(y) + P.upper) @ P.upper
        if kind != "ball":
            np.testing.assert_array_equal(P.project(p), p)
            if kind != "laminar":
                np.testing.assert_array_equal(P.move_inside(p, P.upper), p)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_of_solvers_are_inside(kind, name):
    method, options = METHODS[name]
    for rng, P, D, rows in cases(kind, 3, 4):
        if name in NEED_DOWN_CLOSED and not P.is_down_closed:
            return
        f = random_quadratic(rng, D)
        has_two_oracles = kind in ("polytope", "sparse", "matching") and name not in ("multi-start", "maximize")
        for lmo in ("auto", "highs") if has_two_oracles else ("auto",):
            r = method(f, P, lmo=lmo, **options) if has_two_oracles else method(f, P, **options)
            assert_inside(P, rows, r.x)
            assert_inside(P, rows, r.best_x)
            assert r.value <= r.upper_bound
            assert not r.fw_gap < -1e-12 * (np.abs(f.gradient(r.x)) @ P.upper)
            ds.frank_wolfe(f, P, x0=r.x, max_iter=0)


def scaled(P, D, R):
    """The polytope {D x : x in P} with its rows multiplied by R."""
    A = P.A.toarray() if scipy.sparse.issparse(P.A) else P.A
    return ds.Polytope(A * R[:, np.newaxis] / D, P.b * R, P.upper * D)


@pytest.mark.parametrize("lmo", ["kernel", "highs"])
def test_units_change_nothing_but_the_units(lmo):
    """x -> D x and rows times anything, powers of two for exactness: the same vertices, answers and memberships."""
    for rng, P, _, _ in cases("polytope", 15, 5):
        size = np.where(P.upper > 0.0, P.upper, 1.0)
        D, R = 2.0 ** rng.integers(-26, 27, P.n), 2.0 ** rng.integers(-26, 27, P.m)
        Q, f = scaled(P, D, R), random_quadratic(rng, size)
        g = ds.Quadratic(f.H / np.outer(D, D), f.h / D)
        direction = rng.standard_normal(P.n) / size
        v, w = P.lmo(direction), Q.lmo(direction / D)
        assert direction @ v == pytest.approx(direction @ (w / D), rel=1e-9, abs=1e-12)
        for method in (ds.frank_wolfe, ds.nonmonotone_frank_wolfe, ds.fully_corrective_frank_wolfe):
            r, s = method(f, P, max_iter=6, lmo=lmo), method(g, Q, max_iter=6, lmo=lmo)
            assert s.value == pytest.approx(r.value, rel=1e-9)
            assert s.status == r.status
        for x in (0.999999 * v, 1.000001 * v, v * (1.0 + 1e-12), rng.random(P.n) * P.upper):
            assert P.contains(x) == Q.contains(D * x)


# ---- inputs that were answered wrongly


def f_in(unit):
    return ds.Quadratic(-np.eye(2) / unit**2, np.ones(2) / unit)


@pytest.mark.parametrize("unit", [1e-8, 1e-7, 1.0, 1e7, 1e8])
@pytest.mark.parametrize("form", ["general", "equality", "polytope", "highs", "sparse"])
def test_small_and_large_units(unit, form):
    upper, options = [unit, unit], {}
    best = 0.4375
    if form == "general":
        P = ds.GeneralPolytope([[1.0, 1.0]], [0.5 * unit], upper=upper)
    elif form == "equality":
        P, best = ds.GeneralPolytope(A_eq=[[1.0, 1.0]], b_eq=[unit], upper=upper), 0.75
    else:
        A = scipy.sparse.csr_array([[1.0, 1.0]]) if form == "sparse" else [[1.0, 1.0]]
        P = ds.Polytope(A, [0.5 * unit], upper)
        options = {"lmo": "highs"} if form == "highs" else {}
    for method in (ds.fully_corrective_frank_wolfe, ds.maximize):
        r = method(f_in(unit), P, **options)
        assert P.contains(r.x)
        assert r.value == pytest.approx(best, rel=1e-6)
        assert method(f_in(unit), P, x0=r.x, **options).value == pytest.approx(best, rel=1e-6)


def test_projections_of_small_rows_and_far_points():
    P = ds.Polytope([[1e-6, 1e-6]], [0.5e-6], [1.0, 1.0])
    np.testing.assert_allclose(P.project([1.0, 1.0]), [0.25, 0.25], rtol=1e-12)
    P = ds.Knapsack([1e4, 1e-4], 1.0, [1e-4, 1e4])
    x = P.project([1e4, 1e4])
    assert P.contains(x, tol=1e-12)
    assert x[1] == pytest.approx(1e4, rel=1e-7)
    # A step much longer than the set is wide, from and to any unit.
    for unit in (1e-8, 1.0, 1e8):
        P = ds.Polytope([[1.0, 1.0]], [unit], [unit, unit])
        np.testing.assert_allclose(P.project([3e9 * unit, 1e9 * unit]), [unit, 0.0], atol=1e-9 * unit)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 2e7, 1e8])
def test_membership_has_the_unit_of_the_set(unit):
    sets = [
        ds.Box([unit, unit]),
        ds.Budget(unit, [unit, unit]),
        ds.Simplex(2, unit),
        ds.Ball(unit, 2),
        ds.Polytope([[1.0, 1.0]], [unit]),
        ds.GeneralPolytope([[1.0, 1.0]], [unit], upper=[unit, unit]),
    ]
    for P in sets:
        x = P.lmo([1.0, 0.5])
        assert P.contains(x)
        assert P.contains(x * (1.0 + 1e-10))
        assert not P.contains(x * 1.02)
        assert P.contains(x * 1.02, tol=0.03)
        with pytest.raises(ValueError, match="tol = nan is not finite"):
            P.contains(x, tol=np.nan)
        with pytest.raises(ValueError, match="tol = -1 must be at least 0"):
            P.contains(x, tol=-1.0)


def test_large_simplices_are_solved_from_their_own_start():
    rng = np.random.default_rng(6)
    for total in 10.0 ** rng.uniform(6.0, 9.0, 20):
        P = ds.Simplex(3, total)
        r = ds.frank_wolfe(ds.Quadratic(-np.eye(3), np.ones(3)), P, max_iter=20)
        assert P.contains(r.x)
        assert r.x.sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("max_iter", [1, 2, 3, 7, 10, 49, 100])
def test_sums_of_steps_end_at_the_bound(max_iter):
    def value_and_gradient(x):
        return (float(h @ x) if (x <= 1.0).all() else np.nan), h.copy()

    h, P = np.array([1.0, 2.0, 0.5]), ds.Box(np.ones(3))
    for f in (ds.Quadratic(np.zeros((3, 3)), h), ds.CallableObjective(value_and_gradient, n=3)):
        for method in (ds.monotone_frank_wolfe, ds.nonmonotone_frank_wolfe):
            r = method(f, P, max_iter=max_iter)
            assert r.status is ds.Status.COMPLETED
            assert (r.x <= 1.0).all()
            assert r.value <= min(3.5, r.upper_bound)
        assert ds.monotone_frank_wolfe(f, P, max_iter=max_iter).value == pytest.approx(3.5, rel=1e-14)


def test_nonnegative_pca_over_knapsacks_of_mixed_units():
    rng = np.random.default_rng(7)
    for _ in range(20):
        upper = 10.0 ** rng.uniform(-6.0, 6.0, 4)
        weights = rng.random(4) / upper
        P = ds.Knapsack(weights, rng.uniform(0.2, 0.9) * (weights @ upper), upper)
        f = ds.NonnegativePCA(rng.standard_normal((6, 4)) / upper)
        r = ds.maximize(f, P)
        assert breach(P, (weights[np.newaxis], [-np.inf], [P.budget]), r.x) <= TOLERANCE
        assert not r.fw_gap < -1e-12 * (np.abs(f.gradient(r.x)) @ P.upper)


def test_data_beyond_doubles_are_refused():
    with pytest.raises(ValueError, match="above the largest float"):
        ds.GeneralPolytope([[1e200, -1e200]], [1.0], upper=[1e200, 1e200])
    with pytest.raises(ValueError, match=r"budget / weights\[0\] is above the largest float"):
        ds.Knapsack([1e-200, 1.0], 1e200)


def exact_projection(y, w, u, capacity, equality):
    """The projection onto {0 <= x <= u, w'x <= capacity}, or = capacity, in rational numbers."""
    y, w, u = ([Fraction(float(v)) for v in values] for values in (y, w, u))
    capacity = Fraction(float(capacity))

    def point(t):
        return [min(max(a - t * b, 0), c) for a, b, c in zip(y, w, u, strict=True)]

    def load(t):
        return sum(b * x for b, x in zip(w, point(t), strict=True))

    if not equality and load(Fraction(0)) <= capacity:
        return point(Fraction(0))
    breaks = {p for a, b, c in zip(y, w, u, strict=True) if b for p in (a / b, (a - c) / b)}
    breaks = sorted(breaks if equality else {max(p, Fraction(0)) for p in breaks} | {Fraction(0)})
    low = max(t for t in breaks if load(t) >= capacity)
    high = min((t for t in breaks if load(t) <= capacity), default=low)
    if load(low) == load(high):
        return point(low)
    return point(low + (high - low) * (load(low) - capacity) / (load(low) - load(high)))


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("far", [0, 3, 6, 9, 12, 19])
def test_projections_onto_knapsacks_are_exact_to_the_rounding_of_far_points(far, equality):
    rng = np.random.default_rng((far, equality))
    for _ in range(40):
        n = int(rng.integers(1, 9))
        D = units(rng, n, 0.0)
        w = np.ones(n) if equality else rng.uniform(0.1, 2.0, n) if rng.random() < 0.5 else np.ones(n)
        u = rng.uniform(0.2, 1.0, n) * D
        capacity = rng.uniform(0.1, 0.9) * (w @ u)
        y = (rng.standard_normal(n) + 0.5) * D * 10.0**far
        P = ds.Simplex(n, capacity) if equality else ds.Knapsack(w, capacity, u)
        u = P.upper
        x, exact = P.project(y), np.array(exact_projection(y, w, u, capacity, equality), dtype=float)
        # With unit weights the differences between the entries of y, which alone count, are exact.
        rounding = 1e-9 * D if (w == 1.0).all() else 1e-9 * D + 1e-15 * np.abs(y).max() / w.min()
        assert (np.abs(x - exact) <= rounding).all(), (x, exact)
        assert w @ x <= (1.0 + 1e-11) * capacity
        assert w @ x >= (1.0 - 1e-9) * min(capacity, w @ exact)
