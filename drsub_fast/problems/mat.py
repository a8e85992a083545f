"""Arrays by name in .mat files (MATLAB up to version 7), read by SciPy in a process that may crash."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from drsub_fast.problems.npz import load_npz

_READER = Path(__file__).with_name("mat_reader.py")
#: Bytes of memory for SciPy itself, and for each byte of the file (deflate makes at most 1032 out of one).
_MEMORY, _MEMORY_PER_BYTE = 4 << 30, 2 * 1032
#: Seconds for SciPy to start, and for each byte; a damaged file can make its reader loop. Reading takes 1e-8 a byte.
_SECONDS, _SECONDS_PER_BYTE = 60.0, 1e-5


def load_mat(path: Path) -> dict[str, Any]:
    """The arrays of a .mat file by name; ValueError if it cannot be read, even where SciPy's reader crashes."""
    size = path.stat().st_size
    with tempfile.TemporaryDirectory(prefix="drsub_fast") as folder:
        target = Path(folder, "arrays.npz")
        # -P keeps the folder of the script, whose modules have common names, out of the search path.
        command = [sys.executable, "-P", str(_READER), str(path), str(target), str(_MEMORY + _MEMORY_PER_BYTE * size)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
        try:
            child = subprocess.run(
                command, env=environment, capture_output=True, timeout=_SECONDS + _SECONDS_PER_BYTE * size, check=False,
                stdin=subprocess.DEVNULL, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise ValueError("the .mat file is damaged: SciPy's reader did not come to an end") from None
        if child.returncode:
            raise ValueError(_reason(child.returncode, child.stderr.strip().splitlines()))
        return load_npz(target)


def _reason(code, lines):
    """Why the reader ended with a code and these lines."""
    if code != 1 or not lines:
        return f"the .mat file is damaged: SciPy's reader ended with code {code}"
    if lines[-1].startswith("NotImplementedError"):
        return "MATLAB's -v7.3 format cannot be read: save it with -v7"
    return f"not a .mat file that SciPy can read: {lines[-1]}"
