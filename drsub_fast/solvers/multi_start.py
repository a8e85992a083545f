"""Multi-start: local solves from oracle vertices of random costs, then a second phase.

Start 0 is the set's own starting point; start s > 0 is the vertex that maximises a random cost with entries
Exp(1)/u_j, which spreads the starts over the vertices whatever the scale of the variables; for even s the entries
have random signs too, since positive costs over a box all lead to the same vertex. Later starts may begin nearer to
the best point so far (`drsub_fast.solvers.starts`). Unless their number is given, there are as many as it takes until
a maximum not met yet is improbable, by how many different ones they have met.

The best answer x is followed by one solve over Q = {y in P : y <= u - x}, so that the better of the two keeps the 1/4
bound of Algorithm 1 (Bian et al. 2017, Theorem 1).

A local solve is fully corrective for quadratics, which Newton steps over the hull of the atoms end in tens of oracle
calls. For other f each such step measures the curvature anew along all atoms, of which an optimum inside a face has
many; spectral projected gradient steps, 11 of a gradient each for a softmax of 100 items over a budget, then take a
tenth of the time or less. They solve such f over sets whose projection needs no solver.

Every start is solved on its own, from a fresh oracle, so that the answer does not depend on the number of
threads.
"""

import math
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drsub_fast._checks import as_count, as_seed
from drsub_fast.claims.gate import claims
from drsub_fast.engine.clock import OutOfTime, next_chunk, now
from drsub_fast.engine.codes import BREAK, FINISHED, NON_FINITE, PAUSED
from drsub_fast.engine.interrupts import result_of, submit
from drsub_fast.engine.jit import Interpreted
from drsub_fast.engine.threads import progress_bar, worker_count
from drsub_fast.objectives.base import Objective
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.result import Certificate, Details, Result, Status, Trace
from drsub_fast.sets.base import FeasibleSet, projects_by_kernel
from drsub_fast.sets.polytope import Polytope
from drsub_fast.solvers.atoms import FullyCorrectiveOptions, atoms_size
from drsub_fast.solvers.domain import likely_peaks, points_inside, starting_point
from drsub_fast.solvers.frank_wolfe import STATIONARY
from drsub_fast.solvers.fully_corrective import fully_corrective_frank_wolfe
from drsub_fast.solvers.projected_gradient import projected_gradient
from drsub_fast.solvers.record import Method, named_options, register_method
from drsub_fast.solvers.run import STATUS_OF, USUAL_STEPS, Progress, Run, bound_from_zero, objective_kind, set_kind
from drsub_fast.solvers.spectral_steps import SpectralOptions
from drsub_fast.solvers.starts import (
    ROUND,
    UNSOLVED,
    Starts,
    move_halfway,
    solve_starts,
    start_costs,
    start_direction,
    unit_costs,
)
from drsub_fast.solvers.state import GAP, VALUE, K
from drsub_fast.solvers.two_phase import TWO_PHASE, second_phase

#: Floats of workspace that a block of starts goes through: about 50 ms of work.
_BLOCK = 2_000_000

#: Operations that the default number of starts may take: about 0.1 s of compiled code, or 0.5 s of plain Python for
#: problems that it may solve first. Which of them runs depends on earlier processes, and the answer must not.
_BUDGET, _SMALL_BUDGET = 5e7, 2e6
#: Operations of the first starts of problems that plain Python may solve first.
_FEW_OPERATIONS = 5_000_000
#: More starts than this pay for more than 48 variables only. On the paper's 247 quadratics with a known maximum 16
#: starts lose more than 1e-4 on 4, 64 on none; of 2,000 random ones 16 starts lose it on 35, 64 on 3, 96 on 2.
_MOST = 96

#: Starts end where the maxima not met yet are expected to draw less than this share of them. On the 2,000 quadratics
#: 0.005 takes 71 of 96 starts and misses 3 instead of 2; for n = 20 to 100 it takes 77 of 200. 0.01 misses 7.
_UNSEEN = 0.005

