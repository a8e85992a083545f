"""Bounds and linear rows, of SciPy or of a file, as arrays: which rows count, and whether they are down-closed.

    row_lower <= A x <= row_upper, lower <= x <= upper,  with x = lower + y.

The set of the y is down-closed where its rows show it: entries and right-hand sides at least 0, lower sides that the
bounds imply.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import Matrix, MatrixLike, entry, first_few
from drsub_fast.errors import UnsupportedError
from drsub_fast.sets.implied_bounds import implied_bounds, labels


class _Bounds(Protocol):
    """A `scipy.optimize.Bounds`."""

    lb: ArrayLike
    ub: ArrayLike


class _Linear(Protocol):
    """A `scipy.optimize.LinearConstraint`."""

    A: MatrixLike
    lb: ArrayLike
    ub: ArrayLike


#: Bounds and constraints as SciPy takes them.
_Pairs: TypeAlias = Sequence[tuple[float | None, float | None]]
ScipyBounds: TypeAlias = _Bounds | _Pairs | None
ScipyConstraints: TypeAlias = _Linear | Sequence[_Linear] | None

#: Part of a row's magnitude that counts as rounding.
_ROUNDING = 1e-12


class Rows(NamedTuple):
    """{y : A y <= b, A_eq y = b_eq, 0 <= y <= upper}.

    Attributes
    ----------
    A, b : ndarray or sparse matrix, shape (m, n), and ndarray, shape (m,)
        Inequalities that the bounds do not imply.
    A_eq, b_eq : sparse matrix, shape (m_eq, n), and ndarray, shape (m_eq,)
        Equations.
    upper : ndarray, shape (n,)
        Finite.
    reasons : tuple of str
        Why the set is not known to be down-closed, entry by entry; empty if A >= 0, b >= 0 and there is no equation.
    """

    A: NDArray[np.float64]
    b: NDArray[np.float64]
    A_eq: NDArray[np.float64]
    b_eq: NDArray[np.float64]
    upper: NDArray[np.float64]
    reasons: tuple[str, ...]


def _snapped(side, magnitude):
    """A side of the rows, zero where it is rounding."""
    return np.where(np.abs(side) <= _ROUNDING * magnitude, 0.0, side)


def rows_from_zero(
    A: Matrix,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    names: tuple[str, ...] = (),
) -> "Rows":
    """The set of the y = x - lower, as `Rows`.

    Parameters
    ----------
    A : ndarray or scipy.sparse matrix, shape (m, n)
        Rows.
    row_lower, row_upper : ndarray, shape (m,)
        Sides of the rows; infinite where there is none.
    lower, upper : ndarray, shape (n,)
        Bounds, the lower ones finite; infinite upper ones are replaced by what the rows imply.
    names : tuple of str
        Names of the variables for messages; by default x[0], x[1], ..

    Returns
    -------
    Rows
        Dense where A is.

    Raises
    ------
    ValueError
        For bounds that are missing or cross, or a row that no point within the bounds satisfies.
    """
    missing = np.flatnonzero(~np.isfinite(lower))
    if missing.size:
        raise ValueError(f"no lower bound on {first_few(map(labels(names), missing))}: the set must be bounded below")
    rows = scipy.sparse.csr_array(A, dtype=np.float64)
    _, upper = implied_bounds(rows, row_lower, row_upper, lower, upper, names)
    start = rows @ lower
    magnitude = np.abs(rows) @ np.abs(lower)
    with np.errstate(invalid="ignore"):
        high = _snapped(row_upper - start, magnitude + np.where(np.isfinite(row_upper), np.abs(row_upper), 0.0))
        low = _snapped(row_lower - start, magnitude + np.where(np.isfinite(row_lower), np.abs(row_lower), 0.0))
    width = upper - lower
    # Sides that the bounds imply say nothing.
    least, most = rows.minimum(0.0) @ width, rows.maximum(0.0) @ width
    slack = _ROUNDING * (np.abs(rows) @ width)
    impossible = np.flatnonzero((high < least - slack) | (low > most + slack))
    if impossible.size:
        raise ValueError(f"the set is empty: {first_few(f'row {i}' for i in impossible)} cannot hold within the bounds")
    has_negative = rows.minimum(0.0).sum(axis=1) < 0.0
    has_positive = rows.maximum(0.0).sum(axis=1) > 0.0
    from_above = np.isfinite(high) & (~has_negative | (high < most - slack))
    from_below = low > least + slack
    reasons = _reasons(rows, high, low, from_above, from_below, has_negative, has_positive)
    equal = from_above & from_below & (low >= high)
    above, below = from_above & ~equal, from_below & ~equal
    sides = scipy.sparse.vstack([rows[above], -rows[below]], format="csc")
    return Rows(
        sides if scipy.sparse.issparse(A) else sides.toarray(), np.concatenate([high[above], -low[below]]),
        rows[equal].tocsc(), high[equal], width, reasons,
    )  # fmt: skip


def _reasons(rows, high, low, from_above, from_below, has_negative, has_positive):
    """Why {0 <= y, rows y <= high where from_above, rows y >= low where from_below} may not be down-closed."""
    equal = from_above & from_below & (low >= high)
    reasons = [f"row {i} is an equation" for i in np.flatnonzero(equal)]
    upper_side, lower_side = from_above & ~equal, from_below & ~equal
    for i in np.flatnonzero(upper_side & has_negative):
        row = rows[[i]].tocoo()
        reasons += [
            f"{entry('A', (i, j))} = {a:g} is negative" for j, a in zip(row.col, row.data, strict=True) if a < 0
        ]
    reasons += [f"row {i} excludes the lower bounds: its room is {high[i]:g}" for i in np.flatnonzero(high < 0.0)]
    # A lower side is harmless where the row is the negative of a row without negative entries.
    for i in np.flatnonzero(lower_side & (has_positive | (low > 0.0))):
        reasons.append(f"row {i} has a lower side, {low[i]:g} above its value at the lower bounds")
    return tuple(reasons)


def bounds_from_scipy(bounds: ScipyBounds, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(lower, upper), shape (n,): from `Bounds` or pairs (low, high) with None for none."""
    if bounds is None:
        return np.full(n, -np.inf), np.full(n, np.inf)
    if isinstance(bounds, scipy.optimize.Bounds):
        lower, upper = (np.array(np.broadcast_to(side, n), np.float64) for side in (bounds.lb, bounds.ub))
        return lower, upper
    if isinstance(bounds, scipy.optimize.LinearConstraint):
        raise TypeError("a LinearConstraint stands where the bounds are expected, which come before the constraints")
    pairs = list(cast(_Pairs, bounds))
    if len(pairs) != n or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"bounds must be {n} pairs (low, high), or scipy.optimize.Bounds")
    return np.array([-np.inf if low is None else float(low) for low, _ in pairs]), np.array(
        [np.inf if high is None else float(high) for _, high in pairs]
    )


