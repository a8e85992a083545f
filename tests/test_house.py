"""How the package is built: imports point downwards, between folders and between files."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import drsub_fast as ds

PACKAGE = Path(ds.__file__).parent

#: Folders, and modules beside them, from the ground up. A room imports from the floors below its own.
FLOORS = (
    ("_records", "guide"),
    ("_start",),
    ("_checks", "_kinds", "errors", "result"),
    ("engine", "reference"),
    ("lp",),
    ("objectives",),
    ("sets",),
    ("claims",),
    ("solvers",),
    ("instances", "kernels", "problems", "proofs"),
    ("apriori", "certificates"),
    ("methods",),
    ("discrete", "scipy_interface"),
    ("batch",),
    ("experiments", "extend"),
    ("__init__",),
    ("cli",),
    ("__main__",),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def module_name(path):
    """``drsub_fast.sets.box``; a folder's ``__init__`` has the folder's name."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph():
    """The modules of the package that each of its modules imports anywhere, inside functions too."""
    files = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: relative imports are not understood here"
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [target if target in files else node.module for target in inner]
            else:
                continue
            graph[name].update(target for target in targets if target in files)
    return graph


def room(module):
    """The folder, or the module beside the folders, that a module belongs to."""
    return (module.split(".")[1:] or ["__init__"])[0]


def circle(graph):
    """The nodes of a circle in the graph, or None."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def upward(graph):
    """Imports that do not lead to a lower floor, as pairs of modules.

    A file that only the package's ``__init__`` imports may use `drsub_fast.extend`, as a file outside the package does.
    """
    used = {target for name, targets in graph.items() if name != "drsub_fast" for target in targets}
    return [
        (name, target)
        for name, targets in graph.items()
        for target in targets
        if room(name) != room(target) and FLOOR_OF[room(target)] >= FLOOR_OF[room(name)]
        if not (target == "drsub_fast.extend" and name not in used)
    ]


def test_every_room_has_a_floor():
    assert {room(name) for name in import_graph()} == set(FLOOR_OF)


def test_imports_lead_downwards():
    assert upward(import_graph()) == []


def test_files_import_each_other_in_no_circle():
    assert circle(import_graph()) is None


@pytest.mark.parametrize("module", ["drsub_fast.sets.box", "drsub_fast.sets.base"])
def test_a_circle_and_an_upward_import_are_found(module):
    graph = import_graph()
    graph["drsub_fast.engine.codes"].add(module)
    assert upward(graph) == [("drsub_fast.engine.codes", module)]
    assert {module, "drsub_fast.engine.codes"} <= set(circle(graph))


def test_long_files_say_why():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > 500:
            assert "although it is long" in (ast.get_docstring(ast.parse(text)) or ""), path


def test_few_modules_stand_beside_the_folders():
    assert len(list(PACKAGE.glob("*.py"))) <= 14
