"""Global optima with proof: `global_maximum`, `global_minimum`.

Whatever the method, the bounds of `certificates.upper_bound` come first, those left out that the method begins with:

* "doubly-nonnegative", quadratics over any set of finitely many rows: branch and bound on semidefinite bounds with all
  products of two constraints (`proofs.quadratic`). It does not need DR-submodularity, so the minimum
  of f is the maximum of -f by the same method. Its bounds allow for rounding.
* "kkt-milp", quadratics: the paper's baseline, a mixed-integer program on the optimality conditions by HiGHS
  (`proofs.kkt_milp`). Its bounds hold up to HiGHS's tolerances.
* "separable", softmax extensions over down-closed sets: branch and bound on concave functions above them
  (`proofs.softmax_branching`).
* "envelopes", logistic losses with a regulariser that is not convex, over down-closed sets: branch and bound on concave
  envelopes (`proofs.envelopes`).
* "bounds", everything else: these bounds alone.

Incumbents come from a multi-start of fully corrective Frank-Wolfe and from local solves along the way.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from drsub_fast._checks import as_count, as_real, as_seed, one_of
from drsub_fast.claims.gate import least_bound, proof_status
from drsub_fast.engine.clock import OutOfTime, last_moment, now, until
from drsub_fast.engine.threads import one_blas_thread
from drsub_fast.errors import OracleError, UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.envelopes import composite, envelope_branch_and_bound, envelope_steps
from drsub_fast.proofs.kkt_milp import kkt_milp
from drsub_fast.proofs.ladder import climb_ladder, free_bound
from drsub_fast.proofs.program import constraint_rows, magnitude, quadratic_program
from drsub_fast.proofs.quadratic import branch_and_bound
from drsub_fast.proofs.quadratic_steps import dense, first_order_steps, in_units, interior_point_steps
from drsub_fast.proofs.rungs import Allowance, largest
from drsub_fast.proofs.search import Incumbent, Limits, Proof, time_left, tolerance
from drsub_fast.proofs.softmax_branching import seen_from, softmax_branch_and_bound, softmax_branching_steps
from drsub_fast.result import Certificate, Details, Guarantee, Result, Status, Trace
from drsub_fast.sets.ball import Ball
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.polytope import Polytope
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.domain import solver_upper
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe
from drsub_fast.solvers.multi_start import multi_start
from drsub_fast.solvers.state import gap_at

#: Largest number of variables of the method whose time grows exponentially.
_MOST_VARIABLES_OF_MILP = 120

#: The rungs that a method begins with in any case.
_OWN_RUNGS = {
    "doubly-nonnegative": (interior_point_steps, first_order_steps),
    "kkt-milp": (interior_point_steps, first_order_steps),
    "separable": (softmax_branching_steps,),
    "envelopes": (envelope_steps,),
}

#: Part of the time that the starts may take.
_START_SHARE = 0.3

_PROVED = Guarantee(None, "no point of the set is better than the bound, which is proved")


def _methods_for(f, P):
    """Names of the methods for a problem, what "auto" is first."""
    if dense(f) is not None and not isinstance(P, Ball):
        try:
            constraint_rows(P)
        except UnsupportedError:
            return ("bounds",)
        milp = ("kkt-milp",) if isinstance(f, Quadratic) and f.n <= _MOST_VARIABLES_OF_MILP else ()
        return ("doubly-nonnegative", *(milp if P.is_down_closed else ()), "bounds")
    branching = "separable" if isinstance(f, Softmax) else "envelopes" if composite(f) is not None else ""
    if branching and P.is_down_closed and seen_from(P, np.zeros(f.n), solver_upper(f, P)) is not None:
        return branching, "bounds"
    return ("bounds",)


def _as_method(f, P, method):
    one_of(method, "method", ("auto", *_OWN_RUNGS, "bounds"))
    methods = _methods_for(f, P)
    if method not in ("auto", *methods):
        if method == "kkt-milp" and f.n > _MOST_VARIABLES_OF_MILP:
            raise ValueError(
                f"{f.n} variables are too many for method 'kkt-milp' (at most {_MOST_VARIABLES_OF_MILP}); use "
                "'doubly-nonnegative'"
            )
        raise UnsupportedError(f"the method {method!r} is not for {f!r} over {P!r}; use {' or '.join(methods)}")
    return methods[0] if method == "auto" else method


def _with_rows(f, P):
    """The same set as a polytope, if it is down-closed: one compiled local solver then serves all of these."""
    A, b, *_ = constraint_rows(P)
    return Polytope(A, b, solver_upper(f, P)) if P.is_down_closed else P


def _into(P, x):
    """A point of the set near x."""
    if not isinstance(P, Polytope):
        return P.move_inside(x, P.upper) if P.is_down_closed else P.project(x)
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

    left = time_left(limits)
    start = multi_start(
        f, P, n_starts=n_starts, seed=seed, tol=tol, time_limit=None if left is None else _START_SHARE * left
    )
    return Incumbent(start.x, value_of(start.x), search), start


def _limits(time_limit, gap, max_nodes, size):
    deadline = None
    if time_limit is not None:
        deadline = now() + as_real(time_limit, "time_limit", lower=0.0)
    max_nodes = None if max_nodes is None else as_count(max_nodes, "max_nodes", lower=1)
    return Limits(as_real(gap, "gap", lower=0.0), size, deadline, max_nodes)


@one_blas_thread()
def _prove(f, P, method, time_limit, gap, max_nodes, n_starts, seed):
    """(proof, incumbent, start, tolerance at the end) for the maximum of f, of a quadratic without its constant."""
    upper = solver_upper(f, P)
    if method in ("doubly-nonnegative", "kkt-milp"):
        P = _with_rows(f, P)
        program, c = quadratic_program(f, P), float(f.params.c)
        size = magnitude(program)
        prove: Callable[[float, Incumbent, Limits], Proof] | None
        prove = partial(kkt_milp if method == "kkt-milp" else branch_and_bound, program)

        def value_of(x):
            return float(x @ (0.5 * (program.H @ x) + program.h))
    else:
        size, c, value_of = 1.0, 0.0, f.value
        branching = {"separable": softmax_branch_and_bound, "envelopes": envelope_branch_and_bound}
        prove = partial(branching[method], f, P, upper) if method in branching else None
    limits = _limits(time_limit, gap, max_nodes, size)
    known = free_bound(f, P, upper)
    incumbent, start = _first_incumbent(f, P, value_of, size, limits, n_starts, seed)
    known = least_bound(incumbent.value + c, known, start.certificate.given)
    if start.status is Status.INTERRUPTED:
        return Proof(known - c, 0, start.status), incumbent, start, 0.0
    target = incumbent.value + c + tolerance(incumbent.value, limits)
    allowance, value = Allowance(deadline=limits.deadline), incumbent.value + c
    if known > target:
        try:
            with until(limits.deadline):
                known = climb_ladder(
                    f, P, upper, incumbent.x, value, known, target, allowance, _OWN_RUNGS.get(method, ())
                )
        except OutOfTime:
            pass
    if prove is None:
        late = Status.TIME_LIMIT if allowance.was_late else Status.NODE_LIMIT
        proof = Proof(known, 0, Status.OPTIMAL if known <= target else late)
    else:
        proof = prove(known - c, incumbent, limits)
    return proof, incumbent, start, tolerance(incumbent.value, limits)


def _result(f, P, x, proof, start, method, began, time_limit, upper_bound, allowed):
    """Packages the maximum of f; ``start`` is the result of the multi-start, if there was one."""
    counts = {} if start is None else {"n_starts": start.n_starts, "n_best": start.n_best}
    value, gradient = f.value_and_gradient(x)
    try:
        with until(last_moment(began, time_limit)):
            fw_gap = float(gap_at.interpreted(gradient, P.lmo(gradient, solver_upper(f, P)), x))
    except (OutOfTime, OracleError):
        fw_gap = np.nan
    upper_bound = least_bound(value, upper_bound)
    status = proof_status(proof.status, value, upper_bound, allowed * (1.0 + 1e-9))
    note = "" if status is Status.OPTIMAL else f"{upper_bound - value:.2e} left between value and bound"
    return Result(
        x=x, value=value, fw_gap=fw_gap, certificate=Certificate(upper_bound, None, (f, P)), guarantee=_PROVED,
        status=status, n_iter=0,
        n_lmo=1 + (start.n_lmo if start else P.n), time=now() - began,
        trace=Trace(np.array([value]), np.array([fw_gap])),
        best_x=x.copy(), best_value=value, method=method, note=note, details=Details(n_nodes=proof.n_nodes, **counts),
    )  # fmt: skip


def global_maximum(
    f: Objective,
    P: FeasibleSet,
    *,
    time_limit: float | None = None,
    gap: float = 1e-6,
    method: str = "auto",
    max_nodes: int | None = None,
    n_starts: int = 16,
    seed: int = 0,
) -> Result:
    """The global maximum of f over P, with a proof.

    Parameters
    ----------
    f : Objective
        Function to maximise.
    P : FeasibleSet
        Feasible set.
    time_limit : float, optional
        Seconds; then the best point known and the bound reached so far are returned, as after Ctrl-C.
    gap : float
        The proof is complete when upper_bound - value <= gap * max(|value - c|, 1e-3 s), s the size of f: its
        largest term over the box for a quadratic (constant c left out), 1 for others (c = 0).
    method : str
        For quadratics over sets of finitely many rows (a `Ball` is none) "doubly-nonnegative" (the default) or, over
        down-closed ones, "kkt-milp", the paper's baseline by HiGHS, whose bound holds up to HiGHS's tolerances and
        which Ctrl-C does not stop; over down-closed sets "separable" for softmax extensions and "envelopes" for
        logistic losses; for everything else
        "bounds", what `certificates.upper_bound` proves, which may leave a gap.
    max_nodes : int, optional
        Limit on the nodes of the branch and bound.
    n_starts, seed : int
        Of the multi-start that looks for a good point first.

    Returns
    -------
    Result
        `status` is OPTIMAL when the gap is closed, STALLED when rounding keeps it from that (a gap of 0 say),
        NODE_LIMIT when nothing is left to try; `upper_bound` is valid whatever the status, and never worse than that
        of `certificates.upper_bound`. `n_nodes` counts the nodes, `n_starts` and `n_best` the starts.

    Raises
    ------
    UnsupportedError
        For a method that is not for this objective and set.
    ValueError
        For a problem too large for the method, or an unknown method.

    Notes
    -----
    On one core the paper's quadratics (n = 8 .. 16) take 10 to 60 ms mostly, and quadratic-uniform 50 x 25, 50 x 50 and
    50 x 75 (seed 1) 17, 3 and 5 s to 1e-6. At n = 100 their root alone proves a gap of 1e-4 in 2 to 11 s, and at
    n = 200 1e-2 in 1 to 3 s. Softmax extensions close fast where few items matter; with ten fractional ones 1e-3 is
    left after seconds, and 2 to 4 % at 50 to 100 items. Directed cuts over a box of 100 reach 1e-2 in 0.8 s; their
    relaxation ends 0.3 % above the maximum, and what is left must be branched on.

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
    method = _as_method(f, P, method)
    scaled, unit = in_units(f, np.maximum(np.abs(P._lower), np.abs(solver_upper(f, P))))
    proof, incumbent, start, allowed = _prove(scaled, P, method, time_limit, gap, max_nodes, n_starts, seed)
    c = float(f.params.c) if method in ("doubly-nonnegative", "kkt-milp") else 0.0
    bound, allowed = unit * proof.bound + c, unit * allowed
    return _result(f, P, incumbent.x, proof, start, method, began, time_limit, bound, allowed)


