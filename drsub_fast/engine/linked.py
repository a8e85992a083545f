"""Kernels by Numba, each linked into its callers, cached on disk.

Numba compiles a function once for itself and once more at each level of callers above it. Here a kernel that others
call is left as it is, to be optimised and translated there, where what is called once is inlined and unused arguments
are gone; and what Python calls is compiled with all that it calls. This takes the inside of Numba, of the versions that
the package asks for: `PRIVATE` lists what is used.
"""

import gc
import hashlib
import io
import logging
import pickle
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import Any

import numba
from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.imputils import lower_constant
from numba.core.registry import CPUDispatcher
from numba.core.serialize import NumbaPickler
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin, models, register_model, typeof_impl
from numba.np.numpy_support import as_dtype

from drsub_fast.engine import store
from drsub_fast.engine.compiled import CELLS, Signature, call_by_cell, cell_of
from drsub_fast.engine.jit import GenericCall, Kernel, compiles_at_once
from drsub_fast.engine.signatures import Key, classes_in, key_text
from drsub_fast.errors import UnsupportedError

logger: logging.Logger = logging.getLogger("drsub_fast")

#: What this file and `drsub_fast.engine.compiled` use of Numba and llvmlite that they do not promise to keep.
PRIVATE: dict[str, tuple[str, ...]] = {
    "numba.core.cgutils": ("alloca_once_value", "get_or_insert_function", "pack_array", "unpack_tuple"),
    "numba.core.codegen.JITCodeLibrary": (
        "_finalize_dynamic_globals", "_finalize_final_module", "_optimize_final_module", "add_ir_module",
        "enable_object_caching", "get_pointer_to_function", "has_dynamic_globals", "serialize_using_bitcode",
        "serialize_using_object_code",
    ),
    "numba.core.compiler.CompileResult": ("_rebuild", "_reduce", "entry_point", "fndesc", "library", "lifted"),
    "numba.core.compiler.Compiler": ("compile_extra",),
    "numba.core.imputils": ("lower_constant",),
    "numba.core.registry.CPUDispatcher": ("_compile_for_args", "compile", "get_call_template"),
    "numba.core.serialize.NumbaPickler": ("persistent_id",),
    "numba.core.types.Dispatcher": ("get_call_type", "get_overload"),
    "numba.core.typing.templates": ("AbstractTemplate", "infer_global"),
    "numba.extending": ("get_cython_function_address", "intrinsic", "lower_builtin", "models", "typeof_impl"),
    "numba.np.numpy_support": ("as_dtype",),
    "llvmlite.binding": (
        "add_symbol", "get_host_cpu_features", "get_host_cpu_name", "llvm_version_info", "parse_bitcode",
    ),
}  # fmt: skip

#: Floating-point freedoms for kernels whose sums may be reordered. Infinities and NaN keep their
#: meaning: the full ``fastmath`` would remove the checks that find them.
REDUCTION_FLAGS = frozenset({"reassoc", "contract", "arcp", "nsz"})


# Code.


class _Code(JITCodeLibrary):
    """Code whose loops may be vectorised by 512 bits: LLVM keeps to 256 unless it is told.

    Attributes
    ----------
    cells : list of str
        Names of the cells of what it calls by its address.
    """

    wide = False
    cells: list[str] = []

    def add_ir_module(self, ir_module):
        if self.wide:
            for function in ir_module.functions:
                if not function.is_declaration:
                    # An attribute with a value: `add` of llvmlite knows plain ones only.
                    set.add(function.attributes, '"prefer-vector-width"="512"')
        super().add_ir_module(ir_module)

    def note_cells(self):
        """Looks up which cells the code refers to."""
        names = [function.name for function in self._final_module.functions if function.is_declaration]
        self.cells = [name.removesuffix(".cell") for name in names if name.endswith(".cell")]


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
        # A process that loads this code makes them, for the code that it is linked into.
        self.note_cells()

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
        self.note_cells()


def _holds_arrays(numba_type):
    return isinstance(numba_type, numba.types.Array) or any(map(_holds_arrays, getattr(numba_type, "types", ())))


@contextmanager
def _no_collection() -> Generator[None, None, None]:
    """While Numba makes objects by the million, most of which stay, looking for garbage takes a tenth of the time."""
    was_enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()


class _KernelCompiler(Compiler):
    """What the compilers of kernels share; `_compiler` says which code they make, and how."""

    code: type[_Code]
    noalias: bool
    wide: bool

    def __init__(self, typing_context, target_context, library, arguments, return_type, flags, *args):
        flags.noalias = self.noalias
        library = self.code(target_context.codegen(), "kernel")
        library.wide = self.wide
        super().__init__(typing_context, target_context, library, arguments, return_type, flags, *args)

    def compile_extra(self, function):
        with _no_collection():
            result = super().compile_extra(function)
        if not self.state.flags.nrt and _holds_arrays(result.signature.return_type):
            raise numba.TypingError(f"{function.__name__} returns arrays uncounted: it needs memory=True")
        return result


