"""Claims about answers x of solvers; each function returns words for what is wrong, or ""."""

import math

import numpy as np

import drsub_fast as ds

#: Rounding of a value, as a part of the size of f's terms.
ROUNDING = 1e-11
#: What a linear oracle may miss, as a part of the terms of its sum.
ORACLE = 2e-8


def is_in_the_set(problem, x):
    """Within the bounds to the last digit, each row up to 1e-9 of its unit."""
    region = problem.region
    y = x / region.D
    if not np.isfinite(x).all():
        return f"x = {x}"
    # D is a power of two, so that y is x, digit by digit; lower and upper were multiplied by the same.
    if (y < region.lower).any() or (y > region.upper).any():
        worst = min((y - region.lower).min(), (region.upper - y).min())
        return f"outside the bounds by {-worst:.3g} of their units"
    rows = [(row, side, False) for row, side in zip(region.A, region.b, strict=True)]
    rows += [(row, side, True) for row, side in zip(region.A_eq, region.b_eq, strict=True)]
    for row, side, equal in rows:
        terms = (row * y).tolist()
        excess = math.fsum([*terms, -side])
        excess = abs(excess) if equal else excess
        unit = max(abs(side), math.fsum(map(abs, terms)))
        if excess > 1e-9 * unit:
            return f"a row is broken by {excess:.3g}, {excess / unit:.3g} of its unit"
    if region.by_example and not region.P.contains(x):
        return "P says that it does not contain x"
    if np.linalg.norm(y) > region.radius * (1.0 + 1e-9):
        return f"norm {np.linalg.norm(y):.17g} above {region.radius}"
    return ""


def value_is_right(problem, value, x):
    """The value is f(x)."""
    y = x / problem.region.D
    true, size = float(problem.function.value(y)), float(problem.function.size(y))
    if not math.isfinite(true):
        return ""
    return "" if abs(value - true) <= ROUNDING * size else f"value {value!r}, but f(x) = {true!r} (terms of {size:.3g})"


def value_is_below_its_bound(value, bound):
    """value <= upper_bound, which is a number."""
    return "" if value <= bound else f"value {value!r}, bound {bound!r}"


def bound_is_above_all(problem, bound):
    """No point of the set has a value above the bound."""
    excess = problem.best - bound
    if not excess > 1e-9 * problem.best_size:
        return ""
    return f"bound {bound!r} below f({(problem.best_y * problem.region.D).tolist()}) = {problem.best!r}"


def gap_at(problem, x):
    """(max over the set of <grad f(x), v - x>, what rounding may take of it); NaN where the gradient is infinite."""
    y = x / problem.region.D
    try:
        with np.errstate(all="ignore"):
            g = problem.function.gradient(y)
    except np.linalg.LinAlgError:
        g = np.full(y.size, np.nan)
    if not np.isfinite(g).all():
        return math.nan, math.nan
    reach = np.maximum(np.abs(problem.region.lower), problem.region.upper)
    terms = float(np.abs(g) @ reach)
    rounding = (ORACLE + float(problem.function.loss(y))) * terms + 1e-9 * float(problem.function.size(y))
    return problem.shape.largest(g) - float(g @ y), rounding


def gap_is_right(problem, gap, x):
    """fw_gap is the Frank-Wolfe gap at the returned point."""
    true, allowed = gap_at(problem, x)
    if not (math.isfinite(true) and math.isfinite(gap)):
        return ""
    return "" if abs(gap - true) <= allowed else f"fw_gap {gap!r}, but it is {true!r}"


def convergence_is_so(problem, result, tol, base):
    """CONVERGED: the gap at the returned point is within the tolerance.

    Without a ``tol`` it is 1e-6 of the rise of f over ``base``, or the rounding of f.
    """
    if result.status is not ds.Status.CONVERGED:
        return ""
    true, rounding = gap_at(problem, result.x)
    if tol is None:
        top = max(result.best_value, result.value)
        tol = 1e-6 * max(top - base, 1e-9 * abs(top))
    allowed = tol * (1.0 + 1e-6) + rounding
    return "" if not true > allowed else f"CONVERGED, but the gap is {true!r}, allowed {tol!r}"


def best_is_best(problem, result):
    """best_value is the value of best_x, and no less than the value."""
    if result.best_value < result.value - ROUNDING * problem.best_size:
        return f"best_value {result.best_value!r} below value {result.value!r}"
    return value_is_right(problem, result.best_value, result.best_x) or is_in_the_set(problem, result.best_x)


def trace_is_whole(result):
    """Entry k of the trace belongs to iterate k = 0 .. n_iter."""
    lengths = len(result.trace.value), len(result.trace.fw_gap)
    return "" if lengths == (result.n_iter + 1,) * 2 else f"{lengths} entries, n_iter = {result.n_iter}"


def premise_is_so(problem, guarantee):
    """A guarantee that is "known to hold" has a premise that holds at the points that are tried."""
    if guarantee.holds is not True or guarantee.ratio is None:
        return ""
    if problem.is_known_not_dr:
        return f"known to hold: {guarantee}; but f is not DR-submodular"
    values = problem.box_values
    scale = 1e-9 * max(problem.best_size, 1e-300)
    if "f >= 0" in guarantee.premise and (values < -scale).any():
        return f"known to hold: {guarantee.premise}; but f = {values.min()!r} in the box"
    if "monotone" in guarantee.premise and problem.least_slope < -1e-9 * problem.slope_size:
        return f"known to hold: {guarantee.premise}; but a derivative is {problem.least_slope!r} in the box"
    return ""


def guarantee_is_kept(problem, result, steps):
    """A guarantee that is "known to hold" is kept, its error terms allowed for."""
    guarantee = result.guarantee
    if guarantee.holds is not True or guarantee.ratio is None or not math.isfinite(problem.best):
        return ""
    error = 1e-9 * problem.best_size
    if "O(1/K" in guarantee.statement or "L D^2" in guarantee.statement:
        error += problem.curvature / (2.0 * steps) + 2.0 * abs(problem.best) / steps
    elif "g_" in guarantee.statement:
        error += 0.02 * abs(problem.best) + sum(p.fw_gap for p in (result, *result.phases) if math.isfinite(p.fw_gap))
    promised = guarantee.ratio * problem.best - error
    return (
        "" if result.value >= promised else f"{result.value!r} < {promised!r}: {guarantee}, f = {problem.best!r} is met"
    )


def optimum_is_so(problem, result, gap):
    """OPTIMAL: no point has a value above the answer's by more than the gap asked for."""
    if result.status is not ds.Status.OPTIMAL:
        return ""
    c = problem.function.quadratic[2] if problem.function.quadratic else 0.0
    allowed = gap * max(abs(result.value - c), 1e-3 * problem.proof_size) * (1.0 + 1e-6) + 1e-9 * problem.best_size
    if result.upper_bound - result.value > allowed:
        return f"OPTIMAL, but {result.upper_bound - result.value!r} is left between value and bound"
    if problem.best - result.value > allowed:
        return (
            f"OPTIMAL at {result.value!r}, but f = {problem.best!r} at {(problem.best_y * problem.region.D).tolist()}"
        )
    return ""


def is_printed(result):
    """str, repr, == and the bound of a result raise nothing."""
    texts = str(result), repr(result), result._repr_html_() if hasattr(result, "_repr_html_") else "html"
    return "" if all(texts) and result == result and not math.isnan(result.upper_bound) else "no words, or no bound"
