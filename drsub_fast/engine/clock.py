"""The clock that time limits are kept by, and the limit that a thread is under.

Solvers look at the clock between steps. One step of a kernel that runs as plain Python may take longer than the limit,
so such a kernel looks at the clock whenever it calls another one, and gives up by `OutOfTime`; and nothing is compiled
that would take longer than what is left.
"""

import math
import threading
import time

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
