"""Choosing k diverse items: value against time by size, and what is chosen of a data set that scikit-learn ships.

Items are random feature vectors with lognormal qualities, L = diag(q) S diag(q), S the cosines. The ways to a set are
greedy in plain numpy over all items (Chen, Zhang, Zhou 2018), `greedy_map`, which looks at the items that can still be
chosen, `map_dpp`, and two-phase Frank-Wolfe with rounding and single moves, up to a number of items.
"""

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast._checks import as_count
from drsub_fast.batch.choices import greedy_map_stacked
from drsub_fast.discrete.greedy import greedy_map
from drsub_fast.discrete.map_dpp import map_dpp
from drsub_fast.engine.jit import compiling
from drsub_fast.errors import needing
from drsub_fast.experiments.peers import CHOICE, installed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Sizes of the random problems, their features and the items to choose.
SIZES, RANK, CHOSEN = (1000, 3000, 10_000, 30_000, 100_000), 64, 20
#: Largest n for which the continuous method is run.
CONTINUOUS_UP_TO = 3000


class Race(NamedTuple):
    """One way to a set of items of one size."""

    n: int
    name: str
    value: float
    bound: float
    seconds: float


def random_items(n: int, rank: int = RANK, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Unit feature vectors, shape (n, rank), and lognormal qualities, shape (n,)."""
    rng = np.random.default_rng([n, seed])
    features = rng.standard_normal((n, rank))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, 2.0 * np.exp(0.3 * rng.standard_normal(n))


def plain_greedy(features: NDArray[np.float64], quality: NDArray[np.float64], k: int) -> float:
    """Greedy choice of k items in numpy, every gain brought up to date at every step; log det of the set."""
    return plain_choice(features, quality, k)[1]


def plain_choice(features: NDArray[np.float64], quality: NDArray[np.float64], k: int) -> tuple[list[int], float]:
    """The items of `plain_greedy` in their order, and log det of the set."""
    B = quality[:, None] * features
    squared, C, items, value = np.einsum("ij,ij->i", B, B), np.zeros((k, len(B))), [], 0.0
    for t in range(k):
        j = int(squared.argmax())
        items.append(j)
        value += np.log(squared[j])
        C[t] = (B @ B[j] - C[:t, j] @ C[:t]) / np.sqrt(squared[j])
        squared -= C[t] ** 2
        squared[items] = -np.inf
    return items, float(value)


def service_ways(n: int, rank: int, k: int, users: int) -> dict[str, Callable[[], Any]]:
    """Ways to k of n items for each of some users: numpy, others that are installed, ours one by one and as a stack.

    Each returns the items of all users.
    """
    drawn = [random_items(n, rank, seed) for seed in range(users)]
    features, quality = np.array([V for V, _ in drawn]), np.array([q for _, q in drawn])
    rivals = {peer.name: [peer.make(V, q, k) for V, q in drawn] for peer in installed(CHOICE)}
    return {
        "numpy's greedy": lambda: [plain_choice(V, q, k)[0] for V, q in drawn],
        **{name: partial(lambda calls: [call() for call in calls], calls) for name, calls in rivals.items()},
        "greedy_map": lambda: [greedy_map(features=V, quality=q, size=k).items.tolist() for V, q in drawn],
        "greedy_map_stacked": lambda: greedy_map_stacked(
            features=features, quality=quality, size=k, n_jobs=1
        ).items.tolist(),
    }


def races(sizes: Iterable[int] = SIZES, k: int = CHOSEN, continuous_up_to: int = CONTINUOUS_UP_TO) -> Iterator[Any]:
    """All ways to k random items of every size; two-phase Frank-Wolfe up to some n only."""
    k = as_count(k, "k", lower=1)
    for n in sizes:
        features, quality = random_items(n)
        given: dict[str, Any] = {"features": features, "quality": quality, "size": k}
        ways = {
            "greedy, plain numpy": lambda: (plain_greedy(features, quality, k), np.nan),
            "greedy_map, lazy": lambda: _worth(greedy_map(**given)),
            "map_dpp": lambda: _worth(map_dpp(**given)),
        }
        if n <= continuous_up_to:
            ways["two-phase Frank-Wolfe"] = lambda: _worth(map_dpp(**given, method="two-phase-frank-wolfe"))
        for name, run in ways.items():
            began = time.process_time()
            value, bound = run()
            yield Race(n, name, value, bound, time.process_time() - began)


def _worth(found):
    return found.value, found.upper_bound


def format_races(rows: Iterable[Race]) -> str:
    """A table of the races."""
    lines = [f"{'':26}{'n':>10}{'log det':>12}{'bound':>12}{'ms':>12}"]
    lines += [f"{row.name:26}{row.n:10}{row.value:12.4f}{row.bound:12.3f}{1e3 * row.seconds:12.1f}" for row in rows]
    return "\n".join(lines)


def draw_races(rows: Iterable[Race]) -> "Figure":
    """Figure: processor time by n, and log det less that of plain greedy against time. Needs matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(row.name for row in rows))
    plain = {row.n: row.value for row in rows if row.name == names[0]}
    for name, marker in zip(names, "ods^", strict=False):
        own = [row for row in rows if row.name == name]
        seconds = [row.seconds for row in own]
        left.loglog([row.n for row in own], seconds, marker=marker, markersize=5, linewidth=1.2, label=name)
        right.semilogx(
            seconds, [row.value - plain[row.n] for row in own], marker=marker, markersize=5, linewidth=0.0, label=name
        )
    left.set_xlabel("Items")
    left.set_ylabel("Processor seconds")
    right.set_xlabel("Processor seconds")
    right.set_ylabel("log det over plain greedy")
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_chosen(X: NDArray[np.float64], choices: dict[str, Any], names: Sequence[str]) -> "Figure":
    """Figure: the first two principal components of X, shape (n, r), a panel for each choice of items, by its title.

    ``names`` are the labels of the axes. Needs matplotlib.
    """
    from matplotlib.figure import Figure

    centred = X - X.mean(axis=0)
    plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    figure = Figure(figsize=(3.0 * len(choices), 3.0), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(choices), sharex=True, sharey=True))
    for axis, (title, items) in zip(axes, choices.items(), strict=True):
        axis.plot(*plane.T, ".", color="0.8", markersize=3)
        axis.plot(*plane[items].T, "o", color="C3", markersize=5)
        axis.set_title(title, fontsize="medium")
        axis.set_xlabel(names[0])
    axes[0].set_ylabel(names[1])
    return figure


