"""Objectives and feasible sets as numpy formulas.

Public objects are read by their attributes only: ``H, h, c`` of a quadratic, ``L`` of a softmax;
``A, b`` of a polytope, ``groups, weights, capacities`` of knapsacks, and ``upper``. What has no such formula is
refused.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.optimize takes a quarter of a second
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_vector, dense
from drsub_fast.errors import OracleError, UnsupportedError

#: The solver's default of 1e-7 stops at vertices that are visibly short of the maximum.
_OPTIONS = {"dual_feasibility_tolerance": 1e-10}


#: ``oracle(direction, A, b, upper)``: a vertex.
Oracle: TypeAlias = Callable[
    [NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]
]


class Function(NamedTuple):
    """Value, gradient and, for a quadratic, its Hessian H."""

    value: Callable[[NDArray[np.float64]], float]
    gradient: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    H: NDArray[np.float64] | None = None


class Region(NamedTuple):
    """{x : A x <= b, 0 <= x <= upper}, with what solves its linear programs: None for `linprog`."""

    A: NDArray[np.float64]
    b: NDArray[np.float64]
    upper: NDArray[np.float64]
    oracle: Oracle | None = None


def quadratic(H: NDArray[np.float64], h: NDArray[np.float64], c: float) -> Function:
    """f(x) = 1/2 x'Hx + h'x + c."""
    return Function(lambda x: float(0.5 * x @ H @ x + h @ x + c), lambda x: H @ x + h, H)


def softmax(L: NDArray[np.float64]) -> Function:
    """f(x) = log det(diag(x)(L - I) + I), the softmax extension; -inf off the branch of 0 (see `Softmax`)."""
    D = L - np.eye(len(L))

    def matrix(x):
        return x[:, None] * D + np.eye(len(x))

    def value(x):
        root = np.sqrt(np.maximum(x, 0.0))
        eigenvalues = np.linalg.eigvalsh(np.eye(len(x)) + root[:, None] * D * root)
        return np.log(eigenvalues).sum() if eigenvalues[0] > 0.0 else -np.inf

    def gradient(x):
        # d/dx_i = tr(M^-1 e_i e_i'D) = (D M^-1)_ii
        return np.einsum("ij,ji->i", D, np.linalg.inv(matrix(x)))

    return Function(value, gradient)


def as_function(f: object) -> Function:
    """The formula of a public objective (a Function passes through)."""
    if isinstance(f, Function):
        return f
    if hasattr(f, "H") and hasattr(f, "hessian") and hasattr(f, "h") and hasattr(f, "c"):
        return quadratic(f.hessian(), f.h, f.c)
    if hasattr(f, "L"):
        return softmax(f.L)
    raise UnsupportedError(f"the reference has no formula for {type(f).__name__}; use a Quadratic or a Softmax")


def as_region(P: object, f: object = None) -> Region:
    """Rows and bounds of a public set (a Region passes through); clipped to 1 for an f that lives on [0, 1]^n.

    Raises
    ------
    UnsupportedError
        For a set that is not {x : A x <= b, 0 <= x <= upper}.
    """
    if isinstance(P, Region):
        return P
    if not getattr(P, "is_down_closed", False) or not hasattr(P, "upper"):
        raise UnsupportedError(f"the reference knows down-closed sets with rows; {type(P).__name__} is not one of them")
    upper = np.array(P.upper)
    if getattr(f, "unit_box", False):
        upper = np.minimum(upper, 1.0)
    if hasattr(P, "groups") and hasattr(P, "weights") and hasattr(P, "capacities"):
        # A row for each group: one for a budget or a knapsack.
        A = np.where(P.groups == np.arange(len(P.capacities))[:, None], P.weights, 0.0)
        return Region(A, np.asarray(P.capacities), upper)
    if hasattr(P, "A") and hasattr(P, "b"):
        return Region(dense(P.A), np.asarray(P.b), upper)
    if any(kind.__name__ == "Box" for kind in type(P).__mro__):
        return Region(np.zeros((0, len(upper))), np.zeros(0), upper)
    raise UnsupportedError(f"the reference has no formula for {type(P).__name__}: it is no set of rows and bounds")


def start(region: Region, x0: ArrayLike | None) -> NDArray[np.float64]:
    """A user's start, or 0; it must lie in the region, each row and bound up to 1e-9 of its unit."""
    if x0 is None:
        return np.zeros(len(region.upper))
    x = as_vector(x0, "x0", n=len(region.upper))
    slack = 1e-9
    bounds_hold = (x >= -slack * region.upper).all() and (x <= (1.0 + slack) * region.upper).all()
    if not bounds_hold or not (region.A @ x - region.b <= slack * np.maximum(region.b, region.A @ np.abs(x))).all():
        raise ValueError("x0 is not in the set: a bound or a row is broken")
    return x


def vertex(region: Region, g: NDArray[np.float64], upper: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """A vertex that maximises <g, v> over the region, with v <= ``upper`` if given."""
    upper = np.maximum(region.upper if upper is None else upper, 0.0)
    if region.oracle is not None:
        return region.oracle(g, region.A, region.b, upper)
    # The LP solver's tolerances are absolute: it gets columns in units of the bounds, rows in units of their sides.
    columns = np.where(region.upper > 0.0, region.upper, 1.0)
    rows = np.where(region.b > 0.0, region.b, np.maximum((region.A * columns).max(axis=1, initial=0.0), 1e-300))
    cost = g * columns
    answer = scipy.optimize.linprog(
        -cost / (np.abs(cost).max() or 1.0), A_ub=region.A * columns / rows[:, None], b_ub=region.b / rows,
        bounds=np.column_stack([np.zeros_like(upper), upper / columns]), method="highs", options=_OPTIONS,
    )  # fmt: skip
    if answer.status != 0:
        raise OracleError(f"linprog: {answer.message}", str(answer.status))
    return np.minimum(answer.x * columns, upper)


def project(region: Region, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean projection of y onto the region.

    With z = x - y this is least-distance programming, min |z| subject to G z >= q, solved through the
    non-negative least-squares problem min |E w - e|, E = (G'; q'), e = (0, .., 0, 1)' (Lawson and Hanson,
    Solving Least Squares Problems, 1974, chapter 23). Its support tells the active constraints; solving
    for their multipliers once more removes the rounding of the long way round.
    """
    A, b, upper, _ = region
    n = len(y)
    lengths = np.linalg.norm(A, axis=1)
    lengths[lengths == 0.0] = 1.0
    A, b = A / lengths[:, None], b / lengths
    G = np.vstack([-A, -np.eye(n), np.eye(n)])
    q = np.concatenate([A @ y - b, y - upper, -y])
    if q.max() <= 0.0:
        return y.copy()
    q_scale = np.abs(q).max()
    w, _ = scipy.optimize.nnls(np.vstack([G.T, q / q_scale]), np.append(np.zeros(n), 1.0))
    active = w > 0.0
    multipliers, *_ = np.linalg.lstsq(G[active] @ G[active].T, q[active], rcond=None)
    return np.clip(y + G[active].T @ multipliers, 0.0, upper)
