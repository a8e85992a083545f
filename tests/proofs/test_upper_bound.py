"""Bounds of every kind of pair hold for all feasible points, however early they are cut short, and are tight."""

import itertools
import math

import numpy as np
import pytest
import scipy

import drsub_fast as ds
from drsub_fast import certificates
from drsub_fast.engine import clock
from drsub_fast.proofs import covering, item_sets, softmax_relaxations
from drsub_fast.proofs.first_order import multipliers
from drsub_fast.proofs.program import quadratic_program, unit_form
from drsub_fast.proofs.rungs import Problem
from drsub_fast.proofs.safe_bound import relaxation
from drsub_fast.proofs.softmax_branching import seen_from, softmax_branching_steps


def corners(n):
    return np.array(list(itertools.product((0.0, 1.0), repeat=n)))


def random_set(random, n):
    """A set in [0, 1]^n."""
    kind = random.integers(7)
    ones = np.ones(n)
    return (
        lambda: ds.Box(ones),
        lambda: ds.Box(random.random(n)),
        lambda: ds.Budget(int(random.integers(1, n + 1)), ones),
        lambda: ds.PartitionMatroid(np.arange(n) % 2, [1.0, 1.0], ones),
        lambda: ds.Knapsack(0.2 + random.random(n), 0.7, ones),
        lambda: ds.Polytope(0.1 + random.random((2, n)), np.ones(2), ones),
        lambda: ds.Simplex(n),
    )[kind]()


def quadratic(random, n):
    H = -random.random((n, n))
    return ds.Quadratic(H + H.T, 3.0 * random.random(n), c=random.normal())


def concave(random, n):
    B = random.random((n, 2))
    return ds.Quadratic(-B @ B.T, random.normal(size=n))


def softmax(random, n):
    B = 2.0 * random.normal(size=(n, random.integers(1, n + 1)))
    return ds.Softmax(B @ B.T)


def cut(random, n):
    A = random.random((n, n)) * (random.random((n, n)) < 0.6)
    np.fill_diagonal(A, 0.0)
    return ds.Multilinear.cut(A)


def coverage(random, n):
    return ds.Multilinear.coverage((random.random((n, 5)) < 0.4).astype(float), random.random(5))


def flid(random, n):
    W = random.random((n, 2))
    return ds.Multilinear.flid(W.sum(axis=1) * random.random(n), W)


def table(random, n):
    return ds.Multilinear.from_function(lambda S: math.sqrt(len(S)) - 0.1 * len(S), n)


def spectral(random, n):
    return ds.Spectral(factors=random.normal(size=(n, 2)), offset=np.eye(2))


def mean_field(random, n):
    return ds.MeanField(flid(random, n) if random.random() < 0.5 else cut(random, n))


KINDS = (quadratic, concave, softmax, cut, coverage, flid, table, spectral, mean_field)


def feasible_points(random, P, count):
    """Random points of P, most of them between vertices."""
    vertices = np.array([P.lmo(direction) for direction in random.normal(size=(8, P.n))])
    mixed = random.dirichlet(np.full(8, 0.3), count) @ vertices
    return np.vstack([vertices, mixed])


