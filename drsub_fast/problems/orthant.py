"""Orthant conic lattices: functions that are DR-submodular after changes of sign (paper, appendix A).

For signs alpha in {-1, +1}^n let K_alpha = {x : alpha_i x_i >= 0}. A twice differentiable g is
K_alpha-DR-submodular iff alpha_i alpha_j d_ij g <= 0 for all i, j, and K_alpha-submodular if that holds for i != j
only. With a corner s of the set (its lower bound where alpha_i = 1, its upper bound where alpha_i = -1),

    y = s + diag(alpha) x,   f(x) = g(s + diag(alpha) x),   grad f = alpha * grad g,

turns max g over P' into max f over P = {x >= 0 : s + diag(alpha) x in P'}, and f is DR-submodular iff g is
K_alpha-DR-submodular. The shift by s is what moves a lower bound other than 0 away.

Data with one sign in every column (`infer_signs`) are where this is used. Three cautions:

- Logistic loss sum_i log(1 + exp(-b_i z_i'y)): d_jk = sum_i w_i z_ij z_ik with w_i > 0, so the loss is
  K_alpha-DR-*super*modular. The function to maximise, minus the loss, is K_alpha-DR-submodular.
- The regularisers make exceptions. -lambda gamma y^2 / (1 + gamma y^2) has positive curvature where
  y^2 > 1 / (3 gamma), and -lambda min(gamma y^2, 1) has a convex kink: there the whole objective is
  K_alpha-submodular (the regulariser is separable) but need not be DR, and no ratio is guaranteed.
- Non-negative PCA: the variance y'Z'Zy to be maximised is K_alpha-DR-supermodular; its negative, which is
  K_alpha-DR-submodular, is to be *minimised*. Frank-Wolfe methods then find stationary points, with the gap as
  certificate; the ratios 1/4 and 1/e speak of maximisation and say nothing here.
"""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, as_count, as_real, as_seed, as_symmetric, as_vector
from drsub_fast._records import Record
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import (
    DRCheck,
    Objective,
    evaluate,
    hessian_product,
    objective_carve,
    objective_size,
    register_objective,
)
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.problems.program import rows_of
from drsub_fast.sets.ball import Ball
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.general import GeneralPolytope
from drsub_fast.sets.polytope import Polytope
from drsub_fast.sets.problem import require_objective, require_problem

OrthantParams = namedtuple("OrthantParams", "inner alpha shift")
OrthantWork = namedtuple("OrthantWork", "grad trial point turned inner")


class InterpretedOrthantParams(OrthantParams):
    """The same around an objective of Python functions."""

    __slots__ = ()
    interpreted = True


@kernel
def _size(params):
    n_floats, n_integers = objective_size(params.inner)
    return n_floats + 4 * params.alpha.size, n_integers


@kernel(memory=True)
def _carve(params, floats, integers):
    n = params.alpha.size
    inner = objective_carve(params.inner, floats[4 * n :], integers)
    grad, trial, point, turned = split(floats, n, n, n, n)
    return OrthantWork(grad, trial, point, turned, inner)


@kernel
def _evaluate(params, work, x):
    alpha, point = params.alpha, work.point
    for j in range(x.size):
        point[j] = params.shift[j] + alpha[j] * x[j]
    value = evaluate(params.inner, work.inner, point)
    for j in range(x.size):
        work.grad[j] = alpha[j] * work.inner.grad[j]
    return value


@kernel
def _hessian_product(params, work, x, d, out):
    alpha, turned = params.alpha, work.turned
    for j in range(x.size):
        turned[j] = alpha[j] * d[j]
    known = hessian_product(params.inner, work.inner, work.point, turned, out)
    if known > 0:
        for j in range(x.size):
            out[j] *= alpha[j]
    return known


register_objective(
    OrthantParams,
    InterpretedOrthantParams,
    objective_size=_size,
    objective_carve=_carve,
    evaluate=_evaluate,
    hessian_product=_hessian_product,
)


def _as_signs(alpha: ArrayLike, n: int) -> NDArray[np.float64]:
    """Vector of +1 and -1."""
    alpha = as_vector(alpha, "alpha", n=n)
    bad = np.abs(alpha) != 1.0
    if bad.any():
        j = int(bad.argmax())
        raise ValueError(f"alpha[{j}] = {alpha[j]:g} is not 1 or -1")
    return alpha


