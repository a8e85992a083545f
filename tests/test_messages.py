"""What is said to somebody who holds a thing the wrong way round."""

import logging

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint

import drsub_fast as ds

F, P = ds.Quadratic(-np.eye(3), np.ones(3)), ds.Box(np.ones(3))
ROWS, BOX = LinearConstraint([[1.0, 1.0, 1.0]], ub=2.0), Bounds(0.0, np.ones(3))


def test_a_function_without_a_gradient_is_told_what_to_give():
    f = ds.CallableObjective(lambda x: x.sum(), n=3)
    with pytest.raises(TypeError, match=r"pair \(value, gradient\), got float64.*gradient="):
        ds.maximize(f, P)


@pytest.mark.parametrize(
    "f",
    [
        F,
        ds.Softmax(np.eye(3) + 0.5),
        ds.CallableObjective(lambda x: (1e-8 * np.sqrt(x).sum(), 0.5e-8 / np.sqrt(x)), n=3),
        ds.CallableObjective(lambda x: (np.minimum(x, 0.25).sum(), (x <= 0.25).astype(float)), n=3),
        ds.CallableObjective(lambda x: (1e9 + x.sum(), np.ones(3)), n=3),
    ],
)
def test_right_gradients_agree_with_differences(f):
    for x in ([0.3, 0.2, 0.7], [0.25, 0.5, 1.0], [1e-3, 0.0, 1.0] if f.dr_submodular_on(P.upper) else [0.1, 0.2, 0.3]):
        check = f.check_gradient(x)
        assert check, check.message
        assert check.differences.shape == (3,)


def test_a_wrong_gradient_is_found_at_its_coordinate():
    right = np.array([1.0, 2.0, 3.0])
    for j in range(3):
        for factor in (0.0, -1.0, 1.001, np.nan):
            wrong = right.copy()
            wrong[j] *= factor
            f = ds.CallableObjective(lambda x, wrong=wrong: (float(right @ x), wrong), n=3)
            check = f.check_gradient([0.1, 0.2, 0.3])
            assert not check
            assert f"x[{j}]" in check.message


def test_constraints_before_bounds_are_named():
    with pytest.raises(TypeError, match="bounds are expected, which come before the constraints"):
        ds.Polytope.from_scipy(ROWS, BOX)


@pytest.mark.parametrize("name", [name for name in ds.METHODS if name != "stochastic-continuous-greedy"])
def test_every_method_names_its_options(name):
    function = getattr(ds, ds.METHODS[name].function_name)
    for call in (lambda: function(F, P, K=9), lambda: ds.maximize(F, P, method=name, K=9)):
        with pytest.raises(TypeError, match=r"no option 'K'; its options are .*callback, callback_every.*max_iter"):
            call()


def test_an_interrupted_batch_says_of_how_many(caplog):
    def interrupt(progress):
        raise KeyboardInterrupt

    problems = [(F, P), (F, P), (F, P, {"callback": interrupt}), (F, P)]
    with caplog.at_level(logging.WARNING, "drsub_fast"):
        assert len(ds.maximize_many(problems, "frank-wolfe", n_jobs=1, chunk_size=1, max_iter=3)) == 2
    assert "2 of 4 results" in caplog.text


def test_a_run_is_drawn_on_one_axis_or_two():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    r = ds.frank_wolfe(F, P)
    _, ax = pyplot.subplots()
    assert r.plot(ax=ax) == (ax, None) == r.plot(ax)
    _, axes = pyplot.subplots(1, 2)
    assert r.plot(axes) == tuple(axes)
    left, right = ds.global_maximum(F, P).plot()
    assert left.lines
    assert right.lines or right.texts
    pyplot.close("all")
