"""Coercion and validation of user data: the only place that turns what users pass into arrays.

Every function returns a float64, C-contiguous array that the caller may keep: a copy unless it says
otherwise. Errors name the argument and the offending entry.
"""

import decimal
import math
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, SupportsInt, TypeAlias, overload

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

#: An array as numpy reads it, of any type.
Raw = NDArray[Any]
#: An array of float64, of any shape.
Array: TypeAlias = NDArray[np.float64]
#: A matrix of float64, dense or sparse. SciPy has no types: a checker takes what is sparse as it comes.
Matrix: TypeAlias = NDArray[np.float64] | scipy.sparse.sparray
#: The same as a user may give it.
MatrixLike: TypeAlias = ArrayLike | scipy.sparse.sparray


class _Networkx(Protocol):
    """A graph of networkx."""

    def adjacency(self) -> Iterable[Any]: ...
    def number_of_nodes(self) -> int: ...


#: A graph by its adjacency matrix, or one of networkx.
Graph: TypeAlias = MatrixLike | _Networkx

#: More steps, items, workers or samples than this are a mistake: one array of that length takes 16 GB.
LARGEST_COUNT = 2**31 - 1


def as_numbers(data: object, name: str) -> Raw:
    """An array of real numbers as numpy reads it, of any type and shape; not a copy where numpy makes none.

    Masked, complex, structured and time-valued arrays and texts are refused rather than converted: numpy would ignore
    the mask, drop the imaginary part and count ticks.
    """
    if scipy.sparse.issparse(data):
        raise TypeError(f"{name} is a sparse matrix; pass a dense array, e.g. {name}.toarray()")
    if _is_masked(data):
        raise TypeError(f"{name} has masked entries: fill them, e.g. by {name}.filled(0.0), or leave them out")
    try:
        raw = np.asarray(data)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} cannot be read as an array of numbers: {error}") from None
    kind = raw.dtype.kind
    if kind == "c":
        raise TypeError(f"{name} is complex; real numbers are needed")
    if kind == "O":
        _require_number_objects(raw, name)
    elif kind not in "biuf":
        what = {"U": "text", "S": "text", "T": "text", "M": "dates", "m": "durations"}.get(kind, f"of type {raw.dtype}")
        raise TypeError(f"{name} cannot be read as an array of numbers: it is {what}")
    return raw


def _is_masked(data: object, depth: int = 3) -> bool:
    """Whether an array or nested list has masked entries."""
    if isinstance(data, np.ma.MaskedArray):
        return bool(np.ma.is_masked(data))
    return depth > 0 and isinstance(data, (list, tuple)) and any(_is_masked(item, depth - 1) for item in data)


def _is(value: object, kind: type) -> bool:
    """Whether a value is of a kind of `numbers`. To Python numpy's durations are integers."""
    return isinstance(value, kind) and not isinstance(value, np.timedelta64)


def _require_number_objects(raw: Raw, name: str) -> None:
    """Raise TypeError for the first entry of an array of objects that is not a real number."""
    for where, item in zip(np.ndindex(raw.shape), raw.flat, strict=True):
        is_number = _is(item, numbers.Real) or isinstance(item, (decimal.Decimal, np.bool_))
        if not is_number:
            raise TypeError(
                f"{name} cannot be read as an array of numbers: {entry(name, where)} is a {type(item).__name__}"
            )


