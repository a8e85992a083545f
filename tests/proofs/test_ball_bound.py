"""The dual bound over a ball against the best of many ascents."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.proofs.ball_bound import ball_steps
from drsub_fast.proofs.rungs import Problem


def random_quadratic(random, n):
    H = -random.random((n, n)) * (random.random((n, n)) < random.choice([0.5, 1.0]))
    return ds.Quadratic(H + H.T, n * random.random(n) * random.choice([-0.2, 0.2, 1.0]), c=random.standard_normal())


@pytest.mark.parametrize("radius", [1e-3, 1.0, 50.0])
def test_no_bound_is_below_the_best_value(radius):
    random, ratios = np.random.default_rng(3), []
    for _ in range(40):
        n = int(random.integers(1, 9))
        f, P = random_quadratic(random, n), ds.Ball(radius, n)
        f = ds.Quadratic(f.H / radius**2, f.h / radius, c=f.c)
        r = ds.maximize(f, P, n_starts=16)
        bounds = [bound for bound, _ in ball_steps(Problem(f, P, P.upper, r.x, r.value))]
        assert min(bounds) >= r.value - 1e-12 * max(1.0, abs(r.value))
        assert min(bounds) == bounds[-1]
        assert r.value <= r.upper_bound <= bounds[1] + 1e-12 * max(1.0, abs(r.value))
        ratios.append((min(bounds) - f.c) / max(r.value - f.c, 1e-3))
    assert np.median(ratios) <= 1.05


def test_other_sets_have_none():
    f = ds.Quadratic(-np.ones((3, 3)), np.ones(3))
    assert not list(ball_steps(Problem(f, ds.Budget(1.0, np.ones(3)), np.ones(3), np.zeros(3), 0.0)))
