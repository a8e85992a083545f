"""Euclidean projection onto a polyhedron by the dual active-set method DAQP.

DAQP's tolerances are absolute and its data need a common scale: the polyhedron is handed over in units of its largest
variable, rows of length 1. A variable of a much smaller size would be lost in the rounding of the others; it is
measured as if its size were a small part of the largest, which moves the projection by less than that part. A point so
far away that its rounding covers the polyhedron is drawn nearer first, on the line to the box of the bounds. What a row
is then still broken by is taken away by a second program, for the nearest point with every variable in its own unit,
and the last of it by the functions of `lp.rows`.

Source: Arnstrom, Bemporad, Axehill, A dual active-set solver for embedded quadratic programming using
recursive LDL' updates, IEEE Trans. Automatic Control 67 (2022).
"""

import daqp
import numpy as np
from numpy.typing import NDArray

from drsub_fast._checks import Matrix, dense
from drsub_fast.engine.clock import OutOfTime, thread_time_left
from drsub_fast.errors import OracleError
from drsub_fast.lp.rows import PRECISION, breaches, move_into_rows, powers_of_two, shrink_into_rows, towards

#: What DAQP takes for an absent bound, and how it marks a row that must stay active.
_UNBOUNDED, _EQUATION = 1e30, 5

#: DAQP's exit flag at its time limit, and the least limit in seconds: 0 is none.
_LATE, _INSTANT = -7, 1e-6

#: The part of the largest size that a variable is measured by at least, and how far outside the box a point may be, in
#: units of the largest; where DAQP fails, the next pair is tried. Of 300 random down-closed sets each, DAQP failed on
#: none with sizes over 6 decades (rows broken by at most 9e-10), on 57 over 12 decades.
_ATTEMPTS = ((1e-5, 1e6), (1e-4, 1e4), (1e-2, 1e2), (1.0, 1.0))

#: Rows broken by less are left to be mended; rounding of a far point counts in the same units. The default for
#: singular sets of rows, 1e-11 or so, calls sets with sizes over 8 decades empty (22 of 300).
_PRIMAL_TOL, _ROUNDING, _SINGULAR = 1e-12, 1e-15, 1e-17


def project_onto_rows(
    y: NDArray[np.float64],
    A: Matrix,
    row_upper: NDArray[np.float64],
    upper: NDArray[np.float64],
    row_lower: NDArray[np.float64] | None = None,
    lower: NDArray[np.float64] | None = None,
    sizes: NDArray[np.float64] | None = None,
    inside: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The point of {x : row_lower <= A x <= row_upper, lower <= x <= upper} closest to y.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Point to project.
    A : ndarray or scipy.sparse matrix, shape (m, n)
        Rows; a sparse matrix is made dense.
    row_upper, upper : ndarray, shape (m,), (n,)
        Upper sides of rows and variables.
    row_lower, lower : ndarray, shape (m,), (n,), optional
        Lower sides; by default none for the rows and 0 for the variables. Where both are left out, A and the upper
        sides must be >= 0: the set is down-closed.
    sizes : ndarray, shape (n,), optional
        How large each variable can be over the set; by default the larger of its bounds.
    inside : ndarray, shape (n,), optional
        A point of the set. Where the set is hardly wider than rounding, the answer is on the way from it to y.

    Returns
    -------
    x : ndarray, shape (n,)

    Raises
    ------
    OracleError
        If DAQP ends without a solution, e.g. because the polyhedron is empty.
    OutOfTime
        If the time of the thread ends.

    Examples
    --------
    >>> import numpy as np
    >>> project_onto_rows(np.array([1.0, 1.0]), np.array([[1.0, 1.0]]), np.array([1.0]), np.ones(2))
    array([0.5, 0.5])
    """
    A = dense(A)
    m, n = A.shape
    is_down_closed = row_lower is None and lower is None
    if is_down_closed:
        # What is below 0 ends at 0 from wherever it comes.
        y = np.maximum(y, 0.0)
    lower = np.zeros(n) if lower is None else lower
    row_lower = np.full(m, -np.inf) if row_lower is None else row_lower
    sizes = np.maximum(np.abs(lower), np.abs(upper)) if sizes is None else sizes
    upper = np.where(sizes > 0.0, upper, lower)
    largest = max(sizes.max(initial=0.0), np.finfo(float).tiny)
    sides = row_upper, row_lower, upper, lower
    for span, distance in _ATTEMPTS:
        scale = powers_of_two(np.minimum(sizes / span, largest))
        x, flag = _nearest(y, A, *sides, scale, distance)
        if flag >= 1:
            break
    if flag >= 1 and breaches(A, x, row_upper, row_lower).max(initial=0.0) > PRECISION:
        x, flag = _nearest(x, A, *sides, powers_of_two(sizes), 1.0)
    if flag < 1 and inside is not None:
        return towards(np.clip(y, lower, upper), inside, A, row_upper, row_lower)
    if flag < 1:
        raise OracleError(f"the projection's quadratic program ended with DAQP's exit flag {flag}", str(flag))
    if is_down_closed:
        return shrink_into_rows(x, A, row_upper)
    return move_into_rows(x, A, *sides, sizes, inside)


def _nearest(y, A, row_upper, row_lower, upper, lower, scale, most):
    """(x, DAQP's exit flag): the point nearest to y, each variable measured in its ``scale``, up to rounding.

    y is drawn nearer if it is farther than ``most`` outside the bounds.
    """
    x, free = lower.copy(), lower < upper
    fixed = A[:, ~free] @ lower[~free]
    A, lower, upper, scale = A[:, free], lower[free], upper[free], scale[free]
    rows = A * scale
    lengths = np.linalg.norm(rows, axis=1)
    below, above = row_lower - fixed, row_upper - fixed
    # A row without entries counts by its side.
    units = powers_of_two(np.where(lengths > 0.0, lengths, np.abs(above)))
    below = np.concatenate([lower / scale, np.maximum(below / units, -_UNBOUNDED)])
    above = np.concatenate([upper / scale, np.minimum(above / units, _UNBOUNDED)])
    sense = np.where(below == above, _EQUATION, 0).astype(np.int32)
    corner = np.clip(y[free], lower, upper)
    outside = (y[free] - corner) / scale
    distance = np.abs(outside).max(initial=0.0)
    if distance > most:
        outside *= most / distance
    aim = corner / scale + outside
    settings = {"primal_tol": max(_PRIMAL_TOL, _ROUNDING * np.abs(aim).max(initial=0.0)), "sing_tol": _SINGULAR}
    z, flag = corner / scale, 1
    if free.any():
        rows = np.ascontiguousarray(rows / units[:, np.newaxis])
        left = thread_time_left()
        if left < np.inf:
            settings["time_limit"] = max(left, _INSTANT)
        z, _, flag, _ = daqp.solve(np.eye(aim.size), -aim, rows, above, below, sense, **settings)
        if flag == _LATE:
            raise OutOfTime
    if not np.isfinite(z).all():
        z, flag = corner / scale, min(flag, 0)
    x[free] = np.clip(z * scale, lower, upper)
    return x, flag
