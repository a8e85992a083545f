"""Every objective, and every extension under MeanField, over every set by every method: once, on three variables.

Interpreted here; compiled, which takes hours from an empty cache, where slow tests are asked for.
"""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.extend import OBJECTIVES as KINDS
from drsub_fast.extend import SETS as REGISTERED_SETS

N = 3
ONES = np.ones(N)
rng = np.random.default_rng(0)
FACTOR = rng.random((N, 2))
GRAPH = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
NEGATIVE = -np.eye(N) - 0.2 * GRAPH


def concave(x):
    return float((x - 0.5 * x * x).sum()), 1.0 - x


EXTENSIONS = {
    "coverage": ds.Multilinear.coverage([{"a", "b"}, {"b"}, {"b", "c"}]),
    "facility location": ds.Multilinear.facility_location(FACTOR),
    "flid": ds.Multilinear.flid(1.5 * FACTOR.sum(axis=1), FACTOR),
    "cut": ds.Multilinear.cut(GRAPH),
    "function": ds.Multilinear.from_function(lambda items: len(items) * (4 - len(items)), N),
    "table": ds.Multilinear.from_table(np.sqrt([bin(i).count("1") for i in range(2**N)])),
    "sampled": ds.Multilinear.sampled(lambda items: len(items) ** 0.5, N, 8),
}
OBJECTIVES = {
    "quadratic": ds.Quadratic(NEGATIVE, ONES),
    "softmax": ds.Softmax(2.0 * np.eye(N) + GRAPH / 10),
    "softmax beyond the unit box": ds.Softmax(2.0 * np.eye(N) + GRAPH / 10, unit_box=False),
    "softmax by a factor": ds.Softmax(factor=FACTOR),
    "factors": ds.Spectral(factors=FACTOR, offset=np.eye(2)),
    "matrices": ds.Spectral([np.outer(row, row) for row in FACTOR], offset=np.eye(2)),
    "logistic": ds.LogisticNonconvex(FACTOR.T, [1, -1]),
    "pca": ds.NonnegativePCA(FACTOR.T),
    "price": ds.PriceOptimization(4.0 * ONES, NEGATIVE),
    "stability": ds.StabilityNumber(GRAPH > 0.0),
    "orthant": ds.to_orthant(ds.LogisticNonconvex(-FACTOR.T, [1, -1]), ds.Ball(1.0, N), -ONES).f,
    "python": ds.CallableObjective(concave, N, dr_submodular=True, nonnegative=True),
    **EXTENSIONS,
    **{f"mean field of {name}": ds.MeanField(f) for name, f in EXTENSIONS.items()},
}
SETS = {
    "box": ds.Box(ONES),
    "budget": ds.Budget(2.0, ONES),
    "knapsack": ds.Knapsack([1.0, 2.0, 1.5], 2.0, ONES),
    "partition": ds.PartitionMatroid([0, 0, 1], [1.0, 0.5]),
    "laminar": ds.LaminarMatroid([[0, 1, 2], [0, 1]], [2.0, 1.2]),
    "simplex": ds.Simplex(N),
    "ball": ds.Ball(1.0, N),
    "polytope": ds.Polytope(FACTOR.T + 0.1, ONES[:2], ONES),
    "matching": ds.MatchingPolytope([(0, 0), (0, 1), (1, 0)], 2, 2),
    "general": ds.GeneralPolytope(A_eq=ONES[None], b_eq=[1.5], upper=ONES),
}


OBJECTIVES["sum"] = OBJECTIVES["quadratic"] + 0.5 * OBJECTIVES["softmax by a factor"]
# What is registered and not listed above.
for cases, kinds in ((OBJECTIVES, KINDS), (SETS, REGISTERED_SETS)):
    cases |= {name: kind.example_of(N) for name, kind in kinds.items() if not any(map(kind.made, cases.values()))}


def suits(method, P):
    if method == "double-greedy":
        return isinstance(P, ds.Box)
    return P.is_down_closed or method not in (
        "two-phase-frank-wolfe", "nonmonotone-frank-wolfe", "monotone-frank-wolfe", "stochastic-continuous-greedy",
    )  # fmt: skip


def solve_by_every_method(f, P):
    for method in ("auto", *ds.METHODS):
        if not suits(method, P):
            continue
        starts = {"n_starts": 2} if method in ("auto", "multi-start") else {}
        result = ds.maximize(f, P, method=method, max_iter=3, **starts)
        assert P.contains(result.x), method
        assert (result.x <= P.upper).all(), method
        if method == "stochastic-continuous-greedy" and hasattr(f, "sampler"):
            continue  # its value is an estimate by sets of its own
        assert result.value == pytest.approx(f.value(result.x), rel=1e-9, abs=1e-12), method
        assert result.value <= result.upper_bound, method


@pytest.mark.parametrize("P", SETS.values(), ids=list(SETS))
@pytest.mark.parametrize("f", OBJECTIVES.values(), ids=list(OBJECTIVES))
def test_interpreted(f, P, interpreted):
    solve_by_every_method(f, P)


@pytest.mark.slow
@pytest.mark.parametrize("P", SETS.values(), ids=list(SETS))
@pytest.mark.parametrize("f", OBJECTIVES.values(), ids=list(OBJECTIVES))
def test_compiled(f, P):
    solve_by_every_method(f, P)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_log_partition_of_every_extension(name):
    f = ds.MeanField(EXTENSIONS[name])
    corners = (np.arange(2**N)[:, None] >> np.arange(N)) & 1
    values = [EXTENSIONS[name].value(corner.astype(float)) for corner in corners]
    assert f.log_partition() == pytest.approx(np.log(np.exp(values).sum()), rel=1e-12)
