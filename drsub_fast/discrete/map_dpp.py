"""MAP inference for determinantal point processes: the feasible set of items of largest log det L_SS.

Four ways to a set, and a bound on how much better another could be:

- ``greedy`` (`greedy_map`): an item at a time, O(n k^2) for k items.
- ``continuous``: a method of the paper maximises the softmax extension, whose 0/1 points have the values of their
  sets; the point is rounded (`round_solution`). Gillenwater, Kulesza, Taskar 2012; Bian et al. 2017, section 5.2.
- ``best``: the better of the two.
- ``exact`` (`exact_map`): enumeration, up to 20 items.

All but the last end with single additions, removals and swaps (`improve_set`) unless asked not to.

When the continuous method beats the greedy one, measured on the 28 debate tasks of `drsub_fast.experiments.debates`
(log det of the continuous set less that of the greedy one, mean, without swaps; weights 1 and 3 of the match) and on
the digits of `drsub_fast.experiments.digits`:

- Matchings, where an early choice blocks others on two sides: by 0.20 and 0.54; better on 22 of 28 tasks at weight 1,
  worse on 3. Swaps recover a tenth of that for greedy.
- Partition matroids: by 0.05 and 0.03. Digits, 2 of each class: by 0.2 of 71, which swaps even out.
- A number of items only: not at all. 10 items: -0.003 and -0.18; 20 digits: -0.65 of 72. The softmax extension gains
  from spreading the budget over many similar items, most of all for kernels of low rank (104 against the best
  set's bound of 80 for the digits), and rounding gives that up again. Greedy with swaps is then the method.

The greedy choice takes a tenth of the time or less.

The bound is the least of the solver's own, of Hadamard's inequality log det L_SS <= sum of log L_ii over S,
maximised over the constraint by one oracle call, and, for a kernel in factored form, of the k largest
eigenvalues, log det L_SS <= sum of their logarithms (Cauchy's interlacing theorem), k being the most items that
the constraint allows.
"""

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from drsub_fast._checks import as_square, require_finite
from drsub_fast.discrete.greedy import exact_map, greedy_map
from drsub_fast.discrete.rounding import improve_set, round_solution
from drsub_fast.methods import METHODS, maximize
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.result import Result
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.budget import Budget

#: The solver of the method "continuous".
_CONTINUOUS = "two-phase-frank-wolfe"


@dataclass(frozen=True)
class MapSolution:
    """A set of items found by `map_dpp`, and what it is worth.

    Attributes
    ----------
    items : ndarray of int
        The items, increasing, each once.
    value : float
        log det of the kernel's block of these items; 0 for no item.
    fractional_value : float
        Value of the softmax extension at the point that was rounded; NaN if there was none.
    bound : float
        Proven upper bound on the value of every feasible set.
    time : float
        Wall-clock seconds.
    method : str
        What found the set: "greedy", "exact" or the name of a continuous method.
    result : Result or None
        What the continuous method returned.
    """

    items: np.ndarray
    value: float
    fractional_value: float
    bound: float
    time: float
    method: str
    result: Result | None = field(default=None, repr=False)


