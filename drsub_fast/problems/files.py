"""Problems and results as files.

``.npz`` and ``.mat`` (MATLAB up to version 7) hold the arrays of `problems.arrays`; `read_problem` describes them.
``.mps`` (``.qps``, ``.sif``), ``.lp`` and ``.qplib`` hold quadratic programs, as they are or packed (``.gz``).
"""

import csv
import gzip
import io
import json
import math
import os
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from drsub_fast._checks import as_flag, as_path, as_vector, described, one_of
from drsub_fast.errors import naming
from drsub_fast.objectives.base import Objective
from drsub_fast.problems.arrays import from_arrays, to_arrays
from drsub_fast.problems.lp_format import read_lp, write_lp
from drsub_fast.problems.mat import load_mat
from drsub_fast.problems.mps import read_mps, write_mps
from drsub_fast.problems.nl import read_nl
from drsub_fast.problems.npz import load_npz, split
from drsub_fast.problems.program import program_of
from drsub_fast.problems.qplib import read_qplib, write_qplib
from drsub_fast.problems.standard_form import Problem, standard_form
from drsub_fast.result import Result
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.problem import require_problem

_ARRAYS = {".npz": load_npz, ".mat": load_mat}
_TEXTS = {".mps": read_mps, ".qps": read_mps, ".sif": read_mps, ".lp": read_lp, ".qplib": read_qplib, ".nl": read_nl}
_TEXT_WRITERS = {".mps": write_mps, ".qps": write_mps, ".lp": write_lp, ".qplib": write_qplib}


def _packed(kinds):
    return (*kinds, *(f"{kind}.gz" for kind in kinds))


#: Kinds of files that hold a result.
RESULT_FILES: tuple[str, ...] = (".npz", ".json", ".csv")
#: Kinds of files that `read_problem` reads.
PROBLEM_FILES: tuple[str, ...] = (*_ARRAYS, *_packed(_TEXTS))


