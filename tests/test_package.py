"""The package as a whole: its layout, what its files import, and where its compiled kernels are kept."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drsub_fast as ds
from drsub_fast.engine import jit

PACKAGE = Path(ds.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
SOURCES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

TOP_LEVEL = {"LICENSE", "pyproject.toml", "README.md", "drsub_fast", "tests", "bench", "asv.conf.json"}


def _imported_packages(tree):
    """First parts of the names of all modules that a file imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def _files_that_import(package):
    return {file for file, tree in SOURCES.items() if package in _imported_packages(tree)}


def _python(code, **variables):
    """Runs code in a new process, on this package by default; a variable that is None is unset."""
    variables = {"PYTHONPATH": str(PACKAGE.parent)} | variables
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=variables["PYTHONPATH"], capture_output=True, text=True,
        env={name: value for name, value in (os.environ | variables).items() if value is not None}, check=False,
    )  # fmt: skip


def test_numba_is_known_to_the_engine_alone():
    users = {file for file in _files_that_import("numba") | _files_that_import("llvmlite")}
    assert {file.partition("/")[0] for file in users} == {"engine"}


def test_interpreted_solves_do_not_import_numba():
    run = _python(SOLVE + "import sys; print(round(value, 4), {'numba', 'llvmlite'} & set(sys.modules))",
                  DRSUB_FAST_COMPILE="never")  # fmt: skip
    assert (run.stdout, run.stderr) == ("0.5461 set()\n", "")


def test_highspy_is_imported_by_the_oracle_and_the_benchmark_alone():
    assert _files_that_import("highspy") == {"lp/highs.py", "experiments/peers.py"}


def test_reference_needs_neither_numba_nor_highspy():
    # The package's own __init__ imports both: a bare package stands in for it.
    run = _python(
        "import sys, types\n"
        "package = types.ModuleType('drsub_fast')\n"
        f"package.__path__ = [{str(PACKAGE)!r}]\n"
        "sys.modules['drsub_fast'] = package\n"
        "import drsub_fast.reference\n"
        "print(sorted(name for name in sys.modules if name.startswith('drsub_fast.')))\n"
        "assert not {'numba', 'highspy', 'llvmlite'} & set(sys.modules)\n"
    )
    assert run.returncode == 0, run.stderr
    assert eval(run.stdout) == [
        "drsub_fast._checks", "drsub_fast._records", "drsub_fast.errors", "drsub_fast.reference",
        "drsub_fast.reference.problem", "drsub_fast.reference.solvers",
    ]  # fmt: skip


def test_nothing_lies_at_the_top_level_but_what_belongs_there():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: the files under version control are not known")
    tracked = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    visible = {path.partition("/")[0] for path in tracked.splitlines() if not path.startswith(".")}
    assert visible <= TOP_LEVEL


def test_import_is_silent():
    run = _python("import drsub_fast")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


SOLVE = """
import drsub_fast as ds
from drsub_fast.engine import jit
f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
value = ds.nonmonotone_frank_wolfe(f, ds.Box([1.0, 1.0])).value
"""


@pytest.fixture
def read_only(tmp_path):
    """A copy of the package that takes no cache: a file is in its place, even for root, who ignores permissions."""
    copy = tmp_path / "site" / "drsub_fast"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "__pycache__").touch()
    copy.chmod(0o555)
    yield {"PYTHONPATH": str(copy.parent), "DRSUB_FAST_CACHE_DIR": None, "NUMBA_CACHE_DIR": None}
    copy.chmod(0o755)


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_a_read_only_package_keeps_its_kernels_in_the_cache_of_the_user(compiled, read_only, tmp_path, variable):
    home = {"HOME": None, "XDG_CACHE_HOME": None, variable: str(tmp_path / "home")}
    run = _python("from drsub_fast.engine import jit; print(jit.cache_folder())", **home, **read_only)
    assert run.returncode == 0, run.stderr
    cache = tmp_path / "home" / ("drsub_fast" if variable == "XDG_CACHE_HOME" else ".cache/drsub_fast")
    assert Path(run.stdout.strip()).parent == cache


def test_a_read_only_package_solves_where_nothing_can_be_written(read_only, tmp_path):
    # Numba #4908: no locator for the cache.
    file = tmp_path / "file"
    file.touch()
    run = _python(SOLVE + "print(jit.cache_folder(), round(value, 4))", HOME=f"{file}/home", XDG_CACHE_HOME=None,
                  **read_only)  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout == "None 0.5461\n"


@pytest.mark.skipif(jit.cache_folder() is None, reason="no cache is in use")
def test_a_second_process_takes_its_kernels_from_the_disk(compiled):
    count = """
from drsub_fast.solvers.continuous_greedy import additive_loop
stats = additive_loop.standalone.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""
    first = _python(SOLVE + count)
    second = _python(SOLVE + count)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert sum(map(int, first.stdout.split())) == 1
    assert second.stdout == "1 0\n"


def test_the_names_that_are_shown_are_public():
    shown = {name for name in dir(ds) if not name.startswith("__")}
    assert shown == {*ds.__all__, "experiments", "kernels"}
    assert ds.kernels.OK == 0
    with pytest.raises(AttributeError, match="no attribute 'kernel'"):
        ds.kernel  # noqa: B018


@pytest.mark.parametrize("module", [ds.certificates, ds.extend, ds.instances, ds.reference])
def test_modules_show_what_is_public_only(module):
    assert sorted(dir(module)) == sorted(module.__all__)
    assert all(not name.startswith("_") and hasattr(module, name) for name in module.__all__)
    own = {name for name, item in vars(module).items() if getattr(item, "__module__", None) == module.__name__}
    assert {name for name in own if not name.startswith("_")} <= set(module.__all__)
