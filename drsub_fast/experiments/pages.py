"""What the reference pages show beside the docstrings, at the time they are built: pictures, chapters, short types.

pdoc reads the docstrings of the objects that it imports, so `complete` changes those, in the process that builds the
pages alone.
"""

import importlib.util
import inspect
import re
import typing
from types import ModuleType

from numpy.typing import ArrayLike

from drsub_fast.experiments.gallery import pictures

#: numpy's ``NDArray`` written out.
_ARRAY = re.compile(r"numpy\.ndarray\[tuple\[(?:typing\.)?Any, \.\.\.\], numpy\.dtype\[numpy\.(\w+)\]\]")


class _Shown:
    """An annotation as the pages are to show it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def short_annotation(annotation: object) -> object:
    """The annotation with numpy's types by their names; others as they are."""
    members, own = typing.get_args(annotation), typing.get_args(ArrayLike)
    if members and all(each in members for each in own):
        rest = [inspect.formatannotation(each) for each in members if each not in own]
        return _Shown(" | ".join(["ArrayLike", *("None" if each == "NoneType" else each for each in rest)]))
    text = inspect.formatannotation(annotation).replace(repr(ArrayLike), "ArrayLike")
    short = _ARRAY.sub(r"NDArray[\1]", text)
    return annotation if short == inspect.formatannotation(annotation) else _Shown(short)


def _functions_of(item):
    """A function and what it wraps, or the functions that a class defines, properties' getters among them."""
    if inspect.isfunction(item):
        return [item, inspect.unwrap(item)]
    members = [value.fget if isinstance(value, property) else value for value in vars(item).values()]
    return [f for f in (getattr(value, "__func__", value) for value in members) if inspect.isfunction(f)]


def complete(package: ModuleType) -> None:
    """Adds the gallery to the package's docstring, and shortens annotations."""
    if importlib.util.find_spec("matplotlib") is not None:
        package.__doc__ = f"{package.__doc__}\n{pictures()}\n"
    for name in package.__all__:
        item = getattr(package, name)
        if not (inspect.isclass(item) or inspect.isfunction(item)):
            continue
        for function in _functions_of(item):
            function.__annotations__ = {
                name: short_annotation(annotation) for name, annotation in function.__annotations__.items()
            }
