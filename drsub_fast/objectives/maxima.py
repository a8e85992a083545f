"""The multilinear extension of F(S) = sum_{i in S} l_i + sum_d max_{i in S} W_id: its data and kernels.

For one d sort the items by W_id, largest first, w_1 >= w_2 >= ..; then with Q_k = prod_{l < k} (1 - x_l)

    E max = sum_k Q_k x_k w_k,   d_k E max = Q_k G_k,
    G_k = w_k - E[max over the items after k] = (w_k - w_{k+1}) + (1 - x_{k+1}) G_{k+1}.

Sorting happens once; value and gradient together are then two sweeps over the positive entries of W, without a division
or a difference of near equals.
"""

from collections import namedtuple
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import Matrix, MatrixLike, as_array, as_real, as_sparse, as_vector, described, require_at_least
from drsub_fast._kinds import LARGEST, within
from drsub_fast.engine.clock import require_time
from drsub_fast.engine.dispatch import own
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.objectives.base import Objective, register_objective
from drsub_fast.objectives.similarity import cosines


def _as_sets(sets):
    """A list of sets of elements."""
    if not isinstance(sets, Iterable) or isinstance(sets, (str, bytes, Mapping)):
        raise TypeError(f"sets must be a sequence of iterables or a matrix, got {described(sets)}")
    sets = list(sets)
    for i, elements in enumerate(sets):
        if not isinstance(elements, Iterable) or isinstance(elements, (str, bytes)):
            raise TypeError(f"sets[{i}] must be an iterable of elements, got {described(elements)}")
    return [set(elements) for elements in sets]


#: The elements of each item, or a matrix; what each element counts.
Sets: TypeAlias = Sequence[Iterable[Hashable]] | MatrixLike
ElementWeights: TypeAlias = Mapping[Any, float] | ArrayLike


def _weight_of(element, weights):
    """Weight of one element of a coverage function."""
    try:
        weight = as_real(weights[element], f"weights[{element!r}]")
    except (KeyError, IndexError):
        raise ValueError(f"element {element!r} has no weight") from None
    if not 0.0 <= weight < np.inf:
        raise ValueError(f"the weight {weight:g} of element {element!r} must be finite and at least 0")
    return weight


def as_benefits(W: MatrixLike | None, features: MatrixLike | None = None, neighbours: int | None = None) -> Matrix:
    """W >= 0, shape (n, D): dense, or sparse by rows; or the cosines of features in its place."""
    if (W is None) == (features is None):
        raise TypeError("give either W or features")
    if features is not None:
        return cosines(features, neighbours)
    if neighbours is not None:
        raise TypeError("neighbours goes with features, not with W")
    sparse = scipy.sparse.issparse(W)
    benefits = as_sparse(W, "W") if sparse else as_array(W, "W", 2)
    values, name = (benefits, "W") if isinstance(benefits, np.ndarray) else (benefits.data, "W.data")
    require_at_least(values, 0.0, name, ": the maximum over the empty set is 0")
    if not benefits.shape[0]:
        raise ValueError("W has no rows: at least one item is needed")
    return benefits


def coverage_benefits(sets: Sets, weights: ElementWeights | None) -> Matrix:
    """A coverage function as facility location: an element is a customer, to whom each set with it is worth its weight.

    Takes the arguments of `Multilinear.coverage`; a sparse matrix by rows.
    """
    if len(getattr(sets, "shape", ())) == 2:
        matrix = as_sparse(sets, "sets") if scipy.sparse.issparse(sets) else as_array(sets, "sets", 2)
        members = scipy.sparse.csr_array(matrix)
        members.eliminate_zeros()
        sets = [row.tolist() for row in np.split(members.indices, members.indptr[1:-1])]
    sets = _as_sets(sets)
    if not sets:
        raise ValueError("sets is empty: at least one item is needed")
    if weights is not None and not hasattr(weights, "keys"):
        weights = as_array(weights, "weights", 1)
    numbers = {element: e for e, element in enumerate(dict.fromkeys(chain.from_iterable(sets)))}
    weight = np.array([1.0 if weights is None else _weight_of(element, weights) for element in numbers])
    rows = np.repeat(np.arange(len(sets)), [len(elements) for elements in sets])
    columns = np.array([numbers[element] for element in chain.from_iterable(sets)], dtype=np.int64)
    return scipy.sparse.csr_array((weight[columns], (rows, columns)), shape=(len(sets), max(1, len(numbers))))


