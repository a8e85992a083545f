"""Objectives and sets that can be written as arrays: their names and arguments, for files and for stacks of problems.

The file of an objective or set declares it once, by `register_kind`: the arguments of its constructor with their axes
for one problem. The letters of the axes tell which sizes must agree; ``n`` is the number of variables.
"""

import re
import warnings
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, NamedTuple, TypeAlias

import numpy as np


class Argument(NamedTuple):
    """What an argument of a constructor is, for one problem.

    Attributes
    ----------
    axes : tuple of str
        Names of its axes, e.g. ("m", "n"); "2^n" is an axis of that length, "2" one of two entries.
    type : type
        float, int (a count), bool or str (a name).
    may_be_sparse : bool
        Whether a sparse matrix will do.
    may_be_number : bool
        Whether one number may stand for a vector.
    """

    axes: tuple[str, ...] = ()
    type: type = float
    may_be_sparse: bool = False
    may_be_number: bool = False


def array(axes: str, *, may_be_sparse: bool = False, may_be_number: bool = False) -> Argument:
    """An `Argument` of numbers with the axes ``axes``, e.g. "m n"."""
    return Argument(tuple(axes.split()), float, may_be_sparse, may_be_number)


NUMBER, COUNT, FLAG, TEXT = array(""), Argument(type=int), Argument(type=bool), Argument(type=str)


#: Variables of an example that is asked for no number of them.
EXAMPLE_SIZE = 4


#: Arguments of a constructor for an example, or what makes them, for a number of variables or for none.
Example: TypeAlias = dict[str, Any] | Callable[..., dict[str, Any]] | None
#: The class of what a kind makes, or what says whether an object is of the kind.
Test: TypeAlias = type | Callable[..., object]


class Kind(NamedTuple):
    """An objective or set by its name in files and stacks: what its registration says of it (see `register_kind`)."""

    name: str
    make: Callable[..., Any]
    arguments: dict[str, Argument]
    stack: Callable[..., Any] | None
    example: Example
    of: Test
    label: str
    about: str

    def example_arguments(self, n: int = EXAMPLE_SIZE) -> dict[str, Any]:
        """Arguments of the constructor for an example on n variables; arguments that were given as they are."""
        if self.example is None:
            raise ValueError(f"{self.name} was registered without an example; give register_kind(.., example=)")
        if not callable(self.example):
            return dict(self.example)
        example: dict[str, Any] = self.example(n) if signature(self.example).parameters else self.example()
        return example

    def example_of(self, n: int = EXAMPLE_SIZE) -> Any:
        """The example itself."""
        return self.make(**self.example_arguments(n))

    def made(self, thing: object) -> bool:
        """Whether the thing is of this kind."""
        return type(thing) is self.of if isinstance(self.of, type) else bool(self.of(thing))


#: Kinds by name. An objective may take an extension of a set function, by name, with the arguments of that.
OBJECTIVES: dict[str, Kind] = {}
EXTENSIONS: dict[str, Kind] = {}
SETS: dict[str, Kind] = {}

#: Objectives that are known by their arguments where no name is given; sets all are.
IMPLIED_OBJECTIVES = ("quadratic", "softmax")


def implied_kind(kinds: dict[str, Kind], names: Iterable[str]) -> str | None:
    """The kind that names of arguments stand for: the one of the fewest arguments that has them all; None if none has.

    One whose arguments are all there, except those that may be left out, goes before the others, and the first to be
    registered before later ones. ``n`` says nothing.
    """
    names = set(names)
    given = {name for name in names if any(name in kind.arguments for kind in kinds.values())} - {"n"}
    fits = [kind for kind in kinds.values() if given and given <= set(kind.arguments)]
    order = [(bool(set(required(kind.make)) - names), len(kind.arguments)) for kind in fits]
    return fits[order.index(min(order))].name if order else None


def implied_objective(names: Iterable[str]) -> str | None:
    """The kind of objective that names of arguments stand for, or None."""
    return implied_kind({name: OBJECTIVES[name] for name in IMPLIED_OBJECTIVES}, names)


