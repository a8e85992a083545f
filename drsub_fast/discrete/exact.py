"""The best set of items of a small kernel, by branch and bound.

A node is a set; its children add one more of the items that come after in the order of the squared gains d_j^2 there,
the largest first. log det is submodular, so no set below the children from j on is worth more than the node and the r
largest log d_i^2 among those, r being how many items may still join. Depth first, from the set that greedy choice and
swaps found.
"""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast.discrete.bounds import log_det_bound
from drsub_fast.discrete.dependence import SINGULAR, gain_floor
from drsub_fast.discrete.greedy import as_item_kernel, choose, described
from drsub_fast.discrete.item_set import MapResult, log_det
from drsub_fast.discrete.packing import Packing, as_packing
from drsub_fast.discrete.swaps import improve_by_moves
from drsub_fast.engine.clock import OutOfTime, require_time
from drsub_fast.objectives.similarity import ItemKernel, Similarity
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.result import Certificate
from drsub_fast.sets.base import FeasibleSet

#: Most items: their 2^24 sets would take minutes where no bound cuts any off.
MOST_ITEMS = 24
#: A set must be better than the best known by this much, relatively.
_BETTER = 1e-12


def exact_map(
    L: ArrayLike | Softmax | None = None,
    constraint: int | FeasibleSet | None = None,
    *,
    features: ArrayLike | None = None,
    quality: ArrayLike | None = None,
    size: int | None = None,
    similarity: Similarity = "cosine",
    gamma: float | None = None,
) -> MapResult:
    """The set of largest log det L_SS among all that are allowed, by branch and bound, of at most 24 items.

    Parameters
    ----------
    L, constraint, features, quality, size, similarity, gamma
        As for `greedy_map`.

    Returns
    -------
    MapResult
        Without a ``size`` the empty set, of value 0, where no determinant is above 1. Its bound is its value.

    Raises
    ------
    ValueError
        For more than 24 items, and as `greedy_map`.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.exact_map([[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 2.0]], 2).items
    array([0, 2])
    """
    kernel = as_item_kernel(L, features, quality, similarity, gamma)
    if kernel.n > MOST_ITEMS:
        raise ValueError(
            f"{kernel.n} items have 2^{kernel.n} subsets; exact_map takes at most {MOST_ITEMS}, map_dpp proves a bound"
        )
    return exact_set(kernel, as_packing(constraint, kernel.n, size), size)


def exact_set(kernel: ItemKernel, family: Packing, size: int | None) -> MapResult:
    """`exact_map` for arguments that are checked."""
    try:
        start = improve_by_moves(kernel, family, choose(kernel, family, size)[0], size)
    except ValueError:
        if size is None:
            raise
        start = None  # no set of that size was found so far
    items, ended = _best_set(kernel, family, size, start)
    if ended:
        message = "no other feasible set is better: branch and bound looked at them all"
        certificate = Certificate(log_det(kernel, items))
    else:
        message = "the best set met: the time limit ended the search"
        certificate = Certificate(np.inf, partial(log_det_bound, kernel, family, size, items))
    return MapResult(items=items, order=items, **described(kernel, family, items, size, message, certificate))


def _best_set(kernel, family, size, start):
    """(the best set of at most ``family.most`` items or, with a ``size``, of exactly that many; whether it is proved).

    ``start`` is a set of the family, of the size if there is one, or None. Every set of a size is worth -inf where the
    start is and nothing better is found. The time of the thread ends the search.
    """
    n, floor = kernel.n, gain_floor(kernel.diagonal, SINGULAR)
    L = kernel.block(np.arange(n), np.arange(n))
    most = family.most if size is None else size
    best = None if start is None else np.sort(start)
    best_value = -np.inf if start is None else log_det(kernel, start)
    if size is None and best_value < 0.0:
        best, best_value = np.empty(0, np.int64), 0.0

    def least():
        """What a set must be worth more than."""
        return best_value + _BETTER * (1.0 + abs(best_value)) if best_value > -np.inf else -np.inf

    def visit(chosen, value, squared, C, candidates, load):
        nonlocal best, best_value
        require_time()
        depth = len(chosen)
        if (size is None or depth == size) and value > least():
            best, best_value = np.sort(chosen), value
        left = most - depth
        if left == 0:
            return
        candidates = candidates[(squared[candidates] > floor[candidates]) & family.fit(load, candidates)]
        candidates = candidates[np.argsort(-squared[candidates], kind="stable")]
        gains = np.log(squared[candidates])
        sums = np.concatenate([[0.0], np.cumsum(gains if size is not None else np.maximum(gains, 0.0))])
        for place, j in enumerate(candidates):
            end = place + left
            if size is not None and end > candidates.size:
                return
            if value + sums[min(end, candidates.size)] - sums[place] <= least():
                return
            row = (L[j] - C[:depth, j] @ C[:depth]) / np.sqrt(squared[j])
            C[depth] = row
            below = load.copy()
            family.add(below, j)
            visit([*chosen, j], value + gains[place], squared - row * row, C, candidates[place + 1 :], below)

    ended = True
    try:
        visit([], 0.0, kernel.diagonal, np.zeros((most, n)), np.flatnonzero(family.allowed), family.no_load())
    except OutOfTime:
        ended = False
    return (family.some(size) if best is None else best), ended
