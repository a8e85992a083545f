"""Algorithms 1, 2 and 3 of the paper and its baselines."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_real, one_of
from drsub_fast._records import Record
from drsub_fast.errors import UnsupportedError
from drsub_fast.reference.problem import Oracle, as_function, as_region, project, start, vertex


class ReferenceTrace(NamedTuple):
    """Values and gaps along the way; index k belongs to iterate k, NaN where no gap was computed."""

    value: NDArray[np.float64]
    fw_gap: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReferenceResult(Record):
    """What a reference solver returns.

    Attributes
    ----------
    x : ndarray, shape (n,)
    value : float
        f(x).
    fw_gap : float
        max over the set of <grad f(x), v - x>, the non-stationarity g of the paper.
    n_iter, n_lmo : int
        Updates of the iterate and linear programs solved, over both phases.
    trace : ReferenceTrace
        Of the phase that is returned.
    phases : tuple of ReferenceResult
        Both phases of Algorithm 1.
    phase : int or None
        Which of them gave x, counted from 1.
    """

    x: NDArray[np.float64]
    value: float
    fw_gap: float
    n_iter: int
    n_lmo: int
    trace: ReferenceTrace
    phases: "tuple[ReferenceResult, ...]" = ()
    phase: int | None = None


def _function_and_region(f, P, oracle=None):
    region = as_region(P, f)
    if getattr(f, "n", len(region.upper)) != len(region.upper):
        raise ValueError(f"the objective has {f.n} variables, the set {len(region.upper)}")
    return as_function(f), region if oracle is None else region._replace(oracle=oracle)


def _gap(function, region, x):
    gradient = function.gradient(x)
    return gradient @ (vertex(region, gradient) - x)


def _last_iterate(function, region, x, values, n_lmo):
    """The result of a method that returns its last iterate, the only one whose gap is computed."""
    gaps = np.full(len(values), np.nan)
    gaps[-1] = _gap(function, region, x)
    return ReferenceResult(x, values[-1], gaps[-1], len(values) - 1, n_lmo, ReferenceTrace(np.array(values), gaps))


def _open_loop(function, region, x, d, k, gap):
    """gamma_k = 2 / (k + 2), the choice of the paper's experiments."""
    return 2.0 / (k + 2)


