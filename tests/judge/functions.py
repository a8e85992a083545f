"""Mean objectives over a region, each with its value, gradient and size in plain numpy beside it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import drsub_fast as ds
from drsub_fast._kinds import OBJECTIVES

from . import draws, softmax_truth


class Function(NamedTuple):
    """An objective f, and the same in the region's units: f(D y) = value(y).

    Attributes
    ----------
    kind : str
        Its name in the table of objectives.
    value, gradient : callable
        Of points, shape (.., n): numbers, shape (..), and gradients.
    size : callable
        The sum of the absolute values of the terms of f at a point: what rounding is a part of.
    quadratic : (H, h, c) or None
        In the region's units.
    loss : callable or None
        The part of a gradient that rounding may take, at a point; by default a few units in the last place.
    """

    kind: str
    f: ds.Objective
    value: Callable
    gradient: Callable
    size: Callable
    quadratic: tuple | None = None
    loss: Callable = lambda y: 1e-13

    @property
    def is_far(self):
        """Whether the size of its terms varies beyond measure over a set."""
        return self.kind in ("softmax", "spectral")


def _quadratic_of(kind, f, H, h, c):
    return Function(
        kind, f, lambda y: 0.5 * ((y @ H) * y).sum(-1) + y @ h + c, lambda y: y @ H + h,
        lambda y: 0.5 * ((np.abs(y) @ np.abs(H)) * np.abs(y)).sum(-1) + np.abs(y) @ np.abs(h) + abs(c), (H, h, c),
    )  # fmt: skip


def _quadratic(rng, region):
    n, kind = region.n, rng.integers(6)
    H = -np.round(rng.random((n, n)), 2) * (rng.random((n, n)) < draws.one_of(rng, 0.3, 0.8, 1.0))
    if kind == 0:
        H = np.zeros((n, n))
    elif kind == 1:
        H = -np.eye(n) * rng.uniform(0.1, 2.0, n)
    elif kind == 2:
        H = -np.outer(H[0], H[0])
    elif kind == 3:
        H = np.round(H - np.diag(np.diagonal(H)), 1)
    H = 0.5 * (H + H.T)
    reach = np.maximum(np.abs(region.lower), region.upper)
    h = draws.one_of(rng, -1.0, -0.5, -0.3) * H @ reach + draws.one_of(rng, 0.0, 0.3) * rng.standard_normal(n)
    h = np.round(h, 3)
    c = float(draws.one_of(rng, 0.0, 0.0, -1.0, 1.0, round(float(0.5 * np.abs(H).sum() + np.abs(h).sum()), 2)))
    unit = 2.0 ** np.round(np.log2(draws.scale(rng)))
    f = ds.Quadratic(unit * H / np.outer(region.D, region.D), unit * h / region.D, c=unit * c)
    return _quadratic_of("quadratic", f, unit * H, unit * h, unit * c)


def _any_sign(rng, region):
    n = region.n
    H = np.round(rng.uniform(-1.0, 1.0, (n, n)), 2) * (rng.random((n, n)) < draws.one_of(rng, 0.5, 1.0))
    H, h = np.triu(H) + np.triu(H, 1).T, np.round(rng.uniform(-1.0, 1.0, n), 2)
    unit = 2.0 ** np.round(np.log2(draws.scale(rng)))
    f = ds.Quadratic(unit * H / np.outer(region.D, region.D), unit * h / region.D, require_dr=False)
    return _quadratic_of("quadratic of any sign", f, unit * H, unit * h, 0.0)


def _softmax(rng, region):
    n = region.n
    X = draws.vectors(rng, n, int(rng.integers(1, n + 2)))
    L = X @ X.T + draws.one_of(rng, 0.0, 0.0, 1.0) * np.eye(n)
    d = draws.one_of(rng, np.ones(n), 10.0 ** rng.uniform(-1, 1, n), 10.0 ** rng.uniform(-6, 6, n))
    L = L * np.outer(d, d)
    L = np.triu(L) + np.triu(L, 1).T
    unit_box = bool(rng.random() < 0.7)

    def matrix(y):
        return y[..., :, None] * (L - np.eye(n)) + np.eye(n)

    def scaled(y):
        """I + sqrt(Y) (L - I) sqrt(Y) with its rows and columns divided by the roots of its diagonal."""
        root = np.sqrt(y)
        S = (1.0 - y)[..., :, None] * np.eye(n) + root[..., :, None] * L * root[..., None, :]
        d = np.sqrt(np.abs(np.einsum("...ii->...i", S)).clip(1e-300))
        return S / d[..., :, None] / d[..., None, :]

    def value(y):
        # No value where an eigenvalue of I + sqrt(Y) (L - I) sqrt(Y) is negative, be their product positive or not.
        least = np.linalg.eigvalsh(scaled(y))[..., 0]
        with np.errstate(divide="ignore"):
            return np.where(least > 0.0, np.linalg.slogdet(matrix(y))[1], -np.inf)

    def gradient(y):
        if y.ndim == 1:
            return softmax_truth.truth(L, y)[1]
        return np.einsum("ij,...ji->...i", L - np.eye(n), np.linalg.inv(matrix(y)))

    def condition(y):
        """How far rounding of the entries of L, each on its own scale, moves log det."""
        return np.linalg.cond(scaled(y))

    f = ds.Softmax(L, unit_box=unit_box)
    return Function(
        "softmax",
        f,
        value,
        gradient,
        lambda y: 1.0 + np.abs(value(y)) + condition(y),
        loss=lambda y: 1e-11 + 1e-14 * condition(y),
    )


def _extension(kind, f, set_value, n, n_scale=1.0):
    """Multilinear extension by all sets."""
    masks = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    table = np.array([set_value([i for i in range(n) if mask[i]]) for mask in masks], float)

    def chances(y):
        return np.where(masks == 1, y[..., None, :], 1.0 - y[..., None, :])

    def value(y):
        return chances(y).prod(-1) @ table

    def gradient(y):
        parts = []
        for j in range(n):
            up, down = y.copy(), y.copy()
            up[..., j], down[..., j] = 1.0, 0.0
            parts.append(value(up) - value(down))
        return np.stack(parts, -1)

    size = np.abs(table).max() + np.abs(set_value(list(range(n)))) + 1e-300 + n_scale
    return Function(kind, f, value, gradient, lambda y: size * np.ones(y.shape[:-1]))


def coverage(rng, n):
    """(f, F of a list of items, size)."""
    covers, w = rng.random((n, 5)) < 0.4, rng.choice([0.0, 1.0, 2.5], 5) * draws.scale(rng, -8, 8)
    f = ds.Multilinear.coverage(covers, weights=w)
    return f, lambda S: float(w[covers[S].any(axis=0)].sum()), w.sum()


def facility_location(rng, n):
    """(f, F of a list of items, size)."""
    W = np.round(rng.random((n, 4)), 1) * draws.scale(rng, -8, 8) * (rng.random((n, 4)) < 0.8)
    return ds.Multilinear.facility_location(W), lambda S: float(W[S].max(axis=0).sum()) if S else 0.0, W.sum()


def flid(rng, n):
    """(f, F of a list of items, size)."""
    W, s = np.round(rng.random((n, 3)), 1), draws.scale(rng, -8, 8)
    u = np.round(rng.uniform(-0.5, 2.0, n), 1)

    def F(S):
        return s * float(u[S].sum() + W[S].max(axis=0).sum() - W[S].sum()) if S else 0.0

    return ds.Multilinear.flid(s * u, s * W), F, s * (np.abs(u).sum() + 2.0 * W.sum())


def cut(rng, n):
    """(f, F of a list of items, size)."""
    a = np.round(rng.random((n, n)), 1) * (rng.random((n, n)) < 0.6) * draws.scale(rng, -8, 8)
    np.fill_diagonal(a, 0.0)
    if rng.random() < 0.5:
        a = a + a.T

    def F(S):
        out = [j for j in range(n) if j not in S]
        return float(a[np.ix_(S, out)].sum())

    return ds.Multilinear.cut(a), F, a.sum()


def table(rng, n):
    """(f, F of a list of items, size): a concave function of weights, less a cost; any value for no item."""
    w, cost = rng.integers(0, 4, n).astype(float), np.round(rng.random(n) * draws.one_of(rng, 0.0, 0.3, 1.0), 2)
    start, s = float(draws.one_of(rng, 0.0, 0.0, -1.0, 2.0)), draws.scale(rng, -8, 8)

    def F(S):
        return s * float(start + math.sqrt(w[S].sum()) - cost[S].sum()) if S else s * start

    return ds.Multilinear.from_function(F, n), F, s * (abs(start) + math.sqrt(w.sum()) + cost.sum())


#: Set functions by the name of their extension in the table of objectives.
SET_FUNCTIONS = {
    "coverage": coverage, "facility-location": facility_location, "flid": flid, "cut": cut, "table": table,
}  # fmt: skip


def multilinear_of(kind, rng, n):
    """The multilinear extension of a set function of that kind."""
    f, F, size = SET_FUNCTIONS[kind](rng, n)
    return _extension(kind, f, F, n, size)


def _multilinear(rng, region):
    return multilinear_of(draws.one_of(rng, *SET_FUNCTIONS), rng, region.n)


def _mean_field(rng, region):
    n = region.n
    E, F, _ = flid(np.random.default_rng(int(rng.integers(1000))), n)
    inner = _extension("flid", E, F, n)

    def entropy(y):
        y = np.clip(y, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return -(np.where(y > 0.0, y * np.log(y), 0.0) + np.where(y < 1.0, (1 - y) * np.log1p(-y), 0.0)).sum(-1)

    def gradient(y):
        with np.errstate(divide="ignore"):
            return inner.gradient(y) + np.log1p(-y) - np.log(y)

    return Function(
        "mean-field", ds.MeanField(E), lambda y: inner.value(y) + entropy(y), gradient, lambda y: inner.size(y) + n
    )  # fmt: skip


def _spectral(rng, region):
    n, p = region.n, int(rng.integers(1, 4))
    V, offset = draws.vectors(rng, n, p), np.eye(p) * draws.one_of(rng, 1.0, 0.01)
    f = ds.Spectral(factors=V / np.sqrt(region.D)[:, None], offset=offset)

    def matrix(y):
        return offset + np.einsum("...i,ij,ik->...jk", y, V, V)

    def value(y):
        least = np.linalg.eigvalsh(matrix(y))[..., 0]
        with np.errstate(divide="ignore"):
            return np.where(least > 0.0, np.linalg.slogdet(matrix(y))[1], np.nan) - np.linalg.slogdet(offset)[1]

    def gradient(y):
        return np.einsum("ij,...jk,ik->...i", V, np.linalg.inv(matrix(y)), V)

    return Function("spectral", f, value, gradient, lambda y: 1.0 + np.abs(value(y)) + np.linalg.cond(matrix(y)))


def _logistic(rng, region):
    n, m = region.n, int(rng.integers(1, 5))
    Z, labels = rng.standard_normal((m, n)), rng.choice([-1.0, 1.0], m)
    weight, gamma, form = (
        draws.one_of(rng, 0.0, 0.1, 10.0),
        draws.one_of(rng, 0.3, 1.0, 3.0),
        draws.one_of(rng, "smooth", "capped"),
    )
    D = region.D
    f = ds.LogisticNonconvex(Z / D, labels, weight=weight, gamma=gamma, regularizer=form)

    def value(y):
        t = gamma * (D * y) ** 2
        charge = t / (1.0 + t) if form == "smooth" else np.minimum(t, 1.0)
        return -np.logaddexp(0.0, -labels * (y @ Z.T)).mean(-1) - weight * charge.sum(-1)

    def gradient(y):
        x = D * y
        t = gamma * x**2
        if form == "capped" and (np.abs(t - 1.0) < 1e-9).any():
            return np.full(y.shape, np.nan)  # a kink
        slope = 2.0 * gamma * x * (1.0 / (1.0 + t) ** 2 if form == "smooth" else (t < 1.0))
        chance = 1.0 / (1.0 + np.exp(labels * (y @ Z.T)))
        return (chance * labels) @ Z / m - weight * slope * D

    return Function("logistic-nonconvex", f, value, gradient, lambda y: 1.0 + np.abs(value(y)) + weight * n)


def _pca(rng, region):
    n, m = region.n, int(rng.integers(1, 4))
    Z = rng.standard_normal((m, n)) * draws.scale(rng, -4, 4)
    f = ds.NonnegativePCA(Z / region.D)
    H = Z.T @ Z / m
    return _quadratic_of("nonnegative-pca", f, H, np.zeros(n), 0.0)


def _price(rng, region):
    n = region.n
    base, cost, start = np.round(rng.uniform(0, 5, n), 1), np.round(rng.random(n), 1), np.round(rng.random(n), 1)
    effects = -np.round(rng.random((n, n)), 1) - np.eye(n)
    D = region.D
    f = ds.PriceOptimization(base / D, effects / np.outer(D, D), cost * D, start * D)
    # (start + y - cost)' (base + effects (start + y)).
    H, margin = effects + effects.T, start - cost
    h = base + effects @ start + effects.T @ margin
    return _quadratic_of("price-optimization", f, H, h, float(margin @ (base + effects @ start)))


def _stability(rng, region):
    n = region.n
    graph = np.triu(rng.random((n, n)) < 0.5, 1).astype(float)
    graph = graph + graph.T
    scale = region.D
    H = -2.0 * (graph + np.eye(n)) * np.outer(scale, scale)
    return _quadratic_of("stability-number", ds.StabilityNumber(graph), H, np.zeros(n), 0.0)


FUNCTIONS = {
    "quadratic": _quadratic,
    "quadratic of any sign": _any_sign, "softmax": _softmax, "multilinear": _multilinear, "mean-field": _mean_field,
    "spectral": _spectral, "logistic-nonconvex": _logistic, "nonnegative-pca": _pca, "price-optimization": _price,
    "stability-number": _stability,
}  # fmt: skip


def by_example(name):
    """Draws the example of a registered objective that has no formula here: its own values are taken for true."""

    def drawn(rng, region):
        f = OBJECTIVES[name].example_of(region.n)

        def each(function, y):
            return np.array([function(row) for row in (y * region.D).reshape(-1, region.n)])

        def value(y):
            return each(f.value, y).reshape(y.shape[:-1])

        return Function(
            name,
            f,
            value,
            lambda y: each(f.gradient, y).reshape(y.shape) * region.D,
            lambda y: 1e3 * (1.0 + np.abs(value(y))),
        )

    return drawn


def every_function():
    """All objectives that are registered, by name: by formula where there is one here, else by example."""
    with_formula = set(FUNCTIONS) | set(SET_FUNCTIONS)
    return FUNCTIONS | {name: by_example(name) for name in OBJECTIVES if name not in with_formula}
