"""Softmax extension of a determinantal point process: f(x) = log det(diag(x) (L - I) + I), L psd.

Source: Gillenwater, Kulesza, Taskar 2012; Bian et al. 2017. With D = L - I, X = diag(x) and
P = D (I + X D)^-1, which is symmetric,

    grad = diag P,   Hessian_ij = -P_ij^2,

and moving the one coordinate i by delta changes, with u = P_i,: and w = delta / (1 + delta u_i),

    f += log(1 + delta u_i),   grad -= w u^2,   P -= w u u'.

A move of several coordinates V eliminates them one after the other, u_a = P_a,: - sum_{b<a} w_b u_b[a] u_b, and
then P -= sum w_a u_a u_a'. At x = 0 it is P = D and f = 0, so a value from scratch is the move from 0 to x
(an L D L' factorisation of I + X^(1/2) D X^(1/2)). On [0, 1]^n no pivot 1 + delta u_i is negative, and one that is
zero means f = -inf.

Of P only rows are held, and of the support A of x at least, as they were at an earlier point, the base; the moves
since then wait in a log of rows u_a. A move asks for the rows of its own coordinates alone, P_V,: at the base minus
the log. From time to time the log is applied to all held rows by one matrix product, to one triangle of P_AA only. A
new row is P_i,: = D_i,: - D_i,A X_A P_A,: with x and P at the base. A move costs O(n |V| |A|), not O(n^3). A value
from scratch is such a log by itself, with the base 0.

Along a run of increases (moves with delta >= 0, which lower the gradient everywhere) only the columns of coordinates
that are held as rows are kept up to date too. The gradient of the others stays behind as an upper bound until an oracle
asks for it; then their rows are made, some more than asked for at a time, as they are at the present point. With h of n
rows held, an application of the log costs h^2 per row, not h (2 n - h), and most coordinates that have no chance are
never looked at.

Outside [0, 1]^n pivots may vanish or change sign: there P comes from an LU factorisation of I + X D.

Low rank, L = B B' with B n x k: with the gaps g = 1 - x, T = I + B' diag(x / g) B = C C' and H = C^-1 B',

    f = sum log g + log det T,   P_ij = (h_i'h_j - g_i [i = j]) / (g_i g_j),

in O(n k^2). Coordinates near 1, where this loses its digits, are set to 0 first and then moved to x_i as above.
"""

import math
from collections import namedtuple
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast import _checks
from drsub_fast._kinds import FLAG, LARGEST, OBJECTIVES, array, register_kind, symmetric, within
from drsub_fast.engine.heap import push, sift_down
from drsub_fast.engine.jit import kernel, separate
from drsub_fast.engine.lapack import gemm, gesv, potrf, syrk, trsm
from drsub_fast.engine.stack import row_of
from drsub_fast.engine.vector import add_scaled, assign, is_finite, slope
from drsub_fast.objectives.base import Objective, derivative_along, register_objective
from drsub_fast.objectives.similarity import FeatureKernel, as_features

#: D = L - I.
SoftmaxParams = namedtuple("SoftmaxParams", "D")

#: Coordinates are numbered by position here: ``order[p]`` is the coordinate at position p, ``place`` its inverse. Row
#: r of ``P`` is that of position r at the base, where its coordinate was ``base[r]``. The rows u_a of ``U`` with the
#: ``weight`` w_a are the log, ``diagonal`` is diag P at the present x; a move changes the positions ``moved`` by
#: ``delta``, and ``source`` says where their rows come from (here: the same). Four are eliminated at a time, with the
#: ``pivots``, each to be above its ``limit``, so these arrays have three places more. ``value`` is an answer.
SoftmaxWork = namedtuple(
    "SoftmaxWork",
    "grad P U scratch weight diagonal base delta limit trial saved pivots value order place moved source items state",
)

# Slots of ``work.state``: rows held, how many of them the base may have above 0, rows of the log, whether all this
# belongs to the present x, times the log was applied, whether only the columns that are held as rows are kept.
_HELD, _BASE, _LOGGED, _CURRENT, _APPLIED, _NARROW = range(6)

# What `_machine` is asked for: evaluate, advance, the rows of P of given coordinates, increase, settle, conclude.
_EVALUATE, _ADVANCE, _HOLD, _INCREASE, _SETTLE, _CONCLUDE = range(6)

#: A pivot below this multiple of the number of coordinates is rounding noise: the matrix is singular.
_NOISE = 4.0 * np.finfo(np.float64).eps
#: A move that meets a pivot below this one gives way to a value from scratch.
_LEAST_PIVOT = 1e-8
#: Least and most rows of the log; n / 4 in between. A long log pays where P does not fit into the cache.
_LEAST_LOG, _MOST_LOG = 64, 128
#: Times the log is applied between two looks at the residual of a row of P, and the residual that asks for a fresh
#: start.
_WATCH_EVERY = 8
_DRIFT = 1e-12
#: Pieces of the segment searched for a peak each, along directions of mixed signs.
_PIECES = 8
#: Rows from which a long log is subtracted by one product (n = 256: 0.60 ms; blocks of 16 0.66, of 64 0.82).
_BLOCK = 32
#: Coordinates from which on increases leave bounds (time without them to that with them: n = 64 0.98, 128 1.02,
#: 256 1.12, 512 1.28, 1024 1.45), and rows made at once (n = 1024: 16 at once 23 ms of a run, 32 17, 64 19).
_NARROW_FROM = 100
_AT_ONCE = 32
#: By how much, relatively, a value that was tracked may miss the one from scratch.
_AGREEMENT = 1e-11
#: A factor (n, k) is used as it is from this n and this ratio n / k on, else L = B B' is formed. Value and
#: gradient at n = 32, k = 8: 2.0 us against 5.0 us by L; n = 64, k = 16: 5.7 against 15 us.
_LOW_RANK_FROM = 32
_LOW_RANK_RATIO = 4
#: What to do with a matrix that is no kernel.
_CLOSEST = "drsub_fast.nearest_psd(L) is the closest kernel"
#: Multiplications from which a product is left to BLAS (n = 16, 8 rows: 0.40 us there, 0.52 us by loops).
_BLAS_FROM = 1500
#: Rows up to which BLAS would spend most of its time on packing the other factor.
_FEW_ROWS = 10
#: Entries of the log from which it is subtracted by BLAS (24 rows: n = 128 with a log of 64 13 us by loops, 16 us
#: there; n = 512 78 and 55 us).
_BLAS_FROM_LOG = 8000


