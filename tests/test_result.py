"""A result whose bound is computed when it is first read behaves like any other."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.result import with_bound


@pytest.fixture
def answer():
    f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    return ds.frank_wolfe(f, ds.Box([1.0, 1.0]))


def test_the_bound_is_computed_once(answer):
    calls = []

    def bound(known):
        calls.append(known)
        return known - 0.5

    r = with_bound(answer, bound)
    assert calls == []
    assert r.upper_bound == answer.upper_bound - 0.5
    assert r.upper_bound == answer.upper_bound - 0.5
    assert calls == [answer.upper_bound]


def test_a_bound_is_never_below_the_value(answer):
    assert with_bound(answer, lambda known: answer.value - 1e-16).upper_bound >= answer.value


@pytest.mark.parametrize("make", [lambda r: pickle.loads(pickle.dumps(r)), copy.copy, copy.deepcopy, replace])
def test_copies_hold_the_bound(answer, make):
    copied = make(with_bound(answer, lambda known: 0.75))
    assert vars(copied)["upper_bound"] == 0.75
    np.testing.assert_array_equal(copied.x, answer.x)


def test_reading_and_comparing(answer):
    r = with_bound(answer, lambda known: 0.75)
    assert r == r
    assert "upper_bound=0.75" in repr(r)
    assert with_bound(answer, lambda known: 0.75).ratio == pytest.approx(answer.value / 0.75)
    with pytest.raises(FrozenInstanceError):
        r.upper_bound = 1.0
    with pytest.raises(AttributeError, match="no attribute 'lower'"):
        getattr(r, "lower")  # noqa: B009
