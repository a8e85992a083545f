"""Part "proofs": global maxima and minima, and upper bounds, of quadratics by enumeration of faces."""

import math

import numpy as np

import drsub_fast as ds

from . import answer_claims as claims
from . import draws, functions, polyhedra, regions
from .places import Place, random_place


def minimum_is_right(place, result, least, least_y):
    """global_minimum: the value is that of x, the bound is below all values, OPTIMAL means within the gap."""
    slack = 1e-9 * place.best_size
    if result.lower_bound > least + slack:
        return f"lower bound {result.lower_bound!r} above f({(least_y * place.region.D).tolist()}) = {least!r}"
    c = place.function.quadratic[2]
    allowed = 1e-6 * max(abs(result.value - c), 1e-3 * place.proof_size) * (1.0 + 1e-6) + slack
    if result.status is ds.Status.OPTIMAL and result.value > least + allowed:
        return f"OPTIMAL at {result.value!r}, but f({(least_y * place.region.D).tolist()}) = {least!r}"
    return "" if result.lower_bound <= result.value else f"lower bound {result.lower_bound!r} above {result.value!r}"


def bound_is_no_worse(bound, other, gap, place):
    """The bound of a proof is no worse than that of a cheaper door by more than the gap asked for."""
    c = place.function.quadratic[2] if place.function.quadratic else 0.0
    allowed = gap * max(abs(other - c), 1e-3 * place.proof_size) + 1e-9 * place.best_size
    return "" if bound <= other + allowed else f"bound {bound!r}, but {other!r} is proved elsewhere"


def _maximum(judge, place, method, gap):
    door = f"global_maximum {method}, {place.words}"
    result = judge.ask(door, ds.global_maximum, place.f, place.P, method=method, gap=gap, time_limit=10.0)
    if result is None or not judge.check(door, claims.is_in_the_set, place, result.x):
        return None
    judge.check(door, claims.is_printed, result)
    judge.check(door, claims.value_is_right, place, result.value, result.x)
    judge.check(door, claims.value_is_below_its_bound, result.value, result.upper_bound)
    judge.check(door, claims.bound_is_above_all, place, result.upper_bound)
    judge.check(door, claims.optimum_is_so, place, result, gap)
    judge.check(door, claims.gap_is_right, place, result.fw_gap, result.x)
    return result


def _minimum(judge, place):
    door = f"global_minimum, {place.words}"
    result = judge.ask(door, ds.global_minimum, place.f, place.P, time_limit=10.0)
    if result is None or not judge.check(door, claims.is_in_the_set, place, result.x):
        return
    H, h, c = place.function.quadratic
    unit = max(np.abs(H).max(initial=0.0), np.abs(h).max(initial=0.0), 1e-300)
    most, y = polyhedra.best_of_quadratic(-H / unit, -h / unit, place.region)
    if y is not None:
        judge.check(door, claims.value_is_right, place, result.value, result.x)
        judge.check(door, minimum_is_right, place, result, c - unit * most, y)


def _certificates(rng, judge, place):
    doors = {"upper_bound": ds.certificates.upper_bound, "linear_bound": ds.certificates.linear_bound}
    if isinstance(place.f, ds.Quadratic) and not place.shape.is_curved and not place.region.by_example:
        doors["dnn_bound"] = ds.certificates.dnn_bound
    found = {}
    for name, door in doors.items():
        bound = judge.ask(f"{name}, {place.words}", door, place.f, place.P)
        if bound is not None:
            found[name] = bound
            judge.check(f"{name}, {place.words}", claims.bound_is_above_all, place, bound)
    if place.P.is_down_closed:
        y = place.shape.points[int(rng.integers(len(place.shape.points)))]
        x = np.clip(y, place.region.lower, place.region.upper) * place.region.D
        if place.P.contains(x):
            door = f"local_global_bound, {place.words}"
            bound = judge.ask(door, ds.certificates.local_global_bound, place.f, place.P, x)
            if bound is not None:
                judge.check(door, claims.bound_is_above_all, place, bound)
    return found


def case(rng, judge):
    """One quadratic over finitely many rows: the maximum by both methods, the minimum; bounds of it or another f."""
    n = int(rng.integers(1, 5))
    rows = tuple(name for name in regions.REGIONS if name != "ball")  # of finitely many rows
    kind = draws.one_of(
        rng, "quadratic", "quadratic", "quadratic of any sign", "price-optimization", "stability-number"
    )
    place = random_place(rng, n, (kind,), rows)
    if not place.is_empty and math.isfinite(place.best):
        milp = place.P.is_down_closed and kind != "quadratic of any sign" and rng.random() < 0.3
        methods = ("auto", "kkt-milp") if milp else ("auto",)
        result, gap = None, draws.one_of(rng, 1e-6, 1e-6, 1e-3)
        for method in methods:
            found = _maximum(judge, place, method, gap)
            result = found if method == "auto" else result
        _minimum(judge, place)
        found = _certificates(rng, judge, place)
        if result is not None:
            for name, bound in found.items():
                door = f"global_maximum against {name}, {place.words}"
                judge.check(door, bound_is_no_worse, result.upper_bound, bound, gap, place)
    other = random_place(rng, int(rng.integers(1, 5)))
    if not other.is_empty and math.isfinite(other.best):
        _certificates(rng, judge, other)


def softmax_case(rng, judge):
    """A softmax extension over a down-closed set: branch and bound and the certificates, against many points."""
    n = int(rng.integers(1, 4))
    rows = ("box", "budget", "knapsack", "partition-matroid", "laminar-matroid", "matching-polytope", "polytope")
    region = regions.random_region(rng, n, 0, rows)
    place = Place(rng, region, functions.FUNCTIONS["softmax"](rng, region))
    if place.is_empty or not math.isfinite(place.best):
        return
    result = _maximum(judge, place, "auto", 1e-4)
    found = _certificates(rng, judge, place)
    if result is not None:
        for name, bound in found.items():
            judge.check(f"global_maximum against {name}", bound_is_no_worse, result.upper_bound, bound, 1e-4, place)
