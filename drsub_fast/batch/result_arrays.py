"""Results as arrays and JSON, for the files of a checkpoint: what is read back is data, whoever has written it."""

import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import fields

import numpy as np

from drsub_fast.result import Certificate, Details, Guarantee, Result, Status, Trace

_CLASSES = {kind.__name__: kind for kind in (Details, Guarantee, Result, Trace)}


def pack(results: Iterable[Result]) -> dict[str, np.ndarray]:
    """A list of `Result` as a dict of two arrays: the numbers of all its arrays, and a JSON text as bytes."""
    numbers = array("d")
    text = json.dumps([_packed(result, numbers) for result in results])
    return {"numbers": np.array(numbers), "results": np.frombuffer(text.encode(), np.uint8)}


def unpack(stored: Mapping[str, np.ndarray]) -> list[Result]:
    """The list of `Result` that `pack` was given."""
    text, numbers = stored["results"].tobytes().decode(), stored["numbers"]
    return [_unpacked(result, numbers) for result in json.loads(text)]


def _packed(value, numbers):
    """A value as JSON has it; arrays go to the end of the numbers, and are referred to by their place there."""
    if isinstance(value, np.ndarray):
        start = len(numbers)
        numbers.frombytes(value.astype(np.float64).tobytes())
        return {"array": [start, *value.shape]}
    if isinstance(value, Status):
        return {"status": value.name}
    if isinstance(value, Certificate):
        return {"certificate": value.known}
    if type(value) in _CLASSES.values():
        items = {item.name: _packed(getattr(value, item.name), numbers) for item in fields(value)}
        return {type(value).__name__: items}
    if isinstance(value, tuple):
        return {"tuple": [_packed(item, numbers) for item in value]}
    return value.item() if isinstance(value, np.generic) else value


def _unpacked(value, numbers):
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        start, *shape = content
        return numbers[start : start + int(np.prod(shape))].reshape(shape).copy()
    if kind == "status":
        return Status[content]
    if kind == "certificate":
        return Certificate(content)
    if kind == "tuple":
        return tuple(_unpacked(item, numbers) for item in content)
    return _CLASSES[kind](**{name: _unpacked(item, numbers) for name, item in content.items()})
