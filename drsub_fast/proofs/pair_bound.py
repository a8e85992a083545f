"""A bound for quadratics over sets in a simplex {x >= 0 : a'x = b, a > 0}, from pairs of variables: n^2 operations.

In units of their largest values, y_j = a_j x_j / b, the variables sum to 1. If nu_i + nu_j >= 2 H_ij for all i != j,

    sum_{i != j} H_ij y_i y_j <= sum_i nu_i y_i sum_{j != i} y_j = sum_i nu_i y_i (1 - y_i),

so that f is below a separable function

    f(y) <= c + sum_i (h_i + nu_i / 2) y_i - (nu_i - H_ii) / 2 y_i^2,

whose terms are concave where nu_i >= H_ii; elsewhere y_i^2 <= y_i makes them linear. Its maximum over the simplex is at
most lambda + sum_i max(0, beta_i - lambda)^2 / (4 alpha_i) for every lambda, beta and alpha being the coefficients of
y_i and -y_i^2. The nu of the smallest bound are looked for by steps of Polyak's length against the gradient,
(y_i - y_i^2) / 2.

A row a'x <= b with one variable more, which is in no term of f, would do too, but over the paper's polytopes gives less
than a thousandth below the linear bound.

The bound of Bomze, Locatelli and Tardella ("New and old bounds for standard quadratic optimization", Mathematical
Programming 115, 2008) for the smallest entries has one number in the place of all nu.
"""

import math
from collections import namedtuple
from collections.abc import Generator
from typing import Any

import numpy as np

from drsub_fast.errors import UnsupportedError
from drsub_fast.proofs.polyak import PolyakSteps
from drsub_fast.proofs.program import constraint_rows
from drsub_fast.proofs.quadratic_steps import dense
from drsub_fast.proofs.rungs import CALL, Problem

#: Most steps. On QPLIB_2712, n = 200, the bound is 0.0047, 0.0061, 0.0063 and 0.0063 after 1, 5, 10 and 100; the best
#: nu give 0.0064, and the minimum is 0.0129.
_STEPS = 100
_EPS = 2.0**-52

#: f(y) = c + h'y + y'Hy/2 over y >= 0, sum y = 1.
_Simplex = namedtuple("_Simplex", "H h c")


def _on_simplex(f, P):
    """The problem over the simplex around P, or None where P is in none."""
    try:
        _, _, rows, sides, lower = constraint_rows(P)
    except UnsupportedError:
        return None
    full = np.flatnonzero((rows > 0.0).all(axis=1) & (sides > 0.0))
    if (lower < 0.0).any() or not len(full):
        return None
    # The smallest simplex of several.
    reach = sides[full, None] / rows[full]
    unit = reach[reach.sum(axis=1).argmin()]
    H, h, c = f.params
    return _Simplex(H * np.outer(unit, unit), h * unit, c)


def _feasible(nu, pairs):
    """nu with nu_i + nu_j >= pairs_ij for i != j: violations and slacks are halved, then violations are removed."""
    for share in (0.5, 0.5, 1.0):
        excess = (pairs - nu[:, None] - nu).max(axis=1)
        nu = nu + (share * excess if share < 1.0 else np.maximum(excess, 0.0))
    return nu


def _separable_bound(problem, nu):
    """(bound, y): the maximum of the separable function, and about where it is."""
    H, h, c = problem
    curvature = H.diagonal()
    size = np.abs(h).max() + np.abs(nu).max() + np.abs(curvature).max()
    alpha, beta = 0.5 * (nu - curvature), h + 0.5 * np.maximum(nu, curvature)
    is_curved = alpha > 1e-12 * size
    beta = np.where(is_curved, h + 0.5 * nu, beta)
    flat = beta[~is_curved].max(initial=-math.inf)
    order = np.argsort(-beta)
    order = order[is_curved[order]]
    level, y = flat, np.zeros(len(h))
    if len(order):
        rate = 0.5 / alpha[order]
        levels = (np.cumsum(rate * beta[order]) - 1.0) / np.cumsum(rate)
        # The last item that the level of it and those before it leaves something to.
        level = max(flat, float(levels[np.flatnonzero(levels <= beta[order])[-1]]))
        y[order] = np.maximum(beta[order] - level, 0.0) * rate
    above = np.maximum(beta - level, 0.0)[is_curved]
    if flat == level and not is_curved.all():
        y[np.flatnonzero(~is_curved & (beta == flat))[0]] = max(0.0, 1.0 - y.sum())
    rise = float((above * above / (4.0 * alpha[is_curved])).sum())
    rounding = 8 * _EPS * (len(h) + 10) * (size + rise + abs(level) + abs(c))
    return c + level + rise + rounding, y


def pair_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung of quadratics of any sign over a set in a simplex."""
    f = dense(problem.f)
    if f is None or f.n < 2:
        return
    price = 12.0 * f.n**2 + 40 * CALL
    yield math.inf, price
    simplex = _on_simplex(f, problem.P)
    if simplex is None:
        return
    pairs = 2.0 * simplex.H
    np.fill_diagonal(pairs, -math.inf)
    steps, nu = PolyakSteps(problem.value), 0.5 * pairs.max(axis=1)
    for _ in range(_STEPS):
        nu = _feasible(nu, pairs)
        bound, y = _separable_bound(simplex, nu)
        drop = steps.drop(bound)
        yield steps.best, price
        slope = 0.5 * y * (1.0 - y)
        steepness = float(slope @ slope)
        if drop is None or steepness <= 0.0:
            return
        nu = nu - drop / steepness * slope
