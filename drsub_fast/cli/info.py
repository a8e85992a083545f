"""``drsub-fast info``: versions, cache folder and threads."""

import importlib.metadata
import os
import platform
from argparse import ArgumentParser, Namespace

from threadpoolctl import threadpool_info

from drsub_fast import __version__
from drsub_fast.engine.jit import cache_folder
from drsub_fast.engine.threads import worker_count

DESCRIPTION = "Versions, cache folder and threads, for reports."


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""


def run(args: Namespace) -> int:
    """Prints versions, the cache folder and threads."""
    names = ("numpy", "scipy", "numba", "llvmlite", "highspy", "daqp", "matplotlib")
    lines = [("drsub_fast", __version__)]
    lines.append(("python", f"{platform.python_version()} on {platform.machine()} {platform.system()}"))
    for name in names:
        try:
            lines.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            lines.append((name, "not installed"))
    folder = cache_folder()
    if folder is None:
        lines.append(("kernel cache", "none: no folder is writable, kernels are compiled in every process"))
    else:
        files = [path.stat().st_size for path in folder.glob("*.kernel")]
        lines.append(("kernel cache", f"{folder} ({len(files)} files, {sum(files) / 1e6:.1f} MB)"))
    lines.append(("processors", f"{os.cpu_count()}, of which this process may use {worker_count(None)}"))
    for library in threadpool_info():
        lines.append((library["user_api"], f"{library['internal_api']} {library['version'] or ''}".rstrip()
                      + f", {library['num_threads']} threads"))  # fmt: skip
    for label, text in lines:
        print(f"{label:14}{text}")
    return 0
