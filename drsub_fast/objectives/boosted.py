"""The non-oblivious function of a monotone DR-submodular f (Zhang et al. 2022),

    F(x) = int_0^1 (e^(z-1) / z) [f(zx) - f(0)] dz,   grad F(x) = int_0^1 e^(z-1) grad f(zx) dz.

Where f itself may have stationary points of half its maximum, those of F are worth 1 - 1/e of it: for all x, y >= 0

    <grad F(x), y - x> >= (1 - 1/e) f(y) - f(x) + f(0)/e.

For a quadratic F is a quadratic, 1/2 x'(H/e)x + (1 - 1/e) h'x. Else the integral is a sum over Gauss-Legendre points.
"""

import math
from collections import namedtuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.objectives.base import Objective, evaluate, objective_carve, objective_size, register_objective
from drsub_fast.objectives.quadratic import Quadratic, QuadraticParams

#: Points of the integral.
POINTS = 12

BoostedParams = namedtuple("BoostedParams", "n inner points weights base")
BoostedWork = namedtuple("BoostedWork", "grad trial point inner")


class InterpretedBoostedParams(BoostedParams):
    """The same for an f that calls Python."""

    __slots__ = ()
    interpreted = True


@kernel
def _size(params):
    n_floats, n_integers = objective_size(params.inner)
    return 3 * params.n + n_floats, n_integers


@kernel(memory=True)
def _carve(params, floats, integers):
    n = params.n
    inner = objective_carve(params.inner, floats[3 * n :], integers)
    grad, trial, point = split(floats, n, n, n)
    return BoostedWork(grad, trial, point, inner)


@kernel
def _evaluate(params, work, x):
    grad, point = work.grad, work.point
    for j in range(x.size):
        grad[j] = 0.0
    total = 0.0
    for k in range(params.points.size):
        z, weight = params.points[k], params.weights[k]
        for j in range(x.size):
            point[j] = z * x[j]
        total += weight / z * (evaluate(params.inner, work.inner, point) - params.base)
        for j in range(x.size):
            grad[j] += weight * work.inner.grad[j]
    return total


register_objective(
    BoostedParams, InterpretedBoostedParams, objective_size=_size, objective_carve=_carve, evaluate=_evaluate
)


class Boosted(Objective):
    """F for any f, counted from f(0) where that is finite."""

    f: Objective

    def __init__(self, f: Objective) -> None:
        self.f, self.unit_box, self.compiled, self.finite_at_zero = f, f.unit_box, f.compiled, f.finite_at_zero
        self.uses_blas = f.uses_blas
        base = float(f.value(np.zeros(f.n))) if f.finite_at_zero else 0.0
        points, weights = np.polynomial.legendre.leggauss(POINTS)
        points = 0.5 * (points + 1.0)
        params_class = BoostedParams if f.compiled else InterpretedBoostedParams
        super().__init__(f.n, params_class(f.n, f.params, points, 0.5 * weights * np.exp(points - 1.0), base))

    def __repr__(self) -> str:
        return f"Boosted({self.f!r})"

    @property
    def operations(self) -> float:
        return POINTS * self.f.operations

    def late_value(self, x: ArrayLike) -> float:
        """Of a run whose time was over before it began: nobody reads it, and F costs many values of f."""
        return math.nan

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self.f.dr_submodular_on(upper)

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self.f.monotone_on(upper)


def boosted(f: Objective) -> Objective:
    """F as an objective: a `Quadratic` for a quadratic f with H <= 0."""
    if not isinstance(f.params, QuadraticParams) or (f.params.H > 0.0).any():
        return Boosted(f)
    H, h, _ = f.params
    F = Quadratic(H / math.e, (1.0 - 1.0 / math.e) * h)
    F.unit_box = f.unit_box
    return F
