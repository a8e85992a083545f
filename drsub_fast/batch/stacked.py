"""Many problems of one size: stacked arrays in, stacked arrays out.

Worker threads take ranges of problems, each a call of the compiled loop (`drsub_fast.batch.stack_loop`), sized by
the time that problems take, so that unequal problems balance. What the loop leaves undone goes to the
ordinary solver, problem by problem, which also words the errors: a problem is refused here for the same
reason and with the same words as there.
"""

import logging
import math
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from inspect import signature

import numpy as np
import scipy

from drsub_fast._checks import as_count, as_seed, one_of
from drsub_fast.batch.checkpoint import Checkpoint, fingerprint
from drsub_fast.batch.stack_loop import (
    Answers,
    BoxStack,
    BudgetStack,
    FactorStack,
    LowRankStack,
    MultiStartOptions,
    PolytopeStack,
    QuadraticStack,
    Scratch,
    SoftmaxStack,
    TwoPhaseStack,
    solve_stack,
    work_size,
)
from drsub_fast.engine.jit import Interpreted
from drsub_fast.engine.threads import one_blas_thread, progress_bar, worker_count
from drsub_fast.methods import METHODS, maximize
from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import LowRankSoftmaxParams, Softmax
from drsub_fast.problems.standard_form import Problem
from drsub_fast.result import Status
from drsub_fast.sets.base import ORACLES
from drsub_fast.sets.box import Box
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.polytope import KERNEL, Polytope, blank_params
from drsub_fast.solvers.frank_wolfe import STEP_SIZES
from drsub_fast.solvers.fully_corrective import FullyCorrectiveOptions, atoms_size
from drsub_fast.solvers.multi_start import default_starts, random_costs
from drsub_fast.solvers.run import (
    CONVERGED,
    FINISHED,
    N_CONTROL,
    N_NUMBERS,
    STALLED,
    STATE_VECTORS,
    USUAL_STEPS,
    as_tolerance,
)
from drsub_fast.solvers.spectral_steps import SpectralOptions
from drsub_fast.solvers.two_phase import subroutines

logger = logging.getLogger("drsub_fast")

# Codes of a problem beside those of the loop; from FIRST_STATUS on, the position of a status in STATUSES.
UNTOUCHED, FIRST_STATUS = -2, 100
STATUSES = tuple(Status)
_SOLVED = (CONVERGED, FINISHED, STALLED)

Family = namedtuple("Family", "arguments single")

#: Objectives and sets by their arguments, with the number of axes that an argument has for one problem.
_OBJECTIVES = (
    Family({"H": 2, "h": 1, "c": 0}, Quadratic),
    Family({"L": 2}, Softmax),
    Family({"factor": 2}, Softmax),
)
_SETS = (
    Family({"A": 2, "b": 1, "upper": 1}, Polytope),
    Family({"k": 0, "upper": 1}, Budget),
    Family({"upper": 1}, Box),
)

#: Seconds of work that a worker takes at a time.
_TURN = 0.02
#: A checkpoint cuts the batch into this many chunks.
_CHUNKS = 256

Answer = namedtuple("Answer", "x value fw_gap upper_bound status n_iter n_lmo message")


