"""The first-order doubly non-negative bound: proven after any number of steps, over every set with rows."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
from global_checks import known_maximum, random_instance

import drsub_fast as ds
from drsub_fast.proofs import quadratic_steps
from drsub_fast.proofs.quadratic_steps import first_order_steps
from drsub_fast.proofs.rungs import Allowance, Problem, climb
from drsub_fast.solvers.domain import solver_upper


def problem_of(f, P):
    return Problem(f, P, solver_upper(f, P), None, -np.inf)


def first_order_bound(f, P, close=1e-4, target=-np.inf):
    return climb([partial(first_order_steps, close=close)], problem_of(f, P), np.inf, target, Allowance())


def bounds_of(f, P, count):
    """The first bounds of the method."""
    return [bound for bound, *_ in islice(first_order_steps(problem_of(f, P), close=1e-10), count)]


def cut_of(random, n):
    """A random directed cut, and all its values at corners, which hold its maximum over the box."""
    A = random.random((n, n)) * (random.random((n, n)) < 0.5)
    np.fill_diagonal(A, 0.0)
    corners = np.array(list(np.ndindex(*(2,) * n)), float)
    return ds.Multilinear.cut(A), ((corners @ A) * (1.0 - corners)).sum(axis=1)


@pytest.mark.parametrize(("n", "m"), [(1, 0), (2, 1), (3, 2), (4, 0), (4, 3), (5, 2)])
@pytest.mark.parametrize("seed", range(5))
def test_no_number_of_steps_gives_a_bound_below_the_maximum(n, m, seed):
    f, P = random_instance(seed, n, m, budget=m == 1)
    best = known_maximum(f, P)
    bounds = bounds_of(f, P, 80)
    assert min(bounds) >= best - 1e-13 * max(1.0, abs(best))
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] <= best + 1e-2 * max(abs(best), 0.1)


@pytest.mark.parametrize("seed", range(4))
def test_directed_cuts_over_a_box(seed):
    f, values = cut_of(np.random.default_rng(seed), 8)
    best = values.max()
    bound = first_order_bound(f, ds.Box(np.ones(8)))
    assert best - 1e-12 <= bound <= 1.02 * best


def test_the_search_ends_where_the_gap_asks_for_no_more():
    f, P = random_instance(2, 5, 3)
    best = known_maximum(f, P)
    loose, tight = (first_order_bound(f, P, target=best + gap * abs(best)) for gap in (0.2, 1e-4))
    assert best <= tight <= best + 1e-4 * abs(best)
    assert tight < loose <= best + 0.2 * abs(best)


def test_without_time_there_is_the_linear_bound():
    f, P = random_instance(3, 6, 4)
    assert ds.certificates.dnn_bound(f, P, time_limit=0.0) <= ds.certificates.linear_bound(f, P) * (1.0 + 1e-9)


def test_an_interrupt_keeps_the_best_bound(monkeypatch):
    f, P = random_instance(1, 6, 4)
    best = known_maximum(f, P)
    complete, calls = quadratic_steps.safe_bound, []

    def interrupted(data, W):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return complete(data, W)

    monkeypatch.setattr(quadratic_steps, "safe_bound", interrupted)
    bound = first_order_bound(f, P, close=1e-9)
    assert len(calls) == 4
    assert best <= bound < ds.certificates.linear_bound(f, P)


@pytest.mark.parametrize("P", [ds.Box([1.0, 2.0]), ds.Simplex(2), ds.Budget(1.0, [1.0, 1.0])])
def test_a_constant_function(P):
    f = ds.Quadratic(np.zeros((2, 2)), np.zeros(2), 3.0)
    assert 3.0 <= min(bounds_of(f, P, 5)) <= 3.0 + 1e-9


def test_a_set_of_one_point_and_fixed_variables():
    f = ds.Quadratic([[-1.0, -1.0], [-1.0, -2.0]], [1.0, 3.0])
    assert first_order_bound(f, ds.Box([0.0, 0.0])) == 0.0
    P = ds.GeneralPolytope(A_eq=[[1.0, 0.0]], b_eq=[0.5], upper=[1.0, 1.0])
    # f(0.5, x) = 0.375 + 2.5 x - x^2.
    assert 1.875 <= first_order_bound(f, P, close=1e-6) <= 1.875 + 1e-4
