"""The doubly non-negative bound by a first-order method: for hundreds of variables, and with a bound at any time.

The relaxation of `proofs.doubly_nonnegative`,

    max <C, Z>   subject to   Z_00 = 1,  E Z = 0,  X = Z positive semidefinite,  Y = V Z V' >= 0,

is split as Z | (X, Y) and solved by the alternating direction method of multipliers (Boyd et al. 2011; for such
relaxations Wen, Goldfarb, Yin 2010). The variables are scaled by D = diag(1, t, .., t) and the rows of V D to norm 1:
Z has trace at most 1 + r, r >= 1'x over the set, and t about 4 sqrt(r / n) makes its parts comparable. With
V'V = F diag(g) F' on the null space of E and K_ij = 1 / (1 + g_i g_j) the step in Z is four products of matrices,

    M = F (K o (F' [X - U + C / p + V' (Y - T) V] F)) F',
    Z = M + (1 - M_00) / N_00 N,   N = F (K o f f') F', f = F'e_0,

that in X the positive part of a symmetric matrix, and that in Y a maximum with 0. The multipliers W = -p T >= 0 give a
proven bound whatever the accuracy (`proofs.safe_bound`), so that the method can stop after any step.
"""

from collections import namedtuple
from collections.abc import Generator
from typing import Any

import numpy as np

from drsub_fast.engine.clock import is_limited, now, thread_time_left
from drsub_fast.proofs.safe_bound import Relaxation

#: What the method has after some steps: the relaxation's ``objective`` <C, Z>, its ``residual`` (how far Z is from X
#: and Y, and both from rest, in units of the objective), ``Z`` (N, N), and the multipliers ``W`` (L, L).
Progress = namedtuple("Progress", "steps objective residual Z W")

#: Scale of the variables, in units of sqrt(r / n).
_SCALE = 4.0
#: Over-relaxation, first penalty, and its change when the residuals differ by `_UNBALANCED` after `_REBALANCE` steps.
#: Steps to 1.01 and 1.001 of the relaxation's value on eight instances of n = 50: 50 to 125 and 275 to 825; with
#: (1.6, 0.3, 1.6, 3, 100) 100 to 200 and 300 to 800, and to 1.0001 at n = 100 three times as many.
_RELAX, _PENALTY, _CHANGE, _UNBALANCED, _REBALANCE = 1.8, 0.1, 1.6, 5.0, 50
#: The penalty is fixed after this many steps: a method whose penalty changes for ever need not converge.
_SETTLED = 4000
#: Steps between bounds, and steps that take as long as a bound and one step more, at most.
EVERY, _BOUND_STEPS = 25, 4


def _positive_part(A):
    """The positive semidefinite part of a symmetric matrix."""
    values, Q = np.linalg.eigh(A)
    k = int(np.searchsorted(values, 0.0))
    if 2 * k >= len(values):
        Q = Q[:, k:]
        return (Q * values[k:]) @ Q.T
    Q = Q[:, :k]
    return A - (Q * values[:k]) @ Q.T


def _null_space(E):
    """Orthonormal columns that E maps to 0."""
    _, sizes, T = np.linalg.svd(E)
    rank = int((sizes > 1e-10 * sizes.max(initial=0.0)).sum())
    return T[rank:].T


class _Lift:
    """Z -> V Z V' and its adjoint, for V = [I; B]."""

    def __init__(self, B):
        self.B, self.N = B, B.shape[1]

    def __call__(self, Z):
        B, N = self.B, self.N
        L = N + len(B)
        Y = np.empty((L, L))
        BZ = B @ Z
        Y[:N, :N] = Z
        Y[N:, :N] = BZ
        Y[:N, N:] = BZ.T
        Y[N:, N:] = BZ @ B.T
        return Y

    def adjoint(self, Y):
        B, N = self.B, self.N
        side = B.T @ (Y[N:, :N] + 0.5 * (Y[N:, N:] @ B))
        return Y[:N, :N] + side + side.T


def multipliers(data: Relaxation, every: int = EVERY) -> Generator[Any, None, None]:
    """Yields `Progress` after every few steps, and once more just before the time of the thread ends.

    Parameters
    ----------
    data : Relaxation
        A node's data (`proofs.safe_bound.relaxation`).
    every : int
        Steps between two reports.
    """
    N = len(data.C)
    scale = np.ones(N)
    scale[1:] = _SCALE * np.sqrt(data.radius / (N - 1))
    B = data.V[N:] * scale
    norms = np.linalg.norm(B, axis=1)
    B /= norms[:, None]
    undo = np.concatenate([1.0 / scale, 1.0 / norms])
    C = data.C * np.outer(scale, scale)
    # A constant f has C = 0.
    size = np.linalg.norm(C) or 1.0
    C /= size

    lift = _Lift(B)
    null = _null_space(data.E * scale) if len(data.E) else np.eye(N)
    g, F = np.linalg.eigh(null.T @ (np.eye(N) + B.T @ B) @ null)
    F = np.ascontiguousarray(null @ F)
    FT = np.ascontiguousarray(F.T)
    K = 1.0 / (1.0 + np.outer(g, g))
    unit = F @ (K * np.outer(F[0], F[0])) @ FT
    unit /= unit[0, 0]

    Z = np.zeros((N, N))
    Z[0, 0] = 1.0
    X, Y = Z.copy(), np.maximum(lift(Z), 0.0)
    U, T = np.zeros_like(X), np.zeros_like(Y)
    penalty = _PENALTY
    steps = 0
    began = now()
    while True:
        steps += 1
        right = X - U + C / penalty + lift.adjoint(Y - T)
        M = F @ (K * (FT @ right @ F)) @ FT
        Z = M + (1.0 - M[0, 0]) * unit
        Z = 0.5 * (Z + Z.T)
        VZ = lift(Z)
        ahead = _RELAX * Z + (1.0 - _RELAX) * X + U
        last_X, last_Y = X, Y
        X = _positive_part(ahead)
        U = ahead - X
        T += _RELAX * VZ + (1.0 - _RELAX) * Y
        Y = np.maximum(T, 0.0)
        T -= Y
        # A bound takes as long as a few steps.
        is_last = is_limited() and thread_time_left() < _BOUND_STEPS * (now() - began) / steps
        report = is_last or steps % every == 0
        balance = steps % _REBALANCE == 0 and steps <= _SETTLED
        if not (report or balance):
            continue
        primal = np.hypot(np.linalg.norm(Z - X), np.linalg.norm(VZ - Y))
        dual = penalty * np.hypot(np.linalg.norm(X - last_X), np.linalg.norm(Y - last_Y))
        if report:
            W = (-penalty * size) * T * np.outer(undo, undo)
            lifted = Z * np.outer(scale, scale)
            objective = size * float(np.vdot(C, Z))
            yield Progress(steps, objective, size * float(max(primal, dual)), lifted, W)
        if is_last:
            return
        if balance and max(primal, dual) > _UNBALANCED * min(primal, dual):
            factor = _CHANGE if primal > dual else 1.0 / _CHANGE
            penalty *= factor
            U /= factor
            T /= factor
