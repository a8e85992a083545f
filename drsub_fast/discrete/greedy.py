"""MAP inference for determinantal point processes by greedy choice and by enumeration: the discrete baselines.

Both maximise log det L_SS over the sets of a bipartite family (`drsub_fast.discrete.bipartite`). With the Cholesky
factor of L_SS, the gain of item i is log d_i^2, where

    d_i^2 = L_ii - |c_i|^2,  c_i the solution of chol(L_SS) c_i = L_S,i,

and choosing j appends e_i = (L_ji - <c_j, c_i>) / d_j to c_i and takes e_i^2 off d_i^2: O(n k) for the k-th item,
O(n k^2) in all (Chen, Zhang, Zhou, Fast greedy MAP inference for determinantal point process, NIPS 2018). From
features B with L = B B' a row of L costs O(n r), and L is never formed.

Rounding leaves d_i^2 of a dependent item at plus or minus a few eps L_ii, so an item counts as dependent, and is
never chosen, once d_i^2 falls below 1e-10 of the largest L_ii: a greedy choice stops at the rank of L and says so.
"""

from dataclasses import dataclass

import numpy as np

from drsub_fast._checks import as_array, as_symmetric
from drsub_fast.discrete.bipartite import as_bipartite
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import add_scaled, assign, dot
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.budget import Budget

#: Squared gains below this part of the largest diagonal entry belong to dependent items.
_DEPENDENT = 1e-10
#: A squared gain below minus this part of the largest one is no rounding.
_INDEFINITE = 1e-8

#: Why a greedy choice ended.
_FULL, _NO_GAIN, _RANK = 0, 1, 2

_MESSAGES = {
    _FULL: "no further item fits the constraint",
    _NO_GAIN: "no fitting item raises the determinant; full=True goes on",
    _RANK: "every fitting item is linearly dependent on the chosen ones: the rank of the kernel is exhausted",
}


@kernel
def _kernel_row(L, B, j, out):
    """out = L_j, from L or, where that is empty, from its factor B."""
    if L.shape[0] > 0:
        assign(out, L[j])
    else:
        for i in range(out.size):
            out[i] = dot(B[j], B[i])


@kernel
def _append(L, B, j, t, C, gains, out):
    """Row t of the coefficients, after item j is chosen, and the squared gains that are left, into out."""
    row = C[t]
    _kernel_row(L, B, j, row)
    for s in range(t):
        add_scaled(row, -C[s, j], C[s])
    pivot = np.sqrt(gains[j])
    for i in range(row.size):
        row[i] /= pivot
        out[i] = gains[i] - row[i] * row[i]


@kernel(memory=True)
def _greedy(L, B, left, right, room, open_items, least, dependent, squared, C, items):
    """Fills ``items`` and ``squared[items]`` (frozen squared gains); returns (number of items, reason)."""
    n = squared.size
    trial = np.empty(n)
    count = 0
    while True:
        best = -1
        fits = False
        for i in range(n):
            if open_items[i] and room[left[i]] > 0 and room[right[i]] > 0:
                fits = True
                if squared[i] > dependent and (best < 0 or squared[i] > squared[best]):
                    best = i
        if not fits:
            return count, _FULL
        if best < 0 or count == C.shape[0]:
            return count, _RANK
        if squared[best] <= least:
            return count, _NO_GAIN
        items[count] = best
        open_items[best] = False
        room[left[best]] -= 1
        room[right[best]] -= 1
        _append(L, B, best, count, C, squared, trial)
        for i in range(n):
            if open_items[i]:
                squared[i] = trial[i]
        count += 1


@kernel(memory=True)
def _enumerate(L, B, left, right, room, open_items, dependent, squared, C, items):
    """Depth-first over all independent sets of the family; ``squared`` (k + 1, n) and C (k, n) hold one row a level.

    Returns (size, log det) of the best set and writes it into ``items[1]``; ``items[0]`` is the stack.
    """
    n = squared.shape[1]
    stack, best = items[0], items[1]
    value = np.zeros(n + 1)
    depth, best_size, best_value = 0, 0, 0.0
    j = 0
    while True:
        while j < n and not (
            open_items[j] and room[left[j]] > 0 and room[right[j]] > 0 and squared[depth, j] > dependent
        ):
            j += 1
        if j < n:
            stack[depth] = j
            room[left[j]] -= 1
            room[right[j]] -= 1
            value[depth + 1] = value[depth] + np.log(squared[depth, j])
            _append(L, B, j, depth, C, squared[depth], squared[depth + 1])
            depth += 1
            if value[depth] > best_value:
                best_value, best_size = value[depth], depth
                for t in range(depth):
                    best[t] = stack[t]
            j += 1
        elif depth == 0:
            return best_size, best_value
        else:
            depth -= 1
            j = stack[depth]
            room[left[j]] += 1
            room[right[j]] += 1
            j += 1


