"""The decorator for kernels, and when a kernel is compiled.

A kernel is a function that runs as plain Python or compiled, with the same text. Small problems are solved sooner
than their kernels are compiled, so a kernel runs as plain Python until compiled code is at hand (from this process
or the disk cache) or pays: `Kernel.choose`, by `drsub_fast.engine.worth`. Under a time limit
(`drsub_fast.engine.clock`) nothing is compiled or loaded that may take longer than what is left of it. The environment
variable ``DRSUB_FAST_COMPILE`` says "auto" (that), "now" (compile at the first call, whatever the time limit) or
"never".

Numba is imported when code is compiled or loaded, not before: `drsub_fast.engine.linked` makes the code.
"""

import logging
import math
import os
import threading
import time
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from drsub_fast.engine import store, worth
from drsub_fast.engine.clock import is_late, thread_time_left
from drsub_fast.engine.fingerprints import is_known, known_fingerprint
from drsub_fast.engine.interpreted import Interpreted, twin
from drsub_fast.engine.signatures import Types, classes_in, key_of, key_text, type_code

logger: logging.Logger = logging.getLogger("drsub_fast")

#: "auto": interpreted until compiling pays and there is time; "now": compiled at the first call; "never": interpreted.
COMPILE: str = os.environ.get("DRSUB_FAST_COMPILE") or "auto"
if COMPILE not in ("auto", "now", "never"):
    raise ValueError(f"DRSUB_FAST_COMPILE is {COMPILE!r}: choose from auto, now, never")
if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    COMPILE = "never"

#: Seconds of compiling that are said beforehand.
_SAID_FROM = 2.0

#: Part of the seconds of compiling that plain Python must have left to do in a call, so that compiling begins amid it.
_LEFT = 0.5

#: A time limit must leave so many times the seconds of compiling, for other processes may be busy, or seconds to load
#: compiled code (0.02 to 0.12 s), or the first, which brings Numba with it (0.4 s; where five processes are busy on two
#: processors 0.6 to 0.9 s).
_SPARE, _LOAD_SECONDS, _FIRST_LOAD_SECONDS = 3.0, 0.25, 1.0

_state = threading.local()

#: Held while code is made, so that other threads wait for it instead of making it again.
_making = threading.RLock()


def cache_folder() -> Path | None:
    """Where compiled kernels are stored; None where they are not."""
    return None if COMPILE == "never" else store.folders()[1]


@contextmanager
def compiling() -> Generator[None, None, None]:
    """Within it, kernels that this thread calls from Python are compiled at once."""
    before = getattr(_state, "compiling", False)
    _state.compiling = True
    try:
        yield
    finally:
        _state.compiling = before


def compiles_at_once() -> bool:
    """Whether kernels that this thread calls are compiled at their first call."""
    return COMPILE == "now" or getattr(_state, "compiling", False)


@cache
def engine() -> types.ModuleType:
    """The module that compiles."""
    module = import_module("drsub_fast.engine.linked")  # by name, since it builds on this module
    for call, lookup in _operations:
        module.add_operation(call, lookup)
    return module


def has_engine() -> bool:
    """Whether code has been compiled or loaded in this process."""
    return engine.cache_info().currsize > 0


def has_time(seconds: float) -> bool:
    """Whether the time limit of this thread leaves so many seconds for compiling or loading."""
    return COMPILE == "now" or (thread_time_left() >= seconds and not is_late())


