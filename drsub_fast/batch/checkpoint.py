"""Checkpoints of a batch: one file for each finished chunk, written atomically.

A checkpoint is a folder with a manifest (`manifest.json`: the fingerprint of the inputs and the layout of the
chunks) and a file for each finished chunk. A file is written under a temporary name, flushed to the
disk and renamed, so a run that is killed at any moment leaves complete files only.
"""

import hashlib
import json
import os
import zipfile
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np

from drsub_fast.errors import CheckpointError

_MANIFEST = "manifest.json"
_FORMAT = 1


def fingerprint(*parts):
    """Hex digest of arrays, numbers, texts, containers and objects made of them.

    Equal content has an equal digest in every process. Functions count by their name and code.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        _feed(digest, part)
    return digest.hexdigest()


def _feed(digest, part):
    if isinstance(part, np.ndarray):
        digest.update(f"array {part.dtype.str} {part.shape}".encode())
        rows = part if part.flags.c_contiguous else (np.ascontiguousarray(row) for row in part)
        for row in [rows] if isinstance(rows, np.ndarray) else rows:
            digest.update(row.reshape(-1).view(np.uint8).data)
    elif part is None or isinstance(part, (bool, int, float, str, bytes, np.generic)):
        digest.update(f"{type(part).__name__} {part!r};".encode())
    elif isinstance(part, dict):
        digest.update(f"dict {len(part)}".encode())
        for key in sorted(part, key=str):
            _feed(digest, str(key))
            _feed(digest, part[key])
    elif isinstance(part, (list, tuple)):
        digest.update(f"sequence {len(part)}".encode())
        for item in part:
            _feed(digest, item)
    elif hasattr(part, "__qualname__"):
        code = getattr(getattr(part, "py_func", part), "__code__", None)
        digest.update(f"function {part.__module__}.{part.__qualname__} {code and code.co_code!r}".encode())
    else:
        digest.update(f"object {type(part).__qualname__}".encode())
        state = vars(part) if is_dataclass(part) else part.__getstate__()
        _feed(digest, state)


class Checkpoint:
    """The folder of one batch.

    Parameters
    ----------
    folder : path
        Made if absent.
    inputs : str
        Fingerprint of the inputs.
    layout : dict
        How the batch is cut into chunks; an existing checkpoint keeps the layout it was begun with.

    Attributes
    ----------
    layout : dict
        The layout in force.

    Raises
    ------
    CheckpointError
        If the folder holds the checkpoint of other inputs, or files that are no checkpoint.
    """

    def __init__(self, folder, inputs, layout):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest = self.folder / _MANIFEST
        if manifest.exists():
            self.layout = self._agreed(manifest, inputs)
            for leftover in self.folder.glob("*.partial"):
                leftover.unlink(missing_ok=True)
        else:
            if any(self.folder.iterdir()):
                raise CheckpointError(f"{self.folder} is not empty and holds no checkpoint; give another folder")
            self.layout = dict(layout)
            text = json.dumps({"format": _FORMAT, "inputs": inputs, "layout": self.layout})
            self._write(manifest, lambda file: file.write(text.encode()))

    @staticmethod
    def _agreed(manifest, inputs):
        """Layout of an existing checkpoint of the same inputs."""
        try:
            stored = json.loads(manifest.read_text())
            layout, known, version = stored["layout"], stored["inputs"], stored["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{manifest} cannot be read: {error!r}; delete the folder to start again") from None
        if version != _FORMAT:
            raise CheckpointError(f"{manifest} has format {version}, expected {_FORMAT}")
        if known != inputs:
            raise CheckpointError(
                f"{manifest.parent} is the checkpoint of other inputs or options: delete it, or give another folder"
            )
        return layout

    def path(self, index):
        """File of a chunk."""
        return self.folder / f"chunk-{index:08d}.npz"

    def indices(self):
        """Indices of the finished chunks, ascending."""
        return sorted(int(path.stem.removeprefix("chunk-")) for path in self.folder.glob("chunk-*.npz"))

    def store(self, index, arrays):
        """Writes the arrays of a finished chunk."""
        self._write(self.path(index), lambda file: np.savez(file, **arrays))

    def load(self, index):
        """Arrays of a finished chunk, or None."""
        path = self.path(index)
        if not path.exists():
            return None
        try:
            with np.load(path) as stored:
                return {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{path} cannot be read: {error}; delete it to compute the chunk again") from None

    @staticmethod
    def _write(path, write):
        # The process id keeps two runs on the same folder from writing the same temporary file.
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        with open(partial, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