def as_sparse(data, name: str, make=scipy.sparse.csr_array) -> "scipy.sparse.csr_array":
    """A sparse matrix of real, finite numbers in the format of ``make``, entries that are given twice added; a copy."""
    if data.ndim != 2:
        raise ValueError(f"{name} must be a matrix (2 axes), got shape {data.shape}")
    if data.dtype.kind not in "biuf":
        raise TypeError(f"{name} is a sparse matrix of type {data.dtype}; real numbers are needed")
    with np.errstate(over="ignore"):
        matrix = make(data, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        placed = matrix.tocoo()
        where = placed.row[bad[0]], placed.col[bad[0]]
        raise ValueError(f"{entry(name, where)} = {matrix.data[bad[0]]} is not finite")
    return matrix


#: Entries of a sparse matrix at most that is written out in full: 1 GB.
_FULL = 2**27


def dense(matrix: Matrix) -> NDArray[np.float64]:
    """A matrix that is an array already, or is written out in full."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


def as_full(matrix: MatrixLike, name: str) -> ArrayLike:
    """A matrix with all its entries; one that is sparse has them checked first, and is refused if it is too large."""
    if not scipy.sparse.issparse(matrix):
        return matrix
    m, n = np.shape(matrix)
    if m * n > _FULL:
        raise ValueError(
            f"{name} is a sparse {m} x {n} matrix, which is needed in full here: {8e-9 * m * n:.3g} GB; "
            "give it as an array if that is meant"
        )
    return as_sparse(matrix, name).toarray()


def as_number_or_vector(data: object, name: str, n: int, lower: float | None = None) -> NDArray[np.float64]:
    """Vector of shape (n,), of one number for all entries or of a number each."""
    raw = as_numbers(data, name)
    if raw.shape == ():
        data = np.full(n, as_real(raw if isinstance(data, np.ndarray) else data, name))
    return as_vector(data, name, n=n, lower=lower)


def as_array(data: object, name: str, ndim: int) -> NDArray[np.float64]:
    """Array of float64 with ``ndim`` axes and finite entries; a copy."""
    raw = as_numbers(data, name)
    try:
        with np.errstate(over="ignore"):  # a long double beyond the range becomes infinite, and is refused below
            array = np.array(raw, dtype=np.float64, order="C")
    except OverflowError:
        raise ValueError(f"{name} has an entry beyond the range of floats (1.8e308)") from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} cannot be read as an array of numbers: {error}") from None
    if array.ndim != ndim:
        if ndim == 1 and array.ndim == 0:
            raise ValueError(f"{name} = {array:g} is a single number: give n numbers, e.g. np.full(n, {array:g})")
        kind = {0: "a number", 1: "a vector", 2: "a matrix", 3: "a stack of matrices"}[ndim]
        raise ValueError(f"{name} must be {kind} ({ndim} axes), got shape {array.shape}")
    require_finite(array, name)
    return array


def as_view(data: object, name: str) -> NDArray[np.float64]:
    """Matrix of float64: the caller's own array where it is one, which is not to be changed; entries unchecked."""
    if isinstance(data, np.ndarray) and type(data) is np.ndarray and data.dtype == np.float64 and data.ndim == 2:
        return data
    return as_array(data, name, 2)


def require_finite(array: NDArray[np.float64], name: str) -> None:
    """Raise ValueError naming the first entry that is NaN or infinite."""
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{entry(name, where)} = {array[where]} is not finite")


def entry(name: str, where: Sequence[SupportsInt]) -> str:
    """How an entry is written: ``H[3, 7]``."""
    return f"{name}[{', '.join(str(int(i)) for i in where)}]" if where else name


def as_vector(data: object, name: str, n: int | None = None, lower: float | None = None) -> NDArray[np.float64]:
    """Vector of shape (n,), each entry at least ``lower``."""
    vector = as_array(data, name, 1)
    if n is not None and vector.size != n:
        raise ValueError(f"{name} has {vector.size} entries, expected {n}")
    if vector.size == 0:
        raise ValueError(f"{name} is empty: at least one variable is needed")
    if lower is not None:
        require_at_least(vector, lower, name)
    return vector


def require_at_least(array: NDArray[np.float64], lower: float, name: str, consequence: str = "") -> None:
    """Raise ValueError naming the smallest entry if it is below ``lower``."""
    if array.size and array.min() < lower:
        where = np.unravel_index(int(array.argmin()), array.shape)
        word = "negative" if lower == 0.0 else f"below {lower:g}"
        raise ValueError(f"{entry(name, where)} = {array[where]:g} is {word}{consequence}")


def as_labels(data: object, name: str, count: int | None = None) -> NDArray[np.int64]:
    """Vector of int64 with entries in [0, count)."""
    vector = as_vector(data, name)
    labels = np.where(np.abs(vector) <= LARGEST_COUNT, vector, -1.0).astype(np.int64)
    bad = (labels != vector) | (labels < 0)
    if count is not None:
        bad |= labels >= count
    if bad.any():
        i = int(bad.argmax())
        allowed = "a non-negative integer" if count is None else f"an integer from 0 to {count - 1}"
        raise ValueError(f"{name}[{i}] = {vector[i]:g} is not {allowed}")
    return labels


def as_items(data: object, n: int | None, name: str = "items") -> NDArray[np.int64]:
    """Items of 0 .. n - 1 as an int64 vector, empty if there are none; from any iterable of integers. n may be None."""
    is_text = isinstance(data, (str, bytes))
    items = list(data) if isinstance(data, Iterable) and not is_text and not scipy.sparse.issparse(data) else None
    if items is None or any(isinstance(item, (bool, np.bool_)) for item in items):
        raise TypeError(f"{name} must be an iterable of integers, got {described(data) if items is None else 'bools'}")
    return as_labels(items, name, n) if items else np.zeros(0, np.int64)


def as_square(data: object, name: str) -> NDArray[np.float64]:
    """Square matrix, at least 1 x 1."""
    matrix = as_array(data, name, 2)
    _require_square(matrix, name)
    return matrix


def _require_square(matrix: Matrix, name: str) -> None:
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be square, got shape {matrix.shape}")
    if matrix.shape[0] == 0:
        raise ValueError(f"{name} is empty: at least one variable is needed")


def as_symmetric(data: object, name: str, rtol: float = 1e-10) -> NDArray[np.float64]:
    """Symmetric matrix; an asymmetry within rounding is averaged away, a larger one refused."""
    matrix = as_square(data, name)
    skew, i, j = _largest_skew(matrix)
    if skew > 0.0:
        if skew > rtol * max(1e-300, np.abs(matrix).max()):
            raise _not_symmetric(matrix, name, i, j)
        matrix = 0.5 * (matrix + matrix.T)
    return matrix


def _not_symmetric(matrix: Matrix, name: str, i: int, j: int) -> ValueError:
    return ValueError(
        f"{name} is not symmetric: {name}[{i}, {j}] = {float(matrix[i, j])} but "
        f"{name}[{j}, {i}] = {float(matrix[j, i])}; "
        f"pass ({name} + {name}.T) / 2 if that is the function you mean"
    )


def as_symmetric_sparse(data, name: str, rtol: float = 1e-10) -> "scipy.sparse.csr_array":
    """Symmetric sparse matrix as a `scipy.sparse.csr_array` with sorted rows, duplicates summed and no stored zeros.

    Like `as_symmetric`, but nothing of the size of a dense matrix is made.
    """
    matrix = as_sparse(data, name)
    _require_square(matrix, name)
    matrix.eliminate_zeros()
    narrow = scipy.sparse.get_index_dtype(maxval=max(matrix.nnz, *matrix.shape))
    matrix.indices, matrix.indptr = matrix.indices.astype(narrow, copy=False), matrix.indptr.astype(narrow, copy=False)
    # A transposed matrix by rows is the matrix by columns: converting it sorts the rows as well.
    transposed = matrix.T.tocsr()
    same_places = np.array_equal(matrix.indptr, transposed.indptr) and np.array_equal(
        matrix.indices, transposed.indices
    )
    if same_places and np.array_equal(matrix.data, transposed.data):
        return matrix
    skew = abs(matrix - transposed).tocoo()
    if skew.nnz:
        worst = int(skew.data.argmax())
        if skew.data[worst] > rtol * max(1e-300, np.abs(matrix.data).max()):
            raise _not_symmetric(matrix, name, int(skew.row[worst]), int(skew.col[worst]))
    matrix = (0.5 * (matrix + transposed)).tocsr()
    matrix.sum_duplicates()
    return matrix


def _largest_skew(matrix: NDArray[np.float64], rows: int = 64) -> tuple[float, int, int]:
    """(|M_ij - M_ji|, i, j) where it is largest; by blocks of rows, since a whole transpose misses the cache."""
    worst = 0.0, 0, 0
    for start in range(0, len(matrix), rows):
        skew = np.abs(matrix[start : start + rows, start:] - matrix[start:, start : start + rows].T)
        i, j = np.unravel_index(int(skew.argmax()), skew.shape)
        if skew[i, j] > worst[0]:
            worst = (float(skew[i, j]), start + int(i), start + int(j))
    return worst


def as_real(value: Any, name: str, lower: float | None = None, strict: bool = False) -> float:
    """A finite float, at least (or, if strict, above) ``lower``."""
    if type(value) is not float:
        is_number = _is(value, numbers.Real) and not isinstance(value, bool)
        if isinstance(value, np.ndarray):
            is_number = value.ndim == 0 and value.dtype.kind in "iuf" and not _is_masked(value)
        if not is_number:
            raise TypeError(f"{name} must be a number, got {described(value)}")
        try:
            value = float(value)
        except OverflowError:
            raise ValueError(f"{name} is beyond the range of floats (1.8e308)") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} = {value} is not finite")
    if lower is not None and (value < lower or (strict and value == lower)):
        raise ValueError(f"{name} = {value:g} must be {'above' if strict else 'at least'} {lower:g}")
    return value


