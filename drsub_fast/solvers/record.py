"""What the package knows of a method: one record, read by all who run methods or show their results."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Signature, signature
from textwrap import indent
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

from numpy.typing import ArrayLike

from drsub_fast._checks import one_of
from drsub_fast.claims.gate import Promise
from drsub_fast.objectives.base import Objective
from drsub_fast.result import Guarantee, Result, Status
from drsub_fast.sets.base import FeasibleSet

#: Names of the built-in methods, for type checkers: pass the record of a method of your own, or its name at run time.
MethodName = Literal[
    "auto", "boosted-gradient", "double-greedy", "frank-wolfe", "fully-corrective-frank-wolfe", "global-maximum",
    "monotone-frank-wolfe", "mualem-feldman", "multi-start", "nonmonotone-frank-wolfe", "projected-gradient",
    "stochastic-continuous-greedy", "two-phase-frank-wolfe",
]  # fmt: skip


class _MethodOptions(TypedDict, total=False):
    """Options of the built-in methods that a batch passes on."""

    max_iter: int | None
    tol: float | None
    lmo: Literal["auto", "highs", "kernel"]
    time_limit: float | None
    callback_every: int
    step_size: Literal["open-loop", "exact", "short", "spectral"] | float
    curvature: float | None
    subroutine: str | Callable[..., Any]
    n_samples: int
    n_values: int
    gap: float
    max_nodes: int | None


class Options(_MethodOptions, total=False):
    """Options of the built-in methods, for type checkers; at run time each method names those that it has."""

    n_jobs: int


class BatchOptions(_MethodOptions, total=False):
    """Options of every solve of a batch: those of `maximize`, except ``n_jobs``, which is the batch's own."""

    n_starts: int | None
    seed: int
    bound: Literal["auto", "cheap", "tight"]
    x0: ArrayLike | None
    callback: Callable[..., Any] | None


#: What a method may need of the set: x >= y in P implies y in P; the set is a `Box`; it has a projection.
NEEDS = ("down-closed", "box", "projection")


