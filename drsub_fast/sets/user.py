"""Sets that the user supplies: a linear oracle in Python, or one compiled by Numba.

Conditional gradient methods ask a set for nothing but its linear oracle: v = argmax <direction, v> over the set.
`CallableSet` calls Python for each answer; `CompiledSet` takes a function compiled by Numba, which becomes part of the
compiled loop. Three sets that have no short list of rows:

Spanning forests of a graph, by Kruskal's algorithm (the polytope of a graphic matroid has 2^n rows):

>>> import numpy as np
>>> import drsub_fast as ds
>>> edges = [(0, 1), (1, 2), (0, 2), (2, 3)]
>>> def forest(direction):
...     tree, v = list(range(4)), np.zeros(len(edges))
...     for j in np.argsort(-direction):
...         a, b = (tree[i] for i in edges[j])
...         if direction[j] > 0.0 and a != b:
...             tree = [a if t == b else t for t in tree]
...             v[j] = 1.0
...     return v
>>> P = ds.CallableSet(forest, n=4, upper=np.ones(4))
>>> f = ds.Quadratic(-np.eye(4), [4.0, 3.0, 2.0, 1.0])
>>> ds.maximize(f, P).x.round(3).tolist()
[1.0, 1.0, 0.0, 1.0]

Paths from node 0 to node 3, an arc a variable, by the longest path in an acyclic graph; this set is not down-closed:

>>> arcs = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2)]
>>> def path(direction):
...     best, last = {0: 0.0}, {}
...     for node in (1, 2, 3):
...         gains = {j: best[a] + direction[j] for j, (a, b) in enumerate(arcs) if b == node}
...         last[node] = max(gains, key=gains.get)
...         best[node] = gains[last[node]]
...     v, node = np.zeros(len(arcs)), 3
...     while node:
...         v[last[node]] = 1.0
...         node = arcs[last[node]][0]
...     return v
>>> P = ds.CallableSet(path, n=5, upper=np.ones(5), is_down_closed=False)
>>> round(ds.maximize(ds.Quadratic(-np.eye(5), [1.0, 1.0, 1.0, 1.0, 0.0]), P).value, 3)
1.5

Shipments between two sources and two sinks, at most what there is, by a solver for linear programs:

>>> from scipy.optimize import linprog
>>> rows, sides = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], [3.0, 2.0, 2.0, 2.5]
>>> def shipments(direction, upper):
...     return linprog(-direction, A_ub=rows, b_ub=sides, bounds=np.column_stack([0.0 * upper, upper])).x
>>> P = ds.CallableSet(shipments, n=4, upper=np.full(4, 2.0))
>>> round(ds.two_phase_frank_wolfe(ds.Quadratic(-np.eye(4), [3.0, 1.0, 1.0, 2.0]), P).value, 2)
6.44
"""

import inspect
from collections import namedtuple
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_flag, as_function, as_vector
from drsub_fast.engine.codes import FAILED, NEEDS_SOLVER, OK
from drsub_fast.engine.interpreted import call_outside
from drsub_fast.engine.jit import kernel
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.user import as_arguments, compiled_params, require_compiled
from drsub_fast.sets.base import FeasibleSet, register_set

Array = NDArray[np.float64]

#: What an answer may miss by rounding: a bound, in units of it; the largest value, in units of |direction| upper.
_ROUNDING = 1e-9
#: Answers that are remembered, to be compared with later ones.
_REMEMBERED = 64
#: Without ``contains``: how far from all mixtures of vertices a point may be, in units of the bounds, and the rounds in
#: which its nearest mixture is looked for.
_NEAR, _ROUNDS = 1e-7, 200
#: Rounds in which a point of small entries is looked for, and the sharpness of the largest one among them.
_NORM_ROUNDS, _SHARPNESS = 50, 30.0


#: Says whether a point is in a set.
Contains: TypeAlias = Callable[[Array], object]


