"""Matched summarization: one task by each method, and (as a program) the whole experiment against the reference.

    python -m bench.bench_dpp FILE

FILE holds the statements, as for `drsub_fast.experiments.debates.read_statements`.
"""

import argparse
import os
import time

import numpy as np
from threadpoolctl import threadpool_limits

from drsub_fast import reference
from drsub_fast.discrete.map_dpp import map_dpp
from drsub_fast.experiments.debates import STRENGTHS, matched_tasks, read_statements, run_task, run_tasks
from drsub_fast.experiments.synthetic import PAPER_METHODS
from drsub_fast.methods import maximize
from drsub_fast.sets.partition import PartitionMatroid

#: Where asv finds the statements.
DATA = "DRSUB_FAST_DEBATES"
STRENGTH = 0.5


class Debates:
    """The largest task, of 199 items."""

    params = [*PAPER_METHODS]
    param_names = ("method",)
    timeout = 600
    warmup_time = 0

    def setup(self, method):
        if DATA not in os.environ:
            raise NotImplementedError
        task = max(matched_tasks(read_statements(os.environ[DATA])), key=lambda task: task.constraint.n)
        self.f, self.P = task.objective(STRENGTH), task.constraint
        self.time_solve(method)

    def time_solve(self, method):
        maximize(self.f, self.P, method=method, **PAPER_METHODS[method])

    def track_set_value(self, method):
        return map_dpp(self.f, self.P, method, **PAPER_METHODS[method]).value


def cpu_seconds(call):
    """Processor seconds of a call, and what it returns."""
    began = time.process_time()
    answer = call()
    return time.process_time() - began, answer


def compare(task, strength):
    """One line a method: processor seconds of the reference and of the package, and both values."""
    f, P = task.objective(strength), task.constraint
    for method, options in PAPER_METHODS.items():
        function = getattr(reference, method.replace("-", "_"))
        theirs, plain = cpu_seconds(lambda: function(f, P, **options))
        mine, fast = cpu_seconds(lambda: maximize(f, P, method=method, **options))
        print(f"{task.left}, {task.right} ({P.n} items), {method}: {theirs:.2f} s against {mine:.4f} s, ratio "
              f"{theirs / mine:.0f}; values {plain.value:.6f}, {fast.value:.6f}", flush=True)  # fmt: skip


def by_constraint(tasks, strength):
    """Mean of log det over the tasks: the greedy choice, and how much more the continuous method has."""
    for name, constraint in (
        ("10 items", lambda task: 10),
        ("one for each topic on the left", lambda task: PartitionMatroid(task.constraint.left, 1.0)),
        ("matching", lambda task: task.constraint),
    ):
        values = np.array([
            [map_dpp(task.objective(strength), constraint(task), method, improve=improve).value
             for improve in (False, True) for method in ("greedy", "continuous")]
            for task in tasks
        ])  # fmt: skip
        greedy, continuous, greedy_swaps, continuous_swaps = values.T
        better, worse = (continuous > greedy + 1e-9).sum(), (continuous < greedy - 1e-9).sum()
        gain = (continuous - greedy).mean()
        print(f"weight {strength:g}, {name}: greedy {greedy.mean():.4f}, continuous {gain:+.4f} "
              f"({better} better, {worse} worse); with swaps {(greedy_swaps - greedy).mean():+.4f} and "
              f"{(continuous_swaps - greedy).mean():+.4f}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    tasks = sorted(matched_tasks(read_statements(args.file)), key=lambda task: task.constraint.n)
    run_task(tasks[0], STRENGTH)
    with threadpool_limits(1):
        began = time.perf_counter()
        seconds, rows = cpu_seconds(lambda: [row for new in run_tasks(tasks, n_jobs=args.jobs) for row in new])
        clock = time.perf_counter() - began
        print(f"{len(rows)} runs, with rounding: {clock:.1f} s by the clock, {seconds:.1f} s of processor", flush=True)
        assert len(rows) == len(tasks) * len(STRENGTHS) * len(PAPER_METHODS)
        for task in (tasks[0], tasks[len(tasks) // 2], tasks[-1]):
            compare(task, STRENGTH)
        for strength in (0.1, 1.0, 3.0):
            by_constraint(tasks, strength)


if __name__ == "__main__":
    main()
