"""A callback comes after every update, the last one too; Ctrl-C at any call of f ends a run with its best point."""

import numpy as np
import pytest

import drsub_fast as ds

BOX, BUDGET = ds.Box(np.ones(3)), ds.Budget(1.5, np.ones(3))
LINEAR, CURVED = (
    ds.Quadratic(np.zeros((3, 3)), [1.0, 2.0, 0.5]),
    ds.Quadratic(-np.eye(3) - 0.5 * np.ones((3, 3)), [1.0, 2.0, 0.5]),
)
SINGLE = (
    "frank-wolfe", "fully-corrective-frank-wolfe", "monotone-frank-wolfe", "nonmonotone-frank-wolfe",
    "projected-gradient", "double-greedy",
)  # fmt: skip


@pytest.mark.parametrize("method", SINGLE)
@pytest.mark.parametrize("f", [LINEAR, CURVED])
@pytest.mark.parametrize("every", [1, 3])
def test_a_callback_comes_after_every_update(method, f, every):
    seen = []
    r = ds.maximize(f, BOX, method=method, callback=seen.append, callback_every=every, bound="cheap",
                    **({} if method == "double-greedy" else {"max_iter": 9}))  # fmt: skip
    assert [progress.n_iter for progress in seen] == list(range(every, r.n_iter + 1, every))
    for progress in seen:
        assert progress.value == pytest.approx(r.trace.value[progress.n_iter], abs=1e-12)
        assert f.value(progress.x) == pytest.approx(progress.value, abs=1e-12)


def interrupted(method, P, k, declared, **options):
    """(result, whether the interrupt came) of a run whose k-th call of f is interrupted."""
    calls = []

    def function(x):
        calls.append(0)
        if len(calls) == k:
            raise KeyboardInterrupt
        return float(np.sqrt(1.0 + x).sum()), 0.5 / np.sqrt(1.0 + x)

    return ds.maximize(ds.CallableObjective(function, 3, **declared), P, method=method, **options), len(calls) >= k


@pytest.mark.parametrize("method", ["auto", *(name for name in ds.METHODS if name != "global-maximum")])
@pytest.mark.parametrize("declared", [{}, {"dr_submodular": True, "monotone": True, "nonnegative": True}])
def test_an_interrupt_at_any_call_leaves_the_best_point(method, declared):
    P = BOX if "box" in getattr(ds.METHODS.get(method), "needs", ()) else BUDGET
    if method == "stochastic-continuous-greedy":
        pytest.skip("for set functions")
    for k in range(1, 80):
        r, came = interrupted(method, P, k, declared, max_iter=4)
        assert P.contains(r.x)
        assert r.value == pytest.approx(np.sqrt(1.0 + r.x).sum())
        if not came:
            return
        assert r.status is ds.Status.INTERRUPTED
    pytest.fail("no run came to its end")


def test_an_interrupted_sampler_has_its_best_point():
    for k in (1, 20, 200):
        calls = []

        def function(items):
            calls.append(0)
            if len(calls) == k:
                raise KeyboardInterrupt
            return len(items) ** 0.5

        r = ds.stochastic_continuous_greedy(ds.Multilinear.sampled(function, n=9), ds.Budget(3, np.ones(9)), max_iter=9)
        assert r.status is (ds.Status.INTERRUPTED if len(calls) >= k else ds.Status.COMPLETED)
        assert r.x.sum() <= 3.0 + 1e-9
