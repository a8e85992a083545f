"""Non-negative PCA: f(x) = 1/(2m) |Zx|^2 over {x >= 0, |x| <= 1} for m rows of data.

The paper (Bian et al. 2017, Appendix A) does not divide by m: its f is m times this one, which is a variance.

f is convex: every positive entry of its Hessian C = Z'Z/m is a violation of DR-submodularity. If the entries of each
column of Z have one sign alpha_j, then alpha_i alpha_j C_ij >= 0 and f is K_alpha-DR-*super*modular: maximising f
is minimising a K_alpha-DR-submodular function. The bounds 1/4 and 1/e are for maximising DR-submodular
functions: none applies here, whatever the lattice. What holds is stationarity, a small Frank-Wolfe gap. As f
is convex, a full step to the vertex never lowers f, and exact steps are full steps (a generalised power method).
The point x = 0 is stationary: start elsewhere.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, require_finite
from drsub_fast._kinds import OBJECTIVES, array, register_kind
from drsub_fast.objectives.base import Objective, largest_eigenvalue
from drsub_fast.objectives.quadratic import QuadraticParams


class NonnegativePCA(Objective):
    """Half the variance 1/(2m) |Zx|^2 that a non-negative direction x explains.

    Parameters
    ----------
    Z : array_like, shape (m, n)
        Data, one row an observation. Centre the columns if variance about the mean is meant.

    Raises
    ------
    ValueError
        For an entry that is not finite, or no data.

    Notes
    -----
    Bian et al. 2017, Appendix A, where f is not divided by m. f is convex, not DR-submodular: the methods find
    stationary points, and their bounds on the value do not apply. Use with the set `Ball`.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.NonnegativePCA([[1.0, 2.0], [3.0, 0.0]])
    >>> f.value([1.0, 0.0]), bool(f.check_dr())
    (2.5, False)
    """

    def __init__(self, Z: ArrayLike) -> None:
        self.Z = Z = as_array(Z, "Z", 2)
        if not Z.size:
            raise ValueError(f"Z is empty: shape {Z.shape}")
        # The kernels of quadratics only need a symmetric matrix.
        with np.errstate(over="ignore", invalid="ignore"):
            H = Z.T @ Z / len(Z)
        require_finite(H, "Z'Z / m")
        super().__init__(len(H), QuadraticParams(H, np.zeros(len(H)), 0.0))

    def __repr__(self) -> str:
        return f"NonnegativePCA(n={self.n})"

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        active = upper > 0.0
        return bool((self._params.H[np.ix_(active, active)] <= 0.0).all())

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        active = upper > 0.0
        return bool((self._params.H[np.ix_(active, active)] >= 0.0).all())

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        # f is convex: f(y) >= f(x) + <grad f(x), y - x>.
        return 0.0

    def smoothness_on(self, upper: NDArray[np.float64]) -> float | None:
        return largest_eigenvalue(self._params.H)


register_kind(
    OBJECTIVES, "nonnegative-pca", NonnegativePCA, Z=array("m n"),
    about="norm(Zx)^2/(2m), x >= 0; the paper's times m",
    example=lambda n: {"Z": np.array([1.0, 2.0] * n)[:n] * [[1.0], [0.5]] + np.eye(2, n)},
)  # fmt: skip
