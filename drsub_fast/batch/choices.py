"""Greedy choices for many users at once: arrays in, arrays out. `drsub_fast.discrete.choice` does the work."""

import json
import math
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_count, as_labels, as_numbers, as_real, entry, one_of
from drsub_fast._records import Record, as_html, as_text
from drsub_fast.batch.checkpoint import Checkpoint, identified
from drsub_fast.batch.pieces import HELD, PIECES, PIECES_OF_WORKER, SENT, Stack
from drsub_fast.batch.stack_run import Turns, logger, run_workers
from drsub_fast.batch.stacked_result import names_of
from drsub_fast.batch.workers import AHEAD, Here, Store, run_chunks, workers_of
from drsub_fast.discrete.choice import BAD, CODE, COUNT, INDEPENDENT, MATRIX, Choices, Users
from drsub_fast.discrete.few_items import EXACTLY, KINDS, NO_LABELS, NO_QUALITY, new_choices, run_choices
from drsub_fast.discrete.greedy import greedy_map, size_message
from drsub_fast.discrete.packing import as_packing
from drsub_fast.engine.interpreted import Interpreted
from drsub_fast.engine.threads import one_blas_thread, progress_bar, worker_count
from drsub_fast.objectives.similarity import SIMILARITIES, Similarity, rounding_of
from drsub_fast.result import Status, ran_as
from drsub_fast.sets.partition import PartitionMatroid


@dataclass(frozen=True, eq=False)
class StackedChoices(Record):
    """The items chosen for B users.

    Attributes
    ----------
    items : ndarray of int, shape (B, size)
        The items of each user in the order of choice, counted from 0 among that user's; -1 beyond ``counts``.
    counts : ndarray of int, shape (B,)
        How many were chosen.
    value : ndarray, shape (B,)
        log det of the kernel's block of these items; -inf where they are dependent, NaN where a user's data failed.
    status : ndarray of Status, shape (B,)
        COMPLETED, FAILED or INTERRUPTED.
    messages : dict of int to str
        What is to be said, by user: what is wrong with the data, that items are dependent, or that there were too few.
    time : float
        Wall-clock seconds.
    compiled : bool or None
        Whether compiled code chose, at the end at least; None where that is not known.

    Examples
    --------
    >>> import numpy as np, drsub_fast as ds
    >>> c = ds.greedy_map_stacked(np.array([np.diag([1.0, 3.0, 2.0]), np.eye(3)]), size=2)
    >>> c.items, c.counts, c.value.round(3)
    (array([[1, 2],
           [0, 1]]), array([2, 2]), array([1.792, 0.   ]))
    """

    items: NDArray[np.int64]
    counts: NDArray[np.int64]
    value: NDArray[np.float64]
    status: NDArray[Any] = field(repr=False)
    messages: dict[int, str]
    time: float
    compiled: bool | None = None

    def __len__(self) -> int:
        return len(self.value)

    def status_names(self) -> np.ndarray:
        """Name of the status of each user."""
        return names_of(self.status)

    def _table(self):
        names, solved = Counter(self.status_names().tolist()), self.value[np.isfinite(self.value)]
        rows = {
            "values": f"{solved.min():.6g} to {solved.max():.6g}, mean {solved.mean():.6g}" if solved.size else "none",
            "status": ", ".join(f"{count} {name}" for name, count in names.items()),
            "work": f"{self.time:.3g} s" + ran_as(self.compiled),
        }
        rows |= {f"user {i}": message.removeprefix(f"user {i}: ") for i, message in list(self.messages.items())[:5]}
        return f"{len(self)} users, up to {self.items.shape[1]} items each", rows

    def __str__(self) -> str:
        return as_text(*self._table())

    def _repr_html_(self) -> str:
        return as_html(*self._table())


class Settings(NamedTuple):
    """How items are chosen: the same for all users."""

    size: int
    similarity: Similarity
    gamma: float | None
    per_group: ArrayLike | None


