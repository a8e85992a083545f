"""Users' functions that do the same share their compiled code."""

import collections
import functools
import os
import subprocess
import sys
import types

import numba
import numpy as np
import pytest

from drsub_fast.engine.fingerprints import UnknownContentError, fingerprint
from drsub_fast.objectives.user import OBJECTIVE_PARAMS, compiled_params

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


@pytest.mark.parametrize("value", [object(), [object()], (i for i in range(2)), {1: {2: object()}}])
def test_what_another_process_may_not_have_has_none(value):
    with pytest.raises(UnknownContentError):
        fingerprint(lambda: value)
    assert compiled_params(make(value), *OBJECTIVE_PARAMS).stamp is None


def closure(value):
    def function(x):
        return value, x

    return function


def default(value):
    def function(x, extra=value):
        return x

    return function


def keyword(value):
    def function(x, *, extra=value):
        return x

    return function


def nested(value):
    def function(x):
        return [closure(value)(y) for y in x]

    return function


def attribute(value):
    def function(x):
        return x

    function.scale = value
    return function


class Scaled:
    def __init__(self, value):
        self.value = value

    def __call__(self, x):
        return self.value * x

    method = __call__


def class_of(value):
    class Local:
        scale = value

        def method(self):
            return self.scale

    return Local


def module_of(value):
    module = types.ModuleType("a_users_module")
    module.inside = types.ModuleType("a_users_module.inside")
    module.inside.scale, module.unused = value, object()
    return lambda x: module.inside.scale * x


def two_of_one_text(value):
    first, second = closure(0.0), closure(value)
    return lambda x: first(x) + second(x)


@functools.lru_cache
def cached(value):
    return functools.lru_cache(closure(value))


MAKERS = (
    closure,
    default,
    keyword,
    nested,
    attribute,
    Scaled,
    class_of,
    module_of,
    two_of_one_text,
    cached,
    lambda value: Scaled(value).method,
    lambda value: functools.partial(pow, value),
    lambda value: [{"a": (value,)}],
    lambda value: lambda x: (lambda y: y * value)(x),
    lambda value: class_of(value)(),
    lambda value: [1, 2, value].index,
    lambda value: collections.deque([value]),
    lambda value: collections.namedtuple("Pair", "a b")(1, value),
    lambda value: np.array([1, value], dtype=object),
    lambda value: {3.5, value},
    lambda value: np.vectorize(closure(value)),
    lambda value: np.full((3, 2), value)[:, ::-1],
    np.float32,
    lambda value: range(int(value)),
)


@pytest.mark.parametrize("maker", MAKERS)
def test_whatever_a_function_or_object_holds_counts(maker):
    assert fingerprint(maker(2.0)) == fingerprint(maker(2.0))
    assert fingerprint(maker(2.0)) != fingerprint(maker(3.0))


def test_state_and_order_do_not_count():
    """Of sets and dicts the order; of a function what it counts itself; of an object what it shares with others."""
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    count = 0

    def counting(x):
        nonlocal count
        count += 1

    before = fingerprint(counting)
    counting(0)
    assert fingerprint(counting) == before
    own = [1.0]
    assert fingerprint([own, own]) == fingerprint([[1.0], [1.0]])
    shared = Scaled(2.0)
    assert fingerprint([shared, shared]) == fingerprint([Scaled(2.0), Scaled(2.0)])
    circle = Scaled(1.0)
    circle.value = circle
    assert fingerprint(circle) == fingerprint(circle)


def test_digests_are_those_of_other_processes():
    text = (
        "import numpy as np, scipy.special, math, drsub_fast as ds\n"
        "from drsub_fast.engine.fingerprints import fingerprint\n"
        "def f(x, *, a={'u', 'v', 'w'}): return np.log(x) + math.exp(x) + scipy.special.expit(x) + np.sum(x), a\n"
        "class A:\n    def __call__(self, x): return f(x)\n"
        "print(fingerprint(f, A(), A, ds.Quadratic(-np.eye(2), np.ones(2)), ds.CallableObjective(A(), 2),"
        "frozenset('abc')))"
    )  # fmt: skip
    digests = {
        subprocess.run([sys.executable, "-c", text], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True,
                       text=True, check=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(digests) == 1
