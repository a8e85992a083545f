"""A region and a function together, with the truths that claims are judged by."""

import itertools

import numpy as np

from . import functions, polyhedra, regions


class Place:
    """f over P, and what is known of it by enumeration.

    Attributes
    ----------
    best, best_y : float and ndarray
        The largest value that is known here, and where; for quadratics over finitely many rows the maximum.
    best_size : float
        The size of f's terms, of which rounding is a part.
    """

    def __init__(self, rng, region, function):
        if function.f.unit_box and function.f.n == region.n:
            region = region.inside(np.ones(region.n))
        self.region, self.function = region, function
        self.f, self.P, self.n = function.f, region.P, region.n
        # An example may have a size of its own.
        self.is_empty = self.f.n != self.n or bool((region.lower > region.upper).any())
        if self.is_empty:
            return
        self.shape = polyhedra.Shape(region, rng) if self._has_points(region) else None
        self.is_empty = self.shape is None
        if self.is_empty:
            return
        with np.errstate(all="ignore"):
            self._look(rng)

    @staticmethod
    def _has_points(region):
        return region.by_example or np.isfinite(region.radius) or len(polyhedra.vertices(region)) > 0

    def _look(self, rng):
        region, function, points = self.region, self.function, self.shape.points
        values = function.value(points)
        sizes = function.size(points)
        # A value that rounding could have made is none.
        values = np.where(sizes < 1e7 * (1.0 + np.abs(values)), values, -np.inf) if function.is_far else values
        values = np.where(np.isnan(values), -np.inf, values)
        k = int(values.argmax())
        self.best, self.best_y, self.best_size = float(values[k]), points[k], float(sizes[k])
        if function.quadratic is not None and not self.shape.is_curved and not region.by_example:
            H, h, c = function.quadratic
            unit = max(np.abs(H).max(initial=0.0), np.abs(h).max(initial=0.0), 1e-300)
            most, y = polyhedra.best_of_quadratic(H / unit, h / unit, region)
            if y is not None and unit * most + c > self.best:
                self.best, self.best_y = float(unit * most + c), y
        low, high = region.lower, np.minimum(region.upper, region.radius)
        if not function.is_far:
            sizes = function.size(np.array(list(itertools.product(*zip(low, high, strict=True)))))
            self.best_size = max(self.best_size, float(sizes.max()))
        # The box around the set, inside the box of the bounds that were given.
        if not self.shape.is_curved:
            low, high = np.maximum(low, self.shape.vertices.min(0)), np.minimum(high, self.shape.vertices.max(0))
        low = np.minimum(low, 0.0) if (region.lower <= 0.0).all() else low
        corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
        box = np.vstack([corners, low + (high - low) * rng.random((40, self.n))])
        self.box_values = function.value(box)
        try:
            slopes = function.gradient(box)
        except np.linalg.LinAlgError:
            slopes = np.full(box.shape, np.nan)
        slopes, self.box_values = slopes[np.isfinite(slopes).all(-1)], self.box_values[np.isfinite(self.box_values)]
        self.least_slope = float(slopes[:, high > low].min(initial=0.0))
        self.slope_size = float(np.abs(slopes).max(initial=0.0)) or 1e-300
        reach = np.maximum(np.abs(region.lower), region.upper)
        self.is_known_not_dr = False
        spread = np.ptp(self.box_values) if self.box_values.size else 0.0
        self.curvature, self.proof_size = 50.0 * float(spread), 1.0
        if function.quadratic is not None:
            H, h, _ = function.quadratic
            free = high > low
            self.is_known_not_dr = bool((H[np.ix_(free, free)] > 0.0).any())
            self.curvature = float(np.linalg.norm(H, 2) * (reach @ reach))
            self.proof_size = float(max((np.abs(H) * np.outer(reach, reach)).max(), (np.abs(h) * reach).max()))

    @property
    def words(self):
        """Objective and set by name."""
        return f"{self.function.kind} over {self.region.kind}"


#: Objectives of variables in any units, and those that live on [0, 1]^n.
_ANY_UNITS = (
    "quadratic",
    "quadratic of any sign",
    "spectral",
    "nonnegative-pca",
    "price-optimization",
    "stability-number",
)
_UNIT_BOX = ("softmax", "multilinear", "mean-field")


def random_place(rng, n, kinds=None, sets=None):
    """A `Place` of n variables; all objectives and sets that are registered take part."""
    known = functions.every_function()
    kinds, sets = kinds or tuple(known), sets or tuple(regions.every_region())
    kind = kinds[int(rng.integers(len(kinds)))]
    span = int(rng.choice([0, 3, 8])) if kind in _ANY_UNITS else 0
    region = regions.random_region(rng, n, span, sets)
    if kind in _UNIT_BOX and (region.lower < 0.0).any():
        region = regions.random_region(rng, n, span, tuple(name for name in sets if name != "general-polytope"))
    return Place(rng, region, known[kind](rng, region))