def _zero_is_minimum(program, P, deadline):
    """Whether 0 is in P, x >= 0 there, and h_j + min over P of (H_j x) / 2 >= 0 is known for all j.

    Then f(x) - f(0) = sum_j x_j (h_j + H_j x / 2) >= 0.
    """
    H, h, upper = program.H, program.h, program.upper
    if program.lower.any() or not P.contains(np.zeros(len(h))):
        return False
    for j in np.flatnonzero(upper > 0.0):
        if h[j] < 0.0:
            return False
        try:
            with until(deadline):
                if h[j] < 0.5 * largest(P, -H[j], upper):
                    return False
        except OutOfTime:
            return False
    return True


def global_minimum(
    f: Quadratic,
    P: FeasibleSet,
    *,
    time_limit: float | None = None,
    gap: float = 1e-6,
    method: str = "auto",
    max_nodes: int | None = None,
    n_starts: int = 16,
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
    negative = Quadratic(-f.hessian(), -f.h, -f.c, require_dr=False)
    negative.unit_box = f.unit_box
    constraint_rows(P)  # refuses a set without rows
    method = _as_method(negative, P, method)
    limit = None if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
    if method != "kkt-milp" and _zero_is_minimum(quadratic_program(f, P), P, last_moment(began, limit)):
        proof, x, start, unit, allowed = Proof(0.0, 0, Status.OPTIMAL), np.zeros(f.n), None, 1.0, 0.0
    else:
        left = None if limit is None else max(0.0, limit - (now() - began))
        scaled, unit = in_units(negative, np.maximum(np.abs(P._lower), np.abs(solver_upper(f, P))))
        proof, incumbent, start, allowed = _prove(scaled, P, method, left, gap, max_nodes, n_starts, seed)
        x = incumbent.x
    r = _result(negative, P, x, proof, start, method, began, limit, unit * proof.bound - f.c, unit * allowed)
    trace = Trace(-r.trace.value, r.trace.fw_gap)
    details = replace(r.details, lower_bound=-r.certificate.given)
    return replace(
        r, value=-r.value, certificate=Certificate(np.inf), trace=trace, best_value=-r.value, details=details
    )
