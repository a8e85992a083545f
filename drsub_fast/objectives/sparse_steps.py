"""Sparse steps: an objective that tells which entries of x and of its gradient the last step touched.

Optional operations, beside those of `drsub_fast.objectives.base`:

``n_moved(params, work, n)``, ``moved(params, work, t)``
    The last step along the prepared v moved x at the places moved(0) .. moved(n_moved - 1) only (default: everywhere).
``gradient_is_finite(params, work)``
    Whether ``work.grad`` is finite, being finite before the last step (default: looks at every entry).
"""

from drsub_fast.engine.dispatch import operation
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import is_finite


@kernel
def _all(params, work, n):
    return n


@kernel
def _each(params, work, t):
    return t


@kernel
def _all_finite(params, work):
    return is_finite(work.grad)


n_moved = operation("n_moved", _all)
moved = operation("moved", _each)
gradient_is_finite = operation("gradient_is_finite", _all_finite)


def _keep(objective, work, out, x):
    out[:] = x[: out.size]


@kernel(plain=_keep)
def keep_moved(objective, work, out, x):
    """out = x, where it differs by the last step along the prepared v only."""
    for t in range(n_moved(objective, work, x.size)):
        j = moved(objective, work, t)
        out[j] = x[j]
