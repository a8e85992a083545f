"""Fully corrective Frank-Wolfe: after each oracle call f is maximised over the hull of the atoms.

The iterate is a convex combination of atoms, x = sum_i w_i a_i. A major step asks the oracle for a vertex,
stops if the gap is small, adds the vertex to the atoms with the exact step towards it, and corrects the
weights:

* f quadratic: w moves by Newton steps on the affine hull of the atoms, M s = g with
  M_ij = -(a_i - a_r)'H(a_j - a_r) and g_i = <grad, a_i - a_r>, r the atom of the largest weight. A step that
  leaves the simplex of weights stops at its boundary and drops the atom it hits. Where the Cholesky
  factorisation of M fails, the failing row gives a direction of non-negative curvature, followed to the
  boundary. Both raise f; when no atom is dropped, f is maximal over the hull of the atoms.
* other f: the same for the quadratic model of f at x, by Hessian products of f or, where it has none, differences
  of its gradient on the way to each atom. The model's answer is taken if f rises by it as it should; otherwise f is
  searched on the segment to it, and x becomes an atom. A few such steps, until the hull promises less than a part of
  the gap. Where even the search finds nothing, an exact step towards the vertex is left.

The Newton systems keep the atoms affinely independent, so there are hardly more than n + 1. Of many variables an atom
keeps the entries that are not zero. A full store is replaced by its one combination x.
Sources: Holloway 1974 (fully corrective steps).
"""

import math
from collections.abc import Callable
from typing import Any, Literal

from numpy.typing import ArrayLike

from drsub_fast.engine.codes import BREAK, CONVERGED, FINISHED, NON_FINITE, OK, STALLED
from drsub_fast.engine.dispatch import operation, register
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import add_scaled, assign, dot, slope
from drsub_fast.objectives.base import Objective, contract, evaluate, exact_step, hessian_product, prepare
from drsub_fast.objectives.quadratic_kernels import FactoredQuadraticParams, QuadraticParams
from drsub_fast.objectives.quadratic_sparse import SparseQuadraticParams
from drsub_fast.result import Result, Status
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.solvers.atoms import (
    COUNT,
    IDLE,
    FullyCorrectiveOptions,
    add_atom,
    add_atom_to,
    atom_dot,
    atoms_size,
    combination,
    correct_weights,
    find_atom,
    has_room,
    keep_only,
    move_atom,
    open_atoms,
    share_out,
)
from drsub_fast.solvers.frank_wolfe import STATIONARY
from drsub_fast.solvers.record import Method, named_options, register_method
from drsub_fast.solvers.run import Run
from drsub_fast.solvers.state import (
    STALE,
    STARTED,
    VALUE,
    VERTEX,
    K,
    begin,
    close_run,
    gap_at,
    keep_iterate,
    next_vertex,
    note_iterate,
    open_run,
    small_gap,
)

#: Major steps without any rise of f after which rounding is taken to be the reason.
_IDLE_LIMIT = 3

#: Newton steps between two oracle calls for an f that is not quadratic, part of the gap that the hull may still
#: promise, part of the first-order rise that f must reach, and part of f that counts as rounding.
_NEWTON_LIMIT = 3
_HULL_SHARE = 0.1
_RISE = 0.1
_NOISE = 1e-14

#: Part of the way to an atom on which its second derivatives are measured.
_DIFFERENCE = 1e-6


@kernel
def _exact_towards(atoms, new, gap):
    """Exact step of the quadratic model from x to atom ``new``; the weights follow."""
    Q, weight = atoms.Q, atoms.weight
    p = atoms.count[COUNT]
    cross = square = 0.0
    for i in range(p):
        cross += weight[i] * Q[i, new]
        for k in range(p):
            square += weight[i] * weight[k] * Q[i, k]
    curvature = Q[new, new] - 2.0 * cross + square
    gamma = 1.0 if curvature >= 0.0 else min(1.0, -gap / curvature)
    if gamma >= 1.0:
        if new != 0:
            move_atom(atoms, new, 0)
            Q[0, 0] = Q[new, new]
        atoms.count[COUNT] = 1
        weight[0] = 1.0
        return
    share_out(atoms, new, gamma)


@kernel
def _score(atoms, grad):
    for i in range(atoms.count[COUNT]):
        atoms.score[i] = atom_dot(atoms, i, grad)


@kernel
def _quadratic_step(objective, work, atoms, x, upper, new, gap):
    """Exact step to the new atom, then weights that are maximal over the hull; returns the new value."""
    _exact_towards(atoms, new, gap)
    # <grad, a_i> at the new point: the Hessian is constant, so grad f moves by the change of sum w_i H a_i.
    combination(atoms, x, upper)
    evaluate(objective, work, x)
    _score(atoms, work.grad)
    correct_weights(atoms)
    combination(atoms, x, upper)
    return evaluate(objective, work, x)


