"""Methods side by side on instances of your own: a table, a DataFrame, a figure."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drsub_fast._checks import described
from drsub_fast.methods import maximize
from drsub_fast.objectives.base import Objective
from drsub_fast.result import Result
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.solvers.record import METHODS, Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Compared(NamedTuple):
    """One solve: the place of the instance, the method's name, and what came of it."""

    instance: int
    method: str
    value: float
    upper_bound: float
    fw_gap: float
    seconds: float
    n_iter: int
    status: str


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: ``rows``, one a method and instance; ``str()`` of it is a table."""

    rows: list[Compared]

    def shares(self) -> dict[str, np.ndarray]:
        """For each method its value as a share of the best one of each instance; NaN where that is not above 0."""
        best: dict[int, float] = {}
        for row in self.rows:
            best[row.instance] = max(best.get(row.instance, -math.inf), row.value)
        found: dict[str, list[float]] = {}
        for row in self.rows:
            top = best[row.instance]
            found.setdefault(row.method, []).append(row.value / top if top > 0.0 else math.nan)
        return {method: np.array(shares) for method, shares in found.items()}

    def __str__(self) -> str:
        shares = self.shares()
        width = max(map(len, shares), default=6)
        lines = [f"{'method':{width}}  mean of best  least of best  best in  median ms"]
        for method, each in shares.items():
            known = each[~np.isnan(each)]
            mean, least = (known.mean(), known.min()) if known.size else (math.nan, math.nan)
            seconds = np.median([row.seconds for row in self.rows if row.method == method])
            first = int((known >= 1.0 - 1e-9).sum())
            lines.append(f"{method:{width}}  {mean:12.5f}  {least:13.5f}  {first:7d}  {1e3 * seconds:9.3g}")
        return "\n".join(lines)

    def frame(self) -> Any:
        """The rows as a `pandas.DataFrame`."""
        import pandas

        return pandas.DataFrame(self.rows, columns=list(Compared._fields))

    def figure(self) -> "Figure":
        """The shares of the best value against the median time, a point a method. Needs matplotlib."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.0, 3.5), layout="constrained")
        axis = figure.subplots()
        for method, shares in self.shares().items():
            shown = METHODS.get(method)
            seconds = np.median([row.seconds for row in self.rows if row.method == method])
            axis.errorbar(
                1e3 * seconds, np.nanmean(shares), np.nanstd(shares), label=shown.label if shown else method,
                marker=shown.marker if shown else "o", color=shown.colour if shown else None, capsize=3,
            )  # fmt: skip
        axis.set_xscale("log")
        axis.set_xlabel("Median time of a solve in ms")
        axis.set_ylabel("Value as a share of the best")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
        return figure


def _named(methods):
    """Pairs (name, method) of names, records and functions, or of a mapping from names to them or to options."""
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise TypeError(f"methods must be several, a list of names, records or functions, got {described(methods)}")
    pairs = methods.items() if isinstance(methods, Mapping) else [("", method) for method in methods]
    for name, method in pairs:
        if isinstance(method, Mapping):
            yield name, name, dict(method)
        elif isinstance(method, Method):
            yield name or method.name, method, {}
        elif isinstance(method, str):
            yield name or method, method, {}
        elif callable(method):
            own = name or str(getattr(method, "__name__", repr(method)))
            yield own, Method(own, method, own), {}
        else:
            raise TypeError(f"a method is a name, a record or a function (f, P) -> Result, got {described(method)}")


def compare(
    methods: Iterable[str | Method | Callable[..., Result]] | Mapping[str, Any],
    instances: Iterable[tuple[Objective, FeasibleSet]],
    **options: Any,
) -> Comparison:
    """Solves instances by several methods, one after another.

    Parameters
    ----------
    methods : iterable or mapping
        Names of methods, records (`drsub_fast.extend.Method`) or functions ``solve(f, P, **options) -> Result``; or a
        mapping from the names to show to any of these, or from names of methods to their options.
    instances : iterable of (Objective, FeasibleSet)
        The problems.
    **options
        Options of `drsub_fast.maximize` for every method that has them.

    Returns
    -------
    Comparison
        ``print`` shows a table; `Comparison.frame` and `Comparison.figure` a DataFrame and a figure.

    Raises
    ------
    TypeError, ValueError
        For something else than a method, an unknown name, or a pair that is no problem.

    Notes
    -----
    The first instance is solved once more by each method, ahead and uncounted, so that times are those of solves and
    not of loading compiled code.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> c = ds.experiments.compare(["frank-wolfe", "two-phase-frank-wolfe"], [ds.instances.quadratic_uniform(8, 4)])
    >>> [row.method for row in c.rows], c.rows[0].value <= c.rows[1].value
    (['frank-wolfe', 'two-phase-frank-wolfe'], True)
    """
    chosen, rows = list(_named(methods)), []
    for i, (f, P) in enumerate(instances):
        for name, method, own in chosen:
            taken = {key: value for key, value in options.items() if key in _options_of(method)} | own
            if i == 0:
                maximize(f, P, method=method, **(taken | {"bound": "cheap"}))
            r = maximize(f, P, method=method, **taken)
            rows.append(Compared(i, name, r.value, r.upper_bound, r.fw_gap, r.time, r.n_iter, r.status.name))
    return Comparison(rows)


def _options_of(method):
    """Options of `maximize` that a method has, its own included."""
    shared = {"bound", "seed", "n_starts"}
    if isinstance(method, Method):
        return shared | set(method.options)
    return shared | set(METHODS[method].options if method in METHODS else METHODS["multi-start"].options)