@cache
def _compiler(code: type[_Code], noalias: bool, wide: bool) -> type[_KernelCompiler]:
    return type("KernelCompiler", (_KernelCompiler,), {"code": code, "noalias": noalias, "wide": wide})


# The disk cache.


@cache
def _stamp() -> str:
    """Digest of what compiled code depends on besides the sources."""
    versions = sys.version, numba.__version__, str(binding.llvm_version_info)
    parts = (*versions, binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _type_key(numba_type: Any) -> Key:
    """The key of a Numba type, as `drsub_fast.engine.signatures.type_key` makes it of a value."""
    if isinstance(numba_type, numba.types.Array):
        dtype = as_dtype(numba_type.dtype).str
        return "array", dtype, numba_type.ndim, numba_type.layout, numba_type.mutable
    if isinstance(numba_type, (numba.types.Number, numba.types.Boolean)):
        return str(numba_type)
    if isinstance(numba_type, numba.types.BaseTuple):
        parts: Any = numba_type
        return getattr(parts, "instance_class", tuple), *map(_type_key, parts.types)
    return "numba", numba_type


class _Pickler(NumbaPickler):
    """Names classes made at run time by their place among the arguments: the loader has its own."""

    classes: list[type]

    def persistent_id(self, value):
        return self.classes.index(value) if isinstance(value, type) and value in self.classes else None


class _Unpickler(pickle.Unpickler):
    classes: list[type]

    def persistent_load(self, index):
        return self.classes[index]


class _Cache:
    """What Numba asks of a cache, by `drsub_fast.engine.store`."""

    form = "whole"
    cache_path = ""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def _file(self, signature):
        """Name of the file for a signature, None if there is none, its sources, and its classes made at run time."""
        key: Key = (tuple, *map(_type_key, getattr(signature, "args", signature)))
        found = classes_in(key)
        classes = sorted((cls for cls in found if hasattr(cls, "stamp")), key=lambda cls: cls.__name__)
        text, sources = key_text(key), self._kernel.sources(found)
        # A user's function may raise, for which Numba needs what linked code does not keep.
        if text is None or sources is None or (classes and self.form == "linked"):
            return None, "", classes
        return self._kernel.file_name(self.form, text), sources, classes

    def load_overload(self, signature, target_context):
        """The result of an earlier compilation, or None."""
        name, sources, classes = self._file(signature)
        payload = None if name is None else store.load(name, sources, _stamp())
        if payload is None:
            return None
        target_context.refresh()
        try:
            reader = _Unpickler(io.BytesIO(payload))
            reader.classes = classes
            cells, content = reader.load()
            # Their symbols have to be there before the code that refers to them.
            cells = [cell_of(*described) for described in cells]
            result = self.rebuild(target_context, content)
        except Exception as error:  # whatever the file holds: it costs time, not the answer
            logger.warning("the compiled code in %s does not load, and is made anew: %r", name, error)
            return None
        if self.form == "whole":
            for cell in cells:
                cell.fill()
        return result

    def save_overload(self, signature, result):
        """Stores the result of a compilation."""
        name, sources, classes = self._file(signature)
        if name is None or result.lifted or result.library.has_dynamic_globals:
            return
        stream = io.BytesIO()
        writer = _Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL)
        writer.classes = classes
        writer.dump(([CELLS[name].described for name in result.library.cells], result._reduce()))
        store.save(name, sources, _stamp(), stream.getvalue())

    @staticmethod
    def rebuild(target_context, content):
        return CompileResult._rebuild(target_context, *content)


class _LinkedCache(_Cache):
    form = "linked"

    @staticmethod
    def rebuild(target_context, content):
        (name, _, code), fndesc, environment, signature, *_ = content
        library = _LinkedCode(target_context.codegen(), name)
        library._final_module = binding.parse_bitcode(code)
        library._finalize_final_module()
        known = {
            "typing_context": target_context.typing_context, "target_context": target_context, "signature": signature,
            "entry_point": target_context.get_executable(library, fndesc, environment), "fndesc": fndesc,
            "library": library, "environment": environment, "objectmode": False, "lifted": (), "reload_init": (),
            "referenced_envs": (), "type_annotation": "",
        }  # fmt: skip
        return CompileResult(**dict.fromkeys(CompileResult._fields) | known)


