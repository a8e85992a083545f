"""Global optima with proof: `global_maximum`, `global_minimum`.

Methods:

* "doubly-nonnegative", quadratics over any set of finitely many rows: branch and bound on semidefinite bounds with all
  products of two constraints (`proofs.quadratic`). It does not need DR-submodularity, so the minimum
  of f is the maximum of -f by the same method. Its bounds allow for rounding.
* "kkt-milp", quadratics: the paper's baseline, a mixed-integer program on the optimality conditions by HiGHS
  (`proofs.kkt_milp`). Its bounds hold up to HiGHS's tolerances.
* "separable", softmax extensions: box branch and bound on separable bounds (`proofs.softmax`).

Incumbents come from a multi-start of fully corrective Frank-Wolfe and from local solves along the way.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from drsub_fast._checks import as_count, as_real, as_seed, one_of
from drsub_fast.engine.clock import OutOfTime, last_moment, now, until
from drsub_fast.engine.threads import one_blas_thread
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import Quadratic, QuadraticParams
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.kkt_milp import kkt_milp
from drsub_fast.proofs.program import constraint_rows, magnitude, quadratic_program
from drsub_fast.proofs.quadratic import branch_and_bound
from drsub_fast.proofs.search import Incumbent, Limits, Proof, time_left
from drsub_fast.proofs.softmax import separable_bounds
from drsub_fast.result import Certificate, Details, Guarantee, Result, Status, Trace
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.polytope import Polytope
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.domain import solver_upper
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe
from drsub_fast.solvers.multi_start import multi_start
from drsub_fast.solvers.state import gap_at

#: Methods by the kind of objective, what "auto" is first.
_QUADRATIC_METHODS, _SOFTMAX_METHODS = ("doubly-nonnegative", "kkt-milp"), ("separable",)

#: Largest number of variables for methods whose time grows exponentially.
_MAX_VARIABLES = {"kkt-milp": 120, "separable": 32}

_DOWN_CLOSED = ("kkt-milp", "separable")

_PROVED = Guarantee(None, "no point of the set is better than the bound, which is proved by branch and bound")


class _Negative(Objective):
    """-f for a quadratic f."""

    def __init__(self, f):
        self.n = f.n
        self._params = QuadraticParams(-f.hessian(), -f.h, -f.c)


def _as_method(f, method, methods):
    one_of(method, "method", ("auto", *methods))
    method = methods[0] if method == "auto" else method
    if f.n > _MAX_VARIABLES.get(method, f.n):
        raise ValueError(
            f"{f.n} variables are too many for method {method!r} (at most {_MAX_VARIABLES[method]}); use "
            "maximize(f, P, n_starts=...), whose result carries an upper bound"
        )
    return method


def _with_rows(f, P):
    """The same set as a polytope, if it is down-closed: one compiled local solver then serves all of these."""
    A, b, *_ = constraint_rows(P)
    return Polytope(A, b, solver_upper(f, P)) if P.is_down_closed else P


def _into(P, x):
    """A point of the set near x."""
    if not P.is_down_closed:
        return P.project(x)
    x = np.clip(x, 0.0, P.upper)
    used = P.A @ x
    over = used > P.b
    return x * (P.b[over] / used[over]).min() if over.any() else x


def _first_incumbent(f, P, value_of, size, limits, n_starts, seed):
    """The best of many starts, with the local solver that is to improve on it; and the start's result."""
    tol = 1e-9 * size

    def search(x):
        with until(limits.deadline):
            x = fully_corrective_frank_wolfe(f, P, x0=_into(P, x), tol=tol).x
        return x, value_of(x)

    start = multi_start(f, P, n_starts=n_starts, seed=seed, tol=tol, time_limit=time_left(limits))
    return Incumbent(start.x, value_of(start.x), search), start


def _limits(time_limit, gap, max_nodes, size):
    deadline = None
    if time_limit is not None:
        deadline = now() + as_real(time_limit, "time_limit", lower=0.0)
    max_nodes = None if max_nodes is None else as_count(max_nodes, "max_nodes", lower=1)
    return Limits(as_real(gap, "gap", lower=0.0), size, deadline, max_nodes)


