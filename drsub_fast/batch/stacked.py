"""Many problems of one size: stacked arrays in, stacked arrays out.

Worker threads take ranges of problems, each a call of the compiled loop (`drsub_fast.batch.stack_loop`), sized by
the time that problems take, so that unequal problems balance. What the loop leaves undone goes to the
ordinary solver, problem by problem, which also words the errors: a problem is refused here for the same
reason and with the same words as there.
"""

import logging
import math
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from inspect import signature

import numpy as np

from drsub_fast._checks import as_count, as_flag, as_seed, one_of
from drsub_fast._records import Record, as_html, as_text
from drsub_fast.batch.checkpoint import Checkpoint, fingerprint
from drsub_fast.batch.problem_stack import ProblemStack, StackedArgument
from drsub_fast.batch.stack_loop import (
    Answers,
    MultiStartOptions,
    Scratch,
    TwoPhaseOptions,
    solve_stack,
)
from drsub_fast.engine.jit import Interpreted
from drsub_fast.engine.threads import one_blas_thread, progress_bar, worker_count
from drsub_fast.methods import METHODS, maximize
from drsub_fast.problems.standard_form import Problem
from drsub_fast.result import Status
from drsub_fast.sets.base import ORACLES
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.frank_wolfe import STEP_SIZES
from drsub_fast.solvers.multi_start import default_starts, local_solver, random_costs
from drsub_fast.solvers.run import (
    CONVERGED,
    FINISHED,
    STALLED,
    USUAL_STEPS,
    as_tolerance,
    workspace_size,
)
from drsub_fast.solvers.two_phase import subroutines

logger = logging.getLogger("drsub_fast")

# Codes of a problem beside those of the loop; from FIRST_STATUS on, the position of a status in STATUSES.
UNTOUCHED, FIRST_STATUS = -2, 100
STATUSES = tuple(Status)
_SOLVED = (CONVERGED, FINISHED, STALLED)

#: Seconds of work that a worker takes at a time.
_TURN = 0.02
#: A checkpoint cuts the batch into this many chunks.
_CHUNKS = 256