class _OracleSet(FeasibleSet):
    """What sets have in common that are known by their linear oracle."""

    def __init__(
        self, params: tuple[Any, ...], n: int, upper: ArrayLike, contains: Contains | None, is_down_closed: bool
    ) -> None:
        n = as_count(n, "n", lower=1)
        super().__init__(params, as_vector(upper, "upper", n=n, lower=0.0))
        self.is_down_closed = as_flag(is_down_closed, "is_down_closed")
        self.declared = frozenset({"down_closed"} if self.is_down_closed else ())
        self._whole, self._contains = self._upper, as_function(contains, "contains")
        self._unit = np.where(self._upper > 0.0, self._upper, 1.0)
        self._known = np.zeros((1 if self.is_down_closed else 0, n))

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_known": self._known[: int(self.is_down_closed)]}

    def checked(self, v: ArrayLike, direction: Array, upper: Array) -> Array:
        """An answer of the oracle, within its bounds exactly; ValueError for one that cannot be right."""
        v = np.asarray(v)
        if v.dtype.kind not in "biuf" or v.shape != (self.n,):
            what = f"an array of shape {v.shape}" if v.dtype.kind in "biuf" else repr(v.ravel()[:1].tolist())
            raise ValueError(f"the oracle must return an array of {self.n} numbers, shape ({self.n},), got {what}")
        v = v.astype(np.float64)
        slack = _ROUNDING * self._unit
        inside = (v >= -slack) & (v <= upper + slack)  # NaN fails both
        if not inside.all():
            j = int(inside.argmin())
            words = "is not finite" if not np.isfinite(v[j]) else "is below 0" if v[j] < 0.0 else "is above"
            raise ValueError(f"the oracle's answer v[{j}] = {v[j]:g} {words}; its upper bound is {upper[j]:g}")
        answer: Array = np.minimum(np.maximum(v, 0.0), upper)
        self.verify(answer)
        whole = bool((upper >= self._whole).all())
        if len(self._known) and (whole or self.is_down_closed):
            known = self._known if whole else np.minimum(self._known, upper)
            value, best = float(direction @ answer), float((known @ direction).max())
            if best > value + _ROUNDING * float(np.abs(direction) @ self._whole):
                raise ValueError(
                    f"the oracle's answer is no maximum: it has <direction, v> = {value:.9g}, and a point that is "
                    f"known to be in the set {best:.9g}"
                )
        if whole and not (self._known == answer).all(axis=1).any():
            self._known = np.vstack([self._known[:1], self._known[1:][1 - _REMEMBERED :], answer])
        return answer

    def verify(self, x: Array, gap: float = 0.0) -> None:
        if gap < -_ROUNDING:
            raise ValueError("the oracle's answer is no maximum: a mixture of earlier answers is better")
        if self._contains is not None and not self._holds(x, _ROUNDING):
            raise ValueError(f"contains(x) is False for {x}, which the oracle returned or mixtures of its answers are")

    def _holds(self, x: Array, tol: float) -> bool:
        """What ``contains`` says of x, or of a point nearby farther inside, since x may be outside by rounding."""
        contains = cast(Contains, self._contains)
        if call_outside(contains, x.copy()):
            return True
        inside = np.zeros(self.n) if self.is_down_closed or not len(self._known) else self._known.mean(axis=0)
        return bool(call_outside(contains, x + tol * (inside - x)))

    def constraints_hold(self, x: Array, tol: float) -> bool:
        return self._holds(x, tol) if self._contains is not None else self._is_mixture(x, max(tol, _NEAR))

    def _is_mixture(self, x: Array, tol: float) -> bool:
        """Whether x is a mixture of vertices: the nearest mixture of more and more of them, until one separates x."""
        vertices = [self._vertex(np.ones(self.n)), *self._known]
        z, weight = x / self._unit, 10.0
        for _ in range(_ROUNDS):
            V = np.array(vertices).T / self._unit[:, None]
            try:
                shares = scipy.optimize.nnls(np.vstack([V, np.full(V.shape[1], weight)]), np.append(z, weight))[0]
            except RuntimeError:  # its iterations are over
                return False
            away = z - V @ shares / (shares.sum() or 1.0)
            if np.abs(away).max() <= tol:
                return True
            v = self._vertex(away / self._unit)
            if away @ (z - v / self._unit) > tol * np.abs(away).sum():
                return False
            vertices.append(v)
        return False

    def _vertex(self, direction: Array) -> Array:
        whole = copy(self)
        whole._upper = self._whole
        return whole.lmo(direction)

    def start(self, upper: ArrayLike | None = None) -> Array:
        """A fresh feasible point to start from, below ``upper``, shape (n,)."""
        if self.is_down_closed:
            return np.zeros(self.n)
        v = self._vertex(np.ones(self.n))
        return v if (v <= self._clipped(upper)).all() else self.lmo(np.ones(self.n), upper)

    def min_max_norm_point(self, upper: ArrayLike | None = None) -> Array:
        """A point of the set whose largest entry, in units of the bounds, is small: not the smallest in general."""
        best = x = self.start(upper)
        unit = np.where(self._clipped(upper) > 0.0, self._clipped(upper), 1.0)
        for k in range(0 if self.is_down_closed else _NORM_ROUNDS):
            shares = x / unit
            v = self.lmo(-np.exp(_SHARPNESS * (shares - shares.max())) / unit, upper)
            x = x + 2.0 / (k + 3.0) * (v - x)
            best = min(best, x, key=lambda y: (y / unit).max())
        return best

    def spread(self, cost: ArrayLike, upper: ArrayLike | None = None) -> float:
        if self.is_down_closed and self.answers_below:
            return super().spread(cost, upper)
        return float(as_vector(cost, "cost", n=self.n, lower=0.0) @ self._clipped(upper))

    def violation(self, x: Array) -> str:
        """Words for what x breaks."""
        what = "contains(x) is False" if self._contains is not None else "it is no mixture of the oracle's answers"
        return f"it is outside {self!r}: {what}"


