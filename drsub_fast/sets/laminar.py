"""Laminar matroid polytope {x : 0 <= x <= upper, sum_{j in S} x_j <= c_S for every S of a nested family}.

Any two sets of the family are disjoint, or one holds the other: at most 3 of a product, 5 of its category, 20 in all.
One set is a budget, disjoint ones are a partition matroid. With integer capacities and bounds the vertices are
integral.

The family is a forest, the sets numbered so that what a set holds comes right after it, and so are the items.

Oracle: the set is a polymatroid, so the greedy rule is exact (Edmonds 1970): items by falling d_j > 0, each raised as
far as its bound and the sets around it allow.

Projection: x_j = clip(y_j - s_j, 0, u_j), s_j being the sum of the multipliers t_S >= 0 of the sets around j. With the
shift s of the sets outside S, its load is min(c_S, F_S(s)), F_S(s) = sum over the sets right inside of their load + sum
over its own items of clip(y_j - s, 0, u_j), which falls in s. From the outermost sets inwards, t_S is the least number
with F_S(s + t_S) <= c_S, found by bisection. Where y is so far away that F_S jumps between two neighbouring doubles, a
second number is added to s: y_j - s is exact for the items that count.
"""

from collections import namedtuple
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import (
    Matrix,
    MatrixLike,
    as_array,
    as_items,
    as_number_or_vector,
    as_numbers,
    as_sparse,
    as_vector,
    described,
    require_at_least,
)
from drsub_fast._kinds import SETS, array, register_kind
from drsub_fast.engine.codes import OK
from drsub_fast.engine.heap import heapify, pop
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.sets.base import register_set
from drsub_fast.sets.polytope import Polytope

#: ``items`` in the order of the forest; set s holds ``items[first[s]:last[s]]`` and the sets s + 1 .. ``end[s]`` - 1;
#: ``inner[j]`` is the smallest set around item j and ``parent[s]`` that around set s, -1 for none.
LaminarParams = namedtuple("LaminarParams", "items first last end inner parent capacity")
LaminarWork = namedtuple("LaminarWork", "key residual load shift more heap")

#: Halvings of the search for a multiplier: down to the spacing of doubles.
_BISECTIONS = 100
#: Part of a capacity that may stay unused by rounding.
_SLACK = 1e-12


@kernel
def _size(params):
    return params.items.size + 4 * params.capacity.size, params.items.size


@kernel(memory=True)
def _carve(params, floats, integers):
    n, m = params.items.size, params.capacity.size
    key, residual, load, shift, more = split(floats, n, m, m, m, m)
    return LaminarWork(key, residual, load, shift, more, integers)


@kernel
def _lmo(params, work, direction, upper, v):
    key, residual, heap = work.key, work.residual, work.heap
    count = 0
    for j in range(direction.size):
        v[j] = 0.0
        if direction[j] > 0.0 and upper[j] > 0.0:
            key[j] = -direction[j]
            heap[count] = j
            count += 1
    for s in range(residual.size):
        residual[s] = params.capacity[s]
    heapify(heap, count, key)
    while count > 0:
        j = heap[0]
        pop(heap, count, key)
        count -= 1
        raised = upper[j]
        s = params.inner[j]
        while s >= 0:
            raised = min(raised, residual[s])
            s = params.parent[s]
        v[j] = raised
        s = params.inner[j]
        while s >= 0:
            residual[s] -= raised
            s = params.parent[s]
    return OK


@kernel
def _load_of(params, work, s, y, upper, shift, more):
    """F_s(shift + more) of the module."""
    load = work.load
    for inside in range(s, params.end[s]):
        load[inside] = 0.0
    for i in range(params.first[s], params.last[s]):
        j = params.items[i]
        load[params.inner[j]] += min(max(y[j] - shift - more, 0.0), upper[j])
    for inside in range(params.end[s] - 1, s, -1):
        load[params.parent[inside]] += min(load[inside], params.capacity[inside])
    return load[s]