@kernel
def _model_curvature(objective, work, atoms, x, grad, trial):
    """Q for the Hessian at x, up to what differences of atoms do not see; the workspace is that of x after it."""
    product, M, Q, p = atoms.product, atoms.M, atoms.Q, atoms.count[COUNT]
    differs, base = False, 0.0
    assign(grad, work.grad)
    for i in range(p):
        for j in range(x.size):
            trial[j] = 0.0
        add_atom_to(atoms, i, 1.0, trial)
        if hessian_product(objective, work, x, trial, product) == 0:
            differs = True
            for j in range(x.size):
                trial[j] = x[j] + _DIFFERENCE * (trial[j] - x[j])
            evaluate(objective, work, trial)
            for j in range(x.size):
                product[j] = (work.grad[j] - grad[j]) / _DIFFERENCE
            base = dot(product, x)
        for k in range(p if differs else i + 1):
            M[i, k] = atom_dot(atoms, k, product) - base
    for i in range(p):
        for k in range(i + 1):
            Q[i, k] = Q[k, i] = 0.5 * (M[i, k] + M[k, i]) if differs else M[i, k]
    if differs:
        evaluate(objective, work, x)


@kernel
def _move_scores(atoms, before):
    """The scores after the weights moved away from ``before`` in the model, up to a number common to all."""
    Q, weight, score, p = atoms.Q, atoms.weight, atoms.score, atoms.count[COUNT]
    for k in range(p):
        change = weight[k] - before[k]
        if change != 0.0:
            add_scaled(score[:p], change, Q[k])


@kernel
def _mix_in(atoms, point, share, x):
    """Gives ``point``, as an atom, a share of the weight; they then combine to x, the only atom if there is no room."""
    i = find_atom(atoms, point)
    if i < 0:
        i = atoms.count[COUNT]
        if not has_room(atoms, point):
            keep_only(atoms, x, False)
            return
        add_atom(atoms, point, False)
    share_out(atoms, i, share)


@kernel
def _search_towards(objective, work, x, target, value):
    """(gamma, value) of the best step from x to ``target``, which is made; the workspace is that of the new x."""
    prepare(objective, work, x, target)
    gamma = exact_step(objective, work, x, target, 1.0, value)
    return gamma, contract(objective, work, x, target, gamma, value)


@kernel
def _hull_gap(atoms):
    """How much the hull of the atoms promises: the largest score minus the mean one."""
    largest, mean = -math.inf, 0.0
    for i in range(atoms.count[COUNT]):
        largest = max(largest, atoms.score[i])
        mean += atoms.weight[i] * atoms.score[i]
    return largest - mean


@kernel
def _maximise_model(objective, work, atoms, x, new, gap, start, target):
    """Weights that are maximal for the quadratic model at x, reached by an exact step to the new atom, if any."""
    _model_curvature(objective, work, atoms, x, start, target)
    _score(atoms, work.grad)
    if new >= 0:
        before, p = atoms.step, atoms.count[COUNT]
        assign(before, atoms.weight)
        _exact_towards(atoms, new, gap)
        if atoms.count[COUNT] == p:
            _move_scores(atoms, before)
    correct_weights(atoms)


@kernel
def _newton_steps(objective, work, state, atoms, x, upper, new, gap, value):
    """Newton steps over the hull, the new atom (of weight 0 so far) included; returns the new value."""
    start, target = state.previous, state.candidate
    left = gap
    for _ in range(_NEWTON_LIMIT):
        _maximise_model(objective, work, atoms, x, new, gap, start, target)
        new = -1
        assign(start, x)
        combination(atoms, x, upper)
        rise = slope(work.grad, x, start)
        reached = evaluate(objective, work, x)
        _score(atoms, work.grad)
        promise = _hull_gap(atoms)
        # Close to the maximum values differ by rounding alone; the gradient still tells.
        is_close = reached >= value - _NOISE * abs(value) and promise <= 0.5 * left
        if reached > value + _RISE * max(rise, 0.0) or is_close:
            value, left = reached, promise
        else:
            assign(target, x)
            assign(x, start)
            evaluate(objective, work, x)
            gamma, value = _search_towards(objective, work, x, target, value)
            _mix_in(atoms, start, 1.0 - gamma, x)
            if gamma == 0.0:
                return _step_to_vertex(objective, work, atoms, x, state.v, value)
            _score(atoms, work.grad)
            left = _hull_gap(atoms)
        if left <= _HULL_SHARE * gap:
            return value
    return value


@kernel
def _step_to_vertex(objective, work, atoms, x, v, value):
    """An exact step towards the vertex; returns the new value."""
    gamma, value = _search_towards(objective, work, x, v, value)
    _mix_in(atoms, v, gamma, x)
    return value


