"""Upper bounds for a quadratic over a down-closed polytope by its doubly non-negative relaxation.

The problem, brought to the unit box (see `solvers.exact`), is

    max 1/2 x'Hx + h'x   over   {x : A x <= 1, 0 <= x <= 1},   H symmetric of any sign, A >= 0.

With z = (1, x), C = [[0, h'/2], [h/2, H/2]] and the rows of V = [I; (1, -A)] (every row v has <v, z> >= 0
on the set) the relaxation keeps all products of two constraints:

    max <C, Z>   subject to   Z_00 = 1,  Z positive semidefinite,  R = V Z V' >= 0 entrywise.

*Safe bound.* Whatever W >= 0 (symmetric, W_00 = 0) an inexact solver returns, on the set

    1/2 x'Hx + h'x = z'Cz <= z'Qz,   Q = C + V'WV,

and for every s >= 0 with sI - Q_xx positive definite, since |x|^2 <= n,

    z'Qz <= Q_00 + q'(sI - Q_xx)^-1 q + s n,   q = Q_x0.

The bound is the smallest of these over a few s, plus an allowance for the rounding of all that
arithmetic; a Cholesky factorisation that succeeds proves that sI - Q_xx is positive definite up to that
allowance (Rump 2006, "Verification of positive definiteness").

*Interior point.* Primal-dual with the HKM direction and Mehrotra's predictor and corrector, from the
analytic centre x of the set and its Dikin ellipsoid: Z = zz' + (1/2) (0 + Hess^-1) has R > 0. Only the
upper triangle of Z is unknown, so for N = n + 1 the Newton matrix is of order K - 1, K = N (N + 1) / 2.
It is formed without the L^2 product rows: with D = W / R (entrywise) and P_a,(ik) = V_ai V_ak,

    F = P'DP,   M_(ij),(kl) = d_ij d_kl (2 (F_ik,jl + F_il,jk) + the four products of Z^-1 and S),

d = 1/2 on the diagonal and 1 off it. A step costs O(K^3).

The relaxation with all products is the one of Sherali and Adams (1990, RLT) with the semidefinite
constraint of Anstreicher (2009).
"""

from collections import namedtuple

import numpy as np

from drsub_fast._jit import kernel

#: Data of one relaxation: ``C`` (N, N), ``V`` (L, N), ``products`` (L, K) the matrix P, ``row`` and ``col``
#: (K,) the pairs i <= j, pair 0 being (0, 0), ``place`` (N, N) the number of a pair.
Relaxation = namedtuple("Relaxation", "C V products row col place")

#: What the interior point carries from step to step: primal ``Z`` (N, N), ``R`` (L, L), dual ``S`` (N, N), ``W``
#: (L, L, the multipliers, halved off the diagonal, where each product stands twice), work ``F`` (K, K)
#: and ``M`` (K - 1, K - 1), and ``numbers``.
Iterate = namedtuple("Iterate", "Z R S W F M numbers")

#: Entries of ``Iterate.numbers``: <C, Z>, the best safe bound so far, the complementarity, the last step.
OBJECTIVE, BOUND, GAP, STEP = range(4)

#: Codes of `improve`: a step was taken, or rounding stands in the way of the next one.
STEPPED, STALLED = 0, 1

_EPS = 2.0**-52
_FIRST_MU = 0.1


@kernel(reductions=True)
def _cholesky(A, L):
    """L L' = A, lower triangle, for a small A; False if A is not numerically positive definite."""
    for i in range(A.shape[0]):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total > 0.0:
                L[i, i] = np.sqrt(total)
            else:
                return False
    return True


@kernel
def _forward_solve(L, b):
    """b <- L^-1 b."""
    for i in range(b.size):
        total = b[i]
        for k in range(i):
            total -= L[i, k] * b[k]
        b[i] = total / L[i, i]


@kernel
def _backward_solve(L, b):
    """b <- L^-T b."""
    for i in range(b.size - 1, -1, -1):
        b[i] /= L[i, i]
        for k in range(i):
            b[k] -= L[i, k] * b[i]


