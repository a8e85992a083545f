"""Quadratic f(x) = 1/2 x'Hx + h'x + c, by default with an entrywise non-positive H (Bian et al. 2017).

The gradient Hx + h is affine, so one product H v with the vertex v serves the gradient, the value and
the exact step, for as many steps as v stays the vertex:

    additive   x += gamma v:            grad += gamma H v,
               f += gamma <grad, v> + gamma^2/2 v'Hv;
    classical  d = v - x, x += gamma d: grad += gamma (H v - (grad - h)),
               f += gamma <grad, d> + gamma^2/2 d'Hd,  d'Hd = <v - x, Hv - (grad - h)>;
    exact      gamma* = -<grad, d> / d'Hd where d'Hd < 0, else the end of the interval.

H is kept in three ways: as an array or as H = -BB' - diag(d), which is never formed (`quadratic_kernels`), or as the
rows of a sparse matrix (`quadratic_sparse`).
"""

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import (
    MatrixLike,
    as_array,
    as_flag,
    as_real,
    as_symmetric,
    as_symmetric_sparse,
    as_vector,
    dense,
    entry,
    require_at_least,
)
from drsub_fast._kinds import FLAG, LARGEST, NUMBER, OBJECTIVES, array, register_kind, symmetric, within
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic_kernels import FactoredQuadraticParams, QuadraticParams
from drsub_fast.objectives.quadratic_sparse import SparseQuadraticParams, signed, unsigned


