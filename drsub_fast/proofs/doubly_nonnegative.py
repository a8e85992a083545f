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

    B = 2 P'DP + vec(Z^-1) vec(S)' + vec(S) vec(Z^-1)',   M_(ij),(kl) = d_ij d_kl (B_ik,jl + B_il,jk),

vec being the entries of the pairs and d = 1/2 on the diagonal, 1 off it. A step costs O(K^3). The
multipliers W give a proven bound after any step (`proofs.safe_bound`).

The relaxation with all products is the one of Sherali and Adams (1990, RLT) with the semidefinite
constraint of Anstreicher (2009).
"""

import math
from collections import namedtuple
from collections.abc import Generator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.proofs.safe_bound import Certificate, Relaxation, safe_bound

#: Data of one relaxation: ``C`` (N, N), in units of ``scale``, and ``V`` (L, N) without the equations, the way back
#: ``T`` (n + 1, N), ``products`` (L, K) the matrix P, ``row`` and ``col`` (K,) the pairs i <= j, pair 0 being (0, 0),
#: ``blocks`` the lower triangle of the Newton matrix by `_Block`.
Interior = namedtuple("Interior", "C V scale T products row col blocks")

#: Rows ``first`` to ``last`` of the Newton matrix, pair 0 left out: the places of B_ik,jl and B_il,jk in B, and the
#: factors d_ij d_kl.
_Block = namedtuple("_Block", "first last one other factors")

#: What the interior point carries from step to step: primal ``Z`` (N, N), ``R`` (L, L), dual ``S`` (N, N), ``W``
#: (L, L, the multipliers, halved off the diagonal, where each product stands twice). Also a change of these.
Iterate = namedtuple("Iterate", "Z R S W")

#: Barrier parameter of the first iterate, in units of ``scale``.
_FIRST_MU = 0.1
#: A certificate, a step's work at n = 8 and a third of it at n = 16, is made where this relative gap is left, then
#: where this part of the gap of the last one is left, and at the end.
_CLOSE, _AGAIN = 0.4, 0.3
#: Entries of the Newton matrix that are formed at once.
_BLOCK = 15_000
#: A set this thin, relative to its box, has no interior to work in.
_THIN = 1e-7


def objective(data: Interior, iterate: Iterate) -> float:
    """<C, Z>, which the relaxation's value cannot be below."""
    return data.scale * float(np.vdot(data.C, iterate.Z))


def complementarity(data: Interior, iterate: Iterate) -> float:
    """The sum of all complementarities: about what the bound can still fall."""
    return data.scale * _products(iterate)


def certificate(relaxed: Relaxation, data: Interior, iterate: Iterate) -> Certificate:
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


