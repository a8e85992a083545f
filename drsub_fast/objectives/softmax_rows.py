"""Softmax extensions: rows that are held from step to step, and the log of what moves them (see `softmax`)."""

import math

import numpy as np

from drsub_fast.engine.heap import push, sift_down
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import gemm, potrf, syrk, trsm
from drsub_fast.engine.vector import add_scaled, assign
from drsub_fast.objectives.softmax_elimination import (
    APPLIED,
    BASE,
    CURRENT,
    HELD,
    LOGGED,
    NARROW,
    eliminate,
    evaluate_anew,
    held_width,
    plan_move,
    publish_gradient,
)
from drsub_fast.objectives.softmax_sweep import LEAST_PIVOT, MOST_PIVOT, is_extreme, is_large, resweep

#: Least and most rows of the log; n / 4 in between. A long log pays where P does not fit into the cache.
LEAST_LOG, _MOST_LOG = 64, 128

#: Times the log is applied between two looks at the residual of a row of P, and the residual that asks for a fresh
#: start.
_WATCH_EVERY = 8
_DRIFT = 1e-12
_AT_ONCE = 32

#: By how much, relatively, a value that was tracked may miss the one from scratch.
_AGREEMENT = 1e-11

#: Multiplications from which a product is left to BLAS (n = 16, 8 rows: 0.40 us there, 0.52 us by loops).
_BLAS_FROM = 1500

#: Rows up to which BLAS would spend most of its time on packing the other factor.
_FEW_ROWS = 10


@kernel(reductions=True, noalias=True, wide=True)
def _subtract_four(row, c0, c1, c2, c3, b0, b1, b2, b3):
    for j in range(row.size):
        row[j] -= c0 * b0[j] + c1 * b1[j] + c2 * b2[j] + c3 * b3[j]


@kernel
def _subtract_product(A, B, k, C, start, stop, first, last):
    """C[start:stop, first:last] -= A[:k, start:stop]' B[:k, first:last]."""
    if stop - start > _FEW_ROWS and (stop - start) * (last - first) * k >= _BLAS_FROM:
        gemm(-1.0, A[:, start:], stop - start, B[:, first:], last - first, k, C[start:, first:])
        return
    t = 0
    while t + 4 <= k:
        b0, b1, b2, b3 = B[t, first:last], B[t + 1, first:last], B[t + 2, first:last], B[t + 3, first:last]
        for r in range(start, stop):
            _subtract_four(C[r, first:last], A[t, r], A[t + 1, r], A[t + 2, r], A[t + 3, r], b0, b1, b2, b3)
        t += 4
    while t < k:
        for r in range(start, stop):
            add_scaled(C[r, first:last], -A[t, r], B[t, first:last])
        t += 1


@kernel
def _exchange_columns(A, rows, first, others, count):
    """Exchanges the columns first + q and others[q], q < count, one after the other, in the leading rows of A."""
    for r in range(rows):
        for q in range(count):
            p = others[q]
            A[r, first + q], A[r, p] = A[r, p], A[r, first + q]


@kernel
def _exchange(work, p, q):
    """Exchanges the coordinates at two positions of which no row is held."""
    order, place, diagonal = work.order, work.place, work.diagonal
    diagonal[p], diagonal[q] = diagonal[q], diagonal[p]
    order[p], order[q] = order[q], order[p]
    place[order[p]], place[order[q]] = p, q


@kernel
def hold_rows(params, work, d):
    """Appends the missing rows of P, as they were at the base, of the coordinates where d is nonzero."""
    P, order, place, others = work.P, work.order, work.place, work.moved
    n = d.size
    known = count = work.state[HELD]
    for i in range(n):
        p = place[i]
        if p >= count and d[i] != 0.0:
            others[count - known] = p
            _exchange(work, p, count)
            count += 1
    if work.state[NARROW]:
        _hold_square(params, work, count)
        return
    _exchange_columns(P, known, known, others, count - known)
    _exchange_columns(work.U, work.state[LOGGED], known, others, count - known)
    support = work.state[BASE]
    for r in range(known, count):
        row = params.D[order[r]]
        for p in range(n):
            P[r, p] = row[order[p]]
        for a in range(support):
            work.scratch[a, r] = P[r, a] * work.base[a]
        work.base[r] = 0.0
    for a in range(known):
        for r in range(known, count):
            P[r, a] = P[a, r]
    _subtract_product(work.scratch, P, support, P, known, count, known, n)
    work.state[HELD] = count


@kernel
def _add_likely(work, count, most):
    """Moves the positions of the largest bounds up to ``count``, until there are ``most``; returns their number.

    They will be asked for soon, and many rows at once are cheaper.
    """
    order, diagonal, likely = work.order, work.diagonal, work.moved
    free, size = most - count, 0
    for p in range(count, diagonal.size):
        if size < free and diagonal[p] > 0.0:
            push(likely, size, diagonal, p)
            size += 1
        elif size > 0 and diagonal[p] > diagonal[likely[0]]:
            likely[0] = p
            sift_down(likely, 0, size, diagonal)
    for i in range(size):
        likely[i] = order[likely[i]]
    for i in range(size):
        _exchange(work, work.place[likely[i]], count + i)
    return count + size