@pytest.mark.parametrize("kind", KINDS)
def test_no_feasible_point_is_above_a_bound(kind):
    below = 0
    for seed in range(25):
        random = np.random.default_rng(seed)
        n = int(random.integers(2, 5))
        f, P = kind(random, n), random_set(random, n)
        best = max(f.value(np.minimum(x, 1.0)) for x in feasible_points(random, P, 60))
        r = ds.maximize(f, P)
        best = max(best, r.value)
        operations = random.choice([0.0, 1e4, 1e5, 1e6, np.inf])
        bounds = (
            certificates.upper_bound(f, P, operations=operations),
            certificates.upper_bound(f, P, value=best, x=r.x, operations=operations, gap=0.0),
            certificates.upper_bound(f, P, time_limit=random.choice([0.0, 1e-4, 1e-3])),
            r.upper_bound,
        )
        assert np.isfinite(bounds).all()
        below += min(bounds) < best - 1e-12 * max(1.0, abs(best))
    assert below == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_small_problem_has_a_bound_however_late_it_is(kind, monkeypatch):
    random = np.random.default_rng(7)
    seconds = itertools.count(step=1.0)
    monkeypatch.setattr(clock, "clock", lambda: next(seconds))
    for _ in range(5):
        f, P = kind(random, 4), random_set(random, 4)
        bound = certificates.upper_bound(f, P, time_limit=1e-5)
        assert max(f.value(np.minimum(x, 1.0)) for x in feasible_points(random, P, 60)) <= bound < np.inf


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [3.0, 10.0, 30.0, 1000.0])
def test_a_limit_of_any_length_gives_a_bound(kind, limit, monkeypatch):
    random = np.random.default_rng(8)
    for _ in range(5):
        seconds = itertools.count(step=1.0)
        monkeypatch.setattr(clock, "clock", lambda seconds=seconds: next(seconds))
        f, P = kind(random, 4), random_set(random, 4)
        bound = certificates.upper_bound(f, P, time_limit=limit)
        assert max(f.value(np.minimum(x, 1.0)) for x in feasible_points(random, P, 60)) <= bound < np.inf


@pytest.mark.parametrize("limit", [60.0, 200.0, 1000.0])
def test_the_first_order_method_ends_with_a_bound_in_time(limit, monkeypatch):
    random = np.random.default_rng(3)
    H = -random.random((24, 24))
    program = quadratic_program(ds.Quadratic(H + H.T, 12.0 * random.random(24)), ds.Budget(6.0, np.ones(24)))
    data = relaxation(unit_form(program, program.lower, program.upper))
    seconds = itertools.count(step=1.0)
    monkeypatch.setattr(clock, "clock", lambda: next(seconds))
    with clock.until(limit):
        ends = [progress.steps for progress in multipliers(data)]
        assert 0.0 < clock.thread_time_left() < 0.5 * limit
    # One report every 25 steps, and one more, with a bound of its own, when the time is nearly over.
    assert ends[:-1] == list(range(25, 25 * len(ends), 25))
    assert 25 * (len(ends) - 1) < ends[-1] < 25 * len(ends)


@pytest.mark.parametrize("kind", [cut, coverage, flid, table])
def test_a_multilinear_maximum_over_a_matroid_is_at_a_set(kind):
    random = np.random.default_rng(4)
    for n in (2, 3, 5):
        f = kind(random, n)
        sets = corners(n)
        values = np.array([f.value(x) for x in sets])
        # item i is bit 2^i of the index
        np.testing.assert_allclose(item_sets.set_values(f), values.reshape((2,) * n).T.ravel(), atol=1e-12)
        for P in (ds.Box(np.ones(n)), ds.Budget(1, np.ones(n)), ds.PartitionMatroid(np.arange(n) % 2, 1.0)):
            feasible = np.array([P.contains(x) for x in sets])
            best = values[feasible].max()
            assert best <= certificates.upper_bound(f, P, gap=0.0) <= best + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_the_linear_program_of_maxima(seed):
    random = np.random.default_rng(seed)
    n = 6
    f, P = (coverage, flid)[seed % 2](random, n), random_set(random, n)
    points = feasible_points(random, P, 60)
    terms = covering.terms_of(f.params)
    # The sum of the terms, min(1, .) in place of the probability, is above f and equal to it at sets.
    above = points @ f.params.linear + np.minimum(1.0, points @ terms.rows.T) @ terms.drops
    assert (above >= [f.value(x) - 1e-12 for x in points]).all()
    for x in corners(n)[::7]:
        sums = np.minimum(1.0, terms.rows @ x)
        assert f.value(x) == pytest.approx(x @ f.params.linear + sums @ terms.drops, abs=1e-12)
    for objective in (f, ds.MeanField(f)):
        problem = Problem(objective, P, P.upper, points[0], 0.0)
        bound = min(bound for bound, _ in covering.covering_steps(problem))
        assert max(objective.value(x) for x in points) <= bound < np.inf
    # From multipliers: no more than the program's own value, which is at most the sum of all terms.
    bound = min(bound for bound, _ in covering.covering_steps(Problem(f, P, P.upper, points[0], 0.0)))
    assert bound <= np.maximum(f.params.linear, 0.0).sum() + terms.drops.sum() + 1e-9
    assert bound >= above.max() - 1e-9


