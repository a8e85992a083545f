"""A bound for coverage, facility location and FLID of any size, by one linear program.

With the weights of one group sorted, w_1 >= w_2 >= .., the largest one in S is the sum of w_k - w_{k+1} over the k for
which S meets the first k items, with a probability of at most min(1, x_1 + .. + x_k). So for all shares 0 <= a_k <= 1

    f(x) <= <linear, x> + sum_k (w_k - w_{k+1}) [1 - a_k + a_k (x_1 + .. + x_k)] = constant(a) + <cost(a), x>,

whose maximum over P is one call of the oracle. The best shares are multipliers of the linear program

    max <linear, x> + sum_k (w_k - w_{k+1}) t_k   over x in P, t_k <= 1, t_k <= x_1 + .. + x_k,

and any shares give a bound that holds, whatever the accuracy of the program. For a mean-field objective, over the box
around P, the entropy joins the linear function in closed form: sum_j log(1 + exp cost_j).
"""

import math
from collections import namedtuple
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from drsub_fast.errors import OracleError, UnsupportedError
from drsub_fast.lp.highs import HighsOracle
from drsub_fast.objectives.feature_based import FeatureBased
from drsub_fast.objectives.maxima import MaximaParams
from drsub_fast.objectives.mean_field import MeanField
from drsub_fast.objectives.multilinear import MaximaExtension
from drsub_fast.proofs.program import constraint_rows
from drsub_fast.proofs.rungs import CALL, Problem, largest
from drsub_fast.sets.base import FeasibleSet

#: Most entries of the program's rows.
_MOST_ENTRIES = 2_000_000

#: The terms (w_k - w_{k+1}) min(1, x_1 + .. + x_k): their ``drops`` (K,), and sparse ``rows`` (K, n), zeros and ones.
Terms = namedtuple("Terms", "drops rows")


def terms_of(params: MaximaParams) -> Terms:
    """The terms of a maxima extension; terms without a drop are left out."""
    _, _, pointers, items, weights = params
    drops, columns, lengths = [], [], []
    for first, end in pairwise(pointers):
        following = np.append(weights[first + 1 : end], 0.0)[: end - first]
        for k in np.flatnonzero(weights[first:end] > following):
            drops.append(weights[first + k] - following[k])
            columns.append(items[first : first + k + 1])
            lengths.append(k + 1)
    indices = np.concatenate(columns) if columns else np.zeros(0, np.int64)
    rows = scipy.sparse.csr_matrix(
        (np.ones(indices.size), indices, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])),
        shape=(len(drops), params.n),
    )
    return Terms(np.array(drops), rows)


def capped_terms(f: FeatureBased) -> Terms:
    """The terms w_j cap_j min(1, (W'x)_j / cap_j) of features that count up to a cap."""
    caps = np.zeros(f.weights.size) if f.cap is None else f.cap
    counts = (caps > 0.0) & (f.weights > 0.0)
    cap = caps[counts]
    return Terms(f.weights[counts] * cap, scipy.sparse.csr_matrix(f.W[:, counts].T / cap[:, None]))


def best_shares(
    terms: Terms, linear: NDArray[np.float64], P: FeasibleSet, upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """About the best shares, multipliers of the program for a P of finitely many rows, and the program's x."""
    count = len(terms.drops)
    A, b, A_eq, b_eq, lower = constraint_rows(P)
    m, k = len(b), len(b_eq)
    sides = scipy.sparse.csr_matrix(np.vstack([A, A_eq]))
    rows = scipy.sparse.bmat(
        [[-terms.rows, scipy.sparse.identity(count)], [sides, scipy.sparse.csr_matrix((m + k, count))]], format="csc"
    )
    above = np.concatenate([np.zeros(count), b, b_eq])
    below = np.concatenate([np.full(count + m, -np.inf), b_eq])
    bound = np.concatenate([upper, np.ones(count)])
    oracle = HighsOracle(rows, above, bound, row_lower=below, lower=np.concatenate([lower, np.zeros(count)]))
    x = oracle.maximize(np.concatenate([linear, terms.drops]), bound)[: len(linear)]
    return np.clip(oracle.row_duals()[:count] / terms.drops, 0.0, 1.0), x


def capped_maximum(f: FeatureBased, P: FeasibleSet, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """A maximum of features that count up to a cap, up to the tolerance of the program; None if P has no rows."""
    try:
        return P.move_inside(best_shares(capped_terms(f), np.zeros(f.n), P, upper)[1], upper)
    except (OracleError, UnsupportedError):
        return None


def covering_steps(problem: Problem) -> Iterator[Any]:
    """The rung: one step over any set with rows, for a maxima extension, its mean field, or features up to a cap."""
    f, P, upper = problem.f, problem.P, problem.upper
    extension = f.extension if isinstance(f, MeanField) else f
    if isinstance(f, FeatureBased) and f.concave == "min":
        entries, linear = f.W.size, np.zeros(f.n)
    elif isinstance(extension, MaximaExtension):
        sizes = np.diff(extension.params.pointers)
        entries, linear = int((sizes * (sizes + 1) // 2).sum()), extension.params.linear
    else:
        return
    if not 0 < entries <= _MOST_ENTRIES:
        return
    yield math.inf, 200 * entries + 500 * CALL
    terms = capped_terms(f) if isinstance(f, FeatureBased) else terms_of(extension.params)
    try:
        shares, _ = best_shares(terms, linear, P, upper)
    except (OracleError, UnsupportedError):
        return
    cost = linear + terms.rows.T @ (shares * terms.drops)
    constant = float(terms.drops @ (1.0 - shares))
    rounding = 1e-13 * (terms.drops.sum() + np.abs(cost).sum() + np.abs(linear).sum())
    rise = largest(P, cost, upper) if f is extension else float(np.logaddexp(0.0, cost).sum())
    yield constant + rise + rounding, 0
