"""Warm bounded simplex on the full tableau, for down-closed linear programs

    maximise <c, x>  over  A x + s = b,  0 <= x <= bound,  s >= 0,   A >= 0, b >= 0.

A basis gives each row a basic variable. How they depend on the n others, the nonbasic ones, and what these would gain,
is told by the tableau T (m, n), the column beta and the reduced costs d:

    x_basic = beta - T x_nonbasic,   d = c_nonbasic - c_basic' T.

From the slacks, T = A and beta = b; x = 0 is feasible, so no first phase is needed. A pivot subtracts u w' from T,
where u and w are made of one column and one row of it. For a small T that is best done at once. A larger one would
have to pass through the processor for each pivot: there the last u and w wait in a log, and one product subtracts
them all.

- Variables are numbered 0..n-1 (columns of A) and n..n+m-1 (slacks).
- New costs: primal simplex, devex pricing (Forrest, Goldfarb 1992), two-pass ratio test (Harris 1973).
- New bounds that cut off the vertex: dual simplex with the *old* cost, for which the basis is still dual feasible, then
  primal simplex with the new one.
- Cold start with many more columns than rows: dual simplex from "each column at the bound its cost asks for", devex
  weights, bound flipping in linear time (Maros 2003).
- After pivots, what the vertex and the duals leave in the equations of the program is computed from A, b and c, and
  corrected through T. Trouble is met by the same basis eliminated anew from A, then by a restart from slacks, then
  `NEEDS_SOLVER`.
- A cost that moves along a line (`simplex_track`, `simplex_follow`): how far the basis stays optimal is one number.

Everything is in scaled units (`drsub_fast.sets.polytope.scale_polytope`): columns in units of their bounds, rows in
units of b, by powers of two, so that nothing is rounded; a column of unit 0 is fixed at 0. The cost is divided by its
largest gain. The tolerances below are absolute.
"""

import math

from drsub_fast.engine.codes import NEEDS_SOLVER, OK, PAUSED
from drsub_fast.engine.jit import kernel
from drsub_fast.lp.pivots import GO_ON, OPTIMAL, PRIMAL_TOL, UNRELIABLE, dual_pivots, primal_pivots, to_its_bounds
from drsub_fast.lp.residuals import is_right
from drsub_fast.lp.tableau import (
    BARE,
    COLD,
    COST,
    D_RATE,
    DUAL_TOL,
    IS_FOLLOWED,
    IS_TRACKED,
    PER_COLUMN,
    PHASE,
    POINT,
    QUEUE,
    REST,
    SIDE,
    SIGN,
    SINCE,
    SPENT,
    TROUBLES,
    UPPER,
    D,
    eliminate_again,
    find_values,
    find_vertex,
    from_slacks,
    install,
    least_of,
    n_improving,
    n_infeasible,
    reduced_costs,
    take_bounds,
)

#: Fields of ``numbers``. UNIT: the largest gain, by which the cost was divided. Since `simplex_track` the cost has
#: become DECAY * cost + GROWTH * rate; the basis is optimal while GROWTH <= LIMIT * DECAY.
UNIT, DECAY, GROWTH, LIMIT = range(4)

#: Phases. GOING: a program is unfinished. READY: optimal for the last cost and bounds.
FRESH, GOING, READY = range(3)

#: Costs below minus this, in units of the largest gain, count as equal to it: they can only keep x_j = 0.
_LARGEST_LOSS = 1e6

#: Of the largest gain of a column in its whole unit, the share that costs are measured in at least.
_SMALLEST_SHARE = 1e-6

#: With at least this many columns a row, programs start by the dual simplex. The primal simplex flips columns to their
#: bounds one by one, the dual in bulk. Microseconds, primal against dual, rows that cut off part of the box:
#: 200 x 200: 656/1616; 20 x 400: 599/589; 20 x 2000: 13,800/10,400; 2 x 200: 80/22.
_MANY_COLUMNS = 20

#: There, with more variables to move than this many times the rows, and 20, new costs start from the slacks as well: a
#: cold start takes 2 to 4 pivots a row, the primal simplex at least one a variable.
_COLD_PIVOTS = 4

#: Steps of `simplex_follow` after which everything is computed anew.
_FOLLOWS = 200

