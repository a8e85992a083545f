"""Whole solves by compiled kernels: the answers of plain Python, which another process gives."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import drsub_fast as ds

N = 8


def problems():
    """(name, f, P, methods), the methods that share most kernels together."""
    rng = np.random.default_rng(7)
    B = rng.random((N, N))
    f = ds.Quadratic(-B - B.T, 4.0 * rng.random(N))
    P = ds.Polytope(0.1 + rng.random((3, N)), np.ones(3))
    yield "quadratic over polytope", f, P, ["auto", "nonmonotone-frank-wolfe", "projected-gradient"]
    sparse = ds.Quadratic(np.where(B + B.T > 1.2, -B - B.T, 0.0), rng.random(N))
    yield (
        "quadratic over knapsack",
        sparse,
        ds.Knapsack(1.0 + rng.random(N), 3.0, np.ones(N)),
        ["two-phase-frank-wolfe"],
    )
    softmax = ds.Softmax(4.0 * B @ B.T)
    yield "softmax over budget", softmax, ds.Budget(3.0, np.ones(N)), ["auto", "fully-corrective-frank-wolfe"]
    extension = ds.Multilinear.facility_location(B)
    yield (
        "facility location over partition",
        extension,
        ds.PartitionMatroid([0, 1] * (N // 2), 1.0),
        ["monotone-frank-wolfe"],
    )


def solve():
    """Results by (problem, method)."""
    for name, f, P, methods in problems():
        for method in methods:
            yield f"{name} by {method}", ds.maximize(f, P, method=method)


def stack():
    rng = np.random.default_rng(8)
    B = rng.random((5, N, N))
    return ds.maximize_stacked(H=-B - B.swapaxes(1, 2), h=4.0 * rng.random((5, N)), upper=np.ones(N))


def numbers():
    """Values and points that JSON can hold."""
    kept = {name: (r.value, r.x.tolist()) for name, r in solve()}
    stacked = stack()
    return kept | {"stack": (stacked.value.tolist(), stacked.x.tolist())}


def test_compiled_solves_give_the_answers_of_plain_python(compiled):
    code = "from tests.solvers.test_compiled import *; print(json.dumps(numbers()))"
    paths = os.pathsep.join([str(Path(__file__).resolve().parents[2]), *sys.path[1:]])
    environment = os.environ | {"DRSUB_FAST_COMPILE": "never", "PYTHONPATH": paths}
    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    known = json.loads(run.stdout)
    assert all(r.compiled for _, r in solve())
    assert stack().compiled
    for name, (values, points) in numbers().items():
        assert values == pytest.approx(known[name][0], rel=1e-10), name
        np.testing.assert_allclose(points, known[name][1], atol=1e-6, err_msg=name)
