"""Types: the package passes mypy with no setting of its own; a user's program passes `mypy --strict`, its mistakes are
found.
"""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import drsub_fast as ds
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.batch.problem_stack import StackArrays
from drsub_fast.solvers.record import Options

PROGRAM = Path(__file__).with_name("typing_program.py")

#: Parts of the program, what to write in their place, and what mypy says then.
MISTAKES = {
    'step_size="exact"': ('step_size="exactly"', "arg-type"),
    'step_size="spectral"': ('step_size="open-loop"', "arg-type"),
    'lmo="kernel"': ('lmo="simplex"', "arg-type"),
    'bound="tight"': ('bound="tightest"', "arg-type"),
    "max_iter=50": ("max_itr=50", "call-arg"),
    'method="two-phase-frank-wolfe"': ('method="two-phase"', "arg-type"),
    "tol=1e-6": ("tolerance=1e-6", "call-arg"),
    "r.upper_bound": ("r.upperbound", "attr-defined"),
    "r.trace.value.shape": ("r.trace.values.shape", "attr-defined"),
    "ds.Status.CONVERGED": ("ds.Status.CONVERGES", "attr-defined"),
    "ds.certificates": ("ds.certificate", "attr-defined"),
    "P.project(": ("P.projection(", "attr-defined"),
    "chosen.items": ("chosen.item", "attr-defined"),
    "stack.value.mean()": ("stack.values.mean()", "attr-defined"),
    "max_iter=9": ("max_itr=9", "call-arg"),
    'lmo="highs"': ('lmo="high"', "arg-type"),
    'method="frank-wolfe"': ('method="frank-wolf"', "arg-type"),
    'ds.scipy_method("multi-start")': ('ds.scipy_method("multi")', "arg-type"),
    "size=3, method=how": ("size=3, method=3", "arg-type"),
}


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs mypy with some arguments, in a folder of its own; returns its report."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("types")
    root = Path(ds.__file__).parents[1]  # mypy finds an installed package by itself, and refuses its folder
    where = {} if root.name == "site-packages" else {"MYPYPATH": str(root)}

    def run(*arguments):
        command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", folder / "cache", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=folder, check=False, env=os.environ | where
        ).stdout

    return run


@pytest.fixture
def check(mypy, tmp_path):
    """Runs mypy on a text; returns its report."""

    def run(text):
        program = tmp_path / "program.py"
        program.write_text(text)
        return mypy("--strict", "--follow-imports=silent", program)

    return run


def test_the_package_passes(mypy):
    report = mypy("--check-untyped-defs", "--ignore-missing-imports", "-p", "drsub_fast")
    assert report.startswith("Success"), report
    source = [path.read_text(encoding="utf-8") for path in Path(ds.__file__).parent.rglob("*.py")]
    assert not any(re.search(r"#\s*(type:\s*ignore|mypy:)", text) for text in source)


def test_a_program_passes(check):
    text = PROGRAM.read_text()
    assert len(text.splitlines()) >= 60
    assert check(text).startswith("Success")


def test_mistakes_are_found(check):
    # One run for all: each stands in its own line.
    lines = PROGRAM.read_text().splitlines()
    expected = set()
    for right, (wrong, kind) in MISTAKES.items():
        (number,) = (k for k, line in enumerate(lines) if right in line)
        lines[number] = lines[number].replace(right, wrong)
        expected.add((number + 1, kind))
    report = check("\n".join(lines) + "\n")
    found = {(int(line), kind) for line, kind in re.findall(r"program\.py:(\d+): error: .*\[([\w-]+)\]", report)}
    assert found == expected


def test_arguments_of_stacks_are_those_of_the_registry():
    kinds = [kind for kinds in (OBJECTIVES, SETS) for kind in kinds.values()]
    assert set(StackArrays.__annotations__) - {name for kind in kinds for name in kind.arguments} <= set(
        Options.__annotations__
    )
    assert {name for kind in kinds for name in kind.arguments} <= set(StackArrays.__annotations__)


def test_the_program_runs():
    run = subprocess.run(
        [sys.executable, "-W", "error", PROGRAM], capture_output=True, text=True, check=False,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")


def _annotated(function):
    """Names of parameters without a type, and "return"."""
    signature = inspect.signature(function)
    missing = [name for name, each in signature.parameters.items() if each.annotation is each.empty and name != "self"]
    return missing + ["return"] * (signature.return_annotation is signature.empty)


@pytest.mark.parametrize("name", [name for name in ds.__all__ if not name.isupper()])
def test_every_public_function_and_method_is_annotated(name):
    item = getattr(ds, name)
    functions = {name: item} if inspect.isfunction(item) else {}
    for member, value in vars(item).items() if inspect.isclass(item) else ():
        if member.startswith("_") and member != "__init__":
            continue
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(value):
            functions[f"{name}.{member}"] = value
    missing = {name: _annotated(function) for name, function in functions.items() if _annotated(function)}
    missing = {name: names for name, names in missing.items() if names not in (["cls"], [])}
    assert missing == {}


def _documented_parameters(text):
    """What a docstring calls the type of each parameter."""
    section = re.search(r"Parameters\n-+\n(.*?)(\n\n[A-Z]\w+\n-+|\Z)", text, re.DOTALL)
    entries = re.findall(r"^(\w[\w, ]*?) : (.*)$", section[1] if section else "", re.MULTILINE)
    return {name: kind for names, kind in entries for name in names.split(", ")}


@pytest.mark.parametrize("name", [name for name in ds.__all__ if callable(getattr(ds, name))])
def test_annotations_take_what_the_docstring_promises(name):
    item = getattr(ds, name)
    for parameter, kind in _documented_parameters(inspect.getdoc(item)).items():
        annotation = str(inspect.signature(item).parameters[parameter].annotation)
        if "Any" in annotation:
            continue
        assert "array" not in kind or re.search("ArrayLike|_SupportsArray|Sequence|Iterable", annotation), parameter
        assert " or " not in kind or not re.fullmatch("<class '(int|float|str)'>", annotation), parameter
        assert "optional" not in kind or "None" in annotation, parameter
