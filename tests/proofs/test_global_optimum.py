"""Global optima: values against brute force and stored optima."""

from dataclasses import replace

import numpy as np
import pytest
from global_checks import best_by_faces, known_maximum, known_minimum, random_instance

import drsub_fast as ds
from drsub_fast.engine import clock
from drsub_fast.proofs import doubly_nonnegative, global_optimum, quadratic
from drsub_fast.proofs.doubly_nonnegative import improve
from drsub_fast.proofs.kkt_milp import kkt_milp
from drsub_fast.proofs.program import quadratic_program
from drsub_fast.proofs.search import Incumbent, Limits

SHAPES = [(1, 0), (2, 1), (3, 2), (4, 0), (4, 3), (5, 2), (6, 2)]


def allowed(optimum, f, gap=1.01e-6):
    """The gap left by a closed proof; values near zero are compared with 1e-3 of the size of f."""
    return gap * max(abs(optimum - f.c), 1e-3 * max(np.abs(f.h).max(), np.abs(f.H).max()) * 100.0)


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_maximum_is_the_best_stationary_point_of_all_faces(n, m, seed):
    f, P = random_instance(seed, n, m, budget=m == 1)
    best = known_maximum(f, P)
    r = ds.global_maximum(f, P)
    assert r.status is ds.Status.OPTIMAL
    assert P.contains(r.x)
    assert r.value == pytest.approx(f.value(r.x), rel=1e-12)
    assert best - allowed(best, f) <= r.value <= best + 1e-9
    assert r.upper_bound >= best - 1e-12
    assert r.upper_bound - r.value <= allowed(best, f)


