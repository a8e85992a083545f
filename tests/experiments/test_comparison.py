"""Methods side by side: names, records, functions; a table, a DataFrame, a figure."""

import pytest

import drsub_fast as ds
from drsub_fast import extend

INSTANCES = [ds.instances.quadratic_uniform(8, 4, seed=seed) for seed in range(3)]


def exact_steps(f, P, *, max_iter=50):
    return ds.frank_wolfe(f, P, step_size="exact", max_iter=max_iter)


def test_methods_of_all_kinds(interpreted):
    mine = extend.Method("mine", exact_steps, "Mine")
    c = ds.experiments.compare(["frank-wolfe", mine, exact_steps], INSTANCES, max_iter=20, bound="cheap")
    assert [row.method for row in c.rows[:3]] == ["frank-wolfe", "mine", "exact_steps"]
    assert len(c.rows) == 9
    for row in c.rows:
        f, P = INSTANCES[row.instance]
        if row.method == "frank-wolfe":
            assert row.value == ds.frank_wolfe(f, P, max_iter=20).value
        else:
            assert row.value == exact_steps(f, P, max_iter=20).value
        assert row.value <= row.upper_bound
    assert max(shares.max() for shares in c.shares().values()) == 1.0
    assert str(c).splitlines()[2].split()[0] == "mine"


def test_options_for_each(interpreted):
    c = ds.experiments.compare({"frank-wolfe": {"max_iter": 3}, "long": "frank-wolfe"}, INSTANCES[:1], bound="cheap")
    assert [row.n_iter <= 3 for row in c.rows] == [True, False]


def test_frames_and_figures(interpreted):
    c = ds.experiments.compare(["frank-wolfe", exact_steps], INSTANCES[:2], bound="cheap")
    assert list(pytest.importorskip("pandas").unique(c.frame()["method"])) == ["frank-wolfe", "exact_steps"]
    pytest.importorskip("matplotlib")
    labels = c.figure().axes[0].get_legend_handles_labels()[1]
    assert labels == ["Frank-Wolfe", "exact_steps"]


@pytest.mark.parametrize("methods", ["frank-wolfe", 3, [3], [None]])
def test_what_is_no_method_is_refused(methods):
    with pytest.raises(TypeError, match="method"):
        ds.experiments.compare(methods, INSTANCES)
