"""Softmax extensions: the workspace, and elimination from scratch (see `drsub_fast.objectives.softmax`)."""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import gemm, split
from drsub_fast.engine.vector import is_finite
from drsub_fast.objectives.softmax_sweep import NOISE, is_extreme, sweep

#: D = L - I, and ``own``, the L_ii, of which D keeps 16 places behind the point only.
SoftmaxParams = namedtuple("SoftmaxParams", "D own")

#: Coordinates are numbered by position here: ``order[p]`` is the coordinate at position p, ``place`` its inverse. Row
#: r of ``P`` is that of position r at the base, where its coordinate was ``base[r]``. The rows u_a of ``U`` with the
#: ``weight`` w_a are the log, ``diagonal`` is diag P at the present x; a move changes the positions ``moved`` by
#: ``delta``, and ``source`` says where their rows come from (here: the same). Four are eliminated at a time, with the
#: ``pivots``, each to be above its ``limit``, so these arrays have three places more. ``value`` is an answer.
SoftmaxWork = namedtuple(
    "SoftmaxWork",
    "P scratch U grad weight diagonal base delta limit trial saved pivots value order place moved source items state",
)

# Slots of ``work.state``: rows held, how many of them the base may have above 0, rows of the log, whether all this
# belongs to the present x, times the log was applied, whether only the columns that are held as rows are kept.
HELD, BASE, LOGGED, CURRENT, APPLIED, NARROW = range(6)

#: Rows from which a long log is subtracted by one product (n = 256: 0.60 ms; blocks of 16 0.66, of 64 0.82).
_BLOCK = 32

#: Entries of the log from which it is subtracted by BLAS (24 rows: n = 128 with a log of 64 13 us by loops, 16 us
#: there; n = 512 78 and 55 us).
_BLAS_FROM_LOG = 8000


@kernel
def softmax_size(params):
    n = params.D.shape[0]
    return 3 * n * n + 11 * n + 14, 4 * n + 12


@kernel(memory=True)
def softmax_carve(params, floats, integers):
    n = params.D.shape[0]
    order, place, moved, items, state = split(integers, n, n, n + 3, n + 3, 6)
    P, scratch, U, grad, weight, diagonal, base, delta, limit, trial, saved, pivots, value = split(
        floats, (n, n), (n, n), (n + 3, n), n, n + 3, n, n, n + 3, n + 3, n, n, 4, 1
    )
    return SoftmaxWork(
        P, scratch, U, grad, weight, diagonal, base, delta, limit, trial, saved, pivots, value,
        order, place, moved, moved, items, state,
    )  # fmt: skip


@kernel(reductions=True, noalias=True, wide=True)
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


@kernel(noalias=True, wide=True)
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


@kernel(reductions=True, noalias=True, wide=True)
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
def eliminate(work, rows, width, logged, s, least):
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
    if work.state[HELD] > 0 or work.state[CURRENT] == 0:
        for i in range(work.grad.size):
            work.order[i] = i
            work.place[i] = i
    for i in range(work.grad.size):
        work.diagonal[i] = params.D[i, i]
    work.state[HELD] = work.state[BASE] = work.state[LOGGED] = work.state[NARROW] = 0


@kernel
def held_width(work):
    """Number of positions whose columns of P and of the log, and whose diagonal, are those of the present x."""
    return work.state[HELD] if work.state[NARROW] else work.grad.size


@kernel
def publish_gradient(work):
    for p in range(held_width(work)):
        work.grad[work.order[p]] = work.diagonal[p]


@kernel
def plan_move(work, v, gamma):
    """Sets ``work.moved`` and ``work.delta`` to the nonzeros of gamma v; returns their number."""
    s = 0
    for j in range(v.size):  # without branches, which could not be foreseen
        work.moved[s] = work.place[j]
        work.delta[s] = gamma * v[j]
        s += v[j] != 0.0
    return s


@kernel(memory=True)
def _hold_support(params, work, x):
    """The state whose base is x and which holds the rows of its support, by a sweep; returns the value."""
    order, place, D = work.order, work.place, params.D
    s, rest = 0, x.size
    for i in range(x.size):
        if x[i] != 0.0:
            order[s] = i
            s += 1
        else:
            rest -= 1
            order[rest] = i
    for p in range(x.size):
        i = order[p]
        place[i], work.moved[p], work.base[p] = p, p, x[i]
        work.trial[p], work.diagonal[p] = params.own[i], D[i, i]
    for r in range(s):
        for p in range(x.size):
            work.P[r, p] = D[order[r], order[p]]
    work.state[HELD] = work.state[BASE] = s
    return sweep(work.P[:s], work.trial[:s], work.limit, work.moved[:s], work.base[:s], work.diagonal)


@kernel
def evaluate_anew(params, work, x):
    """Value at x, with the gradient and the state; minus infinity and NaN where a pivot is not positive."""
    _start_at_zero(params, work)
    work.state[CURRENT] = 1
    extreme = is_extreme(x, params.own)
    if extreme:
        value, s = _hold_support(params, work, x), 0
    else:
        s = plan_move(work, x, 1.0)
        value = eliminate(work, params.D, x.size, 0, s, NOISE * (s + 10))
    if not math.isfinite(value):
        work.state[CURRENT] = 0
        _start_at_zero(params, work)
        for i in range(x.size):
            work.grad[i] = np.nan
        return -np.inf if is_finite(x) else np.nan
    work.state[LOGGED] = s
    publish_gradient(work)
    return value
