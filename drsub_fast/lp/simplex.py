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

Everything is in scaled units (`drsub_fast.sets.polytope.scale_polytope`): columns in units of their bounds,
rows in units of b, by powers of two, so that nothing is rounded; a column of unit 0 is fixed at 0. The cost is
divided by its largest gain.
The tolerances below are absolute.
"""

import math
from collections import namedtuple

from drsub_fast._jit import kernel
from drsub_fast._vector import add_scaled, dot
from drsub_fast.sets.base import NEEDS_SOLVER, OK, PAUSED

#: Few arrays of many rows: compiled code that handles a tuple of many arrays takes long to compile.
SimplexWork = namedtuple("SimplexWork", "W variables rows working columns unit basis places state")

#: Rows of ``variables`` (each over all n + m variables). DELTA: three of them, see `_solve_columns`.
VALUE, BOUND, SIGN, D, WEIGHT, ALPHA, RATIO, D_RATE, DELTA = range(9)
N_VARIABLES = DELTA + 3

#: Rows of ``working`` (r numbers each): three of COEF, then the pivot row's part on the tight rows.
COEF, Z = 0, 3

#: Rows of ``columns`` (n numbers each): the cost of the basis, the one that `simplex_follow` moves, and its rate.
COST, MOVING, COST_RATE = range(3)

#: Rows of ``basis`` (tight rows, basic columns) and of ``places`` (1 + position in the basis or 0, scratch).
TIGHT, BASIC = range(2)
PLACE, QUEUE = range(2)

#: Fields of ``SimplexWork.state``. The STALE_ ones say what must be computed anew before the next pivot;
#: COLD: this program has started from the slacks by choice.
(
    PHASE,
    RANK,
    UPDATES,
    PIVOTS,
    SPENT,
    TROUBLES,
    STALE_INVERSE,
    STALE_VALUES,
    STALE_COSTS,
    EXACT,
    TRACKED,
    FOLLOWED,
    COLD,
) = range(13)
N_STATE = 13

#: Outcomes of a run of pivots.
OPTIMAL, GO_ON, UNRELIABLE = range(3)

#: Phases. CHECK: primal if the values are feasible, else dual. READY: optimal for ``cost`` and ``bound``.
FRESH, CHECK, DUAL, PRIMAL, READY = range(5)

_PRIMAL_TOL = 1e-10
_DUAL_TOL = 1e-10
_PIVOT_TOL = 1e-9
_RESIDUAL = 1e-9
#: Costs below minus this, in units of the largest gain, count as equal to it: they can only keep x_j = 0.
_LARGEST_LOSS = 1e6
#: Programs of at least this many rows and columns together start by the dual simplex. The primal simplex flips columns
#: to their bounds one by one, the dual in bulk. Milliseconds, primal against dual, m x n with loose rows, rows that cut
#: off part of the box, and bounds implied by the rows: 16 x 16: 0.03/0.02, 0.05/0.06, 0.03/0.07; 48 x 48: 0.07/0.02,
#: 0.10/0.20, 0.12/0.13; 5 x 100: 0.13/0.02, 0.17/0.08, 0.04/0.06; 1 x 5000: 81/0.2, 66/0.2, 0.2/0.2; 5 x 5000: 82/0.2,
#: 89/3.8, 0.3/1.3; 50 x 1000: 4.3/0.05, 8.9/6.2, 3.3/3.5; 50 x 5000: 84/0.3, 200/50, 28/25.
_DUAL_FROM = 100
#: With more variables to move than this many times the smaller side, and 20, new costs start from the slacks by the
#: dual simplex as well: a cold start takes 2 to 4 pivots a row, the primal simplex at least one a variable (28 s for
#: 1 x 100,000 with costs drawn anew).
_COLD_PIVOTS = 4
#: Steps of `simplex_follow` after which everything is computed anew.
_FOLLOWS = 200
#: A basis from outside may violate its bounds by this much; the next call repairs it.
_LOADED_TOL = 1e-6
#: One call does about this many multiplications, so that a long program can be interrupted.
_WORK_PER_CALL = 1e8


@kernel
def simplex_size(m, n):
    """(floats, integers) of workspace for m rows and n columns."""
    r, total = min(m, n), m + n
    return r * r + N_VARIABLES * total + 3 * m + 4 * r + 3 * n + 1, 2 * r + 2 * total + N_STATE


@kernel
def simplex_carve(m, n, floats, integers):
    """The workspace; integers all zero mean a fresh start."""
    r, total = min(m, n), m + n
    variables = r * r
    rows = variables + N_VARIABLES * total
    working = rows + 3 * m
    columns = working + 4 * r
    unit = columns + 3 * n
    return SimplexWork(
        floats[:variables].reshape((r, r)),
        floats[variables:rows].reshape((N_VARIABLES, total)),
        floats[rows:working].reshape((3, m)),
        floats[working:columns].reshape((4, r)),
        floats[columns:unit].reshape((3, n)),
        floats[unit:],
        integers[: 2 * r].reshape((2, r)),
        integers[2 * r : 2 * r + 2 * total].reshape((2, total)),
        integers[2 * r + 2 * total :],
    )


# ---- linear algebra on the working basis


@kernel(reductions=True, inner=True)
def _add_rows(M, rows, coef, start, stop, out):
    """out += sum of coef[k] * M[rows[k]] over k in [start, stop), four rows at a time."""
    k = start
    while k + 4 <= stop:
        c0, c1, c2, c3 = coef[k], coef[k + 1], coef[k + 2], coef[k + 3]
        if c0 != 0.0 or c1 != 0.0 or c2 != 0.0 or c3 != 0.0:
            row0, row1, row2, row3 = M[rows[k]], M[rows[k + 1]], M[rows[k + 2]], M[rows[k + 3]]
            for j in range(out.size):
                out[j] += (c0 * row0[j] + c1 * row1[j]) + (c2 * row2[j] + c3 * row3[j])
        k += 4
    while k < stop:
        c0 = coef[k]
        if c0 != 0.0:
            row0 = M[rows[k]]
            for j in range(out.size):
                out[j] += c0 * row0[j]
        k += 1


@kernel(reductions=True, inner=True)
def _solve_columns(lp, work, count):
    """delta[k] = change of the basic variables per unit of the column rhs[k], for k < count.

    Returns the largest residual in the tight rows. All columns share one pass over W and A.
    """
    W, T, B, rhs, delta, coef, gathered = (
        work.W,
        work.basis[TIGHT],
        work.basis[BASIC],
        work.rows,
        work.variables[DELTA:],
        work.working,
        work.variables[RATIO],
    )
    m, n = lp.A.shape
    r = work.state[RANK]
    for k in range(count):
        column = rhs[k]
        for t in range(r):
            gathered[t] = column[T[t]]
        for l in range(r):
            row = W[l]
            total = 0.0
            for t in range(r):
                total += row[t] * gathered[t]
            coef[k, l] = total
        change = delta[k]
        for j in range(n):
            change[j] = 0.0
        for l in range(r):
            change[B[l]] = -coef[k, l]
        for i in range(m):
            change[n + i] = -column[i]
    for start in range(0, r, 4):
        for k in range(count):
            _add_rows(lp.AT, B, coef[k], start, min(start + 4, r), delta[k, n:])
    worst = 0.0
    for k in range(count):
        for t in range(r):
            worst = max(worst, abs(delta[k, n + T[t]]))
            delta[k, n + T[t]] = 0.0
    return worst


@kernel(inner=True)
def _pivot_row(lp, work, leaving):
    """alpha = the leaving variable's row over all nonbasic variables; z = its part on the tight rows."""
    W, T, B, alpha, z, coef = (
        work.W,
        work.basis[TIGHT],
        work.basis[BASIC],
        work.variables[ALPHA],
        work.working[Z],
        work.working[COEF + 2],
    )
    m, n = lp.A.shape
    r = work.state[RANK]
    if leaving < n:
        row = W[work.places[PLACE, leaving] - 1]
        for t in range(r):
            z[t] = row[t]
        for j in range(n):
            alpha[j] = 0.0
    else:
        row = lp.A[leaving - n]
        for l in range(r):
            coef[l] = -row[B[l]]
        _combine(W, r, coef, z)
        for j in range(n):
            alpha[j] = row[j]
    _add_rows(lp.A, T, z, 0, r, alpha[:n])
    for i in range(m):
        alpha[n + i] = 0.0
    for t in range(r):
        alpha[n + T[t]] = z[t]
        alpha[B[t]] = 0.0


