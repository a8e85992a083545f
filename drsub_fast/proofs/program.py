"""Quadratic programs as arrays, and their nodes brought to the unit box.

    max 1/2 x'Hx + h'x   over   {x : A x <= b, A_eq x = b_eq, lower <= x <= upper},

H symmetric of any sign, rows of any sign. A node is a box [lower, upper] cut with that set. With
x = lower + width * y and z = (1, y) it becomes

    max constant + 1/2 y'Hy + h'y   over   {y : rows z >= 0, equations z = 0, 0 <= y <= 1},

where the box is first made smaller by what each row leaves to a variable when all others are where the row has
most room (over a down-closed set that is the exact range). Rows are divided by their largest entry; rows that the unit
box implies are left out, and 1 - y_j >= 0 is a row of its own where no other row implies it.
"""

from collections import namedtuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.general import GeneralPolytope
from drsub_fast.sets.knapsack import DisjointKnapsacks
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.domain import solver_upper

#: max 1/2 x'Hx + h'x over {A x <= b, A_eq x = b_eq, lower <= x <= upper}; all arrays dense.
QuadraticProgram = namedtuple("QuadraticProgram", "H h A b upper A_eq b_eq lower")

#: A node in unit-box form: f <= constant + 1/2 y'Hy + h'y at x = lower, but x[free] = lower[free] + width * y. With
#: z = (1, y), ``rows`` z >= 0 and ``equations`` z = 0, the latter up to ``slack``, which covers the rounding of
#: their constants.
UnitForm = namedtuple("UnitForm", "constant H h rows equations slack lower free width")

_EPS = 2.0**-52
#: A variable whose range is narrower than this part of its size counts as fixed; what that changes is allowed for.
_NARROW = 1e-13


