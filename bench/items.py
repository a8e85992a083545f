"""Choosing items: suites against plain numpy, and (as a program) against apricot-select and submodlib, in turn.

    python -m bench.items

The program needs the extra ``rivals``; what is not installed is left out.
"""

import time

import drsub_fast as ds
from drsub_fast.engine.jit import compiling
from drsub_fast.experiments.choices import plain_greedy, random_items, service_ways
from drsub_fast.experiments.peers import CHOICE, SELECTION, installed, missing
from drsub_fast.experiments.speed_table import similarities

IMPLS = ["reference", "fast"]


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


class Service:
    """k of n items for each of 64 users: numpy, pyversity, `greedy_map`, `greedy_map_stacked`."""

    params = (["numpy's greedy", *(peer.name for peer in CHOICE), "greedy_map", "greedy_map_stacked"], [50, 200, 1000])
    param_names = ("impl", "n")

    def setup(self, impl, n):
        rank, k = {50: (16, 5), 200: (64, 10), 1000: (64, 20)}[n]
        ways = service_ways(n, rank, k, users=64)
        if impl not in ways:
            raise NotImplementedError
        self.choose = ways[impl]
        with compiling():
            self.choose()

    def time_users(self, impl, n):
        self.choose()


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
        return found.upper_bound - found.value

    def peakmem_map_dpp(self, n):
        self.solve()


class FacilityLocation:
    """40 of n items by lazy greedy, construction included."""

    params = (["fast", *(peer.name for peer in SELECTION)], [500, 3000])
    param_names = ("impl", "n")

    def setup(self, impl, n):
        W = similarities(n)
        ways = {peer.name: peer.make for peer in installed(SELECTION)} | {"fast": by_greedy}
        if impl not in ways:
            raise NotImplementedError
        self.choose = ways[impl](W, 40)
        self.choose()

    def time_greedy(self, impl, n):
        self.choose()

    def track_value(self, impl, n):
        return self.choose()


def by_greedy(W, k):
    return lambda: ds.greedy(ds.Multilinear.facility_location(W), k).value


def main():
    for n, k in ((1000, 20), (3000, 50)):
        W, seconds, values = similarities(n), {}, {}
        ways = {"ours": by_greedy(W, k)} | {peer.name: peer.make(W, k) for peer in installed(SELECTION)}
        for turn in range(4):
            for name, run in ways.items():
                began = time.process_time()
                values[name] = run()
                if turn:
                    seconds.setdefault(name, []).append(time.process_time() - began)
        ours = min(seconds["ours"])
        for name in ways:
            least = min(seconds[name])
            print(f"n = {n}, k = {k}, {name:20}{1e3 * least:9.1f} ms {least / ours:6.1f}x  F = {values[name]:.6f}")

    print(missing(), end="\n" * bool(missing()))


if __name__ == "__main__":
    main()