@dataclass(frozen=True)
class StackedResult:
    """Answers of a batch of B problems with n variables.

    ``result[i]`` is the answer to problem i as a namedtuple; a slice or an index array gives a `StackedResult`.

    Attributes
    ----------
    x : ndarray, shape (B, n)
        Points returned by the method; NaN where a problem failed.
    value, fw_gap, upper_bound : ndarray, shape (B,)
        f(x); Frank-Wolfe gap; an upper bound on the maximum. NaN where a problem failed.
    status : ndarray of Status, shape (B,)
        Why each run stopped; ``result.status == Status.FAILED`` selects the failures.
    n_iter, n_lmo : ndarray of int, shape (B,)
        Updates of x, and answers of the linear oracle.
    messages : dict of int to str
        What went wrong, by problem; empty if nothing did.
    method : str
        Name of the method.
    time : float
        Wall-clock seconds of the batch.
    trace_value, trace_fw_gap : ndarray, shape (B, max_iter + 1), or None
        Values and gaps at every iterate, NaN beyond the last one; None unless asked for.
    """

    x: np.ndarray = field(repr=False)
    value: np.ndarray
    fw_gap: np.ndarray = field(repr=False)
    upper_bound: np.ndarray = field(repr=False)
    status: np.ndarray = field(repr=False)
    n_iter: np.ndarray = field(repr=False)
    n_lmo: np.ndarray = field(repr=False)
    messages: dict
    method: str
    time: float
    trace_value: np.ndarray | None = field(default=None, repr=False)
    trace_fw_gap: np.ndarray | None = field(default=None, repr=False)

    _ROWS = ("x", "value", "fw_gap", "upper_bound", "status", "n_iter", "n_lmo")

    def __len__(self):
        return len(self.value)

    def __getitem__(self, index):
        rows = [getattr(self, name)[index] for name in self._ROWS]
        if np.ndim(index) == 0 and not isinstance(index, slice):
            position = range(len(self))[index]
            message = self.messages.get(position) or f"{self.method}: {rows[4].value}"
            return Answer(rows[0], *map(float, rows[1:4]), rows[4], *map(int, rows[5:]), message)
        positions = np.arange(len(self))[index]
        messages = {new: self.messages[old] for new, old in enumerate(positions.tolist()) if old in self.messages}
        traces = [None if trace is None else trace[index] for trace in (self.trace_value, self.trace_fw_gap)]
        return StackedResult(*rows, messages, self.method, self.time, *traces)


class _Argument:
    """One array of the user: a row for each problem, or one that all share."""

    def __init__(self, data, name, ndim):
        if scipy.sparse.issparse(data):
            raise TypeError(f"{name} is a sparse matrix; a stack is dense: use maximize_many for sparse problems")
        data = np.asarray(data)
        if data.dtype.kind not in "biuf":
            raise TypeError(f"{name} cannot be read as an array of real numbers (its type is {data.dtype})")
        if data.ndim not in (ndim, ndim + 1):
            raise ValueError(f"{name} must have {ndim} axes (shared) or {ndim + 1} (stacked), got shape {data.shape}")
        self.name = name
        self.shared = data.ndim == ndim
        self.data = data[np.newaxis] if self.shared else data
        if self.shared:
            self.data = self.rows(0, 1)

    def rows(self, first, last):
        """Rows of the problems first..last - 1 as the kernels take them; a view where that is possible."""
        rows = self.data if self.shared else self.data[first:last]
        return np.require(rows, np.float64, ["C", "A", "W"])

    def one(self, i):
        """The argument of problem i."""
        return self.data[0 if self.shared else i]


