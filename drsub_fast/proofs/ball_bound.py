"""A bound for quadratics over a ball's part {x >= 0 : |x| <= radius}: the trust region problem's dual.

In units of the radius, with s at least the largest eigenvalue of H,

    1/2 y'Hy + h'y <= s/2 + 1/2 h'(sI - H)^-1 h   for |y| <= 1,

and, with multipliers W >= 0 of the products z_i z_j >= 0, z = (1, y), the same for the matrix of the quadratic plus W
(`proofs.safe_bound`, which proves it). The best z of the dual tells how W is to change: steps of Polyak's length
against zz', the gradient.

Without h, as in non-negative PCA, the bound is max(0, largest eigenvalue of H + W) / 2, and the best W are multipliers
of the doubly non-negative relaxation

    max <H, X> / 2   over   X positive semidefinite of trace 1,  Y = X >= 0 entrywise,

by the alternating direction method of multipliers, as in `proofs.first_order`: the step in X projects the eigenvalues
onto a simplex, that in Y is a maximum with 0.
"""

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from drsub_fast.proofs.polyak import PolyakSteps
from drsub_fast.proofs.program import UnitForm
from drsub_fast.proofs.quadratic_steps import dense
from drsub_fast.proofs.rungs import CALL, Problem
from drsub_fast.proofs.safe_bound import relaxation, safe_bound
from drsub_fast.sets.ball import Ball

#: Most steps.
_STEPS = 60
#: Without h: most steps, steps between two bounds, and over-relaxation.
_SPECTRAL_STEPS, _EVERY, _RELAX = 2000, 10, 1.6


def _best_point(certificate, C):
    """z = (1, y) of the dual."""
    Q = C + certificate.W
    side = Q[1:, 0] if certificate.by_radius else Q[1:, 0] + 0.5 * certificate.shift
    return np.append(1.0, np.linalg.solve(certificate.shift * np.eye(len(side)) - Q[1:, 1:], side))


def _onto_simplex(values):
    """The nearest numbers >= 0 whose sum is 1 to some in ascending order."""
    excess = np.cumsum(values[::-1]) - 1.0
    shares = excess / np.arange(1, len(values) + 1)
    return np.maximum(values - shares[np.flatnonzero(values[::-1] > shares)[-1]], 0.0)


def _spectral_bounds(C):
    """Yields upper bounds on y'Cy over y >= 0, |y| <= 1, after every few steps."""
    n, size = len(C), float(np.linalg.norm(C))
    if size == 0.0:
        yield 0.0
        return
    C = C / size
    Y, U = np.eye(n) / n, np.zeros((n, n))
    for step in range(_SPECTRAL_STEPS + 1):
        if step % _EVERY == 0:
            lifted = 0.5 * ((C - U) + (C - U).T)
            most = np.linalg.eigvalsh(lifted)[-1] + 1e-14 * n * np.linalg.norm(lifted)
            yield size * max(float(most), 0.0)
        values, Q = np.linalg.eigh(Y - U + C)
        X = (Q * _onto_simplex(values)) @ Q.T
        ahead = _RELAX * X + (1.0 - _RELAX) * Y + U
        Y = np.maximum(ahead, 0.0)
        U = np.minimum(ahead, 0.0)


def ball_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung of quadratics of any sign over a `Ball`."""
    P, f = problem.P, dense(problem.f)
    if f is None or not isinstance(P, Ball):
        return
    n, (H, h, c) = f.n, f.params
    if not h.any():
        price = _EVERY * (14.0 * n**3 + 20 * CALL)
        yield math.inf, 6.0 * n**3 + 20 * CALL
        for bound in _spectral_bounds(0.5 * P.radius**2 * H):
            yield c + bound, price
        return
    price = 25.0 * (n + 1) ** 3 + 100 * CALL
    yield math.inf, price
    none = np.zeros((0, n + 1))
    unit = P.radius
    form = UnitForm(c, H * unit**2, h * unit, none, none, np.zeros(0), np.zeros(n), np.arange(n), np.full(n, unit))
    # |y|^2 <= 1, by the sum of the squares and not of the y_j.
    data = relaxation(form)._replace(radius=1.0)
    steps, W = PolyakSteps(problem.value), np.zeros((n + 1, n + 1))
    for _ in range(_STEPS):
        certificate = safe_bound(data, W)
        drop = steps.drop(c + certificate.bound)
        yield steps.best, price
        if drop is None:
            return
        z = _best_point(certificate, data.C)
        slope = np.outer(z, z)
        slope[(W <= 0.0) & (slope > 0.0)] = 0.0
        slope[0, 0] = 0.0
        steepness = float(np.vdot(slope, slope))
        if not steepness > 0.0:
            return
        W = np.maximum(certificate.W - drop / steepness * slope, 0.0)
