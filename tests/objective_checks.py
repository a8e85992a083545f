"""Checks that the tests of all objectives share."""

import numpy as np


def central_differences(f, x, step=1e-6):
    """Gradient of f at x by central differences, shape (n,)."""
    grad = np.empty(x.size)
    for i in range(x.size):
        low, high = x.copy(), x.copy()
        low[i] -= step
        high[i] += step
        grad[i] = (f.value(high) - f.value(low)) / (high[i] - low[i])
    return grad


def assert_gradient(f, points, rtol=1e-6):
    """The gradient agrees with central differences at every point."""
    for x in points:
        grad = f.gradient(x)
        np.testing.assert_allclose(grad, central_differences(f, x), rtol=rtol, atol=rtol * (1.0 + np.abs(grad).max()))


def interior_points(rng, n, upper=1.0, count=4):
    """Random points of [0.05, 0.95] times the bound, shape (count, n)."""
    return upper * rng.uniform(0.05, 0.95, (count, n))
