"""A 0/1 point to begin with, for multilinear extensions that are too large for many starts.

One variable after the other is set to 1, the one of the largest partial derivative among those that the linear oracle
takes in beside those before: the greedy choice of items for the set function, by the oracle alone. Every item that is
surely chosen makes the next gradient of an extension by maxima cheaper.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.engine.clock import OutOfTime
from drsub_fast.objectives.base import Objective
from drsub_fast.sets.base import FeasibleSet

#: Distance from 1 below which an entry of a vertex counts as 1.
_WHOLE = 1e-9


def greedy_vertex(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> Any:
    """A 0/1 point of a down-closed P below ``upper``, to which no further variable of positive slope was added.

    Where the time of the thread ends, it is the point so far.
    """
    x = np.zeros(P.n)
    while True:
        try:
            grad = f.gradient(x)
            inside = x == 1.0
            # More than all others together: the oracle keeps what is chosen wherever it can.
            cost = np.where(inside, 2.0 * np.maximum(grad, 0.0).sum(), grad)
            whole = P.lmo(cost, upper) >= 1.0 - _WHOLE
        except OutOfTime:
            return x
        new = whole & ~inside & (grad > 0.0)
        if not (new.any() and whole[inside].all()):
            return x
        x[int(np.where(new, grad, -np.inf).argmax())] = 1.0
