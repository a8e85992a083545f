"""Kinds of objectives and sets in stacks: the parameters and the answers of single problems."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.batch.problem_stack import ProblemStack
from drsub_fast.engine.dispatch import problem_at

N, B = 5, 4


def random_stack(seed=0, n=N, count=B):
    """Stacked arguments by kind; some are shared by all problems."""
    rng = np.random.default_rng(seed)
    H = -rng.random((count, n, n))
    factor = rng.normal(size=(count, n, n + 1))
    L = factor @ factor.swapaxes(1, 2)
    W = rng.random((count, n, 3)) * (rng.random((count, n, 3)) < 0.7)
    adjacency = np.triu(rng.random((count, n, n)) < 0.5, 1).astype(float)
    size = np.array([bin(s).count("1") for s in range(1 << n)])
    signs = np.where(rng.random((count, 8)) < 0.5, -1.0, 1.0)
    objectives = {
        "quadratic": {"H": (H + H.swapaxes(1, 2)) / 2, "h": n * rng.random((count, n)) / 3, "c": rng.random(count)},
        "quadratic by factors": {"factor": rng.random((count, n, 2)), "h": 2 * rng.random(n), "diagonal": np.ones(n)},
        "softmax": {"L": (L + L.swapaxes(1, 2)) / 2},
        "softmax by factors": {"factor": factor},
        "softmax of low rank": {"factor": rng.normal(size=(count, 40, 3))},
        "coverage": {"sets": np.where(rng.random((count, n, 6)) < 0.4, 1.0, 0.0), "element_weights": rng.random(6)},
        "facility-location": {"W": W},
        "flid": {"utilities": rng.random((count, n)), "W": W},
        "cut": {"adjacency": adjacency + adjacency.swapaxes(1, 2)},
        "table": {"values": np.sqrt(size) * (1.0 + rng.random((count, 1)))},
        "mean-field": {"extension": "facility-location", "W": W},
        "spectral": {"factors": rng.normal(size=(count, n, 3)), "offset": np.eye(3)},
        "price-optimization": {"base": 2 * rng.random((count, n)), "effects": H},
        "stability-number": {"graph": adjacency + adjacency.swapaxes(1, 2)},
        "logistic-nonconvex": {"Z": signs[:, :, None] * rng.random((count, 8, n)), "y": signs},
        "feature-based": {"W": W},
        "feature-based of logarithms": {"W": W, "concave": "log", "feature_weights": rng.random((count, W.shape[2]))},
        "feature-based with caps": {"W": W, "concave": "min", "cap": 0.2 + rng.random((count, W.shape[2]))},
        "feature-based with one cap": {"W": W, "concave": "min", "cap": 0.7},
        "nonnegative-pca": {"Z": rng.normal(size=(count, 8, n))},
    }  # fmt: skip
    upper = 0.2 + 0.8 * rng.random((count, n))
    edges = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1]])
    sets = {
        "box": {"upper": upper},
        "budget": {"k": rng.random(count), "upper": upper},
        "knapsack": {"weights": 0.1 + rng.random((count, n)), "budget": rng.random(count), "upper": upper},
        "polytope": {"A": rng.random((count, 3, n)), "b": rng.random((count, 3)), "upper": upper},
        "polytope without bounds": {"A": 0.1 + rng.random((count, 3, n)), "b": rng.random((count, 3))},
        "simplex": {"n": n, "total": 1.0 + rng.random(count)},
        "partition-matroid": {"groups": [0, 0, 1, 1, 1], "capacities": rng.random((count, 2)), "upper": upper},
        "laminar-matroid": {
            "sets": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], "capacities": 0.3 + rng.random((count, 2)), "upper": upper,
        },
        "ball": {"radius": 0.5 + rng.random(count), "upper": upper},
        "general-polytope": {"A": rng.random((count, 3, n)) - 0.2, "b": rng.random((count, 3)), "upper": upper},
        "matching-polytope": {"edges": edges, "n_left": 3, "n_right": 2, "capacities": 0.5 + rng.random((count, 5))},
    }  # fmt: skip
    for kinds, stacks in ((OBJECTIVES, objectives), (SETS, sets)):
        written = {name.split(" ")[0] for name in stacks}
        stacks |= {name: repeated(kind, n, count) for name, kind in kinds.items() if name not in written}
    return objectives, sets


def repeated(kind, n, count):
    """The example of a kind, as often as there are problems."""
    return {
        name: np.stack([value] * count) if kind.arguments[name].type is float else value
        for name, value in kind.example_arguments(n).items()
    }


OBJECTIVE_STACKS, SET_STACKS = random_stack()
KINDS = {name: name.split(" ")[0] for name in (*OBJECTIVE_STACKS, *SET_STACKS)}


def solved_both_ways(objective, feasible_set, arrays, **options):
    """The answer of a stack, and those of single solves of the same problems."""
    kinds = {"objective": KINDS[objective], "set": KINDS[feasible_set]}
    stacked = ds.maximize_stacked(**kinds, **arrays, n_jobs=1, **options)
    problems = ProblemStack(kinds["objective"], kinds["set"], arrays)
    return stacked, [ds.maximize(*problems.single(i), bound="cheap", **options) for i in range(len(stacked))]


def assert_same(stacked, single):
    assert not stacked.messages
    for i, one in enumerate(single):
        # Products of stacks of matrices may add in another order than those of single ones.
        assert stacked.value[i] == pytest.approx(one.value, rel=1e-12, abs=1e-13)
        assert stacked.fw_gap[i] == pytest.approx(one.fw_gap, rel=1e-9, abs=1e-12, nan_ok=True)
        assert stacked.upper_bound[i] == pytest.approx(one.upper_bound, rel=1e-12)
        assert stacked.status[i] is one.status
        assert (stacked.n_iter[i], stacked.n_lmo[i]) == (one.n_iter, one.n_lmo)
        assert stacked[i].guarantee == one.guarantee


@pytest.mark.parametrize("objective", OBJECTIVE_STACKS)
def test_every_objective_can_be_stacked(objective, interpreted):
    arrays = OBJECTIVE_STACKS[objective]
    n = 40 if objective == "softmax of low rank" else N
    upper = np.full(n, 0.6) + np.arange(B)[:, None] / 10
    stacked, single = solved_both_ways(objective, "box", arrays | {"upper": upper}, method="frank-wolfe", max_iter=7)
    assert_same(stacked, single)


@pytest.mark.parametrize("feasible_set", SET_STACKS)
def test_every_set_can_be_stacked(feasible_set, interpreted):
    arrays = OBJECTIVE_STACKS["facility-location"] | SET_STACKS[feasible_set]
    stacked, single = solved_both_ways("facility-location", feasible_set, arrays, method="frank-wolfe", max_iter=7)
    assert_same(stacked, single)


COMPILED = ("multi-start", "two-phase-frank-wolfe", "nonmonotone-frank-wolfe")


@pytest.mark.parametrize("method", ["auto", *ds.METHODS])
@pytest.mark.parametrize("feasible_set", ["box", "knapsack", "polytope"])
@pytest.mark.parametrize("objective", ["facility-location", "softmax", "flid"])
def test_every_method_solves_a_stack(objective, feasible_set, method, request):
    # Each pair compiles for some ten seconds: one does, by three methods that differ in how stacks run them.
    if (objective, feasible_set) != ("facility-location", "knapsack") or method not in COMPILED:
        request.getfixturevalue("interpreted")
    if method == "double-greedy" and feasible_set != "box":
        pytest.skip("double greedy is for boxes")
    few = {"n_starts": 3} if method in ("auto", "multi-start") else {}
    options = {"method": "multi-start" if method == "auto" else method, "max_iter": 6} | few
    arrays = OBJECTIVE_STACKS[objective] | SET_STACKS[feasible_set]
    assert_same(*solved_both_ways(objective, feasible_set, arrays, **options))


@pytest.mark.parametrize("objective", OBJECTIVE_STACKS)
def test_stacked_parameters_are_those_of_single_objectives(objective):
    n = 40 if objective == "softmax of low rank" else N
    problems = ProblemStack(KINDS[objective], "box", OBJECTIVE_STACKS[objective] | {"upper": np.ones(n)})
    if problems.objective.rows(0, B) is None:
        pytest.skip("solved one by one")
    params, _, _, accepted = problems.stacks(0, B)
    assert accepted.all()
    for i in range(B):
        one, single = problem_at(params, i), problems.single(i)[0].params
        assert type(one) is type(single)
        for name, field in single._asdict().items():
            stacked = getattr(one, name)
            filled = stacked[: len(field)] if np.ndim(field) else stacked  # the rest of a row may be spare
            np.testing.assert_allclose(filled, field, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("feasible_set", SET_STACKS)
def test_stacked_parameters_are_those_of_single_sets(feasible_set):
    arrays = OBJECTIVE_STACKS["facility-location"] | SET_STACKS[feasible_set]
    problems = ProblemStack("facility-location", KINDS[feasible_set], arrays)
    if problems.set.stack is None:
        pytest.skip("solved one by one")
    _, params, upper, accepted = problems.stacks(0, B)
    assert accepted.all()
    for i in range(B):
        P = problems.single(i)[1]
        one, single = problem_at(params, i), P.params("kernel")
        assert type(one) is type(single)
        for got, expected in zip(one, single, strict=True):
            np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(upper[i], np.minimum(P.upper, 1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W": None}, "a facility-location needs W: its arguments are W"),
        ({"objective": "flood"}, "unknown objective 'flood'; choose from 'coverage'"),
        ({"set": "bucket"}, "unknown set 'bucket'; choose from 'ball'"),
        ({"weights": np.ones((B, 3))}, r"weights has shape \(3,\) for one problem, expected \(5,\)"),
        ({"budget": np.ones(B + 1)}, "the stacks have different lengths"),
        ({"max_itr": 3}, "max_itr cannot be combined with W, budget, upper, weights: .* have the arguments W, budget"),
        ({"W": np.ones(3)}, r"W must have 2 axes \(shared\) or 3 \(stacked\), got shape \(3,\)"),
    ],
)
def test_arguments_that_do_not_fit_are_named(change, message):
    arrays = OBJECTIVE_STACKS["facility-location"] | SET_STACKS["knapsack"]
    kinds = {"objective": "facility-location", "set": "knapsack"}
    with pytest.raises((TypeError, ValueError), match=message):
        ds.maximize_stacked(**(kinds | arrays | change))


def test_bad_problems_of_any_kind_are_named_and_the_others_go_on():
    W, knapsack = OBJECTIVE_STACKS["facility-location"]["W"].copy(), dict(SET_STACKS["knapsack"])
    W[1, 2, 0] = -1.0
    knapsack["budget"] = knapsack["budget"].copy()
    knapsack["budget"][2] = np.nan
    result = ds.maximize_stacked(
        objective="facility-location", W=W, set="knapsack", **knapsack, method="frank-wolfe", max_iter=5, n_jobs=1
    )
    assert list(result.messages) == [1, 2]
    assert result.messages[1].startswith("problem 1: W[2, 0] = -1 is negative")
    assert result.messages[2].startswith("problem 2: budget = nan is not finite")
    assert (result.status == ds.Status.FAILED).tolist() == [False, True, True, False]
