"""Docstrings: every public name has one, and every example in the package runs."""

import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import drsub_fast as ds
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.experiments import gallery


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


#: Errors that one sentence describes.
SHORT = {"CheckpointError", "UnsupportedError"}


def _sections(item):
    return set(re.findall(r"^([A-Z]\w+)\n-+$", inspect.getdoc(item), re.MULTILINE))


def _documented(item):
    """Names of parameters or attributes that a docstring describes."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"^(\S.*?)(?: : .*)?$", inspect.getdoc(item), re.MULTILINE))))


@pytest.mark.parametrize("name", [name for name in ds.__all__ if inspect.isfunction(getattr(ds, name))])
def test_a_function_has_every_section_and_every_parameter(name):
    function = getattr(ds, name)
    expected = {"Parameters", "Raises", "Examples"}
    if inspect.signature(function).return_annotation is not None:
        expected.add("Yields" if "iter" in name.split("_") else "Returns")
    assert expected - _sections(function) == set()
    assert set(inspect.signature(function).parameters) - _documented(function) == set()


@pytest.mark.parametrize("name", [name for name in ds.__all__ if inspect.isclass(getattr(ds, name))])
def test_a_class_says_what_it_takes_or_holds_and_shows_an_example(name):
    item = getattr(ds, name)
    if name in SHORT:
        return
    assert "Examples" in _sections(item)
    if is_dataclass(item):
        assert "Attributes" in _sections(item)
        assert {each.name for each in fields(item)} - _documented(item) <= {"note"}
    elif "__init__" in vars(item) and name not in ("Multilinear", "Objective", "FeasibleSet", "OracleError"):
        assert {"Parameters", "Raises"} - _sections(item) == set()
        assert set(inspect.signature(item).parameters) - _documented(item) == set()


def test_the_pages_are_built_without_a_warning(tmp_path):
    pytest.importorskip("pdoc")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pdoc", "--docformat", "numpy", "-o", tmp_path, "drsub_fast"],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(Path(ds.__file__).parents[1])},
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    page = (tmp_path / "drsub_fast.html").read_text()
    assert [name for name in ds.__all__ if f'id="{name}"' not in page and f"{name}.html" not in page] == []
    pictures = re.findall(r'<img alt="[A-Za-z_ ]+" width="288" height="240" src="data:image/png;base64,[^"]+"/>', page)
    assert len(pictures) == len(gallery.functions()) + len(gallery.sets())
    assert "_SupportsArray" not in page


def test_every_function_and_set_is_in_the_gallery():
    shown = {*gallery.functions(), *gallery.sets()}
    for kind in (*OBJECTIVES.values(), *SETS.values()):
        assert kind.label in shown or kind.example is None or not callable(kind.example)
    assert all(f.n == 2 for f in gallery.functions().values())
    assert all(P.n == 3 for P in gallery.sets().values())


def test_examples_run():
    # As plain Python: the compiled loops have tests of their own, and cost seconds each to compile.
    package = Path(ds.__file__).parent
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--doctest-modules", "-n0", "-q", "-p", "no:cacheprovider", str(package)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
