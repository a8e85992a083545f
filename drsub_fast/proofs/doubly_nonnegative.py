"""The doubly non-negative relaxation of a node by an interior point: to many digits, for up to some tens of variables.

The node's problem (see `proofs.program`) is max z'Cz, z = (1, x), over V z >= 0, E z = 0; its relaxation keeps all
products of two constraints:

    max <C, Z>   subject to   Z_00 = 1,  E Z = 0,  Z positive semidefinite,  R = V Z V' >= 0 entrywise.

Equations are eliminated first: x = x_0 + F w, with x_0 inside the set and the columns of F an orthonormal basis of the
directions they leave, is z = T (1, w), and T'CT and VT take the places of C and V. Only the upper triangle of Z is
unknown, so for N unknowns z the Newton matrix is of order K - 1, K = N (N + 1) / 2.

Primal-dual with the HKM direction and Mehrotra's predictor and corrector, from the analytic centre x of the set and its
Dikin ellipsoid: Z = zz' + (1/2) (0 + Hess^-1) has R > 0. The Newton matrix is formed without the L^2 product rows:
with D = W / R (entrywise) and P_a,(ik) = V_ai V_ak,

    F = P'DP,   M_(ij),(kl) = d_ij d_kl (2 (F_ik,jl + F_il,jk) + the four products of Z^-1 and S),

d = 1/2 on the diagonal and 1 off it. A step costs O(K^3). The multipliers W give a proven bound after any step
(`proofs.safe_bound`).

The relaxation with all products is the one of Sherali and Adams (1990, RLT) with the semidefinite
constraint of Anstreicher (2009).
"""

from collections import namedtuple
from typing import Any

import numpy as np
from scipy.linalg import lapack, solve_triangular

from drsub_fast.engine.clock import now
from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.proofs.safe_bound import safe_bound

#: Data of one relaxation: ``C`` (N, N), in units of ``scale``, and ``V`` (L, N) without the equations, the way back
#: ``T`` (n + 1, N), ``products`` (L, K) the matrix P, ``row`` and ``col`` (K,) the pairs i <= j, pair 0 being (0, 0),
#: ``place`` (N, N) the number of a pair.
Interior = namedtuple("Interior", "C V scale T products row col place")

#: What the interior point carries from step to step: primal ``Z`` (N, N), ``R`` (L, L), dual ``S`` (N, N), ``W``
#: (L, L, the multipliers, halved off the diagonal, where each product stands twice). Also a change of these.
Iterate = namedtuple("Iterate", "Z R S W")

#: Barrier parameter of the first iterate, in units of ``scale``.
_FIRST_MU = 0.1
#: A certificate, a third of a step's work at n = 8, is made where this relative gap is left, and at the end.
_CLOSE = 1e-2
#: Entries of the Newton matrix that are formed at once.
_BLOCK = 200_000
#: A set this thin, relative to its box, has no interior to work in.
_THIN = 1e-7


def objective(data: Any, iterate: Any) -> Any:
    """<C, Z>, which the relaxation's value cannot be below."""
    return data.scale * float(np.vdot(data.C, iterate.Z))


def complementarity(data: Any, iterate: Any) -> Any:
    """The sum of all complementarities: about what the bound can still fall."""
    return data.scale * _products(iterate)


def certificate(relaxed: Any, data: Any, iterate: Any) -> Any:
    """The `Certificate` of an iterate's multipliers; ``relaxed`` is the data that `interior` was given."""
    return safe_bound(relaxed, data.scale * iterate.W)


def _products(iterate):
    return float(np.vdot(iterate.W, iterate.R) + np.vdot(iterate.S, iterate.Z))


def _inner_point(rows, equations, n):
    """A point as far from all rows and bounds as can be, or None where the set has no interior."""
    if not len(equations) and (rows[:, 1:] <= 0.0).all():
        return np.full(n, 0.5 / max(1.0, (-rows[:, 1:].sum(axis=1) / rows[:, 0]).max(initial=1.0)))
    # max t: rows (1, x) >= t |row|, t <= x <= 1 - t.
    norms = np.linalg.norm(rows[:, 1:], axis=1)
    eye, one = np.eye(n), np.ones((n, 1))
    A = np.block([
        [-rows[:, 1:], norms[:, None]], [-eye, one], [eye, one], [-equations[:, 1:], np.zeros((len(equations), 1))]
    ])  # fmt: skip
    sides = np.concatenate([rows[:, 0], np.zeros(n), np.ones(n), equations[:, 0]])
    low = np.concatenate([np.full(len(rows) + 2 * n, -np.inf), equations[:, 0]])
    upper, cost = np.append(np.ones(n), 1.0), np.append(np.zeros(n), 1.0)
    try:
        x = HighsOracle(A, sides, upper, row_lower=low).maximize(cost, upper)
    except OracleError:
        return None
    return x[:n] if x[n] > _THIN else None


