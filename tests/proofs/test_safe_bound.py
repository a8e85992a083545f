"""Bounds of the doubly non-negative relaxation: whatever the multipliers, re-checked in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from global_checks import known_maximum, random_instance

import drsub_fast as ds
from drsub_fast.proofs.doubly_nonnegative import certificate, complementarity, improve, interior, objective
from drsub_fast.proofs.first_order import multipliers
from drsub_fast.proofs.program import magnitude, quadratic_program, unit_form
from drsub_fast.proofs.safe_bound import linear_maxima, relaxation, safe_bound


def exact(matrix):
    return np.vectorize(Fraction.from_float, otypes=[object])(np.asarray(matrix, float))


def is_positive_definite(M):
    """Exactly, for a symmetric matrix of fractions, by elimination."""
    M = M.copy()
    for p in range(len(M)):
        if M[p, p] <= 0:
            return False
        for i in range(p + 1, len(M)):
            M[i, p:] = M[i, p:] - M[p, p:] * (M[i, p] / M[p, p])
    return True


def proves(data, found):
    """Whether a certificate's bound t holds in exact arithmetic, the equations' slack aside.

    With S = t E_00 + s (0 + I) - Q positive definite, z'Qz <= t + s |x|^2; the bound is t + s radius by the first
    inequality, and by the second the term s sum x_j (1 - x_j) >= 0 goes into Q beforehand.
    """
    n = len(data.C) - 1
    V, W, E, M = exact(data.V), exact(found.W), exact(data.E), exact(found.M)
    s, t = Fraction.from_float(float(found.shift)), Fraction.from_float(float(found.bound))
    Q = exact(data.C) + V.T @ W @ V
    if len(E):
        Q = Q + E.T @ M + M.T @ E
    S = s * exact(np.eye(n + 1)) - Q
    if found.by_radius:
        t -= s * Fraction.from_float(float(data.radius))
    else:
        S[0, 1:] = S[0, 1:] - s / 2
        S[1:, 0] = S[1:, 0] - s / 2
    S[0, 0] = t - Q[0, 0]
    return (found.W >= 0.0).all() and found.W[0, 0] == 0.0 and is_positive_definite(S)


def general_instance(seed, n):
    """A quadratic over rows of any sign, an equation and negative lower bounds, with a point well inside."""
    random = np.random.default_rng(seed)
    H = -random.random((n, n))
    inner, A, A_eq = random.random(n), random.normal(size=(2, n)), random.random((1, n))
    lower = -random.random(n) * (random.random(n) < 0.5)
    P = ds.GeneralPolytope(A, A @ inner + 0.2, A_eq, A_eq @ inner, lower, np.ones(n))
    return ds.Quadratic(H + H.T, random.random(n)), P


def data_of(f, P):
    program = quadratic_program(f, P)
    form = unit_form(program, program.lower, program.upper)
    return program, form, relaxation(form)


CASES = [random_instance(seed, n, m, budget=m == 1) for seed, n, m in ((0, 3, 2), (1, 4, 3), (2, 5, 0), (3, 4, 1))]
CASES += [general_instance(0, 4), general_instance(1, 5), (random_instance(4, 5, 2)[0], ds.Simplex(5, 2.0))]


@pytest.mark.parametrize("seed", range(20))
def test_any_multipliers_give_a_bound(seed):
    random = np.random.default_rng(seed)
    f, P = random_instance(seed, 3, 2)
    _, form, data = data_of(f, P)
    best = known_maximum(f, P) - f.c
    for scale in (0.0, 1e-3, 1e-1, 1.0, 10.0):
        W = scale * random.normal(size=(len(data.V), len(data.V)))
        assert form.constant + safe_bound(data, W).bound >= best - 1e-12


@pytest.mark.parametrize("case", range(len(CASES)))
def test_certificates_of_the_interior_point_hold_in_exact_arithmetic(case):
    program, _, data = data_of(*CASES[case])
    reduced, iterate = interior(data, magnitude(program))
    for _ in range(12):
        after = improve(reduced, iterate)
        if after is None:
            break
        iterate = after
        found = certificate(data, reduced, iterate)
        assert proves(data, found)
    assert found.bound - objective(reduced, iterate) < 1e-3


@pytest.mark.parametrize("case", range(len(CASES)))
def test_certificates_of_the_first_order_method_hold_in_exact_arithmetic(case):
    _, _, data = data_of(*CASES[case])
    bounds = []
    for progress in multipliers(data, every=1 + case):
        found = safe_bound(data, progress.W)
        assert proves(data, found)
        bounds.append(found.bound)
        if progress.steps >= 10 * (1 + case):
            break
    assert min(bounds) < np.inf


def test_a_bound_without_its_allowance_is_refused():
    _, _, data = data_of(*CASES[0])
    reduced, iterate = interior(data, 1.0)
    for _ in range(8):
        iterate = improve(reduced, iterate)
    found = certificate(data, reduced, iterate)
    assert proves(data, found)
    assert not proves(data, found._replace(bound=found.bound - 1e-9))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_linear_bound_is_the_linear_program_s(case):
    f, P = CASES[case]
    _, form, _ = data_of(f, P)
    costs = [sign * np.linspace(0.5, 1.0, len(form.h)) for sign in (1.0, -1.0, 0.0)]
    bounds = linear_maxima(costs, form.rows, form.equations, form.slack)
    for cost, bound in zip(costs, bounds, strict=True):
        direction = np.zeros(f.n)
        direction[form.free] = cost / form.width
        most = direction @ P.lmo(direction) - direction @ form.lower
        assert most - 1e-12 <= bound <= most + 1e-8


def test_relaxation_against_clarabel():
    clarabel = pytest.importorskip("clarabel", reason="compares with Clarabel (pip install '.[exact]')")
    f, P = random_instance(3, 4, 3)
    _, _, data = data_of(f, P)
    reduced, iterate = interior(data, 1.0)
    while complementarity(reduced, iterate) > 1e-8:
        iterate = improve(reduced, iterate)
    V, C = data.V, data.C
    N = len(C)
    # Unknowns: the upper triangle of Z by columns, off-diagonal entries times sqrt(2).
    pairs = [(i, j) for j in range(N) for i in range(j + 1)]
    root = np.array([1.0 if i == j else 2.0**0.5 for i, j in pairs])
    cost = np.array([C[i, j] for i, j in pairs]) * root
    rows = [[(v[i] * w[j] + v[j] * w[i]) / 2 for i, j in pairs] * root for k, v in enumerate(V) for w in V[k:]]
    corner = np.eye(len(pairs))[:1]
    G = scipy.sparse.csc_matrix(np.vstack([corner, -np.array(rows), -np.eye(len(pairs))]))
    sides = np.concatenate([[1.0], np.zeros(len(rows) + len(pairs))])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(len(rows)), clarabel.PSDTriangleConeT(N)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    empty = scipy.sparse.csc_matrix((len(pairs), len(pairs)))
    answer = clarabel.DefaultSolver(empty, -cost, G, sides, cones, settings).solve()
    assert certificate(data, reduced, iterate).bound == pytest.approx(-answer.obj_val, abs=1e-6)
