"""Greedy MAP against its definition, its honest end, and enumeration against brute force."""

import doctest
import itertools

import numpy as np
import pytest
import scipy

import drsub_fast as ds
from drsub_fast.discrete import exact, few_items, greedy
from drsub_fast.engine import jit


def features(rng, n, rank):
    return rng.standard_normal((n, rank))


def log_det(L, items):
    items = list(items)
    return np.linalg.slogdet(L[np.ix_(items, items)])[1] if items else 0.0


def constraints(rng, n):
    edges = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 4, n)])
    return [
        ds.Budget(4, np.ones(n)),
        ds.PartitionMatroid(np.arange(n) % 3, [1, 2, 1]),
        ds.MatchingPolytope(edges, 4, 4, rng.integers(1, 3, 8)),
        ds.Box(np.ones(n)),
        ds.Budget(3.7, np.where(np.arange(n) == 2, 0.5, 1.0)),
        ds.Polytope(rng.integers(0, 3, (2, n)), [3.0, 4.0], np.ones(n)),
        ds.Ball(1.8, n),
    ]


def plain_greedy(L, P):
    """By its definition: a determinant for every candidate."""
    chosen, value = [], 0.0
    while True:
        best, best_value = None, value
        for j in range(len(L)):
            indicator = np.zeros(len(L))
            indicator[[*chosen, j]] = 1.0
            if j not in chosen and P.contains(indicator) and log_det(L, [*chosen, j]) > best_value:
                best, best_value = j, log_det(L, [*chosen, j])
        if best is None:
            return chosen, value
        chosen, value = [*chosen, best], best_value


def test_greedy_is_the_plain_greedy_choice():
    rng = np.random.default_rng(1)
    for P in constraints(rng, 14):
        B = features(rng, 14, 8)
        L = B @ B.T
        items, value = plain_greedy(L, P)
        norms = np.linalg.norm(B, axis=1)
        for result in (
            ds.greedy_map(L, P), ds.greedy_map(scipy.sparse.csr_array(L), P),
            ds.greedy_map(features=B, constraint=P, similarity="inner"),
            ds.greedy_map(features=3.0 * B / norms[:, None], quality=norms, constraint=P),
            ds.greedy_map(features=scipy.sparse.csr_array(B), constraint=P, similarity="inner"),
        ):  # fmt: skip
            if isinstance(P, ds.Polytope) and not isinstance(P, ds.MatchingPolytope):
                assert result.value >= value - 1e-9  # the choice by gain per weight may be better
                continue
            np.testing.assert_array_equal(result.items, items)
            assert result.value == pytest.approx(value, rel=1e-10)
            assert (np.diff(np.exp(result.gains)) <= 1e-9).all() or not isinstance(P, (ds.Budget, ds.Box))


def test_enumeration_is_brute_force():
    rng = np.random.default_rng(2)
    for P in constraints(rng, 9):
        B = features(rng, 9, 5)
        L = B @ B.T
        best = 0.0
        for chosen in itertools.product([0.0, 1.0], repeat=9):
            items = np.flatnonzero(chosen)
            if items.size <= 5 and P.contains(chosen):
                best = max(best, log_det(L, items))
        for result in (ds.exact_map(L, P), ds.exact_map(features=B, constraint=P, similarity="inner")):
            assert result.value == pytest.approx(best, rel=1e-9)
            assert result.value == pytest.approx(log_det(L, result.items), rel=1e-9)
            assert result.gains.sum() == pytest.approx(result.value, rel=1e-9)
            assert ds.greedy_map(L, P).value <= result.value + 1e-9


