"""Quadratic programs in files: MPS and LP files through HiGHS, QPLIB files by a small reader.

A QPLIB file (Furini et al., QPLIB: a library of quadratic programming instances, Math. Prog. Comp. 11, 2019)
lists its sections in a fixed order, numbers counted from 1, with comments after #. Which sections there are follows
from three letters: the objective (L, D, C, Q), the variables (C continuous; B, M, I, G with integers) and the
constraints (N none, B bounds, L linear; D, C, Q quadratic).
"""

from pathlib import Path

import numpy as np
import scipy

from drsub_fast._checks import first_few
from drsub_fast.lp.highs import read_program, write_program
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.problems.standard_form import standard_form
from drsub_fast.sets.box import Box
from drsub_fast.sets.polytope import Polytope


def read_mps_or_lp(path):
    """Reads a quadratic program in MPS or LP format as a `Problem`; ValueError if that is impossible."""
    program = read_program(path)
    if program.integer.any():
        names = first_few(f"x[{j}]" for j in np.flatnonzero(program.integer))
        raise ValueError(f"integer variables are not supported: {names}")
    return standard_form(
        program.H, program.h, program.c, program.A, program.row_lower, program.row_upper, program.lower,
        program.upper, program.minimize,
    )  # fmt: skip


def write_mps_or_lp(path, f, P):
    """Writes a quadratic over a box or polytope in MPS or LP format, as a maximisation."""
    if not isinstance(f, Quadratic) or not isinstance(P, (Box, Polytope)):
        raise TypeError(f"MPS and LP files hold quadratics over boxes and polytopes, not {f!r} over {P!r}")
    A, b = (np.zeros((0, P.n)), np.zeros(0)) if isinstance(P, Box) else (P.A, P.b)
    write_program(path, f.H, f.h, f.c, A, b, P.upper)


class _Lines:
    """The lines of a QPLIB file, comments and empty lines left out."""

    def __init__(self, path):
        lines = (line.split("#")[0].split() for line in Path(path).read_text().splitlines())
        self.lines = iter([words for words in lines if words])

    def next(self, what):
        words = next(self.lines, None)
        if words is None:
            raise ValueError(f"the file ends before {what}")
        return words

    def number(self, what, kind=float):
        words = self.next(what)
        try:
            return kind(words[0])
        except ValueError:
            raise ValueError(f"{what}: {words[0]!r} is not a number") from None

    def entries(self, what, n_indices):
        """A list of entries: their indices, counted from 0, and values."""
        count = self.number(f"the number of {what}", int)
        rows = [self.next(what) for _ in range(count)]
        try:
            indices = np.array([[int(word) - 1 for word in row[:n_indices]] for row in rows], np.int64)
            values = np.array([float(row[n_indices]) for row in rows])
        except (ValueError, IndexError):
            raise ValueError(f"an entry of {what} is not {n_indices} indices and a number") from None
        return indices.reshape(count, n_indices).T, values

    def vector(self, what, n):
        """A default and the entries that differ."""
        vector = np.full(n, self.number(f"the default of {what}"))
        (where,), values = self.entries(what, 1)
        vector[where] = values
        return vector


def read_qplib(path):
    """Reads a QPLIB file with continuous variables and linear constraints as a `Problem`."""
    lines = _Lines(path)
    lines.next("the name")
    kind = lines.next("the type")[0].upper()
    if len(kind) != 3 or kind[0] not in "LDCQ" or kind[1] != "C" or kind[2] not in "NBL":
        raise ValueError(f"type {kind} is not supported: continuous variables and linear constraints are needed")
    minimize = lines.next("the sense")[0].lower() != "maximize"
    n = lines.number("the number of variables", int)
    m = lines.number("the number of constraints", int) if kind[2] == "L" else 0
    H = np.zeros((n, n))
    if kind[0] != "L":
        (row, column), values = lines.entries("entries of H", 2)
        H[row, column] = H[column, row] = values
    h = lines.vector("the linear term", n)
    c = lines.number("the constant")
    (row, column), values = lines.entries("entries of A", 2) if m else (np.zeros((2, 0), np.int64), np.zeros(0))
    A = scipy.sparse.csr_array((values, (row, column)), shape=(m, n))
    infinity = lines.number("the value of infinity")
    sides = [lines.vector(f"{what} sides of the rows", m) if m else np.zeros(0) for what in ("lower", "upper")]
    bounds = [lines.vector(f"{what} bounds", n) for what in ("lower", "upper")]
    for vector in (*sides, *bounds):
        vector[np.abs(vector) >= infinity] = np.copysign(np.inf, vector[np.abs(vector) >= infinity])
    A = A if A.nnz < 0.1 * m * n else A.toarray()
    return standard_form(H, h, c, A, *sides, *bounds, minimize)
