"""MPS files, and QPS and SIF files: linear and quadratic programs section by section.

Read are NAME, OBJSENSE, ROWS, COLUMNS, RHS, RANGES, BOUNDS and the quadratic term as QUADOBJ, QSECTION, QUADRATIC,
QUADS, HESSIAN (one triangle of H) or QMATRIX (all of H); other sections are refused by name. Fields are separated by
blanks; where that does not give a program, they are taken from the columns 2-3, 5-12, 15-22, 25-36, 40-47 and 50-61
of old files, whose names may have blanks, and nothing may stand elsewhere. A word that begins with ``$`` where a row or
column is expected, and names none, begins a comment. The right-hand side of the objective is minus its constant.
"""

from pathlib import Path
from typing import TextIO

import numpy as np

from drsub_fast.problems.lines import (
    Entries,
    at_line,
    filled,
    limit,
    number,
    numbered_lines,
    once,
    require_no_more,
)
from drsub_fast.problems.program import Program

_TRIANGLES = ("QUADOBJ", "QSECTION", "QUADRATIC", "QUADS", "HESSIAN")
_SECTIONS = ("NAME", "OBJSENSE", "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS", "QMATRIX", "ENDATA", *_TRIANGLES)
_SENSES = {"MAX": False, "MAXIMIZE": False, "MAXIMISE": False, "MIN": True, "MINIMIZE": True, "MINIMISE": True}
_FIXED_FIELDS = ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61))
_NO_VALUE = ("FR", "MI", "PL", "BV")
_INTEGER = ("BV", "LI", "UI", "SC")


def read_mps(path: str | Path) -> Program:
    """Reads an MPS, QPS or SIF file as a `Program`; ValueError naming the line if that is impossible."""
    try:
        return _Reader().program(numbered_lines(path), str.split)
    except ValueError as error:
        try:
            return _Reader().program(numbered_lines(path), _fixed_fields)
        except ValueError:
            raise error from None


def _fixed_fields(text):
    """The fields of a line by their columns, without those that are blank; nothing may stand between them."""
    comment = min(
        (first for first, _ in (_FIXED_FIELDS[2], _FIXED_FIELDS[4]) if text[first : first + 1] == "$"), default=None
    )
    text = text[:comment]
    between = [*text]
    for first, end in _FIXED_FIELDS:
        between[first:end] = " " * len(between[first:end])
    if (rest := "".join(between).strip()) or "\t" in text:
        raise ValueError(f"{rest or 'a tab'!r} stands between the columns of the fields")
    fields = [text[first:end].strip() for first, end in _FIXED_FIELDS]
    return [field for field in fields if field]


