"""LP files (CPLEX's format): linear and quadratic programs as formulas.

Read are the objective, constraints with one or two numbers as sides, bounds, and ``end``, which must be there. A
quadratic term of the objective is ``[ .. ] / 2``. A constraint begins on a line of its own. Variables are in the order
in which the file first names them. Integer and semi-continuous variables, quadratic constraints and indicators are
refused by name; a section without entries says nothing. A keyword that an expression goes on from is a name.
"""

import re
from pathlib import Path
from typing import Any, TextIO

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

_NAME = r"[A-Za-z_!\"#$%&(),;?@'`{}|~][^\s+\-*^<>=:\[\]\\]*(\[[^\s\[\]]*\])*"
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)"
    rf"|(?P<sense><=|=<|>=|=>|<|>|=)|(?P<name>{_NAME})|(?P<sign>[-+*^/:\[\]]))",
    re.ASCII,
)
_HEADERS = re.compile(
    r"\s*(?P<max>max(imi[zs]e|imum)?)(?=[\s:]|$)|\s*(?P<min>min(imi[zs]e|imum)?)(?=[\s:]|$)"
    r"|\s*(?P<rows>subject\s+to|such\s+that|s\.t\.|st\.?)(?=[\s:]|$)|\s*(?P<bounds>bounds?)(?=\s|$)"
    r"|\s*(?P<integer>generals?|gen|integers?|binary|binaries|bin)(?=\s|$)"
    r"|\s*(?P<other>semi-continuous|semis?|sos[12]?|lazy\s+constraints|user\s+cuts|pwlobj)(?=\s|$)|\s*(?P<end>end)(?=\s|$)",
    re.IGNORECASE,
)
#: What goes on an expression or a bound that begins with a name; no section begins so.
_GOES_ON = re.compile(r"\s*([-+*^/<>=:]|$)")
#: What is no number, and may be meant as one: "1,5", "1.5D+01", "3;". The blanks of other names tell them apart.
_DOUBTFUL = re.compile(r"(?<![^\s+\-*^/:<>=])[\d.]+([eE][+-]?\d+)?([dD][+-]?\d|[^\s\w.+\-*^/:\[\]<>=]|_)\S*", re.ASCII)
_SENSE = {"<": -1, "<=": -1, "=<": -1, "=": 0, ">": 1, ">=": 1, "=>": 1}
#: Words that are no names of variables.
_WORDS = ("inf", "infinity", "free")
_END = (None, "", 0)


def read_lp(path: str | Path) -> Program:
    """Reads an LP file as a `Program`; ValueError naming the line if that is impossible."""
    reader = _Reader()
    sections = _sections(numbered_lines(path))
    for section in ("objective", "rows", "bounds"):
        reader.tokens = _Tokens(sections.get(section, []))
        while reader.tokens.kind is not None:
            with at_line(reader.tokens.line):
                getattr(reader, f"_{section}")()
    return reader.finished(sections["minimize"])


def _section_of(header, rest, current):
    """The section that begins with a keyword, or None where the keyword is a name in this place.

    ``rest`` is what follows it on its line, ``current`` the section before it.
    """
    kind = header.lastgroup
    if rest.lstrip().startswith(":"):
        return None
    if kind in ("max", "min"):
        return kind if current is None else None
    if kind == "rows":
        return kind if current in (None, "objective") else None
    alone = not rest.strip()
    return kind if alone or (kind != "end" and not _GOES_ON.match(rest)) else None