def described(value: object) -> str:
    """The type of a value, with the shape of an array."""
    shape = f" of shape {value.shape}" if isinstance(value, np.ndarray) else ""
    return f"{type(value).__name__}{shape}"


def as_count(value: Any, name: str, lower: int = 0, upper: float = LARGEST_COUNT) -> int:
    """An int in [lower, upper]."""
    if type(value) is not int and (isinstance(value, bool) or not _is(value, numbers.Integral)):
        raise TypeError(f"{name} must be an integer, got {described(value)}")
    value = int(value)
    if value < lower:
        raise ValueError(f"{name} = {value} must be at least {lower}")
    if value > upper:
        raise ValueError(f"{name} is above {upper}, the largest number that makes sense here")
    return value


def as_seed(value: object, name: str = "seed") -> int:
    """A seed of numpy's generators: an integer, at least 0, of any size."""
    return as_count(value, name, upper=math.inf)


def as_flag(value: object, name: str) -> bool:
    """A bool; 0 and 1 are not, since they are mostly an argument in the wrong place."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {described(value)}")
    return bool(value)


def as_known(value: object, name: str) -> bool | None:
    """What is known of something: True, False or None."""
    return None if value is None else as_flag(value, name)


@overload
def as_function(value: object, name: str, optional: Literal[False]) -> Callable[..., Any]: ...
@overload
def as_function(value: object, name: str) -> Callable[..., Any] | None: ...
def as_function(value: object, name: str, optional: bool = True) -> Callable[..., Any] | None:
    """Something that can be called, or None where it may be left out; an objective has another interface."""
    if hasattr(value, "value_and_gradient") or not (callable(value) or (optional and value is None)):
        raise TypeError(f"{name} must be a function{' or None' if optional else ''}, got {described(value)}")
    return value if callable(value) else None


def as_path(value: object, call: str) -> Path:
    """The path of a file, which ``call``, in words, has first."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"the path of the file comes first, {call}: it must be a text or Path, got {described(value)}")
    return Path(value)


def one_of(value: object, name: str, choices: Sequence[str]) -> str:
    """``value`` if it is among ``choices``, else a ValueError that lists them, or a TypeError if it is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, one of {', '.join(map(repr, choices))}; got {described(value)}")
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}; choose from {', '.join(map(repr, choices))}")
    return value


def as_adjacency(graph: Graph, name: str) -> NDArray[np.float64]:
    """Adjacency matrix, entries >= 0, zero diagonal, from an array, a scipy.sparse matrix or a networkx graph."""
    if hasattr(graph, "adjacency") and hasattr(graph, "number_of_nodes"):
        import networkx

        graph = networkx.to_numpy_array(graph)
    matrix = as_square(as_full(graph, name), name)
    require_at_least(matrix, 0.0, name)
    loops = np.flatnonzero(matrix.diagonal())
    if loops.size:
        i = loops[0]
        raise ValueError(f"{name}[{i}, {i}] = {matrix[i, i]:g}: a graph without loops is needed")
    return matrix


#: Entries that a message names.
_NAMED = 5


def first_few(items: Iterable[str]) -> str:
    """The first few of several texts."""
    items = list(items)
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more
