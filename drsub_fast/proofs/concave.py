"""Concave f over any convex set: value and Frank-Wolfe gap bound the maximum,

    f(y) <= f(x) + <grad f(x), y - x> + m/2 |y - x|^2   for all y in P,

m being what rounding leaves of the largest eigenvalue of the Hessian: 0 but for a quadratic, whose eigenvalues are
computed. Local solves to smaller and smaller gaps follow.
"""

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.combined import Sum
from drsub_fast.objectives.feature_based import FeatureBased
from drsub_fast.objectives.log_det import Spectral
from drsub_fast.objectives.logistic import LogisticNonconvex
from drsub_fast.objectives.quadratic import FactoredQuadraticParams
from drsub_fast.proofs.quadratic_steps import dense
from drsub_fast.proofs.rungs import CALL, Problem, gradient_price, largest
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.solvers.multi_start import local_solver

#: Tolerances of the local solves, relative to the value.
_TOLERANCES = (1e-8, 1e-10)
#: Gradients that a local solve is expected to take.
_GRADIENTS = 50


def _could_be_concave(H):
    """Whether no principal minor of order 1 or 2 speaks against it: n^2 operations spare most eigenvalues."""
    diagonal = -H.diagonal()
    if (diagonal < 0.0).any():
        return False
    return bool((np.outer(diagonal, diagonal) * (1.0 + 1e-9) >= H**2).all())


def excess_curvature(f: Objective, reach: NDArray[np.float64]) -> float | None:
    """An upper bound on the Hessian's largest eigenvalue where |x_j| <= reach_j, at least 0; None if f is not concave.

    "Concave" is up to rounding: a quadratic passes whose largest eigenvalue is 1e-13 of its norm.
    """
    if isinstance(f, Spectral) or f.concave_on(reach):
        return 0.0
    if isinstance(f, Sum):
        excess = [each for part in f.parts if (each := excess_curvature(part, reach)) is not None]
        return float(np.dot(f.weights, excess)) if len(excess) == len(f.parts) else None
    if isinstance(f, LogisticNonconvex):
        return 0.0 if np.abs(reach).max(initial=0.0) <= f.dr_radius else None
    if isinstance(f.params, FactoredQuadraticParams):
        return 0.0
    twin = dense(f)
    if twin is None:
        return None
    H = twin.params.H
    if not H.any():
        return 0.0
    if not _could_be_concave(H):
        return None
    rounding = 1e-14 * len(H) * float(np.linalg.norm(H))
    most = float(np.linalg.eigvalsh(H)[-1])
    return max(most + rounding, 0.0) if most <= rounding else None


def gap_bound(f: Objective, P: FeasibleSet, upper: NDArray[np.float64], x: NDArray[np.float64], excess: float) -> float:
    """f(x) + max <grad f(x), v - x> + excess/2 max |v - x|^2 over P, with room for rounding."""
    value, gradient = f.value_and_gradient(x)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        return np.inf
    reach = np.maximum(upper - x, x - P._lower)
    size = abs(value) + np.abs(gradient) @ np.abs(x)
    return float(value + largest(P, gradient, upper) - gradient @ x + 0.5 * excess * (reach @ reach) + 1e-13 * size)


def concave_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung: the gap at x, then at better and better points."""
    f, P, upper, x, value = problem
    n = f.n
    excess = excess_curvature(f, np.maximum(np.abs(P._lower), np.abs(upper)))
    if excess is None:
        return
    price = _GRADIENTS * (gradient_price(f) + n * n)
    yield gap_bound(f, P, upper, x, excess), price
    if isinstance(f, FeatureBased) and f.concave == "min":
        return  # at its kinks no gap is small
    for tol in _TOLERANCES:
        x = local_solver(f, P).solve(f, P, x0=x, max_iter=1000, tol=tol * max(abs(value), 1e-3)).x
        yield gap_bound(f, P, upper, x, excess), price + CALL
