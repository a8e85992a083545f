"""Matched summarization of two speakers' statements (Gillenwater et al. 2012; Bian et al. 2017).

For two candidates of the 2012 Republican debates, pairs of statements, one of each, are to be chosen that
match well and differ from one another. Statements become unit vectors of word counts (English stop words, words in
more than a tenth of the statements, and statements shorter than half the mean length left out). An item is a statement
with the one of the other candidate that is closest by cosine, both ways round, duplicates removed; its feature
is the normalised sum of the two vectors, its match m the cosine, rescaled to [0, 1] over the items of the task.
With S the cosines of the features and q = exp(strength m / 2) the kernel is L = diag(q) S diag(q), the objective its
softmax extension. Each candidate's statements are clustered by k-means (on unit vectors, so by cosine) into
ceil(2 sqrt(count)) topics; at most one item for each topic on each side is allowed: a matching polytope.

What comes out of eight debates (the paper had twenty), 28 tasks of 67 to 199 items, 100 iterations, mean over the
tasks:

- The two-phase method has the largest softmax value at every strength. The other two change places between
  strengths 0.3 and 0.4: the steps 1/k of projected gradient do not scale with f and are too short where
  gradients are small; the non-monotone variant cannot raise an entry above u (1 - 1/e).
- Rounded, all three give sets of nearly the same value. They beat the greedy choice by 0.2 in log det at strength
  1 and draw level with it at strength 0.1, where single swaps even out what differences there are.
  `drsub_fast.discrete.map_dpp` says for which constraints the continuous method pays.
"""

import csv
import gzip
import importlib.util
import json
import math
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsub_fast.discrete.greedy import greedy_map
from drsub_fast.discrete.rounding import round_solution
from drsub_fast.engine.interrupts import result_of, submit
from drsub_fast.engine.threads import one_blas_thread, worker_count
from drsub_fast.errors import needing
from drsub_fast.experiments.synthetic import PAPER_METHODS
from drsub_fast.methods import maximize
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.sets.matching import MatchingPolytope

#: The weights lambda of the match that the paper varies.
STRENGTHS = tuple(round(0.1 * k, 1) for k in range(1, 11))

#: The candidates whose trajectories the paper shows.
_SHOWN = ("BACHMANN", "ROMNEY")

#: Words in more than this part of the statements are left out.
_MOST_FREQUENT = 0.1


class Statement(NamedTuple):
    """Something that somebody said."""

    speaker: str
    date: str
    text: str


def read_statements(path: str | Path) -> list[Statement]:
    """Statements from a file of JSON lines with ``speaker``, ``date`` and ``text``, gzipped if its name ends so.

    ValueError for a line that is not such a record.
    """
    path = Path(path)
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        return [_statement(line, f"{path.name}, line {number}") for number, line in enumerate(lines, 1)]


def _statement(line, place):
    try:
        record = json.loads(line)
        return Statement(*(str(record[name]) for name in Statement._fields))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{place}: no record with speaker, date and text ({error!r})") from None


@dataclass(frozen=True)
class MatchedTask:
    """The choice of matched pairs of statements for two speakers; one item a pair.

    Attributes
    ----------
    left, right : str
        The speakers.
    pairs : list of (Statement, Statement)
        The items.
    similarity : ndarray, shape (n, n)
        Cosines of the items' features.
    match : ndarray, shape (n,)
        How well the statements of a pair match, from 0 to 1.
    constraint : MatchingPolytope
        At most one item for each topic of each speaker.
    """

    left: str
    right: str
    pairs: list[Any] = field(repr=False)
    similarity: NDArray[np.float64] = field(repr=False)
    match: NDArray[np.float64] = field(repr=False)
    constraint: MatchingPolytope

    def objective(self, strength: float) -> Softmax:
        """The softmax extension for a weight of the match, at least 0."""
        quality = np.exp(0.5 * strength * self.match)
        return Softmax(quality[:, None] * self.similarity * quality)


