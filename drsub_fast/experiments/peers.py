"""What else a user could run: the baselines of the speed table and of the benchmarks, the strongest first.

Each is written as a careful user would: models are built once and kept warm, derivatives are exact, and the whole call
is timed. Those that need a further package are left out where it is not installed; `missing` names them.
"""

import heapq
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, minimize
from scipy.sparse import csr_array

from drsub_fast.objectives.quadratic import Quadratic
from drsub_fast.objectives.softmax import Softmax
from drsub_fast.proofs.program import magnitude, quadratic_program
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.polytope import Polytope


class Peer(NamedTuple):
    """One other way to solve a problem.

    Attributes
    ----------
    name : str
    module, extra : str or None
        The module that it needs beside the package's own dependencies, and the extra that brings it.
    make : callable
        ``make(*problem)`` prepares a problem and returns a function without arguments, which solves it.
    """

    name: str
    module: str | None
    extra: str | None
    make: Callable[..., Any]

    @property
    def is_installed(self) -> bool:
        """Whether its module is there."""
        return self.module is None or importlib.util.find_spec(self.module) is not None


def ipopt(f: Quadratic, P: Polytope) -> Callable[[], float]:
    """IPOPT from 0 for a quadratic over rows, by CasADi, which is built once; returns the value."""
    import casadi

    x = casadi.MX.sym("x", f.n)
    loss = -(0.5 * casadi.bilin(casadi.DM(f.H), x, x) + casadi.dot(casadi.DM(f.h), x) + f.c)
    program = {"x": x, "f": loss, "g": casadi.mtimes(casadi.DM(P.A), x)}
    quiet: dict[str, Any] = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    solver = casadi.nlpsol("solver", "ipopt", program, quiet)
    start = np.zeros(f.n)
    return lambda: -float(solver(x0=start, lbx=0.0, ubx=P.upper, lbg=-np.inf, ubg=P.b)["f"])


def slsqp(f: Quadratic, P: Polytope) -> Callable[[], float]:
    """SciPy's SLSQP from 0 for a quadratic over rows; returns the value."""
    H, h = f.H, f.h
    options = {"maxiter": 500, "ftol": 1e-9}
    rows = {"type": "ineq", "fun": lambda x: P.b - P.A @ x, "jac": lambda x: -P.A}
    return lambda: f.c - minimize(
        lambda x: -(0.5 * x @ H @ x + h @ x), np.zeros(f.n), jac=lambda x: -(H @ x + h), method="SLSQP",
        bounds=Bounds(0.0, P.upper), constraints=[rows], options=options,
    ).fun  # fmt: skip


def trust_constr(f: Quadratic, P: Polytope) -> Callable[[], float]:
    """SciPy's trust-constr from 0 for a quadratic over rows, with the Hessian; returns the value."""
    H, h = f.H, f.h
    rows = LinearConstraint(P.A, -np.inf, P.b)
    return lambda: f.c - minimize(
        lambda x: -(0.5 * x @ H @ x + h @ x), np.zeros(f.n), jac=lambda x: -(H @ x + h), hess=lambda x: -H,
        method="trust-constr", bounds=Bounds(0.0, P.upper), constraints=[rows],
    ).fun  # fmt: skip


#: Local solvers of max f(x), A x <= b, 0 <= x <= upper, f quadratic.
LOCAL = (
    Peer("IPOPT", "casadi", "rivals", ipopt),
    Peer("SciPy SLSQP", None, None, slsqp),
    Peer("SciPy trust-constr", None, None, trust_constr),
)


def softmax_in_numpy(f: Softmax) -> Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]:
    """Value and gradient of a softmax extension by numpy, as a function of x."""
    unit = np.eye(f.n)
    D = f.L - unit

    def value_and_gradient(x):
        M = unit + x[:, None] * D
        return np.linalg.slogdet(M)[1], np.einsum("ij,ji->i", D, np.linalg.inv(M))

    return value_and_gradient


def softmax_slsqp(f: Softmax, P: Budget) -> Callable[[], float]:
    """SciPy's SLSQP from 0 for a softmax extension over a budget set; returns the value."""
    value_and_gradient = softmax_in_numpy(f)

    def loss(x):
        value, g = value_and_gradient(x)
        return -value, -g

    budget = {"type": "ineq", "fun": lambda x: P.k - x.sum(), "jac": lambda x: -np.ones(f.n)}
    return lambda: (
        -minimize(
            loss, np.zeros(f.n), jac=True, method="SLSQP", bounds=Bounds(0.0, P.upper), constraints=[budget],
            options={"maxiter": 500, "ftol": 1e-9},
        ).fun
    )  # fmt: skip