@dataclass(frozen=True)
class MapResult:
    """A set found by `greedy_map` or `exact_map`.

    Attributes
    ----------
    items : ndarray of int
        The items, in the order of choice (greedy) or increasing (exact).
    value : float
        log det of the kernel's block of these items; 0 for no item.
    gains : ndarray
        What each item added to the value when it joined.
    message : str
        Why the choice ended.
    """

    items: np.ndarray
    value: float
    gains: np.ndarray
    message: str


def _as_kernel(L, features):
    """(L, B, diagonal): one of L and B is empty."""
    if (L is None) == (features is None):
        raise TypeError("give either L or features")
    if L is None:
        B = as_array(features, "features", 2)
        return np.empty((0, 0)), B, (B * B).sum(axis=1)
    L = as_symmetric(L, "L")
    diagonal = L.diagonal().copy()
    if diagonal.min() < 0.0:
        i = int(diagonal.argmin())
        raise ValueError(f"L[{i}, {i}] = {diagonal[i]:g} is negative: L is not positive semidefinite")
    return L, np.empty((0, 0)), diagonal


def _as_family(constraint, n):
    """The `BipartiteFamily` of a constraint: a set, or a number of items."""
    P = constraint if isinstance(constraint, FeasibleSet) else Budget(constraint, np.ones(n))
    if P.n != n:
        raise ValueError(f"the kernel has {n} items, the constraint {P.n}")
    return as_bipartite(P)


def _most_items(family):
    """A bound on the number of items of a set of the family."""
    bounds = [
        np.minimum(np.bincount(side, family.allowed, family.capacity.size), family.capacity).sum()
        for side in (family.left, family.right)
    ]
    return int(min(bounds))


def greedy_map(L=None, constraint=None, *, features=None, full=False):
    """Greedy MAP inference: add the item that raises log det L_SS most.

    Parameters
    ----------
    L : array_like, shape (n, n), optional
        Kernel: symmetric, positive semidefinite.
    constraint : int, Box, Budget, PartitionMatroid or MatchingPolytope
        A number of items at most, or the set whose 0/1 points are allowed.
    features : array_like, shape (n, r), optional
        B with L = B B', instead of L.
    full : bool, default False
        Go on while items fit, also where they lower the determinant.

    Returns
    -------
    MapResult
        Its message says why the choice ended; fewer items than allowed is no error.

    Raises
    ------
    TypeError
        If not exactly one of ``L`` and ``features`` is given.
    ValueError
        For an asymmetric L, one that the choice shows to be indefinite, or sizes that differ.
    UnsupportedError
        For another kind of set.

    Notes
    -----
    Chen, Zhang, Zhou 2018. O(n k^2) time and O(n k) memory for k chosen items, and O(n r) for each with features. That
    L is positive semidefinite is checked no further than the choice shows it.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> L = [[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]
    >>> r = ds.greedy_map(L, 2)
    >>> r.items, round(r.value, 3)
    (array([0, 2]), 2.079)
    """
    L, B, squared = _as_kernel(L, features)
    n = squared.size
    family = _as_family(constraint, n)
    most = _most_items(family) if B.shape[0] == 0 else min(_most_items(family), B.shape[1])
    items = np.empty(n, dtype=np.int64)
    dependent = _DEPENDENT * squared.max()
    count, reason = _greedy(
        L, B, family.left, family.right, family.capacity.copy(), family.allowed.copy(), -1.0 if full else 1.0,
        dependent, squared, np.empty((most, n)), items,
    )  # fmt: skip
    if squared.min() < -_INDEFINITE * squared.max():
        i = int(squared.argmin())
        raise ValueError(f"L is not positive semidefinite: the squared gain of item {i} fell to {squared[i]:g}")
    items = items[:count].copy()
    gains = np.log(squared[items])
    return MapResult(items, float(gains.sum()), gains, _MESSAGES[reason])


def exact_map(L=None, constraint=None, *, features=None):
    """The set of largest log det L_SS, by enumeration of all feasible sets of at most 20 items.

    Parameters
    ----------
    L, constraint, features
        As for `greedy_map`; at most 20 items.

    Returns
    -------
    MapResult
        The empty set, of value 0, where no determinant is above 1.

    Raises
    ------
    ValueError
        For more than 20 items, and as `greedy_map`.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.exact_map([[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 2.0]], 2).items
    array([0, 2])
    """
    L, B, squared = _as_kernel(L, features)
    n = squared.size
    if n > 20:
        raise ValueError(f"{n} items have 2^{n} subsets; exact_map takes at most 20")
    family = _as_family(constraint, n)
    most = _most_items(family)
    levels, items = np.empty((most + 1, n)), np.empty((2, n), dtype=np.int64)
    levels[0] = squared
    size, value = _enumerate(
        L, B, family.left, family.right, family.capacity.copy(), family.allowed, _DEPENDENT * squared.max(),
        levels, np.empty((most, n)), items,
    )  # fmt: skip
    chosen = items[1, :size].copy()
    block = L[np.ix_(chosen, chosen)] if B.shape[0] == 0 else B[chosen] @ B[chosen].T
    gains = 2.0 * np.log(np.linalg.cholesky(block).diagonal())
    return MapResult(chosen, float(value), gains, "all feasible sets were compared")