def _sections(lines):
    """The tokens (kind, text, line) of each section."""
    sections: dict[str, Any] = {}
    current: str | None = None
    lines = ((i, text.split("\\")[0]) for i, text in lines)
    for i, text in lines:
        with at_line(i):
            header = _HEADERS.match(text)
            kind = None if header is None else _section_of(header, text[header.end() :], current)
            if header is not None and kind is not None:
                if kind == "end":
                    if "minimize" not in sections:
                        raise ValueError("the file ends without an objective")
                    require_no_more(lines, "'end'")
                    return sections
                if kind in ("max", "min"):
                    sections["minimize"], kind = kind == "min", "objective"
                elif current is None:
                    raise ValueError("the file does not begin with minimize or maximize")
                if kind in sections and kind not in ("integer", "other"):
                    raise ValueError(f"the section {header.group().strip()!r} comes twice")
                current, text, title = kind, text[header.end() :], header.group().strip()
                sections.setdefault(kind, [])
            found = list(_tokens(text, i))
            if found and current is None:
                raise ValueError("the file does not begin with minimize or maximize")
            if found and current == "integer":
                raise ValueError(f"integer variables are not supported: {found[0][1]!r} is one")
            if found and current == "other":
                raise ValueError(f"the section {title!r} is not supported")
            if found and current is not None:
                sections[current] += found
    raise ValueError("the file ends before 'end'")


def _tokens(text, line):
    """The tokens of one line."""
    place = 0
    text = text.rstrip()
    doubtful = _DOUBTFUL.search(text)
    if doubtful is not None:
        raise ValueError(f"{doubtful.group()[:20]!r} may be a number or a product: write 15.0 or 1.5e+01, or blanks")
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise ValueError(f"{text[place:].strip()[:20]!r} cannot be read")
        kind = next(kind for kind in ("number", "sense", "name", "sign") if token.group(kind) is not None)
        yield kind, token.group(kind), line
        place = token.end()


class _Tokens:
    """The tokens of a section, one after the other."""

    def __init__(self, tokens):
        self.all, self.place = tokens, 0

    def ahead(self, k=0):
        """(kind, text, line) of the k-th token from here."""
        return self.all[self.place + k] if self.place + k < len(self.all) else _END

    kind = property(lambda self: self.ahead()[0])
    text = property(lambda self: self.ahead()[1])

    @property
    def line(self):
        """The line of the next token, or of the last one."""
        return self.ahead()[2] or (self.all[-1][2] if self.all else 0)

    def take(self, *texts):
        """The next token's text, if it is one of these (or any); else None."""
        if self.kind is None or (texts and self.text not in texts):
            return None
        self.place += 1
        return self.all[self.place - 1][1]

    def need(self, what, kind=None, texts=()):
        """The next token's text, which must be of a kind or one of some texts."""
        if (kind and self.kind != kind) or (texts and self.text not in texts) or self.kind is None:
            raise ValueError(f"{what} is needed where {self.text or 'the section ends'!r} is")
        return self.take()


