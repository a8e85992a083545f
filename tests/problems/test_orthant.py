"""Orthant conic lattices: the reduction, its way back, and the checks that name a pair."""

import doctest

import numpy as np
import pytest
import scipy.sparse

import drsub_fast as ds
from drsub_fast.problems import orthant

N = 6
ALPHA = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])


def signed_quadratic(seed):
    """H with alpha_i alpha_j H_ij <= 0, and h."""
    rng = np.random.default_rng(seed)
    H = -rng.random((N, N))
    return ALPHA[:, None] * (H + H.T) * ALPHA, rng.standard_normal(N)


def as_python(H, h):
    return ds.CallableObjective(lambda y: (0.5 * y @ H @ y + h @ y, H @ y + h), n=N)


def test_value_and_gradient_are_those_of_the_original():
    H, h = signed_quadratic(1)
    rng = np.random.default_rng(2)
    x, shift = rng.random(N), rng.standard_normal(N)
    f = ds.OrthantObjective(as_python(H, h), ALPHA, shift)
    exact = ds.orthant_quadratic(H, h, alpha=ALPHA, shift=shift)
    y = shift + ALPHA * x
    assert f.value(x) == pytest.approx(0.5 * y @ H @ y + h @ y, rel=1e-13)
    assert f.value(x) == pytest.approx(exact.value(x), rel=1e-12)
    np.testing.assert_allclose(f.gradient(x), ALPHA * (H @ y + h), rtol=1e-12)
    np.testing.assert_allclose(f.gradient(x), exact.gradient(x), rtol=1e-11)
    assert f.check_dr()


def test_a_solver_runs_through_the_wrapper():
    H, h = signed_quadratic(3)
    lower, upper = -np.linspace(0.5, 1.0, N), np.linspace(0.2, 1.0, N)
    A = np.abs(np.random.default_rng(4).standard_normal((2, N))) * ALPHA
    corner = np.where(ALPHA > 0, lower, upper)
    P = ds.GeneralPolytope(A, A @ corner + 1.5, lower=lower, upper=upper)
    problem = ds.to_orthant(as_python(H, h), P, ALPHA)
    assert isinstance(problem.P, ds.Polytope)
    result = ds.frank_wolfe(problem.f, problem.P, max_iter=50, tol=0.0)
    exact = ds.orthant_quadratic(H, h, alpha=ALPHA, shift=problem.shift)
    assert result.value == pytest.approx(exact.value(result.x), rel=1e-9)
    grad = exact.gradient(result.x)
    assert result.fw_gap == pytest.approx(grad @ (problem.P.lmo(grad) - result.x), rel=1e-6, abs=1e-9)
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


@pytest.fixture(scope="module")
def tumours():
    """Data of one sign in every column (each second one negative), and labels +1 and -1."""
    datasets = pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's bundled data sets")
    Z, y = datasets.load_breast_cancer(return_X_y=True)
    alpha = (-1.0) ** np.arange(Z.shape[1])
    return alpha * Z / Z.max(axis=0), 2.0 * y - 1.0, alpha


def test_logistic_regression_on_tumours(tumours):
    Z, labels, signs = tumours
    alpha = ds.infer_signs(Z)
    np.testing.assert_array_equal(alpha, signs)
    g = ds.LogisticNonconvex(Z, labels, weight=0.05, gamma=1.0)
    reach = np.full(g.n, g.dr_radius)
    lower, upper = np.minimum(alpha, 0.0) * reach, np.maximum(alpha, 0.0) * reach
    found = ds.check_orthant(g, alpha, lower, upper, n_samples=3)
    assert found.dr.holds
    problem = ds.to_orthant(g, ds.GeneralPolytope(lower=lower, upper=upper), alpha)
    result = ds.frank_wolfe(problem.f, problem.P, max_iter=100, tol=0.0)
    # The same problem with the signs taken out of the data.
    plain = ds.LogisticNonconvex(alpha * Z, labels, weight=0.05, gamma=1.0)
    grad = plain.gradient(result.x)
    assert result.value == pytest.approx(plain.value(result.x), rel=1e-12)
    assert result.fw_gap == pytest.approx(grad @ (ds.Box(reach).lmo(grad) - result.x), rel=1e-6, abs=1e-12)
    assert result.value == pytest.approx(g.value(problem.to_original(result.x)), rel=1e-12)
    assert result.best_value > g.value(np.zeros(g.n))


def test_the_regulariser_is_submodular_but_not_dr_far_out(tumours):
    Z, labels, alpha = tumours
    g = ds.LogisticNonconvex(Z, labels, weight=5.0, gamma=1.0)
    found = ds.check_orthant(g, alpha, np.minimum(alpha, 0.0) * 3.0, np.maximum(alpha, 0.0) * 3.0, n_samples=3)
    assert found.submodular.holds
    assert not found.dr.holds
    assert found.dr.pair[0] == found.dr.pair[1]


def test_nonnegative_pca_is_a_minimisation_and_ends_at_a_stationary_point(tumours):
    Z, _, alpha = tumours
    g = ds.NonnegativePCA(Z)
    found = ds.check_orthant(g, alpha, np.minimum(alpha, 0.0), np.maximum(alpha, 0.0), n_samples=2)
    assert not found.dr.holds
    assert not found.submodular.holds
    problem = ds.to_orthant(g, ds.Ball(1.0, g.n), alpha)
    result = ds.frank_wolfe(problem.f, problem.P, x0=problem.P.lmo(np.ones(g.n)), step_size="exact", tol=1e-10)
    assert result.fw_gap <= 1e-10
    # One sign in every column: by Perron and Frobenius the leading direction lies in the orthant.
    leading = np.linalg.svd(Z, compute_uv=False)[0]
    assert result.value == pytest.approx(0.5 * leading**2 / len(Z), rel=1e-9)


def test_examples():
    assert doctest.testmod(orthant).failed == 0
