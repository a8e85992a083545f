"""Your own method: register a function, and everything else knows it.

A method is a function of (f, P) and keyword options that returns a `drsub_fast.Result`. It may call other methods:

>>> import drsub_fast as ds
>>> from drsub_fast import extend
>>> def short_then_exact(f, P, *, max_iter=100):
...     r = ds.nonmonotone_frank_wolfe(f, P, max_iter=max_iter)
...     return ds.fully_corrective_frank_wolfe(f, P, x0=r.x)
>>> extend.register_method(extend.Method("short-then-exact", short_then_exact, "Short", needs=("down-closed",)))
>>> f, P = ds.instances.quadratic_uniform(6, 3, seed=1)
>>> r = ds.maximize(f, P, method="short-then-exact", max_iter=20)
>>> r.value >= ds.nonmonotone_frank_wolfe(f, P, max_iter=20).value - 1e-9
True
>>> extend.check_method("short-then-exact")

``needs`` says that its first part asks for a down-closed set. From then on its name works in `drsub_fast.maximize`, in
batches and in ``scipy_method``. The gradients ``f.gradient(x)``, the oracle ``P.lmo(direction)``, the projection
``P.project(y)`` and the test ``P.contains(x)`` are public, so a method can also be a plain loop of yours.
`drsub_fast.kernels` has the compiled parts for loops under Numba, and `drsub_fast.reference` the methods of this
package in plain numpy, which read like the paper's pseudocode.

A loop that is compiled with the function and the set it runs on takes one file: the recipe is in CONTRIBUTING.md.

>>> del extend.METHODS["short-then-exact"]
"""