#: Points whose coordinates differ by less than this share of the bounds are one maximum.
_SAME = 1e-2

#: Variables up to which quadratics are solved by fully corrective steps where spectral ones are possible.
_CORRECTIVE_UP_TO = 512

_STATUS = STATUS_OF | {FINISHED: Status.MAX_ITER}

#: A solver of one start: the function, the options of its loop, and the workspace (floats, integers) that the loop
#: wants for n variables.
LocalSolver = namedtuple("LocalSolver", "solve options size")

CORRECTIVE: LocalSolver = LocalSolver(fully_corrective_frank_wolfe, FullyCorrectiveOptions, atoms_size)
SPECTRAL = LocalSolver(partial(projected_gradient, step_size="spectral"), SpectralOptions, lambda n: (0, 0))


def local_solver(f: Objective, P: FeasibleSet) -> LocalSolver:
    """The `LocalSolver` that suits f and P."""
    corrective = isinstance(f, Quadratic) and f.n <= _CORRECTIVE_UP_TO
    return SPECTRAL if projects_by_kernel(P) and not corrective else CORRECTIVE


def starts_wanted(n_maxima: int) -> int:
    """Number of starts after which ``n_maxima`` different maxima leave a share of `_UNSEEN` to those not met yet.

    After N starts that met w maxima that share is w (w + 1) / (N (N - 1)) on average, for starts drawn alike, which
    those near the best point are not: Boender and Rinnooy Kan, "Bayesian stopping rules for multistart global
    optimization methods", Mathematical Programming 37 (1987).
    """
    return math.ceil(0.5 + math.sqrt(0.25 + n_maxima * (n_maxima + 1) / _UNSEEN))


def default_starts(n: int) -> int:
    """Number of starts by size that are solved before more are thought of; a solve grows like n^3."""
    return 16 if n <= 100 else 8 if n <= 300 else 4


def _most_starts(n):
    """Number of starts by size above which more pay little, or, each taking n operations at least, are not paid."""
    return min(max(2 * n, min(12 * n, _MOST)), int(_BUDGET / n))


