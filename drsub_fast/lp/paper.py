"""The linear oracle of the authors' runs: a simplex method that stops where theirs did.

The authors' code, run under GNU Octave, has its linear programs solved by GLPK, whose tolerance decides on few of
them: in two-phase Frank-Wolfe on the paper's 600 instances 7 of 64,020 end at a vertex up to 4.7e-8 below the maximum.
Three runs turn elsewhere there than with exact vertices, and two end at other values (by 7e-6 and 2e-7 of them). This
rule stops at the same vertices, so that all 600 values come out to the last digits, and so do the traces:

- The program is scaled by geometric means: rows and columns are divided by the square root of their least times
  their largest entry, those whose entries differ more after the others (rows first where both are alike), at most
  15 times, until that narrows the range of all entries by less than 10 %; then by their largest entries, in the
  order chosen anew.
- The tableau begins at the slacks; the variable of the largest reduced cost enters, the first of equals.
- It ends when no reduced cost is above 1e-7. The cost is not normalised: what that loses, at most 1e-7 per unit of
  the scaled variables, depends on the units of f. Gaps, and bounds made of them, are too small by as much.

Every program starts afresh, from Python: 27 and 37 us a step at n = 8 and 16, twenty to thirty times those of the
default oracle and a fifth of those of warm HiGHS, which is faster from about n = m = 300.
"""

from time import perf_counter

import numpy as np
import scipy

from drsub_fast.engine.jit import kernel
from drsub_fast.errors import OracleError

_TOLERANCE = 1e-7
_SWEEPS, _GAIN = 15, 0.9
# Pivots between two looks at the clock, and how often so many: a program that needs more cycles.
_PIVOTS, _ROUNDS = 200, 100
# Smallest pivot, and how near two steps count as equal: then the larger pivot is taken.
_PIVOT, _EQUAL = 1e-9, 1e-13


def _extremes(B, axis):
    """Largest and least positive entry along the axis, which is kept; 1 where there is none."""
    largest = B.max(axis, initial=0.0, keepdims=True)
    least = B.min(axis, initial=np.inf, where=B > 0.0, keepdims=True)
    return np.where(largest > 0.0, largest, 1.0), np.where(largest > 0.0, least, 1.0)


@np.errstate(over="ignore")  # entries may differ by more than the range of floats
def _scaled(A):
    """(B, column, row): B = A / (column * row), by the rule of the module."""
    B, units = A.copy(), [np.ones((1, A.shape[1])), np.ones((A.shape[0], 1))]

    def spread(axis):
        return np.divide(*_extremes(B, axis)).max(initial=1.0)

    def order():
        return (0, 1) if spread(1) > spread(0) * (1.0 + 1e-9) else (1, 0)

    def divide(axis, unit):
        np.divide(B, unit, out=B)
        units[axis] *= unit

    axes, before = order(), np.inf
    for _ in range(_SWEEPS):
        ratio = spread(None)
        if ratio > _GAIN * before:
            break
        before = ratio
        for axis in axes:
            divide(axis, np.multiply(*np.sqrt(_extremes(B, axis))))
    for axis in order():
        divide(axis, _extremes(B, axis)[0])
    return B, units[0][0], units[1][:, 0]


@kernel
def _pivots(rows, gain, room, at_upper, basis, value, count):
    """Up to ``count`` steps of the primal simplex on bounded variables; whether the tableau is optimal.

    Variables are columns and slacks: ``room`` their upper bounds, ``gain`` the reduced costs, ``at_upper`` which
    nonbasic ones sit there. Row i belongs to the variable basis[i] and its ``value``. The columns of basic
    variables are unit vectors to the last bit, and their gains 0.
    """
    m, size = rows.shape
    for _ in range(count):
        q, best = -1, _TOLERANCE
        for j in range(size):
            rate = -gain[j] if at_upper[j] else gain[j]
            if rate > best and room[j] > 0.0:
                q, best = j, rate
        if q < 0:
            return True
        sign = -1.0 if at_upper[q] else 1.0
        step, p, pivot = room[q], -1, 0.0
        for i in range(m):
            fall = sign * rows[i, q]
            if abs(fall) <= _PIVOT:
                continue
            most = max(value[i] if fall > 0.0 else room[basis[i]] - value[i], 0.0) / abs(fall)
            if most < step - _EQUAL or (p >= 0 and most <= step + _EQUAL and abs(fall) > abs(pivot)):
                step, p, pivot = min(most, step), i, fall
        for i in range(m):
            value[i] -= step * sign * rows[i, q]
        if p < 0:
            at_upper[q] = not at_upper[q]
            continue
        value[p] = room[q] - step if at_upper[q] else step
        at_upper[basis[p]] = pivot < 0.0
        at_upper[q] = False
        basis[p] = q
        entry = rows[p, q]
        for j in range(size):
            rows[p, j] /= entry
        for i in range(m):
            factor = rows[i, q]
            if i != p and factor != 0.0:
                for j in range(size):
                    rows[i, j] -= factor * rows[p, j]
        factor = gain[q]
        for j in range(size):
            gain[j] -= factor * rows[p, j]
    return False


class PaperOracle:
    """Maximise <direction, v> over {A v <= b, 0 <= v <= upper} by the rule of the authors' runs (see the module).

    Parameters
    ----------
    A : ndarray or scipy.sparse matrix, shape (m, n)
        Constraint matrix, >= 0.
    b : ndarray, shape (m,)
        Right-hand sides, >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = PaperOracle(np.array([[1.0, 2.0]]), np.array([2.0]))
    >>> oracle.maximize(np.array([1.0, 1.0]), np.array([1.0, 1.0]))
    array([1. , 0.5])
    """

    def __init__(self, A, b):
        A, self._column, row = _scaled(A.toarray() if scipy.sparse.issparse(A) else A)
        self._rows, self._b = np.hstack([A, np.eye(len(b))]), b / row

    def maximize(self, direction, upper, time_limit=None):
        """A vertex that maximises <direction, v> within the tolerance; arguments as in `HighsOracle.maximize`.

        Raises
        ------
        OracleError
            For an input that is not finite, and when the time or 20,000 pivots are over.
        """
        upper = np.maximum(upper, 0.0)
        if not (np.isfinite(direction).all() and np.isfinite(upper).all()):
            raise OracleError("the cost or a bound of the linear program is not finite", "Not finite")
        began, n, size = perf_counter(), upper.size, self._rows.shape[1]
        rows, value, basis = self._rows.copy(), self._b.copy(), np.arange(n, size)
        gain, room, at_upper = np.zeros(size), np.full(size, np.inf), np.zeros(size, bool)
        gain[:n], room[:n] = direction / self._column, upper * self._column
        for _ in range(_ROUNDS):
            if _pivots(rows, gain, room, at_upper, basis, value, _PIVOTS):
                break
            if time_limit is not None and perf_counter() - began >= time_limit:
                raise OracleError("the linear program took too long", "Time limit reached")
        else:
            raise OracleError("the linear program took 20,000 pivots: use another lmo", "Iteration limit reached")
        v, column = np.where(at_upper[:n], upper, 0.0), basis < n
        basic = basis[column]
        v[basic] = value[column] / self._column[basic]
        return np.minimum(np.maximum(v, 0.0), upper)