class OrthantObjective(Objective):
    """f(x) = g(shift + alpha * x): an objective in the coordinates of an orthant.

    Parameters
    ----------
    g : Objective
        The objective in the original coordinates.
    alpha : array_like, shape (n,)
        Signs, 1 or -1.
    shift : array_like, shape (n,), optional
        The point that x = 0 stands for (default: 0).

    Raises
    ------
    TypeError
        If g is not an `Objective`.
    ValueError
        For an entry of alpha that is not 1 or -1, or a wrong shape.

    Notes
    -----
    Compiled if g is. Each step evaluates g anew; for quadratics `orthant_quadratic` keeps the incremental kernels.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.OrthantObjective(ds.Quadratic([[-1.0]], [1.0]), alpha=[-1], shift=[1.0])
    >>> f.value([0.0]), f.gradient([0.5])
    (0.5, array([-0.5]))
    """

    n: int
    compiled: bool

    g: Objective

    def __init__(self, g: Objective, alpha: ArrayLike, shift: ArrayLike | None = None) -> None:
        require_objective(g, "g")
        self.n = g.n
        self.g, self.compiled = g, g.compiled
        alpha = _as_signs(alpha, g.n)
        shift = np.zeros(g.n) if shift is None else as_vector(shift, "shift", n=g.n)
        interpreted = getattr(type(g.params), "interpreted", False)
        self._params = (InterpretedOrthantParams if interpreted else OrthantParams)(g.params, alpha, shift)

    def __repr__(self) -> str:
        return f"OrthantObjective({self.g!r})"

    def likely_peak(self) -> NDArray[np.float64] | None:
        peak, (_, alpha, shift) = self.g.likely_peak(), self._params
        return None if peak is None else alpha * (peak - shift)

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        known = getattr(self.g, "orthant_dr_submodular_on", None)
        if known is None:
            return None
        _, alpha, shift = self._params
        return known(alpha, np.maximum(np.abs(shift), np.abs(shift + alpha * upper)))