class _Reader:
    """What has been read of a file."""

    def __init__(self):
        self.tokens = _Tokens([])
        self.columns, self.labels = {}, set()
        self.cost, self.constant = {}, 0.0
        self.hessian = {}
        self.entries, self.sides = Entries(), []
        self.lower, self.upper = {}, {}

    def _column(self, name):
        if name.lower() in ("inf", "infinity"):
            raise ValueError(f"{name} is no name of a variable")
        return self.columns.setdefault(name, len(self.columns))

    def _label(self):
        """Reads ``name:`` where it is there."""
        if self.tokens.kind != "name" or self.tokens.ahead(1)[1] != ":":
            return
        name = self.tokens.take()
        self.tokens.take()
        if name in self.labels:
            raise ValueError(f"the name {name!r} comes twice")
        self.labels.add(name)

    def _sign(self):
        """The product of the signs that come next, or None if there are none."""
        sign = None
        while (text := self.tokens.take("+", "-")) is not None:
            sign = (sign or 1.0) * (1.0 if text == "+" else -1.0)
        return sign

    def _coefficient(self):
        """Reads a number and a ``*`` after it, where they are there; 1 if not."""
        if self.tokens.kind != "number":
            return 1.0
        coefficient = number(self.tokens.take(), "a coefficient")
        self.tokens.take("*")
        return coefficient

    def _terms(self):
        """Yields (coefficient, name or None) of a sum of terms, until something else comes; "[" begins a square."""
        first = True
        while True:
            with at_line(self.tokens.line):
                sign = self._sign()
                if not first and sign is None:
                    return
                place = self.tokens.place
                coefficient, name = self._coefficient(), None
                if self.tokens.kind == "name" and self.tokens.ahead(1)[1] != ":":
                    name = self.tokens.take()
                elif self.tokens.place == place and self.tokens.text == "[":
                    name = "["
                elif self.tokens.place == place:
                    raise ValueError(f"a term is needed where {self.tokens.text or 'the section ends'!r} is")
                yield (sign or 1.0) * coefficient, name
                first = False

    def _objective(self):
        self._label()
        if self.tokens.kind is None:
            return
        for coefficient, name in self._terms():
            if name == "[":
                self._square(coefficient)
            elif name is None:
                self.constant += coefficient
            else:
                j = self._column(name)
                self.cost[j] = self.cost.get(j, 0.0) + coefficient
        if self.tokens.kind is not None:
            raise ValueError(f"a sign or the next section is needed where {self.tokens.text!r} is")

    def _square(self, sign):
        """Reads ``[ terms ] / 2``, the sum of 1/2 x'Hx in coefficients of products."""
        self.tokens.need("[", texts=("[",))
        first = True
        while self.tokens.take("]") is None:
            with at_line(self.tokens.line):
                inner = self._sign()
                if inner is None and not first:
                    raise ValueError(f"a sign is needed where {self.tokens.text or 'the section ends'!r} is")
                coefficient = (inner or 1.0) * self._coefficient()
                first = False
                i = self._column(self.tokens.need("a variable", "name"))
                if self.tokens.take("^") is not None:
                    self.tokens.need("the exponent 2", texts=("2",))
                    j = i
                else:
                    self.tokens.need("* or ^ 2", texts=("*",))
                    j = self._column(self.tokens.need("a variable", "name"))
                key = (max(i, j), min(i, j))
                # 1/2 x'Hx has H_ii / 2 at x_i^2 and H_ij at x_i x_j.
                self.hessian[key] = self.hessian.get(key, 0.0) + sign * coefficient * (1.0 if i == j else 0.5)
        self.tokens.need("/ 2 after the quadratic term", texts=("/",))
        self.tokens.need("/ 2 after the quadratic term", texts=("2",))

    def _side(self):
        """Reads a side of a row or a bound: a number with its sign, or infinity."""
        sign = self._sign()
        if self.tokens.kind != "number" and self.tokens.text.lower() not in ("inf", "infinity"):
            raise ValueError(f"a number is needed where {self.tokens.text or 'the section ends'!r} is")
        side = limit(self.tokens.take(), "a side")
        return side if sign is None else sign * side

    def _sense(self):
        return _SENSE[self.tokens.need("<=, = or >=", "sense")]

    def _begins_with_side(self):
        """Whether a sense follows after a number or infinity with its sign."""
        k = 0
        while self.tokens.ahead(k)[1] in ("+", "-"):
            k += 1
        is_side = self.tokens.ahead(k)[0] == "number" or self.tokens.ahead(k)[1].lower() in ("inf", "infinity")
        return is_side and self.tokens.ahead(k + 1)[0] == "sense"

    def _require_own_line(self, what):
        began = self.tokens.place
        if began and self.tokens.all[began - 1][2] == self.tokens.line:
            raise ValueError(f"a {what} begins on a line of its own, and not at {self.tokens.text!r}")

    def _rows(self):
        self._require_own_line("constraint")
        self._label()
        low, high = self._outer_sides()
        row: dict[int, float] = {}
        constant = 0.0
        for coefficient, name in self._terms():
            if name == "[":
                raise ValueError("quadratic constraints are not supported")
            if name is None:
                constant += coefficient
            else:
                j = self._column(name)
                row[j] = row.get(j, 0.0) + coefficient
        if self.tokens.kind == "sense" or (low, high) == (-np.inf, np.inf):
            low, high = self._within(low, high, self._sense())
        for j, value in row.items():
            self.entries.add(len(self.sides), j, value)
        self.sides.append((low - constant, high - constant))

    def _outer_sides(self):
        """The side before an expression, where there is one."""
        if not self._begins_with_side():
            return -np.inf, np.inf
        side = self._side()
        sense = self._sense()
        return (side, np.inf) if sense < 0 else (-np.inf, side) if sense > 0 else (side, side)

    def _within(self, low, high, sense):
        """The sides with the one that follows; each may come once."""
        side = self._side()
        if (sense <= 0 and high < np.inf) or (sense >= 0 and low > -np.inf):
            raise ValueError("a side is given twice")
        return (low if sense < 0 else side), (high if sense > 0 else side)

    def _bounds(self):
        self._require_own_line("bound")
        sides = []
        if self._begins_with_side():
            side = self._side()
            sides.append((-self._sense(), side))
        name = self.tokens.need("a variable", "name")
        j = self._column(name)
        if not sides and self.tokens.text.lower() == "free":
            self.tokens.take()
            sides = [(1, -np.inf), (-1, np.inf)]
        elif not sides or self.tokens.kind == "sense":
            sides.append((self._sense(), self._side()))
        for sense, side in sides:
            if sense >= 0:
                once(self.lower, j, side, f"the lower bound of {name!r}")
            if sense <= 0:
                once(self.upper, j, side, f"the upper bound of {name!r}")

    def finished(self, minimize):
        """The program."""
        n, m = len(self.columns), len(self.sides)
        if not n:
            raise ValueError("the file has no variables")
        lower, upper, h = filled(n, 0.0, self.lower), filled(n, np.inf, self.upper), filled(n, 0.0, self.cost)
        triangle = Entries()
        for (i, j), value in self.hessian.items():
            triangle.add(i, j, value)
        row_lower, row_upper = np.array(self.sides).reshape(m, 2).T.copy()
        A, names = self.entries.matrix((m, n), "A"), tuple(self.columns)
        return Program(
            triangle.symmetric(n, "H"), h, self.constant, A, row_lower, row_upper, lower, upper, minimize, names
        )


