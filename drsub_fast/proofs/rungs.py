"""A ladder of upper bounds for one problem, climbed as far as time, counted operations or the wish for more go.

A rung is a generator for one kind of problem. It yields pairs (bound, price): a bound that holds for all points of the
set, infinite where it has none yet, and the number of operations that its next step takes; as a third number, how many
of them come before it has a bound if its time is over then. Where it does not apply it yields nothing. Prices are
multiplications and additions, with `CALL` for each call of numpy. A step that was paid before has the price 0, and its
operations as the third number.
"""

import math
from collections import namedtuple
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from drsub_fast.engine.clock import OutOfTime, now, require_time
from drsub_fast.errors import OracleError
from drsub_fast.objectives.base import Objective
from drsub_fast.sets.base import FeasibleSet

#: max f over P: ``upper`` is the solvers' bound of the variables, ``x`` a good point of the set, ``value`` = f(x).
Problem = namedtuple("Problem", "f P upper x value")

#: Operations that a call of numpy costs beside its arithmetic: a few microseconds.
CALL = 5000

#: A rung is left where the second half of its steps closed less than this part of the gap that was open: a digit more
#: would take a million times the work. It is asked after so many operations, about a second, and so many steps.
_LEAST_PART, _PATIENCE, _FEW_STEPS = 0.1, 1e9, 64

#: Operations a second that a step is expected to reach at most, when the clock is to be kept.
SPEED = 2e9

#: The speed of a step is that of the last one if that was at least this part of it. Before the first-order method's
#: steps on 100 variables there is one of a hundredth of their price, mostly a call of HiGHS, of a tenth of their speed.
_ALIKE = 0.5


class Allowance:
    """What may still be spent: operations, and seconds until a deadline on the clock of `drsub_fast.engine.clock`."""

    def __init__(self, operations: float = math.inf, deadline: float | None = None) -> None:
        self.operations, self.deadline, self.was_late = operations, deadline, False
        self.begin()

    def begin(self) -> None:
        """The steps to come are of another kind, whose speed is not known."""
        self._last: tuple[float, float] | None = None

    def spend(self, price: float, least: float | None = None) -> bool:
        """Takes the price of a step off; False where it, or the ``least`` part of it in time, cannot be paid."""
        late = self.deadline is not None and self._is_late(price, least or price)
        self.was_late = self.was_late or late
        if price > self.operations or late:
            return False
        self.operations -= price
        return True

    def _is_late(self, price, least):
        """Whether the least part of a step would end after the deadline, at the speed of the last one."""
        time, seconds = now(), least / SPEED
        if self._last is not None:
            took, paid = time - self._last[0], self._last[1]
            # Of a far smaller step most time may be what surrounds its operations: it says nothing of the speed.
            seconds = max(seconds, took * least / paid) if paid >= _ALIKE * least else took + seconds
        self._last = time, max(price, least)
        return time + seconds >= self.deadline


def climb(
    rungs: Iterable[Callable[[Problem], Iterable[tuple[float, float]]]],
    problem: Problem,
    best: float,
    target: float,
    allowance: Allowance,
) -> float:
    """The best bound of all rungs that the allowance pays for; at the target, or at Ctrl-C, no step more is taken.

    A rung that hardly gets on is left, since the target may be below what doubles or the relaxation can reach; so is
    one whose arithmetic fails.
    """
    try:
        for rung in rungs:
            allowance.begin()
            spent, look, open_gap = 0.0, _FEW_STEPS, math.inf
            for step, (bound, price, *least) in enumerate(_sound(rung(problem))):
                best = min(best, bound)
                if best <= target:
                    return best
                if not allowance.spend(price, *least):
                    break
                require_time()
                spent += price
                if step >= look and spent >= _PATIENCE:
                    if best - target > (1.0 - _LEAST_PART) * open_gap:
                        break
                    look, open_gap = 2 * step, best - target
    except (KeyboardInterrupt, OutOfTime):
        pass
    return best


def _sound(steps):
    """The steps of a rung until its arithmetic fails, in units too small or too large for it; NaN is no bound."""
    try:
        with np.errstate(all="ignore"):
            for bound, *prices in steps:
                yield (math.inf if math.isnan(bound) else bound), *prices
    except (ArithmeticError, np.linalg.LinAlgError, OracleError):
        return


def largest(P: FeasibleSet, cost: NDArray[np.float64], upper: NDArray[np.float64]) -> float:
    """An upper bound on <cost, v> over the points v <= upper of P: the oracle's answer, with room for rounding."""
    v = P.lmo(cost, upper)
    size = np.abs(cost) @ np.maximum(np.abs(upper), np.abs(v))
    return float(cost @ v + 1e-9 * size)


def gradient_price(f: Objective) -> float:
    """Operations of one value and gradient of f."""
    return CALL + f.operations
