"""The rungs of quadratics: their doubly non-negative relaxation, by an interior point and by a first-order method.

Both take quadratics of any sign over any set of finitely many rows. The interior point ends within 1e-7 of the
relaxation's value after about a dozen steps of n^6 / 24 operations: first choice for a dozen variables. The first-order
method has a bound after a few of its steps, of n^3 operations.
"""

import copy
import math
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import (
    FactoredQuadraticParams,
    Quadratic,
    QuadraticParams,
    SparseQuadraticParams,
)
from drsub_fast.proofs.doubly_nonnegative import interior_point_bounds
from drsub_fast.proofs.first_order import EVERY, multipliers
from drsub_fast.proofs.program import magnitude, quadratic_program, unit_form
from drsub_fast.proofs.rungs import CALL, Problem
from drsub_fast.proofs.safe_bound import relaxation, safe_bound

#: Variables up to which the interior point comes first.
_INTERIOR_UP_TO = 20
#: Variables up to which the matrix of a sparse quadratic is made dense: the relaxation is dense anyway.
_DENSE_UP_TO = 500
#: Relative gap of the interior point.
_INTERIOR_GAP = 1e-7
#: Calls of numpy before its first step, two linear programs among them, and in a step with its share of a certificate;
#: operations of a product of matrices that take as long as one elsewhere. Milliseconds of a step at n = 8, 12, 16, 20:
#: 0.13, 0.20, 0.39, 1.0, as counted.
_PREPARE, _STEP, _FAST = 280, 60, 8
#: Steps without which it is not begun, since its first bounds are poor: they are paid beforehand.
_FEWEST = 8
#: Most bounds, and how near to the relaxation's value the last one is, relative.
_BOUNDS, _CLOSE = 400, 1e-6


def dense(f: Objective) -> Quadratic | None:
    """A quadratic with its matrix as an array: f, or the twin of a sparse f of some hundreds of variables, or None."""
    if not isinstance(f, Quadratic):
        return None
    if isinstance(f.params, SparseQuadraticParams) and f.n <= _DENSE_UP_TO:
        return dense_twin(f)
    return f if isinstance(f.params, QuadraticParams) else None


def dense_twin(f: Quadratic) -> Quadratic:
    """The quadratic with its matrix as an array."""
    twin = Quadratic(f.hessian(), f.h, c=f.c, require_dr=False)
    twin.unit_box = f.unit_box
    return twin


#: Terms between these sizes are left in their units.
_SMALL, _LARGE = 1e-90, 1e90


def in_units(f: Objective, reach: NDArray[np.float64]) -> tuple[Objective, float]:
    """(f / unit, unit) for a quadratic whose terms where |x| <= reach are so small or large that their squares are not.

    The unit is a power of four. Other objectives are returned as they are, with the unit 1.
    """
    params = f.params
    if not isinstance(params, (QuadraticParams, SparseQuadraticParams, FactoredQuadraticParams)):
        return f, 1.0
    with np.errstate(all="ignore"):
        if isinstance(params, FactoredQuadraticParams):
            sums = params.B @ (params.B.T @ reach) + params.d * reach
        elif isinstance(params, QuadraticParams):
            sums = np.abs(params.H) @ reach
        elif isinstance(f, Quadratic):
            sums = abs(f.H) @ reach
        else:
            return f, 1.0
        size = max(float((reach * sums).max(initial=0.0)), float((reach * np.abs(params.h)).max(initial=0.0)))
        if _SMALL <= size <= _LARGE or not 0.0 < size < math.inf:
            return f, 1.0
        root = 2.0 ** (math.frexp(size)[1] // 2)
        unit = root * root
        parts = {"H": unit, "data": unit, "diagonal": unit, "d": unit, "h": unit, "c": unit, "B": root}
        changes = {name: getattr(params, name) / part for name, part in parts.items() if name in params._fields}
    twin = copy.copy(f)
    twin._params = params._replace(**changes)
    return twin, unit


def _program(problem):
    """The problem as a quadratic program, or None."""
    f = dense(problem.f)
    if f is None:
        return None
    try:
        return quadratic_program(f, problem.P)
    except UnsupportedError:
        return None


def interior_price(n: int, n_rows: int) -> float:
    """Operations of a step of the interior point for n variables and so many rows, bounds among them."""
    pairs = (n + 1) * (n + 2) / 2
    return _STEP * CALL + 14 * pairs**2 + (pairs**3 / 3 + 2 * n_rows * pairs * (n_rows + pairs)) / _FAST


def interior_point_steps(problem: Problem, most: int = _INTERIOR_UP_TO) -> Generator[Any, None, None]:
    """The rung of quadratics of at ``most`` so many variables: steps to the relaxation's value."""
    program = _program(problem)
    if program is None or problem.f.n > most:
        return
    price = interior_price(problem.f.n, 2 * problem.f.n + 1 + len(program.A))
    yield math.inf, _PREPARE * CALL + _FEWEST * price, _PREPARE * CALL
    form = unit_form(program, program.lower, program.upper)
    scale = magnitude(program)
    if form is None:
        return
    constant = problem.f.params.c + form.constant
    if scale == 0.0 or len(form.free) == 0:
        yield constant, 0
        return
    data = relaxation(form)
    yield constant + data.linear, 0, price
    for step, bound in enumerate(interior_point_bounds(data, scale, _INTERIOR_GAP), 1):
        yield constant + bound, price if step >= _FEWEST else 0, price


def first_order_steps(problem: Problem, close: float = _CLOSE) -> Generator[Any, None, None]:
    """The rung of quadratics of any number of variables: to within ``close`` of the relaxation's value, relative."""
    f, program = problem.f, _program(problem)
    if program is None:
        return
    N, L = f.n + 1, 2 * f.n + 1 + len(program.A)
    yield math.inf, 4 * N**2 * L + 50 * CALL
    form = unit_form(program, program.lower, program.upper)
    if form is None:
        return
    constant = f.params.c + form.constant
    if len(form.free) == 0:
        yield constant, 0
        return
    data = relaxation(form)
    # A step is an eigendecomposition, four products of matrices of order N and the lift to all products of rows.
    price = EVERY * (18 * N**3 + 4 * N * L**2 + 40 * CALL) + 20 * N**3 + 4 * N * L**2
    yield constant + data.linear, price, price / EVERY
    best = data.linear
    for count, progress in enumerate(multipliers(data)):
        best = min(best, safe_bound(data, progress.W).bound)
        yield constant + best, price, price / EVERY
        near = max(progress.residual, best - progress.objective)
        if near <= close * max(np.abs(constant + best), 1e-3 * np.abs(form.h).max(initial=0.0)) or count >= _BOUNDS:
            return
