"""What makes a problem: an objective and a feasible set of as many variables."""

from drsub_fast._checks import described
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.sets.base import FeasibleSet


def require_problem(f: object, P: object) -> tuple[Objective, FeasibleSet]:
    """(f, P); TypeError or ValueError unless they are an objective and a feasible set with as many variables."""
    if isinstance(f, Objective) and isinstance(P, FeasibleSet) and f.n == P.n:
        return f, P
    if isinstance(f, FeasibleSet) and isinstance(P, Objective):
        raise TypeError("objective and set are exchanged: the objective comes first, f, P")
    n_f, n_P = require_objective(f).n, require_set(P).n
    raise ValueError(f"the objective has {n_f} variables, the set {n_P}")


def require_objective(f: object, name: str = "f") -> Objective:
    """f; TypeError unless it is an objective."""
    if not isinstance(f, Objective):
        hint = ", e.g. a CallableObjective around it" if callable(f) and not isinstance(f, type) else ""
        raise TypeError(f"{name} must be an objective{hint}, got {described(f)}")
    return f


def require_set(P: object, name: str = "P") -> FeasibleSet:
    """P; TypeError unless it is a feasible set."""
    if not isinstance(P, FeasibleSet):
        raise TypeError(f"{name} must be a feasible set, e.g. a Box or Polytope, got {described(P)}")
    return P


def require_shrinking(P: FeasibleSet, method: str, instead: str) -> None:
    """Raise UnsupportedError unless P is down-closed, and its oracle answers below tighter bounds."""
    if not P.is_down_closed:
        raise UnsupportedError(f"{method} needs a down-closed set, which {P!r} is not; use {instead}")
    if not P.answers_below:
        raise UnsupportedError(
            f"{method} needs an oracle that answers below tighter upper bounds, lmo(direction, upper), and that of "
            f"{P!r} takes the direction only; use {instead}"
        )