#: Most items, and most pairs of items in all groups, for a matrix of second derivatives.
_MATRIX_UP_TO, _MOST_PAIRS = 2000, 100_000_000

#: Columns of a dense W that are sorted at a time.
COLUMNS = 64


def sorted_columns(W: Matrix) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """(pointers, items, weights): the positive entries of every column of W, the largest first."""
    if scipy.sparse.issparse(W):
        W = scipy.sparse.csc_array(W)
        W.eliminate_zeros()
        group = np.repeat(np.arange(W.shape[1]), np.diff(W.indptr))
        order = np.lexsort((W.indices, -W.data, group))
        return W.indptr.astype(np.int64), W.indices[order].astype(np.int32), W.data[order]
    counts = np.count_nonzero(W, axis=0)
    pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    items, weights = np.empty(pointers[-1], np.int32), np.empty(pointers[-1])
    for first in range(0, W.shape[1], COLUMNS):
        if first:
            require_time()
        block = -W[:, first : first + COLUMNS].T
        order = np.argsort(block, axis=1)
        kept = np.arange(block.shape[1]) < counts[first : first + COLUMNS, None]
        part = slice(pointers[first], pointers[min(first + COLUMNS, W.shape[1])])
        items[part] = order[kept]
        weights[part] = -np.take_along_axis(block, order, axis=1)[kept]
    return pointers, items, weights


MaximaParams = namedtuple("MaximaParams", "n linear pointers items weights")
MaximaWork = namedtuple("MaximaWork", "grad trial gains")


@kernel
def _maxima_size(params):
    return 3 * params.n, 0


@kernel(memory=True)
def _maxima_carve(params, floats, integers):
    return MaximaWork(*split(floats, params.n, params.n, params.n))


#: Entries of sorted columns in one array operation, where kernels run as plain Python, and most columns.
_ENTRIES, _COLUMNS = 1 << 14, 256


