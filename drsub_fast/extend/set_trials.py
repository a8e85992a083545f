"""Trials of a set: its oracle, projection and points in all units, its spread, copies, files, stacks and solves."""

import numpy as np

from drsub_fast._kinds import SETS, kind_of
from drsub_fast.engine.jit import compiling
from drsub_fast.errors import UnsupportedError
from drsub_fast.extend.trials import (
    copied,
    from_file,
    is_foreign,
    require,
    require_answers,
    require_memory,
    require_stack,
    trial,
)
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_set

#: What rounding may change, relative to the largest product of a cost and a bound.
_ROUNDING = 1e-9
#: Random costs that the oracle is asked for.
_COSTS = 12


def check_set(P: FeasibleSet) -> None:
    """Try a set.

    Parameters
    ----------
    P : FeasibleSet
        Of your own, or any other.

    Raises
    ------
    AssertionError
        With the reason: the oracle leaves the set or its bounds, or misses a better point, for costs from 1e-8 to 1e8;
        the projection is not the nearest point; what lies below a point of a down-closed set is outside;
        `FeasibleSet.spread` is below the distance of two points, as that of the base class may be where the set is not
        down-closed; a kernel allocates without ``memory=True``; it changes when it is pickled, written to a file or
        solved in a stack; or an answer is outside.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.extend.check_set(ds.Budget(1.5, [1.0, 1.0, 0.5]))
    """
    require_set(P)
    rng = np.random.default_rng(0)
    require_memory(P.params())
    with trial("the oracle fails"):
        points = _require_oracle(P, rng)
        if P.is_down_closed:
            _require_below(P, points, rng)
    with trial("a point or a distance of the set cannot be had"):
        _require_points(P, points, rng)
    with trial("the projection fails"):
        _require_projection(P, points, rng)
    if is_foreign(P.params()):
        with trial("its kernels do not compile"), compiling():
            P.lmo(np.ones(P.n))
    f = _quadratic(P, rng)
    cost = rng.standard_normal(P.n)
    value = cost @ P.lmo(cost)
    for words, other in (
        ("pickled", copied(P, kind_of(P, SETS))),
        ("read from a file", getattr(from_file(f, P), "P", P)),
    ):
        found = value if other is None else cost @ other.lmo(cost)
        require(abs(found - value) <= _ROUNDING * (np.abs(cost) @ P.upper), f"{words} its oracle has another value")
    require_stack(f, P)
    methods = ["frank-wolfe", "fully-corrective-frank-wolfe", "mualem-feldman"]
    if P.is_down_closed and P.answers_below:
        methods += ["nonmonotone-frank-wolfe", "two-phase-frank-wolfe"]
    require_answers(f, P, tuple(methods))


def _quadratic(P: FeasibleSet, rng: np.random.Generator) -> Quadratic:
    """A function that falls towards the upper bounds, in units of the bounds."""
    unit = np.where(P.upper > 0.0, np.maximum(np.abs(P._lower), np.abs(P.upper)), 1.0)
    H = -rng.random((P.n, P.n))
    return Quadratic((H + H.T) / np.outer(unit, unit), P.n * rng.random(P.n) / unit)


def _require_oracle(P, rng):
    """Vertices for many costs; each is in the set, and none of the others, nor the start, is better for its cost."""
    unit = np.maximum(np.abs(P._lower), np.abs(P.upper)) + np.zeros(P.n)
    inverse = 1.0 / np.where(unit > 0.0, unit, 1.0)
    costs = np.array([np.zeros(P.n), inverse, -inverse, *inverse * rng.standard_normal((_COSTS, P.n))])
    points = [P.start()]
    for cost in costs:
        given = cost.copy()
        points.append(P.lmo(cost))
        require(np.array_equal(cost, given), "the oracle changes the direction")
    for x in points:
        require(np.shape(x) == (P.n,) and np.isfinite(x).all(), f"the oracle returns {x}")
        require((x >= P._lower).all() and (x <= P.upper).all(), f"the oracle leaves the bounds: {x}")
        require(P.contains(x), f"contains({x}) is False, which the oracle or start() returned")
    known = [*points, *_on_axes(P)]
    for cost, x in zip(costs, points[1:], strict=True):
        slack = _ROUNDING * (np.abs(cost) @ unit)
        better = max(known, key=lambda y: cost @ y)
        require(
            cost @ x >= cost @ better - slack, f"for the cost {cost} the oracle returns {x}, and {better} is better"
        )
        for factor in (1.0, 1e-8, 1e8):
            again = P.lmo(factor * cost)
            require(abs(cost @ again - cost @ x) <= slack, f"for {factor:g} times the cost {cost} it is another value")
    if P.answers_below:
        _require_tighter(P, costs, points, unit, rng)
    return points


