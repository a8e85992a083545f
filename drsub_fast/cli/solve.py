"""``drsub-fast solve``: maximises the problem in a file."""

import errno
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from drsub_fast._checks import first_few
from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.cli import INTERRUPTED
from drsub_fast.cli.options import add_options, add_require_dr, given_options
from drsub_fast.methods import maximize
from drsub_fast.problems.files import RESULT_FILES, read_problem, write_result

DESCRIPTION = (
    "Maximises the objective in an .npz or .mat file over the set there, or solves the quadratic "
    "program of an .mps, .lp or .qplib file. Arrays H, h, c make a quadratic, L or factor a softmax extension; A, "
    "b, upper a polytope, upper a box. The texts 'objective' and 'set' name other kinds: "
    f"{', '.join(sorted(OBJECTIVES))}; {', '.join(sorted(SETS))}. "
    "Their arrays are listed in drsub_fast.read_problem."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("file", type=Path, metavar="FILE", help="problem: .npz, .mat, .mps, .lp, .qplib ..")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result here, .npz, .json or .csv")
    parser.add_argument("--bound", choices=("auto", "cheap", "tight"), default="auto",
                        help="what the proven bound may cost: as much as the solve (auto), nothing (cheap), or what it "
                        "takes (tight)")  # fmt: skip
    add_options(parser)
    add_require_dr(parser)


def _entries(x, names):
    """The entries of x that are not 0, largest first, by name."""
    order = [j for j in np.argsort(-np.abs(x), kind="stable") if x[j] != 0.0]
    texts = [f"{names[j] if names else f'x[{j}]'} = {x[j]:.6g}" for j in order]
    return first_few(texts) + (", the others 0" if len(texts) < len(x) else "") if texts else "0"


def run(args: Namespace) -> int:
    """Solves a file's problem and prints what the answer is worth."""
    if args.out is not None and args.out.suffix.lower() not in RESULT_FILES:
        raise ValueError(f"--out {args.out}: the result is written as {', '.join(RESULT_FILES)}")
    if args.out is not None and not args.out.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder", str(args.out.parent))
    method, options = given_options(args)
    problem = read_problem(args.file, require_dr=args.require_dr)
    result = maximize(problem.f, problem.P, method=method, bound=args.bound, **options)
    ratio = "" if result.ratio != result.ratio else f" (value / bound = {result.ratio:.4f})"
    sign = -1.0 if problem.minimize else 1.0
    for label, text in (
        ("problem", f"{problem.f} over {problem.P}"),
        ("value", f"{sign * result.value:.12g}" + (" (the file minimises)" if problem.minimize else "")),
        ("x", _entries(problem.to_original(result.x), problem.names)),
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
