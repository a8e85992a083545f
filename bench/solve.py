"""Whole solves of 100 steps: time, quality and peak memory beside each other."""

import drsub_fast as ds
from bench.problems import IMPLS, quadratic_problem, skip_slow_reference, softmax_problem, solver
from drsub_fast.experiments.peers import GLOBAL, LOCAL, installed

SIZES = [8, 16, 64, 100, 256, 500, 1000]
METHODS = ["frank-wolfe", "nonmonotone-frank-wolfe", "two-phase-frank-wolfe"]


class QuadraticPolytope:
    """Quadratic over a polytope with n / 2 rows."""

    params = (IMPLS, METHODS, SIZES)
    param_names = ("impl", "method", "n")
    timeout = 600
    warmup_time = 0
    rounds = 1

    def setup(self, impl, method, n):
        skip_slow_reference(impl, n)
        self.f, self.P = quadratic_problem(n, n // 2)
        self.solve = solver(impl, method)
        self.solve(self.f, self.P, max_iter=2)

    def time_solve(self, impl, method, n):
        self.solve(self.f, self.P, max_iter=100)

    def track_value(self, impl, method, n):
        return self.solve(self.f, self.P, max_iter=100).value

    def track_fw_gap(self, impl, method, n):
        return self.solve(self.f, self.P, max_iter=100).fw_gap

    def peakmem_solve(self, impl, method, n):
        self.solve(self.f, self.P, max_iter=100)


class QuadraticSquare(QuadraticPolytope):
    """Quadratic over a polytope with n rows."""

    params = (["reference", "fast", "highs"], ["nonmonotone-frank-wolfe"], [16, 100, 500])

    def setup(self, impl, method, n):
        skip_slow_reference(impl, n)
        self.f, self.P = quadratic_problem(n, n)
        self.solve = solver(impl, method)
        self.solve(self.f, self.P, max_iter=2)


class SoftmaxBudget:
    """Softmax over a budget set."""

    params = (["reference", "fast"], ["frank-wolfe", "nonmonotone-frank-wolfe"], [16, 128, 512, 1024])
    param_names = ("impl", "method", "n")
    timeout = 600
    warmup_time = 0
    rounds = 1

    def setup(self, impl, method, n):
        if impl == "reference" and n > 512:
            raise NotImplementedError
        self.f, self.P = softmax_problem(n)
        self.solve = solver(impl, method)
        self.solve(self.f, self.P, max_iter=2)

    def time_solve(self, impl, method, n):
        self.solve(self.f, self.P, max_iter=100)

    def track_value(self, impl, method, n):
        return self.solve(self.f, self.P, max_iter=100).value


class SmallGap:
    """Time to a gap of 1e-6 by the fully corrective method, and the default of maximize."""

    params = (["fully-corrective-frank-wolfe", "multi-start"], [16, 100, 200])
    param_names = ("method", "n")
    timeout = 600
    warmup_time = 0

    def setup(self, method, n):
        self.f, self.P = quadratic_problem(n, n // 2)
        self.solve = solver("fast", method)
        self.solve(self.f, self.P)

    def time_solve(self, method, n):
        self.solve(self.f, self.P)

    def track_value(self, method, n):
        return self.solve(self.f, self.P).value


class LocalPeers:
    """The default of maximize beside local solvers that a user could call instead; those not installed are skipped."""

    params = (["maximize", *(peer.name for peer in LOCAL)], [16, 100])
    param_names = ("impl", "n")
    timeout = 600
    warmup_time = 0
    mine, peers = staticmethod(lambda f, P: lambda: ds.maximize(f, P).value), LOCAL

    def setup(self, impl, n):
        ways = {peer.name: peer.make for peer in installed(self.peers)} | {self.params[0][0]: self.mine}
        if impl not in ways:
            raise NotImplementedError
        self.solve = ways[impl](*quadratic_problem(n, n // 2))
        self.solve()

    def time_solve(self, impl, n):
        self.solve()

    def track_value(self, impl, n):
        return self.solve()


class GlobalPeers(LocalPeers):
    """A proven maximum, to 1e-6."""

    params = (["global_maximum", *(peer.name for peer in GLOBAL)], [8, 12])
    mine, peers = staticmethod(lambda f, P: lambda: ds.global_maximum(f, P)), GLOBAL

    def track_value(self, impl, n):
        return self.solve().value
