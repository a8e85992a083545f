"""The greedy choice of k items by a kernel matrix as one kernel, lazily in blocks.

Squared gains only fall (`drsub_fast.discrete.greedy`), so those known bound the present ones, and the largest of a
block of items bounds the block. The block of the largest bound is brought up to date, some choices at a time, until one
that is up to date has the largest (Minoux 1978; Hemmi et al. 2022 do it item by item). A block catches up in the
caches, where the greedy choice of numpy streams all coefficients from memory once a choice.

Blocks are of items that are neighbours, or, where the diagonal varies, of items of much the same L_ii.
"""

import threading
from typing import Any

import numpy as np

from drsub_fast._checks import require_finite
from drsub_fast.engine.jit import Interpreted, kernel

#: Why a greedy choice ended; `BAD`: at an entry that no kernel has.
FULL, NO_GAIN, RANK, BAD = 0, 1, 2, 3
#: A squared gain below minus this part of the largest diagonal entry is no rounding.
INDEFINITE = 1e-8
#: Where half of the diagonal is above this part of its maximum, items are taken in their own order.
ALIKE = 0.8

#: Items of a block, and choices that one catches up with at a time. n = 10,000, k = 50, time over that of numpy: 0.55
#: for 64 and 4, 0.50 for 128 and 8, 0.45 for 256 and 8, 0.75 with products by BLAS.
_WIDTH, _STEPS = 256, 8
#: Number of items from which the kernel is used where it is compiled.
_LEAST_ITEMS = 1024
#: Most entries of coefficients that a thread keeps for its next choice: 32 MB.
_KEPT = 1 << 22

_kept = threading.local()


@kernel(noalias=True)
def _subtract(x, c, f):
    for w in range(_WIDTH):
        x[w] -= f * c[w]


@kernel(noalias=True)
def _subtract_tile(x, y, a, b, c, d, f, g):
    """Four multiples from each of two rows: as many as there are registers for."""
    f0, f1, f2, f3 = f[0], f[1], f[2], f[3]
    g0, g1, g2, g3 = g[0], g[1], g[2], g[3]
    for w in range(_WIDTH):
        x[w] -= f0 * a[w] + f1 * b[w] + (f2 * c[w] + f3 * d[w])
        y[w] -= g0 * a[w] + g1 * b[w] + (g2 * c[w] + g3 * d[w])


@kernel
def _subtract_rows(C, factor, count, start, end):
    """C[start:end] -= factor[start:end, :count] @ C[:count]."""
    whole, t = count - count % 4, start
    while t < end:
        if t + 1 < end:
            for j in range(0, whole, 4):
                _subtract_tile(
                    C[t], C[t + 1], C[j], C[j + 1], C[j + 2], C[j + 3], factor[t, j : j + 4], factor[t + 1, j : j + 4]
                )
        else:
            whole = 0
        for row in range(t, min(t + 2, end)):
            for j in range(whole, count):
                _subtract(C[row], C[j], factor[row, j])
        t += 2


@kernel(noalias=True)
def _divide(x, pivot, squared):
    """x / pivot, whose square is taken off the squared gains."""
    scale = 1.0 / pivot
    for w in range(_WIDTH):
        x[w] *= scale
        squared[w] -= x[w] * x[w]


@kernel(reductions=True)
def _largest(values):
    """The largest of a block."""
    a, b, c, d = values[0], values[1], values[2], values[3]
    for w in range(4, _WIDTH, 4):
        a = values[w] if values[w] > a else a
        b = values[w + 1] if values[w + 1] > b else b
        c = values[w + 2] if values[w + 2] > c else c
        d = values[w + 3] if values[w + 3] > d else d
    return max(max(a, b), max(c, d))


@kernel
def _catch_up(L, items, in_order, factor, chosen, pivots, C, squared, start, end):
    """Brings a block from ``start`` choices to ``start`` + `_STEPS`, at most ``end``; returns its largest gain."""
    for t in range(start, end):
        row, x = L[chosen[t]], C[t]
        if in_order:
            first = items[0]
            for w in range(_WIDTH):
                x[w] = row[first + w]
        else:
            for w in range(_WIDTH):
                x[w] = row[items[w]]
    _subtract_rows(C, factor, start, start, end)
    for t in range(start, end):
        for j in range(start, t):
            _subtract(C[t], C[j], factor[t, j])
        _divide(C[t], pivots[t], squared)
    return _largest(squared)


@kernel(reductions=True)
def _count_bad(row, diagonal, own, slack):
    """Entries of a row that are not finite, or too large beside the diagonal for a positive semidefinite matrix."""
    bad = 0
    for i in range(row.size):
        bad += not row[i] * row[i] <= own * (diagonal[i] + slack)
    return bad


@kernel
def _first_of(squared, items, top):
    """The place of the first item of a block whose gain is ``top``."""
    place = -1
    for w in range(_WIDTH):
        if squared[w] == top and (place < 0 or items[w] < items[place]):
            place = w
    return place


@kernel
def _without_dependent(squared, items, floor, slack):
    """Takes dependent items out of a block; the largest gain of the others. Gains that no kernel has stay."""
    for w in range(_WIDTH):
        if -slack <= squared[w] <= floor[items[w]]:
            squared[w] = -np.inf
    return _largest(squared)


