"""Many problems of any kinds and sizes, by threads, processes or a cluster; results in order.

Problems are taken from an iterable a few chunks ahead of the results, so neither has to fit into memory. A chunk
is one task of an executor (anything with the interface of `concurrent.futures.Executor`) and one
file of a checkpoint.
"""

import logging
from collections.abc import Generator, Iterable, Sized
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from drsub_fast._checks import as_count, described, one_of
from drsub_fast.batch.checkpoint import Checkpoint, identified
from drsub_fast.batch.result_arrays import pack, unpack
from drsub_fast.batch.workers import AHEAD, Store, run_chunks, workers_of
from drsub_fast.engine.threads import one_blas_thread, progress_bar, worker_count
from drsub_fast.engine.worth import series
from drsub_fast.methods import maximize, method_names
from drsub_fast.result import Certificate, Guarantee, Result, Status, Trace
from drsub_fast.solvers.record import BatchOptions, Method, MethodName

logger: logging.Logger = logging.getLogger("drsub_fast")

#: Problems of a chunk at most, unless asked for more.
_CHUNK_SIZE = 16

_NO_GUARANTEE = Guarantee(None, "none: the problem was not solved")


class Failure(NamedTuple):
    """Takes the place of a problem that cannot be made: its result has the status FAILED and this message."""

    message: str


def unsolved(n: int, method: str, message: str) -> Result:
    """The result of a problem that failed."""
    x = np.full(n, np.nan)
    return Result(
        x, np.nan, np.nan, Certificate(np.inf), _NO_GUARANTEE, Status.FAILED, 0, 0, 0.0,
        Trace(np.empty(0), np.empty(0)), x.copy(), np.nan, method, message,
    )  # fmt: skip


def _solve_chunk(method, options, on_error, total, first, problems):
    """Results of the problems first, first + 1, .. of a total, None if that is not known; runs in a worker."""
    results = []
    with one_blas_thread(), series(len(problems) if total is None else total - first) as following:
        for i, problem in enumerate(problems, first):
            following.begin_next()
            if isinstance(problem, Failure):
                results.append(unsolved(0, getattr(method, "name", method), problem.message))
                continue
            f, P, *own = problem
            try:
                result = maximize(f, P, **({"method": method, "bound": "cheap"} | options | (own[0] if own else {})))
            except Exception as error:
                if on_error == "raise":
                    error.add_note(f"in problem {i} of the batch")
                    raise
                result = unsolved(
                    getattr(f, "n", 0), getattr(method, "name", method), f"{type(error).__name__}: {error}"
                )
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            result.certificate.read()  # a bound that was asked for is computed here, by the worker
            for one in (result, *result.phases):
                one.certificate.keep_numbers()  # so that results hold no problems
            results.append(result)
    return results


def _as_problem(problem):
    """A pair (f, P) or a triple (f, P, options)."""
    if isinstance(problem, Failure):
        return problem
    problem = tuple(problem) if isinstance(problem, (tuple, list)) else (problem,)
    if len(problem) not in (2, 3) or (len(problem) == 3 and not isinstance(problem[2], dict)):
        raise TypeError("a problem is a pair (objective, set) or a triple (objective, set, dict of options)")
    return problem


