"""Softmax extensions in units from 1e-12 to 1e16: values, gradients and moves against rational numbers."""

import numpy as np
import pytest
from judge.softmax_truth import gram, truth

import drsub_fast as ds
from drsub_fast.objectives.base import advance, hessian_product, objective_carve, objective_size
from drsub_fast.objectives.lazy_gradient import increase, refresh_gradient

EPS = np.finfo(float).eps


def kernels(n, rng):
    """Diagonal ones, and dense ones of any unit and of widely spread diagonals; each with its condition."""
    X = rng.standard_normal((n, n + 2))
    C = X @ X.T
    for L in (
        np.diag(10.0 ** rng.uniform(-12, 16, n)), C * 10.0 ** rng.uniform(8, 16), C * 10.0 ** rng.uniform(-12, -4),
        C * np.outer(d := 10.0 ** rng.uniform(-6, 8, n), d), np.eye(n) + C * 10.0 ** rng.uniform(3, 16),
    ):  # fmt: skip
        yield np.triu(L) + np.triu(L, 1).T, np.linalg.cond(C)


def points(n, rng):
    inner = rng.uniform(0.01, 1.0, n)
    yield inner
    yield np.where(rng.random(n) < 0.5, 1.0, inner * (rng.random(n) < 0.7))
    yield np.where(rng.random(n) < 0.5, 1.0 - 10.0 ** rng.uniform(-12, -2, n), 10.0 ** rng.uniform(-16, 0, n))


def assert_close(value, grad, L, x, condition):
    """To the digits that quotients and differences leave: five less than floats have, on each entry's own scale."""
    true_value, true_grad = truth(L, x)
    own = np.array([float(L[i][i]) for i in range(len(x))])
    scale = np.maximum(np.abs(true_grad), np.minimum(own + 1.0, 1.0 / np.maximum(x, 1e-300)))
    assert abs(value - true_value) <= 1e5 * EPS * condition * max(1.0, abs(true_value))
    assert (np.abs(grad - true_grad) <= 1e5 * EPS * condition * scale).all(), (grad, true_grad)


@pytest.mark.parametrize("unit_box", [True, False])
def test_digits_of_values_and_gradients(unit_box):
    rng = np.random.default_rng(26)
    for n in (1, 2, 5):
        for L, condition in kernels(n, rng):
            f = ds.Softmax(L, unit_box=unit_box)
            np.testing.assert_array_equal(f.L, L)
            for x in points(n, rng):
                assert_close(*f.value_and_gradient(x), L, x, condition)


def test_the_gradient_of_a_large_item_is_one_over_x():
    x = np.array([0.43933992, 0.4])
    np.testing.assert_allclose(ds.Softmax(np.diag([1e16, 3.0])).gradient(x), [1.0 / x[0], 2.0 / 1.8], rtol=1e-14)
    assert ds.Softmax(np.diag([1e-16, 3.0])).value([1.0, 0.0]) == pytest.approx(np.log(1e-16), rel=1e-14)


def test_dependent_large_items_are_finite_inside_the_box():
    f = ds.Softmax(1e16 * np.ones((3, 3)))
    assert np.isfinite(f.value([0.5, 0.5, 0.5]))
    assert f.value([1.0, 1.0, 0.0]) == -np.inf


@pytest.mark.parametrize("increases", [True, False])
def test_digits_along_moves(increases):
    rng = np.random.default_rng(5)
    for L, condition in kernels(5, rng):
        f, x, value, step = ds.Softmax(L), np.zeros(5), 0.0, 1.0 / 12.0
        n_floats, n_integers = objective_size(f.params)
        work = objective_carve(f.params, np.full(n_floats, np.nan), np.zeros(n_integers, np.int64))
        for k in range(12):
            v = (rng.random(5) < 0.6) * (1.0 if increases else rng.choice([-1.0, 1.0, 1.0], 5))
            v = np.clip(v, -x / step, (1.0 - x) / step)
            value = (increase if increases else advance)(f.params, work, x, v, step, value)
            np.clip(x, 0.0, 1.0, out=x)
            refresh_gradient(f.params, work, x, np.ones(5))
            if k % 3 == 2:
                assert_close(value, work.grad, L, x, condition)
                entries = np.empty(5)
                hessian_product(f.params, work, x, np.eye(5)[1], entries)
                assert entries[1] == pytest.approx(-(work.grad[1] ** 2), rel=1e-7)


@pytest.mark.parametrize("unit", [1e3, 1e6, 1e14])
def test_long_runs_of_large_kernels_keep_their_digits(unit):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((110, 220))
    f = ds.Softmax(unit * (X @ X.T) / 220.0 + np.eye(110))
    r = ds.nonmonotone_frank_wolfe(f, ds.Budget(30, np.ones(110)), max_iter=30)
    value, grad = f.value_and_gradient(r.x)
    assert r.value == pytest.approx(value, rel=1e-12)
    gap = np.sort(grad.clip(0.0))[-30:].sum() - grad @ r.x
    assert r.fw_gap == pytest.approx(gap, rel=1e-6, abs=1e-8)


def test_digits_of_factors_with_long_rows():
    rng = np.random.default_rng(3)
    for k, scale in ((1, 1e8), (2, 1e8), (3, 10.0 ** rng.uniform(-6, 8, (6, 1))), (2, np.array([[1e8], [1.0]] * 3))):
        B = rng.standard_normal((6, k)) * scale
        f, L = ds.Softmax(factor=B), gram(B)
        assert f.factor is not None
        for _ in range(4):
            x = rng.uniform(0.01, 0.99, 6) * (rng.random(6) < 0.8)
            assert_close(*f.value_and_gradient(x), L, x, 1.0)


def test_a_stack_has_the_digits_of_single_problems():
    rng = np.random.default_rng(9)
    L = np.array([kernel for kernel, _ in kernels(4, rng)])
    options = dict(method="nonmonotone-frank-wolfe", max_iter=20)
    stacked = [
        ds.maximize_stacked(objective="softmax", L=L, set="budget", k=2.0, upper=np.ones(4), n_jobs=jobs, **options)
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(stacked[0].x, stacked[1].x)
    for i, kernel in enumerate(L):
        f = ds.Softmax(kernel)
        assert stacked[0].value[i] == pytest.approx(f.value(stacked[0].x[i]), rel=1e-12, abs=1e-12)
        single = ds.nonmonotone_frank_wolfe(f, ds.Budget(2.0, np.ones(4)), max_iter=20)
        np.testing.assert_array_equal(single.x, stacked[0].x[i])
