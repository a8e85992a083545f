"""The multilinear extension of a set function given by the table of its 2^n values, item i being bit 2^i of the index.

Fold one coordinate at a time, t <- (1 - x_i) t[without i] + x_i t[with i], and go back through the folds with the
probabilities of the subsets for the gradient: O(2^n) together.
"""

from collections import namedtuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.objectives.base import register_objective

TableParams = namedtuple("TableParams", "n values")
TableWork = namedtuple("TableWork", "grad trial folds chances")


@kernel
def _table_size(params):
    return 2 * params.n + params.values.size + params.values.size // 2, 0


@kernel(memory=True)
def _table_carve(params, floats, integers):
    n, size = params.n, params.values.size
    return TableWork(*split(floats, n, n, size, size // 2))


@kernel
def _fold(table, share, out):
    """out = (1 - share) * first half of table + share * second half."""
    half = out.size
    low, high = table[:half], table[half:]
    for s in range(half):
        out[s] = low[s] + share * (high[s] - low[s])


@kernel(reductions=True)
def _mean_difference(table, chances):
    """Mean, under the chances, of second half minus first half of the table."""
    half = chances.size
    low, high = table[:half], table[half:]
    total = 0.0
    for s in range(half):
        total += chances[s] * (high[s] - low[s])
    return total


@kernel
def _table_evaluate(params, work, x):
    # folds[2^k : 2^(k+1)] is the table over the items below k, the others averaged away.
    n, values, folds, chances = params.n, params.values, work.folds, work.chances
    half = values.size // 2
    _fold(values, x[n - 1], folds[half : 2 * half])
    for k in range(n - 2, -1, -1):
        half = 1 << k
        _fold(folds[2 * half : 4 * half], x[k], folds[half : 2 * half])
    chances[0] = 1.0
    for k in range(n):
        half = 1 << k
        table = values if k == n - 1 else folds[2 * half : 4 * half]
        work.grad[k] = _mean_difference(table, chances[:half])
        if k < n - 1:
            for s in range(half):
                chances[half + s] = chances[s] * x[k]
                chances[s] -= chances[half + s]
    return folds[1]


register_objective(TableParams, objective_size=_table_size, objective_carve=_table_carve, evaluate=_table_evaluate)


def items_of(subset: int, n: int) -> list[int]:
    """The items whose bits are set."""
    return [i for i in range(n) if subset >> i & 1]


def corner_values(values: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """f at the 2^n corners of [0, min(upper, 1)]."""
    corner = values.copy()
    for i, u in enumerate(np.minimum(upper, 1.0)):
        pairs = corner.reshape(-1, 2, 1 << i)
        pairs[:, 1] = pairs[:, 0] + u * (pairs[:, 1] - pairs[:, 0])
    return corner


def first_difference(values: NDArray[np.float64], i: int) -> NDArray[np.float64]:
    """F(S + i) - F(S) for all S without i."""
    pairs = values.reshape(-1, 2, 1 << i)
    return pairs[:, 1] - pairs[:, 0]


def second_difference(values: NDArray[np.float64], i: int, j: int) -> NDArray[np.float64]:
    """F(S + i + j) - F(S + i) - F(S + j) + F(S), i < j, shape (.., .., ..) over the other items."""
    table = values.reshape(-1, 2, 1 << (j - i - 1), 2, 1 << i)
    return (table[:, 1, :, 1] - table[:, 1, :, 0]) - (table[:, 0, :, 1] - table[:, 0, :, 0])


def curvature_matrix(values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """A with -d_ij f <= a_ij on the unit box: -d_ij f is a mean of second differences, which are at most 0."""
    A = np.zeros((n, n))
    for j in range(n):
        for i in range(j):
            A[i, j] = A[j, i] = max(0.0, -second_difference(values, i, j).min())
    return A


def require_submodular(values: NDArray[np.float64], n: int) -> None:
    """Raises ValueError, naming a set and a pair, if the function is not submodular."""
    scale = 1e-12 * (1.0 + np.abs(values).max())
    for j in range(n):
        for i in range(j):
            second = second_difference(values, i, j)
            if second.max() > scale:
                high, middle, low = np.unravel_index(int(second.argmax()), second.shape)
                others = (int(high) << (j + 1)) + (int(middle) << (i + 1)) + int(low)
                S = set(items_of(others, n)) or "{}"
                raise ValueError(
                    f"F is not submodular: with S = {S}, F(S + {i} + {j}) - F(S + {j}) exceeds F(S + {i}) - F(S) "
                    f"by {second.max():g}"
                )
