"""Results of a batch as a table: ``.npz`` or Parquet, a row for each problem.

Columns: ``value``, ``fw_gap``, ``upper_bound``, ``status`` (its name), ``n_iter``, ``n_lmo``, ``message`` and ``x``. In
Parquet x is a list for each row. In ``.npz`` it is an array (B, n), or, for problems of several sizes, the points
one after the other, with row i at ``x[x_start[i] : x_start[i + 1]]``.

Choices of items have the columns ``value``, ``count``, ``status``, ``message`` and, as x is, ``items``.

Rows are written as they come, Parquet's as a row group, those of ``.npz`` to a temporary file for each column, which
become one archive at the end. The table is written beside the file, which it replaces when it is whole.
"""

import csv
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_path, described, one_of
from drsub_fast.batch.choices import StackedChoices
from drsub_fast.batch.stacked_result import StackedResult
from drsub_fast.errors import UnsupportedError, naming, needing
from drsub_fast.result import Result

_FLOATS, _INTEGERS = ("value", "fw_gap", "upper_bound"), ("n_iter", "n_lmo")


def _columns(results):
    """Columns by name; the name of the column of points, these one after the other, and the length of each."""
    if isinstance(results, StackedChoices):
        texts = np.array([results.messages.get(i, "") for i in range(len(results))], np.str_)
        columns = {"value": results.value, "count": results.counts, "status": results.status_names()}
        lengths = np.full(len(results), results.items.shape[1])
        return columns | {"message": texts}, "items", results.items.ravel(), lengths
    if isinstance(results, StackedResult):
        columns = {name: getattr(results, name) for name in (*_FLOATS, *_INTEGERS)}
        columns["status"], points = results.status_names(), results.x.ravel()
        lengths = np.full(len(results), results.x.shape[1])
        messages = [results.messages.get(i, "") for i in range(len(results))]
    else:
        results = _as_results(results)
        columns = {name: np.array([getattr(r, name) for r in results], float) for name in _FLOATS}
        columns |= {name: np.array([getattr(r, name) for r in results], np.int64) for name in _INTEGERS}
        columns["status"] = np.array([r.status.name for r in results], np.str_)
        points = np.concatenate([*(r.x for r in results), np.zeros(0)])
        lengths = np.array([len(r.x) for r in results], np.int64)
        messages = [r.message for r in results]
    columns["message"] = np.array(messages, dtype=np.str_)
    return columns, "x", points, lengths


def _as_results(results):
    """A list of results, each of its kind."""
    if not isinstance(results, Iterable) or isinstance(results, (str, bytes)) or hasattr(results, "shape"):
        raise TypeError(f"results must be a StackedResult or a list of Result, got {described(results)}")
    results = list(results)
    for i, result in enumerate(results):
        if not isinstance(result, Result):
            raise TypeError(f"results[{i}] must be a Result, got {described(result)}")
    return results


class _Column:
    """A column in a temporary file, of parts whose types may differ in width."""

    def __init__(self, folder):
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by the table
        self.parts = []

    def add(self, array):
        """Appends the entries."""
        self.parts.append((array.dtype, array.size))
        self.file.write(np.ascontiguousarray(array).view(np.uint8).data)

    def write(self, archive, name, shape=None):
        """Writes the column as a member of an archive, as an array of that shape."""
        kind = np.result_type(*(dtype for dtype, _ in self.parts))
        member: str | zipfile.ZipInfo = f"{name}.npy"
        if kind.kind != "U":  # numbers hardly get smaller, and to pack them takes as long as the problems
            member = zipfile.ZipInfo(f"{name}.npy")
        shape = (sum(size for _, size in self.parts),) if shape is None else shape
        self.file.seek(0)
        with archive.open(member, "w", force_zip64=True) as stream:
            header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            for dtype, size in self.parts:
                part = np.frombuffer(self.file.read(dtype.itemsize * size), dtype) if size else np.zeros(0, dtype)
                stream.write(part.astype(kind, copy=False).tobytes())


class _Npz:
    def __init__(self, path):
        self.path, self.columns, self.lengths = path, {}, []

    def add(self, columns, name_of_points, points, lengths):
        """Appends rows."""
        self.name_of_points = name_of_points
        for name, column in (columns | {name_of_points: points}).items():
            if name not in self.columns:
                self.columns[name] = _Column(self.path.parent)
            self.columns[name].add(column)
        self.lengths.append(lengths)

    def finish(self):
        """Writes the archive."""
        lengths = np.concatenate(self.lengths)
        same = len(set(lengths.tolist())) == 1
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, column in self.columns.items():
                column.write(
                    archive, name, (len(lengths), int(lengths[0])) if name == self.name_of_points and same else None
                )
            if not same:
                starts = _Column(self.path.parent)
                with starts.file:
                    starts.add(np.cumsum([0, *lengths.tolist()]))
                    starts.write(archive, "x_start")

    def close(self):
        """Frees the temporary files."""
        for column in self.columns.values():
            column.file.close()


