"""Bounds on the entries of softmax Hessians over sets of few items, against the Hessians at points of the sets."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.proofs.softmax_curvature import hessian_entries


def random_set(random, n):
    upper = np.ones(n) if random.random() < 0.5 else 0.3 + 0.7 * random.random(n)
    kinds = (
        lambda: ds.Simplex(n),
        lambda: ds.Budget(0.2 + 0.6 * n * random.random(), upper),
        lambda: ds.Polytope(0.05 + random.random((2, n)), 0.1 + random.random(2), upper=upper),
    )
    return kinds[random.integers(3)]()


def nearly_singular(random, n):
    B = random.standard_normal((n, int(random.integers(1, n + 1))))
    return 10.0 ** random.uniform(-1.0, 1.0) * B @ B.T + 10.0 ** random.uniform(-6.0, 0.0) * np.eye(n)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_no_entry_is_above_its_bound(first):
    known = 0
    for seed in range(first, first + 50):
        random = np.random.default_rng(seed)
        n = int(random.integers(2, 8))
        P, f = random_set(random, n), ds.Softmax(nearly_singular(random, n))
        A = hessian_entries(f, P, P.upper)
        if A is None:
            continue
        known += 1
        vertices = np.array([P.lmo(random.standard_normal(n)) for _ in range(20)])
        M = f.L - np.eye(n)
        for x in [*vertices, *random.dirichlet(np.full(20, 0.1), 20) @ vertices]:
            inside = np.eye(n) + x[:, None] * M
            K = M @ np.linalg.inv(inside)
            assert (A * (1.0 + 1e-12 * np.linalg.cond(inside)) + 1e-12 >= K**2).all()
    assert known >= 35


def test_a_nearly_singular_kernel_has_a_useful_constant_over_few_items():
    B = np.random.default_rng(1).standard_normal((40, 40)) / np.sqrt(40.0)
    f = ds.Softmax(1.7 * B @ B.T + 1e-6 * np.eye(40))
    # With the corner of the box, which these sets do not reach, 1e5 or more.
    assert ds.constants(f, ds.Simplex(40)).curvature_factor < 10.0
    assert ds.constants(f, ds.Budget(3.0, np.ones(40))).curvature_factor < 50.0
