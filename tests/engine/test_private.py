"""What is private of Numba: listed, there, and in two files."""

import ast
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

import drsub_fast as ds
from drsub_fast.engine.jit import engine

FILES = ("compiled.py", "linked.py")
PACKAGE = Path(ds.__file__).parent
PRIVATE = engine().PRIVATE


def _find(name):
    """A module, or what stands in one."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, last = name.rpartition(".")
        return getattr(_find(module), last)


@pytest.mark.parametrize("name", PRIVATE)
def test_what_is_used_is_there(name):
    missing = [item for item in PRIVATE[name] if not hasattr(_find(name), item)]
    assert not missing, f"{name} has no {missing}: see drsub_fast/engine/linked.py"


def test_the_compiler_takes_what_it_is_given():
    taken = list(signature(_find("numba.core.compiler.Compiler").__init__).parameters)
    assert taken[:7] == ["self", "typingctx", "targetctx", "library", "args", "return_type", "flags"]


def _imports(path):
    """Names that a file imports, as ``module.name``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_all_of_it_is_in_two_files_and_listed():
    known = set(PRIVATE) | {f"{name}.{item}" for name, items in PRIVATE.items() for item in items}
    public = {"llvmlite.ir", "numba.types", "numba.extending.overload", "numba.extending.register_model"}
    for path in PACKAGE.rglob("*.py"):
        used = {name for name in _imports(path) if name.startswith(("numba.", "llvmlite."))}
        if path.parent.name == "engine" and path.name in FILES:
            assert used <= known | public, path
        else:
            assert not used, path
