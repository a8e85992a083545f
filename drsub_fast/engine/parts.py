"""Consecutive parts of the flat arrays that a workspace is made of. The compiled twin is in `compiled_parts`.

Slices do the same, but compiled code spends fifty instructions on each for what these never are: steps, negative or
missing ends, ends beyond the array. A solver loop opens some thirty parts.
"""

import math
from typing import Any


def split(flat: Any, *shapes: Any) -> Any:
    """Views of a flat array, one after the other: of each shape, a number of entries or (rows, columns)."""
    parts, start = (), 0
    for shape in shapes:
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        parts += (flat[start : start + size].reshape(shape),)
        start += size
    return parts