CallableSetParams = namedtuple("CallableSetParams", "n")


@kernel
def _ask_python(params, work, direction, upper, v):
    return NEEDS_SOLVER


register_set(CallableSetParams, lmo=_ask_python)


def _takes_bounds(function: Callable[..., object]) -> bool:
    """Whether an oracle takes (direction, upper), not the direction alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(2 if item.kind is item.VAR_POSITIONAL else item.kind in (0, 1) for item in parameters) >= 2


class _Oracle:
    """The oracle of a `CallableSet` in the place of a solver of linear programs."""

    def __init__(self, P: "CallableSet") -> None:
        self.P = P

    def maximize(self, direction: Array, upper: Array, time_limit: float | None = None) -> Array:
        """A checked answer; the call of the user's function is waited for."""
        return self.P.checked(self.P.ask(direction, upper), direction, upper)


class CallableSet(_OracleSet):
    """A set given by a linear oracle in Python.

    Parameters
    ----------
    lmo : callable
        ``lmo(direction)`` returns a point v of the set, shape (n,), that maximises <direction, v>; it serves the
        methods that ask for points of the whole set. ``lmo(direction, upper)`` returns the best one with v <= upper;
        it serves all methods.
    n : int
        Number of variables.
    upper : array_like, shape (n,)
        Finite upper bounds of the variables over the set, at best the tightest; the lower ones are 0.
    contains : callable, optional
        ``contains(x)`` says whether x, within its bounds, is in the set; it should allow for rounding. Without it a
        point is looked for among the mixtures of the oracle's answers, to 1e-7 of the bounds.
    project : callable, optional
        ``project(y)`` or ``project(y, upper)`` returns the nearest point of the set, for `projected_gradient`.
    is_down_closed : bool, default True
        Whether 0 <= y <= x and x in the set imply y in the set. Guarantees that rest on it read "declared".

    Raises
    ------
    ValueError
        From a call, for an answer that cannot be right: another shape, an entry that is not finite or outside its
        bounds, a point that ``contains`` refuses, or one that is worse than an earlier answer.
    UnsupportedError
        From a solve, for a method that shrinks the set, where ``lmo`` takes the direction only.

    Notes
    -----
    Gaps, bounds and guarantees are as for any set; they rest on the oracle being exact. Pickles where the functions do.
    A `CompiledSet` is 20 times as fast for 16 variables.

    Examples
    --------
    A budget:

    >>> import numpy as np
    >>> import drsub_fast as ds
    >>> def at_most_two(direction, upper):
    ...     v, left = np.zeros(4), 2.0
    ...     for j in np.argsort(-direction):
    ...         v[j] = min(upper[j], left) if direction[j] > 0.0 else 0.0
    ...         left -= v[j]
    ...     return v
    >>> P = ds.CallableSet(at_most_two, n=4, upper=np.ones(4))
    >>> ds.maximize(ds.Quadratic(-np.eye(4), [1.0, 2.0, 2.0, 1.5]), P).x.round(3).tolist()
    [0.0, 0.833, 0.833, 0.333]
    """

    def __init__(
        self,
        lmo: Callable[..., ArrayLike],
        n: int,
        *,
        upper: ArrayLike,
        contains: Contains | None = None,
        project: Callable[..., ArrayLike] | None = None,
        is_down_closed: bool = True,
    ) -> None:
        super().__init__(CallableSetParams(n), n, upper, contains, is_down_closed)
        self._lmo = as_function(lmo, "lmo", optional=False)
        self._project = as_function(project, "project")
        self.answers_below = _takes_bounds(lmo)

    def __repr__(self) -> str:
        return f"CallableSet({getattr(self._lmo, '__name__', self._lmo)}, n={self.n})"

    def solver(self, upper: Array, lmo: str = "auto") -> _Oracle:
        return _Oracle(self)

    def ask(self, direction: Array, upper: Array) -> ArrayLike:
        """What the user's oracle returns."""
        if self.answers_below:
            return call_outside(self._lmo, direction.copy(), upper.copy())
        if (upper < self._whole).any():
            raise UnsupportedError(
                f"{self!r} has an oracle of the direction only, and this needs answers below tighter upper bounds: "
                f"give lmo(direction, upper)"
            )
        return call_outside(self._lmo, direction.copy())

    def project_by_solver(self, y: Array, upper: Array) -> Array:
        if self._project is None:
            raise UnsupportedError(f"{self!r} has no projection: give project=, or use another method")
        both = _takes_bounds(self._project)
        p = call_outside(self._project, y.copy(), upper.copy()) if both else call_outside(self._project, y.copy())
        p = as_vector(p, "project(y)", n=self.n)
        if (p > upper + _ROUNDING * self._unit).any() and (upper < self._whole).any():
            raise UnsupportedError(f"{self!r} does not project onto a part of itself: give project(y, upper)")
        p = self.checked(p, np.zeros(self.n), np.maximum(upper, 0.0))
        return p


