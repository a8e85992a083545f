"""Spectral objective f(x) = log det(M(x)), M(x) = offset + sum_i x_i A_i, A_i positive semidefinite.

    d_i f = tr(M^-1 A_i),   d_ij f = -tr(M^-1 A_i M^-1 A_j) <= 0,

so f is DR-submodular where M is positive definite, non-decreasing, and concave besides: a small Frank-Wolfe gap bounds
the distance to the global maximum. For rank-one A_i = v_i v_i' it is D-optimal design: d_i f = v_i'M^-1 v_i.

With M = L L' and K = L^-1: d_i f = |K v_i|^2 for factors, <K'K, A_i> for dense matrices. A step changes M along
sum_i v_i A_i, formed once for as long as v stays; the exact step solves tr(M^-1 dM) = 0 on matrices alone.

Where M is singular (at x = 0 without an offset) f is -inf and the gradient is returned as +inf: start elsewhere. A
pivot of the Cholesky factorisation below p eps of its diagonal entry counts as zero (Bian et al. 2017).
"""

import math
from collections import namedtuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, as_symmetric
from drsub_fast._kinds import OBJECTIVES, array, register_kind
from drsub_fast.engine.dispatch import operation
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import add_scaled, blend
from drsub_fast.objectives.base import Objective, best_step, register_objective

DenseParams = namedtuple("DenseParams", "n matrices offset shift")
FactorParams = namedtuple("FactorParams", "n factors offset shift")
SpectralWork = namedtuple("SpectralWork", "grad trial M end L K W")

# weighted_sum(params, x, out): lower triangle of out = sum_i x_i A_i, from an out of zeros.
# inner_products(params, K, W, grad): grad_i = <K'K, A_i>, K lower triangular; W is scratch.
weighted_sum = operation("weighted_sum")
inner_products = operation("inner_products")


@kernel
def _dense_sum(params, x, out):
    for i in range(x.size):
        if x[i] != 0.0:
            for r in range(out.shape[0]):
                for s in range(r + 1):
                    out[r, s] += x[i] * params.matrices[i, r, s]


@kernel
def _factor_sum(params, x, out):
    for i in range(x.size):
        if x[i] != 0.0:
            factor = params.factors[i]
            for r in range(factor.size):
                scale = x[i] * factor[r]
                for s in range(r + 1):
                    out[r, s] += scale * factor[s]


@kernel
def _gram(K, W):
    """W = K'K for a lower triangular K."""
    p = K.shape[0]
    for r in range(p):
        for s in range(p):
            W[r, s] = 0.0
    for k in range(p):
        row = K[k]
        for r in range(k + 1):
            scale = row[r]
            for s in range(k + 1):
                W[r, s] += scale * row[s]


@kernel(reductions=True)
def _matrix_dot(W, A):
    """<W, A> for symmetric matrices."""
    total = 0.0
    for r in range(W.shape[0]):
        for s in range(W.shape[0]):
            total += W[r, s] * A[r, s]
    return total


@kernel
def _dense_inner(params, K, W, grad):
    _gram(K, W)
    for i in range(grad.size):
        grad[i] = _matrix_dot(W, params.matrices[i])


@kernel(reductions=True)
def _factor_inner(params, K, W, grad):
    for i in range(grad.size):
        factor = params.factors[i]
        total = 0.0
        for r in range(factor.size):
            entry = 0.0
            row = K[r]
            for s in range(r + 1):
                entry += row[s] * factor[s]
            total += entry * entry
        grad[i] = total


@kernel
def _size(params):
    return 2 * params.n + 5 * params.offset.size, 0


@kernel(memory=True)
def _carve(params, floats, integers):
    n, p = params.n, params.offset.shape[0]
    return SpectralWork(*split(floats, n, n, (p, p), (p, p), (p, p), (p, p), (p, p)))


@kernel(reductions=True)
def _cholesky(M, L):
    """Lower L with L L' = M from the lower triangle of M; returns log det M, -inf if M is singular."""
    p = M.shape[0]
    log_det = 0.0
    for r in range(p):
        row = L[r]
        for s in range(r + 1):
            other = L[s]
            entry = M[r, s]
            for k in range(s):
                entry -= row[k] * other[k]
            if s < r:
                row[s] = entry / other[s]
            elif entry > p * 2.3e-16 * M[r, r]:
                row[r] = math.sqrt(entry)
                log_det += math.log(entry)
            else:
                return -math.inf
    return log_det


