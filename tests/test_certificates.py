"""Upper bounds hold on thousands of random instances whose optimum is known."""

import numpy as np
import pytest
from global_checks import known_maximum, random_instance

import drsub_fast as ds
from drsub_fast import certificates

pytestmark = pytest.mark.usefixtures("compiled")


def point_of(P, random, upper):
    """A random point of P below ``upper``: a vertex, shortened or not."""
    return P.lmo(random.normal(size=P.n), upper) * random.choice([1.0, random.random()])


@pytest.mark.parametrize(("n", "m", "count"), [(1, 0, 100), (2, 0, 400), (2, 1, 1000), (3, 1, 400), (3, 2, 200)])
def test_bounds_are_valid(n, m, count):
    for seed in range(count):
        random = np.random.default_rng(seed)
        f, P = random_instance(seed, n, m, budget=m == 1)
        best = known_maximum(f, P)
        assert certificates.linear_bound(f, P) >= best - 1e-12
        x = point_of(P, random, P.upper)
        z = point_of(P, random, P.upper - x)
        # Lifted just enough for f >= 0 to be known on [0, upper].
        lift = -np.minimum(0.0, P.upper * (f.h + 0.5 * f.H @ P.upper)).sum() + random.choice([1e-12, 1.0])
        lifted = ds.Quadratic(f.H, f.h, lift)
        bound = certificates.local_global_bound(lifted, P, x, z)
        assert np.isfinite(bound)
        assert bound >= best - f.c + lift - 1e-12


@pytest.mark.parametrize(("n", "m", "count"), [(1, 0, 20), (2, 1, 200), (3, 2, 200), (4, 2, 40)])
def test_dnn_bound_is_valid_and_tight(n, m, count):
    tight = 0
    for seed in range(count):
        f, P = random_instance(seed, n, m, budget=m == 1)
        best = known_maximum(f, P)
        bound = certificates.dnn_bound(f, P)
        assert bound >= best - 1e-12
        tight += bound - best <= 1e-4 * (1.0 + abs(best))
        assert certificates.dnn_bound(f, P, time_limit=0.0) >= best - 1e-12
    assert tight >= 0.9 * count


def test_a_softmax_bound():
    f = ds.Softmax(np.diag([2.0, 3.0, 0.5]))
    P = ds.Budget(2.0, np.full(3, 5.0))
    # On the unit box the maximum is log 2 + log 3, at (1, 1, 0). From 0 the bound is 1 + 2, from (1, 1, 1) less.
    assert certificates.linear_bound(f, P) == pytest.approx(np.log(3.0) + 1.0, rel=1e-8)
    assert np.log(6.0) <= certificates.upper_bound(f, P) <= np.log(6.0) * 1.01


def test_maximize_computes_its_bound_when_it_is_read():
    f, P = random_instance(2, 4, 3)
    cheap, auto, tight = (ds.maximize(f, P, bound=bound) for bound in ("cheap", "auto", "tight"))
    assert not auto.certificate.is_computed
    best = known_maximum(f, P)
    assert best <= tight.upper_bound <= best + 1e-5 < cheap.upper_bound
    assert best <= auto.upper_bound <= best + 1e-3
    assert auto.certificate.is_computed
    assert auto.value == cheap.value == tight.value
    with pytest.raises(ValueError, match="bound"):
        ds.maximize(f, P, bound="dnn")


def test_unknown_sign_gives_no_bound():
    f = ds.Quadratic([[-1.0]], [1.0], c=-1.0)
    assert certificates.local_global_bound(f, ds.Box([1.0]), [0.5]) == np.inf


def test_wrong_inputs():
    f, P = random_instance(0, 3, 2)
    with pytest.raises(ValueError, match="x is not in the set"):
        certificates.local_global_bound(f, P, 2.0 * P.upper)
    with pytest.raises(ValueError, match="z is not"):
        certificates.local_global_bound(f, P, P.lmo(np.ones(3)), P.upper)
    with pytest.raises(ds.UnsupportedError, match="Quadratic"):
        certificates.dnn_bound(ds.Softmax(np.eye(3)), P)
    with pytest.raises(ds.UnsupportedError, match="down-closed"):
        certificates.local_global_bound(f, ds.Simplex(3), np.full(3, 1 / 3))
    with pytest.raises(ValueError, match="gap"):
        certificates.upper_bound(f, P, gap=-1.0)
    with pytest.raises(ValueError, match="time_limit"):
        certificates.upper_bound(f, P, time_limit=-1.0)
    with pytest.raises(ValueError, match="3 variables, the set 2"):
        certificates.upper_bound(f, ds.Box([1.0, 1.0]))
