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
from collections import namedtuple

from drsub_fast.engine.codes import NEEDS_SOLVER, OK, PAUSED
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import dot

#: The tableau is T - U[:k]' W[:k], with k pivots in the log; T, U and W are padded with zeros, see `_shape`. There are
#: few other arrays, of many rows: a tuple of many arrays takes long to compile.
SimplexWork = namedtuple("SimplexWork", "T U W table places numbers state")

#: Rows of ``table``, over all variables: cost and upper bound (0 and infinity for slacks); +1 at the lower bound, -1 at
#: the upper, 0 for a basic or fixed variable; the vertex; what is left of the costs;
COST, UPPER, SIGN, POINT, REST = range(5)
#: over the nonbasic variables in the order of T: upper bound, side (as SIGN), where it stands, reduced cost, its rate
#: in `simplex_track`, a row of T, scratch;
BOUND, SIDE, HELD, D, D_RATE, ROW, SCORE, GAIN, LOSS = range(5, 14)
#: over the basic ones: value, upper bound, beta, a column of T, scratch;
VALUE, ROOM, BETA, COLUMN, RATIO, GAP = range(14, 20)
#: devex weights, of nonbasic variables in the primal simplex and of basic ones in the dual; what is left of the rows.
WEIGHT, SHORT = range(20, 22)
N_TABLE = 22

#: Rows of ``places``: the nonbasic variables, the basic ones, scratch.
NONBASIC, BASIC, QUEUE = range(3)
N_PLACES = 3

#: Fields of ``numbers``. UNIT: the largest gain, by which the cost was divided. Since `simplex_track` the cost has
#: become DECAY * cost + GROWTH * rate; the basis is optimal while GROWTH <= LIMIT * DECAY.
UNIT, DECAY, GROWTH, LIMIT = range(4)
N_NUMBERS = 4

#: Fields of ``state``. SPENT: pivots and flips for this program. SINCE: those since the equations were checked. LOGGED:
#: pivots in the log. BARE: the basis is that of the slacks. COLD: this program began with the dual simplex by choice.
PHASE, PIVOTS, SPENT, SINCE, TROUBLES, LOGGED, BARE, COLD, TRACKED, FOLLOWED = range(10)
N_STATE = 10

#: Phases. GOING: a program is unfinished. READY: optimal for the last cost and bounds.
FRESH, GOING, READY = range(3)

#: Outcomes of a run of pivots.
OPTIMAL, GO_ON, UNRELIABLE = range(3)

_PRIMAL_TOL = 1e-10
_DUAL_TOL = 1e-10
_PIVOT_TOL = 1e-9
#: Largest rest in an equation that needs no correction, and how often it is corrected before T is in doubt.
_RESIDUAL = 1e-11
_CORRECTIONS = 3
#: Costs below minus this, in units of the largest gain, count as equal to it: they can only keep x_j = 0.
_LARGEST_LOSS = 1e6
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

#: T is padded to multiples of these, so that loops over its rows, four at a time, come out even.
_LANES, _ROWS = 8, 4
#: Entries of T up to which each pivot is done at once, or rows or columns; pivots in the log of a larger one.
#: Microseconds of a cold start at once and with the log: 16 x 16: 6.8/7.2; 48 x 48: 42/29; 100 x 100: 437/170;
#: 500 x 500: 71,000/24,000; 1000 x 1000: 952,000/260,000.
_AT_ONCE, _THIN = 2048, 16
_LOG = 8


@kernel
def _shape(m, n):
    """Rows and columns of T, rows of the log, and the length of the rows of ``work.table``."""
    rows = (m + _ROWS - 1) // _ROWS * _ROWS
    columns = (n + _LANES - 1) // _LANES * _LANES
    log = _LOG if rows * columns > _AT_ONCE and min(rows, columns) >= _THIN else 1
    return rows, columns, log, rows + columns


@kernel
def simplex_size(m, n):
    """(floats, integers) of workspace for m rows and n columns."""
    rows, columns, log, width = _shape(m, n)
    return rows * columns + log * (rows + columns) + N_TABLE * width + N_NUMBERS, N_PLACES * (m + n) + N_STATE


