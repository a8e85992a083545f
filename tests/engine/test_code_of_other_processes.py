"""Compiled code from other processes: what is there is used, what is missing or older is made anew."""

import os
import subprocess
import sys

import pytest

from drsub_fast.engine.jit import COMPILE

pytestmark = pytest.mark.skipif(COMPILE == "never", reason="kernels are not compiled")

#: Prints the answer of a module's ``main`` and which functions Numba compiled for it.
COUNTED = """
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import {module}
    answer = {module}.main()
names = {{item.data["dispatcher"].py_func.__name__ for _, item in recorder.buffer}}
print(answer, ",".join(sorted(names - {{"<lambda>"}})), sep="; ")
"""

CHAIN = """
import numpy as np
from drsub_fast.engine.jit import kernel

@kernel
def inner(a):
    return a[0] + 3

@kernel(separate=True)
def alone(a):
    return 10 * a[1]

@kernel
def middle(a):
    return inner(a) + alone(a)

@kernel
def outer(a):
    return 2 * middle(a)

def main():
    return outer(np.array([1, 2]))
"""

USER = """
import numba, numpy as np
import drsub_fast as ds

@numba.njit
def total(x):
    return 1.0 + x.sum()

@numba.njit
def saturation(x, grad):
    grad[:] = 1.0 / total(x)
    return np.log(total(x))

def main():
    f = ds.CompiledObjective(saturation, (), n=2, dr_submodular=True)
    r = ds.nonmonotone_frank_wolfe(f, ds.Box(np.ones(2)))
    return round(r.value, 9), r.compiled
"""


def _run(folder, module, mode):
    """(answer, names of the functions compiled) in a new process."""
    environment = os.environ | {
        "DRSUB_FAST_CACHE_DIR": str(folder), "DRSUB_FAST_COMPILE": mode, "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-c", COUNTED.format(module=module)], env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    answer, names = run.stdout.rstrip("\n").split("; ")
    return answer, names


def _stored(folder, form):
    return sorted((folder / "drsub_fast").glob(f"*-{form}-*.kernel"))


def test_code_is_linked_to_what_other_processes_left(tmp_path):
    text = tmp_path / "chain.py"
    text.write_text(CHAIN)
    assert _run(tmp_path, "chain", "now") == ("48", "alone,inner,middle,outer")
    for form in ("whole", "linked"):
        assert len(_stored(tmp_path, form)) == 2
    # The callers are gone, what is linked into them and names a cell is there.
    for path in _stored(tmp_path, "whole"):
        path.unlink()
    assert _run(tmp_path, "chain", "now") == ("48", "alone,outer")
    # What is linked into others is gone: the callers have it.
    for path in _stored(tmp_path, "linked"):
        path.unlink()
    assert _run(tmp_path, "chain", "now") == ("48", "")
    # One kernel changes; the names of the files do not, and no older code is used.
    text.write_text(CHAIN.replace("+ 3", "+ 4"))
    assert _run(tmp_path, "chain", "now") == ("50", "inner,middle,outer")
    assert _run(tmp_path, "chain", "now") == ("50", "")
    assert len(_stored(tmp_path, "whole")) == 2


def test_code_around_a_function_of_a_user_serves_later_processes(tmp_path):
    text = tmp_path / "user.py"
    text.write_text(USER)
    first, names = _run(tmp_path, "user", "now")
    assert first.endswith("True)")
    assert {"additive_loop", "saturation", "total"} <= set(names.split(","))
    assert _run(tmp_path, "user", "auto") == (first, "")
    # Another function of the same name is not taken for it.
    text.write_text(USER.replace("np.log", "2.0 * np.log"))
    other, _ = _run(tmp_path, "user", "auto")
    assert other.endswith("False)")
