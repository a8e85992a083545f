"""A set function one item at a time: the value of a growing set, and what each further item would add.

`as_set_function` makes one of whatever the user has:

- an extension by maxima (facility location, coverage, FLID): the best weight so far of every customer is kept, and a
  gain costs the item's own row;
- another multilinear extension: its gradient at the 0/1 vector holds all gains;
- a softmax extension: the squared gains of the greedy choice (`drsub_fast.discrete.greedy`), whose logarithms are the
  gains; -inf for items that count as dependent;
- any other objective, or a Python function of a list of items: a difference of two values.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array

from drsub_fast._checks import as_count
from drsub_fast.discrete.dependence import NEARLY_SINGULAR, gain_floor
from drsub_fast.discrete.greedy import as_item_kernel
from drsub_fast.engine.jit import Interpreted, Kernel, kernel
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.multilinear import MaximaExtension, Multilinear, SampledExtension
from drsub_fast.objectives.softmax import Softmax

#: Entries of a dense W from which gains are compiled where that pays.
_COMPILED_FROM = 1_000_000


class SetFunction:
    """F with a current set.

    Attributes
    ----------
    n : int
        Number of items.
    value : float
        F of the current set.
    n_values : int
        Gains and values computed so far.
    """

    n: int
    value: float
    n_values: int

    def clear(self) -> None:
        """Begins anew with the empty set."""
        raise NotImplementedError

    def gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """F(S + i) - F(S) for some items outside the current set, shape (len(items),)."""
        raise NotImplementedError

    def add(self, item: int, gain: float) -> None:
        """The item joins; ``gain`` is what `gains` said of it at the current set."""
        raise NotImplementedError

    def last_gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """F(N) - F(N - i) for some items, N being all of them."""
        raise NotImplementedError


@kernel(reductions=True)
def _gain_above(W, item, cover):
    """sum_d max(W[item, d] - cover_d, 0)."""
    row = W[item]
    total = 0.0
    for d in range(cover.size):
        total += max(row[d] - cover[d], 0.0)
    return total


def compiled_for(W: NDArray[np.float64] | csr_array, row_kernel: Kernel, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """(compiled code over a row of W or None, a context in which numpy's time in its place counts towards compiling).

    A row of 5000 takes numpy 13 us in three passes, the kernel `_gain_above` 3.
    """
    if scipy.sparse.issparse(W) or W.size < _COMPILED_FROM:
        return None, nullcontext
    run = row_kernel.choose(arguments)
    return (None, run.counted) if isinstance(run, Interpreted) else (run, nullcontext)


def sparse_row(W: csr_array, item: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(columns, weights) of a row of a sparse matrix by rows."""
    own = slice(W.indptr[item], W.indptr[item + 1])
    return W.indices[own], W.data[own]


class MaximaFunction(SetFunction):
    """F(S) = sum_{i in S} linear_i + sum_d max_{i in S} W_id."""

    def __init__(self, f: MaximaExtension) -> None:
        self.n, self.f, self.linear = f.n, f, f.linear
        self.W = f.rows()
        self.sparse = scipy.sparse.issparse(self.W)
        self.trial = np.empty(self.W.shape[1])
        self.n_values = 0
        self.clear()
        self.compiled, self.counted = compiled_for(self.W, _gain_above, (self.W, 0, self.cover))

    def clear(self) -> None:
        self.value = 0.0
        self.cover = np.zeros(self.W.shape[1])
        self.is_empty = True

    def gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        self.n_values += len(items)
        if self.is_empty and len(items) == self.n:
            return self.linear + np.asarray(self.W.sum(axis=1)).ravel()
        with self.counted():
            return np.fromiter(map(self._gain, items), np.float64, len(items))

    def _gain(self, item):
        if self.sparse:
            columns, weights = sparse_row(self.W, item)
            return self.linear[item] + np.maximum(weights - self.cover[columns], 0.0).sum()
        if self.compiled is not None:
            return self.linear[item] + self.compiled(self.W, item, self.cover)
        trial = np.subtract(self.W[item], self.cover, out=self.trial)
        return self.linear[item] + np.maximum(trial, 0.0, out=trial).sum()

    def add(self, item: int, gain: float) -> None:
        self.is_empty = False
        self.value += gain
        if self.sparse:
            columns, weights = sparse_row(self.W, item)
            self.cover[columns] = np.maximum(self.cover[columns], weights)
        else:
            np.maximum(self.cover, self.W[item], out=self.cover)

    def last_gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        return self.f.gradient(np.ones(self.n))[items]


class GradientFunction(SetFunction):
    """F whose gains are the gradient of f at the 0/1 vector."""

    def __init__(self, f: Objective) -> None:
        self.n, self.f, self.n_values = f.n, f, 0
        self.clear()

    def clear(self) -> None:
        self.x = np.zeros(self.n)
        self._evaluate()

    def _evaluate(self):
        self.n_values += 1
        self.value, self.all_gains = self.f.value_and_gradient(self.x)
        require_number(self.value, np.flatnonzero(self.x))

    def gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        return self.all_gains[items]

    def add(self, item: int, gain: float) -> None:
        self.x[item] = 1.0
        self._evaluate()

    def last_gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        return self.f.gradient(np.ones(self.n))[items]


class DeterminantFunction(SetFunction):
    """F(S) = log det L_SS: the Cholesky rows of the items so far, and the squared gains of all."""

    def __init__(self, f: Softmax) -> None:
        self.kernel, self.n, self.n_values = as_item_kernel(f), f.n, 0
        self.floor = gain_floor(self.kernel.diagonal, NEARLY_SINGULAR)
        self.clear()

    def clear(self) -> None:
        self.value, self.C = 0.0, np.zeros((0, self.n))
        self.squared = self.kernel.diagonal.copy()

    def gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        self.n_values += len(items)
        squared, floor = self.squared[items], self.floor[items]
        with np.errstate(divide="ignore"):
            return np.log(np.where(squared > floor, squared, 0.0))

    def add(self, item: int, gain: float) -> None:
        self.value += gain
        if self.squared[item] > self.floor[item]:
            row = self.kernel.row(int(item), self.kernel.part(None)) - self.C[:, item] @ self.C
            row /= np.sqrt(self.squared[item])
            self.C = np.vstack([self.C, row])
            self.squared = self.squared - row * row


class OracleFunction(SetFunction):
    """F by a Python function of a sorted list of items; ``lowest``: what else than a finite number it may be."""

    def __init__(self, function: Callable[[list[int]], float], n: int, lowest: float = 0.0) -> None:
        self.function, self.n, self.lowest, self.n_values = function, n, lowest, 0
        self.clear()

    def clear(self) -> None:
        self.items: list[int] = []
        self.value = self._value_of([])

    def _value_of(self, items):
        self.n_values += 1
        value = float(self.function(items))
        if value != self.lowest:
            require_number(value, items)
        return value

    def gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([_gain(self._value_of(sorted([*self.items, int(item)])), self.value) for item in items])

    def add(self, item: int, gain: float) -> None:
        self.items = sorted([*self.items, int(item)])
        self.value += gain

    def last_gains(self, items: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        everything = list(range(self.n))
        whole = self._value_of(everything)
        return np.array([_gain(whole, self._value_of([j for j in everything if j != i])) for i in items])


def _gain(value, before):
    """What an item adds; -inf where F is -inf with it, without it or not."""
    return value - before if value > -np.inf else -np.inf


def require_number(value: float, items: Sequence[int] | NDArray[np.int64]) -> None:
    """Raise ValueError where the value of a set is NaN or infinite."""
    if not np.isfinite(value):
        shown = ", ".join(str(int(i)) for i in items[:8]) + (", .." if len(items) > 8 else "")
        raise ValueError(f"F([{shown}]) = {value} is not finite: give a finite value for every set of allowed items")


def as_set_function(F: Objective | Callable[[list[int]], float], n: int | None = None) -> SetFunction:
    """The `SetFunction` of an objective, or of a function of a list of items (then with their number n).

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(F, MaximaExtension):
        return MaximaFunction(F)
    if isinstance(F, SampledExtension):
        return OracleFunction(F.function, F.n)
    if isinstance(F, Multilinear):
        return GradientFunction(F)
    if isinstance(F, Softmax) and F.unit_box:
        return DeterminantFunction(F)
    if isinstance(F, Objective):
        return OracleFunction(lambda items: F.value(indicator(items, F.n)), F.n, lowest=-np.inf)
    if callable(F):
        if n is None:
            raise TypeError("a function of a list of items needs a set, P, that says how many items there are")
        return OracleFunction(F, as_count(n, "n", lower=1))
    raise TypeError(f"F must be an objective or a function of a list of items, got {type(F).__name__}")


def indicator(items: Sequence[int] | NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """The 0/1 vector of a set."""
    x = np.zeros(n)
    x[np.asarray(items, dtype=np.int64)] = 1.0
    return x
