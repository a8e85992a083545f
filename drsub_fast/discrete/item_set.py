"""What a choice of items returns: the items, what each is worth, and how good the set can still be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast._records import Record
from drsub_fast.claims.gate import least_bound
from drsub_fast.discrete.dependence import SINGULAR, TINY, gain_floor
from drsub_fast.objectives.similarity import ItemKernel
from drsub_fast.result import Certificate


@dataclass(frozen=True, eq=False)
class MapResult(Record):
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
        What is proved of every set that was allowed; `bound` reads it.
    bound : float
        Proven upper bound on the value of every set that was allowed: of that size where ``size`` was given. It is
        computed when it is first read.
    message : str
        Why the choice ended, and whether it has fewer items than allowed.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> s = ds.greedy_map([[2.0, 0.0], [0.0, 3.0]], size=2)
    >>> s.items.tolist(), round(s.value, 4), s.value <= s.bound
    ([1, 0], 1.7918, True)
    """

    items: NDArray[np.int64]
    value: float
    gains: NDArray[np.float64]
    order: NDArray[np.int64]
    certificate: Certificate
    message: str

    @property
    def bound(self) -> float:
        """The proven upper bound."""
        return least_bound(self.value, self.certificate.read())

    @property
    def ratio(self) -> float:
        """The determinant of these items over the largest that the bound allows, exp(value - bound), in [0, 1]."""
        return float(np.exp(self.value - self.bound)) if self.value > -np.inf else 0.0

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Columns by name, one entry an item in the order of choice: item, gain, and the value so far.

        ``pandas.DataFrame(result.table)`` shows it.
        """
        return {"item": self.order, "gain": self.gains, "value": np.cumsum(self.gains)}

    def __str__(self) -> str:
        lines = [f"{'item':>8}{'gain':>14}{'log det':>14}"]
        rows = zip(*self.table.values(), strict=True)
        lines += [f"{item:8}{gain:14.6g}{value:14.6g}" for item, gain, value in rows]
        lines.append(f"{self.items.size} items, log det {self.value:.6g}, bound {self.certificate}: {self.message}")
        return "\n".join(lines)


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
