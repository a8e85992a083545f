"""Boosted gradient ascent of Zhang et al. 2022, for monotone f over any convex set.

The first phase ends at a point x that is nearly stationary for the non-oblivious function F of f
(`objectives.boosted`), the second climbs from there with f itself. With g = max over P of <grad F(x), v - x>

    f(x) >= (1 - 1/e) f(x*) + f(0)/e - g,

where stationary points of f are only known to have 1/2 f(x*), and where sets that are not down-closed leave continuous
greedy without a start. The same inequality bounds f(x*).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast.claims.gate import FINISHED_RUNS, Promise, claims, guarantee
from drsub_fast.claims.premises import MONOTONE
from drsub_fast.engine.clock import now, time_left
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.boosted import boosted
from drsub_fast.result import Certificate, Result, Status, Trace
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.domain import solver_upper
from drsub_fast.solvers.multi_start import local_solver
from drsub_fast.solvers.record import Method, named_options, register_method

_PART = 1.0 - 1.0 / math.e
#: Values along the way may fall: what speaks against a declared monotone f in continuous greedy says nothing here.
_PROMISE = Promise(
    _PART,
    "f(x) >= (1 - 1/e) f(x*) + f(0)/e - g_F(x) (Zhang et al. 2022)",
    MONOTONE._replace(contradiction=lambda values: ""),
)


@named_options
def boosted_gradient(
    f: Objective,
    P: FeasibleSet,
    *,
    x0: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float | None = None,
    lmo: str = "auto",
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """Ascent along a non-oblivious gradient, then along f's own, with a 1 - 1/e guarantee for monotone f.

    Parameters
    ----------
    f : Objective
        Monotone DR-submodular function to maximise, finite at 0.
    P : FeasibleSet
        Convex set in [0, upper], down-closed or not.
    x0 : array_like, shape (n,), optional
        Starting point in P; the set's own by default.
    max_iter : int
        Updates of x in each of the two phases.
        The tolerance is that of each phase, the time limit that of both together.
    {tol, lmo, callback, callback_every, time_limit, progress}

    Returns
    -------
    Result
        The better of the two phases' ends, with the trace of the second; both are in `phases`, the values of the
        first being those of F. `n_lmo` and `time` are totals.

    Raises
    ------
    ValueError
        If f is not finite at 0.

    Notes
    -----
    Zhang, Deng, Chen, Hu, Yang, "Stochastic continuous submodular maximization: boosting via non-oblivious
    function", 2022, Theorem 1.

    Examples
    --------
    At (1, 0) the gradient of x_0 + 1.9 x_1 - x_0 x_1 sees nothing better on the simplex:

    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[0.0, -1.0], [-1.0, 0.0]], [1.0, 1.9])
    >>> ds.frank_wolfe(f, ds.Simplex(2), x0=[1.0, 0.0]).value
    1.0
    >>> ds.boosted_gradient(f, ds.Simplex(2), x0=[1.0, 0.0]).value
    1.9
    """
    require_problem(f, P)
    began, upper = now(), solver_upper(f, P)
    start = f.value(np.zeros(f.n))
    if not math.isfinite(start) and f.finite_at_zero:
        raise ValueError(f"boosted_gradient needs an f that is finite at 0, where f is {start}; use frank_wolfe")
    options: dict[str, Any] = {
        "max_iter": max_iter,
        "tol": tol,
        "lmo": lmo,
        "callback_every": callback_every,
        "progress": progress,
    }
    options |= {} if callback is None else {"callback": callback}
    F = boosted(f)
    first = local_solver(F, P).solve(F, P, x0=x0, time_limit=time_limit, **options)
    try:
        value = f.value(first.x)
    except KeyboardInterrupt:  # inside a function of the user
        value, first = f.value(first.x), replace(first, status=Status.INTERRUPTED)
    left = time_left(time_limit, began)
    if first.status.is_stop:
        options["max_iter"] = 0
    if first.status in (Status.TIME_LIMIT, Status.INTERRUPTED) and math.isfinite(value):
        second = replace(
            first, value=value, fw_gap=math.nan, certificate=Certificate(math.inf), n_iter=0, n_lmo=0,
            best_x=first.x.copy(), best_value=value, trace=Trace(np.array([value]), np.array([math.nan])),
        )  # fmt: skip
    else:
        # F averages f over the way to x, and may be finite where f itself is not.
        start_of_second = first.x if math.isfinite(value) else x0
        second = local_solver(f, P).solve(f, P, x0=start_of_second, time_limit=left, **options)
    status = first.status if first.status not in FINISHED_RUNS else second.status
    top = second.best_value
    bound = math.inf
    if guarantee(f, P, upper, _PROMISE).holds and math.isfinite(value + first.fw_gap):
        bound = (value - start / math.e + max(first.fw_gap, 0.0)) / _PART
        bound += 1e-9 * (abs(value) + abs(bound))
    given, upper_bound = claims(
        f, P, upper, _PROMISE, status, first.n_iter + 1, second.trace.value, top, min(bound, second.certificate.given)
    )
    return replace(
        second, guarantee=given, certificate=Certificate(upper_bound, None, (f, P)), status=status,
        n_lmo=first.n_lmo + second.n_lmo, time=now() - began, method="boosted-gradient",
        details=replace(second.details, phases=(first, second), phase=2),
    )  # fmt: skip


register_method(
    Method(
        "boosted-gradient", boosted_gradient, "Boosted gradient", marker="d", colour="tab:pink",
        claim="1 - 1/e, f monotone", about="monotone f over sets that are not down-closed",
    )
)  # fmt: skip
