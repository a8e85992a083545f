"""Quadratic programs in general form, brought to the package's: maximise f over a set with lower bounds 0.

    minimise or maximise 1/2 x'Hx + h'x + c  over  row_lower <= A x <= row_upper, lower <= x <= upper.

A minimisation is turned round by its sign, and x = lower + y moves the lower bounds to 0. The set of the y is
a `Polytope` (or a `Box`) where its rows show that it is down-closed: entries and right-hand sides at
least 0, lower sides that the bounds imply. One equation sum y = total, upper bounds that it implies, and nothing else
are a `Simplex`, whose oracle and projection need no linear program (70 times faster on QPLIB_2712). Otherwise it is a
`GeneralPolytope`; for both the reasons are given entry by entry.
"""

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from drsub_fast._checks import as_vector, entry, first_few
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import NOISE, Quadratic
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.general import GeneralPolytope
from drsub_fast.sets.implied_bounds import implied_bounds
from drsub_fast.sets.polytope import Polytope
from drsub_fast.sets.rows import rows_from_zero
from drsub_fast.sets.simplex import Simplex

#: Variables up to which a Hessian becomes an array (8 MB), and up to which one that is nearly full does (8 GB).
_SMALL, _LARGEST_DENSE = 1000, 32_000


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
    names : tuple of str
        Names of the variables in the source; empty if they have none.
    """

    f: Objective
    P: FeasibleSet
    shift: NDArray[np.float64] | None = None
    minimize: bool = False
    reasons: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def to_original(self, x: ArrayLike) -> NDArray[np.float64]:
        """The point of the source that x stands for, shape (n,)."""
        point = as_vector(x, "x", n=self.f.n)
        return point if self.shift is None else self.shift + point


def _simplex_total(rows):
    """The total of sum y = total where that is all that ``rows`` say, or None."""
    n = rows.upper.size
    if rows.b.size or rows.b_eq.size != 1:
        return None
    row = rows.A_eq.tocoo()
    if row.nnz != n or row.data[0] <= 0.0 or (row.data != row.data[0]).any():
        return None
    total = float(rows.b_eq[0] / row.data[0])
    return total if total >= 0.0 and (rows.upper >= total).all() else None


def set_of_rows(
    A: ArrayLike | csr_array,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    names: tuple[str, ...] = (),
) -> tuple[FeasibleSet, tuple[str, ...]]:
    """{y : row_lower <= A (lower + y) <= row_upper, 0 <= y <= upper - lower}; arguments and errors of `rows_from_zero`.

    Returns
    -------
    P : Box, Polytope, Simplex or GeneralPolytope
    reasons : tuple of str
        Why the set is not known to be down-closed; empty for a `Box` or `Polytope`.
    """
    rows = rows_from_zero(A, row_lower, row_upper, lower, upper, names)
    total = _simplex_total(rows)
    P: FeasibleSet
    if total is not None:
        P = Simplex(rows.upper.size, total)
    elif rows.reasons:
        P = GeneralPolytope(scipy.sparse.csc_array(rows.A), rows.b, rows.A_eq, rows.b_eq, upper=rows.upper)
    elif rows.b.size == 0:
        P = Box(rows.upper)
    else:
        P = Polytope(rows.A, rows.b, rows.upper)
    return P, rows.reasons


def standard_form(
    H: NDArray[np.float64] | csr_array,
    h: NDArray[np.float64],
    c: float,
    A: NDArray[np.float64] | csr_array,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    minimize: bool,
    names: tuple[str, ...] = (),
    require_dr: bool = True,
) -> "Problem":
    """A quadratic program as a `Problem`.

    Parameters
    ----------
    H : ndarray or scipy.sparse matrix, shape (n, n)
        Symmetric.
    h : ndarray, shape (n,)
    c : float
    A, row_lower, row_upper, lower, upper
        As in `set_of_rows`.
    minimize : bool
        Whether the program minimises.
    names : tuple of str
        Names of the variables.
    require_dr : bool, default True
        Whether an entry of H of the wrong sign is refused.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        Where an entry of H has the wrong sign, all of them named (up to five), or for bounds that are missing.
    """
    sign = -1.0 if minimize else 1.0
    entries = scipy.sparse.coo_array(H)
    noise = NOISE * -(sign * entries.data).min(initial=0.0)
    wrong = np.flatnonzero((sign * entries.data > noise) & (entries.row <= entries.col))
    if wrong.size and require_dr:
        wrong = wrong[np.lexsort((entries.col[wrong], entries.row[wrong]))]
        places = zip(entries.row[wrong], entries.col[wrong], entries.data[wrong], strict=True)
        entries = first_few(f"{entry('H', (i, j))} = {value:g}" for i, j, value in places)
        side, task = ("negative", "minimised") if minimize else ("positive", "maximised")
        raise ValueError(
            f"not DR-submodular when {task}, since entries of the Hessian are {side}: {entries}; require_dr=False "
            "accepts any sign"
        )
    lower, upper = implied_bounds(A, row_lower, row_upper, lower, upper, names)
    P, reasons = set_of_rows(A, row_lower, row_upper, lower, upper, names)
    Hl = H @ lower
    H, h, c = _hessian(sign * H), sign * (h + Hl), float(sign * (c + lower @ (h + 0.5 * Hl)))
    f = Quadratic(H, h, c, require_dr=not wrong.size)
    return Problem(f, P, lower if lower.any() else None, minimize, reasons, names)


def _hessian(H):
    """H as an array where it is small or nearly full, so that the faster kernels serve; else sparse."""
    n = H.shape[0]
    small = n <= _SMALL or (n <= _LARGEST_DENSE and scipy.sparse.issparse(H) and H.nnz > 0.1 * n * n)
    return H.toarray() if scipy.sparse.issparse(H) and small else H