def kind_of_file(path: str | Path) -> str:
    """What the name of a file ends in, in lower case: ``.npz``, ``.mps.gz``, .."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    return "".join(suffixes) if suffixes[-1:] == [".gz"] else "".join(suffixes[-1:])


def _problem_of_arrays(arrays, require_dr):
    """The problem that arrays describe, with what a file may say of its source."""
    names, minimize, shift = (arrays.pop(name, None) for name in ("names", "minimize", "shift"))
    problem = from_arrays(arrays, require_dr)
    if shift is not None:
        if problem.shift is not None:
            raise ValueError("lb and shift cannot be given both: either moves the lower bounds")
        problem = problem._replace(shift=as_vector(np.ravel(shift), "shift", n=problem.f.n))
    if minimize is not None:
        if np.size(minimize) != 1 or np.ravel(minimize)[0] not in (0, 1):
            raise ValueError("minimize must be 0 or 1")
        problem = problem._replace(minimize=bool(np.ravel(minimize)[0]))
    if names is not None:
        if np.asarray(names).dtype.kind != "U" or np.size(names) != 1:
            raise ValueError("names must be one text, a line for each variable")
        problem = problem._replace(names=_as_names(str(np.ravel(names)[0]).split("\n"), problem.f.n))
    return problem


def _as_names(names, n):
    """Names of variables: n different texts without line breaks, or none at all."""
    if not isinstance(names, (list, tuple, np.ndarray)) or not all(isinstance(name, str) for name in names):
        raise TypeError("names must be a sequence of texts")
    names = tuple(map(str, names))
    if names and (len(names) != n or len(set(names)) < n or any("\n" in name or not name for name in names)):
        raise ValueError(f"names must be {n} different texts of one line, got {len(names)}: {names[:3]}, ..")
    return names


def read_problem(path: str | Path, *, require_dr: bool = True) -> Problem:
    """Reads a problem.

    Parameters
    ----------
    path : str or Path
        An ``.npz`` or ``.mat`` file, or a quadratic program as ``.mps``, ``.qps``, ``.sif``, ``.lp``, ``.nl`` or
        ``.qplib``, packed or not (``.mps.gz``, ..).
    require_dr : bool, default True
        Whether a quadratic that is not DR-submodular is refused. With False its entries may have any sign, as
        `Quadratic` says; an ``.npz`` or ``.mat`` file can say so itself, by its entry ``require_dr``.

    Returns
    -------
    Problem
        With fields f and P, the names of the variables, and the way back where bounds or the sign were changed.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it cannot be read, something is missing, or an array is not what f or P need; the message
        begins with the path.

    Notes
    -----
    In ``.npz`` and ``.mat`` files the texts ``objective`` and ``set`` name the kinds, and the other entries are the
    arguments of their constructors, with the same names and defaults. Those in brackets may be left out:

    <objectives>

    <sets>

    The entry ``extension`` of a mean field is the name of another kind, whose entries follow.
    Without ``objective``, H or h make a quadratic and L or factor a softmax extension; without ``set``, the entries
    that are there say which it is: A and b make a polytope, ``upper`` alone a box, ``k`` and upper a budget, .. Other
    names of ``upper``, ``lower``, ``A_eq``, ``b_eq``, ``A``, ``b`` are ``ub``, ``lb``, ``Aeq``, ``beq``, ``A_ub``,
    ``b_ub``. ``lower``, if not 0, holds the lower bounds of a quadratic over a polytope or box, which are moved to 0.
    ``names`` (one text, a line for each variable), ``minimize`` (1 where the source minimises -f) and ``shift`` (the
    point that x = 0 stands for) speak of the source. An entry that another objective or set would have is refused;
    those that mean nothing in any file are ignored.

    A matrix may be sparse; in an ``.npz`` file a sparse ``A`` is the four arrays ``A.data``, ``A.indices``,
    ``A.indptr`` and ``A.shape`` of SciPy's CSC format. A vector may be a matrix with one row or column, and a number
    one with a single entry.

    Examples
    --------
    >>> import tempfile, drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ds.write_problem(f"{folder}/small.npz", f, ds.Budget(1.0, [1.0, 1.0]))
    ...     problem = ds.read_problem(f"{folder}/small.npz")
    >>> problem.f, problem.P
    (Quadratic(n=2), Budget(k=1, n=2))
    """
    path, require_dr = as_path(path, "read_problem(path)"), as_flag(require_dr, "require_dr")
    try:
        kind = one_of(kind_of_file(path), "kind of file", PROBLEM_FILES)
        with path.open("rb"):  # an unreadable file is an OSError, whatever its reader makes of it
            pass
        if kind in _ARRAYS:
            return _problem_of_arrays(_ARRAYS[kind](path), require_dr)
        return standard_form(*_TEXTS[kind.removesuffix(".gz")](path), require_dr=require_dr)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def write_problem(
    path: str | Path,
    f: Objective,
    P: FeasibleSet | None = None,
    *,
    names: Sequence[str] | None = (),
    minimize: bool = False,
    shift: ArrayLike | None = None,
) -> None:
    """Writes a problem so that `read_problem` gives it back, with ``require_dr=False`` where a text needs it.

    Parameters
    ----------
    path : str or Path
        ``.npz`` or ``.mat`` for any objective and set in the tables of `read_problem`; ``.mps``, ``.lp`` or ``.qplib``
        (or ``.mps.gz``, ..) for a `Quadratic` over a `Box`, `Polytope` or `GeneralPolytope`.
    f : Objective
        Or the `Problem` that `read_problem` returned, which has all the rest.
    P : FeasibleSet
    names : sequence of str, optional
        Names of the variables.
    minimize : bool, default False
        Whether the file minimises -f.
    shift : array_like, shape (n,), optional
        The point that x = 0 stands for.

    Raises
    ------
    TypeError
        For another kind of objective or set (`UnsupportedError`), e.g. one that calls a function.
    ValueError
        For another kind of file, or names that the format does not have. No file is left then.

    Examples
    --------
    >>> import tempfile, drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ds.write_problem(f"{folder}/small.lp", f, ds.Box([1.0, 1.0]), names=["price", "size"])
    ...     ds.read_problem(f"{folder}/small.lp").names
    ('price', 'size')
    """
    path = as_path(path, "write_problem(path, f, P)")
    kind = one_of(kind_of_file(path), "kind of file", (*_ARRAYS, *_packed(_TEXT_WRITERS)))
    if isinstance(f, Problem):
        if P is not None:
            raise TypeError("a Problem has its set: P cannot be given too")
        problem = f
    else:
        f, P = require_problem(f, P)
        shift = None if shift is None else as_vector(shift, "shift", n=f.n)
        problem = Problem(f, P, shift, as_flag(minimize, "minimize"), (), _as_names(names, f.n))
    if kind in _ARRAYS:
        arrays = _arrays_of_problem(problem)
        with _replacing(path) as stream:
            if kind == ".npz":
                np.savez_compressed(stream, **split(arrays))
            else:
                scipy.io.savemat(stream, arrays)
        return
    program = program_of(problem)
    with (
        _replacing(path) as stream,
        gzip.open(stream, "wb") if kind.endswith(".gz") else stream as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as lines,
    ):
        _TEXT_WRITERS[kind.removesuffix(".gz")](lines, program)


def _arrays_of_problem(problem):
    """The entries of a file, with what is known of the source."""
    arrays = to_arrays(problem.f, problem.P)
    source = {"shift": problem.shift, "minimize": True if problem.minimize else None}
    source["names"] = "\n".join(problem.names) or None
    source = {name: value for name, value in source.items() if value is not None}
    taken = sorted(set(arrays) & set(source))
    if taken:
        raise ValueError(f"the objective or set has an entry {taken[0]!r}, which a file needs for itself")
    return arrays | source


@contextmanager
def _replacing(path):
    """A binary stream whose content takes the place of a file at the end, if all goes well."""
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with naming(path):
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
            os.chmod(beside, 0o666 & ~_umask())
            os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def result_fields(result: Result, problem: Problem | None = None) -> dict[str, Any]:
    """A result as a flat dict of numbers, strings and arrays, in the sense and coordinates of the problem's source."""
    minimize = problem is not None and problem.minimize
    sign = -1.0 if minimize else 1.0
    fields = {
        "sense": "minimize" if minimize else "maximize",
        "x": result.x if problem is None else problem.to_original(result.x),
        "value": sign * result.value,
        "fw_gap": result.fw_gap,
        "lower_bound" if minimize else "upper_bound": sign * result.upper_bound,
        "guarantee": str(result.guarantee),
        "method": result.method,
        "status": result.status.name,
        "message": result.message,
        "n_iter": result.n_iter,
        "n_lmo": result.n_lmo,
        "time": result.time,
        "trace_value": sign * result.trace.value,
        "trace_fw_gap": result.trace.fw_gap,
    }
    return fields | ({"names": np.array(problem.names)} if problem is not None and problem.names else {})


