"""Many problems of one size: stacked arrays in, stacked arrays out.

Worker threads take ranges of problems, each a call of the compiled loop (`drsub_fast.batch.stack_loop`), sized by
the time that problems take, so that unequal problems balance. What the loop leaves undone goes to the
ordinary solver, problem by problem, which also words the errors: a problem is refused here for the same
reason and with the same words as there.
"""

import logging
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_count, as_flag, as_real, as_seed, one_of
from drsub_fast.batch.checkpoint import Checkpoint
from drsub_fast.batch.fingerprint import fingerprint
from drsub_fast.batch.pieces import HELD, SENT, stack_in_memory
from drsub_fast.batch.problem_stack import ProblemStack, StackedArgument
from drsub_fast.batch.stack_loop import (
    Answers,
    MultiStartOptions,
    Scratch,
    TwoPhaseOptions,
    solve_stack,
)
from drsub_fast.batch.stacked_result import StackedResult, pack, take, unpack, unsolved_stack
from drsub_fast.batch.workers import AHEAD, Here, Store, run_chunks, workers_of
from drsub_fast.engine.codes import CONVERGED, FINISHED, STALLED
from drsub_fast.engine.jit import Interpreted
from drsub_fast.engine.threads import one_blas_thread, progress_bar, worker_count
from drsub_fast.methods import METHODS, maximize
from drsub_fast.problems.standard_form import Problem
from drsub_fast.result import Status
from drsub_fast.sets.base import ORACLES
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.frank_wolfe import STEP_SIZES
from drsub_fast.solvers.multi_start import default_starts, local_solver, random_costs
from drsub_fast.solvers.run import USUAL_STEPS, workspace_size
from drsub_fast.solvers.state import as_tolerance
from drsub_fast.solvers.two_phase import subroutines

logger: logging.Logger = logging.getLogger("drsub_fast")

# Codes of a problem beside those of the loop; from FIRST_STATUS on, the position of a status in STATUSES.
UNTOUCHED, FIRST_STATUS = -2, 100
STATUSES = tuple(Status)
_SOLVED = (CONVERGED, FINISHED, STALLED)

#: Seconds of work that a worker takes at a time.
_TURN = 0.02
#: A checkpoint cuts the batch into this many chunks.
_CHUNKS = 256


class _Turns:
    """Hands out ranges of problems in order, to several workers."""

    def __init__(self, count):
        self.rest = range(count)
        self.lock = threading.Lock()
        self.errors = []

    def take(self, size):
        """The next range, at most ``size`` long; None when all are taken."""
        with self.lock:
            part, self.rest = self.rest[:size], self.rest[size:]
            return part or None

    def stop(self, error=None):
        """Hands out nothing more."""
        with self.lock:
            self.rest = range(0)
            if error is not None:
                self.errors.append(error)


class _Failure(Exception):
    """A problem that could not be solved, with its index."""


class _Batch:
    """Problems that are solved together: what `_checked` makes of arguments, and the arrays of answers.

    Messages count the problems from ``first``.
    """

    def __init__(self, first, problems, method, max_iter, options, lmo, on_error, trace):
        self.first = first
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
        if "time_limit" in self.options:  # the compiled loop does not look at the clock
            return None
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
                raise _Failure(self.first + i, error) from error
            self.fail(i, str(error))
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
            self.messages[i] = f"problem {self.first + i}: {result.message}"
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
        self.messages[i] = f"problem {self.first + i}: {message}"

    def statuses(self):
        """Status of each problem."""
        code = self.answers.code.copy()
        code[code == CONVERGED] = FIRST_STATUS + STATUSES.index(Status.CONVERGED)
        code[code == STALLED] = FIRST_STATUS + STATUSES.index(Status.STALLED)
        code[code == FINISHED] = FIRST_STATUS + STATUSES.index(self.finished)
        return np.array(STATUSES, dtype=object)[code - FIRST_STATUS]

    def work(self, turns, bar):
        """One worker: takes ranges until none is left."""
        worker, size = None, 1
        while (part := turns.take(size)) is not None:
            worker = worker or self.worker()
            began = time.perf_counter()
            try:
                self.solve(worker, part)
            except _Failure as failure:
                turns.stop(failure)
                return
            spent = max(time.perf_counter() - began, 1e-7)
            size = max(1, min(4 * size, int(_TURN * len(part) / spent)))
            bar(len(part))

    def close(self):
        """Marks what was not solved as interrupted."""
        code = self.answers.code
        for i in np.flatnonzero(~np.isin(code, _SOLVED) & (code < FIRST_STATUS)):
            self.fail(int(i), Status.INTERRUPTED.value, Status.INTERRUPTED)
        self.messages = dict(sorted(self.messages.items()))


