"""Choices for many users against those of `greedy_map` one by one, plain numpy and enumeration."""

import doctest
import itertools
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch import choices
from drsub_fast.discrete import few_items


def users(seed, B, n, d):
    rng = np.random.default_rng(seed)
    return rng, rng.standard_normal((B, n, d)), 2.0 * np.exp(0.4 * rng.standard_normal((B, n)))


def plain_greedy(L, size):
    """By its definition: the largest determinant among all sets with one more item."""
    chosen = []
    for _ in range(size):
        rest = [i for i in range(len(L)) if i not in chosen]
        chosen.append(max(rest, key=lambda i: np.linalg.det(L[np.ix_([*chosen, i], [*chosen, i])])))
    return chosen


def kernel(V, q):
    unit = V / np.linalg.norm(V, axis=1)[:, None]
    return (q[:, None] * unit) @ (q[:, None] * unit).T


def require_same(stack, b, single):
    count = single.items.size
    assert stack.counts[b] == count
    np.testing.assert_array_equal(stack.items[b, :count], single.items)
    assert (stack.items[b, count:] == -1).all()
    assert stack.value[b] == single.value or (np.isnan(stack.value[b]) and np.isnan(single.value))


def test_choices_are_the_plain_greedy_ones():
    _, V, q = users(1, 12, 9, 6)
    found = ds.greedy_map_stacked(features=V, quality=q, size=4)
    for b in range(12):
        L = kernel(V[b], q[b])
        items = plain_greedy(L, 4)
        assert found.items[b].tolist() == items
        assert found.value[b] == pytest.approx(np.linalg.slogdet(L[np.ix_(items, items)])[1], abs=1e-9)
        best = max(np.linalg.slogdet(L[np.ix_(S, S)])[1] for S in itertools.combinations(range(9), 4))
        assert found.value[b] <= best + 1e-9
    assert found.status_names().tolist() == ["COMPLETED"] * 12
    assert not found.messages


@pytest.mark.parametrize("similarity", ["cosine", "inner", "rbf"])
def test_answers_are_those_one_by_one_to_the_bit(similarity):
    rng, V, q = users(2, 30, 25, 7)
    lengths = rng.integers(0, 26, 30)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    flat = [np.concatenate([a[b, : lengths[b]] for b in range(30)]) for a in (V, q)]
    by_lengths = ds.greedy_map_stacked(features=V, quality=q, lengths=lengths, size=5, similarity=similarity)
    by_offsets = ds.greedy_map_stacked(
        features=flat[0], quality=flat[1], offsets=offsets, size=5, similarity=similarity, n_jobs=2
    )
    for b, n in enumerate(lengths):
        if n:
            single = ds.greedy_map(features=V[b, :n], quality=q[b, :n], size=min(5, n), similarity=similarity)
            require_same(by_lengths, b, single)
        assert (b in by_lengths.messages) == (n < 5)
    assert by_offsets.value.tobytes() == by_lengths.value.tobytes()
    np.testing.assert_array_equal(by_offsets.items, by_lengths.items)
    assert by_offsets.messages == by_lengths.messages


@pytest.mark.parametrize("order", ["C", "F"])
def test_kernels_that_are_symmetric_up_to_rounding_are_read_alike_in_any_layout(order):
    """Rows are read, not columns: with two equal items the difference decides which comes first."""
    rng = np.random.default_rng(30)
    X = rng.normal(size=(8, 5, 2))
    X[:, 0] = X[:, 1]
    L = (X @ X.transpose(0, 2, 1) + 0.1 * np.eye(5)) * (1.0 + 1e-12 * rng.normal(size=(8, 5, 5)))
    stack = np.array(L, order=order)
    choices = ds.greedy_map_stacked(stack, size=5)
    for i in range(8):
        alone = ds.greedy_map(stack[i], size=5)
        assert choices.items[i].tolist() == alone.items.tolist()
        assert choices.value[i] == alone.value


