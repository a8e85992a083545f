"""The reference twin: formulas, oracle, projection, and what the pseudocode promises."""

import subprocess
import sys

import daqp
import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime

import drsub_fast as ds
from drsub_fast import reference
from drsub_fast.errors import UnsupportedError
from drsub_fast.reference.problem import Region, as_function, as_region, project, quadratic, softmax, vertex
from drsub_fast.sets.knapsack import DisjointKnapsacks


def random_quadratic(n, m, seed):
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    A = 0.01 + rng.random((m, n))
    P = ds.Polytope(A, np.ones(m))
    H = 0.5 * (H + H.T)
    return ds.Quadratic(H, -0.2 * H @ P.upper, c=0.3), P


def random_kernel(n, seed):
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (U * rng.uniform(0.5, 3.0, n)) @ U.T


def test_imports_no_compiler_and_no_lp_package():
    code = (
        "import ast, pathlib, drsub_fast.reference as r\n"
        "for path in pathlib.Path(r.__file__).parent.glob('*.py'):\n"
        "    for node in ast.walk(ast.parse(path.read_text())):\n"
        "        if isinstance(node, (ast.Import, ast.ImportFrom)):\n"
        "            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module]\n"
        "            for name in names:\n"
        "                print(name)\n"
    )
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = {name for name in names if name.startswith("drsub_fast")}
    checks = {"drsub_fast._checks", "drsub_fast._records", "drsub_fast.errors"}
    assert own <= {*checks, "drsub_fast.reference.solvers", "drsub_fast.reference.problem"}
    assert {name.split(".")[0] for name in set(names) - own} <= {
        "numpy",
        "scipy",
        "collections",
        "dataclasses",
        "html",
        "math",
        "typing",
    }


@pytest.mark.parametrize("function", [quadratic(-np.eye(5), np.ones(5), 2.0), softmax(random_kernel(5, 1))])
def test_gradient_is_the_derivative_of_the_value(function):
    x = np.random.default_rng(2).uniform(0.1, 0.9, 5)
    assert np.allclose(function.gradient(x), approx_fprime(x, function.value, 1e-7), atol=1e-5)


def test_softmax_at_vertices_is_log_det_of_submatrices():
    L = random_kernel(5, 3)
    for subset in ([0], [1, 3], [0, 2, 4], list(range(5))):
        x = np.zeros(5)
        x[subset] = 1.0
        assert softmax(L).value(x) == pytest.approx(np.linalg.slogdet(L[np.ix_(subset, subset)])[1], abs=1e-12)


def test_softmax_is_minus_infinity_where_the_determinant_vanishes():
    assert softmax(np.ones((2, 2))).value(np.ones(2)) == -np.inf


def test_objects_are_read_by_their_attributes():
    f, P = random_quadratic(4, 3, 0)
    x = np.full(4, 0.1)
    assert as_function(f).value(x) == pytest.approx(f.value(x), rel=1e-14)
    assert np.array_equal(as_region(P).A, P.A)
    B = np.random.default_rng(1).standard_normal((4, 2))
    assert as_function(ds.Softmax(factor=B)).value(x) == pytest.approx(softmax(B @ B.T).value(x), abs=1e-12)
    assert as_region(ds.Box([3.0]), ds.Softmax([[2.0]])).upper.tolist() == [1.0]
    assert as_region(ds.Box([3.0]), ds.Softmax([[2.0]], unit_box=False)).upper.tolist() == [3.0]
    budget, box = as_region(ds.Budget(1.5, np.ones(4))), as_region(ds.Box(np.ones(4)))
    assert budget.A.tolist() == [[1.0] * 4]
    assert budget.b.tolist() == [1.5]
    assert box.A.shape == (0, 4)
    with pytest.raises(UnsupportedError, match="no formula for object"):
        as_function(object())


@pytest.mark.parametrize(
    "P",
    [
        ds.Box([0.5, 2.0, 1.0]),
        ds.Budget(1.2, [1.0, 1.0, 0.5]),
        ds.Knapsack([0.5, 1.0, 2.0], 1.0, [1.0, 1.0, 1.0]),
        ds.PartitionMatroid([0, 1, 1], [0.5, 1.0], [1.0, 0.75, 0.75]),
        ds.Polytope([[1.0, 2.0, 0.5]], [1.5]),
        ds.MatchingPolytope([(0, 0), (0, 1), (1, 0)], 2, 2, 0.75),
        ds.LaminarMatroid([[0, 1, 2], [0, 1]], [1.5, 0.8]),
        ds.Polytope(scipy.sparse.csr_array(np.ones((1, 3))), [1.2], np.ones(3)).with_upper([0.5, 1.0, 0.25]),
        ds.LaminarMatroid([[0, 1, 2], [0, 1]], [1.5, 0.8]).with_upper([0.5, 0.1, 1.0]),
    ],
    ids=lambda P: type(P).__name__,
)
def test_sets_of_rows_are_solved_as_they_are(P):
    f = ds.Quadratic(-np.full((3, 3), 0.3), [1.1, 2.0, 1.5])
    for fast, slow in (
        (ds.frank_wolfe, reference.frank_wolfe),
        (ds.nonmonotone_frank_wolfe, reference.nonmonotone_frank_wolfe),
        (ds.projected_gradient, reference.projected_gradient),
    ):
        mine, theirs = fast(f, P, max_iter=20), slow(f, P, max_iter=20)
        assert P.contains(theirs.x)
        assert theirs.value == pytest.approx(mine.value, rel=1e-9)
        assert theirs.fw_gap == pytest.approx(mine.fw_gap, abs=1e-9)


