"""Stochastic continuous greedy: few calls of F, and close to the maximum."""

import itertools
import math
import pickle

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.solvers import stochastic_greedy


def problem(seed, n=16, k=4):
    random = np.random.default_rng(seed)
    M = random.random((n, 40)) < 0.15
    weights = random.random(40)
    exact = ds.Multilinear.coverage(M.astype(float), weights)
    calls = []

    def F(S):
        calls.append(tuple(S))
        return float(weights[M[S].any(axis=0)].sum()) if S else 0.0

    return exact, ds.Multilinear.sampled(F, n, monotone=True), ds.Budget(k, np.ones(n)), calls


def test_a_few_hundred_calls_are_enough():
    ratios = []
    for seed in range(12):
        exact, f, P, calls = problem(seed)
        r = ds.stochastic_continuous_greedy(f, P, seed=seed)
        assert P.contains(r.x)
        assert len(calls) == len(set(calls)) == f.n_calls <= 20 * 17 + 20
        ratios.append(exact.value(r.x) / ds.certificates.upper_bound(exact, P, gap=0.0))
    assert np.mean(ratios) >= 0.9


@pytest.mark.parametrize("n_samples", [1, 3])
def test_derivatives_that_are_left_out_change_no_step(n_samples, monkeypatch):
    def every_derivative(self, P, upper):
        for t, i in itertools.product(range(len(self.sets)), range(self.sets.shape[1])):
            self._compute(t, i)
        return P.lmo(self.weights @ self.derivatives, upper)

    for seed in range(6):
        _, f, P, _ = problem(seed)
        lazy = ds.stochastic_continuous_greedy(f, P, seed=seed, n_samples=n_samples)
        with monkeypatch.context() as patch:
            patch.setattr(stochastic_greedy._Average, "best_vertex", every_derivative)
            _, g, P, _ = problem(seed)
            full = ds.stochastic_continuous_greedy(g, P, seed=seed, n_samples=n_samples)
        np.testing.assert_array_equal(lazy.x, full.x)
        assert f.n_calls < 0.7 * g.n_calls


def test_the_gradient_estimate_is_unbiased():
    exact, f, _, _ = problem(3, n=5)
    x = np.random.default_rng(0).random(5)
    value, gradient = f.sampler.estimate(x, np.random.default_rng(1).random((20_000, 5)))
    assert value == pytest.approx(exact.value(x), abs=0.05)
    np.testing.assert_allclose(gradient, exact.gradient(x), atol=0.05)
    assert f.n_calls <= 2**5


def test_sets_are_remembered_and_left_out_of_pickles():
    f = ds.Multilinear.sampled(len, 4)
    f.value([0.5] * 4)
    f.value([0.4] * 4)
    assert 0 < f.n_calls <= 16
    copied = pickle.loads(pickle.dumps(f))
    assert copied.n_calls == 0
    assert copied.value([0.5] * 4) == f.value([0.5] * 4)


def test_stopping_and_promises():
    _, f, P, _ = problem(0)
    assert ds.stochastic_continuous_greedy(f, P).guarantee.ratio == pytest.approx(1.0 - 1.0 / math.e)
    r = ds.stochastic_continuous_greedy(f, P, callback=lambda progress: progress.n_iter == 3)
    assert (r.n_iter, r.status, r.guarantee.ratio) == (3, ds.Status.CALLBACK, None)
    r = ds.stochastic_continuous_greedy(f, P, time_limit=0.0)
    assert (r.n_iter, r.status) == (0, ds.Status.TIME_LIMIT)
    exact = ds.maximize(problem(0)[0], P, method="stochastic-continuous-greedy", max_iter=100, seed=3)
    assert exact.value == pytest.approx(ds.monotone_frank_wolfe(problem(0)[0], P).value, rel=0.02)
    assert ds.maximize(f, P, method="stochastic-continuous-greedy", seed=1).n_iter == 20
    with pytest.raises(ds.UnsupportedError, match="down-closed"):
        ds.stochastic_continuous_greedy(f, ds.Simplex(16))
