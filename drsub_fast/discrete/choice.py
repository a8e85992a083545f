"""Greedy choices of items for many users, one after the other, in one kernel call.

It is the choice of `drsub_fast.discrete.greedy`, every item brought up to date at each step. Features are kept by
columns, M[t, i] being entry t of item i, and the coefficients c of the chosen items as further rows, so that every loop
runs over items that lie side by side. No sum depends on how many items are beside it: the answer for a user is the
same, to the bit, alone and among others.

Data that the kernel does not take as they stand get the code `BAD`; `drsub_fast.discrete.greedy` says what is wrong.
"""

import math
from collections import namedtuple

import numpy as np

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import add_scaled
from drsub_fast.objectives.similarity import INDEFINITE, LONG, SKEW, UNSURE, VANISHING

#: Why a choice ended; `BAD`: at data that no kernel has.
FULL, NO_GAIN, RANK, BAD = range(4)

#: What the data are: rows of features, by the similarities of `drsub_fast.objectives.similarity`, or rows of L.
COSINE, INNER, RBF, MATRIX = range(4)

#: Users: some rows of ``data`` each. ``gamma`` is NaN for the default. ``quality`` and ``groups`` have an entry a row,
#: or none; of group g at most ``limits[g]`` items are chosen.
Users = namedtuple("Users", "kind gamma data quality groups limits")

#: What is chosen: items while the squared gain is above ``least`` and the part ``floor`` of L_ii, or, where ``exact``,
#: as many as are asked for, anew among the rest where the others depend on those chosen.
Rule = namedtuple("Rule", "least floor exact")

#: For each user: items in the order of choice, -1 beyond them; what they add to log det; its sum; and `CODE`, `COUNT`
#: and `INDEPENDENT`, how many were chosen before the others depended on them. ``diagonal`` is L_ii of the last user.
Choices = namedtuple("Choices", "items gains value state diagonal")
CODE, COUNT, INDEPENDENT, STATES = range(4)

#: Rows of what is known of each item: |v|^2, what inner products are multiplied by, d^2, and the least d^2.
_SQUARES, _SCALE, _SQUARED, _FLOOR, _ROWS = range(5)

#: Largest n for which the rows of L that are read are compared with the columns entry by entry; beyond it only so many
#: entries of each, evenly spread.
_ALL_COMPARED, _COMPARED = 1024, 64

#: Squared norms and diagonal entries beyond these lose digits.
_LEAST, _MOST = 1e-290, 1e290


def scratch_size(n, d, size):
    """Floats that the choice of ``size`` among n items with d columns works in."""
    return (d + size + _ROWS) * (n + 16)