@kernel(reductions=True, inner=True)
def _combine(W, r, coef, out):
    """out = coef' W on the leading r x r block."""
    for t in range(r):
        out[t] = 0.0
    for l in range(r):
        c = coef[l]
        if c != 0.0:
            row = W[l]
            for t in range(r):
                out[t] += c * row[t]


@kernel(inner=True)
def _reduced_costs(lp, work, cost, d):
    """Reduced costs of all variables for ``cost``; returns the largest residual in the basic columns."""
    T, B, coef, z = work.basis[TIGHT], work.basis[BASIC], work.working[COEF], work.working[Z]
    m, n = lp.A.shape
    r = work.state[RANK]
    for l in range(r):
        coef[l] = -cost[B[l]]
    _combine(work.W, r, coef, z)
    for j in range(n):
        d[j] = cost[j]
    _add_rows(lp.A, T, z, 0, r, d[:n])
    for i in range(m):
        d[n + i] = 0.0
    worst = 0.0
    for t in range(r):
        d[n + T[t]] = z[t]  # minus the dual variable
        worst = max(worst, abs(d[B[t]]))
        d[B[t]] = 0.0
    return worst


@kernel(inner=True)
def _values(lp, work):
    """Values of all variables from the basis; returns the largest residual in the tight rows."""
    value, rhs, queue, ratio = work.variables[VALUE], work.rows[0], work.places[QUEUE], work.variables[RATIO]
    m, n = lp.A.shape
    count = 0
    for j in range(n):
        value[j] = 0.0
        if work.variables[SIGN, j] < 0.0:
            value[j] = work.variables[BOUND, j]
            queue[count] = j
            ratio[count] = -work.variables[BOUND, j]
            count += 1
    for i in range(m):
        rhs[i] = lp.b[i]
        value[n + i] = 0.0
    _add_rows(lp.AT, queue, ratio, 0, count, rhs)
    worst = _solve_columns(lp, work, 1)
    change = work.variables[DELTA]
    for v in range(n + m):
        value[v] -= change[v]
    return worst