@kernel
def _size(params):
    n = params.D.shape[0]
    return 3 * n * n + 11 * n + 14, 4 * n + 12


@kernel(memory=True)
def _carve(params, floats, integers):
    n = params.D.shape[0]
    square = n * n
    log = 2 * square + (n + 3) * n
    vectors = floats[log:]
    moved = integers[2 * n : 3 * n + 3]
    return SoftmaxWork(
        vectors[:n],
        floats[:square].reshape(n, n),
        floats[2 * square : log].reshape(n + 3, n),
        floats[square : 2 * square].reshape(n, n),
        vectors[n : 2 * n + 3],
        vectors[2 * n + 3 : 3 * n + 3],
        vectors[3 * n + 3 : 4 * n + 3],
        vectors[4 * n + 3 : 5 * n + 6],
        vectors[5 * n + 6 : 6 * n + 9],
        vectors[6 * n + 9 : 7 * n + 9],
        vectors[7 * n + 9 : 8 * n + 9],
        vectors[8 * n + 9 : 8 * n + 13],
        vectors[8 * n + 13 :],
        integers[:n],
        integers[n : 2 * n],
        moved,
        moved,
        integers[3 * n + 3 : 4 * n + 6],
        integers[4 * n + 6 :],
    )


@kernel(reductions=True, apart=True, wide=True)
def _subtract_log(a, b, c, d, width, U, weight, moved, first, stop):
    """Subtracts sum w_t U[t, i] U[t] from four rows, one i in ``moved`` each; t goes from ``first`` to ``stop``."""
    i, j, k, m = moved[0], moved[1], moved[2], moved[3]
    t = first
    while t + 4 <= stop:
        e, f, g, h = U[t], U[t + 1], U[t + 2], U[t + 3]
        we, wf, wg, wh = weight[t], weight[t + 1], weight[t + 2], weight[t + 3]
        ae, af, ag, ah = we * e[i], wf * f[i], wg * g[i], wh * h[i]
        be, bf, bg, bh = we * e[j], wf * f[j], wg * g[j], wh * h[j]
        ce, cf, cg, ch = we * e[k], wf * f[k], wg * g[k], wh * h[k]
        de, df, dg, dh = we * e[m], wf * f[m], wg * g[m], wh * h[m]
        for p in range(width):
            a[p] -= ae * e[p] + af * f[p] + ag * g[p] + ah * h[p]
            b[p] -= be * e[p] + bf * f[p] + bg * g[p] + bh * h[p]
            c[p] -= ce * e[p] + cf * f[p] + cg * g[p] + ch * h[p]
            d[p] -= de * e[p] + df * f[p] + dg * g[p] + dh * h[p]
        t += 4
    while t < stop:
        e, we = U[t], weight[t]
        ae, be, ce, de = we * e[i], we * e[j], we * e[k], we * e[m]
        for p in range(width):
            a[p] -= ae * e[p]
            b[p] -= be * e[p]
            c[p] -= ce * e[p]
            d[p] -= de * e[p]
        t += 1


@kernel(apart=True, wide=True)
def _copy_four(a, b, c, d, e, f, g, h, width):
    for p in range(width):
        a[p], b[p], c[p], d[p] = e[p], f[p], g[p], h[p]


@kernel
def _share(delta, pivot):
    """delta / pivot; 0 where the pivot is 0, which the caller refuses."""
    return delta / pivot if pivot != 0.0 else 0.0


@kernel
def _two_pivots(a, b, c, alpha, gamma):
    """Pivots and weights of the moves alpha, gamma of two coordinates whose block of P is (a, b; b, c).

    The second pivot is det / first with the determinant of both, so that the divisions need not wait for each other;
    that costs no digits.
    """
    first, other = 1.0 + alpha * a, 1.0 + gamma * c
    if first > 1e150 or other > 1e150:  # the determinant may be beyond the range of floats
        second = other - _share(alpha * b, first) * (gamma * b)
        return first, second, _share(alpha, first), _share(gamma, second)
    both = first * other - alpha * gamma * b * b
    return first, _share(both, first), _share(alpha, first), _share(gamma * first, both)


@kernel(reductions=True, apart=True, wide=True)
def _eliminate_four(a, b, c, d, width, diagonal, moved, delta, pivots, weight):
    """Eliminates four coordinates with the present rows a, b, c, d of P, which become rows of the log."""
    i, j, k, m = moved[0], moved[1], moved[2], moved[3]
    aj, ak, am = a[j], a[k], a[m]
    pivots[0], pivots[1], wa, wb = _two_pivots(a[i], aj, b[j], delta[0], delta[1])
    ba, ca, da = wa * aj, wa * ak, wa * am
    bk, bm = b[k] - ba * ak, b[m] - ba * am
    cb, db = wb * bk, wb * bm
    cm = c[m] - ca * am - cb * bm
    ck, dm = c[k] - ca * ak - cb * bk, d[m] - da * am - db * bm
    pivots[2], pivots[3], wc, wd = _two_pivots(ck, cm, dm, delta[2], delta[3])
    dc = wc * cm
    weight[0], weight[1], weight[2], weight[3] = wa, wb, wc, wd
    for p in range(width):
        ap = a[p]
        bp = b[p] - ba * ap
        cp = c[p] - ca * ap - cb * bp
        dp = d[p] - da * ap - db * bp - dc * cp
        diagonal[p] -= wa * ap * ap + wb * bp * bp + wc * cp * cp + wd * dp * dp
        b[p] = bp
        c[p] = cp
        d[p] = dp


