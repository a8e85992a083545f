"""The bound by pairs of variables against exact maxima of quadratics over small simplices."""

import itertools

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.proofs.pair_bound import pair_steps
from drsub_fast.proofs.rungs import Problem


def maximum(H, h):
    """max y'Hy/2 + h'y over the unit simplex: the best stationary point of all faces."""
    best = -np.inf
    for k in range(1, len(h) + 1):
        for face in map(list, itertools.combinations(range(len(h)), k)):
            side = np.ones((k, 1))
            try:
                y = np.linalg.solve(
                    np.block([[H[np.ix_(face, face)], -side], [side.T, np.zeros((1, 1))]]), [*-h[face], 1]
                )
            except np.linalg.LinAlgError:
                continue
            if y[:k].min() >= 0.0:
                best = max(best, y[:k] @ (0.5 * H[np.ix_(face, face)] @ y[:k] + h[face]))
    return best


def random_problem(seed):
    """(f, P, its maximum), P a simplex or a general polytope with one equation."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 6))
    H = -random.random((n, n)) * (random.random((n, n)) < random.choice([0.4, 1.0]))
    H, h = H + H.T, random.standard_normal(n) * random.choice([0.0, 0.5, 3.0])
    unit = 10.0 ** random.integers(-5, 6)
    f = ds.Quadratic(unit * H, unit * h)
    if seed % 2:
        return f, ds.Simplex(n, 2.0), unit * maximum(4.0 * H, 2.0 * h), unit
    a = 0.2 + random.random(n)
    P = ds.GeneralPolytope(A_eq=a[None], b_eq=[1.5], upper=1.5 / a)
    return f, P, unit * maximum(H * np.outer(1.5 / a, 1.5 / a), h * 1.5 / a), unit


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_no_bound_is_below_the_maximum_and_most_are_tight(first):
    tight = 0
    for seed in range(first, first + 100):
        f, P, most, unit = random_problem(seed)
        bounds = [bound for bound, _ in pair_steps(Problem(f, P, P.upper, None, most))][1:]
        assert min(bounds) >= most - 1e-13 * unit
        tight += min(bounds) <= most + 1e-3 * abs(most)
    assert tight >= 50


def test_sets_in_no_simplex_have_none():
    f = ds.Quadratic(-np.ones((3, 3)), np.ones(3))
    for P in (ds.Budget(1.0, np.ones(3)), ds.Box(np.ones(3)), ds.Ball(1.0, 3)):
        assert [bound for bound, _ in pair_steps(Problem(f, P, P.upper, None, 0.0))] == [np.inf]


def test_a_large_standard_quadratic_program_has_a_useful_bound_by_default():
    random = np.random.default_rng(1)
    Q = random.random((200, 200)) + 0.1 * np.eye(200)
    r = ds.maximize(ds.Quadratic(-(Q + Q.T), np.zeros(200)), ds.Simplex(200))
    # The bound at the corners is 0.
    assert r.value <= r.upper_bound <= 0.3 * r.value < 0.0
