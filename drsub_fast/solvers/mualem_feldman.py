"""Frank-Wolfe from the point of least maximum norm, for convex sets that need not be down-closed.

x_0 = argmin max_i x_i / u_i over P; K steps x = (1 - eps) x + eps s with s = argmax_{s in P} <s, grad f(x)> and
eps = ln 2 / K; the best iterate is returned. For f >= 0 on [0, u],

    f(x) >= (1 - min_{x in P} max_i x_i / u_i)/4 f(x*) - O(eps) (Mualem and Feldman 2023),

the best factor that polynomially many evaluations allow; 1/4 where 0 is in P.
"""

import math
from dataclasses import replace

import numpy as np

from drsub_fast._checks import as_count
from drsub_fast.solvers.frank_wolfe import frank_wolfe
from drsub_fast.solvers.run import guarantee, solver_upper


def mualem_feldman(f, P, max_iter=100, lmo="auto", *, callback=None, callback_every=1, time_limit=None):
    """Frank-Wolfe with constant steps ln 2 / max_iter from the point of least maximum norm.

    Parameters
    ----------
    f : Objective
        DR-submodular function to maximise.
    P : FeasibleSet
        Convex set in [0, upper], down-closed or not.
    max_iter : int
        Number of steps K.
    lmo, callback, callback_every, time_limit
        As in `frank_wolfe`.

    Returns
    -------
    Result
        x is the iterate of the largest value; the gap belongs to it only if it is also the last one, else NaN.

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
    steps = as_count(max_iter, "max_iter", lower=1)
    upper = solver_upper(f, P)
    x0 = P.min_max_norm_point(upper)
    r = frank_wolfe(
        f, P, x0, math.log(2.0) / steps, steps, 0.0, lmo,
        callback=callback, callback_every=callback_every, time_limit=time_limit,
    )  # fmt: skip
    positive = upper > 0.0
    norm = float(np.max(x0[positive] / upper[positive], initial=0.0))
    ratio = (1.0 - min(1.0, norm)) / 4.0
    statement = f"f(x) >= {ratio:.3g} f(x*) - O(1/K) (Mualem and Feldman 2023, least maximum norm {norm:.3g})"
    bound = guarantee(f, P, ratio, statement, "f >= 0 on [0, upper]", f.nonnegative_on)
    gap = r.fw_gap if np.array_equal(r.x, r.best_x) else math.nan
    return replace(r, x=r.best_x, value=r.best_value, fw_gap=gap, guarantee=bound, method="mualem-feldman")