def _checked_options(method, n, tol, step_size, curvature, subroutine, n_starts, seed, time_limit):
    """Options of a method, as the ordinary solver takes them."""
    takes = METHODS[method].options
    as_tolerance(tol)  # refuses what is none, whatever the method
    options = {"tol": tol} if "tol" in takes else {}
    if time_limit is not None:
        options["time_limit"] = as_real(time_limit, "time_limit", lower=0.0)
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


def problems_of_stack(objective: Any = None, set: Any = None, **arrays: Any) -> Any:
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
    *,
    objective: str | None = None,
    set: str | None = None,
    method: str = "multi-start",
    max_iter: Any = None,
    tol: Any = None,
    step_size: str = "open-loop",
    curvature: ArrayLike | None = None,
    subroutine: str = "frank-wolfe",
    n_starts: Any = None,
    seed: int = 0,
    lmo: str = "auto",
    time_limit: float | None = None,
    executor: Any = None,
    n_jobs: int | None = None,
    on_error: Literal["record", "raise"] = "record",
    trace: bool = False,
    checkpoint: str | Path | None = None,
    progress: bool = False,
    **arrays: Any,
) -> StackedResult:
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
    time_limit : float, optional
        Seconds for each problem; they are then solved one by one.
    executor : concurrent.futures.Executor, optional
        Where pieces of the stack are solved instead of in threads, each a task: a `ProcessPoolExecutor`, joblib's
        loky, or a Dask cluster by ``client.get_executor(pure=False)``. It is not shut down.
    n_jobs : int, optional
        Threads, or workers of ``executor`` where it does not tell; None or -1 for as many as there are processors.
    on_error : {"record", "raise"}
        Whether a problem that fails gets a status and a message while the others go on, or its error is raised.
    trace : bool
        Whether to keep value and gap of every iterate.
    checkpoint : path, optional
        Folder that receives each finished piece, as arrays and JSON. A run that finds one there goes on from it.
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
        If the checkpoint is that of other inputs, is damaged, or is in use by another run.

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
    settings = stack_settings(
        objective=objective, set=set, method=method, max_iter=max_iter, tol=tol, step_size=step_size,
        subroutine=subroutine, n_starts=n_starts, seed=seed, lmo=lmo, time_limit=time_limit, on_error=on_error,
        trace=trace,
    )  # fmt: skip
    arrays = {name: data for name, data in (arrays | {"curvature": curvature}).items() if data is not None}
    checked = _checked(settings, arrays)
    problems, method, max_iter, options, *_ = checked
    if not problems.count or (executor is None and checkpoint is None):
        return _solve(_Batch(0, *checked), worker_count(n_jobs), progress, began)
    arguments = list(problems.arguments.values()) + [options[name] for name in ("curvature",) if name in options]
    shared = {argument.name: argument.data[0] for argument in arguments if argument.shared}
    stack = stack_in_memory(
        shared | problems.options, {argument.name: argument.data for argument in arguments if not argument.shared}
    )
    answers = unsolved_stack(stack.count, problems.n, max_iter if trace else None, method)
    first = 0
    with (
        progress_bar(progress, stack.count) as bar,
        closing(stacked_results(stack, settings, executor, n_jobs, checkpoint)) as parts,
    ):
        try:
            for part in parts:
                take(answers, first, part)
                first += len(part)
                bar(len(part))
        except KeyboardInterrupt:
            logger.info("the batch was interrupted")
    answers.messages.update((i, f"problem {i}: {Status.INTERRUPTED.value}") for i in range(first, stack.count))
    return replace(answers, time=time.perf_counter() - began)