@kernel
def _invert(L, K):
    """Lower K = L^-1."""
    for r in range(L.shape[0]):
        row = K[r]
        for s in range(r):
            row[s] = 0.0
        for k in range(r):
            scale = L[r, k]
            other = K[k]
            for s in range(k + 1):
                row[s] -= scale * other[s]
        inverse = 1.0 / L[r, r]
        for s in range(r):
            row[s] *= inverse
        row[r] = inverse


@kernel
def _value_and_gradient_at(params, work):
    """Value, and gradient into the workspace, for the matrix work.M."""
    log_det = _cholesky(work.M, work.L)
    if log_det == -math.inf:
        for i in range(params.n):
            work.grad[i] = math.inf
        return log_det
    _invert(work.L, work.K)
    inner_products(params, work.K, work.W, work.grad)
    return log_det - params.shift


@kernel
def _copy(A, out):
    for r in range(A.shape[0]):
        for s in range(A.shape[1]):
            out[r, s] = A[r, s]


@kernel
def _evaluate(params, work, x):
    _copy(params.offset, work.M)
    weighted_sum(params, x, work.M)
    return _value_and_gradient_at(params, work)


@kernel
def _prepare(params, work, x, v):
    _copy(params.offset, work.end)
    weighted_sum(params, v, work.end)


@kernel
def _move(M, end, start, gamma):
    """M += gamma (end - start) on the lower triangle."""
    for r in range(M.shape[0]):
        for s in range(r + 1):
            M[r, s] += gamma * (end[r, s] - start[r, s])


@kernel
def _advance(params, work, x, v, gamma, value):
    add_scaled(x, gamma, v)
    _move(work.M, work.end, params.offset, gamma)
    return _value_and_gradient_at(params, work)


@kernel
def _contract(params, work, x, v, gamma, value):
    blend(x, gamma, v)
    _move(work.M, work.end, work.M, gamma)
    return _value_and_gradient_at(params, work)


@kernel
def _derivative_along(params, work, x, v, gamma):
    M, end, L, W = work.M, work.end, work.L, work.W
    p = M.shape[0]
    for r in range(p):
        for s in range(r + 1):
            W[r, s] = M[r, s] + gamma * (end[r, s] - M[r, s])
    log_det = _cholesky(W, L)
    if log_det == -math.inf:
        return log_det, -math.inf
    _invert(L, work.K)
    _gram(work.K, W)
    total = 0.0
    for r in range(p):
        for s in range(r):
            total += 2.0 * W[r, s] * (end[r, s] - M[r, s])
        total += W[r, r] * (end[r, r] - M[r, r])
    return log_det - params.shift, total


@kernel
def _exact_step(params, work, x, v, limit, value):
    return best_step(params, work, x, v, limit, value, 1)  # f is concave


register_objective(
    DenseParams,
    FactorParams,
    objective_size=_size,
    objective_carve=_carve,
    evaluate=_evaluate,
    prepare=_prepare,
    advance=_advance,
    contract=_contract,
    exact_step=_exact_step,
    derivative_along=_derivative_along,
)
register_objective(DenseParams, weighted_sum=_dense_sum, inner_products=_dense_inner)
register_objective(FactorParams, weighted_sum=_factor_sum, inner_products=_factor_inner)


