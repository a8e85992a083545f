"""The recipes of CONTRIBUTING.md, followed: an objective, a set and a method that the package does not have."""

from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.extend import (
    LARGEST,
    METHODS,
    NUMBER,
    OBJECTIVES,
    OK,
    SETS,
    FeasibleSet,
    Method,
    Objective,
    array,
    as_vector,
    check_method,
    check_objective,
    check_set,
    kernel,
    register_kind,
    register_method,
    register_objective,
    register_set,
    row_of,
    within,
)

# An objective: saturating gains, f(x) = sum_i w_i x_i / (1 + x_i) - cost sum_i x_i.

SaturatingParams = namedtuple("SaturatingParams", "n gains cost")


@kernel
def _evaluate(params, work, x):
    value = 0.0
    for i in range(x.size):
        share = 1.0 / (1.0 + x[i])
        value += x[i] * (params.gains[i] * share - params.cost)
        work.grad[i] = params.gains[i] * share * share - params.cost
    return value


@kernel(memory=True)
def _saturating_at(stack, i):
    return SaturatingParams(stack.n, stack.gains[row_of(stack.gains, i)], stack.cost[row_of(stack.cost, i)])


class Saturating(Objective):
    def __init__(self, gains, cost=0.0):
        gains = as_vector(gains, "gains", lower=0.0)
        super().__init__(gains.size, SaturatingParams(gains.size, gains, float(cost)))

    @property
    def gains(self):
        return self.params.gains

    @property
    def cost(self):
        return self.params.cost

    def dr_submodular_on(self, upper):
        return True


def _stack_saturating(gains, cost=None):
    cost = np.zeros(1) if cost is None else cost
    accepted = within(gains, 0.0, LARGEST) & np.isfinite(cost)
    return SaturatingParams(gains.shape[1], gains, cost), accepted


# A set: only the pair of the first two variables is limited, x_0 + x_1 <= limit.

PairParams = namedtuple("PairParams", "limit")


@kernel
def _lmo(params, work, direction, upper, v):
    for j in range(v.size):
        v[j] = upper[j] if direction[j] > 0.0 else 0.0
    better, other = (0, 1) if direction[0] >= direction[1] else (1, 0)
    v[better] = min(v[better], params.limit)
    v[other] = min(v[other], params.limit - v[better])
    return OK


class Pair(FeasibleSet):
    def __init__(self, limit, upper):
        upper = as_vector(upper, "upper", lower=0.0)
        upper[:2] = np.minimum(upper[:2], limit)
        super().__init__(PairParams(float(limit)), upper)

    @property
    def limit(self):
        return self.params().limit

    def constraints_hold(self, x, tol):
        return bool(x[0] + x[1] <= self.limit * (1.0 + tol))


# A method: the better of two others.


def better_of_two(f, P, *, max_iter=100, lmo="auto"):
    """The better answer of Frank-Wolfe with exact steps and of the non-monotone variant."""
    results = (
        ds.frank_wolfe(f, P, step_size="exact", max_iter=max_iter, lmo=lmo),
        ds.nonmonotone_frank_wolfe(f, P, max_iter=max_iter, lmo=lmo),
    )
    return max(results, key=lambda result: result.value)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for kinds in (OBJECTIVES, SETS, METHODS):
        for name in ("saturating", "pair", "better-of-two"):
            monkeypatch.setitem(kinds, name, None)
            monkeypatch.delitem(kinds, name)
    register_objective(SaturatingParams, evaluate=_evaluate, problem_at=_saturating_at)
    register_kind(
        OBJECTIVES, "saturating", Saturating, stack=_stack_saturating, gains=array("n"), cost=NUMBER,
        about="saturating gains", example=lambda n: {"gains": np.arange(1.0, n + 1), "cost": 0.5},
    )  # fmt: skip
    register_set(PairParams, lmo=_lmo)
    register_kind(SETS, "pair", Pair, limit=NUMBER, upper=array("n"), example={"limit": 1.0, "upper": np.ones(3)})
    register_method(Method("better-of-two", better_of_two, "Better of two", needs=("down-closed",)))