def matched_tasks(statements: Iterable[Statement], seed: int = 0) -> list[MatchedTask]:
    """A `MatchedTask` for each pair of speakers, in alphabetic order; ``seed`` is that of k-means.

    ValueError for statements of fewer than two speakers.
    """
    with needing("statements are read with scikit-learn", "data"):
        from sklearn.cluster import KMeans
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import normalize
    lengths = np.array([len(statement.text.split()) for statement in statements])
    statements = [s for s, length in zip(statements, lengths, strict=True) if length >= lengths.mean() / 2]
    counts = CountVectorizer(stop_words="english", max_df=_MOST_FREQUENT).fit_transform([s.text for s in statements])
    usable = np.flatnonzero(counts.getnnz(axis=1))
    vectors, statements = normalize(counts[usable]), [statements[i] for i in usable]
    speakers = sorted({s.speaker for s in statements})
    if len(speakers) < 2:
        raise ValueError(f"statements of two speakers are needed, these are of {speakers}")
    sides = {}
    for speaker in speakers:
        own = [i for i, s in enumerate(statements) if s.speaker == speaker]
        n_topics = min(len(own), math.ceil(2.0 * math.sqrt(len(own))))
        topics = KMeans(n_topics, n_init=10, random_state=seed).fit_predict(vectors[own].toarray())
        sides[speaker] = [statements[i] for i in own], vectors[own], topics.astype(np.int64), n_topics
    return [_task(a, b, sides[a], sides[b], normalize) for a, b in combinations(speakers, 2)]


def _task(left, right, left_side, right_side, normalize):
    (said_left, V, topics_left, n_left), (said_right, W, topics_right, n_right) = left_side, right_side
    cosines = (V @ W.T).toarray()
    forth = zip(range(len(cosines)), cosines.argmax(axis=1), strict=True)
    back = zip(cosines.argmax(axis=0), range(cosines.shape[1]), strict=True)
    i, j = np.array(sorted({*forth, *back})).T
    features = normalize(V[i] + W[j])
    score = cosines[i, j]
    span = np.ptp(score)
    return MatchedTask(
        left, right, [(said_left[a], said_right[b]) for a, b in zip(i, j, strict=True)],
        (features @ features.T).toarray(), (score - score.min()) / (span if span > 0.0 else 1.0),
        MatchingPolytope(np.column_stack([topics_left[i], topics_right[j]]), n_left, n_right),
    )  # fmt: skip


class SummaryRow(NamedTuple):
    """One method on one task.

    Attributes
    ----------
    left, right : str
        The speakers.
    n : int
        Number of items.
    strength : float
        Weight of the match.
    method : str
        A name in `METHODS`.
    value, fw_gap, upper_bound : float
        Of the softmax extension: its value, the gap, and the bound that the method proves.
    seconds : float
        Time of the method.
    rounded, greedy : float
        log det of the set rounded from its point, and of the greedy choice.
    """

    left: str
    right: str
    n: int
    strength: float
    method: str
    value: float
    fw_gap: float
    upper_bound: float
    seconds: float
    rounded: float
    greedy: float


def run_task(task: "MatchedTask", strength: float, methods: dict[str, Any] = PAPER_METHODS) -> list[SummaryRow]:
    """A `SummaryRow` for each method; ``methods`` has options of `maximize` by the name of the method."""
    f, P = task.objective(strength), task.constraint
    greedy = greedy_map(f.L, P).value
    rows = []
    for method, options in methods.items():
        r = maximize(f, P, **({"method": method, "bound": "cheap"} | options))
        rounded = round_solution(f, P, r.x).value
        rows.append(
            SummaryRow(task.left, task.right, f.n, strength, method, r.value, r.fw_gap, r.upper_bound, r.time,
                       rounded, greedy)
        )  # fmt: skip
    return rows


def run_tasks(
    tasks: Sequence[MatchedTask],
    strengths: Sequence[float] = STRENGTHS,
    methods: dict[str, Any] = PAPER_METHODS,
    n_jobs: int | None = None,
) -> Generator[list[SummaryRow], None, None]:
    """Runs all tasks at all strengths, in threads; yields the rows of one task at one strength, in order."""
    jobs = [(task, strength) for strength in strengths for task in tasks]
    executor = ThreadPoolExecutor(worker_count(n_jobs))
    try:
        with one_blas_thread():
            for task in [submit(executor, run_task, *job, methods) for job in jobs]:
                yield result_of(task)
    finally:
        executor.shutdown(cancel_futures=True)


