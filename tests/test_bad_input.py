"""Every public name meets a thousand kinds of input: an answer, or an error that names what is wrong."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import drsub_fast as ds

FUZZER = Path(__file__).with_name("input_fuzzer.py")
#: What users are given and do not make: records of answers, errors, and the base classes of sets and objectives.
MADE_BY_THE_PACKAGE = (
    ds.Constants, ds.GreedySet, ds.Guarantee, ds.MapResult, ds.MapSolution, ds.OrthantCheck, ds.OrthantProblem,
    ds.Result, ds.RoundedSet, ds.StackedChoices, ds.StackedResult, ds.Status, ds.Trace, ds.Objective,
    ds.FeasibleSet, ds.Multilinear,
)  # fmt: skip


def fuzzed(*names, count=150):
    """The report of `input_fuzzer`, from a process that compiles nothing."""
    environment = {**os.environ, "DRSUB_FAST_COMPILE": "never", "PYTHONWARNINGS": "default"}
    run = subprocess.run(
        [sys.executable, str(FUZZER), str(count), *names], env=environment, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_every_name_answers_or_names_what_is_wrong():
    report = fuzzed()
    assert report["faults"] == []
    assert report["kinds"] >= 1000
    public = {
        name
        for name in ds.__all__
        if callable(thing := getattr(ds, name))
        and thing not in MADE_BY_THE_PACKAGE
        and not (inspect.isclass(thing) and issubclass(thing, Exception))
    }
    assert public <= {name.partition(".")[0] for name in report["names"]}


def test_the_fuzzer_finds_what_is_planted():
    """It is blind neither to an answer for nonsense, nor to an odd error, nor to a hang."""
    report = fuzzed("planted", count=2000)
    found = "\n".join(report["faults"])
    for words in ("accepted", "AttributeError", "took more than", "KeyError"):
        assert words in found
