"""Two-phase Frank-Wolfe (paper, Algorithm 1).

x = stationary point over P; z = stationary point over Q = {y in P : y <= u - x}; return the better one.
With exactly stationary points max{f(x), f(z)} >= f(x*)/4 for f >= 0 (Theorem 1), by the local-global relation
(Proposition 1); the gaps g_P(x) and g_Q(z) that are left cost (g_P + g_Q)/4.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_count, as_flag, as_real, described, one_of
from drsub_fast.claims.gate import FINISHED_RUNS, Promise, claims, converged_status
from drsub_fast.claims.premises import NONNEGATIVE
from drsub_fast.engine.clock import now, time_left
from drsub_fast.objectives.base import Objective
from drsub_fast.result import Certificate, Guarantee, Result, Status
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_problem, require_shrinking
from drsub_fast.solvers.domain import inner_point, solver_upper
from drsub_fast.solvers.record import METHODS, Method, check_options, common_options, option_names, register_method
from drsub_fast.solvers.run import bound_from_zero
from drsub_fast.solvers.starts import local_global_bound
from drsub_fast.solvers.state import allowed_gap, as_tolerance, gap_at

TWO_PHASE = Promise(
    0.25,
    "max(f(x), f(z)) >= [f(x*) - g_P(x) - g_Q(z)]/4 (Bian et al. 2017, Theorem 1 by Proposition 1)",
    NONNEGATIVE,
)
_ONE_PHASE = Guarantee(None, "none: f is finite nowhere in what the answer leaves of the set for a second phase")


def subroutines() -> tuple[str, ...]:
    """Names of the methods that may solve a phase."""
    return tuple(sorted(name for name, method in METHODS.items() if method.is_local))


@common_options
def two_phase_frank_wolfe(
    f: Objective,
    P: FeasibleSet,
    *,
    x0: ArrayLike | None = None,
    max_iter: int = 100,
    tol: float | None = None,
    subroutine: str | Callable[..., Any] = "frank-wolfe",
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
    **options: Any,
) -> Result:
    """Two-phase Frank-Wolfe (Algorithm 1): the better of two stationary points, with a 1/4 guarantee.

    Parameters
    ----------
    f, P : Objective, FeasibleSet
        Function to maximise, and a down-closed set.
    x0 : array_like, shape (n,), optional
        Starting point of the first phase in P; 0 by default. The second starts at 0.
    max_iter : int
        Updates of x in each phase. The tolerance is that of each phase, the time limit that of both together.
    subroutine : str or callable
        Name of a method for stationary points ("frank-wolfe", "fully-corrective-frank-wolfe", "projected-gradient"), or
        any function ``solver(f, P, *, max_iter, tol, lmo, **options) -> Result``, which is also given those of x0,
        callback, callback_every, time_limit and progress that are not the default.
    {tol, lmo, callback, callback_every, time_limit, progress}
    **options
        Other options of the subroutine, e.g. ``step_size="exact"``.

    Returns
    -------
    Result
        The better phase, named by `phase`; its trace and iterations are that phase's, `n_lmo` and `time` are totals,
        and `phases` holds both results, that of phase 2 with its gap over Q. The status is that of the better phase,
        COMPLETED where that is the second and its gap over P is above the tolerance, or that of a phase that was
        stopped; then nothing is guaranteed.

    Raises
    ------
    UnsupportedError
        If P is not down-closed.
    TypeError
        For an option that the subroutine does not have.

    Notes
    -----
    Bian et al. 2017, Algorithm 1 and Theorem 1, in the form of Proposition 1 with the gaps that are left.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.two_phase_frank_wolfe(f, ds.Box([1.0, 1.0]))
    >>> r.phase, round(r.value, 2)
    (1, 0.57)
    """
    require_problem(f, P)
    require_shrinking(P, "two_phase_frank_wolfe", "frank_wolfe")
    if not callable(subroutine):
        subroutine = METHODS[one_of(subroutine, "subroutine", subroutines())]
        own = set(option_names(two_phase_frank_wolfe)) | set(subroutine.options)
        check_options(options, own, f"two_phase_frank_wolfe with subroutine={subroutine.name!r}")
    began = now()
    options |= {"max_iter": max_iter, "tol": tol, "lmo": lmo}
    callback_every = as_count(callback_every, "callback_every", lower=1)
    if callback is not None:
        options |= {"callback": callback, "callback_every": callback_every}
    if as_flag(progress, "progress"):
        options["progress"] = True
    if time_limit is not None:
        options["time_limit"] = as_real(time_limit, "time_limit", lower=0.0)
    first = subroutine(f, P, **options, **({} if x0 is None else {"x0": x0}))
    if not isinstance(first, Result):
        raise TypeError(f"the subroutine must return a Result, got {described(first)}")
    upper = solver_upper(f, P)
    if first.status.is_stop:
        guarantee, _ = claims(
            f, P, upper, TWO_PHASE, first.status, first.n_iter, first.trace.value, first.best_value,
            first.certificate.given,
        )  # fmt: skip
        details = replace(first.details, phases=(first,), phase=1)
        result = replace(first, guarantee=guarantee, note="in phase 1", details=details)
    else:
        if time_limit is not None:
            options["time_limit"] = time_left(time_limit, began)
        from_zero = x0 is None and f.finite_at_zero
        bound = bound_from_zero(f, upper, first.trace.value, first.trace.fw_gap) if from_zero else math.inf
        result = second_phase(first, subroutine, f, P, options, bound)
    return replace(result, method="two-phase-frank-wolfe", time=now() - began)


def second_phase(
    first: Result,
    subroutine: Callable[..., Result],
    f: Objective,
    P: FeasibleSet,
    options: dict[str, Any],
    bound: float,
    polish: bool = False,
) -> Result:
    """The better of ``first``, a stationary point over P, and the subroutine's answer over Q, with the 1/4 bound.

    ``bound`` is the linear bound from 0, which a value of an f that is not DR-submodular may exceed. With ``polish`` an
    answer over Q that is not stationary over P is where a third solve begins.
    """
    began, upper = now(), solver_upper(f, P)
    Q = P.with_upper(np.maximum(upper - first.x, 0.0))
    if not (f.finite_at_zero or math.isfinite(f.value(inner_point(Q, Q.upper)))):
        return replace(first, guarantee=_ONE_PHASE, details=replace(first.details, phases=(first,), phase=1))
    second = subroutine(f, Q, **options)
    runs, better, phase, n_lmo = [first, second], first, 1, first.n_lmo + second.n_lmo
    status, gap = first.status, first.fw_gap
    if second.value > first.value:
        better, phase, status = second, 2, second.status
        gap, allowed, calls = _gap_over_all(f, P, upper, second, options.get("tol"))
        n_lmo += calls
        if polish and status is Status.CONVERGED and gap > allowed:
            if options.get("time_limit") is not None:
                options = options | {"time_limit": time_left(options["time_limit"], began)}
            third = subroutine(f, P, x0=second.x, **options)
            runs.append(third)
            n_lmo += third.n_lmo
            if third.value >= second.value:
                better, phase, status, gap = third, 3, third.status, third.fw_gap
        status = converged_status(status, gap, allowed) if phase == 2 else status
    status = next((r.status for r in reversed(runs) if r.status not in FINISHED_RUNS), status)
    top = max(runs, key=lambda run: run.best_value)
    values = np.concatenate([*(run.trace.value for run in runs), [better.value]])
    met = TWO_PHASE, status, first.n_iter + second.n_iter, values, top.best_value
    guarantee, upper_bound = claims(f, P, upper, *met, min(first.certificate.given, bound))
    if guarantee.holds and math.isfinite(first.fw_gap + second.fw_gap):
        larger = max(first.value, second.value)
        local_global = local_global_bound.interpreted(larger, first.fw_gap, second.fw_gap)
        guarantee, upper_bound = claims(f, P, upper, *met, min(upper_bound, local_global))
    details = replace(
        better.details, phases=tuple(runs), phase=phase, n_starts=first.n_starts,
        n_best=first.n_best if phase == 1 else 1,
    )  # fmt: skip
    return replace(
        better, fw_gap=gap, guarantee=guarantee, certificate=Certificate(upper_bound, None, (f, P)), status=status,
        n_lmo=n_lmo, note=f"in phase {len(runs)}" if runs[-1].status.is_stop else better.note, best_x=top.best_x.copy(),
        best_value=top.best_value, details=details,
    )  # fmt: skip


def _gap_over_all(f, P, upper, second, tol):
    """(gap over P of an answer whose gap is known over Q, the gap that counts as small, calls of the oracle)."""
    tol = as_tolerance(tol)
    allowed = allowed_gap.interpreted(tol, second.best_value, float(second.trace.value[0]))
    if not math.isfinite(second.fw_gap):
        return second.fw_gap, allowed, 0
    gradient = f.gradient(second.x)
    return float(gap_at.interpreted(gradient, P.lmo(gradient, upper), second.x)), allowed, 1


register_method(
    Method(
        "two-phase-frank-wolfe", two_phase_frank_wolfe, "Two-phase Frank-Wolfe", needs=("down-closed",),
        second_phase=True, promise=TWO_PHASE, marker="o", colour="tab:red",
        claim="1/4 of the maximum (Theorem 1), f >= 0", about="the paper's Algorithm 1",
    )
)  # fmt: skip