@one_blas_thread()
def _prove(f, P, method, time_limit, gap, max_nodes, n_starts, seed):
    """(proof, incumbent, start) for the maximum of a softmax extension, or of a quadratic without its constant."""
    if method in _DOWN_CLOSED and not P.is_down_closed:
        raise UnsupportedError(f"the method {method!r} needs a down-closed set, which {P!r} is not")
    P = _with_rows(f, P)
    if method == "separable":
        size, value_of, prove = 1.0, f.value, partial(separable_bounds, f, P.A, P.b, P.upper)
    else:
        program = quadratic_program(f, P)
        size, prove = magnitude(program), partial(kkt_milp if method == "kkt-milp" else branch_and_bound, program)

        def value_of(x):
            return float(x @ (0.5 * (program.H @ x) + program.h))

    limits = _limits(time_limit, gap, max_nodes, size)
    incumbent, start = _first_incumbent(f, P, value_of, size, limits, n_starts, seed)
    interrupted = start.status is Status.INTERRUPTED
    proof = Proof(np.inf, 0, start.status) if interrupted else prove(incumbent, limits)
    return proof, incumbent, start


def _result(f, P, x, proof, start, method, began, time_limit, upper_bound):
    """Packages the maximum of f; ``start`` is the result of the multi-start, if there was one."""
    counts = {} if start is None else {"n_starts": start.n_starts, "n_best": start.n_best}
    value, gradient = f.value_and_gradient(x)
    try:
        with until(last_moment(began, time_limit)):
            fw_gap = float(gap_at.interpreted(gradient, P.lmo(gradient, solver_upper(f, P)), x))
    except OutOfTime:
        fw_gap = np.nan
    upper_bound = max(upper_bound, value)
    note = "" if proof.status is Status.OPTIMAL else f"{upper_bound - value:.2e} left between value and bound"
    return Result(
        x=x, value=value, fw_gap=fw_gap, certificate=Certificate(upper_bound, None, (f, P)), guarantee=_PROVED,
        status=proof.status, n_iter=0,
        n_lmo=1 + (start.n_lmo if start else P.n), time=now() - began,
        trace=Trace(np.array([value]), np.array([fw_gap])),
        best_x=x.copy(), best_value=value, method=method, note=note, details=Details(n_nodes=proof.n_nodes, **counts),
    )  # fmt: skip


def global_maximum(
    f: Objective,
    P: FeasibleSet,
    time_limit: float | None = None,
    gap: float = 1e-6,
    method: str = "auto",
    max_nodes: int | None = None,
    *,
    n_starts: int = 16,
    seed: int = 0,
) -> Result:
    """The global maximum of f over P, with a proof.

    Parameters
    ----------
    f : Quadratic or Softmax
        Function to maximise.
    P : FeasibleSet
        For a quadratic any set of finitely many rows: a `Ball` is none. Down-closed for a softmax extension and for
        "kkt-milp".
    time_limit : float, optional
        Seconds; then the best point known and the bound reached so far are returned, as after Ctrl-C.
    gap : float
        The proof is complete when upper_bound - value <= gap * max(|value - c|, 1e-3 s), s the size of f: its
        largest term over the box for a quadratic (constant c left out), 1 for a softmax extension (c = 0).
    method : str
        For quadratics "doubly-nonnegative" (the default) or "kkt-milp", the paper's baseline by HiGHS, whose
        bound holds up to HiGHS's tolerances and which Ctrl-C does not stop; for softmax extensions "separable".
    max_nodes : int, optional
        Limit on the nodes of the branch and bound.
    n_starts, seed : int
        Of the multi-start that looks for a good point first.

    Returns
    -------
    Result
        `status` is OPTIMAL when the gap is closed, STALLED when rounding keeps it from that (a gap of 0 say);
        `upper_bound` is valid whatever the status. `n_nodes` counts the nodes, `n_starts` and `n_best` the starts.

    Raises
    ------
    UnsupportedError
        For another objective or set.
    ValueError
        For a problem too large for the method, or an unknown method.

    Notes
    -----
    On one core the paper's quadratics (n = 8 .. 16) take 10 to 60 ms mostly. At n = 100 their root alone proves a gap
    of 1e-4 in 2 to 11 s, and at n = 200 1e-2 in 1 to 3 s. Directed cuts over a box of 100 reach 1e-2 in 0.8 s; their
    relaxation ends 0.3 % above the maximum, and what is left must be branched on. Softmax extensions are within reach
    up to n = 16, unless eigenvalues far above 1 make the separable bounds weak.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -4.0], [-4.0, -1.0]], [1.0, 1.5])
    >>> r = ds.global_maximum(f, ds.Box([1.0, 1.0]))
    >>> round(r.value, 6), r.upper_bound - r.value <= 1e-6, r.status.name
    (1.0, True, 'OPTIMAL')
    """
    began = now()
    require_problem(f, P)
    n_starts, seed = as_count(n_starts, "n_starts", lower=1), as_seed(seed)
    if isinstance(f, Softmax):
        methods, c = _SOFTMAX_METHODS, 0.0
    elif isinstance(f, Quadratic):
        methods, c = _QUADRATIC_METHODS, f.c
    else:
        raise UnsupportedError(
            f"the global maximum of {f!r} cannot be proved: that needs a Quadratic or a Softmax; use "
            "maximize(f, P, n_starts=...) for a local one"
        )
    method = _as_method(f, method, methods)
    proof, incumbent, start = _prove(f, P, method, time_limit, gap, max_nodes, n_starts, seed)
    bound = min(proof.bound + c, start.certificate.given)
    return _result(f, P, incumbent.x, proof, start, method, began, time_limit, bound)


