"""The race of ways to a diverse set, and its figures."""

import numpy as np
import pytest

from drsub_fast.experiments import choices


def test_all_ways_find_sets_of_greedys_value():
    rows = list(choices.races((60, 150), k=6, continuous_up_to=60))
    assert [(row.n, row.name) for row in rows].count((60, "two-phase Frank-Wolfe")) == 1
    for n in (60, 150):
        value = {row.name: row.value for row in rows if row.n == n}
        assert value["greedy_map, lazy"] == pytest.approx(value["greedy, plain numpy"], abs=1e-9)
        assert value["map_dpp"] >= value["greedy_map, lazy"] - 1e-9
    assert all(row.seconds >= 0.0 and not row.value > row.bound for row in rows)
    assert "map_dpp" in choices.format_races(rows)


def test_figures_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "SIZES", (50, 80))
    text, paths = choices.reproduce(tmp_path, quick=True)
    assert "greedy_map" in text
    assert [path.name for path in paths] == ["choices.png", "choices-wine.png"]
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_the_wines():
    X, chosen = choices.wine_choices(5)
    assert all(len(items) == len(np.unique(items)) == 5 for items in chosen.values())
    spread = {name: np.linalg.norm(X[items][:, None] - X[items], axis=2).sum() for name, items in chosen.items()}
    assert spread["diverse (rbf)"] > spread["at random"]
