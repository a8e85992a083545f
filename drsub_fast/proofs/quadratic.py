"""Global maximum of a quadratic over a set of finitely many rows, by spatial branch and bound.

    max 1/2 x'Hx + h'x   over   {x : A x <= b, A_eq x = b_eq, lower <= x <= upper},   H symmetric of any sign.

A node is a box [lower, upper] cut with the set, brought to the unit box (`proofs.program`). Its bound is that of the
doubly non-negative relaxation: by the interior point (`proofs.doubly_nonnegative`) where few variables are free, by the
first-order method (`proofs.first_order`) where many are, in between by the latter and, if the gap is too small for it,
the former. Either stops as soon as the bound reaches the incumbent (the node is
closed), or when <C, Z>, which the relaxation's value cannot fall below, shows that it never will; then a local solve
from the relaxation's x tries to raise the incumbent.

If that fails the multipliers W say where better points can be: with z'Cz <= bound - sum_ab W_ab (v_a'z)(v_b'z),
every point that is worth more than the incumbent has

    v_a'z <= (bound - value) / (2 W_0a)   for all rows v_a, those of x_j >= 0 among them.

The box that this leaves is the next node if it is much smaller; else it is split where the relaxation is
least like a product:

    j = argmax_j sum_i |H_ij| |Z_ij - x_i x_j|,   at 0.8 x_j + 0.2 (middle of the range).

Nodes are taken best bound first. A bound that a relaxation could not improve is the parent's, so rounding
trouble costs nodes, never validity.
"""

from collections import namedtuple

import numpy as np

from drsub_fast.engine.clock import now
from drsub_fast.proofs.doubly_nonnegative import certificate, complementarity, iterates, objective
from drsub_fast.proofs.first_order import multipliers
from drsub_fast.proofs.program import QuadraticProgram, interval_bound, smaller_box, unit_form
from drsub_fast.proofs.quadratic_steps import interior_price
from drsub_fast.proofs.rungs import SPEED
from drsub_fast.proofs.safe_bound import relaxation, safe_bound
from drsub_fast.proofs.search import (
    Incumbent,
    Interrupted,
    Limits,
    Proof,
    best_first,
    halves,
    scale_of,
    time_left,
    tolerance,
)

#: What a relaxation has after some steps: its ``certificate``, a value ``reached`` that its bound is not to fall below
#: by more than the ``error``, and ``Z`` (n + 1, n + 1).
_Step = namedtuple("_Step", "certificate reached error Z")

#: Largest number of free variables of a node for the interior point alone, whose steps cost O(n^6), 0.1 s at 50; for
#: which it follows some steps of the first-order method; and these. Quadratic-uniform 50 x 25, 50 x 50, 50 x 75 and
#: 70 x 70, seed 1, to 1e-6: 12, 3, 5 and 20 s; by the first-order method alone 3e-4 is left at 50 x 25 after 30 s.
_INTERIOR, _INTERIOR_LATER, _FIRST_STEPS = 48, 72, 400
#: The first node of more variables than this begins with some steps of the first-order method in any case, whose bounds
#: come sooner.
_AT_ONCE, _FEW_STEPS = 20, 100
#: The first-order method is given up after this many steps.
_MOST_STEPS = 4000
#: A box counts as much smaller where its mean width is below this part of the node's: at 0.7 the steps that the
#: method has done are worth more than the smaller box (n = 100, 1e-4: 2.9 s without, 11 s with it).
_SMALLER = 0.3


def _interior_steps(relaxed, scale):
    """Seconds that a step is expected to take, then the steps."""
    yield interior_price(len(relaxed.C) - 1, len(relaxed.V)) / SPEED
    for data, iterate in iterates(relaxed, scale):
        Z = data.T @ iterate.Z @ data.T.T
        yield _Step(certificate(relaxed, data, iterate), objective(data, iterate), complementarity(data, iterate), Z)


def _first_order_steps(relaxed, most):
    for progress in multipliers(relaxed):
        reached = progress.objective - progress.residual
        yield _Step(safe_bound(relaxed, progress.W), reached, progress.residual, progress.Z)
        if progress.steps >= most:
            return


def _steps(relaxed, scale, n_free, is_first):
    """The `_Step` of a node's relaxation by the methods for so many free variables."""
    if is_first and _AT_ONCE < n_free <= _INTERIOR:
        yield from _first_order_steps(relaxed, _FEW_STEPS)
    if n_free > _INTERIOR:
        yield from _first_order_steps(relaxed, _FIRST_STEPS if n_free <= _INTERIOR_LATER else _MOST_STEPS)
    if n_free <= max(_INTERIOR, _INTERIOR_LATER):
        yield from _interior_steps(relaxed, scale)


