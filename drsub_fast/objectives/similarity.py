"""From feature vectors and qualities to the kernel of a determinantal point process: L = diag(q) S diag(q).

One rule serves every function that takes ``features`` (Kulesza and Taskar 2012, section 3.1). With feature vectors v_i
and qualities q_i >= 0, 1 by default,

=============  ====================================  ===========================
``similarity``  S_ij                                  an item by itself
=============  ====================================  ===========================
``"cosine"``   <v_i, v_j> / (|v_i| |v_j|), default   L_ii = q_i^2
``"inner"``    <v_i, v_j>                            L_ii = q_i^2 |v_i|^2
``"rbf"``      exp(-gamma |v_i - v_j|^2)             L_ii = q_i^2
=============  ====================================  ===========================

Features are never centred or scaled. ``gamma`` is 1 / (number of columns times the variance of all entries) by default,
as in scikit-learn's support vector machines. Nothing here forms L: an `ItemKernel` hands out blocks of it.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import (
    Matrix,
    MatrixLike,
    as_count,
    as_real,
    as_sparse,
    as_vector,
    as_view,
    dense,
    entry,
    one_of,
    require_finite,
)

Similarity = Literal["cosine", "inner", "rbf"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)

#: Asymmetry of a kernel, relative to its largest entry, that counts as rounding.
SKEW = 1e-10
#: Entries of a row that was read which are compared with those of the column: all up to this n, beyond it as many as
#: the second number says, evenly spread, and those of all rows read. A column is a cache miss an entry: all of them
#: would double the time of 50 greedy choices at n = 8000.
_ALL_COMPARED, _COMPARED = 1024, 64
#: Columns up to which the nearest vectors are found by a tree (n = 100,000, 20 neighbours: 8 columns take 1 s, 16
#: columns 30 s), and entries of a block of cosines otherwise.
_TREE_UP_TO, _BLOCK = 12, 1 << 24
#: Squared norms from this up are not lost to underflow.
_LEAST_SQUARE = 1e-280
#: A negative eigenvalue, or squared gain, relative to the largest, that counts as rounding.
INDEFINITE = 1e-8
#: The same and `SKEW` in units of the last place of numbers that are coarser than float64.
_COARSE = 32.0
#: Where gamma |v|^2 is above the first, |v_i|^2 + |v_j|^2 - 2 <v_i, v_j> has too few digits for an exponential, which
#: is 0 anyway where the difference is above the second, and above the third part of the sum. Entries of differences
#: that are made at a time.
LONG, VANISHING, UNSURE = 1e3, 1e3, 1e-12
_DIFFERENCES = 1 << 22


Array: TypeAlias = NDArray[np.float64]
Items: TypeAlias = NDArray[np.int64]


class ItemKernel:
    """A kernel L by its blocks.

    Attributes
    ----------
    n : int
        Number of items.
    diagonal : ndarray, shape (n,)
    rank : int
        A bound on the rank of L.
    indefinite : float
        A negative eigenvalue, or squared gain, relative to the largest, that counts as rounding.
    """

    n: int
    diagonal: Array
    rank: int
    indefinite = INDEFINITE

    def block(self, rows: Items, columns: Items) -> Array:
        """L at the given rows and columns (index arrays), shape (len(rows), len(columns)), fresh."""
        raise NotImplementedError

    def part(self, columns: Items | None) -> Any:
        """Some columns (an index array, or None for all of them) in the form that `row` reads fastest."""
        return np.arange(self.n) if columns is None else columns

    def join(self, part: Any, other: Any) -> Any:
        """Both parts as one, in this order."""
        return np.concatenate([part, other])

    def row(self, item: int, part: Any) -> Array:
        """L[item] at the columns of a part, to be read only."""
        return self.block(np.array([item]), part)[0]

    def factor(self) -> Array:
        """B, shape (n, r), with L = B B'; O(n^3) where L is not made of it.

        Raises
        ------
        ValueError
            If L is not positive semidefinite.
        """
        items = np.arange(self.n)
        values, vectors = np.linalg.eigh(self.block(items, items))
        if values[0] < -self.indefinite * max(abs(values[0]), values[-1]):
            raise ValueError(
                f"the smallest eigenvalue of L is {values[0]:g}: L is not positive semidefinite; "
                "drsub_fast.nearest_psd(L) is the closest kernel"
            )
        return vectors * np.sqrt(values.clip(0.0))

    def matrix(self) -> Array | None:
        """L as a C-contiguous array if it is stored as one, read-only; else None."""

    def require_valid(self, items: Iterable[int] = ()) -> None:
        """Raise ValueError if an entry that `row` has read is not finite or not symmetric (default: they are).

        ``items`` are rows that were read otherwise.
        """


class FeatureKernel(ItemKernel):
    """L = diag(scale) V V' diag(scale), V dense or sparse, shape (n, r)."""

    def __init__(self, V: Matrix, scale: Array, diagonal: Array) -> None:
        self.V, self.scale, self.diagonal = V, scale, diagonal
        self.n, self.rank = V.shape[0], min(V.shape)

    def block(self, rows: Items, columns: Items) -> Array:
        return dense(self.part(rows) @ self.part(columns).T)

    def part(self, columns: Items | None) -> Any:
        if columns is None:
            return _scaled_rows(self.V, self.scale)
        return _scaled_rows(self.V[columns], self.scale[columns])

    def join(self, part: Any, other: Any) -> Any:
        sparse = scipy.sparse.issparse(part)
        return scipy.sparse.vstack([part, other], format="csr") if sparse else np.concatenate([part, other])

    def row(self, item: int, part: Any) -> Array:
        vector = self.part(np.array([item]))
        return dense(part @ vector.T).ravel()

    def factor(self) -> Array:
        return dense(self.part(None))


