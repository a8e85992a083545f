"""Softmax extension of a determinantal point process: f(x) = log det(diag(x) (L - I) + I), L psd.

Source: Gillenwater, Kulesza, Taskar 2012; Bian et al. 2017. With D = L - I, X = diag(x) and
P = D (I + X D)^-1, which is symmetric,

    grad = diag P,   Hessian_ij = -P_ij^2,

and moving the one coordinate i by delta changes, with u = P_i,: and w = delta / (1 + delta u_i),

    f += log(1 + delta u_i),   grad -= w u^2,   P -= w u u'.

A move of several coordinates V eliminates them one after the other, u_a = P_a,: - sum_{b<a} w_b u_b[a] u_b, and
then P -= sum w_a u_a u_a'. At x = 0 it is P = D and f = 0, so a value from scratch is the move from 0 to x
(an L D L' factorisation of S = I + X^(1/2) D X^(1/2)). On [0, 1]^n no pivot 1 + delta u_i is negative, and one that is
zero means f = -inf. Beyond, f is what it is on the branch that contains 0, where S is positive definite, and -inf
elsewhere, whatever the sign of the determinant: with x that branch holds all y between 0 and x, and f is DR-submodular
on it.

Of P only rows are held, and of the support A of x at least, as they were at an earlier point, the base; the moves
since then wait in a log of rows u_a. A move asks for the rows of its own coordinates alone, P_V,: at the base minus
the log. From time to time the log is applied to all held rows by one matrix product, to one triangle of P_AA only. A
new row is P_i,: = D_i,: - D_i,A X_A P_A,: with x and P at the base. A move costs O(n |V| |A|), not O(n^3). A value
from scratch is such a log by itself, with the base 0.

Along a run of increases (moves with delta >= 0, which lower the gradient everywhere) only the columns of coordinates
that are held as rows are kept up to date too. The gradient of the others stays behind as an upper bound until an oracle
asks for it; then their rows are made, some more than asked for at a time, as they are at the present point. With h of n
rows held, an application of the log costs h^2 per row, not h (2 n - h), and most coordinates that have no chance are
never looked at.

A move by delta that changes P_ii from d to d / (1 + delta d) costs a difference as many digits as 1 + delta d has
places before the point, or zeros behind it. Where that is more than four, a value from scratch sweeps the rows of P by
quotients (`softmax_sweep`); so do applications of the log where an L_ii is that large. L_ii itself is kept beside D,
which has not its digits where it is small.

Low rank, L = B B' with B n x k: with the gaps g = 1 - x, T = I + B' diag(x / g) B = C C' and H = C^-1 B',

    f = sum log g + log det T,   P_ij = (h_i'h_j - g_i [i = j]) / (g_i g_j),

in O(n k^2); C comes from T, or where rows of B are long from an orthogonal factorisation of the rows that T is the sum
of. Coordinates near 1, where this loses its digits, are set to 0 first and then moved to x_i as above.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast import _checks
from drsub_fast._checks import MatrixLike
from drsub_fast._kinds import FLAG, LARGEST, OBJECTIVES, array, register_kind, symmetric, within
from drsub_fast.objectives import softmax_kernels  # noqa: F401  registers the operations
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.similarity import FeatureKernel, as_features, rounding_of
from drsub_fast.objectives.softmax_elimination import SoftmaxParams
from drsub_fast.objectives.softmax_low_rank import LowRankSoftmaxParams
from drsub_fast.objectives.softmax_rows import LEAST_LOG
from drsub_fast.objectives.softmax_sweep import LARGE

#: A factor (n, k) is used as it is from this n and this ratio n / k on, else L = B B' is formed. Value and
#: gradient at n = 32, k = 8: 2.0 us against 5.0 us by L; n = 64, k = 16: 5.7 against 15 us.
_LOW_RANK_FROM = 32
_LOW_RANK_RATIO = 4

#: Asymmetry and negative eigenvalues, relative to the largest, that count as rounding.
_ROUNDING = 1e-10

#: What to do with a matrix that is no kernel.
_CLOSEST = "drsub_fast.nearest_psd(L) is the closest kernel"


def _is_definite(S):
    try:
        np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return False
    return True


def _require_psd(L, name, tolerance):
    """Raise ValueError naming the smallest eigenvalue unless it is at least -tolerance times the largest."""
    if not _is_definite(L + tolerance * max(0.0, L.diagonal().max()) * np.eye(len(L))):
        eigenvalues = np.linalg.eigvalsh(L)
        if eigenvalues[0] < -tolerance * eigenvalues[-1] or eigenvalues[-1] < 0.0:
            raise ValueError(
                f"{name} is not positive semidefinite: its smallest eigenvalue is {eigenvalues[0]:g} (largest "
                f"{eigenvalues[-1]:g}); {_CLOSEST}"
            )


def _as_kernel(L):
    """L as a symmetric positive semidefinite matrix, or a ValueError that names its smallest eigenvalue.

    Numbers coarser than float64 may be indefinite by their rounding, which is taken away.
    """
    unit = rounding_of(L)
    square = _checks.as_square(L, "L")
    try:
        L = _checks.as_symmetric(square, "L", max(_ROUNDING, unit))
    except ValueError as error:
        least = np.linalg.eigvalsh(0.5 * (square + square.T))[0]
        raise ValueError(f"{error}. The smallest eigenvalue of that is {least:g}; {_CLOSEST}") from None
    _require_psd(L, "L", max(_ROUNDING, unit))
    if unit > 0.0 and not _is_definite(L + _ROUNDING * max(0.0, L.diagonal().max()) * np.eye(len(L))):
        values, vectors = np.linalg.eigh(L)
        L = (vectors * values.clip(0.0)) @ vectors.T
        L = 0.5 * (L + L.T)
    return L


def _keeps_factor(B, unit_box):
    """Whether B, shape (.., n, k), serves better than L = B B', which has no digits for small rows beside long ones."""
    n, k = B.shape[-2:]
    return unit_box and ((n >= _LOW_RANK_FROM and n >= _LOW_RANK_RATIO * k) or (n > k and _has_long_rows(B)))


