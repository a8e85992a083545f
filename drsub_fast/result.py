"""What a solver returns, and what the answer is worth."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from drsub_fast._records import Record, as_html, as_text, draw_trace, vector_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Status(Enum):
    """Why a run stopped; the value of each member is its sentence.

    ``CONVERGED``, ``COMPLETED`` and ``OPTIMAL`` are successes (`Result.success`); the others end a run early. None of
    them is raised: a result always has an answer, except that of a problem that ``FAILED`` inside a batch.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.frank_wolfe(f, ds.Box([1.0, 1.0]), max_iter=2)
    >>> r.status is ds.Status.MAX_ITER, r.status.value
    (True, 'the iteration limit was reached before the tolerance')
    """

    CONVERGED = "the Frank-Wolfe gap is within the tolerance"
    COMPLETED = "all steps of the method were taken"
    MAX_ITER = "the iteration limit was reached before the tolerance"
    STALLED = "the gap is as small as floating-point arithmetic allows, though not within the tolerance"
    TIME_LIMIT = "the time limit was reached"
    CALLBACK = "the callback asked to stop"
    INTERRUPTED = "interrupted from the keyboard"
    NON_FINITE = "the objective or its gradient stopped being finite; the last good iterate is returned"
    OPTIMAL = "the global optimum is proved within the gap asked for"
    NODE_LIMIT = "the node limit was reached before the gap was closed"
    FAILED = "the problem could not be solved"

    @property
    def is_stop(self) -> bool:
        """Whether somebody asked the run to stop: the clock, the callback or the keyboard."""
        return self in (Status.TIME_LIMIT, Status.CALLBACK, Status.INTERRUPTED)


@dataclass(frozen=True)
class Guarantee:
    """An a-priori bound on the value of an answer.

    Attributes
    ----------
    ratio : float or None
        Fraction of the global maximum that the bound promises; None if nothing is promised.
    statement : str
        The bound, with its error terms and source; where it was withdrawn, why.
    premise : str
        What has to hold for it.
    holds : bool, "declared" or None
        Whether the premise is known to hold (True), was declared by the user and is not checked ("declared"), is known
        to fail (False), or unknown (None).

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.double_greedy(f, ds.Box([0.5, 0.2]))
    >>> r.guarantee.ratio, r.guarantee.holds
    (0.5, True)
    """

    ratio: float | None
    statement: str
    premise: str = ""
    holds: bool | Literal["declared"] | None = None

    def withdrawn(self, reason: str) -> "Guarantee":
        """The same, promising nothing any more."""
        return Guarantee(None, f"none: {reason} ({self.statement}, if {self.premise})", self.premise, False)

    def __str__(self) -> str:
        if self.ratio is None:
            return self.statement
        known = {
            True: "known to hold", "declared": "declared, not checked", False: "known to fail",
            None: "not known to hold",
        }[self.holds]  # fmt: skip
        return f"{self.statement}, if {self.premise} ({known})"


@dataclass(frozen=True, eq=False)
class Trace(Record):
    """History of a run: entry k belongs to iterate k, k = 0 .. n_iter.

    Attributes
    ----------
    value : ndarray, shape (n_iter + 1,)
        f(x_k).
    fw_gap : ndarray, shape (n_iter + 1,)
        max over the set of <grad f(x_k), v - x_k>; NaN where the method does not compute it.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.frank_wolfe(f, ds.Box([1.0, 1.0]), max_iter=20)
    >>> r.trace.value.shape == r.trace.fw_gap.shape == (r.n_iter + 1,)
    True
    """

    value: NDArray[np.float64]
    fw_gap: NDArray[np.float64]


@dataclass(frozen=True, init=False, eq=False)
class Result(Record):
    """Answer of a solver.

    ``print(result)`` shows a short table, notebooks an HTML one, `plot` a picture. Two results are equal if all their
    fields are, the time of the run among them.

    Attributes
    ----------
    x : ndarray, shape (n,)
        The point returned by the method.
    value : float
        f(x), evaluated from scratch.
    fw_gap : float
        max over the set of <grad f(x), v - x>: 0 at a stationary point. It certifies stationarity, not
        optimality. NaN if the run stopped before it was computed.
    upper_bound : float
        A proven upper bound on the global maximum (infinite if none is known). One that costs more than the solve's
        own is computed when it is first read, and kept.
    guarantee : Guarantee
        The a-priori bound of the method and whether its premise is known to hold.
    status : Status
        Why the run stopped.
    message : str
        The same as a sentence.
    n_iter : int
        Updates of x on the way to this answer: of the phase or start that is returned.
    n_lmo : int
        Answers of the linear oracle, over all phases and starts.
    time : float
        Wall-clock seconds.
    trace : Trace
        Values and gaps along the way, of the phase or start that is returned.
    best_x, best_value : ndarray and float
        The iterate of the largest value met on the way (the method may return another one).
    method : str
        Name of the method.
    phases : tuple of Result
        Results of the phases of a two-phase method.
    phase : int or None
        Which phase is returned, counted from 1.
    n_starts, n_best : int
        Number of starts of a multi-start run, and how many reached the best value.
    n_nodes : int
        Nodes of a branch and bound.
    compiled : bool
        Whether compiled code ran it, at the end at least; else it was plain Python, which is much slower: see
        DRSUB_FAST_COMPILE in README.
    lower_bound : float
        Of a minimisation: a proven lower bound on the global minimum. Else minus infinity.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> r = ds.maximize(f, ds.Box([1.0, 1.0]))
    >>> print(r.x.round(4), round(r.value, 4), r.success)
    [0.8571 0.2857] 0.5714 True
    """

    x: NDArray[np.float64]
    value: float
    fw_gap: float
    upper_bound: float
    guarantee: Guarantee
    status: Status
    n_iter: int
    n_lmo: int
    time: float
    trace: Trace = field(repr=False)
    best_x: NDArray[np.float64] = field(repr=False)
    best_value: float
    method: str
    note: str = ""
    phases: "tuple[Result, ...]" = field(default=(), repr=False)
    phase: int | None = None
    n_starts: int = 1
    n_best: int = 1
    n_nodes: int = 0
    lower_bound: float = -math.inf
    compiled: bool | None = None

    def __init__(
        self, x: NDArray[np.float64], value: float, fw_gap: float, upper_bound: float, guarantee: Guarantee,
        status: Status, n_iter: int, n_lmo: int, time: float, trace: Trace, best_x: NDArray[np.float64],
        best_value: float, method: str, note: str = "", phases: "tuple[Result, ...]" = (), phase: int | None = None,
        n_starts: int = 1, n_best: int = 1, n_nodes: int = 0, lower_bound: float = -math.inf,
        compiled: bool | None = None,
    ) -> None:  # fmt: skip
        # The one that a frozen dataclass writes itself takes longer than twenty steps of a small solve.
        given = locals()
        del given["self"]
        object.__setattr__(self, "__dict__", given)

    def _upper_bound_when_read(self, name: str) -> float:
        # Asked for what is not there only: a bound that was put off until somebody reads it.
        put_off = self.__dict__.get("_put_off")
        if name != "upper_bound" or put_off is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__["upper_bound"] = bound = put_off()
        self.__dict__.pop("_put_off", None)
        return bound

    if not TYPE_CHECKING:  # so that a misspelt name is an error for type checkers
        __getattr__ = _upper_bound_when_read

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles hold the bound, not the problem that it is computed from.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def message(self) -> str:
        """Why the run stopped, as a sentence."""
        return f"{self.method}: {self.status.value}" + (f" ({self.note})" if self.note else "")

    @property
    def gap(self) -> float:
        """Distance of the value to its proven bound, relative to the value; infinite where no bound is known."""
        distance = min(self.upper_bound - self.value, self.value - self.lower_bound)
        if distance == 0.0 or self.value == 0.0:
            return 0.0 if distance == 0.0 else math.inf
        return distance / abs(self.value)

    @property
    def success(self) -> bool:
        """Whether the method did all it set out to do."""
        return self.status in (Status.CONVERGED, Status.COMPLETED, Status.OPTIMAL)

    @property
    def ratio(self) -> float:
        """value / upper_bound: a proven fraction of the global maximum, or NaN where that says nothing."""
        if self.value >= 0.0 and 0.0 < self.upper_bound < math.inf:
            return min(1.0, self.value / self.upper_bound)
        return math.nan

    def plot(self, axes: "tuple[Axes, Axes] | None" = None) -> "tuple[Axes, Axes]":
        """Draws the value with its bound, and the gap, against the iteration.

        Parameters
        ----------
        axes : pair of matplotlib axes, optional
            Where to draw; by default in a new figure of ``matplotlib.pyplot``.

        Returns
        -------
        (Axes, Axes)
            Of the value and of the gap; ``result.plot()[0].figure.savefig("run.png")`` keeps the picture.

        Raises
        ------
        ImportError
            Without matplotlib, which the extra ``plot`` brings.
        """
        return draw_trace(self, axes)

    def _rows(self) -> dict[str, str]:
        bound = f"{self.upper_bound:.6g}" if math.isfinite(self.upper_bound) else "not known"
        ratio = "" if math.isnan(self.ratio) else f" (the value is {100.0 * self.ratio:.4g} % of it)"
        starts = f", {self.n_starts} starts" if self.n_starts > 1 else ""
        nodes = f", {self.n_nodes} nodes" if self.n_nodes else ""
        return {
            "value": f"{self.value:.6g}",
            "proven bound": bound + ratio,
            "Frank-Wolfe gap": f"{self.fw_gap:.3g}" if math.isfinite(self.fw_gap) else "not computed",
            "guarantee": str(self.guarantee),
            "work": f"{self.n_iter} steps, {self.n_lmo} oracle calls{starts}{nodes}, {self.time:.3g} s"
            + ran_as(self.compiled),
            "x": vector_text(self.x),
        }

    def __str__(self) -> str:
        return as_text(self.message, self._rows())

    def _repr_html_(self) -> str:
        return as_html(self.message, self._rows())


def ran_as(compiled: bool | None) -> str:
    """Words for the code that ran a solve, to come after its time."""
    return {True: ", compiled", False: ", interpreted", None: ""}[compiled]


def with_bound(result: Result, bound: Callable[[float], float]) -> Result:
    """The same result with the upper bound ``bound(known)``, at most the known one, computed when it is first read."""
    known, top = result.upper_bound, max(result.value, result.best_value)

    def put_off():
        least = bound(known)
        # A value above a bound by more than rounding contradicts what the bound rests on, say a wrong declaration.
        return max(least, top) if top - least <= 1e-9 * max(abs(top), abs(least)) else math.inf

    other = object.__new__(Result)
    other.__dict__.update(vars(result))
    del other.__dict__["upper_bound"]
    other.__dict__["_put_off"] = put_off
    return other