@kernel
def _inverse(L, out):
    """out = (L L')^-1."""
    n = L.shape[0]
    T = np.zeros((n, n))
    for j in range(n):
        T[j, j] = 1.0 / L[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= L[i, k] * T[k, j]
            T[i, j] = total / L[i, i]
    out[:, :] = np.dot(T.T, T)


@kernel
def _centre(V, x):
    """Moves x to the analytic centre of {x : V (1, x) > 0}; returns the inverse Hessian of the barrier there."""
    L, N = V.shape
    n = N - 1
    hessian, factor, inverse = np.empty((n, n)), np.zeros((n, n)), np.zeros((n, n))
    slack, step = np.empty(L), np.empty(n)
    scaled = np.empty((L - 1, n))
    for _ in range(50):
        step[:] = 0.0
        for a in range(1, L):
            slack[a] = V[a, 0]
            for j in range(n):
                slack[a] += V[a, 1 + j] * x[j]
            for j in range(n):
                scaled[a - 1, j] = V[a, 1 + j] / slack[a]
                step[j] += scaled[a - 1, j]
        hessian[:, :] = np.dot(scaled.T, scaled)
        if not _cholesky(hessian, factor):
            break
        _forward_solve(factor, step)
        decrement = np.sqrt(np.sum(step * step))
        _backward_solve(factor, step)
        if decrement < 0.25:
            break
        x += step / (1.0 + decrement)
    _inverse(factor, inverse)
    return inverse


@kernel
def begin(relaxation, iterate):
    """The interior point's start: analytic centre, Dikin ellipsoid, multipliers on the central path."""
    V, (Z, R, S, W, _, _, numbers) = relaxation.V, iterate
    L, N = V.shape
    most = 1.0
    for a in range(N, L):
        most = max(most, np.sum(np.abs(V[a, 1:])))
    x = np.full(N - 1, 0.5 / most)
    inverse = _centre(V, x)
    Z[0, 0] = 1.0
    for i in range(N - 1):
        Z[0, 1 + i] = Z[1 + i, 0] = x[i]
        for j in range(N - 1):
            Z[1 + i, 1 + j] = x[i] * x[j] + 0.25 * (inverse[i, j] + inverse[j, i])
    R[:, :] = np.dot(np.dot(V, Z), V.T)
    for a in range(L):
        for b in range(L):
            W[a, b] = (1.0 if a == b else 0.5) * _FIRST_MU / R[a, b]
    W[0, 0] = 0.0
    factor = np.zeros((N, N))
    _cholesky(Z, factor)
    _inverse(factor, S)
    S *= _FIRST_MU
    numbers[OBJECTIVE] = np.sum(relaxation.C * Z)
    numbers[BOUND] = np.inf
    numbers[GAP] = np.inf
    numbers[STEP] = 1.0


@kernel
def safe_bound(C, V, W):
    """An upper bound on z'Cz over the set from any symmetric W; negative entries count as 0.

    Infinite where none of the shifts tried makes sI - Q_xx positive definite.
    """
    L, N = V.shape
    n = N - 1
    W = np.maximum(W, 0.0)
    W[0, 0] = 0.0
    Q = C + np.dot(np.dot(V.T, W), V)
    absolute = np.abs(V)
    size = np.abs(C) + np.dot(np.dot(absolute.T, W), absolute)
    # Rounding: forming C, Q and the bordered Cholesky factor errs by less than this in the 2-norm.
    error = (4 * L + 4 * N + 20) * _EPS * np.sqrt(np.sum(size * size))
    factor = np.zeros((n, n))
    y = np.empty(n)
    best = np.inf
    shift = error + 1e-300
    scale = np.sqrt(np.sum(Q[1:, 1:] ** 2))
    while shift <= 10.0 * scale + error:
        G = -0.5 * (Q[1:, 1:] + Q[1:, 1:].T)
        for j in range(n):
            G[j, j] += shift
        if _cholesky(G, factor):
            for j in range(n):
                y[j] = 0.5 * (Q[0, 1 + j] + Q[1 + j, 0])
            _forward_solve(factor, y)
            rise = np.sum(y * y)
            rounding = error + (2 * N + 20) * _EPS * (n * shift + abs(Q[0, 0]) + rise)
            bound = Q[0, 0] + rise + shift * n + rounding * (1 + n)
            if bound > best:
                break
            best = bound
        shift *= 8.0
    return best if best == best else np.inf


@kernel
def _newton_matrix(relaxation, iterate, inverse):
    """Lower triangle of the Newton matrix, without pair 0."""
    V, P, row, col, place = relaxation.V, relaxation.products, relaxation.row, relaxation.col, relaxation.place
    S, F, M = iterate.S, iterate.F, iterate.M
    F[:, :] = np.dot(P.T, np.dot(iterate.W / iterate.R, P))
    for p in range(1, row.size):
        i, j = row[p], col[p]
        d = 0.5 if i == j else 1.0
        for q in range(1, p + 1):
            k, l = row[q], col[q]
            products = inverse[j, k] * S[i, l] + inverse[j, l] * S[i, k] + inverse[i, k] * S[j, l] + inverse[i, l] * S[j, k]
            pairs = 2.0 * (F[place[i, k], place[j, l]] + F[place[i, l], place[j, k]])
            M[p - 1, q - 1] = (0.5 * d if k == l else d) * (pairs + products)
        M[p - 1, p - 1] *= 1.0 + 1e-13


@kernel
def _direction(relaxation, iterate, inverse, mu, W_second, S_second):
    """Newton direction towards the central path at mu, second-order terms given: dZ, dR, dS, dW."""
    C, V, row, col = relaxation.C, relaxation.V, relaxation.row, relaxation.col
    Z, R, S, W, _, M, _ = iterate
    L, N = V.shape
    aim = 0.5 * mu / R - W_second
    for a in range(L):
        aim[a, a] += 0.5 * mu / R[a, a]
    aim[0, 0] = 0.0
    G = C + np.dot(np.dot(V.T, aim), V) + mu * inverse - S_second
    z = np.empty(row.size - 1)
    for p in range(1, row.size):
        z[p - 1] = (1.0 if row[p] == col[p] else 2.0) * G[row[p], col[p]]
    _forward_solve(M, z)
    _backward_solve(M, z)
    dZ = np.zeros((N, N))
    for p in range(1, row.size):
        dZ[row[p], col[p]] = dZ[col[p], row[p]] = z[p - 1]
    dR = np.dot(np.dot(V, dZ), V.T)
    dW = aim - W - W / R * dR
    T = np.dot(np.dot(inverse, dZ), S)
    dS = mu * inverse - S - 0.5 * (T + T.T) - S_second
    return dZ, dR, dS, dW


@kernel
def _largest_step(A, dA, B, dB, factor):
    """A step t <= 1 that keeps A + t dA entrywise >= 0 (but for entry 0, 0) and B + t dB positive definite."""
    high = 1.02
    for a in range(A.shape[0]):
        for b in range(a + 1):
            if a > 0 and A[a, b] + high * dA[a, b] < 0.0:
                high = -A[a, b] / dA[a, b]
    if _cholesky(B + high * dB, factor):
        return high
    low = 0.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if _cholesky(B + middle * dB, factor):
            low = middle
        else:
            high = middle
        if high - low < 0.01 * low:
            break
    return low


@kernel
def improve(relaxation, iterate):
    """One predictor-corrector step and the safe bound after it; returns STEPPED or STALLED."""
    C, V = relaxation.C, relaxation.V
    Z, R, S, W, _, M, numbers = iterate
    L, N = V.shape
    count = N + L * (L + 1) // 2 - 1
    factor, inverse = np.zeros((N, N)), np.empty((N, N))
    if not _cholesky(Z, factor):
        return STALLED
    _inverse(factor, inverse)
    mu = (np.sum(W * R) + np.sum(S * Z)) / count
    _newton_matrix(relaxation, iterate, inverse)
    if not _cholesky(M, M):
        return STALLED

    dZ, dR, dS, dW = _direction(relaxation, iterate, inverse, 0.0, np.zeros((L, L)), np.zeros((N, N)))
    primal = min(1.0, 0.98 * _largest_step(R, dR, Z, dZ, factor))
    dual = min(1.0, 0.98 * _largest_step(W, dW, S, dS, factor))
    ahead = np.sum((W + dual * dW) * (R + primal * dR)) + np.sum((S + dual * dS) * (Z + primal * dZ))
    ratio = ahead / count / mu
    centring = min(1.0, max(1e-4, ratio * ratio if min(primal, dual) > 0.1 else 0.5))

    T = np.dot(np.dot(inverse, dZ), dS)
    dZ, dR, dS, dW = _direction(relaxation, iterate, inverse, centring * mu, dW * dR / R, 0.5 * (T + T.T))
    primal = _largest_step(R, dR, Z, dZ, factor)
    dual = _largest_step(W, dW, S, dS, factor)
    caution = 0.9 + 0.09 * min(1.0, primal, dual)
    primal, dual = min(1.0, caution * primal), min(1.0, caution * dual)
    if not (min(primal, dual) > 1e-6):
        return STALLED
    Z += primal * dZ
    R[:, :] = np.dot(np.dot(V, Z), V.T)
    S += dual * dS
    W += dual * dW
    for a in range(1, L):
        for b in range(a + 1):
            if not (R[a, b] > 0.0 and W[a, b] > 0.0):
                return STALLED
    numbers[OBJECTIVE] = np.sum(C * Z)
    numbers[BOUND] = min(numbers[BOUND], safe_bound(C, V, W))
    numbers[GAP] = count * mu
    numbers[STEP] = min(primal, dual)
    return STEPPED


def relaxation(H, h, A):
    """Data and first iterate of the relaxation.

    Parameters
    ----------
    H : ndarray, shape (n, n)
        Symmetric, of any sign.
    h : ndarray, shape (n,)
    A : ndarray, shape (m, n)
        Rows A x <= 1, non-negative, that together imply x <= 1.

    Returns
    -------
    Relaxation, Iterate
    """
    n, m = len(h), len(A)
    N, L = n + 1, n + 1 + m
    C = np.zeros((N, N))
    C[1:, 1:] = 0.5 * H
    C[0, 1:] = C[1:, 0] = 0.5 * h
    V = np.zeros((L, N))
    V[:N] = np.eye(N)
    V[N:, 0] = 1.0
    V[N:, 1:] = -A
    row, col = np.triu_indices(N)
    K = len(row)
    place = np.empty((N, N), np.int64)
    place[row, col] = place[col, row] = np.arange(K)
    data = Relaxation(C, V, V[:, row] * V[:, col], row.astype(np.int64), col.astype(np.int64), place)
    iterate = Iterate(
        np.empty((N, N)),
        np.empty((L, L)),
        np.empty((N, N)),
        np.empty((L, L)),
        np.empty((K, K)),
        np.empty((K - 1, K - 1)),
        np.empty(4),
    )
    begin(data, iterate)
    return data, iterate
