"""What every problem file that is no problem must meet with."""

import numpy as np
import pytest

from drsub_fast.cli.command import main
from drsub_fast.problems.files import read_problem


def refused_in_one_line(path, entries, message, capsys):
    """The reader names the file and what is wrong, the command says so in one line. None leaves an entry out."""
    np.savez(path, **{name: value for name, value in entries.items() if value is not None})
    with pytest.raises(ValueError, match=message):
        read_problem(path)
    assert main(["solve", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"drsub-fast: error: {path}: ")
    assert error.count("\n") == 1
