"""Which method when.

``ds.maximize(f, P)`` chooses: many local solves from different vertices, then a second phase or another method whose
guarantee applies. Choose by hand if you want something particular.

| you want | use |
|---|---|
| the best value in a few local solves | ``ds.maximize(f, P)`` |
| the maximum itself, proved | ``ds.global_maximum(f, P)``, or ``method="global-maximum"`` |
| the paper's Algorithm 1, with 1/4 of the maximum | `drsub_fast.two_phase_frank_wolfe` |
| the paper's Algorithm 2, with 1/e, in a fixed number of steps | `drsub_fast.nonmonotone_frank_wolfe` |
| 1 - 1/e for a monotone function (continuous greedy) | `drsub_fast.monotone_frank_wolfe` |
| the same for a set function that takes seconds | `drsub_fast.stochastic_continuous_greedy` |
| 1 - 1/e for a monotone function, any convex set | `drsub_fast.boosted_gradient` |
| 1/2 over a box, in one pass over the variables | `drsub_fast.double_greedy` |
| a guarantee over a set that is not down-closed | `drsub_fast.mualem_feldman` |
| a stationary point with a gap of 1e-6 or less, fast | `drsub_fast.fully_corrective_frank_wolfe` |
| the same for a function that is not quadratic | `drsub_fast.projected_gradient` with ``step_size="spectral"`` |
| the paper's baselines | `drsub_fast.frank_wolfe`, `drsub_fast.projected_gradient` |

What they guarantee, as a part of the maximum (K is the number of steps, x* the maximiser):

| method | sets | guarantee | use it |
|---|---|---|---|
| `maximize` (default) | any | the best of those below that applies | for the best value in a few local solves |
| `two_phase_frank_wolfe` | down-closed | 1/4 of the maximum (Theorem 1), f >= 0 | the paper's Algorithm 1 |
| `nonmonotone_frank_wolfe` | down-closed | 1/e - O(1/K) (Theorem 2, Corollary 1), f >= 0 | a fixed number of steps |
| `monotone_frank_wolfe` | down-closed | 1 - 1/e - O(1/K), f monotone | continuous greedy |
| `stochastic_continuous_greedy` | down-closed | 1 - 1/e - O(1/K^(1/3)), F monotone | set functions that take seconds |
| `boosted_gradient` | any | 1 - 1/e, f monotone | monotone f over sets that are not down-closed |
| `double_greedy` | boxes | 1/2, f(0) + f(upper) >= 0 | one pass over the coordinates |
| `mualem_feldman` | any | (1 - min max x/u)/4, f >= 0 | sets that are not down-closed |
| `fully_corrective_frank_wolfe` | any | a stationary point | a gap of 1e-6 or 1e-12, fast |
| `frank_wolfe` | any | a stationary point, 1/sqrt(K) | Algorithm 3: open-loop, exact, short steps |
| `projected_gradient` | with a projection | none with this step | the paper's baseline |
| the same, `step_size="spectral"` | with a projection | a stationary point | small gaps if f is not quadratic |
| `multi_start` | any | with a second phase 1/4 | many vertices, one answer |
| `global_maximum` | finitely many rows | the global maximum, proved | the optimum itself |

The guarantees for functions that are not monotone need f >= 0. Names work too, in `maximize`, in batches and on the
command line:

>>> import drsub_fast as ds
>>> f, P = ds.instances.quadratic_exponential(8, 4, seed=3)
>>> best = ds.maximize(f, P)
>>> for method in ("nonmonotone-frank-wolfe", "two-phase-frank-wolfe", "projected-gradient"):
...     r = ds.maximize(f, P, method=method, max_iter=100)
...     assert r.value <= best.value + 1e-9 * abs(best.value)

The options that most methods share: ``max_iter`` (number of updates of x), ``tol`` (a gap in units of f at which to
stop; by default 1e-6 of the rise of f), ``time_limit`` in seconds, ``x0``, ``callback``, ``progress``, ``lmo``. An
option that a method does not have is refused, with the list of those that it has.

**The linear oracle.** Sets like budgets, knapsacks and matroids have a closed form. A `drsub_fast.Polytope` has a
compiled simplex method that starts from the last basis; large sparse ones go to HiGHS. ``lmo="highs"`` always asks
HiGHS.

**To compare methods on your problems**, solve the same ones by each and look at values and times; ``drsub-fast paper``
does that on the paper's instances, with tables and figures.

Methods that were tried and left out: measured continuous greedy and the aided measured greedy with the guarantee 0.385
(Buchbinder and Feldman 2019). Over 237 instances neither had a larger value, in the mean or in the minimum, than the
stationary point that the second one begins with.
"""
