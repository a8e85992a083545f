"""Trials of an objective: its gradient, what it says of itself, the kernels of its steps, copies, files and solves."""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drsub_fast._checks import as_vector
from drsub_fast._kinds import OBJECTIVES, kind_of
from drsub_fast.engine.jit import compiling
from drsub_fast.extend.trials import (
    copied,
    from_file,
    is_foreign,
    require,
    require_answers,
    require_memory,
    require_stack,
    trial,
)
from drsub_fast.objectives.base import (
    Objective,
    advance,
    contract,
    coordinate_maximum,
    derivative_along,
    evaluate,
    exact_step,
    gradient_rate,
    hessian_product,
    objective_carve,
    objective_size,
    prepare,
    shift,
)
from drsub_fast.sets.box import Box
from drsub_fast.sets.budget import Budget
from drsub_fast.sets.problem import require_objective

#: Steps of differences as parts of the bounds, and what they may miss, relative to the largest derivative.
_STEP, _MISS = 1e-6, 1e-5
#: What rounding may change, relative to the largest value or derivative.
_ROUNDING = 1e-8
#: Points on a segment among which the exact step has no better one.
_GRID = 41


def check_objective(f: Objective, upper: ArrayLike | None = None) -> None:
    """Try an objective, on [0, upper].

    Parameters
    ----------
    f : Objective
        Of your own, or any other.
    upper : array_like, shape (n,), optional
        Bounds of the points at which it is tried (default: all ones).

    Raises
    ------
    AssertionError
        With the reason: the gradient is not that of the values; diminishing returns, signs or curvature are not as f
        says; the kernels of its steps do not agree with `evaluate`; a kernel allocates without ``memory=True``; it
        changes when it is pickled, written to a file or solved in a stack; or an answer has another value than f there.

    Examples
    --------
    >>> import drsub_fast as ds
    >>> ds.extend.check_objective(ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0]))
    """
    require_objective(f)
    upper = np.ones(f.n) if upper is None else as_vector(upper, "upper", n=f.n, lower=0.0)
    upper = np.minimum(upper, 1.0) if f.unit_box else upper
    rng = np.random.default_rng(0)
    points = upper * rng.uniform(0.05, 0.95, (4, f.n))
    require_memory(f.params)
    with trial("f cannot be evaluated"):
        scale = _require_gradients(f, upper, points)
        _require_signs(f, upper, points, scale)
    with trial("a kernel of its steps fails"):
        for x in points:
            _require_steps(f, upper, x, upper * rng.random(f.n), scale)
    if is_foreign(f.params):
        with trial("its kernels do not compile"), compiling():
            value = f.value(points[0])
    kind, x, value = kind_of(f, OBJECTIVES), points[0], f.value(points[0])
    box, budget = Box(upper), Budget(0.5 * float(upper.sum()), upper)
    for words, other in (("pickled", copied(f, kind)), ("read from a file", getattr(from_file(f, box), "f", f))):
        found = value if other is None else other.value(x)
        require(abs(found - value) <= 1e-12 * abs(value), f"{words} it has the value {found!r} where f is {value!r}")
    require_stack(f, box)
    methods = ("frank-wolfe", "fully-corrective-frank-wolfe", "two-phase-frank-wolfe", "nonmonotone-frank-wolfe")
    require_answers(f, budget, methods if f.finite_at_zero else methods[:2])


def _require_gradients(f, upper, points):
    """Gradients by differences; returns the largest derivative and value."""
    largest, size = 0.0, 0.0
    for x in points:
        value, grad = f.value_and_gradient(x)
        require(np.isfinite(value) and np.isfinite(grad).all(), f"at x = {x} value or gradient is not finite")
        largest, size = max(largest, np.abs(grad).max()), max(size, abs(value))
    for x in points:
        value, grad = f.value_and_gradient(x)
        for i in np.flatnonzero(upper):
            step = np.zeros(f.n)
            step[i] = _STEP * upper[i]
            up, down = (f.value(x + step) - value) / step[i], (value - f.value(x - step)) / step[i]
            miss = _MISS * largest + 0.5 * abs(up - down) + 1e-14 * size / step[i]  # the slopes differ at a kink
            require(
                abs(grad[i] - 0.5 * (up + down)) <= miss,
                f"the derivative in x[{i}] at x = {x} is {grad[i]:g}, by differences {0.5 * (up + down):g}",
            )
    return largest, size


