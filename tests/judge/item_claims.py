"""Claims about sets of items; each function returns words for what is wrong, or ""."""

import math

import numpy as np

from .truths import items_of, mask_of

#: Rounding of a log det, or of a set's value relative to the largest, that is no fault.
ROUNDING = 1e-8


def _slack(*values):
    return ROUNDING * max([1.0, *(abs(v) for v in values if math.isfinite(v))])


def items_are_distinct(items, n):
    """Each item once, of those that there are."""
    items = np.asarray(items)
    good = items.dtype.kind == "i" and len(set(items.tolist())) == len(items) and all(0 <= i < n for i in items)
    return "" if good else f"items {items}"


def items_are_allowed(items, fits):
    """The set is one of the family."""
    return "" if fits[mask_of(items)] else f"the set {sorted(map(int, items))} does not fit"


def size_is_kept(items, size):
    """Exactly as many items as asked for."""
    return "" if size is None or len(items) == size else f"{len(items)} items, {size} asked for"


def log_det_is_right(value, items, problem):
    """The value is log det of the block, as far as that can be known in floating point."""
    mask = mask_of(items)
    least, true = problem.least[mask], problem.values[mask]
    diagonal = problem.L[items_of(mask), items_of(mask)]
    if least >= problem.clear:
        return "" if abs(value - true) <= _slack(true) else f"{value!r}, but log det of {items_of(mask)} is {true!r}"
    if (diagonal <= 0.0).any():
        return "" if value == -math.inf else f"{value!r}, but the set has an item of length 0"
    most = np.log(diagonal).sum() + math.log(max(least, 0.0) + 1e-6) + 1.0
    return "" if value <= most else f"{value!r}, but the set is dependent: at most {most!r}"


def bound_holds(bound, best):
    """The bound on all sets is at least the value of each of them."""
    return "" if bound >= best - _slack(best) else f"bound {bound!r} below the value {best!r} of an allowed set"


def bound_is_no_less_than_the_value(bound, value):
    """value <= bound."""
    return "" if value <= bound + _slack(value) and not math.isnan(bound) else f"value {value!r}, bound {bound!r}"


def set_is_the_best(value, best):
    """No allowed set is worth more."""
    return "" if value >= best - _slack(best) else f"value {value!r}, but an allowed set has {best!r}"


def gains_add_up(gains, order, items, value):
    """The order is one of the items, and what each added sums to the value."""
    if sorted(order) != sorted(items) or len(gains) != len(items):
        return f"order {order}, gains {gains}, items {items}"
    total = float(np.sum(gains)) if len(gains) else 0.0
    same = total == value or abs(total - value) <= _slack(value) * 10.0
    return "" if same else f"the gains sum to {total!r}, the value is {value!r}"


def is_at_least(value, least, what):
    """The value is at least that of something else."""
    return "" if value >= least - _slack(least) else f"value {value!r} below {least!r}, {what}"


def choice_is_greedy(order, problem, fits):
    """Each item chosen raises the value most of those that fit; the choice ends where none raises it.

    Judged only while all sets that could be next are clearly independent.
    """
    mask = 0
    for item in [*map(int, order), None]:
        rest = [mask | 1 << j for j in range(problem.n) if not mask >> j & 1 and fits[mask | 1 << j]]
        if any(problem.least[m] < problem.clear for m in rest):
            return ""
        tops = max((problem.values[m] for m in rest), default=-math.inf)
        if item is None:
            ended = problem.size is not None or tops <= problem.values[mask] + _slack(tops)
            return "" if ended else f"ended after {order}, but an item that fits would raise the value to {tops!r}"
        mask |= 1 << item
        if problem.values[mask] < tops - _slack(tops):
            return f"chose {item} in {order} for {problem.values[mask]!r}, another one gives {tops!r}"
    return ""
