"""Rows row_lower <= A x <= row_upper, measured and mended in their own units.

A row holds at x if it is broken by no more than a small part of its unit, max(|side|, sum_j |a_ij| |x_j|): a rounded
sum is not known any better, whatever the units of x and of the row. Solvers answer up to tolerances that are
absolute. They are given data in units of the set (powers of two, which round nothing), and what their answers still
miss is mended here.
"""

import numpy as np
import scipy
import scipy.sparse.linalg
from numpy.typing import NDArray

from drsub_fast._checks import Matrix, dense
from drsub_fast.errors import OracleError

#: A mended row is broken by at most this part of its unit: a tenth of what `FeasibleSet.contains` accepts.
PRECISION = 1e-10

#: Rows this close to one of their sides, in their unit, are kept there while others are mended.
_TIGHT = 1e-7

#: An entry this close to a bound, in units of its variable, is taken to be at it if the rows then hold better.
_NOISE = 1e-12
_ROUNDS = 4

#: Entries of sparse rows from which on corrections are made by products with them: as a dense matrix, 2000 rows of 4000
#: entries take 64 MB and 5 s.
_MANY_ENTRIES = 1_000_000


def powers_of_two(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The powers of two at most as large as the entries of an array >= 0; 1 for entries of 0."""
    _, exponents = np.frexp(sizes)
    return np.where(sizes > 0.0, np.ldexp(1.0, exponents - 1), 1.0)


def absolute(A: Matrix) -> Matrix:
    """|A|, dense or sparse."""
    return abs(A) if scipy.sparse.issparse(A) else np.abs(A)


def breaches(
    A: Matrix,
    x: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    row_lower: NDArray[np.float64] | None = None,
    magnitude: Matrix | None = None,
) -> NDArray[np.float64]:
    """By what part of its unit each row is broken at x.

    Parameters
    ----------
    A : ndarray or scipy.sparse matrix, shape (m, n)
    x : ndarray, shape (n,)
    row_upper : ndarray, shape (m,)
    row_lower : ndarray, shape (m,), optional
        By default none.
    magnitude : ndarray or scipy.sparse matrix, shape (m, n), optional
        |A|, if it is at hand.

    Returns
    -------
    ndarray, shape (m,)
        0 where a row holds exactly.
    """
    load = A @ x
    excess = load - row_upper
    if row_lower is not None:
        excess = np.maximum(excess, row_lower - load)
    broken = excess > 0.0
    if not broken.any():
        return np.zeros(load.size)
    size = (absolute(A) if magnitude is None else magnitude) @ np.abs(x)
    side = np.abs(row_upper)
    if row_lower is not None:
        side = np.where(load > row_upper, side, np.abs(row_lower))
    unit = np.maximum(side, size)
    return np.divide(excess, unit, out=np.zeros(load.size), where=broken)


def shrink_into_rows(x: NDArray[np.float64], A: Matrix, b: NDArray[np.float64]) -> NDArray[np.float64]:
    """x >= 0 with the entries of each row of A x <= b that is broken shrunk until it holds; A >= 0 and b >= 0.

    Returns
    -------
    ndarray, shape (n,)
        x itself if no row is broken.
    """
    load = A @ x
    broken = np.flatnonzero(load > b)
    if not broken.size:
        return x
    rows, shares = scipy.sparse.coo_array(A[broken]), np.ones(x.size)
    entry = rows.data > 0.0
    np.minimum.at(shares, rows.coords[1][entry], (b[broken] / load[broken])[rows.coords[0][entry]])
    return x * shares


def move_into_rows(
    x: NDArray[np.float64],
    A: Matrix,
    row_upper: NDArray[np.float64],
    row_lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    sizes: NDArray[np.float64],
    inside: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """x, hardly outside {row_lower <= A x <= row_upper, lower <= x <= upper}, moved inside.

    Entries at a bound stay there; the others move by the least part of their distance to it that mends the broken rows
    and leaves tight ones as they are. ``sizes`` (n,) are the units of the variables. Where that
    mends nothing, as in a set hardly wider than rounding, the point nearest to x on the way to ``inside``, a point of
    the set, if one is given.

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    OracleError
        If some row is still broken: the data span more than doubles hold.
    """
    magnitude = absolute(A)
    best = np.clip(x, lower, upper)
    worst = breaches(A, best, row_upper, row_lower, magnitude).max(initial=0.0)
    if worst <= 0.01 * PRECISION:
        return best
    x = np.where(best - lower <= _NOISE * sizes, lower, np.where(upper - best <= _NOISE * sizes, upper, best))
    breach = breaches(A, x, row_upper, row_lower, magnitude).max(initial=0.0)
    if breach < worst:
        best, worst = x, breach
    for _ in range(_ROUNDS):
        if worst <= 0.01 * PRECISION:
            break
        x = _corrected(best, A, row_upper, row_lower, upper, lower, magnitude)
        breach = breaches(A, x, row_upper, row_lower, magnitude).max(initial=0.0)
        if not breach < worst:
            break
        best, worst = x, breach
    if not worst <= PRECISION:
        if inside is not None and (inside <= upper).all():
            return towards(best, inside, A, row_upper, row_lower, magnitude)
        raise OracleError(
            f"a row is broken by {worst:.1g} of its unit: the coefficients and bounds of the set span more than double "
            "precision holds; give bounds closer to what the rows allow, or rescale the variables",
            "Out of range",
        )
    return best


def towards(
    x: NDArray[np.float64],
    inside: NDArray[np.float64],
    A: Matrix,
    row_upper: NDArray[np.float64],
    row_lower: NDArray[np.float64] | None,
    magnitude: Matrix | None = None,
) -> NDArray[np.float64]:
    """The point of the segment from ``inside``, where all rows hold, to x that is farthest and keeps them."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        point = inside + middle * (x - inside)
        holds = breaches(A, point, row_upper, row_lower, magnitude).max(initial=0.0) <= PRECISION
        low, high = (middle, high) if holds else (low, middle)
    return inside + low * (x - inside)


def _corrected(x, A, row_upper, row_lower, upper, lower, magnitude):
    """One correction of `move_into_rows`: weighted least squares over the rows that are broken or tight."""
    load, size = A @ x, magnitude @ np.abs(x)
    unit = np.maximum(size, np.where(np.isfinite(row_upper), np.abs(row_upper), 0.0))
    unit = np.maximum(unit, np.where(np.isfinite(row_lower), np.abs(row_lower), 0.0))
    unit[unit == 0.0] = 1.0
    # Which side a row is to keep: that it breaks or is close to.
    gap_above, gap_below = row_upper - load, load - row_lower
    at_upper = gap_above <= gap_below
    gap = np.where(at_upper, gap_above, -gap_below)
    active = np.flatnonzero(np.minimum(gap_above, gap_below) <= _TIGHT * unit)
    slack = np.minimum(x - lower, upper - x)
    free = np.flatnonzero(slack > 0.0)
    rows = A[active][:, free]
    target = gap[active] / unit[active]
    if scipy.sparse.issparse(rows) and rows.shape[0] * rows.shape[1] > _MANY_ENTRIES:
        rows = scipy.sparse.diags_array(1.0 / unit[active]) @ rows @ scipy.sparse.diags_array(slack[free])
        step = scipy.sparse.linalg.lsqr(rows, target, atol=1e-14, btol=1e-14)[0]
    else:
        rows = dense(rows) * slack[free] / unit[active, np.newaxis]
        step = np.linalg.lstsq(rows, target, rcond=1e-13)[0]
    moved = x.copy()
    moved[free] += slack[free] * step
    return np.clip(moved, lower, upper)


def implied_sizes(
    A: Matrix,
    row_upper: NDArray[np.float64],
    row_lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    rounds: int = 3,
) -> NDArray[np.float64]:
    """The largest magnitude of each variable that bounds and rows allow, found by interval arithmetic.

    They serve as units: a variable whose bound is far from what the rows allow is not measured by it.

    Returns
    -------
    ndarray, shape (n,)
        At most max(|lower|, |upper|).
    """
    A = scipy.sparse.coo_array(A)
    i, j, a = A.coords[0], A.coords[1], A.data
    keep = a != 0.0
    i, j, a = i[keep], j[keep], a[keep]
    m = A.shape[0]
    low, high = lower.copy(), upper.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(rounds):
            least, most = np.where(a > 0.0, a * low[j], a * high[j]), np.where(a > 0.0, a * high[j], a * low[j])
            above = (row_upper[i] - (np.bincount(i, least, m)[i] - least)) / a
            below = (row_lower[i] - (np.bincount(i, most, m)[i] - most)) / a
            highest, lowest = np.where(a > 0.0, above, below), np.where(a > 0.0, below, above)
            np.minimum.at(high, j, np.where(np.isnan(highest), np.inf, highest))
            np.maximum.at(low, j, np.where(np.isnan(lowest), -np.inf, lowest))
            # Differences of large sums may cross by rounding.
            low, high = np.clip(low, lower, upper), np.clip(high, lower, upper)
            low, high = np.minimum(low, high), np.maximum(low, high)
    size, bound = np.maximum(np.abs(low), np.abs(high)), np.maximum(np.abs(lower), np.abs(upper))
    return np.where(size > 0.0, size, bound)
