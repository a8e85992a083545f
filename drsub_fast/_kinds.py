"""Objectives and sets that can be written as arrays: their names and arguments, for files and for stacks of problems.

The file of an objective or set declares it once, by `register_kind`: the arguments of its constructor with their axes
for one problem. The letters of the axes tell which sizes must agree; ``n`` is the number of variables.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

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


def array(axes, *, may_be_sparse=False, may_be_number=False):
    """An `Argument` of numbers with the axes ``axes``, e.g. "m n"."""
    return Argument(tuple(axes.split()), float, may_be_sparse, may_be_number)


NUMBER, COUNT, FLAG, TEXT = array(""), Argument(type=int), Argument(type=bool), Argument(type=str)


class Kind(NamedTuple):
    """An objective or set by its name in files and stacks: its constructor, that one's arguments, its stack."""

    name: str
    make: Callable
    arguments: dict[str, Any]
    stack: Callable | None


#: Kinds by name. An objective may take an extension of a set function, by name, with the arguments of that.
OBJECTIVES, EXTENSIONS, SETS = {}, {}, {}

#: Arguments by which a kind is known where its name is not given; the first one that is there decides.
IMPLIED_OBJECTIVES = {"H": "quadratic", "h": "quadratic", "L": "softmax", "factor": "softmax"}
IMPLIED_SETS = {"A": "polytope", "b": "polytope", "k": "budget", "upper": "box"}


def register_kind(kinds, name, make, *, stack=None, **arguments):
    """Register a constructor under a name.

    Parameters
    ----------
    kinds : dict
        `OBJECTIVES` or `SETS`; extensions of set functions go into `EXTENSIONS`, and so into both.
    name : str
        What files and stacks call it.
    make : callable
        The constructor. What it makes has its parameters as attributes.
    stack : callable, optional
        Makes stacked parameters (`drsub_fast.engine.stack`) of stacked arguments, so that many problems are solved by
        one call of a compiled loop; without it they are solved one by one. It is called with those arguments that were
        given, by name, as arrays of float64 with one more axis in front, of length B or 1, of shapes that agree. An
        objective's returns (parameters, accepted), a set's (parameters, upper, accepted): ``upper``, shape (B or 1, n),
        are the bounds of the variables; ``accepted``, shape (B,) or (1,), says for which problems the constructor would
        have made the same parameters, up to rounding. The others are left to the constructor, which words the errors.
        None instead says that arguments of these shapes have no stack.
    **arguments : Argument
        Its parameters.
    """
    kinds[name] = Kind(name, make, arguments, stack)
    if kinds is EXTENSIONS:
        OBJECTIVES[name] = kinds[name]


def required(make):
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
