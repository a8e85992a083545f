"""Time to a proven optimum on 12 fixed instances, in two to five minutes:

    python -m bench.bench_exact

The paper's two quadratic families with 8, 12 and 16 variables. On each instance the doubly non-negative bounds of
`global_maximum` are timed in turn with SCIP (with the extra ``exact``; left out otherwise) and with the mixed-integer
program on the optimality conditions by HiGHS, as published (the paper's baseline) and strengthened; all on one
thread, to a relative gap of 1e-6. Ours is the median of its runs; the others have one run, cut off at --limit
seconds. Ratios are of processor time.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

import drsub_fast as ds
from drsub_fast.experiments.peers import GLOBAL, Proof, installed, scip
from drsub_fast.instances import quadratic_exponential, quadratic_uniform
from drsub_fast.proofs.kkt_milp import kkt_milp
from drsub_fast.proofs.program import quadratic_program
from drsub_fast.proofs.search import Incumbent, Limits

GAP = 1e-6
INSTANCES = [
    (family, n, m) for family in (quadratic_uniform, quadratic_exponential) for n in (8, 12, 16) for m in (n // 2, n)
]
LAYOUT = "{:32}{:24}{:>6}{:>12}{:>12}{:>9}  {}"


def by_package(method):
    def prove(f, P, limit):
        r = ds.global_maximum(f, P, time_limit=limit, gap=GAP, method=method)
        return Proof(r.value, r.upper_bound, r.n_nodes)

    return prove


def by_published_milp(f, P, limit):
    """The published formulation: no incumbent, no cut-off, no inequalities."""
    program = quadratic_program(f, P)
    incumbent = Incumbent(np.zeros(f.n), 0.0, lambda x: (x, f.value(x) - f.c))
    proof = kkt_milp(program, incumbent, Limits(GAP, 1e-3, time.perf_counter() + limit, None), strengthen=False)
    return Proof(incumbent.value + f.c, proof.bound + f.c, proof.n_nodes)


def by_scip(f, P, limit):
    return scip(f, P, GAP, limit)()


OURS = by_package("doubly-nonnegative")
OTHERS = {"KKT MILP, published": by_published_milp, "KKT MILP, strengthened": by_package("kkt-milp")}
if installed(GLOBAL):
    OTHERS = {"SCIP": by_scip} | OTHERS


def timed(prove, f, P, limit):
    """(proof, seconds by the clock, seconds of processor time)."""
    clock, processor = time.perf_counter(), time.process_time()
    proof = prove(f, P, limit)
    return proof, time.perf_counter() - clock, time.process_time() - processor


def compare(name, f, P, limit):
    """Prints the rows of one instance; returns (ratio of processor times, whether it finished) by method."""
    runs, answers, ratios = [], {}, {}
    for method, prove in OTHERS.items():
        runs.append(timed(OURS, f, P, limit))
        answers[method] = timed(prove, f, P, limit)
    runs.append(timed(OURS, f, P, limit))
    mine, _, _ = runs[0]
    clock, processor = np.median([run[1:] for run in runs], axis=0)
    print(
        LAYOUT.format(
            name, "global_maximum", mine.nodes, f"{clock:.4f} s", f"{processor:.4f} s", "", f"gap {mine.gap:.0e}"
        )
    )
    for method, (proof, their_clock, their_processor) in answers.items():
        finished = their_clock < limit
        difference = proof.value / mine.value - 1.0
        agrees = "same value" if abs(difference) <= 1e-6 else f"value {difference:+.1e}"
        times = [f"{their_clock:.4g} s" if finished else f"> {limit:g} s", f"{their_processor:.4g} s"]
        ratio = f"{'' if finished else '> '}{their_processor / processor:.0f}x"
        print(LAYOUT.format("", method, proof.nodes, *times, ratio,
                            agrees + ("" if finished else f", gap left {proof.gap:.1e}")), flush=True)  # fmt: skip
        ratios[method] = their_processor / processor, finished
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--limit", type=float, default=20.0, metavar="SECONDS", help="of the other methods, per instance"
    )
    limit = parser.parse_args().limit
    OURS(*quadratic_uniform(8, 4, seed=0), None)  # compiles
    print(LAYOUT.format("instance", "method", "nodes", "clock", "processor", "ratio", "values"))
    with threadpool_limits(1):
        results = [compare(f"{family.__name__}, {n} x {m}", *family(n, m, seed=1), limit) for family, n, m in INSTANCES]
    for method in OTHERS:
        ratios, finished = zip(*(result[method] for result in results), strict=True)
        print(f"{method}: median ratio {np.median(ratios):.3g}, {min(ratios):.3g} to {max(ratios):.3g}; "
              f"{finished.count(False)} of {len(finished)} not finished in {limit:g} s")  # fmt: skip


if __name__ == "__main__":
    main()