def trajectories(
    task: MatchedTask, strength: float, methods: dict[str, Any] = PAPER_METHODS
) -> dict[str, NDArray[np.float64]]:
    """Value at every iterate of each method, ``{method: ndarray}``; of the phase that a two-phase method returns."""
    f = task.objective(strength)
    return {
        method: maximize(f, task.constraint, **({"method": method} | options)).trace.value
        for method, options in methods.items()
    }


def mean_over_tasks(
    rows: Sequence[SummaryRow], score: Callable[[SummaryRow], float]
) -> dict[str, tuple[list[float], list[float], list[float]]]:
    """``{method: (strengths, means, standard errors)}`` of ``score(row)``, the methods in the order of the rows."""
    scores: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        scores.setdefault(row.method, {}).setdefault(row.strength, []).append(score(row))
    curves = {}
    for method, curve in scores.items():
        strengths = sorted(curve)
        errors = [float(np.std(curve[s]) / math.sqrt(max(1, len(curve[s]) - 1))) for s in strengths]
        curves[method] = strengths, [float(np.mean(curve[s])) for s in strengths], errors
    return curves


def format_summary(rows: Sequence[SummaryRow]) -> str:
    """The rows as a table: mean softmax value, mean log ratio to greedy and seconds for each method and strength."""
    strengths = sorted({row.strength for row in rows})
    n_tasks = len({(row.left, row.right) for row in rows})
    lines = [f"matched summarization: mean over {n_tasks} pairs of speakers"]
    for title, score, digits in (
        ("softmax value", lambda row: row.value, 3),
        ("log det of the rounded set over greedy's", lambda row: row.rounded - row.greedy, 3),
        ("milliseconds", lambda row: 1e3 * row.seconds, 1),
    ):
        lines += ["", f"  {title:42}" + "".join(f"{strength:>8g}" for strength in strengths)]
        for method, (_, means, _) in mean_over_tasks(rows, score).items():
            lines.append(f"  {method:42}" + "".join(f"{mean:>8.{digits}f}" for mean in means))
    return "\n".join(lines)


def reproduce(
    path: str | Path,
    folder: str | Path,
    strengths: Sequence[float] = STRENGTHS,
    methods: dict[str, Any] = PAPER_METHODS,
    n_jobs: int | None = None,
) -> tuple[str, list[Path]]:
    """The whole experiment, on the statements in a file: tables of means, and the paths of the files in the folder.

    These are ``debates.csv`` and, with matplotlib, ``debates.png`` and ``debates.pdf``.
    """
    tasks = matched_tasks(read_statements(path))
    run_task(tasks[0], strengths[0], methods)  # compiles the kernels, so that the times are those of the methods
    began = time.perf_counter()
    rows = [row for new in run_tasks(tasks, strengths, methods, n_jobs) for row in new]
    seconds = time.perf_counter() - began
    paths = [Path(folder) / "debates.csv"]
    with paths[0].open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([SummaryRow._fields, *rows])
    if importlib.util.find_spec("matplotlib") is not None:
        from drsub_fast.experiments.debates_figures import draw_summaries
        from drsub_fast.experiments.synthetic_figures import save_figure

        shown = next((task for task in tasks if (task.left, task.right) == _SHOWN), tasks[0])
        strength = strengths[(len(strengths) - 1) // 2]
        title = rf"{shown.left.title()}, {shown.right.title()}, $\lambda$ = {strength:g}"
        values = mean_over_tasks(rows, lambda row: row.value)
        ratios = mean_over_tasks(rows, lambda row: row.rounded - row.greedy)
        curves = trajectories(shown, strength, methods)
        paths += save_figure(draw_summaries(values, ratios, len(tasks), curves, title), Path(folder), "debates")
    return f"{format_summary(rows)}\n\n  {len(rows)} runs in {seconds:.1f} s", paths