# Functions.


class _KernelType(numba.types.Dispatcher):
    """Type of a kernel inside compiled code."""


register_model(_KernelType)(models.OpaqueModel)


@lower_constant(_KernelType)
def _no_value(context, builder, kernel_type, kernel_object):
    # Numba would store the address of the Python object, which nothing reads and which no other process can use.
    return context.get_dummy_value()


@typeof_impl.register(Kernel)
def _type_of_kernel(kernel, context):
    return _separate_type(kernel) if kernel.options["separate"] else _KernelType(kernel.linked)


def _numba_options(kernel):
    flags = set(REDUCTION_FLAGS) if kernel.options["reductions"] else False
    memory = kernel.options["memory"]
    return {"nopython": True, "nogil": True, "error_model": "numpy", "fastmath": flags, "_nrt": memory}


class _LinkedFunction(CPUDispatcher):
    """A kernel as other kernels call it: compiled once for all calls with arguments of the same types.

    Numba would compile it anew for each combination of literal numbers among them.
    """

    def __init__(self, kernel: Kernel) -> None:
        wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        compiler = _compiler(_LinkedCode, kernel.options["noalias"], kernel.options["wide"])
        super().__init__(kernel.py_func, {}, _numba_options(kernel) | wrappers, compiler)
        if store.folders()[0]:
            self._cache = _LinkedCache(kernel)

    def get_call_template(self, arguments, keywords):
        return super().get_call_template([numba.types.unliteral(argument) for argument in arguments], keywords)

    @property
    def _numba_type_(self):
        return _KernelType(self)


#: Numba's own, which is written in C.
_compile_for_args = attrgetter("_compile_for_args")(CPUDispatcher)


class _StandaloneFunction(CPUDispatcher):
    """A kernel as an ordinary Numba function, which Python calls."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(
            kernel.py_func, {}, _numba_options(kernel) | {"no_cfunc_wrapper": True},
            _compiler(_WholeCode, False, kernel.options["wide"]),
        )  # fmt: skip
        self._kernel = kernel
        if store.folders()[0]:
            self._cache = _Cache(kernel)

    def _compile_for_args(self, *arguments):
        # Numba's dispatcher comes here for types that it has no code for, and calls what it gets.
        if compiles_at_once():
            return _compile_for_args(self, *arguments)
        return self._kernel.choose(arguments)


def linked_function(kernel: Kernel) -> _LinkedFunction:
    """The kernel for other kernels."""
    return _LinkedFunction(kernel)


def standalone_function(kernel: Kernel) -> _StandaloneFunction:
    """The kernel for Python."""
    return _StandaloneFunction(kernel)


def compile(kernel: Kernel, arguments: Iterable[Any]) -> Callable[..., Any]:
    """Machine code of a kernel for arguments of these types, from the cache if it is there."""
    signature = tuple(map(numba.typeof, arguments))
    function = kernel.standalone
    function.compile(signature)
    result = function.overloads[signature]
    for name in getattr(result.library, "cells", ()):  # what comes from the cache has filled them
        CELLS[name].fill()
    return result.entry_point


def add_operation(call: GenericCall, lookup: Callable[[Any], Any]) -> None:
    """Makes a generic operation known to Numba: the implementation is called, no function in between is compiled."""

    class Template(AbstractTemplate):
        key = call

        def generic(self, arguments, keywords):
            cls = getattr(arguments[0], "instance_class", None)
            try:
                implementation = numba.typeof(lookup(cls))
            except UnsupportedError as error:
                raise numba.TypingError(str(error)) from None
            signature = implementation.get_call_type(self.context, arguments, keywords)
            self._key = implementation.get_impl_key(signature)
            return signature

        def get_impl_key(self, signature):
            return self._key

    infer_global(call, numba.types.Function(Template))


@cache
def _separate_type(kernel: Kernel) -> Any:
    """Type of a separate kernel inside compiled code: calls go to its address."""

    class Template(AbstractTemplate):
        key = kernel

        def generic(self, arguments, keywords):
            return numba.types.int64(*map(numba.types.unliteral, arguments))

    @lower_builtin(kernel, numba.types.VarArg(numba.types.Any))
    def generate(context, builder, called, values):
        return call_by_cell(context, builder, called.args, values, _cell_name(kernel, called.args))

    return numba.types.Function(Template)


def _cell_name(kernel: Kernel, signature: Signature) -> str:
    """Name of the cell of a kernel for types of arguments, which is made where it is new."""
    text = key_text((tuple, *map(_type_key, signature))) or str(len(CELLS))
    name = f"{kernel.__module__}.{kernel.__name__}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    cell_of(name, kernel, signature)
    return name