@kernel(memory=True)
def simplex_carve(m, n, floats, integers):
    """The workspace; integers all zero mean a fresh start."""
    rows, columns, log, width = _shape(m, n)
    first = rows * columns
    second = first + log * rows
    third = second + log * columns
    numbers = third + N_TABLE * width
    places = N_PLACES * (m + n)
    return SimplexWork(
        floats[:first].reshape((rows, columns)),
        floats[first:second].reshape((log, rows)),
        floats[second:third].reshape((log, columns)),
        floats[third:numbers].reshape((N_TABLE, width)),
        integers[:places].reshape((N_PLACES, m + n)),
        floats[numbers:],
        integers[places:],
    )


# ---- rows


@kernel(reductions=True, apart=True)
def _subtract_from_four(a, b, c, d, fa, fb, fc, fd, row):
    """Subtracts multiples of a row from four others."""
    for j in range(row.size):
        a[j] -= fa * row[j]
        b[j] -= fb * row[j]
        c[j] -= fc * row[j]
        d[j] -= fd * row[j]


@kernel(reductions=True, apart=True)
def _subtract_four_from_four(a, b, c, d, e, f, g, h, U, k, i):
    """Subtracts from the rows a, b, c, d the rows e, f, g, h times a block of four by four of U', from [k, i] on."""
    ae, af, ag, ah = U[k, i], U[k + 1, i], U[k + 2, i], U[k + 3, i]
    be, bf, bg, bh = U[k, i + 1], U[k + 1, i + 1], U[k + 2, i + 1], U[k + 3, i + 1]
    ce, cf, cg, ch = U[k, i + 2], U[k + 1, i + 2], U[k + 2, i + 2], U[k + 3, i + 2]
    de, df, dg, dh = U[k, i + 3], U[k + 1, i + 3], U[k + 2, i + 3], U[k + 3, i + 3]
    for j in range(a.size):
        a[j] -= (ae * e[j] + af * f[j]) + (ag * g[j] + ah * h[j])
        b[j] -= (be * e[j] + bf * f[j]) + (bg * g[j] + bh * h[j])
        c[j] -= (ce * e[j] + cf * f[j]) + (cg * g[j] + ch * h[j])
        d[j] -= (de * e[j] + df * f[j]) + (dg * g[j] + dh * h[j])


@kernel(reductions=True, apart=True)
def _add_four(row, fa, fb, fc, fd, a, b, c, d):
    """Adds multiples of four rows to another."""
    for j in range(row.size):
        row[j] += (fa * a[j] + fb * b[j]) + (fc * c[j] + fd * d[j])


@kernel(reductions=True)
def _dot_four(row, a, b, c, d):
    """Inner products of a row with four others."""
    pa = pb = pc = pd = 0.0
    for j in range(row.size):
        pa += a[j] * row[j]
        pb += b[j] * row[j]
        pc += c[j] * row[j]
        pd += d[j] * row[j]
    return pa, pb, pc, pd


@kernel
def _add_rows(row, table, factors, M, count):
    """row += the sum of table[factors, i] * M[i] for i < count, a multiple of four."""
    for i in range(0, count, _ROWS):
        fa, fb, fc, fd = table[factors, i], table[factors, i + 1], table[factors, i + 2], table[factors, i + 3]
        if fa != 0.0 or fb != 0.0 or fc != 0.0 or fd != 0.0:
            _add_four(row, fa, fb, fc, fd, M[i], M[i + 1], M[i + 2], M[i + 3])


# Comparisons by four chains that do not wait for each other; a branch would often be mispredicted.


@kernel
def _least(table, row, count):
    """Smallest entry."""
    a = b = c = d = math.inf
    j = 0
    while j + 4 <= count:
        a, b = min(a, table[row, j]), min(b, table[row, j + 1])
        c, d = min(c, table[row, j + 2]), min(d, table[row, j + 3])
        j += 4
    while j < count:
        a = min(a, table[row, j])
        j += 1
    return min(min(a, b), min(c, d))


