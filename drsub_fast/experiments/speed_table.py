"""The speed table of `drsub-fast bench`: ratios to what a user would write otherwise, measured here and now.

Each row times both sides in turn, one BLAS thread, after uncounted calls, and compares medians; values
must agree, or the row says so. The baselines are those of `drsub_fast.experiments.peers`, as far as they are installed,
and last the numpy loop with a cold linear program per step (`drsub_fast.reference`).
"""

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from drsub_fast import reference
from drsub_fast.discrete.greedy import greedy_map
from drsub_fast.discrete.set_greedy import greedy
from drsub_fast.engine.jit import kernel
from drsub_fast.experiments.choices import plain_greedy, random_items, service_ways
from drsub_fast.experiments.peers import (
    GLOBAL,
    LOCAL,
    SELECTION,
    Peer,
    WarmModel,
    installed,
    nonmonotone_by_warm_model,
    softmax_by_numpy,
    softmax_slsqp,
    sparse_by_scipy,
)
from drsub_fast.kernels import contract, evaluate, lmo, objective_work, prepare
from drsub_fast.kernels import set_work as set_work_of
from drsub_fast.methods import maximize
from drsub_fast.objectives.multilinear import Multilinear
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.global_optimum import global_maximum
from drsub_fast.reference.solvers import ReferenceResult
from drsub_fast.result import Result
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.continuous_greedy import nonmonotone_frank_wolfe
from drsub_fast.solvers.frank_wolfe import frank_wolfe
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe
from drsub_fast.solvers.projected_gradient import projected_gradient
from drsub_fast.solvers.run import Run

#: Steps of a solve, and the steps timed of a baseline whose time is linear in them and long.
STEPS, SAMPLED_STEPS = 100, 4
#: Users whose items are chosen one after the other, or in one stack.
_USERS = 256


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes
    ----------
    task, size, baseline : str
        What was done, on what, against what.
    baseline_time, time : float
        Median seconds of a call.
    agreement : str
        How the values compare.
    """

    task: str
    size: str
    baseline: str
    baseline_time: float
    time: float
    agreement: str

    @property
    def ratio(self) -> float:
        """How many times faster."""
        return self.baseline_time / self.time


#: A turn of a call lasts about this many seconds, or one call: a single call right after a long one of another kind
#: mostly measures how long it takes to bring code and data back into the caches.
_TURN = 0.02


def interleaved_medians(calls: Sequence[Callable[[], object]], seconds: float) -> list[float]:
    """Median seconds of each call, taken in turn for about ``seconds`` in all, after one uncounted round.

    Each turn repeats the call for `_TURN` seconds and counts once, by the mean.
    """
    repeats = []
    for call in calls:
        call()
        repeats.append(1 + int(_TURN / max(_mean_seconds(call, 1), 1e-6)))
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while not times[0] or time.perf_counter() < end:
        for call, count, mine in zip(calls, repeats, times, strict=True):
            mine.append(_mean_seconds(call, count))
    return [float(np.median(mine)) for mine in times]


def _mean_seconds(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def quadratic_problem(n: int, m: int, seed: int, concave: float = 0.0) -> tuple[Quadratic, Polytope]:
    """Family 1 of the paper, optionally with a concave diagonal (an interior optimal face)."""
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    H = (H + H.T) / 2 - concave * math.sqrt(n) * np.eye(n)
    P = Polytope(rng.uniform(0.01, 1.01, (m, n)), np.ones(m))
    return Quadratic(H, -0.2 * H @ P.upper), P


def similarities(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Cosines, at least 0, of n random vectors of 16 entries."""
    B = np.random.default_rng([n, seed]).standard_normal((n, 16))
    B /= np.linalg.norm(B, axis=1, keepdims=True)
    return np.maximum(B @ B.T, 0.0)


