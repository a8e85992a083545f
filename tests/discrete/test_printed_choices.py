"""Printed choices of items: what they say, and how wide they are."""

import numpy as np
import pytest

import drsub_fast as ds

L = np.diag(np.arange(1.0, 41.0))
COVERAGE = ds.Multilinear.coverage([{i, i + 1} for i in range(40)])
POINT = np.full(40, 0.5)
FOUND = {
    "greedy_map": lambda: ds.greedy_map(L, size=30),
    "map_dpp": lambda: ds.map_dpp(L, size=3),
    "greedy": lambda: ds.greedy(COVERAGE, size=30),
    "round_solution": lambda: ds.round_solution(COVERAGE, ds.Budget(20, np.ones(40)), POINT),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_choice_says_its_value_its_bound_and_its_items(name):
    s = FOUND[name]()
    assert "not computed: r.upper_bound computes one" in str(s)
    assert s.upper_bound == s.bound >= s.value
    lines = str(s).splitlines()
    assert lines[0] == s.message
    assert f"{s.value:.6g}" in lines[1]
    assert f"{s.upper_bound:.6g}" in lines[2]
    assert str(s.items.size) in lines[3]
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 16


def test_messages_of_a_stack_are_not_numbered_twice():
    r = ds.maximize_stacked(h=np.array([[1.0, 1.0], [np.nan, 1.0]]), H=-np.eye(2), upper=np.ones(2), max_iter=1)
    assert "problem 1    h[0] = nan is not finite" in str(r)