def _zero_is_minimum(program, P, deadline):
    """Whether it is known that h_j + min over P of (H_j x) / 2 >= 0 for all j.

    Then f(x) - f(0) = sum_j x_j (h_j + H_j x / 2) >= 0.
    """
    H, h, upper = program.H, program.h, program.upper
    for j in np.flatnonzero(upper > 0.0):
        if h[j] < 0.0:
            return False
        try:
            with until(deadline):
                least = 0.5 * H[j] @ P.lmo(-H[j], upper)
        except OutOfTime:
            return False
        # The oracle's vertex is optimal up to rounding.
        if h[j] + least < 1e-9 * abs(least):
            return False
    return True


def global_minimum(
    f: Quadratic,
    P: FeasibleSet,
    time_limit: float | None = None,
    gap: float = 1e-6,
    method: str = "auto",
    max_nodes: Any = None,
    *,
    n_starts: Any = 16,
    seed: int = 0,
) -> Result:
    """The global minimum of a quadratic f over P, with a proof (the constant c of the paper's experiments).

    Parameters
    ----------
    f : Quadratic
        Function to minimise.
    P, time_limit, gap, method, max_nodes, n_starts, seed
        As in `global_maximum`.

    Returns
    -------
    Result
        `value` is the minimum found and `lower_bound` a proven lower bound on f over P; `fw_gap` is
        max <-grad f(x), v - x>.

    Raises
    ------
    UnsupportedError, ValueError
        As in `global_maximum`.

    Notes
    -----
    For non-negative h that outweighs H the minimum is at 0, and n linear programs prove it without any node. Else -f
    is maximised: the doubly non-negative bound and the optimality conditions do not need DR-submodularity.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -4.0], [-4.0, -1.0]], [1.0, 1.5])
    >>> r = ds.global_minimum(f, ds.Box([1.0, 1.0]))
    >>> round(r.value, 6), r.value - r.lower_bound <= 1e-5
    (-2.5, True)
    """
    began = now()
    require_problem(f, P)
    n_starts, seed = as_count(n_starts, "n_starts", lower=1), as_seed(seed)
    if not isinstance(f, Quadratic):
        raise UnsupportedError(f"the global minimum of {f!r} cannot be proved: that needs a Quadratic")
    method = _as_method(f, method, _QUADRATIC_METHODS)
    negative = _Negative(f)
    negative.unit_box = f.unit_box
    limit = None if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
    if method != "kkt-milp" and _zero_is_minimum(quadratic_program(f, P), P, last_moment(began, limit)):
        proof, x, start = Proof(0.0, 0, Status.OPTIMAL), np.zeros(f.n), None
    else:
        left = None if limit is None else max(0.0, limit - (now() - began))
        proof, incumbent, start = _prove(negative, P, method, left, gap, max_nodes, n_starts, seed)
        x = incumbent.x
    r = _result(negative, P, x, proof, start, method, began, time_limit, proof.bound - f.c)
    trace = Trace(-r.trace.value, r.trace.fw_gap)
    details = replace(r.details, lower_bound=-r.certificate.given)
    return replace(
        r, value=-r.value, certificate=Certificate(np.inf), trace=trace, best_value=-r.value, details=details
    )
