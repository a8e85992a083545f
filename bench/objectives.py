"""Every objective against its formula in numpy: value with gradient, and 100 additive steps.

`PriceOptimization`, `StabilityNumber`, `NonnegativePCA` and the cut share the kernels of the quadratic.
"""

import numpy as np

import drsub_fast as ds
from bench.problems import quadratic_problem, softmax_problem
from drsub_fast.objectives.mean_field import EPS
from drsub_fast.reference.problem import as_function

IMPLS = ["reference", "fast"]
SIZES = [16, 128]
STEPS = 100

#: The table of a set function has 2^n entries.
LARGEST_TABLE = 16


def from_reference(f):
    """Value and gradient by the reference's formulas."""
    function = as_function(f)
    return lambda x: (function.value(x), function.gradient(x))


def quadratic(n):
    f, _ = quadratic_problem(n, n // 2)
    return f, from_reference(f)


def softmax(n):
    f, _ = softmax_problem(n)
    return f, from_reference(f)


def expected_maxima(W):
    """f(x) = sum_d E max_{i in S} W_id by sorting, one sweep over the ranks for all columns d at once."""
    n, D = W.shape
    order = np.argsort(-W, axis=0)
    w = np.take_along_axis(W, order, axis=0)
    drop = w - np.vstack([w[1:], np.zeros((1, D))])

    def value_and_gradient(x):
        p = x[order]
        none_before = np.vstack([np.ones((1, D)), np.cumprod(1.0 - p, axis=0)[:-1]])
        gain = drop.copy()
        for k in range(n - 2, -1, -1):
            gain[k] += (1.0 - p[k + 1]) * gain[k + 1]
        grad = np.bincount(order.ravel(), (none_before * gain).ravel(), minlength=n)
        return (none_before * p * w).sum(), grad

    return value_and_gradient


def facility_location(n):
    W = np.random.default_rng(0).exponential(1.0, (n, n))
    return ds.Multilinear.facility_location(W), expected_maxima(W)


def table(n):
    if n > LARGEST_TABLE:
        raise NotImplementedError
    rng = np.random.default_rng(0)
    covers = rng.random((n, 2 * n)) < 0.2
    values = np.zeros((1 << n, 2 * n), dtype=bool)
    for i in range(n):
        values[1 << i : 2 << i] = values[: 1 << i] | covers[i]
    values = values.sum(axis=1).astype(float)

    def value_and_gradient(x):
        grad = np.empty(n)
        for i in range(n):
            t = values.reshape((2,) * n)  # axis n - 1 - j belongs to item j
            for j in range(n - 1, i, -1):
                t = (1.0 - x[j]) * t[0] + x[j] * t[1]
            t = t[1] - t[0]
            for j in range(i - 1, -1, -1):
                t = (1.0 - x[j]) * t[0] + x[j] * t[1]
            grad[i] = t
        t = values
        for j in range(n - 1, -1, -1):
            t = t.reshape(2, -1)
            t = (1.0 - x[j]) * t[0] + x[j] * t[1]
        return float(t[0]), grad

    return ds.Multilinear.from_table(values), value_and_gradient


def mean_field(n):
    f, extension = facility_location(n)

    def value_and_gradient(x):
        value, grad = extension(x)
        p = np.clip(x, EPS, 1.0 - EPS)
        inside = x[(x > 0.0) & (x < 1.0)]
        entropy = -(inside * np.log(inside) + (1.0 - inside) * np.log1p(-inside)).sum()
        return value + entropy, grad + np.log((1.0 - p) / p)

    return ds.MeanField(f), value_and_gradient


def spectral(n):
    p = n // 4
    V = np.random.default_rng(0).standard_normal((n, p))
    return ds.Spectral(factors=V, offset=np.eye(p)), _log_determinant(V[:, :, None] * V[:, None, :])


def spectral_dense(n):
    p = n // 4
    roots = np.random.default_rng(0).standard_normal((n, p, p))
    matrices = roots @ roots.transpose(0, 2, 1)
    return ds.Spectral(matrices, offset=np.eye(p)), _log_determinant(matrices)


def _log_determinant(matrices):
    """log det(I + sum_i x_i A_i) and its gradient."""
    offset = np.eye(matrices.shape[1])

    def value_and_gradient(x):
        M = offset + np.tensordot(x, matrices, 1)
        return np.linalg.slogdet(M)[1], np.tensordot(matrices, np.linalg.inv(M), 2)

    return value_and_gradient


def logistic(n):
    rng = np.random.default_rng(0)
    Z, y = rng.random((4 * n, n)), rng.choice([-1.0, 1.0], 4 * n)

    def value_and_gradient(x):
        margins = y * (Z @ x)
        square = x * x
        value = -np.logaddexp(0.0, -margins).mean() - 0.1 * (square / (1.0 + square)).sum()
        return value, Z.T @ (y / (1.0 + np.exp(margins))) / len(y) - 0.2 * x / (1.0 + square) ** 2

    return ds.LogisticNonconvex(Z, y, weight=0.1, gamma=1.0), value_and_gradient


OBJECTIVES = {
    "quadratic": quadratic,
    "softmax": softmax,
    "facility location": facility_location,
    "table": table,
    "mean field": mean_field,
    "spectral, factors": spectral,
    "spectral, dense": spectral_dense,
    "logistic": logistic,
}


class ValueAndGradient:
    """f and its gradient at one point, from scratch."""

    params = (IMPLS, list(OBJECTIVES), SIZES)
    param_names = ("impl", "objective", "n")

    def setup(self, impl, objective, n):
        f, formula = OBJECTIVES[objective](n)
        self.x = np.random.default_rng(1).random(n)
        self.evaluate = formula if impl == "reference" else f.value_and_gradient
        for fast, plain in zip(f.value_and_gradient(self.x), formula(self.x), strict=True):
            np.testing.assert_allclose(fast, plain, rtol=1e-9, atol=1e-9)

    def time_evaluate(self, impl, objective, n):
        self.evaluate(self.x)


class AdditiveSteps:
    """100 steps of Algorithm 2 over a box, whose oracle costs next to nothing."""

    params = (IMPLS, list(OBJECTIVES), SIZES)
    param_names = ("impl", "objective", "n")
    timeout = 300

    def setup(self, impl, objective, n):
        self.f, self.formula = OBJECTIVES[objective](n)
        self.box = ds.Box(np.full(n, 0.9))
        self.run = self.by_numpy if impl == "reference" else self.by_kernels
        np.testing.assert_allclose(self.by_kernels(), self.by_numpy(), rtol=1e-9)

    def by_numpy(self):
        x = np.zeros(self.f.n)
        for _ in range(STEPS):
            _, grad = self.formula(x)
            x += np.where(grad > 0.0, self.box.upper - x, 0.0) / STEPS
        return self.formula(x)[0]

    def by_kernels(self):
        return ds.nonmonotone_frank_wolfe(self.f, self.box, max_iter=STEPS).value

    def time_100_steps(self, impl, objective, n):
        self.run()
