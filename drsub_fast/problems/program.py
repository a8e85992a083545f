"""A quadratic program as files hold it, before it is brought to the package's form or after it has left it."""

from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.problems.lines import INFINITY
from drsub_fast.problems.standard_form import Problem
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.general import GeneralPolytope
from drsub_fast.sets.polytope import Polytope
from drsub_fast.sets.simplex import Simplex


class Program(NamedTuple):
    """Minimise or maximise 1/2 x'Hx + h'x + c over row_lower <= A x <= row_upper, lower <= x <= upper.

    H and A are sparse, of shapes (n, n) and (m, n); sides and bounds may be infinite; ``names`` are those of the
    variables, a tuple of n texts.
    """

    H: scipy.sparse.csr_array
    h: NDArray[np.float64]
    c: float
    A: scipy.sparse.csr_array
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    minimize: bool
    names: tuple[str, ...]


def default_names(n: int) -> tuple[str, ...]:
    """Names of variables that have none."""
    return tuple(f"x{j}" for j in range(n))


def rows_of(P: FeasibleSet) -> tuple[Any, NDArray[np.float64], Any, NDArray[np.float64]] | None:
    """(A, b, A_eq, b_eq) of {x : A x <= b, A_eq x = b_eq, P.lower <= x <= P.upper}; None where P does not say them."""
    none = scipy.sparse.csr_array((0, P.n)), np.zeros(0)
    if isinstance(P, Box):
        return *none, *none
    if isinstance(P, Polytope):
        return P.A, P.b, *none
    if isinstance(P, GeneralPolytope):
        return P.A, P.b, P.A_eq, P.b_eq
    return None


def _require_below_infinity(limits):
    """Readers take numbers from 1e20 on for infinite."""
    if np.abs(limits).max(initial=0.0) >= INFINITY:
        raise ValueError(
            f"a bound or right-hand side of {INFINITY:g} or more counts as infinite in such a file: rescale x"
        )


def program_of(problem: Problem) -> Program:
    """The `Program` of a problem with a quadratic over bounds and rows, in the coordinates of its source.

    Raises
    ------
    UnsupportedError
        For another kind of objective or set.
    """
    f, P = problem.f, problem.P
    rows = rows_of(P)
    if isinstance(P, Simplex):
        rows = np.zeros((0, P.n)), np.zeros(0), np.ones((1, P.n)), np.array([P.total])
    if not isinstance(f, Quadratic) or (f.unit_box and P.upper.max() > 1.0) or rows is None:
        raise UnsupportedError(
            f".mps, .lp and .qplib files hold quadratics over boxes and polytopes, not {f!r} over {P!r}"
        )
    A, b, A_eq, b_eq = rows
    sparse = scipy.sparse.csr_array(scipy.sparse.vstack([scipy.sparse.csr_array(A), scipy.sparse.csr_array(A_eq)]))
    sides = np.concatenate([b, b_eq])
    lower = np.array(P.lower) if isinstance(P, GeneralPolytope) else np.zeros(P.n)
    upper = np.array(P.upper)
    H, h, c = scipy.sparse.csr_array(f.H if f.factor is None else f.hessian()), np.array(f.h), f.c
    if problem.shift is not None:  # f(x) = g(shift + x)
        shift = problem.shift
        Hs = H @ shift
        h, c = h - Hs, c - h @ shift + 0.5 * (shift @ Hs)
        sides, lower, upper = sides + sparse @ shift, lower + shift, upper + shift
    if problem.minimize:
        H, h, c = -H, -h, -c
    row_lower = np.where(np.arange(sides.size) < b.size, -np.inf, sides)
    _require_below_infinity(np.concatenate([sides, lower, upper]))
    names = problem.names or default_names(f.n)
    return Program(H, h, float(c), sparse, row_lower, sides, lower, upper, problem.minimize, tuple(names))
