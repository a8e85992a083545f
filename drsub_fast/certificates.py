"""Upper bounds on the global maximum of f over P, for the answer of any solver.

* `linear_bound`: f is concave along non-negative directions, so it lies below its tangents at the corners of the box
  around P: two linear programs.
* `local_global_bound`: the local-global relation (Bian et al. 2017, Proposition 1). For x in P, Q = {y in P :
  y <= u - x}, z in Q and f >= 0 on [0, u],

      f(x*) <= 4 max{f(x), f(z)} + g_P(x) + g_Q(z),   g_S(x) = max_{v in S} <grad f(x), v - x>.

* `dnn_bound`: the doubly non-negative relaxation of a quadratic (`proofs.doubly_nonnegative`), by far the tightest
  and the dearest: milliseconds at n = 16, seconds at n = 60.
* `upper_bound`: the best that can be proved in the time, for any pair.
"""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_real, as_vector
from drsub_fast.claims.premises import property_holds
from drsub_fast.engine.clock import OutOfTime, last_moment, now, require_time, until
from drsub_fast.engine.threads import one_blas_thread
from drsub_fast.errors import OracleError, UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.proofs.ladder import climb_ladder, corner_bound, free_bound
from drsub_fast.proofs.program import constraint_rows
from drsub_fast.proofs.quadratic_steps import dense_twin, first_order_steps, in_units, interior_point_steps
from drsub_fast.proofs.rungs import Allowance, Problem, climb, gradient_price, largest
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.domain import solver_upper
from drsub_fast.solvers.multi_start import multi_start

__all__ = ["dnn_bound", "linear_bound", "local_global_bound", "upper_bound"]


def __dir__() -> list[str]:
    return __all__


#: Largest number of variables for `dnn_bound` by the interior point; for more of them the first-order method serves,
#: to this part of the relaxation's value.
_INTERIOR_UP_TO, _FIRST_ORDER_GAP = 40, 1e-4

#: Starts of the local solve that looks for a good point where none is given.
_SOLVES = 4


def linear_bound(f: Objective, P: FeasibleSet) -> float:
    """The better of two linear bounds, at the corners l and u of the box around P:

        f(x) <= f(l) + <grad f(l), x - l>,   f(x) <= f(u) - <grad f(u), u - x>,

    both because a DR-submodular f is concave along non-negative directions. For down-closed sets l = 0.

    Parameters
    ----------
    f : Objective
        The function.
    P : FeasibleSet
        Any set.

    Returns
    -------
    float
        Infinity where f is not known to be DR-submodular on the box, or is not finite at the corners.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.certificates.linear_bound(f, ds.Budget(1.0, [1.0, 1.0])), 6)
    1.0
    """
    require_problem(f, P)
    return corner_bound(f, P, solver_upper(f, P))


def local_global_bound(f: Objective, P: FeasibleSet, x: ArrayLike, z: ArrayLike | None = None) -> float:
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
    require_problem(f, P)
    if not P.is_down_closed:
        raise UnsupportedError(f"{P!r} is not down-closed: no upper bound of this kind holds")
    upper = solver_upper(f, P)
    x = as_vector(x, "x", n=f.n)
    z = np.zeros(f.n) if z is None else as_vector(z, "z", n=f.n)
    if not P.contains(x) or (x > upper + 1e-9).any():
        raise ValueError("x is not in the set")
    residual = np.maximum(upper - x, 0.0)
    if not P.contains(z) or (z > residual + 1e-9).any():
        raise ValueError("z is not in {y in P : y <= upper - x}")
    if not all(property_holds(f, name, P._lower, upper) is True for name in ("dr_submodular", "nonnegative")):
        return np.inf
    bound = 4.0 * max(f.value(x), f.value(z))
    for point, limit in ((x, upper), (z, residual)):
        gradient = f.gradient(point)
        # A Frank-Wolfe gap is not negative; a rounded one may be.
        bound += max(largest(P, gradient, limit) - float(gradient @ point), 0.0)
    return bound