@kernel(wide=True)
def _eliminate(work, rows, width, logged, s, least):
    """Eliminates ``work.moved[:s]``, whose rows of P are ``rows[work.source[a]]`` minus the first rows of the log.

    Appends to the log, updates the diagonal and returns the change of f; NaN if a pivot is not above ``least``
    (relative), and then the diagonal is useless. All rows are of ``width`` positions.
    """
    U, weight, pivots, limit = work.U, work.weight, work.pivots, work.limit
    moved, source, delta = work.moved, work.source, work.delta
    for a in range(s, s + 3):  # moves by 0 make the last ones four
        moved[a], source[a], delta[a] = moved[0], source[0], 0.0
    for a in range(s + 3):
        limit[a] = least * (1.0 + abs(delta[a] * work.diagonal[moved[a]]))
    change = 0.0
    product = 1.0
    for done in range(0, s, 4):
        start = logged + done
        if done % _BLOCK == 0:
            block = min(s - done + 3, _BLOCK) // 4 * 4
            asked = source[done:]
            for a in range(0, block, 4):
                e, f, g, h = rows[asked[a]], rows[asked[a + 1]], rows[asked[a + 2]], rows[asked[a + 3]]
                into = U[start + a :]
                _copy_four(into[0], into[1], into[2], into[3], e, f, g, h, width)
            first = 0
            if start * width >= _BLAS_FROM_LOG:
                first = start
                for t in range(start):
                    for a in range(block):
                        work.scratch[t, a] = weight[t] * U[t, moved[done + a]]
                gemm(-1.0, work.scratch, block, U, width, start, U[start:])
        a, b, c, d = U[start], U[start + 1], U[start + 2], U[start + 3]
        _subtract_log(a, b, c, d, width, U, weight, moved[done:], first, start)
        _eliminate_four(a, b, c, d, width, work.diagonal, moved[done:], delta[done:], pivots, weight[start:])
        for t in range(4):
            if not pivots[t] > limit[done + t]:
                return np.nan
            # The product keeps within 1e-150 and 1e150 and so do its factors: no overflow on the way.
            if 1e-150 < pivots[t] < 1e150:
                product *= pivots[t]
            else:
                change += math.log(pivots[t])
            if not 1e-150 < product < 1e150:
                change += math.log(product)
                product = 1.0
    return change + math.log(product)


@kernel
def _start_at_zero(params, work):
    """The state at x = 0: P = D with no row held, so that a move to x is a value from scratch."""
    if work.state[_HELD] > 0 or work.state[_CURRENT] == 0:
        for i in range(work.grad.size):
            work.order[i] = i
            work.place[i] = i
    for i in range(work.grad.size):
        work.diagonal[i] = params.D[i, i]
    work.state[_HELD] = work.state[_BASE] = work.state[_LOGGED] = work.state[_NARROW] = 0


@kernel
def _width(work):
    """Number of positions whose columns of P and of the log, and whose diagonal, are those of the present x."""
    return work.state[_HELD] if work.state[_NARROW] else work.grad.size


@kernel
def _publish_gradient(work):
    for p in range(_width(work)):
        work.grad[work.order[p]] = work.diagonal[p]


@kernel(memory=True)
def _evaluate_by_lu(params, work, x):
    """Value, gradient and all rows of P where a pivot fails: f = -inf, or x is outside [0, 1]^n.

    NaN where the determinant is negative.
    """
    D, P, M = params.D, work.P, work.scratch
    n = x.size
    _start_at_zero(params, work)
    inside = True
    for i in range(n):
        inside = inside and 0.0 <= x[i] <= 1.0
        assign(P[i], D[i])
        for j in range(n):
            M[i, j] = x[i] * D[i, j]
        M[i, i] += 1.0
    exchanges = np.empty(n, np.int32)
    if inside or not is_finite(x) or gesv(M, n, exchanges, P, n) != 0:
        for i in range(n):
            work.grad[i] = np.nan
        work.state[_CURRENT] = 0
        return -np.inf if is_finite(x) else np.nan
    value = 0.0
    negative = False
    for i in range(n):
        value += math.log(abs(M[i, i]))
        negative ^= (M[i, i] < 0.0) != (exchanges[i] != i + 1)
        work.diagonal[i] = work.grad[i] = P[i, i]
        work.base[i] = x[i]
    work.state[_HELD] = work.state[_BASE] = n
    return np.nan if negative else value


@kernel
def _plan_move(work, v, gamma):
    """Sets ``work.moved`` and ``work.delta`` to the nonzeros of gamma v; returns their number."""
    s = 0
    for j in range(v.size):  # without branches, which could not be foreseen
        work.moved[s] = work.place[j]
        work.delta[s] = gamma * v[j]
        s += v[j] != 0.0
    return s


@kernel
def _evaluate_anew(params, work, x):
    """Value at x, with the gradient and the state."""
    _start_at_zero(params, work)
    work.state[_CURRENT] = 1
    s = _plan_move(work, x, 1.0)
    value = _eliminate(work, params.D, x.size, 0, s, _NOISE * (s + 10))
    if not math.isfinite(value):
        return _evaluate_by_lu(params, work, x)
    work.state[_LOGGED] = s
    assign(work.grad, work.diagonal)
    return value


