"""Better sets for a determinantal point process by single additions, removals and swaps.

With M the inverse of L_SS, k_j = L_Sj, V = M K and the squared gain s_j = L_jj - <k_j, M k_j> of an item outside,

    adding j multiplies the determinant by s_j,
    removing a by M_aa,
    exchanging a for j by M_aa s_j + V_aj^2,

so a trial costs O(1) once V and s are known, and a move brings all of M, V and s up to date in O(k) an item. An
exchange never gains where L_jj M_aa <= 1 for all a of the set, since s_j without a is at most L_jj: such items are
not even looked at.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast.discrete.dependence import NEARLY_SINGULAR, gain_floor
from drsub_fast.discrete.greedy import exactly
from drsub_fast.engine.clock import thread_time_left

#: A move must raise log det by this much.
_BETTER = 1e-9
#: Moves between two computations of M, V and s from scratch.
_REFRESH = 25


class _State:
    """A set S with M, V and s over the candidates."""

    def __init__(self, kernel, family, items, size_kept, all_items=False):
        self.kernel, self.family = kernel, family
        self.size_kept, self.all_items = size_kept, all_items
        self.S = list(map(int, items))
        self.load = family.load(self.S)
        self.renew()

    def renew(self):
        """Everything from scratch, and the candidates chosen anew; False if the set is dependent."""
        S = np.array(self.S, dtype=np.int64)
        diagonal = self.kernel.diagonal
        block = self.kernel.block(S, S)
        try:
            factor = np.linalg.cholesky(block)
        except np.linalg.LinAlgError:
            factor = np.zeros_like(block)
        if (factor.diagonal() ** 2 <= gain_floor(block.diagonal(), NEARLY_SINGULAR)).any():
            self.M = None
            return
        half = np.linalg.inv(factor)
        self.M = half.T @ half
        worth = 1.0 / max(self.M.diagonal().max(initial=0.0), 1e-300)
        least = -1.0 if self.all_items else worth if self.size_kept else min(worth, 1.0)
        self.candidates = np.flatnonzero(self.family.allowed & (diagonal > least))
        self.outside = ~np.isin(self.candidates, S)
        self.K = self.kernel.block(S, self.candidates)
        self.V = self.M @ self.K
        self.s = diagonal[self.candidates] - np.einsum("aj,aj->j", self.K, self.V)
        self.age = 0

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
        row = self.kernel.block(np.array([j]), self.candidates)[0]
        u, sigma = self.V[:, place].copy(), self.s[place]
        w = (row - u @ self.K) / sigma
        self.M = np.block([[self.M + np.outer(u, u / sigma), -u[:, None] / sigma], [-u[None] / sigma, 1.0 / sigma]])
        self.s = self.s - sigma * w * w
        self.V = np.vstack([self.V - np.outer(u, w), w])
        self.K = np.vstack([self.K, row])
        self.S.append(j)
        self.family.add(self.load, j)
        self.outside[place] = False
        self.age += 1
        if self.age >= _REFRESH:
            self.renew()


def improve_by_moves(kernel: Any, family: Any, items: ArrayLike, size: int | None = None) -> NDArray[np.int64]:
    """A set that no single move betters: exchanges alone where a ``size`` is given.

    Parameters
    ----------
    kernel : ItemKernel
    family : Packing
    items : array_like of int
        A set of the family.
    size : int, optional
        The number of items, which is kept.

    Returns
    -------
    ndarray of int
        The items; where those given are dependent, they themselves with a ``size``, else a set from nothing.
    """
    state = _State(kernel, family, items, size is not None)
    if state.M is None and size is None:
        state = _State(kernel, family, [], False)
    most = family.most if size is None else size
    while state.M is not None and thread_time_left() > 0.0:
        if (size is None and _add_or_remove(state, most)) or _exchange(state):
            continue
        if not state.age:
            break
        state.renew()  # the candidates were those of an earlier set
    return np.array(state.S if state.M is not None else items, dtype=np.int64)


def resized(kernel: Any, family: Any, items: Any, size: Any) -> Any:
    """A set of exactly ``size`` items of the family, from another by the best single removals or additions."""
    state = _State(kernel, family, items, True, all_items=True)
    while state.M is not None and len(state.S) > size:
        state.remove(int(state.M.diagonal().argmax()))
    while state.M is not None and len(state.S) < size:
        gains = np.where(state.fits(state.load), state.s, 0.0)
        place = int(gains.argmax())
        if not gains[place] > 0.0:
            return exactly(kernel, family, size)[0]
        state.add(place)
    return np.array(state.S, dtype=np.int64) if state.M is not None else exactly(kernel, family, size)[0]


def _add_or_remove(state, most):
    """The best addition, or else the best removal, if it raises the determinant."""
    if len(state.S) < most and state.candidates.size:
        gains = np.where(state.fits(state.load), state.s, 0.0)
        place = int(gains.argmax())
        if gains[place] > 1.0 + _BETTER:
            state.add(place)
            return True
    if state.S:
        a = int(state.M.diagonal().argmax())
        if state.M[a, a] > 1.0 + _BETTER:
            state.remove(a)
            state.age += 1
            return True
    return False


def _exchange(state):
    """The first item that an exchange for the best other one betters, tried by increasing worth."""
    worth = 1.0 / state.M.diagonal()
    for a in np.argsort(worth, kind="stable"):
        fits = state.fits(state.load_without(a))
        if not fits.any():
            continue
        ratio = np.where(fits, state.s / worth[a] + state.V[a] * state.V[a], 0.0)
        place = int(ratio.argmax())
        if ratio[place] > 1.0 + _BETTER:
            state.remove(a)
            state.add(place)
            return True
    return False
