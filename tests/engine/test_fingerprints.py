"""Users' functions that do the same share their compiled code."""

import numba
import numpy as np
import pytest

from drsub_fast.engine.fingerprints import fingerprint

SCALE = 2.0


@numba.njit
def inner(x):
    return SCALE * np.log(1.0 + x.sum())


@numba.njit
def outer(x, grad):
    grad[:] = 1.0
    return inner(x)


def make(factor, **options):
    @numba.njit(**options)
    def function(x, grad):
        return factor * x.sum()

    return function


def test_equal_closures_have_one_fingerprint():
    assert fingerprint(make(2.0)) == fingerprint(make(2.0)) is not None
    assert len({fingerprint(make(value)) for value in (2.0, 3.0, 2, np.float64(2.0))}) == 4
    assert fingerprint(make(2.0)) != fingerprint(make(2.0, fastmath=True))
    assert fingerprint(make(np.ones(3))) == fingerprint(make(np.ones(3))) != fingerprint(make(np.zeros(3)))


def test_functions_and_numbers_that_are_named_count(monkeypatch):
    before = fingerprint(outer)
    assert before == fingerprint(outer)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fingerprint(outer) != before


@pytest.mark.parametrize("value", [object(), pytest, [object()]])
def test_what_another_process_may_not_have_has_none(value):
    assert fingerprint(make(value)) is None
