"""Pivots of the simplex method: one exchange, runs of the primal and the dual (see `drsub_fast.lp.simplex`)."""

import math

from drsub_fast.engine.jit import kernel
from drsub_fast.lp.tableau import (
    BOUND,
    COLUMN,
    COST,
    DUAL_TOL,
    GAIN,
    LEVEL,
    LOSS,
    MARGIN,
    PER_COLUMN,
    PER_ROW,
    PIVOTS,
    QUEUE,
    ROOM,
    ROW,
    SIDE,
    SINCE,
    SPENT,
    STAND,
    WEIGHT,
    D,
    exchange,
    find_values,
    least_of,
    multiply,
    place_of_greatest,
    read_column,
    read_row,
    reduced_costs,
)

#: Outcomes of a run of pivots.
OPTIMAL, GO_ON, UNRELIABLE = range(3)

#: A basic variable outside its bounds by this much counts as at them; entries below `_PIVOT_TOL` are no pivots.
PRIMAL_TOL = 1e-10
_PIVOT_TOL = 1e-9


@kernel
def _pivot(work, p, q, step):
    """The variable of column q moves by ``step`` until the one of row p is at a bound, and takes its place."""
    table, state = work.table, work.state
    held = table[STAND, q] + step
    bound = table[ROOM, p]
    at_upper = table[LEVEL, p] - step * table[COLUMN, p] > 0.5 * bound
    for i in range(work.T.shape[0]):
        table[LEVEL, i] -= step * table[COLUMN, i]
    table[LEVEL, p] = held
    table[ROOM, p] = table[BOUND, q]
    exchange(work, p, q)
    price = table[D, q]
    table[D, q] = 0.0
    for j in range(work.T.shape[1]):
        table[D, j] -= price * table[ROW, j]
    table[BOUND, q] = bound
    table[SIDE, q] = 0.0 if bound <= 0.0 else (-1.0 if at_upper else 1.0)
    table[STAND, q] = bound if at_upper else 0.0
    state[PIVOTS] += 1
    state[SPENT] += 1
    state[SINCE] += 1


@kernel(reductions=True)
def primal_pivots(work, m, n, most):
    """Primal pivots from a feasible basis, until ``most`` are spent.

    OPTIMAL when no variable improves, GO_ON at the limit, UNRELIABLE without a pivot.
    """
    table, state = work.table, work.state
    for j in range(n):
        table[WEIGHT, j] = 1.0
    while state[SPENT] < most:
        for j in range(n):
            gain = table[SIDE, j] * table[D, j]
            table[PER_COLUMN, j] = gain * gain / table[WEIGHT, j] if gain > DUAL_TOL else 0.0
        q = place_of_greatest(table, PER_COLUMN, n)
        if q < 0:
            return OPTIMAL
        read_column(work, q)
        direction = table[SIDE, q]
        # Two-pass ratio test: the largest pivot among the variables that block within tolerance.
        for i in range(m):
            rate = direction * table[COLUMN, i]
            down, up = table[LEVEL, i], table[ROOM, i] - table[LEVEL, i]
            slack = down if rate > 0.0 else up
            size = abs(rate)
            table[MARGIN, i] = slack
            table[PER_ROW, i] = (slack + PRIMAL_TOL) / size if size > _PIVOT_TOL else math.inf
        limit = least_of(table, PER_ROW, m)
        step = table[BOUND, q]
        if step <= limit:
            # It goes to its other bound.
            for i in range(m):
                table[LEVEL, i] -= direction * step * table[COLUMN, i]
            table[STAND, q] = step if direction > 0.0 else 0.0
            table[SIDE, q] = -direction
            state[SPENT] += 1
            state[SINCE] += 1
            continue
        for i in range(m):
            size = abs(table[COLUMN, i])
            table[PER_ROW, i] = size if (size > _PIVOT_TOL) & (table[MARGIN, i] <= limit * size) else 0.0
        p = place_of_greatest(table, PER_ROW, m)
        if p < 0:
            return UNRELIABLE
        size, weight = table[PER_ROW, p], table[WEIGHT, q]
        read_row(work, p)
        _pivot(work, p, q, direction * max(table[MARGIN, p], 0.0) / size)
        for j in range(n):
            table[WEIGHT, j] = max(table[WEIGHT, j], table[ROW, j] * table[ROW, j] * weight)
        table[WEIGHT, q] = max(weight / (size * size), 1.0)
    return GO_ON


@kernel
def to_its_bounds(work, m, n):
    """Makes the basis dual feasible: each column at the bound its reduced cost asks for, where that is finite."""
    table = work.table
    reduced_costs(work, m, n, COST, D)
    for j in range(n):
        if table[SIDE, j] * table[D, j] > 0.0 and table[BOUND, j] < math.inf:
            table[SIDE, j] = -table[SIDE, j]
            table[STAND, j] = table[BOUND, j] - table[STAND, j]
    find_values(work)


