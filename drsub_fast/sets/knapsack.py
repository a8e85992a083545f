"""Disjoint knapsacks {x : 0 <= x <= upper, sum_{j in group g} w_j x_j <= c_g for every g}, w >= 0.

`Knapsack` is the case of one group, `Budget` of one group with unit weights, `PartitionMatroid` of unit
weights; `Simplex` asks for equality. One family of kernels serves them all.

Oracle: in every group, fill the coordinates of largest d_j / w_j > 0 until the capacity is spent, equal ones in
their order (the continuous knapsack, Dantzig 1957). Weighted selection finds the ratio at which it is spent in
expected O(s). The ratios of the last two calls say between which two to expect this one's: most coordinates are passed
or filled with one comparison, unless those above exceed the capacity or leave it unused. In a small group the loads of
what comes before are summed for each item instead, s^2 comparisons without a branch; only where equal ratios share what
is left is the selection asked.
With equality the sign of d_j does not matter.
The projection is in `knapsack_projection`.
"""

import math
from collections import namedtuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_real, as_vector
from drsub_fast._kinds import LARGEST, NUMBER, SETS, array, register_kind, within
from drsub_fast.engine.codes import FAILED, OK
from drsub_fast.engine.dispatch import own
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.sets.base import FeasibleSet, register_set
from drsub_fast.sets.knapsack_projection import MISS, SLACK, project_onto_knapsacks
from drsub_fast.sets.select import select

KnapsackParams = namedtuple("KnapsackParams", "members start weights capacity equality")
#: ``least`` holds, for each group, the ratio at which the last call used the capacity up, that of the call before, and
#: how far the former was from the one expected.
KnapsackWork = namedtuple("KnapsackWork", "ratio load least items calls")

#: Items of a group up to which all pairs are compared: 100 softmax steps are 1.11 times as fast by that at n = 12, 16,
#: 20 and 24, 1.02 at 32.
_PAIRS_UP_TO = 32

#: Items of a group that are looked at first where the last calls say nothing, and the size from which that pays, and a
#: narrow range of expected ratios: at n = 100,000 a call takes 0.2 ms, without them 0.37.
_SAMPLE, _LARGE = 2048, 20_000


@kernel
def _size(params):
    n = params.weights.size
    return 2 * n + 3 * params.capacity.size, n + 1


@kernel(memory=True)
def _carve(params, floats, integers):
    n = params.weights.size
    items, calls = split(integers, n, 1)
    ratio, load, least = split(floats, n, n, (params.capacity.size, 3))
    return KnapsackWork(ratio, load, least, items.view(np.uint64), calls)


@kernel
def _expected_ratios(work, g, floor, is_large):
    """Two ratios that the least one of this call will hardly be below and above: it moves much as the last time.

    In a large group many are near it: twice the error of the last such guess says how far off these two have to be.
    """
    last, error = work.least[g, 0], work.least[g, 2]
    move = last - work.least[g, 1]
    low, high = last - 1.5 * abs(move), last + max(0.5 * move, 1.5 * move)
    if is_large:
        reach = 2.0 * error + 0.05 * abs(move)
        low, high = max(low, last + move - reach), min(high, last + move + reach)
    # NaN, of infinite ratios, included.
    return low if low > floor else floor, high if high > floor else math.inf


@kernel
def _note_least(work, g, least):
    """Keeps the ratio at which this call used the capacity up, and how far it is from the one expected."""
    last, before = work.least[g, 0], work.least[g, 1]
    work.least[g, 0], work.least[g, 1], work.least[g, 2] = least, last, abs(2.0 * last - before - least)