@pytest.mark.parametrize(
    "P",
    [
        ds.Ball(1.0, 2),
        ds.Simplex(2),
        ds.GeneralPolytope([[1.0, 1.0]], [1.0], upper=[1.0, 1.0]),
        DisjointKnapsacks(np.zeros(2, int), np.ones(2), np.ones(1), np.ones(2), equality=True),
        object(),
        type("Cone", (), {"is_down_closed": True, "upper": np.ones(2)})(),
    ],
    ids=lambda P: type(P).__name__,
)
def test_sets_without_a_formula_are_refused(P):
    f = ds.Quadratic(-np.eye(2), [1.0, 1.0])
    for method in (reference.frank_wolfe, reference.nonmonotone_frank_wolfe, reference.two_phase_frank_wolfe):
        with pytest.raises(UnsupportedError, match=f"{type(P).__name__}"):
            method(f, P)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_iter": -1}, "max_iter = -1 must be at least 0"),
        ({"tol": -1.0}, "tol = -1 must be at least 0"),
        ({"step_size": "long"}, "unknown step_size 'long'; choose from 'open-loop', 'exact', 'short'"),
        ({"step_size": 1.5}, "step_size = 1.5 is above 1"),
        ({"step_size": 0.0}, "step_size = 0 must be above 0"),
        ({"x0": [0.9, 0.9]}, "x0 is not in the set"),
        ({"x0": [-0.1, 0.0]}, "x0 is not in the set"),
        ({"x0": [0.1]}, "x0 has 1 entries, expected 2"),
        ({"x0": [0.1, np.nan]}, r"x0\[1\] = nan is not finite"),
    ],
)
def test_bad_options_are_refused_as_by_the_fast_methods(arguments, message):
    f, P = ds.Quadratic(-np.eye(2), [1.0, 1.0]), ds.Budget(1.0, [1.0, 1.0])
    for method in (reference.frank_wolfe, ds.frank_wolfe):
        with pytest.raises(ValueError, match=message):
            method(f, P, **arguments)
    with pytest.raises(ValueError, match="the objective has 2 variables, the set 3"):
        reference.frank_wolfe(f, ds.Box(np.ones(3)))
    with pytest.raises(ValueError, match="unknown subroutine"):
        reference.two_phase_frank_wolfe(f, P, subroutine="simplex")
    with pytest.raises(TypeError, match="max_iter must be an integer"):
        reference.projected_gradient(f, P, max_iter=2.5)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_the_yardstick_holds_in_any_unit(unit):
    f = ds.Quadratic(-np.eye(2) / unit**2, np.ones(2) / unit)
    P = ds.Polytope([[1.0, 1.0]], [0.5 * unit], [unit, unit])
    for method in (reference.frank_wolfe, reference.nonmonotone_frank_wolfe):
        r = method(f, P, max_iter=200)
        assert P.contains(r.x)
        assert r.value == pytest.approx(0.4375, rel=1e-3)


def test_oracle_keeps_the_bounds_and_small_costs():
    region = Region(np.array([[1.0, 2.0]]), np.array([2.0]), np.array([2.0, 1.0]))
    assert np.allclose(vertex(region, 1e-9 * np.array([1.0, 1.0])), [2.0, 0.0])
    assert np.allclose(vertex(region, np.array([1.0, 3.0]), np.array([0.5, -1e-17])), [0.5, 0.0])


@pytest.mark.parametrize("n", [2, 8, 16, 40])
def test_projection_agrees_with_a_quadratic_program(n):
    rng = np.random.default_rng(n)
    m = n // 2 + 1
    for scale in (0.1, 1.0, 30.0):
        A, b = 0.01 + rng.random((m, n)), np.ones(m)
        upper = (b[:, None] / A).min(0)
        y = scale * rng.standard_normal(n)
        bounds = np.concatenate([upper, b]), np.concatenate([np.zeros(n), np.full(m, -1e30)])
        expected = daqp.solve(np.eye(n), -y, A, *bounds, np.zeros(n + m, dtype=np.int32))[0]
        assert np.allclose(project(Region(A, b, upper), y), expected, atol=1e-11)


