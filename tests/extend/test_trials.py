"""The trials of objectives, sets and methods: all that the package registers passes, each kind of mistake is found."""

from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast import extend
from drsub_fast.engine import jit

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("name", extend.OBJECTIVES)
def test_objectives_pass(name, n):
    extend.check_objective(extend.OBJECTIVES[name].example_of(n))


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("name", extend.SETS)
def test_sets_pass(name, n):
    extend.check_set(extend.SETS[name].example_of(n))


@pytest.mark.parametrize("name", extend.METHODS)
def test_methods_pass(name):
    extend.check_method(name)


Params = namedtuple("Params", "n scale")


@extend.kernel
def roots(params, work, x):
    value = 0.0
    for i in range(x.size):
        root = (1.0 + x[i]) ** 0.5
        value += params.scale * root
        work.grad[i] = 0.5 * params.scale / root
    return value


@extend.kernel
def wrong_gradient(params, work, x):
    value = roots(params, work, x)
    work.grad[0] *= 1.001
    return value


@extend.kernel
def changes_x(params, work, x):
    value = roots(params, work, x)
    x[0] *= 0.5
    return value


@extend.kernel
def allocates(params, work, x):
    sums = np.zeros(x.size)
    return roots(params, work, x) + sums.sum()


@extend.kernel
def wrong_advance(params, work, x, v, gamma, value):
    for i in range(x.size):
        x[i] += gamma * v[i]
    return value


@extend.kernel
def short_step(params, work, x, v, limit, value):
    return 0.0


def an_objective(evaluate=roots, **more):
    """An objective of a class of its own, with what `more` says of it."""
    kernels = {name: more.pop(name) for name in ("advance", "exact_step", "derivative_along") if name in more}
    params = type("Params", (Params,), {"__slots__": ()})
    extend.register_objective(params, evaluate=evaluate, **kernels)

    class Mine(extend.Objective):
        def __init__(self):
            super().__init__(3, params(3, more.get("scale", 1.0)))

    for name, says in more.items():
        if name != "scale":
            setattr(Mine, name, lambda self, upper, says=says: says)
    return Mine()


def test_an_honest_objective_passes_in_all_units():
    for scale in (1e-8, 1.0, 1e8):
        extend.check_objective(an_objective(scale=scale, dr_submodular_on=True, monotone_on=True, concave_on=True))


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda: an_objective(wrong_gradient), r"the derivative in x\[0\] at x = .* by differences"),
        (lambda: an_objective(changes_x), "evaluate changes x"),
        (lambda: an_objective(allocates), "allocates calls zeros, which allocates: it needs memory=True"),
        (lambda: an_objective(scale=-1.0, dr_submodular_on=True), "dr_submodular_on says True; not DR-submodular"),
        (lambda: an_objective(scale=-1.0, nonnegative_on=True), "nonnegative_on says True, and f is -"),
        (lambda: an_objective(scale=-1.0, monotone_on=True), "monotone_on says True, and a derivative is -"),
        (lambda: an_objective(scale=-1.0, concave_on=True), "concave_on says True, and f between"),
        (lambda: an_objective(advance=wrong_advance), "advance returns"),
        (lambda: an_objective(exact_step=short_step, concave_on=True), "exact_step misses a better point"),
        (lambda: an_objective(curvature_matrix=np.zeros((3, 3))), "curvature_matrix is too small"),
        (lambda: an_objective(len), "evaluate is no kernel"),
    ],
)
def test_mistakes_of_objectives_are_found(f, reason):
    with pytest.raises(AssertionError, match=reason):
        extend.check_objective(f())


@pytest.mark.skipif(jit.COMPILE == "never", reason="nothing is compiled")
def test_what_does_not_compile_is_found(monkeypatch):
    monkeypatch.setattr(jit, "COMPILE", "auto")

    @extend.kernel
    def evaluate(params, work, x):
        for i in range(x.size):
            work.grad[i] = {"a": 0.5}["a"] / (1.0 + x[i]) ** 0.5
        return np.sum([(1.0 + t) ** 0.5 for t in x])

    with pytest.raises(AssertionError, match="its kernels do not compile"):
        extend.check_objective(an_objective(evaluate))


SetParams = namedtuple("SetParams", "limit")


@extend.kernel
def largest(params, work, direction, upper, v):
    """The best of {x <= upper, sum x <= limit}."""
    left = params.limit
    v[:] = 0.0
    for _ in range(v.size):
        best = -1
        for j in range(v.size):
            if direction[j] > 0.0 and v[j] == 0.0 and (best < 0 or direction[j] > direction[best]):
                best = j
        if best < 0 or left <= 0.0:
            break
        v[best] = min(upper[best], left)
        left -= v[best]
    return extend.OK


