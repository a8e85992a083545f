"""Quadratic f(x) = 1/2 x'Hx + h'x + c with an entrywise non-positive H (paper, section 5.1).

The gradient Hx + h is affine, so one product H v with the vertex v serves the gradient, the value and
the exact step, for as many steps as v stays the vertex:

    additive   x += gamma v:            grad += gamma H v,
               f += gamma <grad, v> + gamma^2/2 v'Hv;
    classical  d = v - x, x += gamma d: grad += gamma (H v - (grad - h)),
               f += gamma <grad, d> + gamma^2/2 d'Hd,  d'Hd = <v - x, Hv - (grad - h)>;
    exact      gamma* = -<grad, d> / d'Hd where d'Hd < 0, else the end of the interval.
"""

from collections import namedtuple

import numpy as np

from drsub_fast._checks import as_real, as_symmetric, as_vector, entry
from drsub_fast._kinds import NUMBER, OBJECTIVES, array, register_kind
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import symmetric_product
from drsub_fast.objectives.base import Objective, register_objective

QuadraticParams = namedtuple("QuadraticParams", "H h c")
QuadraticWork = namedtuple("QuadraticWork", "grad Hv")


@kernel
def _size(params):
    return 2 * params.h.size, 0


@kernel(memory=True)
def _carve(params, floats, integers):
    n = params.h.size
    return QuadraticWork(floats[:n], floats[n : 2 * n])


@kernel
def _evaluate(params, work, x):
    grad = work.grad
    symmetric_product(params.H, x, grad)
    value = params.c
    for j in range(x.size):
        value += x[j] * (0.5 * grad[j] + params.h[j])
        grad[j] += params.h[j]
    return value


@kernel
def _prepare(params, work, x, v):
    symmetric_product(params.H, v, work.Hv)


@kernel(reductions=True)
def _advance(params, work, x, v, gamma, value):
    grad, Hv = work.grad, work.Hv
    first = second = 0.0
    for j in range(x.size):
        first += grad[j] * v[j]
        second += v[j] * Hv[j]
        x[j] += gamma * v[j]
        grad[j] += gamma * Hv[j]
    return value + gamma * (first + 0.5 * gamma * second)


@kernel(reductions=True)
def _contract(params, work, x, v, gamma, value):
    grad, Hv, h = work.grad, work.Hv, params.h
    first = second = 0.0
    for j in range(x.size):
        d = v[j] - x[j]
        Hd = Hv[j] - (grad[j] - h[j])
        first += grad[j] * d
        second += d * Hd
        x[j] += gamma * d
        grad[j] += gamma * Hd
    return value + gamma * (first + 0.5 * gamma * second)


@kernel(reductions=True)
def _exact_step(params, work, x, v, limit, value):
    grad, Hv, h = work.grad, work.Hv, params.h
    first = second = 0.0
    for j in range(x.size):
        d = v[j] - x[j]
        first += grad[j] * d
        second += d * (Hv[j] - (grad[j] - h[j]))
    if second >= 0.0:
        return limit if first + 0.5 * limit * second > 0.0 else 0.0
    return max(0.0, min(limit, -first / second))


@kernel
def _coordinate_maximum(params, work, x, i, upper):
    slope, curvature = work.grad[i], params.H[i, i]
    if curvature == 0.0:
        return upper if slope > 0.0 else 0.0 if slope < 0.0 else x[i]
    return min(upper, max(0.0, x[i] - slope / curvature))


@kernel
def _gradient_rate(params, work, v, additive, rate):
    for j in range(v.size):
        rate[j] = work.Hv[j] if additive else work.Hv[j] + params.h[j]
    return True


@kernel
def _hessian_product(params, work, x, d, out):
    symmetric_product(params.H, d, out)
    return 2


register_objective(
    QuadraticParams,
    objective_size=_size,
    objective_carve=_carve,
    evaluate=_evaluate,
    prepare=_prepare,
    advance=_advance,
    contract=_contract,
    exact_step=_exact_step,
    coordinate_maximum=_coordinate_maximum,
    gradient_rate=_gradient_rate,
    hessian_product=_hessian_product,
)


class Quadratic(Objective):
    """Quadratic 1/2 x'Hx + h'x + c, DR-submodular because every entry of H is at most 0.

    Parameters
    ----------
    H : array_like, shape (n, n)
        Hessian: symmetric, entrywise <= 0.
    h : array_like, shape (n,)
        Linear term.
    c : float, default 0
        Constant.

    Raises
    ------
    ValueError
        For a wrong shape, an entry that is not finite, an asymmetric H or a positive entry of H.

    Notes
    -----
    Bian et al. 2017, section 5.1. Value and gradient from scratch cost O(n s) for s nonzeros of x.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> f.value([1.0, 0.0])
    0.5
    >>> f.gradient([1.0, 0.0])
    array([0. , 0.5])
    """

    def __init__(self, H, h, c=0.0):
        H = as_symmetric(H, "H")
        h = as_vector(h, "h", n=len(H))
        worst = np.unravel_index(int(H.argmax()), H.shape)
        if H[worst] > 0.0:
            raise ValueError(f"{entry('H', worst)} = {H[worst]:g} is positive: f is not DR-submodular")
        self.n = len(h)
        self._params = QuadraticParams(H, h, as_real(c, "c"))

    def __repr__(self):
        return f"Quadratic(n={self.n})"

    @property
    def H(self):
        """Hessian, shape (n, n)."""
        return self._params.H

    @property
    def h(self):
        """Linear term, shape (n,)."""
        return self._params.h

    @property
    def c(self):
        """Constant."""
        return self._params.c

    def dr_submodular_on(self, upper):
        return True

    def nonnegative_on(self, upper):
        # x'Hx >= x'Hu on [0, u] because H <= 0, so f is at least a separable linear function there. Where that is not
        # negative, x'Hv >= x'Hu >= -2 (c + <h, x>) for v in P, hence 4 f(x) + g_P(x) >= f(0) + <h, v>: the local-global
        # bound adds nothing to the linear one, and stacks need no kernel that finds the sign.
        H, h, c = self._params
        Hu = H @ upper
        if c + np.minimum(0.0, upper * (h + 0.5 * Hu)).sum() >= 0.0:
            return True
        if c < 0.0 or c + upper @ (h + 0.5 * Hu) < 0.0:
            return False
        return None

    def monotone_on(self, upper):
        # The gradient is antitone, so its smallest value on [0, u] is at u.
        return bool((self._params.H @ upper + self._params.h).min() >= 0.0)

    def curvature_bound(self, upper):
        # |d'Hd| <= |d|'(-H)|d| <= u'(-H)u for differences d of points in [0, u], since H <= 0: in any units of x, at
        # most L |u|^2 with L = |H|_2.
        return float(-(upper @ self._params.H @ upper))


register_kind(OBJECTIVES, "quadratic", Quadratic, H=array("n n"), h=array("n"), c=NUMBER)
