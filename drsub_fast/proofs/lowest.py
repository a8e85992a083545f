"""Lower bounds on f over a set: what the paper's experiments shift f by."""

import math

import numpy as np
from numpy.typing import NDArray

from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.mean_field import MeanField
from drsub_fast.objectives.multilinear import MaximaExtension, TableExtension
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.proofs.global_optimum import global_minimum
from drsub_fast.proofs.item_sets import MOST_ITEMS, set_values
from drsub_fast.proofs.rungs import largest
from drsub_fast.sets.base import FeasibleSet

#: Nodes of the search for a quadratic's minimum, and its relative gap.
_NODES, _GAP = 100, 1e-6


def lowest(f: Objective, P: FeasibleSet, upper: NDArray[np.float64]) -> float:
    """A number that f is not below anywhere on P, -infinity where none is known.

    For quadratics it is the minimum up to 1e-6, if a hundred nodes suffice. Else, as far as they apply: 0 for f >= 0;
    for multilinear extensions of few items the least F(S); and, the gradient being antitone,

        f(x) >= f(0) + <grad f(upper), x> for x in [0, upper].
    """
    if isinstance(f, Quadratic):
        return global_minimum(f, P, gap=_GAP, max_nodes=_NODES).lower_bound
    if np.any(P._lower < 0.0):
        return -math.inf
    extension = f.extension if isinstance(f, MeanField) else f
    bounds = [-math.inf]
    if f.nonnegative_on(upper):
        bounds.append(0.0)
    if isinstance(extension, (MaximaExtension, TableExtension)) and f.n <= MOST_ITEMS:
        bounds.append(float(set_values(extension).min()))
    if extension.dr_submodular_on(upper):
        start, last = extension.value(np.zeros(f.n)), extension.gradient(upper)
        if np.isfinite(start) and np.isfinite(last).all():
            bounds.append(start - largest(P, -last, upper))
    return max(bounds)
