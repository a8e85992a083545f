"""Stacks of problems in files, read piece by piece: an ``.npz`` file, or a folder of ``.npy`` files.

An array is read once, from the front, by plain reads: pages of a memory map would count as memory of the process. What
a header promises is compared with what the file holds before anything is read.
"""

import errno
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipInfo

import numpy as np

from drsub_fast.batch.pieces import Stack
from drsub_fast.batch.problem_stack import ProblemStack, arguments_of_stack
from drsub_fast.problems.files import PROBLEM_FILES, kind_of_file
from drsub_fast.problems.npz import ObjectArray, opened_member, read_header, unread

DAMAGES = (ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, OverflowError, RuntimeError)
#: Bytes of the largest array that is read as a whole though its problems do not lie one after the other.
_WHOLE = 1 << 28


class FileArray:
    """An array in an ``.npy`` file, or that member of an ``.npz`` file, known by its header."""

    path: Path
    name: str
    member: ZipInfo | None
    shape: tuple[int, ...]
    in_columns: bool
    dtype: np.dtype
    ndim: int
    size: int

    def __init__(self, path: Path, name: str, member: ZipInfo | None = None) -> None:
        self.path, self.name, self.member = path, name, member
        with ExitStack() as opened:
            _, self.shape, self.in_columns, self.dtype = self._open(opened)
        self.ndim, self.size = len(self.shape), int(np.prod(self.shape, dtype=object))

    def _open(self, opened):
        """(stream at the first entry, shape, whether columns come first, type)."""
        try:
            if self.member is not None:
                archive = opened.enter_context(zipfile.ZipFile(self.path))
                return opened.enter_context(opened_member(archive, self.member, self.name))
            stream = opened.enter_context(self.path.open("rb", buffering=0))
            return stream, *read_header(stream, self.path.stat().st_size)
        except ObjectArray:
            raise
        except DAMAGES as error:
            raise self._damaged(error) from None

    def _damaged(self, error):
        return ValueError(f"{self.path}: {self.name} cannot be read: {error}")

    def ravel(self) -> np.ndarray:
        """The entries, as `numpy.ndarray.ravel`."""
        return self.whole().ravel()

    def whole(self) -> np.ndarray:
        """The array."""
        if self.in_columns and self.ndim > 1:
            (columns,) = self._rows(self.shape[::-1])
            return columns.T
        (array,) = self._rows(self.shape)
        return array

    def rows(self, size: int) -> Iterator[Any]:
        """The rows in groups of ``size``, one after the other."""
        yield from self.parts(min(size, self.shape[0] - first) for first in range(0, self.shape[0], size))

    def parts(self, counts: Iterable[int]) -> Iterator[Any]:
        """So many rows each, one after the other."""
        if self.in_columns and self.ndim > 1:
            if self.size * self.dtype.itemsize > _WHOLE:
                raise ValueError(
                    f"{self.path}: {self.name} is stored by columns, so that no problem can be read without all the "
                    f"others: save numpy.ascontiguousarray({self.name})"
                )
            whole, first = np.ascontiguousarray(self.whole()), 0
            for count in counts:
                yield whole[first : first + count]
                first += count
            return
        yield from self._rows(*((count, *self.shape[1:]) for count in counts))

    def _rows(self, *shapes):
        """Arrays of these shapes, read one after the other."""
        with ExitStack() as opened:
            stream, *_ = self._open(opened)
            for shape in shapes:
                array = np.empty(shape, self.dtype)
                self._fill(stream, array.reshape(-1).view(np.uint8).data)
                yield array

    def _fill(self, stream, buffer):
        done = 0
        while done < len(buffer):
            try:
                count = stream.readinto(buffer[done:])
            except DAMAGES as error:
                raise self._damaged(error) from None
            if not count:
                raise ValueError(f"{self.path}: {self.name} ends too early")
            done += count


def _file_array(*place):
    try:
        return FileArray(*place)
    except ObjectArray:
        return unread()


def arrays_in(path: Path) -> dict[str, Any] | None:
    """The arrays of an ``.npz`` file or a folder of ``.npy`` files by name; None if it is neither."""
    if path.is_dir():
        if any(kind_of_file(file) in PROBLEM_FILES for file in path.iterdir()):
            return None
        files = sorted(file for file in path.iterdir() if file.suffix.lower() == ".npy")
        return {file.stem: _file_array(file, file.stem) for file in files} or None
    if path.suffix.lower() != ".npz" or not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    names = [member.filename.removesuffix(".npy") for member in members]
    return {name: _file_array(path, name, member) for name, member in zip(names, members, strict=True)}


def read_stack(path: Path, require_dr: bool = True) -> tuple[Stack | None, dict[str, Any]]:
    """(`Stack`, kinds) of a file or folder: the stack None if it is none, the names of objective and set where given.

    ``require_dr`` is that of `read_problem`. ValueError, which begins with the path, for arrays that are damaged or do
    not fit together.
    """
    path = Path(path)
    try:
        arrays = arrays_in(path)
        arguments = arrays and arguments_of_stack(arrays, require_dr)
    except (*DAMAGES, OSError) as error:
        if path.is_dir() or (isinstance(error, OSError) and error.errno != errno.EINVAL):
            raise
        return None, {}  # a problem of its own, whose reader says why
    if not arguments:
        if arrays and path.is_dir():
            raise ValueError(
                f"{path} holds no stack: the arrays are {', '.join(arrays)}; H, L or factor and one of A, k, upper are "
                "needed, or texts named objective and set, with one more axis in front than for one problem"
            )
        return None, {}
    kinds = {name: arguments.pop(name, None) for name in ("objective", "set")}
    # Arrays of the same shape and type without memory: what fits together is known before anything is read.
    shapes = {name: _stand_in(argument) for name, argument in arguments.items()}
    try:
        problems = ProblemStack(kinds["objective"], kinds["set"], shapes)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    stacked = {name for name, argument in problems.arguments.items() if not argument.shared}
    shared = {name: _whole(argument) for name, argument in arguments.items() if name not in stacked}
    rows = {name: arguments[name] for name in sorted(stacked)}
    kinds_of_rows = {name: (array.dtype.str, array.shape[1:]) for name, array in rows.items()}
    return Stack(problems.count, shared, kinds_of_rows, partial(_pieces, rows)), kinds


def _stand_in(argument):
    is_file = isinstance(argument, FileArray)
    return np.broadcast_to(np.zeros((), argument.dtype), argument.shape) if is_file else argument


def _whole(argument):
    return argument.whole() if isinstance(argument, FileArray) else argument


def _pieces(rows, size):
    """Dicts of the next ``size`` rows of each array."""
    streams = [array.rows(size) for array in rows.values()]
    for arrays in zip(*streams, strict=True):
        yield dict(zip(rows, arrays, strict=True))
