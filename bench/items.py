"""Choosing items: suites against plain numpy, and (as a program) against apricot-select and submodlib, in turn.

    python -m bench.items

The program needs the extra ``rivals``; what is not installed is left out.
"""

import heapq
import time

import numpy as np

import drsub_fast as ds
from drsub_fast.experiments.choices import plain_greedy, random_items

IMPLS = ["reference", "fast"]


def similarities(n, seed=0):
    """Cosines, at least 0, of n random vectors of 16 entries."""
    B = np.random.default_rng([n, seed]).standard_normal((n, 16))
    B /= np.linalg.norm(B, axis=1, keepdims=True)
    return np.maximum(B @ B.T, 0.0)


def plain_lazy_greedy(W, k):
    """Lazy greedy for facility location in numpy; the value."""
    cover, heap, chosen = np.zeros(W.shape[1]), [(-gain, i, 0) for i, gain in enumerate(W.sum(axis=1))], 0
    heapq.heapify(heap)
    while chosen < k:
        _, i, seen = heapq.heappop(heap)
        if seen == chosen:
            cover, chosen = np.maximum(cover, W[i]), chosen + 1
        else:
            heapq.heappush(heap, (-np.maximum(W[i] - cover, 0.0).sum(), i, chosen))
    return float(cover.sum())


class GreedyMap:
    """20 of n items with 64 features each, by greedy choice."""

    params = (IMPLS, [1000, 10_000, 100_000])
    param_names = ("impl", "n")

    def setup(self, impl, n):
        self.features, self.quality = random_items(n)

    def time_greedy(self, impl, n):
        if impl == "reference":
            plain_greedy(self.features, self.quality, 20)
        else:
            ds.greedy_map(features=self.features, quality=self.quality, size=20)


class MapDPP:
    """The same by `map_dpp`: time, how far the bound is, memory."""

    params = [1000, 10_000]
    param_names = ("n",)

    def setup(self, n):
        self.features, self.quality = random_items(n)

    def solve(self):
        return ds.map_dpp(features=self.features, quality=self.quality, size=20)

    def time_map_dpp(self, n):
        self.solve()

    def track_distance_of_the_bound(self, n):
        found = self.solve()
        return found.bound - found.value

    def peakmem_map_dpp(self, n):
        self.solve()


class FacilityLocation:
    """40 of n items by lazy greedy, construction included."""

    params = (IMPLS, [500, 3000])
    param_names = ("impl", "n")

    def setup(self, impl, n):
        self.W = similarities(n)
        self.time_greedy(impl, n)

    def time_greedy(self, impl, n):
        if impl == "reference":
            plain_lazy_greedy(self.W, 40)
        else:
            ds.greedy(ds.Multilinear.facility_location(self.W), 40)


def rivals(W, k):
    """Functions that choose k items and return F, by name."""
    found = {
        "ours": lambda: ds.greedy(ds.Multilinear.facility_location(W), k).value,
        "numpy": lambda: plain_lazy_greedy(W, k),
    }
    try:
        from apricot import FacilityLocationSelection

        found["apricot-select"] = lambda: (
            W[FacilityLocationSelection(k, metric="precomputed").fit(W).ranking].max(axis=0).sum()
        )
    except ImportError:
        pass
    try:
        from submodlib.functions.facilityLocation import FacilityLocationFunction

        def by_submodlib():
            function = FacilityLocationFunction(n=len(W), mode="dense", sijs=W, separate_rep=False)
            chosen = function.maximize(budget=k, optimizer="LazyGreedy", show_progress=False)
            return W[[item for item, _ in chosen]].max(axis=0).sum()

        found["submodlib"] = by_submodlib
    except ImportError:
        pass
    return found


def main():
    for n, k in ((1000, 20), (3000, 50)):
        W, seconds, values = similarities(n), {}, {}
        ways = rivals(W, k)
        for turn in range(4):
            for name, run in ways.items():
                began = time.process_time()
                values[name] = run()
                if turn:
                    seconds.setdefault(name, []).append(time.process_time() - began)
        ours = min(seconds["ours"])
        for name in ways:
            least = min(seconds[name])
            print(f"n = {n}, k = {k}, {name:16}{1e3 * least:9.1f} ms {least / ours:6.1f}x  F = {values[name]:.6f}")


if __name__ == "__main__":
    main()
