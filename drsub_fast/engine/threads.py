"""What batches share: number of workers, one BLAS thread for each of them, a progress bar."""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

from drsub_fast._checks import as_count, as_flag
from drsub_fast.engine.interrupts import uninterrupted

#: More threads than this no machine runs; systems refuse to start them from some ten thousands on.
_MOST_WORKERS = 4096

_lock = threading.Lock()
_inside = 0
_limiter: Any = None
_controller: ThreadpoolController | None = None


def worker_count(n_jobs: int | None) -> int:
    """Number of workers: ``n_jobs``, or for None and -1 the number of processors this process may use."""
    if n_jobs is None or n_jobs == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return as_count(n_jobs, "n_jobs", lower=1, upper=_MOST_WORKERS)


@contextmanager
def progress_bar(
    shown: bool, total: int | None = None, done: int = 0, unit: str = "problem"
) -> Generator[Callable[[int], Any], None, None]:
    """A function that counts finished problems (or steps), and shows them on standard error if asked to."""
    if not as_flag(shown, "progress"):
        yield lambda count: None
        return
    from tqdm import tqdm

    with tqdm(total=total, initial=done, unit=unit) as bar:
        yield bar.update


@contextmanager
def one_blas_thread() -> Generator[None, None, None]:
    """Limits every BLAS of the process to one thread; the last of concurrent users restores what was set.

    Workers that each start BLAS threads of their own oversubscribe the processors, and the number of BLAS
    threads changes the rounding of results.
    """
    global _inside, _limiter, _controller
    is_inside, interrupt = False, None
    try:
        with uninterrupted(), _lock:
            is_inside = True
            _inside += 1
            if _inside == 1:
                _controller = _controller or ThreadpoolController()
                _limiter = _controller.limit(limits=1, user_api="blas")
        yield
    finally:
        while is_inside:
            try:
                with uninterrupted(), _lock:
                    is_inside = False
                    _inside -= 1
                    if _inside == 0 and _limiter is not None:
                        _limiter.restore_original_limits()
                        _limiter = None
            except BaseException as error:  # Ctrl-C as the block began, or at its end
                interrupt = error
        if interrupt is not None:
            raise interrupt