def _better_points(form, certificate, loss):
    """The box of the unit form's points that are worth at least bound - loss, or None if there is none."""
    n = len(form.h)
    # Rounding of the few operations here is far below this.
    loss = max(loss, 0.0) * (1.0 + 1e-9)
    first, own = certificate.W[0], certificate.W.diagonal()[1 : n + 1]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        most = np.where(first > 0.0, loss / (2.0 * first), np.inf)
        upper = np.where(own > 0.0, np.sqrt(loss / own), np.inf)
    upper = np.minimum(np.minimum(upper, most[1 : n + 1]), 1.0)
    # slack <= most is a row of its own: -(-a'y) >= d - most.
    tight = np.flatnonzero(most[n + 1 :] < 1e3)
    rows = form.rows[tight]
    A = np.vstack([-form.rows[:, 1:], rows[:, 1:]])
    b = np.concatenate([form.rows[:, 0], most[n + 1 :][tight] - rows[:, 0]])
    b = b + 1e-13 * (1.0 + np.abs(A).sum(axis=1))
    return smaller_box(A, b, np.zeros(n), upper)


def _children(form, step, loss):
    """What is left of a node to search: nothing, the box of its better points, or two halves of it."""
    box = _better_points(form, step.certificate, loss) if step.certificate.bound < np.inf else None
    if step.certificate.bound < np.inf and box is None:
        return ()
    low, high = box if box is not None else (np.zeros(len(form.h)), np.ones(len(form.h)))
    lower, upper = form.lower.copy(), form.lower.copy()
    lower[form.free] += form.width * low
    upper[form.free] += form.width * high
    if (high - low).mean() < _SMALLER:
        return ((lower, upper),)
    x = np.clip(step.Z[0, 1:], low, high)
    excess = (np.abs(form.H) * np.abs(step.Z[1:, 1:] - np.outer(x, x))).sum(axis=1)
    k = int(np.where(high > low, excess, -1.0).argmax())
    at = x[k]
    at = min(max(at, 0.97 * low[k] + 0.03 * high[k]), 0.03 * low[k] + 0.97 * high[k])
    j = form.free[k]
    return halves(lower, upper, j, form.lower[j] + form.width[k] * at)


def branch_and_bound(program: QuadraticProgram, known: float, incumbent: Incumbent, limits: Limits) -> Proof:
    """Proves how good the incumbent is, and improves it on the way.

    Parameters
    ----------
    program : QuadraticProgram
        The problem.
    known : float
        A bound that is known already.
    incumbent : Incumbent
        A feasible point; better ones replace it.
    limits : Limits
        When to stop.

    Returns
    -------
    Proof
    """

    step_time, root = 0.0, (program.lower, program.upper)

    def bound_node(node, bound):
        nonlocal step_time
        form = unit_form(program, *node)
        if form is None:
            return -np.inf, ()
        bound = min(bound, interval_bound(form))
        if len(form.free) == 0:
            incumbent.try_from(form.lower)
            return bound, ()
        if bound <= incumbent.value + tolerance(incumbent.value, limits):
            return bound, ()
        scale = scale_of(incumbent.value, limits)
        relaxed = relaxation(form)
        bound = min(bound, form.constant + relaxed.linear)
        steps, last = _steps(relaxed, scale, len(form.free), node is root), None
        # A step takes seconds for many variables: none is begun that would end after the time limit.
        while (left := time_left(limits)) is None or left > step_time:
            began = now()
            try:
                step = next(steps, None)
            except KeyboardInterrupt:
                raise Interrupted(bound) from None
            if isinstance(step, float):
                step_time = step
                continue
            step_time, stuck = now() - began, step is None
            step = step or last
            if step is None:
                return bound, _middle_halves(form)
            last = step
            bound = min(bound, form.constant + step.certificate.bound)
            reached = form.constant + step.reached
            while True:
                slack = tolerance(incumbent.value, limits)
                target = incumbent.value + slack
                if bound <= target:
                    return bound, ()
                if not (stuck or step.error < 0.01 * slack or bound - reached < 0.5 * (reached - target)):
                    break
                x = form.lower.copy()
                x[form.free] += form.width * np.clip(step.Z[0, 1:], 0.0, 1.0)
                if not incumbent.try_from(x):
                    return bound, _children(form, step, form.constant + step.certificate.bound - incumbent.value)
        return bound, None

    form = unit_form(program, *root)
    known = known if form is None else min(known, interval_bound(form))
    return best_first(root, known, bound_node, incumbent, limits)


def _middle_halves(form):
    """A node whose relaxation cannot be begun, split in the middle of its widest range."""
    lower, upper = form.lower.copy(), form.lower.copy()
    upper[form.free] += form.width
    j = form.free[int(form.width.argmax())]
    return halves(lower, upper, j, 0.5 * (lower[j] + upper[j]))
