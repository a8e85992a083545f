"""The figure of the summarization experiment. Needs matplotlib (the ``plot`` extra)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from drsub_fast.methods import METHODS


def _style(method):
    """How the curve of a method looks."""
    shown = METHODS[method]
    return {
        "label": shown.label, "marker": shown.marker, "color": shown.colour, "markersize": 5, "linewidth": 1.2
    }  # fmt: skip


def draw_summaries(
    values: dict[str, Any], ratios: dict[str, Any], n_tasks: int, curves: Mapping[str, NDArray[np.float64]], title: str
) -> Figure:
    """Figure of the debates: value against strength, value against iteration, rounded sets against greedy.

    ``values`` and ``ratios``, softmax values and log ratios of the rounded sets to greedy's, are as from
    `mean_over_tasks`, over so many tasks; ``curves`` as from `trajectories`, ``title`` says whose they are.
    """
    figure = Figure(figsize=(10.2, 3.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for axis, scores in ((left, values), (right, ratios)):
        for k, (method, (strengths, means, errors)) in enumerate(scores.items()):
            # Beside each other: error bars at one weight would hide each other.
            shifted = np.asarray(strengths) + 0.008 * (k - (len(scores) - 1) / 2)
            axis.errorbar(shifted, means, errors, capsize=2, **_style(method))
        axis.set_xlabel(r"Weight $\lambda$ of the match")
    left.set_title(f"(a) mean of {n_tasks} pairs, with standard errors", fontsize="medium")
    left.set_ylabel("Softmax value")
    for method, curve in curves.items():
        middle.plot(curve, markevery=20, **_style(method))
    middle.set_title(f"(b) {title}", fontsize="medium")
    middle.set_xlabel("Iteration")
    middle.set_ylabel("Softmax value")
    right.axhline(0.0, color="black", linewidth=0.8)
    right.set_title("(c) rounded sets over greedy", fontsize="medium")
    right.set_ylabel("Mean log ratio of determinants")
    for axis in (left, middle, right):
        axis.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure
