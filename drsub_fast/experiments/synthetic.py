"""The paper's synthetic experiments (Bian et al. 2017; Figures 1, 2, 3 and 5).

For each family, each number of rows m = floor(n/2), n, floor(3n/2) and each n = 8, 10, .., 16: the methods'
values after 100 iterations, as mean and deviation over 20 repeats. Quadratics are measured against the
global maximum, with the paper's constant c that makes the smallest value 0.1 |min f|; softmax
extensions by their value.
"""

import csv
import signal
import statistics
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from queue import SimpleQueue
from typing import Any, NamedTuple, TextIO

from drsub_fast.engine.interrupts import result_of, submit, uninterrupted
from drsub_fast.engine.threads import one_blas_thread
from drsub_fast.engine.worth import series
from drsub_fast.instances import PaperInstance, nonnegative_constant, paper_instances
from drsub_fast.methods import METHODS, maximize
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.proofs.global_optimum import global_maximum, global_minimum

#: The paper's methods with its options, in the order of its legends.
PAPER_METHODS: dict[str, Any] = {
    "two-phase-frank-wolfe": {"max_iter": 100, "tol": 1e-6},
    "projected-gradient": {"max_iter": 100},
    "nonmonotone-frank-wolfe": {"max_iter": 100},
}

#: Curves that the experiments show beside the paper's, with their own options.
EXTRA_METHODS = ("multi-start",)


