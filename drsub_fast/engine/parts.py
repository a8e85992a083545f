"""Parts of the flat arrays that a workspace is made of. Their compiled twins are in `compiled_parts`.

A slice does the same, but compiled code spends fifty instructions on each for what these never are: steps, negative or
missing ends, ends beyond the array. A solver loop opens some thirty parts.
"""

from typing import Any


def part(flat: Any, start: Any, size: Any) -> Any:
    """``size`` entries of a flat array from ``start`` on, which must be there; a view."""
    return flat[start : start + size]


def matrix(flat: Any, start: Any, rows: Any, columns: Any) -> Any:
    """The same as a matrix."""
    return flat[start : start + rows * columns].reshape(rows, columns)
