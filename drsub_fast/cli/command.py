"""The command ``drsub-fast``: one function a subcommand, each added to the parser by its ``add_`` function.

Exit status: 0 done, 2 an error (one line on stderr), 130 interrupted.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

from threadpoolctl import threadpool_info
from tqdm import tqdm

from drsub_fast import __version__
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.cli.batch import add_batch
from drsub_fast.engine.jit import cache_folder, compiling
from drsub_fast.engine.threads import worker_count
from drsub_fast.errors import OracleError
from drsub_fast.experiments import choices, debates, digits, speed_table, synthetic
from drsub_fast.instances import FAMILIES, PAPER_REPEATS, PAPER_ROWS, PAPER_SIZES
from drsub_fast.methods import METHODS, maximize, options_of
from drsub_fast.problems.files import read_problem, write_result

INTERRUPTED = 130

#: Experiments on data; the others than the first need none but scikit-learn's.
DATA_FAMILIES = ("debates", "digits", "choices")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message}\n")


def _positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _family(text):
    synthetic = list(FAMILIES)
    if text.isdigit() and 1 <= int(text) <= len(synthetic):
        return synthetic[int(text) - 1]
    names = [*synthetic, *DATA_FAMILIES]
    if text in names:
        return text
    raise argparse.ArgumentTypeError(
        f"unknown family {text!r}; choose from 1 to {len(synthetic)} or {', '.join(names)}"
    )


def add_paper(commands):
    """``drsub-fast paper``."""
    parser = commands.add_parser(
        "paper",
        help="reproduce the paper's experiments",
        description="The synthetic experiments of Bian et al. (NIPS 2017), on the authors' own instances, and "
        "experiments on data: tables, CSV files and, with matplotlib, figures.",
    )
    parser.add_argument(
        "--families", nargs="+", type=_family, default=list(FAMILIES), metavar="FAMILY",
        help=f"1 to 4, or {', '.join(FAMILIES)}, all by default; {' and '.join(DATA_FAMILIES)} need scikit-learn",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=Path, metavar="FILE", help="statements for debates: JSON lines with speaker, date and text"
    )
    parser.add_argument(
        "--repeats", type=_positive, default=PAPER_REPEATS, metavar="N",
        help=f"instances of each size, at most {PAPER_REPEATS}, the default",
    )  # fmt: skip
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, metavar="METHOD",
        help="by default the paper's three and, on the synthetic families without --quick, "
        f"{', '.join(synthetic.EXTRA_METHODS)}; any of {', '.join(METHODS)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="two repeats of n = 8, 12 and 16, function values")
    parser.add_argument("--out", type=Path, default=Path("drsub-fast-paper"), metavar="DIR", help="where files go")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="threads")
    parser.add_argument(
        "--global", dest="global_optimum", action=argparse.BooleanOptionalAction, default=None,
        help="measure quadratics against their global maximum, as the paper does (default, save with --quick)",
    )  # fmt: skip
    parser.set_defaults(run=run_paper)


def run_paper(args):
    """Runs the experiments, the synthetic ones first."""
    families = list(dict.fromkeys(args.families))
    if "debates" in families and args.data is None:
        raise ValueError("the family debates needs --data FILE, the statements")
    args.out.mkdir(parents=True, exist_ok=True)
    synthetic = [family for family in families if family not in DATA_FAMILIES]
    status = _run_synthetic(args, synthetic) if synthetic else 0
    if status == 0:
        for family in families:
            if family in DATA_FAMILIES:
                _run_on_data(args, family)
    return status


def _run_on_data(args, family):
    """Runs an experiment on data, and prints its table."""
    if family == "debates":
        strengths = (0.1, 0.5, 1.0) if args.quick else debates.STRENGTHS
        methods = synthetic.method_options(args.methods or synthetic.PAPER_METHODS)
        text, written = debates.reproduce(args.data, args.out, strengths, methods, args.jobs)
    elif family == "digits":
        text, written = digits.reproduce(args.out)
    else:
        text, written = choices.reproduce(args.out, args.quick)
    print(text)
    print(f"files in {args.out}: {', '.join(path.name for path in written)}")


def _run_synthetic(args, families):
    """Runs the synthetic experiments, with a table, a CSV file and a figure for each family."""
    repeats, sizes = (2, (8, 12, 16)) if args.quick else (args.repeats, PAPER_SIZES)
    if repeats > PAPER_REPEATS:
        raise ValueError(f"the paper has {PAPER_REPEATS} repeats, --repeats asks for {repeats}")
    names = args.methods or [*synthetic.PAPER_METHODS, *(() if args.quick else synthetic.EXTRA_METHODS)]
    methods = synthetic.method_options(names)
    global_optimum = not args.quick if args.global_optimum is None else args.global_optimum
    total = len(families) * len(PAPER_ROWS) * repeats * len(sizes)
    began, written, n_done, interrupted = time.perf_counter(), [], 0, False
    with (
        _compiling_ahead(families, names, args.jobs) as ready,
        tqdm(total=total, unit="instance", disable=None, leave=False) as bar,
    ):
        for family in families:
            bar.set_description(f"{family} (a first run compiles its kernels)")
            path, rows = args.out / f"{family}.csv", []
            with path.open("w", newline="", encoding="utf-8") as stream:
                synthetic.write_rows(stream, [], header=True)
                runs = synthetic.run_family(family, repeats, sizes, methods, global_optimum, args.jobs)
                try:
                    ready(family)
                    with closing(runs):
                        for new in runs:
                            synthetic.write_rows(stream, new)
                            rows += new
                            n_done += 1
                            bar.set_description(family)
                            bar.update()
                except KeyboardInterrupt:
                    interrupted = True
            written.append(path)
            if rows:
                bar.write(synthetic.format_table(rows) + "\n", file=sys.stdout)
                written += _draw(rows, args.out, family)
            if interrupted:
                break
    print(f"{n_done} of {total} instances in {time.perf_counter() - began:.1f} s")
    print(f"files in {args.out}: {', '.join(path.name for path in written)}")
    if importlib.util.find_spec("matplotlib") is None:
        print("for figures install matplotlib: pip install 'drsub_fast[plot]'")
    if interrupted:
        print("drsub-fast: interrupted; the files hold what was done", file=sys.stderr)
        return INTERRUPTED
    return 0


@contextmanager
def _compiling_ahead(families, names, n_jobs):
    """Fills the kernel cache for the softmax families in another process while the quadratics run.

    A first run spends most of its time in the compiler, which serves one thread at a time. Yields a
    function that waits until the kernels of a family are ready.
    """
    kinds = [synthetic.has_optimum(family) for family in families]
    if cache_folder() is None or n_jobs == 1 or all(kinds) or not kinds[0]:
        yield lambda family: None
        return
    first = families[kinds.index(False)]
    code = f"from drsub_fast.experiments.synthetic import warm_up; warm_up({first!r}, {names!r})"
    compiler = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield lambda family: None if synthetic.has_optimum(family) else compiler.wait()
    finally:
        compiler.terminate()
        compiler.wait()


def _draw(rows, folder, name):
    """Writes the figure if matplotlib is there; returns the paths."""
    if importlib.util.find_spec("matplotlib") is None:
        return []
    from drsub_fast.experiments.synthetic_figures import draw_experiment, save_figure

    return save_figure(draw_experiment(rows), folder, name)


def add_solve(commands):
    """``drsub-fast solve``."""
    parser = commands.add_parser(
        "solve",
        help="maximise the problem in a file",
        description="Maximises the objective in an .npz or .mat file over the set there, or solves the quadratic "
        "program of an .mps, .lp or .qplib file. Arrays H, h, c make a quadratic, L or factor a softmax extension; A, "
        "b, upper a polytope, upper a box. The texts 'objective' and 'set' name other kinds: "
        f"{', '.join(sorted(OBJECTIVES))}; {', '.join(sorted(SETS))}. "
        "Their arrays are listed in drsub_fast.read_problem.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="problem: .npz, .mat, .mps, .lp, .qplib ..")
    parser.add_argument("--method", choices=["auto", *METHODS], default="auto", metavar="METHOD",
                        help=f"auto (default), {', '.join(METHODS)}")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result here, .npz or .json")
    for name, kind, text in (
        ("max_iter", int, "steps of the method"),
        ("tol", float, "gap at which to stop, in units of f"),
        ("time_limit", float, "seconds"),
        ("n_starts", int, "starts of multi-start"),
        ("seed", int, "seed of multi-start"),
    ):
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, dest=name, type=kind, metavar=kind.__name__.upper(), help=text)
    parser.set_defaults(run=run_solve)


def run_solve(args):
    """Solves a file's problem and prints what the answer is worth."""
    if args.out is not None and args.out.suffix.lower() not in (".npz", ".json"):
        raise ValueError(f"--out {args.out}: the result is written as .npz or .json")
    names = ("max_iter", "tol", "time_limit", "n_starts", "seed")
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    accepted = options_of(args.method)
    for name in options:
        if name not in accepted:
            raise ValueError(f"method {args.method} has no option --{name.replace('_', '-')}")
    problem = read_problem(args.file)
    result = maximize(problem.f, problem.P, method=args.method, **options)
    ratio = "" if result.ratio != result.ratio else f" (value / bound = {result.ratio:.4f})"
    sign = -1.0 if problem.minimize else 1.0
    for label, text in (
        ("problem", f"{problem.f} over {problem.P}"),
        ("value", f"{sign * result.value:.12g}" + (" (the file minimises)" if problem.minimize else "")),
        ("fw_gap", f"{result.fw_gap:.3g}"),
        ("lower bound" if problem.minimize else "upper bound", f"{sign * result.upper_bound:.6g}{ratio}"),
        ("guarantee", str(result.guarantee)),
        ("status", result.message),
        ("work", f"{result.n_iter} steps, {result.n_lmo} oracle answers, {1e3 * result.time:.3g} ms"),
    ):
        print(f"{label:12}{text}")
    if args.out is not None:
        write_result(args.out, result, problem)
        print(f"{'result':12}{args.out}")
    return INTERRUPTED if result.status.name == "INTERRUPTED" else 0


