"""The same problem in other words: other units of f and x, rows times anything, permuted variables, doubled rows.

Values agree to 1e-9 in their unit and the status is the same. The steps 1/(k + 1) of projected gradient multiply the
gradient, so that method depends on units by its definition; it takes part with spectral steps.
"""

import itertools
import math

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch import stack_run
from drsub_fast.solvers import multi_start

N = 4
rng = np.random.default_rng(4)
MATRIX = rng.random((N, N))
H = -(MATRIX + MATRIX.T) - np.diag(rng.uniform(1.0, 3.0, N))
LINEAR = -H @ rng.uniform(0.1, 0.5, N)
ROWS = 0.1 + rng.random((3, N))
WEIGHTS = rng.uniform(0.5, 2.0, N)
GROUPS = np.arange(N) % 2
ONES = np.ones(N)
CAPACITY = np.array([0.4, 0.5, 0.6])

pytestmark = pytest.mark.usefixtures("interpreted")

#: Sets by what is done to the variables: x = D y has the bounds D and rows A D^-1.
SETS = {
    "box": lambda D: ds.Box(D),
    "knapsack": lambda D: ds.Knapsack(WEIGHTS / D, 2.0, D),
    "polytope": lambda D: ds.Polytope(ROWS / D, CAPACITY, D),
    "general": lambda D: ds.GeneralPolytope(ROWS[:1] / D, [1.5], (WEIGHTS / D)[None], [2.0], upper=D),
}
METHODS = {
    "auto": {},
    "double-greedy": {},
    "frank-wolfe": {},
    "frank-wolfe exact": {"step_size": "exact"},
    "frank-wolfe short": {"step_size": "short"},
    "boosted-gradient": {},
    "fully-corrective-frank-wolfe": {},
    "monotone-frank-wolfe": {},
    "mualem-feldman": {},
    "multi-start": {},
    "nonmonotone-frank-wolfe": {},
    "projected-gradient": {"step_size": "spectral"},
    "two-phase-frank-wolfe": {},
}
SCALES = [1e-8, 1e3, 1e8]


def fits(method, kind):
    if kind == "general" and method.startswith(("two-phase", "nonmonotone", "monotone")):
        return False
    return kind == "box" or method != "double-greedy"


PAIRS = [(method, kind) for method in METHODS for kind in SETS if fits(method, kind)]


def solve(f, P, method, **options):
    # The default bound is proved to 1e-6 by steps that end elsewhere in other units; the cheap one is a formula.
    return ds.maximize(f, P, method=method.split()[0], bound="cheap", **METHODS[method], **options)


def problem(kind, c=1.0, D=ONES, constant=0.0):
    """c (f + constant) in the variables D y."""
    return ds.Quadratic(c * H / np.outer(D, D), c * LINEAR / D, c * constant), SETS[kind](D)


def assert_same(mine, theirs, c=1.0, constant=0.0):
    unit = abs(theirs.value) * c
    assert abs(mine.value - c * constant - c * theirs.value) <= 1e-9 * max(unit, 1e-4 * c * abs(constant))
    assert mine.status is theirs.status
    if math.isfinite(theirs.upper_bound):
        assert abs(mine.upper_bound - c * constant - c * theirs.upper_bound) <= 1e-9 * c * (
            abs(theirs.upper_bound) + 1e-4 * abs(constant)
        )
    assert mine.value <= mine.upper_bound


@pytest.mark.parametrize(("method", "kind"), PAIRS)
def test_units_of_f(method, kind):
    base = solve(*problem(kind), method)
    assert base.value > 0.0
    for c in SCALES:
        assert_same(solve(*problem(kind, c=c), method), base, c)


@pytest.mark.parametrize(("method", "kind"), PAIRS)
def test_units_of_x(method, kind):
    base = solve(*problem(kind), method)
    # The start of a general polytope is a vertex of a linear program, the same one if the scaled data are the same.
    for scale in (2.0**-27, 2.0**27) if kind == "general" else SCALES:
        assert_same(solve(*problem(kind, D=np.full(N, scale)), method), base)


@pytest.mark.parametrize(("method", "kind"), [(m, k) for m, k in PAIRS if not m.startswith("projected")])
def test_units_of_single_variables(method, kind):
    # A projection is the nearest point, by a distance for which variables in other units are other points.
    base = solve(*problem(kind), method)
    for seed in range(2):
        D = 2.0 ** np.random.default_rng(seed).integers(-20, 20, N)
        assert_same(solve(*problem(kind, D=D), method), base)


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("double-greedy", "mualem-feldman")])
def test_a_constant_is_not_seen(method):
    base = solve(*problem("polytope"), method)
    for constant in (1.0, -1e3, 1e5):
        assert_same(solve(*problem("polytope", constant=constant), method), base, constant=constant)


