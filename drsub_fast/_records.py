"""Equality of records that hold arrays, and how records are shown: as text, as HTML, and runs as pictures.

Pictures need matplotlib (the ``plot`` extra).
"""

import math
from dataclasses import fields
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.axes import Axes


#: Width of printed results.
COLUMNS = 100


class Record:
    """A dataclass that compares field by field, arrays by their entries, NaN equal to NaN.

    The equality that a dataclass writes itself raises for arrays. Declare the class with ``eq=False``.
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or all(
            _equal(getattr(self, item.name), getattr(other, item.name))
            for item in fields(cast("DataclassInstance", self))
        )


def _equal(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return np.array_equal(a, b, equal_nan=a.dtype.kind == b.dtype.kind == "f")
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b or (a != a and b != b))


def as_text(title: str, rows: dict[str, str]) -> str:
    """A title, and lines of names and texts, none of them longer than `COLUMNS`."""
    width = max(map(len, rows))
    return "\n".join(
        [_wrapped(title, 2), *(_wrapped(f"  {name:<{width}}  {text}", width + 4) for name, text in rows.items())]
    )


def _wrapped(line, indent):
    return "\n".join(
        wrap(line, COLUMNS, subsequent_indent=" " * indent, break_on_hyphens=False, drop_whitespace=True)
        if len(line) > COLUMNS
        else [line]
    )


def count_of(number: int, thing: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def as_html(title: str, rows: dict[str, str]) -> str:
    """The same as a table for notebooks."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<table><caption style='text-align:left'>{escape(title)}</caption><tbody>{cells}</tbody></table>"


def vector_text(x: NDArray[np.float64]) -> str:
    """A short vector in full; of a longer one how many entries are not 0, and its largest ones."""
    if x.size <= 8:
        return np.array2string(x, precision=4, suppress_small=True, max_line_width=COLUMNS)
    used = np.flatnonzero(x)
    largest = used[np.argsort(-np.abs(x[used]), kind="stable")[:3]]
    shown = ", ".join(f"x[{i}] = {x[i]:.4g}" for i in largest)
    return f"{x.size} entries, {used.size} of them not 0" + (f"; the largest: {shown}" if shown else "")


def draw_trace(result: Any, axes: "tuple[Axes, Axes] | Axes | None" = None) -> "tuple[Axes, Axes | None]":
    """Value and gap of a run against the iteration, see `Result.plot`."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(
            "result.plot() needs matplotlib: pip install 'drsub_fast[plot]', or pip install '.[plot]' in a checkout"
        ) from None
    if axes is None:
        _, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    left, right = axes if isinstance(axes, (tuple, list, np.ndarray)) else (axes, None)
    steps = np.arange(result.trace.value.size)
    left.plot(steps, result.trace.value, "o" if steps.size == 1 else "-", label="value of the iterate")
    _line(left, result.value, "value returned", "tab:green", "dashed")
    _line(left, result.certificate.known, "proven bound", "black", "solid")
    left.set(xlabel="iteration", ylabel="f(x)", title=result.method)
    left.legend(fontsize="small", frameon=False)
    left.grid(alpha=0.3)
    if right is None:
        return left, None
    positive = result.trace.fw_gap > 0.0
    right.plot(steps[positive], result.trace.fw_gap[positive], color="tab:orange")
    if positive.any():
        right.set_yscale("log")
    else:
        right.text(0.5, 0.5, "no gap was computed", ha="center", transform=right.transAxes)
    right.set(xlabel="iteration", ylabel="Frank-Wolfe gap")
    right.grid(alpha=0.3)
    return left, right


def _line(axis: "Axes", height: float, label: str, colour: str, style: str) -> None:
    if math.isfinite(height):
        axis.axhline(height, label=label, color=colour, linestyle=style, linewidth=1.0)
