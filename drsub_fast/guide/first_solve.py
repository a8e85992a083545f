"""The first solve: a problem in arrays, and its answer.

A problem is a function f, a set P, and the question which x in P makes f(x) largest. Here f is a quadratic,
f(x) = 1/2 x'Hx + h'x + c. It is DR-submodular if no entry of H is positive. P holds the points with A x <= b and
0 <= x <= upper; without ``upper`` the rows say how large each variable can be.

>>> import drsub_fast as ds
>>> f = ds.Quadratic(H=[[-1.0, -0.5], [-0.5, -2.0]], h=[1.0, 1.0])
>>> P = ds.Polytope(A=[[1.0, 2.0]], b=[1.5])
>>> r = ds.maximize(f, P)
>>> r.x.round(4), round(r.value, 6)
(array([0.8571, 0.2857]), 0.571429)

``print(r)`` shows the answer as a table, ``r.plot()`` draws how the run went. The most used attributes:

- ``r.x`` and ``r.value``: the point, and f there.
- ``r.status`` and ``r.message``: why the run stopped, and ``r.success``: whether it did all that it set out to do.
- ``r.fw_gap``, ``r.upper_bound``, ``r.ratio``, ``r.guarantee``: what the answer is worth
  (`drsub_fast.guide.how_good`).

Nothing is changed behind your back. Arrays are copied where they have another type, and what is wrong is refused by
name:

>>> ds.Quadratic(H=[[-1.0, 0.5], [0.5, -2.0]], h=[1.0, 1.0])
Traceback (most recent call last):
...
ValueError: H[0, 1] = 0.5 is positive: f is not DR-submodular; require_dr=False accepts any sign

A quadratic with positive entries can still be solved, without the claims that need DR-submodularity:

>>> g = ds.Quadratic(H=[[-1.0, 0.5], [0.5, -2.0]], h=[1.0, 1.0], require_dr=False)
>>> round(ds.global_maximum(g, P).value, 4)
0.8477

**Other functions.** `drsub_fast.Softmax` is log det(diag(x)(L - I) + I), the smooth version of the log-determinant of
the items that are chosen. `drsub_fast.Multilinear` is the expected value of a set function when item i is in the set
with probability x_i. The reference of `drsub_fast` has a table of all.

**Other sets.** `drsub_fast.Box`, `drsub_fast.Budget` (sum x <= k), `drsub_fast.Knapsack` (w'x <= budget),
`drsub_fast.PartitionMatroid` (a budget for each group), `drsub_fast.GeneralPolytope` (any rows and equations), and
more.

**From a file.** `drsub_fast.read_problem` reads ``.npz``, ``.mat``, ``.mps``, ``.lp`` and ``.qplib``. On the command
line: ``drsub-fast solve problem.mps``.

**Minimising** a function is maximising its negative; ``ds.global_minimum(f, P)`` finds the smallest value of a
quadratic, with a proof.
"""
