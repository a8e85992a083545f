"""Problems and results as files.

``.npz`` and ``.mat`` (MATLAB up to version 7) hold the arrays of `problems.arrays`; `read_problem` describes them.
``.mps``, ``.lp`` and ``.qplib`` are read by `problems.program_files`.
"""

import json
import math
import zipfile
from pathlib import Path

import numpy as np
import scipy

from drsub_fast._checks import one_of
from drsub_fast.problems.arrays import from_arrays, to_arrays
from drsub_fast.problems.program_files import read_mps_or_lp, read_qplib, write_mps_or_lp

#: The arrays that are a sparse matrix in an .npz file.
_SPARSE_PARTS = ("data", "indices", "indptr", "shape")


def _load_npz(path):
    try:
        with np.load(path, allow_pickle=False) as stored:
            if isinstance(stored, np.ndarray):
                raise ValueError("one array without a name, not an .npz file")
            return _joined(dict(stored))
    except zipfile.BadZipFile:
        raise ValueError("not an .npz file") from None


def _joined(arrays):
    """The arrays, with sparse matrices for their parts."""
    sparse = {name.removesuffix(".indptr") for name in arrays if name.endswith(".indptr")}
    joined = {name: array for name, array in arrays.items() if name.rpartition(".")[0] not in sparse}
    for name in sorted(sparse):
        missing = [part for part in _SPARSE_PARTS if f"{name}.{part}" not in arrays]
        if missing:
            raise ValueError(f"{name}.{missing[0]} is missing: a sparse matrix needs {', '.join(_SPARSE_PARTS)}")
        data, indices, indptr, shape = (arrays[f"{name}.{part}"] for part in _SPARSE_PARTS)
        try:
            joined[name] = scipy.sparse.csc_matrix((data, indices, indptr), shape=tuple(shape.tolist()))
            joined[name].check_format(full_check=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} is not a sparse matrix in CSC format: {error}") from None
    return joined


def _split(arrays):
    """The arrays, with their parts for sparse matrices."""
    split = {}
    for name, array in arrays.items():
        if scipy.sparse.issparse(array):
            matrix = scipy.sparse.csc_matrix(array)
            split |= {f"{name}.{part}": getattr(matrix, part) for part in _SPARSE_PARTS}
        else:
            split[name] = array
    return split


def _load_mat(path):
    try:
        return {name: value for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
    except NotImplementedError:
        raise ValueError("MATLAB's -v7.3 format cannot be read: save it with -v7") from None
    except scipy.io.matlab.MatReadError as error:
        raise ValueError(f"not a .mat file: {error}") from None


_READERS = {
    ".npz": lambda path: from_arrays(_load_npz(path)),
    ".mat": lambda path: from_arrays(_load_mat(path)),
    ".mps": read_mps_or_lp,
    ".lp": read_mps_or_lp,
    ".qplib": read_qplib,
}


def read_problem(path):
    """Reads a problem.

    Parameters
    ----------
    path : str or Path
        An ``.npz``, ``.mat``, ``.mps``, ``.lp`` or ``.qplib`` file.

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

    Notes
    -----
    In ``.npz`` and ``.mat`` files the texts ``objective`` and ``set`` name the kinds, and the other entries are the
    arguments of their constructors, with the same names and defaults. Those in brackets may be left out:

    =====================  ======================================================  =============================
    ``objective``          entries                                                 constructor
    =====================  ======================================================  =============================
    quadratic              H, h, [c]                                               `Quadratic`
    softmax                L or factor, [unit_box]                                 `Softmax`
    coverage               sets (n x m, nonzero where i covers e),                 `Multilinear.coverage`
                           [element_weights]
    facility-location      W                                                       `Multilinear.facility_location`
    flid                   utilities, W                                            `Multilinear.flid`
    cut                    adjacency                                               `Multilinear.cut`
    table                  values (2^n)                                            `Multilinear.from_table`
    mean-field             extension (one of the five kinds above, by its name)    `MeanField`
                           and the entries of that
    spectral               matrices or factors, [offset]                           `Spectral`
    price-optimization     base, effects, [cost], [start], [signs]                 `PriceOptimization`
    stability-number       graph (adjacency matrix)                                `StabilityNumber`
    logistic-nonconvex     Z, y, [weight], [gamma], [regularizer]                  `LogisticNonconvex`
    nonnegative-pca        Z                                                       `NonnegativePCA`
    =====================  ======================================================  =============================

    =====================  ======================================================  =============================
    ``set``                entries                                                 constructor
    =====================  ======================================================  =============================
    polytope               A, b, [upper]                                           `Polytope`
    budget                 k, upper                                                `Budget`
    box                    upper                                                   `Box`
    knapsack               weights, budget, [upper]                                `Knapsack`
    simplex                n, [total]                                              `Simplex`
    partition-matroid      groups, capacities (one or one for each), [upper]       `PartitionMatroid`
    ball                   radius, n or upper                                      `Ball`
    general-polytope       [A, b], [A_eq, b_eq], [lower], upper                    `GeneralPolytope`
    matching-polytope      edges, n_left, n_right, [capacities], [upper]           `MatchingPolytope`
    =====================  ======================================================  =============================

    Without ``objective``, H makes a quadratic and L or factor a softmax extension; without ``set``, A and b make a
    polytope and ``upper`` alone a box. ``ub`` is another name of ``upper``. ``lb``, if not 0, holds the lower bounds of
    a quadratic over a polytope or box, which are moved to 0. Other entries are ignored.

    A matrix may be sparse; in an ``.npz`` file a sparse ``A`` is the four arrays ``A.data``, ``A.indices``,
    ``A.indptr`` and ``A.shape`` of SciPy's CSC format. A vector may be a matrix with one row or column, and a number
    one with a single entry.
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
        ``.npz`` or ``.mat`` for any objective and set in the tables of `read_problem`, ``.mps`` or ``.lp`` for a
        `Quadratic` over a `Box` or `Polytope`.
    f : Objective
    P : FeasibleSet

    Raises
    ------
    TypeError
        For another kind of objective or set (`UnsupportedError`), e.g. one that calls a function.
    ValueError
        For another kind of file.
    """
    path = Path(path)
    kind = one_of(path.suffix.lower(), "kind of file", (".npz", ".mat", ".mps", ".lp"))
    if kind in (".mps", ".lp"):
        write_mps_or_lp(path, f, P)
    elif kind == ".npz":
        np.savez_compressed(path, **_split(to_arrays(f, P)))
    else:
        scipy.io.savemat(path, to_arrays(f, P))


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
