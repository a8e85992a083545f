"""``drsub-fast warmup``: compiles kernels into the cache, so that no later process has to."""

import multiprocessing
import time
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
    "default quadratics and softmax extensions over polytopes and budget sets, and stacks of them, by the usual "
    "methods, and the choice of items. What is there already takes no time. The folder can be part of a container's "
    "image, see DRSUB_FAST_CACHE_DIR in README."
)

_OBJECTIVES, _SETS = ("quadratic", "softmax"), ("polytope", "budget")
_METHODS = (
    "multi-start", "fully-corrective-frank-wolfe", "frank-wolfe", "nonmonotone-frank-wolfe", "two-phase-frank-wolfe",
    "projected-gradient",
)  # fmt: skip

_ONES, _PAIRS = np.ones(4), np.ones((4, 4)) - np.eye(4)
_FACTOR = np.array([[1.0, 0.5], [0.2, 1.0], [0.3, 0.3], [0.6, 0.1]])

#: A small example of each kind of objective and set on four variables: its arguments.
EXAMPLES: dict[str, Any] = {
    "quadratic": {"H": -np.eye(4) - 0.1 * _PAIRS, "h": _ONES},
    "spectral": {"factors": _FACTOR, "offset": np.eye(2)},
    "logistic-nonconvex": {"Z": _FACTOR.T.copy(), "y": np.array([1.0, -1.0])},
    "coverage": {"sets": (_FACTOR > 0.4).astype(float), "element_weights": np.ones(2)},
    "facility-location": {"W": _FACTOR},
    "flid": {"utilities": 2.0 * _ONES, "W": _FACTOR},
    "cut": {"adjacency": _PAIRS},
    "table": {"values": np.sqrt([bin(i).count("1") for i in range(16)])},
    "softmax": {"L": 2.0 * np.eye(4) + 0.1 * _PAIRS},
    "nonnegative-pca": {"Z": _FACTOR.T.copy()},
    "price-optimization": {"base": 4.0 * _ONES, "effects": -np.eye(4) - 0.1 * _PAIRS},
    "stability-number": {"graph": _PAIRS},
    "box": {"upper": _ONES},
    "budget": {"k": 2.0, "upper": _ONES},
    "knapsack": {"weights": np.arange(1.0, 5.0), "budget": 4.0, "upper": _ONES},
    "partition-matroid": {"groups": np.array([0, 0, 1, 1]), "capacities": np.array([1.0, 0.5])},
    "laminar-matroid": {
        "sets": np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]]),
        "capacities": np.array([1.5, 0.5]),
    },
    "simplex": {"n": 4},
    "ball": {"radius": 1.0, "n": 4},
    "polytope": {"A": _FACTOR.T + 0.1, "b": np.ones(2), "upper": _ONES},
    "matching-polytope": {"edges": np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), "n_left": 2, "n_right": 2},
    "general-polytope": {"A_eq": _ONES[None], "b_eq": np.array([1.5]), "upper": _ONES},
}


def example(kinds: Any, name: str) -> Any:
    """A small example of a kind."""
    if name == "mean-field":
        return kinds[name].make(example(OBJECTIVES, "facility-location"))
    return kinds[name].make(**EXAMPLES[name])


def add_arguments(parser: Any) -> None:
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


def pairs(objectives: Any, sets: Any) -> Any:
    """Pairs of objective and set in an order in which neighbours share little, to be compiled at the same time."""
    chosen = list(product(objectives, sets))
    return sorted(chosen, key=lambda pair: (objectives.index(pair[0]) + sets.index(pair[1])) % len(sets))


def _compile_stack(objective, feasible_set, method, options):
    """Compiles the solver of a stack of problems, where there is one for these kinds."""
    if OBJECTIVES[objective].stack is None or SETS[feasible_set].stack is None:
        return
    arguments = EXAMPLES[objective] | EXAMPLES[feasible_set]
    arrays = {name: np.array([value, value]) for name, value in arguments.items() if name != "n"}
    maximize_stacked(
        objective=objective, set=feasible_set, method=method, max_iter=3, n_jobs=1, **options, **arrays
    )  # fmt: skip


def compile_pair(task: Any) -> Any:
    """Compiles the solvers of one objective over one set; returns how many methods suit it."""
    objective, feasible_set, methods = task
    f, P = example(OBJECTIVES, objective), example(SETS, feasible_set)
    suited = 0
    with compiling():
        f.value(np.full(f.n, 0.1))
        P.lmo(np.ones(P.n))
        if projects_by_kernel(P):
            P.project(np.ones(P.n))
        for method in methods:
            options = {"n_starts": 2} if METHODS[method].many_starts else {}
            try:
                METHODS[method].solve(f, P, max_iter=3, **options)
            except UnsupportedError:
                continue  # this method is not for this objective or set
            _compile_stack(objective, feasible_set, method, options)
            suited += 1
        if "multi-start" in methods:
            maximize(f, P, max_iter=3, n_starts=2)
    return suited


def compile_choices() -> None:
    """Compiles the choice of many items by a kernel matrix and by facility location."""
    similarities = np.eye(1024)
    with compiling():
        greedy_map(similarities, size=2)
        greedy(Multilinear.facility_location(similarities), 2, improve=True)


def run(args: Any) -> Any:
    """Compiles in several processes, with a progress bar."""
    if cache_folder() is None:
        raise ValueError("no cache folder is writable; set DRSUB_FAST_CACHE_DIR to one that is")
    objectives = args.objective or (list(OBJECTIVES) if args.all else list(_OBJECTIVES))
    sets = args.set or (list(SETS) if args.all else list(_SETS))
    methods = args.method or (list(METHODS) if args.all else list(_METHODS))
    tasks = [(*pair, methods) for pair in pairs(objectives, sets)]
    n_jobs = min(worker_count(args.jobs), len(tasks))
    began, total = time.perf_counter(), 0
    # Processes of their own, started anew: a fork would take the threads of libraries along.
    with (
        multiprocessing.get_context("spawn").Pool(n_jobs) as pool,
        tqdm(total=len(tasks), unit="pair", disable=None, leave=False) as bar,
    ):
        choices = pool.apply_async(compile_choices)
        for suited in pool.imap_unordered(compile_pair, tasks):
            total += suited
            bar.update()
        choices.get()
    seconds = time.perf_counter() - began
    print(f"{total} solvers of {len(tasks)} pairs ready in {seconds:.1f} s, stored in {cache_folder()}")
    return 0
