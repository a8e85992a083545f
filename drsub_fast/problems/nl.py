"""AMPL's .nl files, text and binary (Gay, Writing .nl files, 2005): linear rows, a quadratic or linear objective.

A header of ten lines counts everything; segments follow, each begun by a letter. Expressions stand in prefix order, and
are multiplied out here: what is left of them is a polynomial of degree 2 at most, or the file is refused by name.
"""

import math
import struct
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast.problems.lines import Entries, file_bytes, number
from drsub_fast.problems.program import Program, default_names

#: Operators that polynomials are made by, and of some others the names, for messages, with the function of numbers.
_PLUS, _MINUS, _TIMES, _DIVIDED, _POWER, _NEGATIVE, _SUM = 0, 1, 2, 3, 5, 16, 54
_POWER_OF_VARIABLE, _SQUARE, _POWER_OF_NUMBER = 75, 76, 77
_FUNCTIONS: dict[int, tuple[str, Any]] = {
    13: ("floor", math.floor), 14: ("ceil", math.ceil), 15: ("abs", abs), 37: ("tanh", math.tanh),
    38: ("tan", math.tan),
    39: ("sqrt", math.sqrt), 40: ("sinh", math.sinh), 41: ("sin", math.sin), 42: ("log10", math.log10),
    43: ("log", math.log), 44: ("exp", math.exp), 45: ("cosh", math.cosh), 46: ("cos", math.cos),
    47: ("atanh", math.atanh), 49: ("atan", math.atan), 50: ("asinh", math.asinh), 51: ("asin", math.asin),
    52: ("acosh", math.acosh), 53: ("acos", math.acos),
}  # fmt: skip
#: Suffixes that say more than the rest of the file does.
_SPECIAL_SUFFIXES = ("sosno", "ref", "sos")


class Header(NamedTuple):
    """What the ten lines at the beginning of a file say; ``options`` are to be given back in the .sol file."""

    binary: bool
    options: tuple[str, ...]
    n_variables: int
    n_rows: int
    n_objectives: int
    n_integers: int
    n_entries: int
    n_gradients: int
    big_endian: bool


class NlFile(NamedTuple):
    """An .nl file's header, and where the segments begin."""

    header: Header
    data: bytes
    place: int
    line: int


def open_nl(path: str | Path) -> NlFile:
    """Reads the header of a file; ValueError naming the line if it is none."""
    data = file_bytes(path)
    lines, place = [], 0
    for i in range(1, 11):
        end = data.find(b"\n", place)
        if end < 0:
            raise ValueError(f"line {i}: an .nl file begins with ten lines of counts, and here is its end")
        words = data[place:end].decode("latin-1").partition("#")[0].split()
        if i == 1 and not (words and words[0][0] in "gb" and all(map(str.isdigit, [words[0][1:] or "x", *words[1:4]]))):
            raise ValueError("line 1: not an .nl file, which begins with g or b and a number")
        if i > 1 and not all(word.lstrip("-").isdigit() for word in words):
            raise ValueError(f"line {i}: counts are expected in the header of an .nl file")
        lines.append(words)
        place = end + 1
    counts = [[int(word) for word in words] + [0] * 9 for words in lines[1:]]
    if counts[0][0] < 1:
        raise ValueError("line 2: the file has no variables")
    if any(counts[2][:2]):
        raise ValueError("line 4: network constraints are not supported")
    options = (lines[0][0][1:], *lines[0][1:])
    is_binary, (n, m, n_objectives), n_integers = lines[0][0][0] == "b", counts[0][:3], sum(counts[5][:5])
    header = Header(is_binary, options, n, m, n_objectives, n_integers, counts[6][0], counts[6][1], counts[4][2] == 2)
    return NlFile(header, data, place, 11)