@kernel
def _shift_of(params, work, s, y, upper, shift, more):
    """(shift, more): the sum of these is that of the items right inside a set, given that of the sets around it."""
    capacity = params.capacity[s]
    if _load_of(params, work, s, y, upper, shift, more) <= capacity:
        return shift, more
    low = high = shift
    for i in range(params.first[s], params.last[s]):
        high = max(high, y[params.items[i]])
    for _ in range(_BISECTIONS):
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            break
        if _load_of(params, work, s, y, upper, middle, 0.0) <= capacity:
            high = middle
        else:
            low = middle
    if _load_of(params, work, s, y, upper, high, 0.0) >= capacity * (1.0 - _SLACK):
        return high, 0.0
    least, most = more if low == shift else 0.0, high - low
    for _ in range(_BISECTIONS):
        middle = least + 0.5 * (most - least)
        if not least < middle < most:
            break
        if _load_of(params, work, s, y, upper, low, middle) <= capacity:
            most = middle
        else:
            least = middle
    return low, most


@kernel
def _project(params, work, y, upper, out):
    shift, more = work.shift, work.more
    for s in range(params.capacity.size):
        around = params.parent[s]
        first, second = (shift[around], more[around]) if around >= 0 else (0.0, 0.0)
        shift[s], more[s] = _shift_of(params, work, s, y, upper, first, second)
    for j in range(y.size):
        s = params.inner[j]
        first, second = (shift[s], more[s]) if s >= 0 else (0.0, 0.0)
        out[j] = min(max(y[j] - first - second, 0.0), upper[j])
    return OK


register_set(LaminarParams, set_size=_size, set_carve=_carve, lmo=_lmo, project=_project)


class LaminarMatroid(Polytope):
    """Laminar matroid polytope {x : 0 <= x <= upper, sum_{j in S_i} x_j <= capacities_i} of nested sets S_i.

    Parameters
    ----------
    sets : sequence of iterables of int, or matrix of shape (m, n)
        The items of every set, or a matrix (an array with two axes, or sparse) that is 1 where set i holds item j.
    capacities : array_like, shape (m,)
        Capacity of each set, at least 0.
    upper : array_like, shape (n,), or float, default 1
        Upper bounds; a number serves all items of a matrix. With sets of items the array says how many items there are,
        else the largest item does.

    Raises
    ------
    ValueError
        For two sets that overlap without one holding the other, an empty set, an entry of the matrix other than 0 and
        1, a negative capacity or bound, or sizes that do not match.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.LaminarMatroid([[0, 1, 2, 3, 4], [0, 1, 2], [0, 1]], [3, 2, 1])
    >>> P.lmo([5.0, 4.0, 3.0, 2.0, 1.0])
    array([1., 0., 1., 1., 0.])
    >>> P.project([1.0, 1.0, 0.0, 0.0, 0.0])
    array([0.5, 0.5, 0. , 0. , 0. ])
    """

    sets: Matrix
    capacities: NDArray[np.float64]

    def __init__(
        self, sets: Iterable[Iterable[int]] | MatrixLike, capacities: ArrayLike, upper: ArrayLike = 1.0
    ) -> None:
        shape = as_numbers(upper, "upper").shape
        A = _membership(sets, shape[0] if len(shape) == 1 else None)
        capacities = as_vector(capacities, "capacities", n=A.shape[0])
        require_at_least(capacities, 0.0, "capacities", ": the set is empty")
        super().__init__(A, capacities, as_number_or_vector(upper, "upper", A.shape[1], lower=0.0))
        self.sets, self.capacities = A, capacities
        self._upper = self._scale_from
        self._forest = _forest(A, capacities)

    def __repr__(self) -> str:
        return f"LaminarMatroid(sets={self.m}, n={self.n})"

    def params(self, lmo: str = "auto") -> tuple[Any, ...]:
        return super().params(lmo) if lmo == "highs" else self._forest

    def load_basis(self, solver: HighsOracle, params: tuple[Any, ...], work: tuple[Any, ...]) -> None:
        """Nothing: the oracle needs no start."""

    def violation(self, x: NDArray[np.float64]) -> str:
        """Words for the set that x overloads most."""
        load = self.A @ x
        s = int(((load - self.capacities) / np.maximum(self.capacities, 1e-300)).argmax())
        return f"the load {load[s]:g} of set {s} is above its capacity {self.capacities[s]:g}"


