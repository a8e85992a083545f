"""What a run may claim: the a-priori bound of its method, and an upper bound on the maximum.

A method promises a part of the maximum if all its steps are taken and f has a property on [0, upper]. The promise is
withdrawn where the run ended early, and where a value met on the way contradicts a property that is not proved but
declared by the user, or unknown. A value above the upper bound contradicts the diminishing returns on which that bound
rests, and withdraws both.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.base import Objective
from drsub_fast.result import Guarantee, Status


class Premise(NamedTuple):
    """A property of f on [0, upper]: its name among `Objective.declared`, in words, ``known(f, upper)``, and
    ``contradiction(values)``: words for what the values of one run, in order, say against it, or "".
    """

    name: str
    words: str
    known: Any
    contradiction: Any


class Promise(NamedTuple):
    """``ratio`` of the maximum by ``statement``, for an f with the property ``premise``."""

    ratio: Any
    statement: Any
    premise: Any


#: How runs end that took all the steps that their methods promise something for.
FINISHED_RUNS = (Status.CONVERGED, Status.COMPLETED, Status.MAX_ITER, Status.STALLED)

#: A value may contradict a property, or exceed a bound, by this part of the largest value: that is rounding.
_ROUNDING = 1e-9


def _negative_value(values):
    lowest = values[values.argmin()]  # half the time of values.min()
    if not lowest < 0.0:  # the usual case, and NaN
        return ""
    return f"f(x) = {lowest:g} < 0 was met" if lowest < -_ROUNDING * np.abs(values).max() else ""


def _fall(values):
    falls = np.diff(values)
    k = int(falls.argmin()) if falls.size else -1
    if k < 0 or falls[k] >= -_ROUNDING * np.abs(values).max():
        return ""
    return f"f fell from {values[k]:g} to {values[k + 1]:g} while x rose"


def _monotone_from_zero(f, upper):
    monotone = f.monotone_on(upper)
    return f.value(np.zeros(f.n)) >= 0.0 if monotone else monotone


NONNEGATIVE = Premise("nonnegative", "f >= 0 on [0, upper]", lambda f, upper: f.nonnegative_on(upper), _negative_value)
MONOTONE = Premise("monotone", "f is monotone on [0, upper] and f(0) >= 0", _monotone_from_zero, _fall)


def guarantee(f: Objective, upper: Any, promise: Any) -> Any:
    """The guarantee of a run that takes all its steps, remembered for the next solve of the same problem."""
    known = f.__dict__.setdefault("_guarantees", {})
    stored = known.get(promise.statement)
    if stored is None or stored[0] is not upper:
        stored = known[promise.statement] = (upper, _fresh_guarantee(f, upper, promise))
    return stored[1]


def _words(f, dr_submodular, premise):
    """What has to hold, as far as it is not plain from the class of f."""
    plain = dr_submodular and "dr_submodular" not in f.declared
    return premise.words if plain else f"f is DR-submodular and {premise.words}"


def _fresh_guarantee(f, upper, promise):
    premise = promise.premise
    dr_submodular, holds = f.dr_submodular_on(upper), premise.known(f, upper)
    words = _words(f, dr_submodular, premise)
    names = {premise.name} if words == premise.words else {premise.name, "dr_submodular"}
    facts = (dr_submodular, holds)
    if not all(facts):
        holds = False if any(fact is not None and not fact for fact in facts) else None
    else:
        holds = "declared" if names & f.declared else True
    return Guarantee(promise.ratio, promise.statement, words, holds)


def claims(
    f: Objective,
    upper: NDArray[np.float64],
    promise: Any,
    status: Status,
    n_iter: int,
    values: NDArray[np.float64],
    top: float,
    upper_bound: float,
) -> Any:
    """(guarantee, upper bound) of a run that ended so, after so many steps.

    The premise of the `Promise` is about the box [0, upper]; a `Guarantee` without a ratio is kept as it is. ``values``
    of f are in the order in which they were met; ``top`` is the largest, which is at most the maximum.
    """
    excess = top - upper_bound
    exceeded = excess > _ROUNDING * max(abs(top), abs(upper_bound))
    if isinstance(promise, Guarantee):
        given = promise
    elif status not in FINISHED_RUNS:  # the premise, which may take a while to look into, does not matter
        words = _words(f, f.dr_submodular_on(upper), promise.premise)
        given = Guarantee(promise.ratio, promise.statement, words).withdrawn(
            f"{status.value}, and the bound is for runs that take all their steps"
        )
    else:
        given = guarantee(f, upper, promise)
    if given.ratio is not None:
        reason = ""
        if n_iter == 0 and status is Status.COMPLETED:
            reason = "no step was taken"
        elif exceeded:
            reason = f"f(x) = {top:g} is above the bound {upper_bound:g} that holds for DR-submodular f"
        elif given.holds is not True and values.size:
            reason = promise.premise.contradiction(values)
        if reason:
            given = given.withdrawn(reason)
    if excess > 0.0:
        upper_bound = math.inf if exceeded else top
    return given, upper_bound