class _Reader:
    """What has been read of a file."""

    def __init__(self):
        self.minimize = True
        self.objective = None
        self.rows, self.columns = {}, {}  # number by name; None for rows that are not kept
        self.types = []
        self.cost, self.entries = {}, Entries()
        self.sides, self.ranges = {}, {}
        self.lower, self.upper = {}, {}
        self.triangle, self.matrix = Entries(), Entries()
        self.integer = []
        self.inside_integers = False
        self.vectors = {}
        self.column = None
        self.seen = set()

    def program(self, lines, fields):
        """The program that the lines hold."""
        section = None
        lines = ((i, text) for i, text in lines if not text.startswith("*"))
        for i, text in lines:
            if not text.strip():
                continue
            with at_line(i):
                if not text[0].isspace():
                    section = self._header(text.split())
                    if section == "ENDATA":
                        break
                elif section is None:
                    raise ValueError("data before the first section")
                else:
                    self._data(section, self._without_comment(fields(text), section))
        if section != "ENDATA":
            raise ValueError("the file ends before ENDATA")
        require_no_more(lines, "ENDATA")
        return self._finished()

    def _without_comment(self, words, section):
        """The words before one that begins with "$" and is none of the names of the file."""
        first = 2 if section == "ROWS" else 1
        for k in range(first, len(words)):
            name = words[k]
            if name[0] == "$" and name not in self.rows and name not in self.columns and name != self.objective:
                return words[:k]
        return words

    def _header(self, words):
        name = words[0].upper()
        if name not in _SECTIONS:
            raise ValueError(f"the section {words[0]!r} is not supported; there are {', '.join(_SECTIONS)}")
        if name in self.seen:
            raise ValueError(f"the section {name} comes twice")
        self.seen.add(name)
        rest = words[1:]
        if name == "OBJSENSE" and rest:
            self._data(name, rest)
        elif rest and name in (*_TRIANGLES, "QMATRIX"):
            if rest != [self.objective]:
                raise ValueError(f"{' '.join(words)}: quadratic constraints are not supported")
        elif rest and name != "NAME" and not rest[0].startswith("$"):
            raise ValueError(f"{' '.join(rest)!r} stands behind the section {name}: lines of data begin with a blank")
        return name

    def _data(self, section, words):
        if not words:
            raise ValueError("no fields where the format has them")
        if section in _TRIANGLES:
            self._quadratic(words, self.triangle)
        elif section == "QMATRIX":
            self._quadratic(words, self.matrix)
        else:
            getattr(self, f"_{section.lower()}")(words)

    def _name(self, words):
        raise ValueError("data after NAME, before a section")

    def _objsense(self, words):
        if len(words) != 1 or words[0].upper() not in _SENSES:
            raise ValueError(f"the sense is {' '.join(words)!r}, not MAX or MIN")
        if "a sense" in self.seen:
            raise ValueError("the sense is given twice")
        self.seen.add("a sense")
        self.minimize = _SENSES[words[0].upper()]

    def _rows(self, words):
        if len(words) != 2:
            raise ValueError("a row needs a type and a name")
        kind, name = words[0].upper(), words[1]
        if kind not in ("N", "L", "G", "E"):
            raise ValueError(f"the type {words[0]!r} of row {name!r} is not N, L, G or E")
        if name in self.rows or name == self.objective:
            raise ValueError(f"the row {name!r} comes twice")
        if kind != "N":
            self.rows[name] = len(self.types)
            self.types.append(kind)
        elif self.objective is None:
            self.objective = name
        else:
            self.rows[name] = None

    def _columns(self, words):
        if len(words) == 3 and words[1].strip("'").upper() == "MARKER":
            kind = words[2].strip("'").upper()
            if kind not in ("INTORG", "INTEND"):
                raise ValueError(f"the marker {words[2]!r} is not supported")
            self.inside_integers = kind == "INTORG"
            return
        if len(words) not in (3, 5):
            raise ValueError("a column needs its name and one or two pairs of a row and a number")
        name = words[0]
        if name != self.column:
            if name in self.columns:
                raise ValueError(f"the column {name!r} comes twice, with others between")
            self.columns[name] = len(self.columns)
            self.column = name
            if self.inside_integers:
                self.integer.append(name)
        for row, word in zip(words[1::2], words[2::2], strict=True):
            value = number(word, f"the entry of {name!r} in row {row!r}")
            if row == self.objective:
                once(self.cost, self.columns[name], value, f"the cost of {name!r}")
            elif self._row(row) is not None:
                self.entries.add(self.rows[row], self.columns[name], value)

    def _row(self, name):
        if name not in self.rows:
            raise ValueError(f"there is no row {name!r}")
        return self.rows[name]

    def _column(self, name):
        if name not in self.columns:
            raise ValueError(
                f"there is no column {name!r}: list it in COLUMNS, where the variables have their order, if need be "
                "with a cost of 0"
            )
        return self.columns[name]

    def _pairs(self, section, words):
        """(row, word) of a line whose first field, the name of the vector, may be left out."""
        if len(words) not in (2, 3, 4, 5):
            raise ValueError(f"a line of {section} needs one or two pairs of a row and a number")
        self._one_vector(section, words[0] if len(words) % 2 else "")
        words = words[len(words) % 2 :]
        return zip(words[::2], words[1::2], strict=True)

    def _one_vector(self, section, name):
        if self.vectors.setdefault(section, name) != name:
            raise ValueError(f"a second vector {name!r} in {section}, after {self.vectors[section]!r}")

    def _rhs(self, words):
        for row, word in self._pairs("RHS", words):
            what = f"the right-hand side of row {row!r}"
            if row == self.objective:
                once(self.sides, row, number(word, what), what)
            elif self._row(row) is not None:
                once(self.sides, row, limit(word, what), what)

    def _ranges(self, words):
        for row, word in self._pairs("RANGES", words):
            what = f"the range of row {row!r}"
            value = number(word, what)
            if row == self.objective or self._row(row) is None:
                raise ValueError(f"row {row!r} has no sides, so no range")
            once(self.ranges, row, value, what)

    def _bounds(self, words):
        kind = words[0].upper()
        if kind not in ("UP", "LO", "FX", *_NO_VALUE, *_INTEGER):
            raise ValueError(f"the type {words[0]!r} of a bound is not supported")
        rest = words[1:]
        has_value = kind not in _NO_VALUE
        if len(rest) not in ((2, 3) if has_value else (1, 2, 3)):
            raise ValueError(f"a bound {kind} needs {'a column and a number' if has_value else 'a column'}")
        named = len(rest) == 3
        if len(rest) == 2 and not has_value:  # a vector and a column, or a column and a number that says nothing
            named = rest[1] in self.columns or rest[0] not in self.columns
        self._one_vector("BOUNDS", rest[0] if named else "")
        name = rest[1 if named else 0]
        j = self._column(name)
        if kind in _INTEGER:
            self.integer.append(name)
            return
        value = limit(rest[-1], f"the bound of {name!r}") if has_value else np.inf
        if kind in ("LO", "FX", "MI", "FR"):
            once(self.lower, j, value if has_value else -np.inf, f"the lower bound of {name!r}")
        if kind in ("UP", "FX", "PL", "FR"):
            once(self.upper, j, value, f"the upper bound of {name!r}")

    def _quadratic(self, words, entries):
        if len(words) not in (3, 5):
            raise ValueError("an entry of H needs two columns and a number")
        i = self._column(words[0])
        for name, word in zip(words[1::2], words[2::2], strict=True):
            entries.add(i, self._column(name), number(word, f"the entry ({words[0]!r}, {name!r}) of H"))

    def _finished(self):
        if self.objective is None or not self.columns:
            raise ValueError(f"there are no {'columns' if self.objective else 'objective (a row of type N)'}")
        if self.integer:
            raise ValueError(f"integer variables are not supported: {self.integer[0]!r} is one of {len(self.integer)}")
        n, m = len(self.columns), len(self.types)
        lower, upper, h = filled(n, 0.0, self.lower), filled(n, np.inf, self.upper), filled(n, 0.0, self.cost)
        names = tuple(self.columns)
        negative = [j for j in self.upper if upper[j] < 0.0 and j not in self.lower]
        if negative:
            raise ValueError(
                f"{names[negative[0]]!r} has an upper bound below 0 and no lower bound, which readers understand in "
                "two ways: give LO or MI"
            )
        kept = (name for name, row in self.rows.items() if row is not None)
        sides = [self._sides(name, kind) for name, kind in zip(kept, self.types, strict=True)]
        row_lower, row_upper = np.array(sides).reshape(m, 2).T.copy()
        H = self.triangle.symmetric(n, "H") if len(self.triangle.values) else self.matrix.matrix((n, n), "H")
        if len(self.triangle.values) and len(self.matrix.values):
            raise ValueError("H is given twice, as a triangle and as a matrix")
        skew = abs(H - H.T)
        if skew.nnz and skew.max() > 0.0:
            i, j = divmod(int(skew.argmax()), n)
            raise ValueError(f"QMATRIX is not symmetric: its entries ({names[i]!r}, {names[j]!r}) and back differ")
        A = self.entries.matrix((m, n), "A")
        return Program(
            H, h, 0.0 - self.sides.get(self.objective, 0.0), A, row_lower, row_upper, lower, upper, self.minimize, names
        )

    def _sides(self, name, kind):
        """(lower, upper) of a row."""
        side, width = self.sides.get(name, 0.0), self.ranges.get(name)
        if kind == "E" and not np.isfinite(side):
            raise ValueError(f"the right-hand side of the equation {name!r} is infinite")
        if width is None:
            return {"L": (-np.inf, side), "G": (side, np.inf), "E": (side, side)}[kind]
        if kind == "E":
            return (side, side + width) if width >= 0.0 else (side + width, side)
        return (side - abs(width), side) if kind == "L" else (side, side + abs(width))