def rows_from_scipy(constraints: ScipyConstraints, n: int) -> tuple[Matrix, NDArray[np.float64], NDArray[np.float64]]:
    """(A, row_lower, row_upper) of one or several linear constraints."""
    given = () if constraints is None else constraints
    several = given if isinstance(given, (list, tuple)) else (given,)
    blocks, lower, upper = [], [], []
    for constraint in several:
        if not isinstance(constraint, scipy.optimize.LinearConstraint):
            raise UnsupportedError(f"a {type(constraint).__name__} is not a scipy.optimize.LinearConstraint")
        A = constraint.A if scipy.sparse.issparse(constraint.A) else np.atleast_2d(constraint.A)
        if A.shape[1] != n:
            raise ValueError(f"a LinearConstraint has {A.shape[1]} columns, expected {n}")
        values = A.data if scipy.sparse.issparse(A) else A
        if not np.isfinite(values).all():
            raise ValueError("a LinearConstraint has an entry that is not finite")
        blocks.append(A)
        lower.append(np.broadcast_to(constraint.lb, A.shape[0]))
        upper.append(np.broadcast_to(constraint.ub, A.shape[0]))
    if not blocks:
        return np.zeros((0, n)), np.zeros(0), np.zeros(0)
    sparse = any(map(scipy.sparse.issparse, blocks))
    A = scipy.sparse.vstack(blocks, format="csr") if sparse else np.vstack(blocks)
    return A, np.concatenate(lower).astype(np.float64), np.concatenate(upper).astype(np.float64)


def variables_in_scipy(bounds: ScipyBounds, constraints: ScipyConstraints) -> int:
    """Number of variables of bounds and constraints, whichever tell it."""
    for constraint in constraints if isinstance(constraints, (list, tuple)) else (constraints,):
        if isinstance(constraint, scipy.optimize.LinearConstraint):
            return (
                constraint.A.shape[1] if scipy.sparse.issparse(constraint.A) else np.atleast_2d(constraint.A).shape[1]
            )
    if isinstance(bounds, scipy.optimize.LinearConstraint):
        raise TypeError("a LinearConstraint stands where the bounds are expected, which come before the constraints")
    if isinstance(bounds, scipy.optimize.Bounds):
        return max(np.size(bounds.lb), np.size(bounds.ub))
    if bounds is None:
        raise ValueError("give bounds or a LinearConstraint: they tell the number of variables")
    return len(cast(_Pairs, bounds))