@kernel(reductions=True, apart=True, wide=True)
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
def _hold_rows(params, work, d):
    """Appends the missing rows of P, as they were at the base, of the coordinates where d is nonzero."""
    P, order, place, others = work.P, work.order, work.place, work.moved
    n = d.size
    known = count = work.state[_HELD]
    for i in range(n):
        p = place[i]
        if p >= count and d[i] != 0.0:
            others[count - known] = p
            _exchange(work, p, count)
            count += 1
    if work.state[_NARROW]:
        _hold_square(params, work, count)
        return
    _exchange_columns(P, known, known, others, count - known)
    _exchange_columns(work.U, work.state[_LOGGED], known, others, count - known)
    support = work.state[_BASE]
    for r in range(known, count):
        row = params.D[order[r]]
        for p in range(n):
            P[r, p] = row[order[p]]
        for a in range(support):
            work.scratch[a, r] = P[r, a] * work.base[a]
    for a in range(known):
        for r in range(known, count):
            P[r, a] = P[a, r]
    _subtract_product(work.scratch, P, support, P, known, count, known, n)
    work.state[_HELD] = count


@kernel
def _add_likely(work, count, most):
    """Moves the positions of the largest bounds up to ``count``, until there are ``most``; returns their number.

    They will be asked for soon, and many rows at once are cheaper.
    """
    order, diagonal, likely = work.order, work.diagonal, work.moved
    room, size = most - count, 0
    for p in range(count, diagonal.size):
        if size < room and diagonal[p] > 0.0:
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
    known, support, logged = work.state[_HELD], work.state[_BASE], work.state[_LOGGED]
    if count == known:
        return
    count = _add_likely(work, count, min(known + _AT_ONCE, diagonal.size))
    new = count - known
    rows = P[known:]
    for r in range(new):
        row = params.D[order[known + r]]
        for p in range(count):
            rows[r, p] = row[order[p]]
    scaled = scratch.reshape(-1)[: support * new].reshape(support, new)
    for a in range(support):
        for r in range(new):
            scaled[a, r] = rows[r, a] * work.base[a]
    _subtract_product(scaled, P, support, rows, 0, new, 0, known)
    for a in range(known):
        for r in range(new):
            P[a, known + r] = rows[r, a]
    _subtract_product(scaled, P, support, rows, 0, new, known, count)
    work.state[_HELD] = count
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


@kernel(apart=True)
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


@kernel
def _apply_log(params, work, x):
    """Makes x the base: holds its support, and P -= sum of w_a u_a u_a' over the log, on the rows that are held."""
    _hold_rows(params, work, x)
    P, U, weight = work.P, work.U, work.weight
    count, logged = work.state[_HELD], work.state[_LOGGED]
    width = _width(work)
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
    work.state[_BASE] = count
    work.state[_LOGGED] = 0


@kernel(reductions=True)
def _residual(params, work, r):
    """Largest entry of D_i - P_i,A X_A D_A - P_i for the held row r, relative to the entries of both, at the base."""
    D, order, residual = params.D, work.order, work.trial
    row = work.P[r, : _width(work)]
    assign(residual, D[order[r]])
    scale = 1.0
    for p in range(work.state[_BASE]):
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
    return s * (0.5 * s + k) + (0.0 if work.state[_CURRENT] else 0.2 * k * k) <= 0.5 * k * k