@named_options
def multi_start(
    f: Objective,
    P: FeasibleSet,
    *,
    x0: ArrayLike | None = None,
    n_starts: int | None = None,
    seed: int = 0,
    max_iter: int = 1000,
    tol: float | None = None,
    lmo: Literal["auto", "highs", "kernel"] = "auto",
    n_jobs: int = 1,
    callback: Callable[..., Any] | None = None,
    callback_every: int = 1,
    time_limit: float | None = None,
    progress: bool = False,
) -> Result:
    """Best of many local solves from random vertices, followed by a second phase.

    Parameters
    ----------
    f, P : Objective, FeasibleSet
        Function to maximise, and its set.
    n_starts : int, optional
        Number of starts; the first is 0 (or the set's own point), the others are vertices of random costs (of what
        each variable gains alone, for the second start of a quadratic), and after the first 16 every other one lies
        halfway from the best point so far to such a vertex; every third start of logistic losses is inside. By default
        there are 16 (fewer for n > 100), then as many more as it takes until the maxima not met yet are expected to
        draw less than one start in 200, within a budget of counted operations, 12 n and 96, or 2 n where that is more;
        2 for objectives given in Python.
    seed : int
        Seed of the random costs.
    x0 : array_like, shape (n,), optional
        One more start.
    max_iter, tol, lmo
        Of each solve, as in its solver: `fully_corrective_frank_wolfe` for quadratics and over sets whose
        projection needs a solver, else `projected_gradient` with spectral steps. By default ``tol`` follows the
        most that a value met in the solve exceeds f at the set's own starting point.
    n_jobs : int
        Threads, -1 for one a processor. The answer does not depend on it. A callback keeps the solves to one.
    callback, callback_every
        As in `frank_wolfe`, for the steps of each solve in turn; a true return value ends the whole run.
    time_limit : float, optional
        Seconds; a start that has not ended by then is stopped, and those that have not begun are left out.
    progress : bool
        Show a progress bar of the starts on standard error.

    Returns
    -------
    Result
        The best local solution; `n_starts` counts the solved starts and `n_best` those that reached the best
        value up to 1e-6 relative. `n_lmo` and `time` are totals. An answer of the second phase that is not stationary
        over P is where one more solve begins.

    Raises
    ------
    OracleError
        If a linear program of the oracle fails.

    Notes
    -----
    On the paper's 600 quadratics (n = 8 .. 16) 16 starts reach 0.9998 of the global maximum on average, and 0.9996
    or more at each n, where one SLSQP solve from 0 reaches 0.974. By default, 71 starts on average in about the time
    of that solve, all of the 247 with a proved maximum are reached within 1e-4, and 1,998 of 2,000 fresh ones.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> f = ds.Quadratic([[-1.0, -3.0], [-3.0, -1.0]], [1.0, 1.1])
    >>> r = ds.multi_start(f, ds.Box([1.0, 1.0]), n_starts=8)
    >>> round(r.value, 3), r.n_starts
    (0.6, 8)
    """
    run = Run(f, P, None, max_iter, lmo, tol, callback, callback_every, time_limit, progress)
    first_starts = default_starts(f.n) if n_starts is None else as_count(n_starts, "n_starts", lower=1)
    n_jobs, seed = worker_count(n_jobs), as_seed(seed)
    extra = likely_peaks(f, P, run.upper) + ([] if x0 is None else [starting_point(f, P, x0, run.upper)])
    local = local_solver(f, P)
    options = {"max_iter": max_iter, "tol": tol, "lmo": lmo, "callback": callback, "callback_every": callback_every}
    late = f.n * first_starts > _BLOCK and run.time_left() == 0.0  # drawing the others would take 0.1 s and more
    count = 1 if late else first_starts
    starts = _Starts(run, local, options, start_costs(f.n, count, seed), extra)
    n_jobs = 1 if callback is not None else n_jobs
    try:
        starts.solve(n_jobs)
        done = first_starts
        starts.most = most = starts.affordable() if n_starts is None else done
        while done < most and starts.stopped is None:
            wanted = starts_wanted(starts.n_maxima())
            if wanted <= done:
                break
            # Interpreted starts are solved a few at a time, each time with the choice to compile.
            total = min((-(-wanted // first_starts) if run.compiled else done // first_starts + 1) * first_starts, most)
            starts.add(start_costs(f.n, total, seed)[done:])
            starts.solve(n_jobs)
            done = total
    except KeyboardInterrupt:
        starts.stopped = Status.INTERRUPTED
    if starts.stopped is not None and starts.error is None:
        starts.require_one()
    first = starts.result()
    # Where f(0) is not finite, a second phase has no start.
    if starts.stopped is None and P.is_down_closed and P.answers_below and starts.rows.codes[0] != NON_FINITE:
        options |= {"time_limit": run.time_left(), "progress": progress}
        best = second_phase(first, local.solve, f, P, options, first.certificate.given, polish=True)
        return replace(best, method="multi-start", time=now() - run.began)
    guarantee, bound = claims(
        f, P, run.upper, STATIONARY, first.status, first.n_iter, first.trace.value, first.value, first.certificate.given
    )
    first = replace(first, guarantee=guarantee, certificate=Certificate(bound, None, (f, P)))
    if starts.stopped is None:
        return first
    return replace(first, status=starts.stopped, note=f"after {first.n_starts} of {len(starts.rows.codes)} starts")


class _Starts:
    """The starts of one call, and what became of them."""

    def __init__(self, run, local, options, costs, extra):
        self.run, self.local, self.options = run, local, options
        self.size = run.size(local.size(run.f.n))
        costs = np.vstack((costs, np.zeros((len(extra), run.f.n))))
        # Rows of a trace are written as far as a start gets; what is never written takes no memory.
        most = max(len(costs), _most_starts(run.f.n) + len(extra))
        self.rows = Starts(*self._unsolved(costs), *np.empty((2, most, run.max_iter + 1)))
        self.rows.points[len(costs) - len(extra) :] = np.reshape(extra, (len(extra), run.f.n))
        # The rise of f is counted from its value at the set's own start, in all solves.
        self.base = run.value_in_time(run.x, None) if options["tol"] is None else math.nan
        self.stopped: Status | None = None
        self.error: ValueError | None = None
        self.begun, self.most = 0, most
        # Seconds as plain Python, by the loop as a whole.
        self.seconds = 0.0

    def _unsolved(self, costs):
        """The rows of further starts, without their traces."""
        count, points = len(costs), np.tile(self.run.x, (len(costs), 1))
        if self.run.f.likely_peak() is not None and self.run.P.is_down_closed:
            points[2::3] = points_inside(self.run.P, self.run.upper, costs[2::3])
            costs[2::3] = 0.0
        return (
            costs, points, np.full(count, -math.inf), np.full(count, math.nan),
            np.zeros((count, 2), np.int64), np.full(count, UNSOLVED, np.int64),
        )  # fmt: skip

    def add(self, costs):
        """Appends starts from vertices of further costs."""
        *known, trace_value, trace_gap = self.rows
        joined = map(np.concatenate, zip(known, self._unsolved(costs), strict=True))
        self.rows = Starts._make([*joined, trace_value, trace_gap])

    def n_maxima(self):
        """Number of different points that the starts so far have led to."""
        # Equal points are neighbours in the order of their products with any fixed weights.
        points = self.rows.points[self.solved()] / np.maximum(self.run.upper, 1e-300)
        points = points[np.argsort(points @ unit_costs(self.run.f.n, 2, 0)[1])]
        return 1 + np.count_nonzero(np.abs(np.diff(points, axis=0)).max(axis=1, initial=0.0) > _SAME)

    def affordable(self):
        """How many starts the budget of operations pays, by what those so far took."""
        f, P = self.run.f, self.run.P
        if not f.compiled:
            return 0
        n, first = f.n, default_starts(f.n)
        if isinstance(f, Quadratic):
            gradient = n * n if f.factor is None and not f.is_sparse else f.operations
        else:
            gradient = 2 * f.operations + 50 * n
        oracle = 8 * n if projects_by_kernel(P) else 4 * n * len(P.b) if isinstance(P, Polytope) else math.inf
        steps, calls = self.rows.counts.mean(axis=0)
        price = (steps + 1.0) * gradient + (calls + 1.0) * oracle
        total = (_SMALL_BUDGET if self._operations(first) <= _FEW_OPERATIONS else _BUDGET) / price
        # A multiple, since interpreted and compiled solves may differ by a step.
        return min(int(total / first) * first, _most_starts(n))

    def solve(self, n_jobs):
        """Solves the starts until all are done or somebody asks to stop."""
        with self.run.blas_limit(), progress_bar(self.run.progress, len(self.rows.codes), unit="start") as bar:
            self._solve_by_kernel(n_jobs, bar)
        self._solve_handed_back()

    def _solve_by_kernel(self, n_jobs, bar):
        first, last = self.begun, len(self.rows.codes)
        self.begun = last
        block = max(1, _BLOCK // self.size[0])
        if n_jobs == 1:
            self._solve_blocks(iter(range(first, last, block)), block, last, bar)
            return
        block = min(block, -(-ROUND // n_jobs))
        with ThreadPoolExecutor(n_jobs) as pool:
            while first < last:
                # A round looks back at the starts before it.
                end = min(first - first % ROUND + ROUND, last)
                blocks = iter(range(first, end, block))
                for worker in [submit(pool, self._solve_blocks, blocks, block, end, bar) for _ in range(n_jobs)]:
                    result_of(worker)
                first = end

    def _solve_blocks(self, firsts, block, end, bar):
        """One worker: takes the next block before ``end`` until none is left."""
        run = self.run
        floats, integers = np.empty(self.size[0]), np.zeros(self.size[1], np.int64)
        rows, options = self.rows, self.local.options(run.tol)
        arguments = run.f.params, run.params, options, floats, integers, rows, run.upper, self.base

        def entry():
            with run.within_limit():
                return self._entry((*arguments, 1, 1, 0, 1))

        def advance(s, last, k_max, steps):
            if isinstance(loop, Interpreted):
                amid = (floats,) if rows.codes[s] in (BREAK, PAUSED) else ()
                loop.arrays = integers, *(array[s:last] for array in rows[1:6]), *amid
            before = getattr(loop, "seconds", 0.0)
            run.has_step = bool(rows.counts[:last].any())
            with run.within_limit():
                s = loop(*arguments, k_max, steps, s, last)
            self.seconds += getattr(loop, "seconds", 0.0) - before
            return s

        s = 0
        try:
            loop = entry()
            if run.prefers_solver(loop):
                return
            chunk = run.first_chunk(self.size[0], timed=not run.compiled)
            for first in firsts:
                s, last = first, min(first + block, end)
                while s < last and self.stopped is None:
                    before, done, began = s, rows.counts[:, 0].sum(), now()
                    # With a callback the count of steps begins anew at each start.
                    s = advance(s, last if run.callback is None else s + 1, run.max_iter, chunk)
                    bar(s - before)
                    if run.callback is None and (run.deadline is not None or not run.compiled):
                        steps = int(rows.counts[:, 0].sum() - done)
                        chunk = next_chunk(chunk, steps, now() - began, run.time_left())
                    if isinstance(loop, Interpreted) and loop.pays(*self._ahead()):
                        loop = entry()
                    self._look_up(s, last, floats)
                if self.stopped is not None:
                    while s < last and rows.codes[s] in (BREAK, PAUSED):
                        s = advance(s, s + 1, int(integers[K]), 1)
                    return
        except OutOfTime:
            self.stopped = Status.TIME_LIMIT
            self._leave(s, float(floats[VALUE]))
        except KeyboardInterrupt:
            self._leave(s, float(floats[VALUE]))
            raise

    def _leave(self, s, value):
        """Start s, in the middle of a step that is not to be ended, counts with the iterate before it."""
        rows = self.rows
        if s < len(rows.codes) and rows.codes[s] == BREAK:
            k, rows.codes[s] = rows.counts[s, 0], FINISHED
            rows.values[s] = self.run.value_in_time(rows.points[s], value)
            rows.trace_value[s, k], rows.trace_gap[s, k] = rows.values[s], rows.gaps[s]

    def _entry(self, arguments):
        """What to call for the loop: its compiled code, or plain Python until compiling pays."""
        run = self.run
        family = objective_kind(run.f)[2], set_kind(run.P, run.params)[2], type(arguments[2])
        if run.f.compiled:
            loop = solve_starts.entry(family, arguments, *self._ahead())
        else:
            loop = solve_starts.choose_around(family, *self._ahead())
        run.compiled = not isinstance(loop, Interpreted)
        return loop

    def _ahead(self):
        """Seconds of plain Python that the starts at hand still take, and at most with all that may follow."""
        solved = int(np.count_nonzero(self.rows.codes != UNSOLVED))
        pace = self.seconds / max(1, solved)
        return pace * (len(self.rows.codes) - solved), pace * (self.most - solved) if solved else math.inf

    def _operations(self, n_starts):
        """About how many operations so many starts take."""
        return n_starts * min(self.run.max_iter, USUAL_STEPS) * (self.size[0] + self.run.f.n**2)

    def _look_up(self, s, last, floats):
        """Asks the callback, at the step where the solve of start s paused, and the clock whether to stop."""
        run, rows = self.run, self.rows
        if run.callback is not None and s < last and rows.codes[s] == BREAK:
            k = int(rows.counts[s, 0])
            if run.callback(Progress(k, rows.points[s].copy(), float(floats[VALUE]), float(floats[GAP]))):
                self.stopped = Status.CALLBACK
        if self.stopped is None and run.time_left() == 0.0:
            self.stopped = Status.TIME_LIMIT

    def solved(self):
        """Mask of the starts that a solve has finished."""
        return self.rows.values > -math.inf

    def _solve_handed_back(self):
        """Solves the starts whose oracle needs its solver, one by one; without any solved start, start 0 at least.

        A vertex where f is not finite is replaced by its half (the set being down-closed), or left out.
        """
        run, rows = self.run, self.rows
        for s in np.flatnonzero(~self.solved()):
            left = run.time_left()
            if left == 0.0:
                self.stopped = self.stopped or Status.TIME_LIMIT
            if self.stopped is not None and (left == 0.0 or self.solved().any()):
                return
            cost = np.empty(run.f.n)
            given = s > 0 and not start_direction.interpreted(run.f.params, rows.costs[s], s, run.upper, cost)
            if s and rows.codes[s] == NON_FINITE and (given or not run.P.is_down_closed):
                continue
            try:
                with run.within_limit():
                    x0 = None if s == 0 else rows.points[s]
                    if x0 is not None and not given:
                        x0[:] = run.P.lmo(cost, run.upper)
                        move_halfway.interpreted(rows, s)
                if x0 is not None and rows.codes[s] == NON_FINITE:
                    x0 *= 0.5
                answer = self.local.solve(run.f, run.P, x0=x0, time_limit=left, **self.options)
            except ValueError as error:
                self.error = self.error or error
                continue
            except OutOfTime:
                self.stopped = Status.TIME_LIMIT
                continue
            k = answer.n_iter
            rows.points[s], rows.values[s], rows.gaps[s] = answer.x, answer.value, answer.fw_gap
            rows.counts[s] = k, answer.n_lmo
            rows.trace_value[s, : k + 1], rows.trace_gap[s, : k + 1] = answer.trace.value, answer.trace.fw_gap
            rows.codes[s] = next((code for code, status in _STATUS.items() if status is answer.status), FINISHED)
            if answer.status.is_stop:
                self.stopped = answer.status

    def require_one(self):
        """Without any solved start, start 0 counts with the point where it begins."""
        rows = self.rows
        if not self.solved().any():
            x, value = self.run.x, self.run.value_in_time(self.run.x, self.base)
            if self.stopped is Status.TIME_LIMIT and self.run.from_zero:
                x, value = self.run.early_point(x, value)
            rows.points[0], rows.values[0], rows.gaps[0] = x, value, math.nan
            rows.counts[0], rows.codes[0] = 0, FINISHED
            rows.trace_value[0, 0], rows.trace_gap[0, 0] = rows.values[0], math.nan

    def result(self):
        """The best solved start."""
        solved, run, rows = self.solved(), self.run, self.rows
        if not solved.any():
            raise self.error or ValueError("no start could be solved")
        best = int(rows.values.argmax())
        k, value, x = int(rows.counts[best, 0]), float(rows.values[best]), rows.points[best].copy()
        if run.into_bounds(x):
            value = run.f.value(x)
        trace = Trace(rows.trace_value[best, : k + 1].copy(), rows.trace_gap[best, : k + 1].copy())
        bound = math.inf
        if solved[0] and run.from_zero:
            bound = bound_from_zero(run.f, run.upper, rows.trace_value[0], rows.trace_gap[0])
        return Result(
            x, value, float(rows.gaps[best]), Certificate(bound, None, (run.f, run.P)), STATIONARY,
            _STATUS[int(rows.codes[best])], k, int(rows.counts[:, 1].sum()), now() - run.began, trace, x.copy(), value,
            "multi-start", "", run.compiled,
            Details(
                n_starts=int(solved.sum()), n_best=int((rows.values >= value - 1e-6 * abs(value)).sum())
            ),
        )  # fmt: skip


register_method(
    Method(
        "multi-start", multi_start, "Multi-start", many_starts=True, second_phase=True, promise=TWO_PHASE, marker="D",
        colour="tab:purple", claim="with a second phase 1/4", about="many vertices, one answer",
    )
)  # fmt: skip
