"""Ctrl-C beside threads: never between the two halves of what other threads wait for.

Python raises KeyboardInterrupt in the main thread between any two instructions. `threading.Condition`, on which
futures, semaphores and events rest, takes its lock in Python code: an interrupt right after leaves it taken, and the
threads that need it wait for ever. So the package touches futures where interrupts wait (`uninterrupted`), for as long
as that takes, and waits for them by a queue that is written in C, where an interrupt may come.
"""

import signal
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import nullcontext, suppress
from queue import SimpleQueue
from types import FrameType
from typing import Any

#: Where the executors are defined whose `submit` returns at once. That of others may solve the task, or wait.
_PROMPT = {"concurrent.futures.thread", "concurrent.futures.process"}


class uninterrupted:
    """Ctrl-C waits until the end of the block, which must be short; then its handler runs as usual.

    Signals reach the main thread only, so in others there is nothing to do. The methods are safe themselves:
    `signal.signal` runs the handlers of what has come before it changes one.
    """

    def __enter__(self) -> None:
        self._has_come = False
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            with suppress(ValueError):  # in a host program another thread may be the one that gets signals
                handler = signal.signal(signal.SIGINT, self._note)
                self._handler = handler if callable(handler) else None

    def _note(self, *_: Any) -> None:
        self._has_come = True

    def __exit__(self, *_: Any) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            if self._has_come:
                self._handler(signal.SIGINT, None)


def submit(executor: Executor, function: Callable[..., Any], *arguments: Any) -> Future:
    """The future of a task."""
    is_prompt = any(cls.__module__ in _PROMPT for cls in type(executor).__mro__)
    with uninterrupted() if is_prompt else nullcontext():
        return executor.submit(function, *arguments)


def wait_for(futures: Iterable[Future], at_least: int | None = None) -> None:
    """Returns once so many futures are done; all by default."""
    futures = list(futures)
    done: SimpleQueue[Future] = SimpleQueue()
    with uninterrupted():
        for future in futures:
            future.add_done_callback(done.put)
    for _ in range(len(futures) if at_least is None else at_least):
        done.get()


def result_of(future: Future) -> Any:
    """The result of a future, waited for."""
    wait_for([future])
    with uninterrupted():
        return future.result()
