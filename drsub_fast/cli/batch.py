"""``drsub-fast batch``: solves many problems from files."""

import errno
import logging
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drsub_fast._checks import first_few
from drsub_fast.batch.many import Failure, maximize_iter
from drsub_fast.batch.pieces import Stack
from drsub_fast.batch.stack_files import read_stack
from drsub_fast.batch.stacked import stack_settings, stacked_results
from drsub_fast.batch.tables import KINDS, check_table, open_table
from drsub_fast.cli import FAILURES, INTERRUPTED
from drsub_fast.cli.options import add_options, add_require_dr, given_options
from drsub_fast.cli.progress import shown_progress
from drsub_fast.engine.threads import worker_count
from drsub_fast.errors import CheckpointError, UnsupportedError
from drsub_fast.problems.files import PROBLEM_FILES, kind_of_file, read_problem
from drsub_fast.result import Certificate, Status

#: Errors of a disk, or of a user's share of it, that is full.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}

#: Results of problem files that are written to the table at a time.
_ROWS = 1000

DESCRIPTION = (
    "Solves many problems: stacked arrays (H, h, c, L, factor; A, b, k, upper and those of other kinds, each with one "
    "more axis in front) in an .npz file or in a folder of .npy files of these names, which are read in pieces; "
    "folders of problem files; or problem files as for solve. Finished chunks are kept in OUT.checkpoint until the "
    "end. Exit status 1 if any problem failed; the failures are listed in the output. How far it is stands on standard "
    "error, as a bar on a terminal, else as a line a minute."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("input", nargs="+", type=Path, metavar="INPUT", help="stack, folder, or problem files")
    add_options(parser, "by default auto for problem files, multi-start for stacked arrays")
    add_require_dr(parser)
    add_places(parser)


def add_places(parser: ArgumentParser) -> None:
    """Adds the arguments that say where a batch is done, and where its table goes."""
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="results, .npz, .csv or .parquet")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads; all processors by default")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run of the same batch stopped")
    parser.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster to solve on, tcp://HOST:PORT")


def _files(inputs):
    """The problem files that are named, and those in folders that are named, in order."""
    for path in inputs:
        if path.is_dir():
            found = sorted(file for file in path.iterdir() if kind_of_file(file) in PROBLEM_FILES)
            if not found:
                raise ValueError(f"{path} holds no problem files ({', '.join(PROBLEM_FILES)})")
            yield from found
        else:
            yield path


@contextmanager
def _cluster(address, n_jobs):
    """Arguments that say where the work is done: in threads, or on a Dask cluster."""
    if address is None:
        yield {"n_jobs": n_jobs}
        return
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise UnsupportedError(
            "--dask needs distributed: pip install 'drsub_fast[dask]', in a checkout '.[dask]'"
        ) from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the command reports what goes wrong
    print(f"drsub-fast: connecting to the scheduler at {address}", file=sys.stderr)
    with Client(address) as client:
        threads = sum(client.nthreads().values())
        if threads == 0:
            print(f"drsub-fast: the cluster at {address} has no workers yet: waiting for one", file=sys.stderr)
        try:
            # By default Dask names a task by a digest of its arguments, which costs more than to send them.
            yield {"executor": client.get_executor(pure=False), "n_jobs": n_jobs or threads or None}
        except CancelledError:
            raise ConnectionError(f"the scheduler at {address} is gone; --resume goes on from what is done") from None
        except KilledWorker as error:
            raise ConnectionError(f"workers at {address} died: {error}; --resume goes on from what is done") from None


class _FileProblems:
    """The problems of files, read when their turn comes, and the way back from their results."""

    def __init__(self, paths, require_dr):
        self.paths, self.require_dr, self.problems = paths, require_dr, {}

    def __len__(self):
        return len(self.paths)

    def __iter__(self):
        for i, path in enumerate(self.paths):
            try:
                problem = read_problem(path, require_dr=self.require_dr)
            except Exception as error:  # whatever is wrong with one file is no reason to lose the others
                text = str(error)
                yield Failure(text if str(path) in text else f"{path}: {type(error).__name__}: {text}")
                continue
            self.problems[i] = problem.shift, problem.minimize
            yield problem.f, problem.P

    def in_files(self, i, result):
        """The result of problem i in the coordinates and the sense of its file, and that sense."""
        shift, minimize = self.problems.pop(i, (None, False))
        if shift is not None:
            result = replace(result, x=result.x + shift)
        if minimize:
            result = replace(result, value=-result.value, certificate=Certificate(-result.certificate.known))
        return result, "minimize" if minimize else "maximize"


