"""Random feasible sets in random units, and a measure of what a point breaks that shares nothing with the package."""

import math

import numpy as np
import scipy.sparse

import drsub_fast as ds

KINDS = (
    "box", "budget", "knapsack", "partition", "simplex", "ball", "polytope", "sparse", "matching", "general", "flow",
    "laminar",
)  # fmt: skip


def units(rng, count, spread):
    """Powers between 1e-8 and 1e8: one common to all, and a spread of their own up to ``spread`` decades each way."""
    common = rng.uniform(-8.0 + spread, 8.0 - spread)
    return 10.0 ** (common + rng.uniform(-spread, spread, count))


def random_set(kind, rng, n=None, spread=None):
    """(P, D, rows): a set, the units of its variables, and (A, low, high) of its rows.

    What is built is a set of ordinary numbers under x -> D x, its rows multiplied by units of their own.
    """
    n = int(rng.integers(2, 7)) if n is None else n
    spread = float(rng.choice([0.0, 2.0, 8.0])) if spread is None else spread
    D = units(rng, n, spread)
    upper = D * rng.uniform(0.3, 1.5, n) * (rng.random(n) < 0.95)
    row = np.ones((1, n))
    if kind == "box":
        return ds.Box(upper), D, (np.zeros((0, n)), np.zeros(0), np.zeros(0))
    if kind == "budget":
        k = rng.uniform(0.1, 0.8) * upper.sum()
        return ds.Budget(k, upper), D, (row, [-math.inf], [k])
    if kind == "knapsack":
        R = units(rng, 1, 0.0)[0]
        w = rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.9) / D * R
        c = rng.uniform(0.1, 0.8) * (w @ upper)
        return ds.Knapsack(w, c, upper), D, (w[None], [-math.inf], [c])
    if kind == "partition":
        groups = np.sort(rng.integers(0, 2, n))
        A = (groups == np.arange(2)[:, None]).astype(float)
        c = A @ upper * rng.uniform(0.1, 0.9, 2)
        return ds.PartitionMatroid(groups, c, upper), D, (A, np.full(2, -math.inf), c)
    if kind == "laminar":
        A = np.array([np.ones(n), np.arange(n) <= n // 2, np.arange(n) < 1])
        c = A @ upper * rng.uniform(0.1, 0.9, 3)
        return ds.LaminarMatroid(A, c, upper), D, (A, np.full(3, -math.inf), c)
    if kind == "simplex":
        total = D[0] * rng.uniform(0.5, 2.0)
        return ds.Simplex(n, total), np.full(n, D[0]), (row, [total], [total])
    if kind == "ball":
        radius = rng.uniform(0.3, 0.9) * np.linalg.norm(upper)
        return ds.Ball(radius, upper=upper), D, (np.zeros((0, n)), np.zeros(0), np.zeros(0))
    if kind in ("polytope", "sparse"):
        m = int(rng.integers(1, 5))
        A = rng.uniform(0.05, 1.0, (m, n)) * (rng.random((m, n)) < (0.8 if kind == "polytope" else 0.5))
        R = units(rng, m, spread)
        b = (A @ (upper / D)) * rng.uniform(0.2, 0.8, m) * R
        A = A * R[:, None] / D
        P = ds.Polytope(A if kind == "polytope" else scipy.sparse.csr_array(A), b, upper)
        return P, D, (A, np.full(m, -math.inf), b)
    if kind == "matching":
        left, right = rng.integers(0, 2, n), rng.integers(0, 2, n)
        A = np.array([left == 0, left == 1, right == 0, right == 1]).astype(float)
        c = A @ upper * rng.uniform(0.2, 0.9, 4)
        P = ds.MatchingPolytope(np.column_stack([left, right]), 2, 2, c, upper)
        return P, D, (A, np.full(4, -math.inf), c)
    if kind == "flow":
        return _flow(rng, n + 1, D=np.append(D, D[0]), spread=spread)
    m, inside = int(rng.integers(1, 4)), rng.uniform(0.2, 0.8, n) * upper / D
    R = units(rng, m + 1, spread)
    A = rng.standard_normal((m + 1, n))
    middle = A @ inside
    high = np.append(middle[:m] + rng.uniform(0.0, 0.3, m), middle[m]) * R
    A = A * R[:, None] / D
    P = ds.GeneralPolytope(A[:m], high[:m], A[m:], high[m:], upper=upper)
    return P, D, (A, np.append(np.full(m, -math.inf), high[m]), high)


def _flow(rng, n, D, spread):
    """x_1 + .. + x_{n-1} = x_n with bounds: an equation whose side is 0, and a row x_1 <= 2 x_2 in its units."""
    R = units(rng, 2, spread)
    A = np.zeros((2, n))
    A[0, :-1], A[0, -1] = 1.0, -1.0
    A[1, 0], A[1, 1] = 1.0, -2.0
    upper = D * rng.uniform(0.3, 1.5, n)
    A = A * R[:, None] / D
    P = ds.GeneralPolytope(A[1:], np.zeros(1), A[:1], np.zeros(1), upper=upper)
    return P, D, (A, np.array([0.0, -math.inf]), np.zeros(2))


def breach(P, rows, x):
    """What x breaks most: infinite for a bound, for a row in its unit max(|side|, sum_j |a_j| |x_j|)."""
    if not (np.isfinite(x).all() and (x >= 0.0).all() and (x <= P.upper).all()):
        return math.inf
    worst = 0.0
    for a, low, high in zip(*rows, strict=True):
        terms = (a * x).tolist()
        load, size = math.fsum(terms), math.fsum(map(abs, terms))
        for side, excess in ((high, load - high), (low, low - load)):
            if excess > 0.0:
                worst = max(worst, excess / max(abs(side), size))
    if isinstance(P, ds.Ball):
        worst = max(worst, np.linalg.norm(x) / max(P.radius, 1e-300) - 1.0)
    return worst


def random_quadratic(rng, D):
    """A DR-submodular quadratic of ordinary numbers in the units D, times a unit of its own."""
    n, c = D.size, units(rng, 1, 0.0)[0]
    H = -rng.random((n, n)) * (rng.random((n, n)) < 0.8)
    return ds.Quadratic(c * (H + H.T) / np.outer(D, D), c * rng.uniform(0.0, 2.0, n) / D)
