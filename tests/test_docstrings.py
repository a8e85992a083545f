"""Docstrings: every public name has one, and every example in the package runs."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import drsub_fast as ds


def _public_members(cls):
    """Public methods and properties that a class defines itself."""
    return [name for name, member in vars(cls).items() if not name.startswith("_") and _takes_docstring(member)]


def _takes_docstring(member):
    return isinstance(member, (property, staticmethod, classmethod)) or inspect.isfunction(member)


def test_public_names_are_sorted_and_exist():
    constants = [name for name in ds.__all__ if name.isupper()]
    assert ds.__all__ == constants + sorted(set(ds.__all__) - set(constants))
    assert all(hasattr(ds, name) for name in ds.__all__)


def test_public_names_are_documented():
    public = {name: getattr(ds, name) for name in ds.__all__ if not name.isupper()}
    undocumented = [name for name, item in public.items() if not inspect.getdoc(item)]
    for name, item in public.items():
        if inspect.isclass(item):
            members = _public_members(item)
            undocumented += [f"{name}.{member}" for member in members if not inspect.getdoc(getattr(item, member))]
    assert undocumented == []


def test_public_functions_show_an_example():
    # Readers and writers of files have none: an example would leave files behind.
    names = [name for name in ds.__all__ if not name.startswith(("read_", "write_"))]
    functions = [getattr(ds, name) for name in names if inspect.isfunction(getattr(ds, name))]
    assert [function.__name__ for function in functions if ">>>" not in function.__doc__] == []


def test_examples_run():
    # As plain Python: the compiled loops have tests of their own, and cost seconds each to compile.
    package = Path(ds.__file__).parent
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--doctest-modules", "-n0", "-q", "-p", "no:cacheprovider", str(package)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