def orthant_quadratic(
    H: ArrayLike, h: ArrayLike, c: float = 0.0, *, alpha: ArrayLike, shift: ArrayLike | None = None
) -> Quadratic:
    """The quadratic g(y) = 1/2 y'Hy + h'y + c in the coordinates y = shift + alpha * x.

    Parameters
    ----------
    H : array_like, shape (n, n)
        Symmetric, with alpha_i alpha_j H_ij <= 0.
    h : array_like, shape (n,)
        Linear term.
    c : float, default 0
        Constant.
    alpha, shift : array_like, shape (n,)
        Signs, and the point that x = 0 stands for (default: 0).

    Returns
    -------
    f : Quadratic
        f(x) = g(shift + alpha * x).

    Raises
    ------
    ValueError
        Naming the pair whose sign is wrong, or for data of a wrong shape.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.orthant_quadratic([[-1.0, 2.0], [2.0, -1.0]], [1.0, 1.0], alpha=[1, -1]).H
    array([[-1., -2.],
           [-2., -1.]])
    """
    H = as_symmetric(H, "H")
    h, c = as_vector(h, "h", n=len(H)), as_real(c, "c")
    alpha = _as_signs(alpha, len(H))
    shift = np.zeros(len(H)) if shift is None else as_vector(shift, "shift", n=len(H))
    signed = alpha[:, None] * H * alpha
    i, j = np.unravel_index(int(signed.argmax()), H.shape)
    if signed[i, j] > 0.0:
        raise ValueError(
            f"alpha[{i}] alpha[{j}] H[{i}, {j}] = {signed[i, j]:g} is positive: the function is not "
            "K_alpha-DR-submodular for these signs"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        Hs = H @ shift
        constant = float(c + shift @ (0.5 * Hs + h))
    return Quadratic(signed, alpha * (Hs + h), constant)


@dataclass(frozen=True, eq=False)
class OrthantProblem(Record):
    """A problem in the standard form, and the way back.

    Attributes
    ----------
    f : Objective
        f(x) = g(shift + alpha * x).
    P : FeasibleSet
        {x >= 0 : shift + alpha * x in the original set}.
    alpha, shift : ndarray, shape (n,)
        Signs and corner.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> g = ds.CallableObjective(lambda y: (y[0] - y[1], [1.0, -1.0]), n=2)
    >>> problem = ds.to_orthant(g, ds.GeneralPolytope(lower=[-1.0, -1.0], upper=[1.0, 1.0]), [1, -1])
    >>> problem.to_original(ds.maximize(problem.f, problem.P).x)
    array([ 1., -1.])
    """

    f: Objective
    P: FeasibleSet
    alpha: NDArray[np.float64]
    shift: NDArray[np.float64]

    def to_original(self, x: ArrayLike) -> NDArray[np.float64]:
        """The original point y = shift + alpha * x that x stands for, shape (n,)."""
        return self.shift + self.alpha * as_vector(x, "x", n=self.alpha.size)

    def from_original(self, y: ArrayLike) -> NDArray[np.float64]:
        """The point x = alpha * (y - shift) that stands for y, shape (n,)."""
        return self.alpha * (as_vector(y, "y", n=self.alpha.size) - self.shift)


def _turned_set(P, alpha, shift, width):
    """{x : 0 <= x <= width, shift + alpha * x in P}, down-closed where its rows show it."""
    rows = rows_of(P)
    if rows is None:
        raise UnsupportedError(
            f"to_orthant takes a Box, Polytope, GeneralPolytope or Ball, not {type(P).__name__}: wrap the objective in "
            "OrthantObjective and give the set in the coordinates of the orthant"
        )
    A, b, A_eq, b_eq = rows
    turn = scipy.sparse.diags_array(alpha)
    sides, sides_eq = b - A @ shift, b_eq - A_eq @ shift
    rows, rows_eq = A @ turn, A_eq @ turn
    if b_eq.size == 0:
        if b.size == 0:
            return Box(width)
        # Room that is negative by rounding alone is none.
        sides = np.where(np.abs(sides) <= 1e-12 * (np.abs(b) + np.abs(A) @ np.abs(shift)), 0.0, sides)
        if rows.min() >= 0.0 and sides.min() >= 0.0:
            return Polytope(rows, sides, width)
    return GeneralPolytope(rows, sides, rows_eq, sides_eq, upper=width)


def to_orthant(g: Objective, P: FeasibleSet, alpha: ArrayLike) -> "OrthantProblem":
    """Reduce max g over P to the standard form over the orthant of the signs alpha.

    Parameters
    ----------
    g : Objective
        K_alpha-DR-submodular on P (see `check_orthant`); it is taken as given.
    P : Box, Polytope, GeneralPolytope or Ball
        The set, in the original coordinates. A `GeneralPolytope` may have lower bounds of any sign. A `Ball` stands
        for its mirror image in K_alpha, {y : alpha * y >= 0, |y| <= radius, |y| <= upper}.
    alpha : array_like, shape (n,)
        Signs, 1 or -1; from data by `infer_signs`.

    Returns
    -------
    OrthantProblem
        With ``f``, ``P`` for the solvers and ``to_original`` for their results. P is a `Polytope` or a `Box` where
        the mapped rows are non-negative, so that it is down-closed; else a `GeneralPolytope`.

    Raises
    ------
    UnsupportedError
        For another kind of set.
    ValueError
        For wrong signs, sizes that differ, or an objective for the unit box and a set that leaves it.

    Notes
    -----
    Bian et al. 2017, appendix A. x = 0 stands for the corner of P's bounds where every alpha_i y_i is smallest.

    Examples
    --------
    >>> import numpy as np
    >>> import drsub_fast as ds
    >>> g = ds.CallableObjective(lambda y: (y[0] * y[1] + y[0], np.array([y[1] + 1.0, y[0]])), n=2)
    >>> P = ds.GeneralPolytope(lower=[0.0, -1.0], upper=[1.0, 0.0])
    >>> problem = ds.to_orthant(g, P, alpha=[1, -1])
    >>> problem.P, problem.to_original([1.0, 0.25])
    (Box(n=2), array([ 1.  , -0.25]))
    """
    require_problem(g, P)
    alpha = _as_signs(alpha, P.n)
    if isinstance(P, Ball):
        shift, turned = np.zeros(P.n), P
        lower, upper = np.minimum(alpha, 0.0) * P.upper, np.maximum(alpha, 0.0) * P.upper
    else:
        lower, upper = np.broadcast_to(getattr(P, "lower", 0.0), P.n), P.upper
        shift = np.where(alpha > 0.0, lower, upper)
        turned = _turned_set(P, alpha, shift, upper - lower)
    if g.unit_box and (lower.min() < 0.0 or upper.max() > 1.0):
        raise ValueError("the objective is meant for [0, 1]^n and the set leaves it: give tighter bounds")
    return OrthantProblem(OrthantObjective(g, alpha, shift), turned, alpha, shift)


def infer_signs(Z: ArrayLike) -> NDArray[np.float64]:
    """One sign for every column of data.

    Parameters
    ----------
    Z : array_like, shape (m, n)
        Data, one row a sample.

    Returns
    -------
    alpha : ndarray, shape (n,)
        1 for a column without negative entries, -1 for one without positive entries; 1 for zeros.

    Raises
    ------
    ValueError
        Naming the first column with entries of both signs, and two such entries.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.infer_signs([[1.0, -2.0, 0.0], [3.0, 0.0, 0.0]])
    array([ 1., -1.,  1.])
    """
    Z = as_array(Z, "Z", 2)
    mixed = (Z > 0.0).any(axis=0) & (Z < 0.0).any(axis=0)
    if mixed.any():
        j = int(mixed.argmax())
        high, low = int(Z[:, j].argmax()), int(Z[:, j].argmin())
        raise ValueError(
            f"column {j} of Z has mixed signs: Z[{high}, {j}] = {Z[high, j]:g}, Z[{low}, {j}] = {Z[low, j]:g}; shift "
            "the column, e.g. by its smallest entry, or leave it out"
        )
    return np.where((Z < 0.0).any(axis=0), -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class OrthantCheck(Record):
    """What `check_orthant` found.

    Attributes
    ----------
    dr : DRCheck
        On all pairs (i, j): evidence for K_alpha-DR-submodularity, or the pair at fault.
    submodular : DRCheck
        On the pairs i != j: the same for K_alpha-submodularity.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> g = ds.CallableObjective(lambda y: (y[0] * y[1], y[::-1]), n=2)
    >>> ds.check_orthant(g, [1, -1], [0, 0], [1, 1]).dr.holds
    True
    """

    dr: DRCheck
    submodular: DRCheck


def check_orthant(
    g: Objective,
    alpha: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    n_samples: int = 20,
    seed: int = 0,
    tol: float = 1e-8,
) -> "OrthantCheck":
    """Look for a pair with alpha_i alpha_j d_ij g > 0 on the box [lower, upper].

    From random points every coordinate (at most 50 of them) is moved by steps of all lengths towards the end of the
    box that lies in its sign's direction; where alpha_i times the derivative in y_i rises, (i, j) is at fault.

    Parameters
    ----------
    g : Objective
        In the original coordinates.
    alpha, lower, upper : array_like, shape (n,)
        Signs and box.
    n_samples : int, default 20
        Number of points.
    seed : int, default 0
        Seed of the points.
    tol : float, default 1e-8
        Rise of a derivative, relative to 1 + the largest entry of the gradient, that counts as rounding.

    Returns
    -------
    OrthantCheck

    Raises
    ------
    ValueError
        For signs other than 1 and -1, or lower > upper.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> g = ds.CallableObjective(lambda y: (y[0] * y[1], y[::-1]), n=2)
    >>> ds.check_orthant(g, [1, -1], [0, 0], [1, 1]).dr.holds
    True
    >>> ds.check_orthant(g, [1, 1], [0, 0], [1, 1]).dr.message
    'alpha[0] alpha[1] d_(0,1) g = 1 is positive at y = [0.7111 0.9321]'
    """
    require_objective(g, "g")
    n, tol = g.n, as_real(tol, "tol", lower=0.0)
    alpha, lower, upper = _as_signs(alpha, n), as_vector(lower, "lower", n=n), as_vector(upper, "upper", n=n)
    rng = np.random.default_rng(as_seed(seed))
    # For the diagonal and off it.
    worst = dict.fromkeys((True, False), DRCheck(True, None, None, 0.0, "no violation found"))
    for _ in range(as_count(n_samples, "n_samples", lower=1)):
        y = lower + (upper - lower) * rng.random(n)
        grad = g.gradient(y)
        for j in rng.permutation(n)[:50]:
            step = (upper[j] - y[j] if alpha[j] > 0.0 else y[j] - lower[j]) * 10.0 ** rng.uniform(-3.0, 0.0)
            moved = y.copy()
            moved[j] += alpha[j] * step
            rise = alpha * (g.gradient(moved) - grad)
            rise[rise <= tol * (1.0 + np.abs(grad).max())] = 0.0
            for diagonal in (True, False):
                part = np.where((np.arange(n) == j) == diagonal, rise, 0.0)
                i = int(part.argmax())
                if part[i] > worst[diagonal].rate * step:
                    worst[diagonal] = _violation(i, int(j), y, float(part[i] / step))
    return OrthantCheck(max(worst.values(), key=lambda found: found.rate), worst[False])


def _violation(i, j, point, rate):
    at = np.array2string(point, precision=4, threshold=10)
    message = f"alpha[{i}] alpha[{j}] d_({i},{j}) g = {rate:.3g} is positive at y = {at}"
    return DRCheck(False, (i, j), point, rate, message)
