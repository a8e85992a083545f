"""Figures of the experiments. Needs matplotlib (the ``plot`` extra)."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from drsub_fast.experiments.synthetic import (
    PAPER_METHODS,
    Cell,
    Row,
    curve_label,
    distinct,
    paired,
    score_name,
    summarise,
)
from drsub_fast.instances import PAPER_ROWS
from drsub_fast.methods import METHODS

_PANELS = dict(zip(PAPER_ROWS, (r"$m = \lfloor 0.5n \rfloor$", r"$m = n$", r"$m = \lfloor 1.5n \rfloor$"), strict=True))


#: What the paper's theorems promise, as parts of the maximum: Theorem 1, and Theorem 2 with Corollary 1.
_GUARANTEES = {"two-phase-frank-wolfe": 1.0 / 4.0, "nonmonotone-frank-wolfe": 1.0 / math.e}


def draw_experiment(rows: Sequence[Row]) -> Figure:
    """Figure of one family: above as in the paper, below the ratio to the best value found on the same instance.

    A panel for each number of rows, scores against dimensionality. The bars above are deviations over the instances,
    those below standard errors. Lines are at 1 and, where scores are ratios to the maximum, dotted at what the theorems
    promise. Curves of methods that the paper does not show are dashed.
    """
    panels = [panel for panel in PAPER_ROWS if any(row.rows == panel for row in rows)]
    figure = Figure(figsize=(3.4 * len(panels), 5.6), layout="constrained")
    above, below = figure.subplots(2, len(panels), squeeze=False, sharex=True)
    for index, panel in enumerate(panels):
        above[index].set_title(f"({'abc'[index]}) {_PANELS[panel]}", fontsize="medium")
        _draw_curves(above[index], rows, panel, summarise(rows))
        _draw_curves(below[index], rows, panel, paired(rows))
        below[index].axhline(1.0, color="black", linewidth=0.8)
        below[index].set_xlabel("Dimensionality $n$")
        if rows[0].optimum is not None:
            above[index].axhline(1.0, color="black", linewidth=0.8)
            for method, part in _GUARANTEES.items():
                if method in distinct(rows, "method"):
                    above[index].axhline(part, color=METHODS[method].colour, linewidth=0.8, linestyle="dotted")
    above[0].set_ylabel(score_name(rows).capitalize())
    below[0].set_ylabel("Ratio to the best found")
    figure.suptitle(f"{rows[0].family}: values above, paired comparison below", fontsize="medium")
    figure.legend(
        *above[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(distinct(rows, "method"))),
        frameon=False, fontsize="small",
    )  # fmt: skip
    return figure


def _draw_curves(axis: Axes, rows: Sequence[Row], panel: str, cells: Mapping[tuple[str, str, int], Cell]) -> None:
    """The curves of all methods in one panel."""
    sizes, methods = distinct(rows, "n"), distinct(rows, "method")
    # Error bars of several curves at one n would hide each other.
    shift = 0.06 * min((b - a for a, b in pairwise(sizes)), default=1)
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
    axis.set_xticks(sizes)
    axis.yaxis.set_major_locator(MaxNLocator(6))
    axis.grid(alpha=0.3)


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes ``name.png`` and ``name.pdf`` and returns their paths."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
