"""Part "doors": files, batches of pairs and SciPy's interface, which are to hand on the problem and the answer."""

import math
import tempfile
from pathlib import Path

import numpy as np
import scipy.optimize

import drsub_fast as ds

from . import answer_claims as claims
from . import draws
from .places import random_place


def same_problem(problem, place, points):
    """What a file holds has the values and the points of what was written."""
    back = problem.f.n == place.n
    if not back:
        return f"{problem.f.n} variables, {place.n} were written"
    shift = np.zeros(place.n) if problem.shift is None else problem.shift
    for y in points:
        x = y * place.region.D
        true, size = float(place.function.value(y)), float(place.function.size(y))
        value = problem.f.value(np.maximum(x - shift, 0.0)) if (x - shift > -1e-12 * np.abs(shift)).all() else math.nan
        if math.isfinite(true) and size < 1e7 * (1.0 + abs(true)) and abs(value - true) > 1e-9 * size:
            return f"f({x.tolist()}) = {value!r}, {true!r} was written"
        if not problem.P.contains(np.maximum(x - shift, 0.0) if problem.P.is_down_closed else x - shift, tol=1e-7):
            return f"{x.tolist()} is no point of it"
    return ""


def _files(rng, judge, place):
    suffix = draws.one_of(rng, ".npz", ".npz", ".mat", ".mps", ".lp", ".qplib", ".mps.gz")
    door = f"file {suffix}, {place.words}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"problem{suffix}"
        quadratic = place.function.quadratic is not None and not place.shape.is_curved
        may = suffix not in (".npz", ".mat") or not quadratic
        try:
            ds.write_problem(path, place.f, place.P)
        except (ds.UnsupportedError, ValueError) as error:
            if not may:
                judge.faults.append(f"{judge.name}: {door}: not written: {error}")
            return
        # By a text a Hessian that is not DR-submodular is taken for a mistake, unless the reader is told.
        require_dr = place.function.kind != "quadratic of any sign" or suffix in (".npz", ".mat")
        problem = judge.ask(door, ds.read_problem, path, require_dr=require_dr)
    if problem is None:
        return
    points = place.shape.points[rng.integers(len(place.shape.points), size=6)]
    judge.check(door, same_problem, problem, place, points)
    x = judge.ask(door, lambda: problem.to_original(ds.maximize(problem.f, problem.P, bound="cheap").x))
    if x is not None:
        inside = np.clip(x, place.region.lower * place.region.D, place.region.upper * place.region.D)
        judge.check(door, close_to, x, inside, place.region.D)
        judge.check(door, claims.is_in_the_set, place, inside)


def close_to(x, inside, D):
    """The answer of a problem that was read is within the bounds up to the digits of the file."""
    return "" if (np.abs(x - inside) <= 1e-12 * D).all() else f"x = {x}, outside the bounds by {np.abs(x - inside) / D}"


def same_answer(one, other, size):
    """Two doors to one solver give one answer."""
    if one.status is not other.status or not np.array_equal(one.x, other.x):
        return f"{one.status.name} {one.x} {one.value!r}, {other.status.name} {other.x} {other.value!r}"
    return "" if abs(one.value - other.value) <= 1e-12 * size else f"{one.value!r}, {other.value!r}"


def _many(judge, place):
    door = f"maximize_many, {place.words}"
    found = judge.ask(door, ds.maximize_many, [(place.f, place.P)], n_jobs=1)
    single = judge.ask(door, ds.maximize, place.f, place.P)
    if found is not None and single is not None:
        judge.check(door, same_answer, found[0], single, place.best_size)


def scipy_is_right(found, place):
    """fun is the value at x, x keeps the bounds and the rows."""
    size = float(place.function.size(found.x / place.region.D))
    if abs(found.fun + float(place.function.value(found.x / place.region.D))) > 1e-9 * size:
        return f"fun = {found.fun!r}"
    if -found.fun > place.best + 1e-6 * place.best_size and place.function.quadratic is not None:
        return f"fun = {found.fun!r}, but the least is {-place.best!r}"
    return claims.is_in_the_set(place, found.x)


def _scipy(judge, place):
    region = place.region
    A, A_eq = region.A / region.D, region.A_eq / region.D
    constraints = []
    if len(A):
        constraints.append(scipy.optimize.LinearConstraint(A, -np.inf, region.b))
    if len(A_eq):
        constraints.append(scipy.optimize.LinearConstraint(A_eq, region.b_eq, region.b_eq))
    bounds = scipy.optimize.Bounds(region.lower * region.D, region.upper * region.D)
    start = place.shape.points[0] * region.D
    found = judge.ask(
        f"scipy_method, {place.words}", scipy.optimize.minimize,
        lambda x: -float(place.function.value(x / region.D)), start,
        jac=lambda x: -place.function.gradient(x / region.D) / region.D,
        bounds=bounds, constraints=constraints, method=ds.scipy_method(),
    )  # fmt: skip
    if found is not None:
        judge.check(f"scipy_method, {place.words}", scipy_is_right, found, place)


def case(rng, judge):
    """One problem."""
    place = random_place(rng, int(rng.integers(1, 5)))
    if place.is_empty or not math.isfinite(place.best):
        return
    _files(rng, judge, place)
    if rng.random() < 0.3:
        _many(judge, place)
    kinds = (
        "quadratic",
        "quadratic of any sign",
        "spectral",
        "price-optimization",
        "nonnegative-pca",
        "stability-number",
    )
    if place.function.kind in kinds and not place.shape.is_curved and not place.region.by_example:
        _scipy(judge, place)
