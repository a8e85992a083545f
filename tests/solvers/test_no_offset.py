"""Spectral objectives without an offset, which are -infinity at 0: every method begins elsewhere."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.solvers.domain import inner_point

pytestmark = pytest.mark.usefixtures("interpreted")

RNG = np.random.default_rng(4)
FACTORS = RNG.normal(size=(6, 3))
F = {"factors": ds.Spectral(factors=FACTORS), "matrices": ds.Spectral([np.outer(a, a) for a in FACTORS])}
SETS = {
    "box": ds.Box(np.full(6, 0.7)),
    "budget": ds.Budget(3.5, np.ones(6)),
    "polytope": ds.Polytope(0.2 + RNG.random((4, 6)), np.ones(4)),
    "simplex": ds.Simplex(6),
    "equations": ds.GeneralPolytope(A_eq=[np.arange(1.0, 7.0)], b_eq=[5.0], upper=np.ones(6)),
}


@pytest.mark.parametrize("kind", F)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("method", ["auto", *ds.METHODS])
def test_every_method_reaches_what_a_local_solve_does(method, name, kind):
    f, P = F[kind], SETS[name]
    needs = ds.METHODS[method].needs if method != "auto" else ()
    if ("box" in needs and name != "box") or ("down-closed" in needs and not P.is_down_closed):
        pytest.skip("not for this set")
    best = ds.maximize(f, P, method="multi-start", bound="cheap").value
    r = ds.maximize(f, P, method=method, bound="cheap")
    # f is concave: the methods differ by the accuracy of a hundred steps, but two do not go all the way: f is monotone.
    # The stochastic one takes 20 steps, and averages its gradients with those of the first.
    short = method in ("mualem-feldman", "nonmonotone-frank-wolfe", "stochastic-continuous-greedy")
    assert best - r.value <= (3.0 * np.log(2.0) + 0.5 if short else 0.05)
    assert r.value <= r.upper_bound
    assert P.contains(r.x)
    assert r.guarantee.ratio is None or r.guarantee.holds is not True


@pytest.mark.parametrize("step_size", ["open-loop", "exact", 0.1])
def test_every_step_size_gets_away_from_the_start(step_size):
    r = ds.frank_wolfe(F["factors"], SETS["budget"], step_size=step_size)
    assert np.isfinite(r.trace.value).all()
    assert r.value == pytest.approx(ds.maximize(F["factors"], SETS["budget"]).value, abs=0.05)


@pytest.mark.parametrize("name", SETS)
def test_the_inner_point_has_every_entry(name):
    x = inner_point(SETS[name], SETS[name].upper)
    assert SETS[name].contains(x)
    assert x.min() > 0.0


def test_too_few_directions_are_an_error_of_the_data():
    f = ds.Spectral(factors=np.outer(np.ones(4), [1.0, 2.0]))
    with pytest.raises(ValueError, match="not finite at the starting point"):
        ds.frank_wolfe(f, ds.Box(np.ones(4)))


@pytest.mark.parametrize("kind", F)
def test_values_on_the_way_are_those_of_the_points(kind):
    points = []
    r = ds.double_greedy(F[kind], SETS["box"], callback=lambda progress: points.append(progress))
    for point in points:
        assert point.value == pytest.approx(F[kind].value(point.x), abs=1e-9) or not np.isfinite(point.value)
    assert r.value == pytest.approx(F[kind].value(SETS["box"].upper))
    offset = ds.Spectral(factors=FACTORS, offset=np.eye(3))
    ds.double_greedy(offset, SETS["box"], callback=lambda p: points.append(p) or None)
    assert points[-1].value == pytest.approx(offset.value(points[-1].x), rel=1e-9)
