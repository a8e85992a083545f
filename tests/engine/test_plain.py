"""The engine that needs Numba's public means alone: same values, in a process of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest

from drsub_fast.engine.jit import COMPILE

SOLVES = """
import numpy as np
import drsub_fast as ds
from drsub_fast.engine import jit
rng = np.random.default_rng(3)
H = -rng.random((5, 5))
f = ds.Quadratic((H + H.T) / 2, 2.5 * rng.random(5))
P = ds.Polytope(0.1 + rng.random((3, 5)), np.ones(3))
L = np.diag(rng.random(5) + 1.0) + 0.1
print(ds.nonmonotone_frank_wolfe(f, ds.Box(np.ones(5))).value)
print(f.gradient(np.full(5, 0.1)) @ P.lmo(f.gradient(np.full(5, 0.1))))
print(ds.Softmax(L).value(np.full(5, 0.5)))
print(jit.engine().__name__)
"""


def _values(engine):
    environment = os.environ | {"DRSUB_FAST_ENGINE": engine, "DRSUB_FAST_COMPILE": "now"}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SOLVES], env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    *values, name = run.stdout.split()
    assert name == f"drsub_fast.engine.{engine}"
    return np.array(values, dtype=float)


@pytest.mark.slow
@pytest.mark.skipif(COMPILE != "now", reason="kernels are not compiled")
def test_plain_numba_gives_the_same_values():
    np.testing.assert_allclose(_values("plain"), _values("linked"), rtol=1e-12)


def test_a_numba_that_was_not_tested_selects_it_and_says_so():
    code = """
import logging
import numba
numba.__version__ = "0.99.0"
logging.basicConfig(level=logging.INFO)
from drsub_fast.engine import jit
print(jit.engine().__name__)
"""
    environment = {name: value for name, value in os.environ.items() if name != "DRSUB_FAST_ENGINE"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "drsub_fast.engine.plain\n"
    assert run.stderr.count("newer than those tested") == 1
