"""The curvature C_f(P) of Lacoste-Julien 2016, from above and from below.

For a function that is maximised

    C_f(P) = sup 2/g^2 [f(x) + g <grad f(x), v - x> - f(x + g (v - x))]   over x, v in P, 0 < g <= 1,

which is at most the largest -d'H(z)d over d = v - x and z in between.
"""

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.base import Objective, largest_eigenvalue
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.rungs import largest
from drsub_fast.proofs.softmax_curvature import hessian_entries
from drsub_fast.sets.base import FeasibleSet

#: Variables up to which the rows of the matrix are maximised over the set; beyond, over the box around it.
_ROWS_UP_TO = 500

#: Starts of the search, rounds of each, and the shares g of the way at which the remainder is looked at.
_STARTS, _ROUNDS, _SHARES = 8, 20, (1.0, 0.25, 0.01)
#: A start ends when a round gains less than this part.
_GAIN = 1e-6


def curvature_bound(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> float | None:
    """A number that C_f(P) does not exceed, or None where none is known.

    With |d'Hd| <= |d|'A|d|, A >= 0, and d = p - q the difference of two points without their common part, the least of

    * that over the box around P, or a bound that f itself knows there;
    * p'Ap + q'Aq <= sum_j c_j |d_j| with c_j = max of (A x)_j over P, where A bounds the Hessian's entries, all <= 0;
    * the largest eigenvalue of SAS times that of |d / s|^2, for two scales s, S = diag(s).
    """
    lower = np.broadcast_to(P._lower, (f.n,))
    width = upper - lower
    if not isinstance(f, Quadratic) and (lower < 0.0).any():
        return None  # what is known of f is known on [0, upper]
    known = f.curvature_bound(width if isinstance(f, Quadratic) else upper)
    A = f.curvature_matrix(upper)
    within = hessian_entries(f, P, upper) if isinstance(f, Softmax) else None
    if within is not None:
        A = within if A is None else np.minimum(A, within)
    if A is None or known == 0.0:
        return known
    bounds = [float(width @ A @ width)] + ([] if known is None else [known])
    if f.dr_submodular_on(upper):
        bounds.append(P.spread(_row_maxima(A, P, lower, upper), upper))
    smoothness = f.smoothness_on(upper)
    for scale in (np.ones(f.n), width):
        eigenvalue = largest_eigenvalue(A * np.outer(scale, scale))
        if smoothness is not None and (scale == 1.0).all():
            eigenvalue = min(eigenvalue, smoothness)
        bounds.append(eigenvalue * P.spread(np.divide(width, scale**2, out=np.zeros(f.n), where=scale > 0.0), upper))
    # The oracle's answers are optimal up to its tolerance.
    return min(bounds) * (1.0 + 1e-9)


def _row_maxima(A, P, lower, upper):
    """The largest (A (x - lower))_j over P for every j."""
    if len(A) > _ROWS_UP_TO:
        return A @ (upper - lower)
    below = A @ lower
    return np.array([max(largest(P, row, upper) - start, 0.0) for row, start in zip(A, below, strict=True)])


def _remainder(f, x, v, value, slope):
    """The largest 2/g^2 [f(x) + g slope - f(x + g (v - x))] of a few g."""
    return max(2.0 / g**2 * (value + g * slope - f.value(x + g * (v - x))) for g in _SHARES)


def curvature_found(f: Objective, P: FeasibleSet, upper: NDArray[np.float64], seed: int = 0) -> float:
    """A number that C_f(P) is not below: the largest that a search over pairs of points meets.

    From random vertices both points go where the difference of their gradients leads: for a concave quadratic the
    remainder rises in every such round.
    """
    rng = np.random.default_rng(seed)
    best = 0.0
    scale = np.maximum(upper - P._lower, 1e-300)
    for start in range(_STARTS):
        cost = rng.standard_exponential(f.n) if start % 2 == 0 else rng.standard_normal(f.n)
        x, v = P.lmo(-cost / scale, upper), P.lmo(cost / scale, upper)
        reached = 0.0
        for _ in range(_ROUNDS):
            (value, at_x), (_, at_v) = f.value_and_gradient(x), f.value_and_gradient(v)
            if not np.isfinite(value) or not np.isfinite(at_x).all():
                break
            now = _remainder(f, x, v, value, at_x @ (v - x))
            if not np.isfinite(now) or now <= reached * (1.0 + _GAIN):
                break
            reached = now
            if not np.isfinite(at_v).all():
                break
            x, v = P.lmo(at_v - at_x, upper), P.lmo(at_x - at_v, upper)
        best = max(best, reached)
    return float(best)