#: A basis from outside may violate its bounds by this much; the next call repairs it.
_LOADED_TOL = 1e-6

#: One call does about this many multiplications, so that a long program can be interrupted.
_WORK_PER_CALL = 1e8


@kernel
def _largest_gain(scale, direction, upper):
    """Largest gain of one column within its bounds (0 if there is none); NaN if an entry is not finite.

    Bounds may be far below the units of their columns. What a column could gain in its whole unit counts for a
    millionth, so that scaled costs stay below 1e6 and their rounding below `DUAL_TOL`.
    """
    largest, whole, poison = 0.0, 0.0, 0.0
    for j in range(direction.size):
        poison += direction[j] - direction[j]
        gain = direction[j] * scale[j]
        if gain > whole and upper[j] > 0.0:
            whole = gain
        gain = direction[j] * min(scale[j], upper[j])
        if gain > largest:
            largest = gain
    return max(largest, _SMALLEST_SHARE * whole) + poison


@kernel
def _set_cost(scale, direction, unit, table, row):
    """The direction in scaled units."""
    for j in range(direction.size):
        table[row, j] = max(direction[j] * scale[j] / unit, -_LARGEST_LOSS)


@kernel
def _set_bounds(lp, work, upper):
    """The bounds in scaled units; whether a nonbasic variable stands elsewhere now."""
    table = work.table
    m, n = lp.A.shape
    for j in range(n):
        table[UPPER, j] = upper[j] / lp.scale[j] if lp.scale[j] > 0.0 else 0.0
    return take_bounds(work, m, n)


@kernel
def _optimise(lp, work, direction, unit, most):
    """From any basis with its values to the optimum."""
    table, state = work.table, work.state
    m, n = lp.A.shape
    while True:
        if n_infeasible(table, m, PRIMAL_TOL) > 0:
            to_its_bounds(work, m, n)
            outcome = dual_pivots(work, m, n, most)
            if outcome != OPTIMAL:
                return outcome
        _set_cost(lp.scale, direction, unit, table, COST)
        reduced_costs(work, m, n, COST, D)
        if n >= _MANY_COLUMNS * m and state[COLD] == 0:
            state[COLD] = 1
            if state[BARE] or n_improving(table, n) > _COLD_PIVOTS * m + 20:
                from_slacks(lp, work)
                take_bounds(work, m, n)
                to_its_bounds(work, m, n)
                continue
        outcome = primal_pivots(work, m, n, most)
        if outcome != OPTIMAL:
            return outcome
        if state[SINCE] == 0:
            return OPTIMAL
        state[SINCE] = 0
        if not is_right(lp, work):
            return UNRELIABLE
        if n_infeasible(table, m, PRIMAL_TOL) + n_improving(table, n) == 0:
            return OPTIMAL


@kernel
def simplex_maximize(lp, work, direction, upper, v):
    """v = argmax <direction, v> over {A v <= b, 0 <= v <= upper}, warm from the last call.

    Parameters
    ----------
    lp : namedtuple
        With fields A (m, n), b (m,) and scale (n,): the data in scaled units.
    work : SimplexWork
    direction, upper, v : (n,)
        In the user's units.

    Returns
    -------
    status : int
        OK (v is NaN if the direction is not finite), PAUSED (call again with the same arguments) or NEEDS_SOLVER.
    """
    scale, table, state = lp.scale, work.table, work.state
    m, n = lp.A.shape
    state[IS_TRACKED] = 0
    unit = _largest_gain(scale, direction, upper)
    if not 0.0 < unit < math.inf:
        # Nothing to gain at 0; no answer to a direction that is not finite.
        work.numbers[UNIT] = 0.0
        for j in range(n):
            v[j] = 0.0 if unit == 0.0 else math.nan
        return OK
    fresh = state[PHASE] == FRESH
    if fresh:
        from_slacks(lp, work)
    if state[PHASE] != GOING:
        state[SPENT] = state[TROUBLES] = state[COLD] = 0
    if _set_bounds(lp, work, upper) or fresh:
        find_values(work)
    state[PHASE] = GOING
    most = 50 * (m + n) + 1000
    pause = state[SPENT] + max(20, int(_WORK_PER_CALL / ((m + 1.0) * n)))
    while True:
        outcome = _optimise(lp, work, direction, unit, min(most, pause))
        if outcome == OPTIMAL:
            break
        if outcome == GO_ON and state[SPENT] < most:
            return PAUSED
        # The same basis from A first, then a restart, then the solver.
        state[TROUBLES] += 1
        state[SPENT] = 0
        if state[TROUBLES] > 2:
            state[PHASE] = FRESH
            return NEEDS_SOLVER
        if state[TROUBLES] == 2 or not eliminate_again(lp, work):
            from_slacks(lp, work)
        take_bounds(work, m, n)
        find_values(work)
    find_vertex(work, m, n)
    state[PHASE] = READY
    work.numbers[UNIT] = unit
    for j in range(n):
        v[j] = min(max(table[POINT, j], 0.0), table[UPPER, j]) * scale[j]
    return OK


