"""QPLIB files (Furini et al., QPLIB: a library of quadratic programming instances, Math. Prog. Comp. 11, 2019).

A file lists its sections in a fixed order, numbers counted from 1; what follows the numbers of a line, blank lines and
lines that begin with !, % or # are comments. Which sections there are follows from three letters: the objective (L, D,
C, Q), the variables (C continuous; B, M, I, G with integers) and the constraints (N none, B bounds, L linear; D, C, Q
quadratic).
"""

from pathlib import Path
from typing import TextIO

import numpy as np

from drsub_fast.problems.lines import Entries, at_line, count, filled, limit, number, numbered_lines, once
from drsub_fast.problems.program import Program, default_names

_SENSES = {"minimize": True, "min": True, "maximize": False, "max": False}
#: A file may have so many rows or columns that no line speaks of, or one for each of its bytes (gzip packs up to 1032
#: into one); more are taken for damage before memory is asked for them.
_MOST_UNNAMED = 1_000_000
_PACKING = 1032


class _Lines:
    """The lines of a file, comments left out."""

    def __init__(self, path):
        self.lines = ((i, words) for i, text in numbered_lines(path) if (words := _words(text)))
        self.number, self.pushed = 0, None
        packing = _PACKING if Path(path).suffix.lower() == ".gz" else 1
        self.most = max(_MOST_UNNAMED, packing * Path(path).stat().st_size)

    def at_end(self):
        """Whether no line is left."""
        if self.pushed is None:
            self.pushed = next(self.lines, None)
        return self.pushed is None

    def next(self, what):
        """The words of the next line."""
        if self.at_end() or self.pushed is None:
            raise ValueError(f"the file ends before {what}")
        (self.number, words), self.pushed = self.pushed, None
        return words

    def one(self, what, read=number):
        """The number at the beginning of the next line."""
        return read(self.next(what)[0], what)

    def size(self, what):
        """A number of rows or columns."""
        size = self.one(what, count)
        if size > self.most:
            raise ValueError(f"{what} is {size}, more than a file of this length can hold")
        return size

    def entries(self, what, sizes, read=number):
        """Yields (indices from 0, value) of the entries of a list, whose length comes first."""
        for _ in range(self.one(f"the number of {what}", count)):
            words = self.next(what)
            if len(words) <= len(sizes):
                raise ValueError(f"an entry of {what} needs {len(sizes)} indices and a number")
            indices = []
            for word, size in zip(words, sizes, strict=False):
                index = count(word, f"an index of {what}")
                if not 1 <= index <= size:
                    raise ValueError(f"an index of {what} is {index}, not one of 1 .. {size}")
                indices.append(index - 1)
            yield indices, read(words[len(sizes)], f"an entry of {what}")

    def table(self, what, n, read):
        """The entries of a list by their index, each once."""
        given: dict[int, float] = {}
        for (j,), value in self.entries(what, (n,), read):
            once(given, j, value, f"entry {j + 1} of {what}")
        return given

    def vector(self, what, n, read=number):
        """A default and the entries that differ."""
        return filled(n, self.one(f"the default of {what}", read), self.table(what, n, read))

    def matrix(self, what, shape):
        """A list of the entries of a sparse matrix."""
        entries = Entries()
        for (i, j), value in self.entries(what, shape):
            entries.add(i, j, value)
        return entries


def _words(text):
    return [] if text.lstrip()[:1] in ("!", "%", "#") else text.split()


def _infinity(word, what):
    value = limit(word, what)
    if not value > 0.0:
        raise ValueError(f"{what} is {word}, which is not above 0")
    return value


def read_qplib(path: str | Path) -> Program:
    """Reads a QPLIB file with continuous variables and linear constraints as a `Program`."""
    lines = _Lines(path)
    try:
        return _program(lines)
    except ValueError:
        with at_line(lines.number):
            raise


