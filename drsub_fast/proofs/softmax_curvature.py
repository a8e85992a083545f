"""Bounds on the Hessian's entries of a softmax extension over a set that holds few items at once.

In units of the upper bounds f(y) = log det(I + YM), whose Hessian entries are -K_ij^2 with K = (M^-1 + Y)^-1, and as a
matrix K falls from M at y = 0 while y rises. If I + M is nearly singular K is huge at y = 1, where P need not reach:
K >= -(I - Y)^-1. At most m items of a point of P are above a level t < 1, fewer than max 1'y / t. Let A be these; then
y <= z, z = 1 on A and t elsewhere, and with K_t = K(t 1)

    K(y) >= K(z) = K_t - K_t,:A (I / (1 - t) + K_t,AA)^-1 K_t,A:.

The least diagonals of these are found by looking at all A, if they are not too many; else they are at least K_t,ii less
the m largest K_t,ij^2 over the smallest eigenvalue that Gershgorin's discs leave to a principal submatrix of order m.
Since M - K is positive semidefinite, |K_ij| <= |M_ij| + [(M - K)_ii (M - K)_jj]^(1/2).
"""

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.rungs import largest
from drsub_fast.sets.base import FeasibleSet

#: Numbers m that are tried, each with its lowest level, from the first one that leaves a level below 1.
_COUNTS = 3
#: Levels above this leave too little: I / (1 - t) is in the bound.
_HIGHEST = 0.999
#: Most entries of K_t,:A for all A together: some tenths of a second.
_ALL_SETS = 2_000_000
#: Room for rounding, relative.
_ROUNDING = 1e-9


def _lowest_diagonal(K, rest, m):
    """At most the diagonals of all K - K_:A (rest I + K_AA)^-1 K_A:, A of m items."""
    if m == 0:
        return K.diagonal()
    own = rest + K.diagonal()
    n = len(K)
    if math.comb(n, m) * n * m <= _ALL_SETS:
        sets = np.array(list(itertools.combinations(range(n), m)))
        rows = K[sets]
        blocks = rows[np.arange(len(sets))[:, None, None], np.arange(m)[:, None], sets[:, None, :]]
        blocks = blocks + (rest * (1.0 - _ROUNDING)) * np.eye(m)
        if not np.linalg.eigvalsh(blocks).min() > 0.0:
            return np.full(n, -math.inf)
        drops = (rows * np.linalg.solve(blocks, rows)).sum(axis=1).max(axis=0)
        return K.diagonal() - drops * (1.0 + _ROUNDING)
    off = np.abs(K)
    np.fill_diagonal(off, 0.0)
    discs = np.sort(off, axis=1)[:, ::-1][:, : m - 1].sum(axis=1)
    least = (own - discs).min() - _ROUNDING * rest
    if not least > 0.0:
        return np.full(n, -math.inf)
    return K.diagonal() - np.sort(K**2, axis=1)[:, ::-1][:, :m].sum(axis=1) / least


def hessian_entries(f: Softmax, P: FeasibleSet, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """A >= 0 with |d_ij f| <= A_ij over the points of P below ``upper``, or None."""
    n = f.n
    upper = np.minimum(upper, 1.0) if f.unit_box else upper
    if f.dr_submodular_on(upper) is not True:
        return None
    inverse = np.divide(1.0, upper, out=np.zeros(n), where=upper > 0.0)
    total = largest(P, inverse, upper)
    root = np.sqrt(upper)
    M = root[:, None] * (f.L - np.eye(n)) * root
    least = np.full(n, -math.inf)
    fewest = math.floor(total)
    for m in range(fewest, min(fewest + _COUNTS, n)):
        level = total / (m + 1) * (1.0 + _ROUNDING)
        if level > _HIGHEST:
            continue
        K = np.linalg.solve(np.eye(n) + level * M, M)
        least = np.maximum(least, _lowest_diagonal(0.5 * (K + K.T), 1.0 / (1.0 - level), m))
    if not np.isfinite(least).all():
        return None
    size = np.abs(M.diagonal()) + np.abs(least)
    reach = np.sqrt(np.maximum(M.diagonal() - least, 0.0) + _ROUNDING * size)
    return (np.abs(M) + np.outer(reach, reach)) ** 2 * np.outer(inverse, inverse)