class Quadratic(Objective):
    """Quadratic 1/2 x'Hx + h'x + c, DR-submodular where every entry of H is at most 0.

    Parameters
    ----------
    H : array_like or scipy.sparse matrix, shape (n, n)
        Hessian: symmetric, entrywise <= 0 up to rounding noise, which is set to 0. A sparse one stays sparse, as rows.
    h : array_like, shape (n,)
        Linear term.
    c : float, default 0
        Constant.
    factor : array_like, shape (n, k), optional
        Instead of H: B >= 0 with H = -BB' - diag(diagonal), which is never formed.
    diagonal : array_like, shape (n,), optional
        d >= 0; 0 by default. With ``factor`` only.
    require_dr : bool, default True
        Whether a positive entry of H is refused. With False H may have any sign: the methods then find stationary
        points and promise nothing, and bounds and proofs are as for any quadratic.

    Raises
    ------
    ValueError
        For a wrong shape, an entry that is not finite, an asymmetric H, a positive entry of H, or a negative one of
        ``factor`` or ``diagonal``.
    TypeError
        If both or none of H and ``factor`` are given, or h is missing.

    Notes
    -----
    Bian et al. 2017. Value and gradient from scratch cost O(n s) for s nonzeros of x; with a sparse H the
    entries of those rows, with a factor O(n k).

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    >>> f.value([1.0, 0.0])
    0.5
    >>> f.gradient([1.0, 0.0])
    array([0. , 0.5])
    >>> ds.Quadratic(factor=[[1.0], [0.5]], diagonal=[0.0, 1.75], h=[1.0, 1.0]).gradient([1.0, 0.0])
    array([0. , 0.5])
    """

    def __init__(
        self,
        H: MatrixLike | None = None,
        h: ArrayLike | None = None,
        c: float = 0.0,
        *,
        factor: ArrayLike | None = None,
        diagonal: ArrayLike | None = None,
        require_dr: bool = True,
    ) -> None:
        if (H is None) == (factor is None):
            raise TypeError("give one of H and factor")
        if h is None:
            raise TypeError("h is missing: the linear term, a vector")
        c, self.require_dr = as_real(c, "c"), as_flag(require_dr, "require_dr")
        if factor is not None:
            params = _factored_params(factor, diagonal, h, c)
        elif diagonal is not None:
            raise TypeError("diagonal goes with factor; add it to H")
        elif scipy.sparse.issparse(H):
            params = _sparse_params(H, h, c, require_dr)
        else:
            H = as_symmetric(H, "H")
            h = as_vector(h, "h", n=len(H))
            if require_dr:
                _refuse_positive(H.reshape(-1), lambda place: divmod(place, len(H)))
            params = QuadraticParams(H, h, c)
        self.n, self._params = params.h.size, params

    def __repr__(self) -> str:
        if self.factor is not None:
            return f"Quadratic(n={self.n}, rank {self.factor.shape[1]} and a diagonal)"
        return f"Quadratic(n={self.n}" + (f", {self._params.data.size} entries)" if self.is_sparse else ")")

    @property
    def is_sparse(self) -> bool:
        """Whether H is kept as a sparse matrix."""
        return isinstance(self._params, SparseQuadraticParams)

    @property
    def H(self) -> Any:
        """Hessian, shape (n, n): an array, a `scipy.sparse.csr_array`, or, for a factored one, a linear operator."""
        params = self._params
        if isinstance(params, QuadraticParams):
            return params.H
        if self.is_sparse:
            places = (signed(params.indices), signed(params.indptr))
            return scipy.sparse.csr_array((params.data, *places), shape=(self.n, self.n))
        from scipy.sparse.linalg import aslinearoperator

        B = aslinearoperator(params.B)
        return -(B @ B.T + aslinearoperator(scipy.sparse.diags_array(params.d)))

    def hessian(self) -> NDArray[np.float64]:
        """H as an array, shape (n, n), however it is kept."""
        params = self._params
        if isinstance(params, QuadraticParams):
            return params.H
        if self.is_sparse:
            return self.H.toarray()
        return -(params.B @ params.B.T) - np.diag(params.d)

    def hessian_diagonal(self) -> NDArray[np.float64]:
        """The diagonal of H, shape (n,)."""
        params = self._params
        if self.factor is not None:
            return -(np.square(params.B).sum(axis=1) + params.d)
        return params.diagonal if self.is_sparse else params.H.diagonal()

    @property
    def factor(self) -> NDArray[np.float64] | None:
        """B, shape (n, k), of a factored Hessian -BB' - diag(d), else None."""
        return getattr(self._params, "B", None)

    @property
    def diagonal(self) -> NDArray[np.float64] | None:
        """d, shape (n,), of a factored Hessian -BB' - diag(d), else None."""
        return getattr(self._params, "d", None)

    @property
    def h(self) -> NDArray[np.float64]:
        """Linear term, shape (n,)."""
        return self._params.h

    @property
    def c(self) -> float:
        """Constant."""
        return self._params.c

    def _times(self, x):
        """H x."""
        if self.factor is None:
            return self.H @ x
        return -(self.factor @ (self.factor.T @ x)) - self.diagonal * x

    def _sizes_times(self, x):
        """|H| x, entrywise."""
        return -self._times(x) if self.require_dr else abs(self.H) @ x

    def _least_slopes(self, upper):
        """min(H, 0) upper, entrywise: what Hx is not below on [0, upper]."""
        return self._times(upper) if self.require_dr else np.minimum(dense(self.H), 0.0) @ upper

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        if self.require_dr:
            return True
        active = np.flatnonzero(upper > 0.0)
        part = self.H[active][:, active]
        return bool((part.data if self.is_sparse else part).max(initial=0.0) <= 0.0)

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        # x'Hx >= x'min(H, 0)u, so f is at least a separable linear function on [0, u]. For H <= 0 and where that is not
        # negative, x'Hv >= x'Hu >= -2 (c + <h, x>) for v in P, hence 4 f(x) + g_P(x) >= f(0) + <h, v>: the local-global
        # bound adds nothing to the linear one, and stacks need no kernel that finds the sign.
        h, c = self.h, self.c
        if c + np.minimum(0.0, upper * (h + 0.5 * self._least_slopes(upper))).sum() >= 0.0:
            return True
        if c < 0.0 or c + upper @ (h + 0.5 * self._times(upper)) < 0.0:
            return False
        return None

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        if self.h.min() < 0.0:
            return False
        if (self._least_slopes(upper) + self.h).min() >= 0.0:
            return True
        # For H <= 0 the gradient is least at u.
        return False if self.require_dr or (self._times(upper) + self.h).min() < 0.0 else None

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        # |d'Hd| <= |d|'|H||d| <= u'|H|u for differences d of points in [0, u]: in any units of x, at most L |u|^2 with
        # L = |H|_2 where H <= 0.
        return float(upper @ self._sizes_times(upper))

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return None if self.n > _DENSE_UP_TO else np.abs(self.hessian())

    def smoothness_on(self, upper: NDArray[np.float64]) -> float | None:
        return self.spectral_norm()

    def strong_dr_on(self, upper: NDArray[np.float64]) -> float | None:
        return float(-self.hessian_diagonal().max()) if self.dr_submodular_on(upper) else None

    def spectral_norm(self) -> float:
        """|H|_2, or a number just above it where H is not an array."""
        if isinstance(self._params, QuadraticParams):
            return float(np.linalg.norm(self._params.H, 2))
        # The largest eigenvalue of |H|, entrywise, is at most max_i (|H|y)_i / y_i for every y > 0 (Collatz and
        # Wielandt), which power steps lower towards it; no eigenvalue of H is larger in size (Perron).
        y, bound = np.ones(self.n), np.inf
        for _ in range(_POWER_STEPS):
            z = self._sizes_times(y)
            bound = min(bound, float((z / y).max()))
            largest = z.max()
            if largest == 0.0:
                return 0.0
            y = np.maximum(z / largest, 1e-6) + y  # the sum with y keeps off cycles of period two
            y /= y.max()
        return bound * (1.0 + 1e-12)


