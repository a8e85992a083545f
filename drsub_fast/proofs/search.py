"""What every proof of a global optimum shares: the incumbent, the limits, and the best-first search.

A gap is relative to max(|value|, 1e-3 times the size of f), so that it means something near zero. Where rounding
keeps the bounds from it, the search ends with the status STALLED.
"""

import heapq
from collections import namedtuple
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsub_fast.engine.clock import OutOfTime, now, until
from drsub_fast.result import Status

#: When to stop: relative ``gap``, ``size`` of f, ``deadline`` on the clock of `drsub_fast.engine.clock` (or None),
#: ``max_nodes`` (or None).
Limits = namedtuple("Limits", "gap size deadline max_nodes")

#: Below this share of the size of f, a value counts as zero when the gap is made relative.
_ZERO = 1e-3

#: As parts of the value or the size of f: a gap below the first is rounding; one below the second may be, and is if
#: so many nodes do not halve it. At n = 2 to 16 the doubly non-negative bounds of the paper's kind get to between
#: 1e-13 and 4e-10 in tens of nodes, and hundreds bring them no further than 6e-15; softmax bounds end at 1e-9.
_ROUNDING, _NEAR, _PATIENCE = 1e-13, 4e-9, 40

#: What a method proved: no point of the set is worth more than ``bound``.
Proof = namedtuple("Proof", "bound n_nodes status")


class Interrupted(Exception):
    """Ctrl-C while a node was being bounded; ``bound`` is what had been proved about the node."""

    def __init__(self, bound: float) -> None:
        super().__init__(bound)
        self.bound = bound


class Incumbent:
    """The best feasible point known, and the local solver that improves on it.

    Parameters
    ----------
    x, value : ndarray and float
        A feasible point.
    search : callable
        ``search(x) -> (x, value)``: a feasible local maximum near x, which need not be feasible itself.
    """

    def __init__(self, x: NDArray[np.float64], value: float, search: Callable[..., Any]) -> None:
        self.x, self.value, self.search = x, value, search

    def try_from(self, x: NDArray[np.float64]) -> bool:
        """Local solve from x; returns whether it found something better."""
        x, value = self.search(x)
        better = value > self.value
        if better:
            self.x, self.value = x, value
        return better


def scale_of(value: float, limits: Limits) -> float:
    """What the gap is relative to at this value."""
    return max(abs(value), _ZERO * limits.size)


def tolerance(value: float, limits: Limits) -> float:
    """Absolute gap allowed at this value."""
    return limits.gap * scale_of(value, limits)


class _Rounding:
    """Notices that a gap is next to nothing and does not get smaller."""

    def __init__(self, size):
        self.size, self.gap, self.waited = size, np.inf, 0

    def is_reason(self, bound, value):
        """Whether rounding keeps the bound from the value; asked before every node."""
        gap, scale = bound - value, max(abs(value), self.size)
        if gap > _NEAR * scale or gap < 0.5 * self.gap:
            self.gap, self.waited = gap, 0
        self.waited += 1
        return gap < _ROUNDING * scale or self.waited > _PATIENCE


def halves(
    lower: NDArray[np.float64], upper: NDArray[np.float64], j: int, at: float
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The two parts of a box whose j-th coordinate is below and above a number."""
    below, above = upper.copy(), lower.copy()
    below[j] = above[j] = at
    return (lower, below), (above, upper)


def time_left(limits: Limits) -> float | None:
    """Seconds to the deadline (0 when it has passed), or None."""
    return None if limits.deadline is None else max(0.0, limits.deadline - now())


def branching_bounds(root: object, bound_node: Callable[..., Any]) -> Generator[float, None, None]:
    """Yields the bound of a branch and bound, best bound first, after each node (see `best_first`)."""
    nodes: list[Any] = [(-np.inf, 0, root)]
    closed, created = -np.inf, 1
    while nodes:
        negative, _, node = heapq.heappop(nodes)
        bound, children = bound_node(node, -negative)
        if not children:
            closed = max(closed, bound)
        for child in children:
            heapq.heappush(nodes, (-bound, created, child))
            created += 1
        yield float(max(closed, -nodes[0][0] if nodes else -np.inf))


def best_first(
    root: object, root_bound: float, bound_node: Callable[..., Any], incumbent: "Incumbent", limits: Limits
) -> Proof:
    """Branch and bound, best bound first.

    Parameters
    ----------
    root : object
        The first node.
    root_bound : float
        A bound on it.
    bound_node : callable
        ``bound_node(node, bound) -> (bound, children)``: a bound no larger than the parent's and the children:
        none if the node holds nothing better than the bound, which is no better than the incumbent by
        more than the tolerance, or its optimum; None if the time was up before that was known. It may raise
        `Interrupted`.
    incumbent : Incumbent
        A feasible point; ``bound_node`` replaces it by better ones.
    limits : Limits
        When to stop.

    Returns
    -------
    Proof
        Its bound is valid whatever stopped the search, Ctrl-C included.
    """
    nodes = [(-root_bound, 0, root)]
    closed, n_nodes, created = -np.inf, 0, 1
    status, rounding = Status.OPTIMAL, _Rounding(limits.size)
    try:
        while nodes and -nodes[0][0] > incumbent.value + tolerance(incumbent.value, limits):
            if time_left(limits) == 0.0:
                status = Status.TIME_LIMIT
                break
            if limits.max_nodes is not None and n_nodes >= limits.max_nodes:
                status = Status.NODE_LIMIT
                break
            if rounding.is_reason(-nodes[0][0], incumbent.value):
                status = Status.STALLED
                break
            negative, order, node = nodes[0]
            try:
                with until(limits.deadline):
                    bound, children = bound_node(node, -negative)
            except Interrupted as interrupted:
                heapq.heapreplace(nodes, (-interrupted.bound, order, node))
                status = Status.INTERRUPTED
                break
            n_nodes += 1
            if children is None:
                heapq.heapreplace(nodes, (-bound, order, node))
                status = Status.TIME_LIMIT
                break
            heapq.heappop(nodes)
            if not children:
                closed = max(closed, bound)
            for child in children:
                heapq.heappush(nodes, (-bound, created, child))
                created += 1
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except OutOfTime:
        status = Status.TIME_LIMIT
    bound = max(closed, -nodes[0][0] if nodes else -np.inf, incumbent.value)
    return Proof(float(bound), n_nodes, status)