def add_info(commands):
    """``drsub-fast info``."""
    parser = commands.add_parser(
        "info", help="versions, cache folder, threads", description="Versions, cache folder and threads, for reports."
    )
    parser.set_defaults(run=run_info)


def run_info(args):
    """Prints versions, the cache folder and threads."""
    names = ("drsub_fast", "numpy", "scipy", "numba", "llvmlite", "highspy", "daqp", "matplotlib")
    lines = [("python", f"{platform.python_version()} on {platform.machine()} {platform.system()}")]
    for name in names:
        try:
            lines.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            lines.append((name, "not installed"))
    if cache_folder() is None:
        lines.append(("kernel cache", "none: no folder is writable, kernels are compiled in every process"))
    else:
        files = [path.stat().st_size for path in cache_folder().glob("*.kernel")]
        lines.append(("kernel cache", f"{cache_folder()} ({len(files)} files, {sum(files) / 1e6:.1f} MB)"))
    lines.append(("processors", f"{os.cpu_count()}, of which this process may use {worker_count(None)}"))
    for library in threadpool_info():
        lines.append((library["user_api"], f"{library['internal_api']} {library['version'] or ''}".rstrip()
                      + f", {library['num_threads']} threads"))  # fmt: skip
    for label, text in lines:
        print(f"{label:14}{text}")
    return 0


