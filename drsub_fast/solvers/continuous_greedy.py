"""Frank-Wolfe variants that add vertices from x = 0: non-monotone (paper, Algorithm 2) and monotone.

x = 0; K times: v = argmax <v, grad f(x)> over P, for the non-monotone variant with v <= u - x (the
shrunken oracle); x += v / K. Steps are counted with an integer: a floating t < 1 takes one step too many.

Non-monotone, f >= 0: f(x_K) >= e^-1 f(x*) - L D^2 / (2K) - O(1/K^2) f(x*) (Theorem 2 and Corollary 1).
Monotone f with f(0) >= 0: f(x_K) >= (1 - 1/e) f(x*) - L D^2 / (2K) (Bian et al., AISTATS 2017).
"""

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from drsub_fast.claims.gate import Promise
from drsub_fast.claims.premises import MONOTONE, NONNEGATIVE
from drsub_fast.engine.codes import BREAK, FINISHED, NON_FINITE, OK
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import assign, clip_above, residual_bound
from drsub_fast.objectives.base import Objective, prepare
from drsub_fast.objectives.lazy_gradient import final_value, increase
from drsub_fast.objectives.sparse_steps import keep_moved, moved, n_moved
from drsub_fast.result import Result, Status
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_problem, require_shrinking
from drsub_fast.solvers.domain import inner_point
from drsub_fast.solvers.record import Method, named_options, register_method
from drsub_fast.solvers.run import Run
from drsub_fast.solvers.state import (
    CLOSING,
    GAP,
    STALE,
    STARTED,
    SUPPLIED,
    VALUE,
    VERTEX,
    K,
    after_step,
    begin,
    gap_at,
    next_vertex,
    note_higher,
    note_step,
    open_run,
    stays_finite,
)

AdditiveOptions = namedtuple("AdditiveOptions", "n_steps shrunken")


@kernel
def _shorten(v, gamma, x, upper):
    """Shortens v where x + gamma v would be above ``upper``, by rounding; whether it was somewhere.

    Without that, the last of K steps to a bound may end beyond it, where f need not be defined.
    """
    count = 0
    for j in range(x.size):
        if x[j] + gamma * v[j] > upper[j]:
            v[j] = max(upper[j] - x[j], 0.0) / gamma * (1.0 - 4e-16)
            count += 1
    return count > 0


@kernel(separate=True)
def additive_loop(objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap):
    state, work, set_work = open_run(objective, feasible_set, x.size, floats, integers)
    control, numbers = state.control, state.numbers
    if control[STARTED] == 0:
        defined = begin(objective, work, state, x, upper, trace_value, trace_gap)
        # A first vertex that was given leads away from a start where f is -infinity.
        if not defined and control[SUPPLIED] == 0:
            return NON_FINITE
    # The oracle is called at one place, where it is built in: a second call would cost all steps a tenth more.
    while True:
        k = control[K]
        if k >= k_stop:
            return BREAK
        if k >= k_max and control[CLOSING] == 0:
            # Value from scratch, and gap over the whole set, at the last iterate.
            control[CLOSING] = 1
            control[VERTEX] = STALE
            clip_above(x, upper)
            numbers[VALUE] = trace_value[k] = final_value(objective, work, x, numbers[VALUE])
            assign(state.bound, upper)
        code = next_vertex(objective, work, feasible_set, set_work, state, x, True)
        if code != OK:
            return code
        if k == 0 or k >= k_max:
            trace_gap[k] = gap_at(work.grad, state.v, x)
        if k >= k_max:
            numbers[GAP] = trace_gap[k]
            return FINISHED
        gamma = min(1.0 / options.n_steps, 1.0 - k / options.n_steps)
        if k + 1 == options.n_steps and not options.shrunken and _shorten(state.v, gamma, x, upper):
            prepare(objective, work, x, state.v)
        value = increase(objective, work, x, state.v, gamma, numbers[VALUE])
        if not stays_finite(objective, work, state, x, value):
            return NON_FINITE
        keep_moved(objective, work, state.previous, x)
        note_step(state, value, trace_value, trace_gap)
        note_higher(objective, work, state, x)
        if options.shrunken:
            for t in range(n_moved(objective, work, x.size)):
                j = moved(objective, work, t)
                state.bound[j] = residual_bound(upper[j], x[j])
        after_step(feasible_set, set_work, state, 1.0, gamma)


