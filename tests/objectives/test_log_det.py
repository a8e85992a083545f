"""Spectral objective: dense matrices and rank-one factors."""

import math
import pickle

import numpy as np
import pytest
from objective_checks import assert_gradient, interior_points

import drsub_fast as ds
from drsub_fast.objectives.base import (
    advance,
    contract,
    evaluate,
    exact_step,
    objective_carve,
    objective_size,
    prepare,
)

N, P = 6, 4


def parts():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(N, P))
    offset = 0.5 * np.eye(P) + 0.1
    roots = rng.normal(size=(N, P, P))
    return factors, roots @ roots.transpose(0, 2, 1), offset


FACTORS, MATRICES, OFFSET = parts()
OBJECTIVES = {
    "dense": (ds.Spectral(MATRICES), MATRICES, np.zeros((P, P))),
    "dense with offset": (ds.Spectral(MATRICES, offset=OFFSET), MATRICES, OFFSET),
    "factors": (ds.Spectral(factors=FACTORS), FACTORS[:, :, None] * FACTORS[:, None, :], np.zeros((P, P))),
    "factors with offset": (
        ds.Spectral(factors=FACTORS, offset=OFFSET),
        FACTORS[:, :, None] * FACTORS[:, None, :],
        OFFSET,
    ),
}


@pytest.fixture(params=OBJECTIVES, ids=list(OBJECTIVES))
def case(request):
    return OBJECTIVES[request.param]


def formula(matrices, offset, x):
    shift = np.linalg.slogdet(offset)[1] if offset.any() else 0.0
    return np.linalg.slogdet(offset + np.tensordot(x, matrices, 1))[1] - shift


def test_value_gradient_and_diminishing_returns(case):
    f, matrices, offset = case
    points = interior_points(np.random.default_rng(1), N, 2.0)
    for x in points:
        assert f.value(x) == pytest.approx(formula(matrices, offset, x), rel=1e-11)
    assert_gradient(f, points)
    assert f.check_dr(2.0 * np.ones(N))
    assert pickle.loads(pickle.dumps(f)).value(points[0]) == f.value(points[0])


def test_at_zero(case):
    f, _, offset = case
    if offset.any():
        assert f.value(np.zeros(N)) == 0.0
        assert f.nonnegative_on(np.ones(N)) is True
        curvature = f.curvature_bound(np.ones(N))
        x, y = np.zeros(N), np.ones(N)
        assert 2.0 * (f.value(x) + f.gradient(x) @ (y - x) - f.value(y)) <= curvature
    else:
        assert f.value(np.zeros(N)) == -math.inf
        assert (f.gradient(np.zeros(N)) == math.inf).all()
        assert f.nonnegative_on(np.ones(N)) is False
        assert f.curvature_bound(np.ones(N)) is None
    assert f.monotone_on(np.ones(N)) is True


def test_steps_agree_with_evaluation(case):
    f, _, _ = case
    rng = np.random.default_rng(2)
    n_floats, n_integers = objective_size(f.params)
    work = objective_carve(f.params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    x, v = rng.random(N), np.zeros(N)
    v[[1, 3]] = 1.0, 0.5
    value = evaluate(f.params, work, x)
    prepare(f.params, work, x, v)
    for step, gamma in ((advance, 0.3), (contract, 0.2), (advance, 0.1)):
        value = step(f.params, work, x, v, gamma, value)
        assert value == pytest.approx(f.value(x), rel=1e-12)
        np.testing.assert_allclose(work.grad, f.gradient(x), rtol=1e-10)
    gamma = exact_step(f.params, work, x, v, 1.0, value)
    grid = [f.value(x + g * (v - x)) for g in np.linspace(0.0, 1.0, 101)]
    assert f.value(x + gamma * (v - x)) >= max(grid) - 1e-12
    assert contract(f.params, work, x, v, gamma, value) >= max(grid) - 1e-12


@pytest.mark.parametrize("rest", [0.0, 0.01])
def test_an_exact_step_finds_a_peak_inside_the_segment(rest):
    f = ds.Spectral(factors=FACTORS)
    n_floats, n_integers = objective_size(f.params)
    work = objective_carve(f.params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    x, v = np.full(N, 0.05), np.full(N, rest)  # with rest = 0 the end is singular
    v[:2] = 1.0
    value = evaluate(f.params, work, x)
    prepare(f.params, work, x, v)
    gamma = exact_step(f.params, work, x, v, 1.0, value)
    assert 0.0 < gamma < 1.0
    at = x + gamma * (v - x)
    assert f.gradient(at) @ (v - x) == pytest.approx(0.0, abs=1e-8)
    assert f.value(at) > value


def test_best_design_by_the_multiplicative_rule():
    # Kiefer and Wolfowitz: at the D-optimal design no v'M^-1 v exceeds p, and sum_i x_i v_i'M^-1 v_i = p always.
    f = ds.Spectral(factors=FACTORS)
    x = np.full(N, 1.0 / N)
    for _ in range(2000):
        grad = f.gradient(x)
        assert x @ grad == pytest.approx(P, rel=1e-9)
        x *= grad / P
    assert f.gradient(x).max() == pytest.approx(P, rel=1e-3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ds.Spectral(), "either matrices"),
        (lambda: ds.Spectral(MATRICES, factors=FACTORS), "either matrices"),
        (lambda: ds.Spectral([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]]), r"matrices\[1\] is not positive semidefinite"),
        (lambda: ds.Spectral([np.eye(2), [[1.0, 2.0], [0.0, 5.0]]]), r"matrices\[1\] is not symmetric"),
        (lambda: ds.Spectral(factors=FACTORS, offset=np.zeros((P, P))), "offset is not positive definite"),
        (lambda: ds.Spectral(factors=FACTORS, offset=np.eye(3)), r"expected \(4, 4\)"),
    ],
)
def test_errors_name_the_matrix(build, message):
    with pytest.raises(ValueError, match=message):
        build()
