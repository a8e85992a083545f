"""Kernels of the multilinear extension of F(S) = sum_{i in S} l_i + sum_d max_{i in S} W_id.

For one d sort the items by W_id, largest first, w_1 >= w_2 >= ..; then with Q_k = prod_{l < k} (1 - x_l)

    E max = sum_k Q_k x_k w_k,   d_k E max = Q_k G_k,
    G_k = w_k - E[max over the items after k] = (w_k - w_{k+1}) + (1 - x_{k+1}) G_{k+1}.

Sorting happens once; value and gradient together are then two sweeps over the positive entries of W, without a division
or a difference of near equals.
"""

from collections import namedtuple
from typing import Any

import numpy as np
import scipy

from drsub_fast._kinds import LARGEST, within
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.stack import row_of
from drsub_fast.objectives.base import register_objective

#: Columns of a dense W that are sorted at a time.
COLUMNS = 64


def sorted_columns(W: Any) -> Any:
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
    n = params.n
    return MaximaWork(floats[:n], floats[n : 2 * n], floats[2 * n : 3 * n])


@kernel
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
        stack.n,
        stack.linear[row_of(stack.linear, i)],
        stack.pointers[row_of(stack.pointers, i)],
        stack.items[row_of(stack.items, i)],
        stack.weights[row_of(stack.weights, i)],
    )


register_objective(
    MaximaParams,
    objective_size=_maxima_size,
    objective_carve=_maxima_carve,
    evaluate=_maxima_evaluate,
    is_nonnegative=_maxima_is_nonnegative,
    problem_at=_maxima_at,
)


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


def stack_facility_location(W: Any) -> Any:
    return _stacked_maxima(np.zeros((1, W.shape[1])), np.maximum(W, 0.0)), within(W, 0.0, LARGEST)


def stack_flid(utilities: Any, W: Any) -> Any:
    accepted = within(W, 0.0, LARGEST) & within(utilities, -LARGEST, LARGEST)
    return _stacked_maxima(utilities - W.sum(axis=2), np.maximum(W, 0.0)), accepted
