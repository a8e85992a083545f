"""Guarantees of the answers of a stack, made when they are read."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drsub_fast.batch.problem_stack import ProblemStack
from drsub_fast.claims.gate import claims, guarantee
from drsub_fast.methods import METHODS, maximize, options_of
from drsub_fast.result import Guarantee, Status
from drsub_fast.solvers.domain import solver_upper
from drsub_fast.solvers.record import MethodName


@dataclass
class Claims:
    """What the method promises for each problem of a `ProblemStack`: the guarantee of a single solve by these options.

    Those that are known, of problems that the ordinary solver has solved, are kept, and the others as they are made.
    """

    problems: ProblemStack
    method: MethodName
    options: dict[str, Any]
    known: dict[int, Guarantee] = field(default_factory=dict)

    def __call__(self, i: int, status: Status, n_iter: int, value: float) -> Guarantee:
        """The guarantee of problem i, whose run ended like this."""
        if i not in self.known:
            self.known[i] = self._fresh(i, status, n_iter, value)
        return self.known[i]

    def _fresh(self, i, status, n_iter, value):
        if status in (Status.FAILED, Status.INTERRUPTED):
            return Guarantee(None, f"none: {status.value}")
        promise = METHODS[self.method].promise if self.method in METHODS else None
        if isinstance(promise, Guarantee):
            return promise
        f, P = self.problems.single(i)
        upper = solver_upper(f, P)
        if promise is None or not P.is_down_closed or guarantee(f, P, upper, promise).holds is not True:
            # What the values on the way say against the premise is known to a single solve only.
            return maximize(f, P, method=self.method, bound="cheap", **self.single_options(i)).guarantee
        return claims(f, P, upper, promise, status, n_iter, np.empty(0), value, np.inf)[0]

    def single_options(self, i: int) -> dict[str, Any]:
        """Options of `maximize` for problem i."""
        taken = options_of(self.method, self.options.get("subroutine"))
        options = {name: value for name, value in self.options.items() if name in taken}
        if options.get("curvature") is not None:
            options["curvature"] = float(options["curvature"].one(i))
        return options
