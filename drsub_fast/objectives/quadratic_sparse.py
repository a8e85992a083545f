"""Kernels of quadratics whose H is a sparse matrix.

A vertex has few entries that are not zero, and they have few neighbours, so `prepare` lists them, and the first step
along a vertex touches x at these places and the gradient at their neighbours only: grad += gamma H v, row by row. With
the slopes before and after, f += gamma/2 (<grad, v> + <grad + gamma H v, v>), which is exact for quadratics, so H v
itself is made only when a second step, or a step of another kind, asks for it. From one vertex to the next few rows
count then: H v changes by the rows in which v does.
"""

import sys
from collections import namedtuple
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import prefetch, split
from drsub_fast.engine.vector import is_finite
from drsub_fast.objectives import sparse_steps  # noqa: F401  the operations
from drsub_fast.objectives.base import register_objective
from drsub_fast.objectives.quadratic_kernels import (
    advance_by_product,
    contract_quadratic,
    evaluate_quadratic,
    exact_step_of_quadratic,
    gains_of_variables,
    maximum_along_coordinate,
    product_with_hessian,
    rate_of_gradient,
)

#: ``data, indices, indptr``: the rows of H, as SciPy keeps them. The places are unsigned, since compiled
#: code asks of signed ones whether they count from the end: rows are added in 0.26 ms instead of 0.36.
SparseQuadraticParams = namedtuple("SparseQuadraticParams", "data indices indptr diagonal h c")


def unsigned(places: NDArray[np.signedinteger[Any]]) -> NDArray[np.unsignedinteger[Any]]:
    """Places >= 0 as unsigned integers of the same memory."""
    return places.view(f"u{places.itemsize}")


def signed(places: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.signedinteger[Any]]:
    """The same places as the signed integers that SciPy takes."""
    return places.view(f"i{places.itemsize}")


#: ``places[: state[_COUNT]]``: where the prepared v is not zero, ascending; ``product_of`` and ``product_places``: the
#: vector that Hv is the product of, and where it is not zero.
SparseQuadraticWork = namedtuple("SparseQuadraticWork", "grad Hv product_of places product_places state")
#: Numbers of places; how far the product with the prepared v is; whether the gradient is known to be finite; products
#: since the last from scratch, one that is to come included.
_COUNT, _PRODUCT_COUNT, _PRODUCT, _SOUND, _AGE = range(5)
#: Of H v: v is new; one step was taken without it; it is there.
_NEW, _USED, _THERE = range(3)
#: Products by changes between two from scratch: each adds a rounding error.
_REFRESH = 50

#: Rows ahead that are fetched, since which ones will be read cannot be guessed: 5600 of 100,000 rows of 14 entries take
#: 0.37 ms then, 1.2 ms otherwise. Not where H is small enough for the inner caches.
_AHEAD, _IN_CACHE = 8, 50_000

_LARGEST = sys.float_info.max


#: Entries of H that are multiplied at a time as plain Python, so that the time can end in between.
_ENTRIES = 1 << 20


def _times_in_arrays(params, work, v, out):
    places = np.flatnonzero(v).astype(np.uint64)
    if 8 * places.size < v.size:
        out[: v.size] = 0.0
        _add_rows_in_arrays(params, places, places.size, v, 1.0, out)
        return
    starts, rows = signed(params.indptr), [0]
    while rows[-1] < v.size:
        rows.append(max(rows[-1] + 1, int(np.searchsorted(starts, starts[rows[-1]] + _ENTRIES, "right")) - 1))
    for first, end in pairwise(rows):
        some = slice(starts[first], starts[end])
        own = params.data[some], signed(params.indices[some]), starts[first : end + 1] - starts[first]
        out[first:end] = scipy.sparse.csr_array(own, shape=(end - first, v.size)) @ v


@kernel(plain=_times_in_arrays)
def _times(params, work, v, out):
    data, indices, indptr = params.data, params.indices, params.indptr
    for j in range(v.size):
        out[j] = 0.0
    for i in range(v.size):
        scale = v[i]
        if scale != 0.0:
            for place in range(indptr[i], indptr[i + 1]):
                out[indices[place]] += scale * data[place]


@kernel
def _diagonal(params, i):
    return params.diagonal[i]


@kernel
def _size(params):
    n = params.h.size
    return 3 * n, 2 * n + 5


@kernel(memory=True)
def _carve(params, floats, integers):
    n = params.h.size
    grad, Hv, product_of = split(floats, n, n, n)
    places, product_places, state = split(integers, n, n, 5)
    return SparseQuadraticWork(grad, Hv, product_of, places.view(np.uint64), product_places.view(np.uint64), state)


@kernel
def _evaluate(params, work, x):
    work.state[_SOUND] = 0
    return evaluate_quadratic(params, work, x)


def _prepare_in_arrays(params, work, x, v):
    places = np.flatnonzero(v)
    work.places[: places.size] = places
    work.state[_COUNT], work.state[_PRODUCT] = places.size, _NEW


@kernel(plain=_prepare_in_arrays)
def _prepare(params, work, x, v):
    places, count = work.places, 0
    for j in range(v.size):
        places[count] = j
        count += v[j] != 0.0
    work.state[_COUNT] = count
    work.state[_PRODUCT] = _NEW


@kernel
def _n_changes(work, v):
    """How many rows the prepared v changes in H v."""
    old, state, count = work.product_of, work.state, 0
    for t in range(state[_PRODUCT_COUNT]):
        count += v[work.product_places[t]] != old[work.product_places[t]]
    for t in range(state[_COUNT]):
        count += old[work.places[t]] == 0.0
    return count


