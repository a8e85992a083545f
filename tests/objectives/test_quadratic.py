"""Quadratics: an array, a sparse matrix and a factor describe the same function to everybody."""

import numpy as np
import pytest
import scipy.sparse

import drsub_fast as ds

SPARSE = [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array, scipy.sparse.dok_array]


def sparse_hessian(n, seed, density=0.3):
    """A symmetric array with entries at most 0, most of them 0."""
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n)) * (rng.random((n, n)) < density)
    return H + H.T


def factored(n, seed):
    """(B, d, H) with H = -BB' - diag(d)."""
    rng = np.random.default_rng(seed)
    B, d = rng.random((n, 3)) * (rng.random((n, 3)) < 0.6), rng.random(n)
    H = -(B @ B.T) - np.diag(d)
    return B, d, (H + H.T) / 2.0


def others(n=9, seed=4):
    """The dense function and its twins, h raising some gradients above 0."""
    rng = np.random.default_rng(seed)
    B, d, H = factored(n, seed)
    h = 3.0 * rng.random(n)
    twins = [ds.Quadratic(factor=B, diagonal=d, h=h, c=0.5), *(ds.Quadratic(kind(H), h, 0.5) for kind in SPARSE)]
    return ds.Quadratic(H, h, 0.5), twins


def test_value_gradient_and_facts_agree():
    dense, twins = others()
    upper, rng = np.linspace(0.5, 1.5, 9), np.random.default_rng(0)
    for twin in twins:
        for x in rng.random((5, 9)):
            assert twin.value(x) == pytest.approx(dense.value(x), rel=1e-13)
            np.testing.assert_allclose(twin.gradient(x), dense.gradient(x), rtol=1e-12, atol=1e-13)
        assert twin.nonnegative_on(upper) == dense.nonnegative_on(upper)
        assert twin.monotone_on(upper) == dense.monotone_on(upper)
        np.testing.assert_allclose(twin.hessian(), dense.H, rtol=1e-14)
        np.testing.assert_allclose(twin.hessian_diagonal(), dense.H.diagonal(), rtol=1e-14)
        np.testing.assert_allclose(twin.H @ upper, dense.H @ upper, rtol=1e-13)


@pytest.mark.parametrize(
    "method",
    ["frank-wolfe", "nonmonotone-frank-wolfe", "two-phase-frank-wolfe", "projected-gradient", "multi-start",
     "fully-corrective-frank-wolfe"],
)  # fmt: skip
def test_methods_agree(interpreted, method):
    dense, twins = others()
    upper = np.linspace(0.5, 1.5, 9)
    sets = [ds.Box(upper), ds.Budget(2.0, upper), ds.Polytope(np.ones((1, 9)), [2.5], upper)]
    for P in sets:
        expected = ds.maximize(dense, P, method=method, max_iter=20, bound="cheap")
        for twin in twins[:2]:
            found = ds.maximize(twin, P, method=method, max_iter=20, bound="cheap")
            assert found.value == pytest.approx(expected.value, rel=1e-9)
            assert found.status is expected.status


def test_double_greedy_reads_the_diagonal():
    dense, twins = others()
    P = ds.Box(np.ones(9))
    for twin in twins[:2]:
        assert ds.double_greedy(twin, P).value == pytest.approx(ds.double_greedy(dense, P).value, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_spectral_norm_is_bounded_closely_from_above(seed):
    H = sparse_hessian(30, seed)
    bound = ds.Quadratic(scipy.sparse.csr_array(H), np.ones(30)).spectral_norm()
    exact = np.linalg.norm(H, 2)
    assert exact <= bound <= 1.001 * exact
    assert ds.Quadratic(scipy.sparse.csr_array((3, 3)), np.ones(3)).spectral_norm() == 0.0


def test_nothing_of_the_size_of_a_dense_matrix_is_made():
    n = 100_000  # an array would take 80 GB
    H = scipy.sparse.diags_array([-np.ones(n - 1), -2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    f = ds.Quadratic(H, np.ones(n))
    assert f.value(np.full(n, 0.1)) == pytest.approx(0.1 * n - 0.5 * 0.01 * (4 * n - 2))
    g = ds.Quadratic(factor=np.ones((n, 2)) / n, h=np.ones(n))
    assert g.value(np.ones(n)) == pytest.approx(n - 1.0)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"H": [[0.0, 1.0], [1.0, 0.0]], "h": [1.0, 1.0]}, ValueError, r"H\[0, 1\] = 1 is positive"),
        (
            {"H": [[0.0, -1.0], [-2.0, 0.0]], "h": [1.0, 1.0]},
            ValueError,
            r"not symmetric: H\[0, 1\] = -1.0 but H\[1, 0\] = -2.0",
        ),
        ({"H": [[0.0, np.nan], [np.nan, 0.0]], "h": [1.0, 1.0]}, ValueError, r"H\[0, 1\] = nan is not finite"),
        ({"H": [[-1.0, 0.0]], "h": [1.0]}, ValueError, "square"),
        ({"H": [[-1.0, 0.0], [0.0, -1.0]], "h": [1.0]}, ValueError, "h has 1 entries, expected 2"),
    ],
)
def test_bad_entries_are_named_in_a_sparse_matrix_too(arguments, error, words):
    for kind in (np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_array):
        with pytest.raises(error, match=words):
            ds.Quadratic(kind(arguments["H"]), arguments["h"])


def test_a_factor_is_refused_by_its_entry():
    with pytest.raises(ValueError, match=r"factor\[1, 0\] = -1 is negative"):
        ds.Quadratic(factor=[[1.0], [-1.0]], h=[1.0, 1.0])
    with pytest.raises(ValueError, match=r"diagonal\[0\] = -2 is negative"):
        ds.Quadratic(factor=[[1.0], [1.0]], diagonal=[-2.0, 0.0], h=[1.0, 1.0])
    with pytest.raises(TypeError, match="one of H and factor"):
        ds.Quadratic(h=[1.0])
    with pytest.raises(TypeError, match="h is missing"):
        ds.Quadratic(factor=[[1.0]])
    with pytest.raises(TypeError, match="diagonal goes with factor"):
        ds.Quadratic([[-1.0]], [1.0], diagonal=[1.0])


def test_duplicates_are_summed_and_rounding_is_averaged_away():
    H = scipy.sparse.coo_array(([-1.0, -1.0, -0.5, -0.5 * (1 + 1e-15)], ([0, 0, 0, 1], [0, 0, 1, 0])), shape=(2, 2))
    f = ds.Quadratic(H, [1.0, 1.0])
    np.testing.assert_allclose(f.hessian(), [[-2.0, -0.5], [-0.5, 0.0]])
    assert np.array_equal(f.hessian(), f.hessian().T)


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_files_keep_the_form(tmp_path, ending):
    _, twins = others()
    P = ds.Box(np.ones(9))
    for twin in twins[:2]:
        ds.write_problem(tmp_path / f"p{ending}", twin, P)
        f = ds.read_problem(tmp_path / f"p{ending}").f
        assert repr(f) == repr(twin)
        np.testing.assert_array_equal(f.hessian(), twin.hessian())
