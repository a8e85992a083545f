"""Binary heap of items (indices) in an array of the caller's: the smallest key first, of equal ones the last item."""

from drsub_fast.engine.jit import kernel


@kernel
def _precedes(key, a, b):
    return key[a] < key[b] or (key[a] == key[b] and a > b)


@kernel
def sift_down(heap, start, count, key):
    """Restores the order of ``heap[:count]`` below position ``start``."""
    item = heap[start]
    place = start
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and _precedes(key, heap[child + 1], heap[child]):
            child += 1
        if not _precedes(key, heap[child], item):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = item


@kernel
def heapify(heap, count, key):
    """Puts the items ``heap[:count]`` in order."""
    for start in range(count // 2 - 1, -1, -1):
        sift_down(heap, start, count, key)


@kernel
def push(heap, count, key, item):
    """Adds an item to the ``count`` items of a heap."""
    place = count
    while place > 0:
        parent = (place - 1) // 2
        if not _precedes(key, item, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


@kernel
def pop(heap, count, key):
    """Removes the first of ``count`` items."""
    heap[0] = heap[count - 1]
    if count > 1:
        sift_down(heap, 0, count - 1, key)