@pytest.mark.parametrize("method", [m for m in METHODS if fits(m, "polytope")])
def test_rows_times_anything_and_twice(method):
    f, base = problem("polytope")[0], solve(*problem("polytope"), method)
    for factors in (np.full(3, 1e-8), np.full(3, 1e8), np.array([1e-8, 1.0, 1e8])):
        P = ds.Polytope(ROWS * factors[:, None], CAPACITY * factors, ONES)
        assert_same(solve(f, P, method), base)
    assert_same(solve(f, ds.Polytope(np.vstack((ROWS, ROWS)), np.tile(CAPACITY, 2), ONES), method), base)
    assert_same(solve(f, ds.Polytope(np.vstack((ROWS, 2.0 * ROWS[:1])), [*CAPACITY, 0.8], ONES), method), base)


ORDER = np.random.default_rng(1).permutation(N)
PERMUTED = {
    "box": lambda: ds.Box(ONES),
    "knapsack": lambda: ds.Knapsack(WEIGHTS[ORDER], 2.0, ONES),
    "polytope": lambda: ds.Polytope(ROWS[:, ORDER], CAPACITY, ONES),
    "general": lambda: ds.GeneralPolytope(ROWS[:1, ORDER], [1.5], WEIGHTS[None, ORDER], [2.0], upper=ONES),
}


@pytest.fixture
def permuted_starts(monkeypatch):
    """A function after whose call the random costs of multi-start have their entries in `ORDER`."""
    drawn = multi_start.start_costs

    def permute():
        for module in (multi_start, stack_run):
            monkeypatch.setattr(module, "start_costs", lambda *given: np.ascontiguousarray(drawn(*given)[:, ORDER]))

    return permute


# Double greedy goes through the coordinates one after the other, so it ends elsewhere in another order.
@pytest.mark.parametrize(("method", "kind"), [(m, k) for m, k in PAIRS if m != "double-greedy"])
def test_permuted_variables(method, kind, permuted_starts):
    # A general polytope starts at a vertex that a linear program without a cost ends at, whichever that is.
    takes_start = kind == "general" and method not in ("auto", "mualem-feldman", "multi-start", "boosted-gradient")
    f, P = problem(kind)
    start = P.start()
    base = solve(f, P, method, **({"x0": start} if takes_start else {}))
    permuted_starts()
    g = ds.Quadratic(H[np.ix_(ORDER, ORDER)], LINEAR[ORDER])
    mine = solve(g, PERMUTED[kind](), method, **({"x0": start[ORDER]} if takes_start else {}))
    assert_same(mine, base)


def test_double_greedy_keeps_its_bound_in_every_order():
    f, P = problem("box")
    best = ds.global_maximum(f, P)
    for order in itertools.permutations(range(N)):
        g = ds.Quadratic(H[np.ix_(order, order)], LINEAR[list(order)])
        r = solve(g, P, "double-greedy")
        assert r.status is ds.Status.COMPLETED
        assert 0.5 * best.value + 0.25 * (f.value(np.zeros(N)) + f.value(ONES)) <= r.value + 1e-12
        assert r.value <= best.upper_bound <= r.upper_bound * (1.0 + 1e-6)


#: The sets of stacks, by what is done to the variables of each problem, D of shape (B, N).
STACKS = {
    "box": lambda D: {"upper": D},
    "knapsack": lambda D: {"set": "knapsack", "weights": WEIGHTS / D, "budget": 2.0, "upper": D},
    "polytope": lambda D: {"A": ROWS / D[:, None], "b": CAPACITY, "upper": D},
    "general": lambda D: {
        "set": "general-polytope", "A": ROWS[:1] / D[:, None], "b": [[1.5]], "A_eq": WEIGHTS / D[:, None],
        "b_eq": [[2.0]], "upper": D,
    },
}  # fmt: skip
STACK_PAIRS = [(m, k) for m, k in PAIRS if not m.startswith("projected")]  # a stack takes the steps 1/(k + 1) only


def solve_stack(method, kind, c=1.0, D=ONES, **more):
    """The stack of problems in the units c, shape (B,), and D, shape (B, N)."""
    c, D = np.atleast_1d(c), np.atleast_2d(D)
    arrays = {"H": c[:, None, None] * H / (D[:, :, None] * D[:, None]), "h": c[:, None] * LINEAR / D, **STACKS[kind](D)}
    # What all problems share has no axis of its own.
    arrays = {name: array[0] if np.ndim(array) and len(array) == 1 else array for name, array in arrays.items()}
    return ds.maximize_stacked(**arrays | more, method=method.split()[0], n_jobs=1, **METHODS[method])


def assert_same_in_stack(mine, base, c=1.0):
    assert {*mine.status} == {*base.status}
    np.testing.assert_allclose(mine.value / c, np.full(len(mine), base.value[0]), rtol=1e-9)
    assert (mine.value <= mine.upper_bound).all()
    if math.isfinite(base.upper_bound[0]):
        np.testing.assert_allclose(mine.upper_bound / c, np.full(len(mine), base.upper_bound[0]), rtol=1e-9)


