"""One door to every method, by its name."""

from drsub_fast._checks import as_count, one_of
from drsub_fast.solvers.frank_wolfe import frank_wolfe
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe
from drsub_fast.solvers.multi_start import multi_start
from drsub_fast.solvers.nonmonotone import monotone_frank_wolfe, nonmonotone_frank_wolfe
from drsub_fast.solvers.projected_gradient import projected_gradient
from drsub_fast.solvers.two_phase import two_phase_frank_wolfe

METHODS = {
    "frank-wolfe": frank_wolfe,
    "fully-corrective-frank-wolfe": fully_corrective_frank_wolfe,
    "monotone-frank-wolfe": monotone_frank_wolfe,
    "multi-start": multi_start,
    "nonmonotone-frank-wolfe": nonmonotone_frank_wolfe,
    "projected-gradient": projected_gradient,
    "two-phase-frank-wolfe": two_phase_frank_wolfe,
}


def default_starts(n):
    """Number of starts by size: the time of a local solve grows like n^3."""
    return 16 if n <= 100 else 8 if n <= 300 else 4


def maximize(f, P, method="auto", n_starts=None, seed=0, **options):
    """Maximises f over P by any method of the package.

    Parameters
    ----------
    f : Objective
        Function to maximise.
    P : FeasibleSet
        Feasible set.
    method : str
        A name in `METHODS`, or "auto" for the best value for the time: "multi-start" of fully corrective
        solves, followed by a second phase that keeps the 1/4 bound of Algorithm 1.
    n_starts : int, optional
        Starts of a multi-start run; by default 16 for n <= 100, 8 for n <= 300, 4 above, 2 for objectives
        given in Python.
    seed : int
        Seed of the random starts.
    **options
        Passed to the method, e.g. ``max_iter``, ``tol``, ``lmo``, ``time_limit``.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        For an unknown method, or ``n_starts`` with a method that has one start.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> round(ds.maximize(f, ds.Box([1.0, 1.0])).value, 4)
    0.5714
    """
    if method == "auto":
        method = "multi-start"
    solver = METHODS.get(method)
    if solver is None:
        one_of(method, "method", ("auto", *METHODS))
    if solver is multi_start:
        if n_starts is None:
            n_starts = default_starts(f.n) if f.compiled else 2
        return multi_start(f, P, n_starts, seed, **options)
    if n_starts is not None and as_count(n_starts, "n_starts", lower=1) > 1:
        raise ValueError(f"method {method!r} has one start; use method='multi-start' for n_starts = {n_starts}")
    return solver(f, P, **options)
