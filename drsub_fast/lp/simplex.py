"""Warm bounded simplex on the inverse of the working basis, for down-closed linear programs

    maximise <c, x>  over  A x + s = b,  0 <= x <= bound,  s >= 0,   A >= 0, b >= 0.

A basis is a set of tight rows T, a set of basic columns B of the same size r, and a side (lower or upper)
for every other column. All that is kept of it is W = A[T, B]^-1, so a re-solve whose basis is still
optimal costs O(r^2 + r n). The slacks alone are a feasible basis: x = 0 needs no first phase.

- Variables are numbered 0..n-1 (columns) and n..n+m-1 (slacks). ``sign`` is +1 for a variable at its lower bound, -1
  at its upper bound and 0 for a basic or fixed one, so ``sign * d > 0`` is a variable worth moving.
- New costs: primal simplex, devex pricing (Forrest, Goldfarb 1992), two-pass ratio test (Harris 1973).
- New bounds that cut off the vertex: dual simplex with the *old* cost, for which the basis is still dual
  feasible, then primal simplex with the new one.
- Cold start of larger programs (`_DUAL_FROM`): dual simplex from "each column at the bound its cost asks for",
  steepest-edge weights (Forrest, Goldfarb 1992), bound flipping in linear time (Maros 2003).
- Residuals of both systems are checked before a vertex is returned. Trouble is met by a fresh inverse, then
  a restart from slacks, then `NEEDS_SOLVER`.

- A cost that moves along a line (`simplex_track`, `simplex_follow`): how far the basis stays optimal is one number.

Everything is in scaled units (`drsub_fast.sets.polytope.scale_polytope`): columns in units of their bounds,
rows in units of b, by powers of two, so that nothing is rounded; a column of unit 0 is fixed at 0. The cost is
divided by its largest gain.
The tolerances below are absolute.
"""

import math
from collections import namedtuple

from drsub_fast._jit import kernel
from drsub_fast.sets.base import NEEDS_SOLVER, OK, PAUSED

#: Few arrays of many rows, and entries of them by two indices: a tuple of many arrays takes long to compile, and a
#: view of a row counts its references at every use, which at small sizes costs more than the arithmetic.
SimplexWork = namedtuple("SimplexWork", "W table places numbers state")

#: Rows of ``table``, each over all n + m variables, columns first. Z is indexed by tight row, RHS by row; the last
#: three hold up to three systems, see `_solve_columns`: COEF is indexed by basic column.
VALUE, BOUND, SIGN, D, WEIGHT, ALPHA, RATIO, COST, D_RATE, Z, COEF, RHS, DELTA = *range(11), 13, 16
N_TABLE = DELTA + 3

#: Rows of ``places``: tight rows, basic columns, 1 + position in the basis or 0, scratch.
TIGHT, BASIC, PLACE, QUEUE = range(4)

#: Fields of ``numbers``. UNIT: the largest gain, by which the cost was divided. Since `simplex_track` the cost has
#: become DECAY * cost + GROWTH * rate; the basis is optimal while GROWTH <= LIMIT * DECAY.
UNIT, DECAY, GROWTH, LIMIT = range(4)
N_NUMBERS = 4

#: Fields of ``state``. SPENT: pivots for this program. SINCE: pivots since the values were computed from the inverse.
#: The STALE_ ones say what must be computed anew before the next pivot; COLD: this program has started from the
#: slacks by choice.
(
    PHASE,
    RANK,
    UPDATES,
    PIVOTS,
    SPENT,
    SINCE,
    TROUBLES,
    STALE_INVERSE,
    STALE_VALUES,
    STALE_COSTS,
    TRACKED,
    FOLLOWED,
    COLD,
) = range(13)
N_STATE = 13

#: Outcomes of a run of pivots.
OPTIMAL, GO_ON, UNRELIABLE = range(3)

#: Phases. CHECK: primal if the values are feasible, else dual. READY: optimal for the last cost and bounds.
FRESH, CHECK, DUAL, PRIMAL, READY = range(5)

