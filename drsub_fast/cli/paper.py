"""``drsub-fast paper``: reproduces the paper's experiments."""

import argparse
import importlib
import importlib.util
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack, closing
from pathlib import Path

from tqdm import tqdm

from drsub_fast.cli import INTERRUPTED
from drsub_fast.experiments import choices, debates, digits, synthetic
from drsub_fast.instances import EXTRA_FAMILIES, FAMILIES, PAPER_REPEATS, PAPER_ROWS, PAPER_SIZES
from drsub_fast.methods import METHODS
from drsub_fast.solvers.record import Method, register_method

#: Experiments on data; the others than the first need none but scikit-learn's.
DATA_FAMILIES = ("debates", "digits", "choices")

DESCRIPTION = (
    "The synthetic experiments of Bian et al. (NIPS 2017), on the authors' own instances, and "
    "experiments on data: tables, CSV files and, with matplotlib, figures."
)


def _positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _family(text):
    synthetic = list(FAMILIES)
    if text.isdigit() and 1 <= int(text) <= len(synthetic):
        return synthetic[int(text) - 1]
    names = [*synthetic, *EXTRA_FAMILIES, *DATA_FAMILIES]
    if text in names:
        return text
    raise argparse.ArgumentTypeError(
        f"unknown family {text!r}; choose from 1 to {len(synthetic)} or {', '.join(names)}"
    )


def _own_method(text):
    """The name of the record of a function that is named as module:function."""
    module, _, name = text.partition(":")
    if not (module and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not MODULE:FUNCTION")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # for the processes that solve, too
    try:
        solve = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if isinstance(solve, Method):
        register_method(solve)
        return solve.name
    if not callable(solve):
        raise argparse.ArgumentTypeError(f"{text} is not a function")
    register_method(Method(name, solve, name, marker="*", colour="black"))
    return name


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument(
        "--families", nargs="+", type=_family, default=list(FAMILIES), metavar="FAMILY",
        help=f"1 to 4, or {', '.join(FAMILIES)}, all by default; {', '.join(EXTRA_FAMILIES)}, which is drawn alike; "
        f"{', '.join(DATA_FAMILIES)}, which need scikit-learn",
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
    parser.add_argument(
        "--method", action="append", default=[], type=_own_method, metavar="MODULE:FUNCTION",
        help="a method of your own beside them: function(f, P, *, max_iter=.., ..) -> Result, in a module that Python "
        "finds from here; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two repeats of n = 8, 12 and 16, function values; so few that curves may change places",
    )
    parser.add_argument("--out", type=Path, default=Path("drsub-fast-paper"), metavar="DIR", help="where files go")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N", help="processes")
    parser.add_argument(
        "--global", dest="global_optimum", action=argparse.BooleanOptionalAction, default=None,
        help="measure quadratics against their global maximum, as the paper does (default, save with --quick)",
    )  # fmt: skip


def run(args: Namespace) -> int:
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
        methods = synthetic.method_options([*(args.methods or synthetic.PAPER_METHODS), *args.method])
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
    names = list(dict.fromkeys([*names, *args.method]))
    methods = synthetic.method_options(names)
    global_optimum = not args.quick if args.global_optimum is None else args.global_optimum
    count = len(PAPER_ROWS) * repeats * len(sizes)
    began, interrupted = time.perf_counter(), False
    rows: dict[str, list[synthetic.Row]] = {family: [] for family in families}
    paths = {family: args.out / f"{family}.csv" for family in families}
    runs = synthetic.run_families(families, repeats, sizes, methods, global_optimum, args.jobs)
    with ExitStack() as stack, tqdm(total=count * len(families), unit="instance", disable=None, leave=False) as bar:
        streams, shown = {}, 0
        try:
            stack.enter_context(closing(runs))
            for new in runs:
                family = new[0].family
                is_first = family not in streams
                if is_first:
                    streams[family] = stack.enter_context(paths[family].open("w", newline="", encoding="utf-8"))
                synthetic.write_rows(streams[family], new, header=is_first)
                rows[family] += new
                bar.set_description(family)
                bar.update()
                while shown < len(families) and len(rows[families[shown]]) == count * len(methods):
                    bar.write(synthetic.format_table(rows[families[shown]]) + "\n", file=sys.stdout)
                    shown += 1
        except KeyboardInterrupt:
            interrupted = True
    for family in families[shown:]:
        if rows[family]:
            print(synthetic.format_table(rows[family]) + "\n")
    written = [path for family in streams for path in (paths[family], *_draw(rows[family], args.out, family))]
    n_done = sum(map(len, rows.values())) // len(methods)
    print(f"{n_done} of {count * len(families)} instances in {time.perf_counter() - began:.1f} s")
    print(f"files in {args.out}: {', '.join(path.name for path in written)}")
    if importlib.util.find_spec("matplotlib") is None:
        print("for figures install matplotlib: pip install 'drsub_fast[plot]', in a checkout '.[plot]'")
    if interrupted:
        print("drsub-fast: interrupted; the files hold what was done", file=sys.stderr)
        return INTERRUPTED
    return 0


def _draw(rows, folder, name):
    """Writes the figure if there are rows and matplotlib is there; returns the paths."""
    if not rows or importlib.util.find_spec("matplotlib") is None:
        return []
    from drsub_fast.experiments.synthetic_figures import draw_experiment, save_figure

    return save_figure(draw_experiment(rows), folder, name)