@pytest.mark.parametrize(("method", "kind"), STACK_PAIRS)
def test_units_in_stacks(method, kind):
    base, scales = solve_stack(method, kind), np.array(SCALES)
    assert base.value[0] > 0.0
    assert_same_in_stack(solve_stack(method, kind, c=scales), base, scales)
    common = np.array([2.0**-27, 2.0**27]) if kind == "general" else scales
    assert_same_in_stack(solve_stack(method, kind, D=np.outer(common, ONES)), base)
    of_their_own = 2.0 ** np.random.default_rng(0).integers(-20, 20, (3, N))
    assert_same_in_stack(solve_stack(method, kind, D=of_their_own), base)


@pytest.mark.parametrize("method", [m for m, k in STACK_PAIRS if k == "polytope"])
def test_rows_times_anything_and_twice_in_stacks(method):
    base = solve_stack(method, "polytope")
    factors = np.array([[1e-8] * 3, [1e8] * 3, [1e-8, 1.0, 1e8]])
    rows = {"A": ROWS * factors[:, :, None], "b": CAPACITY * factors}
    assert_same_in_stack(solve_stack(method, "polytope", **rows), base)
    assert_same_in_stack(solve_stack(method, "polytope", A=np.vstack((ROWS, ROWS)), b=np.tile(CAPACITY, 2)), base)


@pytest.mark.parametrize(
    ("method", "kind"), [p for p in STACK_PAIRS if "double-greedy" not in p and "general" not in p]
)
def test_permuted_variables_in_stacks(method, kind, permuted_starts):
    base = solve_stack(method, kind)
    permuted_starts()
    parts = {"H": H[np.ix_(ORDER, ORDER)], "h": LINEAR[ORDER]}
    parts |= {"knapsack": {"weights": WEIGHTS[ORDER]}, "polytope": {"A": ROWS[:, ORDER]}}.get(kind, {})
    assert_same_in_stack(solve_stack(method, kind, **parts), base)


@pytest.mark.parametrize("c", SCALES)
@pytest.mark.parametrize("kind", ["softmax", "coverage", "price", "user"])
def test_units_of_other_objectives(kind, c):
    if kind == "softmax":  # log det has no unit; its rise may be small
        f, P = ds.Softmax((1.0 + min(c, 1.0)) * np.eye(N)), ds.Budget(2.0, ONES)
        expected = f.value(np.full(N, 2.0 / N))
    elif kind == "coverage":
        f = ds.Multilinear.coverage(np.eye(N), np.full(N, c))
        P, expected = ds.Budget(2.0, ONES), 2.0 * c
    elif kind == "price":
        f, P = ds.PriceOptimization(np.full(N, c), -c * np.eye(N)), ds.Box(2.0 * ONES)
        expected = 0.25 * c * N
    else:
        f = ds.CallableObjective(lambda x: (c * (x - x * x).sum(), c * (1.0 - 2.0 * x)), N)
        P, expected = ds.Box(ONES), 0.25 * c * N
    rounding = 1e-15 if kind == "softmax" else 0.0  # of log(1 + c)
    for method in ("auto", "frank-wolfe", "fully-corrective-frank-wolfe", "two-phase-frank-wolfe"):
        options = {} if method == "auto" else {"max_iter": 500}
        rtol = 1e-9 if method in ("auto", "fully-corrective-frank-wolfe") else 1e-2
        assert ds.maximize(f, P, method=method, **options).value == pytest.approx(expected, rel=rtol, abs=rounding)


def test_a_loose_upper_bound_does_not_loosen_the_tolerance():
    # The slope at 0 promises 1e6 times what there is to gain.
    f = ds.Quadratic(-np.eye(N), ONES)
    for method in ("auto", "fully-corrective-frank-wolfe", "multi-start"):
        r = ds.maximize(f, ds.Box(np.full(N, 1e6)), method=method)
        assert r.value == pytest.approx(0.5 * N, rel=1e-6)


def test_a_stationary_start_ends_at_once():
    f, P = problem("polytope")
    answer = ds.fully_corrective_frank_wolfe(f, P)
    for c in SCALES:
        g, _ = problem("polytope", c=c)
        again = ds.fully_corrective_frank_wolfe(g, P, x0=answer.x)
        assert (again.n_iter, again.status) == (0, ds.Status.CONVERGED)
    nothing = ds.Quadratic(-np.eye(N), -ONES, 5.0)
    for method in ("auto", "frank-wolfe", "two-phase-frank-wolfe", "multi-start"):
        r = ds.maximize(nothing, P, method=method)
        assert (r.value, r.status) == (5.0, ds.Status.CONVERGED)


def test_a_number_is_in_units_of_f():
    f, P = problem("box")
    for tol in (1e-1, 1e-3, 1e-9):
        r = ds.fully_corrective_frank_wolfe(f, P, tol=tol)
        assert r.fw_gap <= tol
    assert ds.fully_corrective_frank_wolfe(f, P, tol=1e3).n_iter == 0
