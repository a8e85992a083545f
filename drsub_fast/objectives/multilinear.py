"""Multilinear extension f(x) = E[F(S)], S containing item i with probability x_i independently.

    f(x) = sum_S F(S) prod_{i in S} x_i prod_{i not in S} (1 - x_i),
    d_i f(x) = E[F(S + i) - F(S - i)],

DR-submodular on [0, 1]^n if and only if F is submodular (Calinescu et al. 2011; Bian et al. 2017).
A kind of set function, a way to evaluate f:

- Maxima (coverage, facility location, FLID): F(S) = sum_{i in S} l_i + sum_d max_{i in S} W_id, by sorted columns of W
  (`drsub_fast.objectives.maxima`).
- Cut of a directed graph: F(S) = sum_{i in S, j not in S} a_ij, f(x) = sum_ij a_ij x_i (1 - x_j), a quadratic.
- Table of all 2^n values, by folding one coordinate at a time (`drsub_fast.objectives.set_table`).
- Sampling for any other F: means over sets with fixed uniform numbers (`drsub_fast.objectives.sampling`).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast import _checks
from drsub_fast._checks import Array, Graph, Matrix, MatrixLike
from drsub_fast._kinds import EXTENSIONS, array, register_kind
from drsub_fast.objectives import corners, maxima, set_table
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.maxima import ElementWeights, Sets
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.sampling import Sampler, SetFunction
from drsub_fast.objectives.user import PYTHON_CALL, CallableParams

#: Largest n for which the table of all values is stored (8 MB).
MAX_ENUMERATED = 20


class Multilinear(Objective):
    """Multilinear extension of a set function; made by one of the functions below.

    =======================  ==========================================================================
    ``coverage``             weight of the elements that the chosen sets cover
    ``facility_location``    sum over customers of the best chosen facility
    ``flid``                 facility-location diversity model
    ``cut``                  weight of the edges that leave the chosen vertices
    ``from_function``        any function of at most 20 items, by its table of values
    ``from_table``           the same, from the table
    ``sampled``              any function, estimated from samples
    =======================  ==========================================================================

    Notes
    -----
    Bian et al. 2017; Calinescu et al. 2011. Lives on [0, 1]^n (``unit_box``).

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Multilinear.coverage([{"a", "b"}, {"b", "c"}, {"c"}])
    >>> f.set_value([0, 1])
    3.0
    >>> f.value([0.5, 0.5, 0.0])
    1.75
    """

    unit_box = True
    _made_by = ""

    def __init__(self) -> None:
        raise TypeError("choose a kind of set function: Multilinear.coverage, .facility_location, .cut, .flid, ..")

    def __repr__(self) -> str:
        return f"Multilinear.{self._made_by}(n={self.n})"

    def set_value(self, items: Iterable[int]) -> float:
        """F(S) for an iterable of item indices."""
        x = np.zeros(self.n)
        x[_checks.as_items(items, self.n)] = 1.0
        return self.value(x)

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return corners.nonnegative(self, np.minimum(upper, 1.0))

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return corners.monotone(self, np.minimum(upper, 1.0))

    @staticmethod
    def coverage(sets: Sets, weights: ElementWeights | None = None) -> "Multilinear":
        """Coverage F(S) = total weight of the union of the sets of S.

        Parameters
        ----------
        sets : sequence of iterables, or array_like or sparse matrix of shape (n, m)
            The elements of each item, or a matrix that is nonzero where item i covers element e.
        weights : mapping or array_like, shape (m,), optional
            Weight >= 0 of every element (default 1); an array where the elements are 0 .. m - 1.

        Raises
        ------
        ValueError
            For a negative weight, or an element without weight.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Multilinear.coverage([{0, 1}, {1, 2}], weights=[1.0, 2.0, 4.0])
        >>> f.gradient([0.0, 0.5])
        array([2., 6.])
        """
        W = maxima.coverage_benefits(sets, weights)
        return MaximaExtension("coverage", np.zeros(W.shape[0]), W)

    @staticmethod
    def facility_location(
        W: MatrixLike | None = None, *, features: MatrixLike | None = None, neighbours: int | None = None
    ) -> "Multilinear":
        """Facility location F(S) = sum_d max_{i in S} W_id.

        Parameters
        ----------
        W : array_like or sparse matrix, shape (n, D)
            What item i is worth to customer d, at least 0.
        features, neighbours : array_like or sparse matrix, shape (n, r), and int, optional
            Instead of W: cosines, at least 0; with ``neighbours``, of so many closest items for each customer.

        Raises
        ------
        ValueError
            For a negative entry, or a feature vector 0.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Multilinear.facility_location([[3.0, 0.0], [1.0, 2.0]])
        >>> f.value([1.0, 0.5])
        4.0
        """
        W = maxima.as_benefits(W, features, neighbours)
        return MaximaExtension("facility_location", np.zeros(W.shape[0]), W)

    @staticmethod
    def flid(utilities: ArrayLike, W: MatrixLike) -> "Multilinear":
        """Facility-location diversity model F(S) = sum_{i in S} u_i + sum_d (max_{i in S} W_id - sum_{i in S} W_id).

        Parameters
        ----------
        utilities : array_like, shape (n,)
            Quality u_i of every item.
        W : array_like, shape (n, D)
            Weight of item i in latent dimension d, at least 0.

        Raises
        ------
        ValueError
            For a negative entry of W, or shapes that do not match.

        Notes
        -----
        Tschiatschek, Djolonga, Krause, "Learning probabilistic submodular diversity models via noise
        contrastive estimation", 2016.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Multilinear.flid([1.0, 1.0], [[2.0], [0.5]])
        >>> f.set_value([0, 1])
        1.5
        """
        W = maxima.as_benefits(W)
        utilities = _checks.as_vector(utilities, "utilities", n=W.shape[0])
        return MaximaExtension("flid", utilities - np.asarray(W.sum(axis=1)).ravel(), W, utilities)

    @staticmethod
    def cut(adjacency: Graph) -> "Multilinear":
        """Cut F(S) = sum of a_ij over i in S, j not in S: a `Quadratic`.

        Parameters
        ----------
        adjacency : array_like, sparse matrix or networkx graph
            Weights a_ij >= 0 of the edges i -> j, no loops; symmetric for an undirected graph.

        Raises
        ------
        ValueError
            For a negative weight or a loop.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Multilinear.cut([[0, 1], [1, 0]])
        >>> f.value([0.5, 0.5]), f.set_value([0])
        (0.5, 1.0)
        """
        return CutExtension(adjacency)

    @staticmethod
    def from_function(function: SetFunction, n: int) -> "Multilinear":
        """Extension of any submodular function of at most 20 items, by enumeration.

        Parameters
        ----------
        function : callable
            ``function(S)`` returns F(S) for a sorted list S of item indices; called 2^n times, now.
        n : int
            Number of items.

        Raises
        ------
        ValueError
            If n is above 20, a value is not finite, or F is not submodular (set and pair are named).

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Multilinear.from_function(lambda S: min(len(S), 2), n=3)
        >>> f.value([0.5, 0.5, 0.5])
        1.375
        """
        n = _checks.as_count(n, "n", lower=1)
        if n > MAX_ENUMERATED:
            raise ValueError(f"n = {n}: 2^{n} values are too many to enumerate; use Multilinear.sampled")
        return TableExtension([function(set_table.items_of(subset, n)) for subset in range(1 << n)])

    @staticmethod
    def from_table(values: ArrayLike) -> "Multilinear":
        """Extension of a submodular function from its 2^n values.

        Parameters
        ----------
        values : array_like, shape (2^n,)
            ``values[s]`` is F of the items whose bits are set in s (item i: bit 2^i).

        Raises
        ------
        ValueError
            For a length that is no power of 2, or a function that is not submodular.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> ds.Multilinear.from_table([0.0, 1.0, 1.0, 1.5]).gradient([0.0, 1.0])
        array([0.5, 1. ])
        """
        return TableExtension(values)

    @staticmethod
    def sampled(
        function: SetFunction,
        n: int,
        n_samples: int = 100,
        seed: int = 0,
        *,
        nonnegative: bool | None = None,
        monotone: bool | None = None,
    ) -> "Multilinear":
        """Extension of any submodular function, estimated from samples.

        Parameters
        ----------
        function : callable
            ``function(S)`` returns F(S) for a sorted list S of item indices. It is called once for a set, and its
            value remembered.
        n : int
            Number of items.
        n_samples : int, default 100
            Sets per evaluation. One evaluation costs up to n_samples (n + 1) calls of ``function``;
            `stochastic_continuous_greedy` gets by with a few hundred in all.
        seed : int, default 0
            Seed of the uniform numbers. They are drawn once, so that the estimate is a fixed function
            of x, and its gradient antitone where F is submodular.
        nonnegative, monotone : bool, optional
            What is known of F.

        Notes
        -----
        Value and gradient are unbiased; ``standard_error(x)`` tells how far off they may be. The
        gradient is the estimate of the exact gradient, not the derivative of the estimated value, which is
        piecewise constant. F is not checked.

        Examples
        --------
        >>> import drsub_fast as ds
        >>> f = ds.Multilinear.sampled(lambda S: len(S) ** 0.5, n=4, n_samples=400)
        >>> error, gradient_error = f.standard_error([0.5] * 4)
        >>> abs(f.value([0.5] * 4) - 1.3652) < 4 * error
        True

        Continuous greedy for a set function of one's own:

        >>> f = ds.Multilinear.sampled(lambda S: len({i // 2 for i in S}), n=6, n_samples=50)
        >>> P = ds.Budget(3, [1.0] * 6)
        >>> x = ds.monotone_frank_wolfe(f, P, max_iter=20).x
        >>> sorted(i // 2 for i in ds.round_solution(f, P, x).items.tolist())
        [0, 1, 2]
        """
        return SampledExtension(function, n, n_samples, seed, nonnegative, monotone)


class MaximaExtension(maxima.OfBenefits, Multilinear):
    """Extension of F(S) = sum_{i in S} linear_i + sum_d max_{i in S} W_id; W sparse by columns, >= 0.

    ``utilities`` are those of a FLID model, whose linear part is utilities - W 1; None otherwise.
    """

    def __init__(self, kind: str, linear: Array, W: Matrix, utilities: Array | None = None) -> None:
        self._made_by, self.n, self.linear, self.utilities = kind, linear.size, linear, utilities
        self._rows = W

    def __getstate__(self) -> dict[str, Any]:
        # The same whatever has been evaluated.
        state = super().__getstate__()
        state.pop("_params", None)
        return state | {"_rows": self.rows()}

    def late_value(self, x: ArrayLike) -> float:
        """f(x) of a run whose time is over, by the rows of the items with x > 0 alone."""
        x = _checks.as_vector(x, "x", n=self.n)
        chosen = np.flatnonzero(x)
        if chosen.size == 0 or 2 * chosen.size > self.n:
            return self.value(x)
        return self.restricted(chosen).value(x[chosen])

    def set_value(self, items: Iterable[int]) -> float:
        items = _checks.as_items(items, self.n)
        best = self._rows_of(items).max(axis=0) if items.size else np.zeros(1)
        return float(self.linear[items].sum() + best.sum())

    def restricted(self, items: NDArray[np.int64]) -> "MaximaExtension":
        """The extension on some of the items alone, in the order given."""
        utilities = None if self.utilities is None else self.utilities[items]
        return MaximaExtension(self._made_by, self.linear[items], self._rows_of(items), utilities)

    @property
    def W(self) -> "scipy.sparse.csc_array":
        """What item i is worth in group d, a sparse matrix of shape (n, D)."""
        W = scipy.sparse.csc_array(self.rows())
        W.eliminate_zeros()
        W.sort_indices()
        return W

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True if self.linear.min() >= 0.0 else super().monotone_on(upper)

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True if self.linear.min() >= 0.0 else super().nonnegative_on(upper)

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        return maxima.curvature(self._params, np.minimum(upper, 1.0))

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return maxima.curvature_matrix(self._params)


class CutExtension(Quadratic, Multilinear):
    """Extension of the cut function of a graph: a quadratic, so the fast path for quadratics applies."""

    _made_by = "cut"

    def __init__(self, adjacency: Graph) -> None:
        self.adjacency = A = _checks.as_adjacency(adjacency, "adjacency")
        Quadratic.__init__(self, -(A + A.T), A.sum(axis=1))

    def __repr__(self) -> str:
        return Multilinear.__repr__(self)

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return True


class TableExtension(Multilinear):
    """Extension of a set function given by all its values."""

    _made_by = "from_table"

    def __init__(self, values: ArrayLike) -> None:
        values = _checks.as_vector(values, "values")
        n = values.size.bit_length() - 1
        if n < 1 or values.size != 1 << n:
            raise ValueError(f"values has {values.size} entries, expected 2^n for n >= 1 items")
        set_table.require_submodular(values, n)
        self.n, self._params = n, set_table.TableParams(n, values)

    @property
    def values(self) -> NDArray[np.float64]:
        """The values F(S), shape (2^n,), item i being bit 2^i of the index (read-only)."""
        view = self._params.values.view()
        view.flags.writeable = False
        return view

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        # A multilinear function is smallest at a corner of the box.
        return bool(set_table.corner_values(self._params.values, upper).min() >= 0.0)

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        corner = set_table.corner_values(self._params.values, upper)
        return all(set_table.first_difference(corner, i).min() >= 0.0 for i in range(self.n) if upper[i] > 0.0)

    def curvature_bound(self, upper: NDArray[np.float64]) -> float | None:
        u = np.minimum(upper, 1.0)
        return float(u @ self.curvature_matrix(upper) @ u)

    def curvature_matrix(self, upper: NDArray[np.float64]) -> NDArray[np.float64]:
        return set_table.curvature_matrix(self._params.values, self.n)


class SampledExtension(Multilinear):
    """Estimate of the extension of a Python set function, with common random numbers."""

    compiled = False
    _made_by = "sampled"

    def __init__(
        self, function: SetFunction, n: int, n_samples: int, seed: int, nonnegative: bool | None, monotone: bool | None
    ) -> None:
        _checks.as_function(function, "function", optional=False)
        self.n = _checks.as_count(n, "n", lower=1)
        self.sampler = Sampler(function)
        self._nonnegative = _checks.as_known(nonnegative, "nonnegative")
        self._monotone = _checks.as_known(monotone, "monotone")
        self.declared = frozenset(
            name for name, value in (("nonnegative", nonnegative), ("monotone", monotone)) if value
        )
        self._uniforms = np.random.default_rng(_checks.as_seed(seed)).random(
            (_checks.as_count(n_samples, "n_samples", lower=2), self.n)
        )
        self._params = CallableParams(self.n, self._estimate)

    @property
    def function(self) -> SetFunction:
        """The set function F."""
        return self.sampler.function

    @property
    def n_calls(self) -> int:
        """Number of sets that F was called for so far."""
        return len(self.sampler.values)

    @property
    def operations(self) -> float:
        return PYTHON_CALL * len(self._uniforms) * self.n

    def dr_submodular_on(self, upper: NDArray[np.float64]) -> bool | None:
        return None

    def nonnegative_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._nonnegative

    def monotone_on(self, upper: NDArray[np.float64]) -> bool | None:
        return self._monotone

    def standard_error(self, x: ArrayLike) -> tuple[float, NDArray[np.float64]]:
        """Standard errors at x of the value (a float) and of the gradient, shape (n,)."""
        error = self.sampler.standard_error(_checks.as_vector(x, "x", n=self.n), self._uniforms)
        return float(error[0]), error[1:]

    def _estimate(self, x):
        return self.sampler.estimate(x, self._uniforms)


#: Of a matrix; the entry ``weights`` is that of a knapsack.
register_kind(
    EXTENSIONS, "coverage", lambda sets, element_weights=None: Multilinear.coverage(
        sets if scipy.sparse.issparse(sets) else _checks.as_array(sets, "sets", 2), element_weights
    ), sets=array("n elements", may_be_sparse=True), element_weights=array("elements"),
    of=lambda f: False, shares=("sets",), label="Multilinear.coverage", about="the weight of what the sets of S cover",
    example=lambda n: {"sets": np.eye(n, 3) + np.eye(n, 3, k=1), "element_weights": np.array([1.0, 2.0, 0.5])},
)  # fmt: skip

register_kind(
    EXTENSIONS, "facility-location", lambda W: Multilinear.facility_location(W), stack=maxima.stack_facility_location,
    W=array("n d", may_be_sparse=True), of=lambda f: isinstance(f, MaximaExtension) and f.utilities is None,
    label="Multilinear.facility_location", about="sum_d max of S for customer d",
    example=lambda n: {"W": np.array([[3.0, 0.5], [1.5, 2.0]] * n)[:n]},
)  # fmt: skip

register_kind(
    EXTENSIONS, "flid", Multilinear.flid, stack=maxima.stack_flid, utilities=array("n"),
    W=array("n d", may_be_sparse=True), of=lambda f: isinstance(f, MaximaExtension) and f.utilities is not None,
    about="utilities of S and how its items differ",
    example=lambda n: {"utilities": np.linspace(1.0, 1.2, n), "W": np.array([[0.9, 0.1], [0.6, 0.5]] * n)[:n]},
)  # fmt: skip
register_kind(
    EXTENSIONS, "cut", Multilinear.cut, adjacency=array("n n", may_be_sparse=True), of=CutExtension,
    about="edges of a graph that leave S", example=lambda n: {"adjacency": np.ones((n, n)) - np.eye(n)},
)  # fmt: skip
register_kind(
    EXTENSIONS, "table", Multilinear.from_table, values=array("2^n"), of=TableExtension,
    about="any F by its 2^n values", example=lambda n: {"values": np.arange(2.0**n) ** 0.5},
)  # fmt: skip
