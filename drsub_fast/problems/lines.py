"""Text files line by line, with numbers read strictly: what the readers of MPS, LP and QPLIB files share."""

import contextlib
import gzip
import re
import zlib
from array import array
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

#: From here on a bound or side is none, as in CPLEX, HiGHS and the QPLIB.
INFINITY = 1e20

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?", re.ASCII)
_INFINITIES = {"inf": np.inf, "infinity": np.inf}


def numbered_lines(path: str | Path) -> Generator[tuple[int, str], None, None]:
    """Yields (number, text) of the lines of a text file, counted from 1; ``.gz`` files are unpacked.

    The text is UTF-8, or where the file as a whole is not, Latin-1.

    Raises
    ------
    ValueError
        For what is not text, or not a gzip file where the name says so.
    """
    number, encoding = 0, None
    try:
        with _opened(path) as stream:
            for number, raw in enumerate(stream, 1):
                if b"\0" in raw:
                    raise ValueError(f"line {number} is not text: it holds a zero byte")
                if encoding is None and not raw.isascii():
                    encoding = _encoding(path)
                yield number, raw.decode(encoding or "ascii").removeprefix("\ufeff" if number == 1 else "").rstrip()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"the gzip file is damaged after line {number}: {error}") from None


def file_bytes(path: str | Path) -> bytes:
    """The content of a file; ``.gz`` files are unpacked."""
    with _opened(path) as stream:
        return stream.read()


def _opened(path):
    return (gzip.open if Path(path).suffix.lower() == ".gz" else open)(path, "rb")


def _encoding(path):
    """UTF-8 if that is what all lines of a file are, else Latin-1."""
    with _opened(path) as stream:
        try:
            for raw in stream:
                raw.decode("utf-8")
        except UnicodeDecodeError:
            return "latin-1"
    return "utf-8"


def require_no_more(lines: Iterable[tuple[int, str]], end: str) -> None:
    """Raise ValueError for a line (number, text) with text after the end of a file's program."""
    for number, text in lines:
        if text.strip():
            raise ValueError(f"line {number}: text after {end}: {text.strip()[:20]!r}")


@contextlib.contextmanager
def at_line(number: int) -> Generator[None, None, None]:
    """Errors inside begin with the number of the line; the innermost one counts."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith("line "):
            raise
        raise ValueError(f"line {number}: {error}") from None


def number(word: str, what: str) -> float:
    """The finite number that a word stands for."""
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"{what}: {word!r} is not a number")
    value = float(word.lower().replace("d", "e"))
    if not np.isfinite(value):
        raise ValueError(f"{what}: {word} is beyond the range of floats (1.8e308)")
    if value == 0.0 and re.search("[1-9]", re.split("[eEdD]", word)[0]):
        raise ValueError(f"{what}: {word} is below the range of floats (4.9e-324)")
    return value


def limit(word: str, what: str) -> float:
    """A bound or a side: a number, or infinite from `INFINITY` on or by name."""
    value = _INFINITIES.get(word.lstrip("+-").lower())
    if value is not None and len(word) - len(word.lstrip("+-")) <= 1:
        return -value if word[0] == "-" else value
    value = number(word, what)
    return value if abs(value) < INFINITY else np.copysign(np.inf, value)


def count(word: str, what: str) -> int:
    """A number of things, at least 0."""
    if not re.fullmatch(r"\d{1,18}", word, re.ASCII):
        raise ValueError(f"{what}: {word!r} is not a whole number")
    return int(word)


def once(table: dict[Any, Any], key: object, value: object, what: str) -> None:
    """An entry of a table that may be given once."""
    if key in table:
        raise ValueError(f"{what} is given twice")
    table[key] = value


def filled(size: int, default: float, table: dict[int, float]) -> NDArray[np.float64]:
    """The vector of a default and the entries that differ, by their index."""
    vector = np.full(size, default)
    vector[list(table)] = list(table.values())
    return vector


class Entries:
    """Entries of a sparse matrix as they are read, each place once."""

    def __init__(self) -> None:
        self.rows, self.columns, self.values = array("q"), array("q"), array("d")

    def add(self, row: int, column: int, value: float) -> None:
        """One more entry."""
        self.rows.append(row)
        self.columns.append(column)
        self.values.append(value)

    def matrix(self, shape: tuple[int, int], name: str) -> csr_array:
        """The matrix in CSR format, shape (m, n); ValueError if a place was given twice."""
        rows, columns = np.frombuffer(self.rows, np.int64), np.frombuffer(self.columns, np.int64)
        matrix = scipy.sparse.csr_array((np.frombuffer(self.values), (rows, columns)), shape=shape)
        if matrix.nnz < len(self.values):  # the conversion sums duplicates
            order = np.lexsort((columns, rows))
            twice = np.flatnonzero((np.diff(rows[order]) == 0) & (np.diff(columns[order]) == 0))[0]
            raise ValueError(f"{name}[{rows[order[twice]]}, {columns[order[twice]]}] is given twice")
        matrix.eliminate_zeros()
        return matrix

    def symmetric(self, n: int, name: str) -> csr_array:
        """The symmetric matrix of which one triangle was given, shape (n, n)."""
        given = self.matrix((n, n), name)
        mirrored = scipy.sparse.csr_array(given.T)
        both = given.astype(bool).multiply(mirrored.astype(bool)).tocoo()
        off = both.row != both.col
        if off.any():
            i, j = both.row[off][0], both.col[off][0]
            raise ValueError(f"{name}[{i}, {j}] and {name}[{j}, {i}] are both given: one triangle is needed")
        return scipy.sparse.csr_array(given + mirrored - scipy.sparse.diags_array(given.diagonal()))