@pytest.mark.parametrize(("n", "m"), SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_minimum_is_the_worst_stationary_point_of_all_faces(n, m, seed):
    f, P = random_instance(seed, n, m, budget=m == 1)
    if seed % 2:
        f = ds.Quadratic(f.H, 0.3 * f.h, f.c)
    least = known_minimum(f, P)
    r = ds.global_minimum(f, P)
    assert r.status is ds.Status.OPTIMAL
    assert P.contains(r.x)
    assert r.value == pytest.approx(f.value(r.x), rel=1e-12)
    assert least - 1e-9 <= r.value <= least + allowed(least, f)
    assert r.lower_bound <= least + 1e-12
    assert r.value - r.lower_bound <= allowed(least, f)


def test_minimum_at_zero_needs_no_node():
    f, P = random_instance(5, 4, 3)
    f = ds.Quadratic(f.H, 10.0 * np.abs(f.H).sum(axis=1) * P.upper.max(), 0.5)
    r = ds.global_minimum(f, P)
    assert (r.value, r.lower_bound, r.n_nodes) == (0.5, 0.5, 0)
    assert not r.x.any()


@pytest.mark.parametrize(("n", "m", "seed"), [(3, 2, 0), (4, 3, 1), (5, 2, 2), (6, 4, 3), (7, 5, 4)])
def test_the_two_methods_for_quadratics_agree(n, m, seed):
    f, P = random_instance(seed, n, m)
    for solve in (ds.global_maximum, ds.global_minimum):
        ours, baseline = solve(f, P), solve(f, P, method="kkt-milp")
        assert baseline.status is ds.Status.OPTIMAL
        assert baseline.method == "kkt-milp"
        # The baseline's bound holds up to HiGHS's tolerances.
        assert baseline.value == pytest.approx(ours.value, abs=1e-5)
        bounds = [r.upper_bound if solve is ds.global_maximum else r.lower_bound for r in (ours, baseline)]
        assert bounds[1] == pytest.approx(bounds[0], abs=1e-4)


def test_plain_and_strengthened_baseline_agree():
    f, P = random_instance(4, 5, 3)
    program = quadratic_program(f, P)
    best = known_maximum(f, P) - f.c
    for strengthen in (False, True):
        incumbent = Incumbent(np.zeros(5), 0.0, lambda x: (x, program.h @ x + 0.5 * x @ program.H @ x))
        proof = kkt_milp(program, np.inf, incumbent, Limits(1e-6, 1.0, None, None), strengthen)
        assert proof.status is ds.Status.OPTIMAL
        assert incumbent.value == pytest.approx(best, abs=1e-5)
        assert proof.bound == pytest.approx(best, abs=1e-5)


def random_kernel(seed, n, largest):
    random = np.random.default_rng(seed)
    U, _ = np.linalg.qr(random.normal(size=(n, n)))
    L = (U * random.uniform(0.0, largest, n)) @ U.T
    return 0.5 * (L + L.T)


@pytest.mark.parametrize("seed", range(4))
def test_softmax_over_a_box_is_best_at_a_corner(seed):
    # Along each coordinate f is the log of an affine function, so that one of its ends is best.
    n = 5
    f = ds.Softmax(random_kernel(seed, n, 3.0))
    best = max(f.value(np.array(corner)) for corner in np.ndindex(*(2,) * n))
    r = ds.global_maximum(f, ds.Box(np.ones(n)))
    assert r.status is ds.Status.OPTIMAL
    assert r.method == "separable"
    assert r.value == pytest.approx(best, abs=2e-6)
    assert r.upper_bound >= best - 1e-12


@pytest.mark.parametrize("unit_box", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_softmax_over_a_polytope_beats_a_grid(seed, unit_box):
    f = ds.Softmax(random_kernel(seed, 3, 2.5), unit_box=unit_box)
    P = ds.Polytope(0.2 + np.random.default_rng(seed).random((2, 3)), np.ones(2))
    r = ds.global_maximum(f, P)
    upper = np.minimum(P.upper, 1.0) if unit_box else P.upper
    grid = np.stack(np.meshgrid(*(np.linspace(0.0, u, 21) for u in upper)), axis=-1).reshape(-1, 3)
    values = np.array([f.value(x) for x in grid if P.contains(x)])
    best = values[np.isfinite(values)].max()
    assert r.status is ds.Status.OPTIMAL
    assert P.contains(r.x)
    assert (r.x <= upper + 1e-9).all()
    assert r.upper_bound >= max(best, r.value)
    assert r.value >= best - 1e-6
    assert r.upper_bound - r.value <= 1.01e-6 * max(abs(r.value), 1e-3)


def test_softmax_that_is_best_at_zero_needs_one_node():
    f = ds.Softmax(0.9 * np.eye(4))
    r = ds.global_maximum(f, ds.Budget(2.0, np.ones(4)))
    assert (r.value, r.upper_bound) == (0.0, 0.0)
    assert r.n_nodes <= 1


def test_stored_optima_of_the_paper(shared_data):
    checked = 0
    for family in (1, 2):
        with np.load(shared_data / "paper" / f"d{family}.npz") as archive:
            fields = (name for name in archive.files if name.split("__")[0].endswith(("n08_e03", "n12_e05")))
            stored = {name: archive[name] for name in fields}
        for key in sorted({name.split("__")[0] for name in stored}):
            if f"{key}__gmax_f" not in stored:
                continue
            H, h, c, A, b, upper, optimum = (
                stored[f"{key}__{field}"] for field in ("H", "h", "c", "A", "b", "ub", "gmax_f")
            )
            r = ds.global_maximum(ds.Quadratic(H, h.ravel(), float(c)), ds.Polytope(A, b.ravel(), upper.ravel()))
            assert r.status is ds.Status.OPTIMAL
            # SCIP's values may be too large by its feasibility tolerance.
            assert r.value == pytest.approx(float(optimum), rel=2e-5)
            assert r.upper_bound >= float(optimum) * (1.0 - 2e-5)
            assert r.upper_bound - r.value <= 1.01e-6 * abs(r.value - float(c))
            checked += 1
    assert checked >= 10


def test_limits_return_the_best_point_and_a_valid_bound():
    f, P = random_instance(1, 10, 10)
    best = ds.global_maximum(f, P).value
    for options in ({"time_limit": 0.0}, {"max_nodes": 1}):
        r = ds.global_maximum(f, P, gap=0.0, **options)
        assert r.status in (ds.Status.TIME_LIMIT, ds.Status.NODE_LIMIT)
        assert P.contains(r.x)
        assert np.isfinite(r.upper_bound)
        assert r.upper_bound >= best - 1e-12
        assert "left" in r.message


def test_no_step_is_begun_that_would_end_after_the_time_limit(monkeypatch):
    f, P = random_instance(1, 10, 10)
    best = ds.global_maximum(f, P).value
    calls, seconds = [], [0.0]

    def slow(data, iterate):
        calls.append(1)
        seconds[0] += 0.2
        return improve(data, iterate)

    monkeypatch.setattr(clock, "clock", lambda: seconds[0])
    monkeypatch.setattr(doubly_nonnegative, "improve", slow)
    r = ds.global_maximum(f, P, gap=0.0, time_limit=0.5)
    assert r.status is ds.Status.TIME_LIMIT
    assert len(calls) == 2
    assert best - 1e-12 <= r.upper_bound < np.inf


def a_set(kind, random, n):
    """One set of each kind that has finitely many rows, not a down-closed polytope or box."""
    upper = 0.3 + random.random(n)
    if kind == "simplex":
        return ds.Simplex(n, 0.5 + random.random())
    if kind == "knapsack":
        return ds.Knapsack(0.2 + random.random(n), 1.0, upper)
    if kind == "partition":
        return ds.PartitionMatroid(np.arange(n) % 2, [1, 1])
    if kind == "matching":
        return ds.MatchingPolytope([(i % 2, i % 3) for i in range(n)], n_left=2, n_right=3)
    inner = random.random(n) * upper
    A, A_eq = random.normal(size=(2, n)), random.random((1, n))
    lower = -random.random(n) if kind == "general, negative bounds" else np.zeros(n)
    return ds.GeneralPolytope(A, A @ inner + 0.1, A_eq, A_eq @ inner, lower, upper)


KINDS = ["simplex", "knapsack", "partition", "matching", "general", "general, negative bounds"]


def best_over_rows(f, P):
    """max f over P by enumeration of faces, equations being rows of every face."""
    program = quadratic_program(f, P)
    A = np.vstack([program.A, program.A_eq, -program.A_eq])
    b = np.concatenate([program.b, program.b_eq, -program.b_eq])
    low = program.lower
    shifted = best_by_faces(program.H, program.h + program.H @ low, A, b - A @ low, program.upper - low)
    return f.c + shifted + low @ (program.h + 0.5 * program.H @ low)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_maximum_over_every_set_of_rows(kind, seed):
    random = np.random.default_rng([seed, KINDS.index(kind)])
    n = 4
    H = -random.random((n, n))
    f, P = ds.Quadratic(H + H.T, random.random(n) * 2.0, 0.25), a_set(kind, random, n)
    best = best_over_rows(f, P)
    r = ds.global_maximum(f, P)
    assert r.status is ds.Status.OPTIMAL
    assert P.contains(r.x)
    assert r.value == pytest.approx(best, abs=1e-6)
    assert best - 1e-9 <= r.upper_bound <= best + 2e-6


def test_fixed_variables_and_zero_sides():
    f = ds.Quadratic([[-1.0, -1.0, -0.5], [-1.0, -2.0, 0.0], [-0.5, 0.0, -1.0]], [1.0, 1.0, 3.0])
    P = ds.Polytope([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], [0.0, 1.0])
    r = ds.global_maximum(f, P)
    assert r.x[0] == 0.0
    assert r.value == pytest.approx(known_maximum(f, P), abs=1e-6)
    nothing = ds.global_maximum(f, ds.Box([0.0, 0.0, 0.0]))
    assert (nothing.value, nothing.upper_bound, nothing.status) == (0.0, 0.0, ds.Status.OPTIMAL)


def test_wrong_inputs_say_what_to_use():
    f, P = random_instance(0, 3, 2)
    with pytest.raises(ds.UnsupportedError, match="use bounds"):
        ds.global_maximum(f, ds.Ball(1.0, 3), method="doubly-nonnegative")
    with pytest.raises(ds.UnsupportedError, match="use doubly-nonnegative or bounds"):
        ds.global_maximum(f, ds.Simplex(3), method="kkt-milp")
    with pytest.raises(ds.UnsupportedError, match="use bounds"):
        ds.global_maximum(ds.Softmax(np.eye(3)), ds.Simplex(3), method="separable")
    with pytest.raises(ds.UnsupportedError, match="Quadratic"):
        ds.global_minimum(ds.Softmax(np.eye(3)), P)
    with pytest.raises(ds.UnsupportedError, match="kkt-milp"):
        ds.global_maximum(ds.Softmax(np.eye(3)), P, method="kkt-milp")
    with pytest.raises(TypeError, match="positional"):
        ds.global_maximum(f, P, 7)
    with pytest.raises(ValueError, match="too many"):
        ds.global_maximum(ds.Quadratic(-np.eye(200), np.ones(200)), ds.Box(np.ones(200)), method="kkt-milp")
    with pytest.raises(ValueError, match="method"):
        ds.global_maximum(f, P, method="magic")
    with pytest.raises(ValueError, match="variables"):
        ds.global_maximum(f, ds.Box([1.0]))


def test_an_interrupt_returns_what_there_is(monkeypatch):
    f, P = random_instance(1, 6, 4)
    best = ds.global_maximum(f, P).value

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(doubly_nonnegative, "improve", interrupted)
    r = ds.global_maximum(f, P)
    assert r.status is ds.Status.INTERRUPTED
    assert P.contains(r.x)
    assert best <= r.upper_bound < np.inf


@pytest.mark.parametrize("largest", [0, 48])
def test_an_interrupt_keeps_what_the_node_has_proved(monkeypatch, largest):
    f, P = random_instance(1, 6, 4)
    best = known_maximum(f, P)
    linear = ds.certificates.linear_bound(f, P)
    complete, calls = quadratic.safe_bound, []

    def interrupted(data, W):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return complete(data, W)

    monkeypatch.setattr(quadratic, "_INTERIOR", largest)
    monkeypatch.setattr(quadratic, "_INTERIOR_LATER", 0)
    monkeypatch.setattr(quadratic, "safe_bound", interrupted)
    monkeypatch.setattr(doubly_nonnegative, "safe_bound", interrupted)
    r = ds.global_maximum(f, P, gap=1e-9)
    assert r.status is ds.Status.INTERRUPTED
    assert best - 1e-12 <= r.upper_bound < min(linear, best + 0.2 * abs(best))


def test_an_interrupt_among_the_starts_ends_the_run(monkeypatch):
    f, P = random_instance(1, 6, 4)
    best = ds.global_maximum(f, P).value
    complete = global_optimum.multi_start

    def interrupted(*arguments, **options):
        return replace(complete(*arguments, **options), status=ds.Status.INTERRUPTED)

    monkeypatch.setattr(global_optimum, "multi_start", interrupted)
    r = ds.global_maximum(f, P)
    assert r.status is ds.Status.INTERRUPTED
    assert r.n_nodes == 0
    assert best <= r.upper_bound < np.inf


def test_an_interior_point_that_fails_costs_nodes_only(monkeypatch):
    f, P = random_instance(2, 3, 2)
    best = known_maximum(f, P)
    calls = []

    def failing(data, iterate):
        calls.append(1)
        return None if len(calls) % 3 else improve(data, iterate)

    monkeypatch.setattr(doubly_nonnegative, "improve", failing)
    r = ds.global_maximum(f, P, gap=1e-2)
    assert r.status is ds.Status.OPTIMAL
    assert r.n_nodes > 1
    assert best - 1e-2 * abs(best) - 1e-9 <= r.value <= best + 1e-9
    assert r.upper_bound >= best - 1e-12


def test_against_scip():
    scip = pytest.importorskip("pyscipopt", reason="compares with SCIP (pip install '.[exact]')")
    f, P = random_instance(7, 6, 5)
    model = scip.Model()
    model.hideOutput()
    x = [model.addVar(lb=0.0, ub=float(u)) for u in P.upper]
    value = model.addVar(lb=None)
    for row, side in zip(P.A, P.b, strict=True):
        model.addCons(scip.quicksum(a * v for a, v in zip(row, x, strict=True)) <= side)
    quadratic = scip.quicksum(0.5 * f.H[i, j] * x[i] * x[j] for i in range(6) for j in range(6))
    model.addCons(value <= quadratic + scip.quicksum(a * v for a, v in zip(f.h, x, strict=True)) + f.c)
    model.setObjective(value, "maximize")
    model.optimize()
    assert ds.global_maximum(f, P).value == pytest.approx(model.getObjVal(), abs=2e-5)


@pytest.mark.parametrize("kind", ["polytope", *KINDS])
def test_nodes_by_the_first_order_method_alone(monkeypatch, kind):
    monkeypatch.setattr(quadratic, "_INTERIOR", 0)
    monkeypatch.setattr(quadratic, "_INTERIOR_LATER", 0)
    random = np.random.default_rng([7, len(kind)])
    if kind == "polytope":
        f, P = random_instance(6, 4, 3)
    else:
        H = -random.random((4, 4))
        f, P = ds.Quadratic(H + H.T, random.random(4) * 2.0, 0.25), a_set(kind, random, 4)
    best = best_over_rows(f, P)
    r = ds.global_maximum(f, P, gap=1e-3)
    assert r.status is ds.Status.OPTIMAL
    assert P.contains(r.x)
    assert best - 1e-9 <= r.upper_bound
    assert r.value <= best + 1e-9
    assert r.upper_bound - r.value <= 1.01e-3 * max(abs(best - f.c), 1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_time_still_gives_a_finite_bound(kind):
    random = np.random.default_rng(3)
    H = -random.random((5, 5))
    f, P = ds.Quadratic(H + H.T, random.random(5) * 2.0, 0.25), a_set(kind, random, 5)
    r = ds.global_maximum(f, P, time_limit=0.0)
    assert r.value <= r.upper_bound < np.inf
    assert r.upper_bound >= best_over_rows(f, P) - 1e-9


def test_a_gap_below_rounding_ends_with_what_can_be_proved(interpreted):
    quadratic = ds.Quadratic(-np.eye(2), [1.0, 1.0]), ds.Polytope([[1.0, 1.0]], [1.0], [1.0, 1.0])
    softmax = ds.Softmax([[2.0, 0.4], [0.4, 0.9]]), ds.Budget(1.3, np.ones(2))
    for (f, P), left in ((quadratic, 1e-12), (softmax, 1e-8)):
        r = ds.global_maximum(f, P, gap=0.0, max_nodes=2000)
        assert r.status in (ds.Status.STALLED, ds.Status.OPTIMAL)
        assert r.upper_bound - r.value <= left
        assert (r.status is ds.Status.OPTIMAL) == (r.upper_bound == r.value)
    r = ds.global_minimum(*quadratic, gap=0.0, max_nodes=2000)
    assert r.status in (ds.Status.STALLED, ds.Status.OPTIMAL)
    assert abs(r.value - r.lower_bound) <= 1e-12


def test_every_objective_has_an_answer(interpreted):
    Z = np.random.default_rng(3).standard_normal((6, 3))
    A = np.array([[0.0, 1.0, 0.5], [0.0, 0.0, 1.0], [0.3, 0.0, 0.0]])
    W = np.random.default_rng(4).random((3, 4))
    box, ball = ds.Box(np.ones(3)), ds.Ball(1.0, 3)
    pairs = [
        (ds.NonnegativePCA(Z), ball), (ds.Multilinear.facility_location(W), ds.Budget(1.5, np.ones(3))),
        (ds.Multilinear.cut(A), box), (ds.Multilinear.flid(W.sum(axis=1), W), box),
        (ds.MeanField(ds.Multilinear.cut(A)), box), (ds.Softmax(Z.T @ Z), ds.Simplex(3)),
        (ds.LogisticNonconvex(np.abs(Z), np.array([1, -1, 1, -1, 1, 1]), 0.2, 4.0), ds.Budget(2.0, np.full(3, 2.0))),
        (ds.Quadratic(A + A.T - np.eye(3), [1.0, -1.0, 0.5], require_dr=False), box),
    ]  # fmt: skip
    for f, P in pairs:
        r = ds.global_maximum(f, P, time_limit=2.0)
        points = [np.minimum(P.lmo(np.random.default_rng(i).standard_normal(3), P.upper), 1.0) for i in range(20)]
        best = max(f.value(x) for x in points if P.contains(x))
        assert best - 1e-3 * abs(best) <= r.value <= r.upper_bound < np.inf
        assert r.upper_bound >= best


@pytest.mark.parametrize("unit", [1e160, 1e-160, 1e200])
def test_units_of_the_value_do_not_matter(unit):
    H, h = -np.array([[2.0, 1, 0], [1, 3, 1], [0, 1, 2]]), np.array([3.0, 2, 1])
    P = ds.Polytope([[1.0, 1, 1]], [1.0], np.ones(3))
    right = ds.global_maximum(ds.Quadratic(H, h), P).value
    f = ds.Quadratic(H * unit, h * unit)
    r = ds.global_maximum(f, P, time_limit=5.0)
    assert r.status is ds.Status.OPTIMAL
    assert r.value / unit == pytest.approx(right, rel=1e-6)
    assert right * (1.0 - 1e-9) <= ds.certificates.upper_bound(f, P) / unit <= right * 1.01
    assert ds.global_minimum(f, P).lower_bound == pytest.approx(0.0, abs=1e-9 * unit)


@pytest.mark.parametrize("P", [ds.Simplex(2), ds.GeneralPolytope(A_eq=[[1.0, 1.0]], b_eq=[1.0], upper=[1.0, 1.0])])
def test_zero_is_a_minimum_only_where_it_is_in_the_set(P):
    r = ds.global_minimum(ds.Quadratic([[-1.0, -1.0], [-1.0, -1.0]], [3.0, 4.0]), P)
    assert P.contains(r.x)
    assert r.lower_bound <= 2.5 <= r.value <= 2.5 + 1e-5


def test_constants_and_small_units_by_the_mixed_integer_program():
    for H, h, u, right in ((np.zeros((1, 1)), [0.0], 1.0, 0.0), ([[-2.0]], [1.8], 1e-9, 1.8e-9)):
        r = ds.global_maximum(ds.Quadratic(H, h), ds.Box([u]), method="kkt-milp")
        assert r.value == pytest.approx(right, rel=1e-6)
        assert r.upper_bound >= right * (1.0 - 1e-6)
    f, P = random_instance(3, 4, 3)
    best = ds.global_maximum(f, P).value
    small = ds.Polytope(1e8 * P.A, P.b, 1e-8 * P.upper)
    r = ds.global_maximum(ds.Quadratic(1e10 * f.H, 1e2 * f.h), small, method="kkt-milp")
    assert r.value == pytest.approx(1e-6 * (best - f.c), rel=1e-4)
