"""The public kernels, called from a user's own compiled code."""

import numba
import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast import kernels


@numba.njit
def shrunken_greedy(objective, feasible_set, upper, n_steps):
    """Algorithm 2 by hand; the value is NaN if the oracle has no answer in compiled code."""
    work, set_work = kernels.objective_work(objective), kernels.set_work(feasible_set)
    x, v, room = np.zeros(upper.size), np.empty(upper.size), upper.copy()
    value = kernels.evaluate(objective, work, x)
    for _ in range(n_steps):
        status = kernels.PAUSED
        while status == kernels.PAUSED:
            status = kernels.lmo(feasible_set, set_work, work.grad, room, v)
        if status != kernels.OK:
            return x, np.nan
        kernels.prepare(objective, work, x, v)
        value = kernels.advance(objective, work, x, v, 1.0 / n_steps, value)
        kernels.shrink(upper, x, room)
    return x, value


@numba.njit
def one_exact_step(objective, feasible_set, upper):
    work, set_work = kernels.objective_work(objective), kernels.set_work(feasible_set)
    x, v = np.zeros(upper.size), np.empty(upper.size)
    value = kernels.evaluate(objective, work, x)
    kernels.lmo(feasible_set, set_work, work.grad, upper, v)
    kernels.prepare(objective, work, x, v)
    gap = kernels.slope(work.grad, v, x)
    gamma = kernels.exact_step(objective, work, x, v, 1.0, value)
    return kernels.contract(objective, work, x, v, gamma, value), gamma, gap, x


def quadratic(n=5, seed=0):
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    return ds.Quadratic((H + H.T) / 2, n * rng.random(n) / 2)


@pytest.mark.parametrize("P", [ds.Box(np.full(5, 0.7)), ds.Polytope(np.eye(5) + 0.3, np.ones(5))], ids=repr)
def test_a_hand_written_loop_agrees_with_the_solver(P):
    f = quadratic()
    x, value = shrunken_greedy(f.params, P.params(), P.upper.copy(), 20)
    result = ds.nonmonotone_frank_wolfe(f, P, max_iter=20)
    assert value == pytest.approx(result.value, rel=1e-12)
    assert f.value(x) == pytest.approx(result.value, rel=1e-12)


def test_steps_keep_value_and_gap():
    f, P = quadratic(), ds.Box(np.full(5, 0.7))
    value, gamma, gap, x = one_exact_step(f.params, P.params(), P.upper.copy())
    result = ds.frank_wolfe(f, P, step_size="exact", max_iter=1)
    assert 0.0 < gamma <= 1.0
    assert gap == pytest.approx(result.trace.fw_gap[0], rel=1e-12)
    assert value == pytest.approx(result.trace.value[1], rel=1e-12)
    assert f.value(x) == pytest.approx(value, rel=1e-12)


def test_value_and_gradient_needs_no_workspace():
    f, x, grad = quadratic(), np.full(5, 0.2), np.empty(5)
    assert kernels.value_and_gradient(f.params, x, grad) == f.value(x)
    assert np.array_equal(grad, f.gradient(x))


def test_every_public_name_is_described():
    for name in kernels.__all__:
        assert hasattr(kernels, name)
        assert name in kernels.__doc__
