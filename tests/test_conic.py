"""Orthant conic lattices: the reduction, its way back, and the checks that name a pair."""

import doctest

import numba
import numpy as np
import pytest
import scipy.sparse

import drsub_fast as ds
from drsub_fast import conic

N = 6
ALPHA = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])


def signed_quadratic(seed):
    """H with alpha_i alpha_j H_ij <= 0, and h."""
    rng = np.random.default_rng(seed)
    H = -rng.random((N, N))
    return ALPHA[:, None] * (H + H.T) * ALPHA, rng.standard_normal(N)


@numba.njit
def quadratic_of_any_sign(x, grad, H, h):
    grad[:] = H @ x + h
    return 0.5 * x @ (grad + h)


def as_compiled(H, h):
    return ds.CompiledObjective(quadratic_of_any_sign, (H, h), n=N)


def as_python(H, h):
    return ds.CallableObjective(lambda y: (0.5 * y @ H @ y + h @ y, H @ y + h), n=N)


@pytest.mark.parametrize("make", [as_compiled, as_python])
def test_value_and_gradient_are_those_of_the_original(make):
    H, h = signed_quadratic(1)
    rng = np.random.default_rng(2)
    x, shift = rng.random(N), rng.standard_normal(N)
    g = make(H, h)
    f = ds.OrthantObjective(g, ALPHA, shift)
    exact = ds.orthant_quadratic(H, h, alpha=ALPHA, shift=shift)
    y = shift + ALPHA * x
    assert f.value(x) == pytest.approx(0.5 * y @ H @ y + h @ y, rel=1e-13)
    assert f.value(x) == pytest.approx(exact.value(x), rel=1e-12)
    np.testing.assert_allclose(f.gradient(x), ALPHA * (H @ y + h), rtol=1e-12)
    np.testing.assert_allclose(f.gradient(x), exact.gradient(x), rtol=1e-11)
    assert f.check_dr()


def test_a_solver_gives_the_same_answer_through_the_wrapper():
    H, h = signed_quadratic(3)
    lower, upper = -np.linspace(0.5, 1.0, N), np.linspace(0.2, 1.0, N)
    A = np.abs(np.random.default_rng(4).standard_normal((2, N))) * ALPHA
    corner = np.where(ALPHA > 0, lower, upper)
    P = ds.GeneralPolytope(A, A @ corner + 1.5, lower=lower, upper=upper)
    problem = ds.to_orthant(as_python(H, h), P, ALPHA)
    assert isinstance(problem.P, ds.Polytope)
    result = ds.frank_wolfe(problem.f, problem.P, max_iter=50, tol=0.0)
    exact = ds.frank_wolfe(
        ds.orthant_quadratic(H, h, alpha=ALPHA, shift=problem.shift), problem.P, max_iter=50, tol=0.0
    )
    assert result.value == pytest.approx(exact.value, rel=1e-9)
    y = problem.to_original(result.x)
    assert P.contains(y)
    assert result.value == pytest.approx(problem.f.g.value(y), rel=1e-12)
    np.testing.assert_allclose(problem.from_original(y), result.x, atol=1e-14)


def test_points_correspond_for_every_kind_of_set():
    rng = np.random.default_rng(5)
    g = as_python(*signed_quadratic(6))
    lower, upper = -rng.random(N), rng.random(N)
    inside = lower + rng.random(N) * (upper - lower)
    A = rng.standard_normal((2, N))
    A_eq = A[:1] * A[1:]
    cases = [
        (ds.Box, ds.Box(upper)),
        (ds.GeneralPolytope, ds.GeneralPolytope(A, A @ inside + 0.1, A_eq, A_eq @ inside, lower, upper)),
        (ds.GeneralPolytope, ds.Polytope(np.abs(A), [1.0, 1.0], upper)),
        (ds.GeneralPolytope, ds.Polytope(scipy.sparse.csr_array(np.abs(A)), [1.0, 1.0], upper)),
    ]
    for expected, P in cases:
        problem = ds.to_orthant(g, P, ALPHA)
        assert isinstance(problem.P, expected)
        for direction in rng.standard_normal((5, N)):
            x = problem.P.lmo(direction)
            assert P.contains(problem.to_original(x), tol=1e-8)
            # The best vertices correspond: same optimal value on either side, up to the shift.
            y = P.lmo(ALPHA * direction)
            assert direction @ x == pytest.approx(direction @ problem.from_original(y), abs=1e-8)


def test_a_ball_is_mirrored():
    problem = ds.to_orthant(as_python(*signed_quadratic(7)), ds.Ball(2.0, N), ALPHA)
    x = problem.P.lmo(np.ones(N))
    y = problem.to_original(x)
    assert (ALPHA * y >= 0.0).all()
    assert np.linalg.norm(y) == pytest.approx(2.0)


def test_what_cannot_be_reduced_is_said():
    g = as_python(*signed_quadratic(8))
    with pytest.raises(ds.UnsupportedError, match="not Simplex: wrap the objective"):
        ds.to_orthant(g, ds.Simplex(N), ALPHA)
    with pytest.raises(ValueError, match=r"alpha\[1\] = 0.5 is not 1 or -1"):
        ds.to_orthant(g, ds.Box(np.ones(N)), [1, 0.5, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="has 6 variables, the set 2"):
        ds.to_orthant(g, ds.Box(np.ones(2)), ALPHA)
    with pytest.raises(ValueError, match="leaves it"):
        ds.to_orthant(ds.Softmax(np.eye(2)), ds.Box([1.0, 2.0]), [1, 1])
    with pytest.raises(TypeError, match="g must be an objective"):
        ds.OrthantObjective(abs, ALPHA)


def test_quadratic_with_a_wrong_sign_names_the_pair():
    H, h = signed_quadratic(9)
    H[1, 3] = H[3, 1] = -0.25
    with pytest.raises(ValueError, match=r"alpha\[1\] alpha\[3\] H\[1, 3\] = 0.25 is positive"):
        ds.orthant_quadratic(H, h, alpha=ALPHA)


def test_check_names_the_pair_and_tells_dr_from_submodular():
    H, h = signed_quadratic(10)
    box = (-np.ones(N), np.ones(N))
    found = ds.check_orthant(as_python(H, h), ALPHA, *box)
    assert found.dr.holds
    assert found.submodular.holds
    H[2, 2] = 0.5
    found = ds.check_orthant(as_python(H, h), ALPHA, *box)
    assert found.submodular.holds
    assert found.dr.pair == (2, 2)
    assert found.dr.rate == pytest.approx(0.5, rel=1e-4)
    H[0, 5] = H[5, 0] = -0.75  # alpha_0 alpha_5 = -1
    found = ds.check_orthant(as_python(H, h), ALPHA, *box)
    assert set(found.submodular.pair) == {0, 5}
    assert "d_(" in found.dr.message
    assert found.dr.rate == pytest.approx(0.75, rel=1e-4)


def test_signs_from_data():
    Z = np.array([[0.0, -1.0, 2.0, 0.0], [0.5, 0.0, 3.0, 0.0]])
    np.testing.assert_array_equal(ds.infer_signs(Z), [1, -1, 1, 1])
    Z[1, 2] = -3.0
    with pytest.raises(ValueError, match=r"column 2 of Z has mixed signs: Z\[0, 2\] = 2, Z\[1, 2\] = -3"):
        ds.infer_signs(Z)


def test_examples():
    assert doctest.testmod(conic).failed == 0