class _Problems:
    """The stacked arrays of a batch, checked for their shapes."""

    def __init__(self, arguments, unit_box):
        given = {name: data for name, data in arguments.items() if data is not None}
        self.objective = self._family(given, _OBJECTIVES, "objective", ("H, h", "L", "factor"))
        self.set = self._family(given, _SETS, "set", ("A, b", "k, upper", "upper"))
        self.arguments = {
            name: _Argument(given[name], name, ndim)
            for family in (self.objective, self.set)
            for name, ndim in family.arguments.items()
            if name in given
        }
        unused = sorted(set(given) - set(self.arguments) - {"c"})
        if unused:
            raise TypeError(f"{', '.join(unused)} cannot be combined with {', '.join(sorted(self.arguments))}")
        self.unit_box = unit_box and self.objective.single is Softmax
        self.count = self._count()
        self.n = self._check_shapes()
        self.low_rank = False
        if "factor" in self:
            one = Softmax(factor=np.ones(self.arguments["factor"].data.shape[1:]), unit_box=self.unit_box)
            self.low_rank = isinstance(one.params, LowRankSoftmaxParams)

    @staticmethod
    def _family(given, families, what, choices):
        for family in families:
            if next(iter(family.arguments)) in given:
                return family
        raise TypeError(f"the {what} is missing: give {' or '.join(choices)}")

    def _count(self):
        """Number of problems."""
        lengths = {a.name: len(a.data) for a in self.arguments.values() if not a.shared}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the stacks have different lengths: {lengths}")
        return next(iter(lengths.values()), 1)

    def _check_shapes(self):
        """Number of variables."""
        shape = {name: a.data.shape[1:] for name, a in self.arguments.items()}
        main = next(iter(self.objective.arguments))
        n = shape[main][0]
        expected = {"H": (n, n), "h": (n,), "L": (n, n), "upper": (n,), "b": shape.get("A", ())[:1]}
        expected["A"] = (*expected["b"], n)
        for name, got in shape.items():
            if got != expected.get(name, got):
                raise ValueError(f"{name} has shape {got} for one problem, expected {expected[name]} to go with {main}")
        if n == 0:
            raise ValueError(f"{main} is empty: at least one variable is needed")
        return n

    def __contains__(self, name):
        return name in self.arguments

    def rows(self, name, first, last):
        return self.arguments[name].rows(first, last)

    def single(self, i):
        """Objective and set of problem i."""
        return (self._single(self.objective, i), self._single(self.set, i))

    def _single(self, family, i):
        arrays = {name: self.arguments[name].one(i) for name in family.arguments if name in self.arguments}
        options = {"unit_box": self.unit_box} if family.single is Softmax else {}
        return family.single(**{name: float(a) if a.ndim == 0 else a for name, a in arrays.items()}, **options)

    def objective_stack(self, first, last, matrix):
        """Stack of the objectives; ``matrix`` is scratch for one of them."""
        if self.objective.single is Quadratic:
            return QuadraticStack(*(self.rows(name, first, last) for name in "Hhc"))
        if "L" in self:
            return SoftmaxStack(self.rows("L", first, last), matrix)
        if self.low_rank:
            return LowRankStack(self.rows("factor", first, last), matrix)
        return FactorStack(self.rows("factor", first, last), matrix)

    def set_stack(self, first, last, scaled):
        """Stack of the set, and the upper bounds; ``scaled`` is scratch for one polytope."""
        if self.set.single is Polytope:
            A, b = self.rows("A", first, last), self.rows("b", first, last)
            upper = self.rows("upper", first, last) if "upper" in self else _tightest_upper(A, b)
            return PolytopeStack(A, b, upper, scaled), self._clipped(upper)
        upper = self.rows("upper", first, last)
        if self.set.single is Box:
            return BoxStack(upper), self._clipped(upper)
        k = self.rows("k", first, last)[:, np.newaxis]
        template = Budget(1.0, np.ones(self.n)).params()._asdict() | {"capacity": k}
        return BudgetStack(**template), self._clipped(np.minimum(upper, k))

    def _clipped(self, upper):
        return np.minimum(upper, 1.0) if self.unit_box else upper


