"""Answers of a stack of problems, as stacked arrays."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast._records import Record, as_html, as_text, count_of
from drsub_fast.result import Guarantee, Status, ran_as


class _Row(NamedTuple):
    """One problem's entries of a `StackedResult`."""

    x: NDArray[np.float64]
    value: float
    fw_gap: float
    upper_bound: float
    status: Status
    n_iter: int
    n_lmo: int
    message: str


class Answer(_Row):
    """The answer to one problem, with its ``method``, and its ``guarantee``, which is made when it is first read."""

    method: str

    _claim: Callable[[], Guarantee]

    @cached_property
    def guarantee(self) -> Guarantee:
        """The a-priori bound of the method, as a single solve claims it."""
        return self._claim()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(self), {"guarantee": self.guarantee, "method": self.method}


@dataclass(frozen=True, eq=False)
class StackedResult(Record):
    """Answers of a batch of B problems with n variables.

    ``result[i]`` is the answer to problem i as a namedtuple; a slice or an index array gives a `StackedResult`.

    Attributes
    ----------
    x : ndarray, shape (B, n)
        Points returned by the method; NaN where a problem failed.
    value, fw_gap, upper_bound : ndarray, shape (B,)
        f(x); Frank-Wolfe gap; an upper bound on the maximum. NaN where a problem failed.
    status : ndarray of Status, shape (B,)
        Why each run stopped; ``result.status == Status.FAILED`` selects the failures.
    n_iter, n_lmo : ndarray of int, shape (B,)
        Updates of x, and answers of the linear oracle.
    messages : dict of int to str
        What went wrong, by problem; empty if nothing did.
    method : str
        Name of the method.
    time : float
        Wall-clock seconds of the batch.
    trace_value, trace_fw_gap : ndarray, shape (B, max_iter + 1), or None
        Values and gaps at every iterate, NaN beyond the last one; None unless asked for.
    n_starts : int or None
        Starts of each problem. Where `maximize` goes on, by default, to as many starts as a budget pays, and adds the
        method with the best a-priori bound, "multi-start" stops here. None where each problem has its own number.
    guarantee : ndarray of Guarantee, shape (B,)
        The a-priori bound of the method for each problem, as a single solve claims it. Made when it is first read:
        up to some 0.1 ms a problem, or a solve where the premise is not known to hold.
    guaranteed : ndarray of bool, shape (B,)
        Whether a part of the maximum is promised and the premise is known to hold.
    compiled : bool or None
        Whether compiled code ran the problems, at the end at least; else it was plain Python, which is much slower.
        None where that is not known: for an empty stack, and for answers from a checkpoint.
    methods : dict of int to str
        By problem, the method that gave the answer where that is not ``method``: those of "auto".

    Examples
    --------
    >>> import numpy as np, drsub_fast as ds
    >>> r = ds.maximize_stacked(h=np.ones((2, 3)), H=np.zeros((3, 3)), upper=np.ones(3), max_iter=5)
    >>> r.value, len(r[:1]), r[0].status.name
    (array([3., 3.]), 1, 'CONVERGED')
    >>> r.guaranteed, r[0].guarantee.ratio
    (array([ True,  True]), 0.25)
    """

    x: NDArray[np.float64] = field(repr=False)
    value: NDArray[np.float64]
    fw_gap: NDArray[np.float64] = field(repr=False)
    upper_bound: NDArray[np.float64] = field(repr=False)
    status: NDArray[Any] = field(repr=False)
    n_iter: NDArray[np.int64] = field(repr=False)
    n_lmo: NDArray[np.int64] = field(repr=False)
    messages: dict[int, str]
    method: str
    time: float
    trace_value: NDArray[np.float64] | None = field(default=None, repr=False)
    trace_fw_gap: NDArray[np.float64] | None = field(default=None, repr=False)
    n_starts: int | None = 1
    compiled: bool | None = None
    methods: dict[int, str] = field(default_factory=dict, repr=False)

    _ROWS = ("x", "value", "fw_gap", "upper_bound", "status", "n_iter", "n_lmo")

    def __len__(self) -> int:
        return len(self.value)

    def with_claims(self, claims: Callable[..., Guarantee]) -> "StackedResult":
        """The same with guarantees: ``claims(i, status, n_iter, value)`` is that of problem i."""
        other = replace(self)
        other.__dict__["_claims"] = claims
        return other

    def _claim(self, i):
        if "guarantee" in vars(self):
            return self.guarantee[i]
        return vars(self)["_claims"](i, self.status[i], int(self.n_iter[i]), float(self.value[i]))

    @cached_property
    def guarantee(self) -> NDArray[Any]:
        """The a-priori bound of the method for each problem, shape (B,)."""
        guarantees = np.empty(len(self), object)
        for i in range(len(self)):
            guarantees[i] = self._claim(i)
        return guarantees

    @property
    def guaranteed(self) -> NDArray[np.bool_]:
        """Whether a part of the maximum is promised and the premise is known to hold, shape (B,)."""
        return np.array([g.ratio is not None and g.holds is True for g in self.guarantee], bool)

    def __copy__(self) -> "StackedResult":
        other = object.__new__(StackedResult)
        other.__dict__.update(vars(self))
        return other

    def __getstate__(self) -> dict[str, Any]:
        # Deep copies and pickles hold the guarantees, not the problems that they are made from.
        state = dict(vars(self))
        if state.pop("_claims", None) is not None:
            state["guarantee"] = self.guarantee
        return state

    @classmethod
    def numeric(cls) -> tuple[str, ...]:
        """Names of the arrays of numbers."""
        return *(name for name in cls._ROWS if name != "status"), "trace_value", "trace_fw_gap"

    def status_names(self) -> np.ndarray:
        """Name of the status of each problem."""
        return names_of(self.status)

    def __getitem__(self, index: Any) -> Any:
        rows = {name: getattr(self, name)[index] for name in self._ROWS}
        if np.ndim(index) == 0 and not isinstance(index, slice):
            position = range(len(self))[index]
            method = self.methods.get(position, self.method)
            rows |= {name: rows[name].item() for name in self._ROWS if name not in ("x", "status")}
            answer = Answer(**rows, message=self.messages.get(position) or f"{method}: {rows['status'].value}")
            answer.method, answer._claim = method, partial(self._claim, position)
            return answer
        positions = np.arange(len(self))[index]
        messages, methods = (
            {new: texts[old] for new, old in enumerate(positions.tolist()) if old in texts}
            for texts in (self.messages, self.methods)
        )
        traces = {name: getattr(self, name) for name in ("trace_value", "trace_fw_gap")}
        rows |= {name: None if trace is None else trace[index] for name, trace in traces.items()}
        part = replace(self, messages=messages, methods=methods, **rows)
        return part.with_claims(lambda i, *_: self._claim(int(positions[i])))

    def _table(self):
        counts = Counter(self.status_names().tolist())
        solved = self.value[np.isfinite(self.value)]
        spread = f"{solved.min():.6g} to {solved.max():.6g}, mean {solved.mean():.6g}" if solved.size else "none"
        gaps = self.fw_gap[np.isfinite(self.fw_gap)]
        rows = {
            "values": spread,
            "largest gap": f"{gaps.max():.3g}" if gaps.size else "not computed",
            "status": ", ".join(f"{count} {name}" for name, count in counts.items()),
            "work": f"{count_of(self.n_iter.sum(), 'step')}, {count_of(self.n_lmo.sum(), 'oracle call')}, "
            f"{self.time:.3g} s{ran_as(self.compiled)}",
        }
        if self.methods:
            used = Counter(self.methods.get(i, self.method) for i in range(len(self)))
            rows["methods"] = ", ".join(f"{count} {name}" for name, count in used.most_common())
        if self.n_starts is not None and self.n_starts > 1:
            more = "; ds.maximize(f, P) may run more" if self.method == "multi-start" else ""
            rows["starts"] = f"{self.n_starts} a problem{more}"
        rows |= {
            f"problem {i}": message.removeprefix(f"problem {i}: ") for i, message in list(self.messages.items())[:5]
        }
        return f"{self.method}: {len(self)} problems with {self.x.shape[1]} variables", rows

    def __str__(self) -> str:
        return as_text(*self._table())

    def _repr_html_(self) -> str:
        return as_html(*self._table())


