"""Bounds of every family against values of feasible points by formulas of their own: none may be below.

``pytest -m slow`` judges new seeds for as long as JUDGE_SECONDS says, and prints the seed of what it finds wrong.
"""

import math
import os
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

import drsub_fast as ds

#: Kernels of these sizes: determinants from fractions of the same doubles say what they are worth.
SCALES = (1.0, 1.0, 4.0, 1e-3, 1e4, 1e8, 1e13, 1e16)


def log_det(L, x):
    """log det(I + diag(x)(L - I)) in exact fractions, -inf off the branch of 0."""
    n, total = len(x), Fraction(1)
    M = [[Fraction(x[i]) * (Fraction(L[i, j]) - (i == j)) + (i == j) for j in range(n)] for i in range(n)]
    for k in range(n):
        if M[k][k] <= 0:
            return -math.inf
        total *= M[k][k]
        for i in range(k + 1, n):
            share = M[i][k] / M[k][k]
            M[i] = [a - share * b for a, b in zip(M[i], M[k], strict=True)]
    return math.log(total.numerator) - math.log(total.denominator)


def a_down_closed_set(r, n, reach):
    upper = np.full(n, reach) * (r.random(n) if r.random() < 0.3 else 1.0)
    kind = r.integers(4)
    if kind == 0:
        return ds.Budget(r.uniform(0.3, n), upper)
    if kind == 1:
        return ds.Box(upper)
    if kind == 2:
        return ds.Polytope(0.1 + r.random((2, n)), r.uniform(0.5, 3.0, 2), upper)
    return ds.Knapsack(r.random(n) + 0.2 * (r.random() < 0.7), r.uniform(0.0, 2.0), upper)


def points_of(r, P, upper, count=40):
    """Feasible points: vertices, and what is below or between them."""
    vertices = np.array([np.minimum(P.lmo(r.standard_normal(P.n) + 0.5, upper), upper) for _ in range(8)])
    mixed = r.dirichlet(np.full(8, 0.5), count) @ vertices
    return [x for x in (*vertices, *mixed) if P.contains(x, tol=0.0)]


def softmax(r):
    n = int(r.integers(1, 5))
    B = r.standard_normal((n, int(r.integers(1, n + 1)))) * 10.0 ** (r.uniform(-2, 2, (n, 1)) * (r.random() < 0.4))
    L = r.choice(SCALES) * B @ B.T + r.choice([0.0, 1e-3, 0.3]) * np.eye(n)
    L = 0.5 * (L + L.T)
    unit_box = bool(r.random() < 0.5)
    P = a_down_closed_set(r, n, 1.0 if unit_box else r.choice([1.0, 2.0, 6.0]))
    return (
        ds.Softmax(L, unit_box=unit_box),
        P,
        lambda x: log_det(L, x),
        np.minimum(P.upper, 1.0 if unit_box else np.inf),
    )


def quadratic(r):
    n = int(r.integers(1, 6))
    H = r.integers(-9, 10, (n, n)) * r.choice([1.0, 1e-8, 1e8, 1e160])
    H = (np.triu(H) + np.triu(H, 1).T).astype(float)
    h, c = r.integers(-9, 10, n) * np.abs(H).max(initial=0.0) / 9.0, 0.0
    kind = r.integers(6)
    P = a_down_closed_set(r, n, r.choice([1.0, 1e-3, 1e3]))
    if kind == 0:
        P = ds.Simplex(n, r.uniform(0.1, 3.0))
    elif kind == 1:
        inner, A = r.standard_normal(n), r.standard_normal((2, n))
        P = ds.GeneralPolytope(A, A @ inner + r.random(2), lower=inner - r.random(n), upper=inner + r.random(n))
    elif kind == 2:
        P = ds.Ball(r.uniform(0.1, 3.0), n)
    f = ds.Quadratic(H, h, c, require_dr=False)
    return f, P, lambda x: float(x @ (0.5 * (H @ x) + h)), P.upper


def pca(r):
    n = int(r.integers(1, 7))
    Z, P = (
        r.standard_normal((int(r.integers(1, 2 * n + 1)), n)) * r.choice([1.0, 1e-5, 1e5]),
        ds.Ball(r.uniform(0.1, 9.0), n),
    )
    return ds.NonnegativePCA(Z), P, lambda x: float(np.square(Z @ x).sum() / (2 * len(Z))), P.upper