@kernel
def _complete(params, work, v):
    """Makes H v of the prepared v, unless it is there."""
    state, old = work.state, work.product_of
    if state[_PRODUCT] == _THERE:
        return
    state[_PRODUCT] = _THERE
    if state[_AGE] == 0:
        for j in range(v.size):
            old[j] = 0.0
    if state[_AGE] == 0 or state[_AGE] == _REFRESH or 2 * _n_changes(work, v) > state[_COUNT]:
        _times(params, work, v, work.Hv)
        state[_AGE] = 0
        for t in range(state[_PRODUCT_COUNT]):
            old[work.product_places[t]] = 0.0
    else:
        _replace(params, work, work.product_places, state[_PRODUCT_COUNT], v)
        _replace(params, work, work.places, state[_COUNT], v)
    for t in range(state[_COUNT]):
        i = work.places[t]
        old[i] = v[i]
        work.product_places[t] = i
    state[_PRODUCT_COUNT] = state[_COUNT]
    state[_AGE] += 1


@kernel
def _foresee(params, places, count, t):
    """Has the row of place t + _AHEAD fetched, and where a later one begins."""
    following, later = places[min(t + _AHEAD, count - 1)], places[min(t + 2 * _AHEAD, count - 1)]
    first, end = params.indptr[following], params.indptr[following + 1]
    if first < end:
        prefetch(params.data, first)
        prefetch(params.data, min(first + 8, end - 1))
        prefetch(params.data, end - 1)
        prefetch(params.indices, first)
        prefetch(params.indices, end - 1)
    prefetch(params.indptr, later)


@kernel
def _replace(params, work, places, count, v):
    """Makes the first ``count`` of some rows count in H v by their entries of v."""
    data, indices, indptr, old, out = params.data, params.indices, params.indptr, work.product_of, work.Hv
    for t in range(count):
        i = places[t]
        change = v[i] - old[i]
        if change != 0.0:
            for place in range(indptr[i], indptr[i + 1]):
                out[indices[place]] += change * data[place]
            old[i] = v[i]


def _entries_of_rows(params, places):
    """Where the entries of some rows are, and which of ``places`` each belongs to."""
    first, end = params.indptr[places].astype(np.int64), params.indptr[places + np.uint64(1)].astype(np.int64)
    counts = end - first
    owner = np.repeat(np.arange(places.size), counts)
    return np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts), owner


def _add_rows_in_arrays(params, places, count, v, gamma, out):
    entries, owner = _entries_of_rows(params, places[:count])
    columns = params.indices[entries]
    np.add.at(out, columns, (gamma * v[places[:count]])[owner] * params.data[entries])
    return bool(np.isfinite(out[columns]).all())


@kernel(plain=_add_rows_in_arrays)
def _add_rows(params, places, count, v, gamma, out):
    """out += gamma H v, by rows; whether all that changes is finite. A call for each row would take twice as long.

    A sum of finite numbers that is not finite itself is a false alarm.
    """
    data, indices, indptr, total = params.data, params.indices, params.indptr, 0.0
    for t in range(count):
        if data.size > _IN_CACHE:
            _foresee(params, places, count, t)
        i = places[t]
        scale = gamma * v[i]
        for place in range(indptr[i], indptr[i + 1]):
            j = indices[place]
            out[j] += scale * data[place]
            total += out[j]
    return -_LARGEST <= total <= _LARGEST


@kernel
def _advance(params, work, x, v, gamma, value):
    grad, places, state = work.grad, work.places, work.state
    if state[_PRODUCT] == _USED:
        _complete(params, work, v)
    if state[_PRODUCT] == _THERE:
        state[_SOUND] = 0
        return advance_by_product(params, work, x, v, gamma, value)
    state[_PRODUCT] = _USED
    before = after = 0.0
    for t in range(state[_COUNT]):
        i = places[t]
        before += grad[i] * v[i]
        x[i] += gamma * v[i]
    state[_SOUND] = _add_rows(params, places, state[_COUNT], v, gamma, grad)
    for t in range(state[_COUNT]):
        i = places[t]
        after += grad[i] * v[i]
    return value + 0.5 * gamma * (before + after)


@kernel
def _contract(params, work, x, v, gamma, value):
    _complete(params, work, v)
    work.state[_SOUND] = 0
    return contract_quadratic(params, work, x, v, gamma, value)


@kernel
def _exact_step(params, work, x, v, limit, value):
    _complete(params, work, v)
    return exact_step_of_quadratic(params, work, x, v, limit, value)


@kernel
def _gradient_rate(params, work, v, additive, rate):
    _complete(params, work, v)
    return rate_of_gradient(params, work, v, additive, rate)


@kernel
def _shift(params, work, x, i, change, unit, value):
    slope = work.grad[i]
    for place in range(params.indptr[i], params.indptr[i + 1]):
        work.grad[params.indices[place]] += change * params.data[place]
    work.state[_SOUND] = 0
    x[i] += change
    return value + change * (slope + 0.5 * change * params.diagonal[i])


@kernel
def _n_moved(params, work, n):
    return work.state[_COUNT]


@kernel
def _moved(params, work, t):
    return work.places[t]


@kernel
def _gradient_is_finite(params, work):
    return work.state[_SOUND] == 1 or is_finite(work.grad)


register_objective(
    SparseQuadraticParams,
    objective_size=_size,
    objective_carve=_carve,
    evaluate=_evaluate,
    prepare=_prepare,
    advance=_advance,
    contract=_contract,
    exact_step=_exact_step,
    coordinate_maximum=maximum_along_coordinate,
    gains_alone=gains_of_variables,
    gradient_rate=_gradient_rate,
    hessian_product=product_with_hessian,
    shift=_shift,
    hessian_times=_times,
    hessian_diagonal=_diagonal,
    n_moved=_n_moved,
    moved=_moved,
    gradient_is_finite=_gradient_is_finite,
)
