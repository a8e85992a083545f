"""Down-closed polytopes: what is accepted, what is refused and in which words, projections, extreme bounds."""

import gc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import drsub_fast as ds
from drsub_fast.errors import OracleError
from drsub_fast.instances import paper_instances
from drsub_fast.lp import projection
from drsub_fast.sets.polytope import KERNEL, SOLVER

A = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, 4.0]])
B = np.array([2.0, 3.0])


def quadratic(n, seed=0):
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    return ds.Quadratic(0.5 * (H + H.T), rng.random(n))


def random_polytope(n, m, seed, density=1.0):
    rng = np.random.default_rng(seed)
    matrix = (0.05 + rng.random((m, n))) * (rng.random((m, n)) < density)
    return ds.Polytope(matrix, 0.5 * matrix.sum(axis=1) + 0.01, np.ones(n))


# ---- refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.where(A == 4.0, np.nan, A), B), r"A\[1, 2\] = nan is not finite"),
        ((np.where(A == 4.0, np.inf, A), B), r"A\[1, 2\] = inf is not finite"),
        ((np.where(A == 4.0, -0.5, A), B), r"A\[1, 2\] = -0.5 is negative: the set is not down-closed"),
        ((scipy.sparse.csr_array(np.where(A == 4.0, np.nan, A)), B), r"A\[1, 2\] = nan is not finite"),
        ((scipy.sparse.coo_array(np.where(A == 4.0, -0.5, A)), B), r"A\[1, 2\] = -0.5 is negative"),
        ((A, [2.0, np.nan]), r"b\[1\] = nan is not finite"),
        ((A, [np.inf, 3.0]), r"b\[0\] = inf is not finite"),
        ((A, [2.0, -1.0]), r"b\[1\] = -1 is negative: the set is empty"),
        ((A, [2.0]), "b has 1 entries, A has 2 rows"),
        ((A, [[2.0, 3.0]]), r"b must be a vector \(1 axes\), got shape \(1, 2\)"),
        ((A[0], B), r"A must be a matrix \(2 axes\), got shape \(3,\)"),
        ((A[None], B), r"A must be a matrix \(2 axes\), got shape \(1, 2, 3\)"),
        ((np.zeros((2, 0)), B), "A has no columns: at least one variable is needed"),
        ((scipy.sparse.csr_array((2, 0)), B), "A has no columns"),
        ((A, B, [1.0, 1.0]), "upper has 2 entries, expected 3"),
        ((A, B, [1.0, np.nan, 1.0]), r"upper\[1\] = nan is not finite"),
        ((A, B, [1.0, 1.0, np.inf]), r"upper\[2\] = inf is not finite"),
        ((A, B, [1.0, -1.0, 1.0]), r"upper\[1\] = -1 is negative"),
        ((np.zeros((0, 3)), []), r"no row bounds x\[0\] \(column 0 of A is zero\): give upper"),
        (([[1.0, 0.0]], [1.0]), r"no row bounds x\[1\] \(column 1 of A is zero\): give upper"),
        ((scipy.sparse.csc_array([[1.0, 0.0]]), [1.0]), r"no row bounds x\[1\] \(column 1 of A is zero\): give upper"),
        (([[1.0, 1e-310]], [1e10]), r"the bound that the rows imply for x\[1\] is above the largest float: give upper"),
        ((scipy.sparse.csc_array([[1.0, 1e-310]]), [1e10]), r"for x\[1\] is above the largest float: give upper"),
    ],
)
def test_bad_data_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ds.Polytope(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([["a", "b"]], [1.0]), "A cannot be read as an array of numbers"),
        ((A * 1j, B), "A is complex; real numbers are needed"),
        ((A, ["x", "y"]), "b cannot be read as an array of numbers"),
        ((A, scipy.sparse.csr_array(B[None])), "b is a sparse matrix; pass a dense array"),
        ((A, B, {"x": 1}), "upper cannot be read as an array of numbers"),
    ],
)
def test_data_of_the_wrong_kind(arguments, message):
    with pytest.raises(TypeError, match=message):
        ds.Polytope(*arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda P: P.lmo([1.0, np.nan, 1.0]), r"direction\[1\] = nan is not finite"),
        (lambda P: P.lmo([1.0, 1.0]), "direction has 2 entries, expected 3"),
        (lambda P: P.lmo(np.ones(3), upper=[1.0, np.inf, 1.0]), r"upper\[1\] = inf is not finite"),
        (lambda P: P.lmo(np.ones(3), upper=[1.0, 1.0, -0.1]), r"upper\[2\] = -0.1 is below the set's lower bound"),
        (lambda P: P.project([np.inf, 0.0, 0.0]), r"y\[0\] = inf is not finite"),
        (lambda P: P.project(np.ones(4)), "y has 4 entries, expected 3"),
        (lambda P: P.contains([0.0, np.nan, 0.0]), r"x\[1\] = nan is not finite"),
        (lambda P: P.with_upper([1.0]), "upper has 1 entries, expected 3"),
        (lambda P: P.with_upper([1.0, -1.0, 1.0]), r"upper\[1\] = -1 is below the set's lower bound"),
    ],
)
def test_bad_arguments_of_methods_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(ds.Polytope(A, B))