@kernel(memory=True)
def _hold_square(params, work, count):
    """Holds the rows of P at the positions up to ``count``, and of likely ones, where rows end with what is held.

    Columns of the log and the diagonal follow; both are then those of the present x.
    """
    P, U, scratch, order, diagonal, weight = work.P, work.U, work.scratch, work.order, work.diagonal, work.weight
    known, support, logged = work.state[HELD], work.state[BASE], work.state[LOGGED]
    if count == known:
        return
    count = _add_likely(work, count, min(known + _AT_ONCE, diagonal.size))
    new = count - known
    rows = P[known:]
    for r in range(new):
        row = params.D[order[known + r]]
        for p in range(count):
            rows[r, p] = row[order[p]]
        work.base[known + r] = 0.0
    scaled = scratch.reshape(-1)[: support * new].reshape(support, new)
    for a in range(support):
        for r in range(new):
            scaled[a, r] = rows[r, a] * work.base[a]
    _subtract_product(scaled, P, support, rows, 0, new, 0, known)
    for a in range(known):
        for r in range(new):
            P[a, known + r] = rows[r, a]
    _subtract_product(scaled, P, support, rows, 0, new, known, count)
    work.state[HELD] = count
    positions = work.moved
    for t in range(logged):
        positions[t] = work.place[work.items[t]]
        assign(U[t, known:count], P[positions[t], known:count])
    for b in range(logged):
        for t in range(b + 1, logged):
            scratch[t, b] = weight[b] * U[b, positions[t]]
        scratch[b, b] = 1.0
    trsm(scratch, logged, U[:, known:], count - known)
    for r in range(known, count):
        diagonal[r] = P[r, r]
    for t in range(logged):
        for r in range(known, count):
            diagonal[r] -= weight[t] * U[t, r] * U[t, r]


@kernel(noalias=True)
def _transpose_four(e, f, g, h, start, a, b, c, d, p):
    """Copies a block of four columns, from ``start`` on, to a block of four rows, from place p on."""
    a[p], a[p + 1], a[p + 2], a[p + 3] = e[start], f[start], g[start], h[start]
    b[p], b[p + 1], b[p + 2], b[p + 3] = e[start + 1], f[start + 1], g[start + 1], h[start + 1]
    c[p], c[p + 1], c[p + 2], c[p + 3] = e[start + 2], f[start + 2], g[start + 2], h[start + 2]
    d[p], d[p + 1], d[p + 2], d[p + 3] = e[start + 3], f[start + 3], g[start + 3], h[start + 3]


@kernel
def _mirror(P, n):
    """Copies the upper triangle of P[:n, :n] to the lower one."""
    for start in range(0, n, 4):
        known = 0
        if start + 4 <= n:
            a, b, c, d = P[start], P[start + 1], P[start + 2], P[start + 3]
            for p in range(0, start, 4):
                _transpose_four(P[p], P[p + 1], P[p + 2], P[p + 3], start, a, b, c, d, p)
            known = start
        for r in range(start, min(n, start + 4)):
            for p in range(known, r):
                P[r, p] = P[p, r]


@kernel
def _scale(row, factor):
    for p in range(row.size):
        row[p] *= factor


@kernel(memory=True)
def _sweep_held(work, x):
    """Makes x the base by moves of all that changed, whose quotients keep the digits that the log has not."""
    count = work.state[HELD]
    delta, unused = work.trial[:count], work.scratch[0]
    for r in range(count):
        i = work.order[r]
        delta[r] = x[i] - work.base[r]
        work.base[r] = x[i]
    resweep(work.P[:count], delta, work.limit[:count], unused)
    for r in range(count):
        work.diagonal[r] = work.P[r, r]
    work.state[BASE] = count
    work.state[LOGGED] = 0


@kernel
def apply_log(params, work, x):
    """Makes x the base: holds its support, and P -= sum of w_a u_a u_a' over the log, on the rows that are held."""
    hold_rows(params, work, x)
    if is_large(params.own):
        _sweep_held(work, x)
        return
    P, U, weight = work.P, work.U, work.weight
    count, logged = work.state[HELD], work.state[LOGGED]
    width = held_width(work)
    for t in range(logged):
        _scale(U[t, :width], math.sqrt(abs(weight[t])))
    start = 0
    while start < logged:
        stop = start + 1
        while stop < logged and (weight[stop] > 0.0) == (weight[start] > 0.0):
            stop += 1
        rows, sign = U[start:], math.copysign(1.0, weight[start])
        syrk(-sign, rows, count, stop - start, P)
        if count < width:
            gemm(-sign, rows, count, rows[:, count:], width - count, stop - start, P[:, count:])
        start = stop
    _mirror(P, count)
    for r in range(count):
        work.base[r] = x[work.order[r]]
    work.state[BASE] = count
    work.state[LOGGED] = 0


