"""Better sets by single additions, removals and exchanges, for any objective.

Three ways, by what a move costs:

- softmax extensions: `drsub_fast.discrete.swaps`, O(1) a trial;
- extensions by maxima: with the best and the second best weight of every customer among the chosen items, one pass
  over an item's row tells what it is worth in exchange for each of them (as in the local search for k-medoids of
  Schubert and Rousseeuw 2019);
- others: the gradient at the 0/1 vector ranks the candidates (its entries are the gains of a multilinear f), and the
  first of each kind is evaluated.
"""

import numpy as np
import scipy
from numpy.typing import NDArray

from drsub_fast.discrete.greedy import as_item_kernel
from drsub_fast.discrete.item_set import log_det
from drsub_fast.discrete.packing import Packing
from drsub_fast.discrete.set_function import compiled_for, indicator, sparse_row
from drsub_fast.discrete.swaps import improve_by_moves, resized
from drsub_fast.engine.clock import require_time
from drsub_fast.engine.jit import kernel
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.multilinear import MaximaExtension
from drsub_fast.objectives.softmax import Softmax

#: A move must raise the value by this part of 1 + its absolute value.
_BETTER = 1e-10


class Evaluations:
    """f on points, with NaN (a singular kernel) as -inf; counts evaluations."""

    def __init__(self, f: Objective) -> None:
        self.f, self.n_values = f, 0
        self.kernel = as_item_kernel(f) if isinstance(f, Softmax) and f.unit_box else None

    def set_value(self, items: NDArray[np.int64]) -> float:
        """f at the 0/1 vector of a set; -inf for items of a kernel that count as dependent."""
        self.n_values += 1
        if self.kernel is not None:
            return log_det(self.kernel, np.asarray(items, dtype=np.int64))
        if isinstance(self.f, MaximaExtension):
            return self.f.set_value(items)
        return self.value(indicator(items, self.f.n))

    def value_and_gradient(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        require_time()
        self.n_values += 1
        value, grad = self.f.value_and_gradient(x)
        return (-np.inf if np.isnan(value) else value), grad

    def value(self, x: NDArray[np.float64]) -> float:
        return self.value_and_gradient(x)[0]


def improved(
    g: Evaluations, family: Packing, items: NDArray[np.int64], size: int | None = None, exchanges: bool = True
) -> NDArray[np.int64]:
    """A set that no single move betters, of exactly ``size`` items if that is given.

    Parameters
    ----------
    g : Evaluations
    family : Packing
    items : ndarray of int
        A set of the family.
    size : int, optional
    exchanges : bool, default True
        Otherwise the set is only brought to its size.
    """
    kernel = g.kernel
    if kernel is not None:
        if size is not None:
            items = resized(kernel, family, items, size)
        return improve_by_moves(kernel, family, items, size) if exchanges else items
    state = (_Maxima if isinstance(g.f, MaximaExtension) else _ByGradient)(g, family, items)
    if size is not None:
        _resize(state, size)
    if exchanges:
        while (size is None and (state.add() or state.remove())) or state.exchange():
            pass
    return np.array(sorted(state.S), dtype=np.int64)


def _resize(state, size):
    while len(state.S) > size:
        state.remove(forced=True)
    while len(state.S) < size:
        if not state.add(forced=True):
            state.become(state.family.some(size))


@kernel
def _row_changes(W, item, best, second, near, losses, changes):
    """changes[a] = what exchanging the item at place a of the set for ``item`` does to sum_d max W; place of the best.

    Without the item that is best for a customer, the better of the new one and the second best takes its place.
    """
    row = W[item]
    gain = 0.0
    for a in range(losses.size):
        changes[a] = -losses[a]
    for d in range(best.size):
        top, below, new = best[d], second[d], row[d]
        if new > below:
            above = max(new, top)
            gain += above - top
            # The loss of this customer's best item was counted down to the second best, which the new one is above.
            changes[near[d]] += min(new, top) - below
    place = 0
    for a in range(losses.size):
        changes[a] += gain
        if changes[a] > changes[place]:
            place = a
    return place


class _State:
    """A set on its way, with the loads of the family; `add`, `remove` and `exchange` make the best such move.

    They return whether they did: without ``forced`` only if the value rises.
    """

    value: float

    def __init__(self, g, family, items):
        self.g, self.family = g, family
        self.S = list(map(int, items))
        self.load = family.load(self.S)

    def least(self):
        return _BETTER * (1.0 + abs(self.value)) if self.value > -np.inf else 0.0

    def outside(self):
        outside = self.family.allowed.copy()
        outside[self.S] = False
        return np.flatnonzero(outside)

    def fitting(self, load):
        items = self.outside()
        return items if self.family.is_count else items[self.family.fit(load, items)]

    def without(self, item):
        load = self.load.copy()
        self.family.add(load, item, -1.0)
        return load

    def put(self, item):
        self.S.append(int(item))
        self.family.add(self.load, item)

    def renew(self):
        """The value of the set, from scratch."""
        raise NotImplementedError

    def become(self, items):
        self.S = list(map(int, items))
        self.load = self.family.load(self.S)
        self.renew()

    def drop(self, item):
        self.S.remove(int(item))
        self.family.add(self.load, item, -1.0)


class _Maxima(_State):
    """``near``: the place in S of the best item of every customer, ``best`` and ``second`` the two best weights."""

    def __init__(self, g, family, items):
        super().__init__(g, family, items)
        self.W, self.linear = g.f.rows(), g.f.linear
        self.next = 0
        self.renew()
        losses = self.losses()
        arguments = (self.W, 0, self.best, self.second, self.near, losses, np.empty_like(losses))
        self.compiled, self.counted = compiled_for(self.W, _row_changes, arguments)

    def row(self, item):
        if not scipy.sparse.issparse(self.W):
            return self.W[item]
        row = np.zeros(self.W.shape[1])
        columns, weights = sparse_row(self.W, item)
        row[columns] = weights
        return row

    def renew(self):
        D = self.W.shape[1]
        rows = np.zeros((len(self.S) + 2, D))
        for place, item in enumerate(self.S):
            rows[place] = self.row(item)
        self.near = rows.argmax(axis=0)
        every = np.arange(D)
        self.best = rows[self.near, every]
        rows[self.near, every] = -1.0
        self.second = np.maximum(rows.max(axis=0), 0.0)
        self.value = float(self.linear[self.S].sum() + self.best.sum())

    def gain(self, item):
        self.g.n_values += 1
        return self.linear[item] + np.maximum(self.row(item) - self.best, 0.0).sum()

    def add(self, forced=False):
        items = self.fitting(self.load) if len(self.S) < self.family.most else []
        if not len(items):
            return False
        gains = np.array([self.gain(j) for j in items])
        if not (forced or gains.max() > self.least()):
            return False
        self.put(items[int(gains.argmax())])
        self.renew()
        return True

    def losses(self):
        return self.linear[self.S] + np.bincount(self.near, self.best - self.second, len(self.S) + 2)[: len(self.S)]

    def remove(self, forced=False):
        if not self.S:
            return False
        losses = self.losses()
        if not (forced or losses.min() < -self.least()):
            return False
        self.drop(self.S[int(losses.argmin())])
        self.renew()
        return True

    def exchange(self):
        """The best exchange for the first item, from where the last search ended, that has one."""
        items, count = self.outside(), len(self.S)
        if not count:
            return False
        without = None if self.family.is_count else [self.without(i) for i in self.S]
        losses = self.losses()
        self.trial = np.empty(count)
        start = int(np.searchsorted(items, self.next))
        for j in np.roll(items, -start):
            change = self.changes(int(j), losses)
            if change.max() <= self.least():
                continue
            for place in np.argsort(-change, kind="stable"):
                if change[place] <= self.least():
                    break
                if without is None or self.family.fit(without[place], np.array([j]))[0]:
                    self.drop(self.S[place])
                    self.put(j)
                    self.next = int(j) + 1
                    self.renew()
                    return True
        return False

    def changes(self, item, losses):
        """What exchanging each item of the set for another one adds to the value."""
        self.g.n_values += 1
        if self.compiled is not None:
            self.compiled(self.W, item, self.best, self.second, self.near, losses, self.trial)
            return self.linear[item] + self.trial
        with self.counted():
            row = self.row(item)
            above, second = np.maximum(row, self.best), np.maximum(row, self.second)
            kept = np.bincount(self.near, second - above + self.best - self.second, len(losses) + 2)
        return self.linear[item] + (above - self.best).sum() - losses + kept[: len(losses)]


class _ByGradient(_State):
    """f and its gradient at the 0/1 vector."""

    def __init__(self, g, family, items):
        super().__init__(g, family, items)
        self.renew()
        if self.value == -np.inf:  # a set of dependent items: anew
            self.become([])

    def renew(self):
        self.value, self.grad = self.evaluate(self.S)

    def evaluate(self, items):
        return self.g.value_and_gradient(indicator(items, self.family.n))

    def accept(self, items, forced=False):
        value, grad = self.evaluate(items)
        if not (forced or value > self.value + self.least()):
            return False
        self.S, self.value, self.grad = list(items), value, grad
        self.load = self.family.load(self.S)
        return True

    def add(self, forced=False):
        items = self.fitting(self.load) if len(self.S) < self.family.most else np.empty(0, np.int64)
        if not items.size:
            return False
        j = items[int(self.grad[items].argmax())]
        return (forced or self.grad[j] > 0.0) and self.accept([*self.S, int(j)], forced)

    def remove(self, forced=False):
        if not self.S:
            return False
        i = min(self.S, key=lambda i: self.grad[i])
        return self.accept([j for j in self.S if j != i], forced)

    def exchange(self):
        for i in sorted(self.S, key=lambda i: self.grad[i]):
            rest = [j for j in self.S if j != i]
            items = self.fitting(self.without(i))
            if not items.size:
                continue
            grad = self.evaluate(rest)[1]
            j = items[int(grad[items].argmax())]
            if self.accept([*rest, int(j)]):
                return True
        return False