def nearest_psd(L):
    """The positive semidefinite matrix closest to L in the Frobenius norm.

    Parameters
    ----------
    L : array_like, shape (n, n)
        Any square matrix, e.g. of estimated similarities.

    Returns
    -------
    ndarray, shape (n, n)
        The symmetric part of L without its negative eigenvalues.

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
    L=None, constraint=None, method="best", *, features=None, quality=None, improve=True, rounding="pipage",
    **options,
):  # fmt: skip
    """MAP inference: a feasible set of items whose block of the kernel has a large determinant.

    Parameters
    ----------
    L : array_like, shape (n, n), or Softmax, optional
        Kernel: symmetric, positive semidefinite.
    constraint : int or FeasibleSet
        A number of items at most, or the set whose 0/1 points are allowed.
    method : str
        "best" (the better of "continuous" and "greedy"), "continuous" (two-phase Frank-Wolfe), any other method by its
        name in `METHODS`, "greedy" or "exact" (at most 20 items). See the module.
    features, quality : array_like, shapes (n, k) and (n,), optional
        Instead of L: the kernel of `Softmax.from_features`.
    improve : bool, default True
        Whether single additions, removals and swaps follow.
    rounding : {"pipage", "threshold", "randomized"}
        As in `round_solution`. "pipage" and the greedy choice need a Box, Budget, PartitionMatroid or
        MatchingPolytope.
    **options
        Passed to the continuous method, e.g. ``max_iter``, ``time_limit``.

    Returns
    -------
    MapSolution

    Raises
    ------
    TypeError
        If not exactly one of ``L`` and ``features`` is given, or there is no constraint.
    ValueError
        For an asymmetric or indefinite L (`nearest_psd` helps), sizes that differ, or an unknown method.
    UnsupportedError
        For a set that the rounding or the greedy choice cannot treat.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> L = [[5.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 2.0]]
    >>> r = ds.map_dpp(L, 2)
    >>> r.items, round(r.value, 3), round(r.bound, 3)
    (array([0, 2]), 2.303, 2.996)
    """
    began = perf_counter()
    f = _as_softmax(L, features, quality)
    P = _as_set(constraint, f.n)
    finders = {"greedy": [_greedy], "exact": [_exact], "best": [_continuous, _greedy]}.get(method, [_continuous])
    solver = _CONTINUOUS if method in ("continuous", "best", "greedy", "exact") else method
    if solver not in METHODS:
        choices = ", ".join(map(repr, ("continuous", "greedy", "best", "exact", *METHODS)))
        raise ValueError(f"unknown method {method!r}; choose from {choices}")
    if options and finders in ([_greedy], [_exact]):
        raise TypeError(f"method {method!r} has no option {next(iter(options))}")
    found = [find(f, P, solver, improve, rounding, options) for find in finders]
    best = max(found, key=lambda solution: solution.value)
    bound = min(_determinant_bound(f, P), *(solution.bound for solution in found))
    # The bounds are sums of logarithms: where one is attained, rounding may put it a hair below.
    return MapSolution(
        best.items, best.value, found[0].fractional_value, max(bound, best.value), perf_counter() - began,
        best.method, found[0].result,
    )  # fmt: skip


def _as_softmax(L, features, quality):
    """The softmax extension on the unit box."""
    if (L is None) == (features is None):
        raise TypeError("map_dpp needs either L or features")
    if features is not None:
        return Softmax.from_features(features, quality)
    if quality is not None:
        raise TypeError("quality goes with features; scale L by it: L = q[:, None] * S * q")
    f = L if isinstance(L, Softmax) else Softmax(L)
    if not f.unit_box:
        raise ValueError("the softmax extension must keep to the unit box: Softmax(L, unit_box=True)")
    return f


def _as_set(constraint, n):
    if constraint is None:
        raise TypeError("map_dpp needs a constraint: a number of items or a set")
    P = constraint if isinstance(constraint, FeasibleSet) else Budget(constraint, np.ones(n))
    if P.n != n:
        raise ValueError(f"the kernel has {n} items, the constraint {P.n}")
    return P


def _continuous(f, P, solver, improve, rounding, options):
    result = maximize(f, P, method=solver, **options)
    rounded = round_solution(f, P, result.best_x, method=rounding, improve=improve)
    return MapSolution(
        rounded.items, rounded.value, rounded.fractional_value, result.upper_bound, 0.0, result.method, result
    )


def _greedy(f, P, solver, improve, rounding, options):
    chosen = greedy_map(f.L, P) if f.factor is None else greedy_map(constraint=P, features=f.factor)
    items, value = np.sort(chosen.items), chosen.value
    if improve:
        improved = improve_set(f, P, items)
        items, value = improved.items, improved.value
    return MapSolution(items, value, np.nan, np.inf, 0.0, "greedy")


def _exact(f, P, solver, improve, rounding, options):
    best = exact_map(f.L, P)
    return MapSolution(best.items, best.value, np.nan, best.value, 0.0, "exact")


def _determinant_bound(f, P):
    """The bounds of Hadamard and, for a factor, of the eigenvalues; see the module."""
    upper = np.minimum(P.upper, 1.0)
    diagonal = f.L.diagonal() if f.factor is None else np.einsum("ij,ij->i", f.factor, f.factor)
    gains = np.log(np.maximum(diagonal, 1.0))
    bound = float(gains @ P.lmo(gains, upper))
    if f.factor is not None:
        most = int(P.lmo(np.ones(f.n), upper).sum() + 1e-9)
        largest = np.linalg.eigvalsh(f.factor.T @ f.factor)[::-1][:most]
        bound = min(bound, float(np.log(np.maximum(largest, 1.0)).sum()))
    return bound
