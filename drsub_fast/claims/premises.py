"""What claims rest on: properties that f and P answer for, and what the values of a run may say against them.

A property of f is asked for on the whole box [lower, upper] around P. Objectives answer for [0, upper]; where P has
points with negative entries, a quadratic is asked about the box moved to 0, and of other functions only what the user
declared is known.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.combined import Sum
from drsub_fast.objectives.logistic import LogisticNonconvex
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.sets.base import FeasibleSet

Array = NDArray[np.float64]

#: Whether a property holds: it is proved, it was declared by the user, it is known to fail, or it is not known.
Known = Literal["declared"] | bool | None

#: A value may contradict a property, or exceed a bound, by this part of the largest value: that is rounding.
ROUNDING = 1e-9


class Fact(NamedTuple):
    """Something that a claim needs, in words, and whether it is known to hold."""

    words: str
    holds: Known


class Premise(NamedTuple):
    """A property of f on the box around P.

    ``name`` is its name among `Objective.declared`, ``known(f, lower, upper)`` tells whether it holds there, and
    ``contradiction(values)`` says in words what the values of one run, in order, show against it, or "".
    """

    name: str
    words: str
    known: Callable[[Objective, Array | float, Array], bool | None]
    contradiction: Callable[[Array], str]


def has_negative_points(P: FeasibleSet) -> bool:
    """Whether the box around P has points with a negative entry."""
    return not P.is_down_closed and bool(np.min(P._lower) < 0.0)


def property_holds(f: Objective, name: str, lower: Array | float, upper: Array) -> bool | None:
    """Whether f is "dr_submodular", "nonnegative" or "monotone" on [lower, upper]: True, False or None."""
    if isinstance(f, Sum):  # each part answers for itself: what was declared of one says nothing about the others
        known = [property_holds(part, name, lower, upper) for part in f.parts]
        return True if all(known) else known[0] if len(known) == 1 else None
    if name in f.declared or np.min(lower) >= 0.0:
        return getattr(f, f"{name}_on")(upper)
    if isinstance(f, Quadratic) and (name == "dr_submodular" or f.dr_submodular_on(upper - lower)):
        if name == "nonnegative":
            return _nonnegative_quadratic(f, lower, upper)
        # H is the same everywhere, and the gradient is least at the upper corner.
        return f.dr_submodular_on(upper - lower) if name == "dr_submodular" else f.monotone_on(upper)
    if isinstance(f, LogisticNonconvex) and name == "dr_submodular":
        return f.dr_submodular_on(np.maximum(upper, -lower))
    return None


def _nonnegative_quadratic(f, lower, upper):
    """`Quadratic.nonnegative_on` for the function of y = x - lower on [0, upper - lower]."""
    lower = np.broadcast_to(lower, upper.shape)
    width, start = upper - lower, f.value(lower)
    slope = f.gradient(lower) + 0.5 * (f.gradient(upper) - f.gradient(lower))
    if start + np.minimum(0.0, width * slope).sum() >= 0.0:
        return True
    return False if start < 0.0 or f.value(upper) < 0.0 else None


def _negative_value(values: Array) -> str:
    lowest = values[values.argmin()]  # half the time of values.min()
    if not lowest < 0.0:  # the usual case, and NaN
        return ""
    return f"f(x) = {lowest:g} < 0 was met" if lowest < -ROUNDING * np.abs(values).max() else ""


def _fall(values: Array) -> str:
    falls = np.diff(values)
    k = int(falls.argmin()) if falls.size else -1
    if k < 0 or falls[k] >= -ROUNDING * np.abs(values).max():
        return ""
    return f"f fell from {values[k]:g} to {values[k + 1]:g} while x rose"


def _monotone_from_zero(f: Objective, lower: Array | float, upper: Array) -> bool | None:
    monotone = property_holds(f, "monotone", lower, upper)
    return f.value(np.zeros(f.n)) >= 0.0 if monotone else monotone


def _is_nonnegative(f: Objective, lower: Array | float, upper: Array) -> bool | None:
    return property_holds(f, "nonnegative", lower, upper)


def _ends_are_nonnegative(f: Objective, lower: Array | float, upper: Array) -> bool:
    return bool(f.value(np.zeros(f.n)) + f.value(upper) >= 0.0)


NONNEGATIVE = Premise("nonnegative", "f >= 0 on [lower, upper]", _is_nonnegative, _negative_value)
MONOTONE = Premise("monotone", "f is monotone on [lower, upper] and f(0) >= 0", _monotone_from_zero, _fall)
#: The analysis of double greedy needs no sign of f but at the two corners: in between f may be negative.
CORNERS = Premise("corners", "f(0) + f(upper) >= 0", _ends_are_nonnegative, lambda values: "")