def _tightest_upper(A, b):
    """u_j = min_i b_i / A_ij over the rows with A_ij > 0, for a stack; infinite where no row bounds x_j."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.where(A > 0.0, b[:, :, np.newaxis] / A, np.inf)
    return ratios.min(axis=1, initial=np.inf)


class _Turns:
    """Hands out ranges of problems in order, to several workers."""

    def __init__(self, pieces):
        self.pieces = list(reversed(pieces))
        self.lock = threading.Lock()
        self.stopped = False
        self.errors = []

    def take(self, size=None):
        """The next range, at most ``size`` long if given; None when all are taken."""
        with self.lock:
            if not self.pieces:
                return None
            piece = self.pieces.pop()
            if size is not None and len(piece) > size:
                self.pieces.append(piece[size:])
                piece = piece[:size]
            return piece

    def stop(self, error=None):
        """Hands out nothing more."""
        with self.lock:
            self.stopped = True
            self.pieces.clear()
            if error is not None:
                self.errors.append(error)


class _Failure(Exception):
    """A problem that could not be solved, with its index."""


class _Batch:
    """One call of `maximize_stacked`: problems, options and the arrays of answers."""

    def __init__(self, problems, method, max_iter, options, lmo, on_error, trace):
        self.problems, self.method, self.max_iter = problems, method, max_iter
        self.options, self.lmo, self.on_error = options, lmo, on_error
        self.finished = METHODS[method].finished
        # The method that solves, of a method made of solves by another.
        self.solver = METHODS[options.get("subroutine", method)]
        count, n = problems.count, problems.n
        self.answers = Answers(
            np.full((count, n), np.nan),
            *np.full((3, count), np.nan),
            np.full(count, UNTOUCHED, np.int64),
            *np.zeros((2, count), np.int64),
            *np.full((2, count if trace else 0, max_iter + 1), np.nan),
        )
        self.messages = {}
        self.compiled = False
        is_polytope = problems.set.single is Polytope
        has_loop = self.solver.loop is not None or METHODS[method].many_starts
        self.by_solver = (is_polytope and lmo == "highs") or not has_loop
        m = problems.arguments["b"].data.shape[1] if is_polytope else 0
        self.costs = None
        if METHODS[method].many_starts:
            self.costs = random_costs(np.ones(n), options["n_starts"], options["seed"])
        self.m = m

    def worker(self):
        """Workspace of one worker."""
        n, k_max = self.problems.n, self.max_iter
        factor = self.problems.arguments["factor"].data.shape[1:] if self.problems.low_rank else (n, n)
        matrix = np.empty(factor[::-1])
        scaled = blank_params(self.m, n, KERNEL) if self.problems.set.single is Polytope else None
        set_stack, _ = self.problems.set_stack(0, 1, scaled)
        floats, integers = work_size.interpreted(self.problems.objective_stack(0, 1, matrix), set_stack)
        atoms = atoms_size(n)
        scratch = Scratch(
            np.empty(N_NUMBERS + STATE_VECTORS * n + floats + atoms[0]),
            np.zeros(N_CONTROL + integers + atoms[1], np.int64),
            *np.empty((2, n)), *np.empty((2, k_max + 1)), np.empty(2), np.empty(3, np.int64),
        )  # fmt: skip
        return matrix, scaled, scratch, np.empty((2, 1, k_max + 1))

    def option_stack(self, first, last, upper):
        """Options of the loop for the problems first..last - 1."""
        method, options = self.method, self.options
        tol = as_tolerance(options.get("tol"))
        if METHODS[method].many_starts:
            # As `local_solver` chooses.
            corrective = self.problems.objective.single is Quadratic or self.problems.set.single is Polytope
            phase = FullyCorrectiveOptions if corrective else SpectralOptions
            return MultiStartOptions(self.costs, phase(tol))
        loop = self.solver.loop
        given = {"step_size": options["step_size"]} if "step_size" in options else {}
        if given.get("step_size") == "short":
            given["curvature"] = self._curvatures(first, last, upper)
        phase = loop(tol, self.max_iter, **given)
        return TwoPhaseStack(phase) if METHODS[method].second_phase else phase

    def solve(self, worker, piece):
        """Solves a range of problems, by the kernel and what it leaves by the ordinary solver."""
        first, last = piece.start, piece.stop
        answers = Answers(*(array[first:last] for array in self.answers))
        if not self.by_solver:
            matrix, scaled, scratch, traces = worker
            objectives = self.problems.objective_stack(first, last, matrix)
            sets, upper = self.problems.set_stack(first, last, scaled)
            if not len(answers.trace_value):
                answers = answers._replace(trace_value=traces[0], trace_gap=traces[1])
            options = self.option_stack(first, last, upper)
            arguments = objectives, sets, upper, options, scratch, self.max_iter, answers
            self._kernel(arguments)(*arguments)
        for i in np.flatnonzero(~np.isin(answers.code, _SOLVED)):
            self.solve_alone(first + int(i))

    def _kernel(self, arguments):
        """`solve_stack`, or its plain Python where that has solved all problems sooner."""
        if not self.compiled:
            n, scratch = self.problems.n, arguments[4]
            steps = min(self.max_iter, USUAL_STEPS) * (1 if self.costs is None else len(self.costs))
            run = solve_stack.choose(arguments, self.problems.count * steps * (scratch.floats.size + n * n))
            if isinstance(run, Interpreted):
                return run
            self.compiled = True
        return solve_stack

    def _curvatures(self, first, last, upper):
        """Curvature bounds for short steps: the user's, or those of the objectives."""
        given = self.options.get("curvature")
        if given is not None:
            return np.maximum(given.rows(first, last), 1e-300)
        bounds = np.ones(last - first)
        for i in range(first, last):
            try:
                f, _ = self.problems.single(i)
            except (ValueError, TypeError):
                continue  # the kernel refuses it, and the ordinary solver says why
            bounds[i - first] = max(f.curvature_bound(upper[(i - first) % len(upper)]), 1e-300)
        return bounds

    def solve_alone(self, i):
        """Problem i by the ordinary solver."""
        options = dict(self.options)
        if options.get("curvature") is not None:
            options["curvature"] = float(options["curvature"].one(i))
        try:
            f, P = self.problems.single(i)
            result = maximize(f, P, method=self.method, bound="cheap", max_iter=self.max_iter, lmo=self.lmo, **options)
        except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
            if self.on_error == "raise":
                raise _Failure(i, error) from error
            self.fail(i, f"problem {i}: {error}")
            return
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        answers = self.answers
        answers.x[i] = result.x
        answers.value[i], answers.fw_gap[i] = result.value, result.fw_gap
        answers.upper_bound[i] = result.upper_bound
        answers.n_iter[i], answers.n_lmo[i] = result.n_iter, result.n_lmo
        if len(answers.trace_value):
            for trace, values in ((answers.trace_value, result.trace.value), (answers.trace_gap, result.trace.fw_gap)):
                trace[i] = np.nan
                trace[i, : len(values)] = values
        if not result.success and result.status is not self.finished:
            self.messages[i] = f"problem {i}: {result.message}"
        answers.code[i] = FIRST_STATUS + STATUSES.index(result.status)

    def fail(self, i, message, status=Status.FAILED):
        """Marks problem i as not solved."""
        answers = self.answers
        for array in (answers.x, answers.value, answers.fw_gap, answers.upper_bound):
            array[i] = np.nan
        if len(answers.trace_value):
            answers.trace_value[i] = answers.trace_gap[i] = np.nan
        answers.n_iter[i] = answers.n_lmo[i] = 0
        answers.code[i] = FIRST_STATUS + STATUSES.index(status)
        self.messages[i] = message

    def statuses(self, piece=slice(None)):
        """Status of each problem of a range."""
        code = self.answers.code[piece].copy()
        code[code == CONVERGED] = FIRST_STATUS + STATUSES.index(Status.CONVERGED)
        code[code == STALLED] = FIRST_STATUS + STATUSES.index(Status.STALLED)
        code[code == FINISHED] = FIRST_STATUS + STATUSES.index(self.finished)
        return np.array(STATUSES, dtype=object)[code - FIRST_STATUS]

    def work(self, turns, checkpoint, bar):
        """One worker: takes ranges until none is left."""
        worker, size = None, 1
        while (piece := turns.take(None if checkpoint else size)) is not None:
            worker = worker or self.worker()
            start = piece.start
            while start < piece.stop and not turns.stopped:
                part = range(start, min(start + size, piece.stop))
                began = time.perf_counter()
                try:
                    self.solve(worker, part)
                except _Failure as failure:
                    turns.stop(failure)
                    return
                spent = max(time.perf_counter() - began, 1e-7)
                size = max(1, min(4 * size, int(_TURN * len(part) / spent)))
                start = part.stop
                bar(len(part))
            if checkpoint and start == piece.stop:
                checkpoint.store(piece.start // checkpoint.layout["size"], self.saved(piece))

    def saved(self, piece):
        """Arrays that a checkpoint keeps of a range."""
        rows = slice(piece.start, piece.stop)
        arrays = {name: array[rows] for name, array in self.answers._asdict().items() if name != "code"}
        arrays["status"] = np.array([status.name for status in self.statuses(rows)])
        failed = [i for i in piece if i in self.messages]
        return arrays | {"failed": np.array(failed, np.int64), "message": np.array([self.messages[i] for i in failed])}

    def restore(self, piece, arrays):
        """Takes a range from a checkpoint."""
        rows = slice(piece.start, piece.stop)
        for name, array in self.answers._asdict().items():
            if name != "code":
                array[rows] = arrays[name]
        self.answers.code[rows] = [FIRST_STATUS + STATUSES.index(Status[name]) for name in arrays["status"]]
        self.messages.update(zip(arrays["failed"].tolist(), arrays["message"].tolist(), strict=True))

    def close(self):
        """Marks what was not solved as interrupted."""
        code = self.answers.code
        for i in np.flatnonzero(~np.isin(code, _SOLVED) & (code < FIRST_STATUS)):
            self.fail(int(i), f"problem {i}: {Status.INTERRUPTED.value}", Status.INTERRUPTED)
        self.messages = dict(sorted(self.messages.items()))


def _open_checkpoint(folder, batch):
    """The checkpoint of a batch, and the ranges of problems that are its chunks."""
    problems = batch.problems
    options = {k: v.data if isinstance(v, _Argument) else v for k, v in batch.options.items()}
    inputs = fingerprint(
        {name: argument.data for name, argument in problems.arguments.items()},
        options, batch.method, batch.max_iter, batch.lmo, len(batch.answers.trace_value) > 0,
    )  # fmt: skip
    size = max(1, math.ceil(problems.count / _CHUNKS))
    checkpoint = Checkpoint(folder, inputs, {"size": size})
    size = checkpoint.layout["size"]
    return checkpoint, [range(i, min(i + size, problems.count)) for i in range(0, problems.count, size)]


def _checked_options(method, n, tol, step_size, curvature, subroutine, n_starts, seed):
    """Options of a method, as the ordinary solver takes them."""
    takes = METHODS[method].options
    as_tolerance(tol)  # refuses what is none, whatever the method
    options = {"tol": tol} if "tol" in takes else {}
    if "n_starts" in takes:
        options["n_starts"] = default_starts(n) if n_starts is None else as_count(n_starts, "n_starts", lower=1)
        options["seed"] = as_seed(seed)
    if "subroutine" in takes:
        options["subroutine"] = one_of(subroutine, "subroutine", subroutines())
    solver = METHODS[options.get("subroutine", method)]
    if solver.loop is not None and "step_size" in signature(solver.loop).parameters:
        options["step_size"] = one_of(step_size, "step_size", tuple(STEP_SIZES))
        if curvature is not None:
            options["curvature"] = _Argument(curvature, "curvature", 0)
    return options


def problems_of_stack(unit_box=True, **arrays):
    """The problems of a stack one by one, for `maximize_iter`.

    Takes the arrays that `maximize_stacked` takes.

    Returns
    -------
    makers : list of callable
        Each returns a `Problem`, or raises ValueError or TypeError naming it.
    n : int
        Number of variables.
    """
    problems = _Problems(arrays, unit_box)
    return [partial(_one_of_stack, problems, i) for i in range(problems.count)], problems.n


def _one_of_stack(problems, i):
    try:
        return Problem(*problems.single(i))
    except (ValueError, TypeError) as error:
        raise type(error)(f"problem {i}: {error}") from error


def maximize_stacked(
    *, H=None, h=None, c=0.0, L=None, factor=None, unit_box=True, A=None, b=None, k=None, upper=None,
    method="multi-start", max_iter=None, tol=None, step_size="open-loop", curvature=None, subroutine="frank-wolfe",
    n_starts=None, seed=0, lmo="auto", n_jobs=None, on_error="record", trace=False, checkpoint=None, progress=False,
):  # fmt: skip
    """Solves many problems of one size, given as stacked arrays.

    Every array has one more axis in front than for one problem, of length B, or none if all problems share it.
    The answers are those of the ordinary solvers, whatever ``n_jobs`` is.

    Parameters
    ----------
    H, h, c : array_like, shapes ([B,] n, n), ([B,] n), ([B])
        Quadratic objectives, as in `Quadratic`.
    L or factor : array_like, shapes ([B,] n, n), ([B,] n, r)
        Softmax objectives, as in `Softmax`; ``unit_box`` likewise.
    A, b, upper : array_like, shapes ([B,] m, n), ([B,] m), ([B,] n)
        Polytopes, as in `Polytope`; without ``upper`` the tightest bound.
    k, upper : array_like, shapes ([B]), ([B,] n)
        Budget sets, as in `Budget`. With ``upper`` alone: boxes.
    method : str
        "frank-wolfe", "fully-corrective-frank-wolfe", "monotone-frank-wolfe", "multi-start" (also by "auto"),
        "nonmonotone-frank-wolfe", "projected-gradient" or "two-phase-frank-wolfe".
    max_iter, tol, step_size, subroutine, n_starts, seed, lmo
        As in the solver of that method.
    curvature : array_like, shape ([B]), optional
        C >= C_f(P) for short steps; by default the objective's own bound.
    n_jobs : int, optional
        Threads; None or -1 for as many as there are processors.
    on_error : {"record", "raise"}
        Whether a problem that fails gets a status and a message while the others go on, or its error is raised.
    trace : bool
        Whether to keep value and gap of every iterate.
    checkpoint : path, optional
        Folder that receives each finished chunk. A run that finds one there goes on from it.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    StackedResult
        Ctrl-C returns what is done; the status of the rest is INTERRUPTED.

    Raises
    ------
    ValueError, TypeError
        For shapes that do not fit together or an unknown option.
    CheckpointError
        If the checkpoint is that of other inputs.

    Notes
    -----
    Arrays that are float64, C-contiguous and writable are read where they are; others are converted piece by
    piece, so memory beyond inputs and answers does not grow with B.

    Examples
    --------
    >>> import numpy as np, drsub_fast as ds
    >>> h = np.array([[1.0, 1.0], [1.0, 2.0], [2.0, 0.0]])
    >>> r = ds.maximize_stacked(
    ...     H=[[-1.0, -0.5], [-0.5, -2.0]], h=h, upper=[1.0, 1.0], method="nonmonotone-frank-wolfe", n_jobs=1)
    >>> r.value.round(2)
    array([0.55, 1.1 , 1.07])
    >>> r[2].status.name
    'COMPLETED'
    """
    began = time.perf_counter()
    arguments = {
        "H": H, "h": h, "c": None if H is None else c, "L": L, "factor": factor, "A": A, "b": b, "k": k,
        "upper": upper,
    }  # fmt: skip
    method = "multi-start" if method == "auto" else one_of(method, "method", ("auto", *METHODS))
    one_of(on_error, "on_error", ("record", "raise"))
    one_of(lmo, "lmo", ORACLES)
    n_jobs = worker_count(n_jobs)
    problems = _Problems(arguments, unit_box)
    if max_iter is None:
        max_iter = METHODS[method].default("max_iter")
    options = _checked_options(method, problems.n, tol, step_size, curvature, subroutine, n_starts, seed)
    batch = _Batch(problems, method, as_count(max_iter, "max_iter"), options, lmo, on_error, trace)
    count = problems.count
    pieces, store = [range(count)] if count else [], None
    if checkpoint is not None:
        store, pieces = _open_checkpoint(checkpoint, batch)
        for index in store.indices():
            batch.restore(pieces[index], store.load(index))
        done = set(store.indices())
        pieces = [piece for index, piece in enumerate(pieces) if index not in done]
    turns = _Turns(pieces)
    with progress_bar(progress, count, count - sum(map(len, pieces))) as bar, one_blas_thread():
        _run_workers(n_jobs, turns, lambda: batch.work(turns, store, bar))
    if turns.errors:
        i, error = min(failure.args for failure in turns.errors)
        raise type(error)(f"problem {i}: {error}") from error
    batch.close()
    answers = batch.answers
    traces = (answers.trace_value, answers.trace_gap) if trace else (None, None)
    return StackedResult(
        answers.x, answers.value, answers.fw_gap, answers.upper_bound, batch.statuses(), answers.n_iter,
        answers.n_lmo, batch.messages, method, time.perf_counter() - began, *traces,
    )  # fmt: skip


def _run_workers(n_jobs, turns, work):
    """Runs the workers, the only one in this thread; after Ctrl-C each finishes what it has begun."""
    try:
        if n_jobs == 1:
            work()
            return
        with ThreadPoolExecutor(n_jobs, thread_name_prefix="drsub_fast") as pool:
            futures = [pool.submit(work) for _ in range(n_jobs)]
            try:
                wait(futures)
            except KeyboardInterrupt:
                turns.stop()
                raise
        for future in futures:
            future.result()
    except KeyboardInterrupt:
        turns.stop()
        logger.info("the batch was interrupted")