class Kernel:
    """A function that kernels and Python can call, compiled or as plain Python.

    Attributes
    ----------
    py_func : function
        Its text.
    options : dict
        How it is compiled: the arguments of `kernel`.
    entries : dict
        Compiled code by the family of the problem, see `entry`.
    spent : dict
        Processor seconds of interpreted calls, by the types of their arguments.
    """

    __name__: str

    def __init__(self, py_func: Callable[..., Any], plain: Callable[..., Any] | None = None, **options: bool) -> None:
        self.py_func, self.options = py_func, options
        self._plain_func = plain or py_func
        self.entries: dict[Any, Callable[..., Any]] = {}
        self.spent: dict[Types, float] = {}
        self._code: dict[Types, Callable[..., Any]] = {}
        self._facts: dict[Types, _Facts] = {}
        self._dispatcher: Callable[..., Any] | None = None
        self.__name__, self.__doc__, self.__module__ = py_func.__name__, py_func.__doc__, py_func.__module__
        self.__wrapped__ = py_func

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__name__}>"

    def __call__(self, *arguments: Any) -> Any:
        if self._dispatcher is not None and COMPILE != "never":
            return self._dispatcher(*arguments)
        return self.choose(arguments)(*arguments)

    @cached_property
    def interpreted(self) -> Callable[..., Any]:
        """The kernel as plain Python, and all that it calls."""
        return twin(self._plain_func)

    @cached_property
    def linked(self) -> Any:
        """The Numba function that other kernels call."""
        return engine().linked_function(self)

    @cached_property
    def standalone(self) -> Any:
        """The Numba function that Python calls."""
        return engine().standalone_function(self)

    def choose(self, arguments: tuple[Any, ...], ahead: float = 0.0, most: float = math.inf) -> Callable[..., Any]:
        """What to call for ``arguments``: compiled code if it is there or pays, else `Interpreted`.

        Parameters
        ----------
        arguments : tuple
            Arguments of the call to come.
        ahead, most : float
            As in `pays`.
        """
        types = tuple(map(type_code, arguments))
        code = None if COMPILE == "never" else self._code.get(types)
        if code is not None:
            return code
        reason = self._reason(types, ahead, most)
        return Interpreted(self, types) if reason is None else self.compile(types, arguments, reason)

    def _reason(self, types, ahead, most):
        """Why compiled code is to be made or loaded, or None; no words where that was asked for, or takes no time."""
        if COMPILE == "never":
            return None
        if compiles_at_once():
            return "" if COMPILE == "now" or has_time(_SPARE * self._facts_of(types).cost) else None
        if self._is_stored(types):
            return "" if has_time(_LOAD_SECONDS if has_engine() else _FIRST_LOAD_SECONDS) else None
        return self.pays(types, ahead, most)

    def pays(self, types: Types, ahead: float = 0.0, most: float = math.inf) -> str | None:
        """Why compiling pays, or None where it does not yet, or where there is no time.

        Parameters
        ----------
        types : tuple
            Types of the arguments.
        ahead, most : float
            Processor seconds as plain Python that are certainly ahead, and the most that this call has left.
        """
        if COMPILE != "auto":
            return None
        facts = self._facts_of(types)
        spent, ahead = self.spent.get(types, 0.0), max(ahead, worth.series.ahead((self, types)))
        if max(spent, ahead) < worth.LEAST:
            return None
        if ahead >= facts.cost:
            reason = f"about {ahead:.0f} s of plain Python are ahead"
        elif spent >= facts.cost and most >= _LEFT * facts.cost:
            reason = f"{spent:.0f} s were spent on it as plain Python"
        else:
            return None
        return reason if has_time(_SPARE * facts.cost) else None

    def note(self, types: Types, seconds: float) -> None:
        """Adds processor seconds as plain Python."""
        facts = self._facts_of(types)
        self.spent[types] = self.spent.get(types, 0.0) + seconds
        worth.series.note((self, types), seconds)
        if facts.name is not None and COMPILE == "auto":
            worth.note_spent(facts.name, seconds)

    def _facts_of(self, types):
        facts = self._facts.get(types)
        if facts is None:
            facts = self._facts[types] = _Facts(self, types)
            if facts.name is not None and COMPILE == "auto":
                self.spent[types] = worth.record().spent.get(facts.name, 0.0)
        return facts

    def _is_stored(self, types):
        """Whether the disk cache seemed to have code for arguments of these types when it was first asked."""
        return self._facts_of(types).is_stored

    def compile(self, types: Types, arguments: tuple[Any, ...], reason: str = "") -> Callable[..., Any]:
        """Compiled code for arguments of these types, loaded from the cache if it is there.

        ``reason`` says why, where nobody asked for it.
        """
        if self._is_stored(types):
            return self._compile(types, arguments)
        with _making:
            if types not in self._code:
                facts = self._facts_of(types)
                if reason:
                    self._say(facts.cost, reason)
                began = time.thread_time()
                self._compile(types, arguments)
                if facts.name is not None:
                    worth.note_compiled(facts.name, time.thread_time() - began, facts.size)
            return self._code[types]

    def _compile(self, types, arguments):
        with compiling():
            code = self._code[types] = engine().compile(self, arguments)
        self._dispatcher = self.standalone
        return code

    def _say(self, seconds, reason):
        """One line that says what takes so long; of what is done sooner than it is read, for those who ask for it."""
        folder = cache_folder()
        kept = f"kept in {folder}" if folder else "not kept, since no folder can be written"
        logger.log(
            logging.INFO if seconds < _SAID_FROM else logging.WARNING,
            "compiling %s.%s, about %.0f s, since %s: once, %s (`drsub-fast warmup` does it ahead, "
            "DRSUB_FAST_COMPILE=never avoids it)", self.__module__, self.__name__, seconds, reason, kept,
        )  # fmt: skip

    def choose_around(self, family: Any, ahead: float = 0.0, most: float = math.inf) -> Callable[..., Any]:
        """What to call for arguments that hold Python callables: all as plain Python until compiling the rest pays."""
        types = (_AROUND, *family)
        if COMPILE == "never":
            return Interpreted(self, types)
        if types not in self.entries:
            reason = self._reason(types, ahead, most)
            if reason is None:
                return Interpreted(self, types)
            if reason:
                self._say(self._facts_of(types).cost, reason)
            self.entries[types] = compiling()(outside(self))
        return self.entries[types]

    def entry(
        self, family: Any, arguments: tuple[Any, ...], ahead: float = 0.0, most: float = math.inf
    ) -> Callable[..., Any]:
        """What to call for ``arguments``, found without looking at their types.

        Finding the types of a dozen arrays takes longer than a small solve. ``family`` says what they are, by the
        numbers of types (`type_code`); ``ahead`` and ``most`` are as in `pays`.
        """
        known = None if COMPILE == "never" else self.entries.get(family)
        if known is None:
            known = self.choose(arguments, ahead, most)
            if not isinstance(known, Interpreted):
                self.entries[family] = known
        return known

    def sources(self, classes: set[type]) -> str | None:
        """Digest of the texts that its code is made of, for such classes of arguments; None if they cannot be told.

        Those of the package are known by its files, others by what they say: the kernel, and those that are registered
        for classes.
        """
        others: list[Callable[..., Any]] = [] if is_known(self.__module__) else [self]
        for cls in sorted((cls for cls in classes if not is_known(cls.__module__)), key=repr):
            others += [call.table[cls] for call, _ in _operations if cls in call.table]
        digests = [digest for other in others if (digest := known_fingerprint(other)) is not None]
        return None if len(digests) < len(others) else " ".join([store.source_digest(self.__module__), *digests])

    def file_name(self, form: str, text: str) -> str:
        """Name of the file that keeps its compiled code in a form, for a signature as text."""
        return store.file_name(self.__module__, self.__name__, self.py_func.__code__.co_firstlineno, form, text)


