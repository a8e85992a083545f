"""The linear oracle by HiGHS, warm-started: the only file that imports highspy.

One model per solve; between calls only the cost and the bounds change, so that each run starts from the
last basis.
"""


class HighsOracle:
    """maximize <direction, v> over {v : A v <= b, 0 <= v <= upper}."""

    def __init__(self, A, b, upper):
        raise NotImplementedError