def test_threads_processes_and_pieces_change_no_bit(tmp_path, monkeypatch):
    _, V, q = users(3, 40, 12, 5)
    one = ds.greedy_map_stacked(features=V, quality=q, size=4, n_jobs=1)
    monkeypatch.setattr(choices, "HELD", 3 * 12 * 6 * 8)
    with ThreadPoolExecutor(2) as executor:
        others = [
            ds.greedy_map_stacked(features=V, quality=q, size=4, n_jobs=3),
            ds.greedy_map_stacked(features=np.asfortranarray(V), quality=q, size=4),
            ds.greedy_map_stacked(features=V, quality=q, size=4, executor=executor),
            ds.greedy_map_stacked(features=V, quality=q, size=4, checkpoint=tmp_path / "kept"),
            ds.greedy_map_stacked(features=V, quality=q, size=4, checkpoint=tmp_path / "kept"),
        ]
    for other in others:
        assert other.value.tobytes() == one.value.tobytes()
        np.testing.assert_array_equal(other.items, one.items)
        assert (other.status == one.status).all()
    with pytest.raises(ds.CheckpointError, match="other inputs"):
        ds.greedy_map_stacked(features=V, quality=q, size=3, checkpoint=tmp_path / "kept")
    V[0, 0, 0] += 1.0
    with pytest.raises(ds.CheckpointError, match="other problems"):
        ds.greedy_map_stacked(features=V, quality=q, size=4, checkpoint=tmp_path / "kept")


