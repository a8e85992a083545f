"""The one decorator every kernel of the package wears.

A kernel is compiled without the GIL, with numpy's floating-point error model, and cached on disk. The
cache is stamped with a digest of all sources that a kernel may link in, because a solver loop inlines kernels
from other files: an edit of any of them makes the cached loop stale, which Numba's own stamp (the file
of the loop alone) would miss.

The cache lives in the first writable of: ``$DRSUB_FAST_CACHE_DIR``, ``$NUMBA_CACHE_DIR``, the package's
own ``__pycache__``, the user's cache folder. Where none is writable, kernels are compiled in memory and
nothing is stored.
"""

import ctypes
import hashlib
import logging
import math
import os
import signal
import tempfile
import threading
import time
import types
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path

import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import add_symbol, parse_bitcode
from numba import config
from numba.core import cgutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.core.typing.templates import signature as make_signature
from numba.extending import lower_builtin, models, register_model

from drsub_fast.engine import floats

logger = logging.getLogger("drsub_fast")

#: Floating-point freedoms for kernels whose sums may be reordered. Infinities and NaN keep their
#: meaning: the full ``fastmath`` would remove the checks that find them.
REDUCTION_FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz"})

_PACKAGE = Path(__file__).resolve().parents[1]

#: What is linked into kernels of other folders. None of it imports from a place outside the list.
_SHARED = ("engine", "lp", "objectives", "sets", "solvers", "problems/orthant.py")


