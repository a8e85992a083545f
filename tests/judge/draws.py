"""Ingredients of mean problems: scales, ties, zeros, rows that depend on one another."""

import numpy as np


def one_of(rng, *choices):
    """One of some things."""
    return choices[int(rng.integers(len(choices)))]


def scale(rng, low=-12, high=16):
    """A power of ten, often 1."""
    return 1.0 if rng.random() < 0.4 else 10.0 ** rng.uniform(low, high)


def spread(rng, n, low=-12, high=16):
    """n scales: all 1, ratings on a logarithmic scale, or anything at all."""
    kind = rng.integers(4)
    if kind == 0:
        return np.ones(n)
    if kind == 1:
        return np.exp(rng.uniform(0.2, 5.0) * rng.integers(0, 6, n))
    if kind == 2:
        return 10.0 ** rng.uniform(-3, 3, n)
    return 10.0 ** rng.uniform(low, high, n)


def vectors(rng, n, r):
    """n vectors of r entries: ordinary ones, small whole numbers with ties, copies, zeros, nearly the same."""
    X = rng.standard_normal((n, r)) if rng.random() < 0.6 else rng.integers(-2, 3, (n, r)).astype(float)
    for i in range(1, n):
        kind = rng.random()
        if kind < 0.1:
            X[i] = X[rng.integers(i)]
        elif kind < 0.15:
            X[i] = 0.0
        elif kind < 0.2:
            X[i] = X[rng.integers(i)] * rng.uniform(0.5, 2.0)
        elif kind < 0.25:
            X[i] = X[rng.integers(i)] + 1e-3 * rng.standard_normal(r)
    return X
