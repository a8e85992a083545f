"""The tables of functions, sets and methods in README and the guide, as they are registered.

``python -m drsub_fast.experiments.tables FILE`` renews those of a file: a row whose first cell names something
registered gets the text of its registration; names that a table lacks are appended to it.
"""

import re
import sys
from pathlib import Path

from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.solvers.record import METHODS, Method

_SETS_OF = {"box": "boxes", "down-closed": "down-closed", "projection": "with a projection"}


def _method_row(method: Method) -> str:
    sets = next((_SETS_OF[need] for need in _SETS_OF if need in method.needs), "any")
    return f"| `{method.function_name}` | {sets} | {method.claim} | {method.about} |"


def tables() -> dict[str, dict[str, str]]:
    """Rows in Markdown by what they name, for each table by its heading."""
    functions = {kind.label: f"| `{kind.label}` | {kind.about} |" for kind in OBJECTIVES.values()}
    sets = {kind.label: f"| `{kind.label}` | {kind.about} |" for kind in SETS.values()}
    methods = {method.function_name: _method_row(method) for method in METHODS.values()}
    return {"\n| method |": methods, "\n| functions |": functions, "\n| sets |": sets}


def renewed(text: str, complete: bool = True) -> str:
    """The text with the rows of its tables as they are registered, and, if ``complete``, those that they lack."""
    for heading, rows in tables().items():
        if heading not in text:
            continue
        start = text.index(heading)
        end = text.index("\n\n", start)
        table = text[start:end]
        for name, row in rows.items():
            found = re.search(rf"^\| `{re.escape(name)}` \|.*$", table, re.MULTILINE)
            if found:
                table = table.replace(found[0], row)
            elif complete:
                table += f"\n{row}"
        text = text[:start] + table + text[end:]
    return text


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "README.md")
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
