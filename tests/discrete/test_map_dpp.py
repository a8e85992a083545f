"""MAP inference: kernels from data, every way to a set, and the bound."""

import numpy as np
import pytest

import drsub_fast as ds


def _kernel(n, seed):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((n, n))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    q = np.exp(rng.uniform(-0.2, 0.8, n))
    return q[:, None] * (V @ V.T) * q


def _sets(n):
    rng = np.random.default_rng(1)
    return {
        "count": 4,
        "budget": ds.Budget(3, np.ones(n)),
        "groups": ds.PartitionMatroid(np.arange(n) % 3, [1.0, 2.0, 1.0]),
        "matching": ds.MatchingPolytope(np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n)]), 4, 3),
    }


def _log_det(L, items):
    return np.linalg.slogdet(L[np.ix_(items, items)])[1] if len(items) else 0.0


@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize("n", [6, 40])
def test_kernel_from_features_is_quality_times_similarity(n, similarity):
    rng = np.random.default_rng(n)
    V, q = rng.standard_normal((n, 5)), rng.uniform(0.5, 2.0, n)
    f = ds.Softmax.from_features(V, q, similarity=similarity)
    S = V @ V.T
    if similarity == "cosine":
        norms = np.linalg.norm(V, axis=1)
        S /= np.outer(norms, norms)
    np.testing.assert_allclose(f.L, q[:, None] * S * q, rtol=1e-12, atol=1e-12)
    assert (f.factor is None) == (n == 6)
    assert ds.Softmax.from_features(V, similarity=similarity).L[0, 0] == pytest.approx(S[0, 0])


def test_bad_features_are_named():
    with pytest.raises(ValueError, match=r"features\[1\] is zero"):
        ds.Softmax.from_features([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"quality\[0\] = -1 is negative"):
        ds.Softmax.from_features([[1.0], [2.0]], [-1.0, 1.0])
    with pytest.raises(ValueError, match="quality has 1 entries, expected 2"):
        ds.Softmax.from_features([[1.0], [2.0]], [1.0])
    with pytest.raises(ValueError, match="unknown similarity 'cos'"):
        ds.Softmax.from_features([[1.0], [2.0]], similarity="cos")


@pytest.mark.parametrize("L", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 3.0], [1.0, 1.0]]])
def test_no_kernel_is_refused_with_its_smallest_eigenvalue_and_a_way_out(L):
    for solve in (ds.Softmax, lambda L: ds.map_dpp(L, 1)):
        with pytest.raises(ValueError, match=r"(?s)smallest eigenvalue.* is -1.*nearest_psd\(L\)"):
            solve(L)
    assert ds.map_dpp(ds.nearest_psd(L), 1).items.size == 1


def test_nearest_psd_is_the_projection():
    L = np.random.default_rng(0).standard_normal((7, 7))
    symmetric = (L + L.T) / 2
    nearest = ds.nearest_psd(L)
    rest = symmetric - nearest
    # A projection onto the cone of psd matrices: what is left over is negative semidefinite and orthogonal.
    assert np.linalg.eigvalsh(nearest)[0] > -1e-12
    assert np.linalg.eigvalsh(rest)[-1] < 1e-12
    assert abs((rest * nearest).sum()) < 1e-12
    kernel = _kernel(5, 0)
    np.testing.assert_allclose(ds.nearest_psd(kernel), kernel, atol=1e-12)


@pytest.mark.parametrize("name", ["count", "budget", "groups", "matching"])
def test_sets_are_feasible_and_between_their_value_and_the_bound(name):
    n = 12
    constraint = _sets(n)[name]
    P = ds.Budget(constraint, np.ones(n)) if name == "count" else constraint
    for seed in range(3):
        L = _kernel(n, seed)
        exact = ds.map_dpp(L, constraint, method="exact")
        assert exact.bound == exact.value
        for method in ("continuous", "greedy", "best", *(("nonmonotone-frank-wolfe",) if name == "matching" else ())):
            r = ds.map_dpp(L, constraint, method)
            chosen = np.zeros(n)
            chosen[r.items] = 1.0
            assert chosen.sum() == r.items.size
            assert (np.diff(r.items) > 0).all()
            assert P.contains(chosen)
            assert r.value == pytest.approx(_log_det(L, r.items), abs=1e-9)
            assert r.value <= exact.value + 1e-9 <= r.bound + 2e-9
            assert np.isnan(r.fractional_value) == (r.result is None) == (method == "greedy")
            assert r.time > 0.0


