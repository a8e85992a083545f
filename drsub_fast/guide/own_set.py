"""Your own set: a linear oracle is enough.

Frank-Wolfe methods ask a set only one thing: which of its points maximises <direction, v>? If you can answer that, by
sorting, by dynamic programming, by a graph algorithm or by a solver, you have a set. Spanning forests of a graph, by
Kruskal's algorithm:

>>> import numpy as np
>>> import drsub_fast as ds
>>> edges = [(0, 1), (1, 2), (0, 2), (2, 3)]
>>> def forest(direction):
...     tree, v = list(range(4)), np.zeros(len(edges))
...     for j in np.argsort(-direction):
...         a, b = (tree[i] for i in edges[j])
...         if direction[j] > 0.0 and a != b:
...             tree = [a if t == b else t for t in tree]
...             v[j] = 1.0
...     return v
>>> P = ds.CallableSet(forest, n=4, upper=np.ones(4))
>>> f = ds.Quadratic(-np.eye(4), [4.0, 3.0, 2.0, 1.0])
>>> ds.maximize(f, P).x.round(3).tolist()
[1.0, 1.0, 0.0, 1.0]

An oracle of (direction) serves methods that ask for points of P. One of (direction, upper), which keeps v <= upper,
serves all methods; a method that asks for more than the oracle can do is refused by name. Each answer is checked: its
shape, that it is finite and within its bounds, that ``contains`` agrees, and that no better point is known.

`drsub_fast.CompiledSet` takes an oracle that Numba has compiled; it runs inside the compiled loop. The reference of
`drsub_fast.CallableSet` has two more examples: shortest paths, and a transport problem by a solver for linear programs.

**A set with a name** takes one file: the recipe is in CONTRIBUTING.md, and `drsub_fast.extend.check_set` tries what you
wrote.
"""
