"""The methods again, straight from the pseudocode: numpy and one cold `scipy.optimize.linprog` a step.

The yardstick for the compiled package: the same names and arguments, nothing shared with its kernels.
Slow, plain, and meant to be read beside the paper (Bian, Levy, Krause, Buhmann, "Continuous DR-submodular
Maximization: Structure and Algorithms", NIPS 2017).
"""

from drsub_fast.reference.solvers import (
    ReferenceResult,
    ReferenceTrace,
    frank_wolfe,
    monotone_frank_wolfe,
    nonmonotone_frank_wolfe,
    projected_gradient,
    two_phase_frank_wolfe,
)

__all__ = [
    "ReferenceResult",
    "ReferenceTrace",
    "frank_wolfe",
    "monotone_frank_wolfe",
    "nonmonotone_frank_wolfe",
    "projected_gradient",
    "two_phase_frank_wolfe",
]


def __dir__() -> list[str]:
    return __all__
