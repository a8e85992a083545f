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

from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.mean_field import MeanField
from drsub_fast.objectives.multilinear import (
    CutExtension,
    MaximaExtension,
    Multilinear,
    SampledExtension,
    TableExtension,
)
from drsub_fast.proofs.rungs import CALL, gradient_price
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.knapsack import DisjointKnapsacks

#: Most items whose sets are all looked at.
MOST_ITEMS = 20


def sums(weights: Any) -> Any:
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


def set_values(f: Objective) -> Any:
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


def has_integral_vertices(P: FeasibleSet, upper: Any) -> bool:
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


def item_set_steps(problem: Any) -> Generator[Any, None, None]:
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


def partition_steps(problem: Any) -> Generator[Any, None, None]:
    """The rung of mean-field objectives: log Z."""
    f = problem.f
    if not isinstance(f, MeanField) or f.n > MOST_ITEMS or not f.compiled:
        return
    yield math.inf, _price(f.extension) + 20 * (1 << f.n)
    values = set_values(f.extension)
    top = values.max()
    yield float(top + np.log(np.exp(values - top).sum())) + _rounding(values), 0