def stack_settings(**given: Any) -> dict[str, Any]:
    """Arguments of `maximize_stacked` that say how a stack is solved: those given, and the defaults of the others."""
    others = {"executor", "n_jobs", "checkpoint", "progress", "curvature", "arrays"}
    parameters = signature(maximize_stacked).parameters
    return {name: given.get(name, item.default) for name, item in parameters.items() if name not in others}


def stacked_results(
    stack: Any, settings: dict[str, Any], executor: Any = None, n_jobs: Any = None, checkpoint: Any = None
) -> Generator[Any, None, None]:
    """Answers to a `Stack`, a `StackedResult` for each piece, in order, as they come in.

    Parameters
    ----------
    stack : Stack
    settings : dict
        Made by `stack_settings`.
    executor, n_jobs, checkpoint
        As there.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C.
    """
    workers = worker_count(n_jobs) if executor is None or n_jobs is not None else workers_of(executor)
    example = {name: np.broadcast_to(np.zeros((), kind), (1, *shape)) for name, (kind, shape) in stack.rows.items()}
    _checked(settings, example | stack.shared)
    size, store = stack.size(HELD if executor is None else SENT), None
    if checkpoint is not None:
        inputs = fingerprint(settings, stack.shared, stack.rows, stack.count)
        checkpoint = Checkpoint(checkpoint, inputs, {"size": size})
        size, store = checkpoint.layout["size"], Store(checkpoint, pack, unpack)
    task = partial(_solve_piece, settings, workers if executor is None else 1)
    ahead = 1 if executor is None else AHEAD * workers
    results = run_chunks(
        stack.pieces(size), task, executor or Here(), ahead=ahead, store=store, in_background=executor is None
    )
    try:
        with one_blas_thread(), closing(results):
            yield from results
    finally:
        if checkpoint is not None:
            checkpoint.close()


def _solve_piece(settings, n_jobs, first, arrays):
    """The answers to the problems ``first``, ``first`` + 1, ..; runs in a worker."""
    batch = _Batch(first, *_checked(settings, arrays))
    answers = _solve(batch, n_jobs, False, time.perf_counter())
    if Status.INTERRUPTED in answers.status.tolist():
        raise KeyboardInterrupt
    return answers


def _checked(settings, arrays):
    """(problems, method, max_iter, options, lmo, on_error, trace) of the arguments of `maximize_stacked`."""
    method, on_error, lmo = (settings[name] for name in ("method", "on_error", "lmo"))
    method = "multi-start" if method == "auto" else one_of(method, "method", ("auto", *METHODS))
    one_of(on_error, "on_error", ("record", "raise"))
    one_of(lmo, "lmo", ORACLES)
    arrays = dict(arrays)
    curvature = arrays.pop("curvature", None)
    problems = ProblemStack(settings["objective"], settings["set"], arrays)
    max_iter = settings["max_iter"]
    if max_iter is None:
        max_iter = METHODS[method].default("max_iter")
    if max_iter is None:  # as many as there are variables
        max_iter = problems.n
    as_seed(settings["seed"]), as_flag(settings["trace"], "trace")
    names = ("tol", "step_size", "subroutine", "n_starts", "seed", "time_limit")
    options = _checked_options(method, problems.n, curvature=curvature, **{name: settings[name] for name in names})
    return problems, method, as_count(max_iter, "max_iter"), options, lmo, on_error, settings["trace"]


def _solve(batch, n_jobs, progress, began):
    """The answers of a batch."""
    turns = _Turns(batch.problems.count)
    with progress_bar(progress, batch.problems.count) as bar, one_blas_thread():
        _run_workers(n_jobs, turns, lambda: batch.work(turns, bar))
    if turns.errors:
        i, error = min(failure.args for failure in turns.errors)
        raise type(error)(f"problem {i}: {error}") from error
    batch.close()
    answers = batch.answers
    traces = (answers.trace_value, answers.trace_gap) if len(answers.trace_value) else (None, None)
    return StackedResult(
        answers.x, answers.value, answers.fw_gap, answers.upper_bound, batch.statuses(), answers.n_iter,
        answers.n_lmo, batch.messages, batch.method, time.perf_counter() - began, *traces,
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
