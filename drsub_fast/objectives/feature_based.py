"""Feature-based functions: concave functions of linear ones,

    f(x) = sum_j w_j phi((W'x)_j),   W >= 0 (n items, d features), phi one of sqrt(t), log(1 + t), min(t, cap_j).

DR-submodular (the Hessian W diag(w_j phi'') W' has no positive entry), monotone, concave and f(0) = 0. As set functions
they are used to choose items that cover many features (Wei, Iyer, Bilmes 2014; Bian et al. 2017, Appendix B).

The derivative of the square root is infinite at 0. The gradient, not the value, has that at 1e-20 of the largest
argument in its place; solvers begin inside the set, where it does not matter. Where x has negative entries, f is NaN
where a square root or logarithm is not defined.
"""

import math
from collections import namedtuple
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, as_number_or_vector, as_vector, one_of, require_at_least
from drsub_fast._kinds import LARGEST, OBJECTIVES, TEXT, array, register_kind, within
from drsub_fast.engine.dispatch import row_of
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.objectives.base import Objective, register_objective

#: The functions phi, by their places.
SHAPES = ("sqrt", "log", "min")
#: Arguments of the square root below this part of the largest have the derivative there.
_FLOOR = 1e-20

FeatureParams = namedtuple("FeatureParams", "n W weights caps shape")
FeatureWork = namedtuple("FeatureWork", "grad trial sums")


@kernel
def _size(params):
    return 2 * params.n + params.weights.size, 0


@kernel(memory=True)
def _carve(params, floats, integers):
    return FeatureWork(*split(floats, params.n, params.n, params.weights.size))


def _plain_evaluate(params, work, x):
    _, W, weights, caps, shape = params
    sums = x @ W
    if shape < 2 and sums.min() < 0.0:  # only where x has negative entries
        sums[(sums < 0.0) if shape == 0 else (sums <= -1.0)] = np.nan
    if shape == 0:
        with np.errstate(divide="ignore"):
            work.grad[:] = W @ np.where(caps > 0.0, 0.5 * weights / np.sqrt(np.maximum(sums, caps)), 0.0)
        return float(weights @ np.sqrt(sums))
    if shape == 1:
        work.grad[:] = W @ (weights / (1.0 + sums))
        return float(weights @ np.log1p(sums))
    work.grad[:] = W @ np.where(sums < caps, weights, 0.0)
    return float(weights @ np.minimum(sums, caps))


@kernel(plain=_plain_evaluate)
def _evaluate(params, work, x):
    W, sums = params.W, work.sums
    n, d = W.shape
    for j in range(d):
        sums[j] = 0.0
    for i in range(n):
        if x[i] != 0.0:
            for j in range(d):
                sums[j] += x[i] * W[i, j]
    value = 0.0
    for j in range(d):
        total, weight, cap = sums[j], params.weights[j], params.caps[j]
        if (params.shape == 0 and total < 0.0) or (params.shape == 1 and total <= -1.0):
            total = math.nan  # only where x has negative entries
        if params.shape == 0:
            value += weight * math.sqrt(total)
            sums[j] = 0.5 * weight / math.sqrt(max(total, cap)) if cap > 0.0 else 0.0
        elif params.shape == 1:
            value += weight * math.log1p(total)
            sums[j] = weight / (1.0 + total)
        else:
            value += weight * min(total, cap)
            sums[j] = weight if total < cap else 0.0
    for i in range(n):
        slope = 0.0
        for j in range(d):
            slope += W[i, j] * sums[j]
        work.grad[i] = slope
    return value


@kernel
def _is_nonnegative(params, work, upper):
    return True


@kernel(memory=True)
def _problem_at(stack, i):
    W, weights, caps = stack.W, stack.weights, stack.caps
    return FeatureParams(
        stack.n, W[row_of(W, i)], weights[row_of(weights, i)], caps[row_of(caps, i)], stack.shape
    )  # fmt: skip


register_objective(
    FeatureParams, objective_size=_size, objective_carve=_carve, evaluate=_evaluate, is_nonnegative=_is_nonnegative,
    problem_at=_problem_at,
)  # fmt: skip