Answer = namedtuple("Answer", "x value fw_gap upper_bound status n_iter n_lmo message")


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
    """

    x: np.ndarray = field(repr=False)
    value: np.ndarray
    fw_gap: np.ndarray = field(repr=False)
    upper_bound: np.ndarray = field(repr=False)
    status: np.ndarray = field(repr=False)
    n_iter: np.ndarray = field(repr=False)
    n_lmo: np.ndarray = field(repr=False)
    messages: dict
    method: str
    time: float
    trace_value: np.ndarray | None = field(default=None, repr=False)
    trace_fw_gap: np.ndarray | None = field(default=None, repr=False)

    _ROWS = ("x", "value", "fw_gap", "upper_bound", "status", "n_iter", "n_lmo")

    def __len__(self):
        return len(self.value)

    def __getitem__(self, index):
        rows = [getattr(self, name)[index] for name in self._ROWS]
        if np.ndim(index) == 0 and not isinstance(index, slice):
            position = range(len(self))[index]
            message = self.messages.get(position) or f"{self.method}: {rows[4].value}"
            return Answer(rows[0], *map(float, rows[1:4]), rows[4], *map(int, rows[5:]), message)
        positions = np.arange(len(self))[index]
        messages = {new: self.messages[old] for new, old in enumerate(positions.tolist()) if old in self.messages}
        traces = [None if trace is None else trace[index] for trace in (self.trace_value, self.trace_fw_gap)]
        return StackedResult(*rows, messages, self.method, self.time, *traces)

    def _table(self):
        counts = {status: int((self.status == status).sum()) for status in dict.fromkeys(self.status.tolist())}
        solved = self.value[np.isfinite(self.value)]
        spread = f"{solved.min():.6g} to {solved.max():.6g}, mean {solved.mean():.6g}" if solved.size else "none"
        gaps = self.fw_gap[np.isfinite(self.fw_gap)]
        rows = {
            "values": spread,
            "largest gap": f"{gaps.max():.3g}" if gaps.size else "not computed",
            "status": ", ".join(f"{count} {status.name}" for status, count in counts.items()),
            "work": f"{self.n_iter.sum()} steps, {self.n_lmo.sum()} oracle calls, {self.time:.3g} s",
        }
        rows |= {f"problem {i}": message for i, message in list(self.messages.items())[:5]}
        return f"{self.method}: {len(self)} problems with {self.x.shape[1]} variables", rows

    def __str__(self):
        return as_text(*self._table())

    def _repr_html_(self):
        return as_html(*self._table())


class _Turns:
    """Hands out ranges of problems in order, to several workers."""

    def __init__(self, pieces):
        self.pieces = list(reversed(pieces))
        self.lock = threading.Lock()
        self.stopped = False
        self.errors = []

    def take(self, size=None):
        """The next range, at most ``size`` long if given; None when all are taken."""
        with self.lock:
            if not self.pieces:
                return None
            piece = self.pieces.pop()
            if size is not None and len(piece) > size:
                self.pieces.append(piece[size:])
                piece = piece[:size]
            return piece

    def stop(self, error=None):
        """Hands out nothing more."""
        with self.lock:
            self.stopped = True
            self.pieces.clear()
            if error is not None:
                self.errors.append(error)


class _Failure(Exception):
    """A problem that could not be solved, with its index."""


class _Batch:
    """One call of `maximize_stacked`: problems, options and the arrays of answers."""

    def __init__(self, problems, method, max_iter, options, lmo, on_error, trace):
        self.problems, self.method, self.max_iter = problems, method, max_iter
        self.options, self.lmo, self.on_error = options, lmo, on_error
        self.finished = METHODS[method].finished
        count, n = problems.count, problems.n
        self.answers = Answers(
            np.full((count, n), np.nan),
            *np.full((3, count), np.nan),
            np.full(count, UNTOUCHED, np.int64),
            *np.zeros((2, count), np.int64),
            *np.full((2, count if trace else 0, max_iter + 1), np.nan),
        )
        self.messages = {}
        self.compiled = False
        self.phase = self._phase()
        self.costs = None
        if METHODS[method].many_starts:
            self.costs = random_costs(np.ones(n), options["n_starts"], options["seed"])

    def _phase(self):
        """(options of the compiled loop by tol and max_iter, its workspace), or None to solve one by one."""
        problems = self.problems
        if not problems.has_stacks() or (isinstance(problems.sample[1], Polytope) and self.lmo == "highs"):
            return None
        if METHODS[self.method].many_starts:
            local = local_solver(*problems.sample)
            return (lambda tol, max_iter: local.options(tol)), local.size(problems.n)
        solver = METHODS[self.options.get("subroutine", self.method)]
        return None if solver.loop is None else (solver.loop, solver.workspace(problems.n))

    def worker(self):
        """Workspace of one worker."""
        if self.phase is None:
            return None
        (f, P), n, k_max = self.problems.sample, self.problems.n, self.max_iter
        floats, integers = workspace_size(f, P, P.params("kernel"), self.phase[1])
        scratch = Scratch(
            np.empty(floats), np.zeros(integers, np.int64),
            *np.empty((2, n)), *np.empty((2, k_max + 1)), np.empty(2), np.empty(3, np.int64),
        )  # fmt: skip
        return scratch, np.empty((2, 1, k_max + 1))

    def option_stack(self, first, last, upper):
        """Options of the loop for the problems first..last - 1."""
        options = self.options
        given = {"step_size": options["step_size"]} if "step_size" in options else {}
        if given.get("step_size") == "short":
            given["curvature"] = self._curvatures(first, last, upper)
        phase = self.phase[0](as_tolerance(options.get("tol")), self.max_iter, **given)
        if METHODS[self.method].many_starts:
            return MultiStartOptions(self.costs, phase)
        return TwoPhaseOptions(phase) if METHODS[self.method].second_phase else phase

    def solve(self, worker, piece):
        """Solves a range of problems, by the kernel and what it leaves by the ordinary solver."""
        first, last = piece.start, piece.stop
        answers = Answers(*(array[first:last] for array in self.answers))
        if self.phase is not None:
            scratch, traces = worker
            objectives, sets, upper, accepted = self.problems.stacks(first, last)
            if not len(answers.trace_value):
                answers = answers._replace(trace_value=traces[0], trace_gap=traces[1])
            options = self.option_stack(first, last, upper)
            arguments = objectives, sets, upper, accepted, options, scratch, self.max_iter, answers
            self._kernel(arguments)(*arguments)
        for i in np.flatnonzero(~np.isin(answers.code, _SOLVED)):
            self.solve_alone(first + int(i))

    def _kernel(self, arguments):
        """`solve_stack`, or its plain Python where that has solved all problems sooner."""
        if not self.compiled:
            n, scratch = self.problems.n, arguments[5]
            steps = min(self.max_iter, USUAL_STEPS) * (1 if self.costs is None else len(self.costs))
            run = solve_stack.choose(arguments, self.problems.count * steps * (scratch.floats.size + n * n))
            if isinstance(run, Interpreted):
                return run
            self.compiled = True
        return solve_stack

    def _curvatures(self, first, last, upper):
        """Curvature bounds for short steps: the user's, or those of the objectives."""
        given = self.options.get("curvature")
        if given is not None:
            return np.maximum(given.rows(first, last), 1e-300)
        bounds = np.ones(last - first)
        for i in range(first, last):
            try:
                f, _ = self.problems.single(i)
            except (ValueError, TypeError):
                continue  # the kernel refuses it, and the ordinary solver says why
            bounds[i - first] = max(f.curvature_bound(upper[(i - first) % len(upper)]), 1e-300)
        return bounds

    def solve_alone(self, i):
        """Problem i by the ordinary solver."""
        options = dict(self.options)
        if options.get("curvature") is not None:
            options["curvature"] = float(options["curvature"].one(i))
        try:
            f, P = self.problems.single(i)
            result = maximize(f, P, method=self.method, bound="cheap", max_iter=self.max_iter, lmo=self.lmo, **options)
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            if self.on_error == "raise":
                raise _Failure(i, error) from error
            self.fail(i, f"problem {i}: {error}")
            return
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        answers = self.answers
        answers.x[i] = result.x
        answers.value[i], answers.fw_gap[i] = result.value, result.fw_gap
        answers.upper_bound[i] = result.upper_bound
        answers.n_iter[i], answers.n_lmo[i] = result.n_iter, result.n_lmo
        if len(answers.trace_value):
            for trace, values in ((answers.trace_value, result.trace.value), (answers.trace_gap, result.trace.fw_gap)):
                trace[i] = np.nan
                trace[i, : len(values)] = values
        if not result.success and result.status is not self.finished:
            self.messages[i] = f"problem {i}: {result.message}"
        answers.code[i] = FIRST_STATUS + STATUSES.index(result.status)

    def fail(self, i, message, status=Status.FAILED):
        """Marks problem i as not solved."""
        answers = self.answers
        for array in (answers.x, answers.value, answers.fw_gap, answers.upper_bound):
            array[i] = np.nan
        if len(answers.trace_value):
            answers.trace_value[i] = answers.trace_gap[i] = np.nan
        answers.n_iter[i] = answers.n_lmo[i] = 0
        answers.code[i] = FIRST_STATUS + STATUSES.index(status)
        self.messages[i] = message

    def statuses(self, piece=slice(None)):
        """Status of each problem of a range."""
        code = self.answers.code[piece].copy()
        code[code == CONVERGED] = FIRST_STATUS + STATUSES.index(Status.CONVERGED)
        code[code == STALLED] = FIRST_STATUS + STATUSES.index(Status.STALLED)
        code[code == FINISHED] = FIRST_STATUS + STATUSES.index(self.finished)
        return np.array(STATUSES, dtype=object)[code - FIRST_STATUS]

    def work(self, turns, checkpoint, bar):
        """One worker: takes ranges until none is left."""
        worker, size = None, 1
        while (piece := turns.take(None if checkpoint else size)) is not None:
            worker = worker or self.worker()
            start = piece.start
            while start < piece.stop and not turns.stopped:
                part = range(start, min(start + size, piece.stop))
                began = time.perf_counter()
                try:
                    self.solve(worker, part)
                except _Failure as failure:
                    turns.stop(failure)
                    return
                spent = max(time.perf_counter() - began, 1e-7)
                size = max(1, min(4 * size, int(_TURN * len(part) / spent)))
                start = part.stop
                bar(len(part))
            if checkpoint and start == piece.stop:
                checkpoint.store(piece.start // checkpoint.layout["size"], self.saved(piece))

    def saved(self, piece):
        """Arrays that a checkpoint keeps of a range."""
        rows = slice(piece.start, piece.stop)
        arrays = {name: array[rows] for name, array in self.answers._asdict().items() if name != "code"}
        arrays["status"] = np.array([status.name for status in self.statuses(rows)])
        failed = [i for i in piece if i in self.messages]
        return arrays | {"failed": np.array(failed, np.int64), "message": np.array([self.messages[i] for i in failed])}

    def restore(self, piece, arrays):
        """Takes a range from a checkpoint."""
        rows = slice(piece.start, piece.stop)
        for name, array in self.answers._asdict().items():
            if name != "code":
                array[rows] = arrays[name]
        self.answers.code[rows] = [FIRST_STATUS + STATUSES.index(Status[name]) for name in arrays["status"]]
        self.messages.update(zip(arrays["failed"].tolist(), arrays["message"].tolist(), strict=True))

    def close(self):
        """Marks what was not solved as interrupted."""
        code = self.answers.code
        for i in np.flatnonzero(~np.isin(code, _SOLVED) & (code < FIRST_STATUS)):
            self.fail(int(i), f"problem {i}: {Status.INTERRUPTED.value}", Status.INTERRUPTED)
        self.messages = dict(sorted(self.messages.items()))


def _open_checkpoint(folder, batch):
    """The checkpoint of a batch, and the ranges of problems that are its chunks."""
    problems = batch.problems
    options = {k: v.data if isinstance(v, StackedArgument) else v for k, v in batch.options.items()}
    inputs = fingerprint(
        {name: argument.data for name, argument in problems.arguments.items()},
        options | problems.options, batch.method, batch.max_iter, batch.lmo, len(batch.answers.trace_value) > 0,
    )  # fmt: skip
    size = max(1, math.ceil(problems.count / _CHUNKS))
    checkpoint = Checkpoint(folder, inputs, {"size": size})
    size = checkpoint.layout["size"]
    return checkpoint, [range(i, min(i + size, problems.count)) for i in range(0, problems.count, size)]


def _checked_options(method, n, tol, step_size, curvature, subroutine, n_starts, seed):
    """Options of a method, as the ordinary solver takes them."""
    takes = METHODS[method].options
    as_tolerance(tol)  # refuses what is none, whatever the method
    options = {"tol": tol} if "tol" in takes else {}
    if "n_starts" in takes:
        options["n_starts"] = default_starts(n) if n_starts is None else as_count(n_starts, "n_starts", lower=1)
        options["seed"] = as_seed(seed)
    if "subroutine" in takes:
        options["subroutine"] = one_of(subroutine, "subroutine", subroutines())
    solver = METHODS[options.get("subroutine", method)]
    if solver.loop is not None and "step_size" in signature(solver.loop).parameters:
        options["step_size"] = one_of(step_size, "step_size", tuple(STEP_SIZES))
        if curvature is not None:
            options["curvature"] = StackedArgument(curvature, "curvature", 0)
    return options


def problems_of_stack(objective=None, set=None, **arrays):
    """The problems of a stack one by one, for `maximize_iter`.

    Takes the objective, the set and the arrays that `maximize_stacked` takes.

    Returns
    -------
    makers : list of callable
        Each returns a `Problem`, or raises ValueError or TypeError naming it.
    n : int
        Number of variables.
    """
    problems = ProblemStack(objective, set, arrays)
    return [partial(_one_of_stack, problems, i) for i in range(problems.count)], problems.n


def _one_of_stack(problems, i):
    try:
        return Problem(*problems.single(i))
    except (ValueError, TypeError) as error:
        raise type(error)(f"problem {i}: {error}") from error


def maximize_stacked(
    *, objective=None, set=None, method="multi-start", max_iter=None, tol=None, step_size="open-loop", curvature=None,
    subroutine="frank-wolfe", n_starts=None, seed=0, lmo="auto", n_jobs=None, on_error="record", trace=False,
    checkpoint=None, progress=False, **arrays,
):  # fmt: skip
    """Solves many problems of one size, given as stacked arrays.

    Every array has one more axis in front than for one problem, of length B, or none if all problems share it.
    The answers are those of the ordinary solvers, whatever ``n_jobs`` is.

    Parameters
    ----------
    objective, set : str, optional
        Kinds of the objectives and of the sets, as in problem files (`read_problem`), e.g. "facility-location" and
        "knapsack". By default what the arrays say: H is for a quadratic, L or factor for a softmax extension; A, b for
        polytopes, k for budgets, upper alone for boxes.
    **arrays : array_like
        The arguments of both constructors by name, e.g. H, h, c with the shapes ([B,] n, n), ([B,] n), ([B]); A, b,
        upper with ([B,] m, n), ([B,] m), ([B,] n); W, weights, budget with ([B,] n, D), ([B,] n), ([B]). Counts, flags
        and names (``unit_box``, ``n``, ``extension``) are the same for all.
    method : str
        A name in `METHODS`. "auto" is "multi-start", without the method that `maximize` adds for its a-priori bound,
        which a stack does not report.
    max_iter, tol, step_size, subroutine, n_starts, seed, lmo
        As in the solver of that method. By default there are 16 starts for n <= 100, 8 for n <= 300, 4 above.
    curvature : array_like, shape ([B]), optional
        C >= C_f(P) for short steps; by default the objective's own bound.
    n_jobs : int, optional
        Threads; None or -1 for as many as there are processors.
    on_error : {"record", "raise"}
        Whether a problem that fails gets a status and a message while the others go on, or its error is raised.
    trace : bool
        Whether to keep value and gap of every iterate.
    checkpoint : path, optional
        Folder that receives each finished chunk. A run that finds one there goes on from it.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    StackedResult
        Ctrl-C returns what is done; the status of the rest is INTERRUPTED.

    Raises
    ------
    ValueError, TypeError
        For shapes that do not fit together or an unknown option.
    CheckpointError
        If the checkpoint is that of other inputs.

    Notes
    -----
    One compiled loop solves quadratics, softmax extensions, facility location and FLID over boxes, budgets, knapsacks
    and polytopes of at most 100,000 entries, by methods that have such a loop. All others are solved one by one.

    Arrays that are float64, C-contiguous and writable are read where they are; others are converted piece by
    piece, so memory beyond inputs and answers does not grow with B.

    Examples
    --------
    >>> import numpy as np, drsub_fast as ds
    >>> h = np.array([[1.0, 1.0], [1.0, 2.0], [2.0, 0.0]])
    >>> r = ds.maximize_stacked(
    ...     H=[[-1.0, -0.5], [-0.5, -2.0]], h=h, upper=[1.0, 1.0], method="nonmonotone-frank-wolfe", n_jobs=1)
    >>> r.value.round(2)
    array([0.55, 1.1 , 1.07])
    >>> r[2].status.name
    'COMPLETED'
    """
    began = time.perf_counter()
    method = "multi-start" if method == "auto" else one_of(method, "method", ("auto", *METHODS))
    one_of(on_error, "on_error", ("record", "raise"))
    one_of(lmo, "lmo", ORACLES)
    n_jobs = worker_count(n_jobs)
    problems = ProblemStack(objective, set, arrays)
    if max_iter is None:
        max_iter = METHODS[method].default("max_iter")
    if max_iter is None:  # as many as there are variables
        max_iter = problems.n
    as_seed(seed), as_flag(trace, "trace")
    options = _checked_options(method, problems.n, tol, step_size, curvature, subroutine, n_starts, seed)
    batch = _Batch(problems, method, as_count(max_iter, "max_iter"), options, lmo, on_error, trace)
    count = problems.count
    pieces, store = [range(count)] if count else [], None
    if checkpoint is not None:
        store, pieces = _open_checkpoint(checkpoint, batch)
        for index in store.indices():
            batch.restore(pieces[index], store.load(index))
        done = frozenset(store.indices())
        pieces = [piece for index, piece in enumerate(pieces) if index not in done]
    turns = _Turns(pieces)
    with progress_bar(progress, count, count - sum(map(len, pieces))) as bar, one_blas_thread():
        _run_workers(n_jobs, turns, lambda: batch.work(turns, store, bar))
    if turns.errors:
        i, error = min(failure.args for failure in turns.errors)
        raise type(error)(f"problem {i}: {error}") from error
    batch.close()
    answers = batch.answers
    traces = (answers.trace_value, answers.trace_gap) if trace else (None, None)
    return StackedResult(
        answers.x, answers.value, answers.fw_gap, answers.upper_bound, batch.statuses(), answers.n_iter,
        answers.n_lmo, batch.messages, method, time.perf_counter() - began, *traces,
    )  # fmt: skip


def _run_workers(n_jobs, turns, work):
    """Runs the workers, the only one in this thread; after Ctrl-C each finishes what it has begun."""
    try:
        if n_jobs == 1:
            work()
            return
        with ThreadPoolExecutor(n_jobs, thread_name_prefix="drsub_fast") as pool:
            futures = [pool.submit(work) for _ in range(n_jobs)]
            try:
                wait(futures)
            except KeyboardInterrupt:
                turns.stop()
                raise
        for future in futures:
            future.result()
    except KeyboardInterrupt:
        turns.stop()
        logger.info("the batch was interrupted")
