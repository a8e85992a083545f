"""Every set's linear oracle, cold, against numpy (SciPy's linprog where a linear program is needed).

A call from Python checks its cost and allocates, some 8 us that calls inside a solve do not pay: for a box or a
simplex they outweigh the oracle.
"""

import numpy as np
from scipy.optimize import linprog

import drsub_fast as ds
from bench.problems import cold_lmo, quadratic_problem

IMPLS = ["reference", "fast"]
SIZES = [16, 128, 1024]

#: Above this size a reference that is a linear program takes longer than a suite should.
LARGEST_PROGRAM = 128


def box(n, rng):
    P = ds.Box(rng.random(n))
    return P, lambda d: np.where(d > 0.0, P.upper, 0.0)


def _fill(d, weights, capacity, upper):
    """Continuous knapsack: the largest d / weights first, until the capacity is spent."""
    order = np.argsort(-d / weights)
    order = order[d[order] > 0.0]
    load = weights[order] * upper[order]
    taken = np.clip(capacity - (np.cumsum(load) - load), 0.0, load)
    v = np.zeros(d.size)
    v[order] = taken / weights[order]
    return v


def budget(n, rng):
    P = ds.Budget(n / 8, np.ones(n))
    return P, lambda d: _fill(d, np.ones(n), P.k, P.upper)


def knapsack(n, rng):
    weights = rng.uniform(0.5, 2.0, n)
    P = ds.Knapsack(weights, n / 8, np.ones(n))
    return P, lambda d: _fill(d, weights, n / 8, P.upper)


def partition(n, rng):
    groups = rng.integers(0, n // 8, n)
    P = ds.PartitionMatroid(groups, 2.0 * np.ones(n // 8))
    members = [np.flatnonzero(groups == g) for g in range(n // 8)]

    def lmo(d):
        v = np.zeros(n)
        for group in members:
            v[group] = _fill(d[group], np.ones(group.size), 2.0, P.upper[group])
        return v

    return P, lmo


def simplex(n, rng):
    P = ds.Simplex(n)

    def lmo(d):
        v = np.zeros(n)
        v[d.argmax()] = P.total
        return v

    return P, lmo


def ball(n, rng):
    P = ds.Ball(np.sqrt(n) / 4, upper=rng.uniform(0.1, 1.0, n))

    def lmo(d):
        d = np.maximum(d, 0.0)
        gain = np.flatnonzero(d)
        order = gain[np.argsort(P.upper[gain] / d[gain])]
        bound, slope = P.upper[order], d[order]
        # |min(s d, upper)|^2 at the breakpoints s = upper / d.
        below = np.cumsum(bound**2) - bound**2
        above = np.cumsum((slope**2)[::-1])[::-1]
        reached = below + (bound / slope) ** 2 * above
        k = np.searchsorted(reached, P.radius**2)
        s = np.inf if k == order.size else np.sqrt((P.radius**2 - below[k]) / above[k])
        v = np.zeros(n)
        v[order] = np.minimum(s * slope, bound)
        return v

    return P, lmo


def polytope(n, rng):
    _, P = quadratic_problem(n, n // 2)
    return P, lambda d: cold_lmo(P, d)


def matching(n, rng):
    k = max(2, int(np.sqrt(n)))
    P = ds.MatchingPolytope(rng.integers(0, k, (n, 2)), k, k)
    return P, lambda d: cold_lmo(P, d)


def general(n, rng):
    A_eq, inside = rng.standard_normal((n // 8, n)), rng.random(n)
    P = ds.GeneralPolytope(A_eq=A_eq, b_eq=A_eq @ inside, upper=np.ones(n))
    return P, lambda d: linprog(-d, A_eq=A_eq, b_eq=P.b_eq, bounds=(0.0, 1.0), method="highs").x


SETS = {
    "box": box,
    "budget": budget,
    "knapsack": knapsack,
    "partition": partition,
    "simplex": simplex,
    "ball": ball,
    "polytope": polytope,
    "matching": matching,
    "general": general,
}


class Oracle:
    """A vertex that maximises a random cost."""

    params = (IMPLS, list(SETS), SIZES)
    param_names = ("impl", "set", "n")
    timeout = 300

    def setup(self, impl, kind, n):
        if kind in ("polytope", "matching", "general") and n > LARGEST_PROGRAM:
            raise NotImplementedError
        rng = np.random.default_rng(0)
        P, formula = SETS[kind](n, rng)
        self.direction = rng.standard_normal(n)
        self.lmo = formula if impl == "reference" else P.lmo
        np.testing.assert_allclose(self.direction @ P.lmo(self.direction), self.direction @ formula(self.direction))

    def time_lmo(self, impl, kind, n):
        self.lmo(self.direction)
