"""The one decorator every kernel of the package wears, and when a kernel is compiled.

A kernel is a function that runs as plain Python or compiled, with the same text. Small problems are solved sooner
than their kernels are compiled, so a kernel runs as plain Python until compiled code is at hand (from this process
or the disk cache) or pays: `Kernel.choose`. Under a time limit (`drsub_fast.engine.clock`) nothing is compiled or
loaded that may take longer than what is left of it. The environment variable ``DRSUB_FAST_COMPILE`` says "auto" (that),
"now" (compile at the first call, whatever the time limit) or "never".

Numba is imported when code is compiled or loaded, not before. `drsub_fast.engine.linked` makes the code,
`drsub_fast.engine.plain` by Numba's public means alone: for versions of Numba that the former was not tested with, and
where ``DRSUB_FAST_ENGINE=plain`` asks for it.
"""

import logging
import os
import threading
import time
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from drsub_fast.engine import store
from drsub_fast.engine.alarm import alarm, no_alarm
from drsub_fast.engine.clock import OutOfTime, is_limited, thread_time_left
from drsub_fast.engine.signatures import example_of, key_of, key_text, type_code
from drsub_fast.engine.twins import twin

logger: logging.Logger = logging.getLogger("drsub_fast")


def _one_of(variable, choices):
    value = os.environ.get(variable) or choices[0]
    if value not in choices:
        raise ValueError(f"{variable} is {value!r}: choose from {', '.join(choices)}")
    return value


#: "auto": interpreted until compiling pays and there is time; "now": compiled at the first call; "never": interpreted.
COMPILE: str = _one_of("DRSUB_FAST_COMPILE", ("auto", "now", "never"))
if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
    COMPILE = "never"

#: Processor seconds of interpreted solves of one kind after which its kernels are compiled (a solver loop takes 5 to
#: 15 s), and of a single kernel called from Python (0.3 to 2 s).
_PATIENCE, _SHORT_PATIENCE = 2.0, 0.5

#: About the operations on array entries that plain Python does in `_PATIENCE`: 0.2 to 0.4 us each.
_MANY_OPERATIONS = 5_000_000

#: How often each kernel was called as plain Python beside the solver loops, and from which number on it is compiled
#: once a loop is: a program that has solved so much prepares each of its problems, too.
_helpers, _OFTEN = {}, 10

#: Seconds of a time limit that must be left for compiling (a solver loop takes 5 to 30 s, those of polytopes most), to
#: load compiled code (0.02 to 0.12 s), and to load the first, which brings Numba with it (0.4 s; where five processes
#: are busy on two processors 0.6 to 0.9 s).
_COMPILE_SECONDS, _LOAD_SECONDS, _FIRST_LOAD_SECONDS = 30.0, 0.25, 1.0

#: First version of Numba that `drsub_fast.engine.linked` was not tested with.
_UNTESTED_NUMBA = 0, 69

_state = threading.local()


def cache_folder() -> Any:
    """Where compiled kernels are stored; None where they are not."""
    return None if COMPILE == "never" else store.folders()[1]


@contextmanager
def compiling() -> Generator[Any, None, None]:
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
def engine() -> Any:
    """The module that compiles: `linked`, or `plain` for a Numba that is newer than those tested."""
    import numba

    chosen = _one_of("DRSUB_FAST_ENGINE", ("linked", "plain"))
    if chosen == "linked" and tuple(map(int, numba.__version__.split(".")[:2])) >= _UNTESTED_NUMBA:
        chosen = "plain"
        logger.info("Numba %s is newer than those tested: kernels are compiled by its public means", numba.__version__)
    # By name, since they build on this module.
    import_module("drsub_fast.engine.compiled_lapack")
    import_module("drsub_fast.engine.compiled_parts")
    import_module("drsub_fast.engine.compiled_prefetch")
    module = import_module(f"drsub_fast.engine.{chosen}")
    for call, table in _operations:
        module.add_operation(call, table)
    for kernel in _separates:
        module.add_separate(kernel)
    return module


def has_engine() -> bool:
    """Whether code has been compiled or loaded in this process."""
    return engine.cache_info().currsize > 0


def has_time(stored: bool = False) -> bool:
    """Whether the time limit of this thread leaves room for compiling, or for loading what is stored."""
    if COMPILE == "now" or not is_limited():
        return True
    if not stored:
        return thread_time_left() >= _COMPILE_SECONDS
    return thread_time_left() >= (_LOAD_SECONDS if has_engine() else _FIRST_LOAD_SECONDS)