_PRIMAL_TOL = 1e-10
_DUAL_TOL = 1e-10
_PIVOT_TOL = 1e-9
_RESIDUAL = 1e-9
#: Costs below minus this, in units of the largest gain, count as equal to it: they can only keep x_j = 0.
_LARGEST_LOSS = 1e6
#: Programs of at least this many rows and columns together start by the dual simplex. The primal simplex flips columns
#: to their bounds one by one, the dual in bulk. Microseconds, primal against dual, m x n with loose rows, rows that cut
#: off part of the box, and bounds implied by the rows: 16 x 16: 3.7/0.9, 4.1/5.9, 4.2/7.7;
#: 48 x 48: 20/2.4, 19/37, 21/40; 5 x 100: 1.9/2.3, 14/22, 12/18; 100 x 100: 49/5.7, 57/163, 147/138;
#: 200 x 200: 191/19, 288/540, 943/611; 300 x 300: 458/33, 994/1459, 1975/1532; 500 x 250: 480/41, 1017/1921, 4072/1550.
_DUAL_FROM = 200
#: With more variables to move than this many times the smaller side, and 20, new costs start from the slacks by the
#: dual simplex as well: a cold start takes 2 to 4 pivots a row, the primal simplex at least one a variable (28 s for
#: 1 x 100,000 with costs drawn anew).
_COLD_PIVOTS = 4
#: Steps of `simplex_follow` after which everything is computed anew.
_FOLLOWS = 200
#: After more pivots than this the reduced costs are computed anew and priced again; after fewer only the values are.
_FEW_PIVOTS = 10
#: A basis from outside may violate its bounds by this much; the next call repairs it.
_LOADED_TOL = 1e-6
#: One call does about this many multiplications, so that a long program can be interrupted.
_WORK_PER_CALL = 1e8


@kernel
def simplex_size(m, n):
    """(floats, integers) of workspace for m rows and n columns."""
    r, total = min(m, n), m + n
    return r * r + N_TABLE * total + N_NUMBERS, 4 * total + N_STATE


@kernel(memory=True)
def simplex_carve(m, n, floats, integers):
    """The workspace; integers all zero mean a fresh start."""
    r, total = min(m, n), m + n
    table = r * r
    numbers = table + N_TABLE * total
    return SimplexWork(
        floats[:table].reshape((r, r)),
        floats[table:numbers].reshape((N_TABLE, total)),
        integers[: 4 * total].reshape((4, total)),
        floats[numbers:],
        integers[4 * total :],
    )


# ---- linear algebra on the working basis


@kernel(reductions=True)
def _add_rows(M, places, index, table, coef, out, first, start, stop):
    """table[out, first:] += sum of table[coef, k] * M[places[index, k]] for start <= k < stop, four rows at a time."""
    width = M.shape[1]
    k = start
    while k + 4 <= stop:
        c0, c1, c2, c3 = table[coef, k], table[coef, k + 1], table[coef, k + 2], table[coef, k + 3]
        if c0 != 0.0 or c1 != 0.0 or c2 != 0.0 or c3 != 0.0:
            i0, i1, i2, i3 = places[index, k], places[index, k + 1], places[index, k + 2], places[index, k + 3]
            for j in range(width):
                table[out, first + j] += (c0 * M[i0, j] + c1 * M[i1, j]) + (c2 * M[i2, j] + c3 * M[i3, j])
        k += 4
    while k < stop:
        c0, i0 = table[coef, k], places[index, k]
        if c0 != 0.0:
            for j in range(width):
                table[out, first + j] += c0 * M[i0, j]
        k += 1


@kernel(reductions=True)
def _combine(W, table, r, coef, out):
    """table[out] = table[coef]' W on the leading r x r block."""
    for t in range(r):
        table[out, t] = 0.0
    for l in range(r):
        c = table[coef, l]
        if c != 0.0:
            for t in range(r):
                table[out, t] += c * W[l, t]


@kernel(reductions=True)
def _solve_columns(AT, W, table, places, r, count):
    """DELTA + k = change of all variables per unit of the column RHS + k, for k < count.

    Returns the largest residual in the tight rows. All columns share one pass over W and A.
    """
    n, m = AT.shape
    for k in range(count):
        for t in range(r):
            table[RATIO, t] = table[RHS + k, places[TIGHT, t]]
        for l in range(r):
            total = 0.0
            for t in range(r):
                total += W[l, t] * table[RATIO, t]
            table[COEF + k, l] = total
        for j in range(n):
            table[DELTA + k, j] = 0.0
        for l in range(r):
            table[DELTA + k, places[BASIC, l]] = -table[COEF + k, l]
        for i in range(m):
            table[DELTA + k, n + i] = -table[RHS + k, i]
    if count == 1:
        _add_rows(AT, places, BASIC, table, COEF, DELTA, n, 0, r)
    else:
        for start in range(0, r, 4):
            for k in range(count):
                _add_rows(AT, places, BASIC, table, COEF + k, DELTA + k, n, start, min(start + 4, r))
    worst = 0.0
    for k in range(count):
        for t in range(r):
            v = n + places[TIGHT, t]
            worst = max(worst, abs(table[DELTA + k, v]))
            table[DELTA + k, v] = 0.0
    return worst


