"""Many problems of one size in one call: parameters with one more axis in front.

A stack of problems is a tuple of the class that describes one of them. Its arrays have one more axis in front, of
length B, or 1 where all problems share a row; what is no array is shared too.
"""

from drsub_fast.engine.dispatch import operation
from drsub_fast.engine.jit import kernel


@kernel
def row_of(array, i):
    """The row of problem i: the only one if all problems share it."""
    return i if array.shape[0] > 1 else 0


@kernel(memory=True)
def own(array, i):
    """What problem i has of an array with one more axis."""
    return array[row_of(array, i)]


@kernel(memory=True)  # options may hold arrays
def _shared(stack, i):
    return stack


#: ``problem_at(stack, i)``: the parameters of problem i. Those of a class without the operation are the same for all.
problem_at = operation("problem_at", _shared)