class Interpreted:
    """A kernel as plain Python, timed: what it takes counts towards compiling it.

    Attributes
    ----------
    exhausted : bool
        Whether compiling pays by now.
    arrays : tuple of ndarray
        Arguments that Ctrl-C or the end of the time must not leave half-written: they get back what they were before
        the call.
    """

    arrays: Any

    def __init__(self, kernel: Any, kind: Any, patience: Any) -> None:
        self._kernel, self._kind, self._patience = kernel, kind, patience
        self.arrays = ()

    def __call__(self, *arguments: Any) -> Any:
        if self._patience == _SHORT_PATIENCE:
            called = self._kernel, self._kind
            _helpers[called] = _helpers.get(called, 0) + 1
        kept = [array.copy() for array in self.arrays]
        before = getattr(_state, "errors", None)
        _state.errors, _state.outside, began = before or np.geterr(), 0.0, time.thread_time()
        try:
            with np.errstate(all="ignore"), alarm():
                return self._kernel.interpreted(*arguments)
        except (KeyboardInterrupt, OutOfTime):
            for array, values in zip(self.arrays, kept, strict=True):
                array[:] = values
            raise
        finally:
            self.count(time.thread_time() - began - _state.outside)
            _state.errors = before

    def count(self, seconds: float) -> None:
        """Adds processor seconds of code that ran in the kernel's place."""
        spent = self._kernel.spent
        spent[self._kind] = spent.get(self._kind, 0.0) + seconds

    @property
    def exhausted(self) -> Any:
        return COMPILE == "auto" and self._kernel.spent.get(self._kind, 0.0) > self._patience


def is_small(operations: float) -> bool:
    """Whether a call that takes about so many operations on array entries may run as plain Python first."""
    return operations <= _MANY_OPERATIONS


def call_outside(function: Any, *arguments: Any) -> Any:
    """Calls a user's function from a kernel that runs as plain Python.

    It handles floating-point errors as the user has asked numpy to, and its time does not count as the kernel's.
    """
    errors = getattr(_state, "errors", None)
    if errors is None:
        return function(*arguments)
    began = time.thread_time()
    try:
        with np.errstate(**errors), no_alarm():
            return function(*arguments)
    finally:
        _state.outside += time.thread_time() - began


def _operations_with(arguments):
    """A rough count of what a kernel does with its arguments: n^1.5 for n array entries, as a product of matrices."""
    entries, rest = 0, list(arguments)
    while rest:
        value = rest.pop()
        if isinstance(value, tuple):
            rest += value
        elif isinstance(value, np.ndarray):
            entries += value.size
    return entries**1.5


class Kernel:
    """A function that kernels and Python can call, compiled or as plain Python.

    Attributes
    ----------
    py_func : function
        Its text.
    options : dict
        How it is compiled: the arguments of `kernel`.
    entries : dict
        Compiled code by the kind of its arguments, see `entry`.
    spent : dict
        Processor seconds of interpreted calls, by the kind of their arguments.
    """

    py_func: Any
    options: Any
    entries: Any
    spent: Any
    __name__: Any

    def __init__(self, py_func: Any, plain: Any = None, **options: Any) -> None:
        self.py_func, self.options = py_func, options
        self._plain_func = plain or py_func
        self.entries, self.spent = {}, {}
        self._code, self._dispatcher = {}, None
        self.__name__, self.__doc__, self.__module__ = py_func.__name__, py_func.__doc__, py_func.__module__
        self.__wrapped__ = py_func

    def __reduce__(self) -> Any:
        return self.py_func.__qualname__

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__name__}>"

    def __call__(self, *arguments: Any) -> Any:
        if self._dispatcher is not None:
            return self._dispatcher(*arguments)
        return self.choose_call(arguments)(*arguments)

    def choose_call(self, arguments: Any) -> Any:
        """What to call for ``arguments`` of a kernel that is no solver loop."""
        return self.choose(arguments, _operations_with(arguments), _SHORT_PATIENCE)

    @cached_property
    def interpreted(self) -> Any:
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

    def choose(self, arguments: Any, operations: float, patience: float = _PATIENCE) -> Any:
        """What to call for ``arguments``: compiled code if it is there or pays, else `Interpreted`.

        Parameters
        ----------
        arguments : tuple
            Arguments of the call to come.
        operations : float
            About how many operations on array entries it takes.
        patience : float
            Processor seconds to spend interpreted.
        """
        kind = tuple(map(type_code, arguments))
        code = self._code.get(kind)
        if code is not None:
            return code
        if COMPILE == "never":
            return Interpreted(self, kind, patience)
        stored = not compiles_at_once() and self._is_stored(kind)
        interpreted = Interpreted(self, kind, patience)
        if not has_time(stored):
            return interpreted
        if is_small(operations) and not (compiles_at_once() or stored or interpreted.exhausted):
            return interpreted
        return self.compile(kind, arguments)

    def compile(self, kind: Any, arguments: Any) -> Any:
        """Compiled code for arguments of a kind, loaded from the cache if it is there."""
        if not compiles_at_once() and not self._is_stored(kind):
            folder = cache_folder()
            logger.info(
                "compiling %s.%s: some seconds, once%s; `drsub-fast warmup` does it ahead, DRSUB_FAST_COMPILE=never "
                "avoids it", self.__module__, self.__name__, f", stored in {folder}" if folder else "",
            )  # fmt: skip
        with compiling():
            code = self._code[kind] = engine().compile(self, arguments)
        self._dispatcher = self.standalone
        return code

    def _is_stored(self, kind):
        """Whether the disk cache seems to have code for arguments of a kind."""
        text = key_text((tuple, *map(key_of, kind)))
        return text is not None and store.holds(self.file_name("whole", text), self.__module__)

    def file_name(self, form: Any, text: str) -> Any:
        """Name of the file that keeps its compiled code in a form, for a signature as text."""
        return store.file_name(self.__module__, self.__name__, self.py_func.__code__.co_firstlineno, form, text)

    def choose_around(self, kind: Any, operations: Any) -> Any:
        """What to call for arguments that hold Python callables: all as plain Python until compiling the rest pays."""
        interpreted = Interpreted(self, kind, _PATIENCE)
        if COMPILE == "never" or not has_time(False):
            return interpreted
        if is_small(operations) and not (compiles_at_once() or interpreted.exhausted):
            return interpreted
        return compiling()(plain(self))

    def entry(self, kind: Any, arguments: Any, operations: Any) -> Any:
        """What to call for ``arguments``, found without looking at their types.

        Finding the types of a dozen arrays takes longer than a small solve. ``kind`` says what they are,
        see `type_code`; ``operations`` as in `choose`.
        """
        known = self.entries.get(kind)
        if known is None:
            known = self.choose(arguments, operations)
            if not isinstance(known, Interpreted):
                self.entries[kind] = known
                _compile_helpers()
        return known


