"""The problems of a batch as stacked arrays: checked for their shapes, one by one, or as stacked parameters."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_numbers, one_of
from drsub_fast._kinds import (
    EXTENSIONS,
    LARGEST,
    OBJECTIVES,
    SETS,
    Argument,
    implied_kind,
    implied_objective,
    required,
    within,
)
from drsub_fast.objectives.base import Objective
from drsub_fast.problems.arrays import named_kind, renamed, vocabulary
from drsub_fast.sets.base import FeasibleSet


class StackArrays(TypedDict, total=False):
    """Arguments of the built-in objectives and sets, and options of some methods, for type checkers.

    Those of a kind of your own are passed as ``**arrays``, a dict of str to Any.
    """

    H: ArrayLike
    h: ArrayLike
    c: ArrayLike
    factor: ArrayLike
    diagonal: ArrayLike
    require_dr: bool
    Z: ArrayLike
    y: ArrayLike
    weight: ArrayLike
    gamma: ArrayLike
    regularizer: str
    L: ArrayLike
    unit_box: bool
    W: ArrayLike
    concave: Literal["sqrt", "log", "min"]
    feature_weights: ArrayLike
    cap: ArrayLike
    matrices: ArrayLike
    factors: ArrayLike
    offset: ArrayLike
    sets: ArrayLike
    element_weights: ArrayLike
    utilities: ArrayLike
    adjacency: ArrayLike
    values: ArrayLike
    extension: str
    base: ArrayLike
    effects: ArrayLike
    cost: ArrayLike
    start: ArrayLike
    signs: ArrayLike
    graph: ArrayLike
    upper: ArrayLike | None
    A: ArrayLike | None
    b: ArrayLike | None
    A_eq: ArrayLike | None
    b_eq: ArrayLike | None
    lower: ArrayLike | None
    weights: ArrayLike
    budget: ArrayLike
    radius: ArrayLike
    n: int
    total: ArrayLike
    k: ArrayLike
    groups: ArrayLike
    capacities: ArrayLike
    edges: ArrayLike
    n_left: int
    n_right: int
    n_samples: int
    n_values: int
    gap: float
    max_nodes: int | None


class StackedArgument:
    """One array of the user: a row for each problem, or one that all share."""

    shared: bool
    data: np.ndarray

    def __init__(self, data: ArrayLike, name: str, ndim: int) -> None:
        if scipy.sparse.issparse(data):
            raise TypeError(f"{name} is a sparse matrix; a stack is dense: use maximize_many for sparse problems")
        data = as_numbers(data, name)
        if data.dtype.kind not in "biuf":
            raise TypeError(f"{name} cannot be read as an array of real numbers (its type is {data.dtype})")
        if data.ndim not in (ndim, ndim + 1):
            raise ValueError(f"{name} must have {ndim} axes (shared) or {ndim + 1} (stacked), got shape {data.shape}")
        self.name = name
        self.shared = data.ndim == ndim
        self.data = data[np.newaxis] if self.shared else data
        if self.shared:
            self.data = self.rows(0, 1)

    def rows(self, first: int, last: int) -> np.ndarray:
        """Rows of the problems first..last - 1 as the kernels take them; a view where that is possible."""
        rows = self.data if self.shared else self.data[first:last]
        return np.require(rows, np.float64, ["C", "A", "W"])

    def one(self, i: int) -> float | np.ndarray:
        """The argument of problem i."""
        row = self.data[0 if self.shared else i]
        return float(row) if row.ndim == 0 else row


def arguments_of_stack(arrays: Mapping[str, Any], require_dr: bool = True) -> dict[str, Any] | None:
    """Arguments of `maximize_stacked` for the arrays of a file, or None where they are not stacked problems.

    The file says objective and set as one of a single problem does. It holds a stack if an array has one axis more
    than for one problem. ``require_dr`` is that of `read_problem`.
    """
    known: dict[str, Argument] = {}
    texts: dict[str, str] = {}
    try:
        arrays = renamed(arrays)
        for kinds, what in ((OBJECTIVES, "objective"), (SETS, "set"), (EXTENSIONS, "extension")):
            if (name := named_kind(arrays, what, kinds)) is not None:
                texts[what] = name
        known |= OBJECTIVES[texts.get("objective") or implied_objective(arrays) or ""].arguments
        if "extension" in known:
            known |= EXTENSIONS[texts["extension"]].arguments
        known |= SETS[texts.get("set") or implied_kind(SETS, set(arrays) - set(known)) or ""].arguments
    except (ValueError, TypeError, KeyError):
        return None  # its reader says why
    if not any(name in known and array.ndim > len(known[name].axes) for name, array in arrays.items()):
        return None
    words = vocabulary() - {"objective", "set", "names", *(() if "n" in known else ("n",))}
    arguments = {
        name: array if name not in known or known[name].type is float or array.size != 1
        else known[name].type(array.ravel()[0])
        for name, array in arrays.items() if name in words
    }  # fmt: skip
    if not require_dr and "require_dr" in known:
        arguments["require_dr"] = False
    return {name: texts[name] for name in ("objective", "set") if name in texts} | arguments


class _Family:
    """The objectives, or the sets, of a batch: their kind and arguments."""

    def __init__(self, kinds, what, name, hint, given):
        if name is None:
            mixed = [argument for argument in given if any(argument in kind.arguments for kind in kinds.values())]
            wrong = f"no {what} has all of {', '.join(mixed)}" if len(mixed) > 1 else f"the {what} is missing"
            raise TypeError(f"{wrong}: give {what}=, the name of a kind, or {hint}; got {', '.join(given)}")
        kind = kinds[one_of(name, what, tuple(sorted(kinds)))]
        self.make, self.stack, known = kind.make, kind.stack, dict(kind.arguments)
        inner = None
        if "extension" in known:
            inner = EXTENSIONS[one_of(given.get("extension"), "extension", tuple(sorted(EXTENSIONS)))]
            known = inner.arguments
            self.make = lambda **arguments: kind.make(inner.make(**arguments))
        missing = [name for name in required(inner.make if inner else kind.make) if name not in given]
        if missing:
            raise TypeError(f"a {name} needs {' and '.join(missing)}: its arguments are {', '.join(known)}")
        self.known = known
        self.arrays, self.options = {}, {}
        for argument, spec in known.items():
            if argument in given:
                data = given[argument]
                if spec.type is float:
                    as_number = spec.may_be_number and np.ndim(data) == 0
                    self.arrays[argument] = StackedArgument(data, argument, 0 if as_number else len(spec.axes))
                else:
                    self.options[argument] = data

    def names(self):
        """Names of the arguments that were given."""
        return [*self.arrays, *self.options]

    def check_shapes(self, n=None):
        """Number of variables; raises ValueError where sizes that must agree do not."""
        sizes, main = {} if n is None else {"n": n}, next(iter(self.arrays), None)
        for name, array in self.arrays.items():
            shape, axes = array.data.shape[1:], self.known[name].axes
            if not shape:
                continue
            for axis, size in zip(axes, shape, strict=True):
                if axis.startswith("2^"):
                    sizes.setdefault(axis[2:], size.bit_length() - 1)
                else:
                    sizes.setdefault(axis, size)
            expected = tuple(
                1 << sizes[axis[2:]] if axis.startswith("2^") else int(axis) if axis.isdigit() else sizes[axis]
                for axis in axes
            )
            if shape != expected:
                raise ValueError(f"{name} has shape {shape} for one problem, expected {expected} to go with {main}")
        if sizes.get("n") == 0:
            raise ValueError(f"{main} is empty: at least one variable is needed")
        return sizes.get("n")

    def one(self, i):
        """The objective or set of problem i."""
        return self.make(**{name: array.one(i) for name, array in self.arrays.items()}, **self.options)

    def rows(self, first, last):
        """What the stack of the kind makes of the problems first..last - 1; None if it has none."""
        if all(array.shared for array in self.arrays.values()):
            return self.shared_rows
        return self._rows(first, last)

    @cached_property
    def shared_rows(self):
        """The same where all problems share it."""
        return self._rows(0, 1)

    def _rows(self, first, last):
        if self.stack is None:
            return None
        return self.stack(**{name: array.rows(first, last) for name, array in self.arrays.items()}, **self.options)


class ProblemStack:
    """The stacked arrays of a batch.

    Attributes
    ----------
    count, n : int
        Numbers of problems and of variables.
    sample : tuple (Objective, FeasibleSet) or None
        The first problem that can be made; its parameters have the types of all.
    """

    objective: _Family
    set: _Family
    arguments: dict[str, StackedArgument]
    options: dict[str, object]
    count: int
    n: int

    def __init__(self, objective: str | None, feasible_set: str | None, arrays: Mapping[str, Any]) -> None:
        given = {name: data for name, data in arrays.items() if data is not None}
        objective = objective or implied_objective(given)
        self.objective = _Family(OBJECTIVES, "objective", objective, "H and h, or L or factor", given)
        feasible_set = feasible_set or implied_kind(SETS, set(given) - set(self.objective.known))
        self.set = _Family(SETS, "set", feasible_set, "the arrays of one, e.g. A and b, k, or upper", given)
        used = {*self.objective.names(), *self.set.names()}
        unused = sorted(set(given) - used - ({"extension"} if objective == "mean-field" else set()))
        if unused:
            known = ", ".join(sorted({*self.objective.known, *self.set.known}))
            raise TypeError(
                f"{', '.join(unused)} cannot be combined with {', '.join(sorted(used))}: objective and set have the "
                f"arguments {known}"
            )
        self.arguments = self.objective.arrays | self.set.arrays
        self.options = self.objective.options | self.set.options
        self.count = self._count()
        self.n = self.objective.check_shapes()
        self.set.check_shapes(self.n)

    def _count(self):
        lengths = {name: len(array.data) for name, array in self.arguments.items() if not array.shared}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the stacks have different lengths: {lengths}")
        return next(iter(lengths.values()), 1)

    @cached_property
    def sample(self) -> tuple[Objective, FeasibleSet] | None:
        """The first problem that can be made, or None."""
        for i in range(self.count):
            try:
                return self.single(i)
            except ValueError:
                continue  # the ordinary solver says why; a TypeError is one of all problems
        return None

    def single(self, i: int) -> tuple[Objective, FeasibleSet]:
        """Objective and set of problem i."""
        f, P = self.objective.one(i), self.set.one(i)
        if f.n != P.n:
            raise ValueError(f"the objective has {f.n} variables, the set {P.n}")
        return f, P

    def has_stacks(self) -> bool:
        """Whether both kinds make stacks of these arguments."""
        return (
            self.sample is not None
            and self.objective.rows(0, 1) is not None
            and self.set.rows(0, 1) is not None
            and self.sample[1].is_down_closed
        )

    def stacks(
        self, first: int, last: int
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], NDArray[np.float64], NDArray[np.bool_]]:
        """(objectives, sets, upper, accepted) of the problems first..last - 1."""
        objectives, valid = self.objective.rows(first, last)
        sets, upper, feasible = self.set.rows(first, last)
        if self.sample is not None and self.sample[0].unit_box:
            upper = np.minimum(upper, 1.0)
        accepted = valid & feasible & within(upper, 0.0, LARGEST)
        return objectives, sets, upper, np.array(np.broadcast_to(accepted, last - first))