@kernel
def _make_room(params, work, x, v):
    """Applies the log if a move along v does not fit, and looks at its accuracy now and then; whether all is well."""
    rows = work.state[_LOGGED]
    for j in range(v.size):
        rows += v[j] != 0.0
    if rows <= min(x.size, max(_LEAST_LOG, min(x.size // 4, _MOST_LOG))):
        return True
    _apply_log(params, work, x)
    work.state[_APPLIED] += 1
    if work.state[_APPLIED] % _WATCH_EVERY != 0 or work.state[_HELD] == 0:
        return True
    watched = (work.state[_APPLIED] // _WATCH_EVERY) % work.state[_HELD]
    return _residual(params, work, watched) < _DRIFT


@kernel
def _move(params, work, x, v, gamma):
    """Change of f and of the state by a step along v; NaN if the state does not allow it."""
    if not _make_room(params, work, x, v):
        return np.nan
    _hold_rows(params, work, v)
    s = _plan_move(work, v, gamma)
    logged = work.state[_LOGGED]
    for a in range(s):
        work.items[logged + a] = work.order[work.moved[a]]
    change = _eliminate(work, work.P, _width(work), logged, s, _LEAST_PIVOT)
    work.state[_LOGGED] = logged + s
    return change


@kernel
def _move_and_evaluate(params, work, x, v, gamma, value, narrow):
    change = np.nan
    if _pays_to_update(work, x, v):
        if work.state[_CURRENT] == 0 or work.state[_NARROW] > narrow:
            value = _evaluate_anew(params, work, x)
        if math.isfinite(value):
            if work.state[_NARROW] < narrow:
                _apply_log(params, work, x)
                work.state[_NARROW] = 1
            change = _move(params, work, x, v, gamma)
    add_scaled(x, gamma, v)
    if not math.isfinite(change):
        return _evaluate_anew(params, work, x)
    _publish_gradient(work)
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
def _settle_entries(params, work, v):
    """Holds the rows where v is nonzero; whether an entry of the gradient there was less than its bound."""
    saved, fell = work.saved, 0
    assign(saved, work.grad)
    _hold_rows(params, work, v)
    _publish_gradient(work)
    for j in range(v.size):
        fell += (v[j] != 0.0) & (work.grad[j] < saved[j])
    return fell > 0


@kernel
def _conclude_or_evaluate(params, work, x, value):
    if work.state[_CURRENT] == 1 and work.state[_NARROW] == 1:
        anew = _value_by_cholesky(params, work, x)
        if abs(anew - value) <= _AGREEMENT * (1.0 + abs(anew)):
            return anew
    return _evaluate_anew(params, work, x)


def _example():
    params = SoftmaxParams(np.zeros((1, 1)))
    work = _carve.interpreted(params, *map(np.zeros, _size.interpreted(params), (float, np.int64)))
    return params, work, _EVALUATE, work.grad, work.grad, 0.0, 0.0


@separate(_example)
@kernel(wide=True)
def _machine(params, work, task, x, v, gamma, value):
    """The large kernels in one, compiled once; its answer is in ``work.value`` or returned."""
    if task == _EVALUATE:
        work.value[0] = _evaluate_anew(params, work, x)
    elif task in (_ADVANCE, _INCREASE):
        narrow = task == _INCREASE and x.size >= _NARROW_FROM
        work.value[0] = _move_and_evaluate(params, work, x, v, gamma, value, int(narrow))
    elif task == _SETTLE:
        return int(_settle_entries(params, work, v))
    elif task == _CONCLUDE:
        work.value[0] = _conclude_or_evaluate(params, work, x, value)
    else:
        if work.state[_CURRENT] == 0 or work.state[_NARROW] == 1:
            work.value[0] = _evaluate_anew(params, work, x)
        if work.state[_CURRENT] == 1:
            if work.state[_LOGGED] > 0:
                _apply_log(params, work, x)
            _hold_rows(params, work, v)
    return work.state[_CURRENT]


@kernel
def _evaluate(params, work, x):
    _machine(params, work, _EVALUATE, x, x, 0.0, 0.0)
    return float(work.value[0])


@kernel
def _advance(params, work, x, v, gamma, value):
    _machine(params, work, _ADVANCE, x, v, float(gamma), float(value))
    return float(work.value[0])


@kernel
def _increase(params, work, x, v, gamma, value):
    _machine(params, work, _INCREASE, x, v, float(gamma), float(value))
    return float(work.value[0])


@kernel
def _settle(params, work, x, v):
    if work.state[_NARROW] == 0:
        return False
    n_bounds = 0
    for j in range(v.size):
        n_bounds += (v[j] != 0.0) & (work.place[j] >= work.state[_HELD])
    return n_bounds > 0 and _machine(params, work, _SETTLE, x, v, 0.0, 0.0) != 0


@kernel
def _conclude(params, work, x, value):
    _machine(params, work, _CONCLUDE, x, x, 0.0, float(value))
    return float(work.value[0])


@kernel
def _hessian_product(params, work, x, d, out):
    # Rows of the coordinates where d is nonzero are enough: P is symmetric.
    if _machine(params, work, _HOLD, x, d, 0.0, 0.0) == 0:
        for j in range(d.size):
            out[j] = np.nan
        return 1
    squares, order = work.trial, work.order
    for p in range(d.size):
        squares[p] = 0.0
    for r in range(work.state[_HELD]):
        scale = d[order[r]]
        if scale != 0.0:
            row = work.P[r]
            for p in range(d.size):
                squares[p] -= scale * row[p] * row[p]
    for p in range(d.size):
        out[order[p]] = squares[p]
    return 1


@kernel
def _coordinate_maximum(params, work, x, i, upper):
    # exp f is affine in x_i.
    return upper if work.grad[i] >= 0.0 else 0.0


@kernel
def _cubic_peak(low, value_low, slope_low, high, value_high, slope_high):
    """Maximiser of the cubic through two values and slopes, kept off the ends of the bracket."""
    width = high - low
    middle = 0.5 * (low + high)
    if not (math.isfinite(value_high) and math.isfinite(slope_high)):
        return middle
    bend = slope_low + slope_high - 3.0 * (value_high - value_low) / width
    square = bend * bend - slope_low * slope_high
    if not square >= 0.0:
        return middle
    root = math.sqrt(square)
    peak = high - width * (root + bend - slope_high) / (slope_low - slope_high + 2.0 * root)
    if not low + 1e-3 * width < peak < high - 1e-3 * width:
        return middle
    return peak


@kernel
def _best_step(params, work, x, v, limit, value):
    """argmax of f(x + gamma (v - x)) over [0, limit], by values and derivatives; the gradient stays that at x."""
    grad, saved = work.grad, work.saved
    assign(saved, grad)
    start_slope = slope(grad, v, x)
    rises = falls = False
    for j in range(x.size):
        rises = rises or v[j] > x[j]
        falls = falls or v[j] < x[j]
    # f is concave along directions of one sign; along others it may have several peaks, one per piece.
    pieces = _PIECES if rises and falls else 1
    best, best_value = 0.0, value
    low, value_low, slope_low = 0.0, value, start_slope
    for piece in range(1, pieces + 1):
        end = limit * piece / pieces
        value_end, slope_end = derivative_along(params, work, x, v, end)
        if value_end > best_value:
            best, best_value = end, value_end
        if slope_low > 0.0 and not slope_end >= 0.0:
            high, value_high, slope_high = end, value_end, slope_end
            for _ in range(60):
                gamma = _cubic_peak(low, value_low, slope_low, high, value_high, slope_high)
                trial_value, trial_slope = derivative_along(params, work, x, v, gamma)
                if trial_value > best_value:
                    best, best_value = gamma, trial_value
                if abs(trial_slope) <= 1e-10 * slope_low or high - low <= 1e-14 * limit:
                    break
                if trial_slope > 0.0:
                    low, value_low, slope_low = gamma, trial_value, trial_slope
                else:
                    high, value_high, slope_high = gamma, trial_value, trial_slope
        low, value_low, slope_low = end, value_end, slope_end
    assign(grad, saved)
    return best


@kernel
def _exact_step(params, work, x, v, limit, value):
    gamma = _best_step(params, work, x, v, limit, value)
    work.state[_CURRENT] = 0  # it describes a trial point
    return gamma


@kernel
def _rises(grad):
    """Whether f rises from f(0) = 0: its gradient, which is antitone, is ``grad`` at the upper bounds."""
    n_falling = 0
    for j in range(grad.size):
        n_falling += not grad[j] >= 0.0
    return n_falling == 0


@kernel
def _is_definite_at(params, work, upper):
    """Whether S is definite at the upper bounds, where it is evaluated (see `Softmax._at_corner`)."""
    _evaluate(params, work, upper)
    return work.state[_HELD] == 0  # rows are held after an elimination that failed


@kernel
def _is_dr_submodular(params, work, upper):
    beyond = 0
    for j in range(upper.size):
        beyond += upper[j] > 1.0
    return beyond == 0 or _is_definite_at(params, work, upper)


@kernel
def _is_nonnegative(params, work, upper):
    return _is_definite_at(params, work, upper) and _rises(work.grad)


@kernel(memory=True)
def _problem_at(stack, i):
    return SoftmaxParams(stack.D[row_of(stack.D, i)])


register_objective(
    SoftmaxParams,
    problem_at=_problem_at,
    objective_size=_size,
    objective_carve=_carve,
    evaluate=_evaluate,
    advance=_advance,
    increase=_increase,
    settle=_settle,
    conclude=_conclude,
    exact_step=_exact_step,
    coordinate_maximum=_coordinate_maximum,
    hessian_product=_hessian_product,
    is_dr_submodular=_is_dr_submodular,
    is_nonnegative=_is_nonnegative,
)


LowRankSoftmaxParams = namedtuple("LowRankSoftmaxParams", "B BT")

#: ``inner`` is x with the coordinates near 1 set to 0, ``T`` (k, k) the factor C, ``H`` = C^-1 B' (k, n), and
#: ``rows`` are the rows of P at ``inner`` of the coordinates near 1; the rest is as in `SoftmaxWork`, positions being
#: coordinates.
LowRankSoftmaxWork = namedtuple(
    "LowRankSoftmaxWork",
    "grad diagonal trial saved inner weight delta limit pivots T H picked scaled rows U scratch moved source",
)

#: Coordinates above 1 - _NEAR_ONE are moved there one by one: 1 / (1 - x) would cost them their digits.
_NEAR_ONE = 1e-3


@kernel
def _room_near_one(params):
    """How many coordinates near 1 are treated with care; more than k at 1 exactly mean f = -inf."""
    n, k = params.B.shape
    return min(n, 2 * k)


@kernel
def _low_rank_size(params):
    n, k = params.B.shape
    return 10 * n + 13 + k * k + 3 * n * k + 3 * n * _room_near_one(params), 2 * n + 6


@kernel(memory=True)
def _low_rank_carve(params, floats, integers):
    n, k = params.B.shape
    room = _room_near_one(params)
    square = 7 * n + 13
    tall = square + k * k
    near = tall + 3 * n * k
    log = near + 2 * n * room
    return LowRankSoftmaxWork(
        floats[:n],
        floats[:n],
        floats[n : 2 * n],
        floats[2 * n : 3 * n],
        floats[3 * n : 4 * n],
        floats[4 * n : 5 * n + 3],
        floats[5 * n + 3 : 6 * n + 6],
        floats[6 * n + 6 : 7 * n + 9],
        floats[7 * n + 9 : square],
        floats[square:tall].reshape(k, k),
        floats[tall : tall + n * k].reshape(k, n),
        floats[tall + n * k : tall + 2 * n * k].reshape(n, k),
        floats[tall + 2 * n * k : near].reshape(n, k),
        floats[near : near + n * room].reshape(room, n),
        floats[log:].reshape(room + 3, n),
        floats[near + n * room : log].reshape(room, n),
        integers[: n + 3],
        integers[n + 3 :],
    )


@kernel
def _set_near_one_apart(work, x):
    """Sets ``work.inner`` and the move from there to x; the number of its coordinates, -1 if too many are 1.

    Those at 1 go first: if there is no room for all, those slightly below can do without.
    """
    assign(work.inner, x)
    s = 0
    for exactly in (True, False):
        for i in range(x.size):
            if x[i] == 1.0 if exactly else 1.0 - _NEAR_ONE < x[i] < 1.0:
                if s == work.rows.shape[0]:
                    return -1 if exactly else s
                work.inner[i] = 0.0
                work.moved[s] = i
                work.source[s] = s
                work.delta[s] = x[i]
                s += 1
    return s


@kernel
def _low_rank_inner(params, work):
    """Value at ``work.inner`` and H; NaN if the determinant is not positive."""
    B, T, H, inner = params.B, work.T, work.H, work.inner
    n, k = B.shape
    value = 0.0
    product = 1.0
    s = 0
    for i in range(n):
        if inner[i] != 0.0:
            ratio = inner[i] / (1.0 - inner[i])
            for j in range(k):
                work.picked[s, j] = B[i, j]
                work.scaled[s, j] = ratio * B[i, j]
            s += 1
            product *= 1.0 - inner[i]
            if product < 1e-200:
                value += math.log(product)
                product = 1.0
    for i in range(k):
        for j in range(k):
            T[i, j] = 0.0
        T[i, i] = 1.0
        assign(H[i], params.BT[i])
    gemm(1.0, work.scaled, k, work.picked, k, s, T)
    if potrf(T, k) != 0:
        return np.nan
    for i in range(k):
        value += 2.0 * math.log(T[i, i])
    trsm(T, k, H, n)
    return value + math.log(product)


@kernel
def _low_rank_rows(work, s):
    """Gradient at ``work.inner``, and the rows of P of the s coordinates that are to be moved."""
    grad, H, inner, rows = work.grad, work.H, work.inner, work.rows
    k, n = H.shape
    for j in range(n):
        grad[j] = inner[j] - 1.0
    for t in range(k):
        h = H[t]
        for j in range(n):
            grad[j] += h[j] * h[j]
        for a in range(s):
            work.scratch[t, a] = h[work.moved[a]]
    for a in range(s):
        for j in range(n):
            rows[a, j] = 0.0
    gemm(1.0, work.scratch, s, H, n, k, rows)
    for a in range(s):
        rows[a, work.moved[a]] -= 1.0
    for j in range(n):
        gap = 1.0 - inner[j]
        grad[j] /= gap * gap
        for a in range(s):
            rows[a, j] /= gap


@kernel
def _low_rank_evaluate(params, work, x):
    usable = True
    for i in range(x.size):
        usable = usable and x[i] <= 1.0
    value = np.nan
    if usable:
        s = _set_near_one_apart(work, x)
        value = -np.inf if s < 0 else _low_rank_inner(params, work)
        if math.isfinite(value):
            _low_rank_rows(work, s)
            change = _eliminate(work, work.rows, x.size, 0, s, _NOISE * (s + 10))
            value = value + change if math.isfinite(change) else -np.inf
    if not math.isfinite(value):
        for j in range(x.size):
            work.grad[j] = np.nan
    return value


@kernel
def _low_rank_is_nonnegative(params, work, upper):
    _low_rank_evaluate(params, work, upper)
    return _rises(work.grad)


@kernel(memory=True)
def _low_rank_problem_at(stack, i):
    return LowRankSoftmaxParams(stack.B[row_of(stack.B, i)], stack.BT[row_of(stack.BT, i)])


register_objective(
    LowRankSoftmaxParams,
    problem_at=_low_rank_problem_at,
    objective_size=_low_rank_size,
    objective_carve=_low_rank_carve,
    evaluate=_low_rank_evaluate,
    exact_step=_best_step,
    is_nonnegative=_low_rank_is_nonnegative,
)


def _is_definite(S):
    try:
        np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return False
    return True


def _require_psd(L, name):
    """Raise ValueError naming the smallest eigenvalue unless it is at least -1e-10 of the largest."""
    if not _is_definite(L + 1e-10 * max(0.0, L.diagonal().max()) * np.eye(len(L))):
        eigenvalues = np.linalg.eigvalsh(L)
        if eigenvalues[0] < -1e-10 * eigenvalues[-1] or eigenvalues[-1] < 0.0:
            raise ValueError(
                f"{name} is not positive semidefinite: its smallest eigenvalue is {eigenvalues[0]:g} (largest "
                f"{eigenvalues[-1]:g}); {_CLOSEST}"
            )


def _as_kernel(L):
    """L as a symmetric positive semidefinite matrix, or a ValueError that names its smallest eigenvalue."""
    square = _checks.as_square(L, "L")
    try:
        L = _checks.as_symmetric(square, "L")
    except ValueError as error:
        least = np.linalg.eigvalsh(0.5 * (square + square.T))[0]
        raise ValueError(f"{error}. The smallest eigenvalue of that is {least:g}; {_CLOSEST}") from None
    _require_psd(L, "L")
    return L


def _keeps_factor(n, k, unit_box):
    """Whether B, shape (n, k), serves better than L = B B'."""
    return unit_box and n >= _LOW_RANK_FROM and n >= _LOW_RANK_RATIO * k


class Softmax(Objective):
    """Softmax extension log det(diag(x) (L - I) + I) of a determinantal point process.

    At the 0/1 vector of a set T it equals log det L_TT; it is DR-submodular on [0, 1]^n.

    Parameters
    ----------
    L : array_like, shape (n, n), optional
        Kernel: symmetric, positive semidefinite.
    factor : array_like, shape (n, k), optional
        B with L = B B', instead of L.
    unit_box : bool, default True
        Keep to [0, 1]^n: solvers clip the upper bound to 1. False is the setting of the paper's
        experiments, where x may leave the unit box; the value is NaN where the determinant is negative.

    Raises
    ------
    TypeError
        If not exactly one of ``L`` and ``factor`` is given, or it is not an array of real numbers.
    ValueError
        For a wrong shape, an entry that is not finite, an asymmetric L, or an indefinite one (the
        smallest eigenvalue is named).

    Notes
    -----
    Gillenwater, Kulesza, Taskar 2012; Bian et al. 2017. A value with gradient costs
    O(n s^2) for s nonzeros of x, or O(n k^2) for a factor with n >= 32 rows and k <= n / 4 columns on the unit box
    (there a value outside of it is NaN). Where L_TT is singular for T = {i : x_i = 1}, the value is -inf and
    the gradient NaN.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Softmax([[2.0, 0.0], [0.0, 0.5]])
    >>> round(f.value([1.0, 0.0]), 6)
    0.693147
    >>> f.gradient([0.0, 0.0])
    array([ 1. , -0.5])
    """

    def __init__(self, L: ArrayLike | None = None, *, factor: ArrayLike | None = None, unit_box: bool = True) -> None:
        if (L is None) == (factor is None):
            raise TypeError("Softmax needs either L or factor=B")
        if not isinstance(unit_box, (bool, np.bool_)):
            raise TypeError(f"unit_box must be True or False, got {unit_box!r}")
        self.unit_box = bool(unit_box)
        self._corner = None
        if L is None:
            B = _checks.as_array(factor, "factor", 2)
            if 0 in B.shape:
                raise ValueError(f"factor is empty: shape {B.shape}")
            self.n, k = B.shape
            if _keeps_factor(self.n, k, self.unit_box):
                self._params = LowRankSoftmaxParams(B, np.ascontiguousarray(B.T))
                return
            with np.errstate(over="ignore", invalid="ignore"):
                L = B @ B.T
            _checks.require_finite(L, "the kernel B B'")
        else:
            L = _as_kernel(L)
        self.n = len(L)
        self._params = SoftmaxParams(L - np.eye(self.n))

    @classmethod
    def from_features(
        cls,
        features: Any,
        quality: ArrayLike | None = None,
        *,
        similarity: Literal["cosine", "inner", "rbf"] = "cosine",
        gamma: float | None = None,
        unit_box: bool = True,
    ) -> "Softmax":
        """Softmax extension for items with feature vectors and qualities: L = diag(q) S diag(q).

        Parameters
        ----------
        features : array_like or sparse matrix, shape (n, k)
            Feature vector of each item.
        quality : array_like, shape (n,), optional
            Quality q >= 0 of each item, 1 by default. An item by itself has log det q_i^2.
        similarity : {"cosine", "inner", "rbf"}
            S holds the cosines of the feature vectors, their inner products, or exp(-gamma |v_i - v_j|^2); see
            `drsub_fast.objectives.similarity`.
        gamma : float, optional
            By default 1 / (k times the variance of the features).
        unit_box : bool, default True
            As for the class.

        Returns
        -------
        Softmax
            It keeps the factor diag(q) V of L where that is cheaper than L (see Notes of the class).

        Raises
        ------
        ValueError
            For a feature vector 0 where cosines are asked for, a negative quality, or sizes that differ.

        Notes
        -----
        The decomposition into quality and similarity is that of Kulesza and Taskar 2012, section 3.1.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Softmax.from_features([[2.0, 0.0], [3.0, 3.0]], quality=[1.0, 2.0])
        >>> f.L.round(3)
        array([[1.   , 1.414],
               [1.414, 4.   ]])
        """
        kernel = as_features(features, quality, similarity, gamma)
        if isinstance(kernel, FeatureKernel):
            return cls(factor=kernel.factor(), unit_box=unit_box)
        items = np.arange(kernel.n)
        return cls(kernel.block(items, items), unit_box=unit_box)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_corner": None}

    def __repr__(self) -> str:
        return f"Softmax(n={self.n})"

    @property
    def uses_blas(self) -> bool:
        return self.n >= _LEAST_LOG

    @property
    def operations(self) -> float:
        rank = self.n if self.factor is None else self.factor.shape[1]
        return 2 * self.n * rank * min(self.n, rank)

    @property
    def factor(self) -> NDArray[np.float64] | None:
        """B with L = B B', shape (n, k), where the objective works with it; None where it works with L."""
        return self._params.B if isinstance(self._params, LowRankSoftmaxParams) else None

    @property
    def L(self) -> NDArray[np.float64]:
        """Kernel, shape (n, n)."""
        if isinstance(self._params, LowRankSoftmaxParams):
            return self._params.B @ self._params.BT
        return self._params.D + np.eye(self.n)

    def _at_corner(self, upper):
        """(upper, value, gradient) at the bound that solvers use; the gradient is None if S is not definite.

        S = I + X^(1/2) D X^(1/2). If it is definite there, it is so on all of [0, upper], and f is finite and
        DR-submodular; if it is not, f falls to -inf on the way. The last answer is kept.
        """
        upper = np.minimum(upper, 1.0) if self.unit_box else np.array(upper)
        if self._corner is None or not np.array_equal(upper, self._corner[0]):
            value, grad = self.value_and_gradient(upper)
            definite = np.isfinite(value)
            if definite and upper.max() > 1.0:
                definite = _is_definite(self._definite_form(upper))
            self._corner = upper, value, grad if definite else None
        return self._corner

    def _definite_form(self, x):
        """S = I + X^(1/2) (L - I) X^(1/2)."""
        root = np.sqrt(x)
        return np.diag(1.0 - x) + root[:, None] * self.L * root

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        # Beyond the unit box the determinant may fall through 0 on the way, and what f is after that is another branch.
        return self.unit_box or upper.max() <= 1.0 or self._at_corner(upper)[2] is not None

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        upper, value, grad = self._at_corner(upper)
        if grad is None or not value >= 0.0:
            return False
        if grad.min() >= 0.0:
            return True  # the gradient is antitone, so f rises from f(0) = 0
        # f at a singleton is log(1 + x_i (L_ii - 1)), and L_ii - 1 is the gradient at 0.
        return False if (self.gradient(np.zeros(self.n))[upper > 0.0] < 0.0).any() else None

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        _, _, grad = self._at_corner(upper)
        return grad is not None and bool(grad.min() >= 0.0)

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        # With x = upper * y and S = S(upper), f(y) is log det(diag(y) (S - I) + I), whose Hessian entries obey
        # |H_ij| <= c_i c_j on [0, 1]^n, c_i = max(S_ii, (S^-1)_ii): det is affine in each y_i with
        # non-negative coefficients, and ratios of its values at neighbouring corners lie in
        # [1 / (S^-1)_ii, S_ii]. So |d'Hd| <= (sum c_i)^2 for |d| <= 1.
        upper, _, grad = self._at_corner(upper)
        if grad is None or upper.max() > 1.0:
            return None
        S = self._definite_form(upper)
        c = np.maximum(S.diagonal(), np.linalg.inv(S).diagonal())
        return float(c[upper > 0.0].sum() ** 2)


def _stack(L=None, factor=None, unit_box=True):
    if (L is None) == (factor is None):
        return None
    if L is None:
        accepted = within(factor, -LARGEST, LARGEST)
        n, k = factor.shape[1:]
        if _keeps_factor(n, k, unit_box):
            return LowRankSoftmaxParams(factor, np.ascontiguousarray(factor.swapaxes(1, 2))), accepted
        with np.errstate(over="ignore", invalid="ignore"):
            L = factor @ factor.swapaxes(1, 2)
        accepted &= within(L, -LARGEST, LARGEST)
    else:
        accepted = within(L, -LARGEST, LARGEST) & symmetric(L)
        accepted[accepted] = _definite(L[accepted])
    return SoftmaxParams(L - np.eye(L.shape[1])), accepted


def _definite(L):
    """For each symmetric matrix whether `_require_psd` finds it definite at once."""
    diagonal = L.diagonal(axis1=1, axis2=2)
    shifted = L + 1e-10 * diagonal.max(axis=1, initial=0.0)[:, None, None] * np.eye(L.shape[1])
    try:
        np.linalg.cholesky(shifted)
        return np.ones(len(L), bool)
    except np.linalg.LinAlgError:
        return np.array([_is_definite(matrix) for matrix in shifted])


register_kind(OBJECTIVES, "softmax", Softmax, stack=_stack, L=array("n n"), factor=array("n r"), unit_box=FLAG)
