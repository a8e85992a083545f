"""Global optima with proof: `global_maximum`, `global_minimum`.

A quadratic over a polytope, box or budget set goes to the branch and bound on doubly non-negative bounds
(`solvers.branch_and_bound`), whose bounds need no DR-submodularity: the minimum of f is the maximum
of -f by the same method. Values without the constant c are compared with

    max(|value|, 1e-3 * the largest term of f over the box)

so that a gap relative to a value near zero means something.
"""

import time

import numpy as np
from scipy.optimize import minimize

from drsub_fast._checks import as_count, as_real, one_of
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.result import Guarantee, Result, Status, Trace
from drsub_fast.sets.box import Box
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.branch_and_bound import Incumbent, Limits, QuadraticProgram, branch_and_bound

METHODS = ("auto", "doubly-nonnegative")

#: Variables beyond which one interior-point step (memory n^4 / 2 numbers) is out of reach.
MAX_VARIABLES = 120


def _dense_rows(P):
    """(A, b) with the set = {A x <= b, 0 <= x <= upper}."""
    if isinstance(P, Polytope):
        return (P.A.toarray() if hasattr(P.A, "toarray") else P.A), P.b
    if isinstance(P, Budget):
        return np.ones((1, P.n)), np.array([P.k])
    if isinstance(P, Box):
        return np.zeros((0, P.n)), np.zeros(0)
    raise UnsupportedError(
        f"a global optimum over {P!r} is not available: give a Polytope, Budget or Box, or use maximize for a local one"
    )


def quadratic_program(f, P):
    """The problem max f - c over P as arrays, checked."""
    if not isinstance(f, Quadratic):
        raise UnsupportedError(
            f"a global optimum of {f!r} is not available: it needs a Quadratic; use maximize(f, P) instead"
        )
    if f.n != P.n:
        raise ValueError(f"the objective has {f.n} variables, the set {P.n}")
    A, b = _dense_rows(P)
    if f.n > MAX_VARIABLES:
        raise ValueError(
            f"{f.n} variables are too many for a proof of optimality (at most {MAX_VARIABLES}); "
            "use maximize(f, P, n_starts=...), whose result carries an upper bound"
        )
    return QuadraticProgram(f.H, f.h, A, b, P.upper)


def _shrink_into(program, x):
    """A point of the set near x."""
    x = np.clip(x, 0.0, program.upper)
    used = program.A @ x
    over = used > program.b
    if over.any():
        x = x * (program.b[over] / used[over]).min()
    return x


def _local_search(program):
    """A local solver for the program: x -> (local maximum, its value)."""
    H, h, A, b, upper = program
    scale = np.where(upper > 0.0, upper, 1.0)

    def search(x):
        x = _shrink_into(program, x) / scale
        size = max(np.abs(h * scale).max(), 1e-300)
        answer = minimize(
            lambda y: -(0.5 * (H @ (y * scale)) + h) @ (y * scale) / size,
            x,
            jac=lambda y: -(H @ (y * scale) + h) * scale / size,
            method="SLSQP",
            bounds=np.c_[np.zeros(len(h)), upper / scale],
            constraints=[{"type": "ineq", "fun": lambda y: b - A @ (y * scale), "jac": lambda y: -A * scale}],
            options={"maxiter": 300, "ftol": 1e-13},
        )
        x = _shrink_into(program, answer.x * scale)
        return x, float(0.5 * x @ H @ x + h @ x)

    return search


def _first_incumbent(program, seed, n_starts):
    """The best of local solves from 0 and from random points."""
    search = _local_search(program)
    incumbent = Incumbent(np.zeros(len(program.h)), 0.0, search)
    random = np.random.default_rng(seed)
    for _ in range(n_starts):
        incumbent.try_from(random.exponential(size=len(program.h)) * program.upper)
    return incumbent


def global_maximum(f, P, time_limit=None, gap=1e-6, method="auto", max_nodes=None, *, n_starts=8, seed=0):
    """The global maximum of f over P, with a proof.

    Parameters
    ----------
    f : Quadratic
        Function to maximise.
    P : Polytope, Budget or Box
        Feasible set.
    time_limit : float, optional
        Seconds; then the best point known and the bound reached so far are returned.
    gap : float
        Relative gap at which the proof is complete.
    method : {"auto", "doubly-nonnegative"}
        How to prove it.
    max_nodes : int, optional
        Nodes of the branch and bound.
    n_starts : int
        Local solves that look for a good point first.
    seed : int
        Of their starting points.

    Returns
    -------
    Result
        `status` is OPTIMAL when the gap is closed; `upper_bound` is valid in any case.

    Raises
    ------
    UnsupportedError
        For another objective or set.
    ValueError
        For a problem too large for the method.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -4.0], [-4.0, -1.0]], [1.0, 1.5])
    >>> r = ds.global_maximum(f, ds.Box([1.0, 1.0]))
    >>> round(r.value, 6), r.upper_bound - r.value <= 1e-6, r.status.name
    (1.0, True, 'OPTIMAL')
    """
    began = time.perf_counter()
    gap = as_real(gap, "gap", lower=0.0)
    deadline = None if time_limit is None else began + as_real(time_limit, "time_limit", lower=0.0)
    limits = Limits(gap, deadline, None if max_nodes is None else as_count(max_nodes, "max_nodes", lower=1))
    one_of(method, "method", METHODS)
    program = quadratic_program(f, P)
    incumbent = _first_incumbent(program, as_count(seed, "seed"), as_count(n_starts, "n_starts"))
    proof = branch_and_bound(program, incumbent, limits)
    x = incumbent.x
    value, gradient = f.value_and_gradient(x)
    fw_gap = float(gradient @ (P.lmo(gradient) - x))
    upper_bound = max(proof.bound + f.c, value)
    holds = proof.status is Status.OPTIMAL
    statement = "value and upper bound are proved"
    return Result(
        x=x, value=value, fw_gap=fw_gap, upper_bound=upper_bound, guarantee=Guarantee(None, statement),
        status=proof.status, n_iter=0, n_lmo=1, time=time.perf_counter() - began,
        trace=Trace(np.array([value]), np.array([fw_gap])), best_x=x, best_value=value,
        method="doubly-nonnegative", note="" if holds else f"gap {upper_bound - value:.2e} left",
        n_starts=n_starts + 1, n_nodes=proof.n_nodes,
    )  # fmt: skip
