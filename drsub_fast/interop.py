"""Problems and results as files.

A problem file, ``.npz`` or ``.mat`` (MATLAB up to version 7), holds arrays by name:

- ``H``, ``h`` and, if not 0, ``c``: a quadratic 1/2 x'Hx + h'x + c; or ``L`` or ``factor`` (L = B B') and,
  if not true, ``unit_box``: a softmax extension;
- ``A`` and ``b``, and ``ub`` (or ``upper``) where the bound is not the one the rows imply: a polytope;
  ``ub`` alone: a box. A lower bound ``lb`` has to be 0.

Everything is maximised. Other names (``n``, ``m``, comments) are ignored.
"""

import json
import math
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.io
import scipy.sparse

from drsub_fast._checks import entry, one_of
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.box import Box
from drsub_fast.sets.polytope import Polytope


class Problem(NamedTuple):
    """max f(x) over x in P."""

    f: Objective
    P: FeasibleSet


def _load(path):
    """The arrays of a file by name."""
    kind = one_of(path.suffix.lower(), "kind of file", (".npz", ".mat"))
    if kind == ".npz":
        try:
            with np.load(path, allow_pickle=False) as stored:
                return dict(stored)
        except zipfile.BadZipFile:
            raise ValueError("not an .npz file") from None
    try:
        return {name: value for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
    except NotImplementedError:
        raise ValueError("MATLAB's -v7.3 format cannot be read: save it with -v7") from None
    except scipy.io.matlab.MatReadError as error:
        raise ValueError(f"not a .mat file: {error}") from None


def _vector(array, name):
    """MATLAB has no vectors: an n x 1 or 1 x n matrix is one, sparse or not."""
    if scipy.sparse.issparse(array):
        array = array.toarray()
    if array.ndim > 1 and max(array.shape) != array.size:
        raise ValueError(f"{name} must be a vector, got shape {array.shape}")
    return array.ravel()


def _number(array, name):
    if array.size != 1:
        raise ValueError(f"{name} must be a number, got shape {array.shape}")
    return array.ravel()[0]


def _objective(arrays):
    given = [name for name in ("H", "L", "factor") if name in arrays]
    if len(given) != 1:
        found = " and ".join(given) or ", ".join(sorted(arrays)) or "nothing"
        raise ValueError(f"one of H (a quadratic), L or factor (a softmax) is needed, found {found}")
    (name,) = given
    matrix = arrays[name].toarray() if scipy.sparse.issparse(arrays[name]) else arrays[name]
    if name == "H":
        if "h" not in arrays:
            raise ValueError("a quadratic needs h beside H")
        c = _number(arrays["c"], "c") if "c" in arrays else 0.0
        return Quadratic(matrix, _vector(arrays["h"], "h"), float(c))
    unit_box = bool(_number(arrays["unit_box"], "unit_box")) if "unit_box" in arrays else True
    return Softmax(**{name: matrix}, unit_box=unit_box)


def _feasible_set(arrays):
    if "lb" in arrays and (lower := _vector(arrays["lb"], "lb")).any():
        j = int(np.flatnonzero(lower)[0])
        raise ValueError(f"{entry('lb', (j,))} = {lower[j]:g}: substitute x = lb + y, so that the lower bound is 0")
    upper = next((_vector(arrays[name], name) for name in ("ub", "upper") if name in arrays), None)
    if "A" in arrays and "b" in arrays:
        return Polytope(arrays["A"], _vector(arrays["b"], "b"), upper)
    if "A" in arrays or "b" in arrays:
        raise ValueError(f"A and b belong together: {'b' if 'A' in arrays else 'A'} is missing")
    if upper is None:
        raise ValueError("no feasible set: A and b, or ub, are needed")
    return Box(upper)


def read_problem(path):
    """Reads a problem.

    Parameters
    ----------
    path : str or Path
        An ``.npz`` or ``.mat`` file as described in `drsub_fast.interop`.

    Returns
    -------
    Problem
        With fields f and P.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it cannot be read, something is missing, or an array is not what f or P need; the message
        begins with the path.
    """
    path = Path(path)
    try:
        arrays = _load(path)
        problem = Problem(_objective(arrays), _feasible_set(arrays))
        if problem.f.n != problem.P.n:
            raise ValueError(f"the objective has {problem.f.n} variables, the set {problem.P.n}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    return problem


def result_fields(result):
    """A result as a flat dict of numbers, strings and arrays."""
    return {
        "x": result.x,
        "value": result.value,
        "fw_gap": result.fw_gap,
        "upper_bound": result.upper_bound,
        "guarantee": str(result.guarantee),
        "method": result.method,
        "status": result.status.name,
        "message": result.message,
        "n_iter": result.n_iter,
        "n_lmo": result.n_lmo,
        "time": result.time,
        "trace_value": result.trace.value,
        "trace_fw_gap": result.trace.fw_gap,
    }


def _json_ready(value):
    """JSON has neither arrays nor infinities nor NaN."""
    if isinstance(value, np.ndarray):
        return [_json_ready(item) for item in value.tolist()]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_result(path, result):
    """Writes a result as ``.npz``, or as ``.json`` (with null for NaN and infinities).

    Parameters
    ----------
    path : str or Path
    result : Result

    Raises
    ------
    ValueError
        For another kind of file.
    """
    path = Path(path)
    kind = one_of(path.suffix.lower(), "kind of file", (".npz", ".json"))
    fields = result_fields(result)
    if kind == ".npz":
        np.savez_compressed(path, **fields)
    else:
        path.write_text(json.dumps({name: _json_ready(value) for name, value in fields.items()}, indent=1) + "\n")
