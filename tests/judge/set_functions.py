"""Part "set-functions": the doors that choose items for a set function, against all sets."""

import math
from types import SimpleNamespace

import numpy as np

import drsub_fast as ds

from . import draws, functions, truths
from . import item_claims as claims
from .families import random_family


def _value_is_right(value, items, problem):
    """The value is F of the set."""
    true = problem.values[truths.mask_of(items)]
    return "" if abs(value - true) <= 1e-9 * problem.size_of_f else f"value {value!r}, but F of {items} is {true!r}"


def _bound_holds(bound, problem):
    """The bound on all allowed sets is at least the value of each."""
    return (
        "" if bound >= problem.best - 1e-9 * problem.size_of_f else f"bound {bound!r}, but a set has {problem.best!r}"
    )


def _guarantee_is_kept(found, problem):
    """A guarantee that is known to hold is kept, and its premise holds."""
    guarantee = found.guarantee
    if guarantee.holds is not True or guarantee.ratio is None:
        return ""
    if problem.values[0] != 0.0 or problem.least_gain < -1e-9 * problem.size_of_f:
        return f"known to hold: {guarantee.premise}; F(empty) = {problem.values[0]}, a gain is {problem.least_gain}"
    promised = guarantee.ratio * problem.best - 1e-9 * problem.size_of_f
    return "" if found.value >= promised else f"value {found.value!r} below {promised!r}: {guarantee}"


def _is_no_less(value, least, problem, what):
    """The value is at least that of another set."""
    return "" if value >= least - 1e-9 * problem.size_of_f else f"value {value!r} below {least!r}, {what}"


def _bound_is_no_worse(bound, plain, problem):
    """Improving a set does not make the bound worse."""
    return "" if bound <= plain + 1e-9 * problem.size_of_f else f"bound {bound!r}, without improving {plain!r}"


def _is_local_maximum(items, problem):
    """No addition, removal or exchange of single items betters the set."""
    mask = truths.mask_of(items)
    near = [mask ^ 1 << i for i in range(problem.n)]
    near += [mask ^ 1 << i ^ 1 << j for i in range(problem.n) for j in range(i) if (mask >> i & 1) != (mask >> j & 1)]
    top = max((problem.values[m] for m in near if problem.surely[m]), default=-math.inf)
    least = problem.values[mask]
    return "" if top <= least + 1e-7 * problem.size_of_f else f"{items} has {least!r}, a neighbour {top!r}"


def problem_of(F, size_of_f, family, size, n):
    """The truth about a set function and a family."""
    values = [F(truths.items_of(mask)) for mask in range(1 << n)]
    surely, maybe = truths.fitting(n, family.A, family.b, family.allowed, family.most)
    if size is not None:
        surely, maybe = ([fits and m.bit_count() == size for m, fits in enumerate(f)] for f in (surely, maybe))
    best = max((values[m] for m in range(1 << n) if surely[m]), default=-math.inf)
    gains = [values[m | 1 << j] - values[m] for m in range(1 << n) for j in range(n) if not m >> j & 1]
    return SimpleNamespace(
        n=n, values=values, surely=surely, maybe=maybe, best=best, size=size, size_of_f=size_of_f or 1e-300,
        fits=surely if family.is_exact else maybe, can=any(surely), could=any(maybe), least_gain=min(gains),
    )  # fmt: skip


def _judge_set(judge, door, problem, found):
    items = [int(i) for i in found.items]
    if not judge.check(door, claims.items_are_distinct, found.items, problem.n):
        return
    judge.check(door, claims.size_is_kept, items, problem.size)
    judge.check(door, claims.items_are_allowed, items, problem.fits)
    judge.check(door, _value_is_right, found.value, items, problem)
    if hasattr(found, "bound"):
        judge.check(door, _bound_holds, found.bound, problem)
        judge.check(door, _bound_is_no_worse, found.value, found.bound, problem)
    if hasattr(found, "guarantee"):
        judge.check(door, _guarantee_is_kept, found, problem)


def _greedy(judge, door, problem, F, P, size):
    may = not problem.can
    plain = judge.ask(door, ds.greedy, F, P, size=size, may_refuse=may)
    if plain is None:
        return
    _judge_set(judge, door, problem, plain)
    if not isinstance(F, ds.Objective):
        return
    better = judge.ask(f"{door} improve", ds.greedy, F, P, size=size, improve=True, may_refuse=may)
    if better is not None:
        _judge_set(judge, f"{door} improve", problem, better)
        judge.check(door, _is_no_less, better.value, plain.value, problem, "the value without improving")
        judge.check(door, _bound_is_no_worse, better.bound, plain.bound, problem)
        if size is None:
            judge.check(f"{door} improve", _is_local_maximum, [int(i) for i in better.items], problem)


def _rounding(rng, judge, kind, problem, f, P, size):
    may = not problem.can
    x = np.zeros(problem.n)
    for _ in range(2):
        x += 0.5 * np.minimum(P.lmo(rng.standard_normal(problem.n)), 1.0) * draws.one_of(rng, 0.0, 0.9, 1.0)
    method = draws.one_of(rng, "auto", "threshold", "randomized")
    for improve in (False, True):
        door = f"round_solution {method}{' improve' * improve} of {kind}"
        options = dict(method=method, improve=improve, size=size, may_refuse=may)
        found = judge.ask(door, ds.round_solution, f, P, x, **options)
        if found is not None:
            _judge_set(judge, door, problem, found)
    starts = [m for m in range(1 << problem.n) if problem.surely[m]]
    if starts:
        start = truths.items_of(starts[int(rng.integers(len(starts)))])
        found = judge.ask(f"improve_set of {kind}", ds.improve_set, f, P, start, size=size)
        if found is not None:
            _judge_set(judge, f"improve_set of {kind}", problem, found)
            least = problem.values[truths.mask_of(start)]
            judge.check("improve_set", _is_no_less, found.value, least, problem, "the value of the set it began with")
            if size is None:
                judge.check("improve_set", _is_local_maximum, [int(i) for i in found.items], problem)


def case(rng, judge):
    """One set function, one family."""
    n = int(rng.integers(1, 7))
    kind = draws.one_of(rng, *functions.SET_FUNCTIONS)
    f, F, size_of_f = functions.SET_FUNCTIONS[kind](rng, n)
    family = random_family(rng, n)
    size = int(rng.integers(1, n + 1)) if rng.random() < 0.3 else None
    problem = problem_of(F, size_of_f, family, size, n)
    _greedy(judge, f"greedy of {kind}", problem, f, family.P, size)
    if isinstance(family.P, ds.FeasibleSet):
        _greedy(judge, f"greedy of {kind} as a function", problem, F, family.P, size)
        _rounding(rng, judge, kind, problem, f, family.P, size)
