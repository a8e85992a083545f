"""Problems and results as files.

``.npz`` and ``.mat`` (MATLAB up to version 7) hold arrays by name:

- ``H``, ``h`` and, if not 0, ``c``: a quadratic 1/2 x'Hx + h'x + c; or ``L`` or ``factor`` (L = B B') and,
  if not true, ``unit_box``: a softmax extension; to be maximised;
- ``A`` and ``b``, and ``ub`` (or ``upper``) where the bound is not the one the rows imply: a polytope;
  ``ub`` alone: a box;
- ``lb``, if not 0, with a quadratic: the lower bounds, which are moved to 0.

Other names (``n``, ``m``, comments) are ignored. ``.mps``, ``.lp`` and ``.qplib`` are read by `program_files`.
"""

import json
import math
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from drsub_fast._checks import as_vector, entry, one_of
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.program_files import read_mps_or_lp, read_qplib, write_mps_or_lp
from drsub_fast.programs import Problem, standard_form
from drsub_fast.sets.box import Box
from drsub_fast.sets.polytope import Polytope


def _load_npz(path):
    try:
        with np.load(path, allow_pickle=False) as stored:
            if isinstance(stored, np.ndarray):
                raise ValueError("one array without a name, not an .npz file")
            return dict(stored)
    except zipfile.BadZipFile:
        raise ValueError("not an .npz file") from None


def _load_mat(path):
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


def _feasible_set(arrays, upper):
    if "A" in arrays and "b" in arrays:
        return Polytope(arrays["A"], _vector(arrays["b"], "b"), upper)
    if "A" in arrays or "b" in arrays:
        raise ValueError(f"A and b belong together: {'b' if 'A' in arrays else 'A'} is missing")
    if upper is None:
        raise ValueError("no feasible set: A and b, or ub, are needed")
    return Box(upper)


def _shifted(f, P, lower, upper):
    """The problem with the lower bounds moved to 0; ``f`` and ``P`` are those of lower bounds 0, checked."""
    lower = as_vector(lower, "lb", n=f.n)
    if not isinstance(f, Quadratic):
        j = int(np.flatnonzero(lower)[0])
        raise ValueError(f"{entry('lb', (j,))} = {lower[j]:g}: only a quadratic can have lower bounds other than 0")
    A, b = (P.A, P.b) if isinstance(P, Polytope) else (np.zeros((0, f.n)), np.zeros(0))
    upper = np.full(f.n, np.inf) if upper is None else upper
    return standard_form(f.H, f.h, f.c, A, np.full(len(b), -np.inf), b, lower, upper, minimize=False)


def _problem(arrays):
    """The problem that arrays describe."""
    upper = next((_vector(arrays[name], name) for name in ("ub", "upper") if name in arrays), None)
    f, P = _objective(arrays), _feasible_set(arrays, upper)
    if f.n != P.n:
        raise ValueError(f"the objective has {f.n} variables, the set {P.n}")
    lower = _vector(arrays["lb"], "lb") if "lb" in arrays else np.zeros(0)
    return _shifted(f, P, lower, upper) if lower.any() else Problem(f, P)


_READERS = {
    ".npz": lambda path: _problem(_load_npz(path)),
    ".mat": lambda path: _problem(_load_mat(path)),
    ".mps": read_mps_or_lp,
    ".lp": read_mps_or_lp,
    ".qplib": read_qplib,
}


def read_problem(path):
    """Reads a problem.

    Parameters
    ----------
    path : str or Path
        An ``.npz``, ``.mat``, ``.mps``, ``.lp`` or ``.qplib`` file as described in `drsub_fast.interop`.

    Returns
    -------
    Problem
        With fields f and P, and the way back where bounds or the sign were changed.

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
        read = _READERS[one_of(path.suffix.lower(), "kind of file", tuple(_READERS))]
        with path.open("rb"):  # an unreadable file is an OSError, whatever its reader makes of it
            pass
        return read(path)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def write_problem(path, f, P):
    """Writes a problem so that `read_problem` gives it back.

    Parameters
    ----------
    path : str or Path
        ``.npz`` or ``.mat`` for a `Quadratic` or `Softmax`, ``.mps`` or ``.lp`` for a `Quadratic`.
    f : Objective
    P : Box or Polytope

    Raises
    ------
    TypeError
        For another kind of objective or set.
    ValueError
        For another kind of file.
    """
    path = Path(path)
    kind = one_of(path.suffix.lower(), "kind of file", (".npz", ".mat", ".mps", ".lp"))
    if kind in (".mps", ".lp"):
        write_mps_or_lp(path, f, P)
        return
    if not isinstance(f, (Quadratic, Softmax)) or not isinstance(P, (Box, Polytope)):
        raise TypeError(f"a file holds a quadratic or softmax over a box or polytope, not {f!r} over {P!r}")
    arrays = {"H": f.H, "h": f.h, "c": f.c} if isinstance(f, Quadratic) else {"L": f.L, "unit_box": f.unit_box}
    arrays["ub"] = P.upper
    if isinstance(P, Polytope):
        A = P.A.toarray() if kind == ".npz" and scipy.sparse.issparse(P.A) else P.A
        arrays |= {"A": A, "b": P.b}
    if kind == ".npz":
        np.savez_compressed(path, **arrays)
    else:
        scipy.io.savemat(path, arrays)


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
