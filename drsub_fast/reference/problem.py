"""Objectives and feasible sets as numpy formulas.

Public objects are read by their attributes only: ``H, h, c`` of a quadratic, ``L`` of a softmax;
``A, b`` of a polytope, ``k`` of a budget, and ``upper``.
"""

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.optimize takes a quarter of a second

from drsub_fast.errors import OracleError, UnsupportedError

#: The solver's default of 1e-7 stops at vertices that are visibly short of the maximum.
_OPTIONS = {"dual_feasibility_tolerance": 1e-10}


class Function(NamedTuple):
    """Value, gradient and, for a quadratic, its Hessian H."""

    value: callable
    gradient: callable
    H: np.ndarray | None = None


class Region(NamedTuple):
    """{x : A x <= b, 0 <= x <= upper}, with what solves its linear programs: None for `linprog`."""

    A: np.ndarray
    b: np.ndarray
    upper: np.ndarray
    oracle: callable = None


def quadratic(H, h, c):
    """f(x) = 1/2 x'Hx + h'x + c (section 5.1)."""
    return Function(lambda x: 0.5 * x @ H @ x + h @ x + c, lambda x: H @ x + h, H)


def softmax(L):
    """f(x) = log det(diag(x)(L - I) + I), the softmax extension (section 4)."""
    D = L - np.eye(len(L))

    def matrix(x):
        return x[:, None] * D + np.eye(len(x))

    def value(x):
        sign, logdet = np.linalg.slogdet(matrix(x))
        return logdet if sign > 0 else -np.inf

    def gradient(x):
        # d/dx_i = tr(M^-1 e_i e_i'D) = (D M^-1)_ii
        return np.einsum("ij,ji->i", D, np.linalg.inv(matrix(x)))

    return Function(value, gradient)


def as_function(f):
    """The formula of a public objective (a Function passes through)."""
    if isinstance(f, Function):
        return f
    if hasattr(f, "H"):
        return quadratic(f.hessian(), f.h, f.c)
    if hasattr(f, "L"):
        return softmax(f.L)
    raise UnsupportedError(f"the reference has no formula for {type(f).__name__}; use a Quadratic or a Softmax")


def as_region(P, f=None):
    """Rows and bounds of a public set (a Region passes through); clipped to 1 for an f that lives on [0, 1]^n."""
    if isinstance(P, Region):
        return P
    upper = np.asarray(P.upper)
    if getattr(f, "unit_box", False):
        upper = np.minimum(upper, 1.0)
    if hasattr(P, "k"):
        return Region(np.ones((1, len(upper))), np.array([P.k]), upper)
    if hasattr(P, "A"):
        A = P.A.toarray() if scipy.sparse.issparse(P.A) else np.asarray(P.A)
        return Region(A, np.asarray(P.b), upper)
    return Region(np.zeros((0, len(upper))), np.zeros(0), upper)


def vertex(region, g, upper=None):
    """A vertex that maximises <g, v> over the region, with v <= ``upper`` if given."""
    upper = np.maximum(region.upper if upper is None else upper, 0.0)
    if region.oracle is not None:
        return region.oracle(g, region.A, region.b, upper)
    scale = np.abs(g).max() or 1.0  # the LP solver's tolerance on the cost is absolute
    bounds = np.column_stack([np.zeros_like(upper), upper])
    answer = scipy.optimize.linprog(
        -g / scale, A_ub=region.A, b_ub=region.b, bounds=bounds, method="highs", options=_OPTIONS
    )
    if answer.status != 0:
        raise OracleError(f"linprog: {answer.message}", str(answer.status))
    return answer.x


def project(region, y):
    """Euclidean projection of y onto the region.

    With z = x - y this is least-distance programming, min |z| subject to G z >= q, solved through the
    non-negative least-squares problem min |E w - e|, E = (G'; q'), e = (0, .., 0, 1)' (Lawson and Hanson,
    Solving Least Squares Problems, 1974, chapter 23). Its support tells the active constraints; solving
    for their multipliers once more removes the rounding of the long way round.
    """
    A, b, upper, _ = region
    n = len(y)
    G = np.vstack([-A, -np.eye(n), np.eye(n)])
    q = np.concatenate([A @ y - b, y - upper, -y])
    if q.max() <= 0.0:
        return y.copy()
    q_scale = np.abs(q).max()
    w, _ = scipy.optimize.nnls(np.vstack([G.T, q / q_scale]), np.append(np.zeros(n), 1.0))
    active = w > 0.0
    multipliers, *_ = np.linalg.lstsq(G[active] @ G[active].T, q[active], rcond=None)
    return np.clip(y + G[active].T @ multipliers, 0.0, upper)
