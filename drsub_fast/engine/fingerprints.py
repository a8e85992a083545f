"""What data and functions are, as a digest that is the same in every process.

By it the compiled code of a user's function or kernel is found again, and a checkpoint knows the problems that it
answers. A function counts by its instructions and constants, its defaults, and the values of the globals and of the
closure that it names; an object by its class and by what pickling would keep of it; modules, classes and functions of
the standard library and of installed packages by name and version, those of this package by name: its files have a
digest of their own (`drsub_fast.engine.store`).
"""

import dis
import hashlib
import sys
import threading
import types
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from drsub_fast.engine.signatures import is_jitted

#: Packages besides the standard library whose contents are known by name and version, wherever they lie.
_KNOWN = ("drsub_fast", "numba", "numpy", "scipy")
#: Folders of installed packages.
_INSTALLED = ("site-packages", "dist-packages")
#: What a class has beside what was written in it.
_NOT_OF_A_CLASS = ("__dict__", "__weakref__", "__doc__", "__annotations__", "__firstlineno__", "__static_attributes__")
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, np.generic, type(...), type(NotImplemented))
#: What only makes threads wait: which class it is says all that an answer may depend on.
_LOCKS = (
    type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore, threading.Event,
    threading.Barrier,
)  # fmt: skip


class UnknownContentError(ValueError):
    """Something that cannot be told in words, so that another process could not know whether it has the same."""


def fingerprint(*parts: Any) -> str:
    """Hex digest of arrays, numbers, texts, containers, functions, and objects made of them; equal for equal content.

    Raises
    ------
    UnknownContentError
        For something that only this process has: an open file, a generator.
    """
    digest = hashlib.sha256()  # 1.4 GB a second where the processor knows it; blake2b makes 0.5 there
    writer = _Writer()
    try:
        for part in parts:
            writer.add(digest, part)
    except RecursionError:
        raise UnknownContentError("a list or dict that holds itself has no content that can be told") from None
    return digest.hexdigest()


def known_fingerprint(value: Any) -> str | None:
    """The `fingerprint`, or None where the content cannot be told."""
    try:
        return fingerprint(value)
    except UnknownContentError:
        return None


def is_known(module: Any) -> bool:
    """Whether what a module holds is known by its name."""
    root = str(module).partition(".")[0]
    return root in _KNOWN or root in sys.stdlib_module_names


class _Writer:
    """Writes descriptions of values; of each function and object once."""

    def __init__(self):
        self.written = {}  # by id: (the object, which keeps its id, and its digest)
        self.above = []  # ids of the objects that are being described
        self.attributes: tuple[str, ...] = ()  # names of attributes in the function that is

    def add(self, digest, value):
        """Adds a value to a digest."""
        kind = type(value)
        if value is None or kind in _PLAIN or isinstance(value, np.generic):
            digest.update(f"{kind.__name__} {value!r};".encode())
        elif kind is np.ndarray:
            self._add_array(digest, value)
        elif kind in (tuple, list):
            self._add_items(digest, kind.__name__, value)
        elif kind is dict:
            self._add_dict(digest, value)
        elif kind in (set, frozenset):
            self._add_unordered(digest, kind.__name__, value)
        elif kind is types.ModuleType:
            self._add_module(digest, value)
        else:
            digest.update(self._digest_of(value))

    def _add_items(self, digest, name, items):
        digest.update(f"{name} {len(items)}:".encode())
        for item in items:
            self.add(digest, item)

    def _add_array(self, digest, array):
        kind = array.dtype if array.dtype.names else array.dtype.str
        digest.update(f"array {kind} {array.shape}".encode())
        if array.dtype.hasobject:
            self._add_items(digest, "objects", array.ravel().tolist())
            return
        rows = [array] if array.flags.c_contiguous else (np.ascontiguousarray(row) for row in array)
        for row in rows:
            digest.update(row.reshape(-1).view(np.uint8).data)

    def _add_dict(self, digest, items):
        if not all(type(key) is str for key in items):
            self._add_unordered(digest, "dict", items.items())
            return
        digest.update(f"dict {len(items)}:".encode())
        for key in sorted(items):
            digest.update(f"{key!r}:".encode())
            self.add(digest, items[key])

    def _add_unordered(self, digest, name, items):
        """Items whose order says nothing."""
        self._add_items(digest, name, sorted(map(self._own_digest, items)))

    def _own_digest(self, item):
        own = hashlib.sha256()
        self.add(own, item)
        return own.digest()

    def _digest_of(self, value):
        """The digest of a function or object; in a circle, how far up it stands."""
        if id(value) in self.written:
            return self.written[id(value)][1]
        if id(value) in self.above:
            return f"circle {len(self.above) - self.above.index(id(value))};".encode()
        self.above.append(id(value))
        own = hashlib.sha256()
        self._describe(own, value)
        self.above.pop()
        self.written[id(value)] = value, own.digest()
        return own.digest()

    def _describe(self, digest, value):
        options = _compiled_with(value)
        if options is not None:
            self.add(digest, ("compiled", {name: str(option) for name, option in options.items()}))
            value = value.py_func
        known = _known_name(value)
        if known is not None and (options is None or is_known(value.__module__)):  # a text is safer than a version
            digest.update(known.encode())
        elif isinstance(value, types.FunctionType):
            self._add_function(digest, value)
        elif isinstance(value, types.CodeType):
            self.add(digest, (
                value.co_name, value.co_code, value.co_consts, value.co_names, value.co_varnames, value.co_argcount,
                value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags, value.co_exceptiontable,
            ))  # fmt: skip
        elif isinstance(value, types.MethodType):
            self.add(digest, ("method", value.__func__, value.__self__))
        elif isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, types.ModuleType):
            self.add(digest, ("method", value.__name__, value.__self__))
        elif isinstance(value, type):
            members = {name: item for name, item in vars(value).items() if _is_written(name, item)}
            self.add(digest, ("class", value.__module__, value.__qualname__, value.__bases__, members))
        elif isinstance(value, (staticmethod, classmethod)):
            self.add(digest, (type(value).__name__, value.__func__))
        elif isinstance(value, property):
            self.add(digest, ("property", value.fget, value.fset))
        elif isinstance(value, _LOCKS):
            self.add(digest, ("lock", type(value)))
        elif hasattr(value, "__wrapped__"):  # by a cache or another decorator in C
            self.add(digest, ("wrapped", type(value), value.__wrapped__))
        else:
            self._add_object(digest, value)

    def _add_function(self, digest, function):
        names = _names(function.__code__)
        cells = [
            None if name in names.stored else _content(cell)
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        ]
        before, self.attributes = self.attributes, names.attributes
        self.add(digest, (
            "function", function.__qualname__, function.__code__, function.__defaults__, function.__kwdefaults__,
            cells, function.__dict__,
        ))  # fmt: skip
        for name in names.globals:
            if name in function.__globals__:
                self.add(digest, (name, function.__globals__[name]))
        self.attributes = before

    def _add_module(self, digest, module):
        """A module by its name and version, or else by what the function in work may use of it."""
        known = _known_name(module)
        digest.update((known or f"module {module.__name__};").encode())
        if known is None and id(module) not in self.above:
            self.above.append(id(module))
            self.add(digest, [vars(module)[name] for name in self.attributes if name in vars(module)])
            self.above.pop()

    def _add_object(self, digest, value):
        """An object as pickling keeps it."""
        try:
            kept = value.__reduce_ex__(4)
        except Exception as error:
            raise UnknownContentError(f"{_what(value)} has no content that can be kept: {error}") from None
        if isinstance(kept, str) or type(value) is object:
            raise UnknownContentError(f"{_what(value)} has no content that can be kept")
        make, arguments, *more = kept
        state, *series = (*more, None, None, None)[:3]
        self.add(
            digest, ("object", type(value), make, arguments, state, *(s if s is None else list(s) for s in series))
        )


