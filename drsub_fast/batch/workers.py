"""Chunks of a batch on their way through an executor, and into a checkpoint; results in order."""

import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

from drsub_fast.batch.checkpoint import Checkpoint, identified
from drsub_fast.engine.interrupts import result_of, submit, uninterrupted, wait_for

_END = object()
#: Chunks that are in work or waiting, for each worker.
AHEAD = 3
#: Workers of an executor that does not tell.
_UNKNOWN_WORKERS = 16


class Here(Executor):
    """Runs what it is given at once, in the thread that gives it."""

    def submit(self, function: Callable[..., object], /, *args: object, **kwargs: object) -> Future:
        """A future that is done; what interrupts the thread is raised here."""
        future: Future = Future()
        try:
            result, error = function(*args, **kwargs), None
        except Exception as raised:
            result, error = None, raised
        with uninterrupted():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        return future


def workers_of(executor: Executor) -> int:
    """Number of workers of an executor, where it says so."""
    known = getattr(executor, "_max_workers", None)
    client: Any = getattr(executor, "_client", None)
    if known is None and hasattr(client, "nthreads"):  # Dask's
        known = sum(client.nthreads().values())
    return known or _UNKNOWN_WORKERS


class _Content:
    """The problems of a chunk on their way to a worker.

    By default Dask names a task by a digest of its arguments, which takes twice as long as sending them: they have a
    name of their own.
    """

    def __init__(self, problems: object) -> None:
        self.problems = problems

    def __dask_tokenize__(self) -> str:
        return uuid.uuid4().hex


def _run(task, first, content):
    """The results of a chunk; runs in a worker."""
    return task(first, content.problems)


class Store(NamedTuple):
    """A checkpoint, with what makes arrays of the results of a chunk, and results of the arrays."""

    checkpoint: Checkpoint
    pack: Callable[..., Any]
    unpack: Callable[..., Any]


class _Writer:
    """Keeps results in a checkpoint, in a thread of its own: the disk takes 5 to 15 ms for a chunk."""

    def __init__(self, store):
        self.store, self.pool = store, None if store is None else ThreadPoolExecutor(1)

    def keep(self, chunk):
        """Begins to write the results of a chunk; the future of that, None without a checkpoint."""
        return None if self.pool is None else submit(self.pool, self._write, chunk)

    def _write(self, chunk):
        self.store.checkpoint.store(chunk.index, chunk.problems, self.store.pack(chunk.results))

    def close(self):
        """Waits for what was begun."""
        if self.pool is not None:
            self.pool.shutdown()


class _Chunk:
    """Problems on their way through an executor and, with ``kept`` the future of that, into a checkpoint."""

    def __init__(self, index, problems):
        self.index, self.problems = index, problems
        self.results, self.is_out = None, False
        self.future: Future | None = None
        self.kept: Future | None = None

    def collect(self, writer):
        """Takes the results of a finished future, and has them kept."""
        with uninterrupted():
            if self.results is None and self.future is not None and self.future.done():
                self.results = self.future.result()
                self.kept = writer.keep(self)

    def is_kept(self):
        """Whether nothing is left to be written."""
        with uninterrupted():
            return self.kept is None or self.kept.done()

    def hand_out(self):
        """The results, once they are kept: who has them loses them no more. Raises what went wrong with that."""
        if self.kept is not None:
            result_of(self.kept)
        return self.results

    def cancel(self):
        """Gives up what has not begun; whether something has, and is to be waited for."""
        with uninterrupted():
            return self.future is not None and not self.future.cancel()

    def keep(self, writer):
        """Has the results kept for the next run, if there are any."""
        with uninterrupted():
            future = self.future
            if future is not None and future.done() and not future.cancelled() and future.exception() is None:
                self.collect(writer)


def _named(chunks, store):
    """(first, content, fingerprint) of chunks, which only a checkpoint asks for."""
    for first, content in chunks:
        yield first, content, None if store is None else identified(first, content)


def _read_ahead(items):
    """The items of a generator; the next one is made in a thread while the last one is in use."""
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="drsub_fast") as reader:
        following = submit(reader, next, items, _END)
        while (item := result_of(following)) is not _END:
            following = submit(reader, next, items, _END)
            yield item


def _finished(pending, wait_for_disk):
    """Takes off the results of the chunks in front that are solved and kept, or about to be.

    An interrupt may come between any two lines: still none is handed out twice, and none after one that may be lost.
    """
    while pending and pending[0].results is not None and (wait_for_disk or pending[0].is_kept()):
        chunk = pending[0]
        results = chunk.hand_out()
        if chunk.is_out:
            return
        chunk.is_out = True
        yield results
        pending.popleft()


def run_chunks(
    chunks: Iterable[tuple[int, object]],
    task: Callable[..., Any],
    executor: Executor,
    *,
    ahead: int,
    store: "Store | None" = None,
    in_background: bool = False,
    finish_begun: bool = False,
) -> Generator[Any, None, None]:
    """Results of chunks, in order, as they come in, and none before it is in the checkpoint.

    Parameters
    ----------
    chunks : iterable of (int, content)
        The number of the first problem of each chunk, and the problems.
    task : callable
        ``task(first, content)``: the results of a chunk.
    executor : concurrent.futures.Executor
    ahead : int
        Chunks that are read ahead of the results.
    store : Store, optional
        Where finished chunks are kept; those that are there already are not solved again.
    in_background : bool
        Whether the next chunk is read in a thread of its own.
    finish_begun : bool
        Whether, when the caller stops early, chunks in work are waited for, and kept.
    """
    source = _named(chunks, store)
    source = enumerate(_read_ahead(source) if in_background else source)
    pending: deque[_Chunk] = deque()
    count, writer = 0, _Writer(store)
    limit = ahead if store is None else ahead + 1  # one is written while the next is in work

    def begin(index, first, content, problems):
        """Submits a chunk, or takes it from the checkpoint."""
        chunk = _Chunk(index, problems)
        if store is not None:
            chunk.results = store.checkpoint.load(index, problems, store.unpack)
        pending.append(chunk)
        if chunk.results is None:
            chunk.future = submit(executor, _run, task, first, _Content(content))
            chunk.collect(writer)

    try:
        exhausted = False
        while True:
            while not exhausted and len(pending) < limit:
                index, chunk = next(source, (count, None))
                if chunk is None:
                    exhausted = True
                else:
                    begin(index, *chunk)
                    count += 1
            if not pending:
                break
            if pending[0].results is None:
                wait_for([chunk.future for chunk in pending if chunk.results is None and chunk.future], at_least=1)
                for chunk in pending:
                    chunk.collect(writer)
            yield from _finished(pending, exhausted or len(pending) == limit)
        if store is not None:
            store.checkpoint.require_at_most(count)
    except KeyboardInterrupt:
        yield from _finished(pending, True)
        raise
    finally:
        begun = [chunk.future for chunk in pending if chunk.cancel() and chunk.future]
        if finish_begun:
            wait_for(begun)
        try:
            for chunk in pending:
                chunk.keep(writer)
            for chunk in pending:
                chunk.hand_out()
        finally:
            writer.close()