def no_workspace(n: int) -> tuple[int, int]:
    """(floats, integers) of workspace for n variables that a loop wants beside those of objective and set: none."""
    return 0, 0


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes
    ----------
    name : str
        Its name in `maximize`, files and commands, e.g. "frank-wolfe".
    solve : callable
        ``solve(f, P, *, max_iter, .., **options) -> Result``; its keyword arguments are the method's options.
    label : str
        What tables and figures call it.
    finished : Status
        Of a run that took all its steps.
    needs : tuple of str
        From `NEEDS`.
    is_local : bool
        Whether it ends at a stationary point, so that two-phase Frank-Wolfe may use it as a subroutine.
    many_starts, second_phase : bool
        Whether it is made of solves by another method: from many starts; once more, over what is left above the answer.
    loop : callable, optional
        ``loop(tol, max_iter, **options)``: options of its compiled loop, by which many problems are solved in a stack;
        of the method's own options it has those among its parameters. Without it they are solved one by one.
    workspace : callable
        As `no_workspace`, for that loop.
    promise : Promise or Guarantee, optional
        What a run that takes all its steps promises, over a down-closed set if it is a part of the maximum; None
        where that depends on the problem.
    marker, colour : str
        Of its curve, in the words of matplotlib.
    claim, about : str
        What it guarantees and what it is for, in a row of a table.
    """

    name: str
    solve: Callable
    label: str
    finished: Status = Status.MAX_ITER
    needs: tuple[str, ...] = ()
    is_local: bool = False
    many_starts: bool = False
    second_phase: bool = False
    loop: Callable | None = None
    workspace: Callable = no_workspace
    promise: Promise | Guarantee | None = None
    marker: str = "."
    colour: str = "black"
    claim: str = "none"
    about: str = ""

    def __call__(self, f: Objective, P: FeasibleSet, **options: Any) -> Result:
        return self.solve(f, P, **options)

    @property
    def __signature__(self) -> Signature:
        return signature(self.solve)

    @property
    def function_name(self) -> str:
        """Name of its function."""
        return self.solve.__name__

    @property
    def options(self) -> tuple[str, ...]:
        """Names of its options, in order."""
        return option_names(self.solve)

    def default(self, option: str) -> object:
        """Default of an option."""
        return signature(self.solve).parameters[option].default


#: The methods by name.
METHODS: dict[str, Method] = {}


def register_method(method: "Method") -> None:
    """Make a method known under its name, to all who read `METHODS`; ValueError for a need that is not in `NEEDS`."""
    if method.name == "auto":
        raise ValueError("the name 'auto' is that of the choice among the methods")
    for need in method.needs:
        one_of(need, "need", NEEDS)
    METHODS[method.name] = method
    for name in sorted(METHODS):  # in the order of their names, whatever was imported first
        METHODS[name] = METHODS.pop(name)


@cache  # a signature takes as long to read as a small start to solve
def option_names(solver: Callable[..., object]) -> tuple[str, ...]:
    """Names of the options of a solver, in order; what comes after f and P."""
    return tuple(name for name, item in signature(solver).parameters.items() if item.kind is item.KEYWORD_ONLY)


def check_options(options: Iterable[str], known: Collection[str], method: str) -> None:
    """Raise TypeError for an option that a method does not have, listing those that it has."""
    for name in options:
        if name not in known:
            raise TypeError(f"{method} takes no option {name!r}; its options are {', '.join(sorted(known))}")


_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


#: What the docstrings of the solvers say of the options that they have in common.
_COMMON = {
    "x0": """array_like, shape (n,), optional
        Starting point in P; 0 by default, or the set's own point.""",
    "tol": """float, optional
        Stop when the Frank-Wolfe gap is at most this, in units of f. By default 1e-6 of the most that a value met in
        the run exceeds f at the set's own starting point (with an ``x0``: f half-way between the two), which follows
        the units of f and does not see a constant added to f.""",
    "lmo": """{"auto", "highs", "kernel"}
        Linear oracle of a polytope: chosen by size, warm-started HiGHS alone, or the compiled simplex.""",
    "callback": """callable, optional
        ``callback(progress)`` every ``callback_every`` updates, with fields n_iter, x, value, fw_gap; a true
        return value stops the run.""",
    "callback_every": """int
        Updates from one call of ``callback`` to the next.""",
    "time_limit": """float, optional
        Seconds of wall-clock time, exceeded by at most 20 % + 10 ms: a step that takes longer is given up. A call of
        a function of yours is waited for. Compiling counts, and while fewer than 30 s are left none is begun: what is
        not compiled yet runs as plain Python, much slower (`drsub-fast warmup` compiles ahead).""",
    "progress": """bool
        Show a progress bar on standard error.""",
}
_COMMON_LINE = re.compile(r"^( *)\{([\w, ]+)\}$", re.MULTILINE)


def common_options(solver: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """The solver, with the line ``{lmo, callback}`` of its docstring replaced by what `_COMMON` says of each."""

    def described(line: re.Match[str]) -> str:
        spaces, names = line.groups()
        blocks = (f"{name} : {_COMMON[name]}".replace("\n        ", "\n    ") for name in names.split(", "))
        return indent("\n".join(blocks), spaces)

    if solver.__doc__ is not None:  # python -OO leaves none
        solver.__doc__ = _COMMON_LINE.sub(described, solver.__doc__)
    return solver


def named_options(solver: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """`common_options`, and the solver names its options where one is given that it does not have."""
    known = set(signature(common_options(solver)).parameters)

    @wraps(solver)
    def checked(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Answer:
        if not known.issuperset(options):
            wrong = {name: value for name, value in options.items() if name not in known}
            check_options(wrong, option_names(solver), solver.__name__)
        return solver(*args, **options)

    return checked