@extend.kernel
def above(params, work, direction, upper, v):
    largest(params, work, direction, upper, v)
    for j in range(v.size):
        v[j] *= 1.01
    return extend.OK


@extend.kernel
def first(params, work, direction, upper, v):
    v[:] = 0.0
    v[0] = min(upper[0], params.limit) if direction[0] > 0.0 else 0.0
    return extend.OK


@extend.kernel
def all_of_it(params, work, direction, upper, v):
    """The best of {x <= 1, sum x = 1}."""
    v[:] = 0.0
    best = 0
    for j in range(v.size):
        if direction[j] > direction[best]:
            best = j
    v[best] = min(1.0, upper[best])
    return extend.OK


@extend.kernel
def halved(params, work, y, upper, out):
    for j in range(y.size):
        out[j] = min(max(0.1 * y[j], 0.0), upper[j] / 3)
    return extend.OK


def a_set(lmo=largest, holds=lambda x, tol: x.sum() <= 1.0 + tol, down_closed=True, below=True, **kernels):
    params = type("SetParams", (SetParams,), {"__slots__": ()})
    extend.register_set(params, lmo=lmo, **kernels)

    class Mine(extend.FeasibleSet):
        is_down_closed, answers_below = down_closed, below

        def __init__(self):
            super().__init__(params(1.0), np.ones(3))

        def constraints_hold(self, x, tol):
            return bool(holds(x, tol))

        def start(self, upper=None):
            return np.zeros(3) if down_closed else np.array([1.0, 0.0, 0.0])

        def min_max_norm_point(self, upper=None):
            return np.zeros(3) if down_closed else np.full(3, 1 / 3)

    return Mine()


def equal(x, tol):
    return abs(x.sum() - 1.0) <= 1e-9


def test_an_honest_set_passes():
    extend.check_set(a_set())


@pytest.mark.parametrize(
    ("P", "reason"),
    [
        (lambda: a_set(above), "leaves the bounds|is False, which the oracle"),
        (lambda: a_set(first), "and .* is better"),
        (lambda: a_set(holds=lambda x, tol: x.sum() <= 0.5), "is False, which the oracle"),
        (lambda: a_set(all_of_it, equal), "and .* is better|contains.* is False"),
        (lambda: a_set(all_of_it, equal, down_closed=False, below=False), "spread|diameter"),
        (lambda: a_set(project=halved), "is not the nearest point"),
        (lambda: a_set(len), "lmo is no kernel"),
    ],
)
def test_mistakes_of_sets_are_found(P, reason):
    with pytest.raises(AssertionError, match=reason):
        extend.check_set(P())


def registered(monkeypatch, solve, **record):
    monkeypatch.setitem(extend.METHODS, "mine", None)
    extend.register_method(extend.Method("mine", solve, "Mine", **record))


def test_mistakes_of_methods_are_found(monkeypatch):
    def outside(f, P, *, max_iter=10):
        r = ds.frank_wolfe(f, P, max_iter=max_iter)
        return replace(r, x=2.0 * r.x + 1.0)

    seeds = np.random.default_rng(0)

    def chance(f, P, *, max_iter=10):
        return ds.frank_wolfe(f, P, x0=P.upper * 0.01 * seeds.random(f.n), max_iter=max_iter)

    def forgets_options(f, P, *, max_iter=10, **options):
        return ds.frank_wolfe(f, P, max_iter=max_iter)

    def no_limit(f, P, *, max_iter=10, time_limit=None):
        return ds.frank_wolfe(f, P, max_iter=max_iter, time=time_limit)

    for solve, reason in (
        (outside, "ends outside the set"), (chance, "a second run has another answer"),
        (no_limit, "it does not solve .* takes no option 'time'"),
    ):  # fmt: skip
        registered(monkeypatch, solve, needs=("down-closed",))
        with pytest.raises(AssertionError, match=reason):
            extend.check_method("mine")
    registered(monkeypatch, forgets_options)
    extend.check_method("mine")  # `maximize` refuses what the signature does not name
    with pytest.raises(ValueError, match="unknown method 'nobody'"):
        extend.check_method("nobody")


def test_the_package_of_kinds_says_what_clashes():
    with pytest.warns(UserWarning, match="'twice' and 'knapsack' both have an argument 'weights'"):
        extend.register_kind(extend.OBJECTIVES, "twice", lambda weights: None, weights=extend.array("n"))
    del extend.OBJECTIVES["twice"]
    with pytest.raises(TypeError, match="must be those of its constructor, gains; got weights"):
        extend.register_kind(extend.OBJECTIVES, "twice", lambda gains: None, weights=extend.array("n"))
