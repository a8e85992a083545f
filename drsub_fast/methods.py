"""The methods, one record each, and one door to all of them by name.

`maximize`, two-phase Frank-Wolfe, stacks, batches, the SciPy method, the command and the figures read the records
(`drsub_fast.solvers.record`); none of them has a list of its own.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_count, as_flag, as_real, one_of
from drsub_fast.certificates import upper_bound
from drsub_fast.claims.gate import FINISHED_RUNS, contradicts, converged_status, is_proved, least_bound
from drsub_fast.claims.premises import NONNEGATIVE, has_negative_points, property_holds
from drsub_fast.engine.clock import (
    OutOfTime,
    last_moment,
    now,
    thread_time_left,
    time_left,
    until,
    untimed,
)
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.feature_based import FeatureBased
from drsub_fast.objectives.multilinear import MaximaExtension, Multilinear
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.covering import capped_maximum
from drsub_fast.proofs.global_optimum import global_maximum
from drsub_fast.proofs.rungs import CALL
from drsub_fast.result import Certificate, Guarantee, Result, Status, Trace, register_prover
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.boosted_gradient import boosted_gradient
from drsub_fast.solvers.continuous_greedy import monotone_frank_wolfe
from drsub_fast.solvers.domain import solver_upper
from drsub_fast.solvers.double_greedy import double_greedy
from drsub_fast.solvers.frank_wolfe import frank_wolfe
from drsub_fast.solvers.greedy_vertex import greedy_vertex
from drsub_fast.solvers.mualem_feldman import mualem_feldman
from drsub_fast.solvers.multi_start import local_solver, multi_start
from drsub_fast.solvers.record import METHODS, Method, MethodName, Options, check_options, option_names
from drsub_fast.solvers.two_phase import subroutines

#: Operations that a bound may take however small the solve was: 4 ms, for quadratics 10, for softmax extensions 20. A
#: solve of 8 to 12 variables takes 0.3 to 1 ms. Within its own operations no relaxation of a quadratic ends: 1.001 of
#: the value takes 4.5e6 at n = 8, 6.7e6 at 12, 1.6e7 at 16, and 8e6 leave 1.3 at 16 and 20. Softmax extensions of 8
#: items under a budget have bounds of 1.055, 1.054 and 1.037 times the maximum, in the median, by 5e6, 2e7 and 4e7:
#: branching pays late. Sets of items, log Z and concave f need no floor.
_FREE_OPERATIONS, _FREE_FOR_QUADRATICS, _FREE_FOR_SOFTMAX = 8e6, 2e7, 4e7
#: Gap that a bound aims at when it is read, and the seconds of bound="tight" where the solve had no limit.
_TIGHT_GAP, _TIGHT_SECONDS = 1e-6, 10.0
#: Variables up to which `Result.prove` branches: it uses dense matrices.
_BRANCHED = 300
#: Operations of a step of a compiled loop beside f's: 0.4 to 2 us of steps and oracles of a dozen variables.
_COMPILED_STEP = 1000


def _bounded_method(f, P):
    """The method with the best a-priori bound that may apply, what it adds, and why; None for Algorithm 1's 1/4."""
    upper = solver_upper(f, P)
    if not property_holds(f, "dr_submodular", P._lower, upper):
        return None, "", "f is not known to be DR-submodular, so no bound is claimed"
    if P.is_down_closed and not math.isfinite(f.value(np.zeros(f.n))):
        return None, "", "f is not finite at 0, where the methods with a bound begin"
    monotone = not has_negative_points(P) and f.monotone_on(upper)
    if P.is_down_closed and monotone:
        return monotone_frank_wolfe, "continuous greedy adds its 1 - 1/e bound", "f is monotone"
    if isinstance(P, Box) and f.value(np.zeros(f.n)) + f.value(upper) >= 0.0:
        return double_greedy, "double greedy adds its 1/2 bound", "the set is a box"
    if monotone:
        return boosted_gradient, "the boosted gradient adds its 1 - 1/e bound", "f is monotone, the set not down-closed"
    if not (P.is_down_closed and P.answers_below):
        why = "the oracle takes the direction only" if P.is_down_closed else "the set is not down-closed"
        return mualem_feldman, "the method of Mualem and Feldman adds its bound", why
    return None, "", ""


