"""Turns a .mat file into an .npz file: a program of its own, since SciPy's reader may crash on a damaged file.

Run as ``python mat_reader.py FILE.mat FILE.npz BYTES`` with a limit to its memory. It imports numpy and SciPy only.
"""

import sys
import zipfile

import numpy as np
import scipy


def _limit_memory(n_bytes):
    if sys.platform != "win32":  # which has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


def _parts(name, array):
    """An array as entries of an .npz file."""
    if scipy.sparse.issparse(array):
        matrix = scipy.sparse.csc_matrix(array)
        return {f"{name}.{part}": np.asarray(getattr(matrix, part)) for part in ("data", "indices", "indptr", "shape")}
    if array.dtype.hasobject or array.dtype.names:
        return {name: np.bytes_(b"a cell or struct array")}
    return {name: array}


def main(source: str, target: str, n_bytes: str) -> None:
    """Reads and writes. Where SciPy cannot read a file, the last line of the traceback says why."""
    _limit_memory(int(n_bytes))
    with zipfile.ZipFile(target, "w") as archive:
        for name, array in scipy.io.loadmat(source).items():
            if name.startswith("__"):
                continue
            for part, values in _parts(name, array).items():
                with archive.open(f"{part}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, np.asanyarray(values), allow_pickle=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
