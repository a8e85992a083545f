"""Global optima: values against brute force and stored optima, bounds re-checked in exact arithmetic."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.solvers.branch_and_bound import unit_form
from drsub_fast.solvers.doubly_nonnegative import BOUND, OBJECTIVE, STEPPED, improve, relaxation, safe_bound
from drsub_fast.solvers.exact import quadratic_program


def random_instance(seed, n, m, budget=False):
    """A quadratic with an interior maximum in some directions, and a polytope that cuts the box."""
    random = np.random.default_rng(seed)
    H = -random.random((n, n))
    H = 0.5 * (H + H.T)
    A = 0.01 + random.random((m, n))
    upper = (1.0 / A).min(axis=0) if m else np.ones(n)
    if seed % 3 == 0:
        upper = upper * (0.3 + 0.7 * random.random(n))
    h = -0.3 * H @ upper * (0.5 + random.random(n))
    f = ds.Quadratic(H, h, c=float(random.normal()))
    if budget:
        return f, ds.Budget(0.4 * upper.sum(), upper)
    return f, (ds.Polytope(A, np.ones(m), upper) if m else ds.Box(upper))


def best_by_faces(H, h, A, b, upper):
    """max 1/2 x'Hx + h'x over {A x <= b, 0 <= x <= upper}: the best stationary point over all faces."""
    n = len(h)
    rows = np.vstack([-np.eye(n), np.eye(n), A])
    sides = np.concatenate([np.zeros(n), upper, b])
    best = -np.inf
    for count in range(n + 1):
        for active in itertools.combinations(range(len(rows)), count):
            G = rows[list(active)]
            if np.linalg.matrix_rank(G) < count:
                continue
            kkt = np.block([[H, -G.T], [G, np.zeros((count, count))]])
            try:
                x = np.linalg.solve(kkt, np.concatenate([-h, sides[list(active)]]))[:n]
            except np.linalg.LinAlgError:
                continue
            if (rows @ x <= sides + 1e-9).all():
                best = max(best, 0.5 * x @ H @ x + h @ x)
    return best


def dense_rows(P):
    program = quadratic_program(ds.Quadratic(-np.eye(P.n), np.ones(P.n)), P)
    return program.A, program.b


def exact(matrix):
    return np.vectorize(Fraction.from_float, otypes=[object])(np.asarray(matrix, float))


def is_positive_definite(M):
    """Exactly, for a symmetric matrix of fractions, by elimination."""
    M = M.copy()
    for p in range(len(M)):
        if M[p, p] <= 0:
            return False
        for i in range(p + 1, len(M)):
            M[i, p:] = M[i, p:] - M[p, p:] * (M[i, p] / M[p, p])
    return True


@pytest.mark.parametrize(("n", "m"), [(2, 1), (3, 2), (4, 0), (4, 3), (5, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_maximum_is_the_best_stationary_point_of_all_faces(n, m, seed):
    f, P = random_instance(seed, n, m, budget=m == 1)
    A, b = dense_rows(P)
    best = best_by_faces(f.H, f.h, A, b, P.upper) + f.c
    r = ds.global_maximum(f, P)
    assert r.status is ds.Status.OPTIMAL
    assert P.contains(r.x)
    assert r.value == pytest.approx(f.value(r.x), rel=1e-12)
    assert r.value <= best + 1e-9
    assert r.value >= best - 2e-6 * max(abs(best), abs(best - f.c), 1e-3)
    assert r.upper_bound >= best - 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_any_multipliers_give_a_bound(seed):
    random = np.random.default_rng(seed)
    f, P = random_instance(seed, 3, 2)
    program = quadratic_program(f, P)
    form = unit_form(program, np.zeros(3), program.upper)
    data, _ = relaxation(form.H, form.h, form.A)
    best = best_by_faces(program.H, program.h, program.A, program.b, program.upper)
    for scale in (1e-3, 1e-1, 1.0, 10.0):
        W = scale * random.normal(size=(len(data.V), len(data.V)))
        assert safe_bound(data.C, data.V, W)[0] >= best - 1e-12


@pytest.mark.parametrize(("n", "m", "seed"), [(3, 2, 0), (4, 3, 1), (5, 4, 2), (6, 6, 3)])
def test_certificate_holds_in_exact_arithmetic(n, m, seed):
    f, P = random_instance(seed, n, m)
    program = quadratic_program(f, P)
    form = unit_form(program, np.zeros(n), program.upper)
    data, iterate = relaxation(form.H, form.h, form.A)
    for _ in range(12):
        if improve(data, iterate) != STEPPED:
            break
        bound, shift = (Fraction.from_float(float(number)) for number in safe_bound(data.C, data.V, iterate.W))
        W = exact(np.maximum(iterate.W, 0.0))
        W[0, 0] = Fraction(0)
        V = exact(data.V)
        Q = exact(data.C) + V.T @ ((W + W.T) / 2) @ V
        # With S = t E_00 + s (0 + I) - Q positive definite, z'Qz <= t + s |x|^2 <= t + s n, which is the bound.
        S = shift * exact(np.eye(n + 1)) - Q
        S[0, 0] = bound - shift * n - Q[0, 0]
        assert is_positive_definite(S)
    assert iterate.numbers[BOUND] - iterate.numbers[OBJECTIVE] < 1e-3


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


def test_fixed_variables_and_zero_sides():
    f = ds.Quadratic([[-1.0, -1.0, -0.5], [-1.0, -2.0, 0.0], [-0.5, 0.0, -1.0]], [1.0, 1.0, 3.0])
    P = ds.Polytope([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], [0.0, 1.0])
    r = ds.global_maximum(f, P)
    assert r.x[0] == 0.0
    assert r.value == pytest.approx(best_by_faces(f.H, f.h, P.A, P.b, P.upper), abs=1e-6)
    nothing = ds.global_maximum(f, ds.Box([0.0, 0.0, 0.0]))
    assert (nothing.value, nothing.upper_bound, nothing.status) == (0.0, 0.0, ds.Status.OPTIMAL)


def test_wrong_inputs_say_what_to_use():
    f, P = random_instance(0, 3, 2)
    with pytest.raises(ds.UnsupportedError, match="maximize"):
        ds.global_maximum(f, ds.Ball(1.0, 3) if hasattr(ds, "Ball") else ds.FeasibleSet())
    with pytest.raises(ValueError, match="too many"):
        ds.global_maximum(ds.Quadratic(-np.eye(200), np.ones(200)), ds.Box(np.ones(200)))
    with pytest.raises(ValueError, match="method"):
        ds.global_maximum(f, P, method="magic")
    with pytest.raises(ValueError, match="variables"):
        ds.global_maximum(f, ds.Box([1.0]))
