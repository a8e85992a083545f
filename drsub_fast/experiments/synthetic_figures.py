"""Figures of the experiments. Needs matplotlib (the ``plot`` extra)."""

from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from drsub_fast.experiments.synthetic import PAPER_METHODS, curve_label, distinct, score_name, summarise
from drsub_fast.instances import PAPER_ROWS
from drsub_fast.methods import METHODS

_PANELS = dict(zip(PAPER_ROWS, (r"$m = \lfloor 0.5n \rfloor$", r"$m = n$", r"$m = \lfloor 1.5n \rfloor$"), strict=True))


def draw_experiment(rows: Any) -> Any:
    """Figure of one family as in the paper: a panel for each number of rows, score against dimensionality.

    Curves of methods that the paper does not show are dashed.

    Parameters
    ----------
    rows : list of Row
        Rows of one family.

    Returns
    -------
    matplotlib.figure.Figure
    """
    cells, sizes, methods = summarise(rows), distinct(rows, "n"), distinct(rows, "method")
    panels = [panel for panel in PAPER_ROWS if any(row.rows == panel for row in rows)]
    figure = Figure(figsize=(3.4 * len(panels), 3.0), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    # Error bars of several curves at one n would hide each other.
    shift = 0.06 * min((b - a for a, b in pairwise(sizes)), default=1)
    for index, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        for k, method in enumerate(methods):
            shown = METHODS[method]
            points = [(n, cells[panel, method, n]) for n in sizes if (panel, method, n) in cells]
            axis.errorbar(
                [n + shift * (k - (len(methods) - 1) / 2) for n, _ in points],
                [cell.mean for _, cell in points],
                [cell.deviation for _, cell in points],
                label=curve_label(method, shown.label), marker=shown.marker, color=shown.colour, markersize=5,
                linewidth=1.2, capsize=3, linestyle="solid" if method in PAPER_METHODS else "dashed",
            )  # fmt: skip
        axis.set_title(f"({'abc'[index]}) {_PANELS[panel]}", fontsize="medium")
        axis.set_xlabel("Dimensionality $n$")
        axis.set_xticks(sizes)
        axis.yaxis.set_major_locator(MaxNLocator(6))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(score_name(rows).capitalize())
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(methods), frameon=False)
    return figure


def save_figure(figure: Any, folder: Any, name: str) -> Any:
    """Writes ``name.png`` and ``name.pdf`` and returns their paths."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