@kernel
def _pivot_row(A, W, table, places, r, leaving):
    """ALPHA = the leaving variable's row over all nonbasic variables; Z = its part on the tight rows."""
    m, n = A.shape
    if leaving < n:
        l = places[PLACE, leaving] - 1
        for t in range(r):
            table[Z, t] = W[l, t]
        for j in range(n):
            table[ALPHA, j] = 0.0
    else:
        i = leaving - n
        for l in range(r):
            table[RATIO, l] = -A[i, places[BASIC, l]]
        _combine(W, table, r, RATIO, Z)
        for j in range(n):
            table[ALPHA, j] = A[i, j]
    _add_rows(A, places, TIGHT, table, Z, ALPHA, 0, 0, r)
    for i in range(m):
        table[ALPHA, n + i] = 0.0
    for t in range(r):
        table[ALPHA, n + places[TIGHT, t]] = table[Z, t]
        table[ALPHA, places[BASIC, t]] = 0.0


@kernel
def _reduced_costs(A, W, table, places, r, cost, d):
    """Row ``d`` = reduced costs for row ``cost``; returns the largest residual in the basic columns."""
    m, n = A.shape
    for l in range(r):
        table[COEF, l] = -table[cost, places[BASIC, l]]
    _combine(W, table, r, COEF, Z)
    for j in range(n):
        table[d, j] = table[cost, j]
    _add_rows(A, places, TIGHT, table, Z, d, 0, 0, r)
    for i in range(m):
        table[d, n + i] = 0.0
    worst = 0.0
    for t in range(r):
        table[d, n + places[TIGHT, t]] = table[Z, t]  # minus the dual variable
        j = places[BASIC, t]
        worst = max(worst, abs(table[d, j]))
        table[d, j] = 0.0
    return worst


@kernel
def _values(AT, b, W, table, places, r):
    """Values of all variables from the basis; returns the largest residual in the tight rows."""
    n, m = AT.shape
    count = 0
    for j in range(n):
        table[VALUE, j] = 0.0
        if table[SIGN, j] < 0.0:
            table[VALUE, j] = table[BOUND, j]
            places[QUEUE, count] = j
            table[RATIO, count] = -table[BOUND, j]
            count += 1
    for i in range(m):
        table[RHS, i] = b[i]
        table[VALUE, n + i] = 0.0
    _add_rows(AT, places, QUEUE, table, RATIO, RHS, 0, 0, count)
    worst = _solve_columns(AT, W, table, places, r, 1)
    for v in range(n + m):
        table[VALUE, v] -= table[DELTA, v]
    return worst


@kernel
def _refactor(A, W, places, state):
    """W from scratch by Gauss-Jordan elimination, row exchanges reorder the tight rows; False if it is singular."""
    n = A.shape[1]
    r = state[RANK]
    state[UPDATES] = 0
    for t in range(r):
        for l in range(r):
            W[t, l] = A[places[TIGHT, t], places[BASIC, l]]
    for k in range(r):
        p = k
        for i in range(k + 1, r):
            if abs(W[i, k]) > abs(W[p, k]):
                p = i
        if abs(W[p, k]) < 1e-12:
            return False
        if p != k:
            for j in range(r):
                W[k, j], W[p, j] = W[p, j], W[k, j]
            places[TIGHT, k], places[TIGHT, p] = places[TIGHT, p], places[TIGHT, k]
        scale = 1.0 / W[k, k]
        W[k, k] = 1.0
        for j in range(r):
            W[k, j] *= scale
        for i in range(r):
            factor = W[i, k]
            if i != k and factor != 0.0:
                W[i, k] = 0.0
                for j in range(r):
                    W[i, j] -= factor * W[k, j]
    for t in range(r):
        places[PLACE, n + places[TIGHT, t]] = t + 1
    return True