#: Operations of a gradient from which a multilinear extension is solved from one start, the greedy vertex, and those
#: that the method with a bound may take beside it, in 10 steps at least. Facility location of 5000 items for as many
#: customers: 5e7 a gradient.
_COSTLY, _COSTLY_BUDGET, _FEWEST_STEPS = 1e7, 1e8, 10
#: Seconds for the choice of the method with a bound, beside half of a time limit.
_ASKING = 0.02
#: Items from which the same goes for facility location, sparse ones above all: with 20 neighbours each, n = 100,000 and
#: many starts take 219 s and end below the greedy choice, which takes 0.24 s.
_MANY_ITEMS = 2000


def _from_greedy_vertex(f, P, *, time_limit=None, n_starts=None, seed=0, n_jobs=1, **options):
    """One local solve from the greedy vertex of a set function: no less than the greedy choice."""
    began, x0 = now(), None
    try:
        with until(last_moment(began, time_limit)):
            x0 = greedy_vertex(f, P, solver_upper(f, P))
            f.params  # noqa: B018 (sorted when they are first read)
    except OutOfTime:
        with untimed():
            return replace(_not_begun(f, P, "multi-start", Status.TIME_LIMIT, x0), time=now() - began)
    x0 = x0 if x0.any() else None
    result = local_solver(f, P).solve(f, P, x0=x0, time_limit=time_left(time_limit, began), **options)
    return replace(result, time=now() - began)


def _of(method, options):
    """Those of some options that a method has."""
    return {name: options[name] for name in option_names(method) if name in options}


def _best_for_the_time(f, P, *, time_limit=None, **options):
    """Multi-start, joined by the method with the best applicable bound; the better answer, the better bound."""
    began = now()
    limit = None if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
    with until(None if limit is None else began + 0.5 * limit + _ASKING):  # the rest is for a first step
        try:
            bounded, addition, why = _bounded_method(f, P)
        except OutOfTime:
            bounded, addition, why = None, "", ""
    left = time_left(limit, began)
    capped = isinstance(f, FeatureBased) and f.concave == "min" and options["n_starts"] is None and "x0" not in options
    top = capped_maximum(f, P, solver_upper(f, P)) if capped else None  # at the kinks of f other solves get stuck
    large = (isinstance(f, MaximaExtension) and f.n >= _MANY_ITEMS) or f.operations > _COSTLY
    costly = isinstance(f, Multilinear) and f.compiled and large and bounded is monotone_frank_wolfe
    if costly and options["n_starts"] is None and "x0" not in options:
        result = _from_greedy_vertex(f, P, time_limit=left, **options)
        options = {"max_iter": max(_FEWEST_STEPS, min(100, int(_COSTLY_BUDGET / f.operations)))} | options
    elif top is not None:
        result = frank_wolfe(f, P, x0=top, time_limit=left, **_of(frank_wolfe, options) | {"max_iter": 0})
    else:
        result = multi_start(f, P, time_limit=left, **options)
    if result.status.is_stop:
        missing = f"; {addition.split(' adds')[0]} did not run" if bounded else ""
        return replace(result, note=f"{result.method}, {result.note}{missing}")
    if bounded is None:
        fails = result.guarantee.ratio is None or result.guarantee.holds is False
        kept = "no guarantee applies" if fails else ""
        return replace(result, note=why or kept)
    shared = _of(bounded, options)
    if limit is not None:
        shared["time_limit"] = time_left(limit, began)
    other = bounded(f, P, **shared)
    better = other if other.value > result.value else result
    top = max(result.best_value, other.best_value)
    stopped = other.status not in FINISHED_RUNS
    bounds = result.certificate.given, other.certificate.given
    return replace(
        better, method=result.method if better is result else other.method,
        guarantee=_kept(other.guarantee, bounded, result, top, min(bounds)),
        status=other.status if stopped else better.status,
        note=f"{addition.split(' adds')[0]} was stopped" if stopped else f"{why}, so {addition}",
        certificate=Certificate(least_bound(top, *bounds), None, (f, P)), n_lmo=result.n_lmo + other.n_lmo,
        time=now() - began, details=replace(better.details, n_starts=result.n_starts, n_best=result.n_best),
    )  # fmt: skip


def _kept(guarantee, bounded, result, top, bound):
    """The guarantee of the method with a bound, unless the other solves met a value against it."""
    if guarantee.ratio is None or guarantee.holds is True:
        return guarantee
    if contradicts(top, bound):
        return guarantee.withdrawn(f"f(x) = {top:g} is above the bound {bound:g} that holds for DR-submodular f")
    values = np.concatenate([run.trace.value for run in (result, *result.phases)])
    reason = NONNEGATIVE.contradiction(values) if bounded is mualem_feldman else ""
    return guarantee.withdrawn(reason) if reason else guarantee


#: The name of the search with proof, `global_maximum`.
_PROOF = "global-maximum"


