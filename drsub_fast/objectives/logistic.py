"""Logistic regression with a non-convex separable regulariser, as a maximisation (Bian et al. 2017, Appendix A):

    f(x) = -1/m sum_j log(1 + exp(-y_j <z_j, x>)) - weight * sum_i r(x_i),
    r(t) = gamma t^2 / (1 + gamma t^2)  ("smooth")   or   min(gamma t^2, 1)  ("capped").

If the entries of each column of Z have one sign alpha_i, the loss is K_alpha-DR-supermodular: its Hessian
1/m sum_j s_j (1 - s_j) z_ji z_jk has the sign of alpha_i alpha_k, whatever the labels. In y >= 0 with
x = diag(alpha) y the first part of f is then DR-submodular.

The regulariser adds to the diagonal only. -r is concave for |t| <= `dr_radius`, 1 / sqrt(3 gamma) for the smooth
and 1 / sqrt(gamma) for the capped one, and there f is K_alpha-DR-submodular. Beyond it -r has positive
curvature (the capped one a kink): on a larger set f is K_alpha-submodular only, and the bounds for
DR-submodular functions do not apply. They ask for f >= 0 besides, while f <= 0 here. What the methods find on any
set is a stationary point.

The margins y_j <z_j, x> move along a line with x, so the line search costs O(m + n) a point.
"""

import math
from collections import namedtuple
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, as_real, as_vector, one_of
from drsub_fast._kinds import NUMBER, OBJECTIVES, TEXT, array, register_kind
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import add_scaled, blend, dot
from drsub_fast.objectives.base import Objective, register_objective

LogisticParams = namedtuple("LogisticParams", "n rows weight gamma capped")
LogisticWork = namedtuple("LogisticWork", "grad trial margins ends")


@kernel
def _size(params):
    return 2 * params.n + 2 * params.rows.shape[0], 0


@kernel(memory=True)
def _carve(params, floats, integers):
    n, m = params.n, params.rows.shape[0]
    return LogisticWork(*split(floats, n, n, m, m))


@kernel
def _loss(margin):
    """(log(1 + exp(-margin)), 1 / (1 + exp(margin))) without overflow."""
    small = math.exp(-abs(margin))
    if margin >= 0.0:
        return math.log1p(small), small / (1.0 + small)
    return math.log1p(small) - margin, 1.0 / (1.0 + small)


#: The capped regulariser has its left derivative up to here, rounding of gamma t^2 = 1 included: bounds over boxes
#: that end at the kink need it.
_KINK = 1.0 + 1e-12


@kernel
def _penalty(params, t):
    """(r(t), r'(t)) times the weight."""
    square = params.gamma * t * t
    if params.capped:
        if square > _KINK:
            return params.weight, 0.0
        return params.weight * min(square, 1.0), 2.0 * params.weight * params.gamma * t
    share = 1.0 / (1.0 + square)
    return params.weight * square * share, 2.0 * params.weight * params.gamma * t * share * share


@kernel
def _margins(rows, x, out):
    for j in range(out.size):
        out[j] = dot(rows[j], x)


@kernel
def _value_and_gradient_at(params, work, x):
    """Value, and gradient into the workspace, for the margins at x."""
    m = work.margins.size
    grad = work.grad
    value = 0.0
    for i in range(x.size):
        grad[i] = 0.0
    for j in range(m):
        loss, miss = _loss(work.margins[j])
        value -= loss / m
        add_scaled(grad, miss / m, params.rows[j])
    for i in range(x.size):
        cost, rate = _penalty(params, x[i])
        value -= cost
        grad[i] -= rate
    return value


@kernel
def _evaluate(params, work, x):
    _margins(params.rows, x, work.margins)
    return _value_and_gradient_at(params, work, x)


@kernel
def _prepare(params, work, x, v):
    _margins(params.rows, v, work.ends)


@kernel
def _advance(params, work, x, v, gamma, value):
    add_scaled(x, gamma, v)
    add_scaled(work.margins, gamma, work.ends)
    return _value_and_gradient_at(params, work, x)


@kernel
def _contract(params, work, x, v, gamma, value):
    blend(x, gamma, v)
    blend(work.margins, gamma, work.ends)
    return _value_and_gradient_at(params, work, x)


@kernel
def _derivative_along(params, work, x, v, gamma):
    margins, ends = work.margins, work.ends
    m = margins.size
    value = derivative = 0.0
    for j in range(m):
        loss, miss = _loss(margins[j] + gamma * (ends[j] - margins[j]))
        value -= loss / m
        derivative += miss / m * (ends[j] - margins[j])
    for i in range(x.size):
        cost, rate = _penalty(params, x[i] + gamma * (v[i] - x[i]))
        value -= cost
        derivative -= rate * (v[i] - x[i])
    return value, derivative


register_objective(
    LogisticParams,
    objective_size=_size,
    objective_carve=_carve,
    evaluate=_evaluate,
    prepare=_prepare,
    advance=_advance,
    contract=_contract,
    derivative_along=_derivative_along,
)


