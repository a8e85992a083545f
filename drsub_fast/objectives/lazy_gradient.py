"""Lazy gradients: an objective that, while x rises, brings only those entries up to date that matter.

The gradient of a DR-submodular f is antitone, so its entries at earlier, lower points are upper bounds of the present
ones; lazy greedy rests on the same (Minoux 1978). Optional operations, registered by `register_lazy_gradient` beside
those of `drsub_fast.objectives.base`:

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

from typing import Any

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


# For type checkers: operations take parameters of any registered class.
increase: Any
refresh_gradient: Any
final_value: Any

increase, INCREASE = operation("increase", _increase)
refresh_gradient, REFRESH_GRADIENT = operation("refresh_gradient", _is_fresh)
final_value, FINAL_VALUE = operation("final_value", _final_value)


def register_lazy_gradient(params_class: Any, increase: Any, refresh_gradient: Any, final_value: Any) -> None:
    """Register the three operations for a class of parameters."""
    INCREASE.table[params_class] = increase
    REFRESH_GRADIENT.table[params_class] = refresh_gradient
    FINAL_VALUE.table[params_class] = final_value
