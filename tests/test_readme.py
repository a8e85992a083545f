"""Every Python block of README.md runs, in a namespace of its own."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from drsub_fast.experiments.tables import renewed

README = Path(__file__).resolve().parents[1] / "README.md"

#: Runs the blocks [line, source] of the standard input; tracebacks name the lines of README.md.
RUN_BLOCKS = """
import json, sys, traceback
failures = 0
for line, source in json.load(sys.stdin):
    try:
        exec(compile("\\n" * line + source, "README.md", "exec"), {"__name__": "__main__"})
    except Exception:
        failures += 1
        traceback.print_exc()
sys.exit(failures)
"""


def _python_blocks(text):
    """Pairs (line of the opening fence, source)."""
    fenced = re.finditer(r"^ *```python\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [(text[: block.start()].count("\n") + 1, dedent(block[1])) for block in fenced]


def _is_runnable(source):
    """Whether the optional packages that a block names are installed."""
    named = re.findall(r"^(?:from|import) (dask|joblib)\b", source, re.MULTILINE)
    return all(importlib.util.find_spec(name) for name in named)


def test_blocks_run(tmp_path):
    # As plain Python: the compiled loops have tests of their own, and cost seconds each to compile.
    blocks = [block for block in _python_blocks(README.read_text()) if _is_runnable(block[1])]
    assert len(blocks) >= 5
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_BLOCKS], input=json.dumps(blocks),
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_a_failing_block_is_named_by_its_line():
    text = "# Title\n\n- item\n\n  ```python\n  a = 1\n  a.b\n  ```\n"
    run = subprocess.run(
        [sys.executable, "-c", RUN_BLOCKS], input=json.dumps(_python_blocks(text)), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert 'File "README.md", line 7' in run.stderr


def test_rows_of_tables_are_those_of_the_registrations():
    for page in (README, README.parent / "drsub_fast" / "guide" / "which_method.py"):
        assert renewed(page.read_text(), complete=False) == page.read_text()
    text = README.read_text()
    assert text.count("| `") >= 20
    assert "| `mualem_feldman` |" in page.read_text()
    wrong = text.replace("sum x <= k", "sum x < k")
    assert renewed(wrong, complete=False) == text != wrong
    assert renewed(text.replace("| `Ball` | norm(x) <= radius, x >= 0 |\n", "")).count("| `Ball` |") == 1