class LogisticNonconvex(Objective):
    """Minus the mean logistic loss, minus a non-convex regulariser.

    Parameters
    ----------
    Z : array_like, shape (m, n)
        Data, one row an observation.
    y : array_like, shape (m,)
        Labels, +1 or -1.
    weight : float, default 0.1
        Weight of the regulariser, at least 0.
    gamma : float, default 1.0
        Scale of the regulariser, above 0.
    regularizer : {"smooth", "capped"}
        gamma t^2 / (1 + gamma t^2), or min(gamma t^2, 1).

    Raises
    ------
    ValueError
        For a label other than +1 and -1, shapes that do not match, or a number out of range.

    Notes
    -----
    Bian et al. 2017, Appendix A; the regularisers are those of Antoniadis et al. 2011. If the entries
    of each column of Z have one sign, f is DR-submodular, after changes of sign, where
    |x_i| <= `dr_radius`; not beyond.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.LogisticNonconvex([[1.0, -2.0], [0.5, -1.0]], [1, -1], weight=0.1, gamma=3.0)
    >>> round(f.value([0.0, 0.0]), 4), round(f.dr_radius, 4)
    (-0.6931, 0.3333)
    """

    y: NDArray[np.float64]

    def __init__(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        weight: float = 0.1,
        gamma: float = 1.0,
        regularizer: Literal["smooth", "capped"] = "smooth",
    ) -> None:
        Z = as_array(Z, "Z", 2)
        if not Z.size:
            raise ValueError(f"Z is empty: shape {Z.shape}")
        self.y = y = as_vector(y, "y", n=len(Z))
        odd = np.flatnonzero(np.abs(y) != 1.0)
        if odd.size:
            raise ValueError(f"y[{odd[0]}] = {y[odd[0]]:g}: labels are +1 and -1")
        capped = one_of(regularizer, "regularizer", ("smooth", "capped")) == "capped"
        weight, gamma = as_real(weight, "weight", lower=0.0), as_real(gamma, "gamma", lower=0.0, strict=True)
        n = Z.shape[1]
        super().__init__(n, LogisticParams(n, Z * y[:, None], weight, gamma, capped))

    def __repr__(self) -> str:
        return f"LogisticNonconvex(n={self.n}, m={len(self._params.rows)})"

    @property
    def Z(self) -> NDArray[np.float64]:
        """Data, shape (m, n)."""
        return self._params.rows * self.y[:, None]

    @property
    def weight(self) -> float:
        """Weight of the regulariser."""
        return self._params.weight

    @property
    def gamma(self) -> float:
        """Scale of the regulariser."""
        return self._params.gamma

    @property
    def regularizer(self) -> str:
        """Name of the regulariser."""
        return "capped" if self._params.capped else "smooth"

    @property
    def dr_radius(self) -> float:
        """Largest bound on every |x_i| for which the regulariser keeps diminishing returns."""
        if self._params.weight == 0.0:
            return math.inf
        return 1.0 / math.sqrt(self._params.gamma * (1.0 if self._params.capped else 3.0))

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self.orthant_dr_submodular_on(np.ones(self.n), upper)

    def orthant_dr_submodular_on(self, alpha: NDArray[np.float64], reach: NDArray[np.float64]) -> bool | None:
        """Whether f is known to be K_alpha-DR-submodular where |x_i| <= reach_i: True or None."""
        signed = self._params.rows * alpha
        one_sign = (signed >= 0.0).all(axis=1) | (signed <= 0.0).all(axis=1)
        return True if one_sign.all() and np.max(reach) <= self.dr_radius else None

    def likely_peak(self) -> NDArray[np.float64] | None:
        # The regulariser is least there.
        return np.zeros(self.n)

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        # f(0) = -log 2.
        return False

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        # The loss has curvature at most 1/4 for each margin, r at most 2 gamma.
        rows, weight, gamma = self._params.rows, self._params.weight, self._params.gamma
        largest = np.linalg.norm(rows, 2) ** 2 / (4.0 * len(rows)) + 2.0 * weight * gamma
        return float(largest * (upper @ upper))

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
        rows, weight, gamma = np.abs(self._params.rows), self._params.weight, self._params.gamma
        return rows.T @ rows / (4.0 * len(rows)) + 2.0 * weight * gamma * np.eye(self.n)

    def smoothness_on(self, upper: NDArray[np.float64]) -> float | None:
        rows, weight, gamma = self._params.rows, self._params.weight, self._params.gamma
        if self._params.capped and upper.max() > self.dr_radius:
            return None  # the gradient jumps there
        return float(np.linalg.norm(rows, 2) ** 2 / (4.0 * len(rows)) + 2.0 * weight * gamma)

    def strong_dr_on(self, upper: NDArray[np.float64]) -> float | None:
        if not self.dr_submodular_on(upper):
            return None
        rows, weight, gamma, capped = self._params[1:]
        # The loss bends least where a margin is largest in size, the regulariser at the end of its range.
        most = np.exp(-np.abs(rows) @ upper)
        loss = (most / (1.0 + most) ** 2) @ rows**2 / len(rows)
        square = gamma * upper**2
        bend = 2.0 * gamma * (np.ones(self.n) if capped else (1.0 - 3.0 * square) / (1.0 + square) ** 3)
        return float(max(0.0, (loss + weight * bend).min()))


register_kind(
    OBJECTIVES, "logistic-nonconvex", LogisticNonconvex, Z=array("m n"), y=array("m"), weight=NUMBER, gamma=NUMBER,
    regularizer=TEXT, about="non-convex regression",
    example=lambda n: {"Z": np.array([3.0, 2.0] * n)[:n] * [[1.0], [0.5]] + np.eye(2, n), "y": np.array([1.0, -1.0])},
)  # fmt: skip
