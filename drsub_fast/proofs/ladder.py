"""All bounds for one problem: those that cost next to nothing, and the ladder of rungs above them (`proofs.rungs`)."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.claims.premises import property_holds
from drsub_fast.engine.clock import OutOfTime, until, untimed
from drsub_fast.errors import OracleError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.combined import Sum
from drsub_fast.objectives.quadratic import QuadraticParams
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.ball_bound import ball_steps
from drsub_fast.proofs.concave import concave_steps, gap_bound
from drsub_fast.proofs.covering import covering_steps
from drsub_fast.proofs.envelopes import composite, envelope_steps
from drsub_fast.proofs.item_sets import item_set_steps, partition_steps
from drsub_fast.proofs.pair_bound import pair_steps
from drsub_fast.proofs.quadratic_steps import first_order_steps, in_units, interior_point_steps
from drsub_fast.proofs.rungs import Allowance, Problem, climb
from drsub_fast.proofs.softmax_branching import softmax_branching_steps
from drsub_fast.proofs.softmax_relaxations import softmax_steps
from drsub_fast.sets.base import FeasibleSet

#: Operations of a gradient up to which the linear bound is had whatever the time: 2 to 5 ms of plain Python with the
#: linear program of a dozen variables.
_ANYWAY = 2e4

#: Operations for the bound of each part of a sum, one try after another.
_PART_OPERATIONS = (1e6, 1e7, 1e8)


def sum_steps(problem: Problem) -> Iterator[tuple[float, float]]:
    """The rung: the sum of the bounds of the parts of a sum, with more and more operations for each."""
    f, P, upper, x, _ = problem
    if not isinstance(f, Sum):
        return
    bound = math.inf
    for operations in _PART_OPERATIONS:
        yield bound, operations * len(f.parts)
        bounds = []
        for part in f.parts:
            value, known = part.value(x), free_bound(part, P, upper)
            bounds.append(climb_ladder(part, P, upper, x, value, known, value, Allowance(operations)))
        bound = float(np.dot(f.weights, bounds) + 1e-13 * np.dot(f.weights, np.abs(bounds)))
    yield bound, math.inf


#: Bounds from the cheap to the dear; the last of quadratics and softmax extensions are what branching begins with.
RUNGS = (
    concave_steps,
    item_set_steps,
    partition_steps,
    covering_steps,
    pair_steps,
    ball_steps,
    softmax_steps,
    envelope_steps,
    interior_point_steps,
    first_order_steps,
    softmax_branching_steps,
    sum_steps,
)


def corner_bound(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> float:
    """The better linear bound of those at the corners of the box around P; infinity where neither is known to hold.

    A softmax extension has that at 0 wherever it is defined.
    """
    lower = np.broadcast_to(P._lower, (f.n,)).astype(np.float64)
    if property_holds(f, "dr_submodular", P._lower, upper):
        corners = [lower, upper]
    elif isinstance(f, Softmax) and (lower >= 0.0).all():
        corners = [np.zeros(f.n)]
    else:
        return math.inf
    try:
        with np.errstate(all="ignore"):
            bounds = [gap_bound(f, P, upper, corner, 0.0) for corner in corners]
    except OracleError:
        return math.inf
    return float(min((bound for bound in bounds if not math.isnan(bound)), default=math.inf))


def term_bound(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> float:
    """The sum of the largest values that the terms of a quadratic take on the box around P; else infinity."""
    if not isinstance(f.params, QuadraticParams):
        return math.inf
    lower = np.broadcast_to(P._lower, (f.n,))
    H, h, c = f.params
    reach = np.maximum(upper, -lower)
    pairs = np.maximum(H, 0.0) if (lower >= 0.0).all() else np.abs(H)
    with np.errstate(all="ignore"):
        linear, terms = np.maximum(h * lower, h * upper), 0.5 * reach @ pairs @ reach
        bound = float(c + linear.sum() + terms + 1e-13 * (abs(c) + np.abs(linear).sum() + terms))
    return math.inf if math.isnan(bound) else bound


def free_bound(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> float:
    """The best bound that takes a few milliseconds of a small problem, which are spent whatever the time."""
    best = math.inf
    try:
        best = term_bound(f, P, upper) if composite(f) is None else 0.0  # minus a loss and a penalty
        with untimed() if f.compiled and f.operations <= _ANYWAY else until(None):
            return min(best, corner_bound(f, P, upper))
    except OutOfTime:
        return best


def climb_ladder(
    f: Objective,
    P: FeasibleSet,
    upper: NDArray[np.float64],
    x: NDArray[np.float64],
    value: float,
    best: float,
    target: float,
    allowance: Allowance,
    without: tuple[Any, ...] = (),
) -> float:
    """The least of ``best`` and the bounds of all rungs, but some, that the allowance pays for (see `climb`)."""
    scaled, unit = in_units(f, np.maximum(np.abs(P._lower), np.abs(upper)))
    problem = Problem(scaled, P, upper, x, value / unit)
    rungs = [rung for rung in RUNGS if rung not in without]
    return float(min(best, unit * climb(rungs, problem, best / unit, target / unit, allowance)))
