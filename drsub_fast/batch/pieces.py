"""A stack of problems cut into pieces, each a task of an executor and a chunk of a checkpoint."""

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Bytes of a piece at most: of one that threads solve, which memory holds three times (one is read, one solved, one
#: written), and of one that is sent to another process. Dask spends 10 ms on a task, and warns of 10 MiB.
HELD, SENT = 1 << 24, 1 << 23
#: A batch has at least so many pieces, since a run that is killed loses the one in work; for an executor so many for
#: each worker, so that unequal ones balance.
PIECES, PIECES_OF_WORKER = 64, 8


@dataclass(frozen=True)
class Stack:
    """Stacked problems, wherever their arrays are.

    Attributes
    ----------
    count : int
        Number of problems.
    shared : dict
        Arguments that all problems share, by name.
    rows : dict of str to (str, tuple)
        Type and shape of one problem's row of the others.
    read : callable
        ``read(size)`` generates dicts of the rows of ``size`` problems after the other, in order.
    """

    count: int
    shared: dict[str, Any]
    rows: dict[str, Any]
    read: Callable

    def pieces(self, size: int) -> Generator[Any, None, None]:
        """(number of the first problem, arguments of `maximize_stacked`) of each piece."""
        for i, arrays in enumerate(self.read(size)):
            yield i * size, arrays | self.shared

    def size(self, limit: int, pieces: int) -> int:
        """Problems of a piece of at most ``limit`` bytes, at least so many pieces."""
        row = sum(np.dtype(kind).itemsize * math.prod(shape) for kind, shape in self.rows.values())
        return max(1, min(limit // max(row, 256), math.ceil(self.count / pieces)))


def stack_in_memory(shared: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Stack:
    """The stack of arrays with a row for each problem, all of one length."""
    count = next((len(array) for array in arrays.values()), 1)

    def read(size):
        for first in range(0, count, size):
            yield {name: array[first : first + size] for name, array in arrays.items()}

    return Stack(count, shared, {name: (array.dtype.str, array.shape[1:]) for name, array in arrays.items()}, read)
