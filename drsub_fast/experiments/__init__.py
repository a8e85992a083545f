"""The paper's experiments, and methods side by side on your own instances: `compare`."""

from drsub_fast.experiments.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