def _solve(method, shrunken, promise, f, P, max_iter, lmo, *options):
    """The result of a method, by its name."""
    require_problem(f, P)
    if not P.is_down_closed or shrunken:
        require_shrinking(P, method.replace("-", "_"), "frank_wolfe or maximize(method='auto')")
    x0 = None if f.finite_at_zero else np.zeros(f.n)
    run = Run(f, P, x0, max_iter, lmo, None, *options)
    if x0 is not None:
        run.first_vertex = inner_point(P, run.upper)
    status = run.solve(additive_loop, AdditiveOptions(run.max_iter, shrunken))
    return run.result(method, status, promise)


@named_options
def nonmonotone_frank_wolfe(
    f: Objective,
    P: FeasibleSet,
    *,
    max_iter: int = 100,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """Non-monotone Frank-Wolfe variant (Algorithm 2): max_iter steps of 1/max_iter from 0.

    Parameters
    ----------
    f, P : Objective, FeasibleSet
        Function to maximise, and a down-closed set.
    max_iter : int
        Number of steps K.
    {lmo, callback, callback_every, time_limit, progress}

    Returns
    -------
    Result
        x = x_K. The gap over P is computed at 0 and at x_K only: the shrunken oracle does not give it on the way.

    Raises
    ------
    UnsupportedError
        If P is not down-closed.
    OracleError
        If a linear program of the oracle fails.

    Notes
    -----
    Bian et al. 2017, Algorithm 2, Theorem 2 and Corollary 1: f(x_K) >= f(x*)/e - L D^2 / (2K) - O(1/K^2) f(x*) for
    f >= 0.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.nonmonotone_frank_wolfe(f, ds.Box([1.0, 1.0])).value, 2)
    0.55
    """
    return _solve(
        "nonmonotone-frank-wolfe", True, NONMONOTONE, f, P, max_iter, lmo,
        callback, callback_every, time_limit, progress,
    )  # fmt: skip


@named_options
def monotone_frank_wolfe(
    f: Objective,
    P: FeasibleSet,
    *,
    max_iter: int = 100,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """Monotone Frank-Wolfe variant (continuous greedy): max_iter steps of 1/max_iter from 0, no shrinking.

    Parameters
    ----------
    f : Objective
        Function to maximise; for the guarantee monotone and DR-submodular, with f(0) >= 0.
    P : FeasibleSet
        Down-closed set.
    max_iter : int
        Number of steps K.
    {lmo, callback, callback_every, time_limit, progress}

    Returns
    -------
    Result
        x is the last iterate, the sum of the vertices over K.

    Raises
    ------
    UnsupportedError
        If P is not down-closed; see `boosted_gradient`.
    OracleError
        If a linear program of the oracle fails.

    Notes
    -----
    Bian, Mirzasoleiman, Buhmann, Krause 2017, Algorithm 1: f(x_K) >= (1 - 1/e) f(x*) - L D^2 / (2K) for
    monotone f with f(0) >= 0. For other f it has no guarantee; it serves as a baseline.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [3.0, 3.0])
    >>> ds.monotone_frank_wolfe(f, ds.Budget(1.0, [1.0, 1.0])).guarantee.holds
    True
    """
    return _solve(
        "monotone-frank-wolfe", False, CONTINUOUS_GREEDY, f, P, max_iter, lmo,
        callback, callback_every, time_limit, progress,
    )  # fmt: skip


NONMONOTONE = Promise(
    1.0 / math.e,
    "f(x_K) >= f(x*)/e - L D^2/(2K) - O(1/K^2) f(x*) (Bian et al. 2017, Theorem 2 and Corollary 1)",
    NONNEGATIVE,
)
CONTINUOUS_GREEDY = Promise(
    1.0 - 1.0 / math.e, "f(x_K) >= (1 - 1/e) f(x*) - L D^2/(2K) (Bian et al., AISTATS 2017)", MONOTONE
)


register_method(
    Method(
        "monotone-frank-wolfe", monotone_frank_wolfe, "Monotone Frank-Wolfe", Status.COMPLETED, needs=("down-closed",),
        loop=lambda tol, max_iter: AdditiveOptions(max_iter, False), promise=CONTINUOUS_GREEDY, marker="X",
        colour="tab:gray", claim="1 - 1/e - O(1/K), f monotone", about="continuous greedy",
    )
)  # fmt: skip
register_method(
    Method(
        "nonmonotone-frank-wolfe", nonmonotone_frank_wolfe, "Non-monotone Frank-Wolfe", Status.COMPLETED,
        needs=("down-closed",), loop=lambda tol, max_iter: AdditiveOptions(max_iter, True), promise=NONMONOTONE,
        marker="^", colour="tab:blue", claim="1/e - O(1/K) (Theorem 2, Corollary 1), f >= 0",
        about="a fixed number of steps",
    )
)  # fmt: skip
