"""Sparse steps: an objective that tells which entries of x and of its gradient the last step touched.

Optional operations, by `register_sparse_steps`, beside those of `drsub_fast.objectives.base`:

``n_moved(params, work, n)``, ``moved(params, work, t)``
    The last step along the prepared v moved x at the places moved(0) .. moved(n_moved - 1) only (default: everywhere).
``gradient_is_finite(params, work)``
    Whether ``work.grad`` is finite, being finite before the last step (default: looks at every entry).
"""

from typing import Any

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


# For type checkers: operations take parameters of any registered class.
n_moved: Any
moved: Any
gradient_is_finite: Any

n_moved, N_MOVED = operation("n_moved", _all)
moved, MOVED = operation("moved", _each)
gradient_is_finite, GRADIENT_IS_FINITE = operation("gradient_is_finite", _all_finite)


@kernel
def keep_moved(objective, work, out, x):
    """out = x, where it differs by the last step along the prepared v only."""
    for t in range(n_moved(objective, work, x.size)):
        j = moved(objective, work, t)
        out[j] = x[j]


def register_sparse_steps(params_class: Any, n_moved: Any, moved: Any, gradient_is_finite: Any) -> None:
    """Register the three operations for a class of parameters."""
    N_MOVED.table[params_class] = n_moved
    MOVED.table[params_class] = moved
    GRADIENT_IS_FINITE.table[params_class] = gradient_is_finite
