"""The first-order doubly non-negative bound: proven after any number of steps, over every set with rows."""

import numpy as np
import pytest
from global_checks import known_maximum, random_instance

import drsub_fast as ds
from drsub_fast.proofs import first_order
from drsub_fast.proofs.first_order import first_order_bound
from drsub_fast.proofs.program import quadratic_program


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
    best = known_maximum(f, P) - f.c
    program = quadratic_program(f, P)
    bounds = [first_order_bound(program, gap=1e-9, max_steps=steps) for steps in (1, 25, 50, 200, 2000)]
    assert min(bounds) >= best - 1e-13 * max(1.0, abs(best))
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] <= best + 1e-2 * max(abs(best), 0.1)


@pytest.mark.parametrize("seed", range(4))
def test_directed_cuts_over_a_box(seed):
    f, values = cut_of(np.random.default_rng(seed), 8)
    best = values.max()
    bound = first_order_bound(quadratic_program(f, ds.Box(np.ones(8))), gap=1e-4)
    assert best - 1e-12 <= bound <= 1.02 * best


def test_the_search_ends_where_the_gap_asks_for_no_more():
    f, P = random_instance(2, 5, 3)
    best = known_maximum(f, P) - f.c
    program = quadratic_program(f, P)
    loose, tight = (first_order_bound(program, value=best, gap=gap) for gap in (0.2, 1e-4))
    assert best <= tight <= best + 1e-4 * abs(best)
    assert tight < loose <= best + 0.2 * abs(best)


def test_without_time_there_is_the_linear_bound():
    f, P = random_instance(3, 6, 4)
    linear = ds.certificates.linear_bound(f, P) - f.c
    assert first_order_bound(quadratic_program(f, P), time_limit=0.0) <= linear * (1.0 + 1e-9)


def test_an_interrupt_keeps_the_best_bound(monkeypatch):
    f, P = random_instance(1, 6, 4)
    best = known_maximum(f, P) - f.c
    complete, calls = first_order.safe_bound, []

    def interrupted(data, W):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return complete(data, W)

    monkeypatch.setattr(first_order, "safe_bound", interrupted)
    bound = first_order_bound(quadratic_program(f, P), gap=1e-9)
    assert len(calls) == 4
    assert best <= bound < ds.certificates.linear_bound(f, P) - f.c


@pytest.mark.parametrize("P", [ds.Box([1.0, 2.0]), ds.Simplex(2), ds.Budget(1.0, [1.0, 1.0])])
def test_a_constant_function(P):
    f = ds.Quadratic(np.zeros((2, 2)), np.zeros(2), 3.0)
    assert 0.0 <= first_order_bound(quadratic_program(f, P), max_steps=50) <= 1e-9


def test_a_set_of_one_point_and_fixed_variables():
    f = ds.Quadratic([[-1.0, -1.0], [-1.0, -2.0]], [1.0, 3.0])
    assert first_order_bound(quadratic_program(f, ds.Box([0.0, 0.0]))) == 0.0
    P = ds.GeneralPolytope(A_eq=[[1.0, 0.0]], b_eq=[0.5], upper=[1.0, 1.0])
    # f(0.5, x) = 0.375 + 2.5 x - x^2.
    assert 1.875 <= first_order_bound(quadratic_program(f, P), gap=1e-6) <= 1.875 + 1e-4
