"""What a new process pays: import, and import with a first small solve from the disk cache."""


def timeraw_import():
    return "import drsub_fast"


def timeraw_first_solve():
    return """
    import numpy as np
    import drsub_fast as ds
    rng = np.random.default_rng(0)
    H = -rng.random((16, 16))
    P = ds.Polytope(rng.uniform(0.01, 1.01, (16, 16)), np.ones(16))
    ds.frank_wolfe(ds.Quadratic((H + H.T) / 2, rng.random(16)), P)
    """
