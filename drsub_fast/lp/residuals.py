"""What a basis leaves in the equations of its linear program, computed from A, b and c, and corrected through T."""

import math

import numpy as np

from drsub_fast.engine.jit import kernel
from drsub_fast.lp.tableau import (
    BASIC,
    BETA,
    COLUMN,
    COST,
    GAIN,
    LEVEL,
    NONBASIC,
    POINT,
    REST,
    SHORTFALL,
    D,
    find_vertex,
    multiply,
    reduced_costs,
)

#: Largest rest in an equation that needs no correction, and how often it is corrected before T is in doubt.
_RESIDUAL = 1e-11
_CORRECTIONS = 3


def _residuals_in_arrays(lp, work):
    A, table = lp.A, work.table
    m, n = A.shape
    find_vertex(work, m, n)
    rest, point = table[REST], table[POINT]
    rest[:n], rest[n : n + m] = table[COST, :n], 0.0
    rest[work.places[NONBASIC, :n]] -= table[D, :n]
    short = lp.b - point[n : n + m] - np.add.reduce(A * point[:n], axis=1)
    rest[:n] -= np.add.reduce(A * rest[n : n + m, None], axis=0)
    rest[n : n + m] = 0.0
    table[SHORTFALL, :m] = short
    relative = np.abs(rest[:n]) / np.maximum(np.abs(table[COST, :n]), 1.0)
    worst = float(max(np.abs(short).max(initial=0.0), relative.max(initial=0.0)))
    is_number = np.isfinite(short).all() and np.isfinite(rest[:n]).all()
    return worst if is_number else math.nan


@kernel(plain=_residuals_in_arrays, reductions=True)
def _residuals(lp, work):
    """SHORTFALL = b - A x - s and REST = c - d - A'y, which should be zero; the largest, relative to large costs.

    NaN if one is not a number.
    """
    A, b, table, places = lp.A, lp.b, work.table, work.places
    m, n = A.shape
    find_vertex(work, m, n)
    for k in range(n):
        table[REST, k] = table[COST, k]
    for i in range(m):
        table[REST, n + i] = 0.0
    for j in range(n):
        # For a slack: the dual variable.
        table[REST, places[NONBASIC, j]] -= table[D, j]
    worst = poison = 0.0
    for i in range(m):
        total = b[i] - table[POINT, n + i]
        price = table[REST, n + i]
        table[REST, n + i] = 0.0
        for k in range(n):
            total -= A[i, k] * table[POINT, k]
            table[REST, k] -= A[i, k] * price
        table[SHORTFALL, i] = total
        worst = max(worst, abs(total))
        poison += total - total
    for k in range(n):
        worst = max(worst, abs(table[REST, k]) / max(1.0, abs(table[COST, k])))
        poison += table[REST, k] - table[REST, k]
    return worst + poison


@kernel
def _correct(work, m, n):
    """Takes what the residuals say into account, with T for the inverse of the basis."""
    table, places = work.table, work.places
    for j in range(n):
        v = places[NONBASIC, j]
        table[GAIN, j] = table[SHORTFALL, v - n] if v >= n else 0.0
    multiply(work, GAIN)
    for i in range(m):
        v = places[BASIC, i]
        change = table[COLUMN, i] + (table[SHORTFALL, v - n] if v >= n else 0.0)
        table[LEVEL, i] += change
        table[BETA, i] += change
    reduced_costs(work, m, n, REST, GAIN)
    for j in range(n):
        table[D, j] += table[GAIN, j]


@kernel
def is_right(lp, work):
    """Whether the vertex and the duals satisfy the equations of the program, corrected if need be."""
    m, n = lp.A.shape
    for _ in range(_CORRECTIONS):
        if _residuals(lp, work) <= _RESIDUAL:
            return True
        _correct(work, m, n)
    return _residuals(lp, work) <= _RESIDUAL