def softmax_problem(n: int, seed: int) -> tuple[Softmax, Budget]:
    """Eigenvalues of L uniform on [0, 6], budget min(20, n/2)."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    L = (Q * rng.uniform(0.0, 6.0, n)) @ Q.T
    return Softmax((L + L.T) / 2), Budget(min(20, n // 2), np.ones(n))


def _agreement(mine, theirs):
    difference = abs(mine - theirs) / max(1e-300, abs(theirs))
    return f"values within {difference:.0e}"


def _lead(mine, theirs):
    return f"value {mine / theirs - 1.0:+.2%}"


def _compared(task, size, baseline, theirs, mine, seconds, note=_agreement):
    """The row of two calls that return the value reached, or what has it."""
    their_time, my_time = interleaved_medians([theirs, mine], seconds)
    values = (getattr(answer, "value", answer) for answer in (mine(), theirs()))
    return Row(task, size, baseline, their_time, my_time, note(*values))


def cold_rows(sizes: Iterable[tuple[int, int]], seconds: float) -> Iterator[Row]:
    """Whole solves against the loop as one writes it first, most of whose time goes to setting up linear programs."""
    for n, m in sizes:
        methods: list[tuple[Callable[..., Result], Callable[..., ReferenceResult], dict[str, float]]] = [
            (nonmonotone_frank_wolfe, reference.nonmonotone_frank_wolfe, {}),
            (frank_wolfe, reference.frank_wolfe, {"tol": 0.0}),
        ]
        for fast, plain, options in methods:
            f, P = quadratic_problem(n, m, seed=n)
            steps = SAMPLED_STEPS if n > 100 else STEPS
            slow = partial(plain, f, P, max_iter=steps, **options)
            theirs, mine = interleaved_medians([slow, partial(fast, f, P, max_iter=STEPS, **options)], seconds)
            note = _agreement(fast(f, P, max_iter=steps, **options).value, slow().value)
            if steps < STEPS:
                note += f", extrapolated from {steps} of {STEPS} steps"
            yield Row(fast.__name__, f"{n} x {m}", "numpy + cold linprog", theirs * STEPS / steps, mine, note)


def warm_rows(sizes: Iterable[tuple[int, int]], seconds: float) -> Iterator[Row]:
    """Whole solves against the numpy loop around one warm HiGHS model."""
    for n, m in sizes:
        f, P = quadratic_problem(n, m, seed=n)
        yield _compared(
            "nonmonotone_frank_wolfe", f"{n} x {m}", "numpy + warm HiGHS",
            partial(nonmonotone_by_warm_model, f, P, STEPS), partial(nonmonotone_frank_wolfe, f, P, max_iter=STEPS),
            seconds,
        )  # fmt: skip


def gap_rows(sizes: Iterable[int], seconds: float, peers: tuple[Peer, ...] = LOCAL) -> Iterator[Row]:
    """Time to a certified gap of 1e-6 |f|, and of maximize, against local solvers."""
    for n in sizes:
        for concave, kind in ((0.0, "vertex optimum"), (0.2, "interior face")):
            f, P = quadratic_problem(n, n // 2, seed=n, concave=concave)
            rivals = {peer.name: peer.make(f, P) for peer in installed(peers)}
            values = {name: solve() for name, solve in rivals.items()}
            tol = 1e-6 * max(values.values())
            best, mine = partial(maximize, f, P), partial(fully_corrective_frank_wolfe, f, P, tol=tol, max_iter=5000)
            *times, best_time, my_time = interleaved_medians([*rivals.values(), best, mine], seconds)
            r, top, size = mine(), best().value, f"{n} x {n // 2}, {kind}"
            for name, their_time in zip(rivals, times, strict=True):
                yield Row("maximize", size, name, their_time, best_time, _lead(top, values[name]))
            for name, their_time in zip(rivals, times, strict=True):
                note = f"gap {r.fw_gap / abs(r.value):.0e} |f|, {_lead(r.value, values[name])}"
                yield Row("fully_corrective_frank_wolfe", size, name, their_time, my_time, note)


def global_rows(sizes: Iterable[tuple[int, int]], seconds: float) -> Iterator[Row]:
    """Time to a global maximum that is proved to 1e-6."""
    for n, m in sizes:
        f, P = quadratic_problem(n, m, seed=n)
        mine = partial(global_maximum, f, P)
        for peer in installed(GLOBAL):
            yield _compared("global_maximum", f"{n} x {m}", peer.name, peer.make(f, P), mine, seconds)


def selection_rows(sizes: Iterable[tuple[int, int]], seconds: float) -> Iterator[Row]:
    """k items of large facility location: lazy greedy, the construction of the function included."""
    for n, k in sizes:
        W = similarities(n)
        for peer in installed(SELECTION):
            yield _compared(
                "greedy, facility location", f"{k} of {n}", peer.name,
                peer.make(W, k), lambda: greedy(Multilinear.facility_location(W), k), seconds, _lead,
            )  # fmt: skip


def greedy_map_rows(sizes: Iterable[tuple[int, int, int]], seconds: float) -> Iterator[Row]:
    """k of n items by greedy choice, from feature vectors of some rank."""
    for n, rank, k in sizes:
        features, quality = random_items(n, rank)
        yield _compared(
            "greedy_map", f"{k} of {n}, rank {rank}", "numpy's greedy", partial(plain_greedy, features, quality, k),
            partial(greedy_map, features=features, quality=quality, size=k), seconds,
        )  # fmt: skip


def service_rows(sizes: Iterable[tuple[int, int, int]], seconds: float) -> Iterator[Row]:
    """k of n items for each of some users, seconds a user."""
    for n, rank, k in sizes:
        ways = service_ways(n, rank, k, users=_USERS)
        seconds_of = dict(zip(ways, interleaved_medians(list(ways.values()), seconds), strict=True))
        found = {name: run() for name, run in ways.items()}
        for ours in ("greedy_map", "greedy_map_stacked"):
            for theirs in ways:
                if theirs not in ("greedy_map", "greedy_map_stacked"):
                    same = np.mean([a == b for a, b in zip(found[ours], found[theirs], strict=True)])
                    times = seconds_of[theirs] / _USERS, seconds_of[ours] / _USERS
                    yield Row(ours, f"{k} of {n}, rank {rank}", theirs, *times, f"same items {same:.0%}")


def sparse_rows(sizes: Iterable[int], seconds: float) -> Iterator[Row]:
    """Quadratics with some 11 entries a row over a budget of n / 20."""
    for n in sizes:
        rng, half = np.random.default_rng(n), 5 * n
        entries = -rng.random(half), (rng.integers(n, size=half), rng.integers(n, size=half))
        H = scipy.sparse.csr_array(entries, shape=(n, n))
        H = (H + H.T - scipy.sparse.diags_array(0.5 + rng.random(n))).tocsr()
        h, k = -0.2 * (H @ np.ones(n)) * (1.0 + 0.3 * rng.random(n)), n / 20
        f, P = Quadratic(H, h), Budget(k, np.ones(n))
        yield _compared(
            "nonmonotone, sparse H", f"n = {n}", "scipy.sparse, argpartition", partial(sparse_by_scipy, H, h, k, STEPS),
            partial(nonmonotone_frank_wolfe, f, P, max_iter=STEPS), seconds,
        )  # fmt: skip


def softmax_rows(sizes: Iterable[int], seconds: float) -> Iterator[Row]:
    """Softmax over a budget set against the numpy loop."""
    for n in sizes:
        f, P = softmax_problem(n, seed=n)
        yield _compared(
            "softmax, nonmonotone", f"n = {n}", "numpy, oracle by sorting", lambda: softmax_by_numpy(f, P, STEPS)[-1],
            partial(nonmonotone_frank_wolfe, f, P, max_iter=STEPS), seconds,
        )  # fmt: skip


def softmax_gap_rows(sizes: Iterable[int], seconds: float) -> Iterator[Row]:
    """Softmax over a budget set: time to a gap of 1e-6 |f| against SLSQP, and maximize against SLSQP."""
    for n in sizes:
        f, P = softmax_problem(n, seed=n)
        solve = softmax_slsqp(f, P)
        value = solve()
        mine = partial(projected_gradient, f, P, step_size="spectral", tol=1e-6 * abs(value), max_iter=1000)
        best = partial(maximize, f, P)
        their_time, my_time, best_time = interleaved_medians([solve, mine, best], seconds)
        r, size = mine(), f"softmax, n = {n}"
        note = f"gap {r.fw_gap / abs(r.value):.0e} |f|"
        yield Row("projected_gradient, spectral", size, "SciPy SLSQP", their_time, my_time, note)
        yield Row("maximize", size, "SciPy SLSQP", their_time, best_time, _lead(best().value, value))


def first_lp_rows(sizes: Iterable[tuple[int, int]], seconds: float) -> Iterator[Row]:
    """The first linear program of an instance against HiGHS's dual simplex and SciPy's linprog."""
    for n, m in sizes:
        f, P = quadratic_problem(n, m, seed=n)
        g, upper = f.gradient(np.zeros(n)), np.array(P.upper)
        yield _compared(
            "first linear program", f"{n} x {m}", "HiGHS, cold",
            lambda: g @ WarmModel(P).lmo(g, upper), lambda: g @ P.lmo(g), seconds,
        )  # fmt: skip


@kernel
def _warm_steps(n_steps, objective, feasible_set, work, set_work, x, upper, v):
    """Steps of length 0: the whole work of a step whose vertex is new to the objective and optimal for the oracle."""
    value = evaluate(objective, work, x)
    for _ in range(n_steps):
        lmo(feasible_set, set_work, work.grad, upper, v)
        prepare(objective, work, x, v)
        value = contract(objective, work, x, v, 0.0, value)
    return value


def growth(sizes: Sequence[int], seconds: float) -> tuple[tuple[float, ...], list[float], list[float]]:
    """How one warm step and the memory of a solve grow with n (m = n / 2): (two exponents, seconds, bytes)."""
    times: list[float] = []
    sizes_in_bytes: list[float] = []
    for n in sizes:
        f, P = quadratic_problem(n, n // 2, seed=n)
        run = Run(f, P, None, 1, "auto")
        params, upper = (f.params, run.params), np.array(P.upper)
        work, set_work, v = objective_work(params[0]), set_work_of(params[1]), np.empty(n)
        steps = (partial(_warm_steps, k, *params, work, set_work, np.zeros(n), upper, v) for k in (1, 101))
        few, many = interleaved_medians([*steps], seconds)
        times.append(max(many - few, 1e-9) / 100)
        arrays = [part for tuple_ in params for part in tuple_ if isinstance(part, np.ndarray)]
        sizes_in_bytes.append(sum(array.nbytes for array in arrays) + 8 * sum(run.size()))
    fits = tuple(float(np.polyfit(np.log(sizes), np.log(y), 1)[0]) for y in (times, sizes_in_bytes))
    return fits, times, sizes_in_bytes


def table(quick: bool = False) -> Generator[Any, None, None]:
    """Rows of the whole table, one by one, the strongest baselines first and the cold linear programs last."""
    seconds = 0.5 if quick else 3.0
    sizes = [(16, 16), (100, 100)] + ([] if quick else [(500, 250), (1000, 500)])
    with threadpool_limits(1):
        yield from gap_rows([16, 100] + ([] if quick else [200]), seconds)
        yield from softmax_gap_rows([16, 128], seconds)
        yield from global_rows([(8, 4)] + ([] if quick else [(12, 6), (16, 8)]), seconds)
        yield from selection_rows([(1000, 20)] + ([] if quick else [(3000, 50)]), seconds)
        yield from service_rows([(50, 16, 5), (100, 32, 10), (200, 64, 10), (500, 64, 20), (1000, 64, 20)], seconds)
        yield from greedy_map_rows([(10_000, 64, 20)] if quick else [(100_000, 200, 100)], seconds)
        yield from sparse_rows([10_000] if quick else [100_000], seconds)
        yield from warm_rows(sizes, seconds)
        yield from softmax_rows([16, 128] + ([] if quick else [512, 1024]), seconds)
        yield from first_lp_rows([(200, 200), (500, 500)] + ([] if quick else [(1000, 500), (1000, 1000)]), seconds)
        yield from cold_rows(sizes, seconds)
