"""When compiling pays, and the record of it beside the cache.

Nobody knows how long a user goes on. So a kernel is compiled once the processor seconds that it took as plain Python
reach those that compiling takes, or once the work that is certainly ahead exceeds them: then nobody waits much longer
than twice the best choice. Both sums are kept in a file beside the cache: what compiling takes on this machine, and
what earlier processes spent, so that a script that runs every day is compiled in time.

The file has lines "spent SECONDS KERNEL" and "compiled SECONDS SIZE KERNEL". Lines that say nothing are passed over.
"""

import atexit
import math
import threading
import time
import types
from collections.abc import Hashable, Iterable
from functools import cache
from statistics import median
from typing import Any

from drsub_fast.engine import store

#: Processor seconds of compiling: of the least kernel, Numba's import included, and for each byte of bytecode that is
#: linked in; with the seconds of `_slowness`'s loop on the same machine. A loop over a polytope has 30,000 to 40,000
#: bytes, over a box 7,000. `drsub-fast warmup` measures seconds and sizes, and leaves them in the record.
LEAST, _PER_BYTE, _LOOP = 0.6, 2.0e-4, 0.0038

#: Seconds that are written down at a time, for processes that are ended from outside; and bytes of the file from which
#: on it is written anew, with one line a kernel.
_WRITTEN_AT, _LONG = 1.0, 1 << 16


class Record:
    """What is known of kernels, by the names of their files.

    Attributes
    ----------
    spent : dict
        Processor seconds as plain Python since the last compilation.
    costs : dict
        Processor seconds that compiling took, and the size of what was compiled.
    """

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self.spent: dict[str, float] = {}
        self.costs: dict[str, tuple[float, int]] = {}
        self.unwritten: dict[str, float] = {}
        for line in lines:
            try:
                self._add(*line.decode("ascii").split())
            except (ValueError, TypeError):  # no such line
                continue

    def _add(self, word, seconds, *rest):
        amount = float(seconds)
        if not 0.0 <= amount < math.inf:
            return
        if word == "spent" and len(rest) == 1:
            self.spent[rest[0]] = self.spent.get(rest[0], 0.0) + amount
        elif word == "compiled":
            size, name = rest
            self.costs[name], self.spent[name] = (amount, int(size)), 0.0

    def lines(self) -> str:
        """The record as the text of its file."""
        costs = [f"compiled {seconds:.3f} {size} {name}\n" for name, (seconds, size) in self.costs.items()]
        return "".join(costs + [f"spent {seconds:.3f} {name}\n" for name, seconds in self.spent.items() if seconds])


@cache
def record() -> Record:
    """What earlier processes wrote down."""
    atexit.register(write_spent)
    content = store.read_record()
    known = Record(content.splitlines())
    if len(content) > _LONG:
        store.write_record(known.lines())
    return known


def write_spent() -> None:
    """Writes down what was spent since the last time."""
    known = record()
    seconds, known.unwritten = known.unwritten, {}
    store.extend_record("".join(f"spent {amount:.3f} {name}\n" for name, amount in seconds.items()))


def note_spent(name: str, seconds: float) -> None:
    """Writes down processor seconds of a kernel as plain Python, some at a time."""
    unwritten = record().unwritten
    unwritten[name] = unwritten.get(name, 0.0) + seconds
    if unwritten[name] > _WRITTEN_AT:
        write_spent()


def note_compiled(name: str, seconds: float, size: int) -> None:
    """Writes down what it took to compile a kernel."""
    known = record()
    known.costs[name] = seconds, size
    known.unwritten.pop(name, None)
    store.extend_record(f"compiled {seconds:.3f} {size} {name}\n")


def cost(name: str | None, size: int) -> float:
    """Processor seconds that compiling takes: as it took before, or by the size and what others took."""
    costs = record().costs
    if name in costs:
        return costs[name][0]
    rates = [seconds / (LEAST + _PER_BYTE * other) for seconds, other in costs.values()]
    return (LEAST + _PER_BYTE * size) * (median(rates) if rates else _slowness())


@cache
def _slowness():
    """How much longer this machine takes than that of the measurements, by a fixed loop; within a factor of 4."""
    times = []
    for _ in range(3):
        began, total = time.thread_time(), 0
        for i in range(100_000):
            total += i * i % 7
        times.append(time.thread_time() - began)
    return min(4.0, max(0.25, min(times) / _LOOP))


def linked_size(function: Any, classes: set[type]) -> int:
    """Bytes of bytecode of a kernel and of all that it calls, for arguments in which these classes of tuples occur."""
    seen: set[types.CodeType] = set()
    rest = [function]
    while rest:
        text = getattr(value := rest.pop(), "py_func", value)
        code = getattr(text, "__code__", None)
        if code is not None and code not in seen:
            seen.add(code)
            used = [text.__globals__.get(name) for name in code.co_names]
            used += [cell.cell_contents for cell in text.__closure__ or ()]
            rest += [callee for value in used for callee in _callees(value, classes)]
    return sum(len(code.co_code) for code in seen)


def _callees(value, classes):
    """The kernels that a name of a kernel's text stands for: itself, or the implementations of an operation."""
    if hasattr(value, "py_func"):
        return [value]
    table = getattr(value, "table", None)
    return [table[cls] for cls in classes if cls in table] if isinstance(table, dict) else []


class _Thread(threading.local):
    series: "series | None" = None


_thread = _Thread()


class series:
    """A context in which this thread solves one after another of many problems: how many follow counts as work ahead.

    Parameters
    ----------
    count : int
        Number of problems.
    """

    def __init__(self, count: int) -> None:
        self.left, self.begun = count, 0
        self.spent: dict[Hashable, float] = {}

    def __enter__(self) -> "series":
        self._before, _thread.series = _thread.series, self
        return self

    def __exit__(self, *raised: object) -> None:
        _thread.series = self._before

    def begin_next(self) -> None:
        """The next of the problems is begun."""
        self.left, self.begun = self.left - 1, self.begun + 1

    @staticmethod
    def note(key: Hashable, seconds: float) -> None:
        """Adds seconds of this thread as plain Python, of a kernel and types."""
        if (own := _thread.series) is not None:
            own.spent[key] = own.spent.get(key, 0.0) + seconds

    @staticmethod
    def ahead(key: Hashable) -> float:
        """About how many seconds of a kernel the problems that follow take, if they are like those before."""
        own = _thread.series
        return 0.0 if own is None else own.spent.get(key, 0.0) / max(1, own.begun) * own.left
