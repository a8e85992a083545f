"""Better sets for a determinantal point process by single additions, removals and swaps.

In units of sqrt(L_ii), so that the diagonal is 1: with M the inverse of L_SS, k_j = L_Sj, V = M K and the squared gain
s_j = 1 - <k_j, M k_j> of an item outside,

    adding j multiplies the determinant by s_j L_jj,
    removing a by M_aa / L_aa,
    exchanging a for j by (M_aa s_j + V_aj^2) L_jj / L_aa,

so a trial costs O(1) once V and s are known, and a move brings all of M, V and s up to date in O(k) an item. An
exchange never gains where L_jj M_aa <= L_aa for all a of the set, since s_j without a is at most 1: such items are
not even looked at.

The entries of L are known up to eps, so log det is known up to some eps k trace(M): a move must raise it by more, and
lead to a set that does not count as dependent. The number of moves is bounded.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from drsub_fast.discrete.dependence import NEARLY_SINGULAR, TINY
from drsub_fast.discrete.greedy import exactly
from drsub_fast.discrete.item_set import log_det
from drsub_fast.discrete.packing import Packing
from drsub_fast.engine.clock import thread_time_left
from drsub_fast.objectives.similarity import ItemKernel

#: A move must raise log det by this much, and by this part of k trace(M).
_BETTER, _ROUNDING = 1e-9, 8.0 * float(np.finfo(float).eps)
#: Moves between two computations of M, V and s from scratch, and most moves for each item of a set, and for ten more.
_REFRESH, _MOST_MOVES = 25, 20
#: Entries of K and V up to which all columns, and exchanges for all items of a set, are looked at together.
_TOGETHER = 1 << 15


class _State:
    """A set S with M, V and s over the candidates; M is None where S counts as dependent."""

    def __init__(self, kernel, family, items, size_kept, all_items=False):
        self.kernel, self.family = kernel, family
        self.unit = np.sqrt(np.maximum(kernel.diagonal, TINY))
        self.size_kept, self.all_items = size_kept, all_items
        self.S = list(map(int, items))
        self.load = family.load(self.S)
        self.renew()

    def renew(self):
        """Everything from scratch, and the candidates chosen anew."""
        S = np.array(self.S, dtype=np.int64)
        diagonal = self.kernel.diagonal
        everything = self._block(S, np.arange(self.kernel.n)) if self.kernel.n * len(S) <= _TOGETHER else None
        self.M = _inverse(self._block(S, S) if everything is None else everything[:, S])
        self.age = 0
        if self.M is None:
            return
        worth = (diagonal[S] / self.M.diagonal()).min(initial=np.inf)
        least = 0.0 if self.all_items else worth if self.size_kept else min(worth, 1.0)
        self.candidates = np.flatnonzero(self.family.allowed & (diagonal > max(least, TINY)))
        inside = np.zeros(self.kernel.n, bool)
        inside[S] = True
        self.outside = ~inside[self.candidates]
        self.L = diagonal[self.candidates]
        self.K = self._block(S, self.candidates) if everything is None else everything[:, self.candidates]
        self.V = self.M @ self.K
        self.s = 1.0 - np.einsum("aj,aj->j", self.K, self.V)

    def _block(self, rows, columns):
        """L at these rows and columns in units of sqrt(L_ii)."""
        block = self.kernel.block(rows, columns)
        block /= self.unit[columns]
        block /= self.unit[rows, None]
        return block

    def least(self):
        """The logarithm that a move multiplies the determinant by at least."""
        return _BETTER + _ROUNDING * len(self.S) * self.M.trace()

    def additions(self):
        """What each candidate multiplies the determinant by; 0 where it does not fit or counts as dependent."""
        possible = self.fits(self.load) & (self.s > NEARLY_SINGULAR)
        return np.where(possible, self.s * self.L, 0.0)

    def fits(self, load):
        if self.family.is_count:
            return self.outside
        return self.outside & self.family.fit(load, self.candidates)

    def load_without(self, a):
        load = self.load.copy()
        if not self.family.is_count:
            self.family.add(load, self.S[a], -1.0)
        return load

    def remove(self, a):
        keep = np.arange(len(self.S)) != a
        row, pivot = self.M[a, keep], self.M[a, a]
        self.M = self.M[np.ix_(keep, keep)] - np.outer(row, row / pivot)
        self.s = self.s + self.V[a] * self.V[a] / pivot
        self.V = self.V[keep] - np.outer(row / pivot, self.V[a])
        self.K = self.K[keep]
        item = self.S.pop(a)
        self.family.add(self.load, item, -1.0)
        self.outside[self.candidates == item] = True

    def add(self, place):
        j = int(self.candidates[place])
        row = self._block(np.array([j]), self.candidates)[0]
        u, sigma = self.V[:, place].copy(), self.s[place]
        w = (row - u @ self.K) / sigma
        self.M = np.block([[self.M + np.outer(u, u / sigma), -u[:, None] / sigma], [-u[None] / sigma, 1.0 / sigma]])
        self.s = self.s - sigma * w * w
        self.V = np.vstack([self.V - np.outer(u, w), w])
        self.K = np.vstack([self.K, row])
        self.S.append(j)
        self.family.add(self.load, j)
        self.outside[place] = False


def _inverse(block):
    """The inverse of a block in units of sqrt(L_ii), or None where it counts as dependent."""
    if not len(block):
        return block
    factor, failed = dpotrf(block, lower=1)
    if failed or (factor.diagonal() ** 2 <= NEARLY_SINGULAR).any():
        return None
    lower = np.tril(dpotri(factor, lower=1)[0])
    return lower + np.tril(lower, -1).T


def improve_by_moves(
    kernel: ItemKernel, family: Packing, items: NDArray[np.int64], size: int | None = None
) -> NDArray[np.int64]:
    """A set that no single move betters: exchanges alone where a ``size`` is given.

    Parameters
    ----------
    kernel : ItemKernel
    family : Packing
    items : ndarray of int
        A set of the family.
    size : int, optional
        The number of items, which is kept.

    Returns
    -------
    ndarray of int
        The items; those given if they, and all that an exchange makes of them, are dependent.
    """
    state = _State(kernel, family, items, size is not None)
    if state.M is None:
        state = _State(kernel, family, [], False) if size is None else _made_independent(state)
    most = family.most if size is None else size
    end, moves = _MOST_MOVES * (most + 10), 0
    while state.M is not None and moves < end and thread_time_left() > 0.0:
        if (size is None and _add_or_remove(state, most)) or _exchange(state):
            moves, state.age = moves + 1, state.age + 1
            if state.age < _REFRESH:
                continue
        elif not state.age:
            break
        state.renew()  # of rounding, and because the candidates were those of an earlier set
    moved = np.array(state.S, dtype=np.int64)
    if not moves and size is None:
        return moved
    return moved if log_det(kernel, moved) > log_det(kernel, items) else items


def _made_independent(state):
    """The state after an exchange that makes a dependent set independent, if there is one; else as it was."""
    for a in range(len(state.S)):
        if thread_time_left() <= 0.0:
            break
        rest = [item for b, item in enumerate(state.S) if b != a]
        trial = _State(state.kernel, state.family, rest, True, all_items=True)
        if trial.M is None:
            continue
        gains = trial.additions()
        if gains.max(initial=0.0) > 0.0:
            trial.add(int(gains.argmax()))
            return _State(state.kernel, state.family, trial.S, True)
        if state.family.is_count:  # what else is left out, the rest spans the same
            break
    return state


def resized(kernel: ItemKernel, family: Packing, items: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """A set of exactly ``size`` items of the family, from another by the best single removals or additions."""
    state = _State(kernel, family, items, True, all_items=True)
    while state.M is not None and len(state.S) > size:
        state.remove(_least_worth(state)[0])
    while state.M is not None and len(state.S) < size:
        gains = state.additions()
        if not gains.max(initial=0.0) > 0.0:
            return exactly(kernel, family, size)[0]
        state.add(int(gains.argmax()))
    return np.array(state.S, dtype=np.int64) if state.M is not None else exactly(kernel, family, size)[0]


def _least_worth(state):
    """(place, what removing it multiplies the determinant by) of the item that is worth least."""
    with np.errstate(over="ignore"):
        changes = state.M.diagonal() / state.kernel.diagonal[state.S]
    place = int(changes.argmax())
    return place, float(changes[place])


def _add_or_remove(state, most):
    """The best addition, or else the best removal, if it raises the determinant."""
    least = 1.0 + state.least()
    if len(state.S) < most and state.candidates.size:
        gains = state.additions()
        place = int(gains.argmax())
        if gains[place] > least:
            state.add(place)
            return True
    if state.S:
        a, change = _least_worth(state)
        if change > least:
            state.remove(a)
            return True
    return False


def _exchange(state):
    """The first item that an exchange for the best other one betters, tried by increasing worth."""
    least, own = 1.0 + state.least(), state.kernel.diagonal[state.S]
    if not (state.S and state.candidates.size):
        return False
    order = np.argsort(own / state.M.diagonal(), kind="stable")
    together = len(order) if state.family.is_count and state.V.size <= _TOGETHER else 1
    for first in range(0, len(order), together):
        rows = order[first : first + together]
        fits = state.fits(state.load_without(rows[0]))
        if thread_time_left() <= 0.0:
            break
        worth = state.M.diagonal()[rows, None]
        ratio = worth * state.s + np.square(state.V[rows])
        with np.errstate(over="ignore"):
            change = np.where(fits & (ratio > NEARLY_SINGULAR * worth), ratio * (state.L / own[rows, None]), 0.0)
        places = change.argmax(axis=1)
        better = change[np.arange(len(rows)), places] > least
        if better.any():
            at = int(better.argmax())
            state.remove(rows[at])
            state.add(int(places[at]))
            return True
    return False
