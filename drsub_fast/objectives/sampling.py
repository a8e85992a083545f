"""The multilinear extension of a Python set function, estimated from random sets.

The means of F(S) and of F(S + i) - F(S - i) over sets S = {i : u_i < x_i} with uniform numbers u_i are unbiased.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Most values that are remembered, some 100 bytes each.
_MOST_VALUES = 1_000_000


#: F(S) for a sorted list of items.
SetFunction: TypeAlias = Callable[[list[int]], float]


class Sampler:
    """A set function and the values it has had; rows of ``uniforms`` are the uniform numbers of one set each."""

    def __init__(self, function: SetFunction) -> None:
        self.function = function
        self.values: dict[bytes, float] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "values": {}}

    def estimate(self, x: NDArray[np.float64], uniforms: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """(value, gradient) at x."""
        sample, counts = self._sample(x, uniforms)
        mean = counts @ sample / counts.sum()
        return mean[0], mean[1:]

    def standard_error(self, x: NDArray[np.float64], uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard errors of value and gradient at x, shape (n + 1,)."""
        sample, counts = self._sample(x, uniforms)
        total = counts.sum()
        deviation = sample - counts @ sample / total
        return np.sqrt(counts @ deviation**2 / (total - 1.0) / total)

    def mean_value(self, x: NDArray[np.float64], uniforms: NDArray[np.float64]) -> float:
        """The value alone: one call of F a set."""
        return float(np.mean([self.value_of(chosen) for chosen in uniforms < x]))

    def difference(self, chosen: NDArray[np.bool_], value: float, i: int) -> float:
        """F(S + i) - F(S - i) for the set S of the items ``chosen``, worth ``value``."""
        other = chosen.copy()
        other[i] ^= True
        change = self.value_of(other) - value
        return -change if chosen[i] else change

    def value_of(self, chosen: NDArray[np.bool_]) -> float:
        """F of the items ``chosen``."""
        key = np.packbits(chosen).tobytes()
        value = self.values.get(key)
        if value is None:
            value = float(self.function(np.flatnonzero(chosen).tolist()))
            if len(self.values) < _MOST_VALUES:
                self.values[key] = value
        return value

    def _sample(self, x, uniforms):
        """Rows (F(S), F(S + i) - F(S - i) for every i) for the distinct sets, and how often each was drawn."""
        members, counts = np.unique(uniforms < x, axis=0, return_counts=True)
        sample = np.empty((len(members), x.size + 1))
        for row, chosen in zip(sample, members, strict=True):
            row[0] = self.value_of(chosen)
            row[1:] = [self.difference(chosen, row[0], i) for i in range(x.size)]
        return sample, counts
