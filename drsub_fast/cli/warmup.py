"""``drsub-fast warmup``: compiles kernels into the cache, so that no later process has to."""

import multiprocessing
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
from tqdm import tqdm

from drsub_fast._kinds import OBJECTIVES, SETS
from drsub_fast.batch.stacked import maximize_stacked
from drsub_fast.discrete.greedy import greedy_map
from drsub_fast.discrete.set_greedy import greedy
from drsub_fast.engine.jit import cache_folder, compiling
from drsub_fast.engine.threads import worker_count
from drsub_fast.errors import UnsupportedError
from drsub_fast.methods import METHODS, maximize
from drsub_fast.objectives.multilinear import Multilinear
from drsub_fast.sets.base import projects_by_kernel

DESCRIPTION = (
    "Compiles the solvers of objectives over sets by methods into the cache, so that no later process has to: by "
    "default quadratics and softmax extensions over polytopes and budget sets, by the usual methods, stacks of them by "
    "their default method, and the choice of items. Stacks run the loops of single solves, so those by another usual "
    "method then compile in a second when they are first solved; --method NAME does that ahead, too. What is there "
    "already takes no time. The folder can be part of a container's image, see DRSUB_FAST_CACHE_DIR in README."
)

_OBJECTIVES, _SETS = ("quadratic", "softmax"), ("polytope", "budget")
_METHODS = (
    "multi-start", "fully-corrective-frank-wolfe", "frank-wolfe", "nonmonotone-frank-wolfe", "two-phase-frank-wolfe",
    "projected-gradient",
)  # fmt: skip
_STACK_METHODS = ("multi-start",)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    for option, kinds, default in (
        ("--objective", OBJECTIVES, _OBJECTIVES), ("--set", SETS, _SETS), ("--method", METHODS, _METHODS),
    ):  # fmt: skip
        parser.add_argument(
            option, nargs="+", choices=sorted(kinds), metavar="NAME",
            help=f"by default {', '.join(default)}; any of {', '.join(sorted(kinds))}",
        )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="all that is not named: every combination takes hours")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes; by default as many as there are processors")


def pairs(objectives: Sequence[str], sets: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of objective and set in an order in which neighbours share little, to be compiled at the same time."""
    chosen = list(product(objectives, sets))
    return sorted(chosen, key=lambda pair: (objectives.index(pair[0]) + sets.index(pair[1])) % len(sets))


def _options(method):
    return {"n_starts": 2} if METHODS[method].many_starts else {}


def compile_stacks(objective: str, feasible_set: str, methods: Sequence[str]) -> int:
    """Compiles the solvers of stacks of problems, where there are any for these kinds; returns 0, see `run`."""
    if OBJECTIVES[objective].stack is None or SETS[feasible_set].stack is None:
        return 0
    arguments = OBJECTIVES[objective].example_arguments() | SETS[feasible_set].example_arguments()
    arrays: dict[str, Any] = {name: np.array([value, value]) for name, value in arguments.items() if name != "n"}
    with compiling():
        for method in methods:
            with suppress(UnsupportedError):
                maximize_stacked(
                    objective=objective, set=feasible_set, method=METHODS[method], max_iter=3, n_jobs=1,
                    **_options(method), **arrays,
                )  # fmt: skip
    return 0


def compile_pair(objective: str, feasible_set: str, methods: Sequence[str]) -> int:
    """Compiles the solvers of one objective over one set; returns how many methods suit it."""
    f, P = OBJECTIVES[objective].example_of(), SETS[feasible_set].example_of()
    suited = 0
    with compiling():
        f.value(np.full(f.n, 0.1))
        P.lmo(np.ones(P.n))
        if projects_by_kernel(P):
            P.project(np.ones(P.n))
        for method in methods:
            with suppress(UnsupportedError):  # this method is not for this objective or set
                METHODS[method].solve(f, P, max_iter=3, **_options(method))
                suited += 1
        if "multi-start" in methods:
            maximize(f, P, max_iter=3, n_starts=2)
    return suited


def compile_choices() -> int:
    """Compiles the choice of many items by a kernel matrix and by facility location; returns 0."""
    similarities = np.eye(1024)
    with compiling():
        greedy_map(similarities, size=2)
        greedy(Multilinear.facility_location(similarities), 2, improve=True)
    return 0


def _do(task):
    function, *arguments = task
    return function(*arguments)


def tasks(args: Namespace) -> list[tuple[Any, ...]]:
    """Calls, as tuples of a function and its arguments: pairs first; short ones last, so that processes end together.

    By the time of the stacks, the loops that they call are stored.
    """
    objectives = args.objective or (list(OBJECTIVES) if args.all else list(_OBJECTIVES))
    sets = args.set or (list(SETS) if args.all else list(_SETS))
    methods = args.method or (list(METHODS) if args.all else list(_METHODS))
    stack_methods = methods if args.method or args.all else list(_STACK_METHODS)
    chosen = pairs(objectives, sets)
    return [
        *((compile_pair, *pair, methods) for pair in chosen),
        (compile_choices,),
        *((compile_stacks, *pair, stack_methods) for pair in chosen),
    ]


def run(args: Namespace) -> int:
    """Compiles in several processes, with a progress bar."""
    if cache_folder() is None:
        raise ValueError("no cache folder is writable; set DRSUB_FAST_CACHE_DIR to one that is")
    calls = tasks(args)
    n_pairs = sum(function is compile_pair for function, *_ in calls)
    n_jobs = min(worker_count(args.jobs), len(calls))
    began, total = time.perf_counter(), 0
    # Processes of their own, started anew: a fork would take the threads of libraries along.
    with (
        multiprocessing.get_context("spawn").Pool(n_jobs) as pool,
        tqdm(total=len(calls), unit="task", disable=None, leave=False) as bar,
    ):
        for suited in pool.imap_unordered(_do, calls):
            total += suited
            bar.update()
    seconds = time.perf_counter() - began
    print(f"{total} solvers of {n_pairs} pairs ready in {seconds:.1f} s, stored in {cache_folder()}")
    return 0
