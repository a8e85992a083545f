"""MAP inference for determinantal point processes: the feasible set of items of largest log det L_SS.

Four ways to a set, and a bound on how much better another could be (`drsub_fast.discrete.bounds`):

- ``greedy`` (`greedy_map`): an item at a time.
- ``continuous``: a method of the paper maximises the softmax extension, whose 0/1 points have the values of their
  sets; the point is rounded (`round_solution`). Gillenwater, Kulesza, Taskar 2012; Bian et al. 2017.
- ``best``: the better of the two.
- ``exact`` (`exact_map`): branch and bound, up to 24 items.

All but the last end with single additions, removals and swaps (`drsub_fast.discrete.swaps`) unless asked not to.

All take ``time_limit``, which never decides which of them runs. ``auto``, the default, is ``greedy`` for a number of
items and for items in one group each (at most so many of a category), and ``best`` under other constraints up to
n = 500.

Measured on ten debate tasks of 67 to 199 items (`drsub_fast.experiments.debates`), weight of the match 1: mean log det
over that of greedy without single moves, and tasks where the continuous method with moves is better / worse than greedy
with moves.

==========================  ============  ==========  ==================  ==============
constraint                  greedy moved  continuous  continuous, moved   better / worse
==========================  ============  ==========  ==================  ==============
at most 10 items            +0.0000       +0.0018     +0.0032             1 / 0
exactly 10 items            +0.0000       -0.0957     +0.0032             1 / 0
one a topic on the left     +0.0000       +0.0869     +0.1023             6 / 0
matching                    +0.0001       +0.1709     +0.1850             6 / 0
knapsack, random weights    +0.0136       +0.0739     +0.0791             3 / 0
==========================  ============  ==========  ==================  ==============

Where ``best`` pays with categories, as for the topics here, it takes some hundred times as long: 0.1 s at n = 200.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_flag, as_real, as_square, one_of, require_finite
from drsub_fast.claims.gate import FINISHED_RUNS, least_bound
from drsub_fast.discrete.bounds import log_det_bound
from drsub_fast.discrete.exact import MOST_ITEMS, exact_set
from drsub_fast.discrete.few_items import choose_few
from drsub_fast.discrete.greedy import as_item_kernel, choose, described, exactly, few_message
from drsub_fast.discrete.item_set import AS_MANY, MapResult, by_gain, gains_in_order, log_det
from drsub_fast.discrete.packing import as_packing
from drsub_fast.discrete.rounding import METHODS as ROUNDINGS
from drsub_fast.discrete.rounding import round_solution
from drsub_fast.discrete.swaps import improve_by_moves, resized
from drsub_fast.engine.clock import OutOfTime, last_moment, now, until
from drsub_fast.methods import METHODS, maximize, options_of
from drsub_fast.objectives.similarity import FeatureKernel, MatrixKernel, Similarity
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.result import Certificate, Result
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.budget import Budget

#: Largest n for which "auto" runs the continuous method beside the greedy choice: 0.1 s at n = 200, but tens of seconds
#: for 0.14 in log det at n = 1797 (2 of each digit, `drsub_fast.experiments.digits`).
_BEST_UP_TO = 500
#: The solver of the method "continuous".
_CONTINUOUS = "two-phase-frank-wolfe"
#: Other names of what callers mean, and how it is given here.
_MEANT = {"k": "size", "n_items": "size", "max_length": "size", "topk": "size", "P": "constraint", "kernel": "L"}


@dataclass(frozen=True, eq=False)
class MapSolution(MapResult):
    """A set of items found by `map_dpp`, and what it is worth.

    Attributes
    ----------
    items, value, gains, order, certificate, upper_bound, message
        As in `MapResult`; the items increasing.
    method : str
        What found the set: "greedy", "exact" or the name of a continuous method.
    time : float
        Wall-clock seconds.
    fractional_value : float
        Value of the softmax extension at the point that was rounded; NaN if there was none.
    result : Result or None
        What the continuous method returned.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> s = ds.map_dpp([[2.0, 0.0], [0.0, 3.0]], size=1)
    >>> s.items.tolist(), s.method
    ([1], 'greedy')
    """

    method: str = ""
    time: float = 0.0
    fractional_value: float = np.nan
    result: Result | None = field(default=None, repr=False)


def nearest_psd(L: ArrayLike) -> NDArray[np.float64]:
    """The positive semidefinite matrix closest to L in the Frobenius norm.

    Parameters
    ----------
    L : array_like, shape (n, n)
        Any square matrix, e.g. of estimated similarities.

    Returns
    -------
    ndarray, shape (n, n)
        The symmetric part of L without its negative eigenvalues.

    Raises
    ------
    ValueError
        If L is not square, or has an entry that is not finite.

    Notes
    -----
    Higham, Computing a nearest symmetric positive semidefinite matrix, Linear Algebra and its Applications 103
    (1988), theorem 2.1.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.nearest_psd([[1.0, 2.0], [2.0, 1.0]])
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """
    L = as_square(L, "L")
    scale = np.abs(L).max()
    if scale == 0.0:
        return L
    L /= scale  # entries near the largest float overflow in sums and squares
    w, U = np.linalg.eigh(0.5 * (L + L.T))
    root = U * np.sqrt(w.clip(0.0))
    with np.errstate(over="ignore"):
        nearest = scale * (root @ root.T)
    require_finite(nearest, "the nearest positive semidefinite matrix")
    return nearest


def map_dpp(
    L: ArrayLike | Softmax | None = None,
    constraint: int | FeasibleSet | None = None,
    method: str = "auto",
    *,
    features: ArrayLike | None = None,
    quality: ArrayLike | None = None,
    size: int | None = None,
    similarity: Similarity = "cosine",
    gamma: float | None = None,
    improve: bool = True,
    rounding: Literal["auto", "pipage", "threshold", "randomized"] = "auto",
    time_limit: float | None = None,
    **options: Any,
) -> "MapSolution":
    """MAP inference: a feasible set of items whose block of the kernel has a large determinant.

    Parameters
    ----------
    L : array_like, sparse matrix or Softmax, shape (n, n), optional
        Kernel: symmetric, positive semidefinite.
    constraint : int or FeasibleSet, optional
        A number of items at most, or the down-closed set whose 0/1 points are allowed.
    method : str
        "auto" ("greedy", and under a constraint other than a number of items in all or in each group "best", up to
        n = 500), "greedy", "continuous" (two-phase Frank-Wolfe), any other method by its name in
        `METHODS`, "best" (the better of "continuous" and "greedy") or "exact" (at most 24 items).
    features, quality, similarity, gamma
        Instead of L, as for `greedy_map`.
    size : int, optional
        Exactly this many items, within the constraint if there is one. log det may be negative then.
    improve : bool, default True
        Whether single additions, removals and swaps follow.
    rounding : {"auto", "pipage", "threshold", "randomized"}
        As in `round_solution`.
    time_limit : float, optional
        Seconds for everything but the first greedy choice: half of it for the continuous method, and where the rest is
        too short for rounding its point, the greedy choice is returned. It never decides which method runs.
    **options
        Passed to the continuous method, e.g. ``max_iter``.

    Returns
    -------
    MapSolution

    Raises
    ------
    TypeError
        If not exactly one of ``L`` and ``features`` is given, neither ``constraint`` nor ``size``, or an option that
        does not exist.
    ValueError
        For an asymmetric or indefinite L (`nearest_psd` helps; of more than 500 items, one that the choice shows to be
        so), sizes that differ, or an unknown method.
    UnsupportedError
        For a set without packing rows.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> L = [[5.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 2.0]]
    >>> r = ds.map_dpp(L, size=2)
    >>> r.items, round(r.value, 3), round(r.upper_bound, 2)
    (array([0, 2]), 2.303, 2.31)
    """
    began = now()
    one_of(method, "method", ("auto", "best", "continuous", "greedy", "exact", *METHODS))
    one_of(rounding, "rounding", ROUNDINGS)
    improve = as_flag(improve, "improve")
    _check_options(options, method)
    limit = None if time_limit is None else as_real(time_limit, "time_limit", lower=0.0)
    kernel = as_item_kernel(L, features, quality, similarity, gamma)
    family = as_packing(constraint, kernel.n, size)
    if method == "auto":
        pays = family.depth > 1 or family.is_weighted or family.nested
        method = "continuous" if options else "best" if pays and kernel.n <= _BEST_UP_TO else "greedy"
    _require_semidefinite(kernel)
    if method == "exact" and kernel.n > MOST_ITEMS:
        raise ValueError(f"{kernel.n} items: method 'exact' takes at most {MOST_ITEMS}")
    end = last_moment(began, limit)
    if method == "exact":
        with until(end):
            return MapSolution(**vars(exact_set(kernel, family, size)), method="exact", time=now() - began)
    few = choose_few(L, features, quality, similarity, gamma, constraint, size, False)
    found = [_greedy(kernel, family, size, improve, few, end)] if method in ("greedy", "best") else []
    if method != "greedy":
        solver = _CONTINUOUS if method in ("best", "continuous") else method
        start = found[0].items if found else None
        found.append(_continuous(kernel, family, size, start, solver, improve, rounding, options, limit, end))
    best = max(found, key=lambda one: one.value)
    order = by_gain(kernel, np.sort(best.items)) if best.gains is None else best.items
    bounds = [one.bound for one in found] + [partial(log_det_bound, kernel, family, size, best.items)]
    certificate = Certificate(np.inf, lambda: least_bound(best.value, *(bound() for bound in bounds)))
    about = described(kernel, family, order, size, best.message, certificate, best.gains)
    return MapSolution(
        items=np.sort(best.items), order=order, **about, method=best.method, time=now() - began,
        fractional_value=found[-1].fractional_value, result=found[-1].result,
    )  # fmt: skip


def _require_semidefinite(kernel):
    """Raise ValueError for a matrix of moderate size that is not positive semidefinite: some ms at most."""
    if isinstance(kernel, MatrixKernel) and kernel.n <= _BEST_UP_TO:
        every = np.arange(kernel.n)
        kernel.require_valid(every)
        block = kernel.block(every, every)
        block[every, every] += 1e-9 * block.diagonal().max()
        try:
            np.linalg.cholesky(block)
        except np.linalg.LinAlgError:
            kernel.factor()  # raises, but for rounding


def _check_options(options, method):
    """Raise TypeError for an option that does not exist, and say how what is meant is given."""
    known: tuple[str, ...] = ()
    if method not in ("greedy", "exact"):
        known = options_of(_CONTINUOUS if method in ("auto", "best", "continuous") else method)
    for name in options:
        if name in known or name in ("bound", "n_starts", "seed", "x0", "callback", "progress"):
            continue
        meant = f"; for {name}= give {_MEANT[name]}=" if name in _MEANT else ""
        if _MEANT.get(name) == "size":
            meant += f": size={options[name]!r} is exactly so many items, constraint={options[name]!r} at most so many"
        listed = f"; options of the continuous method: {', '.join(sorted(known))}" if known else ""
        raise TypeError(f"map_dpp by the method {method!r} has no option {name}{meant}{listed}")


class _Found(NamedTuple):
    """A set on its way: what `map_dpp` compares."""

    items: NDArray[np.int64]
    value: float
    bound: Callable[[], float]
    message: str
    method: str
    fractional_value: float = np.nan
    result: Result | None = None
    #: What each item adds, in the order of ``items``, where that is known and the order of choice.
    gains: NDArray[np.float64] | None = None


def _greedy(kernel, family, size, improve, few, end):
    if few is None:
        items, message = choose(kernel, family, size)
    else:
        items, message = few.items, few_message(few, size)
    if improve:
        with until(end):
            items = improve_by_moves(kernel, family, items, size)
    if few is not None and np.array_equal(items, few.items):
        return _Found(items, few.value, _no_bound, message, "greedy", gains=few.gains)
    return _Found(items, log_det(kernel, items), _no_bound, message, "greedy")


def _no_bound():
    return np.inf


def _continuous(kernel, family, size, start, solver, improve, rounding, options, limit, end):
    """By the softmax extension; where a size is asked for, of the kernel scaled so that every item pays."""
    scale = 1.0
    if size is not None:
        start = exactly(kernel, family, size)[0] if start is None else start
        scale = _paying_scale(kernel, start)
    f = _softmax(kernel, scale)
    P = family.P if family.P is not None else Budget(family.most if size is None else size, np.ones(kernel.n))
    shift = 0.0 if size is None else size * np.log(scale)
    if limit is not None:
        options = options | {"time_limit": 0.5 * limit}
    result = maximize(f, P, method=solver, **options)
    try:
        with until(end):
            rounded = round_solution(f, P, result.best_x, method=rounding, improve=improve and size is None)
            items, fractional = rounded.items, rounded.fractional_value - shift
            if size is not None:
                items = resized(kernel, family, items, size)
                items = improve_by_moves(kernel, family, items, size) if improve else items
        message = AS_MANY if size is not None else f"{items.size} of at most {family.most} items: the point was rounded"
    except OutOfTime:
        items, fractional, message = None, np.nan, ""
    if items is None or result.status not in FINISHED_RUNS:
        greedy = choose(kernel, family, size)[0] if start is None else start
        if items is None or log_det(kernel, greedy) > log_det(kernel, items):
            reason = "the time limit left too little for rounding" if items is None else result.status.value
            items, message = greedy, f"{reason}: the greedy choice"

    def bound():
        return result.upper_bound - shift

    return _Found(items, log_det(kernel, items), bound, message, result.method, fractional, result)


def _paying_scale(kernel, items):
    """What L is multiplied by so that the least gain in a set is e: sets of one size keep their order."""
    least = gains_in_order(kernel, by_gain(kernel, items)).min()
    return float(np.exp(1.0 - least)) if np.isfinite(least) else 1.0


def _softmax(kernel, scale):
    B = kernel.factor() if isinstance(kernel, FeatureKernel) else None
    if B is not None:
        return Softmax(factor=np.sqrt(scale) * B)
    items = np.arange(kernel.n)
    return Softmax(scale * kernel.block(items, items))
