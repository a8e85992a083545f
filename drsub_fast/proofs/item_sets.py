"""Bounds for multilinear extensions of few items, from the values F(S) of all sets.

Over a box, and over a (generalised) partition matroid with integral bounds, the extension of a submodular F is largest
at a set: from a point with a fractional coordinate it does not fall along e_i or e_i - e_j in one of the two
directions, being linear along the one and convex along the other (Calinescu et al. 2011, pipage rounding). There the
largest F of a feasible set is the maximum itself.

Over any other polytope {x : R x <= r} the largest mean of F over all distributions of sets whose means are in P, the
concave closure, is a bound. Its dual needs no trust in the linear program's solver: for every y >= 0

    f(x) <= max_S [F(S) - y'R 1_S] + y'r.

A mean-field objective E F(S) + entropy is at most max_q E_q F(S) + entropy(q) over the same distributions, the product
distributions among them; its dual is

    f(x) <= log sum_S exp(F(S) - y'R 1_S) + y'r,   log Z for y = 0.
"""

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.mean_field import MeanField
from drsub_fast.objectives.multilinear import (
    CutExtension,
    MaximaExtension,
    Multilinear,
    SampledExtension,
    TableExtension,
)
from drsub_fast.proofs.program import constraint_rows
from drsub_fast.proofs.rungs import CALL, Problem, gradient_price
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.knapsack import DisjointKnapsacks

#: Most items whose sets are all looked at.
MOST_ITEMS = 20
#: Most rows that have multipliers; Newton steps for these, shares of a step that are tried, and the least gain of one,
#: relative. Median of bound / value for 6 to 12 items, log Z alone and after the steps: budgets 1.31 and 1.05,
#: knapsacks 1.21 and 1.04, simplices 1.71 and 1.07, polytopes 1.26 and 1.06.
_MOST_ROWS, _NEWTON_STEPS, _SHARES, _LEAST_GAIN = 30, 20, (1.0, 0.5, 0.2, 0.05, 0.01), 1e-6


