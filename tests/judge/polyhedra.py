"""Truths about small polyhedra: vertices, linear programs and quadratics by enumeration of faces, a ball's oracle."""

import itertools

import numpy as np

#: How far outside a point of an enumeration may be, in units in which the set is an ordinary one.
OUTSIDE = 1e-9


def _rows(region):
    """(free rows, their sides) of inequalities, bounds among them."""
    n = region.n
    return np.vstack([region.A, np.eye(n), -np.eye(n)]), np.concatenate([region.b, region.upper, -region.lower])


def _subsets(count, size):
    chosen = list(itertools.combinations(range(count), size))
    return np.array(chosen, dtype=int).reshape(len(chosen), size)


def is_inside(region, points, tol=OUTSIDE):
    """For points, shape (.., n), whether they keep every constraint up to ``tol`` of its size."""
    rows, sides = _rows(region)
    size = np.abs(rows).sum(axis=1) + np.abs(sides)
    good = (points @ rows.T <= sides + tol * size).all(axis=-1)
    good &= (np.abs(points @ region.A_eq.T - region.b_eq) <= tol * (np.abs(region.A_eq).sum(axis=1) + 1.0)).all(axis=-1)
    return good & (np.linalg.norm(points, axis=-1) <= region.radius * (1.0 + tol))


def vertices(region):
    """The vertices, shape (count, n), of a set without a radius; each may come more than once."""
    n, (rows, sides) = region.n, _rows(region)
    rank = np.linalg.matrix_rank(region.A_eq) if len(region.A_eq) else 0
    equations = region.A_eq[:rank] if rank == len(region.A_eq) else region.A_eq[:0]
    right = region.b_eq[: len(equations)]
    chosen = _subsets(len(rows), n - len(equations))
    G = np.concatenate([np.broadcast_to(equations, (len(chosen), *equations.shape)), rows[chosen]], axis=1)
    s = np.concatenate([np.broadcast_to(right, (len(chosen), len(right))), sides[chosen]], axis=1)
    norms = np.linalg.norm(G, axis=2, keepdims=True)
    regular = (norms > 0.0).all(axis=(1, 2))
    G, s = G[regular] / norms[regular], s[regular] / norms[regular, :, 0]
    regular = np.abs(np.linalg.det(G)) > 1e-9
    points = np.linalg.solve(G[regular], s[regular][:, :, None])[:, :, 0]
    return np.clip(points[is_inside(region, points)], region.lower, region.upper)


def ball_vertex(region, direction):
    """argmax <direction, y> over {0 <= y <= upper, norm(y) <= radius}: y = min(t d, upper), t by bisection."""
    d = np.maximum(direction, 0.0)
    if not d.any():
        return np.zeros(region.n)
    with np.errstate(divide="ignore", over="ignore"):
        far = np.where(d > 0.0, region.upper, 0.0)
    if np.linalg.norm(far) <= region.radius:
        return far
    d = d / d.max()
    low, high = 0.0, max(region.upper.max(), region.radius) / d[d > 0.0].min()
    for _ in range(2000):
        t = 0.5 * (low + high)
        if t in (low, high):
            break
        low, high = (t, high) if np.linalg.norm(np.minimum(t * d, region.upper)) <= region.radius else (low, t)
    return np.minimum(low * d, region.upper)


class Shape:
    """A region with what is found by enumeration: its vertices, linear programs, and points to try.

    Attributes
    ----------
    points : ndarray, shape (count, n)
        Points of the set, in y: vertices first.
    """

    def __init__(self, region, rng, n_points=40):
        self.region, n = region, region.n
        self.is_curved = np.isfinite(region.radius)
        if region.by_example:
            directions = [*rng.standard_normal((8 * n, n)), -np.ones(n), np.ones(n)]
            corners = np.array([region.P.lmo(d, region.upper) for d in directions])
        elif self.is_curved:
            corners = np.array([ball_vertex(region, d) for d in rng.standard_normal((8 * n, n))])
        else:
            corners = vertices(region)
        self.vertices = corners
        mixed = rng.dirichlet(np.full(len(corners), 0.3), n_points) @ corners
        pairs = corners[rng.integers(len(corners), size=(2, n_points))]
        halves = 0.5 * (pairs[0] + pairs[1])
        self.points = np.vstack([corners, mixed, halves])

    def largest(self, direction):
        """max <direction, y> over the set."""
        if self.region.by_example:
            return float(direction @ self.region.P.lmo(direction, self.region.upper))
        if self.is_curved:
            return float(direction @ ball_vertex(self.region, direction))
        return float((self.vertices @ direction).max())


def best_of_quadratic(H, h, region):
    """max of y'Hy/2 + h'y over a set without a radius: the best stationary point of all its faces.

    Where the function is flat along a face, a smaller one holds a maximum too.
    """
    n, (rows, sides) = region.n, _rows(region)
    equations, right = region.A_eq, region.b_eq
    best, where = -np.inf, None
    for count in range(n - len(equations) + 1):
        chosen = _subsets(len(rows), count)
        G = np.concatenate([np.broadcast_to(equations, (len(chosen), *equations.shape)), rows[chosen]], axis=1)
        s = np.concatenate([np.broadcast_to(right, (len(chosen), len(right))), sides[chosen]], axis=1)
        norms = np.maximum(np.linalg.norm(G, axis=2, keepdims=True), 1e-300)
        G, s, k = G / norms, s / norms[:, :, 0], G.shape[1]
        size = max(np.abs(H).max(), 1e-300)
        kkt = np.zeros((len(chosen), n + k, n + k))
        kkt[:, :n, :n], kkt[:, :n, n:], kkt[:, n:, :n] = H / size, -G.transpose(0, 2, 1), G
        spectrum = np.linalg.svd(kkt, compute_uv=False)
        regular = spectrum[:, -1] > 1e-8 * spectrum[:, 0]
        sides_of = np.concatenate([np.broadcast_to(-h / size, (len(chosen), n)), s], axis=1)[regular]
        y = np.linalg.solve(kkt[regular], sides_of[:, :, None])[:, :n, 0]
        y = np.clip(y[is_inside(region, y)], region.lower, region.upper)
        if len(y):
            values = 0.5 * ((y @ H) * y).sum(axis=1) + y @ h
            if values.max() > best:
                best, where = float(values.max()), y[values.argmax()]
    return best, where
