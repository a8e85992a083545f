"""Types of arguments as compiled code sees them, found without Numba.

A type is a key: a name for numbers, ``("array", dtype, axes, layout, writable)``, or ``(class, *keys)`` for tuples.
Equal keys mean equal types in compiled code, so a key says which code serves, in this process and on disk.
"""

import sys
from typing import Any

import numpy as np

#: A name for numbers, or a tuple that begins with "array", "numba" or a class.
Key = str | tuple[Any, ...]

#: Types of the arguments of a call, each by its number: see `type_code`.
Types = tuple[Any, ...]

_NUMBERS = {float: "float64", np.float64: "float64", int: "int64", np.int64: "int64", bool: "bool", np.bool_: "bool"}


def type_key(value: Any) -> Key:
    """Key of the type of a value."""
    name = _NUMBERS.get(type(value))
    if name is not None:
        return name
    if isinstance(value, np.ndarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return "array", value.dtype.str, value.ndim, layout, flags.writeable
    if isinstance(value, tuple):
        return type(value), *map(type_key, value)
    if isinstance(value, np.number):
        return value.dtype.name
    import numba  # a user's argument of another kind

    return "numba", numba.typeof(value)


#: Numbers of the keys in use, and the reverse.
_CODES: dict[Key, int] = {}
_KEYS: list[Key] = []


def type_code(value: Any) -> int:
    """A number for the type of a value: quicker to look up than its key."""
    key = type_key(value)
    code = _CODES.get(key)
    if code is None:
        code = _CODES.setdefault(key, len(_CODES))
        if code == len(_KEYS):
            _KEYS.append(key)
    return code


def key_of(code: int) -> Key:
    """The key that has a number."""
    return _KEYS[code]


def key_text(key: Key) -> str | None:
    """A key as text that means the same in every process, or None if there is none."""
    if isinstance(key, str):
        return key
    if key[0] == "array":
        return "{}[{}d {} {}]".format(*key[1:])
    if key[0] == "numba":
        return None
    cls, *parts = key
    # A class that is made at run time says what it stands for, or None.
    name = cls.stamp if hasattr(cls, "stamp") else f"{cls.__module__}.{cls.__qualname__}"
    texts = [text for part in parts if (text := key_text(part)) is not None]
    return None if name is None or len(texts) < len(parts) else f"{name}({', '.join(texts)})"


def classes_in(key: Key) -> set[type]:
    """The classes of tuples in a key."""
    if isinstance(key, str) or not isinstance(key[0], type):
        return set()
    return {key[0]}.union(*map(classes_in, key[1:]))


def is_jitted(value: Any) -> bool:
    """Whether a value is a function compiled by Numba."""
    numba = sys.modules.get("numba")
    return numba is not None and numba.extending.is_jitted(value)
