"""Kernels of quadratics f(x) = 1/2 x'Hx + h'x + c whose H is an array or H = -BB' - diag(d), never formed.

H is asked for two things only, its products with vectors and its diagonal, so one text serves all ways of keeping it
(those of sparse rows are in `quadratic_sparse`). A product costs the rows in which the vector is not zero.
"""

from collections import namedtuple

import numpy as np

from drsub_fast.engine.dispatch import operation, own
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.primitives import split
from drsub_fast.engine.vector import add_scaled, symmetric_product
from drsub_fast.objectives.base import register_objective

QuadraticParams = namedtuple("QuadraticParams", "H h c")
#: H = -BB' - diag(d).
FactoredQuadraticParams = namedtuple("FactoredQuadraticParams", "B d h c")

QuadraticWork = namedtuple("QuadraticWork", "grad Hv")
FactoredQuadraticWork = namedtuple("FactoredQuadraticWork", "grad Hv inner")

#: ``hessian_times(params, work, v, out)``: out = H v. ``hessian_diagonal(params, i)``: H_ii.
hessian_times = operation("hessian_times")
hessian_diagonal = operation("hessian_diagonal")


@kernel
def _unknown(params, upper, out):
    return False


#: ``gains_alone(params, upper, out)``: out_j = (f(upper_j e_j) - f(0)) / upper_j; whether one is not 0 (default: no).
gains_alone = operation("gains_alone", _unknown)


@kernel
def _dense_times(params, work, v, out):
    symmetric_product(params.H, v, out)


@kernel
def _dense_diagonal(params, i):
    return params.H[i, i]


def _factored_times_in_arrays(params, work, v, out):
    out[: v.size] = -(params.B @ (v @ params.B)) - params.d * v


@kernel(plain=_factored_times_in_arrays, reductions=True)
def _factored_times(params, work, v, out):
    B, d, inner = params.B, params.d, work.inner
    for k in range(inner.size):
        inner[k] = 0.0
    for i in range(v.size):
        scale = v[i]
        if scale != 0.0:
            row = B[i]
            for k in range(inner.size):
                inner[k] += scale * row[k]
    for i in range(v.size):
        row, total = B[i], 0.0
        for k in range(inner.size):
            total += row[k] * inner[k]
        out[i] = -(total + d[i] * v[i])


@kernel(reductions=True)
def _factored_diagonal(params, i):
    row, total = params.B[i], params.d[i]
    for k in range(row.size):
        total += row[k] * row[k]
    return -total


@kernel
def _size(params):
    return 2 * params.h.size, 0


@kernel(memory=True)
def _carve(params, floats, integers):
    return QuadraticWork(*split(floats, params.h.size, params.h.size))


@kernel
def _factored_size(params):
    return 2 * params.h.size + params.B.shape[1], 0


@kernel(memory=True)
def _factored_carve(params, floats, integers):
    n, k = params.B.shape
    return FactoredQuadraticWork(*split(floats, n, n, k))


def _evaluate_in_arrays(params, work, x):
    grad = work.grad
    hessian_times(params, work, x, grad)
    value = params.c + float(np.add.reduce(x * (0.5 * grad + params.h)))
    grad += params.h
    return value


@kernel(plain=_evaluate_in_arrays)
def evaluate_quadratic(params, work, x):
    grad = work.grad
    hessian_times(params, work, x, grad)
    value = params.c
    for j in range(x.size):
        value += x[j] * (0.5 * grad[j] + params.h[j])
        grad[j] += params.h[j]
    return value


@kernel
def _prepare(params, work, x, v):
    hessian_times(params, work, v, work.Hv)


def _advance_in_arrays(params, work, x, v, gamma, value):
    grad, Hv = work.grad, work.Hv
    first, second = np.add.reduce(grad * v), np.add.reduce(v * Hv)
    x += gamma * v
    grad += gamma * Hv
    return value + gamma * (first + 0.5 * gamma * second)


@kernel(plain=_advance_in_arrays, reductions=True)
def advance_by_product(params, work, x, v, gamma, value):
    grad, Hv = work.grad, work.Hv
    first = second = 0.0
    for j in range(x.size):
        first += grad[j] * v[j]
        second += v[j] * Hv[j]
        x[j] += gamma * v[j]
        grad[j] += gamma * Hv[j]
    return value + gamma * (first + 0.5 * gamma * second)