# ---- accepted


def frozen():
    matrix = A.copy()
    matrix.flags.writeable = False
    return matrix


def with_duplicates_and_zeros():
    rows, columns = np.array([0, 0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 2, 1, 2, 0])
    return scipy.sparse.coo_array(([0.25, 0.75, 2.0, 0.5, 1.0, 4.0, 0.0], (rows, columns)), shape=(2, 3))


@pytest.mark.parametrize(
    "matrix",
    [
        A.tolist(),
        tuple(map(tuple, A)),
        A.astype(np.float32),
        np.asfortranarray(A),
        A[:, ::-1][:, ::-1],
        frozen(),
        pd.DataFrame(A, columns=list("abc")),
        scipy.sparse.csr_array(A),
        scipy.sparse.csc_matrix(A),
        scipy.sparse.coo_array(A),
        scipy.sparse.csr_array(A.astype(np.float32)),
        with_duplicates_and_zeros(),
    ],
    ids=lambda matrix: type(matrix).__name__,
)
def test_every_form_of_the_matrix_gives_the_same_set(matrix):
    P, expected = ds.Polytope(matrix, pd.Series(B)), ds.Polytope(A, B)
    np.testing.assert_array_equal(P.upper, [2.0, 1.0, 0.75])
    for direction in np.random.default_rng(0).standard_normal((5, 3)):
        assert direction @ P.lmo(direction) == pytest.approx(direction @ expected.lmo(direction), rel=1e-12)
    np.testing.assert_allclose(P.project([1.0, 2.0, 3.0]), expected.project([1.0, 2.0, 3.0]), atol=1e-12)
    r, q = (ds.nonmonotone_frank_wolfe(quadratic(3), S) for S in (P, expected))
    assert r.value == pytest.approx(q.value, rel=1e-12)


def test_the_data_are_copied_and_the_bound_cannot_be_written_to():
    matrix, b, upper = A.copy(), B.copy(), np.ones(3)
    P = ds.Polytope(matrix, b, upper)
    before = P.lmo([1.0, 3.0, 2.0])
    matrix[:], b[:], upper[:] = 9.0, 0.0, 0.0
    np.testing.assert_array_equal(P.lmo([1.0, 3.0, 2.0]), before)
    with pytest.raises(ValueError, match="read-only"):
        P.upper[0] = 5.0


def test_tightest_bound_is_what_a_single_variable_can_reach():
    P = random_polytope(7, 5, 1, density=0.8)
    Q = ds.Polytope(P.A, P.b)
    for j, e in enumerate(np.eye(7)):
        v = Q.lmo(e)
        assert v[j] == pytest.approx(Q.upper[j], rel=1e-12)
        assert not Q.contains(e * Q.upper[j] * 1.001)
    np.testing.assert_array_equal(ds.Polytope(scipy.sparse.coo_array(P.A), P.b).upper, Q.upper)


def test_contains_up_to_the_tolerance():
    P = ds.Polytope(A, B)
    x = np.array([0.0, 1.0, 0.0])
    assert P.contains(x)
    assert P.contains(x + [0.0, 5e-10, 0.0])
    assert not P.contains(x + [0.0, 1e-6, 0.0])
    assert P.contains(x + [0.0, 1e-6, 0.0], tol=1e-5)
    assert not P.contains([-1e-6, 0.0, 0.0])
    assert not ds.Polytope(A, B, np.full(3, 0.5)).contains(x)


