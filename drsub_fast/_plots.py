"""Pictures of results. Needs matplotlib (the ``plot`` extra)."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_trace(result: Any, axes: "tuple[Axes, Axes] | None" = None) -> "tuple[Axes, Axes]":
    """Value and gap of a run against the iteration, see `Result.plot`."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            "result.plot() needs matplotlib: pip install 'drsub_fast[plot]', or pip install '.[plot]' in a checkout"
        ) from None
    if axes is None:
        _, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    left, right = axes
    steps = np.arange(result.trace.value.size)
    left.plot(steps, result.trace.value, label="value of the iterate")
    _line(left, result.value, "value returned", "tab:green", "dashed")
    _line(left, result.upper_bound, "proven bound", "black", "solid")
    left.set(xlabel="iteration", ylabel="f(x)", title=result.method)
    left.legend(fontsize="small", frameon=False)
    positive = result.trace.fw_gap > 0.0
    right.plot(steps[positive], result.trace.fw_gap[positive], color="tab:orange")
    if positive.any():
        right.set_yscale("log")
    else:
        right.text(0.5, 0.5, "no gap was computed", ha="center", transform=right.transAxes)
    right.set(xlabel="iteration", ylabel="Frank-Wolfe gap")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    return left, right


def _line(axis: Any, height: float, label: str, colour: str, style: str) -> None:
    if math.isfinite(height):
        axis.axhline(height, label=label, color=colour, linestyle=style, linewidth=1.0)