@kernel
def simplex_track(lp, work, rate):
    """Prepares `simplex_follow` for costs that move along ``rate``, from the cost of the last call."""
    table, numbers, state = work.table, work.numbers, work.state
    m, n = lp.A.shape
    state[IS_TRACKED] = 0
    if state[PHASE] != READY or numbers[UNIT] <= 0.0:
        return False
    for j in range(n):
        table[REST, j] = rate[j] * lp.scale[j] / numbers[UNIT]
    for i in range(m):
        table[REST, n + i] = 0.0
    reduced_costs(work, m, n, REST, D_RATE)
    # The reduced costs d + g * d_rate keep their signs up to the smallest of these ratios.
    for j in range(n):
        growth = table[SIDE, j] * table[D_RATE, j]
        slack = DUAL_TOL - table[SIDE, j] * table[D, j]
        table[PER_COLUMN, j] = slack / growth if growth > 0.0 else math.inf
    numbers[LIMIT] = least_of(table, PER_COLUMN, n)
    numbers[DECAY], numbers[GROWTH] = 1.0, 0.0
    state[IS_TRACKED] = 1
    state[IS_FOLLOWED] = 0
    return True


@kernel
def simplex_follow(lp, work, decay, gamma, upper, v):
    """Whether v stays optimal when the cost becomes decay * cost + gamma * rate and the bounds ``upper``."""
    table, numbers, state = work.table, work.numbers, work.state
    if state[IS_TRACKED] == 0 or decay == 0.0:  # of the old cost nothing is left
        return False
    state[IS_FOLLOWED] += 1
    numbers[DECAY] *= decay
    numbers[GROWTH] = decay * numbers[GROWTH] + gamma
    if state[IS_FOLLOWED] > _FOLLOWS or not numbers[GROWTH] <= numbers[LIMIT] * numbers[DECAY]:
        return False
    n_cut = 0
    for j in range(v.size):
        n_cut += v[j] > upper[j] or (table[SIGN, j] < 0.0 and v[j] < upper[j])
    return n_cut == 0


@kernel
def simplex_load(lp, work, columns, rows, direction, upper):
    """Takes over an optimal basis for ``direction`` and ``upper``; False (and a fresh start) if it is unusable.

    Parameters
    ----------
    columns, rows : int8 arrays, shapes (n,) and (m,)
        0 at the lower bound, 1 basic, 2 at the upper bound.
    """
    table, places, state = work.table, work.places, work.state
    m, n = lp.A.shape
    state[PHASE] = FRESH
    state[IS_TRACKED] = 0
    unit = _largest_gain(lp.scale, direction, upper)
    if not unit > 0.0 or unit == math.inf:
        return False
    n_basic = 0
    for j in range(n):
        places[QUEUE, j] = 2 if columns[j] == 1 else (-1 if columns[j] == 2 else 1)
        n_basic += columns[j] == 1
    for i in range(m):
        places[QUEUE, n + i] = 2 if rows[i] == 1 else 1
        n_basic += rows[i] == 1
    if n_basic != m or not install(lp, work):
        return False
    _set_bounds(lp, work, upper)
    find_values(work)
    _set_cost(lp.scale, direction, unit, table, COST)
    reduced_costs(work, m, n, COST, D)
    if not is_right(lp, work) or n_infeasible(table, m, _LOADED_TOL) > 0:
        return False
    state[SINCE] = 0
    work.numbers[UNIT] = unit
    state[PHASE] = READY
    return True