def _dense(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


def constraint_rows(P: FeasibleSet) -> tuple[NDArray[np.float64], ...]:
    """Dense (A, b, A_eq, b_eq, lower) with P = {x : A x <= b, A_eq x = b_eq, lower <= x <= P.upper}."""
    none, zero = (np.zeros((0, P.n)), np.zeros(0)), np.zeros(P.n)
    if isinstance(P, Polytope):
        return _dense(P.A), P.b, *none, zero
    if isinstance(P, Box):
        return *none, *none, zero
    if isinstance(P, GeneralPolytope):
        return _dense(P.A), P.b, _dense(P.A_eq), P.b_eq, np.array(P.lower)
    if isinstance(P, DisjointKnapsacks):
        rows = np.where(P.groups == np.arange(P.capacities.size)[:, None], P.weights, 0.0), P.capacities
        return (*rows, *none, zero) if P.is_down_closed else (*none, *rows, zero)
    raise UnsupportedError(
        f"no bound by products of rows over {P!r}: that needs a set of finitely many rows, such as Polytope, "
        "GeneralPolytope, Box, Budget, Knapsack, PartitionMatroid, MatchingPolytope or Simplex; use maximize(f, P) for "
        "a local maximum"
    )


def quadratic_program(f: Objective, P: FeasibleSet) -> QuadraticProgram:
    """The problem max f - c over P as arrays, for a quadratic f (cuts and prices included) and any set with rows."""
    A, b, A_eq, b_eq, lower = constraint_rows(P)
    H, h = (f.hessian(), f.h) if isinstance(f, Quadratic) else f.params[:2]
    return QuadraticProgram(_dense(H), h, A, b, np.array(solver_upper(f, P)), A_eq, b_eq, lower)


def magnitude(program: QuadraticProgram) -> float:
    """The largest term of the objective over the box: the size that values near zero are compared with."""
    most = np.maximum(np.abs(program.lower), np.abs(program.upper))
    return max(np.abs(program.h * most).max(), 0.5 * np.abs(program.H * np.outer(most, most)).max())


def smaller_box(
    A: NDArray[np.float64], b: NDArray[np.float64], lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The box that the rows A x <= b leave of [lower, upper], or None if none is left."""
    up, down = np.maximum(A, 0.0), np.minimum(A, 0.0)
    rounding = 8 * _EPS * len(lower) * (up @ np.abs(lower) - down @ np.abs(upper))
    slack = b - up @ lower - down @ upper + rounding
    if (slack < 0.0).any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(A != 0.0, slack[:, None] / np.abs(A), np.inf)
    above = np.where(A > 0.0, reach, np.inf).min(axis=0, initial=np.inf)
    below = np.where(A < 0.0, reach, np.inf).min(axis=0, initial=np.inf)
    lower, upper = np.maximum(lower, upper - below), np.minimum(upper, lower + above)
    return None if (upper < lower - 8 * _EPS * np.abs(lower)).any() else (lower, np.maximum(upper, lower))


def _unit_rows(A, b, lower, free, width, fixed):
    """Rows (d, -a) of {A x <= b} in y, divided by their largest entry, and the rounding of d.

    ``fixed`` (n,) is the width of the variables that count as fixed, 0 for the others.
    """
    terms = np.abs(b) + np.abs(A) @ np.abs(lower)
    left = b - A @ lower
    rows = np.column_stack([left, -A[:, free] * width])
    scale = np.abs(rows).max(axis=1, initial=0.0)
    scale[scale == 0.0] = 1.0
    slack = np.abs(A) @ fixed
    if lower.any():
        slack = slack + 4 * _EPS * len(lower) * terms
    return rows / scale[:, None], slack / scale


def unit_form(program: QuadraticProgram, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> UnitForm | None:
    """The node [lower, upper] in unit-box form, or None if it is empty."""
    A = np.vstack([program.A, program.A_eq, -program.A_eq])
    box = smaller_box(A, np.concatenate([program.b, program.b_eq, -program.b_eq]), lower, upper)
    if box is None:
        return None
    lower, upper = box
    H, h = program.H, program.h
    moves = upper - lower > _NARROW * (np.abs(lower) + np.abs(upper))
    free = np.flatnonzero(moves)
    width, fixed = (upper - lower)[free], np.where(moves, 0.0, upper - lower)
    rows, slack = _unit_rows(program.A, program.b, lower, free, width, fixed)
    rows[:, 0] += slack
    rows = rows[rows[:, 0] + np.minimum(rows[:, 1:], 0.0).sum(axis=1) < 0.0]
    equations, slack = _unit_rows(program.A_eq, program.b_eq, lower, free, width, fixed)
    used = (equations[:, 1:] != 0.0).any(axis=1)
    equations, slack = equations[used], slack[used]
    loose = np.ones(len(free), bool)
    for side in (rows, equations):
        # A row d - a'y with a >= 0 implies y_j <= 1 where a_j = d.
        plain = side[(side[:, 1:] <= 0.0).all(axis=1)]
        loose &= ~(-plain[:, 1:] >= plain[:, :1] * (1.0 - 1e-12)).any(axis=0)
    extra = np.eye(len(free))[loose]
    Hx = H @ lower
    most = np.maximum(np.abs(lower), np.abs(upper))
    rounding = fixed @ (np.abs(h) + np.abs(H) @ most)
    if lower.any():
        slopes = np.abs(h) + np.abs(H) @ np.abs(lower)
        rounding += 4 * _EPS * len(lower) * (np.abs(lower) @ slopes + width @ slopes[free])
    constant = float(lower @ (0.5 * Hx + h) + rounding)
    return UnitForm(
        constant, H[np.ix_(free, free)] * np.outer(width, width), (h + Hx)[free] * width,
        np.vstack([rows, np.column_stack([np.ones(len(extra)), -extra])]), equations, slack, lower, free, width,
    )  # fmt: skip


def interval_bound(form: UnitForm) -> float:
    """Largest value term by term: crude, but finite without any arithmetic that could fail."""
    return form.constant + np.maximum(form.h, 0.0).sum() + 0.5 * np.maximum(form.H, 0.0).sum()
