"""Generators: formulas of the families, seeds, and the authors' own stream."""

from itertools import islice

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.instances import (
    EXTRA_FAMILIES,
    FAMILIES,
    PAPER_REPEATS,
    PAPER_ROWS,
    PAPER_SEED,
    PAPER_SIZES,
    flid,
    nonnegative_constant,
    paper_instances,
    quadratic_exponential,
    quadratic_uniform,
    softmax_exponential,
    softmax_uniform,
)


@pytest.mark.parametrize("make", [quadratic_uniform, quadratic_exponential])
def test_quadratics_follow_the_formula(make):
    f, P = make(7, 5, seed=3, c=0.5)
    assert (f.n, P.n, P.m, f.c) == (7, 7, 5, 0.5)
    assert np.array_equal(f.H, f.H.T)
    assert f.H.max() <= 0.0
    assert np.allclose(f.h, -0.2 * f.H @ P.upper)
    assert np.array_equal(P.b, np.ones(5))
    assert np.array_equal(P.upper, (P.b[:, None] / P.A).min(axis=0))


@pytest.mark.parametrize("make", [softmax_uniform, softmax_exponential])
def test_softmax_kernels_have_the_spectrum(make):
    f, P = make(7, 5, seed=3)
    eigenvalues = np.linalg.eigvalsh(f.L)
    assert eigenvalues.min() >= -1e-12
    assert eigenvalues.max() <= 1.5
    assert np.array_equal(P.b, np.full(5, 2.0))
    assert not f.unit_box
    assert make(7, 5, seed=3, unit_box=True)[0].unit_box


def test_distributions_have_the_means():
    f, P = quadratic_uniform(60, 60, seed=0)
    assert -f.H.mean() == pytest.approx(0.5, abs=0.03)
    assert P.A.mean() == pytest.approx(0.51, abs=0.03)
    assert P.A.min() >= 0.01
    f, P = quadratic_exponential(60, 60, seed=0)
    assert -f.H.mean() == pytest.approx(1.0, abs=0.1)
    assert P.A.mean() == pytest.approx(4.01, abs=0.3)
    assert softmax_exponential(60, 60, seed=0)[1].A.mean() == pytest.approx(1.01, abs=0.1)


def test_flid_follows_the_formula():
    f, P = flid(7, 5, seed=3)
    assert (f.n, P.n, P.m, f.unit_box) == (7, 7, 5, True)
    assert np.array_equal(P.b, np.full(5, 2.0))
    W, utilities = f.W.toarray(), f.utilities
    for S in ([2], [0, 3], [1, 4, 6], list(range(7))):
        expected = utilities[S].sum() + W[S].max(axis=0).sum() - W[S].sum()
        assert f.set_value(S) == pytest.approx(expected)
    assert min(f.set_value([i]) for i in range(7)) >= 0.0
    assert f.set_value(range(7)) < max(f.set_value([i]) for i in range(7))
    first, second = islice(paper_instances("flid", repeats=1, sizes=(8, 10)), 2)
    assert (first.f.n, second.f.n, first.family) == (8, 10, "flid")


@pytest.mark.parametrize("make", [*FAMILIES.values(), *EXTRA_FAMILIES.values()], ids=[*FAMILIES, *EXTRA_FAMILIES])
def test_seeds(make):
    first, again, other = (make(5, 3, seed)[1].A for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    stream = np.random.default_rng(1)
    assert np.array_equal(make(5, 3, stream)[1].A, first)
    assert not np.array_equal(make(5, 3, stream)[1].A, first)


def test_paper_instances_come_in_the_order_of_the_experiments():
    keys = [(i.rows, i.repeat, i.n, i.m) for i in paper_instances("quadratic-uniform")]
    assert len(keys) == len(set(keys)) == len(PAPER_ROWS) * PAPER_REPEATS * len(PAPER_SIZES)
    assert keys[:2] == [("m = floor(0.5n)", 1, 8, 4), ("m = floor(0.5n)", 1, 10, 5)]
    assert keys[-1] == ("m = floor(1.5n)", 20, 16, 24)


def test_a_selection_is_part_of_the_whole():
    whole = {(i.rows, i.repeat, i.n): i.P.A for i in paper_instances("softmax-uniform")}
    part = list(paper_instances("softmax-uniform", repeats=2, sizes=(10, 16)))
    assert len(part) == 3 * 2 * 2
    assert all(np.array_equal(i.P.A, whole[i.rows, i.repeat, i.n]) for i in part)


def test_unknown_family_and_no_repeats():
    with pytest.raises(ValueError, match="unknown family 'cubic'"):
        next(paper_instances("cubic"))
    with pytest.raises(ValueError, match="repeats"):
        next(paper_instances("softmax-uniform", repeats=0))


def test_nonnegative_constant():
    assert nonnegative_constant(0.0) == 0.0
    assert nonnegative_constant(-2.0) == pytest.approx(2.2)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_every_instance_of_the_authors_is_generated(number, shared_data):
    """The stored arrays: the rows and bounds to the last bit, H too; h and L up to the order of a sum."""
    family = list(FAMILIES)[number - 1]
    rows = list(PAPER_ROWS)
    with np.load(shared_data / "paper" / f"d{number}.npz") as stored:
        count = 0
        for i in paper_instances(family, repeats=10):
            key = f"d{number}_t{rows.index(i.rows) + 1}_n{i.n:02}_e{i.repeat:02}__"
            assert np.array_equal(i.P.A, stored[key + "A"])
            assert np.array_equal(i.P.b, stored[key + "b"])
            assert np.array_equal(i.P.upper, stored[key + "ub"])
            if isinstance(i.f, ds.Quadratic):
                assert np.array_equal(i.f.H, stored[key + "H"])
                assert np.allclose(i.f.h, stored[key + "h"], rtol=1e-14, atol=0.0)
            else:
                assert np.allclose(i.f.L, stored[key + "L"], rtol=0.0, atol=1e-13)
            count += 1
    assert count == 150


def test_the_large_instances_of_the_authors_are_generated(shared_data):
    with np.load(shared_data / "paper" / "n100.npz") as stored:
        f, P = quadratic_uniform(100, 100, np.random.RandomState(PAPER_SEED))
        assert np.array_equal(f.H, stored["d1_t2_n100_e01__H"])
        assert np.array_equal(P.A, stored["d1_t2_n100_e01__A"])
        f, P = softmax_uniform(100, 100, np.random.RandomState(PAPER_SEED))
        assert np.allclose(f.L, stored["d3_t2_n100_e01__L"], rtol=0.0, atol=5e-13)
        assert np.array_equal(P.A, stored["d3_t2_n100_e01__A"])


def test_first_numbers_of_the_stream():
    """MATLAB's rand at its default seed begins 0.8147, 0.9058, 0.1270, 0.9134."""
    (instance,) = islice(paper_instances("quadratic-uniform"), 1)
    assert np.round(-instance.f.H[:4, 0], 4).tolist() == [0.8147, 0.9058, 0.127, 0.9134]
