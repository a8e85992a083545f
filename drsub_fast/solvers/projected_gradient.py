"""Projected gradient ascent with the step 1/(k + 1) (the paper's baseline); and the choice of spectral steps.

x_{k+1} = projection onto P of x_k + grad f(x_k) / (k + 1), k = 0, 1, ..

The oracle is asked twice, for the gaps of the first iterate, which bounds the maximum from x = 0, and of the last.
Spectral steps, which are asked for by name, have a loop of their own (`spectral`).
"""

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Literal

from numpy.typing import ArrayLike

from drsub_fast._checks import as_real, one_of
from drsub_fast.engine.codes import BREAK, CONVERGED, FINISHED, NEEDS_PROJECTION, NON_FINITE, OK
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import assign, blend
from drsub_fast.objectives.base import Objective, evaluate
from drsub_fast.result import Guarantee, Result, Status
from drsub_fast.sets.base import FeasibleSet, project
from drsub_fast.solvers.frank_wolfe import STATIONARY
from drsub_fast.solvers.record import Method, named_options, register_method
from drsub_fast.solvers.run import Run
from drsub_fast.solvers.spectral_steps import SpectralOptions, spectral_loop
from drsub_fast.solvers.state import (
    CLOSING,
    GAP,
    STARTED,
    SUPPLIED,
    K,
    begin,
    measure_gap,
    note_step,
    note_top,
    open_run,
    small_gap,
    stays_finite,
)

#: How often a step that ends where f is -infinity is halved.
_HALVINGS = 30

#: ``step`` is the constant step, or 0 for 1/(k + 1).
ProjectedGradientOptions = namedtuple("ProjectedGradientOptions", "step tol")


SHORT_STEPS = Guarantee(
    None, "none with the step 1/(k + 1); stationary points reach f(x*)/2 for monotone f only (Hassani et al. 2017)"
)


@kernel(separate=True)
def projected_gradient_loop(
    objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap
):
    state, work, set_work = open_run(objective, feasible_set, x.size, floats, integers)
    control, numbers = state.control, state.numbers
    if control[STARTED] == 0 and not begin(objective, work, state, x, upper, trace_value, trace_gap):
        return NON_FINITE
    candidate = state.candidate
    if control[K] == 0 and math.isnan(numbers[GAP]):
        code = measure_gap(objective, work, feasible_set, set_work, state, x, trace_gap)
        if code != OK:
            return code
        if not math.isfinite(numbers[GAP]):
            return NON_FINITE
    while control[K] < k_max:
        k = control[K]
        if control[SUPPLIED]:
            control[SUPPLIED] = 0
        else:
            if k >= k_stop:
                return BREAK
            step = options.step if options.step > 0.0 else 1.0 / (k + 1.0)
            aim = state.rate
            for j in range(x.size):
                aim[j] = x[j] + step * work.grad[j]
            if project(feasible_set, set_work, aim, state.bound, candidate) != OK:
                assign(candidate, aim)
                return NEEDS_PROJECTION
        assign(x, candidate)
        value = evaluate(objective, work, x)
        # f may fall to -infinity at the boundary.
        halvings = 0
        while value == -math.inf and halvings < _HALVINGS:
            halvings += 1
            blend(x, 0.5, state.previous)
            value = evaluate(objective, work, x)
        if not stays_finite(objective, work, state, x, value):
            return NON_FINITE
        assign(state.previous, x)
        note_step(state, value, trace_value, trace_gap)
        note_top(state, x)
    if control[CLOSING] == 0 and control[K] >= k_stop:
        return BREAK
    control[CLOSING] = 1
    code = measure_gap(objective, work, feasible_set, set_work, state, x, trace_gap)
    if code != OK:
        return code
    return CONVERGED if numbers[GAP] <= small_gap(options.tol, numbers) else FINISHED


@named_options
def projected_gradient(
    f: Objective,
    P: FeasibleSet,
    *,
    x0: ArrayLike | None = None,
    step_size: Literal["diminishing", "spectral"] | float = "diminishing",
    max_iter: int = 100,
    tol: float | None = None,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """Projected gradient ascent.

    Parameters
    ----------
    f, P : Objective, FeasibleSet
        Function to maximise, and a convex set with a projection.
    step_size : "diminishing", "spectral" or float
        1/(k + 1) as in the paper, the length and line search of Birgin, Martinez and Raydan, or a constant step. The
        first and the last multiply the gradient, so the iterates depend on the units of f and x.
    max_iter : int
        Number of steps.
    tol : float, optional
        Gap, as in `frank_wolfe`, at the last iterate below which the run counts as converged; with spectral steps the
        run stops at the first such gap.
    {x0, lmo, callback, callback_every, time_limit, progress}

    Returns
    -------
    Result
        x is the last iterate.

    Raises
    ------
    UnsupportedError
        If P has no projection.
    OracleError
        If a linear program of the oracle fails.

    Notes
    -----
    Bian et al. 2017 (baseline). A stationary point of a monotone DR-submodular function has at
    least half the maximum (Hassani, Soltanolkotabi, Karbasi 2017).

    Spectral steps (Birgin, Martinez, Raydan 2000) take the inverse of the curvature along the last step as the length
    of the next, and shorten it until f rises. They suit smooth f over sets with a cheap projection where small gaps
    are wanted: one oracle call and one projection a step, mostly one gradient, and no scale to choose. f does not
    fall, up to rounding. Where rounding keeps the gap above ``tol``, the run ends with the status STALLED.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.projected_gradient(f, ds.Box([1.0, 1.0])).value, 2)
    0.57
    >>> r = ds.projected_gradient(f, ds.Box([1.0, 1.0]), tol=1e-9, step_size="spectral")
    >>> round(r.value, 9), r.status.name
    (0.571428571, 'CONVERGED')
    """
    run = Run(f, P, x0, max_iter, lmo, tol, callback, callback_every, time_limit, progress)
    if isinstance(step_size, str):
        one_of(step_size, "step_size", ("diminishing", "spectral"))
        step = 0.0
    else:
        step = as_real(step_size, "step_size", lower=0.0, strict=True)
    if step_size == "spectral":
        status = run.solve(spectral_loop, SpectralOptions(run.tol), Status.MAX_ITER)
        return run.result("projected-gradient", status, STATIONARY, returns_best=True)
    status = run.solve(projected_gradient_loop, ProjectedGradientOptions(step, run.tol))
    return run.result("projected-gradient", status, SHORT_STEPS)


register_method(
    Method(
        "projected-gradient", projected_gradient, "ProjGrad", Status.COMPLETED, needs=("projection",), is_local=True,
        loop=lambda tol, max_iter: ProjectedGradientOptions(0.0, tol), promise=SHORT_STEPS, marker="s",
        colour="tab:green", claim="none with this step", about="the paper's baseline",
    )
)  # fmt: skip