CompiledSetWork = namedtuple("CompiledSetWork", "last begun")


@kernel
def _compiled_size(params):
    return params.n, 1


@kernel(memory=True)
def _compiled_carve(params, floats, integers):
    return CompiledSetWork(floats, integers)


@kernel
def _is_plausible(params, work, direction, upper, v):
    """Whether an answer is within its bounds, where it is then exactly, and not worse than 0 or the answer before."""
    value, before, size, below = 0.0, 0.0, 0.0, True
    for j in range(v.size):
        slack = _ROUNDING * max(upper[j], 1e-300)
        if not (v[j] >= -slack and v[j] <= upper[j] + slack):  # NaN fails both
            return False
        v[j] = min(max(v[j], 0.0), upper[j])
        value += direction[j] * v[j]
        size += abs(direction[j]) * upper[j]
        if work.begun[0] == 1:
            before += direction[j] * min(work.last[j], upper[j])
            below = below and work.last[j] <= upper[j]
    if params.down_closed and value < -_ROUNDING * size:
        return False
    if work.begun[0] == 1 and (below or params.down_closed) and before > value + _ROUNDING * size:
        return False
    for j in range(v.size):
        work.last[j] = v[j]
    work.begun[0] = 1
    return True


def _register(params_class: type, function: Callable[..., object]) -> None:
    """Kernels with the user's function frozen into them."""

    @kernel(memory=True)
    def lmo(params, work, direction, upper, v):
        function(direction, upper, v, *params.args)
        return OK if _is_plausible(params, work, direction, upper, v) else FAILED

    register_set(params_class, lmo=lmo, set_size=_compiled_size, set_carve=_compiled_carve)


