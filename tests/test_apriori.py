"""Constants against their definitions, and the paper's a-priori bounds on random problems of known optimum."""

import numpy as np
import pytest

import drsub_fast as ds

CORNERS = {n: ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(float) for n in (3, 4, 5)}


def nonnegative_problem(n, seed, concave):
    """f >= 0 with minimum 0 at a corner of the unit box, and the maximum over the box (at a corner if concave = 0)."""
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    H = (H + H.T) / 2 - concave * np.eye(n)
    h = -H.sum(1) * rng.random(n)
    values = [ds.Quadratic(H, h).value(corner) for corner in CORNERS[n]]
    return ds.Quadratic(H, h, -min(values))


def test_constants_satisfy_their_definitions():
    rng = np.random.default_rng(0)
    for seed in range(200):
        f = nonnegative_problem(4, seed, seed % 3 / 2)
        box = ds.Box(rng.random(4) + 0.1)
        c = ds.constants(f, box)
        x, y = rng.random(4) * box.upper, rng.random(4) * box.upper
        assert np.linalg.norm(f.gradient(x) - f.gradient(y)) <= c.smoothness * np.linalg.norm(x - y) * (1 + 1e-12)
        low, high = np.minimum(x, y), np.maximum(x, y)
        for start, end in ((low, high), (high, low)):
            v = end - start
            rise = f.value(start) + f.gradient(start) @ v - c.strong_dr / 2 * v @ v
            assert f.value(end) <= rise + 1e-12
        assert np.linalg.norm(x - y) <= c.diameter
        assert abs((x - y) @ f.H @ (x - y)) <= c.curvature * (1 + 1e-12)


def test_strong_dr_is_the_best_constant():
    f = ds.Quadratic([[-3.0, -1.0], [-1.0, -2.0]], [1.0, 1.0])
    assert ds.constants(f, ds.Box([1.0, 1.0])).strong_dr == 2.0


def test_budget_diameter():
    P = ds.Budget(1.0, np.ones(50))
    bound = ds.constants(ds.Quadratic(-np.eye(50), np.ones(50)), P).diameter
    assert np.sqrt(2.0) <= bound <= np.sqrt(2.0) * (1 + 1e-12)


@pytest.mark.parametrize("K", [1, 7, 40])
def test_theorem_1_holds_along_the_way(K):
    for seed in range(400):
        f, box = nonnegative_problem(5, seed, 0.0), ds.Box(np.ones(5))
        optimum = max(f.value(corner) for corner in CORNERS[5])
        curvature = ds.constants(f, box).curvature
        values = ds.nonmonotone_frank_wolfe(f, box, max_iter=K).trace.value
        bounds = [ds.nonmonotone_bound(optimum, curvature, K, k) for k in range(K + 1)]
        assert (values >= np.array(bounds) - 1e-9).all()


@pytest.mark.parametrize("step_size", ["short", "exact"])
def test_gap_falls_as_fast_as_promised(step_size):
    for seed in range(400):
        f, box = nonnegative_problem(5, seed, 0.5), ds.Box(np.ones(5))
        r = ds.frank_wolfe(f, box, step_size=step_size, max_iter=30, tol=0.0)
        curvature = ds.constants(f, box).curvature
        for k, gap in enumerate(np.minimum.accumulate(r.trace.fw_gap)):
            assert gap <= ds.frank_wolfe_gap_bound(r.upper_bound - r.trace.value[0], curvature, k) + 1e-12


def test_proposition_1_holds_with_its_strong_term():
    for seed in range(400):
        f, box = nonnegative_problem(4, seed, 0.0), ds.Box(np.ones(4))
        values = np.array([f.value(corner) for corner in CORNERS[4]])
        x_best, optimum = CORNERS[4][values.argmax()], values.max()
        r = ds.two_phase_frank_wolfe(f, box, max_iter=3)
        first, second = r.phases
        z_best = np.maximum(first.x, x_best) - first.x
        bound = ds.two_phase_bound(
            optimum, first.fw_gap, second.fw_gap, ds.constants(f, box).strong_dr,
            np.linalg.norm(first.x - x_best), np.linalg.norm(second.x - z_best),
        )  # fmt: skip
        assert r.value >= bound - 1e-9
