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

**When does more than greedy pay?** If an early choice can block later ones. On the debates below the continuous method
ends above greedy by 0.19 in log det under matchings, by 0.10 with one item a topic on one side, by 0.08 under a
knapsack, and not at all with nothing but a number of items. For 5 of 50 Gaussian vectors of length 8 with quality 2 it
was better than `drsub_fast.map_dpp` in 6 of 8 draws and worse in 2, by up to 0.06. For large set functions exchanges
pay most: above greedy, ``ds.greedy(F, size=50, improve=True)`` ended between 0.04 and 0.8 % on two sets of 5000
facilities, rounding the continuous answer between 0.00 and 0.4 %, both together between 0.04 and 1.2 %.

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

``drsub-fast paper --families choices digits`` compares the ways to choose items on data of scikit-learn, in values and
times. ``--families debates --data FILE`` is the paper's experiment on the Republican debates of 2012, on statements as
JSON lines; eight debates (the paper had twenty) are in James Martherus's ``debates`` on GitHub (MIT licence).

**Rows of a table.** `drsub_fast.ItemSelector` has the interface of scikit-learn: ``fit``, ``transform``, ``ranking_``.
"""