def _require_signs(f, upper, points, scale):
    """What f says of itself, against its values and gradients."""
    largest, size = scale
    if f.dr_submodular_on(upper):
        found = f.check_dr(upper, n_samples=5, tol=_ROUNDING)
        require(found, f"dr_submodular_on says True; {found.message}")
    corners = [*points, upper, *([np.zeros(f.n)] if f.finite_at_zero else [])]
    require(
        not f.finite_at_zero or np.isfinite(f.value(np.zeros(f.n))), "f(0) is not finite, so finite_at_zero is False"
    )
    if f.nonnegative_on(upper):
        low = min(map(f.value, corners))
        require(low >= -_ROUNDING * size, f"nonnegative_on says True, and f is {low:g}")
    if f.monotone_on(upper):
        low = min(f.gradient(x).min() for x in points)
        require(low >= -_ROUNDING * largest, f"monotone_on says True, and a derivative is {low:g}")
    if f.concave_on(upper):
        for x, y in pairwise(points):
            middle, chord = f.value(0.5 * (x + y)), 0.5 * (f.value(x) + f.value(y))
            require(
                middle >= chord - _ROUNDING * size,
                f"concave_on says True, and f between {x} and {y} is below its chord",
            )
    A = f.curvature_matrix(upper)
    for x, y in pairwise(points) if A is not None else ():
        d = np.abs(x - y)
        change = abs((f.gradient(x) - f.gradient(y)) @ (x - y))
        require(
            change <= (d @ A @ d) * (1 + _ROUNDING) + _ROUNDING * largest * d.sum(), "curvature_matrix is too small"
        )


def _require_steps(
    f: Objective, upper: NDArray[np.float64], x: NDArray[np.float64], v: NDArray[np.float64], scale: tuple[float, float]
) -> None:
    """The kernels of steps leave what `evaluate` finds, and choose the best of their points."""
    largest, size = scale
    params, n = f.params, f.n
    n_floats, n_integers = objective_size.twin(params)
    work = objective_carve.twin(params, np.full(n_floats, np.nan), np.zeros(n_integers, np.int64))

    def begin(y):
        given, value = y.copy(), evaluate.twin(params, work, y)
        require(np.array_equal(y, given), "evaluate changes x")
        prepare.twin(params, work, y, v)
        return value

    def agrees(name, y, value):
        expected, grad = f.value_and_gradient(y)
        require(abs(value - expected) <= _ROUNDING * size, f"{name} returns {value!r} where f is {expected!r}")
        miss = np.abs(work.grad - grad).max()
        require(miss <= _ROUNDING * largest, f"{name} leaves a gradient that is {miss:g} off")

    y = x.copy()
    value = begin(y)
    for gamma in (0.3, 0.2):
        value = contract.twin(params, work, y, v, gamma, value)
        agrees("contract", y, value)
    y = 0.4 * x
    value = advance.twin(params, work, y, v, 0.5, begin(y))
    agrees("advance", y, value)
    i, y = int(upper.argmax()), x.copy()
    value = shift.twin(params, work, y, i, 0.5 * (upper[i] - x[i]), np.zeros(n), begin(y))
    agrees("shift", y, value)
    value = begin(x)
    gamma = exact_step.twin(params, work, x, v, 1.0, value)
    require(0.0 <= gamma <= 1.0, f"exact_step returns {gamma}, outside [0, 1]")
    best = max(f.value(x + t * (v - x)) for t in np.linspace(0.0, 1.0, _GRID))
    if f.concave_on(upper):
        require(f.value(x + gamma * (v - x)) >= best - _ROUNDING * size, "exact_step misses a better point")
    begin(x)
    if type(params) in derivative_along.table:
        slope = derivative_along.twin(params, work, x, v, 0.25)[1]
        expected = f.gradient(x + 0.25 * (v - x)) @ (v - x)
        require(
            abs(slope - expected) <= _ROUNDING * largest * n, f"derivative_along returns {slope:g} for {expected:g}"
        )
    begin(x)
    top = coordinate_maximum.twin(params, work, x.copy(), i, upper[i])
    along = [x + (t - x[i]) * np.eye(n)[i] for t in (top, *np.linspace(0.0, upper[i], _GRID))]
    values = [f.value(y) for y in along]
    require(
        not f.dr_submodular_on(upper) or values[0] >= max(values) - _ROUNDING * size, "coordinate_maximum is missed"
    )
    value, out, h = begin(x), np.empty(n), 1e-5
    change = (f.gradient(x + h * (v - x)) - f.gradient(x - h * (v - x))) / (2.0 * h)
    near = _MISS * (largest + np.abs(change).max())
    if hessian_product.twin(params, work, x, v - x, out):
        require(np.abs(out - change).max() <= near, "hessian_product is not the change of the gradient")
    begin(x)
    if gradient_rate.twin(params, work, v, True, out):
        change = f.gradient(0.5 * x + 0.5 * v) - f.gradient(0.5 * x)
        require(np.abs(0.5 * out - change).max() <= near, "gradient_rate is not the rate of the gradient along v")
