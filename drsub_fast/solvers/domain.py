"""Where a run takes place and begins: the points of a set on which an objective is defined, and one of them."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_vector
from drsub_fast.engine.clock import OutOfTime, require_time
from drsub_fast.errors import OracleError
from drsub_fast.objectives.base import Objective
from drsub_fast.sets.base import FeasibleSet, is_within


def solver_upper(f: Objective, P: FeasibleSet) -> NDArray[np.float64]:
    """The set's upper bound, clipped to 1 where the objective lives on the unit box."""
    if not f.unit_box:
        return P._upper
    if P._unit_upper is None:
        unit = np.minimum(P._upper, 1.0)
        if not P.is_down_closed and (unit < P._upper).any():
            _require_unit_point(f, P, unit)
        P._unit_upper = unit
    return P._unit_upper


def _require_unit_point(f, P, unit):
    """Raises ValueError for a set without a point in [0, 1]^n."""
    what = f"{f!r} is defined on [0, 1]^{f.n}, where {P!r} has no point"
    above = np.flatnonzero(np.broadcast_to(P._lower, unit.shape) > unit)
    if above.size:
        raise ValueError(f"{what}: lower[{above[0]}] = {P._lower[above[0]]:g}")
    try:
        P.start(unit)
    except OracleError as error:
        if error.status not in ("empty", "Infeasible"):
            raise
        raise ValueError(f"{what}: give variables in units in which its points lie there") from error


def require_finite_start(f: Objective, x: NDArray[np.float64]) -> None:
    """Raises ValueError for a starting point where f or its gradient is not finite."""
    value, grad = f.value_and_gradient(x)
    bad = np.flatnonzero(~np.isfinite(grad))
    if math.isfinite(value) and not bad.size:
        return
    what = f"its gradient[{bad[0]}] = {grad[bad[0]]}" if math.isfinite(value) and bad.size else f"f(x0) = {value}"
    raise ValueError(f"the objective is not finite at the starting point: {what}; give another x0")


def starting_point(
    f: Objective, P: FeasibleSet, x0: ArrayLike | None, upper: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A fresh copy of x0, checked to lie in the set, or the set's own starting point, or one inside of it."""
    if x0 is None:
        return P.start(upper) if f.finite_at_zero else inner_point(P, upper)
    x = as_vector(x0, "x0", n=P.n)
    if not (P.contains(x) and is_within(x, P._lower, upper)):
        raise ValueError(f"x0 is not in the set: {violation(P, x, upper)}")
    return P.move_inside(x, upper)


def inner_point(P: FeasibleSet, upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """A point of the set below ``upper`` that is 0 only where all are: the mean of a vertex for each variable."""
    x, cost, reach = np.zeros(P.n), np.zeros(P.n), np.flatnonzero(upper > 0.0)
    for j in reach:
        cost[j] = 1.0
        x += P.lmo(cost, upper)
        cost[j] = 0.0
    return P.move_inside(x / len(reach), upper) if len(reach) else P.start(upper)


def likely_peaks(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The point that f has its maximum about (see `Objective.likely_peak`), where there is one in the box and in P."""
    peak = f.likely_peak()
    if peak is None:
        return []
    peak = np.clip(peak, P._lower, upper)
    return [peak] if P.contains(peak, tol=0.0) else []


def points_inside(P: FeasibleSet, upper: NDArray[np.float64], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each cost a point below the vertex of the cost's sizes, by shares that are uniform if these are Exp(1)."""
    sizes = np.abs(costs)
    vertices = [P.lmo(row, upper) for row in sizes]
    return np.reshape(vertices, costs.shape) * -np.expm1(-sizes)


def violation(P: FeasibleSet, x: NDArray[np.float64], upper: NDArray[np.float64]) -> str:
    """Words for the bound that x breaks most, in units of the bounds."""
    lower = np.broadcast_to(P._lower, x.shape)
    unit = np.maximum(np.maximum(np.abs(lower), np.abs(P._upper)), np.finfo(float).tiny)
    if is_within(x, lower, upper):
        return P.violation(x)
    j = int(((x - lower) / unit).argmin())
    if x[j] < lower[j]:
        return f"x0[{j}] = {x[j]:g} is " + (f"below its lower bound {lower[j]:g}" if lower[j] else "negative")
    j = int(((x - upper) / unit).argmax())
    return f"x0[{j}] = {x[j]:g} is above its upper bound {upper[j]:g}"


#: How closely the end of the way along the gradient at 0 is found, and the shortest way that is tried.
_NEAR, _SHORTEST = 1e-3, 1e-18


def early_point(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """(x, f(x)): the best of a few points of a down-closed P along the gradient at 0, 0 among them.

    For runs that end before their first step. It takes one gradient and a few values, fewer where the time ends.
    """
    zero = np.zeros(P.n)
    start, grad = f.value_and_gradient(zero)
    aim = np.where(grad > 0.0, upper, 0.0)
    aim *= grad * aim >= 0.5 * (grad * aim).max(initial=0.0)
    best, inside = (zero, start), 1.0
    try:
        while inside > _SHORTEST and not P.contains(inside * aim):
            inside *= 0.5
            require_time()
        outside = min(1.0, 2.0 * inside)
        for near in (1.0, _NEAR):  # a point at once, and a better one
            while outside - inside > near * outside:
                middle = 0.5 * (inside + outside)
                inside, outside = (middle, outside) if P.contains(middle * aim) else (inside, middle)
                require_time()
            x = P.move_inside(inside * aim, upper)
            for _ in range(2):
                value = f.value(x)
                if value > best[1]:
                    best = x, value
                # The top of the parabola with the slope at 0 through this point: that of a quadratic at once.
                rise, bend = float(grad @ x), 2.0 * (float(grad @ x) - value + start)
                if 0.0 < bend < math.inf and rise >= bend:
                    break
                x = x * (rise / bend if 0.0 < bend < math.inf else 0.5)
    except OutOfTime:
        pass
    return best
