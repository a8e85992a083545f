"""When an item counts as linearly dependent on others: by its own scale.

The squared gain of item i beside a set S is d_i^2 = L_ii - |c_i|^2 (`drsub_fast.discrete.greedy`). Rounding leaves that
of a dependent item at plus or minus some eps L_ii, whatever the entries of other items. So i counts as dependent where

    d_i^2 <= part L_ii.

It is the rule for the kernel whose rows and columns are divided by sqrt(L_ii), so the units of an item and its quality
make no difference. Gains only fall: what is dependent stays so.
"""

import numpy as np
from numpy.typing import NDArray

#: The parts: of a greedy choice that may end before; of one that must reach a number of items, and of single moves; and
#: of values, below which log det is -inf.
DEPENDENT, NEARLY_SINGULAR, SINGULAR = 1e-10, 1e-13, 1e-14

#: Below this, entries lose digits.
TINY = 1e-290


def gain_floor(diagonal: NDArray[np.float64], part: float) -> NDArray[np.float64]:
    """The squared gains up to which the items of these L_ii count as dependent, shape of ``diagonal``."""
    return np.maximum(part * diagonal, TINY)