@kernel
def _pass_breakpoints(table, places, count, slope):
    """Orders the queue so that its first part is to be flipped and the slope ends among the rest; that part's length.

    The dual objective rises along the step at a rate that falls by |alpha| * bound at each breakpoint. As in
    quickselect, a part of the breakpoints is split at one of its members until the rate's zero is found.
    """
    first, last = 0, count
    while first < last:
        theta = table[PER_COLUMN, places[QUEUE, (first + last) // 2]]
        below, equal, above = first, first, last
        loss_below = loss_equal = 0.0
        while equal < above:
            j = places[QUEUE, equal]
            if table[PER_COLUMN, j] > theta:
                above -= 1
                places[QUEUE, equal], places[QUEUE, above] = places[QUEUE, above], j
            else:
                loss = table[GAIN, j] * table[BOUND, j]
                if table[PER_COLUMN, j] < theta:
                    loss_below += loss
                    places[QUEUE, equal], places[QUEUE, below] = places[QUEUE, below], j
                    below += 1
                else:
                    loss_equal += loss
                equal += 1
        if slope <= loss_below:
            last = below
        elif slope <= loss_below + loss_equal or equal == count:
            return below
        else:
            slope -= loss_below + loss_equal
            first = equal
    return first


@kernel
def _flip(work, n, excess):
    """Flips the columns whose breakpoints the dual step may pass."""
    table, places = work.table, work.places
    count = 0
    for j in range(n):
        if table[GAIN, j] > 0.0:
            table[PER_COLUMN, j] = table[LOSS, j] / table[GAIN, j]
            places[QUEUE, count] = j
            count += 1
    passed = _pass_breakpoints(table, places, count, excess)
    if passed == 0:
        return
    for j in range(work.T.shape[1]):
        table[PER_COLUMN, j] = 0.0
    for k in range(passed):
        j = places[QUEUE, k]
        table[PER_COLUMN, j] = table[SIDE, j] * table[BOUND, j]
        table[STAND, j] = table[BOUND, j] - table[STAND, j]
        table[SIDE, j] = -table[SIDE, j]
        table[GAIN, j] = 0.0
    multiply(work, PER_COLUMN)
    for i in range(work.T.shape[0]):
        table[LEVEL, i] -= table[COLUMN, i]


@kernel(reductions=True)
def dual_pivots(work, m, n, most):
    """Dual pivots from a dual feasible basis until the values are feasible, as `primal_pivots`."""
    table, state = work.table, work.state
    for i in range(m):
        table[WEIGHT, i] = 1.0
    while state[SPENT] < most:
        for i in range(m):
            excess = max(-table[LEVEL, i], table[LEVEL, i] - table[ROOM, i])
            table[PER_ROW, i] = excess * excess / table[WEIGHT, i] if excess > PRIMAL_TOL else 0.0
        p = place_of_greatest(table, PER_ROW, m)
        if p < 0:
            return OPTIMAL
        # The value of row p is to fall (side 1) to its target or to rise.
        side = -1.0 if table[LEVEL, p] < 0.0 else 1.0
        target = 0.0 if side < 0.0 else table[ROOM, p]
        read_row(work, p)
        for j in range(n):
            # How fast it does while the variable of column j leaves its bound, and what that loses.
            rate = side * table[SIDE, j] * table[ROW, j]
            loss = max(0.0, -table[SIDE, j] * table[D, j])
            table[GAIN, j] = rate if rate > _PIVOT_TOL else 0.0
            table[LOSS, j] = loss
        _flip(work, n, side * (table[LEVEL, p] - target))
        # Harris test among the others: the largest pivot within tolerance of the first breakpoint.
        for j in range(n):
            rate = table[GAIN, j]
            table[PER_COLUMN, j] = (table[LOSS, j] + DUAL_TOL) / rate if rate > 0.0 else math.inf
        limit = least_of(table, PER_COLUMN, n)
        for j in range(n):
            rate = table[GAIN, j]
            table[PER_COLUMN, j] = rate if table[LOSS, j] <= limit * rate else 0.0
        q = place_of_greatest(table, PER_COLUMN, n)
        if q < 0:
            return UNRELIABLE
        # It may lie slightly beyond its breakpoint: its cost is shifted to it.
        table[D, q] = -table[SIDE, q] * table[LOSS, q]
        read_column(work, q)
        pivot, weight = table[COLUMN, p], table[WEIGHT, p]
        for i in range(m):
            ratio = table[COLUMN, i] / pivot
            table[WEIGHT, i] = max(table[WEIGHT, i], ratio * ratio * weight)
        table[WEIGHT, p] = max(weight / (pivot * pivot), 1.0)
        _pivot(work, p, q, (table[LEVEL, p] - target) / pivot)
    return GO_ON
