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

import numpy as np

from drsub_fast.proofs.doubly_nonnegative import BOUND, GAP, OBJECTIVE, STALLED, improve, relaxation
from drsub_fast.proofs.program import interval_bound, unit_form
from drsub_fast.proofs.search import best_first, time_left, tolerance


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
        data, iterate = relaxation(form.H / scale, form.h / scale, form.rows)
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