@kernel
def _any_step(objective, work, state, atoms, x, upper, new, gap, value, quadratic):
    if quadratic:
        return _quadratic_step(objective, work, atoms, x, upper, new, gap)
    return _newton_steps(objective, work, state, atoms, x, upper, new, gap, value)


@kernel
def _step_of_quadratic(objective, work, state, atoms, x, upper, new, gap, value, quadratic):
    return _quadratic_step(objective, work, atoms, x, upper, new, gap)


#: ``corrective_step(objective, work, state, atoms, x, upper, new, gap, value, quadratic)``: f maximised over the hull
#: of the atoms, the new one among them; the new value. Where f is known to be quadratic, only that step is compiled.
corrective_step = operation("corrective_step", _any_step)
register(QuadraticParams, FactoredQuadraticParams, SparseQuadraticParams, corrective_step=_step_of_quadratic)


@kernel(separate=True)
def fully_corrective_loop(
    objective, feasible_set, options, floats, integers, x, upper, k_max, k_stop, trace_value, trace_gap
):
    state, work, set_work = open_run(objective, feasible_set, x.size, floats, integers)
    atoms = open_atoms(x.size, floats, integers)
    control, numbers = state.control, state.numbers
    if control[STARTED] == 0:
        if not begin(objective, work, state, x, upper, trace_value, trace_gap):
            return NON_FINITE
        keep_only(atoms, x, hessian_product(objective, work, x, x, atoms.product) == 2)
    while True:
        k = control[K]
        code = next_vertex(objective, work, feasible_set, set_work, state, x, False)
        if code != OK:
            return code
        gap = gap_at(work.grad, state.v, x)
        if not note_iterate(state, x, gap, trace_value, trace_gap):
            return NON_FINITE
        # f never falls here, so the last iterate is the one to return.
        keep_iterate(state, x)
        if k >= k_stop:
            return BREAK
        stalled = atoms.count[IDLE] >= _IDLE_LIMIT
        small = small_gap(options.tol, numbers)
        if gap <= small or k >= k_max or stalled:
            close_run(objective, work, state, x, upper)
            if gap <= small:
                return CONVERGED
            return STALLED if stalled else FINISHED
        old = numbers[VALUE]
        new = find_atom(atoms, state.v)
        if new < 0 and not has_room(atoms, state.v):
            keep_only(atoms, x, hessian_product(objective, work, x, x, atoms.product) == 2)
        quadratic = hessian_product(objective, work, x, state.v, atoms.product) == 2
        if new < 0:
            new = atoms.count[COUNT]
            add_atom(atoms, state.v, quadratic)
        numbers[VALUE] = corrective_step(objective, work, state, atoms, x, upper, new, gap, old, quadratic)
        atoms.count[IDLE] = 0 if numbers[VALUE] > old + 1e-16 * abs(old) else atoms.count[IDLE] + 1
        control[K] = k + 1
        control[VERTEX] = STALE


@named_options
def fully_corrective_frank_wolfe(
    f: Objective,
    P: FeasibleSet,
    *,
    x0: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float | None = None,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """Fully corrective Frank-Wolfe: a stationary point of f over P to a small gap, in few oracle calls.

    Parameters
    ----------
    f : Objective
        Function to maximise. Its Hessian is used where it is known, else differences of the gradient.
    P : FeasibleSet
        Feasible set.
    max_iter : int
        Number of major steps (oracle calls).
    {x0, tol, lmo, callback, callback_every, time_limit, progress}

    Returns
    -------
    Result
        x is the last iterate, which has the largest value.

    Raises
    ------
    ValueError
        For an x0 outside P or an unknown option.
    OracleError
        If a linear program of the oracle fails.

    Notes
    -----
    Holloway 1974. f does not fall, up to rounding. Where the gap is as small as rounding lets it be before it reaches
    ``tol``, the run ends with the status STALLED.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.fully_corrective_frank_wolfe(f, ds.Box([1.0, 1.0]), tol=1e-12)
    >>> round(r.value, 9), r.fw_gap < 1e-12
    (0.571428571, True)
    """
    run = Run(f, P, x0, max_iter, lmo, tol, callback, callback_every, time_limit, progress)
    options = FullyCorrectiveOptions(run.tol)
    status = run.solve(fully_corrective_loop, options, Status.MAX_ITER, atoms_size(f.n))
    return run.result("fully-corrective-frank-wolfe", status, STATIONARY, returns_best=True)


register_method(
    Method(
        "fully-corrective-frank-wolfe", fully_corrective_frank_wolfe, "Fully corrective Frank-Wolfe", is_local=True,
        loop=lambda tol, max_iter: FullyCorrectiveOptions(tol), workspace=atoms_size, promise=STATIONARY, marker="P",
        colour="tab:brown", claim="a stationary point", about="a gap of 1e-6 or 1e-12, fast",
    )
)  # fmt: skip
