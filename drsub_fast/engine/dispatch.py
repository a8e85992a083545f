"""Generic kernel operations, resolved by the class of the parameter tuple.

An objective or a feasible set describes itself to compiled code by a namedtuple of arrays and numbers,
its *parameters*. A generic operation such as `evaluate` looks up the class of that tuple in a table:
at compile time inside compiled code (so the call costs nothing and can be cached), at run time when
the same loop runs as plain Python. A new objective or set registers its kernels here and touches no
solver.

A stack of problems of one size is a tuple of the class that describes one of them. Its arrays have one more axis in
front, of length B, or 1 where all problems share a row; what is no array is shared too.
"""

from collections.abc import Callable
from typing import Any, cast

from drsub_fast._checks import as_function, one_of
from drsub_fast.engine.jit import GenericCall, kernel, outside, when_compiling
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
    for name, implementation in kernels.items():
        table = _OPERATIONS[one_of(name, "operation", tuple(_OPERATIONS))].table
        table.update(dict.fromkeys(params_classes, as_function(implementation, name, optional=False)))


@kernel
def row_of(array, i):
    """The row of problem i: the only one if all problems share it."""
    return i if array.shape[0] > 1 else 0


@kernel(memory=True)
def own(array, i):
    """What problem i has of an array with one more axis."""
    return array[row_of(array, i)]


@kernel(memory=True)  # options may hold arrays
def _shared(stack, i):
    return stack


#: ``problem_at(stack, i)``: the parameters of problem i. Those of a class without the operation are the same for all.
problem_at = operation("problem_at", _shared)