def _contract_in_arrays(params, work, x, v, gamma, value):
    grad = work.grad
    d, Hd = v - x, work.Hv - (grad - params.h)
    first, second = np.add.reduce(grad * d), np.add.reduce(d * Hd)
    x += gamma * d
    grad += gamma * Hd
    return value + gamma * (first + 0.5 * gamma * second)


@kernel(plain=_contract_in_arrays, reductions=True)
def contract_quadratic(params, work, x, v, gamma, value):
    grad, Hv, h = work.grad, work.Hv, params.h
    first = second = 0.0
    for j in range(x.size):
        d = v[j] - x[j]
        Hd = Hv[j] - (grad[j] - h[j])
        first += grad[j] * d
        second += d * Hd
        x[j] += gamma * d
        grad[j] += gamma * Hd
    return value + gamma * (first + 0.5 * gamma * second)


def _slope_and_bend_in_arrays(params, work, x, v):
    d = v - x
    return np.add.reduce(work.grad * d), np.add.reduce(d * (work.Hv - (work.grad - params.h)))


@kernel(plain=_slope_and_bend_in_arrays, reductions=True)
def _slope_and_bend(params, work, x, v):
    """<grad f(x), d> and <d, H d> for d = v - x."""
    grad, Hv, h = work.grad, work.Hv, params.h
    first = second = 0.0
    for j in range(x.size):
        d = v[j] - x[j]
        first += grad[j] * d
        second += d * (Hv[j] - (grad[j] - h[j]))
    return first, second


@kernel(reductions=True)
def exact_step_of_quadratic(params, work, x, v, limit, value):
    first, second = _slope_and_bend(params, work, x, v)
    if second >= 0.0:
        return limit if first + 0.5 * limit * second > 0.0 else 0.0
    return max(0.0, min(limit, -first / second))


@kernel
def maximum_along_coordinate(params, work, x, i, upper):
    slope, curvature = work.grad[i], hessian_diagonal(params, i)
    if curvature >= 0.0:
        above, below = upper - x[i], x[i]
        change = above * (slope + 0.5 * curvature * above) + below * (slope - 0.5 * curvature * below)
        return upper if change > 0.0 else 0.0 if change < 0.0 else x[i]
    return min(upper, max(0.0, x[i] - slope / curvature))


@kernel
def gains_of_variables(params, upper, out):
    count = 0
    for j in range(upper.size):
        out[j] = params.h[j] + 0.5 * hessian_diagonal(params, j) * upper[j]
        count += out[j] != 0.0
    return count > 0


def _rate_in_arrays(params, work, v, additive, rate):
    rate[: v.size] = work.Hv if additive else work.Hv + params.h
    return True


@kernel(plain=_rate_in_arrays)
def rate_of_gradient(params, work, v, additive, rate):
    for j in range(v.size):
        rate[j] = work.Hv[j] if additive else work.Hv[j] + params.h[j]
    return True


@kernel
def product_with_hessian(params, work, x, d, out):
    hessian_times(params, work, d, out)
    return 2


@kernel
def _dense_shift(params, work, x, i, change, unit, value):
    slope = work.grad[i]
    add_scaled(work.grad, change, params.H[i])
    x[i] += change
    return value + change * (slope + 0.5 * change * params.H[i, i])


@kernel(memory=True)
def _problem_at(stack, i):
    return QuadraticParams(own(stack.H, i), own(stack.h, i), own(stack.c, i))


@kernel(memory=True)
def _factored_problem_at(stack, i):
    return FactoredQuadraticParams(own(stack.B, i), own(stack.d, i), own(stack.h, i), own(stack.c, i))


register_objective(
    QuadraticParams,
    FactoredQuadraticParams,
    evaluate=evaluate_quadratic,
    prepare=_prepare,
    advance=advance_by_product,
    contract=contract_quadratic,
    exact_step=exact_step_of_quadratic,
    coordinate_maximum=maximum_along_coordinate,
    gains_alone=gains_of_variables,
    gradient_rate=rate_of_gradient,
    hessian_product=product_with_hessian,
)
register_objective(
    QuadraticParams,
    objective_size=_size,
    objective_carve=_carve,
    hessian_times=_dense_times,
    hessian_diagonal=_dense_diagonal,
    shift=_dense_shift,
    problem_at=_problem_at,
)
register_objective(
    FactoredQuadraticParams,
    objective_size=_factored_size,
    objective_carve=_factored_carve,
    hessian_times=_factored_times,
    hessian_diagonal=_factored_diagonal,
    problem_at=_factored_problem_at,
)