def greedy_map_stacked(
    L: ArrayLike | None = None,
    *,
    features: ArrayLike | None = None,
    quality: ArrayLike | None = None,
    offsets: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    size: int,
    groups: ArrayLike | None = None,
    per_group: ArrayLike | None = None,
    similarity: Similarity = "cosine",
    gamma: float | None = None,
    executor: Executor | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = False,
) -> StackedChoices:
    """Greedy MAP inference for many users: the items of `greedy_map`, for each of them.

    Parameters
    ----------
    L : array_like, shape (B, n, n), optional
        Kernels: symmetric, positive semidefinite.
    features : array_like, shape (B, n, d) or (N, d), optional
        Instead of L: feature vectors of the candidates; with ``offsets`` those of all users one after the other.
    quality : array_like, shape (B, n) or (N,), optional
        Qualities of the candidates, at least 0; 1 by default.
    offsets : array_like of int, shape (B + 1,), optional
        The candidates of user b are the rows ``offsets[b]`` to ``offsets[b + 1] - 1``.
    lengths : array_like of int, shape (B,), optional
        User b has the first ``lengths[b]`` of the n candidates; the rest is not read.
    size : int
        Items for each user, at least 1; fewer where a user has fewer candidates, or the groups let no more in.
    groups : array_like of int, shape (B, n) or (N,), optional
        Group (category) of each candidate, from 0.
    per_group : int or array_like of int, shape (n_groups,), optional
        Most items of each group.
    similarity, gamma
        As in `greedy_map`. The default of ``gamma`` is that of each user's features.
    executor : concurrent.futures.Executor, optional
        Where pieces of the stack are done instead of in threads, as in `maximize_stacked`.
    n_jobs : int, optional
        Threads, or workers of ``executor`` where it does not tell; None or -1 for as many as there are processors.
    checkpoint : path, optional
        Folder that receives each finished piece. A run that finds one there goes on from it.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    StackedChoices
        A user whose data `greedy_map` refuses has the status FAILED, its message, and no items. Ctrl-C returns what
        is done; the status of the rest is INTERRUPTED.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not go together, shapes that do not fit, or an unknown similarity.
    CheckpointError
        If the checkpoint is that of other inputs, is damaged, or is in use by another run.

    Notes
    -----
    The answers are those of `greedy_map` with ``size=min(size, n)`` and, for groups, a `PartitionMatroid`: to the bit
    up to 4000 candidates, where both make them by the same code, and whatever ``n_jobs`` is.

    Arrays that are float64 and C-contiguous are read where they are; others are converted piece by piece.

    Examples
    --------
    >>> import numpy as np, drsub_fast as ds
    >>> features = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [1.0, 1.0], [0.5, 0.6]])
    >>> c = ds.greedy_map_stacked(features=features, offsets=[0, 3, 5], size=2)
    >>> c.items, c.value.round(2)
    (array([[0, 2],
           [0, 1]]), array([ 0. , -4.8]))
    """
    began = time.perf_counter()
    arrays = {
        "L": L,
        "features": features,
        "quality": quality,
        "offsets": offsets,
        "lengths": lengths,
        "groups": groups,
    }
    stack = choice_stack({name: as_numbers(data, name) for name, data in arrays.items() if data is not None})
    settings = as_settings(stack, size, similarity, gamma, per_group)
    parts, done, interrupted = [], 0, False
    with (
        progress_bar(progress, stack.count, unit="user") as bar,
        closing(stacked_choices(stack, settings, executor, n_jobs, checkpoint)) as results,
    ):
        try:
            for part in results:
                parts.append(part)
                done += len(part)
                bar(len(part))
        except KeyboardInterrupt:
            interrupted = True
            logger.info("the batch was interrupted")
    return replace(
        _joined(parts, stack.count if interrupted else done, settings.size), time=time.perf_counter() - began
    )


def as_settings(
    stack: Stack, size: int, similarity: Similarity, gamma: float | None, per_group: ArrayLike | None
) -> Settings:
    """The settings, checked."""
    size = as_count(size, "size", lower=1)
    one_of(similarity, "similarity", SIMILARITIES)
    if gamma is not None:
        if similarity != "rbf":
            raise ValueError(f"gamma is that of similarity='rbf', not of {similarity!r}")
        gamma = as_real(gamma, "gamma", lower=0.0, strict=True)
    if (per_group is None) != ("groups" not in stack.rows):
        raise TypeError("groups and per_group go together: which group each candidate is in, and how many of a group")
    if per_group is not None:
        raw = as_numbers(per_group, "per_group")
        per_group = as_labels(raw, "per_group") if raw.ndim else as_count(raw.item(), "per_group")
    return Settings(size, similarity, gamma, per_group)