@cache
def _source_digest(module):
    """Hash of the sources that a kernel of a module may link in, names included.

    They are the shared folders and the module's own folder, or the file itself where it stands beside the folders.
    An edit elsewhere (a figure, a subcommand) leaves the compiled code in force.
    """
    own = module.removeprefix("drsub_fast.").partition(".")[0]
    places = (*_SHARED, own, f"{own}.py")
    files = {
        path
        for place in places
        for path in ((_PACKAGE / place).rglob("*.py") if (_PACKAGE / place).is_dir() else [_PACKAGE / place])
        if path.is_file()
    }
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(str(path.relative_to(_PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _candidate_folders():
    """Folders that may hold the cache, in order of preference."""
    for variable in ("DRSUB_FAST_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "drsub_fast"
    yield _PACKAGE / "__pycache__" / "kernels"
    place = hashlib.sha256(str(_PACKAGE).encode()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    yield Path(base) / "drsub_fast" / place


def _writable_folder():
    """The first candidate that takes a file, or None."""
    for folder in _candidate_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


def _compile_mode():
    """When kernels are compiled, by ``DRSUB_FAST_COMPILE``: "auto", "now" or "never"."""
    mode = os.environ.get("DRSUB_FAST_COMPILE") or "auto"
    if mode not in ("auto", "now", "never"):
        raise ValueError(f"DRSUB_FAST_COMPILE is {mode!r}: choose auto, now or never")
    return "never" if config.DISABLE_JIT else mode


#: "auto": interpreted until compiling pays; "now": compiled at the first call; "never": interpreted.
COMPILE = _compile_mode()

#: Where compiled kernels are stored; None when they are not.
CACHE_FOLDER = None if COMPILE == "never" else _writable_folder()


class _PackageLocator(_CacheLocator):
    """Places the cache of one kernel and stamps it with the digest of the package."""

    form = ""

    def __init__(self, py_func, py_file):
        self._py_file, self._module = py_file, py_func.__module__
        module = py_func.__module__.removeprefix("drsub_fast").strip("._")
        self._disambiguator = f"{module or 'top'}-{py_func.__code__.co_firstlineno}{self.form}"

    def get_cache_path(self):
        return str(CACHE_FOLDER)

    def get_source_stamp(self):
        return _source_digest(self._module)

    def get_disambiguator(self):
        return self._disambiguator

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls(py_func, py_file)


class _LinkedLocator(_PackageLocator):
    form = "-linked"


def _is_importable(numba_type):
    """Whether a type can be found again by another process (a class made at run time cannot)."""
    cls = getattr(numba_type, "instance_class", None)
    if cls is not None and getattr(cls, "transient", False):
        return False
    return all(_is_importable(part) for part in getattr(numba_type, "types", ()))


class _Code(JITCodeLibrary):
    """Code whose loops may be vectorised by 512 bits: LLVM keeps to 256 unless it is told."""

    wide = False

    def add_ir_module(self, ir_module):
        if self.wide:
            for function in ir_module.functions:
                if not function.is_declaration:
                    # An attribute with a value: `add` of llvmlite knows plain ones only.
                    set.add(function.attributes, '"prefer-vector-width"="512"')
        super().add_ir_module(ir_module)


def _holds_arrays(numba_type):
    return isinstance(numba_type, numba.types.Array) or any(map(_holds_arrays, getattr(numba_type, "types", ())))


class _LinkedCode(_Code):
    """Code that exists to be linked into its callers: optimised and translated there, not here as well.

    Numba would optimise a kernel once for itself and once more at each level of callers above it, and make machine
    code of every stage.
    """

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0

    def serialize_using_object_code(self):
        return self.serialize_using_bitcode()

    @property
    def codegen(self):
        return self

    def set_env(self, name, environment):
        """Kernels never raise, so none needs the environment that Numba would store here."""


class _WholeCode(_Code):
    """Code with everything it calls linked in, which nobody else calls.

    LLVM inlines what is called once, and passes only arguments that are used to the rest.
    """

    def __init__(self, codegen, name):
        super().__init__(codegen, name)
        self.enable_object_caching()

    def _optimize_final_module(self):
        for function in self._final_module.functions:
            if function.linkage.name == "linkonce_odr" and not function.is_declaration:
                function.linkage = "internal"
                # The loader finds local symbols of other code too, whose arguments may be others now.
                function.name += ".whole"
        super()._optimize_final_module()


class _KernelCompiler(Compiler):
    """What the compilers of kernels share; `_compiler` says which code they make, and how."""

    def __init__(self, typing_context, target_context, library, arguments, return_type, flags, *args):
        flags.noalias = self.apart
        library = self.code(target_context.codegen(), "kernel")
        library.wide = self.wide
        super().__init__(typing_context, target_context, library, arguments, return_type, flags, *args)

    def compile_extra(self, function):
        result = super().compile_extra(function)
        if not self.state.flags.nrt and _holds_arrays(result.signature.return_type):
            raise TypingError(f"{function.__name__} returns arrays to Python uncounted: it needs memory=True")
        return result


@cache
def _compiler(code, apart, wide):
    return type("KernelCompiler", (_KernelCompiler,), {"code": code, "apart": apart, "wide": wide})


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_PackageLocator]

    def check_cachable(self, cres):
        if not all(_is_importable(argument) for argument in cres.signature.args):
            return False
        return super().check_cachable(cres)


class _LinkedCacheImpl(_KernelCacheImpl):
    _locator_classes = [_LinkedLocator]

    def rebuild(self, target_context, payload):
        (name, _, code), fndesc, environment, signature, *_ = payload
        library = _LinkedCode(target_context.codegen(), name)
        library._final_module = parse_bitcode(code)
        library._finalize_final_module()
        return CompileResult(
            typing_context=target_context.typing_context,
            target_context=target_context,
            entry_point=target_context.get_executable(library, fndesc, environment),
            typing_error=None,
            type_annotation="",
            signature=signature,
            objectmode=False,
            lifted=(),
            fndesc=fndesc,
            library=library,
            call_helper=None,
            environment=environment,
            metadata=None,
            reload_init=(),
            referenced_envs=(),
        )


class _KernelCache(FunctionCache):
    _impl_class = _KernelCacheImpl

    def __init__(self, py_func):
        super().__init__(py_func)
        # Compared before the index is unpickled: its signatures name classes that this version of the
        # package may not have.
        self._cache_file._version += f" {_source_digest(py_func.__module__)}"

    def load_overload(self, sig, target_context):
        arguments = sig if isinstance(sig, tuple) else sig.args
        if not all(_is_importable(argument) for argument in arguments):
            return None
        return super().load_overload(sig, target_context)


class _LinkedCache(_KernelCache):
    _impl_class = _LinkedCacheImpl


class _KernelType(numba.types.Dispatcher):
    """Type of a kernel inside compiled code."""


register_model(_KernelType)(models.OpaqueModel)


@lower_constant(_KernelType)
def _no_value(context, builder, kernel_type, kernel_object):
    # Numba would store the address of the Python object, which nothing reads and which no other process can use.
    return context.get_dummy_value()


#: Processor seconds of interpreted solves of one kind after which its kernels are compiled (a solver loop takes 5 to
#: 15 s), and of a single kernel called from Python (0.3 to 2 s).
_PATIENCE, _SHORT_PATIENCE = 2.0, 0.5

#: About the operations on array entries that plain Python does in `_PATIENCE`: 0.2 to 0.4 us each.
_MANY_OPERATIONS = 5_000_000

_state = threading.local()


@contextmanager
def compiling():
    """Within it, kernels that this thread calls from Python are compiled at once."""
    before = getattr(_state, "compiling", False)
    _state.compiling = True
    try:
        yield
    finally:
        _state.compiling = before


#: How often each kernel was called as plain Python beside the solver loops, and from which number on it is compiled
#: once a loop is: a program that has solved so much prepares each of its problems, too.
_helpers, _OFTEN = {}, 10


def _compile_helpers():
    with compiling():
        for kernel, signature in [called for called, count in _helpers.items() if count >= _OFTEN]:
            del _helpers[kernel, signature]
            kernel.standalone.compile(signature)


class Interpreted:
    """A kernel as plain Python, timed: what it takes counts towards compiling it.

    Attributes
    ----------
    exhausted : bool
        Whether compiling pays by now.
    arrays : tuple of ndarray
        Arguments that Ctrl-C must not leave half-written: they get back what they were before the call.
    """

    def __init__(self, kernel, kind, patience):
        self._kernel, self._kind, self._patience = kernel, kind, patience
        self.arrays = ()

    def __call__(self, *arguments):
        if self._patience == _SHORT_PATIENCE:
            called = self._kernel, self._kind
            _helpers[called] = _helpers.get(called, 0) + 1
        kept = [array.copy() for array in self.arrays]
        began = time.thread_time()
        try:
            with np.errstate(all="ignore"):
                return self._kernel.interpreted(*arguments)
        except KeyboardInterrupt:
            for array, values in zip(self.arrays, kept, strict=True):
                array[:] = values
            raise
        finally:
            spent = self._kernel.spent
            spent[self._kind] = spent.get(self._kind, 0.0) + time.thread_time() - began

    @property
    def exhausted(self):
        return COMPILE == "auto" and self._kernel.spent.get(self._kind, 0.0) > self._patience


class _Standalone(CPUDispatcher):
    """A kernel as an ordinary Numba function, which Python calls."""

    def __init__(self, kernel, options, wide):
        super().__init__(kernel.py_func, {}, {"nopython": True} | options, _compiler(_WholeCode, False, wide))
        self._kernel = kernel
        if CACHE_FOLDER is not None:
            self._cache = _KernelCache(kernel.py_func)

    def _compile_for_args(self, *arguments):
        # Numba's dispatcher comes here for types that it has no code for, and calls what it gets.
        if COMPILE == "now" or getattr(_state, "compiling", False):
            return super()._compile_for_args(*arguments)
        return self._kernel.choose(arguments, _operations(arguments), _SHORT_PATIENCE)

    def load(self, signature):
        """Compiled code for a signature if this process or the cache has it, else None."""
        known = self.overloads.get(signature)
        if known is None:
            with global_compiler_lock:
                known = self._cache.load_overload(signature, self.targetctx)
                if known is not None:
                    self._cache_hits[signature] += 1
                    self.targetctx.insert_user_function(known.entry_point, known.fndesc, [known.library])
                    self.add_overload(known)
        return None if known is None else known.entry_point


def _operations(arguments):
    """A rough count of what a kernel does with its arguments: n^1.5 for n array entries, as a product of matrices."""
    entries, rest = 0, list(arguments)
    while rest:
        value = rest.pop()
        if isinstance(value, tuple):
            rest += value
        elif isinstance(value, np.ndarray):
            entries += value.size
    return entries**1.5


#: Types whose numbers are in use: Numba gives another number to a type that it has forgotten.
_numbered = set()


class Kernel(CPUDispatcher):
    """A function that other kernels and Python can call, compiled or as plain Python.

    For kernels it is code to be linked into theirs. What Python calls is `standalone`, compiled when that pays.
    Either is compiled once for all calls with arguments of the same types: Numba would compile it anew for each
    combination of literal numbers among them.

    Attributes
    ----------
    entries : dict
        Compiled code by the kind of its arguments, see `entry`.
    spent : dict
        Seconds of interpreted calls, by their kind.
    """

    def __init__(self, py_func, apart, wide, **options):
        self._options, self._wide, self.entries, self.spent = options, wide, {}, {}
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        compiler = _compiler(_LinkedCode, apart, wide)
        super().__init__(py_func, {}, {"nopython": True} | options | wrappers, compiler)
        self.typingctx._remove_global(self)
        self.typingctx.insert_global(self, self._numba_type_)
        if CACHE_FOLDER is not None:
            self._cache = _LinkedCache(py_func)

    def __call__(self, *arguments):
        return self.standalone(*arguments)

    def get_call_template(self, arguments, keywords):
        return super().get_call_template([numba.types.unliteral(argument) for argument in arguments], keywords)

    @property
    def _numba_type_(self):
        return _KernelType(self)

    @cached_property
    def standalone(self):
        """The kernel as Python calls it."""
        if COMPILE == "never":
            return Interpreted(self, None, np.inf)
        return _Standalone(self, self._options, self._wide)

    @cached_property
    def interpreted(self):
        """The kernel as plain Python, and all that it calls."""
        return _twin(self.py_func)

    def choose(self, arguments, operations, patience=_PATIENCE):
        """What to call for ``arguments``: compiled code if it is there or pays, else `Interpreted`.

        Parameters
        ----------
        arguments : tuple
            Arguments of the call to come.
        operations : float
            About how many operations on array entries it takes.
        patience : float
            Seconds to spend interpreted.
        """
        if COMPILE == "never":
            return self.standalone
        return self._choose(tuple(map(numba.typeof, arguments)), operations, patience)

    def _choose(self, signature, operations, patience):
        known = self.standalone.load(signature)
        if known is not None:
            return known
        if COMPILE == "auto" and not getattr(_state, "compiling", False):
            interpreted = Interpreted(self, signature, patience)
            if operations <= _MANY_OPERATIONS and not interpreted.exhausted:
                return interpreted
            logger.info(
                "compiling %s.%s: some seconds, once%s; `drsub-fast warmup` does it ahead, DRSUB_FAST_COMPILE=never "
                "avoids it", self.py_func.__module__, self.py_func.__name__,
                "" if CACHE_FOLDER is None else f", stored in {CACHE_FOLDER}",
            )  # fmt: skip
        with compiling():
            return self.standalone.compile(signature)

    def choose_around(self, kind, operations):
        """What to call for arguments that hold Python callables: all as plain Python until compiling the rest pays."""
        interpreted = Interpreted(self, kind, _PATIENCE)
        if COMPILE == "never" or (COMPILE == "auto" and operations <= _MANY_OPERATIONS and not interpreted.exhausted):
            return interpreted
        return compiling()(plain(self))

    def entry(self, kind, arguments, operations):
        """What to call for ``arguments``, found without looking at their types.

        Numba takes longer to find the types of a dozen arrays than a small solve takes. ``kind`` says what they are,
        see `type_code`; ``operations`` as in `choose`.
        """
        known = self.entries.get(kind)
        if known is None:
            known = self.choose(arguments, operations)
            if not isinstance(known, Interpreted):
                self.entries[kind] = known
                _compile_helpers()
        return known


def type_code(value):
    """A number for the type that a value has in compiled code."""
    numba_type = numba.typeof(value)
    _numbered.add(numba_type)
    return numba_type._code


def kernel(function=None, *, reductions=False, memory=False, apart=False, wide=False):
    """Compile a kernel: ``nogil``, numpy's error model, stored on disk.

    Parameters
    ----------
    function : callable
        The kernel. It returns status codes and never raises.
    reductions : bool, default False
        Allow the compiler to reorder sums (`REDUCTION_FLAGS`), so that reductions vectorise.
    memory : bool, default False
        The kernel allocates, returns arrays, or calls a function that is not a kernel. The others count no
        references to arrays, which costs more than small loops do; so they cannot return arrays to Python.
    apart : bool, default False
        No element that the kernel writes is reached by two of its arguments, so that short loops need not begin
        with a comparison of the places of their arrays.
    wide : bool, default False
        Vectorise by 512 bits where the processor can. What is inlined goes by its caller.
    """

    def decorate(py_func):
        flags = set(REDUCTION_FLAGS) if reductions else False
        return Kernel(py_func, apart, wide, nogil=True, error_model="numpy", fastmath=flags, _nrt=memory)

    return decorate if function is None else decorate(function)


_PLAIN = {}


def plain(function):
    """The same kernel as plain Python, for parameters that compiled code cannot take.

    A parameter class with a true attribute ``interpreted`` holds Python callables. Whatever kernel meets
    such parameters runs as plain Python in turn; the kernels it calls with arrays alone stay compiled.
    """
    if not isinstance(function, Dispatcher):
        return function
    if function not in _PLAIN:
        source = function.py_func
        names = dict(source.__globals__)
        _PLAIN[function] = types.FunctionType(
            source.__code__, names, source.__name__, source.__defaults__, source.__closure__
        )
        for name in source.__code__.co_names:
            if isinstance(names.get(name), Dispatcher):
                names[name] = _plain_where_needed(names[name])
    return _PLAIN[function]


def _plain_where_needed(function):
    def call(*args):
        interpreted = any(getattr(type(argument), "interpreted", False) for argument in args)
        return plain(function)(*args) if interpreted else function(*args)

    return call


_NAMESPACES = {}


def _twin(function):
    """A function as plain Python that calls no compiled code: the same text with its names bound to twins.

    Numbers follow C in it, as in compiled code: see `drsub_fast.engine.floats`.
    """
    cells = function.__closure__
    if cells is not None:
        cells = tuple(types.CellType(_twin_of(cell.cell_contents)) for cell in cells)
    return types.FunctionType(
        function.__code__, _namespace(function.__globals__), function.__name__, function.__defaults__, cells
    )


def _namespace(names):
    """Globals of the twins of a module."""
    known = _NAMESPACES.get(id(names))
    if known is None:
        # Entered before it is filled: modules may refer to each other.
        known = _NAMESPACES[id(names)] = dict(names)
        for name, value in names.items():
            known[name] = _twin_of(value)
    return known


def _twin_of(value):
    """What stands for a value in plain Python."""
    if value is math:
        return floats
    if isinstance(value, Kernel):
        return value.interpreted
    if isinstance(value, Dispatcher):
        return _twin(value.py_func)
    return getattr(value, "interpreted_twin", value) if isinstance(value, types.FunctionType) else value


def separate(example):
    """A kernel that is compiled once, not again inside every loop that calls it: for large kernels.

    Compiled code finds its address in a cell in memory, whose symbol is registered here, at import, so that code from
    the disk cache is linked to the cell of its process. The first call fills the cell.

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
        name = f"{function.py_func.__module__}.{function.py_func.__name__}"
        cell = ctypes.c_int64(0)
        lock = threading.Lock()

        @cache
        def argument_types():
            return tuple(map(numba.typeof, example()))

        def fill():
            """Compiles the kernel. Ctrl-C waits until it has been: it cannot pass through compiled code."""
            interrupted = False
            with lock:
                while not cell.value:
                    try:
                        with compiling():
                            function.standalone.compile(argument_types())
                        result = function.standalone.overloads[argument_types()]
                        address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
                        cell.value = address
                    except KeyboardInterrupt:
                        interrupted = True
            if interrupted:
                signal.raise_signal(signal.SIGINT)
            return cell.value

        callback = ctypes.CFUNCTYPE(ctypes.c_int64)(fill)
        add_symbol(f"{name}.cell", ctypes.addressof(cell))
        add_symbol(f"{name}.fill", ctypes.cast(callback, ctypes.c_void_p).value)

        def call(*arguments):
            return function(*arguments)

        def twin(*arguments):
            return function.interpreted(*arguments)

        call.interpreted_twin, call.kernel = twin, function
        call.kept = cell, callback

        class Template(AbstractTemplate):
            key = call

            def generic(self, arguments, keywords):
                return make_signature(numba.types.int64, *map(numba.types.unliteral, arguments))

        infer_global(call, numba.types.Function(Template))

        @lower_builtin(call, numba.types.VarArg(numba.types.Any))
        def generate(context, builder, signature, values):
            convention, integer = context.call_conv, ir.IntType(64)
            function_type = convention.get_function_type(numba.types.int64, signature.args)
            if function_type != convention.get_function_type(numba.types.int64, argument_types()):
                raise TypingError(f"{name} takes {argument_types()}, got {signature.args}")
            if not all(map(_is_contiguous, signature.args)):
                raise TypingError(f"{name} takes C-contiguous arrays, got {signature.args}")
            place = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), f"{name}.cell")
            fill = cgutils.get_or_insert_function(builder.module, ir.FunctionType(integer, []), f"{name}.fill")
            address = cgutils.alloca_once_value(builder, builder.load(builder.bitcast(place, integer.as_pointer())))
            empty = builder.icmp_unsigned("==", builder.load(address), integer(0))
            with builder.if_then(empty, likely=False):
                builder.store(builder.call(fill, []), address)
            callee = builder.inttoptr(builder.load(address), function_type.as_pointer())
            # A kernel never raises, so its status is not looked at.
            _, result = convention.call_function(builder, callee, numba.types.int64, signature.args, values)
            return result

        return call

    return decorate


def _is_contiguous(numba_type):
    if isinstance(numba_type, numba.types.Array):
        return numba_type.layout == "C"
    return all(map(_is_contiguous, getattr(numba_type, "types", ())))
