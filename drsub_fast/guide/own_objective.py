"""Your own objective: a function in Python, one compiled by Numba, or one with a name.

**A Python function** that returns the value and the gradient works in every method:

>>> import numpy as np
>>> import drsub_fast as ds
>>> f = ds.CallableObjective(lambda x: (np.sqrt(1.0 + x).sum(), 0.5 / np.sqrt(1.0 + x)), n=3)
>>> P = ds.Budget(1.5, upper=np.ones(3))
>>> round(ds.monotone_frank_wolfe(f, P).value, 4)
3.6742

Two checks before you trust it: `drsub_fast.CallableObjective.check_gradient` compares the gradient with differences of
the value, and ``check_dr`` looks for a counterexample to diminishing returns. Neither is a proof.

>>> f.check_dr(np.ones(3)).holds is not False
True

**A Numba function** runs inside the compiled loop. It writes the gradient into its second argument and returns the
value; further arguments come from the tuple that you pass:

    @numba.njit
    def value_and_gradient(x, grad, weights):
        root = np.sqrt(1.0 + x)
        grad[:] = 0.5 * weights / root
        return (weights * root).sum()

    f = ds.CompiledObjective(value_and_gradient, (np.ones(3),), n=3)

**What you may declare**: ``nonnegative``, ``monotone``, ``dr_submodular``, ``concave``. Guarantees and bounds that rest
on a declaration say so; a value that contradicts one withdraws them.

**An objective with a name** is known to files, stacks, the command and the figures, as the built-in ones are. It takes
one file: the recipe is in CONTRIBUTING.md, the means are in `drsub_fast.extend`, and
`drsub_fast.extend.check_objective` tries what you wrote: gradients, diminishing returns, units, pickling, stacks,
files.
"""
