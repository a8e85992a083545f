"""Ctrl-C at any place of a batch: it ends, hands out the first answers, and goes on from its folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("interrupted_run.py")


@pytest.mark.parametrize(("batch", "count"), [("many", 6), ("stack", 8)])
def test_ctrl_c_at_any_place_loses_nothing_and_never_hangs(batch, count):
    paths = os.pathsep.join([os.getcwd(), *sys.path[1:]])
    environment = os.environ | {"PYTHONPATH": paths, "DRSUB_FAST_COMPILE": "never"}
    command = [sys.executable, SCRIPT, batch, "120"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["wrong"] == []
    assert told["places"] > 500
    assert {0, count} < set(told["lengths"]), "the places are too few, or all alike"
