"""Softmax extension: values, incremental kernels, checks, the paper's numbers."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast import reference
from drsub_fast.objectives.base import (
    _value_and_gradient,
    advance,
    contract,
    coordinate_maximum,
    evaluate,
    exact_step,
    hessian_product,
    objective_carve,
    objective_size,
    prepare,
)
from drsub_fast.objectives.lazy_gradient import final_value, increase, refresh_gradient


def random_kernel(n, seed, largest=6.0):
    """Kernel with eigenvalues uniform on [0, largest]."""
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.standard_normal((n, n)))
    L = (U * rng.uniform(0.0, largest, n)) @ U.T
    return (L + L.T) / 2


def numpy_value(L, x):
    return np.linalg.slogdet(x[:, None] * (L - np.eye(len(L))) + np.eye(len(L)))[1]


def numpy_gradient(L, x):
    D = L - np.eye(len(L))
    return np.einsum("ij,ji->i", D, np.linalg.inv(x[:, None] * D + np.eye(len(L))))


def numpy_hessian(L, x):
    D = L - np.eye(len(L))
    return -((D @ np.linalg.inv(np.eye(len(L)) + x[:, None] * D)) ** 2)


def workspace(f):
    n_floats, n_integers = objective_size(f.params)
    return objective_carve(f.params, np.full(n_floats, np.nan), np.zeros(n_integers, np.int64))


def sparse_point(n, rng, density=0.6):
    return rng.uniform(size=n) * (rng.uniform(size=n) < density)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 40, 130])
def test_value_and_gradient_agree_with_numpy(n):
    L = random_kernel(n, n)
    f = ds.Softmax(L)
    rng = np.random.default_rng(n)
    points = [np.zeros(n), np.full(n, 0.5), np.full(n, 1e-12), rng.uniform(size=n), sparse_point(n, rng)]
    one = sparse_point(n, rng)
    one[rng.integers(n)] = 1.0
    for x in [*points, one]:
        value, grad = f.value_and_gradient(x)
        assert value == pytest.approx(numpy_value(L, x), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(grad, numpy_gradient(L, x), rtol=1e-10, atol=1e-11)


def test_value_at_a_set_is_the_log_determinant_of_its_kernel():
    L = random_kernel(12, 3) + 0.1 * np.eye(12)
    f = ds.Softmax(L)
    chosen = [1, 4, 5, 10]
    x = np.zeros(12)
    x[chosen] = 1.0
    assert f.value(x) == pytest.approx(np.linalg.slogdet(L[np.ix_(chosen, chosen)])[1], rel=1e-12)


def test_gradient_is_accurate_where_x_is_tiny():
    L = random_kernel(9, 5)
    x = np.zeros(9)
    x[:3] = 1e-13, 1e-9, 0.4
    np.testing.assert_allclose(ds.Softmax(L).gradient(x), numpy_gradient(L, x), rtol=1e-13, atol=1e-13)


def test_value_where_the_determinant_underflows():
    n = 2000
    d = np.random.default_rng(0).uniform(0.2, 1.2, n)
    x = np.ones(n)
    value = ds.Softmax(np.diag(d)).value(x)
    assert np.exp(value) == 0.0
    assert value == pytest.approx(np.log(d).sum(), rel=1e-12)


@pytest.mark.parametrize("n", [10, 200])
def test_singular_kernel_of_a_set_gives_minus_infinity(n):
    rng = np.random.default_rng(1)
    B = rng.standard_normal((n, 5))
    f = ds.Softmax(B @ B.T)
    x = np.zeros(n)
    x[:5] = 1.0
    assert np.isfinite(f.value(x))
    x[:6] = 1.0
    value, grad = f.value_and_gradient(x)
    assert value == -np.inf
    assert np.isnan(grad).all()


def test_duplicate_rows_of_the_kernel():
    B = np.random.default_rng(2).standard_normal((6, 6))
    B[3] = B[1]
    f = ds.Softmax(B @ B.T)
    x = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    assert f.value(x) == -np.inf
    x[3] = 0.5
    assert f.value(x) == pytest.approx(numpy_value(B @ B.T, x), rel=1e-12)


def test_rank_deficient_kernel_of_fifty_items():
    B = np.random.default_rng(3).standard_normal((50, 5))
    f = ds.Softmax(B @ B.T)
    x = np.full(50, 0.3)
    np.testing.assert_allclose(f.gradient(x), numpy_gradient(B @ B.T, x), rtol=1e-10)
    assert f.value(x) == pytest.approx(numpy_value(B @ B.T, x), rel=1e-12)


def test_gradient_agrees_with_finite_differences():
    f = ds.Softmax(random_kernel(7, 4))
    x = np.random.default_rng(4).uniform(0.1, 0.9, 7)
    step = 1e-6 * np.eye(7)
    slopes = [(f.value(x + e) - f.value(x - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(f.gradient(x), slopes, rtol=1e-7)


def test_gradient_is_antitone_and_hessian_nonpositive():
    f = ds.Softmax(random_kernel(15, 6))
    rng = np.random.default_rng(6)
    for _ in range(20):
        low = rng.uniform(size=15)
        high = low + rng.uniform(size=15) * (1.0 - low)
        assert (f.gradient(low) >= f.gradient(high) - 1e-12).all()
        work = workspace(f)
        evaluate(f.params, work, low)
        for i in range(15):
            column = np.empty(15)
            assert hessian_product(f.params, work, low, np.eye(15)[i], column) == 1
            assert (column <= 0.0).all()


@pytest.mark.parametrize("n", [1, 6, 24, 150])
def test_advance_agrees_with_evaluate(n):
    f = ds.Softmax(random_kernel(n, n))
    rng = np.random.default_rng(n)
    work, x = workspace(f), np.zeros(n)
    value = evaluate(f.params, work, x)
    for step in range(30):
        v = np.zeros(n)
        chosen = rng.choice(n, size=min(n, 1 + step % 5), replace=False)
        v[chosen] = 1.0 - x[chosen]
        prepare(f.params, work, x, v)
        value = advance(f.params, work, x, v, 0.05, value)
        expected, grad = f.value_and_gradient(x)
        assert value == pytest.approx(expected, rel=1e-11, abs=1e-12)
        np.testing.assert_allclose(work.grad, grad, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", ["dense", "descent", "zero", "to the singular corner"])
def test_advance_along_unusual_directions(kind):
    n = 8
    B = np.random.default_rng(7).standard_normal((n, 3))
    f = ds.Softmax(B @ B.T if kind == "to the singular corner" else random_kernel(n, 7))
    work, x = workspace(f), np.full(n, 0.0 if kind == "to the singular corner" else 0.5)
    value = evaluate(f.params, work, x)
    v = {
        "dense": np.linspace(0.1, 0.9, n),
        "descent": np.where(np.arange(n) == 2, -1.0, 0.0),
        "zero": np.zeros(n),
        "to the singular corner": (np.arange(n) < 4) * 1.0,
    }[kind]
    gamma = 1.0 if kind == "to the singular corner" else 0.25
    start = x.copy()
    value = advance(f.params, work, x, v, gamma, value)
    np.testing.assert_array_equal(x, start + gamma * v)
    expected, grad = f.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(work.grad, grad, rtol=1e-11)


@pytest.mark.parametrize("n", [20, 100])
def test_a_thousand_moves_do_not_drift(n):
    f = ds.Softmax(random_kernel(n, 9))
    rng = np.random.default_rng(9)
    work, x = workspace(f), np.zeros(n)
    value = evaluate(f.params, work, x)
    for _ in range(1000):
        v = np.zeros(n)
        chosen = rng.choice(n, size=4, replace=False)
        v[chosen] = 1.0 - x[chosen]
        value = advance(f.params, work, x, v, 0.01, value)
    expected, grad = f.value_and_gradient(x)
    assert abs(value - expected) < 1e-11
    assert np.abs(work.grad - grad).max() < 1e-11


def follow(f, moves, rtol=1e-9):
    """Makes the moves (v, gamma) from 0 and compares value and gradient with those from scratch all the way."""
    work, x = workspace(f), np.zeros(f.n)
    value = evaluate(f.params, work, x)
    for step, (v, gamma) in enumerate(moves):
        value = advance(f.params, work, x, v, gamma, value)
        if step % 7 == 0 or step == len(moves) - 1:
            expected, grad = f.value_and_gradient(x)
            assert value == pytest.approx(expected, rel=rtol, abs=rtol)
            np.testing.assert_allclose(work.grad, grad, rtol=rtol, atol=rtol * (1.0 + np.abs(grad).max()))
    return x


@pytest.mark.parametrize("n", [30, 160])
def test_a_long_path_with_vertices_that_come_again(n):
    rng = np.random.default_rng(n)
    vertices = [np.isin(np.arange(n), rng.choice(n, n // 6, replace=False)) * 1.0 for _ in range(12)]
    moves = [(vertices[(k // 10 if k < 100 else k) % 12], 0.004) for k in range(200)]
    x = follow(ds.Softmax(random_kernel(n, n)), moves)
    assert np.count_nonzero(x) > 0.6 * n


def test_a_path_that_goes_up_and_down():
    n = 150
    rng = np.random.default_rng(17)
    x, moves = np.zeros(n), []
    for _ in range(80):
        v = np.zeros(n)
        chosen = rng.choice(n, size=25, replace=False)
        v[chosen] = np.where(rng.uniform(size=25) < 0.7, 1.0 - x[chosen], -x[chosen])
        x += 0.4 * v
        moves.append((v, 0.4))
    follow(ds.Softmax(random_kernel(n, 17)), moves)


@pytest.mark.parametrize("n", [12, 60])
def test_a_path_to_a_vertex_of_a_singular_kernel(n):
    L = np.random.default_rng(n).standard_normal((n, 8))
    others = np.zeros(n)
    others[8:] = 0.5 * (np.arange(n - 8) % 3 == 0)
    first = (np.arange(n) < 8) * 1.0
    moves = [(others, 0.1)] * 5 + [(first, 0.25)] * 4 + [(others, -0.1)] * 5
    x = follow(ds.Softmax(L @ L.T), moves)
    assert (x[:8] == 1.0).all()


def test_a_path_beyond_the_unit_box():
    n = 40
    f = ds.Softmax(np.eye(n) + 0.1 * random_kernel(n, 18), unit_box=False)
    v = (np.arange(n) % 4 == 0) * 1.0
    x = follow(f, [(v, 0.3)] * 10 + [(1.0 - v, 0.5)] * 3 + [(np.roll(v, 1), 0.2)] * 10)
    assert x.max() > 3.0


def increases(f, rng, count, among):
    """Random non-negative moves of a few coordinates of ``among`` at a time, each refreshed before it is made."""
    work, x = workspace(f), np.zeros(f.n)
    value = evaluate(f.params, work, x)
    for _ in range(count):
        v = np.zeros(f.n)
        chosen = rng.choice(among, size=min(f.n, 9), replace=False)
        v[chosen] = 1.0 - x[chosen]
        refresh_gradient(f.params, work, x, v)
        value = increase(f.params, work, x, v, 0.04, value)
        yield work, x, value


@pytest.mark.parametrize("n", [5, 99, 100, 150, 260])
def test_increases_leave_upper_bounds_that_refresh_to_the_gradient(n):
    f = ds.Softmax(random_kernel(n, n))
    rng = np.random.default_rng(n)
    n_bounds = 0
    for step, (work, x, value) in enumerate(increases(f, rng, 60, np.arange(n)[-max(5, n // 2) :])):
        expected, grad = f.value_and_gradient(x)
        tolerance = 1e-11 * (1.0 + np.abs(grad))
        assert value == pytest.approx(expected, rel=1e-12)
        assert (work.grad >= grad - tolerance).all()
        assert (np.abs(work.grad - grad) <= tolerance)[x > 0.0].all()
        n_bounds += np.count_nonzero(work.grad > grad + tolerance)
        if step % 9 == 4:
            v = (rng.random(n) < 2.0 / n) * 1.0
            bounds = work.grad.copy()
            fell = refresh_gradient(f.params, work, x, v)
            assert (np.abs(work.grad - grad) <= tolerance)[v > 0.0].all()
            assert fell == (work.grad < bounds)[v > 0.0].any()
            assert not refresh_gradient(f.params, work, x, v)
    assert (n_bounds > 0) == (n >= 100)
    assert final_value(f.params, work, x, value) == pytest.approx(expected, rel=1e-13)
    refresh_gradient(f.params, work, x, np.ones(n))
    np.testing.assert_allclose(work.grad, grad, rtol=1e-11, atol=1e-11)


def test_other_kernels_after_increases_make_the_state_anew():
    n = 110
    f = ds.Softmax(random_kernel(n, 4))
    *_, (work, x, value) = increases(f, np.random.default_rng(4), 12, np.arange(n))
    column = np.empty(n)
    assert hessian_product(f.params, work, x, np.eye(n)[3], column) == 1
    np.testing.assert_allclose(column, numpy_hessian(f.L, x)[3], rtol=1e-10, atol=1e-12)
    *_, (work, x, value) = increases(f, np.random.default_rng(4), 12, np.arange(n))
    value = advance(f.params, work, x, -x * (np.arange(n) < 4), 0.5, value)
    expected, grad = f.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(work.grad, grad, rtol=1e-11, atol=1e-11)


def test_a_tracked_value_that_is_wrong_is_not_the_answer():
    n = 105
    f = ds.Softmax(random_kernel(n, 6))
    *_, (work, x, value) = increases(f, np.random.default_rng(6), 20, np.arange(n))
    assert final_value(f.params, work, x, value + 1e-6) == pytest.approx(f.value(x), rel=1e-13)
    np.testing.assert_allclose(work.grad, f.gradient(x), rtol=1e-11)


@pytest.mark.parametrize("n", [60, 200])
def test_increases_to_a_vertex_of_a_singular_kernel(n):
    B = np.random.default_rng(n).standard_normal((n, 8))
    f = ds.Softmax(B @ B.T)
    work, x = workspace(f), np.zeros(n)
    value = evaluate(f.params, work, x)
    v = (np.arange(n) < 8) * 1.0
    for _ in range(20):
        value = increase(f.params, work, x, v, 1.0 / 20, value)
        expected, grad = f.value_and_gradient(x)
        assert value == pytest.approx(expected, rel=1e-9)
        assert (work.grad >= grad - 1e-9 * (1.0 + np.abs(grad).max())).all()


@pytest.mark.parametrize("solver", ["nonmonotone_frank_wolfe", "monotone_frank_wolfe"])
@pytest.mark.parametrize("lmo", ["kernel", "highs"])
def test_bounds_change_no_iterate(solver, lmo):
    n = 200
    L = random_kernel(n, 3)
    rng = np.random.default_rng(3)
    P = ds.Polytope(rng.random((6, n)), np.full(6, 3.0), np.ones(n))
    f = ds.Softmax(L)
    got, expected = getattr(ds, solver)(f, P, max_iter=40, lmo=lmo), getattr(reference, solver)(f, P, max_iter=40)
    assert got.n_lmo > expected.n_lmo
    assert got.value == pytest.approx(expected.value, rel=1e-12)
    assert got.fw_gap == pytest.approx(expected.fw_gap, rel=1e-9)
    np.testing.assert_allclose(got.x, expected.x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got.trace.value, expected.trace.value, rtol=1e-12)


def test_a_coordinate_is_best_at_an_end():
    f = ds.Softmax(random_kernel(9, 19, largest=2.0))
    x = sparse_point(9, np.random.default_rng(19))
    work = workspace(f)
    evaluate(f.params, work, x)
    best = [coordinate_maximum(f.params, work, x, i, 0.8) for i in range(9)]
    assert set(best) == {0.0, 0.8}
    for i, end in enumerate(best):
        values = [f.value(np.where(np.arange(9) == i, t, x)) for t in (end, 0.0, 0.3, 0.6, 0.8)]
        assert values[0] == max(values)


def test_parameters_are_data_alone():
    f = ds.Softmax(random_kernel(3, 20))
    assert [item.shape for item in f.params] == [(3, 3), (3,)]
    assert pickle.loads(pickle.dumps(f)).value([0.1, 0.2, 0.3]) == f.value([0.1, 0.2, 0.3])


def test_a_wrong_row_is_noticed_and_the_state_made_anew():
    n = 12
    f = ds.Softmax(random_kernel(n, 10))
    work, x = workspace(f), np.zeros(n)
    value = evaluate(f.params, work, x)
    v = np.zeros(n)
    v[:3] = 1.0
    value = advance(f.params, work, x, v, 0.1, value)
    work.P[:] += 1e-6
    for _ in range(40):
        value = advance(f.params, work, x, v, 0.01, value)
    expected, grad = f.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(work.grad, grad, rtol=1e-11)


def test_advance_along_a_sparse_direction_of_mixed_signs():
    n = 30
    f = ds.Softmax(random_kernel(n, 16))
    rng = np.random.default_rng(16)
    work, x = workspace(f), np.full(n, 0.5)
    value = evaluate(f.params, work, x)
    for _ in range(20):
        d = np.zeros(n)
        i, j = rng.choice(n, size=2, replace=False)
        d[i], d[j] = 1.0 - x[i], -x[j]
        value = advance(f.params, work, x, d, rng.choice([0.3, 1.0]), value)
        expected, grad = f.value_and_gradient(x)
        assert value == pytest.approx(expected, rel=1e-11)
        np.testing.assert_allclose(work.grad, grad, rtol=1e-10, atol=1e-11)


def test_contract_agrees_with_evaluate():
    n = 20
    f = ds.Softmax(random_kernel(n, 11))
    rng = np.random.default_rng(11)
    work, x = workspace(f), np.zeros(n)
    value = evaluate(f.params, work, x)
    for k in range(20):
        v = sparse_point(n, rng, 0.3)
        start = x.copy()
        value = contract(f.params, work, x, v, 2.0 / (k + 3), value)
        np.testing.assert_allclose(x, start + 2.0 / (k + 3) * (v - start), rtol=1e-14)
        assert value == pytest.approx(f.value(x), rel=1e-12)
        np.testing.assert_allclose(work.grad, f.gradient(x), rtol=1e-12)


@pytest.mark.parametrize("signs", ["ascent", "mixed"])
@pytest.mark.parametrize("seed", range(6))
def test_exact_step_is_best_on_a_dense_grid(signs, seed):
    n = 10
    rng = np.random.default_rng(seed)
    f = ds.Softmax(random_kernel(n, seed, largest=rng.choice([1.5, 6.0])))
    x = 0.6 * sparse_point(n, rng)
    v = (rng.uniform(size=n) < 0.4) * 1.0
    if signs == "ascent":
        v = np.maximum(v, x)
    work = workspace(f)
    value = evaluate(f.params, work, x)
    grad = work.grad.copy()
    gamma = exact_step(f.params, work, x, v, 1.0, value)
    grid = [f.value(x + t * (v - x)) for t in np.linspace(0.0, 1.0, 801)]
    reached = f.value(x + gamma * (v - x))
    assert reached >= max(grid) - 1e-9
    if 0.0 < gamma < 1.0:
        assert abs(f.gradient(x + gamma * (v - x)) @ (v - x)) < 1e-6
    # The workspace still belongs to x ...
    np.testing.assert_array_equal(work.grad, grad)
    out = np.empty(n)
    hessian_product(f.params, work, x, v, out)
    np.testing.assert_allclose(out, numpy_hessian(f.L, x) @ v, rtol=1e-9, atol=1e-11)
    # ... and the step itself lands where it was meant to.
    assert contract(f.params, work, x, v, gamma, value) == pytest.approx(reached, rel=1e-12, abs=1e-12)


def test_exact_step_finds_the_better_of_two_peaks():
    # Two items that are nearly the same: f has a valley half-way between the choice of one and the other.
    f = ds.Softmax([[3.0, 2.99], [2.99, 3.2]])
    work, x, v = workspace(f), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    value = evaluate(f.params, work, x)
    assert work.grad @ (v - x) < 0.0
    assert exact_step(f.params, work, x, v, 1.0, value) == 1.0


@pytest.mark.parametrize("after", ["evaluate", "advance"])
def test_hessian_product_agrees_with_numpy_and_differences(after):
    n = 14
    f = ds.Softmax(random_kernel(n, 12))
    rng = np.random.default_rng(12)
    x = 0.7 * sparse_point(n, rng)
    work = workspace(f)
    value = evaluate(f.params, work, x)
    if after == "advance":
        v = np.zeros(n)
        v[:4] = 1.0 - x[:4]
        advance(f.params, work, x, v, 0.3, value)
    for d in (rng.standard_normal(n), np.eye(n)[3]):
        out = np.empty(n)
        assert hessian_product(f.params, work, x, d, out) == 1
        np.testing.assert_allclose(out, numpy_hessian(f.L, x) @ d, rtol=1e-10, atol=1e-11)
        difference = (f.gradient(x + 1e-6 * d) - f.gradient(x - 1e-6 * d)) / 2e-6
        np.testing.assert_allclose(out, difference, rtol=1e-6, atol=1e-6)


def test_outside_the_unit_box_only_the_branch_of_zero_counts():
    L = random_kernel(6, 13, largest=1.5)
    f = ds.Softmax(L, unit_box=False)
    rng = np.random.default_rng(13)
    seen = set()
    for _ in range(400):
        x = rng.uniform(0.0, 12.0, 6) * rng.random()
        root = np.sqrt(x)
        definite = np.linalg.eigvalsh(np.eye(6) + root[:, None] * (L - np.eye(6)) * root)[0] > 0.0
        sign, log_det = np.linalg.slogdet(x[:, None] * (L - np.eye(6)) + np.eye(6))
        seen.add((bool(definite), sign))
        value, grad = f.value_and_gradient(x)
        if definite:
            assert value == pytest.approx(log_det, rel=1e-11, abs=1e-11)
            np.testing.assert_allclose(grad, numpy_gradient(L, x), rtol=1e-7, atol=1e-9)
        else:
            assert value == -np.inf
            assert np.isnan(grad).all()
    assert seen == {(True, 1.0), (False, 1.0), (False, -1.0)}


def test_advance_leaves_the_unit_box():
    L = random_kernel(6, 14, largest=1.5)
    f = ds.Softmax(L, unit_box=False)
    work, x = workspace(f), np.zeros(6)
    value = evaluate(f.params, work, x)
    v = np.zeros(6)
    v[:2] = 0.5
    for _ in range(40):
        value = advance(f.params, work, x, v, 1.0, value)
        expected, grad = f.value_and_gradient(x)
        assert value == pytest.approx(expected, rel=1e-10, nan_ok=True)
        np.testing.assert_allclose(work.grad, grad, rtol=1e-9)


@pytest.mark.parametrize("family", [3, 4])
def test_values_of_the_authors_solvers(shared_data, family):
    with np.load(shared_data / "paper" / f"d{family}.npz") as data:
        names = sorted({key.split("__")[0] for key in data.files})
        for name in names:
            f = ds.Softmax(data[f"{name}__L"], unit_box=False)
            for solver in ("s1", "s3", "s4"):
                x = data[f"{name}__{solver}_opt_x"].ravel()
                assert f.value(x) == pytest.approx(float(data[f"{name}__{solver}_opt_f"]), abs=1e-10)


def low_rank(n, k, seed):
    return np.random.default_rng(seed).standard_normal((n, k)) / np.sqrt(k)


@pytest.mark.parametrize(("n", "k"), [(32, 8), (50, 5), (90, 1)])
def test_factor_agrees_with_kernel(n, k):
    B = low_rank(n, k, n)
    rng = np.random.default_rng(k)
    f, dense = ds.Softmax(factor=B), ds.Softmax(B @ B.T)
    assert type(f.params) is not type(dense.params)
    np.testing.assert_allclose(f.L, B @ B.T, rtol=1e-14)
    points = [np.zeros(n), np.full(n, 1e-12), np.full(n, 0.5), np.full(n, 1.0 - 1e-3), rng.uniform(size=n)]
    for near in (1.0, 1.0 - 1e-14, 1.0 - 1e-6, 1.0 - 0.999e-3, 1.0 - 1.001e-3):
        x = sparse_point(n, rng)
        x[rng.integers(n)] = near
        points.append(x)
    ones = np.zeros(n)
    ones[:k] = 1.0
    points += [ones, np.where(ones, 1.0, rng.uniform(size=n))]
    for x in points:
        value, grad = f.value_and_gradient(x)
        expected, expected_grad = dense.value_and_gradient(x)
        assert value == pytest.approx(expected, rel=1e-11, abs=1e-11)
        np.testing.assert_allclose(grad, expected_grad, rtol=1e-8, atol=1e-9 * (1.0 + np.abs(expected_grad).max()))


def test_factor_with_more_coordinates_near_one_than_it_has_room_for():
    B = low_rank(40, 3, 0)
    x = np.full(40, 0.2)
    x[:20] = 1.0 - 5e-4
    f, dense = ds.Softmax(factor=B), ds.Softmax(B @ B.T)
    assert f.value(x) == pytest.approx(dense.value(x), rel=1e-10)
    np.testing.assert_allclose(f.gradient(x), dense.gradient(x), rtol=1e-6)
    x[:3] = 1.0
    assert f.value(x) == pytest.approx(dense.value(x), rel=1e-10)
    x[:8] = 1.0
    assert f.value(x) == -np.inf
    assert np.isnan(f.gradient(x)).all()


def test_factor_outside_the_unit_box():
    B = low_rank(40, 3, 1)
    x = np.full(40, 0.01)
    x[5] = 1.5
    assert np.isnan(ds.Softmax(factor=B).value(x))
    sign, log_det = np.linalg.slogdet(x[:, None] * (B @ B.T - np.eye(40)) + np.eye(40))
    value = ds.Softmax(factor=B, unit_box=False).value(x)
    assert value == (pytest.approx(log_det, rel=1e-11) if sign > 0 else -np.inf)


def test_exact_step_of_a_factor():
    B = 2.0 * low_rank(40, 4, 2)
    f = ds.Softmax(factor=B)
    rng = np.random.default_rng(2)
    x, v = 0.3 * sparse_point(40, rng), (rng.uniform(size=40) < 0.1) * 0.9
    work = workspace(f)
    value = evaluate(f.params, work, x)
    grad = work.grad.copy()
    gamma = exact_step(f.params, work, x, v, 1.0, value)
    np.testing.assert_array_equal(work.grad, grad)
    assert f.value(x + gamma * (v - x)) >= max(f.value(x + t * (v - x)) for t in np.linspace(0, 1, 401)) - 1e-9


def test_a_solver_takes_a_factor():
    B = 1.5 * low_rank(40, 4, 3)
    result = ds.nonmonotone_frank_wolfe(ds.Softmax(factor=B), ds.Budget(3.0, np.ones(40)), max_iter=50)
    assert result.value > 0.5
    assert result.value == pytest.approx(numpy_value(B @ B.T, result.x), rel=1e-11)


def test_known_signs():
    one = np.ones(5)
    large = ds.Softmax(np.eye(5) + random_kernel(5, 15, largest=1.0))
    assert large.nonnegative_on(one) is True
    assert large.monotone_on(one) is True
    mixed = ds.Softmax(random_kernel(5, 15, largest=1.0))
    assert mixed.nonnegative_on(one) is False
    assert mixed.monotone_on(one) is False
    small = ds.Softmax([[1.5, 0.9], [0.9, 1.5]])
    assert small.monotone_on(np.ones(2)) is False
    assert small.monotone_on(np.full(2, 0.1)) is True
    assert small.nonnegative_on(np.full(2, 0.1)) is True
    assert small.nonnegative_on(np.ones(2)) is None
    assert small.nonnegative_on(np.full(2, 7.0)) is None  # the unit box
    assert ds.Softmax(small.L, unit_box=False).nonnegative_on(np.full(2, 7.0)) is False
    assert ds.Softmax(factor=low_rank(40, 3, 4)).nonnegative_on(np.ones(40)) is False
    assert ds.Softmax([[1.0, 1.0], [1.0, 1.0]]).nonnegative_on(np.ones(2)) is False  # -inf at (1, 1)


@pytest.mark.parametrize("seed", range(4))
def test_curvature_bound_holds(seed):
    n = 6
    rng = np.random.default_rng(seed)
    L = random_kernel(n, seed, largest=3.0) + 0.05 * np.eye(n)
    upper = rng.uniform(0.0, 1.0, n) if seed % 2 else np.ones(n)
    bound = ds.Softmax(L).curvature_bound(upper)
    for _ in range(300):
        x = upper * rng.choice([0.0, 0.01, 0.5, 0.99, 1.0], n)
        d = upper * rng.uniform(-1.0, 1.0, n)
        assert -d @ numpy_hessian(L, x) @ d <= bound


def test_curvature_bound_is_absent_where_there_is_none():
    B = np.random.default_rng(0).standard_normal((4, 2))
    assert ds.Softmax(B @ B.T).curvature_bound(np.ones(4)) is None
    assert ds.Softmax(B @ B.T).curvature_bound(np.full(4, 0.5)) > 0.0
    assert ds.Softmax(np.eye(4), unit_box=False).curvature_bound(np.full(4, 2.0)) == 0.0
    assert ds.Softmax(0.3 * np.eye(4), unit_box=False).curvature_bound(np.full(4, 2.0)) is None


def test_bad_kernels_are_refused_by_name():
    good = random_kernel(4, 0)
    for L, words in [
        (np.where(np.eye(4) == 1.0, np.nan, good), r"L\[0, 0\] = nan is not finite"),
        (good + np.triu(np.ones((4, 4)), 1), "L is not symmetric"),
        (np.diag([1.0, 2.0, -0.25, 3.0]), "smallest eigenvalue is -0.25"),
        (-np.eye(3), "smallest eigenvalue is -1"),
        (np.ones((2, 3)), "square"),
        (np.empty((0, 0)), "empty"),
    ]:
        with pytest.raises(ValueError, match=words):
            ds.Softmax(L)
    with pytest.raises(TypeError, match="complex"):
        ds.Softmax(np.eye(2) * 1j)
    with pytest.raises(TypeError, match="either L or factor"):
        ds.Softmax()
    with pytest.raises(TypeError, match="either L or factor"):
        ds.Softmax(good, factor=good)
    with pytest.raises(TypeError, match="unit_box"):
        ds.Softmax(good, unit_box="no")
    with pytest.raises(ValueError, match=r"factor\[1, 0\] = inf"):
        ds.Softmax(factor=[[1.0], [np.inf]])
    with pytest.raises(ValueError, match="factor is empty"):
        ds.Softmax(factor=np.empty((3, 0)))


def test_an_eigenvalue_negative_by_rounding_is_accepted():
    B = np.random.default_rng(0).standard_normal((30, 3))
    L = B @ B.T
    assert np.linalg.eigvalsh(L)[0] < 0.0
    assert ds.Softmax(L).n == 30


def test_one_specialisation_for_all_inputs():
    L = random_kernel(5, 1)
    frozen = L.copy()
    frozen.flags.writeable = False
    x = np.full(5, 0.5)
    expected = ds.Softmax(L).value(x)
    before = len(_value_and_gradient.standalone.signatures)
    for data in (L.tolist(), np.asfortranarray(L), frozen, L[::-1][::-1]):
        assert ds.Softmax(data).value(x) == expected
    assert ds.Softmax(L.astype(np.float32)).value(x.astype(np.float32)) == pytest.approx(expected, rel=1e-5)
    assert len(_value_and_gradient.standalone.signatures) == before
    assert frozen[0, 0] == L[0, 0]


_TINY = """
import numpy as np
import drsub_fast as ds
from drsub_fast.objectives.base import advance, evaluate, objective_carve, objective_size
L = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 3.0]])
f = ds.Softmax(L)
floats, integers = objective_size(f.params)
work = objective_carve(f.params, np.empty(floats), np.zeros(integers, np.int64))
x = np.zeros(3)
value = evaluate(f.params, work, x)
for v in np.eye(3):
    value = advance(f.params, work, x, v, 0.3, value)
outside = ds.Softmax(0.2 * L, unit_box=False).value(np.array([2.0, 2.0, 0.1]))
print(repr(value), repr(f.value(x)), repr(outside))
"""


def test_kernels_run_as_plain_python():
    environment = dict(os.environ, NUMBA_DISABLE_JIT="1")
    outputs = [
        subprocess.run([sys.executable, "-c", _TINY], env=env, capture_output=True, text=True, check=True).stdout
        for env in (environment, dict(os.environ))
    ]
    plain, compiled = (np.array(output.split(), dtype=float) for output in outputs)
    np.testing.assert_allclose(plain, compiled, rtol=1e-14)


def test_python_function_of_the_kernel():
    f = ds.Softmax(random_kernel(4, 2))
    x, grad = np.array([0.2, 0.0, 1.0, 0.4]), np.empty(4)
    value = _value_and_gradient.py_func(f.params, x, grad)
    expected, expected_grad = f.value_and_gradient(x)
    assert value == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(grad, expected_grad, rtol=1e-13)
