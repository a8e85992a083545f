"""Array operations that stand for kernels in plain Python do what their loops do."""

import numpy as np
import pytest

from drsub_fast.engine import vector
from drsub_fast.engine.twins import twin
from drsub_fast.lp import tableau
from drsub_fast.solvers import atoms as store
from drsub_fast.solvers.atoms import Atoms


def rows(random, count, n):
    return list(random.normal(size=(count, n)))


def some_atoms(random, n, sparse):
    """Two atoms of n entries, of which the second keeps every other one only."""
    empty = np.zeros(0)
    given = dict.fromkeys(Atoms._fields, empty)
    if sparse:
        places = np.concatenate([np.arange(n), np.arange(0, n, 2)]).astype(np.float64)
        length = np.array([n, len(places) - n])
    else:
        places, length = empty, np.array([n, n])
    values = random.normal(size=2 * n)
    return Atoms(**given | {"values": values, "places": places, "begin": np.array([0, n]), "length": length})


CASES = {
    "dot": lambda random, n: (vector.dot, rows(random, 2, n)),
    "slope": lambda random, n: (vector.slope, rows(random, 3, n)),
    "add_scaled": lambda random, n: (vector.add_scaled, [*rows(random, 1, n), 0.3, *rows(random, 1, n)]),
    "blend": lambda random, n: (vector.blend, [*rows(random, 1, n), 0.3, *rows(random, 1, n)]),
    "assign": lambda random, n: (vector.assign, rows(random, 2, n)),
    "clip_above": lambda random, n: (vector.clip_above, rows(random, 2, n)),
    "symmetric_product": lambda random, n: (
        vector.symmetric_product,
        [random.normal(size=(n, n)), random.normal(size=n) * (random.random(n) < 0.5), np.zeros(n)],
    ),
    "shrink": lambda random, n: (vector.shrink, rows(random, 3, n)),
    "is_finite": lambda random, n: (vector.is_finite, [random.choice([1.0, np.nan, np.inf, -np.inf], n)]),
    "four rows from four": lambda random, n: (
        tableau._subtract_four_from_four,
        [*rows(random, 8, n), random.normal(size=(6, 7)), 1, 2],
    ),
    "four rows": lambda random, n: (tableau._add_four, [*rows(random, 1, n), 0.1, 0.2, -0.3, 4.0, *rows(random, 4, n)]),
    "atom_dot": lambda random, n: (store.atom_dot, [some_atoms(random, n, n % 2), 1, random.normal(size=n)]),
    "add_atom_to": lambda random, n: (store.add_atom_to, [some_atoms(random, n, n % 2), 1, 0.7, random.normal(size=n)]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_the_loop(name):
    for n in (0, 1, 2, 5, 64, 101):
        if n < 2 and "atom" in name:
            continue
        kernel, given = CASES[name](np.random.default_rng(n), n)
        assert kernel._plain_func is not kernel.py_func
        # The loops go by the first vector (`symmetric_product`: by v); the others may be longer.
        if name not in ("symmetric_product", "is_finite", "atom_dot", "add_atom_to", "four rows from four"):
            given[1:] = [np.append(a, 7.0) if np.ndim(a) == 1 else a for a in given[1:]]
        if name == "shrink":
            given[0] = np.append(given[0], 7.0)
            given[1] = given[1][:-1]
        mine, loops = ([np.copy(a) if isinstance(a, np.ndarray) else a for a in given] for _ in range(2))
        answer, expected = kernel.interpreted(*mine), twin(kernel.py_func, False)(*loops)
        if expected is not None:
            assert answer == pytest.approx(expected, rel=1e-12, abs=1e-12)
        for a, b in zip(mine, loops, strict=True):
            if isinstance(a, np.ndarray):
                np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-14)


def test_what_is_not_a_number_comes_through():
    x, upper = np.array([np.nan, 2.0]), np.array([1.0, 1.0])
    vector.clip_above.interpreted(x, upper)
    assert np.isnan(x[0])
    assert x[1] == 1.0
    assert np.isnan(vector.dot.interpreted(np.array([np.nan, 1.0]), np.ones(2)))
    out = np.zeros(2)
    vector.shrink.interpreted(np.ones(2), np.array([np.nan, 0.5]), out)
    assert out.tolist() == [0.0, 0.5]
