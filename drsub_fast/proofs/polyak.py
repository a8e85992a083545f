"""Steps of Polyak's length: down a convex upper bound, towards a little above a value that is known to be reached."""

import math

#: What a step aims at: this part of the way from the best bound to the known value.
_AIM = 0.3
#: So many steps have to close this part of the gap to the known value.
_LOOK, _LEAST_PART = 5, 0.1


class PolyakSteps:
    """By how much the next step is to lower a bound; a step is that, over the squared length of the gradient.

    Attributes
    ----------
    best : float
        The lowest bound yet.
    """

    def __init__(self, value: float) -> None:
        self.value, self.best = value, math.inf
        self._count, self._open_gap = 0, math.inf

    def drop(self, bound: float) -> float | None:
        """The drop from ``bound``, which the last step has led to; None where the steps are to end."""
        self.best = min(self.best, bound)
        aim = self.best + _AIM * (self.value - self.best)
        if not math.isfinite(bound) or bound <= aim:
            return None
        if self._count % _LOOK == 0:
            gap = self.best - self.value
            if gap > (1.0 - _LEAST_PART) * self._open_gap:
                return None
            self._open_gap = gap
        self._count += 1
        return bound - aim
