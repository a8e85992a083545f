"""Many problems of one size: stacked arrays in, stacked arrays out. `drsub_fast.batch.stack_run` does the work."""

import time
from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_count, as_flag, as_real, as_seed, one_of
from drsub_fast.batch.checkpoint import Checkpoint, identified
from drsub_fast.batch.pieces import HELD, PIECES, PIECES_OF_WORKER, SENT, Stack, stack_in_memory
from drsub_fast.batch.problem_stack import ProblemStack, StackArrays, StackedArgument
from drsub_fast.batch.stack_claims import Claims
from drsub_fast.batch.stack_run import (
    Batch,
    Turns,
    logger,
    most_steps,
    run_workers,
    starts_of,
    takes_step_size,
)
from drsub_fast.batch.stacked_result import StackedResult, pack, put_rows, unpack, unsolved_stack
from drsub_fast.batch.workers import AHEAD, Here, Store, run_chunks, workers_of
from drsub_fast.engine.threads import one_blas_thread, progress_bar, worker_count
from drsub_fast.methods import METHODS, method_names, options_of
from drsub_fast.problems.arrays import vocabulary
from drsub_fast.result import Status
from drsub_fast.sets.base import ORACLES
from drsub_fast.solvers.frank_wolfe import STEP_SIZES
from drsub_fast.solvers.multi_start import default_starts
from drsub_fast.solvers.record import Method, MethodName, check_options
from drsub_fast.solvers.state import as_tolerance
from drsub_fast.solvers.two_phase import subroutines


def _given(settings, curvature):
    """The options of the method that differ from their defaults."""
    defaults, names = stack_settings(), ("max_iter", "tol", "step_size", "subroutine", "lmo")
    same = {name: type(settings[name]) is type(defaults[name]) and settings[name] == defaults[name] for name in names}
    given = {name: settings[name] for name in names if not same[name]} | settings["more"]
    return given if curvature is None else given | {"curvature": StackedArgument(curvature, "curvature", 0)}


def _checked_options(method, n, settings, curvature):
    """Options of a method for problems of n variables, as the ordinary solver takes them."""
    as_tolerance(settings["tol"])
    subroutine = one_of(settings["subroutine"], "subroutine", subroutines())
    given, takes, n_starts = _given(settings, curvature), options_of(method, subroutine), settings["n_starts"]
    check_options(given, takes, f"method {method!r}")
    options: dict[str, Any] = {"lmo": one_of(settings["lmo"], "lmo", ORACLES), "seed": as_seed(settings["seed"])}
    if settings["time_limit"] is not None:
        options["time_limit"] = as_real(settings["time_limit"], "time_limit", lower=0.0)
    if n_starts is not None and as_count(n_starts, "n_starts", lower=1) > 1 and "n_starts" not in takes:
        raise ValueError(f"method {method!r} has one start; use method='multi-start' for n_starts = {n_starts}")
    if given.get("max_iter") is not None:
        as_count(given["max_iter"], "max_iter")
    options |= given if n_starts is None or "n_starts" not in takes else given | {"n_starts": int(n_starts)}
    if method not in METHODS:
        return options
    max_iter = given.get("max_iter")
    if max_iter is None and "max_iter" in takes:
        max_iter = METHODS[method].default("max_iter")
    options["max_iter"] = n if max_iter is None else max_iter  # as many as there are variables
    if "n_starts" in takes:
        options.setdefault("n_starts", default_starts(n))
    if "subroutine" in takes:
        options["subroutine"] = subroutine
    if takes_step_size(METHODS[options.get("subroutine", method)]):
        step_size = options.setdefault("step_size", settings["step_size"])
        if isinstance(step_size, str):
            one_of(step_size, "step_size", tuple(STEP_SIZES))
    return options