def logistic(r):
    n, m = int(r.integers(1, 4)), int(r.integers(1, 12))
    Z, y = np.abs(r.standard_normal((m, n))) * r.choice([-1.0, 1.0], n), r.choice([-1.0, 1.0], m)
    weight, gamma, kind = r.choice([0.0, 0.05, 0.3, 10.0]), 10.0 ** r.uniform(-1, 1.5), r.choice(["smooth", "capped"])
    g, reach = ds.LogisticNonconvex(Z, y, weight, gamma, regularizer=kind), r.choice([0.5, 1.0, 3.0])

    def own(x):
        square = gamma * x * x
        cost = square / (1.0 + square) if kind == "smooth" else np.minimum(square, 1.0)
        return float(-np.logaddexp(0.0, -y * (Z @ x)).mean() - weight * cost.sum())

    if r.random() < 0.3:
        P = a_down_closed_set(r, n, reach)
        return g, P, own, P.upper
    lower, upper = -reach * np.ones(n), reach * np.ones(n)
    problem = ds.to_orthant(g, ds.GeneralPolytope(lower=lower, upper=upper), ds.infer_signs(Z))
    return problem.f, problem.P, lambda x: own(problem.to_original(x)), problem.P.upper


def extension(r):
    n = int(r.integers(2, 7))
    W, P = r.random((n, 4)) * (r.random((n, 4)) < 0.7), a_down_closed_set(r, n, 1.0)
    F = [
        lambda: ds.Multilinear.facility_location(W),
        lambda: ds.Multilinear.flid(W.sum(axis=1) * r.random(n), W),
        lambda: ds.Multilinear.cut(np.triu(r.random((n, n)), 1)),
        lambda: ds.MeanField(ds.Multilinear.flid(W.sum(axis=1) * r.random(n), W)),
    ][r.integers(4)]()
    return F, P, F.value, P.upper


FAMILIES = {"softmax": softmax, "quadratic": quadratic, "pca": pca, "logistic": logistic, "extension": extension}


def best_known(r, P, own, upper, answers):
    """The largest value of feasible points: sampled, answered, and searched for from the best of these."""
    points = [*points_of(r, P, upper), *answers]
    values = [own(x) for x in points]
    k = int(np.argmax(values))
    if isinstance(P, ds.Box) and math.isfinite(values[k]):
        found = minimize(
            lambda x: -own(x), points[k], bounds=np.column_stack([np.zeros(P.n), upper]), method="L-BFGS-B"
        )
        x = np.clip(found.x, 0.0, upper)
        return max(values[k], own(x))
    return values[k]


def judge(name, seed, limits=(0.3, 0.01)):
    """What is wrong with the claims about one problem, and how many claims were judged."""
    r = np.random.default_rng([seed, list(FAMILIES).index(name)])
    f, P, own, upper = FAMILIES[name](r)
    answer = ds.maximize(f, P, time_limit=0.3)
    proof = ds.global_maximum(f, P, time_limit=float(r.choice(limits)), gap=float(r.choice([1e-6, 1e-2])))
    bounds = {
        "default": answer.upper_bound,
        "global_maximum": proof.upper_bound,
        "upper_bound": ds.certificates.upper_bound(f, P, time_limit=float(r.choice(limits))),
        "counted": ds.certificates.upper_bound(f, P, operations=10.0 ** r.uniform(3, 8)),
        "linear": ds.certificates.linear_bound(f, P),
    }
    answers = [x for x in (answer.x, proof.x) if P.contains(x, tol=0.0)]
    best = best_known(r, P, own, upper, answers)
    slack = 1e-9 * max(abs(best), 1.0 if name not in ("quadratic", "pca") else 0.0)
    wrong = [f"{kind} {bound!r} below {best!r}" for kind, bound in bounds.items() if not bound >= best - slack]
    wrong += [f"{kind} not finite" for kind in ("default", "global_maximum") if not math.isfinite(bounds[kind])]
    if proof.success and best > proof.upper_bound + slack:
        wrong.append(f"called optimal: {proof.value!r} below {best!r}")
    return wrong, len(bounds) + 1


@pytest.mark.parametrize("name", FAMILIES)
def test_no_bound_is_below_a_feasible_value(name, interpreted):
    for seed in range(3):
        wrong, _ = judge(name, seed)
        assert not wrong, (name, seed, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_bound_of_new_seeds_is_below_a_feasible_value(name):
    seed = int(time.time() * 1000)
    until, judged = time.monotonic() + float(os.environ.get("JUDGE_SECONDS", "60")), 0
    while time.monotonic() < until:
        wrong, count = judge(name, seed)
        assert not wrong, (name, seed, wrong)
        seed, judged = seed + 1, judged + count
    print(f"{name}: {judged} claims judged")
