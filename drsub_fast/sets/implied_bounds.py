"""Bounds of the variables that rows imply, where a file or a caller gives none.

row_lower <= A x <= row_upper, lower <= x <= upper
"""

from collections.abc import Callable, Sequence
from typing import SupportsIndex

import numpy as np
import scipy
from numpy.typing import NDArray

from drsub_fast._checks import Matrix, first_few
from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle


def labels(names: Sequence[str]) -> Callable[[SupportsIndex], str]:
    """How a variable is called in messages, by its number."""
    return lambda j: names[int(j)] if names else f"x[{j}]"


def implied_bounds(
    A: Matrix,
    row_lower: NDArray[np.float64],
    row_upper: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    names: Sequence[str] = (),
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of all variables: those given, else those that the rows imply.

    A single row without negative entries gives an upper bound at once; what is open after that costs a linear program
    a bound.

    Parameters
    ----------
    A, row_lower, row_upper, lower, upper, names
        As in `drsub_fast.sets.rows.rows_from_zero`; lower bounds may be infinite too.

    Returns
    -------
    lower, upper : ndarray, shape (n,)

    Raises
    ------
    ValueError
        For bounds that cross or that no rows imply, or an empty set.
    """
    label = labels(names)
    crossed = np.flatnonzero(upper < lower)
    if crossed.size:
        j = int(crossed[0])
        raise ValueError(f"the set is empty: the bounds of {label(j)} cross: {lower[j]:g} > {upper[j]:g}")
    rows = scipy.sparse.csr_array(A, dtype=np.float64)
    upper = np.where(np.isfinite(upper), upper, _single_row_bounds(rows, row_upper, lower))
    if np.isfinite(lower).all() and np.isfinite(upper).all():
        return lower, upper
    oracle = HighsOracle(rows.tocsc(), row_upper, upper, row_lower=row_lower, lower=lower)
    lower = _bounds_by_programs(oracle, lower, -1.0, "lower", label)
    upper = _bounds_by_programs(oracle, upper, 1.0, "upper", label)
    return lower, np.maximum(lower, upper)


def _bounds_by_programs(oracle, bounds, sign, word, label):
    """The bounds of one side, infinite ones found by a linear program each."""
    found, missing = bounds.copy(), []
    for j in np.flatnonzero(~np.isfinite(bounds)):
        cost = np.zeros(bounds.size)
        cost[j] = sign
        try:
            found[j] = oracle.maximize(cost, oracle.upper, mend=False)[j]
        except OracleError as error:
            if error.status == "Infeasible":
                raise ValueError("the set is empty: no point satisfies all rows and bounds") from None
            if "nbounded" not in error.status:
                raise ValueError(f"no {word} bound on {label(j)}, and none was found: {error}") from None
            missing.append(label(j))
    if missing:
        raise ValueError(f"no {word} bound on {first_few(missing)}, and no rows imply one: give {word} bounds")
    return found


def _single_row_bounds(rows, row_upper, lower):
    """The least upper bound that a row without negative entries gives each variable; infinite where there is none."""
    bounds = np.full(rows.shape[1], np.inf)
    entries = rows.tocoo()
    i, j, a = entries.row, entries.col, entries.data
    usable = np.isfinite(row_upper)
    usable[i[(a < 0.0) | ~np.isfinite(lower[j])]] = False
    slack = np.maximum(row_upper - rows @ np.where(np.isfinite(lower), lower, 0.0), 0.0)
    kept = usable[i] & (a > 0.0)
    with np.errstate(over="ignore"):
        np.minimum.at(bounds, j[kept], lower[j[kept]] + slack[i[kept]] / a[kept])
    return bounds
