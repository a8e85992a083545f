"""What the trials of objectives and sets have in common: copies, files, stacks, memory, and the first solves."""

import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import numpy as np
import scipy

from drsub_fast._checks import dense
from drsub_fast._kinds import OBJECTIVES, SETS, Kind, kind_of
from drsub_fast.batch.stacked import maximize_stacked
from drsub_fast.engine import jit
from drsub_fast.engine.dispatch import kernels_of
from drsub_fast.errors import UnsupportedError
from drsub_fast.methods import maximize
from drsub_fast.objectives.base import Objective
from drsub_fast.problems.arrays import to_arrays
from drsub_fast.problems.files import read_problem, write_problem
from drsub_fast.problems.standard_form import Problem
from drsub_fast.result import Result
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.solvers.record import MethodName

T = TypeVar("T")

#: Names of numpy's functions that allocate.
_ALLOCATE = {"empty", "zeros", "ones", "empty_like", "zeros_like", "ones_like", "arange", "concatenate", "argsort"}


def require(holds: object, reason: str) -> None:
    """Raises AssertionError with the reason unless ``holds``."""
    if not holds:
        raise AssertionError(reason)


@contextmanager
def trial(words: str) -> Iterator[None]:
    """What goes wrong within, other than a failed trial, is an AssertionError that says what was tried."""
    try:
        yield
    except (AssertionError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise AssertionError(f"{words}: {type(error).__name__}: {error}") from error


def require_memory(params: object) -> None:
    """Kernels that allocate say so by memory=True; those from outside the package are compiled, if any are."""
    for name, function in kernels_of(type(params)).items():
        options = getattr(function, "options", None)
        if options is None:
            require(getattr(type(params), "interpreted", False), f"{name} is no kernel: decorate it with extend.kernel")
            continue
        found = _ALLOCATE & set(function.py_func.__code__.co_names)
        require(
            options["memory"] or not found,
            f"the kernel {function.__name__} calls {', '.join(sorted(found))}, which allocates: it needs memory=True",
        )


def is_foreign(params: object) -> bool:
    """Whether a kernel from outside the package serves the parameters, so that it may never have been compiled."""
    modules = [getattr(function, "__module__", "") for function in kernels_of(type(params)).values()]
    return jit.COMPILE != "never" and not all(name.startswith("drsub_fast.") for name in modules)


def copied(thing: T, kind: Kind | None) -> T | None:
    """What pickling makes of it; None where it holds functions that cannot be pickled."""
    try:
        return pickle.loads(pickle.dumps(thing))
    except Exception as error:
        require(kind is None, f"it cannot be pickled, so no process can be sent it: {error}")
        return None


def from_file(f: Objective, P: FeasibleSet) -> Problem | None:
    """The problem that a file gives back, or None where it is no kind that files hold."""
    if kind_of(f, OBJECTIVES) is None or kind_of(P, SETS) is None:
        return None
    with tempfile.TemporaryDirectory() as folder, trial("it is not written to a file and read again"):
        try:
            write_problem(f"{folder}/problem.npz", f, P)
        except UnsupportedError:
            return None  # it says why: two entries of one name, or another kind for these values
        return read_problem(f"{folder}/problem.npz")


def require_stack(f: Objective, P: FeasibleSet) -> None:
    """Two problems in a stack have the answers of single solves."""
    objective, feasible_set = kind_of(f, OBJECTIVES), kind_of(P, SETS)
    if objective is None or feasible_set is None or not P.is_down_closed:
        return
    try:
        arrays = to_arrays(f, P)
    except UnsupportedError:
        return
    known = objective.arguments | feasible_set.arguments
    stacked = {name: arrays.pop(name) for name in ("objective", "set")}
    for name, value in arrays.items():
        value = dense(value) if scipy.sparse.issparse(value) else value
        plain = name not in known or known[name].type is not float
        stacked[name] = value if plain else np.array([value, value])
    single = maximize(f, P, method="frank-wolfe", max_iter=5, bound="cheap")
    with trial("two of them are not solved in a stack"):
        both = maximize_stacked(**stacked, method="frank-wolfe", max_iter=5, n_jobs=1)
    require(
        np.allclose(both.value, single.value, rtol=1e-9, atol=1e-12),
        f"in a stack frank_wolfe ends at {both.value}, alone at {single.value}",
    )


def require_answers(f: Objective, P: FeasibleSet, methods: tuple[str, ...]) -> None:
    """Answers of methods are in the set, have the value of f there, and lie below their bounds."""
    for method in cast(tuple[MethodName, ...], methods):
        with trial(f"{method} does not solve {f!r} over {P!r}"):
            r = maximize(f, P, method=method, max_iter=6, bound="auto" if method == methods[0] else "cheap")
        require_answer(f, P, r, method)


def require_answer(f: Objective, P: FeasibleSet, r: Result, method: str) -> None:
    """One answer is in the set, has the value of f there, and lies below its bound."""
    require(P.contains(r.x) and (r.x <= P.upper).all(), f"{method} ends outside the set, at {r.x}")
    value = f.value(r.x)
    size = max(abs(value), np.abs(r.trace.value).max(initial=0.0), np.finfo(float).tiny)
    require(abs(value - r.value) <= 1e-9 * size, f"{method} says f = {r.value!r} at its answer, where f is {value!r}")
    require(r.value <= r.upper_bound, f"{method} has the bound {r.upper_bound!r} below its own value {r.value!r}")