#: In the place of the first type: arguments that hold Python callables.
_AROUND = "around"


class _Facts:
    """What is known of a kernel for arguments of certain types, as far as somebody asked."""

    def __init__(self, kernel: Kernel, types: Types) -> None:
        self._kernel = kernel
        self.name: str | None = None
        if types[:1] == (_AROUND,):
            keys = [key_of(code) if isinstance(code, int) else (code,) for code in types[1:] if code is not None]
        else:
            keys = list(map(key_of, types))
            text = key_text((tuple, *keys))
            if text is not None:
                self.name = kernel.file_name("whole", text)
        self._classes = classes_in((tuple, *keys))

    @cached_property
    def size(self) -> int:
        return worth.linked_size(self._kernel, self._classes)

    @cached_property
    def cost(self) -> float:
        return worth.cost(self.name, self.size)

    @cached_property
    def is_stored(self) -> bool:
        if self.name is None or (sources := self._kernel.sources(self._classes)) is None:
            return False
        return store.holds(self.name, sources)


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    plain: Callable[..., Any] | None = None,
    reductions: bool = False,
    memory: bool = False,
    noalias: bool = False,
    wide: bool = False,
    separate: bool = False,
) -> Any:
    """Make a kernel, which compiles without the GIL, by numpy's error model, and is stored on disk.

    Parameters
    ----------
    function : callable
        The kernel. It returns status codes and never raises.
    plain : callable, optional
        What stands for it where kernels run as plain Python: the same by array operations, for loops over entries that
        most of such a run's time would go to.
    reductions : bool, default False
        Allow the compiler to reorder sums, so that reductions vectorise.
    memory : bool, default False
        The kernel allocates, returns arrays, or calls a function that is not a kernel. The others count no
        references to arrays, which costs more than small loops do; so they cannot return arrays.
    noalias : bool, default False
        No element that the kernel writes is reached by two of its arguments, so that short loops need not begin
        with a comparison of the places of their arrays.
    wide : bool, default False
        Vectorise by 512 bits where the processor can. What is inlined goes by its caller.
    separate : bool, default False
        Kernels call it by its address, so that it is compiled once, not again inside each of them: for large kernels,
        which return an integer.
    """

    def decorate(py_func):
        options = {"reductions": reductions, "memory": memory, "noalias": noalias, "wide": wide, "separate": separate}
        return Kernel(py_func, plain, **options)

    return decorate if function is None else decorate(function)


