"""``drsub-fast batch``: solves many problems from files."""

import logging
import shutil
import sys
import time
import zipfile
from collections import Counter
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from drsub_fast._checks import first_few
from drsub_fast.batch.many import maximize_iter, unsolved
from drsub_fast.batch.problem_stack import arguments_of_stack
from drsub_fast.batch.stacked import maximize_stacked, problems_of_stack
from drsub_fast.batch.tables import KINDS, write_results
from drsub_fast.engine.threads import worker_count
from drsub_fast.errors import CheckpointError, UnsupportedError
from drsub_fast.methods import METHODS
from drsub_fast.problems.files import PROBLEM_FILES, kind_of_file, read_problem
from drsub_fast.result import Status

FAILURES, INTERRUPTED = 1, 130


DESCRIPTION = (
    "Solves many problems: an .npz file of stacked arrays (H, h, c, L, factor; A, b, k, upper, each "
    "with one more axis in front), folders, or problem files as for solve. Finished chunks are kept in "
    "OUT.checkpoint until the end. Exit status 1 if any problem failed; the failures are listed in the output."
)


def add_arguments(parser: Any) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("input", nargs="+", type=Path, metavar="INPUT", help="stacked .npz, folder, or problem files")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="results, .npz or .parquet")
    parser.add_argument("--method", choices=["auto", *METHODS], default="auto", metavar="METHOD",
                        help=f"auto (default), {', '.join(METHODS)}")  # fmt: skip
    parser.add_argument("--max-iter", type=int, metavar="N", help="steps of the method")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads; all processors by default")
    parser.add_argument("--resume", action="store_true", help="go on where an earlier run of the same batch stopped")
    parser.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster to solve on, tcp://HOST:PORT")


def _stack(path):
    """The arrays of a file of stacked problems, or None if it is something else."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, zipfile.BadZipFile):
        return None  # its reader says why
    return arguments_of_stack(arrays)


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
    """Options of `maximize_iter` that say where the work is done: in threads, or on a Dask cluster."""
    if address is None:
        yield {"n_jobs": n_jobs}
        return
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise UnsupportedError("--dask needs distributed: pip install 'drsub_fast[dask]'") from None
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the command reports what goes wrong
    with Client(address) as client:
        threads = sum(client.nthreads().values())
        if threads == 0:
            print(f"drsub-fast: the cluster at {address} has no workers yet", file=sys.stderr)
        try:
            yield {"executor": client.get_executor(), "n_jobs": n_jobs or threads or None}
        except CancelledError:
            raise ConnectionError(f"the scheduler at {address} is gone; --resume goes on from what is done") from None
        except KilledWorker as error:
            raise ConnectionError(f"workers at {address} died: {error}; --resume goes on from what is done") from None


class _Problems:
    """Problems that are made when their turn comes.

    ``failed`` has the results of those that cannot be made, ``shifts`` the lower bounds that were moved to 0, by index.
    """

    def __init__(self, makers, n, method):
        self.makers, self.n, self.method = makers, n, method
        self.failed, self.shifts = {}, {}

    def __len__(self):
        return len(self.makers)

    def __iter__(self):
        for i, make in enumerate(self.makers):
            try:
                problem = make()
            except (OSError, ValueError, TypeError) as error:
                self.failed[i] = unsolved(self.n, self.method, str(error))
                continue
            if problem.shift is not None:
                self.shifts[i] = problem.shift
            yield problem.f, problem.P

    def in_order(self, solved):
        """Results of all problems, in the coordinates of their sources; None where ``solved`` ends early."""
        solved = iter(solved)
        for i in range(len(self)):
            result = self.failed.get(i) or next(solved, None)
            yield replace(result, x=result.x + self.shifts[i]) if result is not None and i in self.shifts else result


def _solve_one_by_one(makers, names, n, method, args, options, folder):
    """(results, names, interrupted) of problems of any kinds; those without a result after Ctrl-C are left out.

    One that cannot be made is a problem of ``n`` variables that failed.
    """
    problems = _Problems(makers, n, method)
    results, interrupted = [], False
    with _cluster(args.dask, args.jobs) as where:
        iterator = maximize_iter(problems, method, checkpoint=folder, **where, **options)
        with closing(iterator), tqdm(total=len(problems), unit="problem", disable=None, leave=False) as bar:
            try:
                for result in iterator:
                    results.append(result)
                    bar.update()
            except KeyboardInterrupt:
                interrupted = True
    done = [
        (result, name) for result, name in zip(problems.in_order(results), names, strict=True) if result is not None
    ]
    return [result for result, _ in done], [name for _, name in done], interrupted


def run(args: Any) -> Any:
    """Solves a batch, writes its table, prints a summary."""
    if args.out.suffix.lower() not in KINDS:
        raise ValueError(f"--out {args.out}: the results are written as {' or '.join(KINDS)}")
    folder = args.out.with_name(args.out.name + ".checkpoint")
    if folder.exists() and not args.resume:
        raise CheckpointError(f"{folder} is left from an earlier run: give --resume to go on with it, or delete it")
    worker_count(args.jobs)
    options = {} if args.max_iter is None else {"max_iter": args.max_iter}
    arrays = _stack(args.input[0]) if len(args.input) == 1 else None
    began = time.perf_counter()
    if arrays is None:
        paths = list(_files(args.input))
        makers = [partial(read_problem, path) for path in paths]
        names = [str(path) for path in paths]
        results, names, interrupted = _solve_one_by_one(makers, names, 0, args.method, args, options, folder)
    elif args.dask is not None:
        makers, n = problems_of_stack(**arrays)
        names = [f"problem {i}" for i in range(len(makers))]
        method = "multi-start" if args.method == "auto" else args.method  # as for a stack without Dask
        results, names, interrupted = _solve_one_by_one(makers, names, n, method, args, options, folder)
    else:
        results = maximize_stacked(
            **arrays, method=args.method, n_jobs=args.jobs, checkpoint=folder, progress=sys.stderr.isatty(), **options
        )
        names = [f"problem {i}" for i in range(len(results))]
        interrupted = Status.INTERRUPTED in results.status.tolist()
    seconds = time.perf_counter() - began
    if isinstance(results, list):
        statuses, gaps = [r.status for r in results], np.array([r.fw_gap for r in results])
    else:
        statuses, gaps = results.status.tolist(), results.fw_gap
    print(f"{len(names)} problems in {seconds:.2f} s ({len(names) / seconds:.0f} a second)")
    for name, number in sorted(Counter(status.name for status in statuses).items()):
        print(f"{name:14}{number}")
    if np.isfinite(gaps).any():
        print(f"{'worst gap':14}{np.nanmax(gaps):.3g}")
    if interrupted:
        print(f"drsub-fast: interrupted; --resume goes on from {folder}", file=sys.stderr)
        return INTERRUPTED
    write_results(args.out, results, name=names)
    shutil.rmtree(folder)
    print(f"{'results':14}{args.out}")
    failed = [name for name, status in zip(names, statuses, strict=True) if status is Status.FAILED]
    if failed:
        print(f"drsub-fast: {len(failed)} problems failed: {first_few(failed)}; see 'message'", file=sys.stderr)
        return FAILURES
    return 0
