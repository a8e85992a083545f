"""A bound for quadratics over a ball's part {x >= 0 : |x| <= radius}: the trust region problem's dual.

In units of the radius, with s at least the largest eigenvalue of H,

    1/2 y'Hy + h'y <= s/2 + 1/2 h'(sI - H)^-1 h   for |y| <= 1,

and, with multipliers W >= 0 of the products z_i z_j >= 0, z = (1, y), the same for the matrix of the quadratic plus W
(`proofs.safe_bound`, which proves it). The best z of the dual tells how W is to change: steps of Polyak's length
against zz', the gradient.
"""

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from drsub_fast.proofs.polyak import PolyakSteps
from drsub_fast.proofs.program import UnitForm
from drsub_fast.proofs.quadratic_steps import dense
from drsub_fast.proofs.rungs import CALL
from drsub_fast.proofs.safe_bound import relaxation, safe_bound
from drsub_fast.sets.ball import Ball

#: Most steps.
_STEPS = 60


def _best_point(certificate, C):
    """z = (1, y) of the dual."""
    Q = C + certificate.W
    side = Q[1:, 0] if certificate.by_radius else Q[1:, 0] + 0.5 * certificate.shift
    return np.append(1.0, np.linalg.solve(certificate.shift * np.eye(len(side)) - Q[1:, 1:], side))


def ball_steps(problem: Any) -> Generator[Any, None, None]:
    """The rung of quadratics of any sign over a `Ball`."""
    P, f = problem.P, dense(problem.f)
    if f is None or not isinstance(P, Ball):
        return
    n, (H, h, c) = f.n, f.params
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