def test_projection_leaves_points_of_the_set_alone():
    region = Region(np.ones((1, 3)), np.array([2.0]), np.ones(3))
    y = np.array([0.5, 0.0, 1.0])
    assert np.array_equal(project(region, y), y)


def test_methods_stay_feasible_and_count():
    f, P = random_quadratic(6, 4, 1)
    for solve, n_lmo in (
        (reference.nonmonotone_frank_wolfe, 11),
        (reference.monotone_frank_wolfe, 11),
        (reference.projected_gradient, 1),
    ):
        r = solve(f, P, max_iter=10)
        assert P.contains(r.x)
        assert (r.n_iter, r.n_lmo, len(r.trace.value)) == (10, n_lmo, 11)
        assert r.value == pytest.approx(f.value(r.x), rel=1e-13)


def test_gap_bounds_what_a_step_can_gain_to_first_order():
    f, P = random_quadratic(6, 4, 2)
    r = reference.frank_wolfe(f, P, max_iter=30)
    rng = np.random.default_rng(0)
    assert r.fw_gap == min(r.trace.fw_gap)
    for _ in range(50):
        y = P.upper * rng.random(6) ** 3
        y *= min(1.0, (P.b / (P.A @ y)).min())
        assert f.gradient(r.x) @ (y - r.x) <= r.fw_gap + 1e-12


@pytest.mark.parametrize("step_size", ["exact", "short"])
def test_line_searches_never_go_down(step_size):
    f, P = random_quadratic(6, 4, 3)
    values = reference.frank_wolfe(f, P, step_size=step_size, max_iter=40).trace.value
    assert (np.diff(values) >= -1e-14).all()


def test_exact_step_of_a_softmax_is_the_best_of_the_segment():
    f, P = softmax(random_kernel(5, 4)), Region(np.ones((1, 5)), np.array([2.0]), np.ones(5))
    r = reference.frank_wolfe(f, P, x0=np.full(5, 0.2), step_size="exact", max_iter=1, tol=0.0)
    x0 = np.full(5, 0.2)
    v = vertex(P, f.gradient(x0))
    grid = max(f.value(x0 + gamma * (v - x0)) for gamma in np.linspace(0.0, 1.0, 2001))
    assert r.trace.value[1] >= grid - 1e-12
    with pytest.raises(UnsupportedError, match="short"):
        reference.frank_wolfe(f, P, step_size="short")


def test_two_phase_returns_the_better_phase():
    winners = set()
    for seed in range(8):
        f, P = random_quadratic(6, 4, seed)
        r = reference.two_phase_frank_wolfe(f, P, max_iter=30)
        first, second = r.phases
        assert r.value == max(first.value, second.value)
        assert (second.x <= P.upper - first.x + 1e-12).all()
        assert r.fw_gap == pytest.approx(max(0.0, reference.frank_wolfe(f, P, x0=r.x, max_iter=0).fw_gap), abs=1e-9)
        winners.add(r.phase)
    assert winners == {1, 2}


def test_other_subroutines():
    f, P = random_quadratic(6, 4, 5)
    by_name = reference.two_phase_frank_wolfe(f, P, max_iter=20, subroutine="nonmonotone-frank-wolfe")
    own = reference.two_phase_frank_wolfe(
        f,
        P,
        max_iter=20,
        subroutine=lambda f, P, max_iter, tol: reference.nonmonotone_frank_wolfe(f, P, max_iter=max_iter),
    )
    assert by_name.value == own.value


METHODS = [
    reference.frank_wolfe,
    reference.monotone_frank_wolfe,
    reference.nonmonotone_frank_wolfe,
    reference.projected_gradient,
    reference.two_phase_frank_wolfe,
]


@pytest.mark.parametrize("method", METHODS)
def test_linear_programs_may_be_solved_by_the_caller(method):
    f, P = random_quadratic(6, 4, 11)
    calls = []

    def lmo(direction, A, b, upper):
        np.testing.assert_array_equal(A, P.A)
        np.testing.assert_array_equal(b, P.b)
        assert ((upper >= 0.0) & (upper <= P.upper)).all()
        calls.append(upper)
        return vertex(Region(A, b, upper), direction)

    own, default = method(f, P, max_iter=8, lmo=lmo), method(f, P, max_iter=8)
    assert own.value == pytest.approx(default.value, rel=1e-12)
    assert len(calls) == own.n_lmo
    shrunken = any((upper < P.upper).any() for upper in calls)
    assert shrunken == (method in (reference.nonmonotone_frank_wolfe, reference.two_phase_frank_wolfe))