def test_best_is_the_better_and_says_which():
    L, P = _kernel(12, 5), _sets(12)["matching"]
    solutions = [ds.map_dpp(L, P, method, improve=False) for method in ("continuous", "greedy")]
    best = ds.map_dpp(L, P, "best", improve=False)
    assert best.value == max(s.value for s in solutions)
    assert best.method in {s.method for s in solutions if s.value == best.value}
    assert ds.map_dpp(L, P, "best").value >= best.value


def test_features_and_kernel_agree():
    rng = np.random.default_rng(3)
    V, q = rng.standard_normal((40, 6)), rng.uniform(1.0, 3.0, 40)
    f = ds.Softmax.from_features(V, q)
    by_features = ds.map_dpp(features=V, quality=q, constraint=5, method="greedy", improve=False)
    by_objective = ds.map_dpp(f, 5, "greedy", improve=False)
    by_matrix = ds.map_dpp(f.L, 5, "greedy", improve=False)
    assert by_features.value == by_objective.value == pytest.approx(by_matrix.value, abs=1e-9)
    assert by_features.bound <= by_matrix.bound + 1e-9


def test_the_bounds_are_attained():
    # Orthogonal items: Hadamard's inequality is an equation.
    r = ds.map_dpp(np.diag([4.0, 3.0, 2.0, 0.5]), 2)
    assert r.bound == pytest.approx(r.value) == pytest.approx(np.log(12.0))
    # 20 copies each of two orthogonal vectors: only the eigenvalues tell that a third item adds nothing.
    V = np.kron(np.eye(2), np.ones((20, 1)))
    bound = ds.map_dpp(features=V, constraint=5, method="greedy", improve=False).bound
    assert bound == 0.0
    V[0] *= 2.0
    assert ds.map_dpp(ds.Softmax(factor=V), 5, "greedy", improve=False).bound == pytest.approx(np.log(4.0))


def test_no_item_where_none_raises_the_determinant():
    for method in ("continuous", "greedy", "exact", "best"):
        r = ds.map_dpp(np.diag([0.5, 0.9]), 2, method)
        assert (r.items.size, r.value, r.bound) == (0, 0.0, 0.0)


def test_options_reach_the_solver():
    r = ds.map_dpp(_kernel(12, 0), 3, "two-phase-frank-wolfe", max_iter=1, rounding="threshold", improve=False)
    assert [phase.n_iter for phase in r.result.phases] == [1, 1]


def test_errors_say_what_to_do():
    L = np.eye(3)
    with pytest.raises(TypeError, match="either L or features"):
        ds.map_dpp(constraint=1)
    with pytest.raises(TypeError, match="either L or features"):
        ds.map_dpp(L, 1, features=L)
    with pytest.raises(TypeError, match="needs a constraint"):
        ds.map_dpp(L)
    with pytest.raises(TypeError, match="quality goes with features"):
        ds.map_dpp(L, 1, quality=[1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="kernel has 3 items, the constraint 2"):
        ds.map_dpp(L, ds.Budget(1, [1.0, 1.0]))
    with pytest.raises(ValueError, match="unit_box=True"):
        ds.map_dpp(ds.Softmax(L, unit_box=False), 1)
    with pytest.raises(ValueError, match=r"unknown method 'magic'.*'best'"):
        ds.map_dpp(L, 1, "magic")
    with pytest.raises(TypeError, match="'greedy' has no option max_iter"):
        ds.map_dpp(L, 1, "greedy", max_iter=3)
    with pytest.raises(ds.UnsupportedError, match="no bipartite constraint"):
        ds.map_dpp(L, ds.Polytope(np.ones((1, 3)), [2.0]), "greedy")
