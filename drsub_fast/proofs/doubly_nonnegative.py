"""Upper bounds for a quadratic over a down-closed polytope by its doubly non-negative relaxation.

The problem, brought to the unit box (see `proofs.global_optimum`), is

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

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.lapack import gemm, potrf

#: Data of one relaxation: ``C`` (N, N), ``V`` (L, N) and its transpose ``VT``, ``products`` (L, K) the matrix P,
#: ``row`` and ``col`` (K,) the pairs i <= j, pair 0 being (0, 0), ``place`` (N, N) the number of a pair.
Relaxation = namedtuple("Relaxation", "C V VT products row col place")

#: What the interior point carries from step to step: primal ``Z`` (N, N), ``R`` (L, L), dual ``S`` (N, N), ``W``
#: (L, L, the multipliers, halved off the diagonal, where each product stands twice), the Newton matrix ``M``
#: (K - 1, K - 1), and ``numbers``.
Iterate = namedtuple("Iterate", "Z R S W M numbers")

#: A change of an iterate.
Direction = namedtuple("Direction", "Z R S W")

#: Entries of ``Iterate.numbers``: <C, Z>, the best safe bound so far, and the sum of all complementarities, which
#: is about what the bound can still fall.
OBJECTIVE, BOUND, GAP = range(3)

#: Codes of `improve`: a step was taken, or rounding stands in the way of the next one.
STEPPED, STALLED = 0, 1

_EPS = 2.0**-52
_FIRST_MU = 0.1


@kernel(memory=True)
def _product(A, B):
    """A'B, both C-ordered."""
    out = np.zeros((A.shape[1], B.shape[1]))
    gemm(1.0, A, A.shape[1], B, B.shape[1], A.shape[0], out)
    return out


@kernel(reductions=True, memory=True)
def _inner(A, B):
    """Sum of the products of two matrices' entries."""
    total = 0.0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            total += A[i, j] * B[i, j]
    return total


@kernel(reductions=True, memory=True)
def _inner_ahead(A, dA, a, B, dB, b):
    """The same for A + a dA and B + b dB."""
    total = 0.0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            total += (A[i, j] + a * dA[i, j]) * (B[i, j] + b * dB[i, j])
    return total


