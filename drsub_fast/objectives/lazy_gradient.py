"""Lazy gradients: an objective that, while x rises, brings only those entries up to date that matter.

The gradient of a DR-submodular f is antitone, so its entries at earlier, lower points are upper bounds of the present
ones; lazy greedy rests on the same (Minoux 1978). Optional operations, beside those of `drsub_fast.objectives.base`:

``increase(params, work, x, v, gamma, value)``
    x += gamma v for v >= 0; returns the new value. ``work.grad`` may be left at earlier values where x is 0 (default:
    `advance`, which leaves none).
``refresh_gradient(params, work, x, v)``
    Brings ``work.grad`` up to date where v is nonzero; whether an entry there was less than its bound (default:
    no). An oracle's vertex that needs no refreshing is optimal for the gradient itself, because no feasible point, all
    being non-negative, gains by it what it loses by the bounds.
``final_value(params, work, x, value)``
    Value at x from scratch at the end of increases, given the present one; it leaves ``work.grad`` as they do
    (default: `evaluate`).
"""

from drsub_fast.engine.dispatch import operation
from drsub_fast.engine.jit import kernel
from drsub_fast.objectives.base import advance, evaluate


@kernel
def _increase(params, work, x, v, gamma, value):
    return advance(params, work, x, v, gamma, value)


@kernel
def _is_fresh(params, work, x, v):
    return False


@kernel
def _final_value(params, work, x, value):
    return evaluate(params, work, x)


increase = operation("increase", _increase)
refresh_gradient = operation("refresh_gradient", _is_fresh)
final_value = operation("final_value", _final_value)
