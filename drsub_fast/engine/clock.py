"""The clock that time limits are kept by, the limit that a thread is under, and the alarm at its end.

Solvers look at the clock between steps, and nothing is compiled that would take longer than what is left. Compiled code
is not interrupted.

A kernel that runs as plain Python may loop for minutes. A watching thread raises `OutOfTime` in it, between two of its
instructions, as Ctrl-C does in the main thread. An alarm that was raised arrives at the thread's next call or loop.
Nothing takes it back (CPython 3.11 has a way, after which a thread is slow for ever), so `call_with_alarm` waits for it
where it has been raised too late.
"""

import ctypes
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeVar

Answer = TypeVar("Answer")

#: What `time` in results and time limits are measured by, in seconds.
clock = time.perf_counter

#: A run may exceed its limit by a fifth and 50 ms. A tenth and 5 ms are for closing it, the next twentieth and 25 ms
#: for a better point where it has taken no step, the rest for its result.
_GRACE, _GRACE_SECONDS = 0.1, 0.005
_LATE_GRACE, _LATE_SECONDS = 0.15, 0.03


class _State(threading.local):
    """When the time of a thread ends, and whether it has ended and the rest is to be quick."""

    deadline = math.inf
    is_late = False


_state = _State()


class OutOfTime(Exception):
    """The time that the thread has is over."""


def now() -> float:
    """The time of the clock that limits are kept by, in seconds."""
    return clock()


def time_left(limit: float | None, began: float) -> float | None:
    """Seconds left of a limit that began then, at least 0; None without one."""
    return None if limit is None else max(0.0, limit - (now() - began))


def last_moment(began: float, limit: float | None) -> float | None:
    """When a solve that began then, and ends its steps after ``limit`` seconds, must have ended all else."""
    return None if limit is None else began + (1.0 + _GRACE) * limit + _GRACE_SECONDS


def latest_moment(began: float, limit: float) -> float:
    """When a solve that began then must have ended what it does to improve the answer of a run without a step."""
    return began + (1.0 + _LATE_GRACE) * limit + _LATE_SECONDS


def next_chunk(chunk: int, steps: int, seconds: float, left: float | None) -> int:
    """Steps until the next look at the clock: 5 ms of work or half the time that is left, by the pace of the last.

    It decides when the clock is looked at, never what is computed.
    """
    pace = max(1, steps) / max(seconds, 1e-7)
    wait = 0.005 if left is None else min(0.005, 0.5 * left)
    return max(1, min(4 * chunk, int(wait * pace)))


class until:
    """A context in which the time of this thread ends at ``deadline``, or at an earlier end that it is under.

    Parameters
    ----------
    deadline : float or None
        On the clock of `now`; None is no limit.
    """

    def __init__(self, deadline: float | None) -> None:
        self._deadline = math.inf if deadline is None else deadline

    def __enter__(self) -> None:
        self._before = thread_deadline()
        _state.deadline = min(self._before, self._deadline)

    def __exit__(self, *raised: object) -> None:
        _state.deadline = self._before


class untimed(until):
    """A context in which the time of this thread does not end: for what a run whose time is over still owes.

    Nothing is compiled in it.
    """

    def __init__(self) -> None:
        super().__init__(None)

    def __enter__(self) -> None:
        self._before, self._was_late = thread_deadline(), _state.is_late
        _state.deadline, _state.is_late = math.inf, True

    def __exit__(self, *raised: object) -> None:
        _state.deadline, _state.is_late = self._before, self._was_late


def is_late() -> bool:
    """Whether this thread does what a run whose time is over still owes."""
    return _state.is_late


def thread_deadline() -> float:
    """When the time of this thread ends; infinite without a limit."""
    return _state.deadline


def is_limited() -> bool:
    """Whether the time of this thread ends."""
    return thread_deadline() < math.inf


def thread_time_left() -> float:
    """Seconds that this thread has, at least 0; infinite without a limit."""
    return max(0.0, _state.deadline - now()) if is_limited() else math.inf


def require_time() -> None:
    """Raise `OutOfTime` where the time of this thread is over."""
    if is_limited() and now() >= _state.deadline:
        raise OutOfTime


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