def _has_long_rows(B):
    with np.errstate(over="ignore"):
        return bool((np.square(B).sum(axis=-1) > LARGE).any())


class Softmax(Objective):
    """Softmax extension log det(diag(x) (L - I) + I) of a determinantal point process.

    At the 0/1 vector of a set T it equals log det L_TT; it is DR-submodular on [0, 1]^n.

    Parameters
    ----------
    L : array_like, shape (n, n), optional
        Kernel: symmetric, positive semidefinite.
    factor : array_like, shape (n, k), optional
        B with L = B B', instead of L.
    unit_box : bool, default True
        Keep to [0, 1]^n: solvers clip the upper bound to 1. False is the setting of the paper's
        experiments, where x may leave the unit box; the value is -inf off the branch of 0, where
        I + X^(1/2) (L - I) X^(1/2), X = diag(x), is positive definite.

    Raises
    ------
    TypeError
        If not exactly one of ``L`` and ``factor`` is given, or it is not an array of real numbers.
    ValueError
        For a wrong shape, an entry that is not finite, an asymmetric L, or an indefinite one (the
        smallest eigenvalue is named).

    Notes
    -----
    Gillenwater, Kulesza, Taskar 2012; Bian et al. 2017. A value with gradient costs
    O(n s^2) for s nonzeros of x, or O(n k^2) for a factor with n >= 32 rows and k <= n / 4 columns, or with rows longer
    than 100 and k < n, on the unit box (there a value outside of it is NaN). Where L_TT is singular for
    T = {i : x_i = 1}, the value is -inf and the gradient NaN.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Softmax([[2.0, 0.0], [0.0, 0.5]])
    >>> round(f.value([1.0, 0.0]), 6)
    0.693147
    >>> f.gradient([0.0, 0.0])
    array([ 1. , -0.5])
    """

    def __init__(self, L: ArrayLike | None = None, *, factor: ArrayLike | None = None, unit_box: bool = True) -> None:
        if (L is None) == (factor is None):
            raise TypeError("Softmax needs either L or factor=B")
        if not isinstance(unit_box, (bool, np.bool_)):
            raise TypeError(f"unit_box must be True or False, got {unit_box!r}")
        self.unit_box = bool(unit_box)
        self._corner: tuple[NDArray[np.float64], float, NDArray[np.float64] | None] | None = None
        if L is None:
            B = _checks.as_array(factor, "factor", 2)
            if 0 in B.shape:
                raise ValueError(f"factor is empty: shape {B.shape}")
            if _keeps_factor(B, self.unit_box):
                super().__init__(len(B), LowRankSoftmaxParams(B, np.ascontiguousarray(B.T)))
                self.uses_blas = self.n >= LEAST_LOG
                return
            with np.errstate(over="ignore", invalid="ignore"):
                matrix = B @ B.T
            _checks.require_finite(matrix, "the kernel B B'")
        else:
            matrix = _as_kernel(L)
        super().__init__(len(matrix), SoftmaxParams(matrix - np.eye(len(matrix)), matrix.diagonal().copy()))
        self.uses_blas = self.n >= LEAST_LOG

    @classmethod
    def from_features(
        cls,
        features: MatrixLike,
        quality: ArrayLike | None = None,
        *,
        similarity: Literal["cosine", "inner", "rbf"] = "cosine",
        gamma: float | None = None,
        unit_box: bool = True,
    ) -> "Softmax":
        """Softmax extension for items with feature vectors and qualities: L = diag(q) S diag(q).

        Parameters
        ----------
        features : array_like or sparse matrix, shape (n, k)
            Feature vector of each item.
        quality : array_like, shape (n,), optional
            Quality q >= 0 of each item, 1 by default. An item by itself has log det q_i^2.
        similarity : {"cosine", "inner", "rbf"}
            S holds the cosines of the feature vectors, their inner products, or exp(-gamma |v_i - v_j|^2); see
            `drsub_fast.objectives.similarity`.
        gamma : float, optional
            By default 1 / (k times the variance of the features).
        unit_box : bool, default True
            As for the class.

        Returns
        -------
        Softmax
            It keeps the factor diag(q) V of L where that is cheaper than L (see Notes of the class).

        Raises
        ------
        ValueError
            For a feature vector 0 where cosines are asked for, a negative quality, or sizes that differ.

        Notes
        -----
        The decomposition into quality and similarity is that of Kulesza and Taskar 2012, section 3.1.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Softmax.from_features([[2.0, 0.0], [3.0, 3.0]], quality=[1.0, 2.0])
        >>> f.L.round(3)
        array([[1.   , 1.414],
               [1.414, 4.   ]])
        """
        kernel = as_features(features, quality, similarity, gamma)
        if isinstance(kernel, FeatureKernel):
            return cls(factor=kernel.factor(), unit_box=unit_box)
        items = np.arange(kernel.n)
        return cls(kernel.block(items, items), unit_box=unit_box)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_corner": None}

    def __repr__(self) -> str:
        return f"Softmax(n={self.n})"

    @property
    def operations(self) -> float:
        rank = self.n if self.factor is None else self.factor.shape[1]
        return 2 * self.n * rank * min(self.n, rank)

    @property
    def factor(self) -> NDArray[np.float64] | None:
        """B with L = B B', shape (n, k), where the objective works with it; None where it works with L."""
        return self._params.B if isinstance(self._params, LowRankSoftmaxParams) else None

    @property
    def L(self) -> NDArray[np.float64]:
        """Kernel, shape (n, n)."""
        if isinstance(self._params, LowRankSoftmaxParams):
            return self._params.B @ self._params.BT
        matrix = self._params.D.copy()
        np.fill_diagonal(matrix, self._params.own)
        return matrix

    def _at_corner(self, upper):
        """(upper, value, gradient) at the bound that solvers use; the gradient is None if S is not definite.

        S = I + X^(1/2) D X^(1/2). If it is definite there, it is so on all of [0, upper], and f is finite and
        DR-submodular; if it is not, f falls to -inf on the way. The last answer is kept.
        """
        upper = np.minimum(upper, 1.0) if self.unit_box else np.array(upper)
        if self._corner is None or not np.array_equal(upper, self._corner[0]):
            value, grad = self.value_and_gradient(upper)
            self._corner = upper, value, grad if np.isfinite(value) else None
        return self._corner

    def _definite_form(self, x):
        """S = I + X^(1/2) (L - I) X^(1/2)."""
        root = np.sqrt(x)
        return np.diag(1.0 - x) + root[:, None] * self.L * root

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        # Beyond the unit box f may fall to -inf on the way.
        return self.unit_box or upper.max() <= 1.0 or self._at_corner(upper)[2] is not None

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        upper, value, grad = self._at_corner(upper)
        if grad is None or not value >= 0.0:
            return False
        if grad.min() >= 0.0:
            return True  # the gradient is antitone, so f rises from f(0) = 0
        # f at a singleton is log(1 + x_i (L_ii - 1)), and L_ii - 1 is the gradient at 0.
        return False if (self.gradient(np.zeros(self.n))[upper > 0.0] < 0.0).any() else None

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        _, _, grad = self._at_corner(upper)
        return grad is not None and bool(grad.min() >= 0.0)

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        A = self.curvature_matrix(upper)
        u = self._at_corner(upper)[0]
        return None if A is None else float(u @ A @ u)

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
        # With x = upper * y and S = S(upper), f(y) is log det(I + diag(y) (S - I)), whose Hessian entries are -K_ij^2,
        # K = (S - I) (I + diag(y) (S - I))^-1. They obey K_ij^2 <= c_i c_j on [0, 1]^n, c_i = max(S_ii, (S^-1)_ii): det
        # is affine in each y_i with non-negative coefficients, and ratios of its values at neighbouring corners lie in
        # [1 / (S^-1)_ii, S_ii]. Where S - I is positive semidefinite so is K, which is then largest at y = 0.
        # Besides, dK = -K dX K: as matrices K(upper) <= K <= K(0), and what is between two matrices is at most as far
        # from their mean in entry (i, j) as the root of half their distances in (i, i) and (j, j). On the diagonal, the
        # gradient, that is exact.
        upper, _, at_upper = self._at_corner(upper)
        if at_upper is None:
            return None
        S = self._definite_form(upper)
        if np.linalg.eigvalsh(S)[0] >= 1.0 + 1e-12 * len(S):
            c = S.diagonal() - 1.0
        else:
            c = np.maximum(S.diagonal(), np.linalg.inv(S).diagonal())
        c = np.divide(c, upper, out=np.zeros(self.n), where=upper > 0.0)
        first = self.L - np.eye(self.n)
        last = np.linalg.solve(np.eye(self.n) + first * upper, first)
        reach = np.sqrt(np.maximum(0.5 * (first - last).diagonal(), 0.0))
        between = np.abs(0.25 * (2.0 * first + last + last.T)) + np.outer(reach, reach)
        return np.where(np.outer(upper, upper) > 0.0, np.minimum(np.outer(c, c), between**2), 0.0)

    def strong_dr_on(self, upper: NDArray[np.float64]) -> float | None:
        # d_jj f = -(d_j f)^2, and d_j f falls from 0 to upper.
        active, (_, _, low) = upper > 0.0, self._at_corner(upper)
        if not self.dr_submodular_on(upper):
            return None
        if low is None or not active.any():
            return 0.0
        high = self.gradient(np.zeros(self.n))
        least = np.maximum(np.maximum(low, -high), 0.0) ** 2
        return float(least[active].min())