def _on_axes(P):
    """Points of a down-closed set on the axes: as far as it reaches, up to a half."""
    for axis in np.eye(P.n) if P.is_down_closed else ():
        far = (0.5**k * P.upper * axis for k in range(40))
        yield from [x for x in far if P.contains(x)][:1]


def _require_tighter(P, costs, points, unit, rng):
    """Below tighter bounds: inside them, in the set, and no better known point inside them."""
    for cost in costs:
        upper = P.upper * rng.random(P.n) if P.is_down_closed else np.maximum(np.mean(points, axis=0), 0.9 * P.upper)
        v = P.lmo(cost, upper)
        require((v <= upper).all() and P.contains(v), f"below the bounds {upper} the oracle returns {v}")
        inside = (
            [np.minimum(x, upper) for x in points] if P.is_down_closed else [x for x in points if (x <= upper).all()]
        )
        best = max((cost @ x for x in inside), default=-np.inf)
        require(
            cost @ v >= best - _ROUNDING * (np.abs(cost) @ unit),
            f"below the bounds {upper} the oracle misses a better point",
        )


def _require_below(P, points, rng):
    """What lies below points of a down-closed set is in it."""
    require(P.contains(np.zeros(P.n)), "it is down-closed, and contains(0) is False")
    for x in points:
        y = x * rng.random(P.n) * (rng.random(P.n) < 0.7)
        require(P.contains(y), f"it is down-closed and has {x}, and contains({y}) is False")


def _require_points(P, points, rng):
    """Points outside are refused; the point of the smallest norm, the spread and the diameter are what they say."""
    width = P.upper - P._lower
    for j in np.flatnonzero(width > 0.0)[:3]:
        outside = points[1].copy()
        outside[j] = P.upper[j] + 0.01 * width[j]
        require(not P.contains(outside), f"contains says True above the bound of x[{j}]")
    low = P.min_max_norm_point()
    require(P.contains(low), f"min_max_norm_point() = {low} is not in the set")
    mixed = [*points, *(np.array(points).T @ rng.dirichlet(np.ones(len(points))) for _ in range(3))]
    for x in mixed:
        require(P.contains(P.move_inside(x, P.upper)), f"move_inside leaves the set from {x}")
    cost = rng.random(P.n)
    bound, length = P.spread(cost) + _ROUNDING * (cost @ P.upper), P.diameter() + _ROUNDING * P.upper.max()
    for x in mixed:
        for y in mixed:
            require(cost @ np.abs(x - y) <= bound, f"spread({cost}) = {bound:g} is below that of {x} and {y}")
            require(np.linalg.norm(x - y) <= length, f"diameter() = {length:g} is too small")


def _require_projection(P, points, rng):
    """The projection is in the set, and no vertex lies farther in the direction from which it came."""
    for _ in range(_COSTS):
        y = rng.uniform(-0.5, 2.0, P.n) * P.upper
        try:
            p = P.project(y)
        except UnsupportedError:
            return
        require(P.contains(p), f"project({y}) = {p} is not in the set")
        away = y - p
        require(away @ (P.lmo(away) - p) <= 1e-7 * (P.upper @ P.upper), f"project({y}) = {p} is not the nearest point")
        require(np.abs(P.project(p) - p).max() <= 1e-7 * P.upper.max(), f"project moves {p}, a point of the set")
