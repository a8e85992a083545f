"""The end of a thread's time, raised inside plain Python that does not look at the clock.

A kernel that runs as plain Python may loop for minutes. A watching thread raises `OutOfTime` in it, between two of its
instructions, as Ctrl-C does in the main thread. Compiled code is not reached; its solvers look at the clock between
steps.

An alarm that was raised arrives at the thread's next call or loop. Nothing takes it back (CPython 3.11 has a way, after
which a thread is slow for ever), so `call_with_alarm` waits for it where it has been raised too late.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeVar

from drsub_fast.engine.clock import OutOfTime, is_limited, now, require_time, thread_deadline

Answer = TypeVar("Answer")


class _Alarm(OutOfTime):
    """An alarm that has arrived."""


class _Local(threading.local):
    """Whether the calls of this thread are under an alarm."""

    is_watched = False


class _Watch:
    """The thread that raises alarms, and the times of those to come by the number of their thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # only by `with`, which no interrupt can divide
        self._times: dict[int, float] = {}
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def set(self, time: float) -> None:
        """Raise an alarm in this thread at a time."""
        with self._lock:
            self._times[threading.get_ident()] = time
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="drsub_fast alarm", daemon=True)
                self._thread.start()
            elif time < self._next:
                self._wake.put(None)

    def clear(self) -> float:
        """The time for which the alarm of this thread was set, which is no more; an alarm that was raised arrives."""
        with self._lock:
            time = self._times.pop(threading.get_ident(), None)
        return _wait() if time is None else time

    def _run(self) -> None:
        while True:
            with self._lock:
                time = now()
                for thread in [thread for thread, due in self._times.items() if due <= time]:
                    del self._times[thread]
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Alarm))
                self._next = min(self._times.values(), default=time + 3600.0)
            try:
                self._wake.get(timeout=self._next - time)
            except Empty:
                continue


def _wait() -> NoReturn:
    while True:
        pass


def _forget() -> None:
    global _watch
    _watch, _local.is_watched = _Watch(), False  # a forked child has no watching thread


_watch, _local = _Watch(), _Local()
if sys.platform != "win32":  # which has no fork
    os.register_at_fork(after_in_child=_forget)


def call_with_alarm(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Calls a function that is left by `OutOfTime` when the time of this thread is over, between any two instructions.

    What must not be divided in it, calls of functions of users above all, goes by `call_without_alarm`.
    """
    if not is_limited() or _local.is_watched:
        return function(*arguments)
    require_time()
    try:
        _local.is_watched = True
        _watch.set(thread_deadline())
        answer = function(*arguments)
        _watch.clear()
        _local.is_watched = False
        return answer
    except _Alarm:
        _local.is_watched = False
        raise
    except BaseException:
        with suppress(_Alarm):
            _watch.clear()
        _local.is_watched = False
        raise


def call_without_alarm(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Calls a function without the alarm around it, which is raised behind it where its time has come."""
    if not _local.is_watched:
        return function(*arguments)
    time = _watch.clear()
    _local.is_watched = False
    try:
        answer = function(*arguments)
    finally:
        _local.is_watched = True
        _watch.set(time)
    if now() >= time:  # before the next call, which the alarm may come too late for
        _watch.clear()
        raise _Alarm
    return answer
