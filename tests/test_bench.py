"""Every benchmark runs at its smallest size: a suite that has not been run says nothing."""

import importlib
import inspect
import itertools
import sys
from pathlib import Path

import pytest

# Behind the installed package, which the suites measure.
sys.path.append(str(Path(__file__).parents[1]))

SUITES = ("parts", "solve", "sets", "objectives", "items")


def cases():
    """(suite class, smallest parameters of each implementation)."""
    for name in SUITES:
        module = importlib.import_module(f"bench.{name}")
        for _, suite in inspect.getmembers(module, inspect.isclass):
            if suite.__module__ == module.__name__:
                yield pytest.param(suite, id=f"{name}.{suite.__name__}")


@pytest.mark.parametrize("suite", list(cases()))
def test_suite_runs_at_its_smallest_size(suite):
    axes = [suite.params] if not isinstance(suite.params[0], (list, tuple)) else list(suite.params)
    axes = [axis if all(isinstance(value, str) for value in axis) else axis[:1] for axis in axes]
    ran = 0
    for values in itertools.product(*axes):
        bench = suite()
        try:
            bench.setup(*values)
        except NotImplementedError:
            continue
        for name, method in inspect.getmembers(bench, inspect.ismethod):
            if name.startswith(("time_", "track_", "peakmem_")):
                method(*values)
                ran += 1
    assert ran > 0