@kernel(reductions=True)
def _residual(params, work, r):
    """Largest entry of D_i - P_i,A X_A D_A - P_i for the held row r, relative to the entries of both, at the base."""
    D, order, residual = params.D, work.order, work.trial
    row = work.P[r, : held_width(work)]
    assign(residual, D[order[r]])
    scale = 1.0
    for p in range(work.state[BASE]):
        add_scaled(residual, -row[p] * work.base[p], D[order[p]])
    worst = 0.0
    for p in range(row.size):
        scale = max(scale, abs(D[order[r], order[p]]), abs(row[p]))
        worst = max(worst, abs(residual[order[p]] - row[p]))
    return worst / scale


@kernel
def _pays_to_update(work, x, v):
    """Whether a step along v is cheaper by the log than by a value from scratch after it.

    With s coordinates moved and k in the new support: s (s/2 + k) against k^2/2 (times n). A stale state costs
    1.5 k^2 once, which the steps to come repay.
    """
    s = k = 0
    for j in range(x.size):
        s += v[j] != 0.0
        k += (v[j] != 0.0) | (x[j] != 0.0)
    return s * (0.5 * s + k) + (0.0 if work.state[CURRENT] else 0.2 * k * k) <= 0.5 * k * k


@kernel
def _keep_log_short(params, work, x, v):
    """Applies the log if a move along v does not fit, and looks at its accuracy now and then; whether all is well."""
    rows = work.state[LOGGED]
    for j in range(v.size):
        rows += v[j] != 0.0
    if rows <= min(x.size, max(LEAST_LOG, min(x.size // 4, _MOST_LOG))):
        return True
    apply_log(params, work, x)
    work.state[APPLIED] += 1
    if work.state[APPLIED] % _WATCH_EVERY != 0 or work.state[HELD] == 0:
        return True
    watched = (work.state[APPLIED] // _WATCH_EVERY) % work.state[HELD]
    return _residual(params, work, watched) < _DRIFT


@kernel
def _move(params, work, x, v, gamma):
    """Change of f and of the state by a step along v; NaN if the state does not allow it.

    A move gives way to a value from scratch where pivots since the base are beyond `MOST_PIVOT` or `LEAST_PIVOT`.
    """
    if not _keep_log_short(params, work, x, v):
        return np.nan
    hold_rows(params, work, v)
    s = plan_move(work, v, gamma)
    logged = work.state[LOGGED]
    for a in range(s):
        r = work.moved[a]
        i = work.items[logged + a] = work.order[r]
        if (x[i] + work.delta[a] - work.base[r]) * work.P[r, r] > MOST_PIVOT:
            return np.nan
    change = eliminate(work, work.P, held_width(work), logged, s, LEAST_PIVOT)
    work.state[LOGGED] = logged + s
    return change


@kernel
def move_and_evaluate(params, work, x, v, gamma, value, narrow):
    if narrow and is_large(params.own):  # narrow rows come by differences of entries of D
        narrow = 0
    change = np.nan
    if _pays_to_update(work, x, v):
        if work.state[CURRENT] == 0 or work.state[NARROW] > narrow:
            value = evaluate_anew(params, work, x)
        if math.isfinite(value):
            if work.state[NARROW] < narrow:
                apply_log(params, work, x)
                work.state[NARROW] = 1
            change = _move(params, work, x, v, gamma)
    add_scaled(x, gamma, v)
    if not math.isfinite(change):
        return evaluate_anew(params, work, x)
    publish_gradient(work)
    return value + change


@kernel
def _value_by_cholesky(params, work, x):
    """log det (I + X^(1/2) D X^(1/2)) by its Cholesky factor on the support of x; NaN if there is none."""
    S, support, root = work.scratch, work.moved, work.trial
    count = 0
    for j in range(x.size):
        if x[j] != 0.0:
            support[count] = j
            root[count] = math.sqrt(x[j])
            count += 1
    for a in range(count):
        row = params.D[support[a]]
        for b in range(a):
            S[a, b] = root[a] * root[b] * row[support[b]]
        S[a, a] = 1.0 + x[support[a]] * row[support[a]]
    if potrf(S, count) != 0:
        return np.nan
    value = 0.0
    for a in range(count):
        value += 2.0 * math.log(S[a, a])
    return value


@kernel
def refresh_entries(params, work, v):
    """Holds the rows where v is nonzero; whether an entry of the gradient there was less than its bound."""
    saved, fell = work.saved, 0
    assign(saved, work.grad)
    hold_rows(params, work, v)
    publish_gradient(work)
    for j in range(v.size):
        fell += (v[j] != 0.0) & (work.grad[j] < saved[j])
    return fell > 0


@kernel
def value_at_end(params, work, x, value):
    if work.state[CURRENT] == 1 and work.state[NARROW] == 1 and not is_extreme(x, params.own):
        anew = _value_by_cholesky(params, work, x)
        if abs(anew - value) <= _AGREEMENT * (1.0 + abs(anew)):
            return anew
    return evaluate_anew(params, work, x)
