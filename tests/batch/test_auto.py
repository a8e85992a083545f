"""A stack and a single solve mean the same by "auto", by every other name, and by every option."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

import drsub_fast as ds
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.problems.arrays import to_arrays

FEW = {"n_starts": 2, "max_iter": 20}
PAIRS = [(objective, feasible_set) for objective in OBJECTIVES for feasible_set in SETS]
H = -np.array([[1.0, 2.0, 0.5], [2.0, 1.0, 0.0], [0.5, 0.0, 2.0]])
LINEAR = np.array([[1.0, 1.2, 0.8], [2.0, 0.5, 1.0], [0.3, 0.9, 1.1], [1.0, 1.0, 1.0]])
STACK = {"H": H, "h": LINEAR, "k": 1.5, "upper": np.ones(3)}
PROBLEMS = [(ds.Quadratic(H, h), ds.Budget(1.5, np.ones(3))) for h in LINEAR]


def arrays_of(f, P):
    entries = to_arrays(f, P)
    return {name: entry.toarray() if scipy.sparse.issparse(entry) else entry for name, entry in entries.items()}


@pytest.mark.parametrize(("objective", "feasible_set"), PAIRS)
def test_auto_is_that_of_a_single_solve(interpreted, objective, feasible_set):
    """To the last bit, for everything that is registered."""
    f, P = OBJECTIVES[objective].example_of(4), SETS[feasible_set].example_of(4)
    single = ds.maximize(f, P, bound="cheap", **FEW)
    answers = ds.maximize_stacked(**arrays_of(f, P), method="auto", n_jobs=1, **FEW)
    assert answers[0].method == single.method
    assert answers[0].status is single.status
    assert np.array_equal(answers[0].x, single.x)
    assert answers[0].value == single.value
    assert answers[0].guarantee == single.guarantee


def assert_same(answers, singles):
    for i, single in enumerate(singles):
        assert (answers[i].method, answers[i].status) == (single.method, single.status)
        assert np.array_equal(answers[i].x, single.x)


@pytest.mark.parametrize("feasible_set", ["box", "budget"])
def test_auto_by_default_chooses_starts_and_methods_for_each_problem(interpreted, feasible_set, tmp_path):
    arrays = {name: entry for name, entry in STACK.items() if name != "k" or feasible_set == "budget"}
    problems = PROBLEMS if feasible_set == "budget" else [(f, ds.Box(np.ones(3))) for f, _ in PROBLEMS]
    singles = [ds.maximize(f, P, bound="cheap") for f, P in problems]
    alone = ds.maximize_stacked(**arrays, method="auto", n_jobs=2)
    assert_same(alone, singles)
    assert alone.n_starts is None
    assert_same(alone[1:][::-1], singles[:0:-1])
    with ThreadPoolExecutor(2) as executor:
        assert_same(ds.maximize_stacked(**arrays, method="auto", executor=executor), singles)
    for _ in range(2):
        assert_same(ds.maximize_stacked(**arrays, method="auto", checkpoint=tmp_path / "kept"), singles)
    traced = ds.maximize_stacked(**arrays, method="auto", trace=True, n_jobs=1)
    for i, single in enumerate(singles):
        steps = len(single.trace.value)
        assert np.array_equal(traced.trace_value[i, :steps], single.trace.value)
        assert np.isnan(traced.trace_value[i, steps:]).all()


def test_the_methods_of_auto_are_named():
    box = {name: entry for name, entry in STACK.items() if name != "k"}
    answers = ds.maximize_stacked(**box, method="auto", n_jobs=1, **FEW)
    assert set(answers.methods.values()) <= set(ds.METHODS)
    assert "methods" in str(answers)
    assert all(name in str(answers) for name in set(answers.methods.values()))


@pytest.mark.parametrize("options", [{}, {"gap": 0.5}, {"max_nodes": 1}, {"n_starts": 1, "time_limit": 5.0}])
def test_the_method_with_proof_solves_stacks(interpreted, options):
    answers = ds.maximize_stacked(**STACK, method="global-maximum", n_jobs=1, **options)
    singles = [ds.maximize(f, P, method="global-maximum", **options) for f, P in PROBLEMS]
    assert [answer.status for answer in answers] == [single.status for single in singles]
    assert np.array_equal(answers.value, [single.value for single in singles])
    assert np.array_equal(answers.upper_bound, [single.upper_bound for single in singles])


def test_options_of_some_methods_reach_each_problem(interpreted):
    options = {"method": "stochastic-continuous-greedy", "n_samples": 3, "seed": 4, "max_iter": 7}
    W = np.array([[2.0, 0.5], [0.5, 1.5], [1.0, 1.0]])
    arrays = {"objective": "facility-location", "W": np.stack([W, 2.0 * W]), "upper": np.ones(3)}
    singles = [ds.maximize(ds.Multilinear.facility_location(c * W), ds.Box(np.ones(3)), **options) for c in (1.0, 2.0)]
    assert np.array_equal(ds.maximize_stacked(**arrays, n_jobs=1, **options).x, [single.x for single in singles])


@pytest.mark.parametrize(
    "options",
    [
        {"method": "projected-gradient", "step_size": "spectral"},
        {"method": "projected-gradient", "step_size": 0.1},
        {"method": "frank-wolfe", "step_size": 0.25},
        {"method": "two-phase-frank-wolfe", "subroutine": "projected-gradient", "step_size": "spectral"},
        {"method": "two-phase-frank-wolfe", "subroutine": "frank-wolfe", "step_size": "exact"},
    ],
)
def test_a_step_size_that_no_loop_knows_is_taken_one_by_one(interpreted, options):
    answers = ds.maximize_stacked(**STACK, n_jobs=1, max_iter=15, **options)
    singles = [ds.maximize(f, P, max_iter=15, **options) for f, P in PROBLEMS]
    np.testing.assert_allclose(answers.x, [single.x for single in singles], rtol=1e-12, atol=1e-12)
    assert np.array_equal(answers.n_iter, [single.n_iter for single in singles])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "nonmonotone-frank-wolfe", "tol": 1e-3}, TypeError, "takes no option 'tol'; its options are"),
        ({"method": "nonmonotone-frank-wolfe", "step_size": "exact"}, TypeError, "takes no option 'step_size'"),
        ({"method": "frank-wolfe", "n_starts": 3}, ValueError, "'frank-wolfe' has one start"),
        ({"method": "frank-wolfe", "subroutine": "projected-gradient"}, TypeError, "takes no option 'subroutine'"),
        ({"method": "auto", "gap": 0.1}, TypeError, "gap cannot be combined with"),
        ({"method": "auto", "step_size": "exact"}, TypeError, "method 'auto' takes no option 'step_size'"),
        ({"method": "frank-wolfe", "x0": np.zeros(3)}, TypeError, "x0 cannot be combined with"),
        ({"method": "global-maximum", "max_iter": 3}, TypeError, "takes no option 'max_iter'; its options are gap"),
        ({"method": "auto", "max_iter": -1}, ValueError, "max_iter = -1 must be at least 0"),
        ({"method": "frank-wolfe", "step_size": "zigzag"}, ValueError, "unknown step_size 'zigzag'"),
        ({"method": "steepest"}, ValueError, "unknown method 'steepest'; choose from"),
    ],
)
def test_what_a_single_solve_refuses_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        ds.maximize_stacked(**STACK, n_jobs=1, **options)


def test_a_record_stands_for_its_name():
    record = ds.METHODS["frank-wolfe"]
    by_record, by_name = (ds.maximize_stacked(**STACK, method=m, n_jobs=1) for m in (record, "frank-wolfe"))
    assert np.array_equal(by_record.x, by_name.x)
    assert by_record.method == "frank-wolfe"
    other = type(record)("frank-wolfe", record.solve, "Mine")
    with pytest.raises(ValueError, match="is not registered"):
        ds.maximize_stacked(**STACK, method=other, n_jobs=1)