@kernel(inner=True)
def _invert(M, r, T):
    """M[:r, :r] becomes its inverse (Gauss-Jordan); row exchanges reorder T instead. False if singular."""
    for k in range(r):
        p = k
        for i in range(k + 1, r):
            if abs(M[i, k]) > abs(M[p, k]):
                p = i
        if abs(M[p, k]) < 1e-12:
            return False
        row = M[k]
        if p != k:
            other = M[p]
            for j in range(r):
                row[j], other[j] = other[j], row[j]
            T[k], T[p] = T[p], T[k]
        scale = 1.0 / row[k]
        row[k] = 1.0
        for j in range(r):
            row[j] *= scale
        for i in range(r):
            if i != k:
                other = M[i]
                factor = other[k]
                if factor != 0.0:
                    other[k] = 0.0
                    for j in range(r):
                        other[j] -= factor * row[j]
    return True


@kernel(inner=True)
def _refactor(lp, work):
    """W from scratch; False if the basis is singular."""
    n = lp.A.shape[1]
    W, T, B, place, state = work.W, work.basis[TIGHT], work.basis[BASIC], work.places[PLACE], work.state
    r = state[RANK]
    for t in range(r):
        row = lp.A[T[t]]
        for l in range(r):
            W[t, l] = row[B[l]]
    regular = _invert(W, r, T)
    for t in range(r):
        place[n + T[t]] = t + 1
    state[UPDATES] = 0
    return regular


@kernel(inner=True)
def _subtract_outer(W, r, column, scale, row, skip):
    """W[l] -= scale * column[l] * row for l != skip, on the leading r x r block."""
    for l in range(r):
        factor = scale * column[l]
        if l != skip and factor != 0.0:
            target = W[l]
            for t in range(r):
                target[t] -= factor * row[t]


@kernel(inner=True)
def _exchange(W, T, B, place, r, n, w, z, entering, leaving, pivot):
    """Updates W, T and B; returns the new rank. ``w`` and ``z`` are the entering column and the leaving row in W."""
    l, t = place[leaving] - 1, place[entering] - 1
    place[leaving] = place[entering] = 0
    if entering < n and leaving < n:  # column for column
        row = W[l]
        for k in range(r):
            row[k] /= pivot
        _subtract_outer(W, r, w, 1.0, row, l)
        B[l] = entering
        place[entering] = l + 1
    elif entering < n:  # a row joins
        _subtract_outer(W, r, w, 1.0 / pivot, z, -1)
        for k in range(r):
            W[k, r] = -w[k] / pivot
            W[r, k] = z[k] / pivot
        W[r, r] = 1.0 / pivot
        B[r], T[r] = entering, leaving - n
        r += 1
        place[entering] = place[leaving] = r
    elif leaving < n:  # a row leaves
        _subtract_outer(W, r, w, 1.0 / pivot, z, l)
        r -= 1
        if l != r:
            for k in range(r + 1):
                W[l, k] = W[r, k]
            B[l] = B[r]
            place[B[l]] = l + 1
        if t != r:
            for k in range(r):
                W[k, t] = W[k, r]
            T[t] = T[r]
            place[n + T[t]] = t + 1
    else:  # row for row
        _subtract_outer(W, r, w, 1.0 / pivot, z, -1)
        for k in range(r):
            W[k, t] = -w[k] / pivot
        T[t] = leaving - n
        place[leaving] = t + 1
    return r


@kernel(inner=True)
def _entering_column(lp, work, entering):
    """rhs[0] = column of the entering variable."""
    m, n = lp.A.shape
    column = work.rows[0]
    if entering < n:
        source = lp.AT[entering]
        for i in range(m):
            column[i] = source[i]
    else:
        for i in range(m):
            column[i] = 0.0
        column[entering - n] = 1.0


# ---- what both methods share


@kernel(inner=True)
def _infeasibility(work):
    """The largest amount by which a value leaves its bounds."""
    worst = 0.0
    value, bound = work.variables[VALUE], work.variables[BOUND]
    for v in range(value.size):
        worst = max(worst, -value[v], value[v] - bound[v])
    return worst


@kernel(inner=True)
def _leave(work, leaving, at_upper):
    """The leaving variable settles at a bound."""
    work.variables[VALUE, leaving] = work.variables[BOUND, leaving] if at_upper else 0.0
    work.variables[SIGN, leaving] = 0.0 if work.variables[BOUND, leaving] <= 0.0 else (-1.0 if at_upper else 1.0)