@pytest.mark.parametrize("labels", [8, 10**12])
def test_groups_are_a_partition_matroid(labels):
    rng, V, q = users(4, 20, 16, 9)
    groups = rng.integers(0, 8, (20, 16)) * (labels // 8)
    found = ds.greedy_map_stacked(features=V, quality=q, size=6, groups=groups, per_group=1)
    for b in range(20):
        P = ds.PartitionMatroid(groups[b] // (labels // 8), np.ones(8))
        most = min(6, np.unique(groups[b]).size)
        require_same(found, b, ds.greedy_map(features=V[b], quality=q[b], size=most, constraint=P))
        assert (b in found.messages) == (most < 6)
    if labels == 8:
        caps = np.array([0, 1, 2, 3, 0, 1, 1, 2])
        found = ds.greedy_map_stacked(features=V, size=5, groups=groups, per_group=caps)
        for b in range(20):
            counts = np.bincount(groups[b][found.items[b, : found.counts[b]]], minlength=8)
            assert (counts <= caps).all()
            assert found.counts[b] == min(5, np.minimum(np.bincount(groups[b], minlength=8), caps).sum())


def test_what_is_beyond_the_lengths_is_not_read():
    rng, V, q = users(5, 6, 10, 4)
    lengths, groups = np.array([3, 10, 0, 7, 1, 9]), rng.integers(0, 3, (6, 10))
    clean = ds.greedy_map_stacked(features=V, quality=q, lengths=lengths, size=3, groups=groups, per_group=2)
    beyond = np.arange(10) >= lengths[:, None]
    V[beyond], q[beyond], groups[beyond] = np.nan, -1.0, -7
    found = ds.greedy_map_stacked(features=V, quality=q, lengths=lengths, size=3, groups=groups, per_group=2)
    assert found.value.tobytes() == clean.value.tobytes()
    np.testing.assert_array_equal(found.items, clean.items)
    L = np.full((2, 4, 4), np.nan)
    L[:, :2, :2] = np.eye(2)
    assert ds.greedy_map_stacked(L, lengths=[2, 2], size=2).value.tolist() == [0.0, 0.0]


def test_one_bad_user_leaves_the_others_alone():
    _, V, q = users(6, 12, 8, 5)
    good = ds.greedy_map_stacked(features=V, quality=q, size=3)
    V[1, 2, 3], V[2, 0, 0], V[3, 4] = np.nan, np.inf, 0.0
    q[4, 1], q[5, 2], q[6, 0], V[7] = -1.0, np.nan, 1e200, V[7, :1]
    found = ds.greedy_map_stacked(features=V, quality=q, size=3)
    assert [i for i in range(12) if found.status[i] is ds.Status.FAILED] == [1, 2, 3, 4, 5, 6]
    for b in range(1, 7):
        with pytest.raises(ValueError) as error:  # noqa: PT011 - any: the words are to be the same
            ds.greedy_map(features=V[b], quality=q[b], size=3)
        assert found.messages[b] == f"user {b}: {error.value}"
        assert found.counts[b] == 0
        assert np.isnan(found.value[b])
        assert (found.items[b] == -1).all()
    assert found.value[7] == -np.inf
    assert len(set(found.items[7].tolist())) == 3
    assert found.messages[7] == "user 7: no more than 1 item is independent, so the determinant is 0"
    rest = [0, 8, 9, 10, 11]
    assert found.value[rest].tobytes() == good.value[rest].tobytes()


def test_bad_kernels_are_named():
    L = np.array([np.eye(3)] * 6)
    L[1, 0, 1], L[2, 2, 2], L[3, 1, 1] = 0.5, np.nan, -1.0
    L[4, :2, :2], L[5, 0, 1] = [[1.0, 2.0], [2.0, 1.0]], np.nan
    found = ds.greedy_map_stacked(L, size=2)
    assert found.status_names().tolist() == ["COMPLETED"] + ["FAILED"] * 5
    for b, words in ((1, "not symmetric"), (2, "not finite"), (3, "negative"), (4, "semidefinite"), (5, "not finite")):
        assert words in found.messages[b]


def test_a_user_left_to_greedy_map_may_have_no_item_that_fits():
    """Squares of 1e300 are beyond the kernel; NaN is named though nothing could be chosen."""
    features = np.array([[[1e150], [2e150]], [[np.nan], [1.0]], [[1.0], [2.0]]])
    c = ds.greedy_map_stacked(
        features=features, size=1, groups=np.zeros((3, 2), int), per_group=[0], similarity="inner"
    )
    assert c.counts.tolist() == [0, 0, 0]
    assert c.status_names().tolist() == ["COMPLETED", "FAILED", "COMPLETED"]
    assert "no further one fits per_group" in c.messages[0]
    assert "is not finite" in c.messages[1]


def test_ties_go_to_the_first_item():
    V = np.tile(np.eye(4), (3, 2, 1))
    found = ds.greedy_map_stacked(features=V, size=4)
    assert found.items.tolist() == [[0, 1, 2, 3]] * 3
    assert (found.value == 0.0).all()


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1.0, 1e8, 1e100])
def test_units_of_an_item_change_nothing(scale):
    rng, V, q = users(7, 5, 10, 4)
    q = q * scale ** rng.uniform(-1.0, 1.0, q.shape)
    found = ds.greedy_map_stacked(features=V, quality=q, size=4)
    for b in range(5):
        S = found.items[b]
        expected = np.linalg.slogdet(kernel(V[b, S], np.ones(4)))[1] + 2.0 * np.log(q[b, S]).sum()
        assert found.value[b] == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert (ds.greedy_map_stacked(features=V, quality=q, size=5).value == -np.inf).all()


def test_empty_stacks_and_users_without_items():
    for found in (
        ds.greedy_map_stacked(features=np.zeros((0, 5, 2)), size=3),
        ds.greedy_map_stacked(features=np.zeros((0, 2)), offsets=[0], size=3),
        ds.greedy_map_stacked(np.zeros((0, 4, 4)), size=3, lengths=[]),
    ):
        assert found.items.shape == (0, 3)
        assert len(found) == 0
        assert "0 users" in str(found)
    found = ds.greedy_map_stacked(features=np.ones((1, 2)), offsets=[0, 0, 1, 1], size=2)
    assert found.counts.tolist() == [0, 1, 0]
    assert found.messages[0] == "user 0: 0 of 2 items: there are no more"


