"""Part "choosers": the doors that choose items by log det, against all sets, in whole numbers."""

import math
from types import SimpleNamespace

import numpy as np

import drsub_fast as ds

from . import draws, truths
from . import item_claims as claims
from .families import random_family
from .kernels import random_kernel

#: Sets whose smallest eigenvalue, with a diagonal of 1, is below this count as dependent or not, as one likes.
CLEAR = 1e-7


def problem_of(L, family, size):
    """The truth: value, independence and fit of every set, and the best value of those that count."""
    n = len(L)
    values, least = truths.principal_minors(L), truths.independence(L)
    surely, maybe = truths.fitting(n, family.A, family.b, family.allowed, family.most)
    sizes = [mask.bit_count() for mask in range(1 << n)]
    if size is not None:
        surely_sized = [fits and sizes[m] == size for m, fits in enumerate(surely)]
        maybe_sized = [fits and sizes[m] == size for m, fits in enumerate(maybe)]
    else:
        surely_sized, maybe_sized = surely, maybe
    best = max((values[m] for m in range(1 << n) if surely_sized[m] and least[m] >= CLEAR), default=-math.inf)
    return SimpleNamespace(
        L=L, n=n, values=values, least=least, surely=surely, maybe=maybe, size=size, best=best, clear=CLEAR,
        fits=surely if family.is_exact else maybe, can=any(surely_sized), could=any(maybe_sized), family=family,
    )  # fmt: skip


def judge_set(judge, door, problem, found):
    """What every answer claims."""
    items = [int(i) for i in found.items]
    if not judge.check(door, claims.items_are_distinct, found.items, problem.n):
        return
    judge.check(door, claims.items_are_allowed, items, problem.fits)
    judge.check(door, claims.size_is_kept, items, problem.size)
    judge.check(door, claims.log_det_is_right, found.value, items, problem)
    if hasattr(found, "bound"):
        judge.check(door, claims.bound_holds, found.bound, problem.best)
        judge.check(door, claims.bound_is_no_less_than_the_value, found.bound, found.value)
    if hasattr(found, "order"):
        judge.check(door, claims.gains_add_up, found.gains.tolist(), found.order.tolist(), items, found.value)


def _direct(rng, judge, problem, kernel, constraint):
    """exact_map, greedy_map and map_dpp; the continuous methods, which take a hundred times as long, now and then."""
    size, options = problem.size, constraint | kernel
    may = size is not None and not problem.can
    found = judge.ask("exact_map", ds.exact_map, **options, may_refuse=may)
    if found is not None:
        judge_set(judge, "exact_map", problem, found)
        judge.check("exact_map", claims.set_is_the_best, found.value, problem.best)
        judge.check("exact_map", claims.bound_is_no_less_than_the_value, found.value, found.bound)
    greedy = judge.ask("greedy_map", ds.greedy_map, **options, may_refuse=may)
    if greedy is not None:
        judge_set(judge, "greedy_map", problem, greedy)
        if not problem.family.weighted:
            judge.check("greedy_map", claims.choice_is_greedy, greedy.order.tolist(), problem, problem.fits)
    methods = ("auto", "best", "continuous") if rng.random() < 0.05 else ("greedy", "exact")
    for method in methods:
        door = f"map_dpp {method}"
        found = judge.ask(door, ds.map_dpp, **options, method=method, may_refuse=may)
        if found is not None:
            judge_set(judge, door, problem, found)
            if method == "exact":
                judge.check(door, claims.set_is_the_best, found.value, problem.best)
            elif greedy is not None and method != "continuous" and problem.least[truths.mask_of(greedy.items)] >= CLEAR:
                judge.check(door, claims.is_at_least, found.value, greedy.value, "the value of the greedy choice")
    found = judge.ask("map_dpp plain", ds.map_dpp, **options, method="greedy", improve=False, may_refuse=may)
    if found is not None:
        judge_set(judge, "map_dpp plain", problem, found)


def _rounded(rng, judge, problem, P):
    """round_solution, improve_set and greedy, by the softmax extension of the same kernel."""
    f, size = ds.Softmax(problem.L), problem.size
    may = size is not None and not problem.can
    x = np.zeros(problem.n)
    for _ in range(2):
        x += 0.5 * np.minimum(P.lmo(rng.standard_normal(problem.n)), 1.0) * draws.one_of(rng, 0.0, 0.9, 1.0)
    for method in ("auto", "threshold", "randomized"):
        for improve in (False, True):
            door = f"round_solution {method}{' improve' * improve}"
            options = dict(method=method, improve=improve, size=size, may_refuse=may)
            found = judge.ask(door, ds.round_solution, f, P, x, **options)
            if found is not None:
                judge_set(judge, door, problem, found)
    starts = [m for m in range(1 << problem.n) if problem.surely[m] and problem.least[m] >= CLEAR]
    start = truths.items_of(starts[int(rng.integers(len(starts)))])
    found = judge.ask("improve_set", ds.improve_set, f, P, start, size=size, may_refuse=may)
    if found is not None:
        judge_set(judge, "improve_set", problem, found)
        if size is None:
            least = problem.values[truths.mask_of(start)]
            judge.check("improve_set", claims.is_at_least, found.value, least, "the value of the set it began with")
    for improve in (False, True) if problem.best > -math.inf else ():
        door = f"greedy of a softmax{' improve' * improve}"
        found = judge.ask(door, ds.greedy, f, P, size=size, improve=improve, may_refuse=may)
        if found is not None:
            judge_set(judge, door, problem, found)


def case(rng, judge):
    """One kernel, one family."""
    n = int(rng.integers(1, 7))
    L, family = random_kernel(rng, n), random_family(rng, n)
    size = int(rng.integers(1, n + 1)) if rng.random() < 0.4 else None
    problem = problem_of(L, family, size)
    constraint = dict(constraint=family.P) if size is None else dict(constraint=family.P, size=size)
    if size is not None and not problem.could:
        for door in (ds.exact_map, ds.greedy_map, ds.map_dpp):
            judge.check(door.__name__, size_is_refused, door, L, constraint)
        return
    _direct(rng, judge, problem, dict(L=L), constraint)
    if not isinstance(family.P, int):
        _rounded(rng, judge, problem, family.P)


def size_is_refused(door, L, constraint):
    """A size that no allowed set has is refused by ValueError."""
    try:
        found = door(L, **constraint)
    except ValueError:
        return ""
    return f"answered {found.items}, but no allowed set has {constraint['size']} items"