class WarmModel:
    """A HiGHS model as a careful user would drive it from Python."""

    model: highspy._core._Highs
    columns: NDArray[np.int64]
    lower: NDArray[np.float64]

    def __init__(self, P: Polytope) -> None:
        n, m = P.n, P.m
        model = self.model = highspy._core._Highs()
        model.setOptionValue("output_flag", False)
        for name, value in {"solver": "simplex", "presolve": "off", "parallel": "off"}.items():
            model.setOptionValue(name, value)
        start = np.arange(0, m * n + 1, m, dtype=np.int32)
        index = np.tile(np.arange(m, dtype=np.int32), n)
        model.passModel(
            n, m, m * n, 1, -1, 0.0, np.zeros(n), np.zeros(n), np.array(P.upper), np.full(m, -np.inf), P.b,
            start, index, P.A.T.ravel(), np.zeros(n, dtype=np.int32),
        )  # fmt: skip
        self.columns = np.arange(n, dtype=np.int32)
        self.lower = np.zeros(n)

    def lmo(self, g: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
        self.model.changeColsCost(g.size, self.columns, g)
        self.model.changeColsBounds(g.size, self.columns, self.lower, upper)
        self.model.run()
        return np.fromiter(self.model.getSolution().col_value, float, g.size)


def nonmonotone_by_warm_model(f: Quadratic, P: Polytope, steps: int) -> float:
    """Algorithm 2 in numpy around one warm HiGHS model; the value reached."""
    model, H, h, x = WarmModel(P), f.H, f.h, np.zeros(P.n)
    for _ in range(steps):
        x += model.lmo(H @ x + h, np.maximum(P.upper - x, 0.0)) / steps
    return 0.5 * x @ H @ x + h @ x + f.c


def softmax_by_numpy(f: Softmax, P: Budget, steps: int) -> list[float]:
    """Algorithm 2 in numpy for a softmax extension over a budget set, oracle by sorting; the value at every iterate."""
    value_and_gradient, x, values = softmax_in_numpy(f), np.zeros(f.n), []
    for _ in range(steps):
        value, g = value_and_gradient(x)
        values.append(value)
        order = np.argsort(-g)
        residual = np.where(g > 0.0, np.maximum(P.upper - x, 0.0), 0.0)[order]
        x[order] += np.clip(P.k - (np.cumsum(residual) - residual), 0.0, residual) / steps
    return [*values, value_and_gradient(x)[0]]


class Proof(NamedTuple):
    """What a global solver proved: f(x) at its best point, an upper bound and the nodes it took."""

    value: float
    bound: float
    nodes: int

    @property
    def gap(self) -> float:
        """What is left between the two, relative to the value; infinite without a point other than 0."""
        return max(0.0, self.bound - self.value) / abs(self.value) if self.value else np.inf


def scip(f: Quadratic, P: Polytope, gap: float = 1e-6, limit: float = 1e9) -> Callable[[], Proof]:
    """SCIP's spatial branch and bound; its tolerances are absolute, so variables and values are scaled to 1."""
    import pyscipopt

    program = quadratic_program(f, P)
    scale = magnitude(program)
    H, h = (program.H * np.outer(P.upper, P.upper) / scale).tolist(), (program.h * P.upper / scale).tolist()
    A = (P.A * P.upper / P.b[:, None]).tolist()

    def prove():
        model = pyscipopt.Model()
        model.hideOutput()
        model.setParam("limits/gap", gap)
        model.setParam("limits/time", limit)
        x = [model.addVar(lb=0.0, ub=1.0) for _ in h]
        value = model.addVar(lb=None)
        for row in A:
            model.addCons(pyscipopt.quicksum(a * v for a, v in zip(row, x, strict=True)) <= 1.0)
        quadratic = pyscipopt.quicksum(0.5 * H[i][j] * x[i] * x[j] for i in range(f.n) for j in range(f.n))
        model.addCons(value <= quadratic + pyscipopt.quicksum(a * v for a, v in zip(h, x, strict=True)))
        model.setObjective(value, "maximize")
        model.optimize()
        point = P.upper * np.clip([model.getVal(v) for v in x], 0.0, 1.0)
        return Proof(f.value(point), scale * model.getDualbound() + f.c, model.getNTotalNodes())

    return prove


#: Global solvers of the same problems.
GLOBAL = (Peer("SCIP", "pyscipopt", "exact", scip),)


def facility_value(W: NDArray[np.float64], items: Sequence[int]) -> float:
    """Facility location of a set of items."""
    return float(W[items].max(axis=0).sum())


def submodlib(W: NDArray[np.float64], k: int) -> Callable[[], float]:
    """Facility location by submodlib's lazy greedy; returns the value."""
    from submodlib.functions.facilityLocation import FacilityLocationFunction

    def choose():
        with warnings.catch_warnings():  # it names a module that SciPy is about to drop
            warnings.simplefilter("ignore", DeprecationWarning)
            function = FacilityLocationFunction(n=len(W), mode="dense", sijs=W, separate_rep=False)
        chosen = function.maximize(budget=k, optimizer="LazyGreedy", show_progress=False)
        return facility_value(W, [item for item, _ in chosen])

    return choose


def apricot(W: NDArray[np.float64], k: int) -> Callable[[], float]:
    """Facility location by apricot-select; returns the value."""
    from apricot import FacilityLocationSelection

    return lambda: facility_value(W, FacilityLocationSelection(k, metric="precomputed").fit(W).ranking)


def pyversity(features: NDArray[np.float64], quality: NDArray[np.float64], k: int) -> Callable[[], Any]:
    """Greedy choice by pyversity, in single precision, with the same kernel up to a factor; returns the items."""
    from pyversity import diversify

    scores = np.log(quality)
    diversity = 1.0 - scores.std()  # the package takes standardised scores to this part
    return lambda: diversify(features, scores, k, strategy="dpp", diversity=diversity).indices.tolist()


def lazy_greedy_in_numpy(W: NDArray[np.float64], k: int) -> Callable[[], float]:
    """Facility location by lazy greedy in numpy; returns the value."""

    def choose():
        cover, heap, chosen = np.zeros(W.shape[1]), [(-gain, i, 0) for i, gain in enumerate(W.sum(axis=1))], 0
        heapq.heapify(heap)
        while chosen < k:
            _, i, seen = heapq.heappop(heap)
            if seen == chosen:
                cover, chosen = np.maximum(cover, W[i]), chosen + 1
            else:
                heapq.heappush(heap, (-np.maximum(W[i] - cover, 0.0).sum(), i, chosen))
        return float(cover.sum())

    return choose


def sparse_by_scipy(H: csr_array, h: NDArray[np.float64], k: float, steps: int) -> float:
    """`nonmonotone_frank_wolfe` over {x <= 1, sum x <= k} with a sparse H, the oracle by a partial sort; the value."""
    n = h.size
    x = np.zeros(n)
    for _ in range(steps):
        gradient, residual = H @ x + h, 1.0 - x
        most = min(n, int(k / residual.min()) + 2)
        best = np.argpartition(-gradient, most - 1)[:most]
        best = best[np.argsort(-gradient[best])]
        best = best[gradient[best] > 0.0]
        taken = np.cumsum(residual[best]) - residual[best]
        x[best] += np.clip(k - taken, 0.0, residual[best]) / steps
    return float(0.5 * x @ (H @ x) + h @ x)


#: Ways to k items of large facility location.
SELECTION = (
    Peer("lazy greedy in numpy", None, None, lazy_greedy_in_numpy),
    Peer("submodlib", "submodlib", "rivals", submodlib),
    Peer("apricot-select", "apricot", "rivals", apricot),
)


#: Ways to the items of one user.
CHOICE = (Peer("pyversity", "pyversity", "rivals", pyversity),)


def installed(peers: tuple[Peer, ...]) -> list[Peer]:
    """Those that can be run here, in their order."""
    return [peer for peer in peers if peer.is_installed]


def missing() -> str:
    """Names those that are left out, and how to install them; empty where there are none."""
    absent = [peer for peer in (*LOCAL, *GLOBAL, *SELECTION, *CHOICE) if not peer.is_installed]
    if not absent:
        return ""
    extras = ",".join(sorted({str(peer.extra) for peer in absent}))
    names = ", ".join(peer.name for peer in absent)
    return f"left out, not installed: {names}; pip install 'drsub_fast[{extras}]', in a checkout '.[{extras}]'"
