"""Choosing items: k of n, for one user or for millions.

Items that are good and different: the quality of item i times its feature vector is row i of B, and the value of a set
S is log det L_SS with L = B B'. Similar items make the determinant small. This is the most probable set of a
determinantal point process (MAP inference).

>>> import numpy as np
>>> import drsub_fast as ds
>>> rng = np.random.default_rng(0)
>>> features, quality = rng.standard_normal((30, 8)), np.full(30, 2.0)
>>> s = ds.greedy_map(features=features, quality=quality, size=5)
>>> s.items.tolist(), round(s.value, 3)
([0, 17, 2, 6, 13], 6.749)

**Begin with** `drsub_fast.greedy_map`. It takes one item after the other, each time the one that adds most, and needs
microseconds. `drsub_fast.map_dpp` also tries exchanges and the continuous relaxation; its value is never smaller:

>>> t = ds.map_dpp(features=features, quality=quality, size=5)
>>> t.value >= s.value
True

``size=5`` means exactly 5 items. ``constraint=5`` means at most 5, where fewer may be worth more; ``constraint`` may
also be a set, for example a `drsub_fast.PartitionMatroid` with two items of each category.

**How good is it?** ``t.bound`` is a proven bound on every other choice, computed when it is first read.
`drsub_fast.exact_map` finds the best choice of small problems by a search that is complete.

>>> t.value <= t.bound
True

**When does more than greedy pay?** If an early choice can block later ones: under matchings, categories and knapsacks.
With nothing but a number of items greedy is close to the best: on 50 Gaussian feature vectors of length 8, with
quality 2 and 5 items, it reaches 6.820 and the continuous relaxation 6.834.

**Thousands of users.** `drsub_fast.greedy_map_stacked` chooses for many users in one compiled call, with the same
answers as one by one. Users may have different numbers of candidates, categories with limits, and their own quality. A
user with bad data gets a status and a message; the others get their items.

>>> features = rng.standard_normal((1000, 20, 8))
>>> c = ds.greedy_map_stacked(features=features, size=3)
>>> c.items.shape, int(c.counts.min())
((1000, 3), 3)

From a file that is larger than memory: ``drsub-fast choose candidates.npz --size 10 --out answers.parquet``.

**Other set functions.** `drsub_fast.greedy` maximises coverage, facility location and other functions of
`drsub_fast.Multilinear`, lazily: it computes a gain again only where an old one could still win.

>>> F = ds.Multilinear.facility_location(np.maximum(features[0] @ features[0].T, 0.0))
>>> ds.greedy(F, size=3).items.size
3

Your own set function needs only its values; continuous greedy over the relaxation, then rounding:

>>> covers = [{0, 1}, {1, 2}, {2, 3, 4}, {0, 4}]
>>> F = ds.Multilinear.from_function(lambda items: len(set().union(*(covers[i] for i in items))), n=4)
>>> P = ds.Budget(2, [1.0] * 4)
>>> ds.round_solution(F, P, ds.monotone_frank_wolfe(F, P).x).value
5.0

**Rows of a table.** `drsub_fast.ItemSelector` has the interface of scikit-learn: ``fit``, ``transform``, ``ranking_``.
"""