def _stack(L=None, factor=None, unit_box=True):
    if (L is None) == (factor is None):
        return None
    if L is None:
        accepted = within(factor, -LARGEST, LARGEST)
        if _keeps_factor(factor, unit_box):
            return LowRankSoftmaxParams(factor, np.ascontiguousarray(factor.swapaxes(1, 2))), accepted
        with np.errstate(over="ignore", invalid="ignore"):
            L = factor @ factor.swapaxes(1, 2)
        accepted &= within(L, -LARGEST, LARGEST)
    else:
        accepted = within(L, -LARGEST, LARGEST) & symmetric(L)
        accepted[accepted] = _definite(L[accepted])
    return SoftmaxParams(L - np.eye(L.shape[1]), L.diagonal(axis1=1, axis2=2).copy()), accepted


def _definite(L):
    """For each symmetric matrix whether `_require_psd` finds it definite at once."""
    diagonal = L.diagonal(axis1=1, axis2=2)
    shifted = L + _ROUNDING * diagonal.max(axis=1, initial=0.0)[:, None, None] * np.eye(L.shape[1])
    try:
        np.linalg.cholesky(shifted)
        return np.ones(len(L), bool)
    except np.linalg.LinAlgError:
        return np.array([_is_definite(matrix) for matrix in shifted])


register_kind(
    OBJECTIVES, "softmax", Softmax, stack=_stack, L=array("n n"), factor=array("n r"), unit_box=FLAG,
    about="log det(diag(x)(L - I) + I), L or its factor",
    example=lambda n: {"L": 4.0 * np.ones((n, n)) + np.diag(np.linspace(2.0, 1.0, n))},
)  # fmt: skip
