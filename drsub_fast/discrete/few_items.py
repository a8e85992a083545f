"""Greedy choices by one kernel call: users' arrays made into the arguments of `drsub_fast.discrete.choice`."""

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, as_count, as_vector
from drsub_fast.discrete.choice import (
    BAD,
    COSINE,
    INNER,
    MATRIX,
    RBF,
    STATES,
    Choices,
    Rule,
    Users,
    choose_stack,
    scratch_size,
)  # fmt: skip
from drsub_fast.discrete.dependence import DEPENDENT, NEARLY_SINGULAR
from drsub_fast.objectives.similarity import Similarity
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.partition import PartitionMatroid

#: Most items with features that one call chooses from; matrices are never too large. Time over that of the choice in
#: blocks: 0.68 at n = 3000, k = 30; 2.0 at n = 8000, k = 50, with equal qualities 0.46. By matrices 0.6 of numpy's.
MOST_ITEMS = 4000

#: Floats that a thread keeps for its next choice: 32 MB.
_KEPT = 1 << 22

#: What similarities are to the kernel.
KINDS = {"cosine": COSINE, "inner": INNER, "rbf": RBF}

NO_QUALITY, NO_LABELS = np.empty(0), np.empty(0, np.int64)
#: Exactly as many items as asked for.
EXACTLY = Rule(-1.0, NEARLY_SINGULAR, True)

_kept = threading.local()


def at_most(full: bool) -> Rule:
    """Items while they are independent and, unless ``full``, raise the determinant."""
    return Rule(-1.0 if full else 1.0, DEPENDENT, False)


class Chosen(NamedTuple):
    """A choice: items and gains in order, log det, how many are independent, why it ended, and L_ii of all items."""

    items: NDArray[np.int64]
    gains: NDArray[np.float64]
    value: float
    independent: int
    reason: int
    diagonal: NDArray[np.float64]


def choose_few(
    L: ArrayLike | Softmax | None,
    features: ArrayLike | None,
    quality: ArrayLike | None,
    similarity: Similarity,
    gamma: float | None,
    constraint: int | FeasibleSet | None,
    size: int | None,
    full: bool,
) -> Chosen | None:
    """The greedy choice for the arguments of `greedy_map`, or None where one kernel call does not make it.

    That is for many items, sparse data, most sets, and all that is to be refused.
    """
    users = _user(L, features, quality, similarity, gamma)
    if users is None:
        return None
    n = len(users.data)
    most, rule = size, EXACTLY
    if size is None:
        most, rule = n, at_most(full)
    if isinstance(constraint, PartitionMatroid) and constraint.n == n:
        users = users._replace(**group_limits(constraint))
    elif constraint is not None:
        if size is not None or type(constraint) is not int or constraint < 0:
            return None
        most = min(constraint, n)
    elif size is None:
        return None
    most = as_count(most, "size", lower=1) if most != 0 else 0
    return choose_from(users, most, rule) if 1 <= most <= n else None


def choose_from(users: Users, most: int, rule: Rule) -> Chosen | None:
    """The choice for one user, or None where its data are to be refused or it has too few items."""
    n = len(users.data)
    choices = new_choices(1, most, n)
    run_choices(users, np.zeros(1, np.int64), np.full(1, n), rule, choices)
    code, count, independent = choices.state[0].tolist()
    if code == BAD or (rule.exact and count < most):
        return None
    return Chosen(
        choices.items[0, :count], choices.gains[0, :count], float(choices.value[0]), independent, code,
        choices.diagonal,
    )  # fmt: skip


def _user(L, features, quality, similarity, gamma):
    """The arguments as one user, or None."""
    data = features if L is None else L
    if (L is None) == (features is None) or isinstance(data, Softmax) or scipy.sparse.issparse(data):
        return None
    if getattr(data, "shape", ())[:1] > (MOST_ITEMS,) and not (features is None and _is_at_hand(data)):
        return None
    kind = MATRIX if features is None else KINDS.get(similarity)
    if kind is None or (gamma is not None and (kind != RBF or type(gamma) is not float or not 0.0 < gamma < math.inf)):
        return None
    data = as_rows(data, "L" if features is None else "features", features is None)
    n, d = data.shape
    if not n or not d or (kind == MATRIX and (n != d or quality is not None)):
        return None
    return Users(kind, math.nan if gamma is None else gamma, data, as_quality(quality, n), NO_LABELS, NO_LABELS)


def _is_at_hand(data):
    """Whether a matrix is one that compiled code reads where it is."""
    flags = data.flags if type(data) is np.ndarray and data.dtype == np.float64 and data.ndim == 2 else None
    return flags is not None and flags.forc and flags.aligned and flags.writeable


def as_rows(data: ArrayLike, name: str, is_symmetric: bool = False) -> NDArray[np.float64]:
    """A matrix as compiled code reads it: the caller's own array where it is one; entries of that are unchecked."""
    if type(data) is not np.ndarray or data.dtype != np.float64 or data.ndim != 2:
        return as_array(data, name, 2)
    if is_symmetric and data.flags.f_contiguous:
        data = data.T
    return np.require(data, requirements=("C", "A", "W"))


def as_quality(quality: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Qualities as compiled code reads them; none where they are 1. Entries of an array of float64 are unchecked."""
    if quality is None:
        return NO_QUALITY
    if type(quality) is not np.ndarray or quality.dtype != np.float64 or quality.shape != (n,):
        return as_vector(quality, "quality", n=n, lower=0.0)
    return np.require(quality, requirements=("C", "A", "W"))


def group_limits(P: PartitionMatroid) -> dict[str, Any]:
    """The groups of items and how many of each are allowed; those that are not allowed are a group of their own."""
    limits = np.floor(P.capacities * (1.0 + 1e-10)).clip(0.0, P.n).astype(np.int64)
    groups = np.where(P.upper >= 1.0 - 1e-9, P.groups, limits.size)
    return {"groups": groups, "limits": np.append(limits, 0)}


def new_choices(count: int, size: int, n: int) -> Choices:
    """Room for the choices of ``count`` users of at most n items."""
    return Choices(
        np.empty((count, size), np.int64), np.empty((count, size)), np.empty(count),
        np.empty((count, STATES), np.int64), np.empty(n),
    )  # fmt: skip


#: Of the arguments of `choose_stack`: they have the same types in all calls.
_FAMILY = "users"


def run_choices(
    users: Users, first: NDArray[np.int64], last: NDArray[np.int64], rule: Rule, choices: Choices, ahead: float = 0.0
) -> Callable[..., object]:
    """Chooses for the users of the rows first[b] .. last[b] - 1, by what is returned: compiled code or not.

    ``ahead`` are the processor seconds of plain Python that are to come.
    """
    n, size, d = choices.diagonal.size, choices.items.shape[1], users.data.shape[1]
    floats = _scratch(scratch_size(n, 0 if users.kind == MATRIX else d, min(n, size)))
    arguments = users, first, last, rule, floats, np.empty(users.limits.size, np.int64), choices
    run = choose_stack.entry(_FAMILY, arguments, ahead)
    run(*arguments)
    return run


def _scratch(size):
    """Floats of any content: the thread's last ones while they are enough."""
    spare = getattr(_kept, "array", None)
    if spare is None or spare.size < size:
        spare = np.empty(size)
        if size <= _KEPT:
            _kept.array = spare
    return spare
