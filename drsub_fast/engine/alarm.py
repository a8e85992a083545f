"""The end of a thread's time, raised inside plain Python that does not look at the clock.

A kernel that runs as plain Python may loop for minutes. A watching thread raises `OutOfTime` in it, between two of its
instructions, as Ctrl-C does in the main thread. Compiled code is not reached; its solvers look at the clock between
steps.
"""

import ctypes
import os
import threading
from queue import Empty, SimpleQueue

from drsub_fast.engine.clock import OutOfTime, is_limited, now, require_time, thread_deadline


class _Watch:
    """The thread that raises alarms, and the times of those to come by the number of their thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # only by `with`, which no interrupt can divide
        self.times: dict[int, float] = {}
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def set(self, thread: int, time: float) -> None:
        """Raise an alarm in a thread at a time, in place of the one that is set for it."""
        with self.lock:
            self.times[thread] = time
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="drsub_fast alarm", daemon=True)
                self._thread.start()
            elif time < self._next:
                self._wake.put(None)

    def clear(self, thread: int) -> None:
        """No alarm in a thread any more, also if one was raised and has not arrived."""
        with self.lock:
            self.times.pop(thread, None)
            _raise_in(thread, None)

    def _run(self) -> None:
        while True:
            with self.lock:
                time = now()
                for thread in [thread for thread, due in self.times.items() if due <= time]:
                    # Once: it may arrive in `clear`, before that has done anything.
                    del self.times[thread]
                    _raise_in(thread, OutOfTime)
                self._next = min(self.times.values(), default=time + 3600.0)
            try:
                self._wake.get(timeout=self._next - time)
            except Empty:
                continue


def _raise_in(thread, error):
    """Raise an exception of a class in a thread; None takes back one that has not arrived."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.c_void_p(None if error is None else id(error))
    )


def _forget() -> None:
    global _watch
    _watch = _Watch()  # a forked child has no watching thread


_watch = _Watch()
os.register_at_fork(after_in_child=_forget)


class alarm:
    """A context that `OutOfTime` leaves when the time of this thread is over.

    The block must stand that between any two instructions. Parts of it that must not be divided, calls of functions of
    users above all, are put under `no_alarm`.
    """

    def __enter__(self) -> None:
        require_time()
        self._thread, self._is_set = threading.get_ident(), is_limited()
        if self._is_set:
            self._before = _watch.times.get(self._thread)
            _watch.set(self._thread, thread_deadline())

    def __exit__(self, *raised: object) -> None:
        if self._is_set:
            _watch.clear(self._thread)
            if self._before is not None:
                _watch.set(self._thread, self._before)


class no_alarm:
    """A context without the alarm that is set around it, which is raised behind it where its time has come."""

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        self._time = _watch.times.get(self._thread)
        if self._time is not None:
            _watch.clear(self._thread)

    def __exit__(self, *raised: object) -> None:
        if self._time is not None:
            _watch.set(self._thread, self._time)
            if raised[0] is None and now() >= self._time:  # the next block may come sooner than the alarm
                raise OutOfTime
