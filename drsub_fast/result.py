"""What a solver returns, and what the answer is worth."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from drsub_fast._records import Record, as_html, as_text, count_of, draw_trace, vector_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

logger: logging.Logger = logging.getLogger("drsub_fast")


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
        return Guarantee(None, f"none, because {reason}", self.premise, False)

    def __str__(self) -> str:
        if self.ratio is None:
            return self.statement
        if self.holds is False:
            return f"none, because it needs {self.premise}, which is known to fail"
        known = {True: "known to hold", "declared": "declared, not checked", None: "not known to hold"}[self.holds]
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


class Certificate:
    """What is proved of a maximum: an upper bound that is known, and how to compute a better one.

    Results share it with their copies. A pickle keeps the numbers alone.

    Parameters
    ----------
    given : float
        The upper bound that is known at no cost; infinite where none is.
    compute : callable, optional
        ``compute() -> float``: another upper bound, called when the bound is first read.
    problem : tuple of (Objective, FeasibleSet), optional
        What `Result.prove` works on.

    Examples
    --------
    >>> from drsub_fast.result import Certificate
    >>> certificate = Certificate(2.0, lambda: 1.5)
    >>> certificate.known, certificate.read(), certificate.known
    (2.0, 1.5, 1.5)
    """

    __slots__ = ("_compute", "given", "is_computed", "known", "problem")

    def __init__(
        self,
        given: float,
        compute: Callable[[], float] | None = None,
        problem: tuple[object, object] | None = None,
    ) -> None:
        self.given = self.known = given
        self._compute = compute
        self.problem = problem
        self.is_computed = False

    def read(self) -> float:
        """The least bound known, after the computation that was put off; an error there is logged, never raised."""
        compute = self._compute
        if compute is not None:
            try:
                bound = compute()
            except Exception as error:
                logger.warning("an upper bound could not be computed: %s: %s", type(error).__name__, error)
                bound = math.inf
            if bound < self.known:
                self.known = bound
            self._compute, self.is_computed = None, True
        return self.known

    def keep_numbers(self) -> None:
        """Lets go of the problem and of what was put off, as a pickle does."""
        self._compute = self.problem = None

    def __eq__(self, other: object) -> bool:
        # What is read later rests on the same problem and answer, and reading it changes no result.
        return isinstance(other, Certificate) and self.given == other.given

    def __repr__(self) -> str:
        return f"Certificate({self})"

    def __str__(self) -> str:
        """The bound that is known; computes nothing."""
        if self.known < math.inf:
            return f"{self.known:.6g}"
        if self.is_computed:
            return "none is known"
        if self._compute is not None:
            return "not computed: r.upper_bound computes one"
        return "not computed" + ("" if self.problem is None else ": r.prove() computes one")

    def __getstate__(self) -> tuple[float, float, bool]:
        return self.given, self.known, self.is_computed

    def __setstate__(self, state: tuple[float, float, bool]) -> None:
        self.given, self.known, self.is_computed = state
        self.keep_numbers()

    def __copy__(self) -> "Certificate":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Certificate":
        return self


class Prover(Protocol):
    """``prover(result, problem, time_limit, gap)``: the result with the best bound that it can prove in the time."""

    def __call__(
        self, result: "Result", problem: tuple[object, object], time_limit: float | None, gap: float
    ) -> "Result": ...


_provers: list[Prover] = []


def register_prover(prover: Prover) -> None:
    """Makes `Result.prove` call this function; bounds and proofs are built on results."""
    _provers[:] = [prover]


@dataclass(frozen=True, eq=False)
class Details(Record):
    """What only some results have.

    Attributes
    ----------
    phases : tuple of Result
        Results of the phases of a two-phase method.
    phase : int or None
        Which phase is returned, counted from 1.
    n_starts, n_best : int
        Number of starts of a multi-start run, and how many reached the best value.
    n_nodes : int
        Nodes of a branch and bound.
    lower_bound : float
        Of a minimisation: a proven lower bound on the global minimum. Else minus infinity.
    """

    phases: "tuple[Result, ...]" = field(default=(), repr=False)
    phase: int | None = None
    n_starts: int = 1
    n_best: int = 1
    n_nodes: int = 0
    lower_bound: float = -math.inf


_NO_DETAILS = Details()


@dataclass(frozen=True, eq=False)
class Result(Record):
    """Answer of a solver.

    ``print(result)`` shows a short table, notebooks an HTML one, `plot` a picture. Two results are equal if all their
    fields are, the time of the run among them. None of these, nor a copy or a pickle, computes anything.

    Attributes
    ----------
    x : ndarray, shape (n,)
        The point returned by the method.
    value : float
        f(x), evaluated from scratch.
    fw_gap : float
        max over the set of <grad f(x), v - x>: 0 at a stationary point. It certifies stationarity, not
        optimality. NaN if the run stopped before it was computed.
    certificate : Certificate
        What is proved of the maximum; `upper_bound` reads it.
    guarantee : Guarantee
        The a-priori bound of the method and whether its premise is known to hold.
    status : Status
        Why the run stopped.
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
    note : str
        What `message` adds to the status.
    compiled : bool
        Whether compiled code ran it, at the end at least; else it was plain Python, which is much slower: see
        DRSUB_FAST_COMPILE in README.
    details : Details
        What only some results have: phases, numbers of starts and nodes, the lower bound of a minimum. Each can be read
        from the result itself too, e.g. ``result.phases``.

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
    certificate: Certificate
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
    compiled: bool | None = None
    details: Details = field(default_factory=lambda: _NO_DETAILS)

    @property
    def upper_bound(self) -> float:
        """A proven upper bound on the global maximum, infinite if none is known.

        One that costs more than the solve's own is computed when it is first read, and kept.
        """
        return self.certificate.read()

    def prove(self, time_limit: float | None = None, gap: float = 1e-6) -> "Result":
        """The answer with the best upper bound that can be proved in the time, and with a better point if one is met.

        Parameters
        ----------
        time_limit : float, optional
            Seconds; without one it ends when the gap is closed, or at Ctrl-C, which may take long for many variables.
        gap : float
            The proof is complete when upper_bound - value <= gap |value|.

        Returns
        -------
        Result
            A new one; its status is OPTIMAL where the proof is complete.

        Raises
        ------
        ValueError
            If the result does not hold its problem: after a pickle, from a file, a batch, or of a minimisation.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Quadratic([[-1.0, -4.0], [-4.0, -1.0]], [1.0, 1.5])
        >>> r = ds.frank_wolfe(f, ds.Box([1.0, 1.0]), max_iter=3).prove()
        >>> round(r.value, 4), round(r.upper_bound, 4), r.status.name
        (1.0, 1.0, 'OPTIMAL')
        """
        problem = self.certificate.problem
        if problem is None:
            raise ValueError(
                "this result does not hold its problem: ds.certificates.upper_bound(f, P, result.value, x=result.x) "
                "proves a bound"
            )
        return _provers[0](self, problem, time_limit, gap)

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
        return self._part_of(self.upper_bound)

    def _part_of(self, bound: float) -> float:
        if self.value >= 0.0 and 0.0 < bound < math.inf:
            return min(1.0, self.value / bound)
        return math.nan

    @property
    def phases(self) -> "tuple[Result, ...]":
        """Results of the phases of a two-phase method."""
        return self.details.phases

    @property
    def phase(self) -> int | None:
        """Which phase is returned, counted from 1."""
        return self.details.phase

    @property
    def n_starts(self) -> int:
        """Number of starts of a multi-start run."""
        return self.details.n_starts

    @property
    def n_best(self) -> int:
        """How many starts reached the best value."""
        return self.details.n_best

    @property
    def n_nodes(self) -> int:
        """Nodes of a branch and bound."""
        return self.details.n_nodes

    @property
    def lower_bound(self) -> float:
        """Of a minimisation: a proven lower bound on the global minimum. Else minus infinity."""
        return self.details.lower_bound

    def plot(
        self, axes: "tuple[Axes, Axes] | Axes | None" = None, *, ax: "Axes | None" = None
    ) -> "tuple[Axes, Axes | None]":
        """Draws the value with its bound, and the gap, against the iteration.

        Parameters
        ----------
        axes : pair of matplotlib axes, optional
            Where to draw; by default in a new figure of ``matplotlib.pyplot``.
        ax : matplotlib axes, optional
            Where to draw the value alone; in the place of ``axes``.

        Returns
        -------
        (Axes, Axes or None)
            Of the value and of the gap; ``result.plot()[0].figure.savefig("run.png")`` keeps the picture.

        Raises
        ------
        ImportError
            Without matplotlib, which the extra ``plot`` brings.
        """
        return draw_trace(self, axes if ax is None else ax)

    def _rows(self) -> dict[str, str]:
        part = self._part_of(self.certificate.known)
        is_open = self.certificate.problem is not None and part < 0.9999 and self.status is not Status.OPTIMAL
        better = "; r.prove() may find a better bound" if is_open else ""
        starts = f", {self.n_starts} starts" if self.n_starts > 1 else ""
        nodes = f", {count_of(self.n_nodes, 'node')}" if self.n_nodes else ""
        return {
            "value": f"{self.value:.6g}",
            "proven bound": str(self.certificate)
            + ("" if math.isnan(part) else f": the value is {100.0 * part:.4g} % of it")
            + better,
            "Frank-Wolfe gap": f"{self.fw_gap:.3g}" if math.isfinite(self.fw_gap) else "not computed",
            "guarantee": str(self.guarantee),
            "work": f"{count_of(self.n_iter, 'step')}, {count_of(self.n_lmo, 'oracle call')}{starts}{nodes}, "
            f"{self.time:.3g} s{ran_as(self.compiled)}",
            "x": vector_text(self.x),
        }

    def __str__(self) -> str:
        return as_text(self.message, self._rows())

    def _repr_html_(self) -> str:
        return as_html(self.message, self._rows())


def ran_as(compiled: bool | None) -> str:
    """Words for the code that ran a solve, to come after its time."""
    return {True: ", compiled", False: ", in plain Python", None: ""}[compiled]
