"""Non-convex Frank-Wolfe (paper, Algorithm 3; Lacoste-Julien 2016).

For k = 0, 1, ..: v = argmax_{v in P} <v, grad f(x)>, gap = <v - x, grad f(x)>; stop when gap <= tol;
x += gamma (v - x). Returned is the iterate of the smallest gap, which after K steps is at most
max(2 h_0, C_f) / sqrt(K + 1) with the short step.

Step sizes: "open-loop" 2/(k + 2) (the paper's experiments), "exact" argmax over [0, 1] (Option I), "short"
min(gap / C, 1) with C >= C_f(P) (Option II).
"""

from collections import namedtuple
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_real, one_of
from drsub_fast.engine.codes import BREAK, CONVERGED, FINISHED, NON_FINITE, OK
from drsub_fast.engine.jit import kernel
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective, contract, exact_step
from drsub_fast.result import Guarantee, Result, Status
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.solvers.record import Method, named_options, register_method
from drsub_fast.solvers.run import Run
from drsub_fast.solvers.state import (
    BEST_GAP,
    GAP,
    STARTED,
    VALUE,
    K,
    Tolerance,
    after_step,
    begin,
    close_run,
    gap_at,
    keep_iterate,
    next_vertex,
    note_iterate,
    open_run,
    small_gap,
)

OPEN_LOOP, EXACT, SHORT, CONSTANT = range(4)
#: A linear f has none; the step is then whole.
_LEAST_CURVATURE = 1e-300
STEP_SIZES = {"open-loop": OPEN_LOOP, "exact": EXACT, "short": SHORT}

#: `tol` is a `Tolerance`; `scale` is the curvature bound C of short steps, the step itself where it is constant, and
#: the longest open-loop step: 1, or less where f may be -infinity at a vertex.
FrankWolfeOptions = namedtuple("FrankWolfeOptions", "step_size tol scale")


def frank_wolfe_options(
    tol: Tolerance, max_iter: int, step_size: str = "open-loop", curvature: ArrayLike | None = None
) -> FrankWolfeOptions:
    """Options of the loop; for a stack with one curvature bound a problem."""
    scale = np.ones(1) if curvature is None else np.maximum(curvature, _LEAST_CURVATURE)
    return FrankWolfeOptions(STEP_SIZES[step_size], tol, scale)


STATIONARY = Guarantee(
    None,
    "a stationary point (Lacoste-Julien 2016): the gap falls like 1/sqrt(k) with exact or short steps; "
    "no bound on the value",
)


@kernel(separate=True)
def frank_wolfe_loop(
    objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap
):
    state, work, set_work = open_run(objective, feasible_set, x.size, floats, integers)
    control, numbers = state.control, state.numbers
    if control[STARTED] == 0 and not begin(objective, work, state, x, upper, trace_value, trace_gap):
        return NON_FINITE
    while True:
        k = control[K]
        code = next_vertex(objective, work, feasible_set, set_work, state, x, False)
        if code != OK:
            return code
        v = state.v
        gap = gap_at(work.grad, v, x)
        if not note_iterate(state, x, gap, trace_value, trace_gap):
            return NON_FINITE
        if gap < numbers[BEST_GAP]:
            keep_iterate(state, x)
        if k >= k_stop:
            return BREAK
        small = small_gap(options.tol, numbers)
        if gap <= small or k >= k_max:
            close_run(objective, work, state, x, upper)
            return CONVERGED if numbers[GAP] <= small else FINISHED
        if options.step_size == OPEN_LOOP:
            gamma = min(2.0 / (k + 2.0), options.scale)
        elif options.step_size == EXACT:
            gamma = exact_step(objective, work, x, v, 1.0, numbers[VALUE])
        elif options.step_size == SHORT:
            gamma = min(gap / options.scale, 1.0)
        else:
            gamma = options.scale
        numbers[VALUE] = contract(objective, work, x, v, gamma, numbers[VALUE])
        control[K] = k + 1
        after_step(feasible_set, set_work, state, 1.0 - gamma, gamma)


def _step_rule(step_size, curvature, f, upper):
    """Code of a step size and its number."""
    if curvature is not None:
        curvature = as_real(curvature, "curvature", lower=0.0)
    if not isinstance(step_size, str):
        step = as_real(step_size, "step_size", lower=0.0, strict=True)
        if step > 1.0:
            raise ValueError(f"step_size = {step:g} is above 1: the iterates would leave the set")
        return CONSTANT, step
    rule = STEP_SIZES.get(step_size)
    if rule is None:
        one_of(step_size, "step_size", tuple(STEP_SIZES))
    if rule != SHORT:
        return rule, 1.0 if f.finite_at_zero else 0.5
    if curvature is None:
        curvature = f.curvature_bound(upper)
        if curvature is None:
            raise UnsupportedError(
                f"step_size='short' needs a curvature bound, which {f!r} does not know: give curvature="
            )
    return rule, max(curvature, _LEAST_CURVATURE)


@named_options
def frank_wolfe(
    f: Objective,
    P: FeasibleSet,
    *,
    x0: ArrayLike | None = None,
    step_size: Literal["open-loop", "exact", "short"] | float = "open-loop",
    max_iter: int = 100,
    tol: float | None = None,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    curvature: float | None = None,
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """Non-convex Frank-Wolfe: a stationary point of f over P.

    Parameters
    ----------
    f : Objective
        Function to maximise.
    P : FeasibleSet
        Feasible set.
    {x0}
    step_size : {"open-loop", "exact", "short"} or float
        2/(k + 2), the best point of the segment (Option I), min(gap / C, 1) (Option II), or a constant in (0, 1].
    max_iter : int
        Number of updates of x. The gap is evaluated at the last iterate too.
    {tol, lmo}
    curvature : float, optional
        C >= C_f(P) for short steps; by default the objective's own bound.
    {callback, callback_every, time_limit, progress}

    Returns
    -------
    Result
        x is the iterate of the smallest gap; `best_x` the one of the largest value.

    Raises
    ------
    ValueError
        For an x0 outside P or an unknown option.
    OracleError
        If a linear program of the oracle fails.

    Notes
    -----
    Bian et al. 2017, Algorithm 3 (which prints argmin for Option I; for a maximum it is argmax).

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.frank_wolfe(f, ds.Box([1.0, 1.0]), step_size="exact", max_iter=1000, tol=1e-3)
    >>> round(r.value, 2), r.fw_gap <= 1e-3
    (0.57, True)
    """
    run = Run(f, P, x0, max_iter, lmo, tol, callback, callback_every, time_limit, progress)
    rule, scale = _step_rule(step_size, curvature, f, run.upper)
    options = FrankWolfeOptions(rule, run.tol, scale)
    status = run.solve(frank_wolfe_loop, options, Status.MAX_ITER)
    return run.result("frank-wolfe", status, STATIONARY, returns_best=True)


register_method(
    Method(
        "frank-wolfe", frank_wolfe, "Frank-Wolfe", is_local=True, loop=frank_wolfe_options, promise=STATIONARY,
        marker="v", colour="tab:orange", claim="a stationary point, 1/sqrt(K)",
        about="Algorithm 3: open-loop, exact, short steps",
    )
)  # fmt: skip