def register_kind(
    kinds: dict[str, Kind],
    name: str,
    make: Callable[..., Any],
    *,
    stack: Callable[..., Any] | None = None,
    example: Example = None,
    of: Test | None = None,
    label: str = "",
    about: str = "",
    shares: tuple[str, ...] = (),
    **arguments: Argument,
) -> None:
    """Register a constructor under a name, with all that tables, pages, files, `drsub-fast warmup` and tests list.

    Parameters
    ----------
    kinds : dict
        `OBJECTIVES` or `SETS`; extensions of set functions go into `EXTENSIONS`, and so into both.
    name : str
        What files and stacks call it.
    make : callable
        The constructor. What it makes has its parameters as attributes.
    stack : callable, optional
        Makes stacked parameters (`drsub_fast.engine.dispatch`) of stacked arguments, so that many problems are solved
        by one call of a compiled loop; without it they are solved one by one. It is called with the given arguments
        by name, as arrays of float64 with one more axis in front, of length B or 1, of shapes that agree. An
        objective's returns (parameters, accepted), a set's (parameters, upper, accepted): ``upper``, shape (B or 1, n),
        are the bounds of the variables; ``accepted``, shape (B,) or (1,), says for which problems the constructor would
        have made the same parameters, up to rounding. The others are left to the constructor, which words the errors.
        None instead says that arguments of these shapes have no stack.
    example : callable or dict
        ``example(n)`` returns arguments of the constructor for a small example on n variables; a dict holds those of
        one example. Pages draw objectives of 2 variables and sets of 3; all else takes examples of 4.
    of : type or callable, optional
        The class of what is made, or a function that says of an object whether it is of this kind (default: ``make``).
    label : str, optional
        What tables call it (default: the name of ``make``).
    about : str
        What it is, in a line of a table.
    shares : tuple of str
        Arguments that a kind of the other sort has too, so that no file and no stack holds the two together. Without it
        such an argument is reported by a warning.
    **arguments : Argument
        The parameters of the constructor.

    Raises
    ------
    TypeError
        If ``make`` has other parameters.
    """
    if set(arguments) != set(signature(make).parameters):
        raise TypeError(
            f"the arguments of {name!r} must be those of its constructor, {', '.join(signature(make).parameters)}; "
            f"got {', '.join(arguments)}"
        )
    others = OBJECTIVES if kinds is SETS else SETS
    for other in others.values():
        clash = sorted(set(arguments) & set(other.arguments) - set(shares))
        if clash:
            warnings.warn(
                f"{name!r} and {other.name!r} both have an argument {clash[0]!r}: no file and no stack can hold the "
                f"two together. Give it another name in the constructor of this kind, or say shares=({clash[0]!r},)",
                stacklevel=2,
            )
    label = label or getattr(make, "__qualname__", name)
    kinds[name] = Kind(name, make, arguments, stack, example, make if of is None else of, label, about)
    if kinds is EXTENSIONS:
        OBJECTIVES[name] = kinds[name]


def kind_of(thing: object, kinds: dict[str, Kind]) -> Kind | None:
    """The kind of an objective or set, or None."""
    return next((kind for kind in kinds.values() if kind.made(thing)), None)


def public_names(kinds: dict[str, Kind]) -> list[str]:
    """Names of the classes that make these kinds."""
    return sorted({kind.label.partition(".")[0] for kind in kinds.values()})


def _entries(kind):
    """The arguments of a kind as entries of a file: with their axes, in brackets where they may be left out."""
    needed, words = required(kind.make), []
    for name, argument in kind.arguments.items():
        word = f"{name} ({' x '.join(argument.axes)})" if argument.axes else name
        words.append(word if name in needed else f"[{word}]")
    return ", ".join(words)


def with_tables(text: str) -> str:
    """A docstring with the tables of kinds, in Markdown, in the place of ``<objectives>`` and ``<sets>``."""
    for mark, kinds, word in (("<objectives>", OBJECTIVES, "objective"), ("<sets>", SETS, "set")):
        rows = [f"| ``{word}`` | entries | constructor | |", "|---|---|---|---|"]
        rows += [f"| {kind.name} | {_entries(kind)} | `{kind.label}` | {kind.about} |" for kind in kinds.values()]
        table = "\n".join(r"\1" + row.replace("\\", r"\\") for row in rows)
        text = re.sub(f"^( *){mark}$", table, text, flags=re.M)
    return text


def required(make: Callable[..., Any]) -> list[str]:
    """Names of the parameters of a constructor that have no default."""
    return [name for name, parameter in signature(make).parameters.items() if parameter.default is parameter.empty]


LARGEST = np.finfo(np.float64).max


def within(stacked, low, high):
    """For each problem, whether every entry of its array is a number in [low, high]; shape (B,) or (1,)."""
    flat = stacked.reshape(len(stacked), -1)
    if not flat.shape[1]:
        return np.ones(len(flat), bool)
    return (flat.min(axis=1) >= low) & (flat.max(axis=1) <= high)  # a NaN fails both


def symmetric(stacked):
    """For each problem, whether its matrix equals its transpose."""
    return (stacked == stacked.swapaxes(1, 2)).all(axis=(1, 2))