class Spectral(Objective):
    """log det(sum_i x_i A_i), or log det(offset + sum_i x_i A_i) - log det(offset) with an offset.

    Parameters
    ----------
    matrices : array_like, shape (n, p, p), optional
        Symmetric positive semidefinite A_i.
    factors : array_like, shape (n, p), optional
        Rows v_i of rank-one A_i = v_i v_i', instead of ``matrices``: experiment design.
    offset : array_like, shape (p, p), optional
        Positive definite matrix, e.g. the prior precision of a Bayesian design. Then f(0) = 0 and f >= 0,
        as the bounds of the methods that start from 0 require. Without it f(0) = -inf, and every method begins
        at or goes through a point of the set with no entry 0 that need not be: no a-priori bound holds.

    Raises
    ------
    ValueError
        For a matrix that is not symmetric or not positive semidefinite, an offset that is not positive
        definite, or not exactly one of ``matrices`` and ``factors``.

    Notes
    -----
    Bian et al. 2017. f is concave as well as DR-submodular and non-decreasing.

    Examples
    --------
    >>> import numpy as np
    >>> import drsub_fast as ds
    >>> f = ds.Spectral(factors=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], offset=np.eye(2))
    >>> round(f.value([1.0, 1.0, 0.0]), 4)
    1.3863
    >>> f.gradient([1.0, 1.0, 0.0])
    array([0.5, 0.5, 1. ])
    """

    def __init__(
        self, matrices: ArrayLike | None = None, *, factors: ArrayLike | None = None, offset: ArrayLike | None = None
    ) -> None:
        if (matrices is None) == (factors is None):
            raise ValueError("give either matrices, shape (n, p, p), or factors, shape (n, p)")
        data = as_array(factors, "factors", 2) if matrices is None else _as_semidefinite_stack(matrices)
        if not data.size:
            raise ValueError(f"no data: shape {data.shape}")
        n, p = data.shape[:2]
        self._has_offset = self.finite_at_zero = offset is not None
        params_class = FactorParams if matrices is None else DenseParams
        super().__init__(n, params_class(n, data, *_as_offset(offset, p)))

    def __repr__(self) -> str:
        return f"Spectral(n={self.n}, p={len(self._params.offset)})"

    @property
    def matrices(self) -> NDArray[np.float64] | None:
        """The A_i, shape (n, p, p), or None where factors were given."""
        return self._params.matrices if isinstance(self._params, DenseParams) else None

    @property
    def factors(self) -> NDArray[np.float64] | None:
        """The v_i with A_i = v_i v_i', shape (n, p), or None where matrices were given."""
        return self._params.factors if isinstance(self._params, FactorParams) else None

    @property
    def offset(self) -> NDArray[np.float64] | None:
        """The offset, shape (p, p), or None."""
        return self._params.offset if self._has_offset else None

    @property
    def operations(self) -> float:
        return super().operations + len(self._params.offset) ** 3

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        # Without an offset f falls to -inf at 0.
        return self._has_offset

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        if not self._has_offset:
            return None
        return float(upper @ self._hessian(np.zeros(self.n)) @ upper)

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
        # -d'H(x)d = tr(M^-1 D M^-1 D) with D = sum_i d_i A_i, which falls as M rises: it is largest at 0.
        return self._hessian(np.zeros(self.n)) if self._has_offset else None

    def strong_dr_on(self, upper: NDArray[np.float64]) -> float | None:
        if not np.isfinite(self.value(upper)):
            return 0.0
        # -d_jj f = tr((M^-1 A_j)^2) falls as M rises.
        active = upper > 0.0
        return float(self._hessian(upper).diagonal()[active].min()) if active.any() else 0.0

    def _hessian(self, x):
        """Minus the Hessian at x, shape (n, n): tr(M^-1 A_i M^-1 A_j)."""
        data, offset = self._params[1], self._params.offset
        if self.factors is not None:
            inner = data @ np.linalg.solve(offset + (data.T * x) @ data, data.T)
            return 0.5 * (inner**2 + inner.T**2)
        rows = np.linalg.solve(offset + np.tensordot(x, data, 1), data).reshape(self.n, -1)
        products = rows @ rows.reshape(data.shape).transpose(0, 2, 1).reshape(self.n, -1).T
        return 0.5 * (products + products.T)


def _as_semidefinite_stack(matrices):
    """Stack of symmetric positive semidefinite matrices, shape (n, p, p)."""
    stack = as_array(matrices, "matrices", 3)
    for i in range(len(stack)):
        stack[i] = as_symmetric(stack[i], f"matrices[{i}]")
        eigenvalues = np.linalg.eigvalsh(stack[i])
        if eigenvalues[0] < -1e-10 * max(eigenvalues[-1], -eigenvalues[0]):
            raise ValueError(f"matrices[{i}] is not positive semidefinite: it has the eigenvalue {eigenvalues[0]:g}")
    return stack


def _as_offset(offset, p):
    """(offset, log det offset), zeros for None."""
    if offset is None:
        return np.zeros((p, p)), 0.0
    offset = as_symmetric(offset, "offset")
    if offset.shape[0] != p:
        raise ValueError(f"offset has shape {offset.shape}, expected ({p}, {p})")
    smallest = np.linalg.eigvalsh(offset)[0]
    if smallest <= 0.0:
        raise ValueError(f"offset is not positive definite: it has the eigenvalue {smallest:g}")
    return offset, float(np.linalg.slogdet(offset)[1])


register_kind(
    OBJECTIVES, "spectral", Spectral, matrices=array("n p p"), factors=array("n p"), offset=array("p p"),
    about="log det of a weighted sum: optimal design",
    example=lambda n: {"factors": np.array([[2.0, 0.5], [1.0, 1.5]] * n)[:n], "offset": np.eye(2)},
)  # fmt: skip
