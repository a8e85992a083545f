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


SMALL = """
import numpy as np
import drsub_fast as ds
from drsub_fast.engine import jit
f, P = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.5]), ds.Box([1.0, 0.6])
print(f.value([0.3, 0.2]), *f.gradient([0.3, 0.2]), *P.lmo([1.0, -1.0]), P.project([2.0, 0.3])[0])
r = ds.frank_wolfe(f, P, step_size="exact", max_iter=20)
print(r.value, r.fw_gap, r.upper_bound, ds.nonmonotone_frank_wolfe(f, P, max_iter=7).value)
print(jit.engine().__name__ if jit.COMPILE == "now" else "interpreted")
"""


def _printed(program, engine, compile):
    """Numbers that a program prints in a process of its own, which ends with the name of what ran it."""
    environment = os.environ | {"DRSUB_FAST_ENGINE": engine, "DRSUB_FAST_COMPILE": compile}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    *values, name = run.stdout.split()
    assert name == ("interpreted" if compile == "never" else f"drsub_fast.engine.{engine}")
    return np.array(values, dtype=float)


def test_plain_numba_gives_the_values_of_plain_python():
    np.testing.assert_allclose(_printed(SMALL, "plain", "now"), _printed(SMALL, "linked", "never"), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(COMPILE != "now", reason="kernels are not compiled")
def test_plain_numba_gives_the_same_values():
    np.testing.assert_allclose(_printed(SOLVES, "plain", "now"), _printed(SOLVES, "linked", "now"), rtol=1e-12)


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