@kernel
def _exchange(W, table, places, state, n, entering, leaving, pivot):
    """Updates W, basis and rank. COEF and Z are the entering column and the leaving row in W."""
    r = state[RANK]
    l, t = places[PLACE, leaving] - 1, places[PLACE, entering] - 1
    places[PLACE, leaving] = places[PLACE, entering] = 0
    if entering < n and leaving < n:  # column for column
        for k in range(r):
            table[Z, k] = W[l, k] / pivot
            W[l, k] = 0.0
        # So that the update below leaves the row as Z.
        table[COEF, l] = -1.0
        pivot = 1.0
    for k in range(r):
        factor = table[COEF, k] / pivot
        if factor != 0.0:
            for j in range(r):
                W[k, j] -= factor * table[Z, j]
    if entering < n and leaving < n:
        places[BASIC, l] = entering
        places[PLACE, entering] = l + 1
    elif entering < n:  # a row joins
        for k in range(r):
            W[k, r] = -table[COEF, k] / pivot
            W[r, k] = table[Z, k] / pivot
        W[r, r] = 1.0 / pivot
        places[BASIC, r], places[TIGHT, r] = entering, leaving - n
        state[RANK] = r + 1
        places[PLACE, entering] = places[PLACE, leaving] = r + 1
    elif leaving < n:  # a row leaves
        r -= 1
        state[RANK] = r
        if l != r:
            for k in range(r + 1):
                W[l, k] = W[r, k]
            places[BASIC, l] = places[BASIC, r]
            places[PLACE, places[BASIC, l]] = l + 1
        if t != r:
            for k in range(r):
                W[k, t] = W[k, r]
            places[TIGHT, t] = places[TIGHT, r]
            places[PLACE, n + places[TIGHT, t]] = t + 1
    else:  # row for row
        for k in range(r):
            W[k, t] = -table[COEF, k] / pivot
        places[TIGHT, t] = leaving - n
        places[PLACE, leaving] = t + 1


# ---- what both methods share


@kernel
def _n_infeasible(table, tol):
    """How many values leave their bounds by more than ``tol``, or are not numbers."""
    count = 0
    for v in range(table.shape[1]):
        count += not (-tol <= table[VALUE, v] <= table[BOUND, v] + tol)
    return count


@kernel
def _pivot(W, table, places, state, n, entering, leaving, pivot):
    """After a step of both methods: reduced costs, sides and inverse for the basis that the exchange leads to."""
    price = table[D, entering] / pivot
    for v in range(table.shape[1]):
        table[D, v] -= price * table[ALPHA, v]
    table[D, leaving] = -price
    table[D, entering] = 0.0
    bound = table[BOUND, leaving]
    at_upper = table[VALUE, leaving] > 0.5 * bound
    table[VALUE, leaving] = bound if at_upper else 0.0
    table[SIGN, leaving] = 0.0 if bound <= 0.0 else (-1.0 if at_upper else 1.0)
    table[SIGN, entering] = 0.0
    _exchange(W, table, places, state, n, entering, leaving, pivot)
    state[UPDATES] += 1
    if state[UPDATES] > 100 + state[RANK]:
        state[STALE_INVERSE] = 1


@kernel
def _column_of(AT, table, entering):
    """RHS = column of the entering variable."""
    n, m = AT.shape
    for i in range(m):
        table[RHS, i] = AT[entering, i] if entering < n else 0.0
    if entering >= n:
        table[RHS, entering - n] = 1.0


@kernel
def _largest(table):
    """Where row RATIO is largest, -1 if no entry is positive."""
    best, where = 0.0, -1
    for v in range(table.shape[1]):
        if table[RATIO, v] > best:
            best, where = table[RATIO, v], v
    return where


@kernel
def _smallest(table):
    """Smallest entry of row RATIO, by two chains of comparisons that do not wait for each other."""
    width = table.shape[1]
    even = odd = math.inf
    for v in range(0, width - 1, 2):
        even = min(even, table[RATIO, v])
        odd = min(odd, table[RATIO, v + 1])
    return min(min(even, odd), table[RATIO, width - 1])


# ---- primal simplex


@kernel
def _room(table, v, rate):
    """How far a variable may go up (rate > 0) or down."""
    return table[BOUND, v] - table[VALUE, v] if rate > 0.0 else table[VALUE, v]


