"""Constants of a problem, and the a-priori bounds of the paper evaluated from them.

* L, the smoothness of f on [0, u]: |grad f(x) - grad f(y)| <= L |x - y| (`Objective.smoothness_on`).
* mu, the strong DR-submodularity: f(x + v) <= f(x) + <grad f(x), v> - mu/2 |v|^2 for v >= 0 or v <= 0
  (`Objective.strong_dr_on`).
* D, the diameter of P (`FeasibleSet.diameter`).
* C, a bound on the curvature C_f(P) <= L D^2, with the largest value of it that a search meets (`proofs.curvature`).
* the constant that makes f non-negative on P, as in the paper's experiments.

Explicit forms of the paper's bounds (Bian et al. 2017), without the O(.) terms:

* Theorem 2, from f(x_{k+1}) >= (1 - g) f(x_k) + g (1 - g)^k f(x*) - C g^2/2 with g = 1/K (by smoothness):
  f(x_k) >= (k/K)(1 - 1/K)^(k-1) f(x*) - C/(2K) [1 - (1 - 1/K)^k];
* Lacoste-Julien's rate of Algorithm 3 with short or exact steps: min_{i <= k} gap_i <= max{2 h_0, C} / sqrt(k + 1), h_0
  the most that f can rise above f(x_0);
* Theorem 1, by Proposition 1: max{f(x), f(z)} >= [f(x*) - g_P(x) - g_Q(z)]/4 + mu/8 (|x - x*|^2 + |z - z*|^2).
"""

import math
from dataclasses import dataclass

from drsub_fast._checks import as_count, as_flag, as_real
from drsub_fast._records import Record
from drsub_fast.engine.threads import one_blas_thread
from drsub_fast.objectives.base import Objective
from drsub_fast.proofs.curvature import curvature_bound, curvature_found
from drsub_fast.proofs.lowest import lowest
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_problem
from drsub_fast.solvers.domain import solver_upper


@dataclass(frozen=True, eq=False)
class Constants(Record):
    """Constants of f over P; None where none is known.

    Attributes
    ----------
    smoothness : float or None
        L, in units of f per squared unit of x.
    strong_dr : float or None
        mu, likewise.
    diameter : float
        The diameter of P, or a bound on it: see the set's `diameter`.
    curvature : float or None
        A bound on C_f(P), in units of f.
    curvature_found : float or None
        The largest curvature that a search meets: C_f(P) is between the two. None where f is not finite on the way.
    minimum : float or None
        A proven lower bound on f over P, if it was asked for and one is known.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.constants(ds.Quadratic([[-2.0, 0.0], [0.0, -1.0]], [1.0, 1.0]), ds.Box([3.0, 4.0])).diameter
    5.0
    """

    smoothness: float | None
    strong_dr: float | None
    diameter: float
    curvature: float | None
    curvature_found: float | None = None
    minimum: float | None = None

    @property
    def curvature_factor(self) -> float | None:
        """How many times `curvature_found` the bound is: 1 is exact; None where either is not known."""
        if self.curvature is None or self.curvature_found is None:
            return None
        if self.curvature_found == 0.0:
            return 1.0 if self.curvature == 0.0 else math.inf
        return self.curvature / self.curvature_found

    @property
    def shift(self) -> float | None:
        """What the paper's experiments add to f, -m + 0.1 |m| with m the minimum over P, so that f + shift >= 0."""
        return None if self.minimum is None else 0.1 * abs(self.minimum) - self.minimum


def constants(f: Objective, P: FeasibleSet, *, shift: bool = False) -> "Constants":
    """Constants of an objective over a set, by closed forms or bounds.

    Parameters
    ----------
    f : Objective
        The function.
    P : FeasibleSet
        The set.
    shift : bool
        Whether to look for the minimum of f over P too, which gives the constant of the paper's experiments. For a
        quadratic that is a search of up to a hundred nodes, which may take seconds from 30 variables on.

    Returns
    -------
    Constants

    Raises
    ------
    TypeError
        For an f or P of another kind, or of different sizes (ValueError).

    Notes
    -----
    L and mu are those on [0, upper], upper being the set's bound. They take no more than an eigenvalue problem, C one
    call of the oracle for each variable, and for softmax extensions over sets of few items some tenths of a second.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> c = ds.constants(ds.Quadratic([[-2.0, 0.0], [0.0, -1.0]], [1.0, 1.0]), ds.Box([3.0, 4.0]), shift=True)
    >>> c.smoothness, c.strong_dr, c.diameter, round(c.curvature_factor, 6)
    (2.0, 1.0, 5.0, 1.0)
    >>> round(c.shift, 3)  # the minimum is -10 at (3, 4)
    11.0
    """
    require_problem(f, P)
    as_flag(shift, "shift")
    upper = solver_upper(f, P)
    with one_blas_thread():
        curvature = curvature_bound(f, P, upper)
        minimum = lowest(f, P, upper) if shift else -math.inf
        return Constants(
            f.smoothness_on(upper), f.strong_dr_on(upper), P.diameter(upper), curvature,
            None if curvature is None else curvature_found(f, P, upper), minimum if math.isfinite(minimum) else None,
        )  # fmt: skip