class RbfKernel(ItemKernel):
    """L_ij = scale_i scale_j exp(-gamma |v_i - v_j|^2)."""

    def __init__(self, V: Array, gamma: float, scale: Array) -> None:
        self.V, self.gamma, self.scale = V, gamma, scale
        self.squares = _row_sums_of_squares(V)
        self.diagonal = scale * scale
        self.n = self.rank = V.shape[0]

    def block(self, rows: Items, columns: Items) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            distance = -2.0 * (self.V[rows] @ self.V[columns].T)
            distance += self.squares[rows][:, None]
            distance += self.squares[columns]
            self._measure_again(rows, columns, distance)
        block = np.exp(-self.gamma * distance.clip(0.0))
        block[rows[:, None] == columns] = 1.0  # an item with itself, whatever the rounding
        block *= self.scale[rows][:, None]
        block *= self.scale[columns]
        return block

    def _measure_again(self, rows, columns, distance):
        """Squared distances of long rows by differences, where their exponentials do not vanish."""
        reach = self.gamma * self.squares
        i, j = np.flatnonzero(reach[rows] > LONG), np.flatnonzero(reach[columns] > LONG)
        if not (i.size and j.size):
            return
        most = VANISHING + UNSURE * (reach[rows[i]][:, None] + reach[columns[j]])
        a, b = np.nonzero(~(self.gamma * distance[np.ix_(i, j)] > most))
        i, j = i[a], j[b]
        step = max(_DIFFERENCES // self.V.shape[1], 1)
        for start in range(0, i.size, step):
            at = i[start : start + step], j[start : start + step]
            distance[at] = _row_sums_of_squares(self.V[rows[at[0]]] - self.V[columns[at[1]]])


class MatrixKernel(ItemKernel):
    """L as an array or a sparse matrix; only the rows that are asked for are looked at.

    ``unit`` is that in the last place of the numbers that L was given in.
    """

    def __init__(self, L: Matrix, diagonal: Array, unit: float = 0.0) -> None:
        self.L, self.n, self.diagonal = L, L.shape[0], diagonal
        self.skew, self.indefinite = max(SKEW, unit), max(INDEFINITE, unit)
        self.rank = self.n
        self._read: list[int] = []

    def block(self, rows: Items, columns: Items) -> Array:
        return dense(self.L[rows][:, columns]) if scipy.sparse.issparse(self.L) else self.L[np.ix_(rows, columns)]

    def part(self, columns: Items | None) -> Any:
        return columns

    def join(self, part: Any, other: Any) -> Any:
        return None if other is None else np.concatenate([part, other])

    def row(self, item: int, part: Any) -> Array:
        self._read.append(item)
        row = dense(self.L[[item]])[0] if scipy.sparse.issparse(self.L) else self.L[item]
        return row if part is None else row[part]

    def factor(self) -> Array:
        self.require_valid(range(self.n))
        return super().factor()

    def matrix(self) -> Array | None:
        if scipy.sparse.issparse(self.L):
            return None
        return next((L for L in (self.L, self.L.T) if L.flags.c_contiguous and L.flags.aligned), None)

    def require_valid(self, items: Iterable[int] = ()) -> None:
        items = np.unique(np.fromiter([*self._read, *items], np.int64))
        self._read = []
        compared = self.n if self.n <= _ALL_COMPARED else _COMPARED
        others = np.unique(np.concatenate([items, np.linspace(0, self.n - 1, compared).astype(np.int64)]))
        rows, columns = self.block(items, others), self.block(others, items).T
        skew = np.abs(rows - columns)
        bad = ~np.isfinite(skew)
        if bad.any():
            i, j = np.argwhere(bad)[0]
            wrong = (items[i], others[j]) if not np.isfinite(rows[i, j]) else (others[j], items[i])
            raise ValueError(f"{entry('L', wrong)} = {self.L[wrong]} is not finite")
        if skew.max(initial=0.0) > self.skew * max(self.diagonal.max(), 1e-300):
            i, j = np.unravel_index(int(skew.argmax()), skew.shape)
            raise ValueError(
                f"L is not symmetric: {entry('L', (items[i], others[j]))} = {rows[i, j]:g} but "
                f"{entry('L', (others[j], items[i]))} = {columns[i, j]:g}; drsub_fast.nearest_psd(L) is the closest "
                "kernel"
            )
        for i in items:
            self._require_row(i)

    def _require_row(self, i):
        """Raise ValueError for an entry of a row that is not finite, or larger than one of a kernel can be."""
        row, d = self.block(np.array([i]), np.arange(self.n))[0], self.diagonal
        require_finite(row, f"L[{i}]")
        most = np.sqrt(d + self.indefinite * d.max() + 1e-300)
        j = int(np.argmax(np.abs(row) / most))
        if abs(row[j]) > (1.0 + self.skew) * most[i] * most[j]:
            raise ValueError(
                f"L is not positive semidefinite: L[{i}, {j}] = {row[j]:g}, but L[{i}, {i}] = {d[i]:g} and "
                f"L[{j}, {j}] = {d[j]:g}; drsub_fast.nearest_psd(L) is the closest kernel"
            )


def as_features(
    features: MatrixLike,
    quality: ArrayLike | None = None,
    similarity: Similarity = "cosine",
    gamma: float | None = None,
) -> "ItemKernel":
    """The kernel of feature vectors by the rule of the module.

    Parameters
    ----------
    features : array_like or scipy.sparse matrix, shape (n, r)
        Feature vectors; an array of float64 is not copied. Data frames are read by their values.
    quality : array_like, shape (n,), optional
        Qualities, at least 0.
    similarity : {"cosine", "inner", "rbf"}
    gamma : float, optional
        Of ``"rbf"``, above 0.

    Returns
    -------
    ItemKernel

    Raises
    ------
    ValueError
        For a feature vector 0 where cosines are asked for, a negative quality, sizes that differ, or ``gamma`` with
        another similarity.
    """
    one_of(similarity, "similarity", SIMILARITIES)
    if gamma is not None and similarity != "rbf":
        raise ValueError(f"gamma is that of similarity='rbf', not of {similarity!r}")
    V = as_sparse(features, "features") if scipy.sparse.issparse(features) else as_view(features, "features")
    if not min(V.shape):
        raise ValueError(f"features has shape {V.shape}: at least one item and one column are needed")
    q = np.ones(V.shape[0]) if quality is None else as_vector(quality, "quality", n=V.shape[0], lower=0.0)
    if similarity == "rbf":
        return _rbf_kernel(dense(V), q, gamma)
    if similarity == "inner":
        return FeatureKernel(V, q, _finite_squares(q, q * _squares(V)))
    V, norms = with_norms(V)
    if not norms.all():
        i = int(norms.argmin())
        raise ValueError(f"features[{i}] is zero: it has no cosine; drop the item, or take similarity='inner'")
    return FeatureKernel(V, q / norms, _finite_squares(q, q))


def with_norms(V: Matrix) -> tuple[Matrix, Array]:
    """(V, norms of its rows); rows whose squares leave the range of floats are divided by their largest entry first."""
    squares = _row_sums_of_squares(V)
    lost = ~((squares > _LEAST_SQUARE) & (squares < np.inf))
    if lost.any():
        require_finite(V if isinstance(V, np.ndarray) else V.data, "features")
        largest = np.asarray(abs(V).max(axis=1).todense() if scipy.sparse.issparse(V) else abs(V).max(axis=1)).ravel()
        lift = np.where(lost & (largest < 1e-290), 1e290, 1.0)  # the inverse of less overflows
        inverse = np.divide(1.0, lift * largest, out=np.ones(largest.size), where=lost & (largest > 0.0))
        V = _scaled_rows(_scaled_rows(V, lift), inverse)
        squares = _row_sums_of_squares(V)
    return V, np.sqrt(squares)


def _finite_squares(q, rest):
    """q * rest, the diagonal of a kernel; ValueError where it overflows."""
    with np.errstate(over="ignore"):
        diagonal = q * rest
    if not np.isfinite(diagonal).all():
        i = int(np.argmin(np.isfinite(diagonal)))
        raise ValueError(f"quality[{i}] = {q[i]:g} is too large: its square overflows; scale the qualities")
    return diagonal


def _rbf_kernel(V, quality, gamma):
    require_finite(V, "features")
    if gamma is None:
        variance = V.var()
        gamma = 1.0 / (V.shape[1] * variance) if variance > 0.0 else 1.0
    return RbfKernel(V, as_real(gamma, "gamma", lower=0.0, strict=True), quality)


def _row_sums_of_squares(V):
    with np.errstate(over="ignore"):
        return (
            np.asarray(V.multiply(V).sum(axis=1)).ravel() if scipy.sparse.issparse(V) else np.einsum("ij,ij->i", V, V)
        )


def _squares(V):
    """Squared norms of the rows, finite and not lost to underflow."""
    squares = _row_sums_of_squares(V)
    if not np.isfinite(squares).all():
        require_finite(dense(V), "features")
        i = int(np.flatnonzero(~np.isfinite(squares))[0])
        raise ValueError(f"features[{i}] is too long: its squared norm overflows; scale the features")
    return squares


def cosines(features: MatrixLike, neighbours: int | None = None) -> Matrix:
    """The cosines of feature vectors, at least 0: in full, or by rows those of the largest of each column.

    Parameters
    ----------
    features : array_like or sparse matrix, shape (n, r)
    neighbours : int, optional
        How many entries of a column are kept; the vector's own, 1, is always among them.

    Returns
    -------
    ndarray or csr_array, shape (n, n)

    Raises
    ------
    ValueError
        For a feature vector 0, or as `as_features`.

    Notes
    -----
    By the tree of `scipy.spatial.cKDTree` for few columns, else in blocks of all cosines.
    """
    kernel = as_features(features)
    n, every = kernel.n, np.arange(kernel.n)
    if neighbours is None:
        return kernel.block(every, every).clip(0.0)
    k, unit = min(as_count(neighbours, "neighbours", lower=1), n), kernel.part(None)
    near, values = np.empty((n, k), np.int64), np.empty((n, k))
    if unit.shape[1] <= _TREE_UP_TO:
        unit = dense(unit)
        near = scipy.spatial.cKDTree(unit).query(unit, k, workers=-1)[1].reshape(n, k)
        values = np.einsum("ijk,ik->ij", unit[near], unit)
    else:
        for start in range(0, n, max(_BLOCK // n, 1)):
            rows = slice(start, start + max(_BLOCK // n, 1))
            block = dense(unit[rows] @ unit.T)
            near[rows] = np.argpartition(-block, k - 1, axis=1)[:, :k] if k < n else every
            values[rows] = np.take_along_axis(block, near[rows], axis=1)
    own = (near == every[:, None]).any(axis=1)
    near[~own, 0], values[~own, 0] = every[~own], 1.0  # vectors that occur more than k times
    return scipy.sparse.csr_array((values.clip(0.0).ravel(), (near.ravel(), np.repeat(every, k))), shape=(n, n))


def as_kernel_matrix(L: MatrixLike) -> MatrixKernel:
    """The kernel of a matrix: an array of float64 or a sparse matrix is read where it is, row by row.

    Raises
    ------
    ValueError
        If L is not square, or has a diagonal entry that is negative or not finite.
    """
    unit = rounding_of(L)
    L = as_sparse(L, "L") if scipy.sparse.issparse(L) else as_view(L, "L")
    if L.shape[0] != L.shape[1]:
        raise ValueError(f"L must be square, got shape {L.shape}")
    if not L.shape[0]:
        raise ValueError("L is empty: at least one item is needed")
    diagonal = np.array(L.diagonal())
    bad = ~(np.isfinite(diagonal) & (diagonal >= 0.0))
    if bad.any():
        i = int(bad.argmax())
        what = "negative: L is not positive semidefinite" if np.isfinite(diagonal[i]) else "not finite"
        raise ValueError(f"L[{i}, {i}] = {diagonal[i]:g} is {what}")
    return MatrixKernel(L, diagonal, unit)


def rounding_of(L: Any) -> float:
    """The part of the largest entries of a kernel that rounding takes where its numbers are coarser than float64; or 0.

    Examples
    --------
    >>> import numpy as np
    >>> rounding_of(np.eye(2, dtype=np.float32)) > 1e-6, rounding_of(np.eye(2))
    (True, 0.0)
    """
    dtype = getattr(L, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind != "f" or dtype.itemsize >= 8:
        return 0.0
    return _COARSE * float(np.finfo(dtype).eps)


def _scaled_rows(V, scale):
    return scipy.sparse.diags_array(scale) @ V if scipy.sparse.issparse(V) else V * scale[:, None]
