"""Objectives of every kind in the compiled loop of the non-monotone method, over one set."""

import numpy as np
import pytest

import drsub_fast as ds

N = 5
rng = np.random.default_rng(0)
W = rng.exponential(1.0, (N, 3))
GRAPH = np.triu(rng.random((N, N)) < 0.5, 1).astype(float)

OBJECTIVES = {
    "maxima": ds.Multilinear.flid(W.sum(axis=1), W),
    "mean field": ds.MeanField(ds.Multilinear.flid(W.sum(axis=1), W)),
    "cut": ds.Multilinear.cut(GRAPH + GRAPH.T),
    "price": ds.PriceOptimization(np.full(N, 4.0), -np.ones((N, N))),
    "stability": ds.StabilityNumber(GRAPH + GRAPH.T),
    "pca": ds.NonnegativePCA(W.T),
    "factors": ds.Spectral(factors=rng.normal(size=(N, 2)), offset=np.eye(2)),
    "logistic": ds.LogisticNonconvex(W.T, [1, -1, 1]),
}


@pytest.mark.parametrize("f", OBJECTIVES.values(), ids=list(OBJECTIVES))
def test_value_along_the_way_agrees_with_evaluation(f):
    P = ds.Budget(2.0, np.ones(N))
    run = ds.nonmonotone_frank_wolfe(f, P, max_iter=20)
    assert run.n_iter == 20
    assert P.contains(run.x)
    assert run.value == pytest.approx(f.value(run.x), rel=1e-12, abs=1e-15)
    assert run.trace.value[-1] == pytest.approx(run.value, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize(
    ("P", "why"),
    [
        (ds.Simplex(2, total=3.0), "in units in which"),
        (ds.GeneralPolytope(A_eq=np.ones((1, 2)), b_eq=[3.0], upper=[5.0, 5.0]), "in units in which"),
        (ds.GeneralPolytope(A_eq=np.ones((1, 2)), b_eq=[3.0], lower=[1.2, 0.0], upper=[5.0, 5.0]), r"lower\[0\] = 1.2"),
    ],
)
@pytest.mark.parametrize("method", ["auto", "frank-wolfe", "projected-gradient"])
def test_a_set_beside_the_unit_box_is_refused(P, why, method):
    with pytest.raises(ValueError, match=rf"Softmax\(n=2\) is defined on \[0, 1\]\^2, where .* has no point: .*{why}"):
        ds.maximize(ds.Softmax(np.eye(2)), P, method=method)