@kernel
def _stride(n):
    """Length of a row: an odd number of cache lines, so that the entries of a column do not compete for the same."""
    return 8 * ((n + 7) // 8 | 1)


# Features by columns.


def _transpose_plain(data, first, n, M):
    M[: data.shape[1], :n] = data[first : first + n].T


@kernel(plain=_transpose_plain, noalias=True)
def _transpose(data, first, n, M):
    """M[t, i] = data[first + i, t], four items at a time."""
    d, whole = data.shape[1], n - n % 4
    for i in range(0, whole, 4):
        a, b, c, e = data[first + i], data[first + i + 1], data[first + i + 2], data[first + i + 3]
        for t in range(d):
            M[t, i] = a[t]
            M[t, i + 1] = b[t]
            M[t, i + 2] = c[t]
            M[t, i + 3] = e[t]
    for i in range(whole, n):
        for t in range(d):
            M[t, i] = data[first + i, t]


def _add_squares_plain(M, d, squares):
    squares += np.einsum("ti,ti->i", M[:d, : squares.size], M[:d, : squares.size])


@kernel(plain=_add_squares_plain, noalias=True)
def _add_squares(M, d, squares):
    """Squared norms of the columns of M[:d]."""
    for t in range(d):
        row = M[t]
        for i in range(squares.size):
            squares[i] += row[i] * row[i]


@kernel(noalias=True)
def _add_four(x, a, b, c, d, f0, f1, f2, f3):
    for i in range(x.size):
        x[i] += (f0 * a[i] + f1 * b[i]) + (f2 * c[i] + f3 * d[i])


def _add_rows_plain(x, M, j, start, end, sign):
    x += (sign * M[start:end, j]) @ M[start:end, : x.size]


@kernel(plain=_add_rows_plain)
def _add_rows(x, M, j, start, end, sign):
    """x += sign * M[start:end, j] @ M[start:end]."""
    r = start
    while r + 4 <= end:
        _add_four(
            x, M[r], M[r + 1], M[r + 2], M[r + 3],
            sign * M[r, j], sign * M[r + 1, j], sign * M[r + 2, j], sign * M[r + 3, j],
        )  # fmt: skip
        r += 4
    while r < end:
        add_scaled(x, sign * M[r, j], M[r])
        r += 1


# A user's kernel.


def _scales_plain(users, first, squares, scale, diagonal):
    q = users.quality[first : first + scale.size] if users.quality.size else np.ones(scale.size)
    if users.kind == COSINE:
        np.divide(q, np.sqrt(squares), out=scale)
    else:
        scale[:] = q
    np.multiply(q, q * squares if users.kind == INNER else q, out=diagonal)
    usable = (squares <= _MOST) & ((squares >= _LEAST) | (users.kind != COSINE))
    return bool((usable & (q >= 0.0) & (diagonal <= _MOST)).all())


@kernel(plain=_scales_plain)
def _scales(users, first, squares, scale, diagonal):
    """What inner products are multiplied by, and L_ii; whether all of it is usable."""
    bad = 0
    for i in range(scale.size):
        q = users.quality[first + i] if users.quality.size > 0 else 1.0
        square = squares[i]
        scale[i] = q / math.sqrt(square) if users.kind == COSINE else q
        diagonal[i] = q * (q * square) if users.kind == INNER else q * q
        bad += not square <= _MOST or (users.kind == COSINE and not square >= _LEAST)
        bad += not q >= 0.0 or not diagonal[i] <= _MOST
    return bad == 0


def _scale_row_plain(x, scale, own):
    x *= scale * own


@kernel(plain=_scale_row_plain)
def _scale_row(x, scale, own):
    for i in range(x.size):
        x[i] *= scale[i] * own


def _rbf_row_plain(x, scale, M, d, j, squares, gamma):
    distance = squares + squares[j] - 2.0 * x
    reach = gamma * (squares + squares[j])
    near = np.flatnonzero((reach > LONG) & (gamma * distance <= VANISHING + UNSURE * reach))
    if near.size:
        distance[near] = np.square(M[:d, near] - M[:d, j, None]).sum(axis=0)
    x[:] = scale * scale[j] * np.exp(-gamma * distance.clip(0.0))


@kernel(plain=_rbf_row_plain)
def _rbf_row(x, scale, M, d, j, squares, gamma):
    """From inner products to similarities; long vectors that are near each other need their differences."""
    own, own_square = scale[j], squares[j]
    for i in range(x.size):
        distance = squares[i] + own_square - 2.0 * x[i]
        reach = gamma * (squares[i] + own_square)
        if reach > LONG and gamma * distance <= VANISHING + UNSURE * reach:
            distance = 0.0
            for t in range(d):
                distance += (M[t, i] - M[t, j]) ** 2
        x[i] = scale[i] * own * math.exp(-gamma * max(distance, 0.0))


@kernel
def _compared_step(n):
    """How far the entries of a row are apart that are compared with those of the column: a cache miss each."""
    return 1 if n <= _ALL_COMPARED else n // _COMPARED


def _read_row_plain(data, first, j, x, slack):
    x[:] = data[first + j, : x.size]
    step = _compared_step(x.size)
    skew = np.abs(x[::step] - data[first : first + x.size : step, j])
    return bool(skew.max() <= slack and np.abs(x).max() <= _MOST)


@kernel(plain=_read_row_plain)
def _read_row(data, first, j, x, slack):
    """Reads row j of a matrix; whether it is that of a symmetric one, as far as it is compared with the column."""
    bad = 0
    row = data[first + j]
    for i in range(x.size):
        x[i] = row[i]
        bad += not -_MOST <= row[i] <= _MOST
    for i in range(0, x.size, _compared_step(x.size)):
        bad += not abs(row[i] - data[first + i, j]) <= slack
    return bad == 0


def _read_diagonal_plain(data, first, diagonal):
    diagonal[:] = data[first : first + diagonal.size, : diagonal.size].diagonal()
    return bool(((diagonal >= 0.0) & (diagonal <= _MOST)).all())


@kernel(plain=_read_diagonal_plain)
def _read_diagonal(data, first, diagonal):
    bad = 0
    for i in range(diagonal.size):
        diagonal[i] = data[first + i, i]
        bad += not 0.0 <= diagonal[i] <= _MOST
    return bad == 0


def _default_gamma_plain(M, d, n):
    variance = M[:d, :n].var()
    return 1.0 / (d * variance) if variance > 0.0 else 1.0


@kernel(plain=_default_gamma_plain)
def _default_gamma(M, d, n):
    """1 / (number of columns times the variance of all entries)."""
    mean = variance = 0.0
    for t in range(d):
        for i in range(n):
            mean += M[t, i]
    mean /= d * n
    for t in range(d):
        for i in range(n):
            variance += (M[t, i] - mean) ** 2
    return n / variance if variance > 0.0 else 1.0


# The choice.


@kernel(plain=lambda squared: int(np.argmax(squared)))
def _place_of_largest(squared):
    """The first place of the largest entry."""
    place = 0
    for i in range(1, squared.size):
        if squared[i] > squared[place]:
            place = i
    return place


def _append_plain(x, pivot, squared):
    x *= 1.0 / pivot
    squared -= x * x


@kernel(plain=_append_plain)
def _append(x, pivot, squared):
    """x / pivot are the new coefficients, whose squares are taken off the squared gains."""
    scale = 1.0 / pivot
    for i in range(x.size):
        x[i] *= scale
        squared[i] -= x[i] * x[i]


def _floors_plain(diagonal, part, floor):
    np.maximum(part * diagonal, _LEAST, out=floor)


@kernel(plain=_floors_plain)
def _floors(diagonal, part, floor):
    """`drsub_fast.discrete.dependence.gain_floor`."""
    for i in range(diagonal.size):
        floor[i] = max(part * diagonal[i], _LEAST)


def _close_dependent_plain(squared, floor):
    squared[squared <= floor] = -np.inf


@kernel(plain=_close_dependent_plain)
def _close_dependent(squared, floor):
    for i in range(squared.size):
        if squared[i] <= floor[i]:
            squared[i] = -math.inf


@kernel(plain=lambda squared, slack: bool(((squared < -slack) & (squared > -np.inf)).any()))
def _shows_indefinite(squared, slack):
    """Whether a squared gain is more below 0 than rounding makes it."""
    count = 0
    for i in range(squared.size):
        count += -math.inf < squared[i] < -slack
    return count > 0


def _open_plain(users, first, used, items, count, diagonal, squared):
    squared[:] = diagonal
    if users.groups.size:
        groups = users.groups[first : first + squared.size]
        squared[used[groups] >= users.limits[groups]] = -np.inf
    squared[items[:count]] = -np.inf
    return int(np.argmax(squared > -np.inf)) if (squared > -np.inf).any() else -1


@kernel(plain=_open_plain)
def _open(users, first, used, items, count, diagonal, squared):
    """Opens the items that fit and are not chosen, by L_ii; the first of them, or -1."""
    for i in range(squared.size):
        squared[i] = diagonal[i]
        if users.groups.size > 0 and used[users.groups[first + i]] >= users.limits[users.groups[first + i]]:
            squared[i] = -math.inf
    for t in range(count):
        squared[items[t]] = -math.inf
    for i in range(squared.size):
        if squared[i] > -math.inf:
            return i
    return -1


def _clear_groups_plain(users, first, n, used):
    if users.groups.size:
        used[users.groups[first : first + n]] = 0


@kernel(plain=_clear_groups_plain)
def _clear_groups(users, first, n, used):
    """No item is chosen of the groups of a user, who may know few of all there are."""
    if users.groups.size > 0:
        for i in range(n):
            used[users.groups[first + i]] = 0


def _join_group_plain(users, first, j, used, squared):
    if users.groups.size:
        group = users.groups[first + j]
        used[group] += 1
        if used[group] >= users.limits[group]:
            squared[users.groups[first : first + squared.size] == group] = -np.inf


@kernel(plain=_join_group_plain)
def _join_group(users, first, j, used, squared):
    """Counts an item in its group, and closes the group where it is full."""
    if users.groups.size == 0:
        return
    group = users.groups[first + j]
    used[group] += 1
    if used[group] >= users.limits[group]:
        for i in range(squared.size):
            if users.groups[first + i] == group:
                squared[i] = -math.inf


@kernel(memory=True)
def _prepare(users, first, M, own, diagonal):
    """Reads L_ii and, of features, columns and scales; whether they are usable."""
    n = diagonal.size
    if users.kind == MATRIX:
        return _read_diagonal(users.data, first, diagonal)
    squares = own[_SQUARES, :n]
    _transpose(users.data, first, n, M)
    squares[:] = 0.0
    _add_squares(M, users.data.shape[1], squares)
    return _scales(users, first, squares, own[_SCALE, :n], diagonal)


@kernel(memory=True)
def _kernel_row(users, first, j, gamma, M, own, skew, x):
    """Row j of L into x; whether it is that of a symmetric matrix."""
    if users.kind == MATRIX:
        return _read_row(users.data, first, j, x, skew)
    x[:] = 0.0
    _add_rows(x, M, j, 0, users.data.shape[1], 1.0)
    scale, squares = own[_SCALE, : x.size], own[_SQUARES, : x.size]
    if users.kind == RBF:
        _rbf_row(x, scale, M, users.data.shape[1], j, squares, gamma)
        x[j] = scale[j] * scale[j]
    else:
        _scale_row(x, scale, scale[j])
    return True


@kernel(memory=True)
def _choose(users, first, rule, M, own, diagonal, used, size, items, gains, state):
    """The choice for one user, into ``items``, ``gains`` and ``state``; returns why it ended."""
    n, d = diagonal.size, 0 if users.kind == MATRIX else users.data.shape[1]
    squared, floor = own[_SQUARED, :n], own[_FLOOR, :n]
    highest = diagonal[_place_of_largest(diagonal)]
    slack = INDEFINITE * highest if users.kind == MATRIX else math.inf
    gamma = _default_gamma(M, d, n) if users.kind == RBF and math.isnan(users.gamma) else users.gamma
    _clear_groups(users, first, n, used)
    _floors(diagonal, rule.floor, floor)
    _open(users, first, used, items, 0, diagonal, squared)
    begin, t, is_independent = d, 0, True
    while t < size:
        j = _place_of_largest(squared)
        if squared[j] <= floor[j]:
            if _shows_indefinite(squared, slack):
                return BAD
            if squared[j] > -math.inf:
                _close_dependent(squared, floor)
                continue
            opened = _open(users, first, used, items, t, diagonal, squared)
            if opened < 0 or not rule.exact:
                return FULL if opened < 0 else RANK
            # Nothing that fits is independent of the items chosen, so the determinant is 0: anew among the rest.
            begin, is_independent = d + t, False
            j = _place_of_largest(squared)
            j = j if squared[j] > floor[j] else opened
        squared_gain = squared[j]
        if squared_gain <= rule.least:
            return BAD if _shows_indefinite(squared, slack) else NO_GAIN
        items[t], gains[t] = j, math.log(squared_gain) if is_independent else -math.inf
        state[INDEPENDENT] += is_independent
        squared[j] = -math.inf
        t += 1
        state[COUNT] = t
        _join_group(users, first, j, used, squared)
        x = M[d + t - 1, :n]
        if t < size or users.kind == MATRIX:
            if not _kernel_row(users, first, j, gamma, M, own, SKEW * highest, x):
                return BAD
            _add_rows(x, M, j, begin, d + t - 1, -1.0)
            if squared_gain > 0.0:
                _append(x, math.sqrt(squared_gain), squared)
    return BAD if _shows_indefinite(squared, slack) else FULL


@kernel(memory=True)
def choose_stack(users, first, last, rule, floats, used, choices):
    """The choices for the users of the rows first[b] .. last[b] - 1, each in row b of ``choices``.

    ``floats`` are of `scratch_size`, ``used`` as long as the limits of groups.
    """
    most, d = choices.items.shape[1], 0 if users.kind == MATRIX else users.data.shape[1]
    for b in range(first.size):
        n, items, gains, state = last[b] - first[b], choices.items[b], choices.gains[b], choices.state[b]
        stride = _stride(n)
        M, own = split(floats, (d + min(n, most), stride), (_ROWS, stride))
        diagonal = choices.diagonal[:n]
        items[:] = -1
        state[:] = 0
        code = FULL
        if n > 0:
            code = BAD
            if _prepare(users, first[b], M, own, diagonal):
                code = _choose(users, first[b], rule, M, own, diagonal, used, min(n, most), items, gains, state)
        state[CODE] = code
        value = 0.0
        for t in range(state[COUNT]):
            value += gains[t]
        choices.value[b] = value