def method_options(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Options of `maximize` by name: the paper's where it has the method, else the method's own."""
    found = {name: dict(PAPER_METHODS.get(name, {})) for name in names}
    for name in found:
        if not METHODS[name].solve.__module__.startswith("drsub_fast."):
            found[name]["method"] = METHODS[name]  # its record, since other processes do not know the name
    return found


def curve_label(method: str, name: str) -> str:
    """The name of a method's curve, which says so where the paper has none."""
    return name if method in PAPER_METHODS else f"{name} (not in the paper)"


class Row(NamedTuple):
    """One run of one method.

    Attributes
    ----------
    family : str
    rows : str
        Which number of rows, a key of `instances.PAPER_ROWS`.
    n, m : int
    repeat : int
    method : str
    value : float
    fw_gap : float
    seconds : float
    optimum : float or None
        Proven upper bound on the global maximum, tight within 1e-6.
    """

    family: str
    rows: str
    n: int
    m: int
    repeat: int
    method: str
    value: float
    fw_gap: float
    seconds: float
    optimum: float | None = None

    @property
    def score(self) -> float:
        """What the figures show: the ratio to the optimum where it is known, else the value."""
        return self.value if self.optimum is None else self.value / self.optimum


def has_optimum(family: str) -> bool:
    """Whether the global maximum of this family can be computed."""
    return family.startswith("quadratic")


def run_instance(
    instance: PaperInstance, methods: dict[str, Any] = PAPER_METHODS, global_optimum: bool = True
) -> list[Row]:
    """A `Row` for each method on one instance; ``methods`` has options of `maximize` by the name of the method.

    A method that other processes do not know is the option ``method``, its record.

    Quadratics are compared with their global maximum, with the paper's c, if that is asked for.
    """
    f, P = instance.f, instance.P
    optimum = None
    if global_optimum and has_optimum(instance.family) and isinstance(f, Quadratic):
        minimum = global_minimum(f, P)
        f = Quadratic(f.H, f.h, nonnegative_constant(minimum.value))
        optimum = global_maximum(f, P).upper_bound
    rows = []
    for method, options in methods.items():
        r = maximize(f, P, **({"method": method, "bound": "cheap"} | options))
        rows.append(Row(*instance[:5], method, r.value, r.fw_gap, r.time, optimum))
    return rows


#: In a worker: the instances of each family, of which it knows how many are on their way.
_series: dict[str, series] = {}


def _solve(instance, methods, global_optimum, left):
    """The rows of an instance, of whose family this process will get about ``left`` more."""
    is_first = instance.family not in _series
    following = _series.setdefault(instance.family, series(left + 1))
    with one_blas_thread(), following:
        following.begin_next()
        following.left = left
        if is_first:  # solved once ahead, so that seconds are those of solves, not of loading compiled code
            run_instance(instance, methods, False)
        return run_instance(instance, methods, global_optimum)


def run_families(
    families: Iterable[str],
    repeats: int,
    sizes: Sequence[int],
    methods: dict[str, Any] = PAPER_METHODS,
    global_optimum: bool = True,
    n_jobs: int = 1,
) -> Generator[list[Row], None, None]:
    """Runs families in ``n_jobs`` processes; yields the rows of one instance, in the order in which they are finished.

    Every other process begins with the last family, so that no two compile the same kernels at once.
    """
    tasks = deque(instance for family in families for instance in paper_instances(family, repeats, sizes))
    left = Counter(instance.family for instance in tasks)

    def following(from_end):
        instance = tasks.pop() if from_end else tasks.popleft()
        left[instance.family] -= 1
        return instance, methods, global_optimum, left[instance.family] // n_jobs

    if n_jobs == 1:
        while tasks:
            yield _solve(*following(False))
        return
    context = get_context("spawn")
    finished: SimpleQueue = SimpleQueue()
    workers = [ProcessPoolExecutor(1, context, signal.signal, (signal.SIGINT, signal.SIG_DFL)) for _ in range(n_jobs)]

    def begin(k):
        future = submit(workers[k], _solve, *following(k % 2 == 1))
        with uninterrupted():
            future.add_done_callback(lambda done: finished.put((k, done)))

    try:
        total = len(tasks)
        for k in range(min(2 * n_jobs, total)):  # one in work, one waiting
            begin(k % n_jobs)
        for _ in range(total):
            k, done = finished.get()
            if tasks:
                begin(k)
            yield result_of(done)
    finally:
        for worker in workers:
            worker.shutdown(wait=False, cancel_futures=True)


def write_rows(stream: TextIO, rows: Sequence[Row], header: bool = False) -> None:
    """Appends rows to an open CSV file, so that they are on disk at once.

    Numbers have twelve digits, which do not depend on what is compiled, nor on the number of processes.
    """
    writer = csv.writer(stream)
    if header:
        writer.writerow(Row._fields)
    writer.writerows([f"{item:.12g}" if isinstance(item, float) else item for item in row] for row in rows)
    stream.flush()


class Cell(NamedTuple):
    """Mean and deviation of the scores of one method at one n."""

    mean: float
    deviation: float
    repeats: int


def summarise(rows: Sequence[Row]) -> dict[tuple[str, str, int], Cell]:
    """``{(rows, method, n): Cell}``; the deviation is that of a sample, 0 for one repeat."""
    scores: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        scores.setdefault((row.rows, row.method, row.n), []).append(row.score)
    return {key: Cell(statistics.fmean(values), _deviation(values), len(values)) for key, values in scores.items()}


def _deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def paired(rows: Sequence[Row]) -> dict[tuple[str, str, int], Cell]:
    """``{(rows, method, n): Cell}`` of the ratio to the best score on the same instance, with its standard error.

    Instances differ far more than methods do, so that means of scores with their deviations hide which is ahead.
    """
    best: dict[tuple[str, int, int], float] = {}
    ratios: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        instance = row.rows, row.n, row.repeat
        best[instance] = max(best.get(instance, row.score), row.score)
    for row in rows:
        top = best[row.rows, row.n, row.repeat]
        ratios.setdefault((row.rows, row.method, row.n), []).append(row.score / top if top > 0.0 else 1.0)
    return {
        key: Cell(statistics.fmean(values), _deviation(values) / len(values) ** 0.5, len(values))
        for key, values in ratios.items()
    }


def distinct(rows: Sequence[Row], field: str) -> list[Any]:
    """Distinct values of a field in the order of first appearance, numbers sorted."""
    values = list(dict.fromkeys(getattr(row, field) for row in rows))
    return sorted(values) if isinstance(values[0], int) else values


def score_name(rows: Sequence[Row]) -> str:
    """What the scores of these rows are called."""
    return "function value" if rows[0].optimum is None else "approximation ratio"


def format_table(rows: Sequence[Row]) -> str:
    """The rows of one family as a table like the paper's figures: a block a panel, a line a curve."""
    cells, sizes = summarise(rows), distinct(rows, "n")
    labels = {method: curve_label(method, method) for method in distinct(rows, "method")}
    width = max(map(len, labels.values()))
    count = max(cell.repeats for cell in cells.values())
    lines = [f"{rows[0].family}: {score_name(rows)}, mean ± deviation of {count} repeat{'s' * (count > 1)}"]
    for panel in sorted(distinct(rows, "rows"), key=lambda panel: min(r.m / r.n for r in rows if r.rows == panel)):
        lines += ["", f"  {panel:{width}}" + "".join(f"{f'n = {n}':>17}" for n in sizes)]
        for method, label in labels.items():
            values = [cells.get((panel, method, n)) for n in sizes]
            texts = ["-" if cell is None else f"{cell.mean:.4f} ± {cell.deviation:.4f}" for cell in values]
            lines.append(f"  {label:{width}}" + "".join(f"{text:>17}" for text in texts))
    if count < 5:
        lines += ["", f"  {count} repeat{'s' * (count > 1)} only: curves may change places with more"]
    return "\n".join(lines)
