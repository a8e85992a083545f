"""Global maximum of a quadratic over a down-closed polytope, by spatial branch and bound.

    max 1/2 x'Hx + h'x   over   {x : A x <= b, 0 <= x <= upper},   A >= 0, H symmetric of any sign.

A node is a box [lower, upper] cut with the polytope. With x = lower + width * y it becomes a problem of the same
kind over {y : A'y <= 1, 0 <= y <= 1}: width_j is the exact range of x_j there, because putting all others
at their lower bounds is feasible. Its bound is that of `proofs.doubly_nonnegative`. The interior point
stops as soon as the bound reaches the incumbent (the node is closed), or when <C, Z>, which the
relaxation's value cannot fall below, shows that it never will; then a local solve from the relaxation's x tries to
raise the incumbent, and if that fails the node is split where the relaxation is least like a product:

    j = argmax_j sum_i |H_ij| |Z_ij - x_i x_j|,   at 0.8 x_j + 0.2 (middle of the range).

Nodes are taken best bound first. A bound that an interior point could not improve is the parent's, so rounding
trouble costs nodes, never validity.
"""

import time
from collections import namedtuple

import numpy as np

from drsub_fast.errors import UnsupportedError
from drsub_fast.proofs.doubly_nonnegative import BOUND, GAP, OBJECTIVE, STALLED, improve, relaxation
from drsub_fast.proofs.search import best_first, time_left, tolerance
from drsub_fast.sets.box import Box
from drsub_fast.sets.knapsack import DisjointKnapsacks
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.run import solver_upper

#: max 1/2 x'Hx + h'x over {A x <= b, 0 <= x <= upper}.
QuadraticProgram = namedtuple("QuadraticProgram", "H h A b upper")

#: A node in unit-box form, f = constant + 1/2 y'Hy + h'y at x[free] = lower[free] + width * y.
_UnitForm = namedtuple("_UnitForm", "constant H h A free width")


def constraint_rows(P):
    """(A, b), dense, with P = {x : A x <= b, 0 <= x <= P.upper} and A >= 0."""
    if isinstance(P, Polytope):
        return (P.A.toarray() if hasattr(P.A, "toarray") else P.A), P.b
    if isinstance(P, Box):
        return np.zeros((0, P.n)), np.zeros(0)
    if isinstance(P, DisjointKnapsacks) and P.is_down_closed:
        member = P.groups == np.arange(P.capacities.size)[:, None]
        return np.where(member, P.weights, 0.0), P.capacities
    raise UnsupportedError(
        f"a global optimum over {P!r} cannot be proved: that needs a down-closed Polytope, Box, Budget, Knapsack or "
        "PartitionMatroid; use maximize(f, P) for a local one"
    )


def quadratic_program(f, P):
    """The problem max f - c over P as arrays."""
    A, b = constraint_rows(P)
    H, h, _ = f.params
    return QuadraticProgram(H, h, A, b, np.array(solver_upper(f, P)))


def magnitude(program):
    """The largest term of the objective over the box: the size that values near zero are compared with."""
    linear = np.abs(program.h * program.upper).max()
    return max(linear, 0.5 * np.abs(program.H * np.outer(program.upper, program.upper)).max())


def unit_form(program, lower, upper):
    """The node [lower, upper] in unit-box form, or None if it is empty."""
    H, h, A, b, _ = program
    left = b - A @ lower
    if (left < 0.0).any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(A > 0.0, left[:, None] / A, np.inf).min(axis=0, initial=np.inf)
    width = np.minimum(upper - lower, room)
    free = np.flatnonzero(width > 0.0)
    width = width[free]
    Hx = H @ lower
    constant = lower @ (0.5 * Hx + h)
    rows = left > 0.0
    scaled = A[np.ix_(rows, free)] * width / left[rows, None]
    scaled = scaled[scaled.sum(axis=1) > 1.0]
    loose = np.flatnonzero(scaled.max(axis=0, initial=0.0) < 1.0 - 1e-12)
    scaled = np.vstack([scaled, np.eye(len(free))[loose]])
    return _UnitForm(
        float(constant), H[np.ix_(free, free)] * np.outer(width, width), (h + Hx)[free] * width, scaled, free, width
    )


def interval_bound(form):
    """Largest value term by term: crude, but finite without any arithmetic that could fail."""
    return form.constant + np.maximum(form.h, 0.0).sum() + 0.5 * np.maximum(form.H, 0.0).sum()


def _split(form, lower, upper, Z):
    """The two halves of a node, as (lower, upper) pairs."""
    x = np.clip(Z[0, 1:], 0.0, 1.0)
    excess = (np.abs(form.H) * np.abs(Z[1:, 1:] - np.outer(x, x))).sum(axis=1)
    k = int(excess.argmax())
    j = form.free[k]
    at = lower[j] + form.width[k] * min(max(0.8 * x[k] + 0.1, 0.1), 0.9)
    below, above = upper.copy(), lower.copy()
    below[j] = above[j] = at
    upper = upper.copy()
    upper[j] = lower[j] + form.width[k]
    return (lower, below), (above, upper)


def branch_and_bound(program, incumbent, limits):
    """Proves how good the incumbent is, and improves it on the way.

    Parameters
    ----------
    program : QuadraticProgram
        The problem.
    incumbent : Incumbent
        A feasible point; better ones replace it.
    limits : Limits
        When to stop.

    Returns
    -------
    Proof
    """

    step_time = 0.0

    def bound_node(node, bound):
        nonlocal step_time
        lower, upper = node
        form = unit_form(program, lower, upper)
        if form is None:
            return -np.inf, ()
        bound = min(bound, interval_bound(form))
        if len(form.free) == 0:
            incumbent.try_from(lower)
            return bound, ()
        if bound <= incumbent.value + tolerance(incumbent.value, limits):
            return bound, ()
        scale = max(abs(incumbent.value), limits.floor)
        data, iterate = relaxation(form.H / scale, form.h / scale, form.A)
        Z, numbers = iterate.Z, iterate.numbers
        # A step takes seconds at n = 100: none is begun that would end after the time limit.
        while (left := time_left(limits)) is None or left > step_time:
            began = time.perf_counter()
            stuck = improve(data, iterate) == STALLED
            step_time = time.perf_counter() - began
            bound = min(bound, form.constant + scale * numbers[BOUND])
            reached = form.constant + scale * numbers[OBJECTIVE]
            while True:
                slack = tolerance(incumbent.value, limits)
                target = incumbent.value + slack
                if bound <= target:
                    return bound, ()
                if not (stuck or scale * numbers[GAP] < 0.01 * slack or bound - reached < 0.5 * (reached - target)):
                    break
                x = lower.copy()
                x[form.free] += form.width * np.clip(Z[0, 1:], 0.0, 1.0)
                if not incumbent.try_from(x):
                    return bound, _split(form, lower, upper, Z)
        return bound, None

    root = (np.zeros(len(program.h)), program.upper)
    return best_first(root, interval_bound(unit_form(program, *root)), bound_node, incumbent, limits)
