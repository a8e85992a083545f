"""The tableau of the simplex method: what it holds, its products, where it starts (see `drsub_fast.lp.simplex`)."""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import dot

#: The tableau is T - U[:k]' W[:k], with k pivots in the log; T, U and W are padded with zeros, see `_shape`. There are
#: few other arrays, of many rows: a tuple of many arrays takes long to compile.
SimplexWork = namedtuple("SimplexWork", "T U W table numbers places state")

#: Rows of ``table``, over all variables: cost and upper bound (0 and infinity for slacks); +1 at the lower bound, -1 at
#: the upper, 0 for a basic or fixed variable; the vertex; what is left of the costs;
COST, UPPER, SIGN, POINT, REST = range(5)

#: over the nonbasic variables in the order of T: upper bound, side (as SIGN), where it stands, reduced cost, its rate
#: in `simplex_track`, a row of T, what a step asks of each (and scratch), gains and losses;
BOUND, SIDE, STAND, D, D_RATE, ROW, PER_COLUMN, GAIN, LOSS = range(5, 14)

#: over the basic ones: value, upper bound, beta, a column of T, what a step asks of each (and scratch), its margin;
LEVEL, ROOM, BETA, COLUMN, PER_ROW, MARGIN = range(14, 20)

#: devex weights, of nonbasic variables in the primal simplex and of basic ones in the dual; what is left of the rows.
WEIGHT, SHORTFALL = range(20, 22)
N_TABLE = 22

#: Rows of ``places``: the nonbasic variables, the basic ones, scratch.
NONBASIC, BASIC, QUEUE = range(3)
N_PLACES = 3

#: Length of ``numbers``, whose fields are those of `drsub_fast.lp.simplex`.
N_FIELDS = 4

#: Fields of ``state``. SPENT: pivots and flips for this program. SINCE: those since the equations were checked.
#: N_LOGGED: pivots in the log. BARE: the basis is that of the slacks. COLD: this program began with the dual simplex by
#: choice.
PHASE, PIVOTS, SPENT, SINCE, TROUBLES, N_LOGGED, BARE, COLD, IS_TRACKED, IS_FOLLOWED = range(10)
N_STATE = 10

#: A reduced cost of the wrong sign up to this, in units of the largest gain, counts as 0.
DUAL_TOL = 1e-10

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
    return rows * columns + log * (rows + columns) + N_TABLE * width + N_FIELDS, N_PLACES * (m + n) + N_STATE


@kernel(memory=True)
def simplex_carve(m, n, floats, integers):
    """The workspace; integers all zero mean a fresh start."""
    rows, columns, log, width = _shape(m, n)
    return SimplexWork(
        *split(floats, (rows, columns), (log, rows), (log, columns), (N_TABLE, width), N_FIELDS),
        *split(integers, (N_PLACES, m + n), N_STATE),
    )


def _subtract_array_from_four(a, b, c, d, fa, fb, fc, fd, row):
    n = row.size
    for into, factor in ((a, fa), (b, fb), (c, fc), (d, fd)):
        into[:n] -= factor * row


@kernel(plain=_subtract_array_from_four, reductions=True, noalias=True)
def _subtract_from_four(a, b, c, d, fa, fb, fc, fd, row):
    """Subtracts multiples of a row from four others."""
    for j in range(row.size):
        a[j] -= fa * row[j]
        b[j] -= fb * row[j]
        c[j] -= fc * row[j]
        d[j] -= fd * row[j]


def _subtract_in_arrays(a, b, c, d, e, f, g, h, U, k, i):
    n = a.size
    for into, column in ((a, i), (b, i + 1), (c, i + 2), (d, i + 3)):
        fe, ff, fg, fh = U[k : k + 4, column]
        into[:n] -= (fe * e[:n] + ff * f[:n]) + (fg * g[:n] + fh * h[:n])


@kernel(plain=_subtract_in_arrays, reductions=True, noalias=True)
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


def _add_in_arrays(row, fa, fb, fc, fd, a, b, c, d):
    n = row.size
    row += (fa * a[:n] + fb * b[:n]) + (fc * c[:n] + fd * d[:n])


@kernel(plain=_add_in_arrays, reductions=True, noalias=True)
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


@kernel
def least_of(table, row, count):
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


