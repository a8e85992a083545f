"""Seeded problems that all suites share, and the three implementations they compare."""

import numpy as np
from scipy.optimize import linprog

import drsub_fast as ds
from drsub_fast import reference

#: "reference": numpy and a cold linprog; "highs": our loop, one warm HiGHS model; "fast": the compiled simplex.
IMPLS = ["reference", "fast", "highs"]

#: Above this size a reference solve of 100 steps takes longer than a suite should.
REFERENCE_LIMIT = 100


def quadratic_problem(n, m, seed=0):
    """Family 1 of the paper: H in [-1, 0], A in [0.01, 1.01], b = 1, h = -0.2 H'u."""
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    H = (H + H.T) / 2
    P = ds.Polytope(rng.uniform(0.01, 1.01, (m, n)), np.ones(m))
    return ds.Quadratic(H, -0.2 * H @ P.upper), P


def softmax_problem(n, seed=0):
    """Kernel with eigenvalues uniform on [0, 6] over a budget set of min(20, n/2) items."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    L = (Q * rng.uniform(0.0, 6.0, n)) @ Q.T
    return ds.Softmax((L + L.T) / 2), ds.Budget(min(20, n // 2), np.ones(n))


def skip_slow_reference(impl, n):
    """asv skips a combination whose setup raises NotImplementedError."""
    if impl == "reference" and n > REFERENCE_LIMIT:
        raise NotImplementedError


def solver(impl, method):
    """The solver function of one implementation, with its oracle fixed."""
    name = method.replace("-", "_")
    if impl == "reference":
        return getattr(reference, name)
    function = getattr(ds, name)
    lmo = "highs" if impl == "highs" else "auto"
    return lambda f, P, **options: function(f, P, lmo=lmo, **options)


def cold_lmo(P, direction):
    """One cold linear program by SciPy."""
    bounds = np.column_stack([np.zeros(P.n), P.upper])
    return linprog(-direction, A_ub=P.A, b_ub=P.b, bounds=bounds, method="highs").x
