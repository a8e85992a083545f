"""Figures of the summarization and recommendation experiments. Needs matplotlib (the ``plot`` extra)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from drsub_fast.experiments.digits import Choice, DigitItems
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
    for method, values in curves.items():
        middle.plot(values, markevery=20, **_style(method))
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


def draw_choices(items: DigitItems, choices: Sequence[Choice]) -> Figure:
    """Picture of the digits chosen under one constraint, a row a choice, ordered by label.

    An image is framed where only one choice has it.
    """
    columns = max(choice.solution.items.size for choice in choices)
    figure = Figure(figsize=(0.45 * columns, 0.75 * len(choices)))
    times_chosen = np.bincount(np.concatenate([choice.solution.items for choice in choices]))
    for part, choice in zip(figure.subfigures(len(choices), squeeze=False)[:, 0], choices, strict=True):
        solution = choice.solution
        part.text(0.01, 0.8, f"{choice.constraint}, {choice.name}: log det {solution.value:.2f}", fontsize="small")
        part.subplots_adjust(left=0.01, right=0.99, bottom=0.05, top=0.72, wspace=0.1)
        axes = part.subplots(1, columns, squeeze=False)[0]
        for axis in axes[solution.items.size :]:
            axis.set_axis_off()
        for axis, i in zip(axes, solution.items[np.argsort(items.labels[solution.items], kind="stable")], strict=False):
            axis.imshow(items.images[i], cmap="gray_r", interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set(color="tab:red" if times_chosen[i] == 1 else "lightgray", linewidth=1.2)
    return figure