def _csv_ready(value):
    """A vector is a text, its entries with blanks between."""
    return " ".join(map(str, value.tolist())) if isinstance(value, np.ndarray) else value


def _json_ready(value):
    """JSON has neither arrays nor infinities nor NaN."""
    if isinstance(value, np.ndarray):
        return [_json_ready(item) for item in value.tolist()]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_result(path: str | Path, result: Result, problem: Problem | None = None) -> None:
    """Writes a result as ``.npz``, ``.json`` (with null for NaN and infinities), or ``.csv`` (a head and a row).

    Parameters
    ----------
    path : str or Path
    result : Result
    problem : Problem, optional
        What `read_problem` returned. The result is then written as one of the file: x with the lower bounds that were
        moved to 0, values with the sign of a file that minimises (``sense`` says so, and ``lower_bound`` takes the
        place of ``upper_bound``), and the names of the variables.

    Raises
    ------
    ValueError
        For another kind of file.

    Examples
    --------
    >>> import tempfile, drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ds.write_result(f"{folder}/answer.json", ds.maximize(f, ds.Box([1.0, 1.0])))
    ...     Path(folder, "answer.json").read_text().splitlines()[0]
    '{'
    """
    path = as_path(path, "write_result(path, result)")
    kind = one_of(kind_of_file(path), "kind of file", RESULT_FILES)
    if not isinstance(result, Result):
        raise TypeError(f"result must be a Result, got {described(result)}")
    if problem is not None and not isinstance(problem, Problem):
        raise TypeError(f"problem must be what read_problem returned, got {described(problem)}")
    fields = result_fields(result, problem)
    with _replacing(path) as stream:
        if kind == ".npz":
            np.savez_compressed(stream, **fields)
        elif kind == ".csv":
            rows = csv.writer(lines := io.TextIOWrapper(stream, encoding="utf-8", newline=""))
            rows.writerow(fields)
            rows.writerow(_csv_ready(value) for value in fields.values())
            lines.detach()
        else:
            ready = {name: _json_ready(value) for name, value in fields.items()}
            stream.write((json.dumps(ready, indent=1) + "\n").encode())
