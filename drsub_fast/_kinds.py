"""Objectives and sets that can be written as arrays: their names and arguments, for files and for stacks of problems.

The file of an objective or set declares it once, by `register_kind`: the arguments of its constructor with their axes
for one problem. The letters of the axes tell which sizes must agree; ``n`` is the number of variables.
"""

from collections.abc import Callable
from typing import NamedTuple


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

    axes: tuple = ()
    type: type = float
    may_be_sparse: bool = False
    may_be_number: bool = False


def array(axes, *, may_be_sparse=False, may_be_number=False):
    """An `Argument` of numbers with the axes ``axes``, e.g. "m n"."""
    return Argument(tuple(axes.split()), float, may_be_sparse, may_be_number)


NUMBER, COUNT, FLAG, TEXT = array(""), Argument(type=int), Argument(type=bool), Argument(type=str)


class Kind(NamedTuple):
    """An objective or set by its name in files and stacks: its constructor, and the arguments of that by name."""

    name: str
    make: Callable
    arguments: dict


#: Kinds by name. An objective may take an extension of a set function, by name, with the arguments of that.
OBJECTIVES, EXTENSIONS, SETS = {}, {}, {}


def register_kind(kinds, name, make, **arguments):
    """Register a constructor under a name.

    Parameters
    ----------
    kinds : dict
        `OBJECTIVES` or `SETS`; extensions of set functions go into `EXTENSIONS`, and so into both.
    name : str
        What files and stacks call it.
    make : callable
        The constructor. What it makes has its parameters as attributes.
    **arguments : Argument
        Its parameters.
    """
    kinds[name] = Kind(name, make, arguments)
    if kinds is EXTENSIONS:
        OBJECTIVES[name] = kinds[name]