def test_enumeration_of_twenty_items():
    B = features(np.random.default_rng(3), 20, 20)
    result = ds.exact_map(features=B, constraint=20, similarity="inner")
    assert result.value == pytest.approx(log_det(B @ B.T, result.items), rel=1e-9)
    assert result.value >= ds.greedy_map(features=B, constraint=20, similarity="inner").value - 1e-9
    with pytest.raises(ValueError, match="25 items have 2"):
        ds.exact_map(np.eye(25), 3)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_kernel_of_rank_five_gives_five_items(scale):
    B = np.sqrt(scale) * features(np.random.default_rng(4), 50, 5)
    for result in (
        ds.greedy_map(B @ B.T, 10, full=True),
        ds.greedy_map(features=B, constraint=10, full=True, similarity="inner"),
    ):
        assert result.items.size == 5
        assert np.unique(result.items).size == 5
        assert "rank of the kernel is exhausted" in result.message
        assert np.isfinite(result.value)
        assert result.value == pytest.approx(log_det(B @ B.T, result.items), rel=1e-8)


@pytest.mark.parametrize("choose", [ds.greedy_map, ds.map_dpp, ds.exact_map])
@pytest.mark.parametrize("spread", [1.0, 1e4, 1e8])
def test_dependent_means_dependent_on_its_own_scale(choose, spread):
    """With L = D C D, log det L_SS = log det C_SS + 2 sum log d: D decides neither rank nor dependence."""
    rng = np.random.default_rng(14)
    B = features(rng, 9, 5)
    d = spread ** rng.uniform(-1.0, 1.0, 9)
    L = (d[:, None] * B) @ (d[:, None] * B).T
    result = choose(L, size=5)
    assert len(set(result.items.tolist())) == 5
    S = result.items
    C = B[S] / np.linalg.norm(B[S], axis=1)[:, None]
    expected = np.linalg.slogdet(C @ C.T)[1] + np.log(L.diagonal()[S]).sum()
    assert result.value == pytest.approx(expected, abs=1e-6)
    assert choose(L, size=6).value < expected - 20.0
    larger = 10.0 * L / L.diagonal().min()
    assert ds.greedy_map(larger, 9, full=True).items.size == 5
    assert "rank of the kernel is exhausted" in ds.greedy_map(larger, 9, full=True).message


def test_a_large_matrix_drops_dependent_items_by_their_own_scale(by_kernel, monkeypatch):
    rng = np.random.default_rng(15)
    V = features(rng, 1100, 6) * (1e6 ** rng.uniform(-1.0, 1.0, 1100))[:, None]
    L = V @ V.T
    for ask in (lambda: ds.greedy_map(L, 9, full=True), lambda: ds.greedy_map(L, size=6)):
        mine, plain = ask(), in_blocks(monkeypatch, ask)
        assert mine.items.size == 6
        assert by_kernel[-1] is not None
        np.testing.assert_array_equal(mine.items, plain.items)
        assert mine.message == plain.message


def test_a_negative_number_of_items_is_refused_by_its_name():
    with pytest.raises(ValueError, match="constraint = -1"):
        ds.greedy_map(np.eye(3), -1)


