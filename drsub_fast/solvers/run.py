"""Runs a solver loop from Python: workspaces, chunks, callback, time limit, oracle misses, Ctrl-C."""

import logging
import math
from collections import namedtuple
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_flag, as_function, as_real, one_of
from drsub_fast.claims.gate import Promise, claims
from drsub_fast.engine.clock import (
    OutOfTime,
    is_late,
    is_limited,
    last_moment,
    latest_moment,
    next_chunk,
    now,
    thread_time_left,
    until,
    untimed,
)
from drsub_fast.engine.codes import (
    BREAK,
    CONVERGED,
    FAILED,
    NEEDS_PROJECTION,
    NEEDS_SOLVER,
    NON_FINITE,
    PAUSED,
    SOLVED,
    STALLED,
)
from drsub_fast.engine.jit import Interpreted, Kernel, compiling, has_time
from drsub_fast.engine.signatures import type_code
from drsub_fast.engine.threads import one_blas_thread, progress_bar
from drsub_fast.errors import OracleError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.objectives.base import Objective, objective_size
from drsub_fast.result import Certificate, Guarantee, Result, Status, Trace
from drsub_fast.sets.base import ORACLES, FeasibleSet, set_size
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.domain import early_point, require_finite_start, solver_upper, starting_point
from drsub_fast.solvers.state import (
    BASE,
    BASED,
    BEST_GAP,
    BEST_K,
    CLOSING,
    GAP,
    N_CONTROL,
    N_LMO,
    N_NUMBERS,
    STARTED,
    STATE_VECTORS,
    SUPPLIED,
    TOP_VALUE,
    VALUE,
    K,
    Tolerance,
    as_tolerance,
    linear_bound,
    open_run,
)

logger: logging.Logger = logging.getLogger("drsub_fast")

# Floats in a cache line, and of a workspace from which on it is aligned.
_LINE, _LARGE = 8, 8192
# Entries of the rows up to which linear programs are solved as plain Python under a time limit.
_PLAIN_ENTRIES = 10_000
# Steps of a long run, for what it costs: most limits are never reached.
USUAL_STEPS = 100

# Seconds that a time limit must leave for compiling the objective's value, beside a loop that has been.
_VALUE_SECONDS = 5.0

# Values that differ by this part of them are the same: one is from scratch, the other from step to step.
_SAME = 1e-14

# Places of the vectors that Python reads, in the order of `State`.
CANDIDATE, BEST, TOP, PREVIOUS = 1, 4, 5, 6

#: Status of a run by the code with which its loop came to its end, except FINISHED, where it depends on the method.
STATUS_OF = {CONVERGED: Status.CONVERGED, STALLED: Status.STALLED}

#: What a callback receives.
Progress = namedtuple("Progress", "n_iter x value fw_gap")