def parquet() -> ModuleType:
    """The module pyarrow, with its Parquet part."""
    with needing("Parquet files need pyarrow", "parquet", UnsupportedError):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


class _Parquet:
    def __init__(self, path):
        self.path = path
        self.writer: Any = None

    def add(self, columns, name_of_points, points, lengths):
        """Writes rows as a row group."""
        pyarrow = parquet()
        lists = pyarrow.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), points)
        table = pyarrow.table(
            {**{name: pyarrow.array(column) for name, column in columns.items()}, name_of_points: lists}
        )
        if self.writer is None:
            self.writer = pyarrow.parquet.ParquetWriter(self.path, table.schema)
        self.writer.write_table(table)

    def finish(self):
        """Writes the end of the file."""
        self.writer.close()

    def close(self):
        """Frees the file."""
        if self.writer is not None:
            self.writer.close()


class _Csv:
    def __init__(self, path):
        self.path = path
        self.file: Any = None
        self.writer: Any = None

    def add(self, columns, name_of_points, points, lengths):
        """Writes rows; a point is a text, its entries with blanks between."""
        if self.file is None:
            self.file = self.path.open("w", newline="", encoding="utf-8")
            self.writer = csv.writer(self.file)
            self.writer.writerow([*columns, name_of_points])
        ends = np.cumsum(lengths).tolist()
        texts = list(map(repr, points.tolist()))
        rows = zip(*(column.tolist() for column in columns.values()), lengths.tolist(), ends, strict=True)
        self.writer.writerows([*row, " ".join(texts[end - size : end])] for *row, size, end in rows)

    def finish(self):
        """Writes the end of the file."""
        self.file.close()

    def close(self):
        """Frees the file."""
        if self.file is not None:
            self.file.close()


KINDS: dict[str, type[_Npz] | type[_Parquet] | type[_Csv]] = {".npz": _Npz, ".parquet": _Parquet, ".csv": _Csv}


def check_table(path: str | Path) -> None:
    """Raises an error if a table cannot be written: ValueError for another kind of file, `UnsupportedError` without
    pyarrow, IsADirectoryError for a folder."""
    kind = one_of(Path(path).suffix.lower(), "kind of file", tuple(KINDS))
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file for the results")
    if kind == ".parquet":
        parquet()


@contextmanager
def open_table(path: str | Path, beside: str | Path | None = None) -> Iterator[Any]:
    """A function that appends results to a table, ``add(results, **extra)``; the file is there at the end.

    If the context is left by an exception, what was there before is kept. The table is written ``beside`` until it is
    whole: in a folder of the same disk that exists when the first results come.
    """
    path = as_path(path, "write_results(path, results)")
    check_table(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial") if beside is None else Path(beside)
    table = KINDS[path.suffix.lower()](beside)

    def add(results, **extra):
        columns, name_of_points, points, lengths = _columns(results)
        for name, column in extra.items():
            if name in columns or name in (name_of_points, "x_start"):
                raise ValueError(f"{name} is a column of every table: give another name")
            columns[name] = np.asarray(column)
            if columns[name].shape != lengths.shape or columns[name].dtype.hasobject:
                raise ValueError(f"{name} must be {len(lengths)} numbers or texts, one for each problem")
        with naming(path):
            table.add(columns, name_of_points, points, lengths)

    try:
        yield add
        with naming(path):
            table.finish()
            with open(beside, "r+b") as whole:  # Windows flushes only what may be written
                os.fsync(whole.fileno())
            os.replace(beside, path)
    finally:
        with suppress(OSError):  # what could not be written cannot be now
            table.close()
        beside.unlink(missing_ok=True)


def write_results(
    path: str | Path, results: StackedResult | StackedChoices | Iterable[Result], **extra: ArrayLike
) -> None:
    """Writes the results of a batch as a table.

    Parameters
    ----------
    path : path
        Ends in ``.npz``, ``.csv``, or ``.parquet`` (needs the extra "parquet"). It is written beside, and renamed.
    results : StackedResult or list of Result
        From `maximize_stacked` or `maximize_many`.
    **extra : array_like, shape (B,)
        More columns, e.g. names.

    Raises
    ------
    ValueError
        For another kind of file.
    UnsupportedError
        For Parquet without pyarrow.

    Examples
    --------
    >>> import tempfile, numpy as np, drsub_fast as ds
    >>> r = ds.maximize_stacked(h=np.ones((2, 3)), H=np.zeros((3, 3)), upper=np.ones(3), max_iter=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ds.write_results(f"{folder}/answers.npz", r, name=["first", "second"])
    ...     np.load(f"{folder}/answers.npz")["value"]
    array([3., 3.])
    """
    with open_table(path) as add:
        add(results, **extra)
