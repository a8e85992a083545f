"""Diverse recommendation: k of scikit-learn's 1797 images of digits, typical ones that differ from one another.

The features of an image are its 64 pixels, less the mean image; its quality is q = exp(strength c / 2), c the
probability that a logistic regression, cross-validated, gives to its true class. The kernel diag(q) S diag(q), S the
cosines, has rank 61 and is kept as its factor. Constraint: k images in all, or k / 10 of each digit.

Greedy is the method to take for a number of images, with single moves: 73.64 in log det for 20 images (71.89 without),
no set being above 77.4. For 2 of each digit greedy with moves has 72.65 (71.24 without); the two-phase method, rounded
and moved, has 72.79 at a hundred times the time, no set being above 76.8. The softmax extension is loose for a kernel
of low rank: its maximum spreads the 20 over some 200 images and has the value 104.
"""

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast._checks import as_count, as_real
from drsub_fast.discrete.map_dpp import MapSolution, map_dpp
from drsub_fast.errors import needing
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.sets.base import FeasibleSet
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.partition import PartitionMatroid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How a set is chosen, by name: the options of `map_dpp`.
CHOICES: dict[str, Any] = {
    "greedy": {"method": "greedy", "improve": False},
    "greedy, swaps": {"method": "greedy"},
    "two-phase Frank-Wolfe": {"method": "two-phase-frank-wolfe", "improve": False},
    "two-phase Frank-Wolfe, swaps": {"method": "two-phase-frank-wolfe"},
    "non-monotone Frank-Wolfe": {"method": "nonmonotone-frank-wolfe", "improve": False},
    "non-monotone Frank-Wolfe, swaps": {"method": "nonmonotone-frank-wolfe"},
}

#: The choices that the picture shows.
_SHOWN = ("greedy", "greedy, swaps", "two-phase Frank-Wolfe, swaps")

_N_CLASSES = 10


@dataclass(frozen=True)
class DigitItems:
    """The images to choose from.

    Attributes
    ----------
    images : ndarray, shape (n, 8, 8)
    labels : ndarray of int, shape (n,)
    confidence : ndarray, shape (n,)
        Probability of the true class.
    objective : Softmax
    """

    images: NDArray[Any] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    confidence: NDArray[np.float64] = field(repr=False)
    objective: Softmax


def digit_items(strength: float = 4.0) -> "DigitItems":
    """The images with their kernel; ``strength``, at least 0, is the weight of the confidence."""
    with needing("the images come with scikit-learn", "data"):
        from sklearn.datasets import load_digits
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_predict
    strength = as_real(strength, "strength", lower=0.0)
    digits = load_digits()
    classifier = LogisticRegression(max_iter=2000)
    chances = cross_val_predict(classifier, digits.data / 16.0, digits.target, cv=5, method="predict_proba")
    confidence = chances[np.arange(len(chances)), digits.target]
    features = digits.data - digits.data.mean(axis=0)
    objective = Softmax.from_features(features, np.exp(0.5 * strength * confidence))
    return DigitItems(digits.images, digits.target.astype(np.int64), confidence, objective)


def digit_constraints(items: DigitItems, k: int = 20) -> dict[str, FeasibleSet]:
    """k images in all, and k / 10 of each digit: ``{name: FeasibleSet}``; ValueError if 10 does not divide k."""
    k = as_count(k, "k", lower=1)
    if k % _N_CLASSES:
        raise ValueError(f"k = {k} cannot be shared out evenly among {_N_CLASSES} digits")
    return {
        f"{k} images": Budget(k, np.ones(len(items.labels))),
        f"{k // _N_CLASSES} of each digit": PartitionMatroid(items.labels, k // _N_CLASSES),
    }


class Choice(NamedTuple):
    """A set of images."""

    constraint: str
    name: str
    solution: MapSolution


def choose(
    items: "DigitItems", constraints: Mapping[str, FeasibleSet], choices: dict[str, Any] = CHOICES
) -> Iterator[Choice]:
    """Chooses images in every way (options of `map_dpp` by name) under every constraint of `digit_constraints`."""
    for constraint, P in constraints.items():
        for name, options in choices.items():
            yield Choice(constraint, name, map_dpp(items.objective, P, **options))


def format_choices(choices: Iterable[Choice]) -> str:
    """A table of the choices."""
    lines = [f"{'':34}{'log det':>10}{'softmax':>10}{'bound':>10}{'images':>8}{'ms':>10}"]
    constraint = None
    for choice in choices:
        if choice.constraint != constraint:
            constraint = choice.constraint
            lines += [constraint]
        s = choice.solution
        lines.append(
            f"  {choice.name:32}{s.value:10.4f}{s.fractional_value:10.4f}{s.upper_bound:10.3f}{s.items.size:8}"
            f"{1e3 * s.time:10.1f}"
        )
    return "\n".join(lines)


def draw_choices(items: DigitItems, choices: Sequence[Choice]) -> "Figure":
    """Picture of the digits chosen under one constraint, a row a choice, ordered by label.

    An image is framed where only one choice has it. Needs matplotlib (the ``plot`` extra).
    """
    from matplotlib.figure import Figure

    columns = max(choice.solution.items.size for choice in choices)
    figure = Figure(figsize=(0.45 * columns, 0.75 * len(choices)))
    times_chosen = np.bincount(np.concatenate([choice.solution.items for choice in choices]))
    for part, choice in zip(figure.subfigures(len(choices), squeeze=False)[:, 0], choices, strict=True):
        solution = choice.solution
        part.text(0.01, 0.8, f"{choice.constraint}, {choice.name}: log det {solution.value:.2f}", fontsize="small")
        part.subplots_adjust(left=0.01, right=0.99, bottom=0.05, top=0.72, wspace=0.1)
        axes = part.subplots(1, columns, squeeze=False)[0]
        for axis in axes[solution.items.size :]:
            axis.set_axis_off()
        for axis, i in zip(axes, solution.items[np.argsort(items.labels[solution.items], kind="stable")], strict=False):
            axis.imshow(items.images[i], cmap="gray_r", interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set(color="tab:red" if times_chosen[i] == 1 else "lightgray", linewidth=1.2)
    return figure


def reproduce(folder: str | Path, k: int = 20) -> tuple[str, list[Path]]:
    """The whole experiment: a table of the choices of k images and, with matplotlib, the paths of two pictures.

    ``digits-1.png`` and ``digits-2.png`` in the folder show the images chosen under either constraint.
    """
    items = digit_items()
    constraints = digit_constraints(items, k)
    # Kernels are compiled on a part of the images, so that the times are those of the methods.
    part = Softmax(factor=items.objective.params.B[:300])
    for options in CHOICES.values():
        map_dpp(part, 5, **options)
    choices = list(choose(items, constraints))
    paths = []
    if importlib.util.find_spec("matplotlib") is not None:
        for number, constraint in enumerate(constraints, 1):
            shown = [choice for choice in choices if choice.constraint == constraint and choice.name in _SHOWN]
            paths.append(Path(folder) / f"digits-{number}.png")
            draw_choices(items, shown).savefig(paths[-1], dpi=110)
    return format_choices(choices), paths
