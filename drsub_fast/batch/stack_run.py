"""One run over a stack: ranges of problems for workers, the compiled loop, the ordinary solver for what it leaves.

Worker threads take ranges of problems, each a call of the compiled loop (`drsub_fast.batch.stack_loop`), sized by
the time that problems take, so that unequal problems balance. What the loop leaves undone goes to the
ordinary solver, problem by problem, which also words the errors: a problem is refused here for the same
reason and with the same words as there.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.batch.problem_stack import ProblemStack
from drsub_fast.batch.stack_claims import Claims
from drsub_fast.batch.stack_loop import ELSEWHERE, Answers, PhasesOptions, Scratch, solve_stack
from drsub_fast.engine.codes import FINISHED, SOLVED
from drsub_fast.engine.interrupts import result_of, submit, wait_for
from drsub_fast.engine.jit import Interpreted
from drsub_fast.methods import METHODS, maximize
from drsub_fast.result import Status
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.frank_wolfe import STEP_SIZES
from drsub_fast.solvers.multi_start import local_solver, start_costs
from drsub_fast.solvers.record import Method, MethodName
from drsub_fast.solvers.run import STATUS_OF, workspace_size
from drsub_fast.solvers.starts import Starts
from drsub_fast.solvers.state import as_tolerance

logger: logging.Logger = logging.getLogger("drsub_fast")

# Codes of a problem beside those of the loop; from FIRST_STATUS on, the position of a status in STATUSES.
UNTOUCHED, FIRST_STATUS = -2, 100
STATUSES = tuple(Status)

#: Seconds of work that a worker takes at a time.
_TURN = 0.02


def _is_open(code):
    """Which problems the loop has not brought to its end: one comparison a code, as `numpy.isin` takes longer."""
    return np.logical_and.reduce([code != solved for solved in (*SOLVED, ELSEWHERE)])


#: Options that the compiled loops know.
_OF_LOOPS = {"max_iter", "tol", "lmo", "n_starts", "seed", "subroutine", "step_size", "curvature"}


def takes_step_size(record: Method) -> bool:
    """Whether the compiled loop of a method has a step size, and with it a curvature."""
    return record.loop is not None and "step_size" in signature(record.loop).parameters


def starts_of(method: str, options: dict[str, Any]) -> int | None:
    """Starts of each problem; None where they are its own."""
    return options.get("n_starts", 1 if method in METHODS else None)


def most_steps(method: str, n: int, options: dict[str, Any]) -> int:
    """Updates of x that a run takes at most."""
    if "max_iter" in options:
        return options["max_iter"]
    defaults = [record.default("max_iter") for record in METHODS.values() if "max_iter" in record.options]
    return max(steps if isinstance(steps, int) else n for steps in defaults)


@dataclass
class Turns:
    """Hands out ranges of problems in order, to several workers."""

    remaining: range
    lock: threading.Lock = field(default_factory=threading.Lock)
    errors: list[Any] = field(default_factory=list)

    def next_range(self, size: int) -> range | None:
        """The next range, at most ``size`` long; None when all are taken."""
        with self.lock:
            part, self.remaining = self.remaining[:size], self.remaining[size:]
            return part or None

    def take(self, solve: Callable[[range], object]) -> None:
        """One worker: ``solve(range)`` for one range after the other, sized by the time that they take."""
        size = 1
        while (part := self.next_range(size)) is not None:
            began = time.perf_counter()
            solve(part)
            spent = max(time.perf_counter() - began, 1e-7)
            size = max(1, min(16 * size, int(_TURN * len(part) / spent)))

    def stop(self, error: Exception | None = None) -> None:
        """Hands out nothing more."""
        with self.lock:
            self.remaining = range(0)
            if error is not None:
                self.errors.append(error)


class _Failure(Exception):
    """A problem that could not be solved, with its index."""


class Batch:
    """Problems that are solved together: what `_checked` makes of arguments, and the arrays of answers.

    Messages count the problems from ``first``.
    """

    problems: ProblemStack
    method: MethodName
    options: dict[str, Any]
    on_error: str
    max_iter: int
    finished: Status
    answers: Answers
    messages: dict[int, str]
    compiled: bool | None
    claims: Claims
    phase: tuple[Callable[..., tuple[Any, ...]], tuple[int, int]] | None
    n_starts: int | None
    methods: dict[int, str]

    def __init__(
        self,
        first: int,
        problems: ProblemStack,
        method: MethodName,
        options: dict[str, Any],
        on_error: str,
        trace: bool,
    ) -> None:
        self.first, self.problems, self.method = first, problems, method
        self.options, self.on_error = options, on_error
        self.claims = Claims(problems, method, options)
        count, n = problems.count, problems.n
        self.max_iter, self.methods = most_steps(method, n, options), {}
        self.finished = METHODS[method].finished if method in METHODS else Status.MAX_ITER
        self.answers = Answers._make([
            np.full((count, n), np.nan),
            *np.full((3, count), np.nan),
            np.full(count, UNTOUCHED, np.int64),
            *np.zeros((2, count), np.int64),
            *np.full((2, count if trace else 0, self.max_iter + 1), np.nan),
        ])  # fmt: skip
        self.messages = {}
        self.compiled = None
        self.phase = self._phase()
        self.n_starts = starts_of(method, options)
        # Seconds of plain Python for a problem, and problems left.
        self._pace, self._left = 0.0, count

    def _phase(self):
        """(options of the compiled loop by tol and max_iter, its workspace), or None to solve one by one."""
        problems, sample, options = self.problems, self.problems.sample, self.options
        if self.method not in METHODS or not _OF_LOOPS.issuperset(options):
            return None  # no loop looks at the clock, or asks for more
        solver = METHODS[options.get("subroutine", self.method)]
        if not takes_step_size(solver) and {"step_size", "curvature"} & set(options):
            return None
        if options.get("step_size", "open-loop") not in STEP_SIZES:
            return None
        if sample is None or not problems.has_stacks():
            return None
        if isinstance(sample[1], Polytope) and options["lmo"] == "highs":
            return None
        if METHODS[self.method].many_starts:
            local = local_solver(*sample)
            return (lambda tol, max_iter: local.options(tol)), local.size(problems.n)
        return None if solver.loop is None else (solver.loop, solver.workspace(problems.n))

    def worker(self) -> tuple[Scratch, NDArray[np.float64]] | None:
        """Workspace of one worker."""
        if self.phase is None or self.problems.sample is None:
            return None
        (f, P), n, k_max = self.problems.sample, self.problems.n, self.max_iter
        floats, integers = workspace_size(f, P, P.params("kernel"), self.phase[1])
        scratch = Scratch(np.empty(floats), np.zeros(integers, np.int64), np.empty(n), self._starts())
        return scratch, np.empty((2, 1, k_max + 1))

    def _starts(self):
        """Room for the starts of one problem, the last of which is a second phase; none for methods without one."""
        n, method, n_starts = self.problems.n, METHODS[self.method], self.n_starts or 1
        costs = np.zeros((n_starts + 1 if method.second_phase else 0, n))
        if method.many_starts:
            costs[:-1] = start_costs(n, n_starts, self.options["seed"])
        count = len(costs)
        return Starts._make([
            costs, np.empty((count, n)), *np.empty((2, count)), np.empty((count, 2), np.int64),
            np.empty(count, np.int64), *np.empty((2, count, self.max_iter + 1)),
        ])  # fmt: skip

    def _steps(self, first, last, upper):
        """Options of the steps for the problems first..last - 1; the curvature is NaN where it is not known."""
        given = {"step_size": self.options["step_size"]} if "step_size" in self.options else {}
        if given.get("step_size") == "short":
            given["curvature"] = self._curvatures(first, last, upper)
        return given

    def solve(self, worker: tuple[Scratch, NDArray[np.float64]] | None, piece: range) -> None:
        """Solves a range of problems, by the kernel and what it leaves by the ordinary solver."""
        first, last = piece.start, piece.stop
        answers = Answers(*(array[first:last] for array in self.answers))
        if self.phase is not None and worker is not None:
            scratch, traces = worker
            objectives, sets, upper, accepted = self.problems.stacks(first, last)
            if not len(answers.trace_value):
                answers = answers._replace(trace_value=traces[0], trace_gap=traces[1])
            steps = self._steps(first, last, upper)
            accepted &= ~np.isnan(steps.get("curvature", 0.0))  # the ordinary solver says what is missing
            tol, method = as_tolerance(self.options.get("tol")), METHODS[self.method]
            options = self.phase[0](tol, self.max_iter, **steps)
            if method.second_phase:
                options = PhasesOptions(options, tol, method.many_starts)
            arguments = objectives, sets, upper, accepted, options, scratch, self.max_iter, answers
            self._run_kernel(arguments, last - first)
        for i in np.flatnonzero(_is_open(answers.code)):
            self.solve_alone(first + int(i))

    def _run_kernel(self, arguments, count):
        """Runs `solve_stack`, as plain Python until compiling pays for the problems that are left."""
        if self.compiled:
            solve_stack(*arguments)
            return
        run = solve_stack.choose(arguments, ahead=self._pace * self._left)
        run(*arguments)
        self.compiled = not isinstance(run, Interpreted)
        if isinstance(run, Interpreted):
            self._pace = run.seconds / count

    def _curvatures(self, first, last, upper):
        """Curvature bounds for short steps: the user's, or those of the objectives."""
        given = self.options.get("curvature")
        if given is not None:
            return np.maximum(given.rows(first, last), 1e-300)
        bounds = np.full(last - first, np.nan)
        for i in range(first, last):
            try:
                f, _ = self.problems.single(i)
            except (ValueError, TypeError):
                continue  # the kernel refuses it, and the ordinary solver says why
            bounds[i - first] = f.curvature_bound(upper[(i - first) % len(upper)])
        return np.maximum(bounds, 1e-300)

    def solve_alone(self, i: int) -> None:
        """Problem i by the ordinary solver."""
        try:
            f, P = self.problems.single(i)
            result = maximize(f, P, method=self.method, bound="cheap", **self.claims.single_options(i))
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            if self.on_error == "raise":
                raise _Failure(self.first + i, error) from error
            self.fail(i, str(error))
            return
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if self.phase is None:
            self.compiled = result.compiled
        answers = self.answers
        for name in ("x", "value", "fw_gap", "n_iter", "n_lmo"):
            getattr(answers, name)[i] = getattr(result, name)
        answers.upper_bound[i] = result.certificate.known
        if result.method != self.method:
            self.methods[i] = result.method
        self.claims.known[i] = result.guarantee
        if len(answers.trace_value):
            for trace, values in ((answers.trace_value, result.trace.value), (answers.trace_gap, result.trace.fw_gap)):
                trace[i] = np.nan
                trace[i, : len(values)] = values
        if not result.success and result.status is not self.finished:
            self.messages[i] = f"problem {self.first + i}: {result.message}"
        answers.code[i] = FIRST_STATUS + STATUSES.index(result.status)

    def fail(self, i: int, message: str, status: Status = Status.FAILED) -> None:
        """Marks problem i as not solved."""
        answers = self.answers
        for array in (answers.x, answers.value, answers.fw_gap, answers.upper_bound):
            array[i] = np.nan
        if len(answers.trace_value):
            answers.trace_value[i] = answers.trace_gap[i] = np.nan
        answers.n_iter[i] = answers.n_lmo[i] = 0
        answers.code[i] = FIRST_STATUS + STATUSES.index(status)
        self.messages[i] = f"problem {self.first + i}: {message}"

    def statuses(self) -> NDArray[np.object_]:
        """Status of each problem."""
        code = self.answers.code.copy()
        for solved, status in (STATUS_OF | {FINISHED: self.finished, ELSEWHERE: Status.COMPLETED}).items():
            code[code == solved] = FIRST_STATUS + STATUSES.index(status)
        return np.array(STATUSES, dtype=object)[code - FIRST_STATUS]

    def work(self, turns: Turns, bar: Callable[[int], object]) -> None:
        """One worker: takes ranges until none is left."""
        worker = None

        def solve(part):
            nonlocal worker
            worker, self._left = worker or self.worker(), len(turns.remaining) + len(part)
            self.solve(worker, part)
            bar(len(part))

        try:
            turns.take(solve)
        except _Failure as failure:
            turns.stop(failure)

    def close(self) -> None:
        """Marks what was not solved as interrupted."""
        code = self.answers.code
        for i in np.flatnonzero(_is_open(code) & (code < FIRST_STATUS)):
            self.fail(int(i), Status.INTERRUPTED.value, Status.INTERRUPTED)
        self.messages = dict(sorted(self.messages.items()))


def run_workers(n_jobs: int, turns: Turns, work: Callable[[], object]) -> None:
    """Runs the workers, the only one in this thread; after Ctrl-C each finishes what it has begun."""
    try:
        if n_jobs == 1:
            work()
            return
        with ThreadPoolExecutor(n_jobs, thread_name_prefix="drsub_fast") as pool:
            try:
                futures = [submit(pool, work) for _ in range(n_jobs)]
                wait_for(futures)
            except KeyboardInterrupt:
                turns.stop()
                raise
        for future in futures:
            result_of(future)
    except KeyboardInterrupt:
        turns.stop()
        logger.info("the batch was interrupted")
