"""A backend for your tool: SciPy, AMPL and Pyomo, files, Numba.

**From SciPy.** A solver for ``scipy.optimize.minimize``; it minimises, as SciPy does, so the function is -f:

>>> import numpy as np
>>> import scipy.optimize
>>> import drsub_fast as ds
>>> H, h = np.array([[-1.0, -0.5], [-0.5, -2.0]]), np.array([1.0, 1.0])
>>> r = scipy.optimize.minimize(
...     lambda x: -(0.5 * x @ H @ x + h @ x), np.zeros(2), jac=lambda x: -(H @ x + h), bounds=[(0.0, 1.0)] * 2,
...     constraints=scipy.optimize.LinearConstraint([[1.0, 2.0]], ub=1.5),
...     method=ds.scipy_method("two-phase-frank-wolfe"),
... )
>>> round(-r.fun, 4)
0.5714

**From Pyomo, AMPL and JuMP.** The command reads ``.nl`` files and writes ``.sol`` files, so it is a solver for AMPL's
interface: linear constraints, a quadratic objective, continuous variables.

    pyomo.environ.SolverFactory("asl", solver="drsub-fast").solve(model)

Options go as ``name=value`` words or in the environment variable ``drsub_fast_options``.

**From files.** `drsub_fast.read_problem` and `drsub_fast.write_problem` know ``.npz``, ``.mat``, ``.mps``, ``.lp`` and
``.qplib``; ``drsub-fast solve problem.lp --out answer.json`` needs no Python program.

**From Numba.** `drsub_fast.kernels` has the gradients, the oracles and the updates as functions for compiled loops of
your own.

What a tool can rely on: public is ``drsub_fast.__all__`` and the modules `drsub_fast.certificates`,
`drsub_fast.extend`, `drsub_fast.instances`, `drsub_fast.kernels` and `drsub_fast.reference`. A public name is renamed
only after a release in which the old one works and warns. The library prints nothing; it logs to the logger
"drsub_fast". Errors are ``ValueError`` for data, ``TypeError`` for types, `drsub_fast.UnsupportedError` for
combinations that do not exist and `drsub_fast.OracleError` for linear programs that fail.
"""
