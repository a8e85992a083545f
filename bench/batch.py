"""Batches: solves a second of stacked problems against the numpy loop, alone and under joblib, on one and two workers.

n = m = 16 instances of the paper's first kind, 100 steps of the non-monotone method. Each timing is of one
solve: the time of the batch divided by its size.

    python -m bench.batch

measures README's table of the ways to many problems, which share their polytope, in turn (needs the extra ``dask``).
"""

import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from joblib import Parallel, delayed

import drsub_fast as ds

N = M = 16
STEPS = 100
#: Problems in a batch, by implementation: enough to time.
SIZES = {"reference": 8, "fast": 8000}
OPTIONS = {"method": "nonmonotone-frank-wolfe", "max_iter": STEPS}


def stack(count, n=N, m=M, seed=0):
    """Random quadratics over random polytopes, stacked."""
    rng = np.random.default_rng(seed)
    H = -rng.random((count, n, n))
    H = (H + H.transpose(0, 2, 1)) / 2
    A = 0.01 + rng.random((count, m, n))
    upper = (1.0 / A).min(axis=1)
    h = -0.2 * np.einsum("bij,bj->bi", H, upper)
    return {"H": H, "h": h, "A": A, "b": np.ones((count, m)), "upper": upper}


def solve_all(impl, arrays, n_jobs):
    """Values of a batch."""
    if impl == "fast":
        return ds.maximize_stacked(**arrays, **OPTIONS, n_jobs=n_jobs).value
    # The workers import the package, not this file.
    solve = delayed(ds.reference.nonmonotone_frank_wolfe)
    problems = zip(*(arrays[name] for name in ("H", "h", "A", "b", "upper")), strict=True)
    jobs = (solve(ds.Quadratic(H, h), ds.Polytope(A, b, upper), max_iter=STEPS) for H, h, A, b, upper in problems)
    return np.array([answer.value for answer in Parallel(n_jobs)(jobs)])


class Batch:
    """Solves a second, and that the values are those of the reference."""

    params = (["reference", "fast"], [1, 2])
    param_names = ("impl", "n_jobs")
    timeout = 600

    def setup(self, impl, n_jobs):
        self.arrays = stack(SIZES[impl])
        few = {name: array[:4] for name, array in self.arrays.items()}
        solve_all(impl, few, n_jobs)

    def track_solves_per_second(self, impl, n_jobs):
        times = []
        for _ in range(3):
            began = time.perf_counter()
            solve_all(impl, self.arrays, n_jobs)
            times.append(time.perf_counter() - began)
        return SIZES[impl] / min(times)

    def track_value(self, impl, n_jobs):
        return float(solve_all(impl, stack(8), n_jobs).sum())


Batch.track_solves_per_second.unit = "solves/s"
Batch.track_value.unit = "sum of f(x)"


def shared_stack(count, n, m):
    """Random quadratics over one polytope."""
    arrays = stack(count, n, m)
    arrays |= {name: arrays[name][0] for name in ("A", "b", "upper")}
    return arrays | {"h": -0.2 * np.einsum("bij,j->bi", arrays["H"], arrays["upper"])}


def pairs(arrays, count):
    """The first problems one by one."""
    P = ds.Polytope(arrays["A"], arrays["b"], upper=arrays["upper"])
    return [(ds.Quadratic(H, h), P) for H, h in zip(arrays["H"][:count], arrays["h"][:count], strict=True)]


def ways(arrays, few, processes, client):
    """Name, number of problems and call of each way; objects for every problem take too long for all of them."""
    single = pairs(arrays, few)
    many, one = len(arrays["H"]), few
    yield "loop of solves", one, lambda: [ds.nonmonotone_frank_wolfe(f, P, max_iter=STEPS) for f, P in single]
    yield "maximize_many", one, lambda: ds.maximize_many(single, **OPTIONS)
    for name, options in (
        ("stack, 1 thread", {"n_jobs": 1}),
        ("2 threads", {"n_jobs": 2}),
        ("2 processes", {"executor": processes}),
        ("2 Dask workers", {"executor": client.get_executor(pure=False)}),
    ):
        yield name, many, lambda options=options: ds.maximize_stacked(**arrays, **OPTIONS, **options)


def main():
    from dask.distributed import Client, LocalCluster

    with (
        ProcessPoolExecutor(2) as processes,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        for n, m, many, few in ((16, 8, 60_000, 3000), (100, 50, 1500, 500)):
            calls = list(ways(shared_stack(many, n, m), few, processes, client))
            rates = {name: [] for name, *_ in calls}
            for turn in range(4):  # the first is not counted
                for name, count, call in calls:
                    began = time.perf_counter()
                    call()
                    if turn:
                        rates[name].append(count / (time.perf_counter() - began))
            for name, found in rates.items():
                print(f"n = {n}, m = {m}, {name:16}{np.median(found):10.0f} problems a second")


if __name__ == "__main__":
    main()