def method_names() -> tuple[str, ...]:
    """Names that `maximize` knows: those of the records, of the choice among them, and of the search with proof."""
    return "auto", _PROOF, *METHODS


def options_of(method: str | Method, subroutine: str | Callable[..., Any] | None = None) -> tuple[str, ...]:
    """Names of the options of a method, those of its subroutine included; "auto" passes on those of multi-start."""
    if method == _PROOF:
        return tuple(name for name in option_names(global_maximum) if name != "method")
    record = method if isinstance(method, Method) else METHODS["multi-start" if method == "auto" else method]
    inner = METHODS[subroutine].options if subroutine in subroutines() and "subroutine" in record.options else ()
    return record.options + inner


def maximize(
    f: Objective,
    P: FeasibleSet,
    *,
    method: MethodName | Method = "auto",
    n_starts: int | None = None,
    seed: int = 0,
    bound: Literal["auto", "cheap", "tight"] = "auto",
    x0: ArrayLike | None = None,
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    **options: Unpack[Options],
) -> Result:
    """Maximises f over P by any method of the package.

    Parameters
    ----------
    f : Objective
        Function to maximise.
    P : FeasibleSet
        Feasible set.
    method : str or Method
        A name in `METHODS` or a record of your own, "global-maximum" for `global_maximum` with its options, or "auto"
        for the best value for the time: a multi-start of local solves (`multi_start`),
        joined by the method whose bound is the best that applies: continuous greedy for monotone f (1 - 1/e),
        double greedy for boxes (1/2), a second phase for other down-closed sets (1/4), for the rest the boosted
        gradient if f is monotone (1 - 1/e), else Mualem and Feldman's method. The better answer is returned with that
        bound; `message` says why. A monotone multilinear extension whose gradient takes more than 1e7 operations is
        solved from one start, the greedy choice of its set function.
    n_starts : int, optional
        Starts of a multi-start run; by default as many as a budget of counted operations pays (see
        `multi_start`), 2 for objectives given in Python.
    seed : int
        Seed of the random starts.
    bound : {"auto", "cheap", "tight"}
        What `upper_bound` rests on. "cheap": what the method knows at no cost. "tight": the best that
        `certificates.upper_bound` can prove. "auto": the best that it proves with as many operations as the solve
        took, counted and not timed, or 8e6 (some 4 ms; for quadratics 2e7, for softmax extensions 4e7) if that is more.
        The last two are computed when the bound is first read; "tight" takes what the solve left of its time limit,
        10 s without one. `Result.prove` goes on from there.
    x0 : array_like, shape (n,), optional
        Starting point in P, for methods that take one; with several starts, one more start.
    callback : callable, optional
        As in `frank_wolfe`, for the steps of every solve that is run; a true return value ends them all.
    progress : bool
        Show a progress bar on standard error.
    **options
        Passed to the method, e.g. ``max_iter``, ``tol``, ``lmo``, ``time_limit``, ``callback_every``; by "auto" to
        every method that it runs. The time limit is for all of them together.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        For an unknown method, or ``n_starts`` with a method that has one start.
    TypeError
        For an option that the method does not have.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.maximize(f, ds.Box([1.0, 1.0])).value, 4)
    0.5714
    """
    require_problem(f, P)
    record = method if isinstance(method, Method) else METHODS.get(one_of(method, "method", method_names()))
    return _maximize(
        f, P, record, getattr(method, "name", method), n_starts, seed, bound, x0, callback, progress, options
    )