@kernel(reductions=True)
def _primal_pivots(A, AT, W, table, places, state, left):
    """Primal pivots from a feasible basis, at most ``left``: (outcome, pivots left).

    OPTIMAL when no variable improves, GO_ON for a fresh inverse or at the limit, UNRELIABLE for a pivot that two
    computations disagree on.
    """
    m, n = A.shape
    total = n + m
    while left > 0 and state[STALE_INVERSE] == 0:
        # Price: the nonbasic variable of largest devex score.
        for v in range(total):
            gain = table[SIGN, v] * table[D, v]
            table[RATIO, v] = gain * gain / table[WEIGHT, v] if gain > _DUAL_TOL else 0.0
        entering = _largest(table)
        if entering < 0:
            return OPTIMAL, left
        left -= 1
        state[PIVOTS] += 1
        state[SPENT] += 1
        state[SINCE] += 1
        direction = table[SIGN, entering]
        _column_of(AT, table, entering)
        _solve_columns(AT, W, table, places, state[RANK], 1)
        # Two-pass ratio test: the largest pivot among the variables that block within tolerance.
        for v in range(total):
            rate = direction * table[DELTA, v]
            room = _room(table, v, rate) + _PRIMAL_TOL
            table[RATIO, v] = room / abs(rate) if abs(rate) > _PIVOT_TOL else math.inf
        limit = _smallest(table)
        leaving, step = entering, table[BOUND, entering]
        if step > limit:
            for v in range(total):
                rate = direction * table[DELTA, v]
                size = abs(rate)
                blocks = size > _PIVOT_TOL and _room(table, v, rate) <= limit * size
                table[RATIO, v] = size if blocks else 0.0
            leaving = _largest(table)
            if leaving < 0:
                return UNRELIABLE, left
            rate = direction * table[DELTA, leaving]
            step = max(_room(table, leaving, rate) / abs(rate), 0.0)
        step *= direction
        for v in range(total):
            table[VALUE, v] += step * table[DELTA, v]
        if leaving == entering:
            at_upper = step > 0.0
            table[VALUE, entering] = table[BOUND, entering] if at_upper else 0.0
            table[SIGN, entering] = -1.0 if at_upper else 1.0
            continue
        table[VALUE, entering] += step
        _pivot_row(A, W, table, places, state[RANK], leaving)
        pivot = -table[DELTA, leaving]
        if abs(table[ALPHA, entering] - pivot) > 1e-7 * (1.0 + abs(pivot)):
            return UNRELIABLE, left
        unit = table[WEIGHT, entering] / (pivot * pivot)
        for v in range(total):
            table[WEIGHT, v] = max(table[WEIGHT, v], table[ALPHA, v] * table[ALPHA, v] * unit)
        table[WEIGHT, leaving] = max(unit, 1.0)
        _pivot(W, table, places, state, n, entering, leaving, pivot)
    return GO_ON, left


# ---- dual simplex