def sums(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """sum of the weights of every set, item i being bit 2^i of the index."""
    table = np.zeros(1)
    for weight in weights:
        table = np.concatenate([table, table + weight])
    return table


def _cut_values(A):
    """The weight of the edges that leave each set."""
    table = np.zeros(1)
    for i in range(len(A)):
        table = np.concatenate([table, table + A[i].sum() - sums(A[i, :i] + A[:i, i])])
    return table


def _maxima_values(linear, W):
    """sum_{i in S} linear_i + sum_d max_{i in S} W_id of every set."""
    total = sums(linear)
    for column in W.T:
        table = np.zeros(1)
        for weight in column:
            table = np.concatenate([table, np.maximum(table, weight)])
        total += table
    return total


def set_values(f: Objective) -> NDArray[np.float64]:
    """F(S) for all sets of a multilinear extension, shape (2^n,), item i being bit 2^i of the index."""
    if isinstance(f, TableExtension):
        return f.values
    if isinstance(f, CutExtension):
        return _cut_values(np.asarray(f.adjacency))
    if isinstance(f, MaximaExtension):
        return _maxima_values(f.params.linear, f.W.toarray())
    members = (np.arange(1 << f.n)[:, None] >> np.arange(f.n)) & 1
    return np.array([f.value(row) for row in members.astype(np.float64)])


def _price(f):
    """Operations of `set_values`."""
    each = 4 * f.params.pointers.size if isinstance(f, MaximaExtension) else f.n
    calls = f.n * (f.params.pointers.size if isinstance(f, MaximaExtension) else f.n)
    known = isinstance(f, (TableExtension, CutExtension, MaximaExtension))
    return calls * CALL + (1 << f.n) * (each if known else gradient_price(f))


def has_integral_vertices(P: FeasibleSet, upper: NDArray[np.float64]) -> bool:
    """Whether P is a box or a partition matroid polytope all of whose bounds are integral (and at most 1)."""
    if not ((upper == 0.0) | (upper == 1.0)).all():
        return False
    if isinstance(P, Box):
        return True
    if not isinstance(P, DisjointKnapsacks):
        return False
    return bool((P.weights == 1.0).all() and (P.capacities == np.floor(P.capacities)).all())


def _feasible(P, upper):
    """Mask of the sets that a box or partition matroid allows."""
    mask = sums(np.where(upper > 0.0, 0.0, 1.0)) == 0.0
    if isinstance(P, Box):
        return mask
    for g, capacity in enumerate(P.capacities):
        load = sums(np.where(P.groups == g, 1.0, 0.0))
        mask &= load <= capacity if not P.params().equality else load == capacity
    return mask


def _rounding(values):
    """Room for the rounding of values that were summed up from parts of their size."""
    return 1e-13 * len(values).bit_length() ** 2 * max(1.0, float(np.abs(values).max()))


def item_set_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung of multilinear extensions."""
    f, P, upper = problem.f, problem.P, problem.upper
    if not isinstance(f, Multilinear) or isinstance(f, SampledExtension) or f.n > MOST_ITEMS or not f.compiled:
        return
    if not has_integral_vertices(P, upper):
        return
    yield math.inf, _price(f) + f.n * (1 << f.n)
    values = set_values(f)
    rounding = _rounding(values)
    yield float(values[_feasible(P, upper)].max()) + rounding, 0


def partition_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung of mean-field objectives: log Z, then Newton steps over the multipliers y of the set's rows."""
    f = problem.f
    if not isinstance(f, MeanField) or f.n > MOST_ITEMS or not f.compiled:
        return
    yield math.inf, _price(f.extension) + 20 * (1 << f.n)
    values = set_values(f.extension)
    try:
        A, b, A_eq, b_eq, _ = constraint_rows(problem.P)
    except UnsupportedError:
        A, b, A_eq, b_eq = np.zeros((0, f.n)), np.zeros(0), np.zeros((0, f.n)), np.zeros(0)
    rows, sides = np.vstack([A, A_eq]), np.concatenate([b, b_eq])
    signed = np.arange(len(sides)) < len(b)
    price = (1 << f.n) * (len(sides) ** 2 + 2 * len(sides) + 20) + 40 * CALL
    few = 0 < len(sides) <= _MOST_ROWS
    log_Z = _log_partition(values, np.zeros((len(values), 0)), np.zeros(0), np.zeros(0))[0]
    yield log_Z, price + len(sides) * f.n * CALL if few else 0
    if not few:
        return
    loads, y = np.column_stack([sums(row) for row in rows]), np.zeros(len(sides))
    bound, shares = _log_partition(values, loads, y, sides)
    for _ in range(_NEWTON_STEPS):
        mean = shares @ loads
        slope = sides - mean
        moves = ~(signed & (y == 0.0) & (slope > 0.0))
        off = loads[:, moves] - mean[moves]
        curvature = off.T @ (shares[:, None] * off)
        curvature[np.diag_indices(len(curvature))] += 1e-9 * max(1e-300, np.abs(curvature).max(initial=0.0))
        step = np.zeros(len(y))
        step[moves] = np.linalg.lstsq(curvature, -slope[moves], rcond=None)[0]
        for share in _SHARES:
            ahead = y + share * step
            ahead[signed] = np.maximum(ahead[signed], 0.0)
            there, others = _log_partition(values, loads, ahead, sides)
            if there < bound:
                break
        else:
            return
        gain, y, bound, shares = bound - there, ahead, there, others
        yield bound, price
        if gain <= _LEAST_GAIN * max(1.0, abs(bound)):
            return


def _log_partition(values, loads, y, sides):
    """(log sum_S exp(F(S) - y'R 1_S) + y'r with room for rounding, the shares of the sets)."""
    exponents = values - loads @ y
    top = exponents.max()
    shares = np.exp(exponents - top)
    total = shares.sum()
    size = np.abs(y) @ (np.abs(loads).max(axis=0, initial=0.0) + np.abs(sides))
    rounding = _rounding(values) + 1e-13 * len(values).bit_length() * size
    return float(top + np.log(total) + y @ sides) + rounding, shares / total