GAINS = np.array([3.0, 2.0, 1.0])


def test_the_new_objective(tmp_path):
    f, P = Saturating(GAINS, 0.5), ds.Budget(2.0, np.ones(3))
    assert f.value([1.0, 0.0, 1.0]) == pytest.approx(1.5 + 0.5 - 1.0)
    check_objective(f)
    r = ds.maximize(f, P)
    assert ds.maximize(f, P, method="frank-wolfe", max_iter=2000).value == pytest.approx(r.value, rel=1e-3)
    assert r.value <= r.upper_bound
    ds.write_problem(tmp_path / "p.npz", f, P)
    again = ds.read_problem(tmp_path / "p.npz")
    assert type(again.f) is Saturating
    np.testing.assert_array_equal(again.f.gains, GAINS)
    stacked = ds.maximize_stacked(
        objective="saturating", gains=[GAINS, 2 * GAINS], cost=[0.5, 1.0], k=2.0, upper=np.ones(3), n_jobs=1,
        method="frank-wolfe",
    )  # fmt: skip
    for i, scale in enumerate((1.0, 2.0)):
        single = ds.frank_wolfe(Saturating(scale * GAINS, scale * 0.5), P)
        assert stacked.value[i] == single.value
        assert stacked.upper_bound[i] == single.upper_bound


def test_the_new_set(tmp_path):
    f, P = ds.Quadratic(-np.eye(3), [1.0, 2.0, 3.0]), Pair(1.0, [0.8, 0.9, 2.0])
    np.testing.assert_allclose(P.lmo([1.0, 2.0, 3.0]), [0.1, 0.9, 2.0])
    check_set(P)
    assert P.contains([0.5, 0.5, 2.0])
    assert not P.contains([0.6, 0.5, 2.0])
    for method in ("frank-wolfe", "nonmonotone-frank-wolfe", "two-phase-frank-wolfe", "auto"):
        assert P.contains(ds.maximize(f, P, method=method, bound="cheap").x)
    ds.write_problem(tmp_path / "p.npz", f, P)
    assert ds.read_problem(tmp_path / "p.npz").P.limit == 1.0
    stacked = ds.maximize_stacked(
        H=-np.eye(3), h=[1.0, 2.0, 3.0], set="pair", limit=[0.5, 1.0], upper=P.upper, method="frank-wolfe", n_jobs=1
    )
    assert stacked.value[1] == ds.frank_wolfe(f, P).value


def test_the_new_method():
    check_method("better-of-two")
    f, P = ds.Quadratic(-np.eye(3), [1.0, 2.0, 3.0]), ds.Box(np.ones(3))
    assert ds.maximize(f, P, method="better-of-two").value == better_of_two(f, P).value
    assert ds.maximize_many([(f, P)], "better-of-two", n_jobs=1)[0].value == better_of_two(f, P).value


def test_misspelt_operations_are_answered_by_those_there_are():
    with pytest.raises(ValueError, match=r"unknown operation 'evalute'; choose from .*'evaluate'"):
        register_objective(SaturatingParams, evalute=_evaluate)
    with pytest.raises(ValueError, match=r"unknown operation 'oracle'; choose from .*'lmo'"):
        register_set(PairParams, oracle=_lmo)


def test_a_set_that_says_nothing_of_its_points_contains_none():
    class Silent(FeasibleSet):
        pass

    with pytest.raises(NotImplementedError, match="Silent must say by constraints_hold"):
        Silent(PairParams(1.0), np.ones(2)).contains([0.0, 0.0])


def test_the_page_names_what_there_is():
    page = (Path(__file__).parents[1] / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for item in (register_objective, register_set, register_kind, register_method, Objective, FeasibleSet, check_set):
        assert item.__name__ in page
    for name in ("constraints_hold", "into_constraints", "start", "min_max_norm_point", "contains"):
        assert f"`{name}" in page
        assert hasattr(FeasibleSet, name)
    for name in ("dr_submodular_on", "nonnegative_on", "monotone_on"):
        assert f"`{name}(upper)`" in page
        assert hasattr(Objective, name)
