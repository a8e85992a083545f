"""Part "solvers": every method over every objective and set."""

import math

import numpy as np

import drsub_fast as ds

from . import answer_claims as claims
from . import draws
from .places import random_place


def judge_result(judge, door, place, result, *, tol=None, x0=None, steps=100):
    """What every answer of a solver claims."""
    door = f"{door}, {place.words}"
    bound = judge.ask(f"{door}: the bound", getattr, result, "upper_bound")
    if bound is None:
        return
    judge.check(door, claims.is_printed, result)
    if not judge.check(door, claims.is_in_the_set, place, result.x):
        return
    judge.check(door, claims.value_is_right, place, result.value, result.x)
    judge.check(door, claims.value_is_below_its_bound, result.value, bound)
    judge.check(door, claims.bound_is_above_all, place, bound)
    judge.check(door, claims.gap_is_right, place, result.fw_gap, result.x)
    judge.check(door, claims.convergence_is_so, place, result, tol, base_of(place, x0))
    judge.check(door, claims.best_is_best, place, result)
    judge.check(door, claims.trace_is_whole, result)
    judge.check(door, claims.premise_is_so, place, result.guarantee)
    judge.check(door, claims.guarantee_is_kept, place, result, steps)


def base_of(place, x0):
    """The value from which the rise of f is counted: at the set's own start, or half-way from there."""
    start = place.P.start(place.region.upper * place.region.D)
    points = [start] if x0 is None else [start, 0.5 * (start + x0)]
    values = [float(place.function.value(x / place.region.D)) for x in points]
    return min((v for v in values if math.isfinite(v)), default=-math.inf)


def suits(method, place):
    """Whether a method takes the set."""
    needs = ds.METHODS[method].needs
    box = "box" not in needs or isinstance(place.P, ds.Box)
    return box and ("down-closed" not in needs or place.P.is_down_closed)


def random_options(rng, method, place):
    """(options, what is known of them) for a method."""
    known = ds.METHODS[method].options
    options, tol, x0 = {}, None, None
    if "tol" in known and rng.random() < 0.2:
        tol = options["tol"] = 10.0 ** rng.uniform(-9, -2) * place.best_size
    if "x0" in known and rng.random() < 0.3:
        y = place.shape.points[int(rng.integers(len(place.shape.points)))]
        x0 = options["x0"] = np.clip(y, place.region.lower, place.region.upper) * place.region.D
        if not place.P.contains(x0):
            del options["x0"]
            x0 = None
    if "max_iter" in known and rng.random() < 0.2:
        options["max_iter"] = int(draws.one_of(rng, 1, 2, 7, 300))
    if "step_size" in known and rng.random() < 0.5:
        options["step_size"] = (
            draws.one_of(rng, "spectral") if "curvature" not in known else draws.one_of(rng, "exact", "open-loop")
        )
    return options, tol, x0


def case(rng, judge):
    """One problem; the default and three methods."""
    place = random_place(rng, int(rng.integers(1, 5)))
    if place.is_empty or not math.isfinite(place.best):
        return
    methods = [name for name in ds.METHODS if suits(name, place)]
    # At a kink or where the gradient is infinite there is no gap to speak of.
    for method in ("auto", *rng.choice(methods, min(3, len(methods)), replace=False)):
        options, tol, x0 = ({}, None, None) if method == "auto" else random_options(rng, method, place)
        # Branching on softmax extensions takes minutes in plain Python; part "softmax-proofs" has it.
        bound = draws.one_of(rng, "auto", "cheap", "auto" if place.function.kind == "softmax" else "tight")
        door = f"{method} {options} bound={bound}"
        result = judge.ask(
            f"{door}, {place.words}", ds.maximize, place.f, place.P, method=method, bound=bound, **options
        )
        if result is not None:
            steps = options.get("max_iter", 100)
            judge_result(judge, door, place, result, tol=tol, x0=x0, steps=steps)
