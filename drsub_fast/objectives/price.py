"""Price optimisation: profit (p - cost)'q(p) with linear demand q(p) = base + E p.

E_ii < 0 is the effect of a good's own price, E_ij that of the price of good j on the demand for good i. The
Hessian in p is E + E', so the profit is

    submodular    where E_ij + E_ji <= 0 for i != j: complements;
    DR            where E_ii <= 0 as well, which holds for ordinary goods;
    supermodular  where E_ij + E_ji >= 0: substitutes (Ito and Fujimaki 2016).

With variables x = signs (p - start), signs in {+1, -1}^n, x_i is the rise (+1) or the discount (-1) on good i from its
price at the start, and the condition becomes signs_i signs_j (E_ij + E_ji) <= 0: goods may be substitutes
where one has a rise and the other a discount.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_square, as_vector
from drsub_fast._kinds import OBJECTIVES, array, register_kind
from drsub_fast.objectives.quadratic import Quadratic


class PriceOptimization(Quadratic):
    """Profit of prices p = start + signs * x under linear demand base + effects @ p.

    Parameters
    ----------
    base : array_like, shape (n,)
        Demand at zero prices.
    effects : array_like, shape (n, n)
        Entry (i, j): change of the demand for good i per unit of the price of good j.
    cost : array_like, shape (n,), optional
        Cost of a unit of each good (default 0).
    start : array_like, shape (n,), optional
        Prices at x = 0 (default 0).
    signs : array_like, shape (n,), optional
        +1 where x_i raises the price, -1 where it is a discount (default +1).

    Raises
    ------
    ValueError
        For a pair of goods whose cross effects have the wrong sign, or a good whose own price raises its
        demand.

    Notes
    -----
    Ito and Fujimaki, "Large-scale price optimization via network flow", 2016; Bian et al. 2017.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.PriceOptimization([10.0, 8.0], [[-2.0, -0.5], [-0.5, -1.0]], cost=[1.0, 1.0])
    >>> f.value([2.0, 3.0])
    12.5
    >>> f.demand([2.0, 3.0])
    array([4.5, 4. ])
    """

    base: NDArray[np.float64]
    cost: NDArray[np.float64]
    start: NDArray[np.float64]
    signs: NDArray[np.float64]

    def __init__(
        self,
        base: ArrayLike,
        effects: ArrayLike,
        cost: ArrayLike | None = None,
        start: ArrayLike | None = None,
        signs: ArrayLike | None = None,
    ) -> None:
        effects = as_square(effects, "effects")
        n = len(effects)
        self.base = as_vector(base, "base", n=n)
        self.effects = effects
        self.cost = np.zeros(n) if cost is None else as_vector(cost, "cost", n=n)
        self.start = np.zeros(n) if start is None else as_vector(start, "start", n=n)
        self.signs = np.ones(n) if signs is None else as_vector(signs, "signs", n=n)
        odd = np.flatnonzero(np.abs(self.signs) != 1.0)
        if odd.size:
            raise ValueError(f"signs[{odd[0]}] = {self.signs[odd[0]]:g}: every sign is +1 or -1")
        with np.errstate(over="ignore", invalid="ignore"):
            H = np.outer(self.signs, self.signs) * (effects + effects.T)
            demand, margin = self.base + effects @ self.start, self.start - self.cost
            h, c = self.signs * (demand + effects.T @ margin), float(margin @ demand)
        _require_dr(H, effects, self.signs)
        super().__init__(H, h, c)

    def __repr__(self) -> str:
        return f"PriceOptimization(n={self.n})"

    def prices(self, x: ArrayLike) -> NDArray[np.float64]:
        """Prices at x, shape (n,)."""
        return self.start + self.signs * as_vector(x, "x", n=self.n)

    def demand(self, x: ArrayLike) -> NDArray[np.float64]:
        """Demand at x, shape (n,)."""
        return self.base + self.effects @ self.prices(x)


def _require_dr(H, effects, signs):
    """Raise ValueError naming the pair of goods whose effects make a positive entry of H."""
    i, j = (int(k) for k in np.unravel_index(int(H.argmax()), H.shape))
    if H[i, j] <= 0.0:
        return
    if i == j:
        raise ValueError(
            f"effects[{i}, {i}] = {effects[i, i]:g} is positive: demand would rise with the good's own price"
        )
    kind = "substitutes" if signs[i] * signs[j] > 0.0 else "complements"
    raise ValueError(
        f"goods {i} and {j} are {kind}: effects[{i}, {j}] + effects[{j}, {i}] = {effects[i, j] + effects[j, i]:g}, "
        f"so the profit is not DR-submodular with signs {signs[i]:+g} and {signs[j]:+g}"
    )


register_kind(
    OBJECTIVES, "price-optimization", PriceOptimization, base=array("n"), effects=array("n n"), cost=array("n"),
    start=array("n"), signs=array("n"), about="profit of prices of complements",
    example=lambda n: {"base": np.full(n, 2.0), "effects": -0.7 * np.ones((n, n)) - np.diag(0.5 + 0.4 * np.arange(n))},
)  # fmt: skip