def maximize_stacked(
    *,
    objective: str | None = None,
    set: str | None = None,
    method: MethodName | Method = "multi-start",
    max_iter: int | None = None,
    tol: float | None = None,
    step_size: Literal["open-loop", "exact", "short", "spectral"] | float = "open-loop",
    curvature: ArrayLike | None = None,
    subroutine: str = "frank-wolfe",
    n_starts: int | None = None,
    seed: int = 0,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    time_limit: float | None = None,
    executor: Executor | None = None,
    n_jobs: int | None = None,
    on_error: Literal["record", "raise"] = "record",
    trace: bool = False,
    checkpoint: str | Path | None = None,
    progress: bool = False,
    **arrays: Unpack[StackArrays],
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
        and names (``unit_box``, ``n``, ``extension``) are the same for all. Further options of the method may be
        among them, e.g. ``gap`` or ``n_samples``.
    method : str or Method
        A name in `METHODS` or its record, "global-maximum", or "auto". "auto" means what it means in `maximize`: each
        problem has its own number of starts, and the method with the bound that applies to it. So problems are solved
        one by one, and ``methods`` of the result says by which method. The default, "multi-start", is one compiled
        loop where there is one.
    max_iter, tol, step_size, subroutine, n_starts, seed, lmo
        As in the solver of that method. By default "multi-start" has 16 starts for n <= 100, 8 for n <= 300, 4 above,
        and none of those that `maximize` adds until another maximum is improbable; ``n_starts=96`` asks for the most
        that those are for n <= 48.
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
    and polytopes of at most 100,000 entries, by methods that have such a loop. All others are solved one by one, as
    are those of a method that has a step size or an option that its loop does not know, and with a time limit.

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

    Any executor will do: a `ProcessPoolExecutor`, ``client.get_executor(pure=False)`` of Dask, or the processes of
    joblib.

    >>> from joblib.externals.loky import get_reusable_executor
    >>> executor = get_reusable_executor(max_workers=2)
    >>> r = ds.maximize_stacked(H=[[-1.0, -0.5], [-0.5, -2.0]], h=h, upper=[1.0, 1.0], executor=executor)
    >>> r.value.round(2)
    array([0.57, 1.14, 1.5 ])
    >>> executor.shutdown()
    """
    began = time.perf_counter()
    settings = stack_settings(
        objective=objective, set=set, method=method, max_iter=max_iter, tol=tol, step_size=step_size,
        subroutine=subroutine, n_starts=n_starts, seed=seed, lmo=lmo, time_limit=time_limit, on_error=on_error,
        trace=trace, **_options_among(arrays, method, subroutine),
    )  # fmt: skip
    given = {**arrays, "curvature": curvature}
    given = {name: data for name, data in given.items() if data is not None and name not in settings["more"]}
    checked = _checked(settings, given)
    problems, name, options, *_ = checked
    settings["method"] = name
    if not problems.count or (executor is None and checkpoint is None):
        batch = Batch(0, *checked)
        return _solve(batch, worker_count(n_jobs), progress, began).with_claims(batch.claims)
    arguments = list(problems.arguments.values()) + [options[name] for name in ("curvature",) if name in options]
    shared = {argument.name: argument.data[0] for argument in arguments if argument.shared}
    stack = stack_in_memory(
        shared | problems.options, {argument.name: argument.data for argument in arguments if not argument.shared}
    )
    max_iter = most_steps(name, problems.n, options) if trace else None
    answers = unsolved_stack(stack.count, problems.n, max_iter, name, starts_of(name, options))
    first, compiled = 0, None
    with (
        progress_bar(progress, stack.count) as bar,
        closing(stacked_results(stack, settings, executor, n_jobs, checkpoint)) as parts,
    ):
        try:
            for part in parts:
                put_rows(answers, first, part)
                first += len(part)
                compiled = compiled if part.compiled is None else part.compiled
                bar(len(part))
        except KeyboardInterrupt:
            logger.info("the batch was interrupted")
    answers.messages.update((i, f"problem {i}: {Status.INTERRUPTED.value}") for i in range(first, stack.count))
    answers = replace(answers, time=time.perf_counter() - began, compiled=compiled)
    return answers.with_claims(Claims(problems, name, options))


def _options_among(arrays, method, subroutine):
    """Those of ``arrays`` that are options of the method, and no arguments of an objective or set."""
    method = getattr(method, "name", method)
    if method not in method_names():
        return {}
    names = set(options_of(method, subroutine)) - vocabulary() - {"x0", "callback", "callback_every"}
    return {name: value for name, value in arrays.items() if name in names}


def stack_settings(**given: Any) -> dict[str, Any]:
    """Arguments of `maximize_stacked` that say how a stack is solved: those given, and the defaults of the others.

    ``more`` are those that only some methods have.
    """
    others = {"executor", "n_jobs", "checkpoint", "progress", "curvature", "arrays"}
    parameters = signature(maximize_stacked).parameters
    settings = {name: given.get(name, item.default) for name, item in parameters.items() if name not in others}
    return settings | {"more": {name: value for name, value in given.items() if name not in parameters}}


def stacked_results(
    stack: Stack,
    settings: dict[str, Any],
    executor: Executor | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
) -> Generator[Any, None, None]:
    """Answers to a `Stack`, a `StackedResult` for each piece, in order, as they come in; `stack_settings` says how.

    After Ctrl-C the generator raises KeyboardInterrupt.
    """
    workers = worker_count(n_jobs) if executor is None or n_jobs is not None else workers_of(executor)
    example = {name: np.broadcast_to(np.zeros((), kind), (1, *shape)) for name, (kind, shape) in stack.rows.items()}
    _checked(settings, example | stack.shared)
    size, store = stack.size(HELD, PIECES) if executor is None else stack.size(SENT, PIECES_OF_WORKER * workers), None
    if checkpoint is not None:
        inputs = identified(settings, stack.shared, stack.rows, stack.count)
        kept = Checkpoint(checkpoint, inputs, {"size": size})
        size, store = kept.layout["size"], Store(kept, pack, unpack)
    task = partial(_solve_piece, settings, workers if executor is None else 1)
    ahead = 1 if executor is None else AHEAD * workers
    results = run_chunks(
        stack.pieces(size), task, executor or Here(), ahead=ahead, store=store, in_background=executor is None
    )
    try:
        with one_blas_thread(), closing(results):
            yield from results
    finally:
        if store is not None:
            store.checkpoint.close()


def _solve_piece(settings, n_jobs, first, arrays):
    """The answers to the problems ``first``, ``first`` + 1, ..; runs in a worker."""
    batch = Batch(first, *_checked(settings, arrays))
    answers = _solve(batch, n_jobs, False, time.perf_counter())
    if Status.INTERRUPTED in answers.status.tolist():
        raise KeyboardInterrupt
    return answers


def _checked(settings, arrays):
    """(problems, method, options, on_error, trace) of the arguments of `maximize_stacked`."""
    method = getattr(settings["method"], "name", settings["method"])
    one_of(method, "method", method_names())
    if isinstance(settings["method"], Method) and METHODS.get(method) is not settings["method"]:
        raise ValueError(f"the record of {method!r} is not registered: a stack knows methods by name")
    on_error = one_of(settings["on_error"], "on_error", ("record", "raise"))
    arrays = dict(arrays)
    curvature = arrays.pop("curvature", None)
    problems = ProblemStack(settings["objective"], settings["set"], arrays)
    options = _checked_options(method, problems.n, settings, curvature)
    return problems, method, options, on_error, as_flag(settings["trace"], "trace")


def _solve(batch, n_jobs, progress, began):
    """The answers of a batch."""
    turns = Turns(range(batch.problems.count))
    with progress_bar(progress, batch.problems.count) as bar, one_blas_thread():
        run_workers(n_jobs, turns, lambda: batch.work(turns, bar))
    if turns.errors:
        i, error = min(failure.args for failure in turns.errors)
        raise type(error)(f"problem {i}: {error}") from error
    batch.close()
    answers = batch.answers
    values, gaps = (answers.trace_value, answers.trace_gap) if len(answers.trace_value) else (None, None)
    return StackedResult(
        answers.x, answers.value, answers.fw_gap, answers.upper_bound, batch.statuses(), answers.n_iter,
        answers.n_lmo, batch.messages, batch.method, time.perf_counter() - began, values, gaps,
        batch.n_starts, batch.compiled, batch.methods,
    )  # fmt: skip