def _membership(sets, n):
    """Sparse matrix of shape (m, n), 1 where a set holds an item; without n the largest item says how many."""
    if scipy.sparse.issparse(sets) or (isinstance(sets, np.ndarray) and sets.ndim == 2):
        matrix = as_sparse(sets, "sets") if scipy.sparse.issparse(sets) else as_array(sets, "sets", 2)
        matrix = scipy.sparse.csc_matrix(matrix)
        matrix.eliminate_zeros()
        if matrix.nnz and not (matrix.data == 1.0).all():
            raise ValueError("sets, as a matrix, has an entry other than 0 and 1")
        return matrix
    if not isinstance(sets, Iterable) or isinstance(sets, (str, bytes, Mapping)):
        raise TypeError(f"sets must be a sequence of iterables of items, or a matrix, got {described(sets)}")
    sets = [np.unique(as_items(items, n, f"sets[{i}]")) for i, items in enumerate(sets)]
    rows = np.repeat(np.arange(len(sets)), [len(items) for items in sets])
    columns = np.concatenate([np.zeros(0, np.int64), *sets])
    shape = len(sets), columns.max(initial=0) + 1 if n is None else n
    return scipy.sparse.csc_matrix((np.ones(rows.size), (rows, columns)), shape=shape)


def _forest(A, capacities):
    """The `LaminarParams` of a membership matrix; ValueError where two sets cross."""
    members = scipy.sparse.csr_array(A)
    m, n = A.shape
    sizes = np.diff(members.indptr)
    if m and not sizes.all():
        raise ValueError(f"sets[{int(sizes.argmin())}] is empty")
    inner, around = np.full(n, -1), np.full(m, -1)
    for s in np.argsort(-sizes, kind="stable"):
        own = members.indices[members.indptr[s] : members.indptr[s + 1]]
        parents = np.unique(inner[own])
        if parents.size > 1:
            raise ValueError(
                f"sets[{int(parents[-1])}] and sets[{s}] overlap and neither holds the other: the family is not nested"
            )
        around[s] = parents[0]
        inner[own] = s
    inside: list[list[int]] = [[] for _ in range(m + 1)]
    for s in range(m):
        inside[around[s]].append(s)
    order: list[int] = []
    number, end = np.full(m + 1, -1), np.zeros(m, np.int64)
    stack = [(s, False) for s in reversed(inside[-1])]
    while stack:
        s, done = stack.pop()
        if done:
            end[number[s]] = len(order)
            continue
        number[s] = len(order)
        order.append(s)
        stack += [(s, True), *((child, False) for child in reversed(inside[s]))]
    number[-1] = -1
    inner = number[inner]
    items = np.argsort(np.where(inner < 0, m, inner), kind="stable")
    bounds = np.searchsorted(np.where(inner < 0, m, inner)[items], np.arange(m + 1))
    return LaminarParams(
        items.astype(np.int64), bounds[:m].astype(np.int64), bounds[end].astype(np.int64), end, inner.astype(np.int64),
        number[around[order]].astype(np.int64), capacities[order],
    )  # fmt: skip


register_kind(
    SETS, "laminar-matroid", LaminarMatroid, sets=array("m n", may_be_sparse=True), capacities=array("m"),
    upper=array("n", may_be_number=True), shares=("sets",), about="nested budgets",
    example=lambda n: {"sets": np.array([np.ones(n), np.arange(n) < 2]) * 1.0, "capacities": np.array([1.5, 1.0])},
)  # fmt: skip