#: Variables up to which the Hessian is written out as an array for bounds.
_DENSE_UP_TO = 2000

#: The bound of `Quadratic.spectral_norm` is within 1e-3 of the norm after as many on random sparse matrices.
_POWER_STEPS = 60


#: A positive entry of H below this part of the largest is rounding noise, and counts as 0.
NOISE = 1e-12


def _refuse_positive(entries, place_of):
    """Raises ValueError for a positive entry of H, (k,), beyond noise, which becomes 0.

    ``place_of`` says where the entry of a flat index stands.
    """
    worst = int(entries.argmax()) if entries.size else 0
    if entries.size and entries[worst] > 0.0:
        if entries[worst] > -NOISE * entries.min():
            name = entry("H", place_of(worst))
            raise ValueError(
                f"{name} = {entries[worst]:g} is positive: f is not DR-submodular; require_dr=False accepts any sign"
            )
        np.minimum(entries, 0.0, out=entries)


def _sparse_params(H, h, c, require_dr):
    H = as_symmetric_sparse(H, "H")
    h = as_vector(h, "h", n=H.shape[0])
    if require_dr:
        _refuse_positive(H.data, lambda place: (np.searchsorted(H.indptr, place, side="right") - 1, H.indices[place]))
    return SparseQuadraticParams(H.data, unsigned(H.indices), unsigned(H.indptr), H.diagonal(), h, c)


def _factored_params(factor, diagonal, h, c):
    B = as_array(factor, "factor", 2)
    n = len(B)
    h = as_vector(h, "h", n=n)
    d = np.zeros(n) if diagonal is None else as_vector(diagonal, "diagonal", n=n)
    for data, name in ((B, "factor"), (d, "diagonal")):
        require_at_least(data, 0.0, name, ": H = -BB' - diag(d) could have a positive entry")
    return FactoredQuadraticParams(B, d, h, c)


def _stack(h, H=None, c=None, factor=None, diagonal=None, require_dr=True):
    if not require_dr:
        return None
    c = np.zeros(1) if c is None else c
    accepted = within(h, -LARGEST, LARGEST) & np.isfinite(c)
    if factor is None and diagonal is None and H is not None:
        return QuadraticParams(H, h, c), accepted & within(H, -LARGEST, 0.0) & symmetric(H)
    if H is not None or factor is None:
        return None
    d = np.zeros((1, h.shape[1])) if diagonal is None else diagonal
    return FactoredQuadraticParams(factor, d, h, c), accepted & within(factor, 0.0, LARGEST) & within(d, 0.0, LARGEST)


register_kind(
    OBJECTIVES, "quadratic", Quadratic, stack=_stack,
    H=array("n n", may_be_sparse=True), h=array("n"), c=NUMBER, factor=array("n r"), diagonal=array("n"),
    require_dr=FLAG,
    about="x'Hx/2 + h'x + c, H <= 0: dense, sparse, or -BB' - diag(d)",
    example=lambda n: {"H": -np.ones((n, n)) + 0.4 * np.eye(n), "h": np.linspace(1.4, 1.2, n)},
)  # fmt: skip