def inverse_factor(A: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """T with T'T = A^-1, the inverse of the lower Cholesky factor, or None where A is not positive definite."""
    L, code = lapack.dpotrf(A, lower=1)
    if code != 0:
        return None
    T, code = lapack.dtrtri(L, lower=1)
    return T if code == 0 else None


def _centre(V):
    """(w, inverse Hessian of the barrier at w): about the analytic centre of {w : V (1, w) > 0}, from w = 0."""
    w, inverse = np.zeros(V.shape[1] - 1), None
    for _ in range(50):
        scaled = V[1:, 1:] / (V[1:, :1] + V[1:, 1:] @ w[:, None])
        T = inverse_factor(scaled.T @ scaled)
        if T is None:
            return None
        inverse, step = T.T @ T, T @ scaled.sum(axis=0)
        decrement = np.linalg.norm(step)
        if decrement < 0.25:
            break
        w += T.T @ step / (1.0 + decrement)
    return w, inverse


@lru_cache(maxsize=4)
def _pairs(N):
    """``row``, ``col`` and ``blocks`` of an `Interior` of order N."""
    row, col = np.triu_indices(N)
    K = len(row)
    place = np.empty((N, N), np.intp)
    place[row, col] = place[col, row] = np.arange(K)
    half = np.where(row == col, 0.5, 1.0)[1:]
    k, l = row[1:], col[1:]
    blocks, rows = [], max(1, _BLOCK // K)
    for first in range(0, K - 1, rows):
        last = min(first + rows, K - 1)
        i, j = row[first + 1 : last + 1, None], col[first + 1 : last + 1, None]
        one = place[i, k[:last]] * K + place[j, l[:last]]
        other = place[i, l[:last]] * K + place[j, k[:last]]
        blocks.append(_Block(first, last, one, other, np.outer(half[first:last], half[:last])))
    return row, col, tuple(blocks)


def interior(data: Relaxation, scale: float) -> tuple[Interior, Iterate] | None:
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
    if N == 1:
        return None
    row, col, blocks = _pairs(N)
    reduced = Interior(C, V, scale, T, V[:, row] * V[:, col], row, col, blocks)
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
    P, row, col = data.products, data.row, data.col
    outer = np.outer(inverse[row, col], iterate.S[row, col])
    B = 2.0 * (P.T @ ((iterate.W / iterate.R) @ P))
    B += outer
    B += outer.T
    K = len(row) - 1
    M = np.empty((K, K))
    for first, last, one, other, factors in data.blocks:
        part = B.take(one)
        part += B.take(other)
        part *= factors
        M[first:last, :last] = part
    M.ravel()[:: K + 1] *= 1.0 + 1e-13
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


def _largest_step(A, dA, T, dB):
    """A step t <= 1.02 that keeps A + t dA entrywise >= 0 (but for entry 0, 0) and B + t dB positive definite.

    A > 0 but for that entry, and T'T = B^-1; the step is 0 without T.
    """
    if T is None:
        return 0.0
    relative = T @ dB @ T.T
    entries = -(dA.ravel()[1:] / A.ravel()[1:]).min()
    if not (np.isfinite(relative).all() and np.isfinite(entries)):
        return 0.0
    values, _, code = lapack.dsyev(relative, compute_v=0)
    if code != 0:
        return 0.0
    fall = max(entries, -values[0])
    return 1.02 if fall <= 1.0 / 1.02 else float(1.0 / fall)


def _is_interior(A):
    """Whether all entries but (0, 0) are positive."""
    return bool((A.ravel()[1:] > 0.0).all())


def improve(data: Interior, iterate: Iterate) -> Iterate | None:
    """The iterate after one predictor-corrector step, or None where rounding stands in the way."""
    L, N = data.V.shape
    T_Z, T_S = inverse_factor(iterate.Z), inverse_factor(iterate.S)
    if T_Z is None:
        return None
    inverse = T_Z.T @ T_Z
    count = N + L * (L + 1) // 2 - 1
    mu = _products(iterate) / count
    newton = _newton_factor(data, iterate, inverse)
    if newton is None:
        return None
    Z, R, S, W = iterate

    predictor = _direction(data, iterate, inverse, newton, 0.0, None)
    primal = min(1.0, 0.98 * _largest_step(R, predictor.R, T_Z, predictor.Z))
    dual = min(1.0, 0.98 * _largest_step(W, predictor.W, T_S, predictor.S))
    ahead = np.vdot(W + dual * predictor.W, R + primal * predictor.R)
    ahead += np.vdot(S + dual * predictor.S, Z + primal * predictor.Z)
    ratio = ahead / count / mu
    centring = min(1.0, max(1e-4, ratio * ratio)) if min(primal, dual) > 0.1 else 0.5

    corrector = _direction(data, iterate, inverse, newton, centring * mu, predictor)
    primal = _largest_step(R, corrector.R, T_Z, corrector.Z)
    dual = _largest_step(W, corrector.W, T_S, corrector.S)
    caution = 0.9 + 0.09 * min(1.0, primal, dual)
    primal, dual = min(1.0, caution * primal), min(1.0, caution * dual)
    if not min(primal, dual) > 1e-6:
        return None
    Z = Z + primal * corrector.Z
    after = Iterate(Z, data.V @ Z @ data.V.T, S + dual * corrector.S, W + dual * corrector.W)
    return after if _is_interior(after.R) and _is_interior(after.W) else None


def iterates(relaxed: Relaxation, scale: float) -> Generator[Any, None, None]:
    """Yields (data, iterate) after each step, as long as rounding lets it go on."""
    started = interior(relaxed, scale)
    if started is None:
        return
    data, iterate = started
    while (following := improve(data, iterate)) is not None:
        iterate = following
        yield data, iterate


def interior_point_bounds(relaxed: Relaxation, scale: float, gap: float) -> Generator[Any, None, None]:
    """Yields the best bound after each step, until it is the relaxation's to a relative gap."""
    bound, certified, iterate = relaxed.linear, math.inf, None
    for data, iterate in iterates(relaxed, scale):
        left = complementarity(data, iterate) / max(scale, abs(objective(data, iterate)))
        if left <= gap or left <= min(_CLOSE, _AGAIN * certified):
            bound, certified = min(bound, certificate(relaxed, data, iterate).bound), left
        yield bound
        if left <= gap:
            return
    if iterate is not None:
        yield min(bound, certificate(relaxed, data, iterate).bound)
