"""Trials of a method: its answers, promises, options and units over small problems, alone, in batches and stacks."""

import math
import pickle
from itertools import product
from typing import Any, cast

import numpy as np

from drsub_fast._checks import one_of
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.batch.many import maximize_many
from drsub_fast.batch.stacked import maximize_stacked
from drsub_fast.claims.gate import FINISHED_RUNS
from drsub_fast.extend.trials import require, require_answer, trial
from drsub_fast.methods import maximize
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.solvers.record import METHODS, Method, MethodName

#: Variables of the problems, and points of the grid along each by which the largest value is found.
_N, _GRID = 3, 9
#: What a promise may lack after 60 steps, relative to the largest value: they hold up to terms of 1/K.
_STEPS, _SLACK = 60, 0.05


def check_method(name: str) -> None:
    """Try a registered method.

    Parameters
    ----------
    name : str
        Its name in `METHODS`.

    Raises
    ------
    ValueError
        For an unknown name.
    AssertionError
        With the reason: an answer is outside the set, has another value than f there, or lies above its bound; less
        than the guarantee says; a second run, a batch, a stack or other units of f give another answer; an option that
        its signature has does not work, or one that it has not is taken.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.extend.check_method("frank-wolfe")
    """
    record = METHODS[one_of(name, "method", tuple(METHODS))]
    method = cast(MethodName, name)
    kinds = ["box"] if "box" in record.needs else ["box", "budget", "polytope"]
    kinds += ["simplex"] if not {"box", "down-closed"} & set(record.needs) else []
    steps: dict[str, Any] = {"max_iter": _STEPS} if "max_iter" in record.options else {}
    steps |= {"n_starts": 2} if record.many_starts else {}
    for objective, feasible_set in product(("quadratic", "facility-location", "softmax"), kinds):
        f, P = OBJECTIVES[objective].example_of(_N), SETS[feasible_set].example_of(_N)
        with trial(f"it does not solve {f!r} over {P!r}"):
            r = maximize(f, P, method=method, **steps)
        require_answer(f, P, r, name)
        with trial("its result cannot be pickled"):
            pickle.loads(pickle.dumps(r))
        again = maximize(f, P, method=method, **steps)
        require(again.value == r.value and np.array_equal(again.x, r.x), "a second run has another answer")
        _require_promise(f, P, r)
        many = maximize_many([(f, P)], method, n_jobs=1, **steps)[0]
        require(np.isclose(many.value, r.value, rtol=1e-9), f"maximize_many says {many.value}, maximize {r.value}")
    _require_options(record)
    _require_units(record, steps)


def _require_promise(f, P, r):
    """A guarantee that is known to hold does, by the largest value on a grid."""
    g = r.guarantee
    if g.ratio is None or not g.holds or r.status not in FINISHED_RUNS:
        return
    grid = np.array(list(product(*np.linspace(0.0, P.upper, _GRID).T)))
    inside = [x for x in grid if P.contains(x)]
    best = max([f.value(x) for x in inside], default=-math.inf)
    require(
        r.best_value >= g.ratio * best - _SLACK * abs(best),
        f"the guarantee {g.ratio:.3g} is said to hold, and {r.best_value:g} is less than that of {best:g}",
    )


def _require_options(record: Method) -> None:
    """Options that the signature has do what they say; others are refused with those that there are."""
    f, P, name = OBJECTIVES["quadratic"].example_of(_N), SETS["box"].example_of(_N), cast(MethodName, record.name)
    few: dict[str, Any] = {"n_starts": 2} if record.many_starts else {}
    unknown: dict[str, Any] = {"no_such_option": 1}
    try:
        maximize(f, P, method=name, **few, **unknown)
    except TypeError as error:
        require("no_such_option" in str(error), f"the error for an unknown option does not name it: {error}")
    else:
        require(False, "an unknown option is taken without a word")
    given: dict[str, Any] = {
        "x0": 0.5 * P.upper, "time_limit": 0.0, "callback": lambda progress: True, "max_iter": 1, "tol": 1e-3,
        "lmo": "kernel", "progress": False, "seed": 3,
    }  # fmt: skip
    for option, value in given.items():
        if option in record.options:
            with trial(f"the option {option}={value!r} does not work"):
                r = maximize(f, P, method=name, **few, **{option: value})
            require_answer(f, P, r, f"{name} with {option}={value!r}")
            if r.status not in FINISHED_RUNS:
                require(not (r.guarantee.ratio and r.guarantee.holds), f"stopped by {option} it keeps its guarantee")


def _require_units(record: Method, steps: dict[str, Any]) -> None:
    """f times a power of 2 has the answers of f; a stack has those of single solves."""
    f, P, name = OBJECTIVES["quadratic"].example_of(_N), SETS["box"].example_of(_N), cast(MethodName, record.name)
    value = maximize(f, P, method=name, **steps).value
    for factor in (2.0**-27, 2.0**27) if "projection" not in record.needs else ():  # a gradient step has units
        scaled = maximize(Quadratic(factor * f.H, factor * f.h), P, method=name, **steps).value / factor
        require(
            abs(scaled - value) <= 1e-6 * abs(value),
            f"in units of {factor:.2g} of f its value is {scaled}, not {value}",
        )
    with trial("it does not solve a stack"):
        both = maximize_stacked(H=np.array([f.H, f.H]), h=f.h, upper=P.upper, method=name, n_jobs=1, **steps)
    require(np.allclose(both.value, value, rtol=1e-6), f"in a stack its values are {both.value}, alone {value}")
