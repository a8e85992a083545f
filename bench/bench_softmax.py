"""Kernels of the softmax extension against numpy: ``pytest bench/bench_softmax.py -n0 --benchmark-only``.

Groups are sizes, so that each table shows the ratio to numpy (inverse and slogdet from scratch).
"""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.engine.jit import kernel
from drsub_fast.objectives.base import advance, contract, evaluate, objective_carve, objective_size

STEPS = 100


def random_kernel(n):
    rng = np.random.default_rng(n)
    U, _ = np.linalg.qr(rng.standard_normal((n, n)))
    L = (U * rng.uniform(0.0, 6.0, n)) @ U.T
    return (L + L.T) / 2


def vertices(n):
    """Twenty 0/1 vectors (fewer ones for small n), used in turn."""
    rng = np.random.default_rng(1)
    return np.array([np.isin(np.arange(n), rng.choice(n, min(20, n // 2), replace=False)) * 1.0 for _ in range(20)])


def numpy_steps(L, V, additive):
    n = len(L)
    D, x = L - np.eye(n), np.zeros(n)
    for k in range(STEPS):
        v = V[k % len(V)]
        x = x + v * (1.0 - x) / STEPS if additive else x + 2.0 / (k + 3.0) * (v - x)
        M = x[:, None] * D + np.eye(n)
        np.einsum("ij,ji->i", D, np.linalg.inv(M))
        value = np.linalg.slogdet(M)[1]
    return value


@kernel
def kernel_steps(params, V, additive, floats, integers):
    n = V.shape[1]
    integers[:] = 0
    work = objective_carve(params, floats, integers)
    x, v = np.zeros(n), np.zeros(n)
    value = evaluate(params, work, x)
    for k in range(STEPS):
        vertex = V[k % V.shape[0]]
        if additive:
            for j in range(n):
                v[j] = vertex[j] * (1.0 - x[j])
            value = advance(params, work, x, v, 1.0 / STEPS, value)
        else:
            value = contract(params, work, x, vertex, 2.0 / (k + 3.0), value)
    return value


@pytest.mark.parametrize("impl", ["numpy", "fast"])
@pytest.mark.parametrize("kind", ["additive", "classical"])
@pytest.mark.parametrize("n", [16, 64, 128, 256])
def test_steps(benchmark, n, kind, impl):
    benchmark.group = f"{kind} steps, n = {n}"
    L, V, additive = random_kernel(n), vertices(n), kind == "additive"
    f = ds.Softmax(L)
    n_floats, n_integers = objective_size(f.params)
    floats, integers = np.empty(n_floats), np.zeros(n_integers, np.int64)
    if impl == "numpy":
        benchmark(numpy_steps, L, V, additive)
    else:
        value = benchmark(kernel_steps, f.params, V, additive, floats, integers)
        assert value == pytest.approx(numpy_steps(L, V, additive), rel=1e-10)


@pytest.mark.parametrize("impl", ["dense", "factor"])
@pytest.mark.parametrize(("n", "k"), [(64, 16), (200, 20)])
def test_low_rank_evaluation(benchmark, n, k, impl):
    benchmark.group = f"value and gradient, n = {n}, rank {k}"
    rng = np.random.default_rng(0)
    B = rng.standard_normal((n, k)) / np.sqrt(k)
    f = ds.Softmax(factor=B) if impl == "factor" else ds.Softmax(B @ B.T)
    benchmark(f.value_and_gradient, rng.uniform(size=n))
