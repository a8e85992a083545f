"""Concave functions above a softmax extension, for bounds at any number of items.

With M = L - I, f(x) = log det(I + XM), X = diag(x). Three functions are at least f on P; each is concave, so its
maximum over P can be found, and its value and Frank-Wolfe gap bound the maximum of f wherever the search stops.

* *Separable*: f(x) <= sum_j log(1 + x_j M_jj), from diminishing returns.
* *Blocks*: f(x) <= sum_B log det(I + X_B M_BB) for any partition into blocks, by the same; concave where M_BB is
  positive semidefinite. Blocks are grown from the pairs that interact most at the present point, w_i w_j M_ij^2.
* *Split*: M = K - N by the signs of the eigenvalues, N = C C'. With T = X^(1/2) K X^(1/2)

      f(x) = log det(I + XK) + log det(I - C' X^(1/2) (I + T)^-1 X^(1/2) C),

  and T <= diag(t) in the order of semidefinite matrices for

      t_i = max over v in P of sum_j |K_ij| (s_j / s_i) v_j,

  because diag(t) - T, scaled by s_j x_j^(1/2), is diagonally dominant, for every s > 0. So

      f(x) <= log det(I + XK) + log det(I - C' diag(x / (1 + t)) C),

  whose two terms are log det of matrices that are affine in x.

All hold wherever f is defined, beyond the unit box too: with x every y between 0 and x is in the domain.

All gradients are diagonals of symmetric matrices G, and all Hessians are -G o G for these, entrywise at most 0: a step
of the search solves max <g, y - x> + (y - x)'H(y - x)/2 over P, a DR-submodular quadratic, which is concave here.
"""

import math
from collections import namedtuple
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.doubly_nonnegative import inverse_factor
from drsub_fast.proofs.rungs import CALL, Problem, largest
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe

#: Value, gradient and Hessian of a concave function at a point; ``rounding`` bounds the relative error of the gradient
#: and the absolute one of the value.
Expansion = namedtuple("Expansion", "value gradient hessian rounding", defaults=(0.0,))

#: Where the function is not defined, or rounding leaves nothing of it.
_NOWHERE = Expansion(-math.inf, None, None)
_EPS = 2.0**-52

#: A search stops when value and gap are this close, relative to the value (or to 1).
_CLOSE = 1e-4
#: Most steps of a search, and of the solve for one. Newton steps of log det need five or six.
_STEPS, _MODEL_STEPS = 40, 200
#: Rounds of growing blocks at a point and maximising over them.
_ROUNDS = 3
#: A relative error above this one is not worked with.
_MOST_ROUNDING = 1e-3
#: Eigenvalues below this share of the largest count as rounding when a block is tested.
_ROUNDING = 1e-12


def separable(M: NDArray[np.float64]) -> Callable[..., Expansion]:
    """x -> sum_j log(1 + x_j M_jj), the terms of negative M_jj replaced by x_j M_jj, which is larger and finite."""
    m = M.diagonal().copy()
    rising = np.maximum(m, 0.0)

    def expand(x):
        inside = 1.0 + x * rising
        slope = rising / inside
        value = np.log(inside).sum() + np.minimum(m, 0.0) @ x
        return Expansion(value, slope + np.minimum(m, 0.0), -np.diag(slope**2))

    return expand


def _log_det(C, weight, sign):
    """(log det, G, rounding) of B = I + sign C' diag(weight) C and G = C B^-1 C'; None if B is not definite.

    Forming and factoring B errs by |dB_ij| <= k eps (B_ii B_jj)^(1/2), for which log det and G_jj change by at most
    k eps sum_i B_ii (B^-1)_ii, times k for the one and relative for the other.
    """
    k = C.shape[1]
    if k == 0:
        return 0.0, np.zeros((len(C), len(C))), 0.0
    B = np.eye(k) + sign * (C.T * weight) @ C
    T = inverse_factor(B)
    if T is None:
        return None
    half = T @ C.T
    inverse = np.square(T).sum(axis=0)
    rounding = 4 * (len(C) + k) * _EPS * float(inverse @ np.maximum(B.diagonal(), 1.0))
    if not rounding < _MOST_ROUNDING:
        return None
    return -2.0 * float(np.log(T.diagonal()).sum()), half.T @ half, rounding


