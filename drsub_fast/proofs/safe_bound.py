"""Upper bounds from multipliers of any accuracy, safe against the rounding of their own arithmetic.

The node's problem (see `proofs.program`) is max z'Cz, z = (1, x), over V z >= 0, E z = 0, 0 <= x <= 1, where
C = [[0, h'/2], [h/2, H/2]] and the rows of V are those of the identity and the node's. For every symmetric W >= 0 and
every M

    z'Cz <= z'Qz,   Q = C + V'WV + E'M + M'E.

With s >= 0 and sI - Q_xx positive definite, q = Q_x0, either of

    z'Qz <= Q_00 + s r + q'(sI - Q_xx)^-1 q,                         |x|^2 <= 1'x <= r,
    z'Qz <= Q_00 + (q + s/2 1)'(sI - Q_xx)^-1 (q + s/2 1),           s (x_j - x_j^2) >= 0,

holds. Both are convex in s; an eigendecomposition and a search over s find about the smallest, and a Cholesky
factorisation at that s proves it: one that succeeds shows that sI - Q_xx is positive definite up to an allowance
(Rump 2006, "Verification of positive definiteness"), which is added with that for forming Q.

For equations, M is chosen so that t E_00 - Q, which is to be positive semidefinite for a bound t, acts on the null
space of E alone: with P the projection onto it and U an orthonormal basis of the rest, it becomes
P (t E_00 - Q) P + k U U' for a large k. The t that this needs beforehand is the bound of a first round.
"""

from collections import namedtuple
from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.linalg import lapack

from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.proofs.program import UnitForm

#: Data of a node's relaxation: ``C`` (N, N), ``V`` (L, N) with its first N rows the identity, equations ``E`` (k, N)
#: up to ``slack`` (k,), ``basis`` (N, r) of their row space and ``combine`` (k, r) with E' combine = basis, the
#: ``radius`` r, and ``linear``, the bound of one linear program.
Relaxation = namedtuple("Relaxation", "C V E slack basis combine radius linear")

#: A proven bound, the multipliers W that gave it, symmetric and >= 0, and what an exact check needs: M, s, and
#: which of the two inequalities it is.
Certificate = namedtuple("Certificate", "bound W M shift by_radius")

_EPS = 2.0**-52
#: Points of a search over s, in each of two rounds.
_TRIALS = 24
#: Weight of the equations' squares, relative to the size of Q.
_PENALTY = 30.0


def _row_multipliers(costs, rows, equations):
    """For each cost, multipliers of the node's rows and equations in max cost'x, by a linear program; or zeros."""
    m, k = len(rows), len(equations)
    found = [np.zeros(m + k) for _ in costs]
    if m + k:
        sides = np.concatenate([rows[:, 0], equations[:, 0]])
        lower = np.concatenate([np.full(m, -np.inf), equations[:, 0]])
        ones = np.ones(rows.shape[1] - 1)
        try:
            oracle = HighsOracle(-np.vstack([rows, equations])[:, 1:], sides, ones, row_lower=lower)
            for i, cost in enumerate(costs):
                if cost.any():
                    oracle.maximize(cost, ones, mend=False)
                    found[i] = oracle.row_duals()
        except OracleError:
            pass
    return [(np.maximum(duals[:m], 0.0), duals[m:]) for duals in found]


def linear_maxima(
    costs: Sequence[NDArray[np.float64]],
    rows: NDArray[np.float64],
    equations: NDArray[np.float64],
    slack: NDArray[np.float64],
) -> list[float]:
    """Upper bounds on cost'x over the node for each of some costs, safe whatever the linear programs' accuracy."""
    multipliers = _row_multipliers(costs, rows, equations)
    return [
        _linear_maximum(cost, y, w, rows, equations, slack) for cost, (y, w) in zip(costs, multipliers, strict=True)
    ]


def _linear_maximum(cost, y, w, rows, equations, slack):
    """The bound on cost'x that multipliers y >= 0 of the rows and w of the equations give."""
    reduced = cost + y @ rows[:, 1:] + w @ equations[:, 1:]
    terms = np.abs(cost).sum() + y @ np.abs(rows).sum(axis=1) + np.abs(w) @ np.abs(equations).sum(axis=1)
    rounding = (len(y) + len(w) + len(cost) + 10) * _EPS * terms
    bound = y @ rows[:, 0] + w @ equations[:, 0] + np.maximum(reduced, 0.0).sum() + np.abs(w) @ slack
    return float(bound + rounding)


