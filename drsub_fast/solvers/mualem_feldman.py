"""Frank-Wolfe from the point of least maximum norm, for convex sets that need not be down-closed.

x_0 = argmin max_i x_i / u_i over P; K steps x = (1 - eps) x + eps s with s = argmax_{s in P} <s, grad f(x)> and
eps = ln 2 / K; the best iterate is returned. For f >= 0 on [0, u],

    f(x) >= (1 - min_{x in P} max_i x_i / u_i)/4 f(x*) - O(eps) (Mualem and Feldman 2023),

the best factor that polynomially many evaluations allow; 1/4 where 0 is in P.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from drsub_fast._checks import as_count
from drsub_fast.claims.gate import Promise, claims, converged_status
from drsub_fast.claims.premises import NONNEGATIVE
from drsub_fast.objectives.base import Objective
from drsub_fast.result import Certificate, Result, Status
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.domain import inner_point, solver_upper
from drsub_fast.solvers.frank_wolfe import frank_wolfe
from drsub_fast.solvers.record import Method, named_options, register_method


@named_options
def mualem_feldman(
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
    """Frank-Wolfe with constant steps ln 2 / max_iter from the point of least maximum norm.

    Parameters
    ----------
    f : Objective
        DR-submodular function to maximise.
    P : FeasibleSet
        Convex set in [0, upper], down-closed or not.
    max_iter : int
        Number of steps K.
    {lmo, callback, callback_every, time_limit, progress}

    Returns
    -------
    Result
        x is the iterate of the largest value; the gap belongs to it only if it is also the last one, else NaN.

    Raises
    ------
    OracleError
        If a linear program of the oracle fails.

    Notes
    -----
    Mualem and Feldman 2023, "Resolving the approximability of offline and online non-monotone DR-submodular
    maximization over general convex sets", Theorem 3.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.mualem_feldman(f, ds.Simplex(2))
    >>> round(r.value, 2), round(r.guarantee.ratio, 3)
    (0.56, 0.125)
    """
    require_problem(f, P)
    steps = as_count(max_iter, "max_iter", lower=1)
    upper = solver_upper(f, P)
    x0 = P.min_max_norm_point(upper) if f.finite_at_zero else inner_point(P, upper)
    r = frank_wolfe(
        f, P, x0=x0, step_size=math.log(2.0) / steps, max_iter=steps, tol=0.0, lmo=lmo,
        callback=callback, callback_every=callback_every, time_limit=time_limit, progress=progress,
    )  # fmt: skip
    status = Status.COMPLETED if r.status is Status.MAX_ITER else r.status
    # Where x may be negative, the bound is that of the set moved to 0 by its lower bounds.
    lower = np.minimum(P._lower, 0.0)
    width = upper - lower
    positive = width > 0.0
    norm = float(np.max((x0 - lower)[positive] / width[positive], initial=0.0))
    ratio = (1.0 - min(1.0, norm)) / 4.0
    statement = f"f(x) >= {ratio:.3g} f(x*) - O(1/K) (Mualem and Feldman 2023, least maximum norm {norm:.3g})"
    promise = Promise(ratio, statement, NONNEGATIVE, any_sign=True)
    bound, upper_bound = claims(
        f, P, upper, promise, status, r.n_iter, r.trace.value, r.best_value, r.certificate.given
    )
    gap = r.fw_gap if np.array_equal(r.x, r.best_x) else math.nan
    return replace(
        r, x=r.best_x, best_x=r.best_x.copy(), value=r.best_value, fw_gap=gap, guarantee=bound,
        certificate=Certificate(upper_bound, None, (f, P)), status=converged_status(status, gap, 0.0),
        method="mualem-feldman",
    )  # fmt: skip


register_method(
    Method(
        "mualem-feldman", mualem_feldman, "Mualem-Feldman", Status.COMPLETED, marker="h", colour="tab:cyan",
        claim="(1 - min max x/u)/4, f >= 0", about="sets that are not down-closed",
    )
)  # fmt: skip