def test_an_interrupt_returns_what_is_done(monkeypatch):
    _, V, _ = users(8, 9, 6, 3)
    monkeypatch.setattr(choices, "HELD", 3 * 6 * 3 * 8)
    made, run = [], choices.run_choices

    def interrupted(*arguments):
        made.append(arguments)
        if len(made) > 4:
            raise KeyboardInterrupt
        return run(*arguments)

    monkeypatch.setattr(choices, "run_choices", interrupted)
    found = ds.greedy_map_stacked(features=V, size=2, n_jobs=1)
    names = found.status_names().tolist()
    assert names == sorted(names)
    assert 0 < names.count("COMPLETED") < 9
    assert names[-1] == "INTERRUPTED"
    assert found.messages[8] == "user 8: interrupted from the keyboard"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({}, TypeError, "either L or features"),
        ({"L": np.zeros((1, 2, 2)), "features": np.zeros((1, 2, 2))}, TypeError, "either L or features"),
        ({"L": np.zeros((1, 2, 2)), "quality": np.ones((1, 2))}, TypeError, "quality goes with features"),
        ({"L": np.zeros((2, 3))}, ValueError, r"shape \(B, n, n\)"),
        ({"features": np.zeros((2, 3))}, ValueError, "with offsets"),
        ({"features": np.zeros((1, 2, 3)), "offsets": [0, 1]}, ValueError, r"shape \(N, d\)"),
        ({"features": np.zeros((3, 3)), "offsets": [0, 2]}, ValueError, "from 0 to the 3 candidates"),
        ({"features": np.zeros((3, 3)), "offsets": [0, 2, 1, 3]}, ValueError, r"offsets\[2\] = 1 is below"),
        ({"features": np.zeros((2, 3, 3)), "lengths": [1, 4]}, ValueError, r"lengths\[1\] = 4"),
        ({"features": np.zeros((2, 3, 3)), "lengths": [1]}, ValueError, "lengths has the shape"),
        ({"features": np.zeros((2, 3, 3)), "quality": np.ones(3)}, ValueError, "quality has the shape"),
        ({"features": np.zeros((2, 3, 3)), "groups": np.zeros((2, 3), int)}, TypeError, "go together"),
        ({"features": np.zeros((2, 3, 3)), "per_group": 1}, TypeError, "go together"),
        ({"features": np.zeros((2, 3, 3)), "size": 0}, ValueError, "size = 0"),
        ({"features": np.zeros((2, 3, 3)), "similarity": "dot"}, ValueError, "unknown similarity"),
        ({"features": np.zeros((2, 3, 3)), "gamma": 1.0}, ValueError, "gamma is that"),
        (
            {"features": np.ones((1, 2, 3)), "groups": [[0, 2]], "per_group": [1, 1]},
            ValueError, r"groups\[1\] = 2, but per_group has 2",
        ),
        ({"features": np.ones((1, 2, 3)), "groups": [[0, -1]], "per_group": 1}, ValueError, r"groups\[1\] = -1"),
    ],
)  # fmt: skip
def test_arguments_are_refused_by_name(arguments, error, words):
    with pytest.raises(error, match=words):
        ds.greedy_map_stacked(**({"size": 2} | arguments))


def test_more_items_than_the_kernel_of_one_user_takes(monkeypatch):
    _, V, q = users(9, 2, 40, 6)
    found = ds.greedy_map_stacked(features=V, quality=q, size=6)
    monkeypatch.setattr(few_items, "MOST_ITEMS", 10)
    single = ds.greedy_map(features=V[1], quality=q[1], size=6)
    np.testing.assert_array_equal(found.items[1], single.items)
    assert found.value[1] == pytest.approx(single.value, abs=1e-9)


def test_examples():
    assert doctest.testmod(choices).failed == 0


def test_other_processes_change_no_bit():
    _, V, q = users(4, 30, 12, 5)
    one = ds.greedy_map_stacked(features=V, quality=q, size=4, n_jobs=1)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        other = ds.greedy_map_stacked(features=V, quality=q, size=4, executor=executor)
    assert other.value.tobytes() == one.value.tobytes()
    np.testing.assert_array_equal(other.items, one.items)