# ---- small and flat sets


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("matrix", "b", "upper"),
    [
        (np.zeros((0, 2)), [], [0.5, 2.0]),  # no rows
        (np.zeros((3, 2)), [1.0, 0.0, 2.0], [0.5, 2.0]),  # rows of zeros
        ([[1.0, 0.0]], [0.5], [3.0, 2.0]),
    ],
)
def test_boxes_in_disguise(matrix, b, upper, sparse):
    P = ds.Polytope(scipy.sparse.csr_array(np.array(matrix)) if sparse else matrix, b, upper)
    box = ds.Box([0.5, 2.0])
    for direction in ([1.0, 1.0], [-1.0, 2.0], [0.0, 0.0], [3.0, -1.0]):
        np.testing.assert_allclose(P.lmo(direction), box.lmo(direction), atol=1e-15)
    np.testing.assert_allclose(P.project([3.0, 1.0]), [0.5, 1.0], atol=1e-12)


@pytest.mark.parametrize("m", [0, 1, 3])
def test_one_variable(m):
    P = ds.Polytope(np.full((m, 1), 2.0), np.full(m, 1.0), [0.75])
    best = 0.5 if m else 0.75
    assert P.lmo([2.0])[0] == P.project([4.0])[0] == best
    assert P.lmo([-2.0])[0] == P.lmo([0.0])[0] == 0.0
    assert ds.nonmonotone_frank_wolfe(ds.Quadratic([[-1.0]], [1.0]), P).x[0] <= best


@pytest.mark.parametrize("sparse", [False, True])
def test_the_set_that_is_only_zero(sparse):
    P = ds.Polytope(scipy.sparse.csr_array(A) if sparse else A, np.zeros(2))
    assert not P.upper.any()
    assert not P.lmo(np.ones(3)).any()
    assert not P.project(np.ones(3)).any()
    for solve in (ds.frank_wolfe, ds.nonmonotone_frank_wolfe, ds.two_phase_frank_wolfe, ds.projected_gradient):
        r = solve(quadratic(3), P)
        assert not r.x.any()
        assert r.value == 0.0
        assert r.fw_gap == 0.0


def test_rows_without_room_fix_their_columns_whatever_the_bound():
    P = ds.Polytope([[1.0, 0.0, 2.0], [1.0, 1.0, 1.0]], [0.0, 0.5], np.ones(3))
    np.testing.assert_array_equal(P.lmo([3.0, 1.0, 2.0]), [0.0, 0.5, 0.0])
    r = ds.nonmonotone_frank_wolfe(quadratic(3), P)
    assert P.contains(r.x)
    assert r.x[1] > 0.0


@pytest.mark.parametrize("lmo", ["kernel", "highs"])
@pytest.mark.parametrize("room", [0.0, 5e-324, -5e-324, 2.2e-16, -2.2e-16, -1e-12])
def test_bounds_one_step_of_rounding_from_zero(lmo, room):
    P = ds.Polytope(A, B)
    upper = P.upper.copy()
    upper[1] = room
    v = P.lmo([1.0, 5.0, 1.0], upper=upper) if lmo == "kernel" else P.solver(upper).maximize(np.ones(3), upper)
    assert 0.0 <= v[1] <= max(room, 0.0)
    assert P.contains(v)
    without = ds.Polytope(A[:, [0, 2]], B).lmo([1.0, 1.0])
    assert v[0] + v[2] == pytest.approx(without.sum(), rel=1e-12)


def test_tighter_bounds_by_hand_or_by_set_agree():
    P = random_polytope(9, 6, 3)
    rng = np.random.default_rng(3)
    upper = rng.random(9)
    Q = P.with_upper(upper)
    np.testing.assert_array_equal(Q.upper, upper)
    for direction in rng.standard_normal((5, 9)):
        v = P.lmo(direction, upper=upper)
        assert (v <= upper).all()
        assert direction @ v == pytest.approx(direction @ Q.lmo(direction), rel=1e-12)
    assert (Q.project(np.full(9, 2.0)) <= upper).all()
    np.testing.assert_array_equal(P.with_upper(np.full(9, 7.0)).upper, P.upper)  # never above the set's own bound


# ---- projection