@kernel
def _pass_breakpoints(table, places, count, slope):
    """Orders the queue so that its first part is to be flipped and the slope ends among the rest; that part's length.

    The dual objective rises along the step at a rate that falls by |alpha| * bound at each breakpoint. As in
    quickselect, a part of the breakpoints is split at one of its members until the rate's zero is found.
    """
    first, last = 0, count
    while first < last:
        theta = table[RATIO, places[QUEUE, (first + last) // 2]]
        below, equal, above = first, first, last
        loss_below = loss_equal = 0.0
        while equal < above:
            v = places[QUEUE, equal]
            if table[RATIO, v] > theta:
                above -= 1
                places[QUEUE, equal], places[QUEUE, above] = places[QUEUE, above], v
            else:
                loss = abs(table[ALPHA, v]) * table[BOUND, v]
                if table[RATIO, v] < theta:
                    loss_below += loss
                    places[QUEUE, equal], places[QUEUE, below] = places[QUEUE, below], v
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


@kernel(reductions=True)
def _dual_pivots(A, AT, W, table, places, state, left):
    """Dual pivots from a dual feasible basis, at most ``left``: (outcome, pivots left), as `_primal_pivots`."""
    m, n = A.shape
    total = n + m
    while left > 0 and state[STALE_INVERSE] == 0:
        # The basic variable of largest steepest-edge score leaves.
        for v in range(total):
            excess = max(-table[VALUE, v], table[VALUE, v] - table[BOUND, v])
            table[RATIO, v] = excess * excess / table[WEIGHT, v] if excess > _PRIMAL_TOL else 0.0
        leaving = _largest(table)
        if leaving < 0:
            return OPTIMAL, left
        left -= 1
        state[PIVOTS] += 1
        state[SPENT] += 1
        state[SINCE] += 1
        target = 0.0 if table[VALUE, leaving] < 0.0 else table[BOUND, leaving]
        side = -1.0 if table[VALUE, leaving] < 0.0 else 1.0
        _pivot_row(A, W, table, places, state[RANK], leaving)
        # Breakpoints: nonbasic variables whose reduced costs reach zero, and how far along the step they do.
        count = 0
        for v in range(total):
            if side * table[SIGN, v] * table[ALPHA, v] > _PIVOT_TOL:
                table[RATIO, v] = max(0.0, -table[SIGN, v] * table[D, v]) / abs(table[ALPHA, v])
                places[QUEUE, count] = v
                count += 1
        passed = _pass_breakpoints(table, places, count, abs(table[VALUE, leaving] - target))
        # Harris test among the others: the largest |alpha| within tolerance of the first breakpoint.
        limit = math.inf
        for k in range(passed, count):
            v = places[QUEUE, k]
            limit = min(limit, table[RATIO, v] + _DUAL_TOL / abs(table[ALPHA, v]))
        best, entering = 0.0, -1
        for k in range(passed, count):
            v = places[QUEUE, k]
            if table[RATIO, v] <= limit and abs(table[ALPHA, v]) > best:
                best, entering = abs(table[ALPHA, v]), v
        if entering < 0:
            return UNRELIABLE, left
        # It may lie slightly beyond its breakpoint: its cost is shifted to it.
        table[D, entering] = -table[SIGN, entering] * table[RATIO, entering] * best
        n_columns = 2
        if passed > 0:
            n_columns = 3
            for k in range(passed):
                v = places[QUEUE, k]
                table[VALUE, v] = table[BOUND, v] if table[SIGN, v] > 0.0 else 0.0
                table[RATIO, k] = table[SIGN, v] * table[BOUND, v]
                table[SIGN, v] = -table[SIGN, v]
            for i in range(m):
                table[RHS + 2, i] = 0.0
            _add_rows(AT, places, QUEUE, table, RATIO, RHS + 2, 0, 0, passed)
        # RHS + 1 = the leaving variable's row of the full basis inverse.
        for i in range(m):
            table[RHS + 1, i] = 0.0
        for t in range(state[RANK]):
            table[RHS + 1, places[TIGHT, t]] = table[Z, t]
        if leaving >= n:
            table[RHS + 1, leaving - n] = 1.0
        _column_of(AT, table, entering)
        _solve_columns(AT, W, table, places, state[RANK], n_columns)
        if passed > 0:
            for v in range(total):
                table[VALUE, v] += table[DELTA + 2, v]
        pivot = -table[DELTA, leaving]
        step = (table[VALUE, leaving] - target) / pivot
        for v in range(total):
            table[VALUE, v] += step * table[DELTA, v]
        table[VALUE, entering] += step
        if not abs(table[ALPHA, entering] - pivot) <= 1e-7 * (1.0 + abs(pivot)):
            return UNRELIABLE, left
        norm = 0.0
        for i in range(m):
            norm += table[RHS + 1, i] * table[RHS + 1, i]
        for v in range(total):
            q = table[DELTA, v] / pivot
            table[WEIGHT, v] = max(table[WEIGHT, v] - 2.0 * q * table[DELTA + 1, v] + q * q * norm, 1e-4)
        table[WEIGHT, entering] = max(norm / (pivot * pivot), 1e-4)
        table[WEIGHT, leaving] = 1.0
        _pivot(W, table, places, state, n, entering, leaving, pivot)
    return GO_ON, left


# ---- one linear program


@kernel
def _largest_gain(scale, direction, upper):
    """Largest scaled cost of a column that can be positive (0 if there is none); NaN if an entry is not finite."""
    largest, poison = 0.0, 0.0
    for j in range(direction.size):
        poison += direction[j] - direction[j]
        gain = direction[j] * scale[j]
        if gain > largest and upper[j] > 0.0:
            largest = gain
    return largest + poison


@kernel
def _set_cost(scale, direction, unit, table, row):
    """The direction in scaled units."""
    for j in range(direction.size):
        table[row, j] = max(direction[j] * scale[j] / unit, -_LARGEST_LOSS)


@kernel
def _set_bounds(scale, table, places, upper):
    """Takes over the bounds: 0 if none changed, 1 if the values stay, 2 if a nonbasic column moved."""
    n_changed = n_moved = 0
    for j in range(upper.size):
        limit = upper[j] / scale[j] if scale[j] > 0.0 else 0.0
        changed = limit != table[BOUND, j]
        n_changed += changed
        n_moved += changed and table[SIGN, j] < 0.0
        table[BOUND, j] = limit
        side = 1.0 if table[SIGN, j] == 0.0 and places[PLACE, j] == 0 else table[SIGN, j]
        table[SIGN, j] = side if limit > 0.0 else 0.0
    return 2 if n_moved > 0 else (1 if n_changed > 0 else 0)


@kernel
def _begin(table, state, phase):
    state[PHASE] = phase
    state[STALE_COSTS] = 1
    for v in range(table.shape[1]):
        table[WEIGHT, v] = 1.0


@kernel
def _restart(scale, table, places, state, upper):
    """The basis of all slacks, x = 0, whatever happened before."""
    for v in range(table.shape[1]):
        places[PLACE, v] = 0
        table[SIGN, v] = 0.0
        table[BOUND, v] = math.inf
        table[VALUE, v] = 0.0
    state[RANK] = state[UPDATES] = state[STALE_INVERSE] = state[STALE_COSTS] = 0
    state[STALE_VALUES] = 1
    state[PHASE] = CHECK
    _set_bounds(scale, table, places, upper)


@kernel
def _refresh(A, AT, b, W, table, places, state):
    """Computes what is stale; False if the residuals are too large."""
    residual = 0.0
    if state[STALE_INVERSE] != 0:
        state[STALE_INVERSE] = 0
        state[STALE_VALUES] = state[STALE_COSTS] = 1
        if not _refactor(A, W, places, state):
            return False
    if state[STALE_COSTS] != 0:
        state[STALE_COSTS] = 0
        residual = _reduced_costs(A, W, table, places, state[RANK], COST, D)
        if state[PHASE] == DUAL:
            # Each nonbasic column at the bound its reduced cost asks for.
            for j in range(A.shape[1]):
                if table[SIGN, j] * table[D, j] > 0.0:
                    table[SIGN, j] = -table[SIGN, j]
                    state[STALE_VALUES] = 1
    if state[STALE_VALUES] != 0:
        state[STALE_VALUES] = state[SINCE] = 0
        residual = max(residual, _values(AT, b, W, table, places, state[RANK]))
    return residual <= _RESIDUAL


@kernel
def _iterate(lp, work, direction, unit, upper, left):
    """Pivots, at most ``left``, or a change of phase: (no trouble, pivots left)."""
    A, AT, b, scale = lp.A, lp.AT, lp.b, lp.scale
    W, table, places, state = work.W, work.table, work.places, work.state
    m, n = A.shape
    if state[PHASE] == CHECK:
        # The costs are not needed to know the values.
        state[STALE_COSTS] = 0
        if not _refresh(A, AT, b, W, table, places, state):
            return False, left
        if _n_infeasible(table, _PRIMAL_TOL) > 0:
            _begin(table, state, DUAL)
        else:
            _set_cost(scale, direction, unit, table, COST)
            _begin(table, state, PRIMAL)
    starting = state[STALE_COSTS] != 0
    if not _refresh(A, AT, b, W, table, places, state):
        return False, left
    if state[PHASE] == DUAL:
        outcome, left = _dual_pivots(A, AT, W, table, places, state, left)
        if outcome == OPTIMAL:
            _set_cost(scale, direction, unit, table, COST)
            _begin(table, state, PRIMAL)
        return outcome != UNRELIABLE, left
    many = _COLD_PIVOTS * min(m, n) + 20
    if starting and state[COLD] == 0 and m + n > many:
        improving = 0
        for v in range(n + m):
            improving += table[SIGN, v] * table[D, v] > _DUAL_TOL
        if improving > many:
            state[COLD] = 1
            _restart(scale, table, places, state, upper)
            _begin(table, state, DUAL)
            return True, left
    outcome, left = _primal_pivots(A, AT, W, table, places, state, left)
    if outcome == OPTIMAL:
        if state[SINCE] > 0:
            state[STALE_VALUES] = 1
            if state[SINCE] > _FEW_PIVOTS:
                # Priced once more with all that is new.
                state[STALE_COSTS] = 1
                return True, left
            if not _refresh(A, AT, b, W, table, places, state):
                return False, left
        state[PHASE] = READY
        return _n_infeasible(table, _PRIMAL_TOL) == 0, left
    return outcome != UNRELIABLE, left


@kernel
def simplex_maximize(lp, work, direction, upper, v):
    """v = argmax <direction, v> over {A v <= b, 0 <= v <= upper}, warm from the last call.

    Parameters
    ----------
    lp : namedtuple
        With fields A (m, n), AT (n, m), b (m,) and scale (n,): the data in scaled units.
    work : SimplexWork
    direction, upper, v : (n,)
        In the user's units.

    Returns
    -------
    status : int
        OK (v is NaN if the direction is not finite), PAUSED (call again with the same arguments) or NEEDS_SOLVER.
    """
    scale, table, places, state = lp.scale, work.table, work.places, work.state
    m, n = lp.A.shape
    state[TRACKED] = 0
    unit = _largest_gain(scale, direction, upper)
    if not 0.0 < unit < math.inf:
        # Nothing to gain at 0; no answer to a direction that is not finite.
        work.numbers[UNIT] = 0.0
        for j in range(n):
            v[j] = 0.0 if unit == 0.0 else math.nan
        return OK
    # The state of the last call in line with the new cost and bounds.
    phase = state[PHASE]
    state[TROUBLES] = 0
    if phase in (FRESH, READY):
        state[SPENT] = state[COLD] = 0
    changed = 0 if phase == FRESH else _set_bounds(scale, table, places, upper)
    if phase == FRESH or (changed > 0 and phase != READY):
        _restart(scale, table, places, state, upper)
        if phase == FRESH and m + n >= _DUAL_FROM:
            _set_cost(scale, direction, unit, table, COST)
            _begin(table, state, DUAL)
    elif phase != DUAL:
        state[PHASE] = CHECK
        if changed == 2:
            state[STALE_VALUES] = 1
    left = max(20, int(_WORK_PER_CALL / ((m + 1.0) * n)))
    most = 50 * (m + n) + 1000
    while state[PHASE] != READY:
        if left <= 0:
            return PAUSED
        allowed = min(left, most + 1 - state[SPENT])
        reliable, unused = _iterate(lp, work, direction, unit, upper, allowed)
        left -= allowed - unused
        if not (reliable and state[SPENT] <= most):
            # A fresh inverse first, then a restart, then the solver.
            state[TROUBLES] += 1
            if state[TROUBLES] == 1:
                state[STALE_INVERSE] = 1
                state[PHASE] = CHECK
            elif state[TROUBLES] == 2:
                _restart(scale, table, places, state, upper)
            else:
                state[PHASE] = FRESH
                return NEEDS_SOLVER
    work.numbers[UNIT] = unit
    for j in range(n):
        v[j] = min(max(table[VALUE, j], 0.0), table[BOUND, j]) * scale[j]
    return OK


# ---- event-driven steps: the cost moves along a line while the basis stays


@kernel
def simplex_track(lp, work, rate):
    """Prepares `simplex_follow` for costs that move along ``rate``, from the cost of the last call."""
    table, numbers, state = work.table, work.numbers, work.state
    state[TRACKED] = 0
    if state[PHASE] != READY or numbers[UNIT] <= 0.0:
        return False
    for j in range(rate.size):
        table[RATIO, j] = rate[j] * lp.scale[j] / numbers[UNIT]
    _reduced_costs(lp.A, work.W, table, work.places, state[RANK], RATIO, D_RATE)
    # The reduced costs d + g * d_rate keep their signs up to the smallest of these ratios.
    for v in range(table.shape[1]):
        growth = table[SIGN, v] * table[D_RATE, v]
        table[RATIO, v] = (_DUAL_TOL - table[SIGN, v] * table[D, v]) / growth if growth > 0.0 else math.inf
    numbers[LIMIT] = _smallest(table)
    numbers[DECAY], numbers[GROWTH] = 1.0, 0.0
    state[TRACKED] = 1
    state[FOLLOWED] = 0
    return True


@kernel
def simplex_follow(lp, work, decay, gamma, upper, v):
    """Whether v stays optimal when the cost becomes decay * cost + gamma * rate and the bounds ``upper``."""
    table, numbers, state = work.table, work.numbers, work.state
    if state[TRACKED] == 0:
        return False
    state[FOLLOWED] += 1
    numbers[DECAY] *= decay
    numbers[GROWTH] = decay * numbers[GROWTH] + gamma
    if state[FOLLOWED] > _FOLLOWS or not numbers[GROWTH] <= numbers[LIMIT] * numbers[DECAY]:
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
    W, table, places, state = work.W, work.table, work.places, work.state
    m, n = lp.A.shape
    state[PHASE] = FRESH
    state[TRACKED] = 0
    unit = _largest_gain(lp.scale, direction, upper)
    if not unit > 0.0 or unit == math.inf:
        return False
    _restart(lp.scale, table, places, state, upper)
    state[PHASE] = FRESH
    n_columns = n_rows = 0
    for j in range(n):
        n_columns += columns[j] == 1
    for i in range(m):
        n_rows += rows[i] != 1
    if n_columns != n_rows or n_columns > min(m, n):
        return False
    n_columns = n_rows = 0
    for i in range(m):
        if rows[i] != 1:
            places[TIGHT, n_rows] = i
            n_rows += 1
            table[SIGN, n + i] = 1.0
    for j in range(n):
        if columns[j] == 1:
            places[BASIC, n_columns] = j
            n_columns += 1
            places[PLACE, j] = n_columns
            table[SIGN, j] = 0.0
        elif columns[j] == 2 and table[SIGN, j] > 0.0:
            table[SIGN, j] = -1.0
    state[RANK] = n_columns
    _set_cost(lp.scale, direction, unit, table, COST)
    state[STALE_INVERSE] = 1
    if not _refresh(lp.A, lp.AT, lp.b, W, table, places, state) or _n_infeasible(table, _LOADED_TOL) > 0:
        return False
    work.numbers[UNIT] = unit
    state[PHASE] = READY
    return True