@kernel(memory=True)
def _move(A, step, dA, out):
    """out = A + step dA."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i, j] = A[i, j] + step * dA[i, j]


@kernel(reductions=True, memory=True)
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
                L[i, i] = math.sqrt(total)
            else:
                return False
    return True


@kernel(reductions=True, memory=True)
def _forward_solve(L, b):
    """b <- L^-1 b."""
    for i in range(b.size):
        total = b[i]
        for k in range(i):
            total -= L[i, k] * b[k]
        b[i] = total / L[i, i]


@kernel(memory=True)
def _backward_solve(L, b):
    """b <- L^-T b."""
    for i in range(b.size - 1, -1, -1):
        b[i] /= L[i, i]
        for k in range(i):
            b[k] -= L[i, k] * b[i]


@kernel(memory=True)
def _inverse(L):
    """(L L')^-1."""
    n = L.shape[0]
    T = np.zeros((n, n))
    for j in range(n):
        T[j, j] = 1.0 / L[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total -= L[i, k] * T[k, j]
            T[i, j] = total / L[i, i]
    return _product(T, T)


@kernel(memory=True)
def _centre(V, x):
    """Moves x to the analytic centre of {x : V (1, x) > 0}; returns the inverse Hessian of the barrier there."""
    L, n = V.shape[0], x.size
    factor = np.zeros((n, n))
    step = np.empty(n)
    scaled = np.empty((L - 1, n))
    for _ in range(50):
        for j in range(n):
            step[j] = 0.0
        for a in range(1, L):
            slack = V[a, 0]
            for j in range(n):
                slack += V[a, 1 + j] * x[j]
            for j in range(n):
                scaled[a - 1, j] = V[a, 1 + j] / slack
                step[j] += scaled[a - 1, j]
        if not _cholesky(_product(scaled, scaled), factor):
            break
        _forward_solve(factor, step)
        decrement = 0.0
        for j in range(n):
            decrement += step[j] * step[j]
        decrement = math.sqrt(decrement)
        if decrement < 0.25:
            break
        _backward_solve(factor, step)
        for j in range(n):
            x[j] += step[j] / (1.0 + decrement)
    return _inverse(factor)


@kernel(memory=True)
def _all_products(VT, Z, R):
    """R = V Z V'."""
    ZV = _product(Z, VT)
    L = R.shape[0]
    for a in range(L):
        for b in range(L):
            R[a, b] = 0.0
    gemm(1.0, VT, L, ZV, L, Z.shape[0], R)


@kernel(memory=True)
def begin(relaxation, iterate):
    """The interior point's start: analytic centre, Dikin ellipsoid, multipliers on the central path."""
    V, Z, R, W, S = relaxation.V, iterate.Z, iterate.R, iterate.W, iterate.S
    numbers = iterate.numbers
    L, N = V.shape
    most = 1.0
    for a in range(N, L):
        total = 0.0
        for j in range(1, N):
            total -= V[a, j]
        most = max(most, total / V[a, 0])
    x = np.full(N - 1, 0.5 / most)
    inverse = _centre(V, x)
    Z[0, 0] = 1.0
    for i in range(N - 1):
        Z[0, 1 + i] = Z[1 + i, 0] = x[i]
        for j in range(N - 1):
            Z[1 + i, 1 + j] = x[i] * x[j] + 0.25 * (inverse[i, j] + inverse[j, i])
    _all_products(relaxation.VT, Z, R)
    for a in range(L):
        for b in range(L):
            W[a, b] = (1.0 if a == b else 0.5) * _FIRST_MU / R[a, b]
    W[0, 0] = 0.0
    factor = np.zeros((N, N))
    _cholesky(Z, factor)
    inverse = _inverse(factor)
    for i in range(N):
        for j in range(N):
            S[i, j] = _FIRST_MU * inverse[i, j]
    numbers[OBJECTIVE] = _inner(relaxation.C, Z)
    numbers[BOUND] = math.inf
    numbers[GAP] = math.inf


@kernel(memory=True)
def safe_bound(C, V, W):
    """An upper bound on z'Cz over the set from any W, whose negative entries count as 0; and its shift s.

    Infinite where none of the shifts tried makes sI - Q_xx positive definite.
    """
    L, N = V.shape
    n = N - 1
    weights, absolute = np.empty((L, L)), np.empty((L, N))
    for a in range(L):
        for b in range(L):
            weights[a, b] = 0.5 * max(W[a, b], 0.0) + 0.5 * max(W[b, a], 0.0)
        for j in range(N):
            absolute[a, j] = abs(V[a, j])
    weights[0, 0] = 0.0
    lifted = _product(V, _product(weights, V))
    size = _product(absolute, _product(weights, absolute))
    scale = size_squared = 0.0
    Q, G, factor = np.empty((N, N)), np.empty((n, n)), np.zeros((n, n))
    for i in range(N):
        for j in range(N):
            Q[i, j] = 0.5 * (C[i, j] + C[j, i] + lifted[i, j] + lifted[j, i])
            size_squared += (abs(C[i, j]) + size[i, j]) ** 2
            scale += Q[i, j] ** 2
    # Rounding: forming C, Q and the bordered Cholesky factor errs by less than this in the 2-norm.
    error = (4 * L + 4 * N + 20) * _EPS * math.sqrt(size_squared)
    scale = math.sqrt(scale)
    y = np.empty(n)
    best, best_shift = math.inf, 0.0
    shift = error + 1e-300
    while shift <= 10.0 * scale + error:
        for i in range(n):
            for j in range(n):
                G[i, j] = -Q[1 + i, 1 + j]
            G[i, i] += shift
            y[i] = Q[0, 1 + i]
        if _cholesky(G, factor):
            _forward_solve(factor, y)
            rise = 0.0
            for i in range(n):
                rise += y[i] * y[i]
            rounding = error + (2 * N + 20) * _EPS * (n * shift + scale + abs(Q[0, 0]) + rise)
            bound = Q[0, 0] + rise + shift * n + rounding * N
            if not bound < best:
                break
            best, best_shift = bound, shift
        shift *= 8.0
    return best, best_shift


@kernel(memory=True)
def _newton_matrix(relaxation, iterate, inverse):
    """Lower triangle of the Newton matrix, without pair 0."""
    P, row, col, place = relaxation.products, relaxation.row, relaxation.col, relaxation.place
    R, S, W, M = iterate.R, iterate.S, iterate.W, iterate.M
    D = np.empty_like(W)
    for a in range(W.shape[0]):
        for b in range(W.shape[0]):
            D[a, b] = W[a, b] / R[a, b]
    F = _product(P, _product(D, P))
    for p in range(1, row.size):
        i, j = row[p], col[p]
        d = 0.5 if i == j else 1.0
        for q in range(1, p + 1):
            k, l = row[q], col[q]
            four = inverse[j, k] * S[i, l] + inverse[j, l] * S[i, k] + inverse[i, k] * S[j, l] + inverse[i, l] * S[j, k]
            pairs = 2.0 * (F[place[i, k], place[j, l]] + F[place[i, l], place[j, k]])
            M[p - 1, q - 1] = (0.5 * d if k == l else d) * (pairs + four)
        M[p - 1, p - 1] *= 1.0 + 1e-13


@kernel(memory=True)
def _direction(relaxation, iterate, inverse, mu, second, step):
    """Newton direction towards the central path at mu, into ``step``; ``second`` is the predictor or zero."""
    C, V, row, col = relaxation.C, relaxation.V, relaxation.row, relaxation.col
    R, S, W, M = iterate.R, iterate.S, iterate.W, iterate.M
    L, N = V.shape
    aim = np.empty((L, L))
    for a in range(L):
        for b in range(L):
            aim[a, b] = ((mu if a == b else 0.5 * mu) - second.W[a, b] * second.R[a, b]) / R[a, b]
    aim[0, 0] = 0.0
    lifted = _product(V, _product(aim, V))
    T = _product(second.S, _product(second.Z, inverse))
    z = np.empty(row.size - 1)
    for p in range(1, row.size):
        i, j = row[p], col[p]
        G = C[i, j] + lifted[i, j] + mu * inverse[i, j] - 0.5 * (T[i, j] + T[j, i])
        z[p - 1] = G if i == j else 2.0 * G
    _forward_solve(M, z)
    _backward_solve(M, z)
    step.Z[0, 0] = 0.0
    for p in range(1, row.size):
        step.Z[row[p], col[p]] = step.Z[col[p], row[p]] = z[p - 1]
    _all_products(relaxation.VT, step.Z, step.R)
    for a in range(L):
        for b in range(L):
            step.W[a, b] = aim[a, b] - W[a, b] - W[a, b] / R[a, b] * step.R[a, b]
    U = _product(S, _product(step.Z, inverse))
    for i in range(N):
        for j in range(N):
            step.S[i, j] = mu * inverse[i, j] - S[i, j] - 0.5 * (U[i, j] + U[j, i] + T[i, j] + T[j, i])


@kernel(memory=True)
def _largest_step(A, dA, B, dB, trial, factor):
    """A step t <= 1.02 that keeps A + t dA entrywise >= 0 (but for entry 0, 0) and B + t dB positive definite."""
    high = 1.02
    for a in range(1, A.shape[0]):
        for b in range(a + 1):
            if A[a, b] + high * dA[a, b] < 0.0:
                high = -A[a, b] / dA[a, b]
    low = 0.0
    t = high
    for _ in range(40):
        _move(B, t, dB, trial)
        if _cholesky(trial, factor):
            low = t
        else:
            high = t
        if high - low <= 0.01 * low:
            break
        t = 0.5 * (low + high)
    return low


@kernel(memory=True)
def _is_interior(A):
    """Whether all entries but (0, 0) are positive."""
    for a in range(1, A.shape[0]):
        for b in range(a + 1):
            if not A[a, b] > 0.0:
                return False
    return True


@kernel(memory=True)
def _no_change(N, L):
    return Direction(np.zeros((N, N)), np.zeros((L, L)), np.zeros((N, N)), np.zeros((L, L)))


@kernel(memory=True)
def improve(relaxation, iterate):
    """One predictor-corrector step and the safe bound after it; returns STEPPED or STALLED."""
    C, V = relaxation.C, relaxation.V
    Z, R, S, W, M, numbers = iterate.Z, iterate.R, iterate.S, iterate.W, iterate.M, iterate.numbers
    L, N = V.shape
    count = N + L * (L + 1) // 2 - 1
    factor, trial = np.zeros((N, N)), np.empty((N, N))
    if not _cholesky(Z, factor):
        return STALLED
    inverse = _inverse(factor)
    mu = (_inner(W, R) + _inner(S, Z)) / count
    _newton_matrix(relaxation, iterate, inverse)
    if potrf(M, M.shape[0]) != 0:
        return STALLED

    none, predictor, corrector = _no_change(N, L), _no_change(N, L), _no_change(N, L)
    _direction(relaxation, iterate, inverse, 0.0, none, predictor)
    primal = min(1.0, 0.98 * _largest_step(R, predictor.R, Z, predictor.Z, trial, factor))
    dual = min(1.0, 0.98 * _largest_step(W, predictor.W, S, predictor.S, trial, factor))
    ahead = _inner_ahead(W, predictor.W, dual, R, predictor.R, primal)
    ahead += _inner_ahead(S, predictor.S, dual, Z, predictor.Z, primal)
    ratio = ahead / count / mu
    centring = min(1.0, max(1e-4, ratio * ratio)) if min(primal, dual) > 0.1 else 0.5

    _direction(relaxation, iterate, inverse, centring * mu, predictor, corrector)
    primal = _largest_step(R, corrector.R, Z, corrector.Z, trial, factor)
    dual = _largest_step(W, corrector.W, S, corrector.S, trial, factor)
    caution = 0.9 + 0.09 * min(1.0, primal, dual)
    primal, dual = min(1.0, caution * primal), min(1.0, caution * dual)
    if not min(primal, dual) > 1e-6:
        return STALLED
    _move(Z, primal, corrector.Z, Z)
    _all_products(relaxation.VT, Z, R)
    _move(S, dual, corrector.S, S)
    _move(W, dual, corrector.W, W)
    if not (_is_interior(R) and _is_interior(W)):
        return STALLED
    numbers[OBJECTIVE] = _inner(C, Z)
    numbers[BOUND] = min(numbers[BOUND], safe_bound(C, V, W)[0])
    numbers[GAP] = _inner(W, R) + _inner(S, Z)
    return STEPPED


def relaxation(H, h, rows):
    """Data and first iterate of the relaxation.

    Parameters
    ----------
    H : ndarray, shape (n, n)
        Symmetric, of any sign.
    h : ndarray, shape (n,)
    rows : ndarray, shape (m, n + 1)
        Rows (d, -a) of a'x <= d, d > 0 and a >= 0, that together imply x <= 1.

    Returns
    -------
    Relaxation, Iterate
    """
    N, L = len(h) + 1, len(h) + 1 + len(rows)
    C = np.zeros((N, N))
    C[1:, 1:] = 0.5 * H
    C[0, 1:] = C[1:, 0] = 0.5 * h
    V = np.zeros((L, N))
    V[:N] = np.eye(N)
    V[N:] = rows
    row, col = np.triu_indices(N)
    K = len(row)
    place = np.empty((N, N), np.int64)
    place[row, col] = place[col, row] = np.arange(K)
    VT = np.ascontiguousarray(V.T)
    products = np.ascontiguousarray(V[:, row] * V[:, col])
    data = Relaxation(C, V, VT, products, row.astype(np.int64), col.astype(np.int64), place)
    iterate = Iterate(
        np.empty((N, N)), np.empty((L, L)), np.empty((N, N)), np.empty((L, L)), np.empty((K - 1, K - 1)), np.empty(3)
    )
    begin(data, iterate)
    return data, iterate
