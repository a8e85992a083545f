"""The gate: every claim of the package is made here, from what was computed and from the premises it rests on.

* A bound holds only above every value that was met: `least_bound`.
* OPTIMAL, and "exact", mean that value and bound meet: `is_proved`, `proof_status`.
* CONVERGED means that the gap at the point that is returned is within the tolerance: `converged_status`.
* A guarantee holds where its facts do, and for runs that took all their steps: `granted`, `guarantee`, `claims`.

Where a premise is not known, the claim is weaker and says why. A value met against a claim withdraws it.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from drsub_fast.claims.premises import ROUNDING, Array, Fact, Known, Premise, has_negative_points, property_holds
from drsub_fast.objectives.base import Objective
from drsub_fast.result import Guarantee, Status
from drsub_fast.sets.base import FeasibleSet

#: How runs end that took all the steps that their methods promise something for.
FINISHED_RUNS = (Status.CONVERGED, Status.COMPLETED, Status.MAX_ITER, Status.STALLED)


class Promise(NamedTuple):
    """``ratio`` of the maximum by ``statement``, for a DR-submodular f with the property ``premise``.

    ``any_sign`` tells whether it is also for sets that have points with negative entries.
    """

    ratio: float
    statement: str
    premise: Premise
    any_sign: bool = False


def contradicts(value: float, bound: float) -> bool:
    """Whether a value that was met exceeds a bound by more than rounding."""
    return value - bound > ROUNDING * max(abs(value), abs(bound))


def least_bound(value: float, *bounds: float) -> float:
    """The least of some upper bounds, at least the largest value that was met.

    A bound that the value exceeds by more than rounding is false, and left out; so is NaN. Infinity if none is left.
    """
    kept = [bound for bound in bounds if bound == bound and not contradicts(value, bound)]
    least = min(kept, default=math.inf)
    return value if value > least else least


def is_proved(value: float, bound: float, allowed: float = 0.0) -> bool:
    """Whether the bound, which must be known to hold, leaves no more than ``allowed``, or rounding, above the value."""
    if not (math.isfinite(value) and math.isfinite(bound)):
        return False
    return bound - value <= max(allowed, 1e-14 * max(abs(value), abs(bound)))


def proof_status(status: Status, value: float, bound: float, allowed: float) -> Status:
    """The status of a search for the maximum: OPTIMAL where, and only where, value and bound meet."""
    if status is Status.OPTIMAL:
        return status if is_proved(value, bound, allowed) else Status.STALLED
    return status


def converged_status(status: Status, gap: float, allowed: float) -> Status:
    """The status of a run whose returned point has this gap over all of P: CONVERGED only within what is allowed.

    A run that converged elsewhere, or over a part of P, has taken all its steps: COMPLETED.
    """
    if status is Status.CONVERGED and not gap <= allowed:
        return Status.COMPLETED
    return status


def granted(ratio: float | None, statement: str, facts: Iterable[Fact], against: str = "") -> Guarantee:
    """The guarantee that rests on some facts: known to hold only if all of them are.

    ``against`` says what was met against it, which withdraws it.
    """
    facts = list(facts)
    known = [fact.holds for fact in facts]
    holds: Known = True
    if any(fact is not None and not fact for fact in known):
        holds = False
    elif None in known:
        holds = None
    elif "declared" in known:
        holds = "declared"
    words = " and ".join(fact.words for fact in facts if fact.words)
    given = Guarantee(ratio, statement, words, holds)
    return given.withdrawn(against) if against and ratio is not None else given


def facts_of(f: Objective, P: FeasibleSet, upper: Array, promise: Promise) -> list[Fact]:
    """What a promise needs of f and P; without words where it is plain from the class of f."""
    lower, premise = P._lower, promise.premise
    dr_submodular = property_holds(f, "dr_submodular", lower, upper)
    plain = dr_submodular and "dr_submodular" not in f.declared
    negative = has_negative_points(P)
    words = premise.words if negative else premise.words.replace("[lower,", "[0,")
    facts = [
        Fact("" if plain else "f is DR-submodular", _declared(f, "dr_submodular", dr_submodular)),
        Fact(words, _declared(f, premise.name, premise.known(f, lower, upper))),
    ]
    if "down_closed" in P.declared:
        facts.append(Fact("the set is down-closed", "declared"))
    if negative and not promise.any_sign:
        facts.append(Fact("x >= 0 on the set", False))
    return facts


def _declared(f: Objective, name: str, holds: bool | None) -> Known:
    return None if holds is None else "declared" if holds and name in f.declared else bool(holds)


def guarantee(f: Objective, P: FeasibleSet, upper: Array, promise: Promise) -> Guarantee:
    """The guarantee of a run that takes all its steps, remembered for the next solve of the same problem."""
    known = f.__dict__.setdefault("_guarantees", {})
    stored = known.get(promise.statement)
    if stored is None or stored[0] is not upper or stored[1] is not P._lower:
        made = granted(promise.ratio, promise.statement, facts_of(f, P, upper, promise))
        stored = known[promise.statement] = (upper, P._lower, made)
    return stored[2]


def claims(
    f: Objective,
    P: FeasibleSet,
    upper: Array,
    promise: Promise | Guarantee,
    status: Status,
    n_iter: int,
    values: Array,
    top: float,
    upper_bound: float,
) -> tuple[Guarantee, float]:
    """(guarantee, upper bound) of a run that ended so, after so many steps.

    A `Guarantee` without a ratio is kept as it is. ``values`` of f are in the order in which they were met; ``top`` is
    the largest, which is at most the maximum. ``upper_bound`` rests on diminishing returns, as the promise does.
    """
    exceeded = contradicts(top, upper_bound)
    if isinstance(promise, Guarantee):
        given = promise
    elif status not in FINISHED_RUNS:  # the premises, which may take a while to look into, do not matter
        given = Guarantee(promise.ratio, promise.statement, promise.premise.words).withdrawn(
            f"{status.value}, and the bound is for runs that take all their steps"
        )
    else:
        given = guarantee(f, P, upper, promise)
    if given.ratio is not None and not isinstance(promise, Guarantee):
        reason = ""
        if n_iter == 0 and status is Status.COMPLETED:
            reason = "no step was taken"
        elif exceeded:
            reason = f"f(x) = {top:g} is above the bound {upper_bound:g} that holds for DR-submodular f"
        elif given.holds is not True and values.size:
            reason = promise.premise.contradiction(values)
        if reason:
            given = given.withdrawn(reason)
    return given, least_bound(top, upper_bound)
