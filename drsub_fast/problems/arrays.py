"""Problems as arrays by name, the content of ``.npz`` and ``.mat`` files.

An objective or set is stored under the name of its kind and the arguments of its constructor, which it has as
attributes of the same names. The format is described in `drsub_fast.read_problem`.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from inspect import signature
from typing import Any

import numpy as np

from drsub_fast._checks import as_full, as_vector, entry, one_of
from drsub_fast._kinds import EXTENSIONS, OBJECTIVES, SETS, implied_kind, implied_objective, kind_of, required
from drsub_fast.errors import UnsupportedError
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.mean_field import MeanField
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.problems.program import rows_of
from drsub_fast.problems.standard_form import Problem, standard_form
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.polytope import Polytope
from drsub_fast.sets.simplex import Simplex

#: Names that other tools have for an entry.
ALIASES = {"ub": "upper", "lb": "lower", "Aeq": "A_eq", "beq": "b_eq", "A_ub": "A", "b_ub": "b"}
#: Names that other tools give to a vector of n numbers which is ours too, though not for certain.
_DOUBTFUL = {"f": "h", "u": "upper", "l": "lower"}
_SENSES = ("sense", "modelsense", "objsense")


def vocabulary() -> set[str]:
    """Names that mean something in a file, whatever its objective and set are."""
    kinds = (*OBJECTIVES.values(), *SETS.values())
    return {"objective", "set", "names", "minimize", "shift", *(name for kind in kinds for name in kind.arguments)}


def renamed(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays under our names; ValueError where one is there twice, or under a name that differs by its case."""
    arrays, known = dict(arrays), vocabulary()
    close = {name.lower(): name for name in (*_SENSES, *ALIASES, *known) if len(name) > 1}
    for name in list(arrays):
        meant = close.get(name.lower(), name)
        if meant != name and name not in known and name not in ALIASES:
            raise ValueError(f"{name}: write {meant} if that is meant, or take the entry out")
    for alias, name in ALIASES.items():
        if alias in arrays:
            if name in arrays:
                raise ValueError(f"{alias} and {name} are both there, which are one entry: take one of them out")
            arrays[name] = arrays.pop(alias)
    return arrays


def require_used(arrays: Mapping[str, Any], used: Iterable[str], n: int, what: str) -> None:
    """Raise ValueError for an entry that means something in other files, and is not ``used`` in this one."""
    for name in _SENSES:
        if name in arrays and str(np.ravel(arrays[name])[0] if np.size(arrays[name]) else "").lower() not in (
            "max", "maximize", "maximise",
        ):  # fmt: skip
            raise ValueError(
                f"{name}: a file holds the function that is maximised; turn the signs of H, h and c, and give "
                f"minimize = 1 instead of {name} if the source minimises"
            )
    unused = sorted((vocabulary() - set(used) - {"n", "objective", "set"}).intersection(arrays))
    if unused:
        raise ValueError(
            f"{', '.join(unused)}: {what} do not have such entries, and nothing is dropped; name the kinds that have "
            "by the texts objective and set, or take the entries out"
        )
    for name, ours in _DOUBTFUL.items():
        if name in arrays and ours not in arrays and np.size(arrays[name]) == n > 1:
            raise ValueError(f"{name} has a number for each variable: write {ours} if that is meant, or take it out")


def _vector(array, name):
    """MATLAB has no vectors: an n x 1 or 1 x n matrix is one, sparse or not."""
    if max(array.shape, default=1) != math.prod(array.shape) > 0:
        raise ValueError(f"{name} must be a vector, got shape {array.shape}")
    return np.asarray(as_full(array, name)).ravel()


def _number(array, name):
    if math.prod(array.shape) != 1:
        raise ValueError(f"{name} must be a number, got shape {array.shape}")
    array = np.asarray(as_full(array, name))
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a number, got {array.ravel().tolist()[0]!r}")
    return float(array.ravel()[0])


def _count(array, name):
    number = _number(array, name)
    if not number.is_integer():
        raise ValueError(f"{name} = {number:g} must be an integer")
    return int(number)


def _flag(array, name):
    return bool(_number(array, name))


def _text(array, name):
    if array.dtype.kind != "U" or array.size != 1:
        raise ValueError(f"{name} must be one text (in MATLAB: in single quotes)")
    return str(array.ravel()[0]).strip()


def _read(array, name, argument):
    """An entry of a file as its argument takes it."""
    if array.dtype.kind in "OSV":
        raise ValueError(f"{name} cannot be read: Object arrays cannot be loaded, nor cells and structs: give numbers")
    if argument.type is not float:
        return {int: _count, bool: _flag, str: _text}[argument.type](array, name)
    if not argument.axes or (argument.may_be_number and math.prod(array.shape) == 1):
        return _number(array, name)
    if len(argument.axes) == 1:
        return _vector(array, name)
    return array if argument.may_be_sparse else as_full(array, name)


def _made(kinds, kind, arrays):
    """The objective or set of a kind, and the names of the entries that it is made of."""
    make, known = kinds[kind].make, kinds[kind].arguments
    arguments = {name: _read(arrays[name], name, argument) for name, argument in known.items() if name in arrays}
    missing = [name for name in required(make) if name not in arguments]
    if missing:
        raise ValueError(
            f"a {kind} needs {' and '.join(missing)}: its entries are {', '.join(known)}; found {_names(arrays)}"
        )
    used = set(arguments)
    if "extension" in arguments:
        inner = one_of(arguments["extension"], "extension", tuple(sorted(EXTENSIONS)))
        arguments["extension"], more = _made(EXTENSIONS, inner, arrays)
        used |= more
    return make(**arguments), used