def _compiled_with(value):
    """The options of a function that is compiled by Numba, or of a `Kernel`; None for others."""
    if is_jitted(value):
        return value.targetoptions
    kind = type(value)
    return value.options if (kind.__module__, kind.__name__) == ("drsub_fast.engine.jit", "Kernel") else None


def _what(value):
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return "empty"


def _is_written(name, item):
    """Whether a member of a class is what its author wrote."""
    return name not in _NOT_OF_A_CLASS and not name.startswith("_abc_") and not isinstance(
        item, (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
    )  # fmt: skip


class _Names(NamedTuple):
    """Names in a function and those inside it, each in order: of attributes, of globals that it looks up, and those
    that it sets, which tell its state and not what it is."""

    attributes: tuple[str, ...]
    globals: tuple[str, ...]
    stored: tuple[str, ...]


@cache
def _names(code: types.CodeType) -> _Names:
    used, stored = set(), set()
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            used.add(step.argval)
        elif step.opname in ("STORE_GLOBAL", "STORE_DEREF"):
            stored.add(step.argval)
    attributes = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            attributes.update(inner.attributes)
            used.update(inner.globals)
            stored.update(inner.stored)
    return _Names(*(tuple(sorted(names)) for names in (attributes, used - stored, stored)))


def _known_name(value: Any) -> str | None:
    """Name and version of a module, class or function of the standard library or an installed package; else None."""
    module: str | None
    if isinstance(value, types.ModuleType):
        module, name = value.__name__, ""
    elif isinstance(value, np.ufunc):
        homes = ("numpy", "scipy.special")
        module = next((home for home in homes if getattr(sys.modules.get(home), value.__name__, None) is value), None)
        name = value.__name__
    elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, type(np.sum))):
        if _is_bound(value):
            return None
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", value.__name__)
    else:
        return None
    version = None if module is None else _version(str(module).partition(".")[0])
    return None if version is None or "<lambda>" in name or "<locals>" in name else f"known {module} {name} {version};"


def _is_bound(value):
    """Whether a builtin function is the method of an object."""
    owner = getattr(value, "__self__", None)
    return owner is not None and not isinstance(owner, (types.ModuleType, type))


@cache
def _version(root: str) -> str | None:
    """Version of a package that is known by its name; None for one that the user may be writing."""
    if root in sys.stdlib_module_names:
        return ".".join(map(str, sys.version_info[:2]))
    package = sys.modules.get(root)
    folders = [str(getattr(package, "__file__", None) or ""), *map(str, getattr(package, "__path__", ()))]
    if root in _KNOWN or any(name in folder for name in _INSTALLED for folder in folders):
        return str(getattr(package, "__version__", ""))
    return None
