"""Upper bounds on the global maximum of a DR-submodular f over a down-closed P, for the answer of any solver.

* `linear_bound`: f is concave along non-negative directions, so f(x) <= f(0) + <grad f(0), x> on P: one linear
  program.
* `local_global_bound`: the local-global relation (Bian et al. 2017, Proposition 1). For x in P, Q = {y in P :
  y <= u - x}, z in Q and f >= 0 on [0, u],

      f(x*) <= 4 max{f(x), f(z)} + g_P(x) + g_Q(z),   g_S(x) = max_{v in S} <grad f(x), v - x>.

* `dnn_bound`: the doubly non-negative relaxation of a quadratic (`proofs.doubly_nonnegative`), by far the tightest
  and the dearest: milliseconds at n = 16, seconds at n = 60.
* `upper_bound`: the best of those that are cheap, or of all.
"""

import time

import numpy as np

from drsub_fast._checks import as_real, as_vector, one_of
from drsub_fast.engine.threads import one_blas_thread
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.proofs.doubly_nonnegative import interior_point_bound
from drsub_fast.proofs.first_order import first_order_bound
from drsub_fast.proofs.program import magnitude, quadratic_program, unit_form
from drsub_fast.proofs.safe_bound import relaxation
from drsub_fast.solvers.run import solver_upper

#: Largest number of variables for `dnn_bound` by the interior point; for more of them the first-order method serves.
DNN_MAX_VARIABLES = 60
#: It stops this near to the relaxation's value, relative.
_FIRST_ORDER_GAP = 1e-3

#: The relaxation is solved to this relative gap.
_DNN_GAP = 1e-7

_SAFETY = 1e-9


def linear_bound(f, P):
    """f(0) + max_P <grad f(0), v>, or infinity where f is not known to be DR-submodular on [0, P.upper].

    Parameters
    ----------
    f : Objective
        The function.
    P : FeasibleSet
        Down-closed set.

    Returns
    -------
    float

    Raises
    ------
    UnsupportedError
        If P is not down-closed.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.certificates.linear_bound(f, ds.Budget(1.0, [1.0, 1.0])), 6)
    1.0
    """
    _require_down_closed(P)
    upper = solver_upper(f, P)
    if f.dr_submodular_on(upper) is not True:
        return np.inf
    value, gradient = f.value_and_gradient(np.zeros(f.n))
    rise = float(gradient @ P.lmo(gradient, upper))
    return value + (rise if rise == 0.0 else rise * (1.0 + _SAFETY))


def local_global_bound(f, P, x, z=None):
    """4 max{f(x), f(z)} + g_P(x) + g_Q(z), or infinity where its premises are not known to hold.

    The premises: on [0, P.upper], f is DR-submodular and f >= 0.

    Parameters
    ----------
    f : Objective
        The function.
    P : FeasibleSet
        Down-closed set.
    x : array_like, shape (n,)
        Point of P; the bound is close to 4 f(x) if it is nearly stationary.
    z : array_like, shape (n,), optional
        Point of Q = {y in P : y <= P.upper - x}; 0 by default.

    Returns
    -------
    float

    Raises
    ------
    UnsupportedError
        If P is not down-closed.
    ValueError
        If x is not in P or z not in Q.

    Notes
    -----
    Bian et al. 2017, Proposition 1. The term of strong DR-submodularity is left out.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [2.0, 2.0])
    >>> round(ds.certificates.local_global_bound(f, ds.Budget(1.0, [1.0, 1.0]), [1.0, 0.0]), 6)
    8.5
    """
    _require_down_closed(P)
    upper = solver_upper(f, P)
    x = as_vector(x, "x", n=f.n)
    z = np.zeros(f.n) if z is None else as_vector(z, "z", n=f.n)
    if not P.contains(x) or (x > upper + 1e-9).any():
        raise ValueError("x is not in the set")
    room = np.maximum(upper - x, 0.0)
    if not P.contains(z) or (z > room + 1e-9).any():
        raise ValueError("z is not in {y in P : y <= upper - x}")
    if f.dr_submodular_on(upper) is not True or f.nonnegative_on(upper) is not True:
        return np.inf
    # A Frank-Wolfe gap is not negative; a rounded one may be.
    gaps = max(_gap(f, P, x, upper), 0.0) + max(_gap(f, P, z, room), 0.0)
    return 4.0 * max(f.value(x), f.value(z)) + gaps * (1.0 + _SAFETY)


def dnn_bound(f, P, time_limit=None):
    """The doubly non-negative bound of a quadratic: valid however far its interior point gets.

    Parameters
    ----------
    f : Quadratic
        The function.
    P : FeasibleSet
        Any set of finitely many rows.
    time_limit : float, optional
        Seconds; then the best bound so far.

    Returns
    -------
    float

    Raises
    ------
    UnsupportedError
        For another objective or set.
    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.certificates.dnn_bound(f, ds.Budget(1.0, [1.0, 1.0])), 5)
    0.5625
    """
    began = time.perf_counter()
    if not isinstance(f, Quadratic):
        raise UnsupportedError(f"the doubly non-negative bound needs a Quadratic, not {f!r}; use bound='cheap'")
    if f.n != P.n:
        raise ValueError(f"the objective has {f.n} variables, the set {P.n}")
    deadline = np.inf if time_limit is None else began + as_real(time_limit, "time_limit", lower=0.0)
    program = quadratic_program(f, P)
    if f.n > DNN_MAX_VARIABLES:
        return f.c + first_order_bound(program, gap=_FIRST_ORDER_GAP, time_limit=time_limit)
    form = unit_form(program, program.lower, program.upper)
    scale = magnitude(program)
    if scale == 0.0 or len(form.free) == 0:
        return float(f.c + form.constant)
    with one_blas_thread():
        return float(f.c + form.constant + interior_point_bound(relaxation(form), scale, _DNN_GAP, deadline))


def upper_bound(f, P, x=None, z=None, bound="cheap"):
    """The best upper bound on max f over P that is known.

    Parameters
    ----------
    f : Objective
        The function.
    P : FeasibleSet
        Down-closed set.
    x, z : array_like, shape (n,), optional
        As in `local_global_bound`, which counts if x is given.
    bound : {"cheap", "dnn"}
        "dnn" adds `dnn_bound`.

    Returns
    -------
    float
    """
    one_of(bound, "bound", ("cheap", "dnn"))
    best = linear_bound(f, P)
    if x is not None:
        best = min(best, local_global_bound(f, P, x, z))
    return min(best, dnn_bound(f, P)) if bound == "dnn" else best


def _gap(f, P, x, upper):
    """max <grad f(x), v - x> over the points v <= upper of P."""
    gradient = f.gradient(x)
    return float(gradient @ (P.lmo(gradient, upper) - x))


def _require_down_closed(P):
    if not P.is_down_closed:
        raise UnsupportedError(f"{P!r} is not down-closed: no upper bound of this kind holds")
