"""A program as users write it, for `mypy --strict`: tests/test_types.py checks it, and what must be refused."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import drsub_fast as ds


def quadratic(n: int, seed: int) -> tuple[ds.Quadratic, ds.Polytope]:
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    return ds.Quadratic(H + H.T, rng.random(n)), ds.Polytope(rng.random((2, n)), [1.0, 1.0])


def best_of(f: ds.Objective, P: ds.FeasibleSet) -> ds.Result:
    answers = [
        ds.maximize(f, P, bound="tight", max_iter=50),
        ds.frank_wolfe(f, P, step_size="exact", lmo="kernel", tol=1e-6),
        ds.projected_gradient(f, P, step_size="spectral"),
        ds.two_phase_frank_wolfe(f, P, time_limit=1.0),
        ds.maximize(f, P, method="two-phase-frank-wolfe", step_size=0.5),
        ds.maximize(f, P, method=ds.METHODS["frank-wolfe"]),
    ]
    return max(answers, key=lambda r: r.value)


def value_and_gradient(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    return float(np.sqrt(1.0 + x).sum()), 0.5 / np.sqrt(1.0 + x)


def report(r: ds.Result) -> dict[str, float]:
    if r.status is ds.Status.CONVERGED and r.success:
        print(r.message, r.trace.value.shape, r.x.sum())
    guarantee: ds.Guarantee = r.guarantee
    return {"value": r.value, "bound": r.upper_bound, "gap": r.fw_gap, "promised": guarantee.ratio or 0.0}


def choose(features: NDArray[np.float64], how: Literal["auto", "greedy"]) -> list[int]:
    chosen = ds.map_dpp(features=features, size=3, method=how)
    ranked = ds.greedy_map(features=features, size=3)
    assert chosen.value <= chosen.bound
    assert ranked.ratio <= 1.0
    return [int(i) for i in chosen.items]


def main() -> None:
    f, P = quadratic(4, seed=0)
    x: NDArray[np.float64] = P.project(f.gradient(np.zeros(4)))
    print(f(x), f.value([0.0] * 4), P.contains(x), P.lmo(x).shape, P.upper)
    print(report(best_of(f, P)), report(ds.global_maximum(f, P, time_limit=5.0)))
    own = ds.CallableObjective(value_and_gradient, n=4, monotone=True)
    print(ds.monotone_frank_wolfe(own, ds.Budget(2.0, np.ones(4))).value)
    coverage = ds.Multilinear.coverage([{0, 1}, {1, 2}, {2}])
    print(ds.round_solution(coverage, ds.Budget(2, np.ones(3)), [0.5, 0.5, 1.0]).items)
    stack = ds.maximize_stacked(H=np.zeros((5, 2, 2)), h=np.ones((5, 2)), upper=np.ones(2))
    again = ds.maximize_stacked(L=np.eye(2), k=1.0, upper=np.ones(2), method="frank-wolfe", max_iter=9)
    arrays: dict[str, Any] = {"L": [[1.0]], "upper": [1.0]}
    print(again.methods, ds.maximize_stacked(**arrays, lmo="highs", n_starts=2), ds.scipy_method("multi-start"))
    print(stack.value.mean(), len(stack), [r.value for r in ds.maximize_many([(f, P), (f, P)])])
    print(ds.certificates.upper_bound(f, P), choose(np.eye(5), "auto"))


if __name__ == "__main__":
    main()