class FeatureBased(Objective):
    """Feature-based function sum_j w_j phi(sum_i W_ij x_i).

    Parameters
    ----------
    W : array_like, shape (n, d)
        How much of each feature each item has, at least 0.
    concave : {"sqrt", "log", "min"}
        phi(t) = sqrt(t), log(1 + t) or min(t, cap_j).
    weights : array_like, shape (d,), optional
        Weights of the features, at least 0 (default: all ones).
    cap : float or array_like, shape (d,), optional
        For "min": how much of a feature counts.

    Raises
    ------
    ValueError
        For an entry that is negative or not finite, another ``concave``, or a cap that is missing or goes with another.

    Notes
    -----
    DR-submodular, monotone, concave and >= 0, so value + gap is an upper bound. Wei, Iyer, Bilmes 2014; Bian et al.
    2017, Appendix B.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.FeatureBased([[4.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> f.value([1.0, 1.0, 0.0]), ds.greedy(f, size=2).items.tolist()
    (3.0, [0, 2])
    """

    def __init__(
        self,
        W: ArrayLike,
        concave: Literal["sqrt", "log", "min"] = "sqrt",
        weights: ArrayLike | None = None,
        cap: ArrayLike | None = None,
    ) -> None:
        W = as_array(W, "W", 2)
        require_at_least(W, 0.0, "W", ": a feature is had or not")
        n, d = W.shape
        if not (n and d):
            raise ValueError(f"W must have at least one item and one feature, got shape {W.shape}")
        self.concave = one_of(concave, "concave", SHAPES)
        self.W, self.weights = W, np.ones(d) if weights is None else as_vector(weights, "weights", n=d, lower=0.0)
        if (cap is None) == (concave == "min"):
            raise ValueError(
                "concave='min' needs cap, how much of a feature counts" if cap is None else "cap goes with 'min'"
            )
        self.cap = None if cap is None else as_number_or_vector(cap, "cap", d, lower=0.0)
        caps = _FLOOR * W.sum(axis=0) if self.cap is None else self.cap
        self.finite_at_zero = concave != "sqrt"
        super().__init__(n, FeatureParams(n, np.ascontiguousarray(W), self.weights, caps, SHAPES.index(concave)))

    def __repr__(self) -> str:
        return f"FeatureBased(n={self.n}, d={self.weights.size}, concave={self.concave!r})"

    @property
    def feature_weights(self) -> NDArray[np.float64]:
        """The weights, by their name in files and stacks."""
        return self.weights

    @property
    def operations(self) -> float:
        return 4.0 * self.W.size

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True

    def concave_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True


def _feature_based(
    W: ArrayLike,
    concave: Literal["sqrt", "log", "min"] = "sqrt",
    feature_weights: ArrayLike | None = None,
    cap: ArrayLike | None = None,
) -> FeatureBased:
    """`FeatureBased`; the entry ``weights`` is that of a knapsack."""
    return FeatureBased(W, concave, feature_weights, cap)


def _stack(W, concave="sqrt", feature_weights=None, cap=None):
    # A square root has no gradient at 0, where the loop of a stack begins.
    if concave not in ("log", "min") or (cap is None) == (concave == "min") or not W.size:
        return None
    d = W.shape[2]
    weights = np.ones((1, d)) if feature_weights is None else feature_weights
    caps = np.zeros((1, d)) if cap is None else np.ascontiguousarray(np.broadcast_to(cap, (len(cap), d)))
    accepted = within(W, 0.0, LARGEST) & within(weights, 0.0, LARGEST) & within(caps, 0.0, LARGEST)
    return FeatureParams(W.shape[1], W, weights, caps, SHAPES.index(concave)), accepted


register_kind(
    OBJECTIVES, "feature-based", _feature_based, of=FeatureBased, label="FeatureBased", stack=_stack,
    W=array("n d"), concave=TEXT, feature_weights=array("d"), cap=array("d", may_be_number=True),
    about="sum_j w_j phi((W'x)_j): sqrt, log, min",
    example=lambda n: {"W": np.array([[3.0, 0.5], [1.5, 2.0]] * n)[:n], "concave": "log"},
)  # fmt: skip