def _place_in_array(table, row, count):
    if count == 0:
        return -1
    values = table[row, :count]
    where = values.argmax()
    if values[where] != values[where]:  # what is not a number does not count
        values = np.where(np.isnan(values), -math.inf, values)
        where = values.argmax()
    return int(where) if values[where] > 0.0 else -1


@kernel(plain=_place_in_array)
def place_of_greatest(table, row, count):
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


@kernel
def _subtract_log(row, table, factors, log, M):
    """row -= the sum of table[factors, k] * M[k] over the pivots in the log."""
    for k in range(log, (log + _ROWS - 1) // _ROWS * _ROWS):
        table[factors, k] = 0.0
    for k in range(log):
        table[factors, k] = -table[factors, k]
    _add_rows(row, table, factors, M, (log + _ROWS - 1) // _ROWS * _ROWS)


@kernel
def read_column(work, q):
    """COLUMN = column q of the tableau."""
    T, table, log = work.T, work.table, work.state[N_LOGGED]
    for i in range(T.shape[0]):
        table[COLUMN, i] = T[i, q]
    for k in range(log):
        table[PER_ROW, k] = work.W[k, q]
    _subtract_log(table[COLUMN, : T.shape[0]], table, PER_ROW, log, work.U)


@kernel
def read_row(work, p):
    """ROW = row p of the tableau."""
    T, table, log = work.T, work.table, work.state[N_LOGGED]
    for j in range(T.shape[1]):
        table[ROW, j] = T[p, j]
    for k in range(log):
        table[PER_COLUMN, k] = work.U[k, p]
    _subtract_log(table[ROW, : T.shape[1]], table, PER_COLUMN, log, work.W)


@kernel
def multiply(work, row):
    """COLUMN = the tableau times a row of the table."""
    T, U, W, table, log = work.T, work.U, work.W, work.table, work.state[N_LOGGED]
    x = table[row, : T.shape[1]]
    for i in range(0, T.shape[0], _ROWS):
        a, b, c, d = _dot_four(x, T[i], T[i + 1], T[i + 2], T[i + 3])
        table[COLUMN, i], table[COLUMN, i + 1], table[COLUMN, i + 2], table[COLUMN, i + 3] = a, b, c, d
    for k in range(log):
        table[PER_ROW, k] = dot(W[k], x)
    _subtract_log(table[COLUMN, : T.shape[0]], table, PER_ROW, log, U)


@kernel
def reduced_costs(work, m, n, cost, d):
    """Row ``d`` = reduced costs for the costs in row ``cost``."""
    T, U, table, places, log = work.T, work.U, work.table, work.places, work.state[N_LOGGED]
    row = table[ROW, : T.shape[1]]
    for j in range(row.size):
        row[j] = 0.0
    for i in range(m):
        table[PER_ROW, i] = table[cost, places[BASIC, i]]
    for i in range(m, T.shape[0]):
        table[PER_ROW, i] = 0.0
    _add_rows(row, table, PER_ROW, T, T.shape[0])
    for k in range(log):
        table[PER_COLUMN, k] = dot(U[k], table[PER_ROW, : T.shape[0]])
    _subtract_log(row, table, PER_COLUMN, log, work.W)
    for j in range(n):
        table[d, j] = table[cost, places[NONBASIC, j]] - row[j]


def _exchange_in_arrays(work, p, q):
    T, U, W, table, places, state = work.T, work.U, work.W, work.table, work.places, work.state
    k = state[N_LOGGED]
    n_rows, n_columns = T.shape
    inverse = 1.0 / table[COLUMN, p]
    row = table[ROW, :n_columns]
    row *= inverse
    row[q] = inverse
    W[k], U[k] = row, table[COLUMN, :n_rows]
    T[p], T[:, q] = 0.0, 0.0
    U[k, p] = -1.0
    U[:k, p], W[:k, q] = 0.0, 0.0
    beta = table[BETA, p] * inverse
    table[BETA, p] = 0.0
    table[BETA, :n_rows] -= U[k] * beta
    places[NONBASIC, q], places[BASIC, p] = places[BASIC, p], places[NONBASIC, q]
    state[BARE] = 0
    state[N_LOGGED] = (k + 1) % len(U)
    if state[N_LOGGED] == 0:
        for u, w in zip(U, W, strict=True):
            T -= u[:, None] * w


@kernel(plain=_exchange_in_arrays)
def exchange(work, p, q):
    """Exchanges the basic variable of row p for the nonbasic one of column q; ROW and COLUMN hold these.

    With u = COLUMN, but -1 in row p, and w = ROW / pivot, but 1 / pivot in column q, the tableau without its old
    row p and column q becomes T - u w'.
    """
    T, U, W, table, places, state = work.T, work.U, work.W, work.table, work.places, work.state
    k = state[N_LOGGED]
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
    state[N_LOGGED] = k + 1
    if state[N_LOGGED] == U.shape[0]:
        state[N_LOGGED] = 0
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


def _clear_array(M):
    M[:] = 0.0


@kernel(plain=_clear_array)
def _clear(M):
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            M[i, j] = 0.0


@kernel
def from_slacks(lp, work):
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
    state[N_LOGGED] = 0
    state[BARE] = 1


@kernel
def eliminate_again(lp, work):
    """The tableau of the present basis eliminated from A; False if it is singular."""
    table, places = work.table, work.places
    m, n = lp.A.shape
    for j in range(n):
        places[QUEUE, places[NONBASIC, j]] = int(table[SIDE, j])
    for i in range(m):
        places[QUEUE, places[BASIC, i]] = 2
    return install(lp, work)


@kernel
def install(lp, work):
    """The tableau of a basis given by QUEUE: 2 for a basic variable, else the side of a nonbasic one.

    False if it is singular: then some of its columns have stayed nonbasic.
    """
    table, places, state = work.table, work.places, work.state
    m, n = lp.A.shape
    from_slacks(lp, work)
    done = True
    for q in range(n):
        if places[QUEUE, q] == 2:
            read_column(work, q)
            for i in range(m):
                v = places[BASIC, i]
                table[PER_ROW, i] = abs(table[COLUMN, i]) if v >= n and places[QUEUE, v] != 2 else 0.0
            p = place_of_greatest(table, PER_ROW, m)
            if p >= 0 and table[PER_ROW, p] > 1e-12:
                read_row(work, p)
                exchange(work, p, q)
            else:
                done = False
    for j in range(n):
        side = places[QUEUE, places[NONBASIC, j]]
        table[SIDE, j] = side if side < 2 else 1.0
    state[SINCE] = 1
    return done


@kernel
def take_bounds(work, m, n):
    """The upper bounds of all variables to their places; whether a nonbasic one stands elsewhere now."""
    table, places = work.table, work.places
    moved = 0
    for j in range(n):
        limit = table[UPPER, places[NONBASIC, j]]
        side = table[SIDE, j]
        side = (1.0 if side == 0.0 else side) if limit > 0.0 else 0.0
        held = limit if side < 0.0 else 0.0
        moved += held != table[STAND, j]
        table[BOUND, j], table[SIDE, j], table[STAND, j] = limit, side, held
    for i in range(m):
        table[ROOM, i] = table[UPPER, places[BASIC, i]]
    return moved > 0


@kernel
def find_values(work):
    """Values of the basic variables."""
    table = work.table
    multiply(work, STAND)
    for i in range(work.T.shape[0]):
        table[LEVEL, i] = table[BETA, i] - table[COLUMN, i]


@kernel
def n_infeasible(table, m, tol):
    """How many basic variables leave their bounds by more than ``tol``, or are not numbers."""
    count = 0
    for i in range(m):
        count += not (-tol <= table[LEVEL, i] <= table[ROOM, i] + tol)
    return count


@kernel
def n_improving(table, n):
    """How many nonbasic variables are worth moving."""
    count = 0
    for j in range(n):
        count += table[SIDE, j] * table[D, j] > DUAL_TOL
    return count


def _find_vertex_in_arrays(work, m, n):
    table, nonbasic, basic = work.table, work.places[NONBASIC, :n], work.places[BASIC, :m]
    table[POINT, nonbasic], table[SIGN, nonbasic] = table[STAND, :n], table[SIDE, :n]
    table[POINT, basic], table[SIGN, basic] = table[LEVEL, :m], 0.0


@kernel(plain=_find_vertex_in_arrays)
def find_vertex(work, m, n):
    """The vertex and the sides, by variable."""
    table, places = work.table, work.places
    for j in range(n):
        table[POINT, places[NONBASIC, j]] = table[STAND, j]
        table[SIGN, places[NONBASIC, j]] = table[SIDE, j]
    for i in range(m):
        table[POINT, places[BASIC, i]] = table[LEVEL, i]
        table[SIGN, places[BASIC, i]] = 0.0