class _Text:
    """The segments of a text file."""

    def __init__(self, file):
        self.lines = enumerate(file.data[file.place :].split(b"\n"), file.line)
        self.words, self.at = [], f"line {file.line}"

    def _next(self):
        for i, line in self.lines:
            self.at = f"line {i}"
            self.words = line.decode("latin-1").partition("#")[0].split()
            if self.words:
                return True
        return False

    def _line(self, size):
        if not self._next():
            raise ValueError("the file ends too early")
        if len(self.words) != size:
            raise ValueError(f"{size} words are expected, not {' '.join(self.words)!r}")
        return self.words

    def segment(self):
        """The letter of the next segment; none at the end."""
        if not self._next():
            return ""
        letter, rest = self.words[0][0], self.words[0][1:]
        self.words[:1] = [rest] if rest else []
        return letter

    def whole(self, word=None):
        """A whole number, by default the next one of the segment's line."""
        if word is None:
            word = self.words.pop(0) if self.words else ""
        if not word.lstrip("-").isdigit():
            raise ValueError(f"a whole number is expected, not {word!r}")
        return int(word)

    def count(self):
        """A whole number on a line of its own."""
        return self.whole(self._line(1)[0])

    def entry(self):
        """An index and a number."""
        index, value = self._line(2)
        return self.whole(index), number(value, "a coefficient")

    def node(self):
        """Letter and value of a part of an expression."""
        (word,) = self._line(1)
        letter, rest = word[0], word[1:]
        return letter, number(rest, "a constant") if letter in "nsl" else self.whole(rest) if letter in "ov" else 0

    def limits(self):
        """Kind of a bound, and a function that reads its next number."""
        self._next()
        words = iter(self.words[1:])
        return (self.words or [""])[0], lambda: number(next(words, ""), "a bound")

    def text(self):
        """The next word of the segment's line."""
        return self.words.pop(0) if self.words else ""


class _Binary:
    """The segments of a binary file."""

    def __init__(self, file):
        self.data, self.place = file.data, file.place
        self.order = ">" if file.header.big_endian else "<"

    @property
    def at(self):
        """Where the reader is, for messages."""
        return f"byte {self.place}"

    def _take(self, kind):
        size = struct.calcsize("=" + kind)
        if self.place + size > len(self.data):
            raise ValueError("the file ends too early")
        (value,) = struct.unpack_from(self.order + kind, self.data, self.place)
        self.place += size
        return value

    def _letter(self):
        return self._take("c").decode("latin-1")

    def segment(self):
        """The letter of the next segment; none at the end."""
        return self._letter() if self.place < len(self.data) else ""

    def whole(self):
        """A whole number."""
        return self._take("i")

    count = whole

    def real(self):
        """A finite number."""
        value = self._take("d")
        if math.isnan(value):
            raise ValueError("NaN is no number of an .nl file")
        return value

    def entry(self):
        """An index and a number."""
        return self.whole(), self.real()

    def node(self):
        """Letter and value of a part of an expression."""
        letter = self._letter()
        kinds = {"n": "d", "s": "h", "l": "i", "o": "i", "v": "i"}
        return letter, self._take(kinds[letter]) if letter in kinds else 0

    def limits(self):
        """Kind of a bound, and a function that reads its next number."""
        return self._letter(), self.real

    def text(self):
        """A text after its length."""
        size = self.whole()
        if not 0 <= size <= len(self.data) - self.place:
            raise ValueError("a text is longer than the file")
        self.place += size
        return self.data[self.place - size : self.place].decode("latin-1")


class _Polynomial:
    """constant + sum of linear[j] x_j + sum of square[i, j] x_i x_j, i <= j."""

    def __init__(self, constant=0.0, linear=None, square=None):
        self.constant, self.linear, self.square = constant, linear or Counter(), square or Counter()

    def is_constant(self):
        """Whether no variable is left."""
        return not (any(self.linear.values()) or any(self.square.values()))

    def scaled(self, factor):
        """factor times this."""
        return _Polynomial(
            factor * self.constant,
            *(Counter({k: factor * v for k, v in t.items()}) for t in (self.linear, self.square)),
        )

    def add(self, other):
        """This plus another one, in the place of the longer one."""
        if len(self.linear) + len(self.square) < len(other.linear) + len(other.square):
            self, other = other, self
        self.constant += other.constant
        self.linear.update(other.linear)
        self.square.update(other.square)
        return self

    def times(self, other):
        """The product; ValueError above degree 2."""
        if self.is_constant() or other.is_constant():
            number, rest = (self, other) if self.is_constant() else (other, self)
            return rest.scaled(number.constant)
        if any(self.square.values()) or any(other.square.values()):
            raise ValueError("a product or power has degree 3 or more: the nonlinear part must be quadratic")
        product = _Polynomial(self.constant * other.constant)
        product.linear.update({j: a * other.constant for j, a in self.linear.items()})
        product.linear.update({j: a * self.constant for j, a in other.linear.items()})
        for i, a in self.linear.items():
            for j, b in other.linear.items():
                product.square[min(i, j), max(i, j)] += a * b
        return product


def _power(base, exponent):
    if not exponent.is_constant():
        raise ValueError("a power whose exponent is a variable (^, pow) is nonlinear: a quadratic is needed")
    if base.is_constant():
        return _Polynomial(base.constant**exponent.constant)
    if exponent.constant not in (0.0, 1.0, 2.0):
        raise ValueError(f"a power (^ {exponent.constant:g}) of a variable is nonlinear: only squares are quadratic")
    return {0.0: _Polynomial(1.0), 1.0: base, 2.0: base.times(base)}[exponent.constant]


