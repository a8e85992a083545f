"""Vector kernels shared by objectives, oracles and solver loops.

Where kernels run as plain Python, the loops over entries are array operations: 100 entries take 1 us instead of 15.
They sum in an order of their own, which no number of threads changes. As in the loops, the first vector may be the
shortest.
"""

import sys

import numpy as np

from drsub_fast.engine.jit import kernel

#: Entries that are compared at a time: enough to vectorise.
_BLOCK = 64


@kernel(plain=lambda a, b: np.add.reduce(a * b[: a.size]), reductions=True)
def dot(a, b):
    """Inner product of two vectors."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@kernel(plain=lambda grad, v, x: np.add.reduce(grad * (v - x)[: grad.size]), reductions=True)
def slope(grad, v, x):
    """Directional derivative <grad, v - x>."""
    total = 0.0
    for j in range(grad.size):
        total += grad[j] * (v[j] - x[j])
    return total


def _add_scaled(out, scale, a):
    out += scale * a[: out.size]


@kernel(plain=_add_scaled)
def add_scaled(out, scale, a):
    """out += scale * a."""
    for j in range(out.size):
        out[j] += scale * a[j]


def _blend(out, gamma, v):
    out += gamma * (v[: out.size] - out)


@kernel(plain=_blend)
def blend(out, gamma, v):
    """out = (1 - gamma) * out + gamma * v."""
    for j in range(out.size):
        out[j] += gamma * (v[j] - out[j])


def _assign(out, a):
    out[:] = a[: out.size]


@kernel(plain=_assign)
def assign(out, a):
    """out = a, without the cost of a checked slice assignment."""
    for j in range(out.size):
        out[j] = a[j]


def _fill(out, value):
    out[:] = value


@kernel(plain=_fill)
def fill(out, value):
    """Every entry of out is value."""
    for j in range(out.size):
        out[j] = value


def _replace(a, b):
    changed = bool((a != b[: a.size]).any())
    a[:] = b[: a.size]
    return changed


@kernel(plain=_replace)
def replace(a, b):
    """a = b; whether they differed. Long vectors are not written before the first block of entries that does."""
    start = 0
    if a.size <= _BLOCK:
        changed = False
        for j in range(a.size):
            changed |= a[j] != b[j]
            a[j] = b[j]
        return changed
    while start < a.size:
        end = min(start + _BLOCK, a.size)
        changed = False
        for j in range(start, end):
            changed |= a[j] != b[j]
        if changed:
            assign(a, b)
            return True
        start = end
    return False


@kernel(plain=lambda x, upper: np.minimum(x, upper[: x.size], out=x))
def clip_above(x, upper):
    """x = min(x, upper): a sum of steps or of weighted points may exceed a bound by rounding."""
    for j in range(x.size):
        x[j] = min(x[j], upper[j])


def _symmetric_product(H, v, out):
    rows = np.flatnonzero(v)
    if 2 * rows.size < v.size:
        v, H = v[rows], H[rows]
    out[: H.shape[1]] = np.einsum("i,ij->j", v, H)  # not by BLAS, whose sums depend on its threads


@kernel(plain=_symmetric_product)
def symmetric_product(H, v, out):
    """out = H v for a symmetric H, reading only the rows where v is nonzero."""
    n = v.size
    for j in range(n):
        out[j] = 0.0
    for i in range(n):
        scale = v[i]
        if scale != 0.0:
            row = H[i]
            for j in range(n):
                out[j] += scale * row[j]


@kernel
def residual_bound(upper, x):
    """max(upper - x, 0) of two numbers; a remainder below 1e-14 of the bound is rounding and counts as 0."""
    residual = upper - x
    return residual if residual > 1e-14 * upper else 0.0


def _shrink(upper, x, out):
    n = x.size
    residual = upper[:n] - x
    out[:n] = np.where(residual > 1e-14 * upper[:n], residual, 0.0)


@kernel(plain=_shrink)
def shrink(upper, x, out):
    """out = max(upper - x, 0), up to rounding: the residual bound above x."""
    for j in range(x.size):
        out[j] = residual_bound(upper[j], x[j])


_LARGEST = sys.float_info.max


@kernel(plain=lambda a: bool(np.isfinite(a).all()))
def is_finite(a):
    """Whether every entry is finite."""
    n_bad = 0
    for j in range(a.size):
        n_bad += not (-_LARGEST <= a[j] <= _LARGEST)
    return n_bad == 0
