"""A choice of rows in the style of scikit-learn: ``fit(X)``, ``ranking_``, ``gains_``, ``transform(X)``.

scikit-learn is not needed. Where it is installed it checks X, so that messages, feature names and tags are its own.
"""

import importlib.util
import inspect
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_array, as_count, as_full, as_seed, as_sparse, one_of
from drsub_fast.discrete.map_dpp import MapSolution, map_dpp
from drsub_fast.discrete.set_greedy import GreedySet, greedy
from drsub_fast.objectives.multilinear import Multilinear
from drsub_fast.objectives.similarity import SIMILARITIES, as_features, rounding_of, with_norms
from drsub_fast.sets.base import FeasibleSet

#: Cosines are rounded to multiples of this.
_COSINE_UNIT = 2.0**-40
FUNCTIONS = ("facility-location", "dpp", "max-coverage")


class ItemSelector:
    """Chooses rows of X that stand for all of them, or differ from one another.

    Parameters
    ----------
    n_items : int, default 10
        Rows to choose; all of them where X has fewer.
    function : {"facility-location", "dpp", "max-coverage"}
        What the set is chosen for: the sum over all rows of the similarity, at least 0, to the closest chosen one; log
        det of the chosen rows' similarities (exactly n_items, also where that lowers it); the sum over columns of the
        largest chosen entry, X being at least 0.
    similarity : {"cosine", "inner", "rbf", "precomputed"}
        By the rule of `drsub_fast.objectives.similarity`, X holding features; "precomputed": X is the matrix of
        similarities.
    gamma : float, optional
        Of "rbf", and only of that.
    quality : array_like, shape (n,), optional
        Of "dpp": qualities of the rows, at least 0, as for `map_dpp`; not with "precomputed".
    constraint : FeasibleSet, optional
        Down-closed: the n_items rows are chosen within it.
    neighbours : int, optional
        Of "facility-location" with "cosine": only the similarities to so many closest rows count (a graph, see
        `Multilinear.facility_location`), for X of many rows.
    epsilon : float, optional
        Stochastic greedy with this loss, for the largest X; not for "dpp".
    seed : int, default 0
        Of stochastic greedy.

    Attributes
    ----------
    ranking_ : ndarray of int
        The chosen rows in the order of choice.
    gains_ : ndarray
        What each of them added; -inf from the rank of X on, for "dpp".
    value_, bound_ : float
        What the set is worth, and a proven bound on any other of that size, computed when it is first read.
    message_ : str
        Why the choice ended.
    n_features_in_ : int
        Columns of X.

    Raises
    ------
    ValueError
        By `fit`, for options or data that `greedy`, `greedy_map` or the similarity refuse.

    Notes
    -----
    Facility location keeps the n x n similarities. `transform` returns the chosen rows of what it is given, which is to
    have as many rows as the X of `fit`; so, unlike scikit-learn's own transformers, it changes the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import drsub_fast as ds
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.0, 1.0], [0.3, 0.9]])
    >>> selector = ds.ItemSelector(2).fit(X)
    >>> selector.ranking_, selector.transform(X).shape
    (array([2, 3]), (2, 2))
    """

    ranking_: NDArray[np.int64]
    gains_: NDArray[np.float64]
    value_: float
    message_: str
    n_features_in_: int

    def __init__(
        self,
        n_items: int = 10,
        function: Literal["facility-location", "dpp", "max-coverage"] = "facility-location",
        *,
        similarity: Literal["cosine", "inner", "rbf", "precomputed"] = "cosine",
        gamma: float | None = None,
        quality: ArrayLike | None = None,
        constraint: FeasibleSet | None = None,
        neighbours: int | None = None,
        epsilon: float | None = None,
        seed: int = 0,
    ) -> None:
        self.n_items = n_items
        self.function = function
        self.similarity = similarity
        self.gamma = gamma
        self.quality = quality
        self.constraint = constraint
        self.neighbours = neighbours
        self.epsilon = epsilon
        self.seed = seed

    def fit(self, X: Any, y: object = None, *, quality: ArrayLike | None = None) -> "ItemSelector":
        """Chooses rows of X, shape (n, r); returns the selector. ``quality`` counts instead of the parameter.

        Raises
        ------
        ValueError
            For an unknown function or similarity, or an X that is not finite, square or non-negative as asked for.
        """
        quality = self.quality if quality is None else quality
        self._require_options(quality)
        coarse = X.dtype if rounding_of(X) > 0.0 else np.float64
        X = self._checked(X, fitting=True)
        if self.similarity == "precomputed" and self.function != "max-coverage" and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be a square matrix of similarities, got shape {X.shape}")
        k = min(as_count(self.n_items, "n_items", lower=1), X.shape[0])
        if self.function == "dpp":
            kernel = (
                {"L": X.astype(coarse, copy=False)}
                if self.similarity == "precomputed"
                else self._features(X) | {"quality": quality}
            )
            solution = map_dpp(constraint=self.constraint, size=k, **kernel)
            found: MapSolution | GreedySet = solution
            self.ranking_ = solution.order
        else:
            found = greedy(self._set_function(X), self.constraint, size=k, epsilon=self.epsilon, seed=self.seed)
            self.ranking_ = found.items
        self.gains_, self.value_, self.message_ = found.gains, found.value, found.message
        self._found, self._n_rows = found, X.shape[0]
        return self

    def _require_options(self, quality):
        """Raise ValueError for options that do not go together."""
        one_of(self.function, "function", FUNCTIONS)
        one_of(self.similarity, "similarity", (*SIMILARITIES, "precomputed"))
        if self.gamma is not None and (self.similarity != "rbf" or self.function == "max-coverage"):
            raise ValueError(f"gamma goes with similarity='rbf', not with {self.similarity!r} for {self.function}")
        if quality is not None and (self.function != "dpp" or self.similarity == "precomputed"):
            raise ValueError(f"quality goes with the features of dpp, not with {self.similarity!r} for {self.function}")
        if self.epsilon is not None and self.function == "dpp":
            raise ValueError("epsilon goes with facility-location and max-coverage, not with dpp")
        if self.neighbours is not None and (self.function, self.similarity) != ("facility-location", "cosine"):
            raise ValueError(
                f"neighbours goes with facility-location of cosines, not with {self.similarity!r} for {self.function}"
            )
        as_seed(self.seed)

    @property
    def bound_(self) -> float:
        """A proven upper bound on the value of every choice that was allowed; computed when it is first read."""
        if not hasattr(self, "_found"):
            raise AttributeError("bound_ is there after fit(X)")
        return self._found.upper_bound

    def transform(self, X: Any) -> Any:
        """The chosen rows of X, in the order of choice; those of a data frame as one.

        Raises
        ------
        ValueError
            If X has not as many rows and columns as that of `fit`, or nothing has been fitted.
        """
        self._require_fitted()
        checked = self._checked(X, fitting=False)
        if checked.shape[0] != self._n_rows:
            raise ValueError(f"X has {checked.shape[0]} rows, but the choice is among {self._n_rows}")
        if hasattr(X, "iloc"):
            return X.iloc[self.ranking_]
        chosen = checked[self.ranking_]
        if self._container() != "pandas":
            return chosen
        if scipy.sparse.issparse(chosen):
            raise ValueError("a pandas frame cannot hold sparse rows: pass X.toarray(), or set_output('default')")
        import pandas

        return pandas.DataFrame(chosen, columns=self.get_feature_names_out())

    def set_output(self, *, transform: Literal["default", "pandas"] | None = None) -> "ItemSelector":
        """Whether `transform` makes data frames of arrays too; returns the selector. Frames always give frames."""
        if transform is not None:
            self._sklearn_output_config = {"transform": one_of(transform, "transform", ("default", "pandas"))}
        return self

    def _container(self):
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        if own is None and importlib.util.find_spec("sklearn") is not None:
            from sklearn import get_config

            own = get_config()["transform_output"]
        return own

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """The names of the columns, which stay: of the frame that was fitted, else x0, x1, ..

        Raises
        ------
        ValueError
            For other names than those fitted, or another number of them; or if nothing has been fitted.
        """
        self._require_fitted()
        own = getattr(self, "feature_names_in_", None)
        names = own if input_features is None else np.asarray(input_features, dtype=object)
        if names is None:
            names = np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        if own is not None and not np.array_equal(names, own):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise ValueError(f"input_features should have length equal to number of features ({self.n_features_in_})")
        return names

    def _require_fitted(self):
        if not hasattr(self, "ranking_"):
            raise _not_fitted(f"this {type(self).__name__} is not fitted yet: call fit(X) first")

    def fit_transform(self, X: Any, y: object = None) -> Any:
        """`fit`, then `transform`."""
        return self.fit(X, y).transform(X)

    def _features(self, X):
        """The arguments of `as_features`. A row of zeros has the cosine 0 with every row, itself too."""
        if self.similarity != "cosine":
            return {"features": X, "similarity": self.similarity, "gamma": self.gamma}
        X, norms = with_norms(X)
        if norms.all():
            return {"features": X, "similarity": "cosine"}
        scale = np.divide(1.0, norms, out=np.zeros(norms.size), where=norms > 0.0)
        features = scipy.sparse.diags_array(scale) @ X if scipy.sparse.issparse(X) else X * scale[:, None]
        return {"features": features, "similarity": "inner"}

    def _set_function(self, X):
        if self.function == "max-coverage":
            smallest = X.min()
            if smallest < 0.0:
                raise ValueError(
                    f"Negative values in data: X has the entry {smallest:g}, and max-coverage needs X >= 0"
                )
            return Multilinear.facility_location(X)
        if self.similarity == "precomputed":
            return Multilinear.facility_location(np.maximum(as_full(X, "X"), 0.0))
        if self.neighbours is not None:
            return Multilinear.facility_location(features=X, neighbours=self.neighbours)
        kernel = as_features(**self._features(X))
        items = np.arange(kernel.n)
        similarities = np.maximum(kernel.block(items, items), 0.0)
        if self.similarity == "cosine":  # sums are exact then, and ties broken alike whatever the units of the rows
            similarities = np.rint(similarities / _COSINE_UNIT) * _COSINE_UNIT
        return Multilinear.facility_location(similarities)

    def _checked(self, X, fitting):
        if importlib.util.find_spec("sklearn") is not None:
            from sklearn.utils.validation import validate_data

            return validate_data(self, X, reset=fitting, accept_sparse="csr", dtype=np.float64)
        X = as_sparse(X, "X") if scipy.sparse.issparse(X) else as_array(X, "X", 2)
        if fitting:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but {self.n_features_in_} were fitted")
        return X

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in _parameter_names(type(self))}

    def set_params(self, **params: object) -> "ItemSelector":
        """Sets parameters by name; returns the selector.

        Raises
        ------
        ValueError
            For a name that is no parameter.
        """
        for name, value in params.items():
            if name not in _parameter_names(type(self)):
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if v is not defaults[k].default]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ranking_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(
                sparse=True, pairwise=self.similarity == "precomputed", positive_only=self.function == "max-coverage"
            ),
        )


def _parameter_names(cls):
    return list(inspect.signature(cls).parameters)


def _not_fitted(message):
    if importlib.util.find_spec("sklearn") is None:
        return ValueError(message)
    from sklearn.exceptions import NotFittedError

    return NotFittedError(message)