def add_warmup(commands):
    """``drsub-fast warmup``."""
    parser = commands.add_parser(
        "warmup",
        help="compile the common kernels into the cache",
        description="Compiles the kernels of quadratics and softmax extensions over polytopes and budget sets, so that "
        "no later process has to.",
    )
    parser.set_defaults(run=run_warmup)


def run_warmup(args):
    """Compiles the common kernels, with a progress bar."""
    if cache_folder() is None:
        raise ValueError("no cache folder is writable; set DRSUB_FAST_CACHE_DIR to one that is")
    began = time.perf_counter()
    with compiling(), tqdm(total=speed_table.N_WARM_UP, unit="kernel", disable=None, leave=False) as bar:
        for done in speed_table.warm_up():
            bar.set_description(done)
            bar.update()
    print(f"{speed_table.N_WARM_UP} solvers ready in {time.perf_counter() - began:.1f} s, stored in {cache_folder()}")
    return 0


def add_bench(commands):
    """``drsub-fast bench``."""
    parser = commands.add_parser(
        "bench",
        help="measure the speed table on this machine",
        description="Ratios of the time of other ways to ours, both measured in turn in this run with one BLAS thread.",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes only, about a minute")
    parser.set_defaults(run=run_bench)


@compiling()
def run_bench(args):
    """Prints the speed table row by row, then how the time of a step grows with n."""
    layout = "{:30}{:26}{:22}{:>12}{:>12}{:>9}  {}"
    print(layout.format("task", "size", "against", "theirs", "ours", "ratio", "values"))
    for row in speed_table.table(args.quick):
        times = [f"{1e3 * t:.4g} ms" for t in (row.baseline_time, row.time)]
        ratio = f"{row.ratio:.{1 if row.ratio < 10.0 else 0}f}x"
        print(layout.format(row.task, row.size, row.baseline, *times, ratio, row.agreement), flush=True)
    sizes = (64, 128, 256) if args.quick else (64, 128, 256, 512, 1024)
    exponents, times, memory = speed_table.growth(sizes, seconds=0.5 if args.quick else 3.0)
    steps = ", ".join(
        f"{1e6 * t:.3g} us and {y / 1e6:.3g} MB at n = {n}" for n, t, y in zip(sizes, times, memory, strict=True)
    )
    print(f"a warm step grows like n^{exponents[0]:.2f}, its memory like n^{exponents[1]:.2f} (m = n / 2): {steps}")
    return 0


def _parser():
    parser = _Parser(prog="drsub-fast", description="Continuous DR-submodular maximisation.")
    parser.add_argument("--version", action="version", version=f"drsub-fast {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (add_paper, add_solve, add_batch, add_bench, add_warmup, add_info):
        add(commands)
    return parser


def main(argv=None):
    """Runs the command line.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit status.
    """
    try:
        args = _parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code
    try:
        return args.run(args)
    except KeyboardInterrupt:
        print("drsub-fast: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (OSError, ValueError, TypeError, ImportError, OracleError) as error:
        print(f"drsub-fast: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