def _cholesky(A):
    """The lower factor of A, or None where A is not numerically positive definite."""
    L, code = lapack.dpotrf(A, lower=1)
    return L if code == 0 else None


def _inverse(L):
    """(L L')^-1."""
    T = solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
    return T.T @ T


def _centre(V):
    """(w, inverse Hessian of the barrier at w): about the analytic centre of {w : V (1, w) > 0}, from w = 0."""
    w = np.zeros(V.shape[1] - 1)
    for _ in range(50):
        scaled = V[1:, 1:] / (V[1:, :1] + V[1:, 1:] @ w[:, None])
        factor = _cholesky(scaled.T @ scaled)
        if factor is None:
            return None
        step = solve_triangular(factor, scaled.sum(axis=0), lower=True, check_finite=False)
        decrement = np.linalg.norm(step)
        if decrement < 0.25:
            break
        w += solve_triangular(factor, step, lower=True, trans=1, check_finite=False) / (1.0 + decrement)
    return w, _inverse(factor)


def interior(data: Any, scale: float) -> Any:
    """The relaxation without its equations, and the first iterate; None where the set has no interior.

    Parameters
    ----------
    data : Relaxation
        A node's data (`proofs.safe_bound.relaxation`).
    scale : float
        About the size of the maximum.

    Returns
    -------
    (Interior, Iterate) or None
    """
    n = len(data.C) - 1
    x = _inner_point(data.V[n + 1 :], data.E, n)
    if x is None:
        return None
    T = np.eye(n + 1)
    if len(data.E):
        _, sizes, right = np.linalg.svd(data.E[:, 1:])
        T = np.zeros((n + 1, n + 1 - int((sizes > 1e-10 * sizes[0]).sum())))
        T[0, 0], T[1:, 1:] = 1.0, right[n + 1 - T.shape[1] :].T
    T[1:, 0] = x
    C, V = T.T @ data.C @ T / scale, data.V @ T
    N = T.shape[1]
    row, col = np.triu_indices(N)
    place = np.empty((N, N), np.intp)
    place[row, col] = place[col, row] = np.arange(len(row))
    reduced = Interior(C, V, scale, T, V[:, row] * V[:, col], row, col, place)
    if N == 1:
        return None
    centre = _centre(V)
    if centre is None:
        return None
    w, inverse = centre
    z = np.append(1.0, w)
    Z = np.outer(z, z)
    Z[1:, 1:] += 0.5 * inverse
    R = V @ Z @ V.T
    if not _is_interior(R):
        return None
    W = np.where(np.eye(len(V)) > 0.0, 1.0, 0.5) * _FIRST_MU / R
    W[0, 0] = 0.0
    return reduced, Iterate(Z, R, _FIRST_MU * np.linalg.inv(Z), W)