def _evaluate_in_arrays(params, work, x):
    """The same for many columns at a time, shortest first, without a difference of near equals either.

    With P_k the product of 1 - x_l over l < k, P_{k+1} G_k is the sum of (w_l - w_{l+1}) P_{l+1} over l >= k.
    """
    grad, start, end = work.grad, params.pointers[:-1], params.pointers[1:]
    grad[:] = params.linear
    value = float(params.linear @ x)
    if not x.any():
        for first in range(0, params.items.size, _ENTRIES + x.size):  # some at a time: pages of new memory cost most
            some = slice(first, first + _ENTRIES + x.size)
            grad += np.bincount(params.items[some], params.weights[some], x.size)
        return value
    n_sure = np.count_nonzero(x == 1.0)
    if n_sure > 1:
        # Nothing after the second item that is surely chosen matters.
        sure = np.flatnonzero((x == 1.0)[params.items])
        second = np.searchsorted(sure, start) + 1
        end = np.minimum(end, np.append(sure, params.items.size)[np.minimum(second, sure.size)] + 1)
    order = np.argsort(end - start, kind="stable")
    counts = (end - start)[order]
    first = int(np.searchsorted(counts, 1))
    while first < order.size:
        width = counts[min(first + _COLUMNS, order.size) - 1]
        group = order[first : first + min(_COLUMNS, max(1, _ENTRIES // width))]
        value += _add_columns(params, grad, x, start[group], end[group], n_sure > 0)
        first += group.size
    return value


def _add_columns(params, grad, x, start, end, has_sure):
    """Adds the gradient of some columns, their entries start to end, and returns their value."""
    places = start[:, None] + np.arange((end - start).max())
    inside = places < end[:, None]
    items = params.items.take(places, mode="clip")
    weights = params.weights.take(places, mode="clip") * inside
    parts = x[items] * inside
    left, drop = 1.0 - parts, weights.copy()
    drop[:, :-1] -= weights[:, 1:]
    rows = np.empty(0, np.int64)
    if has_sure:
        # The first item that is surely chosen ends what the items before it gain, and counts as if it left all.
        surely = left == 0.0
        rows = np.flatnonzero(surely.any(axis=1))
        at = surely[rows].argmax(axis=1)
        behind = np.arange(weights.shape[1]) - at[:, None]
        left[rows, at] = 1.0
    missing = np.cumprod(left, axis=1)
    drop *= missing
    parts *= weights
    parts[:, 1:] *= missing[:, :-1]
    if rows.size:
        own = (drop[rows] * (behind >= 0)).sum(axis=1)
        drop[rows] *= behind < 0
        parts[rows] *= behind <= 0
        left[left == 0.0] = 1.0
    gains = np.cumsum(drop[:, ::-1], axis=1)[:, ::-1]
    if rows.size:
        gains[rows, at] = own
    gains /= left
    grad += np.bincount(items.ravel(), gains.ravel(), grad.size)
    return float(parts.sum())


@kernel(plain=_evaluate_in_arrays)
def _maxima_evaluate(params, work, x):
    grad, gains = work.grad, work.gains
    items, weights, pointers = params.items, params.weights, params.pointers
    value = 0.0
    n_sure = 0
    for i in range(x.size):
        value += params.linear[i] * x[i]
        grad[i] = params.linear[i]
        n_sure += x[i] == 1.0
    for d in range(pointers.size - 1):
        first, end = pointers[d], pointers[d + 1]
        if n_sure > 1:
            # Nothing after the second item that is surely chosen matters: of k such items of n, two in k are looked at.
            seen = 0
            for k in range(first, end):
                seen += x[items[k]] == 1.0
                if seen == 2:
                    end = k + 1
                    break
        gain = 0.0
        after = 0.0
        for k in range(end - 1, first - 1, -1):
            gain += weights[k] - after
            gains[k - first] = gain
            after = weights[k]
            gain *= 1.0 - x[items[k]]
        missing = 1.0
        for k in range(first, end):
            i = items[k]
            grad[i] += missing * gains[k - first]
            value += missing * x[i] * weights[k]
            missing *= 1.0 - x[i]
            if missing == 0.0:
                break
    return value


@kernel
def _maxima_is_nonnegative(params, work, upper):
    # As `corners.nonnegative`.
    trial = work.trial
    trial[:] = 0.0
    low = _maxima_evaluate(params, work, trial)
    rise = 0.0
    for i in range(upper.size):
        rise += max(0.0, work.grad[i] * upper[i])
    high = _maxima_evaluate(params, work, upper)
    fall = 0.0
    for i in range(upper.size):
        fall += min(0.0, work.grad[i] * upper[i])
    return low + fall >= 0.0 or high - rise >= 0.0


@kernel(memory=True)
def _maxima_at(stack, i):
    return MaximaParams(
        stack.n, own(stack.linear, i), own(stack.pointers, i), own(stack.items, i), own(stack.weights, i)
    )


register_objective(
    MaximaParams,
    objective_size=_maxima_size,
    objective_carve=_maxima_carve,
    evaluate=_maxima_evaluate,
    is_nonnegative=_maxima_is_nonnegative,
    problem_at=_maxima_at,
)


def rows_of(params: MaximaParams, items: NDArray[np.int64] | slice) -> NDArray[np.float64]:
    """The rows of W of some items (an index), shape (number of items, D), from the sorted columns."""
    pointers, place = params.pointers, np.full(params.n, -1)
    count = place[items].size
    place[items] = np.arange(count)
    W = np.zeros((count, pointers.size - 1))
    for first in range(0, W.shape[1], COLUMNS):
        require_time()
        last = min(first + COLUMNS, W.shape[1])
        part = slice(pointers[first], pointers[last])
        columns = np.repeat(np.arange(first, last), np.diff(pointers[first : last + 1]))
        rows = place[params.items[part]]
        kept = rows >= 0
        W[rows[kept], columns[kept]] = params.weights[part][kept]
    return W


class OfBenefits(Objective):
    """An objective by maxima, whose W is kept by rows until f is evaluated, and by sorted columns from then on."""

    linear: NDArray[np.float64]
    _rows: Matrix | None

    @cached_property
    def _params(self):
        # Sorted once it is evaluated away from 0: a greedy choice reads rows of W alone. Only one of both is kept of a
        # dense W, so that the memory stays below twice that of W.
        params = MaximaParams(self.n, self.linear, *sorted_columns(self._rows))
        if not scipy.sparse.issparse(self._rows):
            self._rows = None
        return params

    @property
    def operations(self) -> float:
        if self._rows is None:
            return super().operations
        n_weights = np.count_nonzero(self._rows) if isinstance(self._rows, np.ndarray) else self._rows.count_nonzero()
        return 2.0 * (self.n + self._rows.shape[1] + 2 + 2 * n_weights)

    def value_and_gradient(self, x: ArrayLike) -> tuple[float, NDArray[np.float64]]:
        x = as_vector(x, "x", n=self.n)
        if x.any() or self._rows is None:
            return super().value_and_gradient(x)
        return 0.0, self.linear + np.asarray(self._rows.sum(axis=1)).ravel()

    @property
    def has_rows(self) -> bool:
        """Whether `rows` are at hand; else they are made of sorted columns."""
        return self._rows is not None

    def rows(self) -> Matrix:
        """What item i is worth in group d, shape (n, D): an array, or a sparse matrix by rows, as it was given."""
        return self._rows_of(slice(None)) if self._rows is None else self._rows

    def _rows_of(self, items):
        return rows_of(self._params, items) if self._rows is None else self._rows[items]


def curvature(params: MaximaParams, upper: NDArray[np.float64]) -> float:
    """A bound on the curvature constant over [0, upper]: -d_ij f <= sum_d min(W_id, W_jd), attained at x = 0."""
    _, _, pointers, items, weights = params
    # Weights are sorted within each group.
    u = upper[items]
    before = np.concatenate(([0.0], np.cumsum(u)))
    start = np.repeat(before[pointers[:-1]], np.diff(pointers))
    return float(2.0 * (weights * u) @ (before[:-1] - start))


def curvature_matrix(params: MaximaParams) -> NDArray[np.float64] | None:
    """A with -d_ij f <= a_ij on the unit box; None where it is too large."""
    _, _, pointers, items, weights = params
    if params.n > _MATRIX_UP_TO or np.square(np.diff(pointers)).sum() > _MOST_PAIRS:
        return None
    A = np.zeros((params.n, params.n))
    for first, end in pairwise(pointers):
        group, shared = items[first:end], weights[first:end]
        A[np.ix_(group, group)] += np.minimum.outer(shared, shared)
    np.fill_diagonal(A, 0.0)
    return A


def _stacked_maxima(linear, W):
    """`MaximaParams` of many problems: linear (B or 1, n), W (B or 1, n, D), finite and at least 0.

    Row k of ``items`` and ``weights`` is filled as far as the last pointer of its problem.
    """
    count, n, D = W.shape
    columns = W.swapaxes(1, 2)
    order = np.argsort(-columns, axis=2, kind="stable")
    ranked = np.take_along_axis(columns, order, axis=2).reshape(count, D * n)
    positive = ranked > 0.0
    pointers = np.zeros((count, D + 1), np.int64)
    np.cumsum(positive.reshape(count, D, n).sum(axis=2), axis=1, out=pointers[:, 1:])
    items, weights = np.zeros((count, D * n), np.int64), np.zeros((count, D * n))
    problem = np.nonzero(positive)[0]
    place = (np.cumsum(positive, axis=1) - 1)[positive]
    items[problem, place], weights[problem, place] = order.reshape(count, D * n)[positive], ranked[positive]
    return MaximaParams(n, linear, pointers, items, weights)


def stack_facility_location(W: NDArray[np.float64]) -> tuple[MaximaParams, NDArray[np.bool_]]:
    return _stacked_maxima(np.zeros((1, W.shape[1])), np.maximum(W, 0.0)), within(W, 0.0, LARGEST)


def stack_flid(utilities: NDArray[np.float64], W: NDArray[np.float64]) -> tuple[MaximaParams, NDArray[np.bool_]]:
    accepted = within(W, 0.0, LARGEST) & within(utilities, -LARGEST, LARGEST)
    return _stacked_maxima(utilities - W.sum(axis=2), np.maximum(W, 0.0)), accepted
