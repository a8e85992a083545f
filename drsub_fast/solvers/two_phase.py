"""Two-phase Frank-Wolfe (paper, Algorithm 1).

x = stationary point over P; z = stationary point over Q = {y in P : y <= u - x}; return the better one.
With exactly stationary points max{f(x), f(z)} >= f(x*)/4 for f >= 0, by the local-global relation
(Proposition 1); the gaps g_P(x) and g_Q(z) that are left cost (g_P + g_Q)/4.
"""

import math
from dataclasses import replace
from time import perf_counter

import numpy as np

from drsub_fast._checks import as_real, one_of
from drsub_fast.errors import UnsupportedError
from drsub_fast.result import Status
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.frank_wolfe import frank_wolfe
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe
from drsub_fast.solvers.projected_gradient import projected_gradient
from drsub_fast.solvers.run import guarantee, solver_upper

SUBROUTINES = {
    "frank-wolfe": frank_wolfe,
    "fully-corrective-frank-wolfe": fully_corrective_frank_wolfe,
    "projected-gradient": projected_gradient,
}

_STATEMENT = "max(f(x), f(z)) >= [f(x*) - g_P(x) - g_Q(z)]/4 (Bian et al. 2017, Proposition 1)"


def two_phase_frank_wolfe(
    f, P, max_iter=100, tol=1e-6, subroutine="frank-wolfe", lmo="auto", *, time_limit=None, **options
):  # fmt: skip
    """Two-phase Frank-Wolfe (Algorithm 1): the better of two stationary points, with a 1/4 guarantee.

    Parameters
    ----------
    f : Objective
        Function to maximise.
    P : FeasibleSet
        Down-closed set.
    max_iter : int
        Updates of x in each phase.
    tol : float
        Gap tolerance of each phase (in units of f).
    subroutine : str or callable
        Name of the local solver ("frank-wolfe", "fully-corrective-frank-wolfe", "projected-gradient"), or any
        function ``solver(f, P, max_iter=.., tol=.., **options) -> Result``.
    lmo : {"auto", "highs", "kernel"}
        As in `frank_wolfe`.
    time_limit : float, optional
        Seconds for both phases together.
    **options
        Passed to the subroutine, e.g. ``step_size="exact"`` or ``callback``.

    Returns
    -------
    Result
        The better phase, named by `phase`; its trace, status and iterations are that phase's, `n_lmo`
        and `time` are totals, and `phases` holds both results, that of phase 2 with its gap over Q.

    Raises
    ------
    UnsupportedError
        If P is not down-closed.

    Notes
    -----
    Bian et al. 2017, Algorithm 1 and Proposition 1.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.two_phase_frank_wolfe(f, ds.Box([1.0, 1.0]))
    >>> r.phase, round(r.value, 2)
    (1, 0.57)
    """
    require_problem(f, P)
    if not P.is_down_closed:
        raise UnsupportedError(f"two_phase_frank_wolfe needs a down-closed set, which {P!r} is not; use frank_wolfe")
    if not callable(subroutine):
        subroutine = SUBROUTINES.get(subroutine) or one_of(subroutine, "subroutine", tuple(SUBROUTINES))
    began = perf_counter()
    options |= {"max_iter": max_iter, "tol": tol, "lmo": lmo}
    if time_limit is not None:
        options["time_limit"] = as_real(time_limit, "time_limit", lower=0.0)
    first = subroutine(f, P, **options)
    if first.status in (Status.INTERRUPTED, Status.CALLBACK):
        return replace(first, method="two-phase-frank-wolfe", phases=(first,), phase=1, note="in phase 1")
    if time_limit is not None:
        options["time_limit"] = max(0.0, time_limit - (perf_counter() - began))
    result = second_phase(first, subroutine, f, P, options)
    return replace(result, method="two-phase-frank-wolfe", time=perf_counter() - began)


def second_phase(first, subroutine, f, P, options):
    """The better of ``first``, a stationary point over P, and the subroutine's answer over Q, with the 1/4 bound."""
    upper = solver_upper(f, P)
    Q = P.with_upper(np.maximum(upper - first.x, 0.0))
    second = subroutine(f, Q, **options)
    phase, better = (2, second) if second.value > first.value else (1, first)
    top = first if first.best_value >= second.best_value else second
    bound = guarantee(f, P, 0.25, _STATEMENT, "f >= 0 on [0, upper]", f.nonnegative_on)
    upper_bound = first.upper_bound
    if bound.holds:
        upper_bound = min(upper_bound, 4.0 * better.value + first.fw_gap + second.fw_gap)
    gap, n_lmo = better.fw_gap, first.n_lmo + second.n_lmo
    if phase == 2 and math.isfinite(gap):
        # The subroutine measured the gap over Q.
        gradient = f.gradient(second.x)
        gap, n_lmo = float(gradient @ (P.lmo(gradient, upper) - second.x)), n_lmo + 1
    return replace(
        better, fw_gap=gap, guarantee=bound, upper_bound=upper_bound, n_lmo=n_lmo,
        best_x=top.best_x, best_value=top.best_value, phases=(first, second), phase=phase,
        n_starts=first.n_starts, n_best=first.n_best if phase == 1 else 1,
    )  # fmt: skip