class Run:
    """What every solver function shares: checked options, arrays, and the loop around the loop.

    The options are those of `frank_wolfe`. Before `solve` a method may set ``first_vertex``, the oracle's answer for
    the first step.
    """

    began: float
    f: Objective
    max_iter: int
    tol: Tolerance
    limit: float
    deadline: float | None
    last_moment: float | None
    callback: Callable[[Progress], object] | None
    reported: int
    callback_every: int
    progress: bool
    lmo: str
    params: tuple[Any, ...]
    upper: NDArray[np.float64]
    x: NDArray[np.float64]
    from_zero: bool
    base: float | None
    solver: HighsOracle | None
    compiled: bool
    has_step: bool = False
    first_vertex: NDArray[np.float64] | None
    floats: NDArray[np.float64]
    integers: NDArray[np.int64]
    trace_value: NDArray[np.float64]
    trace_gap: NDArray[np.float64]

    def __init__(
        self,
        f: Objective,
        P: FeasibleSet,
        x0: ArrayLike | None = None,
        max_iter: int = 100,
        lmo: Literal["auto", "highs", "kernel"] = "auto",
        tol: float | None = None,
        callback: Callable[..., Any] | None = None,
        callback_every: int = 1,
        time_limit: float | None = None,
        progress: bool = False,
    ) -> None:
        self.began = now()
        require_problem(f, P)
        self.f, self.P = f, P
        self.max_iter = as_count(max_iter, "max_iter")
        self.tol = as_tolerance(tol)
        limit = math.inf if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
        self.limit = limit = min(limit, thread_time_left())
        self.deadline, self.last_moment = None, None
        if limit < math.inf:
            self.deadline, self.last_moment = self.began + limit, last_moment(self.began, limit)
        self.callback, self.reported = as_function(callback, "callback"), 0
        self.callback_every = as_count(callback_every, "callback_every", lower=1)
        self.progress = as_flag(progress, "progress")
        self.lmo = one_of(lmo, "lmo", ORACLES)
        self.params = P.params(lmo)
        self.upper = solver_upper(f, P)
        self.x = starting_point(f, P, x0, self.upper)
        self.from_zero = x0 is None and P.is_down_closed and f.finite_at_zero
        self.base = None if x0 is None or tol is not None else self._base()
        self.solver = None
        self.compiled = False
        self.first_vertex = None

    def _base(self):
        """f half-way between the set's own starting point and x0, from which the rise of f is counted, if in time."""
        middle = 0.5 * (self.P.start(self.upper) + self.x)
        try:
            return self._call(self.f.value, np.minimum(middle, self.upper))
        except OutOfTime:
            return None

    def size(self, extra: tuple[int, int] = (0, 0)) -> tuple[int, int]:
        """Lengths of the flat arrays of this run; ``extra`` is what the loop itself wants at their ends."""
        return workspace_size(self.f, self.P, self.params, extra)

    def solve(
        self,
        loop: Kernel,
        options: tuple[Any, ...],
        finished: Status = Status.COMPLETED,
        extra: tuple[int, int] = (0, 0),
    ) -> Status:
        """Runs the loop to its end; returns the status of the run, ``finished`` if it took all its steps."""
        if not (self.progress or self.f.uses_blas):  # contexts of nothing would take a microsecond
            return self._solve(loop, options, finished, extra, None)
        shown = progress_bar(True, self.max_iter, unit="step") if self.progress else nullcontext()
        with self.blas_limit(), shown as bar:
            return self._solve(loop, options, finished, extra, bar)

    def blas_limit(self) -> AbstractContextManager[object]:
        """A context in which loops run: of one BLAS thread, if they call BLAS.

        Small products in threads wait for the slowest: 100 steps of a softmax at n = 128 take 11 to 270 ms, not 2.2.
        """
        return one_blas_thread() if self.f.uses_blas else nullcontext()

    def _solve(self, loop, options, finished, extra, bar):
        f, x, upper = self.f, self.x, self.upper
        n_floats, n_integers = self.size(extra)
        self.floats, self.integers = _aligned(n_floats), np.zeros(n_integers, np.int64)
        if self.first_vertex is not None:
            self._view(CANDIDATE)[:], self.integers[SUPPLIED] = self.first_vertex, 1
        if self.base is not None and math.isfinite(self.base):
            self.floats[BASE], self.integers[BASED] = self.base, 1
        self.trace_value, self.trace_gap = np.empty(self.max_iter + 1), np.empty(self.max_iter + 1)
        self.trace_gap.fill(math.nan)
        arguments = (f.params, self.params, options, self.floats, self.integers, x, upper)
        traces = self.trace_value, self.trace_gap
        signature = (*arguments, 1, 1, *traces)
        run = self._call(self._entry, loop, options, signature)
        if self.prefers_solver(run):
            self.lmo, self.params = "highs", self.P.params("highs")
            return self._solve(loop, options, finished, extra, bar)
        k_max = self.max_iter
        timed = self.callback is None and (self.deadline is not None or not self.compiled)
        k_stop = chunk = self.first_chunk(n_floats, timed)
        status = None
        try:
            while True:
                k = int(self.integers[K])
                start = now() if timed else 0.0
                self.has_step = k > 0
                code = self._call(run, *arguments, k_max, min(k_stop, k_max + 1), *traces)
                if bar is not None:
                    bar(int(self.integers[K]) - k)
                if code in SOLVED:
                    return status or self._report_last() or STATUS_OF.get(code, finished)
                if code == NON_FINITE:
                    if self.integers[K] == 0:
                        require_finite_start(f, x)
                    return Status.NON_FINITE
                if code in (NEEDS_SOLVER, NEEDS_PROJECTION):
                    self._call_solver(code)
                elif code == FAILED:
                    raise self.P.why_failed(self._views[0].cost, self._views[0].bound)
                if status is None:
                    status = self._stop_asked(code)
                    if status is not None:
                        if code == PAUSED:
                            return status
                        k_max = int(self.integers[K])
                if not self.compiled:
                    run.arrays = self.integers, self.x, self.floats
                if code == BREAK:
                    if timed:
                        chunk = next_chunk(chunk, int(self.integers[K]) - k, now() - start, self.time_left())
                    k_stop = int(self.integers[K]) + chunk
                if not self.compiled and run.pays(most=self._most_ahead(run.seconds)):
                    run = self._call(self._entry, loop, options, signature)
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        except OutOfTime:
            return Status.TIME_LIMIT

    def _entry(self, loop, options, arguments):
        """What to call for the loop: its compiled code, or the loop as plain Python until compiling pays."""
        f, P = self.f, self.P
        family = objective_kind(f)[2], set_kind(P, self.params)[2], type(options)
        if f.compiled:
            known = family in loop.entries
            run = loop.entry(family, arguments)
            if not known and family in loop.entries and has_time(_VALUE_SECONDS):
                with compiling():  # what `result` asks for
                    f.value(self.x)
        else:
            run = loop.choose_around(family)
        self.compiled = not isinstance(run, Interpreted)
        if not self.compiled:
            # What a first step leaves of the workspace is not read where it is cut.
            run.arrays = (self.integers, self.x, self.floats)[: 3 if self.integers[STARTED] else 2]
        return run

    def prefers_solver(self, run: Callable[..., Any]) -> bool:
        """Whether HiGHS should solve the linear programs of a loop that runs as plain Python under a time limit.

        The first program with 200 rows and 2000 columns takes minutes as plain Python, and 0.1 s by HiGHS.
        """
        entries = getattr(self.P, "m", 0) * self.f.n
        is_large = self.deadline is not None and self.lmo == "auto" and entries > _PLAIN_ENTRIES
        return is_large and isinstance(run, Interpreted) and self.P.params("highs") is not self.params

    def _most_ahead(self, seconds):
        """The most that the loop has left to do, in seconds, by what its steps so far took."""
        k = int(self.integers[K])
        return seconds * (self.max_iter - k) / k if k else math.inf

    def first_chunk(self, n_floats: int, timed: bool) -> int:
        """Steps between two looks at the clock and the keyboard: about 50 ms of work."""
        if self.callback is not None:
            return self.callback_every
        if timed or self.deadline is not None:
            return 1
        return 1 + 50_000_000 // (n_floats + self.f.n * self.f.n)

    def _stop_asked(self, code):
        """Status if the callback or the clock asks to stop, else None."""
        if self.callback is not None and code == BREAK:
            self.reported = int(self.integers[K])
            if self._report(self.x, self.floats[VALUE], self.floats[GAP]):
                return Status.CALLBACK
        return Status.TIME_LIMIT if self.time_left() == 0.0 else None

    def _report(self, x, value, gap):
        """Whether the callback asks to stop after an update."""
        x = x.copy()
        self.into_bounds(x)
        return self.callback is not None and self.callback(Progress(self.reported, x, float(value), float(gap)))

    def _report_last(self):
        """Calls the callback after the last update, which ends a loop before Python looks; CALLBACK if it says stop."""
        k = int(self.integers[K])
        if self.callback is None or k < self.reported + self.callback_every:
            return None
        self.reported = k
        is_back = self.integers[CLOSING] and 0 <= self.integers[BEST_K] < k  # at an iterate before the last
        x = self._view(PREVIOUS) if is_back else self.x
        return Status.CALLBACK if self._report(x, self.trace_value[k], self.trace_gap[k]) else None

    def _call_solver(self, code):
        """Answers an oracle or projection call that the kernel handed back."""
        state, _, set_work = self._views
        if code == NEEDS_PROJECTION:
            state.candidate[:] = self._call(self.P.project_by_solver, state.candidate, state.bound)
        else:
            # The time may be up before the loop enters this iterate.
            k = int(state.control[K])
            self.trace_value[k] = state.numbers[VALUE]
            if not np.isfinite(state.cost).all():
                state.candidate[:] = math.nan
            else:
                if self.solver is None:
                    self.solver = self.P.solver(state.bound.copy(), self.lmo)
                end = self._end()
                left = None if end is None else max(0.0, end - now())
                try:
                    state.candidate[:] = self.solver.maximize(state.cost, state.bound, left)
                except OracleError as error:
                    if left is not None and "ime limit" in error.status:
                        raise OutOfTime from None
                    raise
                self.P.load_basis(self.solver, self.params, set_work)
        state.control[SUPPLIED] = 1

    @cached_property
    def _views(self):
        """The state and the workspaces of objective and set, for Python."""
        return open_run.interpreted(self.f.params, self.params, self.f.n, self.floats, self.integers)

    def within_limit(self) -> until:
        """A context in which this thread does nothing that the time limit has no room for."""
        return until(self._end())

    def _end(self):
        # Before the first step from 0 there must be time left for `early_point`.
        return self.last_moment if self.has_step or not self.from_zero else self.deadline

    def _call(self, function, *arguments):
        """Calls a function within the limit, if there is one."""
        if self.last_moment is None:
            return function(*arguments)
        with self.within_limit():
            return function(*arguments)

    def time_left(self) -> float | None:
        """Seconds until the time limit, at least 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - now())

    def result(self, method: str, status: Status, promise: Promise | Guarantee, returns_best: bool = False) -> Result:
        """Packages what the loop left behind; ``promise`` is that of a run that takes all its steps."""
        if (is_limited() or self.deadline is not None) and not is_late():
            with untimed():
                return self.result(method, status, promise, returns_best)
        # Lists: an entry of a small array costs as much as ten of them.
        numbers, control = self.floats[:N_NUMBERS].tolist(), self.integers[:N_CONTROL].tolist()
        k, x, started = control[K], self.x, control[STARTED]
        known = numbers[VALUE] if started else None
        if control[CLOSING]:
            value, gap = numbers[VALUE], numbers[GAP]
            if not self.P.is_down_closed and self.into_bounds(x):
                value, status = self._last_value(x, value, status)
        elif returns_best and started and control[BEST_K] >= 0:
            self.into_bounds(self._view(BEST), out=x)
            value, status = self._last_value(x, float(self.trace_value[control[BEST_K]]), status)
            gap = numbers[BEST_GAP]
        else:
            self.into_bounds(x)
            value, status = self._last_value(x, known, status)
            gap = math.nan
        self.P.verify(x, gap / max(np.abs(self.f.gradient(x)) @ self.upper, 1e-300) if gap < 0.0 else 0.0)
        if status.is_stop and not control[CLOSING]:
            if k == 0 and self.from_zero and status is Status.TIME_LIMIT:
                x, value, known, started = *self.early_point(x, value), None, False
            self.trace_value[k] = value if known is None else known
        top_x, top_value = x, value
        if started and numbers[TOP_VALUE] - value > _SAME * abs(value):
            self.into_bounds(top := self._view(TOP).copy())
            top_value, status = self._last_value(top, numbers[TOP_VALUE], status)
            top_x, top_value = (top, top_value) if top_value > value else (x, value)
        if k < self.max_iter:
            self.trace_value, self.trace_gap = self.trace_value[: k + 1], self.trace_gap[: k + 1]
        bound = bound_from_zero(self.f, self.upper, self.trace_value, self.trace_gap) if self.from_zero else math.inf
        met = k, self.trace_value, top_value, bound
        try:
            guarantee, bound = claims(self.f, self.P, self.upper, promise, status, *met)
        except KeyboardInterrupt:  # inside a function of the user that a premise asked
            status = Status.INTERRUPTED
            guarantee, bound = claims(self.f, self.P, self.upper, promise, status, *met)
        return Result(
            x, value, gap, Certificate(bound, None, (self.f, self.P)), guarantee, status, k, control[N_LMO],
            now() - self.began, Trace(self.trace_value, self.trace_gap), top_x.copy(),
            top_value, method, "", self.compiled,
        )  # fmt: skip

    def into_bounds(self, x: NDArray[np.float64], out: NDArray[np.float64] | None = None) -> bool:
        """Moves x, which rounding may have led an ulp outside, between the set's bounds; whether it was below them."""
        out = x if out is None else out
        np.minimum(x, self.upper, out=out)
        if self.P.is_down_closed or not (out < self.P._lower).any():
            return False
        np.maximum(out, self.P._lower, out=out)
        return True

    def _last_value(self, x, known, status):
        """(f(x), status) at the end of a run; after Ctrl-C in that call of f, what is known, or from one more call."""
        try:
            return self.value_in_time(x, known), status
        except KeyboardInterrupt:
            value = known if known is not None and math.isfinite(known) else self.value_in_time(x, known)
            return value, Status.INTERRUPTED

    def early_point(self, x: NDArray[np.float64], value: float) -> tuple[NDArray[np.float64], float]:
        """A better point and its value for a run from 0 that the time limit ended before its first step."""
        try:
            with until(latest_moment(self.began, self.limit)):
                point, its_value = early_point(self.f, self.P, self.upper)
        except OutOfTime:
            return x, value
        self.from_zero = False
        return (point, its_value) if its_value > value else (x, value)

    def value_in_time(self, x: NDArray[np.float64], known: float | None) -> float:
        """f(x) from scratch, or where the time is over, what the loop knows it to be; None is nothing."""
        try:
            return self._call(self.f.value, x)
        except OutOfTime:
            if known is not None and math.isfinite(known):
                return known
            with untimed():
                return getattr(self.f, "late_value", self.f.value)(x)

    def _view(self, slot):
        """One of the vectors of the state."""
        return self.floats[N_NUMBERS + slot * self.f.n :][: self.f.n]


