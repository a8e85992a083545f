"""Many solves of one problem, each from its own start, and the bounds that come with them: what is compiled of it.

A single solve (`drsub_fast.solvers.multi_start`) and a stack (`drsub_fast.batch.stack_loop`) run this text.

The first `ROUND` starts are vertices of random costs. From then on every other start lies halfway from the best point
of the rounds before to such a vertex: maxima stand near each other more often than not, and fewer steps lead there.
The second start of a quadratic has for its cost what each variable gains alone. Over a simplex that is the best vertex,
which random ones miss.
"""

import math
from collections import namedtuple
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from drsub_fast.engine.codes import BREAK, OK, PAUSED, SOLVED
from drsub_fast.engine.jit import kernel
from drsub_fast.engine.vector import fill
from drsub_fast.objectives.quadratic_kernels import gains_alone
from drsub_fast.sets.base import lmo
from drsub_fast.solvers.loops import run_loop
from drsub_fast.solvers.state import BASE, BASED, GAP, N_LMO, VALUE, K, open_run

#: The starts of a problem, row s of every array being start s: the cost whose vertex it is, where u = 1 (all zero: it
#: begins at its point); then what its solve left: point, value (-inf until it is solved), gap, (steps, oracle calls),
#: code of the loop, traces.
Starts = namedtuple("Starts", "costs points values gaps counts codes trace_value trace_gap")

#: Code of a start whose solve has not begun.
UNSOLVED = -1

#: Starts of a round: each round looks back at the best point of those before it. On 2,000 random quadratics of the
#: paper's families (two seeds), 64 starts miss the maximum by more than 1e-4 on 2 and 4 where half of the later ones
#: begin halfway, 96 on 1 and 3; with vertices only, 64 on 5 and 96 on 3.
ROUND = 16

#: The start whose cost is what the variables gain alone, where that is known.
_ALONE = 1

#: Of two values that differ by less, relatively, the earlier one counts as the best.
_TIE = 1e-9

#: A variable with a smaller bound counts as fixed at 0 where costs are scaled: 1 / bound would overflow.
_SMALLEST_BOUND = 1e-300


@lru_cache(maxsize=8)
def unit_costs(n: int, n_starts: int, seed: int) -> NDArray[np.float64]:
    """`start_costs`, read-only, remembered: drawing them costs 30 us."""
    # Two streams, so that more starts begin with the same ones.
    costs = np.random.default_rng(seed).standard_exponential((n_starts, n))
    signs = np.random.default_rng((seed, 1))
    np.negative(costs[2::2], out=costs[2::2], where=signs.random(costs[2::2].shape) < 0.5)
    costs[0] = 0.0
    costs.flags.writeable = False
    return costs


def start_costs(n: int, n_starts: int, seed: int) -> NDArray[np.float64]:
    """Costs of the starts where u = 1, shape (n_starts, n): Exp(1), with random signs in even rows; row 0 is 0."""
    return unit_costs(n, n_starts, seed).copy()


def _scaled_in_arrays(cost, upper, out):
    out[: upper.size] = 0.0
    np.divide(cost, upper, out=out[: upper.size], where=upper > _SMALLEST_BOUND)
    return bool(out[: upper.size].any())


@kernel(plain=_scaled_in_arrays)
def _scaled(cost, upper, out):
    """out = cost / upper, which spreads vertices whatever the scale of the variables; whether it is not zero."""
    count = 0
    for j in range(upper.size):
        out[j] = cost[j] / upper[j] if upper[j] > _SMALLEST_BOUND else 0.0
        count += out[j] != 0.0
    return count > 0


@kernel
def start_direction(objective, cost, s, upper, out):
    """out = the direction whose vertex start s is; whether it is not zero."""
    given = _scaled(cost, upper, out)
    if given and s == _ALONE and not gains_alone(objective, upper, out):
        _scaled(cost, upper, out)
    return given


@kernel
def move_halfway(starts, s):
    """Moves point s, a vertex, halfway to the best point of the rounds before, if s is a start that begins there."""
    if s < ROUND or s % 2 == 0:
        return
    best = -1
    for r in range(s - s % ROUND):
        value = starts.values[r]
        if value > -math.inf and (best < 0 or value > starts.values[best] + _TIE * abs(starts.values[best])):
            best = r
    if best >= 0:
        x = starts.points[s]
        for j in range(x.size):
            x[j] = 0.5 * (x[j] + starts.points[best, j])


@kernel
def _begin_start(objective, feasible_set, floats, integers, starts, s, upper, base):
    """A fresh workspace, and the point of start s; returns the code of the oracle."""
    fill(integers, 0)
    if math.isfinite(base):
        floats[BASE], integers[BASED] = base, 1
    state, _, set_work = open_run(objective, feasible_set, upper.size, floats, integers)
    code = OK
    if start_direction(objective, starts.costs[s], s, upper, state.cost):
        code = PAUSED
        while code == PAUSED:
            code = lmo(feasible_set, set_work, state.cost, upper, starts.points[s])
        if code == OK:
            move_halfway(starts, s)
    return code


@kernel
def solve_starts(objective, feasible_set, options, floats, integers, starts, upper, base, k_max, steps, first, last):
    """Solves starts first .. last - 1, or takes ``steps`` steps; returns the start to go on with, ``last`` at the end.

    The rise of f is counted from ``base`` if that is finite.
    """
    s = first
    while s < last:
        if starts.codes[s] == UNSOLVED:
            code = _begin_start(objective, feasible_set, floats, integers, starts, s, upper, base)
            if code != OK:
                starts.codes[s] = code
                s += 1
                continue
        k = integers[K]
        starts.codes[s] = run_loop(
            options, objective, feasible_set, floats, integers, starts.points[s], upper, k_max,
            min(k + steps, k_max + 1), starts.trace_value[s], starts.trace_gap[s],
        )  # fmt: skip
        steps -= integers[K] - k
        starts.values[s] = floats[VALUE] if starts.codes[s] in SOLVED else -math.inf
        starts.gaps[s] = floats[GAP]
        starts.counts[s, 0] = integers[K]
        starts.counts[s, 1] = integers[N_LMO]
        if starts.codes[s] == BREAK or starts.codes[s] == PAUSED:
            return s
        s += 1
    return last


@kernel
def local_global_bound(value, gap, other_gap):
    """Proposition 1: for f >= 0, stationary x over P and z over {y in P : y <= u - x} have max{f(x), f(z)} >= f(x*)/4.

    ``value`` is the larger of the two values; the gaps that the two points left count in full.
    """
    return 4.0 * value + max(gap, 0.0) + max(other_gap, 0.0)