def assert_is_projection(P, y, p):
    """p is the projection if and only if <y - p, z - p> <= 0 for every z of the set."""
    assert P.contains(p, tol=1e-9)
    scale = 1.0 + np.abs(y).max() ** 2
    assert (y - p) @ (P.lmo(y - p) - p) <= 1e-9 * P.n * scale


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("n", "m"), [(1, 0), (1, 3), (6, 0), (8, 5), (16, 16), (20, 60), (100, 50)])
def test_projection(n, m, sparse):
    rng = np.random.default_rng(n + m)
    P = random_polytope(n, m, n, density=0.5 if sparse else 1.0)
    P = ds.Polytope(scipy.sparse.csr_array(P.A), P.b, P.upper) if sparse else P
    for scale in (0.1, 1.0, 10.0, 1e3):
        y = scale * rng.standard_normal(n)
        assert_is_projection(P, y, P.project(y))
    inside = 0.1 * rng.random(n)
    if P.contains(inside, tol=0.0):
        np.testing.assert_allclose(P.project(inside), inside, atol=1e-12)


@pytest.mark.parametrize("kind", ["copies of a row", "zero right-hand sides", "zero bounds", "many tight rows"])
def test_projection_onto_degenerate_sets(kind):
    rng = np.random.default_rng(4)
    n, m = 10, 12
    for _ in range(10):
        matrix = rng.integers(0, 3, (m, n)).astype(float)
        b, upper = rng.integers(1, 5, m).astype(float), np.ones(n)
        if kind == "copies of a row":
            matrix[1:6] = matrix[0]
            b[1:6] = b[0]
        elif kind == "zero right-hand sides":
            matrix[:3] = np.eye(n)[:3]
            b[:3] = 0.0
        elif kind == "zero bounds":
            upper[:4] = 0.0
        else:
            b = matrix @ np.full(n, 0.5)
        P = ds.Polytope(matrix, b, upper)
        y = 2.0 * rng.standard_normal(n) + 0.5
        assert_is_projection(P, y, P.project(y))


def test_projections_of_the_papers_steps():
    # Step 1 / (k + 1) along the gradient from the iterate, as projected gradient takes it.
    for instance in list(paper_instances("quadratic-uniform", repeats=1))[-3:]:
        f, P = instance.f, instance.P
        x = np.zeros(P.n)
        for k in range(10):
            y = x + f.gradient(x) / (k + 1.0)
            x = P.project(y)
            assert_is_projection(P, y, x)


def test_projection_that_fails_raises(monkeypatch):
    monkeypatch.setattr(projection.daqp, "solve", lambda *_, **__: (np.zeros(3), 0.0, -4, {}))
    with pytest.raises(OracleError, match="DAQP's exit flag -4"):
        ds.Polytope(A, B).project(np.ones(3))


# ---- memory


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the resident set is read from /proc")
@pytest.mark.parametrize("lmo", ["kernel", "highs"])
def test_memory_stays_flat_over_many_solves(lmo):
    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    f, P = quadratic(40), random_polytope(40, 30, 5)
    for _ in range(100):
        ds.nonmonotone_frank_wolfe(f, P, max_iter=5, lmo=lmo)
    before = resident()
    for _ in range(1000):
        ds.nonmonotone_frank_wolfe(f, P, max_iter=5, lmo=lmo)
    # The workspace alone of a thousand solves would be 40 MB.
    assert resident() - before < 16e6


def test_sparse_rows_use_the_kernel_unless_they_are_many_and_almost_empty():
    rng = np.random.default_rng(12)
    n = 400
    full = np.where(rng.random((n, n)) < 0.05, rng.random((n, n)), 0.0)
    diagonal = scipy.sparse.eye_array(n, format="csr")
    for rows, mode in ((scipy.sparse.csr_array(full), KERNEL), (full, KERNEL), (diagonal, SOLVER), (np.eye(n), SOLVER)):
        P = ds.Polytope(rows, np.ones(n), np.ones(n))
        assert P.params().mode == mode
        assert P.params("kernel").mode == KERNEL
        assert P.params("highs").mode == SOLVER
    cost = rng.random(n)
    P, Q = ds.Polytope(scipy.sparse.csr_array(full), np.ones(n), np.ones(n)), ds.Polytope(full, np.ones(n), np.ones(n))
    np.testing.assert_array_equal(P.lmo(cost), Q.lmo(cost))
    assert cost @ P.lmo(cost) == pytest.approx(cost @ P.solver(P.upper).maximize(cost, P.upper), rel=1e-12)
