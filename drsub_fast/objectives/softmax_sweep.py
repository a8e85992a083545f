"""Softmax extensions: moves whose pivots leave differences no digits (see `drsub_fast.objectives.softmax`)."""

import math

import numpy as np

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import add_scaled

#: A pivot below this multiple of the number of coordinates is rounding noise: the matrix is singular.
NOISE = 4.0 * np.finfo(np.float64).eps

#: Differences lose as many digits as a pivot has places before the point, or zeros behind it: beyond these, quotients.
MOST_PIVOT, LEAST_PIVOT = 1e4, 1e-4

#: An L_ii above this one may lose so many digits each time that a log is applied.
LARGE = 1e4


@kernel(plain=lambda own: bool((own > LARGE).any()))
def is_large(own):
    """Whether there is an L_ii, ``own``, above `LARGE`."""
    count = 0
    for i in range(own.size):
        count += own[i] > LARGE
    return count > 0


def _is_extreme_plain(x, own):
    pivots = np.abs((1.0 - x) + x * own)
    return bool(((pivots > MOST_PIVOT) | (pivots < LEAST_PIVOT)).any())


@kernel(plain=_is_extreme_plain)
def is_extreme(x, own):
    """Whether a pivot of a move from 0 to x is extreme by L_ii, which are ``own``, alone."""
    count = 0
    for i in range(x.size):
        pivot = abs((1.0 - x[i]) + x[i] * own[i])
        count += (pivot > MOST_PIVOT) | (pivot < LEAST_PIVOT)
    return count > 0


def _move_one_plain(rows, a, i, share, pivot, rest, own, diagonal):
    row, column = rows[a].copy(), rows[:, i].copy()
    diagonal -= share * row * row
    own -= share * column * column
    rows -= (share * column)[:, None] * row
    rows[a] = row / pivot
    rows[:, i] = column / pivot
    rows[a, i] = rest


@kernel(plain=_move_one_plain, wide=True)
def _move_one(rows, a, i, share, pivot, rest, own, diagonal):
    """Moves the coordinate i, whose row is ``rows[a]``; ``rest`` is what becomes of P_ii."""
    row = rows[a]
    for p in range(diagonal.size):
        diagonal[p] -= share * row[p] * row[p]
    for r in range(own.size):
        if r != a:
            entry = rows[r, i]
            own[r] -= share * entry * entry
            add_scaled(rows[r], -share * entry, row)
            rows[r, i] = entry / pivot
    for p in range(row.size):
        row[p] /= pivot
    row[i] = rest


@kernel
def sweep(rows, own, limit, moved, delta, diagonal):
    """Moves the coordinates ``moved`` from 0 by ``delta`` one by one; ``rows[a]`` becomes the row of P at the end.

    ``own[a]`` is 1 + P_ii with all its digits, which P_ii has not near -1. By the move of i, P_ip becomes
    P_ip / pivot, and P_ii becomes (own - 1) / pivot. Returns the change of f; NaN if a pivot is not positive.
    """
    s = own.size
    least, change, beyond = NOISE * (s + 10), 0.0, 0
    for a in range(s):
        limit[a] = least * own[a]
        beyond += delta[a] > 1.0
    for a in range(s):
        rest = 1.0 - delta[a]
        needed = least * abs(rest) + delta[a] * limit[a]
        if beyond == 0:  # on the unit box L is definite, and ``own`` negative by rounding only
            needed = 0.0
            if own[a] <= limit[a]:
                own[a] = max(own[a], 0.0) if rest > 0.0 else -np.inf
        pivot = rest + delta[a] * own[a]
        if not pivot > needed:
            return np.nan
        change += math.log(pivot)
        _move_one(rows, a, moved[a], delta[a] / pivot, pivot, (own[a] - 1.0) / pivot, own, diagonal)
    for a in range(s):
        diagonal[moved[a]] = rows[a, moved[a]]
    return change


@kernel(memory=True)
def resweep(rows, delta, spare, unused):
    """Moves the coordinates of the positions of ``rows``, which are all of P that is held, by ``delta``.

    ``spare`` and ``unused`` are overwritten. For moves whose pivots are not near 0.
    """
    spare[:] = 0.0
    unused[:] = 0.0
    for r in range(delta.size):
        if delta[r] != 0.0:
            pivot = 1.0 + delta[r] * rows[r, r]
            _move_one(rows, r, r, delta[r] / pivot, pivot, rows[r, r] / pivot, spare, unused)