def relaxation(form: UnitForm) -> Relaxation:
    """The data of a node in unit-box form, with at least one variable."""
    n = len(form.h)
    C = np.zeros((n + 1, n + 1))
    C[1:, 1:] = 0.5 * form.H
    C[0, 1:] = C[1:, 0] = 0.5 * form.h
    E = form.equations
    U, sizes, T = np.linalg.svd(E, full_matrices=False)
    used = sizes > 1e-10 * sizes.max(initial=0.0)
    combine = U[:, used] / sizes[used]
    most, linear = linear_maxima((np.ones(n), form.h), form.rows, E, form.slack)
    radius = min(float(n), most)
    linear = min(linear, np.maximum(form.h, 0.0).sum()) + 0.5 * np.maximum(form.H, 0.0).sum() * (1.0 + n * _EPS)
    V = np.vstack([np.eye(n + 1), form.rows])
    return Relaxation(C, V, E, form.slack, T[used].T, combine, radius, float(linear))


def _best_shift(Q, radius):
    """(s, whether the radius gives the smaller bound): about the best s of both inequalities."""
    n = len(Q) - 1
    values, F = np.linalg.eigh(Q[1:, 1:])
    q, e = F.T @ Q[1:, 0], F.sum(axis=0)
    lowest, scale = max(values[-1], 0.0), np.abs(Q).max()
    if scale == 0.0:
        return 0.0, True

    def by_radius(s):
        return (q**2 / (s[:, None] - values)).sum(axis=1) + s * radius

    def by_box(s):
        return ((q + 0.5 * s[:, None] * e) ** 2 / (s[:, None] - values)).sum(axis=1)

    best = np.inf, 0.0, True
    for rise, named in ((by_radius, True), (by_box, False)):
        t = np.linspace(np.log(1e-13 * n * scale), np.log(10.0 * n * scale), _TRIALS)
        for _ in range(2):
            bounds = rise(lowest + np.exp(t))
            k = int(bounds.argmin())
            best = min(best, (float(bounds[k]), float(lowest + np.exp(t[k])), named))
            t = np.linspace(t[max(k - 1, 0)], t[min(k + 1, _TRIALS - 1)], _TRIALS)
    return best[1:]


def _lifted(data, W, about):
    """(Q, M, size) for multipliers W and a bound of ``about`` that size; ``size`` bounds the terms that went into Q."""
    C, V, E = data.C, data.V, data.E
    Q = C + V.T @ (W @ V)
    absolute = np.abs(V)
    size = np.abs(C) + absolute.T @ (W @ absolute)
    M = np.zeros(E.shape)
    if E.shape[0]:
        U = data.basis
        UQ = U.T @ Q
        UQ[:, 0] -= about * U[0]
        penalty = _PENALTY * (np.abs(Q).max() + abs(about)) * len(C)
        M = data.combine @ (0.5 * (UQ @ U) @ U.T - UQ - 0.5 * penalty * U.T)
        EM = E.T @ M
        Q = Q + EM + EM.T
        terms = np.abs(E).T @ np.abs(M)
        size = size + terms + terms.T
    return 0.5 * (Q + Q.T), M, size


def safe_bound(data: Relaxation, W: NDArray[np.float64]) -> Certificate:
    """The bound that multipliers W give, whose negative entries count as 0.

    Returns
    -------
    Certificate
        Its bound is infinite where no s was found that makes sI - Q_xx positive definite.
    """
    W = np.maximum(0.5 * (W + W.T), 0.0)
    W[0, 0] = 0.0
    first = _certified(data, W, data.linear)
    if not len(data.E) or not np.isfinite(first.bound):
        return first
    return min(first, _certified(data, W, first.bound), key=lambda certificate: certificate.bound)


def _certified(data, W, about):
    """The certificate for symmetric W >= 0 and a bound of ``about`` that size."""
    L, N = data.V.shape
    n = N - 1
    Q, M, size = _lifted(data, W, about)
    # Rounding: forming C, Q and the bordered Cholesky factor errs by less than this in the 2-norm.
    error = (4 * L + 4 * N + 4 * len(M) + 20) * _EPS * np.linalg.norm(size)
    shift, by_radius = _best_shift(Q, data.radius)
    diagonal = np.abs(Q.diagonal()).sum()
    q = Q[1:, 0]
    for _ in range(8):
        G = -Q[1:, 1:]
        G[np.diag_indices(n)] += shift
        factor, code = lapack.dpotrf(G, lower=1, overwrite_a=1)
        if code == 0:
            side = q if by_radius else q + 0.5 * shift
            y = scipy.linalg.solve_triangular(factor, side, lower=True, check_finite=False)
            rise = float(y @ y)
            most = Q[0, 0] + rise + (shift * data.radius if by_radius else 0.0)
            rounding = error + (2 * N + 20) * _EPS * (n * shift + diagonal + rise)
            # |z|^2 <= 1 + radius.
            bound = most + rounding * (1.0 + data.radius) + 2.0 * float(data.slack @ np.abs(M).sum(axis=1))
            return Certificate(bound if np.isfinite(bound) else np.inf, W, M, shift, by_radius)
        shift = 2.0 * shift + 1e-15 * diagonal + 1e-300
    return Certificate(np.inf, W, M, shift, by_radius)
