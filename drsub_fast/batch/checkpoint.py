"""Checkpoints of a batch: one file for each finished chunk, written atomically.

A checkpoint is a folder with a manifest (`manifest.json`: the fingerprint of what all chunks share, and how the batch
is cut into chunks), an ``.npz`` file for each finished chunk, and a lock. A chunk names the problems that it
answers, by their fingerprint, and holds arrays only: nothing in the folder is ever run. A file is written under a
temporary name, flushed to the disk and renamed, so that a run that is killed at any moment leaves complete files only.
The lock goes with the process that holds it.
"""

import json
import os
import re
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from drsub_fast.engine.fingerprints import UnknownContentError, fingerprint
from drsub_fast.engine.interrupts import uninterrupted
from drsub_fast.errors import CheckpointError, naming
from drsub_fast.problems.npz import load_npz

if sys.platform != "win32":  # which has no such locks
    import fcntl

Answers = TypeVar("Answers")

_MANIFEST, _LOCK = "manifest.json", "lock"
_FORMAT = 2
_CHUNK = re.compile(r"chunk-(\d{8,})\.npz")
#: Entries of a chunk that say which problems it answers, and what the rest of it was.
_PROBLEMS, _CONTENT = "problems", "content"

#: Folders that this process has locked: the system's locks are between processes.
_locked: set[Path] = set()
_one_at_a_time = threading.Lock()


def identified(*parts: object) -> str:
    """The `fingerprint` of problems or options; CheckpointError where a later run could not know them again."""
    try:
        return fingerprint(*parts)
    except UnknownContentError as error:
        raise CheckpointError(
            f"a problem or option cannot be known again by a later run: {error}; go without a checkpoint, or keep it "
            "out of the function that uses it"
        ) from None


class Checkpoint:
    """The folder of one batch, made if absent, and locked until `close`.

    ``inputs`` is the fingerprint of what all chunks share. ``layout`` says, by names and positive integers, how the
    batch is cut into chunks; an existing checkpoint keeps the one it was begun with. CheckpointError if another run
    uses the folder, or if it holds the checkpoint of other inputs, or files that are no checkpoint.
    """

    folder: Path
    layout: dict[str, int]

    def __init__(self, folder: str | Path, inputs: str, layout: dict[str, int]) -> None:
        self.folder = Path(folder)
        with uninterrupted():
            self._unlock = weakref.finalize(self, _unlock, *_lock(self.folder))
        try:
            self.layout = self._opened(inputs, layout)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unlocks the folder."""
        with uninterrupted():
            self._unlock()

    def _opened(self, inputs, layout):
        """The layout of the checkpoint that is there, or of a new one."""
        manifest = self.folder / _MANIFEST
        for leftover in self.folder.glob("*.partial"):
            leftover.unlink(missing_ok=True)
        if manifest.exists():
            known = _agreed(manifest, inputs, layout)
            self.indices()
            return known
        if any(path.name != _LOCK for path in self.folder.iterdir()):
            raise CheckpointError(f"{self.folder} is not empty and holds no checkpoint; give another folder")
        stored = {"format": _FORMAT, "inputs": inputs, "layout": layout, "check": fingerprint(inputs, layout)}
        _write(manifest, lambda file: file.write(json.dumps(stored).encode()))
        return dict(layout)

    def path(self, index: int) -> Path:
        """File of a chunk."""
        return self.folder / f"chunk-{index:08d}.npz"

    def indices(self) -> list[int]:
        """Indices of the finished chunks, ascending."""
        indices = []
        for path in self.folder.glob("chunk-*"):
            name = _CHUNK.fullmatch(path.name)
            if name is None:
                raise CheckpointError(f"{path} is no chunk of a checkpoint: take it out of the folder")
            indices.append(int(name[1]))
        return sorted(indices)

    def require_at_most(self, count: int) -> None:
        """Raise CheckpointError if the checkpoint goes on where the problems have ended, after ``count`` chunks."""
        if any(index >= count for index in self.indices()):
            raise CheckpointError(f"{self.folder} is the checkpoint of a longer batch: delete it")

    def store(self, index: int, problems: str, arrays: Mapping[str, Any]) -> None:
        """Writes the arrays of a finished chunk, which answers the problems of that fingerprint."""
        marks: dict[str, Any] = {_PROBLEMS: np.array(problems), _CONTENT: np.array(fingerprint(problems, arrays))}
        _write(self.path(index), lambda file: np.savez(file, **arrays, **marks))

    def load(self, index: int, problems: str, unpack: Callable[[dict[str, Any]], Answers]) -> Answers | None:
        """What ``unpack`` makes of the arrays of a finished chunk, or None; CheckpointError if it is not theirs."""
        path = self.path(index)
        if not path.exists():
            return None
        try:
            arrays = load_npz(path)
            marks = [str(arrays.pop(name)) for name in (_PROBLEMS, _CONTENT)]
            if marks[1] != fingerprint(marks[0], arrays):
                raise ValueError("its content has changed since it was written")
            if marks[0] == problems:
                return unpack(arrays)
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}; delete it to compute the chunk again") from None
        raise CheckpointError(
            f"{path} holds the answers to other problems: {self.folder} is the checkpoint of another batch, data that "
            "a function uses or its files were changed; delete it, or give another folder"
        )


def _agreed(manifest, inputs, layout):
    """Layout of an existing checkpoint of the same inputs, with the entries of ``layout``."""
    try:
        stored = json.loads(manifest.read_text())
        version = stored["format"]
        if version != _FORMAT:
            raise ValueError(f"its format is {version!r}, expected {_FORMAT}")
        known, found = stored["inputs"], stored["layout"]
        if stored["check"] != fingerprint(known, found):
            raise ValueError("it has changed since it was written")
        if set(found) != set(layout) or not all(type(number) is int and number > 0 for number in found.values()):
            raise ValueError(f"its layout is {found}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{manifest} cannot be read: {error!r}; delete the folder to start again") from None
    if known != inputs:
        raise CheckpointError(
            f"{manifest.parent} is the checkpoint of other inputs or options: delete it, or give another folder"
        )
    return found


def _write(path, write):
    partial = path.with_name(f"{path.name}.partial")
    with naming(path):
        with open(partial, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)


def _lock(folder):
    """Makes a folder this run's own: (key of the folder, descriptor of its lock)."""
    # The lock of the file is between processes: of two threads both would get it, and lose it when either closes it.
    with _one_at_a_time:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            key = folder.resolve()
            if key in _locked:
                raise CheckpointError(f"{folder} is in use by another batch of this process; give another folder")
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be used as the folder of a checkpoint: {error}") from None
        try:
            if sys.platform != "win32":  # the lock ends with the process, and its children have none
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 200).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise CheckpointError(f"{folder} is in use by {holder}; wait for it, or give another folder") from None
        try:
            with naming(folder / _LOCK):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        except BaseException:
            os.close(descriptor)
            raise
        _locked.add(key)
        return key, descriptor


def _unlock(key, descriptor):
    _locked.discard(key)
    os.close(descriptor)