def _maximize(f, P, record, method, n_starts, seed, bound, x0, callback, progress, options):
    """`maximize` by a record, None for the names that have none."""
    if method == _PROOF:
        one_of(bound, "bound", ("auto", "cheap", "tight"))
        shown = True if as_flag(progress, "progress") else None
        given = {"n_starts": n_starts, "x0": x0, "callback": callback, "progress": shown}
        options |= {name: value for name, value in given.items() if value is not None}
        check_options(options, options_of(method), f"method {method!r}")
        return global_maximum(f, P, seed=seed, **options)
    solver = _best_for_the_time if record is None else record.solve
    if record is None or record.many_starts:
        if n_starts is None and not f.compiled:
            n_starts = 2
        options |= {"n_starts": n_starts, "seed": seed}
    elif n_starts is not None and as_count(n_starts, "n_starts", lower=1) > 1:
        raise ValueError(f"method {method!r} has one start; use method='multi-start' for n_starts = {n_starts}")
    elif "seed" in record.options:
        options |= {"seed": seed}
    one_of(bound, "bound", ("auto", "cheap", "tight"))
    options |= {} if x0 is None else {"x0": x0}
    options |= {} if callback is None else {"callback": callback}
    options |= {"progress": True} if as_flag(progress, "progress") else {}
    subroutine = options.get("subroutine", "frank-wolfe")
    if not callable(subroutine):
        check_options(options, options_of(record or method, subroutine), f"method {method!r}")
    try:
        result = solver(f, P, **options)
    except KeyboardInterrupt:  # before there was a first iterate, or between two parts of a method
        result = _not_begun(f, P, method, Status.INTERRUPTED)
    if bound == "cheap" or result.status is Status.INTERRUPTED:
        return result
    limits = {"gap": _TIGHT_GAP}
    if bound == "auto":
        step = f.operations + (_COMPILED_STEP if f.compiled else CALL)
        free = _FREE_FOR_SOFTMAX if isinstance(f, Softmax) else _FREE_OPERATIONS
        free = _FREE_FOR_QUADRATICS if isinstance(f, Quadratic) else free
        limits["operations"] = max(free, result.n_lmo * step)
    else:
        limit = options.get("time_limit")
        limits["time_limit"] = _TIGHT_SECONDS if limit is None else max(0.0, limit - result.time)
    top = max(result.value, result.best_value)
    compute = partial(_bound_when_read, f, P, result.x, result.value, top, limits)
    return replace(result, certificate=Certificate(result.certificate.given, compute, (f, P)))


def _not_begun(f, P, method, status, x=None):
    """x, or the starting point of the set, as the answer of a run that did not begin."""
    x = P.start(solver_upper(f, P)) if x is None else x
    value, none = getattr(f, "late_value", f.value)(x), Guarantee(None, f"none: {status.value}")
    trace = Trace(np.array([value]), np.array([math.nan]))
    certificate = Certificate(math.inf, None, (f, P))
    return Result(x, value, math.nan, certificate, none, status, 0, 0, 0.0, trace, x.copy(), value, method)


def _bound_when_read(f, P, x, value, top, limits):
    """`upper_bound` within these limits and that of the thread; infinity if a value was met above it."""
    left = min(limits.get("time_limit", math.inf), thread_time_left())
    try:
        bound = upper_bound(f, P, value, x=x, **(limits | {"time_limit": None if left == math.inf else left}))
    except OutOfTime:
        return math.inf
    return least_bound(top, bound)


def _prove(result: Result, problem: tuple[object, object], time_limit: float | None, gap: float) -> Result:
    """`Result.prove`: the bound that is read, then `upper_bound`, then branch and bound where there is one for f."""
    f, P = require_problem(*problem)
    began, gap = now(), as_real(gap, "gap", lower=0.0)
    limit = None if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
    value, found, allowed = result.best_value, None, gap * abs(result.best_value)
    with until(None if limit is None else began + limit):
        bound = least_bound(value, result.certificate.read())
    branches = isinstance(f, (Quadratic, Softmax)) and f.n <= _BRANCHED
    if not is_proved(value, bound, allowed):
        left = time_left(limit, began)
        left = 0.5 * left if left is not None and branches else left
        bound = least_bound(value, bound, upper_bound(f, P, value, time_limit=left, gap=gap, x=result.best_x))
    if branches and not is_proved(value, bound, allowed):
        try:
            found = global_maximum(f, P, time_limit=time_left(limit, began), gap=gap)
        except (UnsupportedError, ValueError):
            found = None  # a set or a size that is not branched on
    if found is not None:
        bound = least_bound(max(value, found.value), bound, found.certificate.given)
        value = max(value, found.value)
    return _proved(result, f, P, found, value, bound, gap, now() - began)


def _proved(result, f, P, found, value, bound, gap, seconds):
    """The result with its new bound, at the best point known; ``found`` is that of a branch and bound, or None."""
    details, status = result.details, result.status
    if found is not None:
        details = replace(details, n_nodes=found.n_nodes)
    if found is not None and found.value > result.best_value:
        status = found.status
        result = replace(
            result, x=found.x, fw_gap=found.fw_gap, best_x=found.best_x, trace=found.trace, n_iter=0, note=""
        )
    elif value > result.value:
        status = converged_status(status, math.nan, 0.0)
        result = replace(result, x=result.best_x.copy(), fw_gap=math.nan)
    if is_proved(value, bound, gap * abs(value)) or (found is not None and found.status is Status.OPTIMAL):
        status = Status.OPTIMAL
    return replace(
        result, value=value, best_value=value, certificate=Certificate(bound, None, (f, P)), status=status,
        time=result.time + seconds, details=details,
    )  # fmt: skip


register_prover(_prove)