def _compile_helpers():
    if not has_time():
        return
    with compiling():
        for (kernel, kind), count in list(_helpers.items()):
            # Another thread may be at it, too.
            if count < _OFTEN or _helpers.pop((kernel, kind), None) is None:
                continue
            kernel.compile(kind, tuple(example_of(key_of(code)) for code in kind))


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    plain: Callable[..., Any] | None = None,
    reductions: bool = False,
    memory: bool = False,
    noalias: bool = False,
    wide: bool = False,
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
    """

    def decorate(py_func):
        return Kernel(py_func, plain, reductions=reductions, memory=memory, noalias=noalias, wide=wide)

    return decorate if function is None else decorate(function)


_PLAIN = {}


def plain(function: Any) -> Any:
    """The same kernel as plain Python, for parameters that compiled code cannot take.

    A parameter class with a true attribute ``interpreted`` holds Python callables. Whatever kernel meets
    such parameters runs as plain Python in turn; the kernels it calls with arrays alone stay compiled.
    """
    if not isinstance(function, Kernel):
        return function
    if function not in _PLAIN:
        source = function.py_func
        names = dict(source.__globals__)
        _PLAIN[function] = types.FunctionType(
            source.__code__, names, source.__name__, source.__defaults__, source.__closure__
        )
        for name in source.__code__.co_names:
            if isinstance(names.get(name), Kernel):
                names[name] = _plain_where_needed(names[name])
    return _PLAIN[function]


def _plain_where_needed(function):
    def call(*args):
        interpreted = any(getattr(type(argument), "interpreted", False) for argument in args)
        return plain(function)(*args) if interpreted else function(*args)

    return call


#: Generic operations, with their tables, and separate kernels, for the engine.
_operations, _separates = [], []


def when_compiling(call: Any, table: Any) -> None:
    """Tells the engine, once there is one, of a generic operation; see `drsub_fast.engine.dispatch`."""
    _operations.append((call, table))
    if has_engine():
        engine().add_operation(call, table)


class Separate(NamedTuple):
    """A kernel that is compiled once, not again inside every loop that calls it: see `separate`.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    example : callable
        Returns arguments of the types that all calls have.
    call : function
        What kernels call.
    """

    kernel: Kernel
    example: Callable[..., Any]
    call: Callable[..., Any]


def separate(example: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that is compiled once, not again inside every loop that calls it: for large kernels.

    Parameters
    ----------
    example : callable
        Returns arguments of the types that all calls have: C-contiguous arrays of float64 and int64, and numbers.

    Returns
    -------
    decorate : callable
        For a kernel that returns an integer.
    """

    def decorate(function):
        def call(*arguments):
            return function(*arguments)

        call.twin = lambda *arguments: function.interpreted(*arguments)
        call.kernel = function
        kernel = Separate(function, example, call)
        _separates.append(kernel)
        if has_engine():
            engine().add_separate(kernel)
        return call

    return decorate


def call_alone(function: Any, arguments: Any) -> Any:
    """Calls a kernel that returns an integer from another one, not linked in: it is compiled on its own anyway."""
    return function(*arguments)