def choice_stack(arrays: dict[str, Any]) -> Stack:
    """The stack of arrays in memory, by the arguments of `greedy_map_stacked`.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not go together, or shapes that do not fit.
    """
    _require_arguments(arrays)
    if "offsets" in arrays:
        return _flat_stack(arrays)
    name = "L" if "L" in arrays else "features"
    data = arrays[name]
    if data.ndim != 3 or (name == "L" and data.shape[1] != data.shape[2]):
        axes = "(B, n, n)" if name == "L" else "(B, n, d), or (N, d) with offsets"
        raise ValueError(f"{name} must have the shape {axes}, got {data.shape}")
    count, n = data.shape[:2]
    shapes = {"quality": (count, n), "groups": (count, n), "lengths": (count,)}
    _require_shapes(arrays, shapes)
    if "lengths" in arrays:
        arrays["lengths"] = as_labels(arrays["lengths"], "lengths", n + 1) if count else np.zeros(0, np.int64)

    def read(size):
        for begin in range(0, count, size):
            yield {name: array[begin : begin + size] for name, array in arrays.items()}

    return Stack(count, {}, {name: (array.dtype.str, array.shape[1:]) for name, array in arrays.items()}, read)


def _require_arguments(arrays):
    """Raise TypeError for arguments that do not go together."""
    if ("L" in arrays) == ("features" in arrays):
        raise TypeError("give either L or features")
    if "L" in arrays and ("quality" in arrays or "offsets" in arrays):
        name = "quality" if "quality" in arrays else "offsets"
        raise TypeError(f"{name} goes with features, not with L")
    if "offsets" in arrays and "lengths" in arrays:
        raise TypeError("give either offsets, for features one user after the other, or lengths, for (B, n, d)")


def _require_shapes(arrays, shapes):
    for name, shape in shapes.items():
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} has the shape {arrays[name].shape}, expected {shape}")


def _flat_stack(arrays):
    """The stack of candidates that are given one user after the other."""
    features = arrays["features"]
    if features.ndim != 2:
        raise ValueError(f"with offsets, features must have the shape (N, d), got {features.shape}")
    _require_shapes(arrays, {"quality": features.shape[:1], "groups": features.shape[:1]})
    offsets = as_offsets(arrays["offsets"], len(features))
    rows = {name: array for name, array in arrays.items() if name != "offsets"}

    def read(size):
        for begin in range(0, len(offsets) - 1, size):
            own = offsets[begin : begin + size + 1]
            yield {name: array[own[0] : own[-1]] for name, array in rows.items()} | {"offsets": own - own[0]}

    return Stack(len(offsets) - 1, {}, kinds_of_rows(rows, len(offsets) - 1), read)


def kinds_of_rows(rows: dict[str, Any], count: int) -> dict[str, Any]:
    """Type and mean shape of what a user has of arrays for all users."""
    mean = -(-len(rows["features"]) // max(count, 1))
    return {name: (array.dtype.str, (mean, *array.shape[1:])) for name, array in rows.items()}


def as_offsets(data: ArrayLike, n: int) -> NDArray[np.int64]:
    """Offsets of users among n candidates."""
    offsets = as_labels(data, "offsets", n + 1)
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if falls.size:
        i = int(falls[0]) + 1
        raise ValueError(f"offsets[{i}] = {offsets[i]} is below offsets[{i - 1}] = {offsets[i - 1]}")
    if offsets[0] != 0 or offsets[-1] != n:
        raise ValueError(f"offsets must go from 0 to the {n} candidates, not from {offsets[0]} to {offsets[-1]}")
    return offsets


def stacked_choices(
    stack: Stack,
    settings: Settings,
    executor: Executor | None = None,
    n_jobs: int | None = None,
    checkpoint: str | Path | None = None,
) -> Generator[StackedChoices, None, None]:
    """The choices for a `Stack`, piece by piece, in order, as they come in.

    After Ctrl-C the generator raises KeyboardInterrupt.
    """
    workers = worker_count(n_jobs) if executor is None or n_jobs is not None else workers_of(executor)
    pieces = PIECES if executor is None else PIECES_OF_WORKER * workers
    if executor is None and checkpoint is None:
        pieces = 1
    size, store = stack.size(HELD if executor is None else SENT, pieces), None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, identified(settings, stack.rows, stack.count), {"size": size})
        size, store = kept.layout["size"], Store(kept, pack_choices, unpack_choices)
    task = partial(_choose_piece, settings, workers if executor is None else 1, stack.count)
    ahead = 1 if executor is None else AHEAD * workers
    results = run_chunks(stack.pieces(size), task, executor or Here(), ahead=ahead, store=store)
    try:
        with one_blas_thread(), closing(results):
            yield from results
    finally:
        if store is not None:
            store.checkpoint.close()


