"""Generic kernel operations, resolved by the class of the parameter tuple.

An objective or a feasible set describes itself to compiled code by a namedtuple of arrays and numbers,
its *parameters*. A generic operation such as `evaluate` looks up the class of that tuple in a table:
at compile time inside compiled code (so the call costs nothing and can be cached), at run time when
the same loop runs as plain Python. A new objective or set registers its kernels here and touches no
solver.
"""

from collections.abc import Callable
from typing import Any, cast

from drsub_fast._checks import as_function, one_of
from drsub_fast.engine.jit import GenericCall, outside, when_compiling
from drsub_fast.errors import UnsupportedError


class Operation:
    """Table of the implementations of one generic operation.

    Parameters
    ----------
    name : str
        Name used in error messages.
    default : callable, optional
        Implementation for classes that register none.
    """

    def __init__(self, name: str, default: Callable[..., Any] | None = None) -> None:
        self.name: str = name
        self.default = default
        self.table: dict[Any, Callable[..., Any]] = {}

    def lookup(self, cls: Any) -> Callable[..., Any]:
        """The implementation for a parameter class."""
        implementation = self.table.get(cls, self.default)
        if implementation is None:
            raise UnsupportedError(f"{getattr(cls, '__name__', cls)} has no kernel for '{self.name}'")
        return implementation


_OPERATIONS: dict[str, Operation] = {}


def operation(name: str, default: Callable[..., Any] | None = None) -> GenericCall:
    """Make a generic operation: a function of ``(params, *args)`` for Python and for kernels.

    Its attribute ``table`` holds the implementations by class.
    """
    table = _OPERATIONS[name] = Operation(name, default)

    def call(params, *args):
        cls = type(params)
        implementation = table.lookup(cls)
        if any(getattr(type(argument), "interpreted", False) for argument in (params, *args)):
            implementation = outside(implementation)
        return implementation(params, *args)

    def twin(params, *args):
        implementation = table.lookup(type(params))
        return getattr(implementation, "interpreted", implementation)(params, *args)

    call.__name__ = call.__qualname__ = twin.__name__ = name
    vars(call).update(twin=twin, table=table.table)
    generic = cast(GenericCall, call)
    when_compiling(generic, table.lookup)
    return generic


def kernels_of(params_class: Any) -> dict[str, Any]:
    """The registered implementations for a class of parameters, by operation."""
    return {name: each.table[params_class] for name, each in _OPERATIONS.items() if params_class in each.table}


def register(*params_classes: Any, **kernels: Any) -> None:
    """Register the implementations of operations, by their names, for classes of parameters.

    It must come before the first compilation that involves the classes.
    """
    for name, kernel in kernels.items():
        table = _OPERATIONS[one_of(name, "operation", tuple(_OPERATIONS))].table
        table.update(dict.fromkeys(params_classes, as_function(kernel, name, optional=False)))