@kernel(inner=True)
def _update_reduced_costs(work, entering, leaving, pivot):
    step = work.variables[D, entering] / pivot
    add_scaled(work.variables[D], -step, work.variables[ALPHA])
    work.variables[D, leaving] = -step
    work.variables[D, entering] = 0.0


@kernel(inner=True)
def _reset_weights(work):
    weight = work.variables[WEIGHT]
    for v in range(weight.size):
        weight[v] = 1.0


# ---- primal simplex


@kernel(reductions=True, inner=True)
def _primal_pivots(A, AT, W, T, B, place, value, bound, sign, d, weight, alpha, delta, w, z, column, state, left):
    """Primal pivots from a feasible basis, at most ``left``: (outcome, pivots left).

    OPTIMAL when no variable improves, GO_ON for a fresh inverse or at the limit, UNRELIABLE for a pivot that two
    computations disagree on. One text for all of a pivot: at small sizes calls would cost more than the work.
    """
    m, n = A.shape
    total = n + m
    r = state[RANK]
    outcome = GO_ON
    while left > 0 and state[STALE_INVERSE] == 0:
        # Price: the nonbasic variable of largest devex score.
        best, entering = 0.0, -1
        for v in range(total):
            gain = sign[v] * d[v]
            if gain > _DUAL_TOL and gain * gain > best * weight[v]:
                best, entering = gain * gain / weight[v], v
        if entering < 0:
            outcome = OPTIMAL
            break
        left -= 1
        state[EXACT] = 0
        state[PIVOTS] += 1
        state[SPENT] += 1
        direction = sign[entering]
        # delta = change of all variables per unit of the entering one.
        if entering < n:
            source = AT[entering]
            for i in range(m):
                column[i] = -source[i]
            for l in range(r):
                row = W[l]
                change = 0.0
                for t in range(r):
                    change += row[t] * source[T[t]]
                w[l] = change
        else:
            t = place[entering] - 1
            for i in range(m):
                column[i] = 0.0
            column[entering - n] = -1.0
            for l in range(r):
                w[l] = W[l, t]
        for j in range(n):
            delta[j] = 0.0
        for l in range(r):
            delta[B[l]] = -w[l]
        _add_rows(AT, B, w, 0, r, column)
        for i in range(m):
            delta[n + i] = column[i]
        for t in range(r):
            delta[n + T[t]] = 0.0
        # Two-pass ratio test: the largest pivot among the variables that block within tolerance.
        limit = math.inf
        for v in range(total):
            rate = direction * delta[v]
            if rate < -_PIVOT_TOL:
                limit = min(limit, (value[v] + _PRIMAL_TOL) / -rate)
            elif rate > _PIVOT_TOL:
                limit = min(limit, (bound[v] - value[v] + _PRIMAL_TOL) / rate)
        leaving, step, pivot = -1, 0.0, 0.0
        if bound[entering] <= limit:
            leaving, step = entering, bound[entering]
        else:
            for v in range(total):
                rate = direction * delta[v]
                size = abs(rate)
                if size > pivot and size > _PIVOT_TOL:
                    room = value[v] if rate < 0.0 else bound[v] - value[v]
                    if room <= limit * size:
                        leaving, step, pivot = v, room / size, size
            step = max(step, 0.0)
        if leaving < 0:
            outcome = UNRELIABLE
            break
        step *= direction
        for v in range(total):
            value[v] += step * delta[v]
        if leaving == entering:
            at_upper = step > 0.0
            value[entering] = bound[entering] if at_upper else 0.0
            sign[entering] = -1.0 if at_upper else 1.0
            continue
        # alpha = the leaving variable's row, z its part on the tight rows.
        if leaving < n:
            row = W[place[leaving] - 1]
            for t in range(r):
                z[t] = row[t]
            for j in range(n):
                alpha[j] = 0.0
        else:
            row = A[leaving - n]
            for t in range(r):
                z[t] = 0.0
            for l in range(r):
                factor = row[B[l]]
                inner = W[l]
                for t in range(r):
                    z[t] -= factor * inner[t]
            for j in range(n):
                alpha[j] = row[j]
        _add_rows(A, T, z, 0, r, alpha[:n])
        for i in range(m):
            alpha[n + i] = 0.0
        for t in range(r):
            alpha[n + T[t]] = z[t]
            alpha[B[t]] = 0.0
        pivot = -delta[leaving]
        if abs(alpha[entering] - pivot) > 1e-7 * (1.0 + abs(pivot)):
            outcome = UNRELIABLE
            break
        # Devex weights and reduced costs.
        unit = weight[entering] / (pivot * pivot)
        price = d[entering] / pivot
        for v in range(total):
            weight[v] = max(weight[v], alpha[v] * alpha[v] * unit)
            d[v] -= price * alpha[v]
        weight[leaving] = max(unit, 1.0)
        d[leaving] = -price
        d[entering] = 0.0
        value[entering] += step
        at_upper = value[leaving] > 0.5 * bound[leaving]
        value[leaving] = bound[leaving] if at_upper else 0.0
        sign[leaving] = 0.0 if bound[leaving] <= 0.0 else (-1.0 if at_upper else 1.0)
        sign[entering] = 0.0
        r = _exchange(W, T, B, place, r, n, w, z, entering, leaving, pivot)
        state[RANK] = r
        state[UPDATES] += 1
        if state[UPDATES] > 100 + r:
            state[STALE_INVERSE] = 1
    return outcome, left


