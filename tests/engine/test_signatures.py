"""Types of arguments, found without Numba as Numba finds them."""

from collections import namedtuple

import numba
import numpy as np
import pytest

from drsub_fast.engine.linked import _type_key
from drsub_fast.engine.signatures import key_of, key_text, type_code, type_key

Pair = namedtuple("Pair", "a b")


def _read_only(array):
    array.flags.writeable = False
    return array


VALUES = [
    1.5, np.float64(1.5), 3, np.int64(3), True, np.bool_(True), np.int32(1), np.zeros(3), np.zeros((2, 3)),
    np.asfortranarray(np.zeros((2, 3))), np.zeros((4, 4))[::2, ::2], np.zeros((2, 6))[:, ::2], np.zeros(3, np.int64),
    np.zeros(0), np.zeros((0, 3)), np.zeros((1, 4)), np.zeros(3, np.float32), np.zeros(3, bool),
    _read_only(np.zeros(3)), Pair(np.zeros(2), 1), Pair(Pair(np.zeros(2), np.zeros(2)), 1.0), (1, 2.0),
    (np.zeros(1),) * 2,
    (), Pair(np.zeros((2, 2)), np.zeros((2, 2))),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}")
def test_keys_agree_with_numba(value):
    key = type_key(value)
    assert _type_key(numba.typeof(value)) == key
    assert key_of(type_code(value)) == key


def test_keys_are_equal_where_types_are():
    for first in VALUES:
        for second in VALUES:
            assert (type_key(first) == type_key(second)) == (numba.typeof(first) == numba.typeof(second))


def test_texts_tell_keys_apart():
    keys = {type_key(value) for value in VALUES}
    assert len({key_text(key) for key in keys}) == len(keys)


def test_other_kinds_have_no_text():
    key = type_key((np.zeros(1), "text"))
    assert key_text(key) is None
