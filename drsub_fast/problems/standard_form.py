"""Quadratic programs in general form, brought to the package's: maximise f over a set with lower bounds 0.

    minimise or maximise 1/2 x'Hx + h'x + c  over  row_lower <= A x <= row_upper, lower <= x <= upper.

A minimisation is turned round by its sign, and x = lower + y moves the lower bounds to 0. The set of the y is
a `Polytope` (or a `Box`) where its rows show that it is down-closed: entries and right-hand sides at
least 0, lower sides that the bounds imply. Otherwise it is a `GeneralPolytope`, with the reasons entry by entry.
"""

from typing import NamedTuple

import numpy as np
import scipy

from drsub_fast._checks import as_vector, entry
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.general import GeneralPolytope
from drsub_fast.sets.polytope import Polytope

#: Entries that a message names.
_NAMED = 5
#: Part of a row's magnitude that counts as rounding.
_ROUNDING = 1e-12


class Problem(NamedTuple):
    """Maximise f over P, and the way back to the coordinates of the source.

    Attributes
    ----------
    f : Objective
    P : FeasibleSet
    shift : ndarray, shape (n,), or None
        The lower bounds that were moved to 0; None for zeros.
    minimize : bool
        Whether the source minimises -f.
    reasons : tuple of str
        Why the set is not known to be down-closed, entry by entry; empty if it is.
    """

    f: Objective
    P: FeasibleSet
    shift: np.ndarray | None = None
    minimize: bool = False
    reasons: tuple = ()

    def to_original(self, x):
        """The point of the source that x stands for, shape (n,)."""
        x = as_vector(x, "x", n=self.f.n)
        return x if self.shift is None else self.shift + x


def listed(items):
    """The first few of several texts."""
    items = list(items)
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more


def _require_finite_bounds(lower, upper):
    bad = np.flatnonzero(~np.isfinite(lower))
    if bad.size:
        names = listed(f"x[{j}]" for j in bad)
        raise ValueError(f"no lower bound on {names}: the set must be bounded below")
    crossed = np.flatnonzero(upper < lower)
    if crossed.size:
        j = int(crossed[0])
        raise ValueError(f"the bounds of x[{j}] cross: {lower[j]:g} > {upper[j]:g}")


def _implied_width(rows, room, width):
    """Widths, tightened by the rows without negative entries where they are infinite."""
    infinite = ~np.isfinite(width)
    if not infinite.any():
        return width
    smallest = rows.min(axis=1).toarray().ravel() if rows.shape[0] else np.zeros(0)
    usable = (smallest >= 0.0) & np.isfinite(room)
    dense = rows[usable].toarray()
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratios = np.where(dense > 0.0, np.maximum(room[usable], 0.0)[:, None] / dense, np.inf)
    width = np.where(infinite, np.minimum(width, ratios.min(axis=0, initial=np.inf)), width)
    open_ended = np.flatnonzero(~np.isfinite(width))
    if open_ended.size:
        names = listed(f"x[{j}]" for j in open_ended)
        raise ValueError(f"no upper bound on {names}, and no row implies one: give upper bounds")
    return width


def _snapped(side, magnitude):
    """A side of the rows, zero where it is rounding."""
    return np.where(np.abs(side) <= _ROUNDING * magnitude, 0.0, side)


def set_of_rows(A, row_lower, row_upper, lower, upper):
    """{y : row_lower <= A (lower + y) <= row_upper, 0 <= y <= upper - lower}, down-closed where its rows show it.

    Parameters
    ----------
    A : ndarray or scipy.sparse matrix, shape (m, n)
        Rows.
    row_lower, row_upper : ndarray, shape (m,)
        Sides of the rows; infinite where there is none.
    lower, upper : ndarray, shape (n,)
        Bounds; the upper ones may be infinite where rows without negative entries imply them.

    Returns
    -------
    P : Box, Polytope or GeneralPolytope
    reasons : tuple of str
        Why the set is not known to be down-closed; empty for a `Box` or `Polytope`.

    Raises
    ------
    ValueError
        For bounds that are missing or cross, or an empty set.
    """
    _require_finite_bounds(lower, upper)
    rows = scipy.sparse.csr_array(A, dtype=np.float64)
    start = rows @ lower
    magnitude = np.abs(rows) @ np.abs(lower)
    with np.errstate(invalid="ignore"):
        high = _snapped(row_upper - start, magnitude + np.where(np.isfinite(row_upper), np.abs(row_upper), 0.0))
        low = _snapped(row_lower - start, magnitude + np.where(np.isfinite(row_lower), np.abs(row_lower), 0.0))
    width = _implied_width(rows, high, upper - lower)
    # Sides that the bounds imply say nothing.
    least, most = rows.minimum(0.0) @ width, rows.maximum(0.0) @ width
    slack = _ROUNDING * (np.abs(rows) @ width)
    has_negative = rows.minimum(0.0).sum(axis=1) < 0.0
    has_positive = rows.maximum(0.0).sum(axis=1) > 0.0
    from_above = np.isfinite(high) & (~has_negative | (high < most - slack))
    from_below = low > least + slack
    reasons = _reasons(rows, high, low, from_above, from_below, has_negative, has_positive)
    if not reasons:
        matrix = scipy.sparse.vstack([rows[from_above], -rows[from_below]])
        if matrix.shape[0] == 0:
            return Box(width), ()
        matrix = matrix if scipy.sparse.issparse(A) else matrix.toarray()
        return Polytope(matrix, np.concatenate([high[from_above], -low[from_below]]), width), ()
    equal = from_above & from_below & (low >= high)
    above, below = from_above & ~equal, from_below & ~equal
    P = GeneralPolytope(
        scipy.sparse.vstack([rows[above], -rows[below]], format="csc"), np.concatenate([high[above], -low[below]]),
        rows[equal].tocsc(), high[equal], upper=width,
    )  # fmt: skip
    return P, reasons


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


def standard_form(H, h, c, A, row_lower, row_upper, lower, upper, minimize):
    """A quadratic program as a `Problem`.

    Parameters
    ----------
    H : ndarray, shape (n, n)
        Symmetric.
    h : ndarray, shape (n,)
    c : float
    A, row_lower, row_upper, lower, upper
        As in `set_of_rows`.
    minimize : bool
        Whether the program minimises.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        Where an entry of H has the wrong sign, all of them named (up to five), or for bounds that are missing.
    """
    wrong = np.argwhere(np.triu(-H if minimize else H) > 0.0)
    if wrong.size:
        entries = listed(f"{entry('H', where)} = {H[where]:g}" for where in map(tuple, wrong.tolist()))
        side, task = ("negative", "minimised") if minimize else ("positive", "maximised")
        raise ValueError(f"not DR-submodular when {task}, since entries of the Hessian are {side}: {entries}")
    P, reasons = set_of_rows(A, row_lower, row_upper, lower, upper)
    sign = -1.0 if minimize else 1.0
    Hl = H @ lower
    f = Quadratic(sign * H, sign * (h + Hl), sign * (c + lower @ (h + 0.5 * Hl)))
    return Problem(f, P, lower if lower.any() else None, minimize, reasons)
