"""Box {x : 0 <= x <= upper}. The oracle takes each coordinate by the sign of its cost."""

from collections import namedtuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_vector
from drsub_fast._kinds import LARGEST, SETS, array, register_kind, within
from drsub_fast.engine.codes import OK
from drsub_fast.engine.dispatch import own
from drsub_fast.engine.jit import kernel
from drsub_fast.sets.base import FeasibleSet, register_set

BoxParams = namedtuple("BoxParams", "upper")


def _lmo_in_arrays(params, work, direction, upper, v):
    v[:] = np.where(direction > 0.0, upper, 0.0)[: v.size]
    return OK


@kernel(plain=_lmo_in_arrays)
def _lmo(params, work, direction, upper, v):
    for j in range(v.size):
        v[j] = upper[j] if direction[j] > 0.0 else 0.0
    return OK


def _project_in_arrays(params, work, y, upper, out):
    np.minimum(np.maximum(y, 0.0), upper[: y.size], out=out[: y.size])
    return OK


@kernel(plain=_project_in_arrays)
def _project(params, work, y, upper, out):
    for j in range(y.size):
        out[j] = min(max(y[j], 0.0), upper[j])
    return OK


@kernel(memory=True)
def _problem_at(stack, i):
    return BoxParams(own(stack.upper, i))


register_set(BoxParams, lmo=_lmo, project=_project, problem_at=_problem_at)


class Box(FeasibleSet):
    """Box {x : 0 <= x <= upper}.

    Parameters
    ----------
    upper : array_like, shape (n,)
        Upper bounds, at least 0.

    Raises
    ------
    ValueError
        For an entry that is negative or not finite, or no entry at all.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.Box([1.0, 2.0]).lmo([3.0, -1.0])
    array([1., 0.])
    """

    def __init__(self, upper: ArrayLike) -> None:
        upper = as_vector(upper, "upper", lower=0.0)
        super().__init__(BoxParams(upper), upper)

    def __repr__(self) -> str:
        return f"Box(n={self.n})"

    def constraints_hold(self, x: NDArray[np.float64], tol: float) -> bool:
        return True


def _stack(upper):
    return BoxParams(upper), upper, within(upper, 0.0, LARGEST)


register_kind(
    SETS, "box", Box, stack=_stack, upper=array("n"), about="0 <= x <= upper",
    example=lambda n: {"upper": np.linspace(1.0, 0.6, n)},
)  # fmt: skip
