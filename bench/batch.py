"""Batches: solves a second of stacked problems against the numpy loop, alone and under joblib, on one and two workers.

n = m = 16 instances of the paper's first kind, 100 steps of the non-monotone method. Each timing is of one
solve: the time of the batch divided by its size.
"""

import time

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