def write_mps(stream: TextIO, program: Program) -> None:
    """Writes a `Program` in free MPS format, as a MPS reader with blanks between fields takes it."""
    names, A = program.names, program.A.tocsc()
    A.sort_indices()
    for name in names:
        if not name or len(name.split()) != 1 or name.startswith(("*", "$")) or not name.isprintable():
            raise ValueError(f"the name {name!r} cannot be written in MPS format")
    stream.write("NAME program\n")
    stream.write(f"OBJSENSE\n    {'MIN' if program.minimize else 'MAX'}\nROWS\n N objective\n")
    equal = program.row_lower == program.row_upper
    for i, is_equal in enumerate(equal):
        stream.write(f" {'E' if is_equal else 'L'} r{i}\n")
    stream.write("COLUMNS\n")
    for j, name in enumerate(names):
        stream.write(f"    {name} objective {float(program.h[j])!r}\n")
        for k in range(A.indptr[j], A.indptr[j + 1]):
            stream.write(f"    {name} r{A.indices[k]} {float(A.data[k])!r}\n")
    stream.write("RHS\n")
    if program.c:
        stream.write(f"    RHS objective {-program.c!r}\n")
    for i, side in enumerate(program.row_upper):
        stream.write(f"    RHS r{i} {float(side)!r}\n")
    stream.write("BOUNDS\n")
    for name, low, high in zip(names, program.lower, program.upper, strict=True):
        if low == high:
            stream.write(f" FX BND {name} {float(low)!r}\n")
        else:
            stream.write(f" LO BND {name} {float(low)!r}\n UP BND {name} {float(high)!r}\n")
    triangle = program.H.tocoo()
    if triangle.nnz:
        stream.write("QUADOBJ\n")
        for i, j, value in zip(triangle.row, triangle.col, triangle.data, strict=True):
            if i >= j and value:
                stream.write(f"    {names[i]} {names[j]} {float(value)!r}\n")
    stream.write("ENDATA\n")