_OUTSIDE: dict[Kernel, Callable[..., Any]] = {}


def outside(function: Any) -> Any:
    """The same kernel outside compiled code, for parameters that compiled code cannot take.

    A parameter class with a true attribute ``interpreted`` holds Python callables. Whatever kernel meets
    such parameters runs as plain Python in turn; the kernels it calls with arrays alone stay compiled.
    """
    if not isinstance(function, Kernel):
        return function
    if function not in _OUTSIDE:
        source = function.py_func
        names = dict(source.__globals__)
        _OUTSIDE[function] = types.FunctionType(
            source.__code__, names, source.__name__, source.__defaults__, source.__closure__
        )
        for name in source.__code__.co_names:
            if isinstance(names.get(name), Kernel):
                names[name] = _outside_where_needed(names[name])
    return _OUTSIDE[function]


def _outside_where_needed(function):
    def call(*args):
        interpreted = any(getattr(type(argument), "interpreted", False) for argument in args)
        return outside(function)(*args) if interpreted else function(*args)

    return call


class GenericCall(Protocol):
    """A generic operation as kernels call it: its implementations by class, and itself as plain Python."""

    table: dict[Any, Callable[..., Any]]
    twin: Callable[..., Any]

    def __call__(self, params: Any, *args: Any) -> Any: ...


#: Generic operations, and what finds an implementation for a class, for the engine.
_operations: list[tuple[GenericCall, Callable[[Any], Any]]] = []


def when_compiling(call: GenericCall, lookup: Callable[[Any], Any]) -> None:
    """Tells the engine, once there is one, of a generic operation; see `drsub_fast.engine.dispatch`."""
    _operations.append((call, lookup))
    if has_engine():
        engine().add_operation(call, lookup)
