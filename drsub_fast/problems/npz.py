"""Arrays by name in .npz files; a sparse matrix is the four arrays of SciPy's CSC format.

Everything is checked before memory is asked for: an array's header against the bytes of its member, and those against
what the packed bytes can hold.
"""

import errno
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile, ZipInfo

import numpy as np
import scipy

#: The arrays that are a sparse matrix in an .npz file.
SPARSE_PARTS = ("data", "indices", "indptr", "shape")
#: Deflate makes at most 1032 bytes out of one.
_PACKING = 1032
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class ObjectArray(ValueError):
    """An array of Python objects, which nobody reads."""


def unread() -> np.ndarray:
    """What stands for an array of objects: an entry that is not needed keeps nothing from being read."""
    return np.array(None, dtype=object)


def load_npz(path: str | Path) -> dict[str, Any]:
    """The arrays of an .npz file by name, sparse matrices joined; ValueError naming the entry that is damaged.

    An array of Python objects is there as `unread`.
    """
    if not zipfile.is_zipfile(path):
        raise ValueError("not an .npz file (a zip archive of arrays)")
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {}
            for member in archive.infolist():
                name, is_array, _ = member.filename.rpartition(".npy")
                if not is_array:
                    continue
                if name in arrays:
                    raise ValueError(f"{name} is there twice")
                arrays[name] = _read_member(archive, member, name)
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, OverflowError) as error:
        raise ValueError(f"the .npz file is damaged: {error}") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place in the file that cannot be
            raise
        raise ValueError("the .npz file is damaged: it points outside itself") from None
    return _joined(arrays)


def _read_member(archive, member, name):
    """The array of one member."""
    try:
        with opened_member(archive, member, name) as (stream, *_):
            stream.seek(0)
            return np.lib.format.read_array(stream, allow_pickle=False)
    except ObjectArray:
        return unread()
    except (ValueError, TypeError, zipfile.BadZipFile, EOFError, zlib.error, OverflowError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from None


@contextmanager
def opened_member(archive: ZipFile, member: ZipInfo, name: str) -> Iterator[Any]:
    """(stream at the first entry, shape, whether columns come first, type) of the array that is a member."""
    if member.flag_bits & 1:
        raise ValueError(f"{name} is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is packed by a method that .npz files do not have")
    if member.file_size > _PACKING * member.compress_size + 64:
        raise ValueError(f"{name} is damaged: {member.compress_size} bytes cannot hold {member.file_size}")
    with archive.open(member) as stream:
        yield stream, *read_header(stream, member.file_size)


def read_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """(shape, whether columns come first, type) of the array in a stream of ``size`` bytes, which it fills."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format is not supported")
    shape, in_columns, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        raise ObjectArray("Object arrays cannot be loaded: they hold Python code")
    promised, there = dtype.itemsize * math.prod(shape), size - stream.tell()
    if min(shape, default=0) < 0 or promised != there:
        raise ValueError(f"an array of shape {shape} takes {promised} bytes, the file has {there}")
    return shape, in_columns, dtype


def _joined(arrays):
    """The arrays, with sparse matrices for their parts."""
    sparse = {name.rpartition(".")[0] for name in arrays if name.endswith((".indptr", ".indices"))}
    joined = {name: array for name, array in arrays.items() if name.rpartition(".")[0] not in sparse}
    for name in sorted(sparse):
        if name in joined:
            raise ValueError(f"{name} is there twice, as an array and as a sparse matrix")
        missing = [part for part in SPARSE_PARTS if f"{name}.{part}" not in arrays]
        if missing:
            raise ValueError(f"{name}.{missing[0]} is missing: a sparse matrix needs {', '.join(SPARSE_PARTS)}")
        written = str(np.ravel(arrays.get(f"{name}.format", "csc"))[:1])
        if "csc" not in written:
            raise ValueError(f"{name}.format is {written}: save {name}.tocsc()")
        joined[name] = _sparse(name, *(arrays[f"{name}.{part}"] for part in SPARSE_PARTS))
    return joined


def _sparse(name, data, indices, indptr, shape):
    """The sparse matrix of its parts, entries that are given twice added."""
    for part, array, kinds in (("data", data, "biuf"), ("indices", indices, "iu"), ("indptr", indptr, "iu"),
                               ("shape", shape, "iu")):  # fmt: skip
        if array.dtype.kind not in kinds or array.ndim != 1:
            what = "numbers" if part == "data" else "integers"
            raise ValueError(f"{name}.{part} must be a vector of {what}, got {array.dtype} of shape {array.shape}")
    if shape.size != 2 or shape.min() < 0 or shape.max() >= 2**31:
        raise ValueError(f"{name}.shape = {shape.tolist()} is not the shape of a matrix")
    m, n = shape.tolist()
    if indptr.size != n + 1 or indices.size != data.size:
        raise ValueError(
            f"{name} is not a sparse matrix: {n} columns need {n + 1} pointers, got {indptr.size}; "
            f"{data.size} entries need as many indices, got {indices.size}"
        )
    inside = (indices >= 0) & (indices < m)
    if not inside.all():
        k = int(np.argmin(inside))
        raise ValueError(f"{name} is not a sparse matrix: {name}.indices[{k}] = {indices[k]} is none of its {m} rows")
    if indptr[0] != 0 or indptr[-1] != data.size or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(f"{name} is not a sparse matrix: {name}.indptr does not rise from 0 to {data.size}")
    matrix = scipy.sparse.csc_matrix((data, indices.astype(np.int64), indptr.astype(np.int64)), shape=(m, n))
    matrix.sum_duplicates()
    return matrix


def split(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, with their parts for sparse matrices."""
    parts: dict[str, Any] = {}
    for name, array in arrays.items():
        if scipy.sparse.issparse(array):
            matrix = scipy.sparse.csc_matrix(array)
            parts |= {f"{name}.{part}": getattr(matrix, part) for part in SPARSE_PARTS}
        else:
            parts[name] = array
    return parts
