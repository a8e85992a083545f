"""Consecutive parts of the flat arrays that a workspace is made of, and a hint ahead of their reading.

Slices do the same, but compiled code spends fifty instructions on each for what these never are: steps, negative or
missing ends, ends beyond the array. A solver loop opens some thirty parts. The compiled twins are in
`drsub_fast.engine.compiled`.
"""

import math

import numpy as np


def split(flat, *shapes):
    """Views of a flat array, one after the other: of each shape, a number of entries or (rows, columns)."""
    parts: tuple[np.ndarray, ...] = ()
    start = 0
    for shape in shapes:
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        parts += (flat[start : start + size].reshape(shape),)
        start += size
    return parts


def prefetch(array, place):
    """Tells the processor that the entries from ``place`` on of a vector will be read soon; the place must be there."""