def wine_choices(k: int = 12) -> tuple[NDArray[np.float64], dict[str, NDArray[np.int64]]]:
    """(X, choices): scikit-learn's 178 wines, standardised, and k of them chosen in three ways."""
    with needing("the wines come with scikit-learn", "data"):
        from sklearn.datasets import load_wine
    X = load_wine().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    typical = np.exp(-0.5 * np.linalg.norm(X, axis=1) / np.sqrt(X.shape[1]))
    return X, {
        "at random": np.random.default_rng(0).choice(len(X), k, replace=False),
        "diverse (rbf)": map_dpp(features=X, similarity="rbf", size=k).items,
        "diverse and typical": map_dpp(features=X, similarity="rbf", quality=typical, size=k).items,
    }


def reproduce(folder: str | Path, quick: bool = False) -> tuple[str, list[Path]]:
    """The whole experiment: a table of the races and, with matplotlib, ``choices.png`` and ``choices-wine.png``.

    ``quick`` stops at n = 10,000, without the continuous method.
    """
    sizes = [n for n in SIZES if n <= 10_000] if quick else SIZES
    if not quick:  # kernels are compiled on the smallest problem, so that the times are those of the methods
        with compiling():
            list(races(sizes[:1]))
    rows = list(races(sizes, continuous_up_to=0 if quick else CONTINUOUS_UP_TO))
    paths = []
    if importlib.util.find_spec("matplotlib") is not None:
        paths = [Path(folder) / "choices.png", Path(folder) / "choices-wine.png"]
        draw_races(rows).savefig(paths[0], dpi=110)
        X, choices = wine_choices()
        draw_chosen(X, choices, ("first principal component", "second")).savefig(paths[1], dpi=110)
    return format_races(rows), paths
