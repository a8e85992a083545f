"""The one decorator every kernel of the package wears.

A kernel is compiled without the GIL, with numpy's floating-point error model, and cached on disk. The
cache is stamped with a digest of all sources that a kernel may link in, because a solver loop inlines kernels
from other files: an edit of any of them makes the cached loop stale, which Numba's own stamp (the file
of the loop alone) would miss.

The cache lives in the first writable of: ``$DRSUB_FAST_CACHE_DIR``, ``$NUMBA_CACHE_DIR``, the package's
own ``__pycache__``, the user's cache folder. Where none is writable, kernels are compiled in memory and
nothing is stored.
"""

import hashlib
import os
import tempfile
import types
from functools import cache, cached_property
from pathlib import Path

import numba
from llvmlite.binding import parse_bitcode
from numba import config, njit
from numba.core import cgutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic, models, overload, register_model

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


#: Where compiled kernels are stored; None when they are not.
CACHE_FOLDER = None if config.DISABLE_JIT else _writable_folder()


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
        if self.code is _WholeCode and not self.state.flags.nrt and _holds_arrays(result.signature.return_type):
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


class Kernel(CPUDispatcher):
    """A compiled function that other kernels and Python can call.

    For kernels it is code to be linked into theirs. What Python calls is `standalone`, compiled when it first does.
    Either is compiled once for all calls with arguments of the same types: Numba would compile it anew for each
    combination of literal numbers among them.
    """

    def __init__(self, py_func, apart, wide, **options):
        self._options, self._wide, self._entries = options, wide, {}
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
        """The kernel as an ordinary Numba function."""
        dispatcher = njit(**self._options, pipeline_class=_compiler(_WholeCode, False, self._wide))(self.py_func)
        if CACHE_FOLDER is not None:
            dispatcher._cache = _KernelCache(self.py_func)
        return dispatcher

    def entry(self, kind, arguments):
        """The compiled code for ``arguments``, which does not look at their types.

        Numba takes longer to find the types of a dozen arrays than a small solve takes. ``kind`` says what they are,
        see `type_code`.
        """
        known = self._entries.get(kind)
        if known is None:
            signature = tuple(map(numba.typeof, arguments))
            self.standalone.compile(signature)
            known = self._entries[kind] = self.standalone.overloads[signature].entry_point
        return known


def type_code(value):
    """A number for the type that a value has in compiled code."""
    return numba.typeof(value)._code


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
        if config.DISABLE_JIT:
            return py_func
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


def address_of(function, *arguments):
    """Address of a kernel compiled for arguments like these, for `call_at`; 0 where kernels are not compiled.

    It holds for this process only.
    """
    if not isinstance(function, Dispatcher):
        return 0
    function = function.standalone
    signature = tuple(numba.typeof(argument) for argument in arguments)
    function.compile(signature)
    compiled = function.get_compile_result(numba.core.typing.signature(None, *signature))
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


@intrinsic
def _call_at(typing_context, address, arguments):
    for argument in arguments:
        for part in getattr(argument, "types", (argument,)):
            if isinstance(part, numba.types.Array) and part.layout != "C":
                raise TypingError(f"a kernel called by its address takes C-contiguous arrays, got {part}")
            if numba.types.unliteral(getattr(part, "dtype", part)) not in (numba.types.float64, numba.types.int64):
                raise TypingError(f"a kernel called by its address takes float64 and int64, got {part}")

    def generate(context, builder, signature, values):
        types_of_arguments = signature.args[1].types
        function_type = context.call_conv.get_function_type(numba.types.int64, types_of_arguments)
        function = builder.inttoptr(values[0], function_type.as_pointer())
        # A kernel never raises, so its status is not looked at.
        _, result = context.call_conv.call_function(
            builder, function, numba.types.int64, types_of_arguments, cgutils.unpack_tuple(builder, values[1])
        )
        return result

    return numba.types.int64(address, arguments), generate


def call_at(function, address, arguments):
    """Call ``function``, a kernel that returns an int64, by its address.

    The callee is compiled once, not again inside every loop that calls it: for large kernels.
    """
    return function(*arguments)


@overload(call_at)
def _compiled_call_at(function, address, arguments):
    return lambda function, address, arguments: _call_at(address, arguments)