def test_duplicate_items_are_chosen_once():
    B = np.repeat(features(np.random.default_rng(5), 6, 6), 3, axis=0)
    result = ds.greedy_map(B @ B.T, 18, full=True)
    assert sorted(result.items // 3) == list(range(6))
    assert "rank" in result.message


def test_where_the_choice_ends():
    L = np.diag([4.0, 0.5, 0.25])
    result = ds.greedy_map(L, 2)
    np.testing.assert_array_equal(result.items, [0])
    assert "raises the determinant" in result.message
    result = ds.greedy_map(L, 2, full=True)
    np.testing.assert_array_equal(result.items, [0, 1])
    assert "fits the constraint" in result.message
    result = ds.greedy_map(0.5 * np.eye(3), 2)
    assert (result.items.size, result.value) == (0, 0.0)
    result = ds.greedy_map(np.zeros((2, 2)), 2, full=True)
    assert (result.items.size, result.value) == (0, 0.0)
    assert ds.greedy_map(L, 0).items.size == 0


def test_bad_kernels_are_named():
    with pytest.raises(ValueError, match=r"L\[1, 1\] = -1 is negative"):
        ds.greedy_map(np.diag([1.0, -1.0]), 1)
    with pytest.raises(ValueError, match=r"not positive semidefinite: L\[0, 1\] = 2, but"):
        ds.greedy_map([[2.0, 2.0], [2.0, 1.0]], 2)
    L = np.eye(150)
    L[3, 3], L[140, 3] = 2.0, 1.0
    with pytest.raises(ValueError, match=r"L\[3, 140\] = 0 but L\[140, 3\] = 1"):
        ds.greedy_map(L, 1)
    with pytest.raises(TypeError, match="either L or features"):
        ds.greedy_map(constraint=2)
    with pytest.raises(ValueError, match="the kernel has 2 items, the constraint 3"):
        ds.greedy_map(np.eye(2), ds.Box(np.ones(3)))
    with pytest.raises(TypeError, match="give size=k for exactly k items, or constraint="):
        ds.greedy_map(np.eye(2))
    with pytest.raises(ds.UnsupportedError, match="Simplex is not down-closed"):
        ds.greedy_map(np.eye(2), ds.Simplex(2))
    with pytest.raises(ValueError, match="size = 3 is more than the 2 items there are"):
        ds.greedy_map(np.eye(2), size=3)
    with pytest.raises(ValueError, match="size = 2, but the constraint lets no more than 1 items in"):
        ds.greedy_map(np.eye(2), ds.Budget(1, np.ones(2)), size=2)
    with pytest.raises(ValueError, match=r"L\[0, 1\] = nan is not finite"):
        ds.greedy_map([[1.0, np.nan], [np.nan, 1.0]], size=2)


@pytest.fixture
def by_kernel(monkeypatch):
    """The choices made by one kernel call, as plain Python."""
    monkeypatch.setattr(jit, "COMPILE", "never")
    made, choose = [], few_items.choose_from

    def counted(*arguments):
        made.append(choose(*arguments))
        return made[-1]

    monkeypatch.setattr(few_items, "choose_from", counted)
    monkeypatch.setattr(greedy, "choose_from", counted)
    return made


def in_blocks(monkeypatch, call):
    """The answer where items are taken up in blocks."""
    with monkeypatch.context() as patch:
        patch.setattr(greedy, "choose_few", lambda *arguments: None)
        patch.setattr(greedy, "choose_from", lambda *arguments: None)
        return call()


def test_one_kernel_call_makes_the_choice_in_blocks(by_kernel, monkeypatch):
    rng = np.random.default_rng(21)
    n = 1100
    B = features(rng, n, 30)
    upper = np.where(np.arange(n) % 3 == 0, 0.5, 1.0)
    for scale in (np.linalg.norm(B, axis=1), np.exp(-0.5 * rng.standard_normal(n))):
        V = 2.0 * B / scale[:, None]
        L = V @ V.T
        for ask in (
            lambda L: ds.greedy_map(L, size=13), lambda L: ds.greedy_map(np.asfortranarray(L), 13),
            lambda L: ds.greedy_map(L, ds.Budget(11, upper)), lambda L: ds.greedy_map(L, 35, full=True),
            lambda L: ds.greedy_map(0.01 * L, 9),
        ):  # fmt: skip
            before = len(by_kernel)
            mine, plain = ask(L), in_blocks(monkeypatch, lambda ask=ask: ask(L))
            assert len(by_kernel) == before + 1
            assert by_kernel[-1] is not None
            np.testing.assert_array_equal(mine.items, plain.items)
            np.testing.assert_allclose(mine.gains, plain.gains, rtol=1e-9, atol=1e-12)
            assert mine.message == plain.message


def test_of_equal_items_the_first_is_taken(by_kernel):
    L = np.kron(np.diag(np.tile([2.0, 3.0, 2.0, 1.5], 70)), np.ones((4, 4)))
    result = ds.greedy_map(L, size=100)
    expected = [4 * b for value in (3.0, 2.0) for b in range(280) if L[4 * b, 4 * b] == value][:100]
    np.testing.assert_array_equal(result.items, expected)
    assert by_kernel[-1] is not None


@pytest.mark.parametrize("similarity", ["cosine", "inner", "rbf"])
def test_one_kernel_call_makes_the_choice_in_blocks_from_features(by_kernel, monkeypatch, similarity):
    rng = np.random.default_rng(23)
    V, q = features(rng, 150, 20), 2.0 * np.exp(0.3 * rng.standard_normal(150))
    given = {"features": V, "quality": q, "similarity": similarity}
    P = ds.PartitionMatroid(rng.integers(0, 6, 150), [1, 2, 0, 3, 1, 2], np.where(np.arange(150) % 5 == 0, 0.5, 1.0))
    for ask in (
        lambda: ds.greedy_map(**given, size=9), lambda: ds.greedy_map(**given, constraint=7),
        lambda: ds.greedy_map(**given, constraint=P), lambda: ds.greedy_map(**given, constraint=P, size=8),
        lambda: ds.greedy_map(**given, constraint=P, full=True),
        lambda: ds.greedy_map(**(given | {"quality": 0.3 * q}), constraint=25, full=True),
    ):  # fmt: skip
        mine, plain = ask(), in_blocks(monkeypatch, ask)
        assert by_kernel.pop() is not None
        np.testing.assert_array_equal(mine.items, plain.items)
        np.testing.assert_allclose(mine.gains, plain.gains, rtol=1e-9, atol=1e-9)
        assert (mine.message, mine.bound) == (plain.message, pytest.approx(plain.bound, rel=1e-12))


@pytest.mark.parametrize("make", [np.float32, np.asfortranarray, lambda A: A.tolist(), lambda A: A[:, ::-1][:, ::-1]])
def test_kinds_of_arrays_make_no_difference(make):
    rng = np.random.default_rng(24)
    V, q = np.float32(features(rng, 30, 6)).astype(float), np.float32(rng.random(30)).astype(float)
    expected = ds.greedy_map(features=V, quality=q, size=5)
    found = ds.greedy_map(features=make(V), quality=np.asarray(q, np.float32), size=np.int64(5))
    assert found.value == expected.value
    frozen = V.copy()
    frozen.flags.writeable = False
    assert ds.greedy_map(features=frozen, quality=q, size=5) == expected


@pytest.mark.parametrize("wrong", ["nan", "indefinite", "asymmetric"])
def test_bad_matrices_are_named_however_large(by_kernel, wrong):
    B = features(np.random.default_rng(22), 1100, 30)
    L = B @ B.T
    first = int(ds.greedy_map(L, size=1).items[0])
    other = 1033
    if wrong == "nan":
        L[first, other] = L[other, first] = np.nan
    elif wrong == "indefinite":
        L[first, other] = L[other, first] = 1e3
    else:
        L[:, first] += 1.0
    messages = {
        "nan": r"L\[\d+\]\[1033\] = nan is not finite",
        "indefinite": "not positive semidefinite",
        "asymmetric": "L is not symmetric",
    }
    with pytest.raises(ValueError, match=messages[wrong]):
        ds.greedy_map(L, size=3)


def test_examples():
    assert doctest.testmod(greedy).failed == doctest.testmod(exact).failed == 0


def test_the_bound_is_computed_when_it_is_read(monkeypatch):
    rng = np.random.default_rng(25)
    V, calls, bound = 3.0 * features(rng, 12, 8), [], greedy.hadamard_bound
    monkeypatch.setattr(greedy, "hadamard_bound", lambda *given: calls.append(given) or bound(*given))
    P = ds.Knapsack(np.ones(12) + rng.random(12), 6.0, np.ones(12))
    for given in ({"size": 3}, {"constraint": 3}, {"constraint": P}):
        result = ds.greedy_map(features=V, similarity="inner", **given)
        assert "not computed" in str(result)
        assert "not computed" in repr(result)
        assert result == ds.MapResult(**vars(result))
        assert not calls
        V *= 8.0  # what becomes of the user's arrays makes no difference
        assert result.value <= result.bound < np.inf
        V /= 8.0
        assert result.bound == ds.greedy_map(features=V, similarity="inner", **given).bound
        assert len(calls) == 2
        calls.clear()