@kernel
def _choose(
    L, diagonal, items, in_order, slack, floor, least, squared, bounds, levels, C, factor, chosen, pivots, count
):
    """The choices, into ``chosen`` and ``pivots``, their number into ``count``; returns why they ended.

    At `BAD`, ``count`` is the item whose row is.

    Blocks b are ``items[b]``, filled up with any items whose ``squared[b]`` are -inf, as are those that are not to be
    chosen; the others' are L_ii. ``bounds`` are the largest of them, ``levels`` 0, and C[b] has a row a choice.
    """
    t, end_reason = 0, FULL
    while t < chosen.size:
        b, top = -1, -np.inf
        for other in range(bounds.size):
            if bounds[other] > top:
                b, top = other, bounds[other]
        if b < 0:
            return end_reason
        start = levels[b]
        if start < t:
            end = min(start + _STEPS, t)
            bounds[b] = _catch_up(L, items[b], in_order, factor, chosen, pivots, C[b], squared[b], start, end)
            levels[b] = end
            continue
        place = _first_of(squared[b], items[b], top)
        item = items[b, place]
        if top < -slack:
            return RANK
        if top <= floor[item]:
            end_reason = RANK
            bounds[b] = _without_dependent(squared[b], items[b], floor, slack)
            continue
        if top <= least:
            return NO_GAIN
        if _count_bad(L[item], diagonal, diagonal[item], slack) > 0:
            count[0] = item
            return BAD
        chosen[t], pivots[t] = item, np.sqrt(top)
        for j in range(t):
            factor[t, j] = C[b, j, place]
        squared[b, place] = -np.inf
        bounds[b] = _largest(squared[b])
        t += 1
        count[0] = t
    return FULL


def lazy_choice(kernel: Any, allowed: Any, most: int, least: float, floor: Any) -> Any:
    """(items, squared gains, reason) of the greedy choice, or what else where it is left to numpy.

    None where L is no array, small or indefinite; where the kernel is not compiled yet, the `Interpreted` that numpy's
    time counts for.

    Parameters
    ----------
    kernel : ItemKernel
    allowed : ndarray of bool, shape (n,)
    most : int
        Most items to choose.
    least : float
    floor : ndarray, shape (n,)
        Items are chosen while their squared gains are above both, the floor of their own.

    Raises
    ------
    ValueError
        For an entry in the row of a chosen item that is not finite, or larger than a kernel can have.
    """
    L, n, diagonal = kernel.matrix(), kernel.n, kernel.diagonal
    if L is None or n < _LEAST_ITEMS or most < 1:
        return None
    highest = diagonal.max()
    slack = INDEFINITE * highest
    in_order = bool(np.count_nonzero(diagonal > ALIKE * highest) > 0.5 * n)
    n_blocks = -(-n // _WIDTH)
    items = np.arange(n_blocks * _WIDTH)
    squared = np.full(items.size, -np.inf)
    if in_order:
        squared[:n] = np.where(allowed, diagonal, -np.inf)
        if n < items.size:  # the last block overlaps the one before
            items[-_WIDTH:] = np.arange(n - _WIDTH, n)
            squared[-_WIDTH:] = np.where(items[-_WIDTH:] < (n_blocks - 1) * _WIDTH, -np.inf, squared[items[-_WIDTH:]])
    else:
        items[:n] = _by_size(diagonal)
        items[n:] = 0
        squared[:n] = np.where(allowed, diagonal, -np.inf)[items[:n]]
    items, squared = items.reshape(-1, _WIDTH), squared.reshape(-1, _WIDTH)
    C, factor, count = _fresh(n_blocks, most, _WIDTH), np.zeros((most, most)), np.zeros(1, np.int64)
    chosen, pivots = np.empty(most, np.int64), np.empty(most)
    arguments = (
        L, diagonal, items, in_order, slack, floor, least, squared, squared.max(axis=1), np.zeros(n_blocks, np.int64),
        C, factor, chosen, pivots, count,
    )  # fmt: skip
    run = _choose.choose(arguments)
    if isinstance(run, Interpreted):
        return run
    reason, t = run(*arguments), int(count[0])
    if reason == BAD:
        _refuse(kernel, t, L[t], slack)
    if np.min(squared, where=squared > -np.inf, initial=0.0) < -slack:
        return None
    kernel.require_valid(chosen[:t])
    return chosen[:t], np.square(pivots[:t]), reason


def _by_size(diagonal):
    """All items: those of the largest diagonal entries first, one in 32, then one in 8; within that as they are."""
    n = diagonal.size
    some, more = np.partition(diagonal, [n - n // 8, n - n // 32])[[n - n // 32, n - n // 8]]
    return np.argsort((diagonal < some).astype(np.int8) + (diagonal < more), kind="stable")


def _refuse(kernel, i, row, slack):
    """Raises ValueError for the first bad entry of a row."""
    kernel.require_valid([i])
    d = kernel.diagonal
    j = int(np.argmin(row * row <= d[i] * (d + slack)))
    require_finite(row, f"L[{i}]")
    raise ValueError(
        f"L is not positive semidefinite: L[{i}, {j}] = {row[j]:g}, but L[{i}, {i}] = {d[i]:g} and L[{j}, {j}] = "
        f"{d[j]:g}; drsub_fast.nearest_psd(L) is the closest kernel"
    )


def _fresh(*shape):
    """An array of any content: the thread's last one while it is not too large.

    The pages of 4 MB that the system has to clear take as long as the choice of 20 items.
    """
    size = int(np.prod(shape))
    if size > _KEPT:
        return np.empty(shape)
    spare = getattr(_kept, "array", None)
    if spare is None or spare.size < size:
        spare = _kept.array = np.empty(size)
    return spare[:size].reshape(shape)
