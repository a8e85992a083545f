"""Objectives, sets and methods of your own, with all that those of the package have.

The built-in ones are made by the same means. What you register is known by its name to `drsub_fast.maximize`, batches,
stacks, files, the command, `drsub-fast warmup`, the figures and the reference pages. CONTRIBUTING.md has a recipe for
each; `check_objective`, `check_set` and `check_method` try what you wrote, and say by an AssertionError what is wrong.

- `kernel`: the decorator of compiled functions. A kernel returns codes (`OK`, `NEEDS_SOLVER`, `PAUSED`, `FAILED`).
- *An objective*: a namedtuple of parameters, `register_objective(Params, evaluate=..)`, a class derived from
  `Objective`.
- *A set*: a namedtuple of parameters, `register_set(Params, lmo=..)`, a class derived from `FeasibleSet`.
- *Their names*: `register_kind(OBJECTIVES | SETS, "name", Class, example=.., about=.., argument=array("n"), ..)`, with
  `array`, `NUMBER`, `COUNT`, `FLAG`, `TEXT` for the arguments; for stacks `row_of`, `within`, `symmetric`, `LARGEST`.
- *A method*: `register_method(Method("name", function, "Label", ..))`.
- `as_vector`, `as_number`: arguments of a constructor, checked; errors name the entry.

Examples
--------
>>> from collections import namedtuple
>>> import drsub_fast as ds
>>> from drsub_fast import extend
>>> RootParams = namedtuple("RootParams", "n weights")
>>> @extend.kernel
... def evaluate(params, work, x):
...     value = 0.0
...     for i in range(x.size):
...         root = (1.0 + x[i]) ** 0.5
...         value += params.weights[i] * (root - 1.0)
...         work.grad[i] = 0.5 * params.weights[i] / root
...     return value
>>> extend.register_objective(RootParams, evaluate=evaluate)
>>> class Roots(extend.Objective):
...     def __init__(self, gains):
...         self.gains = extend.as_vector(gains, "gains", lower=0.0)
...         super().__init__(self.gains.size, RootParams(self.gains.size, self.gains))
...     def dr_submodular_on(self, upper):
...         return True
>>> extend.check_objective(Roots([1.0, 2.0]))
>>> round(ds.maximize(Roots([1.0, 2.0]), ds.Budget(1.0, [1.0, 1.0])).value, 3)
0.828
"""

from drsub_fast._checks import as_real as as_number
from drsub_fast._checks import as_vector
from drsub_fast._kinds import (
    COUNT,
    FLAG,
    LARGEST,
    NUMBER,
    OBJECTIVES,
    SETS,
    TEXT,
    array,
    register_kind,
    symmetric,
    within,
)
from drsub_fast.engine.codes import FAILED, NEEDS_SOLVER, OK, PAUSED
from drsub_fast.engine.dispatch import row_of
from drsub_fast.engine.jit import kernel
from drsub_fast.extend.method_trials import check_method
from drsub_fast.extend.objective_trials import check_objective
from drsub_fast.extend.set_trials import check_set
from drsub_fast.objectives.base import Objective, register_objective
from drsub_fast.sets.base import FeasibleSet, register_set
from drsub_fast.solvers.record import METHODS, Method, register_method

__all__ = [
    "COUNT",
    "FAILED",
    "FLAG",
    "LARGEST",
    "METHODS",
    "NEEDS_SOLVER",
    "NUMBER",
    "OBJECTIVES",
    "OK",
    "PAUSED",
    "SETS",
    "TEXT",
    "FeasibleSet",
    "Method",
    "Objective",
    "array",
    "as_number",
    "as_vector",
    "check_method",
    "check_objective",
    "check_set",
    "kernel",
    "register_kind",
    "register_method",
    "register_objective",
    "register_set",
    "row_of",
    "symmetric",
    "within",
]


def __dir__() -> list[str]:
    return __all__