def test_sparse_and_factored_quadratics_have_the_bounds_of_dense_ones():
    random = np.random.default_rng(0)
    dense = quadratic(random, 4)
    P = ds.Polytope(0.2 + random.random((2, 4)), np.ones(2), np.ones(4))
    sparse = ds.Quadratic(scipy.sparse.csr_array(dense.H), dense.h, c=dense.c)
    best = ds.maximize(dense, P).value
    bounds = [certificates.upper_bound(f, P, value=best, gap=1e-6) for f in (dense, sparse)]
    assert best <= bounds[1] == pytest.approx(bounds[0], rel=1e-6)
    B, d = random.random((4, 2)), random.random(4)
    factored = ds.Quadratic(factor=B, diagonal=d, h=dense.h)
    r = ds.maximize(factored, P)
    assert r.value <= r.upper_bound <= r.value + 1e-6 * max(1.0, abs(r.value))


def test_coverage_of_a_hundred_items():
    random = np.random.default_rng(2)
    f = ds.Multilinear.coverage((random.random((100, 60)) < 0.05).astype(float), random.random(60))
    P = ds.Budget(8, np.ones(100))
    value = ds.greedy(f, P).value
    bound = certificates.upper_bound(f, P, value=value, x=np.zeros(100), gap=0.0)
    assert value <= bound <= 1.1 * value < certificates.linear_bound(f, P)


def test_a_fractional_budget_is_not_taken_for_a_matroid():
    f = ds.Multilinear.coverage([{0}, {1}])
    P = ds.Budget(1.5, np.ones(2))
    # f = x_0 + x_1 is 1.5 there, more than at any feasible set.
    assert not item_sets.has_integral_vertices(P, P.upper)
    assert certificates.upper_bound(f, P) >= 1.5