def split_parts(M: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(D, C) with M <= DD' - CC', up to rounding equal, by the signs of the eigenvalues."""
    eigenvalues, vectors = np.linalg.eigh(M)
    eigenvalues += 8 * len(M) * _EPS * np.abs(eigenvalues).max(initial=0.0)
    positive = eigenvalues > 0.0
    return (
        vectors[:, positive] * np.sqrt(eigenvalues[positive]),
        vectors[:, ~positive] * np.sqrt(-eigenvalues[~positive]),
    )


def spectral_split(M: NDArray[np.float64], P: FeasibleSet, upper: NDArray[np.float64]) -> Callable[..., Expansion]:
    """The split bound over the points of P below ``upper``."""
    D, C = split_parts(M)
    K = D @ D.T
    scale = np.sqrt(np.maximum(K.diagonal(), 1e-6 * max(1e-300, K.diagonal().max(initial=0.0))))
    rows = np.abs(K) * scale / scale[:, None]
    # P may hold fewer items at once than the largest eigenvalue of K over all items counts on.
    t = np.minimum([largest(P, row, upper) for row in rows], 1e300)
    weight = 1.0 / (1.0 + t)

    def expand(x):
        gain, loss = _log_det(D, x, 1.0), _log_det(C, weight * x, -1.0)
        if gain is None or loss is None:
            return _NOWHERE
        G, N = gain[1], loss[1]
        hessian = -(G * G) - np.outer(weight, weight) * N * N
        up, down = G.diagonal(), weight * N.diagonal()
        # Relative to the difference of both.
        spread = ((up + down) @ upper + 1.0) / (np.abs(up - down) @ upper + 1.0)
        return Expansion(gain[0] + loss[0], up - down, hessian, (gain[2] + loss[2]) * float(spread))

    return expand


def grow_blocks(M: NDArray[np.float64], weight: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """A partition of the items with M_jj > 0 into blocks with positive semidefinite M_BB.

    The item of the largest weight begins a block; the one that interacts most with those in it joins next, if its
    pivot is positive.
    """
    strength = np.outer(weight, weight) * M**2
    left = M.diagonal() > 0.0
    blocks = []
    while left.any():
        block = [int(np.where(left, weight, -1.0).argmax())]
        left[block[0]] = False
        gain, possible = strength[block[0]].copy(), left.copy()
        while possible.any():
            j = int(np.where(possible, gain, -1.0).argmax())
            possible[j] = False
            wider = [*block, j]
            eigenvalues = np.linalg.eigvalsh(M[np.ix_(wider, wider)])
            if eigenvalues[0] > _ROUNDING * eigenvalues[-1]:
                block, gain = wider, gain + strength[j]
                left[j] = False
        blocks.append(np.array(block))
    return blocks


def block_sum(M: NDArray[np.float64], blocks: Sequence[NDArray[np.int64]]) -> Callable[..., Expansion]:
    """x -> sum over the blocks of log det(I + X_B M_BB), and x_j M_jj for the items in none."""
    rest = np.minimum(M.diagonal(), 0.0)
    lifted = M + np.diag(4 * len(M) ** 2 * _EPS * np.abs(M.diagonal()))  # what a factorisation may lose
    roots = [np.linalg.cholesky(lifted[np.ix_(block, block)]) for block in blocks]

    def expand(x):
        value, gradient, hessian, rounding = float(rest @ x), rest.copy(), np.zeros_like(M), 0.0
        for block, root in zip(blocks, roots, strict=True):
            term = _log_det(root, x[block], 1.0)
            if term is None:
                return _NOWHERE
            part, G, error = term
            value, rounding = value + part, rounding + error
            gradient[block] += G.diagonal()
            hessian[np.ix_(block, block)] = -(G * G)
        return Expansion(value, gradient, hessian, rounding)

    return expand


def search(
    expand: Callable[..., Expansion],
    P: FeasibleSet,
    upper: NDArray[np.float64],
    x: NDArray[np.float64],
    unit_box: bool = False,
    close: float = _CLOSE,
) -> Generator[Any, None, None]:
    """Newton's method with exact models over P; yields (bound, x, gradient) after each step, x where it was taken.

    It ends where value and gap are ``close``, relative to the value or to 1.
    """
    here = expand(x)
    best = math.inf
    for _ in range(_STEPS):
        if here.gradient is None:
            return
        rise = largest(P, here.gradient, upper) - float(here.gradient @ x)
        size = abs(here.value) + np.abs(here.gradient) @ np.abs(x)
        error = here.rounding * (len(x) + np.abs(here.gradient) @ (np.abs(x) + np.abs(upper)))
        best = min(best, here.value + max(rise, 0.0) + 1e-12 * size + error)
        yield best, x, here.gradient
        enough = close * max(1.0, abs(here.value))
        if rise <= enough:
            return
        model = Quadratic(here.hessian, here.gradient - here.hessian @ x)
        model.unit_box = unit_box
        # Far from the maximum, and beside slopes whose rounding is above the tolerance, less will do.
        tol = max(0.1 * enough, 1e-3 * rise)
        aim = fully_corrective_frank_wolfe(model, P, x0=x, tol=tol, max_iter=_MODEL_STEPS).x
        slope, share = float(here.gradient @ (aim - x)), 1.0
        while share > 1e-3:
            there = expand(x + share * (aim - x))
            if there.value >= here.value + 0.1 * share * slope:
                break
            share *= 0.5
        else:
            return
        x, here = x + share * (aim - x), there


def softmax_steps(problem: Problem) -> Generator[Any, None, None]:
    """The rung: the three bounds, each as far as its search goes."""
    f, P, upper, x, _ = problem
    if not isinstance(f, Softmax):
        return
    if not math.isfinite(problem.value):
        x = np.zeros(f.n)
    n = f.n
    price = 8 * n**3 + 100 * n**2 + 60 * CALL
    yield math.inf, price
    M = f.L - np.eye(n)
    least = math.inf
    for bound, *_ in search(separable(M), P, upper, x, f.unit_box):
        least = min(least, bound)
        yield bound, price
    yield math.inf, price + n * (n + CALL)
    for bound, *_ in search(spectral_split(M, P, upper), P, upper, x, f.unit_box):
        least = min(least, bound)
        yield bound, price
    weight = top = x + 1e-3
    for _ in range(_ROUNDS):
        yield math.inf, price + 2 * n**3 + n * 10 * CALL
        for bound, point, _ in search(block_sum(M, grow_blocks(M, weight)), P, upper, x, f.unit_box):
            top = point
            yield bound, price
        if bound > least:
            return
        weight, least = 0.5 * weight + 0.5 * (top + 1e-4), bound
