"""Truths by enumeration and whole-number arithmetic, and small solvers in plain numpy."""

import math

import numpy as np


def whole(values):
    """(integers, scale): Python integers, shaped as the array is: the floats times a power of two."""
    flat = [float(v).as_integer_ratio() for v in np.ravel(values)]
    scale = max((q for _, q in flat), default=1)
    integers = np.array([p * (scale // q) for p, q in flat], dtype=object)
    return integers.reshape(np.shape(values)), scale


def log_of(p, q=1):
    """log(p / q) of positive whole numbers of any length."""
    return math.log(p) - math.log(q)


def principal_minors(L):
    """log det L_SS of every set S as a list by bit mask, -inf where the exact determinant is not positive.

    Bareiss's elimination in whole numbers, one more item at a time. Once a determinant is not positive, all sets that
    add later items to that one count as dependent too.
    """
    n = len(L)
    M, scale = whole(L)
    values = [-math.inf] * (1 << n)
    values[0] = 0.0

    def go_on(mask, first, M, last, count):
        # M[i][j], i, j >= first, is the determinant of the block of the set and i, against the set and j.
        for i in range(first, n):
            pivot = M[i, i]
            if pivot <= 0:
                continue
            now = mask | 1 << i
            values[now] = log_of(pivot) - (count + 1) * math.log(scale)
            if i + 1 < n:
                rest = slice(i + 1, n)
                after = M.copy()
                after[rest, rest] = (pivot * M[rest, rest] - np.outer(M[rest, i], M[i, rest])) // last
                go_on(now, i + 1, after, pivot, count + 1)

    go_on(0, 0, M, 1, 0)
    return values


def items_of(mask):
    """The items of a bit mask."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def mask_of(items):
    """The bit mask of some items."""
    return sum(1 << int(i) for i in items)


def independence(L):
    """For every set, by bit mask, the smallest eigenvalue of its block after scaling its diagonal to 1."""
    n = len(L)
    d = np.sqrt(np.maximum(np.diagonal(L), 0.0))
    C = L / np.outer(d, d) if (d > 0.0).all() else L / np.outer(np.where(d > 0.0, d, 1.0), np.where(d > 0.0, d, 1.0))
    least = [1.0]
    for mask in range(1, 1 << n):
        items = items_of(mask)
        least.append(float(np.linalg.eigvalsh(C[np.ix_(items, items)])[0]))
    return least


def fitting(n, A, b, allowed, most=None):
    """(surely, maybe): by bit mask, whether the sum of each row's entries is at most b; exactly, and up to 1e-9 of b.

    Items that are not allowed are in no set; ``most`` is the largest number of items.
    """
    surely, maybe = [], []
    rows = []
    for row, side in zip(A, b, strict=True):
        integers, _ = whole([*row, side])
        rows.append((integers[:-1], integers[-1], integers[-1] + integers[-1] // 10**9))
    for mask in range(1 << n):
        items = items_of(mask)
        fits = all(allowed[i] for i in items) and (most is None or len(items) <= most)
        loads = [(sum(integers[i] for i in items), side, loose) for integers, side, loose in rows] if fits else []
        surely.append(fits and all(load <= side for load, side, _ in loads))
        maybe.append(fits and all(load <= loose for load, _, loose in loads))
    return surely, maybe
