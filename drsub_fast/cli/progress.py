"""How far a long command is: a bar on a terminal, a line a minute elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from tqdm import tqdm


@dataclass
class MinuteLines:
    """Counts problems, and writes a line of how many are done at most every so many seconds."""

    total: int
    stream: TextIO
    unit: str = "problem"
    every: float = 60.0
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    counted: int = 0

    def __post_init__(self) -> None:
        self.last = self.clock()

    def __call__(self, count: int) -> None:
        self.done += count
        now = self.clock()
        if now - self.last >= self.every:
            rate = (self.done - self.counted) / (now - self.last)
            self.stream.write(f"drsub-fast: {self.done} of {self.total} {self.unit}s, {rate:.3g} a second\n")
            self.stream.flush()
            self.last, self.counted = now, self.done


@contextmanager
def shown_progress(total: int, unit: str = "problem") -> Iterator[Any]:
    """A function that counts finished problems, and shows them on standard error."""
    if not sys.stderr.isatty():
        yield MinuteLines(total, sys.stderr, unit)
        return
    with tqdm(total=total, unit=unit, leave=False) as bar:
        yield bar.update