class CompiledSet(_OracleSet):
    """A set given by a linear oracle compiled by Numba; a solve runs as one compiled loop.

    Parameters
    ----------
    lmo : Numba function
        ``lmo(direction, upper, v, *parameters)`` writes a point with v <= upper that maximises <direction, v> into v,
        shape (n,), and writes to nothing else. Decorate it with ``numba.njit``.
    parameters : tuple
        Further arguments: arrays (made C-contiguous) and numbers. An empty tuple if there are none.
    n : int
        Number of variables.
    upper : array_like, shape (n,)
        Finite upper bounds of the variables over the set, at best the tightest; the lower ones are 0.
    contains, is_down_closed
        As in `CallableSet`; ``contains`` is a function in Python, which is asked about answers of solves.

    Raises
    ------
    TypeError
        If the function is not compiled by Numba or ``parameters`` is not a tuple.
    ValueError
        From a solve, for an answer that cannot be right.

    Notes
    -----
    Code is compiled and kept as that of a `CompiledObjective`. There is no projection.

    Examples
    --------
    >>> import numpy as np
    >>> import drsub_fast as ds
    >>> from numba import njit
    >>> @njit
    ... def at_most_k(direction, upper, v, k):
    ...     v[:] = 0.0
    ...     left = k
    ...     for j in np.argsort(-direction):
    ...         if direction[j] > 0.0:
    ...             v[j] = min(upper[j], left)
    ...             left -= v[j]
    >>> P = ds.CompiledSet(at_most_k, (1.5,), n=3, upper=np.ones(3))
    >>> ds.nonmonotone_frank_wolfe(ds.Quadratic(-np.eye(3), [3.0, 2.0, 1.0]), P).x.round(3).tolist()
    [0.634, 0.598, 0.268]
    """

    def __init__(
        self,
        lmo: Callable[..., object],
        parameters: tuple[Any, ...],
        n: int,
        *,
        upper: ArrayLike,
        contains: Contains | None = None,
        is_down_closed: bool = True,
    ) -> None:
        require_compiled(lmo, "lmo", "CallableSet")
        make = compiled_params(lmo, "CompiledSet", "n args down_closed", _register)
        params = make(
            as_count(n, "n", lower=1), as_arguments(parameters, "parameters"), as_flag(is_down_closed, "is_down_closed")
        )
        super().__init__(params, n, upper, contains, is_down_closed)
        self._lmo = lmo

    def __repr__(self) -> str:
        return f"CompiledSet({self._lmo.__name__}, n={self.n})"

    def __reduce__(self) -> tuple[Callable[..., "CompiledSet"], tuple[object, ...]]:
        build = partial(CompiledSet, upper=self._whole, contains=self._contains, is_down_closed=self.is_down_closed)
        tighter = None if self._upper is self._whole else self._upper
        return _again, (build, self._lmo, self._params.args, self.n, tighter)

    def lmo(self, direction: ArrayLike, upper: ArrayLike | None = None, *, time_limit: float | None = None) -> Array:
        v = super().lmo(direction, upper, time_limit=time_limit)
        return self.checked(v, as_vector(direction, "direction"), self._clipped(upper))

    def why_failed(self, direction: Array, upper: Array) -> Exception:
        v = np.full(self.n, np.nan)
        self._lmo(direction.copy(), upper.copy(), v, *self._params.args)
        try:
            self.checked(v, direction, upper)
        except ValueError as error:
            return error
        return ValueError(f"the oracle of {self!r} returned a worse point than one call before")


def _again(
    build: Callable[..., CompiledSet],
    lmo: Callable[..., object],
    parameters: tuple[Any, ...],
    n: int,
    upper: Array | None,
) -> CompiledSet:
    """A `CompiledSet` that was pickled, perhaps below tighter bounds."""
    P = build(lmo, parameters, n)
    return P if upper is None else P.with_upper(upper)
