"""What a choice of items returns: the items, what each is worth, and how good the set can still be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast._records import Record, as_text
from drsub_fast.claims.gate import least_bound
from drsub_fast.discrete.dependence import SINGULAR, TINY, gain_floor
from drsub_fast.objectives.similarity import ItemKernel
from drsub_fast.result import Certificate

#: What is said where ``size`` is met.
AS_MANY = "as many items as size asks for"

#: Items that a printed choice shows.
_SHOWN = 10


class ItemChoice(Record):
    """What all results of choosing items have: a proven bound, and how they are printed."""

    items: NDArray[np.int64]
    value: float
    certificate: Certificate
    message: str
    _label = "value"

    @property
    def upper_bound(self) -> float:
        """Proven upper bound on the value of every set that was allowed; computed when it is first read."""
        return least_bound(self.value, self.certificate.read())

    @property
    def bound(self) -> float:
        """The same as `upper_bound`, an older name of it."""
        return self.upper_bound

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Columns by name, one entry an item."""
        return {"item": self.items}

    def __str__(self) -> str:
        rows = {self._label: f"{self.value:.6g}", "upper bound": str(self.certificate), "items": str(self.items.size)}
        columns = {self._label if name == "value" else name: column for name, column in self.table.items()}
        if len(columns) == 1:
            rows["items"] += f": {', '.join(map(str, self.items[: 2 * _SHOWN]))}" + ", .." * (
                self.items.size > 2 * _SHOWN
            )
            return as_text(self.message, rows)
        lines = ["".join(f"{name:>14}" for name in columns)]
        lines += ["".join(f"{entry:14.6g}" for entry in row) for row in zip(*columns.values(), strict=True)][:_SHOWN]
        lines += [f"{'..':>14}"] * (self.items.size > _SHOWN)
        return "\n".join([as_text(self.message, rows), *lines])


@dataclass(frozen=True, eq=False)
class MapResult(ItemChoice):
    """A set of items with a large determinant.

    Attributes
    ----------
    items : ndarray of int
        The items, each once: in the order of choice from `greedy_map`, increasing from `exact_map` and `map_dpp`.
    value : float
        log det of the kernel's block of these items; 0 for no item, -inf for dependent ones.
    gains : ndarray
        What each item added to the value when it joined, in the order of ``order``.
    order : ndarray of int
        The items in the order of choice.
    certificate : Certificate
        What is proved of every set that was allowed; `upper_bound` reads it.
    upper_bound : float
        Proven upper bound on the value of every set that was allowed: of that size where ``size`` was given. It is
        computed when it is first read. ``bound`` is an older name of it.
    message : str
        Why the choice ended, and whether it has fewer items than allowed.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> s = ds.greedy_map([[2.0, 0.0], [0.0, 3.0]], size=2)
    >>> s.items.tolist(), round(s.value, 4), s.value <= s.upper_bound
    ([1, 0], 1.7918, True)
    """

    items: NDArray[np.int64]
    value: float
    gains: NDArray[np.float64]
    order: NDArray[np.int64]
    certificate: Certificate
    message: str

    _label = "log det"

    @property
    def ratio(self) -> float:
        """The determinant of these items over the largest that the bound allows, exp(value - upper_bound)."""
        return float(np.exp(self.value - self.upper_bound)) if self.value > -np.inf else 0.0

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Columns by name, one entry an item in the order of choice: item, gain, and the value so far.

        ``pandas.DataFrame(result.table)`` shows it.
        """
        return {"item": self.order, "gain": self.gains, "value": np.cumsum(self.gains)}


#: Pivots below this part of L_ii may be rounding.
_DOUBTFUL = 1e-6


def log_det(kernel: ItemKernel, items: NDArray[np.int64]) -> float:
    """log det of the kernel's block of some items; 0 for none, -inf for a singular block."""
    return float(gains_in_order(kernel, items).sum())


def gains_in_order(kernel: ItemKernel, items: NDArray[np.int64]) -> NDArray[np.float64]:
    """What each item adds to log det when it joins those before it; -inf where it is dependent on them."""
    block = kernel.block(items, items)
    try:
        pivots = np.linalg.cholesky(block).diagonal() ** 2
    except np.linalg.LinAlgError:
        pivots = _eliminated(block)[1]
    least = gain_floor(block.diagonal(), SINGULAR)
    if (pivots <= _DOUBTFUL * block.diagonal()).any():
        # Rounding is small beside pivots in the order of the gains only: where one of them is none, the least is none.
        order, by_gain_pivots = _eliminated(block, by_gain=True)
        if (by_gain_pivots <= least[order]).any():
            pivots[np.argmin(pivots / block.diagonal().clip(TINY))] = 0.0
    with np.errstate(divide="ignore"):
        return np.log(np.where(pivots > least, pivots, 0.0))


def by_gain(kernel: ItemKernel, items: NDArray[np.int64]) -> NDArray[np.int64]:
    """The items of a set in the order of a greedy choice among them."""
    return items[_eliminated(kernel.block(items, items), by_gain=True)[0]]


def _eliminated(block, by_gain=False):
    """(order, squared pivots) of a Cholesky factorisation that goes on past dependent rows.

    Rows are taken as they are, or the one of the largest pivot first.
    """
    squared, C = block.diagonal().copy(), np.zeros_like(block)
    order, least = np.arange(len(block)), gain_floor(squared, SINGULAR)
    pivots, left = np.zeros(len(block)), np.ones(len(block), bool)
    for t in range(len(block)):
        j = order[t] = int(np.where(left, squared, -np.inf).argmax()) if by_gain else t
        left[j], pivots[t] = False, squared[j]
        if squared[j] > least[j]:
            C[t] = (block[j] - C[:t, j] @ C[:t]) / np.sqrt(squared[j])
            squared -= C[t] ** 2
    return order, pivots