def maximize_iter(
    problems: Iterable[Any],
    method: MethodName | Method = "auto",
    *,
    executor: Executor | None = None,
    n_jobs: int | None = None,
    chunk_size: int | None = None,
    on_error: Literal["record", "raise"] = "record",
    progress: bool = False,
    checkpoint: str | Path | None = None,
    **options: Unpack[BatchOptions],
) -> Generator[Result, None, None]:
    """Solves many problems; yields their results in order, as they come in.

    Parameters
    ----------
    problems : iterable of (Objective, FeasibleSet) or (Objective, FeasibleSet, dict)
        Consumed lazily, a few chunks ahead, so that it may be endless.
    method, executor, n_jobs, chunk_size, on_error, progress, checkpoint, **options
        As in `maximize_many`.

    Yields
    ------
    Result
        Of the next problem; one that failed has the status FAILED, x = NaN and a message.

    Raises
    ------
    TypeError
        For an item that is no problem, when its turn comes.
    CheckpointError
        If the checkpoint is that of other problems or options, is damaged, or is in use by another run.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> boxes = (ds.Box([0.1 * k, 1.0]) for k in range(1, 4))
    >>> [round(r.value, 3) for r in ds.maximize_iter(((f, P) for P in boxes), "nonmonotone-frank-wolfe", n_jobs=1)]
    [0.296, 0.338, 0.377]
    """
    name = method.name if isinstance(method, Method) else one_of(method, "method", method_names())
    one_of(on_error, "on_error", ("record", "raise"))
    if isinstance(problems, (str, bytes)):
        raise TypeError(f"problems must be an iterable of pairs (objective, set), got {described(problems)}")
    workers = worker_count(n_jobs) if executor is None or n_jobs is not None else workers_of(executor)
    total = len(problems) if isinstance(problems, Sized) else None
    if chunk_size is None:
        chunk_size = _CHUNK_SIZE if total is None else max(1, min(_CHUNK_SIZE, total // (8 * workers)))
    chunk_size = as_count(chunk_size, "chunk_size", lower=1)
    store = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, identified(name, options, on_error), {"chunk_size": chunk_size})
        chunk_size, store = kept.layout["chunk_size"], Store(kept, pack, unpack)

    def results():
        pool = executor or ThreadPoolExecutor(workers, thread_name_prefix="drsub_fast")
        task = partial(_solve_chunk, method, options, on_error, total)
        chunks = run_chunks(
            _chunks(problems, chunk_size), task, pool, ahead=AHEAD * workers, store=store,
            finish_begun=executor is None,
        )  # fmt: skip
        try:
            with progress_bar(progress, total) as bar, one_blas_thread(), closing(chunks):
                for solved in chunks:
                    yield from solved
                    bar(len(solved))
        finally:
            if executor is None:
                pool.shutdown()
            if store is not None:
                store.checkpoint.close()

    return results()


def _chunks(problems, size):
    """(number of the first, problems) of each chunk."""
    source, first = iter(problems), 0
    while chunk := [_as_problem(problem) for problem in islice(source, size)]:
        yield first, chunk
        first += size


def maximize_many(
    problems: Iterable[Any],
    method: MethodName | Method = "auto",
    *,
    executor: Executor | None = None,
    n_jobs: int | None = None,
    chunk_size: int | None = None,
    on_error: Literal["record", "raise"] = "record",
    progress: bool = False,
    checkpoint: str | Path | None = None,
    **options: Unpack[BatchOptions],
) -> list[Result]:
    """Solves many problems, of any kinds and sizes; results in order.

    Parameters
    ----------
    problems : iterable of (Objective, FeasibleSet) or (Objective, FeasibleSet, dict)
        Consumed lazily, a few chunks ahead. The dict holds options of `maximize` for this problem alone.
    method : str
        As in `maximize`.
    executor : concurrent.futures.Executor, optional
        Where chunks are solved: a pool of threads by default, a `ProcessPoolExecutor`, or a Dask cluster by
        ``client.get_executor(pure=False)``. It is not shut down. Dask runs the tasks of a worker that dies again on
        another one; a process pool that loses a process raises `BrokenProcessPool`.
    n_jobs : int, optional
        Threads of the default pool (None or -1: as many as there are processors), or the number of workers of
        ``executor`` where it does not tell.
    chunk_size : int, optional
        Problems of a task and of a file of the checkpoint; by default up to 16.
    on_error : {"record", "raise"}
        Whether a problem that fails gets the status FAILED, x = NaN and a message while the others go on, or its
        error is raised.
    progress : bool
        Show a progress bar on standard error.
    checkpoint : path, optional
        Folder that receives each finished chunk, as arrays and JSON. A run that finds one there goes on from it.
    **options
        Passed to `maximize`; ``bound`` is "cheap" by default, other bounds are computed by the workers.

    Returns
    -------
    list of Result
        They do not hold their problems, so `Result.prove` does not work on them. After Ctrl-C only those up to the
        first that is not done.

    Raises
    ------
    TypeError
        For an item that is no problem.
    CheckpointError
        If the checkpoint is that of other problems or options, is damaged, or is in use by another run.

    Notes
    -----
    Every worker uses one BLAS thread.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> problems = [(f, ds.Box([1.0, 1.0])), (f, ds.Budget(0.5, [1.0, 1.0]))]
    >>> [round(r.value, 3) for r in ds.maximize_many(problems, method="nonmonotone-frank-wolfe", n_jobs=1)]
    [0.546, 0.386]
    """
    results = []
    iterator = maximize_iter(
        problems, method, executor=executor, n_jobs=n_jobs, chunk_size=chunk_size, on_error=on_error,
        progress=progress, checkpoint=checkpoint, **options,
    )  # fmt: skip
    try:
        with closing(iterator):
            for result in iterator:
                results.append(result)
    except KeyboardInterrupt:
        total = f" of {len(problems)}" if isinstance(problems, Sized) else ""
        logger.warning("the batch was interrupted: %d%s results are returned", len(results), total)
    return results
