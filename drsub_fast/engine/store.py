"""Compiled kernels on disk: one file each, checked before anything in it is used.

A file holds a line that says what it is, its own name, the digest of the sources it was compiled from, the digest of
all else it depends on (compiler, processor), the digest of its contents, and the contents. It is written beside and
renamed, so that processes may share a folder. Whatever is wrong with a file or folder (damaged, foreign, exchanged,
unreadable, full, read-only) costs the time to compile again, and is replaced where it can be.

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

logger: logging.Logger = logging.getLogger("drsub_fast")

_PACKAGE = Path(__file__).resolve().parents[1]

#: What is linked into kernels of other folders. None of it imports from a place outside the list.
_SHARED = ("engine", "lp", "objectives", "sets", "solvers", "problems/orthant.py")

_MAGIC = b"drsub_fast kernel 2\n"


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
def source_digest(module: str) -> str:
    """Hash of the sources that a kernel of a module may link in, names included.

    They are the shared folders and the module's own folder, or the file itself where it stands beside the folders; for
    a user's module the whole package. An edit elsewhere (a figure, a subcommand) leaves the compiled code in force.
    """
    digest, own = hashlib.sha256(), module.removeprefix("drsub_fast.").partition(".")[0]
    for place in (*_SHARED, own, f"{own}.py") if module.startswith("drsub_fast.") else ("",):
        digest.update(_digest_of(place))
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
def folders() -> tuple[list[Path], Path | None]:
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
def processor() -> str:
    """The processor's name and features, as far as the system tells, for the names of files."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        wanted = dict.fromkeys(
            line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))
        )
        return hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:8]
    import platform

    return hashlib.sha256(f"{platform.machine()} {platform.processor()}".encode()).hexdigest()[:8]


def file_name(module: str, name: str, line: int, form: str, text: str) -> str:
    """Name of the file of one kernel for one signature."""
    version = f"{sys.implementation.cache_tag} {processor()}"
    key = hashlib.sha256(f"{form} {text} {version}".encode()).hexdigest()[:16]
    return f"{module.removeprefix('drsub_fast.')}.{name}-{line}-{form}-{key}.kernel"


def _header(name, sources):
    return _MAGIC + f"{name}\n{sources}\n".encode()


def holds(name: str, sources: str) -> bool:
    """Whether a folder has this file, compiled from the present sources."""
    header = _header(name, sources)
    for folder in folders()[0]:
        with contextlib.suppress(OSError), open(folder / name, "rb") as stream:
            if stream.read(len(header)) == header:
                return True
    return False


def load(name: str, sources: str, stamp: str) -> bytes | None:
    """Contents of the file, or None."""
    header = _header(name, sources) + stamp.encode() + b"\n"
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


def save(name: str, sources: str, stamp: str, payload: bytes) -> None:
    """Writes the file; where that fails, the next process compiles again."""
    digest = hashlib.sha256(payload).hexdigest().encode()
    _write(name, _header(name, sources) + stamp.encode() + b"\n" + digest + b"\n" + payload)


def _write(name, content):
    """Writes a file beside, and renames it."""
    folder = folders()[1]
    if folder is None:
        return
    try:
        handle, beside = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
        try:
            with open(handle, "wb") as stream:
                stream.write(content)
            os.chmod(beside, 0o644)
            os.replace(beside, folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        _say_unwritable(folder, error.strerror)


def record_name() -> str:
    """Name of the file of times, one for each kind of machine."""
    return f"seconds-{sys.implementation.cache_tag}-{processor()}.txt"


def read_record() -> bytes:
    """What is written down of times on this machine, see `drsub_fast.engine.worth`."""
    content = b""
    for folder in folders()[0]:
        with contextlib.suppress(OSError):
            content += (folder / record_name()).read_bytes() + b"\n"
    return content


def extend_record(text: str) -> None:
    """Adds lines to it, in one piece: other processes do, too."""
    folder = folders()[1]
    if folder is None or not text:
        return
    try:
        handle = os.open(folder / record_name(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, f"\n{text}".encode())
        finally:
            os.close(handle)
    except OSError as error:
        _say_unwritable(folder, error.strerror)


def write_record(text: str) -> None:
    """Writes it anew."""
    _write(record_name(), text.encode())


@cache
def _say_unwritable(folder, reason):
    """Logs it once, not for each of a hundred kernels."""
    logger.warning("compiled code cannot be stored in %s: %s", folder, reason)