def _choose_piece(settings, n_jobs, users_in_all, begin, arrays):
    """The choices for the users ``begin``, ``begin`` + 1, ..; runs in a worker."""
    began = time.perf_counter()
    users, first, last = _users(settings, arrays)
    count, n = len(first), int((last - first).max(initial=0))
    found, turns = new_choices(count, settings.size, 0), Turns(range(count))
    found.state[:, CODE] = _UNTOUCHED
    pace, run = 0.0, None  # seconds of plain Python a user; what ran last

    def choose(part):
        nonlocal pace, run
        rows = slice(part.start, part.stop)
        own = Choices._make([*(array[rows] for array in found[:-1]), np.empty(n)])
        run = run_choices(users, first[rows], last[rows], EXACTLY, own, pace * (users_in_all - begin - part.start))
        pace = run.seconds / len(part) if isinstance(run, Interpreted) else 0.0

    with one_blas_thread():
        run_workers(n_jobs, turns, lambda: turns.take(choose))
    if (found.state[:, CODE] == _UNTOUCHED).any():
        raise KeyboardInterrupt
    result = StackedChoices(
        found.items, found.state[:, COUNT].copy(), found.value, np.full(count, Status.COMPLETED, object), {},
        time.perf_counter() - began, None if run is None else not isinstance(run, Interpreted),
    )  # fmt: skip
    _explain(result, begin, settings, users, first, last, found.state, arrays)
    return result


#: Code of a user whose turn has not come.
_UNTOUCHED = -1


def _users(settings, arrays):
    """(users, rows where each begins, rows where each ends) of a piece."""
    name = "L" if "L" in arrays else "features"
    data, kind = arrays[name], MATRIX if name == "L" else KINDS[settings.similarity]
    if "offsets" in arrays:
        first, last = arrays["offsets"][:-1], arrays["offsets"][1:]
    else:
        count, n = data.shape[:2]
        first = np.arange(count) * n
        last = first + arrays.get("lengths", n)
        data = data.reshape(count * n, data.shape[2])
    quality = _floats(arrays["quality"]).reshape(-1) if "quality" in arrays else NO_QUALITY
    labels, limits = NO_LABELS, NO_LABELS
    if "groups" in arrays:
        labels, limits = _limits(arrays["groups"], first, last, settings.per_group)
    gamma = math.nan if settings.gamma is None else settings.gamma
    users = Users(kind, gamma, _floats(data), quality, labels, limits)
    return users, np.ascontiguousarray(first), np.require(last, requirements=("C", "W"))


def _floats(array):
    with np.errstate(over="ignore"):
        return np.require(array, np.float64, ("C", "A", "W"))


def _limits(groups, first, last, per_group):
    """(groups of the candidates, limits), where a mere number of groups is those that occur."""
    groups = np.array(groups).reshape(-1)
    if (last - first).sum() < groups.size:  # what is beyond the lengths is not read
        is_read = np.zeros(groups.size + 1, np.int64)
        np.add.at(is_read, first, 1)
        np.add.at(is_read, last, -1)
        groups[np.cumsum(is_read[:-1]) == 0] = 0
    if groups.dtype.kind not in "iu" or (groups.size and groups.min() < 0):
        groups = as_labels(groups, "groups") if groups.size else NO_LABELS
    groups = groups.astype(np.int64)
    if isinstance(per_group, int):
        if groups.max(initial=0) > 4 * groups.size:
            groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
        return groups, np.full(groups.max(initial=-1) + 1, per_group)
    if groups.max(initial=-1) >= len(per_group):
        i = int(groups.argmax())
        raise ValueError(f"{entry('groups', (i,))} = {groups[i]}, but per_group has {len(per_group)} entries")
    return groups, per_group


