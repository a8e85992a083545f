"""Array operations that stand for loops of plain Python do what the loops do."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine import vector
from drsub_fast.objectives import quadratic_kernels
from drsub_fast.objectives.sparse_steps import keep_moved
from drsub_fast.sets import box, knapsack_projection, polytope
from drsub_fast.sets.knapsack_projection import project_onto_knapsacks
from drsub_fast.sets.select import select
from drsub_fast.solvers import spectral_steps

N = 37


def vectors(seed, count, scale=1.0):
    return scale * np.random.default_rng(seed).standard_normal((count, N))


def assert_alike(kernel, *arguments):
    """The kernel's text and its plain variant return the same and leave the same in their arrays."""
    ours = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
    theirs = [item.copy() if isinstance(item, np.ndarray) else item for item in arguments]
    answers = kernel.interpreted(*ours), kernel.py_func(*theirs)
    np.testing.assert_allclose(*(np.ravel(np.asarray(answer, dtype=float)) for answer in answers), rtol=1e-11)
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(mine, np.ndarray):
            np.testing.assert_allclose(mine, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_steps(seed):
    a, b, c, d, e = vectors(seed, 5)
    assert_alike(spectral_steps._squared_distance, a, b)
    assert_alike(spectral_steps._changes, a, b, c, d)
    for gamma in (0.3, 1.0):
        assert_alike(spectral_steps._move, a, b, c, gamma, np.abs(d))
    for kernel in (box._lmo, box._project):
        assert_alike(kernel, None, None, a, np.abs(b), c)
    f = ds.instances.quadratic_uniform(N, 3, seed=seed)[0]
    work = quadratic_kernels.QuadraticWork
    for kernel in (quadratic_kernels.advance_by_product, quadratic_kernels.contract_quadratic):
        for gamma in (0.0, 0.7):
            answers = []
            for text in (kernel.interpreted, kernel.py_func):
                x, held = c.copy(), work(a.copy(), b.copy())
                answers.append([text(f.params, held, x, d, gamma, 1.5), *x, *held.grad])
            np.testing.assert_allclose(*answers, rtol=1e-11)
    assert_alike(quadratic_kernels._slope_and_bend, f.params, work(a, b), c, d)
    for additive in (True, False):
        assert_alike(quadratic_kernels.rate_of_gradient, f.params, work(a, b), c, additive, e)
    assert_alike(spectral_steps.gap_at, a, b, c)
    for other in (a, b):
        assert_alike(vector.replace, a, other)
    assert_alike(keep_moved, f.params, work(a, b), c, d)


@pytest.mark.parametrize("seed", range(6))
def test_selection(seed):
    rng = np.random.default_rng(seed)
    key = np.round(rng.standard_normal(N), 1 if seed % 2 else 9)
    load = rng.random(N) * (rng.random(N) < 0.8)
    for share in (0.0, 0.2, 0.7, 0.999):
        item = np.arange(N)
        answers = [
            text(key.copy(), item.copy(), load, N, share * load.sum()) for text in (select.interpreted, select.py_func)
        ]
        np.testing.assert_allclose(*answers, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_projection_onto_groups(seed):
    rng = np.random.default_rng(seed)
    w = rng.random(N) + 0.01
    P = (
        ds.Knapsack(w, 0.4 * w.sum(), np.ones(N))
        if seed % 2
        else ds.PartitionMatroid(rng.integers(5, size=N), np.ones(5))
    )
    params, upper = P.params(), np.ones(N)
    for y in vectors(seed, 3, 2.0):
        for kernel, more in (
            (knapsack_projection._load_and_rate, (y, upper, 0.3)),
            (knapsack_projection._bracket, (y, upper)),
            (knapsack_projection._place, (y, upper, 0.3, np.zeros(N))),
        ):
            for g in range(len(params.capacity)):
                assert_alike(kernel, params, g, *more)
        assert_alike(project_onto_knapsacks, params, None, y, upper, np.zeros(N))


def test_units_of_rows():
    rng = np.random.default_rng(0)
    for scale in (1e-200, 1.0, 1e200):
        A, b, upper = rng.random((5, 7)), scale * rng.random(5), rng.random(7)
        b[1], upper[2] = 0.0, 0.0
        made = [polytope.blank_params(5, 7, 0) for _ in range(2)]
        polytope.scale_polytope.interpreted(A, b, upper, made[0])
        polytope.scale_polytope.py_func(A, b, upper, made[1])
        for mine, other in zip(made[0][:3], made[1][:3], strict=True):
            np.testing.assert_array_equal(mine, other)
