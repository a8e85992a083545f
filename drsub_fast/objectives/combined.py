"""Sums of objectives with weights: f + g, c * f for c >= 0.

Diminishing returns, signs, monotonicity and concavity are kept by sums with weights >= 0: a sum has the properties that
all its parts have. Plain quadratics are added to one. The parameters of a sum are those of its first two summands, the
first of which may be a sum itself; so a kernel of a sum is compiled from those of its parts.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast._checks import as_real
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.objectives.base import (
    COMBINE,
    Objective,
    evaluate,
    hessian_product,
    objective_carve,
    objective_size,
    register_objective,
)
from drsub_fast.objectives.quadratic import Quadratic

#: ``scale`` times the first part, plus the second times ``other_scale``.
SumParams = namedtuple("SumParams", "n scale first other_scale second")
SumWork = namedtuple("SumWork", "grad trial first second")


class InterpretedSumParams(SumParams):
    """The same where a part calls Python."""

    __slots__ = ()
    interpreted = True


@kernel
def _size(params):
    floats, integers = objective_size(params.first)
    other_floats, other_integers = objective_size(params.second)
    return 2 * params.n + floats + other_floats, integers + other_integers


@kernel(memory=True)
def _carve(params, floats, integers):
    n = params.n
    n_floats, n_integers = objective_size(params.first)
    grad, trial = split(floats, n, n)
    first = objective_carve(params.first, floats[2 * n : 2 * n + n_floats], integers[:n_integers])
    second = objective_carve(params.second, floats[2 * n + n_floats :], integers[n_integers:])
    return SumWork(grad, trial, first, second)


@kernel
def _evaluate(params, work, x):
    value = evaluate(params.first, work.first, x)
    other = evaluate(params.second, work.second, x)
    for j in range(x.size):
        work.grad[j] = params.scale * work.first.grad[j] + params.other_scale * work.second.grad[j]
    return params.scale * value + params.other_scale * other


@kernel
def _hessian_product(params, work, x, d, out):
    code = hessian_product(params.first, work.first, x, d, out)
    if code == 0:
        return 0
    for j in range(x.size):
        work.trial[j] = params.scale * out[j]
    other = hessian_product(params.second, work.second, x, d, out)
    for j in range(x.size):
        out[j] = work.trial[j] + params.other_scale * out[j]
    return min(code, other)


register_objective(
    SumParams, InterpretedSumParams, objective_size=_size, objective_carve=_carve, evaluate=_evaluate,
    hessian_product=_hessian_product,
)  # fmt: skip


def _is_plain(f):
    """Whether f is a quadratic by its matrix, so that a multiple or sum is another one."""
    return type(f) is Quadratic and f.factor is None


class Sum(Objective):
    """A sum of objectives with weights >= 0, as `f + g` and `c * f` make it.

    Attributes
    ----------
    parts : tuple of Objective
        The summands, none of them a sum.
    weights : tuple of float
        Their weights, at least 0.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0]) + 0.5 * ds.Softmax([[2.0, 0.5], [0.5, 1.5]])
    >>> f, round(f.value([1.0, 0.5]), 4), ds.maximize(f, ds.Box([1.0, 1.0])).success
    (Quadratic(n=2) + 0.5 * Softmax(n=2), 0.9325, True)
    """

    def __init__(self, parts: tuple[Objective, ...], weights: tuple[float, ...]) -> None:
        self.parts, self.weights = parts, weights
        self.compiled = all(f.compiled for f in parts)
        self.unit_box, self.uses_blas = any(f.unit_box for f in parts), any(f.uses_blas for f in parts)
        self.finite_at_zero = all(f.finite_at_zero for f in parts)
        self.declared = frozenset().union(*(f.declared for f in parts))
        made = SumParams if self.compiled else InterpretedSumParams
        params, scale = parts[0].params, weights[0]
        rest = list(zip(parts[1:], weights[1:], strict=True)) or [(parts[0], 0.0)]
        for f, weight in rest:
            params, scale = made(parts[0].n, scale, params, weight, f.params), 1.0
        super().__init__(parts[0].n, params)

    def __repr__(self) -> str:
        terms = zip(self.weights, self.parts, strict=True)
        return " + ".join(f"{f!r}" if weight == 1.0 else f"{weight:g} * {f!r}" for weight, f in terms)

    def _all(self, name: str, upper: NDArray[np.float64]) -> bool | None:
        known = [getattr(f, name)(upper) for f in self.parts]
        return True if all(known) else known[0] if len(known) == 1 else None

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._all("dr_submodular_on", upper)

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._all("nonnegative_on", upper)

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._all("monotone_on", upper)

    def concave_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._all("concave_on", upper)

    def _total(self, name: str, upper: NDArray[np.float64]) -> Any:
        found = [getattr(f, name)(upper) for f in self.parts]
        if any(each is None for each in found):
            return None
        return sum(weight * each for weight, each in zip(self.weights, found, strict=True))

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        return self._total("curvature_bound", upper)

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return self._total("curvature_matrix", upper)

    def smoothness_on(self, upper: NDArray[np.float64]) -> float | None:
        return self._total("smoothness_on", upper)

    def strong_dr_on(self, upper: NDArray[np.float64]) -> float | None:
        return self._total("strong_dr_on", upper)


def _terms(f, weight):
    """(part, weight) of an objective times a weight."""
    if isinstance(f, Sum):
        return [term for part, own in zip(f.parts, f.weights, strict=True) for term in _terms(part, weight * own)]
    return [(Quadratic(weight * f.H, weight * f.h, weight * f.c), 1.0) if _is_plain(f) else (f, weight)]


@np.errstate(over="ignore")  # the quadratic names the entry that is not finite
def combined(*terms: tuple[Objective, float]) -> Objective:
    """The sum of objectives with weights: plain quadratics are added up, what has the weight 0 is left out."""
    pairs = [pair for f, weight in terms if weight > 0.0 for pair in _terms(f, weight)]
    plain = [f for f, _ in pairs if _is_plain(f)]
    if not pairs:
        n = terms[0][0].n
        plain = [Quadratic(np.zeros((n, n)), np.zeros(n))]
    rest = [(f, weight) for f, weight in pairs if not _is_plain(f)]
    if len(plain) > 1:
        plain = [Quadratic(sum(f.H for f in plain), sum(f.h for f in plain), sum(f.c for f in plain))]
    kept = [*((f, 1.0) for f in plain), *rest]
    if len(kept) == 1 and kept[0][1] == 1.0:
        return kept[0][0]
    return Sum(*(tuple(column) for column in zip(*kept, strict=True)))


def _add(f, g):
    if not isinstance(g, Objective):
        return NotImplemented
    if f.n != g.n:
        raise ValueError(f"objectives of {f.n} and {g.n} variables cannot be added")
    return combined((f, 1.0), (g, 1.0))


def _multiply(f, factor):
    if isinstance(factor, Objective):
        return NotImplemented
    factor = as_real(factor, "the factor of an objective")
    if factor < 0.0:
        raise ValueError(f"the factor {factor:g} is negative: diminishing returns hold for factors of at least 0")
    return combined((f, factor))


COMBINE.update(add=_add, multiply=_multiply)
