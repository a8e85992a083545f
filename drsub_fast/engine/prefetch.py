"""A hint to the processor: what it will soon be asked for from memory. Its compiled twin is in `compiled_prefetch`."""

from typing import Any


def prefetch(array: Any, place: Any) -> None:
    """Says that the entries from ``place`` on of a vector will be read soon; the place must be there."""