def _newton_factor(data, iterate, inverse):
    """Lower Cholesky factor of the Newton matrix, without pair 0, or None."""
    P, row, col, place, S = data.products, data.row[1:], data.col[1:], data.place, iterate.S
    F = P.T @ ((iterate.W / iterate.R) @ P)
    K = len(row)
    M = np.empty((K, K))
    half = np.where(row == col, 0.5, 1.0)
    # Columns of the factors by l and k, so that a block of pairs (i, j) takes rows only.
    by_k, by_l, S_k, S_l = inverse[:, row], inverse[:, col], S[:, row], S[:, col]
    place_k, place_l = place[:, row], place[:, col]
    block = max(1, _BLOCK // K)
    for first in range(0, K, block):
        i, j = row[first : first + block], col[first : first + block]
        last = first + len(i)
        part = F[place_k[i, :last], place_l[j, :last]] + F[place_l[i, :last], place_k[j, :last]]
        part *= 2.0
        part += by_k[j, :last] * S_l[i, :last]
        part += by_l[j, :last] * S_k[i, :last]
        part += by_k[i, :last] * S_l[j, :last]
        part += by_l[i, :last] * S_k[j, :last]
        part *= half[first:last, None] * half[:last]
        M[first:last, :last] = part
    M[np.diag_indices(K)] *= 1.0 + 1e-13
    # The lower triangle of M is the upper one of its transpose, which LAPACK takes without a copy.
    factor, code = lapack.dpotrf(M.T, lower=0, overwrite_a=1, clean=0)
    return factor if code == 0 else None


def _direction(data, iterate, inverse, factor, mu, second):
    """Newton direction towards the central path at mu; ``second`` is the predictor or None."""
    C, V, row, col = data.C, data.V, data.row, data.col
    Z, R, S, W = iterate
    aim = np.full(R.shape, 0.5 * mu)
    np.fill_diagonal(aim, mu)
    G = C + mu * inverse
    TS = 0.0
    if second is not None:
        aim -= second.W * second.R
        TS = second.S @ second.Z @ inverse
        TS = 0.5 * (TS + TS.T)
    aim /= R
    aim[0, 0] = 0.0
    G = G + V.T @ aim @ V - TS
    right = np.where(row == col, 1.0, 2.0)[1:] * G[row, col][1:]
    z, _ = lapack.dpotrs(factor, right, lower=0)
    dZ = np.zeros_like(Z)
    dZ[row[1:], col[1:]] = dZ[col[1:], row[1:]] = z
    dR = V @ dZ @ V.T
    dW = aim - W - W / R * dR
    U = S @ dZ @ inverse
    dS = mu * inverse - S - 0.5 * (U + U.T) - TS
    return Iterate(dZ, dR, dS, dW)


def _largest_step(A, dA, B, dB):
    """A step t <= 1.02 that keeps A + t dA entrywise >= 0 (but for entry 0, 0) and B + t dB positive definite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(dA < 0.0, -A / dA, np.inf)
    reach[0, 0] = np.inf
    L = _cholesky(B)
    if L is None:
        return 0.0
    half = solve_triangular(L, dB, lower=True, check_finite=False)
    least = np.linalg.eigvalsh(solve_triangular(L, half.T, lower=True, check_finite=False))[0]
    return min(1.02, float(reach.min()), -1.0 / least if least < 0.0 else np.inf)


def _is_interior(A):
    """Whether all entries but (0, 0) are positive."""
    return bool((A.ravel()[1:] > 0.0).all())


def improve(data: Any, iterate: Any) -> Any:
    """The iterate after one predictor-corrector step, or None where rounding stands in the way."""
    L, N = data.V.shape
    factor = _cholesky(iterate.Z)
    if factor is None:
        return None
    inverse = _inverse(factor)
    count = N + L * (L + 1) // 2 - 1
    mu = _products(iterate) / count
    newton = _newton_factor(data, iterate, inverse)
    if newton is None:
        return None
    Z, R, S, W = iterate

    predictor = _direction(data, iterate, inverse, newton, 0.0, None)
    primal = min(1.0, 0.98 * _largest_step(R, predictor.R, Z, predictor.Z))
    dual = min(1.0, 0.98 * _largest_step(W, predictor.W, S, predictor.S))
    ahead = np.vdot(W + dual * predictor.W, R + primal * predictor.R)
    ahead += np.vdot(S + dual * predictor.S, Z + primal * predictor.Z)
    ratio = ahead / count / mu
    centring = min(1.0, max(1e-4, ratio * ratio)) if min(primal, dual) > 0.1 else 0.5

    corrector = _direction(data, iterate, inverse, newton, centring * mu, predictor)
    primal = _largest_step(R, corrector.R, Z, corrector.Z)
    dual = _largest_step(W, corrector.W, S, corrector.S)
    caution = 0.9 + 0.09 * min(1.0, primal, dual)
    primal, dual = min(1.0, caution * primal), min(1.0, caution * dual)
    if not min(primal, dual) > 1e-6:
        return None
    Z = Z + primal * corrector.Z
    after = Iterate(Z, data.V @ Z @ data.V.T, S + dual * corrector.S, W + dual * corrector.W)
    return after if _is_interior(after.R) and _is_interior(after.W) else None


def interior_point_bound(relaxed: Any, scale: Any, gap: Any, deadline: Any) -> Any:
    """The bound of the relaxation to a relative gap, or what there is at a deadline (of `now`)."""
    bound, started = relaxed.linear, interior(relaxed, scale)
    if started is None:
        return bound
    data, iterate = started
    while now() < deadline and (ahead := improve(data, iterate)) is not None:
        iterate = ahead
        left = complementarity(data, iterate) / max(scale, abs(objective(data, iterate)))
        if left <= _CLOSE:
            bound = min(bound, certificate(relaxed, data, iterate).bound)
        if left <= gap:
            return bound
    return min(bound, certificate(relaxed, data, iterate).bound)
