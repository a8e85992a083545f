"""Part "stacks": many problems given as arrays, against single solves and the truth."""

import math

import numpy as np

import drsub_fast as ds
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.problems.arrays import to_arrays

from . import answer_claims as claims
from . import choosers, draws, functions, regions, truths
from . import item_claims as choices
from .families import Family
from .kernels import random_kernel
from .places import Place


def same_as_single(row, single, size):
    """A problem of a stack has the value, the gap and the status of a solve by itself."""
    if single is None:
        return "" if row.status is ds.Status.FAILED else f"{row.status.name}, but a single solve is refused"
    if row.status is not single.status:
        return f"{row.status.name} {row.value!r}, alone {single.status.name} {single.value!r}"
    if abs(row.value - single.value) > 1e-9 * size:
        return f"value {row.value!r}, alone {single.value!r}"
    gaps = row.fw_gap, single.fw_gap
    good = math.isnan(gaps[0]) == math.isnan(gaps[1]) and not abs(gaps[0] - gaps[1]) > 1e-7 * size
    return "" if good else f"gap {gaps[0]!r}, alone {gaps[1]!r}"


def _stack_of(places):
    """The arrays of problems that share their shapes, with one more axis where they differ, or None."""
    each = [to_arrays(place.f, place.P) for place in places]
    kinds = OBJECTIVES[each[0]["objective"]], SETS[each[0]["set"]]
    shared = {name for kind in kinds for name, item in kind.arguments.items() if item.type is not float}
    shared |= {"objective", "set"}
    if any(set(one) != set(each[0]) or any(hasattr(v, "toarray") for v in one.values()) for one in each):
        return None
    stacked = {}
    for name in each[0]:
        values = [np.asarray(one[name]) for one in each]
        if len({v.shape for v in values}) > 1:
            return None
        if name in shared:
            if len(set(map(str, values))) > 1:
                return None
            stacked[name] = each[0][name]
        else:
            stacked[name] = np.stack(values)
    return stacked


def _solves(rng, judge):
    n = int(rng.integers(1, 5))
    kind = draws.one_of(rng, "quadratic", "quadratic", "softmax", "facility-location", "flid", "coverage", "spectral")
    kinds = ("box", "budget", "knapsack", "polytope", "partition-matroid")
    region_seed, region_kind = int(rng.integers(2**31)), draws.one_of(rng, *kinds)
    span = 3 if kind in ("quadratic", "spectral") else 0
    places = []
    for _ in range(3):
        if rng.random() < 0.7:  # another set of the same kind; the shapes may differ, and then there is no stack
            region_seed = int(rng.integers(2**31))
        region = regions.REGIONS[region_kind](np.random.default_rng(region_seed), n, span)
        if kind in functions.SET_FUNCTIONS:
            function = functions.multilinear_of(kind, rng, n)
        else:
            function = functions.FUNCTIONS[kind](rng, region)
        place = Place(rng, region, function)
        if place.is_empty or not math.isfinite(place.best):
            return
        places.append(place)
    arrays = _stack_of(places)
    if arrays is None:
        return
    method = draws.one_of(rng, "multi-start", *(m for m in ds.METHODS if m not in ("double-greedy", "global-maximum")))
    door = f"maximize_stacked {method}, {places[0].words}"
    stack = judge.ask(door, ds.maximize_stacked, **arrays, method=method, n_jobs=1)
    if stack is None:
        return
    options = {"n_starts": stack.n_starts} if ds.METHODS[method].many_starts else {}
    for i, place in enumerate(places):
        row = stack[i]
        single = judge.ask(door, ds.maximize, place.f, place.P, method=method, bound="cheap", **options)
        judge.check(door, same_as_single, row, single, place.best_size)
        if row.status is ds.Status.FAILED or not judge.check(door, claims.is_in_the_set, place, row.x):
            continue
        judge.check(door, claims.value_is_right, place, row.value, row.x)
        judge.check(door, claims.value_is_below_its_bound, row.value, row.upper_bound)
        judge.check(door, claims.bound_is_above_all, place, row.upper_bound)
        judge.check(door, claims.gap_is_right, place, row.fw_gap, row.x)
        judge.check(door, claims.premise_is_so, place, stack.guarantee[i])


def same_choice(items, count, value, single):
    """A user of a stack has the items and the value of a choice by itself."""
    mine = items[:count].tolist()
    if (items[count:] != -1).any() or mine != single.order.tolist():
        return f"items {items.tolist()}, count {count}, alone {single.order.tolist()}"
    return "" if value == single.value or abs(value - single.value) <= 1e-9 else f"{value!r}, alone {single.value!r}"


def _users(rng, judge):
    n, size = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    kernels = [random_kernel(rng, n) for _ in range(3)]
    groups, limit = (None, None) if rng.random() < 0.5 else (rng.integers(0, 2, (3, n)), int(rng.integers(0, 3)))
    more = {} if groups is None else {"groups": groups, "per_group": limit}
    stack = judge.ask("greedy_map_stacked", ds.greedy_map_stacked, np.stack(kernels), size=size, n_jobs=1, **more)
    if stack is None:
        return
    for i, L in enumerate(kernels):
        A = np.zeros((0, n)) if groups is None else (groups[i] == np.arange(2)[:, None]).astype(float)
        b = np.full(len(A), float(limit or 0))
        surely, _ = truths.fitting(n, A, b, np.ones(n, bool), min(size, n))
        most = max(mask.bit_count() for mask, fits in enumerate(surely) if fits)
        problem = choosers.problem_of(L, Family(None, A, b, np.ones(n, bool), min(size, n)), most)
        count, items = int(stack.counts[i]), stack.items[i]
        mine = items[:count].tolist()
        if not judge.check("greedy_map_stacked", choices.items_are_distinct, items[:count], n):
            continue
        judge.check("greedy_map_stacked", choices.items_are_allowed, mine, problem.surely)
        judge.check("greedy_map_stacked", choices.size_is_kept, mine, most)
        judge.check("greedy_map_stacked", choices.log_det_is_right, stack.value[i], mine, problem)
        judge.check("greedy_map_stacked", choices.choice_is_greedy, mine, problem, problem.surely)
        if groups is None:
            single = judge.ask("greedy_map", ds.greedy_map, L, size=min(size, n))
            if single is not None:
                judge.check("greedy_map_stacked", same_choice, items, count, stack.value[i], single)


def case(rng, judge):
    """One stack of problems, or of users."""
    if rng.random() < 0.5:
        _users(rng, judge)
    else:
        _solves(rng, judge)