def _exact(function, region, x, d, k, gap):
    """Option I of Algorithm 3: argmax of f(x + gamma d) over [0, 1]."""
    if function.H is not None:
        curvature = d @ function.H @ d
        return 1.0 if curvature >= 0.0 else min(1.0, -gap / curvature)
    grid = np.linspace(0.0, 1.0, 65)
    best = int(np.argmax([function.value(x + gamma * d) for gamma in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 64)]

    def slope(gamma):
        return function.gradient(x + gamma * d) @ d

    if slope(low) > 0.0 > slope(high):
        return scipy.optimize.brentq(slope, low, high, xtol=1e-15)
    return grid[best]


def _short(function, region, x, d, k, gap):
    """Option II of Algorithm 3: min(g_k / C, 1) with C = u'|H|u >= |d'Hd| for d between -u and u, so C >= C_f(P)."""
    if function.H is None:
        raise UnsupportedError("step_size='short' needs a curvature bound, which the reference has for quadratics only")
    bound = region.upper @ np.abs(function.H) @ region.upper
    return min(gap / bound, 1.0) if bound > 0.0 else 1.0


_STEPS = {"open-loop": _open_loop, "exact": _exact, "short": _short}


def _step_rule(step_size):
    if isinstance(step_size, str):
        return _STEPS[one_of(step_size, "step_size", tuple(_STEPS))]
    step = as_real(step_size, "step_size", lower=0.0, strict=True)
    if step > 1.0:
        raise ValueError(f"step_size = {step:g} is above 1: the iterates would leave the set")
    return lambda function, region, x, d, k, gap: step


def _small_gap(tol, base, values):
    """The gap to stop at: ``tol``, or 1e-6 of the rise of f over its value at the set's own start.

    The rise counts from f half-way to x0 where that is given, and is at least what rounding leaves of it.
    """
    if tol is not None:
        return tol
    top = max(values)
    return 1e-6 * max(top - base, 1e-9 * abs(top))


def frank_wolfe(
    f: object,
    P: object,
    *,
    x0: ArrayLike | None = None,
    step_size: Literal["open-loop", "exact", "short"] | float = "open-loop",
    max_iter: int = 100,
    tol: float | None = None,
    lmo: Oracle | None = None,
) -> "ReferenceResult":
    """Non-convex Frank-Wolfe (Algorithm 3).

    Parameters
    ----------
    f, P : objective and feasible set of the package
    x0 : array_like, shape (n,), optional
        Start, 0 by default.
    step_size : {"open-loop", "exact", "short"} or float
        2 / (k + 2); Option I; Option II; or a constant in (0, 1].
    max_iter : int
        Updates of x. The gap is evaluated at the last iterate as well.
    tol : float, optional
        Stop once the gap is at most this. By default 1e-6 of the most that f rose above f(0) (with an ``x0``, above f
        half-way between the two).
    lmo : callable, optional
        Solves the linear programs: ``lmo(direction, A, b, upper)`` returns a v, shape (n,), that maximises
        <direction, v> over A v <= b, 0 <= v <= upper. By default `scipy.optimize.linprog`.

    Returns
    -------
    ReferenceResult
        Its x is the iterate of the smallest gap.

    Raises
    ------
    UnsupportedError
        For an objective or a set that the reference has no formula for.
    ValueError
        For an x0 outside the set, or a number or step size that makes no sense.
    """
    function, region = _function_and_region(f, P, lmo)
    step, max_iter = _step_rule(step_size), as_count(max_iter, "max_iter")
    tol = tol if tol is None else as_real(tol, "tol", lower=0.0)
    x = start(region, x0)
    base = function.value(0.5 * x)
    best, best_gap, values, gaps = x, np.inf, [], []
    for k in range(max_iter + 1):
        gradient = function.gradient(x)
        d = vertex(region, gradient) - x
        gap = gradient @ d  # line 4: g_k
        values.append(function.value(x))
        gaps.append(gap)
        if gap < best_gap:
            best, best_gap = x, gap
        if gap <= _small_gap(tol, base, values) or k == max_iter:
            break
        x = x + step(function, region, x, d, k, gap) * d
    return ReferenceResult(
        best, function.value(best), best_gap, k, k + 1, ReferenceTrace(np.array(values), np.array(gaps))
    )


def two_phase_frank_wolfe(
    f: object,
    P: object,
    *,
    max_iter: int = 100,
    tol: float | None = None,
    subroutine: str | Callable[..., ReferenceResult] = "frank-wolfe",
    lmo: Oracle | None = None,
    **options: Any,
) -> "ReferenceResult":
    """Two-phase Frank-Wolfe (Algorithm 1): x over P, z over Q = {y in P : y <= u - x}, the better of both.

    Parameters
    ----------
    f, P : objective and feasible set of the package
    max_iter, tol : int, float
        Of each phase (K1 = K2, eps1 = eps2 in the paper).
    subroutine : str or callable
        A method of this module by its name, or a function with the signature of `frank_wolfe`.
    lmo : callable, optional
        As in `frank_wolfe`.
    options
        Passed on to the subroutine.

    Returns
    -------
    ReferenceResult
        Its ``fw_gap`` is that of the winner over P; ``phases[1].fw_gap`` is over Q.
    """
    function, region = _function_and_region(f, P, lmo)
    solve = subroutine if callable(subroutine) else _SUBROUTINES[one_of(subroutine, "subroutine", tuple(_SUBROUTINES))]
    options = {"max_iter": max_iter, "tol": tol, **options}
    first = solve(function, region, **options)
    remaining = region._replace(upper=np.maximum(region.upper - first.x, 0.0))
    second = solve(function, remaining, **options)
    n_iter, n_lmo = first.n_iter + second.n_iter, first.n_lmo + second.n_lmo
    phases = (first, second)
    if first.value >= second.value:
        return replace(first, n_iter=n_iter, n_lmo=n_lmo, phases=phases, phase=1)
    gap = _gap(function, region, second.x)
    return replace(second, fw_gap=gap, n_iter=n_iter, n_lmo=n_lmo + 1, phases=phases, phase=2)


def _additive_steps(f, P, max_iter, shrink, lmo):
    """max_iter steps x += v / max_iter, the oracle's bound u - x if ``shrink`` and u otherwise."""
    function, region = _function_and_region(f, P, lmo)
    max_iter = as_count(max_iter, "max_iter")
    x = np.zeros(len(region.upper))
    values = [function.value(x)]
    for _ in range(max_iter):
        residual = region.upper - x if shrink else region.upper
        x = x + vertex(region, function.gradient(x), residual) / max_iter
        values.append(function.value(x))
    return _last_iterate(function, region, x, values, max_iter + 1)


def nonmonotone_frank_wolfe(f: object, P: object, *, max_iter: int = 100, lmo: Oracle | None = None) -> ReferenceResult:
    """Non-monotone Frank-Wolfe variant (Algorithm 2): steps 1 / max_iter with the shrunken oracle v <= u - x."""
    return _additive_steps(f, P, max_iter, shrink=True, lmo=lmo)


def monotone_frank_wolfe(f: object, P: object, *, max_iter: int = 100, lmo: Oracle | None = None) -> ReferenceResult:
    """Frank-Wolfe variant for monotone f (Bian et al., AISTATS 2017): as Algorithm 2, not shrunken."""
    return _additive_steps(f, P, max_iter, shrink=False, lmo=lmo)


def projected_gradient(
    f: object, P: object, *, x0: ArrayLike | None = None, max_iter: int = 100, lmo: Oracle | None = None
) -> ReferenceResult:
    """Projected gradient ascent with steps 1 / (k + 1), k = 0, 1, .., a baseline of the paper; the last iterate."""
    function, region = _function_and_region(f, P, lmo)
    max_iter = as_count(max_iter, "max_iter")
    x = start(region, x0)
    values = [function.value(x)]
    for k in range(max_iter):
        x = project(region, x + function.gradient(x) / (k + 1))
        values.append(function.value(x))
    return _last_iterate(function, region, x, values, 1)


_SUBROUTINES: dict[str, Callable[..., ReferenceResult]] = {
    "frank-wolfe": frank_wolfe,
    "nonmonotone-frank-wolfe": lambda f, P, max_iter, tol: nonmonotone_frank_wolfe(f, P, max_iter=max_iter),
    "projected-gradient": lambda f, P, max_iter, tol: projected_gradient(f, P, max_iter=max_iter),
}
