"""Mean kernels of determinantal point processes."""

import numpy as np

from . import draws


def symmetric(L):
    """L with its upper triangle mirrored."""
    return np.triu(L) + np.triu(L, 1).T


def random_kernel(rng, n):
    """L, shape (n, n): positive semidefinite up to rounding."""
    kind = rng.integers(6)
    if kind == 0:
        return np.diag(draws.spread(rng, n) * rng.choice([0.5, 1.0, 2.0], n))
    if kind == 1:
        return np.diag(rng.choice([0.0, 1.0, 2.0, 3.0], n)) * draws.scale(rng)
    if kind == 2:
        half = max(1, n // 2)
        L = np.zeros((n, n))
        for part in (slice(0, half), slice(half, n)):
            X = draws.vectors(rng, part.stop - part.start, int(rng.integers(1, n + 2)))
            L[part, part] = X @ X.T
    else:
        X = draws.vectors(rng, n, int(rng.integers(1, n + 3)))
        L = X @ X.T
        if rng.random() < 0.3:
            L = L + np.eye(n)
    d = np.sqrt(draws.spread(rng, n) * draws.scale(rng, -6, 6))
    return symmetric(L * np.outer(d, d))
