"""Speed: figures, and the commands that measure them.

``drsub-fast bench`` repeats this table on your machine (``--quick``: small sizes). Each row runs in turn with its
baseline, with one BLAS thread; figures are medians, and the first call, which compiles, is not counted. The ranges are
of three runs on two shared, idle x86 processors; on other days they differed by up to a third, the last row by more.
``pip install '.[rivals,exact]'`` adds IPOPT, SCIP, apricot-select and submodlib.

| task | size | against | ratio |
|---|---|---|---|
| `maximize`, value at least as good | 16 x 8, 100 x 50, 200 x 100 | one IPOPT solve | 2.3-2.8, 1.4-3.5, 2.3-3.1 |
| the same | 16 x 8, 100 x 50, 200 x 100 | one SLSQP solve | 1.0 to 1.4, 2.5 to 4.8, 4.8 to 6.8 |
| `fully_corrective_frank_wolfe`, gap below 1e-6 of f | 16 x 8, 100 x 50 | SLSQP from 0 | 28 to 42, 119 to 203 |
| softmax over a budget, spectral steps, gap 1e-6 of f | n = 16, 128 | SLSQP from 0 | 26, 41 |
| the same, `nonmonotone_frank_wolfe`, 100 steps | n = 16, 128 | numpy, oracle by sorting | 44 to 47, 36 to 39 |
| `nonmonotone_frank_wolfe`, 100 steps | 16 x 16, 100 x 100 | numpy, one warm HiGHS model | 231 to 234, 87 |
| the same, sparse H with 11 entries a row, a budget | n = 100,000 | scipy.sparse, argpartition | 2.7 to 5.6 |
| first linear program | 200 x 200, 500 x 500 | HiGHS, cold | 14 |
| `greedy_map`, 100 of 100,000 items by 200 features | | numpy's greedy | 25 to 27 |
| `nonmonotone_frank_wolfe`, 100 steps | 16 x 16, 100 x 100 | numpy + cold `linprog` | 3300 to 5500, 2050 |

The last row is the loop as one writes it first. The linear programs take a tenth of its time; setting up models takes
most of the rest. Values agree to 1e-11. The speed of sparse steps depends on the size of the processor's caches.

Problems a second on two processors, medians of three runs of ``python -m bench.batch``; all problems share a polytope,
by ``nonmonotone_frank_wolfe`` with 100 steps:

| | loop of solves | `maximize_many` | stack, 1 thread | 2 threads | 2 processes | 2 Dask workers |
|---|---|---|---|---|---|---|
| n = 16, m = 8 | 23,000 | 10,000 | 41,500 | 84,000 | 60,600 | 60,400 |
| n = 100, m = 50 | 6,500 | 8,100 | 6,200 | 11,400 | 4,000 | 3,800 |

At n = 100 sending a problem to another process takes longer than solving it. A stack of 16 x 16 problems runs at 21,000
to 48,000 solves a second on one processor (asv's ``Batch``); 10 GB of them are read in pieces with a peak of 360 MB.

`global_maximum` takes 6 to 13 ms on the paper's quadratics at n = 8 to 16, 1/26 to 1/58 of SCIP's time.

**Against the authors' own runs.** On the paper's 600 quadratics, two of the two-phase runs differ from the authors' by
more than 1e-9 (7e-6 and 2e-7): their LP solver stopped within its tolerance. Replayed with that solver
(``pip install '.[authors]'``) all agree to 1e-12.

**Over time.** asv follows times, values and memory from commit to commit; CONTRIBUTING.md has the commands.
"""
