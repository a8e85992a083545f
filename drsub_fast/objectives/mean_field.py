"""Mean-field inference in a log-submodular model p(S) = exp F(S) / Z: the evidence lower bound

    f(x) = E[F(S)] + sum_i H(x_i),   H(p) = -p log p - (1 - p) log(1 - p),

with S containing item i with probability x_i independently. f(x) = log Z - KL(x || p), so f <= log Z and
maximising f minimises the divergence (Djolonga and Krause 2014; Bian et al. 2017). The entropy is
separable and concave, so f is DR-submodular on [0, 1]^n where F is submodular.

    d_i f(x) = E[F(S + i) - F(S - i)] + log((1 - x_i) / x_i)

is infinite at 0 and 1. In the gradient, not in the value, x_i is clipped to [eps, 1 - eps], eps = 1e-12, which
keeps the entropy's share within +-27.6. The best x_i given the others is the logistic function of the expected
gain, so a coordinate that the clip stops from moving has its optimum within eps of where it is.
"""

import math
from collections import namedtuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast._kinds import EXTENSIONS, OBJECTIVES, TEXT, register_kind
from drsub_fast.engine.jit import kernel
from drsub_fast.objectives.base import Objective, evaluate, objective_carve, objective_size, register_objective
from drsub_fast.objectives.multilinear import MAX_ENUMERATED, Multilinear

#: Distance from 0 and 1 at which the gradient of the entropy is cut off.
EPS = 1e-12

MeanFieldParams = namedtuple("MeanFieldParams", "n extension")
MeanFieldWork = namedtuple("MeanFieldWork", "grad trial extension")


class InterpretedMeanFieldParams(MeanFieldParams):
    """The same for an extension that calls Python."""

    __slots__ = ()
    interpreted = True


@kernel
def _size(params):
    n_floats, n_integers = objective_size(params.extension)
    return params.n + n_floats, n_integers


@kernel(memory=True)
def _carve(params, floats, integers):
    extension = objective_carve(params.extension, floats[params.n :], integers)
    return MeanFieldWork(extension.grad, floats[: params.n], extension)


@kernel
def _add_entropy(x, grad):
    """Entropy of x; adds its gradient to grad."""
    total = 0.0
    for i in range(x.size):
        p = x[i]
        if 0.0 < p < 1.0:
            total -= p * math.log(p) + (1.0 - p) * math.log1p(-p)
        p = min(max(p, EPS), 1.0 - EPS)
        grad[i] += math.log((1.0 - p) / p)
    return total


@kernel
def _evaluate(params, work, x):
    return evaluate(params.extension, work.extension, x) + _add_entropy(x, work.grad)


register_objective(
    MeanFieldParams, InterpretedMeanFieldParams, objective_size=_size, objective_carve=_carve, evaluate=_evaluate
)


@kernel(memory=True)
def _set_values(params, n, values):
    """F(S) for all sets of n items, item i being bit 2^i of the index."""
    n_floats, n_integers = objective_size(params)
    work = objective_carve(params, np.empty(n_floats), np.zeros(n_integers, np.int64))
    x = np.empty(n)
    for subset in range(values.size):
        for i in range(x.size):
            x[i] = (subset >> i) & 1
        values[subset] = evaluate(params, work, x)


class MeanField(Objective):
    """Evidence lower bound of a log-submodular model p(S) = exp F(S) / Z.

    Parameters
    ----------
    extension : Multilinear
        Extension of F.

    Raises
    ------
    TypeError
        If ``extension`` is not a `Multilinear`.

    Notes
    -----
    Bian et al. 2017 (there as a divergence to be minimised); Djolonga and Krause, "From MAP to
    marginals: variational inference in Bayesian submodular models", 2014. The value is exact at 0 and 1; for
    the gradient, which is infinite there, x_i is clipped to [1e-12, 1 - 1e-12].

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.MeanField(ds.Multilinear.flid([1.0, 0.5], [[0.5], [0.5]]))
    >>> f.value([0.0, 0.0]), round(f.log_partition(), 4)
    (0.0, 2.09)
    """

    unit_box = True

    def __init__(self, extension: Multilinear) -> None:
        if not isinstance(extension, Multilinear):
            raise TypeError(f"extension must be a Multilinear, got {type(extension).__name__}")
        self.extension, self.compiled, self.declared = extension, extension.compiled, extension.declared
        params_class = MeanFieldParams if self.compiled else InterpretedMeanFieldParams
        super().__init__(extension.n, params_class(extension.n, extension.params))

    def __repr__(self) -> str:
        return f"MeanField({self.extension!r})"

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self.extension.dr_submodular_on(upper)

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        # The entropy is not negative; f(0) = F(empty).
        if self.extension.nonnegative_on(upper):
            return True
        return False if self.value(np.zeros(self.n)) < 0.0 else None

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        # The gradient falls to -inf at 1.
        return bool(upper.max() < 1.0 - EPS and self.gradient(upper).min() >= 0.0)

    def strong_dr_on(self, upper: NDArray[np.float64]) -> float | None:
        # -d_jj f = 1 / (x_j (1 - x_j)), and the extension is linear in x_j.
        if not self.dr_submodular_on(upper):
            return None
        nearest = np.minimum(upper[upper > 0.0], 0.5)
        return float((1.0 / (nearest * (1.0 - nearest))).min(initial=np.inf)) if nearest.size else 0.0

    def log_partition(self) -> float:
        """log Z by enumeration, for at most 20 items: an upper bound on f.

        Raises
        ------
        ValueError
            For more than 20 items.
        """
        if self.n > MAX_ENUMERATED:
            raise ValueError(f"2^{self.n} sets are too many to enumerate; at most {MAX_ENUMERATED} items")
        values = np.empty(1 << self.n)
        run = _set_values if self.compiled else _set_values.interpreted
        run(self.extension.params, self.n, values)
        top = values.max()
        return float(top + np.log(np.exp(values - top).sum()))


register_kind(
    OBJECTIVES, "mean-field", MeanField, extension=TEXT, about="evidence lower bound of exp F(S)",
    example=lambda n: {"extension": EXTENSIONS["facility-location"].example_of(n)},
)  # fmt: skip