def _applied(operator, arguments):
    """The polynomial that an operator makes of others."""
    first, *others = arguments
    if operator in (_PLUS, _SUM):
        for other in others:
            first = first.add(other)
        return first
    if operator == _MINUS:
        return first.add(others[0].scaled(-1.0))
    if operator == _NEGATIVE:
        return first.scaled(-1.0)
    if operator == _TIMES:
        return first.times(others[0])
    if operator == _DIVIDED:
        if not others[0].is_constant() or others[0].constant == 0.0:
            raise ValueError("a division by a variable, or by 0, is nonlinear: a quadratic is needed")
        return first.scaled(1.0 / others[0].constant)
    if operator in (_POWER, _POWER_OF_VARIABLE, _POWER_OF_NUMBER):
        return _power(first, others[0])
    if operator == _SQUARE:
        return first.times(first)
    name, function = _FUNCTIONS[operator]
    if not first.is_constant():
        raise ValueError(f"{name} of a variable is nonlinear: a linear or quadratic expression is needed")
    return _Polynomial(float(function(first.constant)))


_BINARY = (_PLUS, _MINUS, _TIMES, _DIVIDED, _POWER, _POWER_OF_VARIABLE, _POWER_OF_NUMBER)


def _arity(operator, source):
    if operator == _SUM:
        size = source.count()
        if size < 1:
            raise ValueError(f"a sum of {size} terms")
        return size
    if operator in _BINARY:
        return 2
    if operator in (_NEGATIVE, _SQUARE) or operator in _FUNCTIONS:
        return 1
    raise ValueError(f"operator {operator} is nonlinear: a linear or quadratic expression is needed")


class _Reader:
    """What has been read of a file."""

    def __init__(self, file):
        self.header, self.source = file.header, (_Binary if file.header.binary else _Text)(file)
        self.defined = {}
        n, m = file.header.n_variables, file.header.n_rows
        self.rows, self.objectives = [_Polynomial() for _ in range(m)], [None] * file.header.n_objectives
        self.senses = [True] * file.header.n_objectives
        self.sides, self.bounds = np.full((2, m), np.nan), np.full((2, n), np.nan)
        self.n_read = [0, 0]

    def index(self, size, what):
        """A whole number below ``size``."""
        return self._below(self.source.whole(), size, what)

    def _below(self, i, size, what):
        if not 0 <= i < size:
            raise ValueError(f"{what} {i} is expected to be one of 0 .. {size - 1}")
        return i

    def expression(self):
        """The polynomial of an expression in prefix order, without recursion: sums may be nested deeply."""
        open_ones: list[tuple[Any, int, list[_Polynomial]]] = []
        while True:
            letter, value = self.source.node()
            if letter == "o":
                open_ones.append((value, _arity(value, self.source), []))
                continue
            if letter in "nsl":
                found = _Polynomial(float(value))
            elif letter == "v":
                found = self._variable(value)
            else:
                raise ValueError(f"a part {letter!r} of an expression is not supported: only linear and quadratic ones")
            while open_ones:
                operator, size, arguments = open_ones[-1]
                arguments.append(found)
                if len(arguments) < size:
                    break
                found = _applied(operator, arguments)
                open_ones.pop()
            else:
                return found

    def _variable(self, j):
        if j in self.defined:
            return self.defined[j].scaled(1.0)
        return _Polynomial(linear=Counter({self._below(j, self.header.n_variables, "variable"): 1.0}))

    def read(self):
        """Reads all segments."""
        while letter := self.source.segment():
            if letter not in _SEGMENTS:
                raise ValueError(f"a segment {letter!r} is not supported, or the .nl file is damaged")
            getattr(self, _SEGMENTS[letter])()
        missing = np.isnan(self.sides).any() or np.isnan(self.bounds).any() or None in self.objectives
        if missing or self.n_read != [self.header.n_entries, self.header.n_gradients]:
            raise ValueError("the .nl file ends before all that its header counts")

    def _constraint(self):
        i = self.index(self.header.n_rows, "constraint")
        self.rows[i] = self.rows[i].add(self.expression())

    def _objective(self):
        i = self.index(self.header.n_objectives, "objective")
        self.senses[i] = self.source.whole() == 0
        self.objectives[i] = self.expression()

    def _definition(self):
        j, size, _ = self.source.whole(), self.source.whole(), self.source.whole()
        found = _Polynomial()
        for _ in range(size):
            i, value = self.source.entry()
            found = found.add(self._variable(i).scaled(value))
        self.defined[j] = found.add(self.expression())

    def _jacobian(self):
        self._terms(self.rows, "constraint", 0)

    def _gradient(self):
        self._terms(self.objectives, "objective", 1)

    def _terms(self, polynomials, what, kind):
        i, size = self.index(len(polynomials), what), self.source.whole()
        if polynomials[i] is None:
            raise ValueError(f"the linear terms of objective {i} come before its expression")
        for _ in range(size):
            j, value = self.source.entry()
            polynomials[i].linear[self._below(j, self.header.n_variables, "variable")] += value
        self.n_read[kind] += size

    def _ranges(self):
        self._limits(self.sides)

    def _variable_bounds(self):
        self._limits(self.bounds)

    def _limits(self, sides):
        for i in range(sides.shape[1]):
            kind, real = self.source.limits()
            if kind == "0":
                sides[:, i] = real(), real()
            elif kind in ("1", "2"):
                sides[:, i] = (-np.inf, real()) if kind == "1" else (real(), np.inf)
            elif kind == "3":
                sides[:, i] = -np.inf, np.inf
            elif kind == "4":
                sides[:, i] = real()
            else:
                raise ValueError(
                    f"kind {kind!r} of a bound is not supported (5 is complementarity), or the file is cut"
                )

    def _columns(self):
        for _ in range(self.source.whole()):
            self.source.count()

    def _starts(self):
        for _ in range(self.source.whole()):
            self.source.entry()

    def _suffix(self):
        kind, size, name = self.source.whole(), self.source.whole(), self.source.text()
        if name in _SPECIAL_SUFFIXES:
            raise ValueError(f"special ordered sets (suffix {name}) are not supported: continuous variables are needed")
        for _ in range(size):
            if self.header.binary and not kind & 4:
                self.source.whole(), self.source.whole()
            else:
                self.source.entry()

    def _logical(self):
        raise ValueError("logical constraints are not supported: linear constraints are needed")

    def _function(self):
        raise ValueError("imported functions are nonlinear: a linear or quadratic objective is needed")