@kernel
def _sampled_ratios(params, work, g, direction, upper, floor):
    """The same by a sample of the group: the least ratios for a little more and a little less than its share."""
    first, size = params.start[g], params.start[g + 1] - params.start[g]
    ratio, load, items = work.ratio, work.load, work.items
    count, total = 0, 0.0
    for i in range(_SAMPLE):
        j = params.members[first + i * size // _SAMPLE]
        w = params.weights[j]
        if w > 0.0 and direction[j] > floor * w and upper[j] > 0.0:
            ratio[count], items[count], load[j] = direction[j] / w, j, w * upper[j]
            total += load[j]
            count += 1
    share = params.capacity[g] * _SAMPLE / size
    # Of a share that k of the items fill, three times its standard deviation, which is 1 / sqrt(k) of it.
    margin = 3.0 * math.sqrt(total / (count * share)) if count > 0 and share > 0.0 else math.inf
    low, high = floor, math.inf
    if total > share * (1.0 + margin):
        low, _ = select(ratio, items, load, count, share * (1.0 + margin))
    if margin < 1.0 and total > share * (1.0 - margin):
        high, _ = select(ratio, items, load, count, share * (1.0 - margin))
    return low, high


def _above_in_arrays(params, work, g, direction, floor, v):
    members = params.members[params.start[g] : params.start[g + 1]]
    v[members] = 0.0
    listed = members[direction[members] > floor * params.weights[members]]
    work.items[: listed.size] = listed
    return listed.size


@kernel(plain=_above_in_arrays)
def _above(params, work, g, direction, floor, v):
    """Number of the items of a group whose ratio is above ``floor``, which are listed; v is 0 in the group."""
    items, members, weights, count = work.items, params.members, params.weights, 0
    if params.capacity.size == 1:
        # A group that is alone has its members in order: they need not be read.
        for j in range(weights.size):
            v[j] = 0.0
        for j in range(weights.size):
            items[count] = j
            count += direction[j] > floor * weights[j]
        return count
    for i in range(params.start[g], params.start[g + 1]):
        j = members[i]
        v[j] = 0.0
        items[count] = j
        count += direction[j] > floor * weights[j]
    return count


def _sort_out_in_arrays(params, work, g, direction, upper, floor, sure, v):
    items = work.items[: _above_in_arrays(params, work, g, direction, floor, v)].copy()
    weights, bounds = params.weights[items], np.maximum(upper[items], 0.0)
    own = np.where(weights != 0.0, direction[items] / weights, math.inf)
    sizes, full = weights * bounds, (own > sure) | (weights == 0.0)
    v[items] = np.where(full, bounds, 0.0)
    work.load[items] = sizes
    kept = ~full & (bounds > 0.0)
    count = np.count_nonzero(kept)
    work.items[:count], work.ratio[:count] = items[kept], own[kept]
    return count, float(np.add.reduce(sizes[~full])), float(np.add.reduce(sizes[full]))


@kernel(plain=_sort_out_in_arrays)
def _sort_out(params, work, g, direction, upper, floor, sure, v):
    """(count, load, filled): items of a group with ratios in (floor, sure], their load, and that of the items above.

    v is at its bound for those above and where an item has no weight, else 0. Comparisons are added, not branched at:
    how they end cannot be foreseen, and a wrong guess of the processor costs as much as ten of them.
    """
    ratio, load, items = work.ratio, work.load, work.items
    count, total, filled = 0, 0.0, 0.0
    for i in range(_above(params, work, g, direction, floor, v)):
        j = items[i]
        w, bound = params.weights[j], max(upper[j], 0.0)
        own, size = direction[j] / w if w != 0.0 else math.inf, w * bound
        full = (own > sure) | (w == 0.0)
        v[j] = bound if full else 0.0
        filled += size if full else 0.0
        total += 0.0 if full else size
        items[count], ratio[count], load[j] = j, own, size
        count += (not full) & (bound > 0.0)
    return count, total, filled


@kernel(reductions=True, noalias=True)
def _load_above(ratio, load, own):
    """Load of the items whose ratio is above ``own``."""
    total = 0.0
    for i in range(ratio.size):
        total += load[i] if ratio[i] > own else 0.0
    return total


@kernel
def _fill_by_pairs(params, work, g, direction, upper, floor, v):
    """Fills a small group, every item with what those of larger ratios leave; returns what is left of the capacity.

    That is less than 0 where equal ratios had to be told apart.
    """
    first, capacity = params.start[g], params.capacity[g]
    size = params.start[g + 1] - first
    members, ratio, load = params.members[first:], work.ratio[:size], work.load[:size]
    for i in range(size):
        j = members[i]
        w = params.weights[j]
        enters = (direction[j] > floor * w) & (upper[j] > 0.0)
        ratio[i] = direction[j] / w if w != 0.0 else math.inf
        load[i] = w * upper[j] if enters else 0.0
        v[j] = upper[j] if enters else 0.0
    left = capacity
    for i in range(size):
        if load[i] > 0.0:
            j = members[i]
            v[j] = min(upper[j], max(capacity - _load_above(ratio, load, ratio[i]), 0.0) / params.weights[j])
            left -= params.weights[j] * v[j]
    return left


@kernel
def _take_part(params, j, upper, left, v):
    """Fills item j as far as what is left goes; returns what is left then."""
    v[j] = min(upper[j], max(left, 0.0) / params.weights[j])
    return left - params.weights[j] * v[j]


@kernel
def _fill_in_order(params, work, g, direction, upper, floor, v):
    """Fills a group in the order of the ratios, equal ones in theirs; returns what is left of the capacity."""
    ratio, items, capacity = work.ratio, work.items, params.capacity[g]
    is_large = params.start[g + 1] - params.start[g] >= _LARGE
    low, high = floor, math.inf
    if work.calls[0] >= 2:
        low, high = _expected_ratios(work, g, floor, is_large)
    elif is_large:
        low, high = _sampled_ratios(params, work, g, direction, upper, floor)
    while True:
        count, load, filled = _sort_out(params, work, g, direction, upper, low, high, v)
        if filled > capacity:
            high = math.inf
        elif filled + load < capacity and low > floor:
            low = floor
        else:
            break
    capacity -= filled
    if load <= capacity:
        _note_least(work, g, floor)
        for i in range(count):
            v[items[i]] = upper[items[i]]
        return capacity - load
    least, left = select(ratio, items, work.load, count, capacity)
    _note_least(work, g, least)
    n_equal = 0
    for i in range(count):
        if ratio[i] > least:
            v[items[i]] = upper[items[i]]
        elif ratio[i] == least:
            n_equal += 1
            items[n_equal - 1] = items[i]
    if n_equal == 1:
        return _take_part(params, items[0], upper, left, v)
    for i in range(params.start[g], params.start[g + 1]):
        j = params.members[i]
        w = params.weights[j]
        if w > 0.0 and upper[j] > 0.0 and direction[j] / w == least:
            left = _take_part(params, j, upper, left, v)
    return left


@kernel(separate=True)
def _fill_by_selection(params, work, g, direction, upper, floor, v):
    """`_fill_in_order`, which is compiled once, not again inside every loop; what is left is in ``work.ratio``."""
    work.ratio[0] = _fill_in_order(params, work, g, direction, upper, floor, v)
    return OK


@kernel
def _lmo(params, work, direction, upper, v):
    floor = -math.inf if params.equality else 0.0
    for g in range(params.capacity.size):
        slack = SLACK * params.capacity[g]
        left = -math.inf
        if params.start[g + 1] - params.start[g] <= _PAIRS_UP_TO:
            left = _fill_by_pairs(params, work, g, direction, upper, floor, v)
        if left < -slack:
            _fill_by_selection(params, work, g, direction, upper, floor, v)
            left = work.ratio[0]
        if params.equality and left > MISS * params.capacity[g]:
            return FAILED
    work.calls[0] += 1
    return OK


@kernel(memory=True)
def _problem_at(stack, i):
    return KnapsackParams(
        own(stack.members, i), own(stack.start, i), own(stack.weights, i), own(stack.capacity, i), stack.equality
    )


register_set(
    KnapsackParams, set_size=_size, set_carve=_carve, lmo=_lmo, project=project_onto_knapsacks, problem_at=_problem_at
)


class DisjointKnapsacks(FeasibleSet):
    """Set of the points whose load in every group is at most (or exactly) its capacity.

    The arguments come checked: labels ``groups`` (n,), ``weights`` (n,), ``capacities`` (n_groups,),
    ``upper`` (n,).
    """

    groups: NDArray[np.int64]
    weights: NDArray[np.float64]
    capacities: NDArray[np.float64]

    def __init__(
        self,
        groups: NDArray[np.int64],
        weights: NDArray[np.float64],
        capacities: NDArray[np.float64],
        upper: NDArray[np.float64],
        equality: bool = False,
    ) -> None:
        self.is_down_closed = not equality
        self.groups, self.weights, self.capacities = groups, weights, capacities
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            alone = np.where(weights > 0.0, capacities[groups] / weights, np.inf)
        sizes = np.bincount(groups, minlength=capacities.size)
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        members = np.argsort(groups, kind="stable").astype(np.int64)
        params = KnapsackParams(members, start, weights, capacities, int(equality))
        super().__init__(params, np.minimum(upper, alone))

    def constraints_hold(self, x: NDArray[np.float64], tol: float) -> bool:
        loads, sizes = self._loads(x), self._loads(np.abs(x))
        excess = loads - self.capacities
        if self._params.equality:
            excess = np.abs(excess)
        return bool((excess <= tol * np.maximum(self.capacities, sizes)).all())

    def _loads(self, x):
        """The load of each group, shape (n_groups,)."""
        return np.bincount(self.groups, self.weights * x, minlength=self.capacities.size)

    def into_constraints(self, x: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        loads, rounding = self._loads(x), SLACK * self.capacities
        shares = np.divide(self.capacities, loads, out=np.ones(loads.size), where=loads > self.capacities + rounding)
        x = np.where(self.weights > 0.0, x * shares[self.groups], x)
        if not self._params.equality:
            return x
        missing, slack = self.capacities - self._loads(x), self._loads(upper) - self._loads(x)
        shares = np.divide(missing, slack, out=np.zeros(loads.size), where=(missing > rounding) & (slack > 0.0))
        return x + np.minimum(shares, 1.0)[self.groups] * (upper - x)

    def violation(self, x: NDArray[np.float64]) -> str:
        """Words for the group that x breaks most."""
        loads = self._loads(x)
        excess = loads - self.capacities
        excess = np.abs(excess) if self._params.equality else excess
        # In units of the capacities; where one is 0 any load is too much.
        g = int(np.where(excess > 0.0, excess / np.maximum(self.capacities, 1e-300), -1.0).argmax())
        load = loads[g]
        relation = "is not" if self._params.equality else "is above"
        return f"the load {load:g} of group {g} {relation} its capacity {self.capacities[g]:g}"


class Knapsack(DisjointKnapsacks):
    """Knapsack {x : 0 <= x <= upper, weights . x <= budget}.

    Parameters
    ----------
    weights : array_like, shape (n,)
        Cost of one unit of each variable, at least 0.
    budget : float
        What may be spent, at least 0.
    upper : array_like, shape (n,), optional
        Upper bounds, at least 0. By default budget / weights.

    Raises
    ------
    ValueError
        For a negative weight, budget or bound, an entry that is not finite, or a variable without weight
        when ``upper`` is not given.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> P = ds.Knapsack([1.0, 2.0, 4.0], 3.0, [1.0, 1.0, 1.0])
    >>> P.lmo([1.0, 3.0, 2.0])
    array([1., 1., 0.])
    >>> P.project([1.0, 1.0, 1.0]).round(3)
    array([0.81 , 0.619, 0.238])
    """

    budget: float

    def __init__(self, weights: ArrayLike, budget: float, upper: ArrayLike | None = None) -> None:
        weights = as_vector(weights, "weights", lower=0.0)
        self.budget = as_real(budget, "budget", lower=0.0)
        if upper is None:
            if weights.min() == 0.0:
                j = int(weights.argmin())
                raise ValueError(f"weights[{j}] = 0 leaves x[{j}] without a bound: give upper")
            with np.errstate(over="ignore"):
                upper = self.budget / weights
            if not np.isfinite(upper).all():
                j = int(upper.argmax())
                raise ValueError(f"budget / weights[{j}] is above the largest float: give upper")
        else:
            upper = as_vector(upper, "upper", n=weights.size, lower=0.0)
        super().__init__(np.zeros(weights.size, np.int64), weights, np.array([self.budget]), upper)

    def __repr__(self) -> str:
        return f"Knapsack(budget={self.budget:g}, n={self.n})"


def stack_of_knapsacks(
    weights: NDArray[np.float64], budget: NDArray[np.float64], upper: NDArray[np.float64] | None
) -> tuple[KnapsackParams, NDArray[np.float64], NDArray[np.bool_]]:
    """Stacked parameters, bounds, and which are accepted, of knapsacks with one group each."""
    accepted = within(weights, 0.0, LARGEST) & within(budget, 0.0, LARGEST)
    n = weights.shape[1]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        alone = np.where(weights > 0.0, budget[:, None] / weights, np.inf)
    if upper is None:
        upper = np.full((1, n), np.inf)
        accepted = accepted & (weights > 0.0).all(axis=1)
    else:
        accepted = accepted & within(upper, 0.0, LARGEST)
    members, start = np.arange(n)[None], np.array([[0, n]])
    return KnapsackParams(members, start, weights, budget[:, None], 0), np.minimum(upper, alone), accepted


def _stack(weights, budget, upper=None):
    return stack_of_knapsacks(weights, budget, upper)


register_kind(
    SETS, "knapsack", Knapsack, stack=_stack, weights=array("n"), budget=NUMBER, upper=array("n"),
    about="w'x <= budget", example=lambda n: {"weights": np.linspace(1.0, 2.0, n), "budget": 2.0, "upper": np.ones(n)},
)  # fmt: skip