def _program(lines):
    lines.next("the name")
    kind = lines.next("the type")[0].upper()
    if len(kind) != 3 or kind[0] not in "LDCQ" or kind[1] != "C" or kind[2] not in "NBL":
        raise ValueError(f"type {kind} is not supported: continuous variables and linear constraints are needed")
    sense = lines.next("the sense")[0].lower()
    if sense not in _SENSES:
        raise ValueError(f"the sense is {sense!r}, not minimize or maximize")
    n = lines.size("the number of variables")
    if n == 0:
        raise ValueError("the number of variables is 0")
    m = lines.size("the number of constraints") if kind[2] == "L" else 0
    H = (lines.matrix("entries of H", (n, n)) if kind[0] != "L" else Entries()).symmetric(n, "H")
    h = lines.vector("the linear term", n)
    c = lines.one("the constant")
    A = (lines.matrix("entries of A", (m, n)) if kind[2] == "L" else Entries()).matrix((m, n), "A")
    infinity = lines.one("the value of infinity", _infinity)

    def read(word, what):
        value = limit(word, what)
        return value if abs(value) < infinity else np.copysign(np.inf, value)

    row_lower, row_upper = (
        lines.vector(f"{side} sides of the rows", m, read) if kind[2] == "L" else np.zeros(0)
        for side in ("lower", "upper")
    )
    lower, upper = (lines.vector(f"{side} bounds", n, read) for side in ("lower", "upper"))
    names = _names_and_starts(lines, n, m, kind[2] == "L")
    if not lines.at_end():
        raise ValueError(f"text after the end of the program: {' '.join(lines.next('the end'))[:20]!r}")
    return Program(H, h, c, A, row_lower, row_upper, lower, upper, _SENSES[sense], names)


def _names_and_starts(lines, n, m, has_rows):
    """The names of the variables, after the starting points; older files end before them or in between."""
    for what, size in (("starting x", n), *([("starting y", m)] if has_rows else []), ("starting z", n)):
        if not lines.at_end():
            lines.vector(what, size, limit)
    names = default_names(n) if lines.at_end() else _names(lines, "names of variables", n)
    if not lines.at_end():
        _names(lines, "names of constraints", m)
    return names


def _names(lines, what, size):
    """The names of the variables: the given ones, or x with the number from 0."""
    given = lines.table(what, size, lambda word, what: word)
    names = [given.get(j, name) for j, name in enumerate(default_names(size))]
    if len(set(names)) < size:
        raise ValueError(f"{what} are not distinct")
    return tuple(names)


def write_qplib(stream: TextIO, program: Program) -> None:
    """Writes a `Program` as a QPLIB file."""
    n, m = len(program.names), len(program.row_upper)
    for name in program.names:
        if len(name.split()) != 1 or not name.isprintable():
            raise ValueError(f"the name {name!r} cannot be written in QPLIB format")
    kind = ("Q" if program.H.nnz else "L") + "C" + ("L" if m else "B")
    stream.write(f"program\n{kind}\n{'minimize' if program.minimize else 'maximize'}\n{n} # variables\n")
    if m:
        stream.write(f"{m} # constraints\n")
    if program.H.nnz:
        H = program.H.tocoo()
        kept = (H.row >= H.col) & (H.data != 0.0)
        _write_entries(stream, "entries of H", H.row[kept], H.col[kept], H.data[kept])
    _write_vector(stream, "the linear term", program.h)
    stream.write(f"{program.c!r} # constant\n")
    if m:
        A = program.A.tocoo()
        _write_entries(stream, "entries of A", A.row, A.col, A.data)
    stream.write("1e+300 # infinity\n")
    for what, vector in (("row_lower", program.row_lower), ("row_upper", program.row_upper)):
        if m:
            _write_vector(stream, what, np.clip(vector, -1e300, 1e300))
    _write_vector(stream, "lower bounds", program.lower)
    _write_vector(stream, "upper bounds", program.upper)
    for what in ("x", "y", "z") if m else ("x", "z"):
        stream.write(f"0.0 # default of starting {what}\n0\n")
    stream.write(f"{n} # names of variables\n")
    for j, name in enumerate(program.names, 1):
        stream.write(f"{j} {name}\n")
    stream.write("0 # names of constraints\n")


def _write_entries(stream, what, rows, columns, values):
    stream.write(f"{len(values)} # {what}\n")
    for i, j, value in zip(rows, columns, values, strict=True):
        stream.write(f"{i + 1} {j + 1} {float(value)!r}\n")


def _write_vector(stream, what, vector):
    given = np.flatnonzero(vector)
    stream.write(f"0.0 # default of {what}\n{given.size}\n")
    for j in given:
        stream.write(f"{j + 1} {float(vector[j])!r}\n")