def write_lp(stream: TextIO, program: Program) -> None:
    """Writes a `Program` in LP format."""
    names = program.names
    for name in names:
        token = _TOKEN.fullmatch(name)
        if token is None or token.group("name") != name or name.lower() in _WORDS or _HEADERS.match(name):
            raise ValueError(f"the name {name!r} cannot be written in LP format")
    stream.write("minimize\n" if program.minimize else "maximize\n")
    terms = [_term(value, name) for value, name in zip(program.h, names, strict=True)]
    stream.write(_joined(" objective:", [*terms, _term(program.c, "")] if program.c else terms))
    H = program.H.tocoo()
    products = [
        _term(value if i == j else 2.0 * value, f"{names[i]} ^ 2" if i == j else f"{names[i]} * {names[j]}")
        for i, j, value in zip(H.row, H.col, H.data, strict=True)
        if i >= j and value
    ]
    if products:
        stream.write(_joined(" + [", products) + " ] / 2\n")
    stream.write("subject to\n")
    A = program.A.tocsr()
    for i, (low, high) in enumerate(zip(program.row_lower, program.row_upper, strict=True)):
        entries = range(A.indptr[i], A.indptr[i + 1])
        row = [_term(A.data[k], names[A.indices[k]]) for k in entries] or [_term(0.0, names[0])]
        stream.write(_joined(f" r{i}:", row) + f"  {'=' if low == high else '<='} {float(high)!r}\n")
    stream.write("bounds\n")
    for name, low, high in zip(names, program.lower, program.upper, strict=True):
        stream.write(f" {float(low)!r} <= {name} <= {float(high)!r}\n")
    stream.write("end\n")


def _term(value, product):
    value = float(value)
    return f"{'-' if np.signbit(value) else '+'} {abs(value)!r} {product}".rstrip()


def _joined(head, terms, per_line=5):
    """The terms, some to a line: readers limit the lengths of lines."""
    lines = [" ".join(terms[k : k + per_line]) for k in range(0, len(terms), per_line)]
    return "\n   ".join([head, *lines]) + "\n"