_SEGMENTS = {
    "C": "_constraint", "O": "_objective", "V": "_definition", "J": "_jacobian", "G": "_gradient", "r": "_ranges",
    "b": "_variable_bounds", "k": "_columns", "x": "_starts", "d": "_starts", "S": "_suffix", "L": "_logical",
    "F": "_function",
}  # fmt: skip


def program_of_nl(file: NlFile, objective: int = 1, names: tuple[str, ...] = ()) -> Program:
    """The `Program` of a file, with the objective of this number (from 1; 0 is none); ValueError if it is none."""
    header, reader = file.header, _Reader(file)
    if header.n_integers:
        raise ValueError(f"{header.n_integers} variables are integer or binary: continuous variables are needed")
    try:
        reader.read()
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"{reader.source.at}: {error}") from None
    if not 0 <= objective <= max(1, header.n_objectives):
        raise ValueError(f"objno = {objective}: the file has {header.n_objectives} objectives")
    n, m, has = header.n_variables, header.n_rows, 0 < objective <= header.n_objectives
    f = (reader.objectives[objective - 1] if has else None) or _Polynomial()
    H, A, h = Entries(), Entries(), np.zeros(n)
    for (i, j), value in f.square.items():
        H.add(j, i, 2.0 * value if i == j else value)
    h[list(f.linear)] = list(f.linear.values())
    shift = np.zeros(m)
    for i, row in enumerate(reader.rows):
        if any(row.square.values()):
            raise ValueError(f"constraint {i} is quadratic: linear constraints are needed")
        shift[i] = row.constant
        for j, value in row.linear.items():
            A.add(i, j, value)
    return Program(
        H.symmetric(n, "H"), h, f.constant, A.matrix((m, n), "A"), reader.sides[0] - shift, reader.sides[1] - shift,
        reader.bounds[0], reader.bounds[1], reader.senses[objective - 1] if has else False, names or default_names(n),
    )  # fmt: skip


def read_nl(path: str | Path) -> Program:
    """Reads an .nl file as a `Program`; ValueError naming the line or byte if that is impossible."""
    return program_of_nl(open_nl(path))


def write_sol(
    path: str | Path, header: Header, message: str, x: NDArray[np.float64] | None, objective: int, code: int
) -> None:
    """Writes the .sol file that AMPL reads: a message, the point (None for none), and the code of how it went."""
    lines = [line for line in message.splitlines() if line.strip()]
    values = [] if x is None else [repr(float(value)) for value in x]
    sizes = header.n_rows, 0, header.n_variables, len(values)
    text = [*lines, "", "Options", *header.options, *map(str, sizes), *values, f"objno {max(objective - 1, 0)} {code}"]
    Path(path).write_text("\n".join(text) + "\n", encoding="utf-8")