def bound_from_zero(
    f: Objective, upper: NDArray[np.float64], trace_value: NDArray[np.float64], trace_gap: NDArray[np.float64]
) -> float:
    """`linear_bound` of the traces of a run from 0, if f is known to be DR-submodular; else infinity."""
    bound = float(linear_bound.interpreted(trace_value, trace_gap))
    return bound if bound < math.inf and f.dr_submodular_on(upper) else math.inf


def workspace_size(f: Objective, P: FeasibleSet, params: tuple[Any, ...], extra: tuple[int, int]) -> tuple[int, int]:
    """Lengths of the flat arrays of a run on f and P, the set's parameters being ``params``."""
    floats, integers, _ = objective_kind(f)
    set_floats, set_integers, _ = set_kind(P, params)
    state = N_NUMBERS + STATE_VECTORS * f.n
    return state + floats + set_floats + extra[0], N_CONTROL + integers + set_integers + extra[1]


def _aligned(n):
    """Uninitialised floats that reach a cache line after `State.numbers`, and again before the objective's if 8 | n.

    Rows of matrices that straddle the lines cost a softmax of 64 to 256 items 5 %; below, this would cost as much.
    """
    if n < _LARGE:
        return np.empty(n)
    floats = np.empty(n + _LINE - 1)
    first = -(floats.__array_interface__["data"][0] // floats.itemsize + N_NUMBERS) % _LINE
    return floats[first : first + n]


def objective_kind(f: Objective) -> tuple[int, int, int | None]:
    """Workspace of an objective and the type of its parameters, kept on the object: (floats, integers, type)."""
    kind = f.__dict__.get("_kind")
    if kind is None:
        kind = vars(f)["_kind"] = (*objective_size.twin(f.params), type_code(f.params) if f.compiled else None)
    return kind


def set_kind(P: FeasibleSet, params: tuple[Any, ...]) -> tuple[int, int, int]:
    """The same of a set for these parameters."""
    kinds = P.__dict__.setdefault("_kinds", {})
    mode = getattr(params, "mode", 0)
    kind = kinds.get(mode)
    if kind is None:
        kind = kinds[mode] = (*set_size.twin(params), type_code(params))
    return kind