# ---- dual simplex


@kernel(inner=True)
def _most_infeasible(work):
    """The basic variable of largest steepest-edge score, -1 if all are within their bounds."""
    value, bound, weight = work.variables[VALUE], work.variables[BOUND], work.variables[WEIGHT]
    best, leaving = 0.0, -1
    for v in range(value.size):
        excess = max(-value[v], value[v] - bound[v])
        if excess > _PRIMAL_TOL:
            score = excess * excess
            if score > best * weight[v]:
                best, leaving = score / weight[v], v
    return leaving


@kernel(inner=True)
def _breakpoints(work, side):
    """queue = nonbasic variables that the leaving one runs into, ratio = their step lengths; their number."""
    sign, alpha, d, ratio, queue = (
        work.variables[SIGN],
        work.variables[ALPHA],
        work.variables[D],
        work.variables[RATIO],
        work.places[QUEUE],
    )
    count = 0
    for v in range(sign.size):
        if side * sign[v] * alpha[v] > _PIVOT_TOL:
            ratio[v] = max(0.0, -sign[v] * d[v]) / abs(alpha[v])
            queue[count] = v
            count += 1
    return count


@kernel(inner=True)
def _pass_breakpoints(work, count, slope):
    """Orders the queue so that queue[:passed] are to be flipped and the slope ends among the others; ``passed``.

    The dual objective rises along the step at a rate that falls by |alpha| * bound at each breakpoint. As in
    quickselect, a part of the breakpoints is split at one of its members until the rate's zero is found.
    """
    alpha, bound, ratio, queue = work.variables[ALPHA], work.variables[BOUND], work.variables[RATIO], work.places[QUEUE]
    first, last = 0, count
    while first < last:
        theta = ratio[queue[(first + last) // 2]]
        below, equal, above = first, first, last
        loss_below = loss_equal = 0.0
        while equal < above:
            v = queue[equal]
            if ratio[v] > theta:
                above -= 1
                queue[equal], queue[above] = queue[above], v
            else:
                loss = abs(alpha[v]) * bound[v]
                if ratio[v] < theta:
                    loss_below += loss
                    queue[equal], queue[below] = queue[below], v
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


@kernel(inner=True)
def _largest_pivot(work, passed, count):
    """Harris test among queue[passed:count]: the largest |alpha| within tolerance of the first breakpoint."""
    alpha, ratio, queue = work.variables[ALPHA], work.variables[RATIO], work.places[QUEUE]
    limit = math.inf
    for k in range(passed, count):
        v = queue[k]
        limit = min(limit, ratio[v] + _DUAL_TOL / abs(alpha[v]))
    best, entering = 0.0, -1
    for k in range(passed, count):
        v = queue[k]
        if ratio[v] <= limit and abs(alpha[v]) > best:
            best, entering = abs(alpha[v]), v
    return entering


@kernel(inner=True)
def _flip(lp, work, passed):
    """Moves queue[:passed] to their opposite bounds; rhs[2] = the change of the columns' sum."""
    value, sign, bound, queue, ratio = (
        work.variables[VALUE],
        work.variables[SIGN],
        work.variables[BOUND],
        work.places[QUEUE],
        work.variables[RATIO],
    )
    total = work.rows[2]
    for i in range(total.size):
        total[i] = 0.0
    for k in range(passed):
        v = queue[k]
        ratio[k] = sign[v] * bound[v]
        value[v] = bound[v] if sign[v] > 0.0 else 0.0
        sign[v] = -sign[v]
    _add_rows(lp.AT, queue, ratio, 0, passed, total)


@kernel(inner=True)
def _row_of_inverse(lp, work, leaving):
    """rhs[1] = the leaving variable's row of the full basis inverse."""
    n = lp.A.shape[1]
    row, T, z = work.rows[1], work.basis[TIGHT], work.working[Z]
    for i in range(row.size):
        row[i] = 0.0
    for t in range(work.state[RANK]):
        row[T[t]] = z[t]
    if leaving >= n:
        row[leaving - n] = 1.0


@kernel(inner=True)
def _update_steepest_edge(work, entering, leaving, pivot):
    weight, change, tau, row = work.variables[WEIGHT], work.variables[DELTA], work.variables[DELTA + 1], work.rows[1]
    norm = dot(row, row)
    for v in range(weight.size):
        q = change[v] / pivot
        weight[v] = max(weight[v] - 2.0 * q * tau[v] + q * q * norm, 1e-4)
    weight[entering] = max(norm / (pivot * pivot), 1e-4)
    weight[leaving] = 1.0


@kernel(inner=True)
def _dual_pivot(lp, work):
    """Chooses by infeasibility and bound flipping: (entering, leaving, step); ``leaving`` is -1 at the end."""
    value, bound = work.variables[VALUE], work.variables[BOUND]
    leaving = _most_infeasible(work)
    if leaving < 0:
        return -1, -1, 0.0
    excess = value[leaving] - bound[leaving]
    side = 1.0 if excess > 0.0 else -1.0
    _pivot_row(lp, work, leaving)
    count = _breakpoints(work, side)
    passed = _pass_breakpoints(work, count, excess if side > 0.0 else -value[leaving])
    entering = _largest_pivot(work, passed, count)
    if entering < 0:
        return -1, leaving, 0.0
    # Harris's test may pick a variable slightly beyond its breakpoint: its cost is shifted to it.
    work.variables[D, entering] = (
        -work.variables[SIGN, entering] * work.variables[RATIO, entering] * abs(work.variables[ALPHA, entering])
    )
    if passed > 0:
        _flip(lp, work, passed)
    _row_of_inverse(lp, work, leaving)
    _entering_column(lp, work, entering)
    _solve_columns(lp, work, 3 if passed > 0 else 2)
    if passed > 0:
        add_scaled(value, 1.0, work.variables[DELTA + 2])
    target = bound[leaving] if side > 0.0 else 0.0
    return entering, leaving, (target - value[leaving]) / work.variables[DELTA, leaving]


# ---- one linear program


@kernel(inner=True)
def _n_improving(work):
    """How many nonbasic variables are worth moving."""
    sign, d = work.variables[SIGN], work.variables[D]
    count = 0
    for v in range(d.size):
        count += sign[v] * d[v] > _DUAL_TOL
    return count


@kernel(inner=True)
def _largest_gain(lp, direction, upper):
    """Largest scaled cost of a column that can be positive (0 if there is none); NaN if an entry is not finite."""
    largest, poison = 0.0, 0.0
    for j in range(direction.size):
        poison += direction[j] - direction[j]
        if upper[j] > 0.0:
            largest = max(largest, direction[j] * lp.scale[j])
    return largest + poison


@kernel(inner=True)
def _set_cost(lp, direction, unit, cost):
    for j in range(cost.size):
        cost[j] = max(direction[j] * lp.scale[j] / unit, -_LARGEST_LOSS)


@kernel(inner=True)
def _slack_basis(work, m, n):
    """The basis of all slacks, x = 0."""
    for v in range(n + m):
        work.places[PLACE, v] = 0
        work.variables[SIGN, v] = 0.0
        work.variables[BOUND, v] = math.inf
        work.variables[VALUE, v] = 0.0
    state = work.state
    state[RANK] = state[UPDATES] = state[STALE_INVERSE] = state[STALE_COSTS] = state[EXACT] = 0
    state[STALE_VALUES] = 1


@kernel(inner=True)
def _set_bounds(lp, work, upper):
    """Takes over the bounds: 0 if none changed, 1 if the values stay, 2 if a nonbasic column moved."""
    bound, sign, place = work.variables[BOUND], work.variables[SIGN], work.places[PLACE]
    changed = 0
    for j in range(upper.size):
        limit = upper[j] / lp.scale[j] if lp.scale[j] > 0.0 else 0.0
        if limit != bound[j]:
            changed = max(changed, 2 if sign[j] < 0.0 else 1)
            bound[j] = limit
            if limit <= 0.0:
                sign[j] = 0.0
            elif sign[j] == 0.0 and place[j] == 0:
                sign[j] = 1.0
    return changed


@kernel(inner=True)
def _choose_sides(work, n):
    """Puts each nonbasic column at the bound its reduced cost asks for; whether one moved."""
    sign, d = work.variables[SIGN], work.variables[D]
    moved = False
    for j in range(n):
        if sign[j] * d[j] > 0.0:
            sign[j] = -sign[j]
            moved = True
    return moved


@kernel(inner=True)
def _begin(work, phase):
    work.state[PHASE] = phase
    work.state[STALE_COSTS] = 1
    weight = work.variables[WEIGHT]
    for v in range(weight.size):
        weight[v] = 1.0


@kernel(inner=True)
def _restart(lp, work, upper):
    """From the slacks by the primal simplex, whatever happened before."""
    m, n = lp.A.shape
    _slack_basis(work, m, n)
    _set_bounds(lp, work, upper)
    work.state[PHASE] = CHECK


@kernel(inner=True)
def _enter(lp, work, direction, unit, upper):
    """Brings the state of the last call in line with the new cost and bounds."""
    m, n = lp.A.shape
    state = work.state
    phase = state[PHASE]
    state[TROUBLES] = 0
    if phase in (FRESH, READY):
        state[SPENT] = state[COLD] = 0
    if phase == FRESH:
        _restart(lp, work, upper)
        if m + n >= _DUAL_FROM:
            _set_cost(lp, direction, unit, work.columns[COST])
            _begin(work, DUAL)
    else:
        changed = _set_bounds(lp, work, upper)
        if changed > 0 and phase != READY:
            _restart(lp, work, upper)
        elif phase != DUAL:
            state[PHASE] = CHECK
            state[STALE_VALUES] = max(state[STALE_VALUES], changed == 2)


@kernel(inner=True)
def _refresh(lp, work):
    """Computes what is stale; False if the residuals are too large."""
    state = work.state
    residual = 0.0
    if state[STALE_INVERSE] != 0:
        state[STALE_INVERSE] = 0
        state[STALE_VALUES] = state[STALE_COSTS] = 1
        if not _refactor(lp, work):
            return False
    if state[STALE_COSTS] != 0:
        state[STALE_COSTS] = 0
        residual = _reduced_costs(lp, work, work.columns[COST], work.variables[D])
        if state[PHASE] == DUAL and _choose_sides(work, lp.A.shape[1]):
            state[STALE_VALUES] = 1
    if state[STALE_VALUES] != 0:
        state[STALE_VALUES] = 0
        residual = max(residual, _values(lp, work))
    return residual <= _RESIDUAL


@kernel(inner=True)
def _apply_dual(lp, work, entering, leaving, step):
    """Moves the entering variable by ``step``, exchanges it for the leaving one; False for an unreliable pivot."""
    state, value, sign = work.state, work.variables[VALUE], work.variables[SIGN]
    add_scaled(value, step, work.variables[DELTA])
    state[EXACT] = 0
    state[PIVOTS] += 1
    state[SPENT] += 1
    pivot = -work.variables[DELTA, leaving]
    if abs(work.variables[ALPHA, entering] - pivot) > 1e-7 * (1.0 + abs(pivot)):
        return False
    value[entering] += step
    _update_steepest_edge(work, entering, leaving, pivot)
    _update_reduced_costs(work, entering, leaving, pivot)
    _leave(work, leaving, value[leaving] > 0.5 * work.variables[BOUND, leaving])
    sign[entering] = 0.0
    r, n = state[RANK], lp.A.shape[1]
    state[RANK] = _exchange(
        work.W, work.basis[TIGHT], work.basis[BASIC], work.places[PLACE], r, n, work.working[COEF], work.working[Z],
        entering, leaving, pivot,
    )  # fmt: skip
    state[UPDATES] += 1
    if state[UPDATES] > 100 + state[RANK]:
        state[STALE_INVERSE] = 1
    return True


@kernel(inner=True)
def _recover(lp, work, upper):
    """After trouble: a fresh inverse first, then a restart; False when both were tried."""
    state = work.state
    state[TROUBLES] += 1
    if state[TROUBLES] == 1:
        state[STALE_INVERSE] = 1
        state[PHASE] = CHECK
    elif state[TROUBLES] == 2:
        _restart(lp, work, upper)
    else:
        state[PHASE] = FRESH
    return state[PHASE] != FRESH


@kernel(inner=True)
def _iterate(lp, work, direction, unit, upper, left):
    """Pivots, at most ``left``, or a change of phase: (no trouble, pivots left)."""
    m, n = lp.A.shape
    state, variables = work.state, work.variables
    if state[PHASE] == CHECK:
        # The costs are not needed to know the values.
        state[STALE_COSTS] = 0
        if not _refresh(lp, work):
            return False, left
        if _infeasibility(work) > _PRIMAL_TOL:
            _begin(work, DUAL)
        else:
            _set_cost(lp, direction, unit, work.columns[COST])
            _begin(work, PRIMAL)
    many = _COLD_PIVOTS * min(m, n) + 20
    crowded = state[PHASE] == PRIMAL and state[STALE_COSTS] != 0 and state[COLD] == 0 and m + n > many
    if not _refresh(lp, work):
        return False, left
    if crowded and _n_improving(work) > many:
        state[COLD] = 1
        _slack_basis(work, m, n)
        _set_bounds(lp, work, upper)
        _begin(work, DUAL)
        return True, left
    if state[PHASE] == DUAL:
        entering, leaving, step = _dual_pivot(lp, work)
        if leaving < 0:
            _set_cost(lp, direction, unit, work.columns[COST])
            _begin(work, PRIMAL)
            return True, left
        return entering >= 0 and _apply_dual(lp, work, entering, leaving, step), left - 1
    outcome, left = _primal_pivots(
        lp.A, lp.AT, work.W, work.basis[TIGHT], work.basis[BASIC], work.places[PLACE], variables[VALUE],
        variables[BOUND], variables[SIGN], variables[D], variables[WEIGHT], variables[ALPHA], variables[DELTA],
        work.working[COEF], work.working[Z], work.rows[0], state, left,
    )  # fmt: skip
    if outcome == OPTIMAL:
        if state[EXACT] == 1:
            state[PHASE] = READY
            return _infeasibility(work) <= _PRIMAL_TOL, left
        state[EXACT] = state[STALE_VALUES] = state[STALE_COSTS] = 1
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
    m, n = lp.A.shape
    state = work.state
    state[TRACKED] = 0
    unit = _largest_gain(lp, direction, upper)
    if not 0.0 < unit < math.inf:
        # Nothing to gain at 0; no answer to a direction that is not finite.
        work.unit[0] = 0.0
        for j in range(n):
            v[j] = 0.0 if unit == 0.0 else math.nan
        return OK
    _enter(lp, work, direction, unit, upper)
    left = max(20, int(_WORK_PER_CALL / ((m + 1.0) * n)))
    most = 50 * (m + n) + 1000
    while state[PHASE] != READY:
        if left <= 0:
            return PAUSED
        allowed = min(left, most + 1 - state[SPENT])
        reliable, unused = _iterate(lp, work, direction, unit, upper, allowed)
        left -= allowed - unused
        if not (reliable and state[SPENT] <= most) and not _recover(lp, work, upper):
            return NEEDS_SOLVER
    work.unit[0] = unit
    for j in range(n):
        v[j] = min(max(work.variables[VALUE, j], 0.0), work.variables[BOUND, j]) * lp.scale[j]
    return OK


# ---- event-driven steps: the cost moves along a line while the basis stays


@kernel
def simplex_track(lp, work, rate):
    """Prepares `simplex_follow` for costs that move along ``rate``, from the cost of the last call."""
    n = lp.A.shape[1]
    state = work.state
    state[TRACKED] = 0
    if state[PHASE] != READY or work.unit[0] <= 0.0:
        return False
    moving, cost_rate = work.columns[MOVING], work.columns[COST_RATE]
    for j in range(n):
        moving[j] = work.columns[COST, j]
        cost_rate[j] = rate[j] * lp.scale[j] / work.unit[0]
    _reduced_costs(lp, work, cost_rate, work.variables[D_RATE])
    state[TRACKED] = 1
    state[FOLLOWED] = 0
    return True


@kernel(reductions=True, inner=True)
def _move_costs(moving, rate, bound, decay, gamma):
    """moving = decay * moving + gamma * rate; its largest entry among the columns that can be positive."""
    largest = 0.0
    for j in range(moving.size):
        moving[j] = decay * moving[j] + gamma * rate[j]
        largest = max(largest, moving[j] if bound[j] > 0.0 else 0.0)
    return largest


@kernel(reductions=True, inner=True)
def _move_reduced_costs(d, d_rate, sign, decay, gamma):
    """d = decay * d + gamma * d_rate; the largest gain of a nonbasic variable."""
    worst = 0.0
    for v in range(d.size):
        d[v] = decay * d[v] + gamma * d_rate[v]
        worst = max(worst, sign[v] * d[v])
    return worst


@kernel
def simplex_follow(lp, work, decay, gamma, upper, v):
    """Whether v stays optimal when the cost becomes decay * cost + gamma * rate and the bounds ``upper``."""
    state = work.state
    if state[TRACKED] == 0:
        return False
    state[FOLLOWED] += 1
    if state[FOLLOWED] > _FOLLOWS:
        return False
    largest = _move_costs(work.columns[MOVING], work.columns[COST_RATE], work.variables[BOUND], decay, gamma)
    worst = _move_reduced_costs(work.variables[D], work.variables[D_RATE], work.variables[SIGN], decay, gamma)
    if worst > _DUAL_TOL * largest or largest <= 0.0:
        return False
    sign = work.variables[SIGN]
    for j in range(v.size):
        if v[j] > upper[j] or (sign[j] < 0.0 and v[j] < upper[j]):
            return False
    return True


@kernel
def simplex_load(lp, work, columns, rows, direction, upper):
    """Takes over an optimal basis for ``direction`` and ``upper``; False (and a fresh start) if it is unusable.

    Parameters
    ----------
    columns, rows : int8 arrays, shapes (n,) and (m,)
        0 at the lower bound, 1 basic, 2 at the upper bound.
    """
    m, n = lp.A.shape
    state = work.state
    state[PHASE] = FRESH
    state[TRACKED] = 0
    unit = _largest_gain(lp, direction, upper)
    if not unit > 0.0 or unit == math.inf:
        return False
    _slack_basis(work, m, n)
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
            work.basis[TIGHT, n_rows] = i
            n_rows += 1
            work.variables[SIGN][n + i] = 1.0
    for j in range(n):
        if columns[j] == 1:
            work.basis[BASIC, n_columns] = j
            n_columns += 1
            work.places[PLACE, j] = n_columns
    state[RANK] = n_columns
    _set_bounds(lp, work, upper)
    for j in range(n):
        if columns[j] == 2 and work.variables[SIGN, j] > 0.0:
            work.variables[SIGN, j] = -1.0
    if not _refactor(lp, work) or _values(lp, work) > _RESIDUAL or _infeasibility(work) > _LOADED_TOL:
        return False
    _set_cost(lp, direction, unit, work.columns[COST])
    work.unit[0] = unit
    if _reduced_costs(lp, work, work.columns[COST], work.variables[D]) > _RESIDUAL:
        return False
    state[EXACT] = 1
    state[STALE_VALUES] = state[STALE_COSTS] = 0
    state[PHASE] = READY
    return True