def names_of(status: NDArray[np.object_]) -> np.ndarray:
    """Names of the members of an array of `Status`."""
    names, rest = np.empty(len(status), f"U{max(len(member.name) for member in Status)}"), np.ones(len(status), bool)
    # Enumerations are slow to hash and to name: one comparison of the array for each that occurs.
    while rest.any():
        which = status == status[rest.argmax()]
        names[which] = status[rest.argmax()].name
        rest &= ~which
    return names


def unsolved_stack(count: int, n: int, max_iter: int | None, method: str, n_starts: int | None = 1) -> StackedResult:
    """The answers of a batch that was interrupted before it began; with traces unless ``max_iter`` is None."""
    value, fw_gap, upper_bound = np.full((3, count), np.nan)
    n_iter, n_lmo = np.zeros((2, count), np.int64)
    values, gaps = (None, None) if max_iter is None else np.full((2, count, max_iter + 1), np.nan)
    return StackedResult(
        np.full((count, n), np.nan), value, fw_gap, upper_bound, np.full(count, Status.INTERRUPTED, object),
        n_iter, n_lmo, {}, method, 0.0, values, gaps, n_starts,
    )  # fmt: skip


def put_rows(answers: StackedResult, first: int, part: StackedResult) -> None:
    """Puts the answers to some problems where they belong."""
    rows = slice(first, first + len(part))
    for name in (*part.numeric(), "status"):
        if getattr(answers, name) is not None:
            getattr(answers, name)[rows] = getattr(part, name)
    for texts, more in ((answers.messages, part.messages), (answers.methods, part.methods)):
        texts.update((first + i, text) for i, text in more.items())


def pack(answers: StackedResult) -> dict[str, np.ndarray]:
    """A `StackedResult` as a dict of arrays, which are the same for every run: its time is left out."""
    arrays = {name: getattr(answers, name) for name in answers.numeric() if getattr(answers, name) is not None}
    # As numbers of the members their order would be part of the format.
    arrays["status"] = answers.status_names()
    rest = {name: getattr(answers, name) for name in ("method", "n_starts")}
    rest |= {name: list(getattr(answers, name).items()) for name in ("messages", "methods")}
    return arrays | {"rest": np.frombuffer(json.dumps(rest).encode(), np.uint8)}


def unpack(arrays: dict[str, Any]) -> StackedResult:
    """The `StackedResult` that `pack` was given, with a time of 0."""
    rest = json.loads(arrays.pop("rest").tobytes().decode())
    arrays["status"] = np.array([Status[name] for name in arrays["status"].tolist()], object)
    arrays |= {name: {int(i): str(text) for i, text in rest[name]} for name in ("messages", "methods")}
    n_starts = None if rest["n_starts"] is None else int(rest["n_starts"])
    return StackedResult(**arrays, method=str(rest["method"]), time=0.0, n_starts=n_starts)
