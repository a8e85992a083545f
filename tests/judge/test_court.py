"""The judge's own truths, and that each claim is found to be wrong where it is."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast._kinds import EXTENSIONS, OBJECTIVES, SETS

from . import answer_claims, choosers, families, functions, item_claims, places, polyhedra, regions, solvers, truths
from .court import Judge, run_case


@pytest.fixture(autouse=True)
def _interpreted(interpreted):
    """Small problems of many kinds take longer to compile than to solve."""


def test_every_registered_kind_is_judged():
    judged = set(functions.every_function()) | set(functions.SET_FUNCTIONS)
    assert set(OBJECTIVES) <= judged
    assert set(SETS) <= set(regions.every_region())
    assert set(EXTENSIONS) <= set(functions.SET_FUNCTIONS), "add the set function to tests/judge/functions.py"
    for name in set(judged) & set(OBJECTIVES) - set(functions.FUNCTIONS) - set(functions.SET_FUNCTIONS):
        assert OBJECTIVES[name].example_of(3).n == 3


def test_a_kind_without_a_formula_is_judged_by_its_example(monkeypatch):
    """What is registered takes part at once, and false claims about it are found."""
    monkeypatch.delitem(functions.FUNCTIONS, "price-optimization")
    monkeypatch.delitem(regions.REGIONS, "ball")
    place = places.random_place(np.random.default_rng(0), 3, ("price-optimization",), ("ball",))
    assert place.region.by_example
    r = ds.maximize(place.f, place.P)
    judge = Judge()
    solvers.judge_result(judge, "maximize", place, r)
    assert not judge.faults
    solvers.judge_result(judge, "maximize", place, replace(r, value=2.0 * r.value, x=2.0 * place.P.upper))
    assert "is_in_the_set" in judge.faults[0]


def test_principal_minors_are_exact():
    X = np.random.default_rng(0).integers(-3, 4, (5, 5)).astype(float)
    L = X @ X.T * np.outer([1.0, 1e-8, 1e8, 1.0, 2.0], [1.0, 1e-8, 1e8, 1.0, 2.0])
    for mask, value in enumerate(truths.principal_minors(L)):
        items = truths.items_of(mask)
        sign, log = np.linalg.slogdet(L[np.ix_(items, items)])
        assert value == pytest.approx(log, abs=1e-6) if sign > 0 and value > -50 else True
    assert truths.principal_minors(np.ones((2, 2))) == [0.0, 0.0, 0.0, -math.inf]


def test_sums_are_exact():
    surely, maybe = truths.fitting(3, [[0.1, 0.2, 0.3]], [0.3], [True, True, True])
    assert [surely[3], maybe[3], surely[4], maybe[7]] == [False, True, True, False]  # 0.1 + 0.2 > 0.3


def test_vertices_and_quadratics():
    rng = np.random.default_rng(1)
    region = regions.REGIONS["polytope"](rng, 3, 0)
    shape = polyhedra.Shape(region, rng)
    assert polyhedra.is_inside(region, shape.points).all()
    H, h = -np.ones((3, 3)), np.array([1.0, 2.0, 3.0])
    best, y = polyhedra.best_of_quadratic(H, h, region)
    grid = np.array(list(itertools.product(*[np.linspace(0.0, u, 31) for u in region.upper])))
    grid = grid[polyhedra.is_inside(region, grid)]
    assert best >= (0.5 * ((grid @ H) * grid).sum(1) + grid @ h).max() - 1e-9
    assert polyhedra.is_inside(region, y)


@pytest.mark.parametrize("kind", functions.FUNCTIONS)
def test_values_and_gradients_of_the_judge(kind):
    """Its formulas agree with the package's, and its gradients with differences of its own values."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        place = places.random_place(rng, 3, (kind,), ("box",))
        y = place.region.lower + (place.region.upper - place.region.lower) * rng.uniform(0.2, 0.8, 3)
        size = float(place.function.size(y))
        assert abs(place.f.value(y * place.region.D) - place.function.value(y)) <= 1e-11 * size
        for j in np.flatnonzero(y > 1e-3):
            step = np.zeros(3)
            step[j] = 1e-6
            rate = (place.function.value(y + step) - place.function.value(y - step)) / 2e-6
            assert abs(rate - place.function.gradient(y)[j]) <= 1e-4 * (size + abs(rate))


