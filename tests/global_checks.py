"""Small quadratics whose global optimum is known by enumeration."""

import itertools

import numpy as np

import drsub_fast as ds
from drsub_fast.proofs.program import quadratic_program


def random_instance(seed, n, m, budget=False):
    """A quadratic that is not monotone, and a polytope (m rows), box (m = 0) or budget set."""
    random = np.random.default_rng(seed)
    H = -random.random((n, n))
    H = 0.5 * (H + H.T)
    A = 0.01 + random.random((m, n))
    upper = (1.0 / A).min(axis=0) if m else np.ones(n)
    if seed % 3 == 0:
        upper = upper * (0.3 + 0.7 * random.random(n))
    h = -0.3 * H @ upper * (0.5 + random.random(n))
    f = ds.Quadratic(H, h, c=float(random.normal()))
    if budget:
        return f, ds.Budget(0.4 * upper.sum(), upper)
    return f, (ds.Polytope(A, np.ones(m), upper) if m else ds.Box(upper))


def best_by_faces(H, h, A, b, upper):
    """max 1/2 x'Hx + h'x over {A x <= b, 0 <= x <= upper}: the best stationary point over all faces."""
    n = len(h)
    rows = np.vstack([-np.eye(n), np.eye(n), A])
    sides = np.concatenate([np.zeros(n), upper, b])
    best = -np.inf
    for count in range(n + 1):
        chosen = np.array(list(itertools.combinations(range(len(rows)), count)), dtype=int)
        G = rows[chosen]
        kkt = np.zeros((len(chosen), n + count, n + count))
        kkt[:, :n, :n] = H
        kkt[:, :n, n:] = -G.transpose(0, 2, 1)
        kkt[:, n:, :n] = G
        # Dependent rows, or f without a single stationary point on the face: smaller faces hold a maximum too.
        regular = np.abs(np.linalg.det(kkt)) > 1e-12
        right = np.concatenate([np.broadcast_to(-h, (len(chosen), n)), sides[chosen]], axis=1)[regular]
        x = np.linalg.solve(kkt[regular], right[:, :, None])[:, :n, 0]
        x = x[(x @ rows.T <= sides + 1e-9).all(axis=1)]
        if len(x):
            best = max(best, (0.5 * ((x @ H) * x).sum(axis=1) + x @ h).max())
    return best


def known_maximum(f, P):
    """max f over P by enumeration of faces."""
    program = quadratic_program(f, P)
    return best_by_faces(*program[:5]) + f.c


def known_minimum(f, P):
    """min f over P by enumeration of faces."""
    program = quadratic_program(f, P)
    return f.c - best_by_faces(-program.H, -program.h, *program[2:5])
