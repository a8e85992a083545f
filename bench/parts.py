"""The parts of a step: linear oracle cold and warm, value and gradient, projection."""

import numpy as np

from bench.problems import IMPLS, cold_lmo, quadratic_problem, skip_slow_reference, softmax_problem
from drsub_fast import kernels
from drsub_fast.reference.problem import as_function

SIZES = [16, 64, 100, 256, 500]


class ColdOracle:
    """One linear program from nothing."""

    params = (IMPLS, SIZES)
    param_names = ("impl", "n")

    def setup(self, impl, n):
        self.f, self.P = quadratic_problem(n, n // 2)
        self.direction = self.f.gradient(np.zeros(n))
        self.upper = np.array(self.P.upper)
        self.P.lmo(self.direction)

    def time_lmo(self, impl, n):
        if impl == "reference":
            cold_lmo(self.P, self.direction)
        elif impl == "fast":
            self.P.lmo(self.direction)
        else:
            self.P.solver(self.upper).maximize(self.direction, self.upper)


class WarmOracle:
    """100 linear programs along a Frank-Wolfe path that does not touch the objective's cost."""

    params = (IMPLS, SIZES)
    param_names = ("impl", "n")
    timeout = 300

    def setup(self, impl, n):
        skip_slow_reference(impl, n)
        self.f, self.P = quadratic_problem(n, n // 2)
        rng = np.random.default_rng(0)
        first = self.f.gradient(np.zeros(n))
        steps = np.linspace(0.0, 0.5, 100)
        self.costs = [first + t * np.abs(first) * (rng.random(n) - 1.0) for t in steps]
        self.upper = np.array(self.P.upper)
        self.oracle = self.P.solver(self.upper)
        self.arrays, self.v = self.P.params(), np.empty(n)
        self.work = kernels.set_work(self.arrays)

    def time_lmo(self, impl, n):
        for cost in self.costs:
            if impl == "reference":
                cold_lmo(self.P, cost)
            elif impl == "fast":
                kernels.lmo(self.arrays, self.work, cost, self.upper, self.v)
            else:
                self.oracle.maximize(cost, self.upper)


class ValueAndGradient:
    """f and its gradient at one point."""

    params = (["reference", "fast"], ["quadratic", "softmax"], [16, 128, 512])
    param_names = ("impl", "objective", "n")

    def setup(self, impl, objective, n):
        make = quadratic_problem if objective == "quadratic" else softmax_problem
        self.f = make(n, n // 2)[0] if objective == "quadratic" else make(n)[0]
        self.x = np.random.default_rng(0).random(n) * (np.arange(n) % 3 == 0)
        self.evaluate = self.f.value_and_gradient
        if impl == "reference":
            function = as_function(self.f)
            self.evaluate = lambda x: (function.value(x), function.gradient(x))
        self.evaluate(self.x)

    def time_evaluate(self, impl, objective, n):
        self.evaluate(self.x)
