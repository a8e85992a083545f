"""Diameters: exact where they are known, bounds on the distance of any two points elsewhere."""

import math

import numpy as np
import pytest
from unit_cases import KINDS, random_set

import drsub_fast as ds

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize(
    ("P", "diameter"),
    [
        (ds.Simplex(50), math.sqrt(2.0)),
        (ds.Simplex(3, 1e8), 1e8 * math.sqrt(2.0)),
        (ds.Simplex(1, 3.0), 0.0),
        (ds.Box([3.0, 4.0]), 5.0),
        (ds.Box([3e-8, 4e-8]), 5e-8),
        (ds.Ball(2.0, 3), 2.0 * math.sqrt(2.0)),
        (ds.Ball(2.0, 1), 2.0),
        (ds.Budget(2.0, np.ones(50)), 2.0),
        (ds.Budget(30.0, np.ones(50)), math.sqrt(50.0)),
        (ds.Budget(1.0, np.full(5, 9.0)), math.sqrt(2.0)),
        (ds.PartitionMatroid([0, 0, 0, 1, 1], [1.0, 2.0]), 2.0),
        (ds.Knapsack([1.0, 2.0, 4.0], 4.0), math.sqrt(20.0)),
        (ds.Polytope([[1.0, 1.0, 1.0]], [1.0]), math.sqrt(2.0)),
        (ds.MatchingPolytope([(0, 0), (0, 1), (1, 0), (1, 1)], 2, 2), 2.0),
        (ds.GeneralPolytope(lower=[-1.0, 0.0], upper=[2.0, 4.0]), 5.0),
    ],
    ids=lambda value: repr(value),
)
def test_known_diameters(P, diameter):
    assert P.diameter() == pytest.approx(diameter, rel=1e-12)
    f = ds.Quadratic(-np.eye(P.n), np.ones(P.n))
    assert ds.constants(f, P).diameter == pytest.approx(diameter, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_no_two_points_are_farther_apart(kind):
    for trial in range(10):
        rng = np.random.default_rng([8, trial, KINDS.index(kind)])
        P, D, _ = random_set(kind, rng)
        vertices = np.array([P.lmo(rng.standard_normal(P.n) / D) for _ in range(12)])
        distances = np.linalg.norm(vertices[:, np.newaxis] - vertices, axis=2)
        assert distances.max() <= P.diameter() * (1.0 + 1e-9)
        if P.is_down_closed:
            half = 0.5 * P.upper
            assert P.diameter(half) <= P.diameter() * (1.0 + 1e-9)