def _names(arrays):
    return ", ".join(sorted(arrays)) or "nothing"


def named_kind(arrays: Mapping[str, Any], name: str, kinds: Collection[str]) -> str | None:
    """What ``objective`` or ``set`` says, or None."""
    if name not in arrays or arrays[name].dtype.kind in "biuf":  # a number under that name is something else
        return None
    return one_of(_text(arrays[name], name), name, tuple(sorted(kinds)))


def _objective(kind, arrays):
    """The objective, and the names of its entries."""
    if kind is None:
        given = [name for name in ("H", "L", "factor") if name in arrays]
        raise ValueError(
            f"one of H (a quadratic), L or factor (a softmax) is needed, or objective, the name of another kind "
            f"({', '.join(sorted(OBJECTIVES))}); found {' and '.join(given) or _names(arrays)}"
        )
    return _made(OBJECTIVES, kind, arrays)


def _set(arrays, taken):
    """The set, and the names of its entries; without its name they are not those of the objective."""
    kind = named_kind(arrays, "set", SETS)
    if kind is None:  # lower bounds are moved to 0, and make no other set
        kind = implied_kind(SETS, set(arrays) - taken - {"lower"})
    if kind is None:
        raise ValueError(
            f"no feasible set: A and b (a polytope) or upper (a box) are needed, or set, the name of another kind "
            f"({', '.join(sorted(SETS))}); found {_names(arrays)}"
        )
    return _made(SETS, kind, arrays)


def _moved_to_zero(f, P, lower, has_upper, name):
    """The problem with the lower bounds moved to 0; ``f`` and ``P`` are those of lower bounds 0, checked."""
    rows = rows_of(P)
    if type(f) is not Quadratic or type(P) not in (Polytope, Box) or rows is None:
        j = int(np.flatnonzero(lower)[0])
        raise ValueError(
            f"{entry(name, (j,))} = {lower[j]:g}: only a quadratic over a polytope or box can have lower bounds other "
            f"than 0, not {f!r} over {P!r}"
        )
    A, b, *_ = rows
    upper = P.upper if has_upper else np.full(f.n, np.inf)
    H = f.H if f.factor is None else f.hessian()
    return standard_form(
        H, f.h, f.c, A, np.full(len(b), -np.inf), b, lower, upper, minimize=False, require_dr=f.require_dr
    )


def from_arrays(arrays: Mapping[str, Any], require_dr: bool = True) -> Problem:
    """The problem that arrays describe.

    Parameters
    ----------
    arrays : dict of str to ndarray or scipy.sparse matrix
        As in `drsub_fast.read_problem`.
    require_dr : bool, default True
        The same.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError, TypeError
        If a name is unknown, an entry is missing, not used, or an array is not what the constructor needs.
    """
    name = "lb" if "lb" in arrays else "lower"
    arrays = renamed(arrays)
    kind = named_kind(arrays, "objective", OBJECTIVES) or implied_objective(arrays)
    if kind is not None and not require_dr and "require_dr" in OBJECTIVES[kind].arguments:
        arrays["require_dr"] = np.array(False)
    f, used = _objective(kind, arrays)
    P, set_used = _set(arrays, used)
    used |= set_used
    if f.n != P.n:
        raise ValueError(f"the objective has {f.n} variables, the set {P.n}")
    problem = Problem(f, P)
    if "lower" in arrays and "lower" not in used:
        used.add("lower")
        lower = as_vector(_vector(arrays["lower"], name), name, n=f.n)
        if lower.any():
            problem = _moved_to_zero(f, P, lower, "upper" in arrays, name)
    require_used(arrays, used, f.n, f"{f!r} and {P!r}")
    return problem


def to_arrays(f: Objective, P: FeasibleSet) -> dict[str, Any]:
    """The arrays that describe a problem.

    Returns
    -------
    dict of str to ndarray, sparse matrix, number or text

    Raises
    ------
    UnsupportedError
        For an objective or set that is not in the tables `OBJECTIVES` and `SETS`, e.g. one that calls a function.
    """
    kind, fields = _objective_fields(f)
    set_kind = _kind_of(P, SETS, "set")
    if isinstance(P, Simplex) and (P.upper < P.total).any():
        raise UnsupportedError(f"{P!r} has upper bounds below its total: write it as a GeneralPolytope with A_eq")
    set_fields = _fields(P, SETS[set_kind].make)
    taken = sorted(set(fields) & set(set_fields))
    if taken:
        raise UnsupportedError(f"{f!r} and {P!r} both have an entry {taken[0]!r}: one file cannot hold them")
    return {"objective": kind, **fields, "set": set_kind, **set_fields}


def _objective_fields(f):
    """Name of the kind, and entries."""
    if isinstance(f, MeanField):
        inner, fields = _objective_fields(f.extension)
        return "mean-field", {"extension": inner, **fields}
    kind = _kind_of(f, OBJECTIVES, "objective")
    fields = _fields(f, OBJECTIVES[kind].make)
    if "factor" in fields:
        fields.pop("L", None)
        fields.pop("H", None)
    return kind, fields


def _kind_of(thing, kinds, what):
    kind = kind_of(thing, kinds)
    if kind is None:
        raise UnsupportedError(
            f"{thing!r} cannot be written: a file holds arrays, no functions and no sums; the kinds of {what} are "
            f"{', '.join(sorted(kinds))}"
        )
    return kind.name


def _fields(thing, make):
    """The arguments that make the thing again, without those that are None or have no rows where they may be absent."""
    fields = {}
    for name, parameter in signature(make).parameters.items():
        field = getattr(thing, name)
        if field is not None and (parameter.default is not None or np.shape(field)[:1] != (0,)):
            fields[name] = field
    return fields
