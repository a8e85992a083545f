"""Nested limits: oracle against a linear program, projection by its optimality, budgets and partitions as cases."""

import doctest

import numpy as np
import pytest
import scipy
from scipy.optimize import linprog

import drsub_fast as ds
from drsub_fast.sets import laminar


def random_family(rng, n, depth=3):
    """Nested sets by halving, with some left out."""
    sets, queue = [], [np.arange(n)]
    for _ in range(2**depth - 1):
        items = queue.pop(0)
        if items.size == 0:
            continue
        if rng.random() < 0.8:
            sets.append(items)
        rng.shuffle(items := items.copy())
        cut = int(rng.integers(0, items.size + 1))
        queue += [items[:cut], items[cut:]]
    return sets or [np.arange(n)]


def random_set(rng, n, scale=1.0, integral=False):
    sets = random_family(rng, n)
    capacities = np.array([rng.uniform(0.1, 0.9) * len(items) for items in sets])
    capacities = np.ceil(capacities) if integral else scale * capacities
    upper = np.ones(n) if integral else scale * rng.uniform(0.2, 1.5, n)
    return ds.LaminarMatroid(sets, capacities, upper)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_oracle_solves_the_linear_program(scale):
    rng = np.random.default_rng(1)
    for _ in range(20):
        P = random_set(rng, 9, scale)
        d = rng.standard_normal(9)
        v = P.lmo(d)
        assert P.contains(v)
        plain = linprog(-d, A_ub=P.A.toarray(), b_ub=P.b / scale, bounds=np.c_[np.zeros(9), P.upper / scale]).fun
        assert d @ v == pytest.approx(-plain * scale, rel=1e-9)
        tighter = P.upper * rng.random(9)
        assert (P.lmo(d, upper=tighter) <= tighter).all()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_projection_is_the_closest_point(scale):
    rng = np.random.default_rng(2)
    for _ in range(20):
        P = random_set(rng, 9, scale)
        y = 2.0 * scale * rng.standard_normal(9) + scale
        x = P.project(y)
        assert P.contains(x)
        # <y - x, z - x> <= 0 for every z of the set, so for the vertex that maximises it.
        assert (y - x) @ (P.lmo(y - x) - x) <= 1e-9 * scale**2 * 9
        np.testing.assert_allclose(P.project(x), x, rtol=1e-9, atol=1e-12 * scale)


def test_budgets_and_partitions_are_cases():
    rng = np.random.default_rng(3)
    y = rng.standard_normal(8) + 0.5
    groups = np.arange(8) % 3
    partition = ds.LaminarMatroid([np.flatnonzero(groups == g) for g in range(3)], [1.0, 1.5, 2.0])
    for nested, plain in (
        (ds.LaminarMatroid([range(8)], [2.5]), ds.Budget(2.5, np.ones(8))),
        (partition, ds.PartitionMatroid(groups, [1.0, 1.5, 2.0])),
    ):
        np.testing.assert_allclose(nested.lmo(y), plain.lmo(y), atol=1e-12)
        np.testing.assert_allclose(nested.project(y), plain.project(y), atol=1e-12)
    f = ds.Quadratic(-np.eye(8) - 0.3, rng.random(8))
    for method in ("two-phase-frank-wolfe", "projected-gradient", "nonmonotone-frank-wolfe"):
        value = ds.maximize(f, partition, method=method).value
        assert value == pytest.approx(ds.maximize(f, ds.PartitionMatroid(groups, [1, 1.5, 2.0]), method=method).value)


def test_vertices_are_integral_and_rounding_keeps_the_value():
    rng = np.random.default_rng(4)
    for _ in range(8):
        P = random_set(rng, 10, integral=True)
        v = P.lmo(rng.standard_normal(10))
        np.testing.assert_array_equal(v, np.round(v))
        F = ds.Multilinear.coverage([rng.choice(15, 4, replace=False) for _ in range(10)])
        x = np.mean([P.lmo(rng.random(10)) for _ in range(4)], axis=0)
        rounded = ds.round_solution(F, P, x)
        chosen = np.isin(np.arange(10), rounded.items).astype(float)
        assert P.contains(chosen)
        assert rounded.value >= F.value(x) - 1e-9
        assert P.contains(np.isin(np.arange(10), ds.greedy(F, P).items).astype(float))
        assert ds.greedy(F, P).guarantee.ratio in (0.5, pytest.approx(1 - 1 / np.e))
        L = ds.Softmax.from_features(rng.standard_normal((10, 6)), 2.0 * np.ones(10)).L
        best = ds.exact_map(L, P)
        found = ds.map_dpp(L, P)
        assert found.value <= best.value + 1e-9 <= found.bound + 2e-9


def test_random_rounding_keeps_the_marginals():
    rng = np.random.default_rng(5)
    P = ds.LaminarMatroid([range(6), range(3), [0, 1]], [3, 2, 1])
    x = np.array([0.5, 0.3, 0.7, 0.5, 0.6, 0.4])
    from drsub_fast.discrete.pipage import RandomEnd, pipage

    mean = np.mean([pipage(P, x, RandomEnd(rng)) for _ in range(2000)], axis=0)
    assert np.abs(mean - x).max() <= 4.0 * np.sqrt(0.25 / 2000)


def test_matrices_and_files(tmp_path):
    P = ds.LaminarMatroid([[0, 1, 2, 3], [0, 1]], [2, 1], np.ones(5))
    for sets in (P.A, P.A.toarray(), scipy.sparse.csr_array(P.A)):
        np.testing.assert_array_equal(ds.LaminarMatroid(sets, [2, 1]).lmo(np.arange(5.0)), P.lmo(np.arange(5.0)))
    ds.write_problem(tmp_path / "p.npz", ds.Quadratic(-np.eye(5), np.ones(5)), P)
    back = ds.read_problem(tmp_path / "p.npz").P
    assert isinstance(back, ds.LaminarMatroid)
    np.testing.assert_array_equal(back.lmo(np.arange(5.0)), P.lmo(np.arange(5.0)))


def test_bad_families_are_named():
    with pytest.raises(ValueError, match=r"sets\[0\] and sets\[1\] overlap and neither holds the other"):
        ds.LaminarMatroid([[0, 1, 2], [2, 3]], [1, 1])
    with pytest.raises(ValueError, match=r"sets\[1\] is empty"):
        ds.LaminarMatroid([[0, 1], []], [1, 1])
    with pytest.raises(ValueError, match=r"capacities\[0\] = -1 is negative"):
        ds.LaminarMatroid([[0, 1]], [-1])
    with pytest.raises(ValueError, match="capacities has 1 entries, expected 2"):
        ds.LaminarMatroid([[0, 1], [0]], [1])
    with pytest.raises(ValueError, match="an entry other than 0 and 1"):
        ds.LaminarMatroid(np.array([[0.5, 1.0]]), [1])
    with pytest.raises(TypeError, match="sequence of iterables"):
        ds.LaminarMatroid(3, [1])


def test_examples():
    assert doctest.testmod(laminar).failed == 0
