"""Euclidean projection onto a polyhedron by the dual active-set method DAQP.

Source: Arnstrom, Bemporad, Axehill, A dual active-set solver for embedded quadratic programming using
recursive LDL' updates, IEEE Trans. Automatic Control 67 (2022).
"""

import daqp
import numpy as np
import scipy

from drsub_fast._checks import require_finite
from drsub_fast.errors import OracleError

#: What DAQP takes for an absent bound, and how it marks a row that must stay active.
_UNBOUNDED, _EQUATION = 1e30, 5


def project_onto_rows(y, A, row_upper, upper, row_lower=None, lower=None):
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
        Lower sides; by default none for the rows and 0 for the variables.

    Returns
    -------
    x : ndarray, shape (n,)

    Raises
    ------
    OracleError
        If DAQP ends without a solution, e.g. because the polyhedron is empty.

    Examples
    --------
    >>> import numpy as np
    >>> project_onto_rows(np.array([1.0, 1.0]), np.array([[1.0, 1.0]]), np.array([1.0]), np.ones(2))
    array([0.5, 0.5])
    """
    A = A.toarray() if scipy.sparse.issparse(A) else A
    m, n = A.shape
    lower = np.zeros(n) if lower is None else lower
    row_lower = np.full(m, -_UNBOUNDED) if row_lower is None else np.maximum(row_lower, -_UNBOUNDED)
    below, above = np.concatenate([lower, row_lower]), np.concatenate([upper, row_upper])
    sense = np.where(below == above, _EQUATION, 0).astype(np.int32)
    x, _, flag, _ = daqp.solve(np.eye(n), -y, np.ascontiguousarray(A), above, below, sense)
    if flag < 1:
        raise OracleError(f"the projection's quadratic program ended with DAQP's exit flag {flag}", str(flag))
    require_finite(x, "projection")
    return np.clip(x, lower, upper)