def test_log_z_bounds_a_mean_field_objective():
    f = ds.MeanField(ds.Multilinear.flid([1.0, 0.5], [[0.5], [0.5]]))
    assert certificates.upper_bound(f, ds.Box(np.ones(2)), gap=0.0) == pytest.approx(f.log_partition(), rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_concave_functions_above_a_softmax(seed):
    random = np.random.default_rng(seed)
    n = 5
    f = softmax(random, n)
    P = ds.Budget(2.0, np.ones(n)) if seed % 2 else ds.Polytope(0.2 + random.random((2, n)), np.ones(2), np.ones(n))
    M = f.L - np.eye(n)
    blocks = softmax_relaxations.grow_blocks(M, random.random(n) + 0.1)
    functions = (
        softmax_relaxations.separable(M),
        softmax_relaxations.block_sum(M, blocks),
        softmax_relaxations.spectral_split(M, P, P.upper),
    )
    points = feasible_points(random, P, 40)
    for expand in functions:
        values = np.array([expand(x).value for x in points])
        assert (values >= [f.value(x) - 1e-9 for x in points]).all()
        # Concave: tangents are above; the gradient and the Hessian are those of the function.
        x = points[-1]
        here = expand(x)
        assert (here.value + (points - x) @ here.gradient >= values - 1e-9).all()
        step = 1e-6 * random.random(n)
        there = expand(x + step)
        assert there.value - here.value == pytest.approx(step @ here.gradient, rel=1e-3, abs=1e-11)
        np.testing.assert_allclose(there.gradient - here.gradient, here.hessian @ step, rtol=1e-3, atol=1e-10)
        bounds = [bound for bound, *_ in softmax_relaxations.search(expand, P, P.upper, np.zeros(n))]
        assert max(values) <= bounds[-1] <= expand(ds.maximize(f, P).x).value + bounds[0]
        assert bounds == sorted(bounds, reverse=True)


def test_blocks_are_a_partition_and_semidefinite():
    M = softmax(np.random.default_rng(0), 8).L - np.eye(8)
    blocks = softmax_relaxations.grow_blocks(M, np.ones(8))
    assert sorted(np.concatenate(blocks)) == np.flatnonzero(M.diagonal() > 0.0).tolist()
    assert all(np.linalg.eigvalsh(M[np.ix_(block, block)])[0] > 0.0 for block in blocks)


@pytest.mark.parametrize("seed", range(8))
def test_branching_closes_the_gap_of_a_softmax(seed):
    random = np.random.default_rng(seed)
    n = 4
    f = softmax(random, n)
    P = (
        ds.Box(np.ones(n)),
        ds.Budget(2.0, np.ones(n)),
        ds.PartitionMatroid([0, 0, 1, 1], 1.0),
        ds.Polytope(0.2 + random.random((2, n)), np.ones(2), np.ones(n)),
    )[seed % 4]
    best = ds.global_maximum(f, P, gap=1e-6)
    problem = Problem(f, P, P.upper, best.x, best.value)
    bounds = [bound for bound, _ in itertools.islice(softmax_branching_steps(problem), 60)]
    assert min(bounds) >= best.value - 1e-9
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] <= best.value + 0.02 * abs(best.value) + 1e-9


def test_a_set_seen_from_one_of_its_points():
    random = np.random.default_rng(1)
    ones = np.ones(4)
    for P in (
        ds.Budget(2.0, ones),
        ds.PartitionMatroid([0, 1, 0, 1], 1.0),
        ds.Polytope(random.random((2, 4)), ones[:2], ones),
    ):
        x = 0.5 * P.lmo(random.random(4))
        rest = seen_from(P, x, P.upper - x)
        v = rest.lmo(random.random(4))
        assert P.contains(x + v)
        assert not rest.contains(v + 0.1) or P.contains(x + v + 0.1)
    assert seen_from(ds.Budget(1.0, ones), 0.5 * ones, 0.5 * ones) is None
    assert seen_from(ds.Simplex(4), 0.0 * ones, ones) is None


def test_the_bound_of_twenty_items():
    """Branching tightens what the relaxations prove, 1.2 times the value."""
    f, P = ds.instances.softmax_uniform(20, 10, 3)
    f = ds.Softmax(2.0 * f.L)
    r = ds.maximize(f, P, bound="cheap")
    bounds = [
        certificates.upper_bound(f, P, value=r.value, x=r.x, operations=operations) for operations in (2e7, 2e8, 1e9)
    ]
    # Loops that are compiled meanwhile may round otherwise.
    assert (np.diff(bounds) <= 1e-12).all()
    assert r.value <= bounds[-1] <= 1.1 * r.value


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bound_of_a_mean_field_objective_knows_the_set(k):
    random = np.random.default_rng(k)
    W = random.random((8, 4)) * (random.random((8, 4)) < 0.7)
    f = ds.MeanField(ds.Multilinear.flid(3.0 * (0.6 * W.sum(axis=1) + 0.1), 3.0 * W))
    P = ds.Budget(k, np.ones(8))
    r = ds.maximize(f, P)
    everywhere = certificates.upper_bound(f, ds.Box(np.ones(8)), gap=0.0)
    assert r.value <= r.upper_bound < min(everywhere, 1.15 * r.value)
