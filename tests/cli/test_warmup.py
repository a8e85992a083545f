"""``drsub-fast warmup`` compiles what it is asked for, for all processes to come."""

import os
import subprocess
import sys
from argparse import ArgumentParser
from inspect import signature

import pytest

from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.batch.stacked import maximize_stacked
from drsub_fast.cli import warmup
from drsub_fast.cli.command import main
from drsub_fast.engine.jit import COMPILE

SOLVE = """
import numpy as np
import drsub_fast as ds
f, P = ds.Quadratic(-np.eye(3), np.ones(3)), ds.Box(np.ones(3))
print(ds.{0}(f, P).compiled)
if "{0}" == "nonmonotone_frank_wolfe":
    H, h, upper = -np.eye(3), np.ones((5, 3)), np.ones(3)
    print(ds.maximize_stacked(H=H, h=h, upper=upper, method="nonmonotone-frank-wolfe").compiled)
"""


@pytest.mark.parametrize("kinds", [OBJECTIVES, SETS], ids=["objectives", "sets"])
def test_every_kind_has_an_example(kinds):
    for name in kinds:
        assert kinds[name].example_of().n == 4


def test_pairs_are_all_there_and_begin_apart():
    pairs = warmup.pairs(["a", "b"], ["x", "y", "z"])
    assert len(set(pairs)) == 6
    assert not set(pairs[0]) & set(pairs[-1])


def _tasks(*arguments):
    parser = ArgumentParser()
    warmup.add_arguments(parser)
    return warmup.tasks(parser.parse_args(arguments))


def test_stacks_come_last_and_by_their_default_method():
    pairs, others = _tasks()[:4], _tasks()[4:]
    assert all(task[0] is warmup.compile_pair and len(task[3]) == 6 for task in pairs)
    assert others[0] == (warmup.compile_choices,)
    assert [task[1:3] for task in others[1:]] == [task[1:3] for task in pairs]
    assert all(task[3] == [signature(maximize_stacked).parameters["method"].default] for task in others[1:])


@pytest.mark.parametrize("arguments", [("--method", "frank-wolfe", "two-phase-frank-wolfe"), ("--all",)])
def test_methods_that_are_asked_for_come_with_their_stacks(arguments):
    found = {task[0]: task[-1] for task in _tasks("--set", "box", *arguments)}
    assert found[warmup.compile_stacks] == found[warmup.compile_pair]


def test_an_unknown_name_is_refused(capsys):
    assert main(["warmup", "--set", "cube"]) == 2
    assert "cube" in capsys.readouterr().err


@pytest.mark.skipif(COMPILE == "never", reason="kernels are not compiled")
def test_a_later_process_finds_what_was_compiled(tmp_path):
    environment = os.environ | {"DRSUB_FAST_CACHE_DIR": str(tmp_path), "DRSUB_FAST_COMPILE": "auto"}

    def run(*command):
        return subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=True, timeout=500
        ).stdout

    printed = run("-m", "drsub_fast", "warmup", "--objective", "quadratic", "--set", "box", "--method",
                  "nonmonotone-frank-wolfe", "--jobs", "1")  # fmt: skip
    assert printed.startswith("1 solvers of 1 pairs ready")
    assert any("discrete.choice" in path.name for path in tmp_path.rglob("*"))  # the choice of items comes with all
    assert run("-c", SOLVE.format("nonmonotone_frank_wolfe")) == "True\nTrue\n"
    assert run("-c", SOLVE.format("frank_wolfe")) == "False\n"