@kernel
def _greatest(table, row, count):
    """Where the largest entry is; -1 if none is positive."""
    a = b = c = d = 0.0
    j = 0
    while j + 4 <= count:
        a, b = max(a, table[row, j]), max(b, table[row, j + 1])
        c, d = max(c, table[row, j + 2]), max(d, table[row, j + 3])
        j += 4
    while j < count:
        a = max(a, table[row, j])
        j += 1
    largest = max(max(a, b), max(c, d))
    where = -1
    if largest > 0.0:
        for j in range(count - 1, -1, -1):
            where = j if table[row, j] == largest else where
    return where


# ---- the tableau


@kernel
def _subtract_log(row, table, factors, log, M):
    """row -= the sum of table[factors, k] * M[k] over the pivots in the log."""
    for k in range(log, (log + _ROWS - 1) // _ROWS * _ROWS):
        table[factors, k] = 0.0
    for k in range(log):
        table[factors, k] = -table[factors, k]
    _add_rows(row, table, factors, M, (log + _ROWS - 1) // _ROWS * _ROWS)


@kernel
def _column(work, q):
    """COLUMN = column q of the tableau."""
    T, table, log = work.T, work.table, work.state[LOGGED]
    for i in range(T.shape[0]):
        table[COLUMN, i] = T[i, q]
    for k in range(log):
        table[RATIO, k] = work.W[k, q]
    _subtract_log(table[COLUMN, : T.shape[0]], table, RATIO, log, work.U)


@kernel
def _row(work, p):
    """ROW = row p of the tableau."""
    T, table, log = work.T, work.table, work.state[LOGGED]
    for j in range(T.shape[1]):
        table[ROW, j] = T[p, j]
    for k in range(log):
        table[SCORE, k] = work.U[k, p]
    _subtract_log(table[ROW, : T.shape[1]], table, SCORE, log, work.W)


@kernel
def _product(work, row):
    """COLUMN = the tableau times a row of the table."""
    T, U, W, table, log = work.T, work.U, work.W, work.table, work.state[LOGGED]
    x = table[row, : T.shape[1]]
    for i in range(0, T.shape[0], _ROWS):
        a, b, c, d = _dot_four(x, T[i], T[i + 1], T[i + 2], T[i + 3])
        table[COLUMN, i], table[COLUMN, i + 1], table[COLUMN, i + 2], table[COLUMN, i + 3] = a, b, c, d
    for k in range(log):
        table[RATIO, k] = dot(W[k], x)
    _subtract_log(table[COLUMN, : T.shape[0]], table, RATIO, log, U)


@kernel
def _reduced_costs(work, m, n, cost, d):
    """Row ``d`` = reduced costs for the costs in row ``cost``."""
    T, U, table, places, log = work.T, work.U, work.table, work.places, work.state[LOGGED]
    row = table[ROW, : T.shape[1]]
    for j in range(row.size):
        row[j] = 0.0
    for i in range(m):
        table[RATIO, i] = table[cost, places[BASIC, i]]
    for i in range(m, T.shape[0]):
        table[RATIO, i] = 0.0
    _add_rows(row, table, RATIO, T, T.shape[0])
    for k in range(log):
        table[SCORE, k] = dot(U[k], table[RATIO, : T.shape[0]])
    _subtract_log(row, table, SCORE, log, work.W)
    for j in range(n):
        table[d, j] = table[cost, places[NONBASIC, j]] - row[j]


@kernel
def _exchange(work, p, q):
    """Exchanges the basic variable of row p for the nonbasic one of column q; ROW and COLUMN hold these.

    With u = COLUMN, but -1 in row p, and w = ROW / pivot, but 1 / pivot in column q, the tableau without its old
    row p and column q becomes T - u w'.
    """
    T, U, W, table, places, state = work.T, work.U, work.W, work.table, work.places, work.state
    k = state[LOGGED]
    inverse = 1.0 / table[COLUMN, p]
    for j in range(T.shape[1]):
        table[ROW, j] *= inverse
    table[ROW, q] = inverse
    for j in range(T.shape[1]):
        W[k, j] = table[ROW, j]
        T[p, j] = 0.0
    for i in range(T.shape[0]):
        U[k, i] = table[COLUMN, i]
        T[i, q] = 0.0
    U[k, p] = -1.0
    for l in range(k):
        U[l, p] = W[l, q] = 0.0
    beta = table[BETA, p] * inverse
    table[BETA, p] = 0.0
    for i in range(T.shape[0]):
        table[BETA, i] -= U[k, i] * beta
    places[NONBASIC, q], places[BASIC, p] = places[BASIC, p], places[NONBASIC, q]
    state[BARE] = 0
    state[LOGGED] = k + 1
    if state[LOGGED] == U.shape[0]:
        state[LOGGED] = 0
        if k == 0:
            u, w = U[0], W[0]
            for i in range(0, T.shape[0], _ROWS):
                _subtract_from_four(T[i], T[i + 1], T[i + 2], T[i + 3], u[i], u[i + 1], u[i + 2], u[i + 3], w)
        else:
            for i in range(0, T.shape[0], _ROWS):
                for l in range(0, U.shape[0], _ROWS):
                    _subtract_four_from_four(
                        T[i], T[i + 1], T[i + 2], T[i + 3], W[l], W[l + 1], W[l + 2], W[l + 3], U, l, i
                    )


@kernel
def _clear(M):
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            M[i, j] = 0.0


@kernel
def _from_slacks(lp, work):
    """The basis of all slacks, x = 0."""
    T, U, W, table, places, state = work.T, work.U, work.W, work.table, work.places, work.state
    m, n = lp.A.shape
    _clear(T)
    _clear(U)
    _clear(W)
    _clear(table[SIGN:])
    for j in range(n):
        places[NONBASIC, j] = j
    for i in range(m):
        for j in range(n):
            T[i, j] = lp.A[i, j]
        table[BETA, i] = lp.b[i]
        places[BASIC, i] = n + i
        table[COST, n + i] = 0.0
        table[UPPER, n + i] = math.inf
    state[LOGGED] = 0
    state[BARE] = 1


@kernel
def _anew(lp, work):
    """The tableau of the present basis eliminated from A; False if it is singular."""
    table, places = work.table, work.places
    m, n = lp.A.shape
    for j in range(n):
        places[QUEUE, places[NONBASIC, j]] = int(table[SIDE, j])
    for i in range(m):
        places[QUEUE, places[BASIC, i]] = 2
    return _install(lp, work)


@kernel
def _install(lp, work):
    """The tableau of a basis given by QUEUE: 2 for a basic variable, else the side of a nonbasic one.

    False if it is singular: then some of its columns have stayed nonbasic.
    """
    table, places, state = work.table, work.places, work.state
    m, n = lp.A.shape
    _from_slacks(lp, work)
    done = True
    for q in range(n):
        if places[QUEUE, q] == 2:
            _column(work, q)
            for i in range(m):
                v = places[BASIC, i]
                table[RATIO, i] = abs(table[COLUMN, i]) if v >= n and places[QUEUE, v] != 2 else 0.0
            p = _greatest(table, RATIO, m)
            if p >= 0 and table[RATIO, p] > 1e-12:
                _row(work, p)
                _exchange(work, p, q)
            else:
                done = False
    for j in range(n):
        side = places[QUEUE, places[NONBASIC, j]]
        table[SIDE, j] = side if side < 2 else 1.0
    state[SINCE] = 1
    return done


# ---- what follows from it


@kernel
def _take_bounds(work, m, n):
    """The upper bounds of all variables to their places; whether a nonbasic one stands elsewhere now."""
    table, places = work.table, work.places
    moved = 0
    for j in range(n):
        limit = table[UPPER, places[NONBASIC, j]]
        side = table[SIDE, j]
        side = (1.0 if side == 0.0 else side) if limit > 0.0 else 0.0
        held = limit if side < 0.0 else 0.0
        moved += held != table[HELD, j]
        table[BOUND, j], table[SIDE, j], table[HELD, j] = limit, side, held
    for i in range(m):
        table[ROOM, i] = table[UPPER, places[BASIC, i]]
    return moved > 0


@kernel
def _values(work):
    """Values of the basic variables."""
    table = work.table
    _product(work, HELD)
    for i in range(work.T.shape[0]):
        table[VALUE, i] = table[BETA, i] - table[COLUMN, i]


@kernel
def _n_infeasible(table, m, tol):
    """How many basic variables leave their bounds by more than ``tol``, or are not numbers."""
    count = 0
    for i in range(m):
        count += not (-tol <= table[VALUE, i] <= table[ROOM, i] + tol)
    return count


@kernel
def _n_improving(table, n):
    """How many nonbasic variables are worth moving."""
    count = 0
    for j in range(n):
        count += table[SIDE, j] * table[D, j] > _DUAL_TOL
    return count


@kernel
def _place(work, m, n):
    """The vertex and the sides, by variable."""
    table, places = work.table, work.places
    for j in range(n):
        table[POINT, places[NONBASIC, j]] = table[HELD, j]
        table[SIGN, places[NONBASIC, j]] = table[SIDE, j]
    for i in range(m):
        table[POINT, places[BASIC, i]] = table[VALUE, i]
        table[SIGN, places[BASIC, i]] = 0.0


@kernel(reductions=True)
def _residuals(lp, work):
    """SHORT = b - A x - s and REST = c - d - A'y, which should be zero; the largest, relative to large costs.

    NaN if one is not a number.
    """
    A, b, table, places = lp.A, lp.b, work.table, work.places
    m, n = A.shape
    _place(work, m, n)
    for k in range(n):
        table[REST, k] = table[COST, k]
    for i in range(m):
        table[REST, n + i] = 0.0
    for j in range(n):
        # For a slack: the dual variable.
        table[REST, places[NONBASIC, j]] -= table[D, j]
    worst = poison = 0.0
    for i in range(m):
        total = b[i] - table[POINT, n + i]
        price = table[REST, n + i]
        table[REST, n + i] = 0.0
        for k in range(n):
            total -= A[i, k] * table[POINT, k]
            table[REST, k] -= A[i, k] * price
        table[SHORT, i] = total
        worst = max(worst, abs(total))
        poison += total - total
    for k in range(n):
        worst = max(worst, abs(table[REST, k]) / max(1.0, abs(table[COST, k])))
        poison += table[REST, k] - table[REST, k]
    return worst + poison


@kernel
def _correct(work, m, n):
    """Takes what the residuals say into account, with T for the inverse of the basis."""
    table, places = work.table, work.places
    for j in range(n):
        v = places[NONBASIC, j]
        table[GAIN, j] = table[SHORT, v - n] if v >= n else 0.0
    _product(work, GAIN)
    for i in range(m):
        v = places[BASIC, i]
        change = table[COLUMN, i] + (table[SHORT, v - n] if v >= n else 0.0)
        table[VALUE, i] += change
        table[BETA, i] += change
    _reduced_costs(work, m, n, REST, GAIN)
    for j in range(n):
        table[D, j] += table[GAIN, j]


@kernel
def _is_right(lp, work):
    """Whether the vertex and the duals satisfy the equations of the program, corrected if need be."""
    m, n = lp.A.shape
    for _ in range(_CORRECTIONS):
        if _residuals(lp, work) <= _RESIDUAL:
            return True
        _correct(work, m, n)
    return _residuals(lp, work) <= _RESIDUAL


# ---- both methods


@kernel
def _pivot(work, p, q, step):
    """The variable of column q moves by ``step`` until the one of row p is at a bound, and takes its place."""
    table, state = work.table, work.state
    held = table[HELD, q] + step
    bound = table[ROOM, p]
    at_upper = table[VALUE, p] - step * table[COLUMN, p] > 0.5 * bound
    for i in range(work.T.shape[0]):
        table[VALUE, i] -= step * table[COLUMN, i]
    table[VALUE, p] = held
    table[ROOM, p] = table[BOUND, q]
    _exchange(work, p, q)
    price = table[D, q]
    table[D, q] = 0.0
    for j in range(work.T.shape[1]):
        table[D, j] -= price * table[ROW, j]
    table[BOUND, q] = bound
    table[SIDE, q] = 0.0 if bound <= 0.0 else (-1.0 if at_upper else 1.0)
    table[HELD, q] = bound if at_upper else 0.0
    state[PIVOTS] += 1
    state[SPENT] += 1
    state[SINCE] += 1


@kernel(reductions=True)
def _primal_pivots(work, m, n, most):
    """Primal pivots from a feasible basis, until ``most`` are spent.

    OPTIMAL when no variable improves, GO_ON at the limit, UNRELIABLE without a pivot.
    """
    table, state = work.table, work.state
    for j in range(n):
        table[WEIGHT, j] = 1.0
    while state[SPENT] < most:
        for j in range(n):
            gain = table[SIDE, j] * table[D, j]
            table[SCORE, j] = gain * gain / table[WEIGHT, j] if gain > _DUAL_TOL else 0.0
        q = _greatest(table, SCORE, n)
        if q < 0:
            return OPTIMAL
        _column(work, q)
        direction = table[SIDE, q]
        # Two-pass ratio test: the largest pivot among the variables that block within tolerance.
        for i in range(m):
            rate = direction * table[COLUMN, i]
            down, up = table[VALUE, i], table[ROOM, i] - table[VALUE, i]
            room = down if rate > 0.0 else up
            size = abs(rate)
            table[GAP, i] = room
            table[RATIO, i] = (room + _PRIMAL_TOL) / size if size > _PIVOT_TOL else math.inf
        limit = _least(table, RATIO, m)
        step = table[BOUND, q]
        if step <= limit:
            # It goes to its other bound.
            for i in range(m):
                table[VALUE, i] -= direction * step * table[COLUMN, i]
            table[HELD, q] = step if direction > 0.0 else 0.0
            table[SIDE, q] = -direction
            state[SPENT] += 1
            state[SINCE] += 1
            continue
        for i in range(m):
            size = abs(table[COLUMN, i])
            table[RATIO, i] = size if (size > _PIVOT_TOL) & (table[GAP, i] <= limit * size) else 0.0
        p = _greatest(table, RATIO, m)
        if p < 0:
            return UNRELIABLE
        size, weight = table[RATIO, p], table[WEIGHT, q]
        _row(work, p)
        _pivot(work, p, q, direction * max(table[GAP, p], 0.0) / size)
        for j in range(n):
            table[WEIGHT, j] = max(table[WEIGHT, j], table[ROW, j] * table[ROW, j] * weight)
        table[WEIGHT, q] = max(weight / (size * size), 1.0)
    return GO_ON


@kernel
def _to_its_bounds(work, m, n):
    """Makes the basis dual feasible: each column at the bound its reduced cost asks for, where that is finite."""
    table = work.table
    _reduced_costs(work, m, n, COST, D)
    for j in range(n):
        if table[SIDE, j] * table[D, j] > 0.0 and table[BOUND, j] < math.inf:
            table[SIDE, j] = -table[SIDE, j]
            table[HELD, j] = table[BOUND, j] - table[HELD, j]
    _values(work)


@kernel
def _pass_breakpoints(table, places, count, slope):
    """Orders the queue so that its first part is to be flipped and the slope ends among the rest; that part's length.

    The dual objective rises along the step at a rate that falls by |alpha| * bound at each breakpoint. As in
    quickselect, a part of the breakpoints is split at one of its members until the rate's zero is found.
    """
    first, last = 0, count
    while first < last:
        theta = table[SCORE, places[QUEUE, (first + last) // 2]]
        below, equal, above = first, first, last
        loss_below = loss_equal = 0.0
        while equal < above:
            j = places[QUEUE, equal]
            if table[SCORE, j] > theta:
                above -= 1
                places[QUEUE, equal], places[QUEUE, above] = places[QUEUE, above], j
            else:
                loss = table[GAIN, j] * table[BOUND, j]
                if table[SCORE, j] < theta:
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
            table[SCORE, j] = table[LOSS, j] / table[GAIN, j]
            places[QUEUE, count] = j
            count += 1
    passed = _pass_breakpoints(table, places, count, excess)
    if passed == 0:
        return
    for j in range(work.T.shape[1]):
        table[SCORE, j] = 0.0
    for k in range(passed):
        j = places[QUEUE, k]
        table[SCORE, j] = table[SIDE, j] * table[BOUND, j]
        table[HELD, j] = table[BOUND, j] - table[HELD, j]
        table[SIDE, j] = -table[SIDE, j]
        table[GAIN, j] = 0.0
    _product(work, SCORE)
    for i in range(work.T.shape[0]):
        table[VALUE, i] -= table[COLUMN, i]


@kernel(reductions=True)
def _dual_pivots(work, m, n, most):
    """Dual pivots from a dual feasible basis until the values are feasible, as `_primal_pivots`."""
    table, state = work.table, work.state
    for i in range(m):
        table[WEIGHT, i] = 1.0
    while state[SPENT] < most:
        for i in range(m):
            excess = max(-table[VALUE, i], table[VALUE, i] - table[ROOM, i])
            table[RATIO, i] = excess * excess / table[WEIGHT, i] if excess > _PRIMAL_TOL else 0.0
        p = _greatest(table, RATIO, m)
        if p < 0:
            return OPTIMAL
        # The value of row p is to fall (side 1) to its target or to rise.
        side = -1.0 if table[VALUE, p] < 0.0 else 1.0
        target = 0.0 if side < 0.0 else table[ROOM, p]
        _row(work, p)
        for j in range(n):
            # How fast it does while the variable of column j leaves its bound, and what that loses.
            rate = side * table[SIDE, j] * table[ROW, j]
            loss = max(0.0, -table[SIDE, j] * table[D, j])
            table[GAIN, j] = rate if rate > _PIVOT_TOL else 0.0
            table[LOSS, j] = loss
        _flip(work, n, side * (table[VALUE, p] - target))
        # Harris test among the others: the largest pivot within tolerance of the first breakpoint.
        for j in range(n):
            rate = table[GAIN, j]
            table[SCORE, j] = (table[LOSS, j] + _DUAL_TOL) / rate if rate > 0.0 else math.inf
        limit = _least(table, SCORE, n)
        for j in range(n):
            rate = table[GAIN, j]
            table[SCORE, j] = rate if table[LOSS, j] <= limit * rate else 0.0
        q = _greatest(table, SCORE, n)
        if q < 0:
            return UNRELIABLE
        # It may lie slightly beyond its breakpoint: its cost is shifted to it.
        table[D, q] = -table[SIDE, q] * table[LOSS, q]
        _column(work, q)
        pivot, weight = table[COLUMN, p], table[WEIGHT, p]
        for i in range(m):
            ratio = table[COLUMN, i] / pivot
            table[WEIGHT, i] = max(table[WEIGHT, i], ratio * ratio * weight)
        table[WEIGHT, p] = max(weight / (pivot * pivot), 1.0)
        _pivot(work, p, q, (table[VALUE, p] - target) / pivot)
    return GO_ON


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
def _set_bounds(lp, work, upper):
    """The bounds in scaled units; whether a nonbasic variable stands elsewhere now."""
    table = work.table
    m, n = lp.A.shape
    for j in range(n):
        table[UPPER, j] = upper[j] / lp.scale[j] if lp.scale[j] > 0.0 else 0.0
    return _take_bounds(work, m, n)


@kernel
def _optimise(lp, work, direction, unit, most):
    """From any basis with its values to the optimum."""
    table, state = work.table, work.state
    m, n = lp.A.shape
    while True:
        if _n_infeasible(table, m, _PRIMAL_TOL) > 0:
            _to_its_bounds(work, m, n)
            outcome = _dual_pivots(work, m, n, most)
            if outcome != OPTIMAL:
                return outcome
        _set_cost(lp.scale, direction, unit, table, COST)
        _reduced_costs(work, m, n, COST, D)
        if n >= _MANY_COLUMNS * m and state[COLD] == 0:
            state[COLD] = 1
            if state[BARE] or _n_improving(table, n) > _COLD_PIVOTS * m + 20:
                _from_slacks(lp, work)
                _take_bounds(work, m, n)
                _to_its_bounds(work, m, n)
                continue
        outcome = _primal_pivots(work, m, n, most)
        if outcome != OPTIMAL:
            return outcome
        if state[SINCE] == 0:
            return OPTIMAL
        state[SINCE] = 0
        if not _is_right(lp, work):
            return UNRELIABLE
        if _n_infeasible(table, m, _PRIMAL_TOL) + _n_improving(table, n) == 0:
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
    state[TRACKED] = 0
    unit = _largest_gain(scale, direction, upper)
    if not 0.0 < unit < math.inf:
        # Nothing to gain at 0; no answer to a direction that is not finite.
        work.numbers[UNIT] = 0.0
        for j in range(n):
            v[j] = 0.0 if unit == 0.0 else math.nan
        return OK
    fresh = state[PHASE] == FRESH
    if fresh:
        _from_slacks(lp, work)
    if state[PHASE] != GOING:
        state[SPENT] = state[TROUBLES] = state[COLD] = 0
    if _set_bounds(lp, work, upper) or fresh:
        _values(work)
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
        if state[TROUBLES] == 2 or not _anew(lp, work):
            _from_slacks(lp, work)
        _take_bounds(work, m, n)
        _values(work)
    _place(work, m, n)
    state[PHASE] = READY
    work.numbers[UNIT] = unit
    for j in range(n):
        v[j] = min(max(table[POINT, j], 0.0), table[UPPER, j]) * scale[j]
    return OK


# ---- event-driven steps: the cost moves along a line while the basis stays


@kernel
def simplex_track(lp, work, rate):
    """Prepares `simplex_follow` for costs that move along ``rate``, from the cost of the last call."""
    table, numbers, state = work.table, work.numbers, work.state
    m, n = lp.A.shape
    state[TRACKED] = 0
    if state[PHASE] != READY or numbers[UNIT] <= 0.0:
        return False
    for j in range(n):
        table[REST, j] = rate[j] * lp.scale[j] / numbers[UNIT]
    for i in range(m):
        table[REST, n + i] = 0.0
    _reduced_costs(work, m, n, REST, D_RATE)
    # The reduced costs d + g * d_rate keep their signs up to the smallest of these ratios.
    for j in range(n):
        growth = table[SIDE, j] * table[D_RATE, j]
        room = _DUAL_TOL - table[SIDE, j] * table[D, j]
        table[SCORE, j] = room / growth if growth > 0.0 else math.inf
    numbers[LIMIT] = _least(table, SCORE, n)
    numbers[DECAY], numbers[GROWTH] = 1.0, 0.0
    state[TRACKED] = 1
    state[FOLLOWED] = 0
    return True


@kernel
def simplex_follow(lp, work, decay, gamma, upper, v):
    """Whether v stays optimal when the cost becomes decay * cost + gamma * rate and the bounds ``upper``."""
    table, numbers, state = work.table, work.numbers, work.state
    if state[TRACKED] == 0 or decay == 0.0:  # of the old cost nothing is left
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
    table, places, state = work.table, work.places, work.state
    m, n = lp.A.shape
    state[PHASE] = FRESH
    state[TRACKED] = 0
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
    if n_basic != m or not _install(lp, work):
        return False
    _set_bounds(lp, work, upper)
    _values(work)
    _set_cost(lp.scale, direction, unit, table, COST)
    _reduced_costs(work, m, n, COST, D)
    if not _is_right(lp, work) or _n_infeasible(table, m, _LOADED_TOL) > 0:
        return False
    state[SINCE] = 0
    work.numbers[UNIT] = unit
    state[PHASE] = READY
    return True
