"""Candidates of many users in files, read piece by piece: ``.npz``, a folder of ``.npy`` files, or Parquet.

The arrays are those of `drsub_fast.greedy_map_stacked` by name. A Parquet file has a row a candidate, with the columns
``user``, ``features`` (lists of numbers), ``quality`` and ``groups``, of which the last two may be missing; the
candidates of a user follow each other. Features are never read as a whole.
"""

import errno
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.batch.choices import as_offsets, choice_stack, kinds_of_rows
from drsub_fast.batch.pieces import Stack
from drsub_fast.batch.stack_files import DAMAGES, FileArray, arrays_in
from drsub_fast.batch.tables import parquet

NAMES = ("L", "features", "quality", "offsets", "lengths", "groups")
#: Rows of a Parquet file that are read at a time.
_ROWS = 1 << 16


def read_choice_stack(path: str | Path) -> tuple[Stack, Any]:
    """(stack, per_group or None) of a file.

    Raises
    ------
    ValueError
        For a file that is neither, is damaged, or whose arrays do not fit together; it begins with the path.
    """
    path = Path(path)
    try:
        if path.suffix.lower() == ".parquet":
            return _parquet_stack(path), None
        arrays = arrays_in(path)
        if arrays is None:
            if not path.exists():
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
            raise ValueError("give an .npz file, a folder of .npy files, or a .parquet file")
        unknown = [name for name in arrays if name not in (*NAMES, "per_group")]
        if unknown:
            raise ValueError(f"the array {unknown[0]} means nothing here; known are {', '.join((*NAMES, 'per_group'))}")
        per_group = arrays.pop("per_group").whole() if "per_group" in arrays else None
        return _array_stack(arrays), per_group
    except (*DAMAGES, TypeError) as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def _array_stack(arrays):
    small = {name: arrays.pop(name).whole() for name in ("offsets", "lengths") if name in arrays}
    # Arrays of the same shape and type without memory: what fits together is known before anything is read.
    shapes = {name: np.broadcast_to(np.zeros((), array.dtype), array.shape) for name, array in arrays.items()}
    stack = choice_stack(shapes | small)
    if "offsets" in small:
        offsets = as_offsets(small["offsets"], arrays["features"].shape[0])
        return replace(stack, read=partial(_flat_pieces, arrays, offsets))
    return replace(stack, read=partial(_padded_pieces, arrays, small))


def _padded_pieces(arrays: dict[str, FileArray], small: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    first = 0
    for parts in zip(*(array.rows(size) for array in arrays.values()), strict=True):
        count = len(parts[0])
        rows = {name: array[first : first + count] for name, array in small.items()}
        yield dict(zip(arrays, parts, strict=True)) | rows
        first += count


def _flat_pieces(arrays: dict[str, FileArray], offsets: NDArray[np.int64], size: int) -> Iterator[dict[str, Any]]:
    bounds = [*range(0, len(offsets) - 1, size), len(offsets) - 1]
    counts = np.diff(offsets[bounds]).tolist()
    streams = [array.parts(iter(counts)) for array in arrays.values()]
    for first, parts in zip(bounds[:-1], zip(*streams, strict=True), strict=True):
        own = offsets[first : first + size + 1]
        yield dict(zip(arrays, parts, strict=True)) | {"offsets": own - own[0]}


# Parquet.


def _parquet_stack(path):
    file, columns = parquet().parquet.ParquetFile(path), ("features", "quality", "groups")
    names = file.schema_arrow.names
    missing = [name for name in ("user", "features") if name not in names]
    if missing:
        raise ValueError(f"there is no column {missing[0]}; the columns are {', '.join(names)}")
    counts, d = (
        _counts(file),
        len(next(file.iter_batches(1, columns=["features"]))["features"][0]) if file.metadata.num_rows else 1,
    )
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    shapes = {
        name: (len(offsets) and int(offsets[-1]),) + (d,) * (name == "features") for name in columns if name in names
    }
    rows = {name: np.broadcast_to(np.zeros((), _TYPES.get(name, float)), shape) for name, shape in shapes.items()}
    return Stack(len(counts), {}, kinds_of_rows(rows, len(counts)), partial(_parquet_pieces, file, [*rows], d, offsets))


_TYPES = {"groups": np.int64}


def _counts(file):
    """Candidates of each user: the lengths of runs of equal users."""
    starts, first, last = [np.zeros(0, np.int64)], 0, None
    for batch in file.iter_batches(_ROWS, columns=["user"]):
        users = batch["user"].to_numpy(zero_copy_only=False)
        is_start = np.concatenate([[first == 0 or users[0] != last], users[1:] != users[:-1]])
        starts.append(first + np.flatnonzero(is_start))
        first, last = first + len(users), users[-1]
    return np.diff(np.concatenate([*starts, [first]]))


def _parquet_pieces(
    file: Any, names: list[str], d: int, offsets: NDArray[np.int64], size: int
) -> Iterator[dict[str, Any]]:
    batches = file.iter_batches(_ROWS, columns=names)
    rest = {name: np.zeros((0, d) if name == "features" else 0, _TYPES.get(name, float)) for name in names}
    for first in range(0, len(offsets) - 1, size):
        own = offsets[first : first + size + 1]
        parts, held = [rest], len(rest["features"])
        while held < own[-1] - own[0]:
            batch = next(batches)
            parts.append({name: _column(batch[name], name, d) for name in names})
            held += batch.num_rows
        whole = {name: np.concatenate([part[name] for part in parts]) for name in names}
        yield {name: array[: own[-1] - own[0]] for name, array in whole.items()} | {"offsets": own - own[0]}
        rest = {name: array[own[-1] - own[0] :] for name, array in whole.items()}


def _column(column, name, d):
    """A column of a batch as an array; where a number is missing, NaN."""
    if name != "features":
        return column.to_numpy(zero_copy_only=False).astype(_TYPES.get(name, float), copy=False)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if (lengths != d).any():
        raise ValueError(
            f"features[{int((lengths != d).argmax())}] of a group of rows has not {d} entries as the first"
        )
    return column.flatten().to_numpy(zero_copy_only=False).astype(float, copy=False).reshape(-1, d)