def _of_files(paths, require_dr, method, options, where, folder, bar):
    """(results, columns) of problem files, some at a time."""
    problems = _FileProblems(paths, require_dr)
    results = maximize_iter(problems, method, checkpoint=folder, **where, **options)
    with closing(results):
        rows, senses = [], []
        for i, result in enumerate(results):
            result, sense = problems.in_files(i, result)
            rows.append(result)
            senses.append(sense)
            bar(1)
            if len(rows) == _ROWS or i + 1 == len(paths):
                names = [str(path) for path in paths[i + 1 - len(rows) : i + 1]]
                yield rows, {"name": names, "sense": senses}
                rows, senses = [], []


def of_stack(
    solve: Callable[..., Any],
    unit: str,
    stack: Stack,
    settings: Any,
    where: dict[str, Any],
    folder: Path | None,
    bar: Callable[[int], object],
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(results, columns) of a stack, piece by piece, as ``solve`` makes them."""
    first = 0
    with closing(solve(stack, settings, checkpoint=folder, **where)) as parts:
        for part in parts:
            yield part, {"name": [f"{unit} {i}" for i in range(first, first + len(part))]}
            first += len(part)
            bar(len(part))


class _Tally:
    """What the summary says of a batch."""

    def __init__(self, unit):
        self.unit, self.count, self.worst, self.failed = unit, 0, np.nan, []
        self.statuses: Counter[str] = Counter()

    def add(self, results, names):
        """Takes results into account."""
        if isinstance(results, list):
            statuses = np.array([result.status.name for result in results])
            gaps = np.array([result.fw_gap for result in results])
        else:
            statuses, gaps = results.status_names(), getattr(results, "fw_gap", np.zeros(0))
        self.count += len(statuses)
        self.statuses.update(statuses.tolist())
        self.worst = np.fmax(self.worst, np.fmax.reduce(gaps, initial=np.nan))
        self.failed += [names[i] for i in np.flatnonzero(statuses == Status.FAILED.name)]

    def show(self, seconds, total=None):
        """Prints the summary; ``total`` are those of a batch that was interrupted."""
        of = "" if total is None else f" of {total}"
        print(f"{self.count}{of} {self.unit}s in {seconds:.2f} s ({self.count / seconds:.0f} a second)")
        for name, number in sorted(self.statuses.items()):
            print(f"{name:14}{number}")
        if np.isfinite(self.worst):
            print(f"{'worst gap':14}{self.worst:.3g}")


def run(args: Namespace) -> int:
    """Solves a batch, writes its table, prints a summary."""
    check_places(args)
    stack, kinds = read_stack(args.input[0], args.require_dr) if len(args.input) == 1 else (None, {})
    method, options = given_options(args, "auto" if stack is None else "multi-start")
    if stack is not None:
        settings = stack_settings(method=method, **kinds, **options)
        return write_batch(args, "problem", stack.count, partial(of_stack, stacked_results, "problem", stack, settings))
    paths = list(_files(args.input))
    return write_batch(args, "problem", len(paths), partial(_of_files, paths, args.require_dr, method, options))


def check_places(args: Namespace) -> None:
    """Refuses a table that cannot be written, or a number of jobs that is none, before anything is read."""
    if args.out.suffix.lower() not in KINDS:
        raise ValueError(f"--out {args.out}: the results are written as {' or '.join(KINDS)}")
    check_table(args.out)
    worker_count(args.jobs)


def write_batch(args: Namespace, unit: str, count: int, answers: Callable[..., Any]) -> int:
    """Writes the table of ``answers(where, folder, bar)``, pairs of results and further columns; prints a summary."""
    folder = args.out.with_name(args.out.name + ".checkpoint")
    if folder.exists() and not args.resume:
        raise CheckpointError(f"{folder} is left from an earlier run: give --resume to go on with it, or delete it")
    began, tally = time.perf_counter(), _Tally(unit)
    try:
        with (
            _cluster(args.dask, args.jobs) as where,
            open_table(args.out, folder / "table.partial") as add,
            shown_progress(count, unit) as bar,
            closing(answers(where, folder, bar)) as parts,
        ):
            for results, columns in parts:
                add(results, **columns)
                tally.add(results, columns["name"])
    except KeyboardInterrupt:
        tally.show(time.perf_counter() - began, count)
        print(f"drsub-fast: interrupted; --resume goes on from {folder}", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.errno in _NO_ROOM:
            print(f"drsub-fast: --resume goes on from {folder} once there is room", file=sys.stderr)
        raise
    shutil.rmtree(folder)
    tally.show(time.perf_counter() - began)
    print(f"{'results':14}{args.out}")
    if tally.failed:
        names = first_few(tally.failed)
        print(f"drsub-fast: {len(tally.failed)} {unit}s failed: {names}; see 'message'", file=sys.stderr)
        return FAILURES
    return 0