def nonmonotone_bound(optimum: float, curvature: float, n_steps: int, k: int | None = None) -> float:
    """Lower bound on f(x_k) of `nonmonotone_frank_wolfe`, for f >= 0.

    Parameters
    ----------
    optimum : float
        The maximum f(x*), at least 0.
    curvature : float
        Bound on the curvature C_f(P), in units of f: `Constants.curvature`, or L D^2.
    n_steps : int
        Number of steps K.
    k : int, optional
        Iterate; the last by default.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For a number that is negative or not finite.

    Notes
    -----
    Bian et al. 2017, Theorem 2 and Corollary 1, without O(.) terms: after k of K steps
    f(x) >= (k/K)(1 - 1/K)^(k-1) f(x*) - C/(2K) [1 - (1 - 1/K)^k].

    Examples
    --------
    >>> import drsub_fast as ds
    >>> round(ds.nonmonotone_bound(1.0, 0.0, 100), 4)
    0.3697
    """
    n_steps = as_count(n_steps, "n_steps", lower=1)
    k = n_steps if k is None else as_count(k, "k")
    if k == 0:
        return 0.0
    kept = 1.0 - 1.0 / n_steps
    reached = k / n_steps * kept ** (k - 1) * as_real(optimum, "optimum", lower=0.0)
    return reached - as_real(curvature, "curvature", lower=0.0) / (2.0 * n_steps) * (1.0 - kept**k)


def frank_wolfe_gap_bound(rise: float, curvature: float, k: int) -> float:
    """Upper bound on the smallest gap of `frank_wolfe` after k short or exact steps.

    Parameters
    ----------
    rise : float
        A bound on max f - f(x_0), in units of f.
    curvature : float
        Bound on the curvature C_f(P), in units of f.
    k : int
        Number of steps.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For a number that is negative or not finite.

    Notes
    -----
    Lacoste-Julien, Convergence rate of Frank-Wolfe for non-convex objectives, 2016.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.frank_wolfe_gap_bound(1.0, 1.0, 3)
    1.0
    """
    rise, curvature = as_real(rise, "rise", lower=0.0), as_real(curvature, "curvature", lower=0.0)
    return max(2.0 * rise, curvature) / math.sqrt(as_count(k, "k") + 1.0)


def two_phase_bound(
    optimum: float, gap_x: float, gap_z: float, strong_dr: float = 0.0, distance_x: float = 0.0, distance_z: float = 0.0
) -> float:
    """Lower bound on max{f(x), f(z)}, what `two_phase_frank_wolfe` returns, for f >= 0.

    Parameters
    ----------
    optimum : float
        The maximum f(x*).
    gap_x, gap_z : float
        The gap of x over P and that of z over Q = {y in P : y <= u - x}, in units of f.
    strong_dr : float, default 0
        mu, in units of f per squared unit of x: `Constants.strong_dr`.
    distance_x, distance_z : float, default 0
        |x - x*| and |z - z*| with z* = (x v x*) - x, v being the larger of both in every coordinate.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For a number that is negative or not finite.

    Notes
    -----
    Bian et al. 2017, Theorem 1 by Proposition 1: [f(x*) - gap_x - gap_z]/4 + mu/8 (|x - x*|^2 + |z - z*|^2).

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.two_phase_bound(1.0, 0.1, 0.1)
    0.2
    """
    optimum, gap_x, gap_z = as_real(optimum, "optimum"), as_real(gap_x, "gap_x"), as_real(gap_z, "gap_z")
    strong_dr = as_real(strong_dr, "strong_dr", lower=0.0)
    distance = math.hypot(as_real(distance_x, "distance_x"), as_real(distance_z, "distance_z"))
    return (optimum - gap_x - gap_z) / 4.0 + strong_dr / 8.0 * distance * distance