def _explain(result, begin, settings, users, first, last, state, arrays):
    """Messages, and the users that the kernel leaves to `greedy_map`."""
    given = arrays["L"].dtype if rounding_of(arrays.get("L")) > 0.0 else np.dtype(np.float64)
    said = (state[:, CODE] == BAD) | (result.counts < settings.size) | (state[:, INDEPENDENT] < result.counts)
    for i in np.flatnonzero(said).tolist():
        texts = []
        if state[i, CODE] == BAD:
            texts.append(_choose_alone(result, i, settings, users, slice(first[i], last[i]), given))
        elif state[i, INDEPENDENT] < result.counts[i]:
            texts.append(size_message(int(result.counts[i]), int(state[i, INDEPENDENT])))
        if result.counts[i] < settings.size and result.status[i] is Status.COMPLETED:
            rest = "there are no more" if result.counts[i] == last[i] - first[i] else "no further one fits per_group"
            texts.append(f"{result.counts[i]} of {settings.size} items: {rest}")
        if any(texts):
            result.messages[i] = f"user {begin + i}: {'; '.join(filter(None, texts))}"


def _choose_alone(result, i, settings, users, rows, given):
    """User i by `greedy_map`; what is wrong with it, or else what is to be said. L was ``given`` in that type."""
    n, constraint = rows.stop - rows.start, None
    data = {"L": users.data[rows, :n].astype(given, copy=False)} if users.kind == MATRIX else {
        "features": users.data[rows], "similarity": settings.similarity, "gamma": settings.gamma,
        "quality": users.quality[rows] if users.quality.size else None,
    }  # fmt: skip
    if users.groups.size:
        constraint = PartitionMatroid(users.groups[rows], users.limits.astype(float))
    result.items[i], result.counts[i] = -1, 0
    try:
        most = min(settings.size, n) if constraint is None else min(settings.size, as_packing(constraint, n).most)
        single = greedy_map(**data, size=most or None, constraint=constraint)  # None: none of its items fits
    except ValueError as error:
        result.value[i], result.status[i] = np.nan, Status.FAILED
        return str(error)
    result.items[i, : single.items.size], result.counts[i], result.value[i] = (
        single.items,
        single.items.size,
        single.value,
    )
    return "" if np.isfinite(single.value) else single.message


def _joined(parts, count, size):
    """The choices of pieces, and for users beyond them none."""
    parts = [*parts]
    done = sum(map(len, parts))
    messages: dict[int, str] = {}
    first = 0
    for part in parts:
        messages.update((first + i, text) for i, text in part.messages.items())
        first += len(part)
    left = count - done
    if left or not parts:
        text = Status.INTERRUPTED.value
        messages.update((i, f"user {i}: {text}") for i in range(done, count))
        parts.append(
            StackedChoices(
                np.full((left, size), -1), np.zeros(left, np.int64), np.full(left, np.nan),
                np.full(left, Status.INTERRUPTED, object), {}, 0.0,
            )
        )  # fmt: skip
    if len(parts) == 1:
        return replace(parts[0], messages=messages)
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ROWS}
    return StackedChoices(**arrays, messages=messages, time=0.0, compiled=parts[0].compiled)


_ROWS = ("items", "counts", "value", "status")


def pack_choices(choices: StackedChoices) -> dict[str, Any]:
    """Choices as a dict of arrays, which are the same for every run."""
    arrays = {name: getattr(choices, name) for name in _ROWS}
    rest = json.dumps(list(choices.messages.items())).encode()
    return arrays | {"status": choices.status_names(), "messages": np.frombuffer(rest, np.uint8)}


def unpack_choices(arrays: dict[str, Any]) -> StackedChoices:
    """The choices that `pack_choices` was given, with a time of 0."""
    status = np.array([Status[name] for name in arrays["status"].tolist()], object)
    messages = {int(i): str(text) for i, text in json.loads(arrays["messages"].tobytes().decode())}
    return StackedChoices(arrays["items"], arrays["counts"], arrays["value"], status, messages, 0.0)
