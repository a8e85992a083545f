"""Part "features": choices among rows of features, by every similarity, and `ItemSelector`."""

import math
from types import SimpleNamespace

import numpy as np

import drsub_fast as ds

from . import choosers, draws, truths
from . import item_claims as claims
from .families import Family


def similarities(X, similarity, gamma):
    """S, shape (n, n), of rows: cosine, inner product or radial; rows of any length."""
    if similarity == "rbf":
        return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))
    if similarity == "inner":
        return X @ X.T
    unit = X / np.maximum(np.abs(X).max(axis=1, keepdims=True), 1e-320)
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-320)
    return unit @ unit.T


def _problem(L, size):
    n = len(L)
    family = Family(size, np.zeros((0, n)), np.zeros(0), np.ones(n, bool), None)
    return choosers.problem_of(L, family, size)


def _is_the_choice(items, value, expected, best, slack):
    """The value of a choice of customers' items is right, and the choice is one greedy makes."""
    if abs(value - expected) > slack:
        return f"value {value!r}, but {expected!r} for {items}"
    return "" if value <= best + slack else f"value {value!r} above the best {best!r}"


def case(rng, judge):
    """One matrix of features."""
    n, r = int(rng.integers(2, 8)), int(rng.integers(1, 6))
    X = draws.vectors(rng, n, r)
    X = np.where(np.abs(X).sum(1, keepdims=True) > 0.0, X, 1.0) if rng.random() < 0.9 else X
    X = X * draws.one_of(rng, 1.0, 1e-170, 1e160, 1e-12, 1e8) if rng.random() < 0.3 else X
    size = int(rng.integers(1, n + 1))
    _log_det(rng, judge, X, size)
    _selector(rng, judge, X, size)


def _log_det(rng, judge, X, size):
    similarity = draws.one_of(rng, "cosine", "inner", "rbf")
    far = np.abs(X).max() > 1e100 or 0.0 < np.abs(X).max() < 1e-100
    if (far and similarity != "cosine") or (similarity == "cosine" and not X.any(axis=1).all()):
        return
    gamma = float(draws.one_of(rng, 0.1, 1.0, 30.0)) if similarity == "rbf" else None
    quality = draws.one_of(rng, None, np.ones(len(X)), draws.spread(rng, len(X), -6, 8))
    q = np.ones(len(X)) if quality is None else quality
    problem = _problem(similarities(X, similarity, gamma) * np.outer(q, q), size)
    options = dict(features=X, quality=quality, size=size, similarity=similarity, gamma=gamma)
    for door, call, more in (
        ("exact_map", ds.exact_map, {}), ("greedy_map", ds.greedy_map, {}), ("map_dpp greedy", ds.map_dpp, {}),
    ):  # fmt: skip
        found = judge.ask(f"{door} {similarity}", call, **options, **more)
        if found is not None:
            choosers.judge_set(judge, f"{door} {similarity}", problem, found)
            if door == "exact_map":
                judge.check(door, claims.set_is_the_best, found.value, problem.best)
            if door == "greedy_map":
                judge.check(door, claims.choice_is_greedy, found.order.tolist(), problem, problem.fits)


def _selector(rng, judge, X, size):
    function = draws.one_of(rng, "dpp", "facility-location", "max-coverage")
    if function == "max-coverage":
        if np.abs(X).max() > 1e100:
            return
        W, options = np.abs(X), {}
        given = W
    else:
        similarity = draws.one_of(rng, "cosine", "precomputed")
        W = similarities(X, "cosine", None)
        zero = ~X.any(axis=1)
        W[zero], W[:, zero] = 0.0, 0.0
        given, options = (X if similarity == "cosine" else W), {"similarity": similarity}
    door = f"ItemSelector {function} {options}"
    fitted = judge.ask(door, ds.ItemSelector(size, function, **options).fit, given)
    if fitted is None:
        return
    found = SimpleNamespace(
        items=fitted.ranking_, order=fitted.ranking_, value=fitted.value_, bound=fitted.bound_, gains=fitted.gains_
    )
    if function == "dpp":
        choosers.judge_set(judge, door, _problem(W, size), found)
        return
    W = np.maximum(W, 0.0)
    values = [W[truths.items_of(m)].max(axis=0).sum() if m else 0.0 for m in range(1 << len(X))]
    best = max(v for m, v in enumerate(values) if m.bit_count() == size)
    slack = 1e-9 * max(W.sum(), 1e-300)
    judge.check(door, claims.items_are_distinct, found.items, len(X))
    judge.check(door, claims.size_is_kept, found.items, size)
    expected = float(values[truths.mask_of(found.items)])
    judge.check(door, _is_the_choice, found.items, found.value, expected, best, slack)
    judge.check(door, _bound_of_customers, found.bound, best, slack)
    judge.check(door, _part_of_the_best, found.value, best, slack)


def _bound_of_customers(bound, best, slack):
    """No set of that size is worth more than the bound."""
    return "" if bound >= best - slack and math.isfinite(bound) else f"bound {bound!r}, but a set has {best!r}"


def _part_of_the_best(value, best, slack):
    """Greedy choice for monotone functions keeps 1 - 1/e of the best."""
    least = (1.0 - 1.0 / math.e) * best
    return "" if value >= least - slack else f"value {value!r}, the best is {best!r}"