def dnn_bound(f: Quadratic, P: FeasibleSet, time_limit: float | None = None) -> float:
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
    began = now()
    require_problem(f, P)
    if not isinstance(f, Quadratic):
        raise UnsupportedError(f"the doubly non-negative bound needs a Quadratic, not {f!r}; use bound='cheap'")
    constraint_rows(P)  # refuses a set without rows
    upper = solver_upper(f, P)
    best = free_bound(f, P, upper)
    scaled, unit = in_units(dense_twin(f), np.maximum(np.abs(P._lower), np.abs(upper)))
    problem = Problem(scaled, P, upper, None, -np.inf)
    if f.n <= _INTERIOR_UP_TO:
        rung = partial(interior_point_steps, most=_INTERIOR_UP_TO)
    else:
        rung = partial(first_order_steps, close=_FIRST_ORDER_GAP)
    limit = None if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
    allowance = Allowance(deadline=None if limit is None else began + limit)
    with one_blas_thread(), until(last_moment(began, limit)):
        return float(min(best, unit * climb([rung], problem, best / unit, -np.inf, allowance)))


def upper_bound(
    f: Objective,
    P: FeasibleSet,
    value: float | None = None,
    time_limit: float | None = None,
    gap: float = 1e-2,
    *,
    x: ArrayLike | None = None,
    operations: float | None = np.inf,
) -> float:
    """The best upper bound on max f over P that can be proved in the time.

    Parameters
    ----------
    f : Objective
        The function.
    P : FeasibleSet
        The set.
    value : float, optional
        f at the best known point; by default a local solve finds one, if there is time.
    time_limit : float, optional
        Seconds; then the best bound so far.
    gap : float
        The bound is not improved any further when it is at most value + gap |value|, nor where twice the work would
        hardly lower it.
    x : array_like, shape (n,), optional
        A good point of P, at best that of ``value``, where the bounds are to be tight.
    operations : float, optional
        Multiplications and additions that may be spent, counted beforehand. Unlike a time limit they give the same
        bound on every machine.

    Returns
    -------
    float
        Infinite only where no bound is known: f is neither concave, nor DR-submodular between the set's lower and
        upper bounds, nor a quadratic, a softmax extension or a logistic loss.

    Raises
    ------
    ValueError
        For sizes that do not match, or a limit below 0.

    Notes
    -----
    What is tried, as far as it applies: the linear bounds at the lower and the upper corner; value and gap for concave
    f; for quadratics their doubly non-negative relaxation, pairs of variables if the set is in a simplex, and over a
    ball the dual of the trust region problem; all sets of a multilinear extension of few items, and a linear program
    for coverage, facility location and FLID of many; concave functions above softmax extensions and logistic losses,
    with branching.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.certificates.upper_bound(f, ds.Simplex(2), gap=1e-6), 6)
    0.5625
    """
    began = now()
    require_problem(f, P)
    gap = as_real(gap, "gap", lower=0.0)
    limit = None if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
    allowance = Allowance(math.inf if operations is None else operations, None if limit is None else began + limit)
    with until(last_moment(began, limit)):
        return float(_proved(f, P, value, x, gap, allowance))


def _proved(f, P, value, x, gap, allowance):
    """`upper_bound` by an `Allowance`."""
    upper = solver_upper(f, P)
    best = free_bound(f, P, upper)
    try:
        require_time()
        if x is None:
            x, found = _good_point(f, P, upper, allowance)
        else:
            x = as_vector(x, "x", n=f.n)
            found = f.value(x) if value is None else None
    except (OutOfTime, OracleError):
        return best
    value = found if value is None else as_real(value, "value")
    target = value + gap * abs(value)
    if best <= target:
        return best
    with one_blas_thread():
        return climb_ladder(f, P, upper, x, value, best, target, allowance)


def _good_point(f, P, upper, allowance):
    """(x, f(x)) of a local solve, if it is allowed, or of the set's own starting point."""
    price = _SOLVES * f.n * gradient_price(f)
    if not allowance.spend(price):
        x = P.start(upper)
        return x, f.value(x)
    left = None if allowance.deadline is None else max(0.0, allowance.deadline - now())
    r = multi_start(f, P, n_starts=_SOLVES, time_limit=left)
    return r.x, r.value