def test_false_claims_about_answers_are_found():
    rng = np.random.default_rng(3)
    place = places.random_place(rng, 3, ("quadratic",), ("polytope",))
    r = ds.global_maximum(place.f, place.P)
    x, size, y = r.x, place.best_size, place.region.D
    assert not answer_claims.is_in_the_set(place, x)
    assert answer_claims.is_in_the_set(place, place.region.upper * y * (1.0 + 1e-15))
    assert answer_claims.is_in_the_set(place, np.where(np.arange(3) == 0, -5e-324, x))
    assert answer_claims.value_is_right(place, r.value + 1e-9 * size, x)
    assert answer_claims.value_is_below_its_bound(1.0, np.nextafter(1.0, 0.0))
    assert answer_claims.value_is_below_its_bound(1.0, math.nan)
    assert answer_claims.bound_is_above_all(place, place.best - 1e-6 * size)
    assert answer_claims.gap_is_right(place, r.fw_gap + 1e-4 * size, x)
    zero = replace(r, x=np.zeros(3), value=place.f.value(np.zeros(3)), status=ds.Status.CONVERGED)
    assert answer_claims.convergence_is_so(place, zero, None, 0.0)
    assert answer_claims.optimum_is_so(place, replace(zero, status=ds.Status.OPTIMAL), 1e-6)
    known = ds.Guarantee(0.999, "f(x) >= f(x*)", "f >= 0 on [0, upper]", True)
    assert answer_claims.guarantee_is_kept(place, replace(zero, guarantee=known), 100)
    assert answer_claims.premise_is_so(place, replace(known, premise="f is monotone")) or place.least_slope >= 0.0


def test_false_claims_about_items_are_found():
    L = np.array([[4.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 2.0]])
    family = families.Family(2, np.zeros((0, 3)), np.zeros(0), np.array([True, True, False]), 2)
    problem = choosers.problem_of(L, family, None)
    assert problem.best == pytest.approx(math.log(12.0))
    assert item_claims.items_are_distinct(np.array([0, 0]), 3)
    assert item_claims.items_are_allowed([0, 2], problem.fits)
    assert not item_claims.items_are_allowed([0, 1], problem.fits)
    assert item_claims.size_is_kept([0], 2)
    assert item_claims.log_det_is_right(math.log(12.0) + 1e-6, [0, 1], problem)
    assert item_claims.bound_holds(math.log(12.0) - 1e-6, problem.best)
    assert item_claims.set_is_the_best(math.log(4.0), problem.best)
    assert item_claims.choice_is_greedy([0], problem, problem.fits)
    assert item_claims.choice_is_greedy([1, 0], problem, problem.fits)
    assert not item_claims.choice_is_greedy([0, 1], problem, problem.fits)
    assert item_claims.gains_add_up([1.0], [0], [0], 2.0)


def test_what_a_case_raises_is_a_fault():
    def case(rng, judge):
        judge.ask("door", lambda: 1 / 0)
        judge.ask("door", lambda: int("x"))
        judge.check("door", item_claims.size_is_kept, [0], 2)

    judge = run_case("part", case, 0, 5)
    assert len(judge.faults) == 3
    assert all(fault.startswith("part seed 0 case 5: door: ") for fault in judge.faults)


def test_a_case_without_end_is_a_fault(monkeypatch):
    monkeypatch.setattr("tests.judge.court.PATIENCE" if __name__.startswith("tests") else "judge.court.PATIENCE", 0.2)

    def case(rng, judge):
        while True:
            pass

    assert "no end" in run_case("part", case, 0, 0).faults[0]


def test_counts_add_up():
    total = Judge("part")
    for number in range(3):
        total.add(
            run_case("part", lambda rng, judge: judge.check("door", item_claims.size_is_kept, [], None), 0, number)
        )
    assert total.cases == 3
    assert "3 cases, 3 claims judged, 0 wrong" in total.report()
    assert SimpleNamespace(**total.judged).size_is_kept == 3
