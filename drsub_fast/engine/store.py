"""Compiled kernels on disk: one file each, checked before anything in it is used.

A file holds a line that says what it is, the digest of the sources it was compiled from, the digest of all else it
depends on (compiler, processor), the digest of its contents, and the contents. It is written beside and renamed, so
that processes may share a folder. Whatever is wrong with a file or folder (damaged, foreign, unreadable, full,
read-only) costs the time to compile again, and is replaced where it can be.

The contents are code, so a folder serves only if no other user can write to it.
"""

import contextlib
import hashlib
import logging
import os
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

logger: logging.Logger = logging.getLogger("drsub_fast")

_PACKAGE = Path(__file__).resolve().parents[1]

#: What is linked into kernels of other folders. None of it imports from a place outside the list.
_SHARED = ("engine", "lp", "objectives", "sets", "solvers", "problems/orthant.py")

_MAGIC = b"drsub_fast kernel 1\n"


@cache
def _digest_of(place):
    """Hash of the sources of a folder of the package, or of one file, names included; of nothing if it is absent."""
    path = _PACKAGE / place
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(str(file.relative_to(_PACKAGE)).encode())
            digest.update(file.read_bytes())
    return digest.digest()


@cache
def source_digest(module: Any) -> Any:
    """Hash of the sources that a kernel of a module may link in, names included.

    They are the shared folders and the module's own folder, or the file itself where it stands beside the folders.
    An edit elsewhere (a figure, a subcommand) leaves the compiled code in force.
    """
    own = module.removeprefix("drsub_fast.").partition(".")[0]
    digest = hashlib.sha256()
    for place in (*_SHARED, own, f"{own}.py"):
        digest.update(_digest_of(place))
    if not module.startswith("drsub_fast."):  # a test's own kernels
        digest.update(Path(sys.modules[module].__file__).read_bytes())
    return digest.hexdigest()


def _candidate_folders():
    """Folders that may hold the cache, in order of preference."""
    for variable in ("DRSUB_FAST_CACHE_DIR", "NUMBA_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "drsub_fast"
    yield _PACKAGE / "__pycache__" / "kernels"
    place = hashlib.sha256(str(_PACKAGE).encode()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    yield Path(base) / "drsub_fast" / place


def _writer_besides_us(path):
    """Words for who else can write to a file or folder, or None."""
    if not hasattr(os, "geteuid"):
        return None  # Windows: folders of a user are the user's by default
    status = path.stat()
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"its mode is {stat.S_IMODE(status.st_mode):o}"
    return None


def _is_private(folder):
    """Whether nobody else can put code into a folder; says so if somebody can."""
    reason = _writer_besides_us(folder)
    for parent in folder.resolve().parents:
        if reason is None and hasattr(os, "geteuid"):
            mode = parent.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                reason = f"{parent} may be written by everybody"
    if reason is not None:
        logger.warning("compiled code is not loaded from %s: other users can write there (%s)", folder, reason)
    return reason is None


@cache
def folders() -> Any:
    """(folders to read from, folder to write to or None)."""
    readable = []
    for folder in _candidate_folders():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o755, exist_ok=True)  # private, whatever the umask
        except OSError:
            pass
        try:
            if not folder.is_dir() or not _is_private(folder):
                continue
            readable.append(folder)
            with tempfile.TemporaryFile(dir=folder):
                return readable, folder
        except OSError:
            continue
    return readable, None


@cache
def processor() -> Any:
    """The processor's name and features, as far as the system tells, for the names of files."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        wanted = dict.fromkeys(
            line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))
        )
        return hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:8]
    import platform

    return hashlib.sha256(f"{platform.machine()} {platform.processor()}".encode()).hexdigest()[:8]


def file_name(module: Any, name: str, line: Any, form: Any, text: str) -> Any:
    """Name of the file of one kernel for one signature."""
    version = f"{sys.implementation.cache_tag} {processor()}"
    key = hashlib.sha256(f"{form} {text} {version}".encode()).hexdigest()[:16]
    return f"{module.removeprefix('drsub_fast.')}.{name}-{line}-{form}-{key}.kernel"


def _header(module):
    return _MAGIC + source_digest(module).encode() + b"\n"


def holds(name: str, module: Any) -> bool:
    """Whether a folder has a file of this name that was compiled from the present sources."""
    header = _header(module)
    for folder in folders()[0]:
        with contextlib.suppress(OSError), open(folder / name, "rb") as stream:
            if stream.read(len(header)) == header:
                return True
    return False


def load(name: str, module: Any, stamp: Any) -> Any:
    """Contents of the file, or None."""
    header = _header(module) + stamp.encode() + b"\n"
    for folder in folders()[0]:
        path = folder / name
        try:
            if _writer_besides_us(path) is not None:
                continue
            content = path.read_bytes()
        except OSError:
            continue
        if content.startswith(header):
            digest, payload = content[len(header) : len(header) + 64], content[len(header) + 65 :]
            if hashlib.sha256(payload).hexdigest().encode() == digest:
                return payload
            logger.warning("%s is damaged: its kernel is compiled anew", path)
    return None


def save(name: str, module: Any, stamp: Any, payload: Any) -> None:
    """Writes the file; where that fails, the next process compiles again."""
    folder = folders()[1]
    if folder is None:
        return
    digest = hashlib.sha256(payload).hexdigest().encode()
    try:
        handle, beside = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
        try:
            with open(handle, "wb") as stream:
                stream.write(_header(module) + stamp.encode() + b"\n" + digest + b"\n" + payload)
            os.chmod(beside, 0o644)
            os.replace(beside, folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        _say_unwritable(folder, error.strerror)


@cache
def _say_unwritable(folder, reason):
    """Logs it once, not for each of a hundred kernels."""
    logger.warning("compiled code cannot be stored in %s: %s", folder, reason)
