"""The sets in the loops of solvers, on one objective."""

import numpy as np
import pytest

import drsub_fast as ds

N = 8


def quadratic(seed):
    rng = np.random.default_rng(seed)
    H = -rng.random((N, N))
    return ds.Quadratic(H + H.T, 2.0 * rng.random(N) * N / 4)


SETS = {
    "budget": ds.Budget(2.5, np.ones(N)),
    "knapsack": ds.Knapsack(np.arange(1.0, N + 1), 6.0, np.ones(N)),
    "partition": ds.PartitionMatroid(np.arange(N) % 3, [1.0, 1.0, 0.5]),
    "simplex": ds.Simplex(N, 1.5),
    "ball": ds.Ball(1.2, N),
    "matching": ds.MatchingPolytope([(i % 3, i // 2) for i in range(N)], 3, 4),
}


@pytest.mark.parametrize("name", SETS)
def test_frank_wolfe_ends_in_the_set_with_the_gap_it_reports(name):
    f, P = quadratic(1), SETS[name]
    result = ds.frank_wolfe(f, P, max_iter=60, tol=0.0)
    assert P.contains(result.x)
    grad = f.gradient(result.x)
    assert result.fw_gap == pytest.approx(grad @ (P.lmo(grad) - result.x), rel=1e-9, abs=1e-12)
    assert result.best_value > f.value(P.start())


def test_matchings_fall_back_on_highs():
    f, P, direction = quadratic(5), SETS["matching"].with_upper(np.full(N, 0.9)), np.linspace(0.5, 1.0, N)
    result, vertex = ds.frank_wolfe(f, P, max_iter=20, tol=0.0), P.lmo(direction)
    P._network = P._network._replace(max_paths=1)
    again = ds.frank_wolfe(f, P, max_iter=20, tol=0.0)
    assert again.value == pytest.approx(result.value, rel=1e-9)
    assert direction @ P.lmo(direction) == pytest.approx(direction @ vertex, rel=1e-12)


def test_a_polytope_with_signs_and_equations_around_a_python_objective():
    f = quadratic(4)
    g = ds.CallableObjective(f.value_and_gradient, N)
    signs = (-1.0) ** np.arange(N)
    P = ds.GeneralPolytope([signs], [0.25], np.ones((1, N)), [1.5], lower=np.full(N, 0.05), upper=np.ones(N))
    result = ds.frank_wolfe(g, P, max_iter=30, tol=0.0)
    assert P.contains(result.x)
    grad = f.gradient(result.x)
    assert result.fw_gap == pytest.approx(grad @ (P.lmo(grad) - result.x), rel=1e-6, abs=1e-8)
    assert result.best_value > f.value(P.start())


def test_two_phases_on_a_shared_kernel_family():
    f, P = quadratic(2), SETS["partition"]
    result = ds.two_phase_frank_wolfe(f, P, max_iter=40)
    assert P.contains(result.x)
    assert result.value >= 0.25 * ds.frank_wolfe(f, P, max_iter=200).best_value


def test_two_phases_refuse_a_set_that_is_not_down_closed():
    with pytest.raises(ds.UnsupportedError, match="Simplex"):
        ds.two_phase_frank_wolfe(quadratic(3), SETS["simplex"])
