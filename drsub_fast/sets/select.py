"""Weighted selection: where the largest keys have used a capacity up, in expected linear time."""

import numpy as np

from drsub_fast.engine.jit import kernel


@kernel
def _swap(key, item, a, b):
    kept, which = key[a], item[a]
    key[a], item[a] = key[b], item[b]
    key[b], item[b] = kept, which


@kernel
def _middle(key, a, b, c):
    """The middle one of three keys."""
    low, high = min(key[a], key[b]), max(key[a], key[b])
    return min(max(key[c], low), high)


@kernel
def _part(key, item, load, first, last, pivot):
    """Orders first .. last - 1 as above, equal to and below the pivot: (ends of the first two, their loads)."""
    above = first
    end = last
    place = first
    load_above = load_equal = 0.0
    while place < end:
        value = key[place]
        if value > pivot:
            load_above += load[item[place]]
            _swap(key, item, above, place)
            above += 1
            place += 1
        elif value == pivot:
            load_equal += load[item[place]]
            place += 1
        else:
            end -= 1
            _swap(key, item, place, end)
    return above, end, load_above, load_equal


def _select_by_sorting(key, item, load, count, capacity):
    order = np.argsort(-key[:count], kind="stable")
    key[:count], item[:count] = key[order], item[order]
    sums = np.cumsum(load[item[:count]])
    pivot = key[min(int(np.searchsorted(sums, capacity, side="right")), count - 1)]
    first = int(np.searchsorted(-key[:count], -pivot))
    return pivot, capacity - (sums[first - 1] if first else 0.0)


@kernel(plain=_select_by_sorting)
def select(key, item, load, count, capacity):
    """The key at which the capacity is used up, as (key, what it leaves of the capacity).

    The loads of the items with larger keys fit into the capacity; with those of this key they do not. Keys and items
    are put in an order in which larger keys come first. All ``count`` items together must exceed the capacity.

    Parameters
    ----------
    key : ndarray, shape (count or more,)
        Key of each item, in the order of ``item``.
    item : ndarray of int
        The items.
    load : ndarray
        Load of every item, by its number, at least 0.
    count : int
        Number of items.
    capacity : float
        What the loads may sum to.
    """
    first, last, left = 0, count, capacity
    while True:
        pivot = _middle(key, first, (first + last) // 2, last - 1)
        above, end, load_above, load_equal = _part(key, item, load, first, last, pivot)
        if load_above > left and above > first:
            last = above
        elif load_above + load_equal > left or end == last:
            return pivot, left - load_above
        else:
            left -= load_above + load_equal
            first = end
