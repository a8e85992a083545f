"""Results of a batch as a table: ``.npz`` or Parquet, a row for each problem.

Columns: ``value``, ``fw_gap``, ``upper_bound``, ``status`` (its name), ``n_iter``, ``n_lmo``, ``message`` and ``x``. In
Parquet x is a list for each row. In ``.npz`` it is an array (B, n), or, for problems of several sizes, the points
one after the other, with row i at ``x[x_start[i] : x_start[i + 1]]``.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from drsub_fast._checks import described, one_of
from drsub_fast.batch.stacked import StackedResult
from drsub_fast.errors import UnsupportedError
from drsub_fast.result import Result

KINDS = (".npz", ".parquet")


def _columns(results):
    """Columns by name, and the list of the points."""
    if isinstance(results, StackedResult):
        names = ("value", "fw_gap", "upper_bound", "n_iter", "n_lmo")
        columns = {name: getattr(results, name) for name in names}
        statuses, points = results.status, results.x
        messages = [results.messages.get(i, "") for i in range(len(results))]
    else:
        columns = {name: np.array([getattr(r, name) for r in results], float)
                   for name in ("value", "fw_gap", "upper_bound")}  # fmt: skip
        columns |= {name: np.array([getattr(r, name) for r in results], np.int64) for name in ("n_iter", "n_lmo")}
        statuses, points = [r.status for r in results], [r.x for r in results]
        messages = [r.message for r in results]
    columns["status"] = np.array([status.name for status in statuses], dtype=np.str_)
    columns["message"] = np.array(messages, dtype=np.str_)
    return columns, points


def _as_results(results):
    """A list of results, each of its kind."""
    if not isinstance(results, Iterable) or isinstance(results, (str, bytes)) or hasattr(results, "shape"):
        raise TypeError(f"results must be a StackedResult or a list of Result, got {described(results)}")
    results = list(results)
    for i, result in enumerate(results):
        if not isinstance(result, Result):
            raise TypeError(f"results[{i}] must be a Result, got {described(result)}")
    return results


def write_results(path: str | Path, results: Any, **extra: Any) -> None:
    """Writes the results of a batch as a table.

    Parameters
    ----------
    path : path
        Ends in ``.npz``, or in ``.parquet`` (needs the extra "parquet").
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
    """
    path = Path(path)
    kind = one_of(path.suffix.lower(), "kind of file", KINDS)
    if not isinstance(results, StackedResult):
        results = _as_results(results)
    columns, points = _columns(results)
    columns |= {name: np.asarray(column) for name, column in extra.items()}
    if kind == ".npz":
        if isinstance(points, np.ndarray) or len(set(map(len, points))) == 1:
            columns["x"] = np.array(points)
        else:
            columns["x"] = np.concatenate([*points, np.zeros(0)])
            columns["x_start"] = np.cumsum([0, *map(len, points)])
        np.savez_compressed(path, **columns)
        return
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnsupportedError("Parquet files need pyarrow: pip install 'drsub_fast[parquet]'") from None
    table = pyarrow.table({**{name: pyarrow.array(column) for name, column in columns.items()}, "x": list(points)})
    pyarrow.parquet.write_table(table, path)
