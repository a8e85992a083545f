"""Time to a proven optimum on 12 fixed instances: ``pytest bench/bench_exact.py -n0 --benchmark-only``.

One group an instance, so that the methods run one after the other on it and each table shows their ratio: the
doubly non-negative bounds, the mixed-integer program on the optimality conditions (strengthened and as
published) by HiGHS, and SCIP where pyscipopt is installed. A run of more than `LIMIT` seconds is cut off;
``extra_info`` holds the nodes and the relative gap that was left.
"""

import time

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.instances import quadratic_exponential, quadratic_uniform
from drsub_fast.result import Status
from drsub_fast.solvers.best_first import Incumbent, Limits
from drsub_fast.solvers.branch_and_bound import quadratic_program
from drsub_fast.solvers.kkt_milp import kkt_milp

GAP = 1e-6
LIMIT = 60.0
INSTANCES = [
    (family, n, m)
    for family in (quadratic_uniform, quadratic_exponential)
    for n in (8, 12)
    for m in (n // 2, n, 3 * n // 2)
]


def by_package(method):
    def prove(f, P):
        r = ds.global_maximum(f, P, time_limit=LIMIT, gap=GAP, method=method)
        return r.value, r.upper_bound, r.n_nodes

    return prove


def by_plain_milp(f, P):
    """The published formulation: no incumbent, no cut-off, no inequalities."""
    program = quadratic_program(f, P)
    incumbent = Incumbent(np.zeros(f.n), 0.0, lambda x: (x, f.value(x) - f.c))
    proof = kkt_milp(program, incumbent, Limits(GAP, 1e-3, time.perf_counter() + LIMIT, None), strengthen=False)
    assert proof.status in (Status.OPTIMAL, Status.TIME_LIMIT)
    return incumbent.value + f.c, proof.bound + f.c, proof.n_nodes


def by_scip(f, P):
    scip = pytest.importorskip("pyscipopt", reason="needs SCIP (pip install pyscipopt)")
    model = scip.Model()
    model.hideOutput()
    model.setParam("limits/gap", GAP)
    model.setParam("limits/time", LIMIT)
    x = [model.addVar(lb=0.0, ub=float(u)) for u in P.upper]
    value = model.addVar(lb=None)
    for row, side in zip(P.A, P.b, strict=True):
        model.addCons(scip.quicksum(float(a) * v for a, v in zip(row, x, strict=True)) <= float(side))
    quadratic = scip.quicksum(0.5 * float(f.H[i, j]) * x[i] * x[j] for i in range(f.n) for j in range(f.n))
    linear = scip.quicksum(float(a) * v for a, v in zip(f.h, x, strict=True))
    model.addCons(value <= quadratic + linear + f.c)
    model.setObjective(value, "maximize")
    model.optimize()
    return model.getObjVal(), model.getDualbound(), model.getNTotalNodes()


IMPLS = {
    "doubly-nonnegative": by_package("doubly-nonnegative"),
    "kkt-milp": by_package("kkt-milp"),
    "kkt-milp as published": by_plain_milp,
    "scip": by_scip,
}


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(("family", "n", "m"), INSTANCES, ids=lambda part: getattr(part, "__name__", str(part)))
def test_proven_optimum(benchmark, family, n, m, impl):
    f, P = family(n, m, seed=1)
    if impl in ("doubly-nonnegative", "kkt-milp"):
        by_package("doubly-nonnegative")(f, P)  # compiles
    benchmark.group = f"{family.__name__}, n = {n}, m = {m}"
    value, bound, nodes = benchmark.pedantic(IMPLS[impl], args=(f, P), rounds=1 if "kkt" in impl else 3, iterations=1)
    benchmark.extra_info["nodes"] = nodes
    benchmark.extra_info["gap"] = (bound - value) / abs(value)
