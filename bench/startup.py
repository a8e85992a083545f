"""What a new process pays: import; a first small solve with an empty kernel cache, and from a full one.

With an empty cache the first solves are interpreted, which ``DRSUB_FAST_COMPILE=auto`` in each process says again:
the other benchmarks compile at once.
"""

_SOLVE = """
    import numpy as np
    import drsub_fast as ds
    rng = np.random.default_rng(0)
    H = -rng.random((16, 16))
    P = ds.Polytope(rng.uniform(0.01, 1.01, (16, 16)), np.ones(16))
    ds.{solve}(ds.Quadratic((H + H.T) / 2, rng.random(16)), P)
"""

_HELP = """
    import contextlib, io
    from drsub_fast.cli.command import main
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main(["--help"])
"""

_COLD = """
    import os, tempfile
    os.environ["DRSUB_FAST_COMPILE"] = "auto"
    folder = tempfile.TemporaryDirectory()
    os.environ["DRSUB_FAST_CACHE_DIR"] = folder.name
"""


def timeraw_import():
    return "import drsub_fast"


def timeraw_help():
    return _HELP


def timeraw_first_solve(solve):
    return _SOLVE.format(solve=solve)


def timeraw_first_solve_cold(solve):
    return _COLD + _SOLVE.format(solve=solve)


for _timed in (timeraw_first_solve, timeraw_first_solve_cold):
    _timed.params = ["frank_wolfe", "maximize"]
    _timed.param_names = ["solve"]
