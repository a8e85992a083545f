"""Array operations that stand for kernels in plain Python do what their loops do."""

from copy import deepcopy

import numpy as np
import pytest

from drsub_fast.engine import vector
from drsub_fast.engine.interpreted import twin
from drsub_fast.lp import residuals, tableau
from drsub_fast.sets.polytope import blank_params
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


def some_tableau(random, n):
    """A linear program of n columns and n // 2 rows, and a workspace of numbers as they come, the basis any."""
    m = n // 2
    lp = blank_params(m, n, 0)
    for array in lp[:3]:
        array[:] = random.random(array.shape)
    n_floats, n_integers = tableau.simplex_size.interpreted(m, n)
    work = tableau.simplex_carve.interpreted(m, n, random.normal(size=n_floats), np.zeros(n_integers, np.int64))
    work.places[tableau.NONBASIC, :n], work.places[tableau.BASIC, :m] = np.split(random.permutation(n + m), [n])
    return lp, work


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
    "a row from four": lambda random, n: (
        tableau._subtract_from_four,
        [*rows(random, 4, n), 0.1, 0.2, -0.3, 4.0, *rows(random, 1, n)],
    ),
    "clear": lambda random, n: (tableau._clear, [random.normal(size=(2, n))]),
    "place of the greatest": lambda random, n: (
        tableau.place_of_greatest,
        [np.round(random.normal(size=(3, n + 1)), 1) - (n == 5), 1, n],
    ),
    "find_vertex": lambda random, n: (tableau.find_vertex, [*some_tableau(random, n)[1:], n // 2, n]),
    "exchange": lambda random, n: (tableau.exchange, [some_tableau(random, n + 2)[1], n // 2, n // 3]),
    "residuals": lambda random, n: (residuals._residuals, list(some_tableau(random, n))),
    "atom_dot": lambda random, n: (store.atom_dot, [some_atoms(random, n, n % 2), 1, random.normal(size=n)]),
    "add_atom_to": lambda random, n: (store.add_atom_to, [some_atoms(random, n, n % 2), 1, 0.7, random.normal(size=n)]),
}


#: Cases whose arguments have the lengths that they have to have.
AS_THEY_ARE = (
    "symmetric_product", "is_finite", "atom_dot", "add_atom_to", "four rows from four", "a row from four", "clear",
    "place of the greatest", "find_vertex", "exchange", "residuals",
)  # fmt: skip


def arrays_in(value):
    """The arrays of an argument."""
    parts = value if isinstance(value, tuple) else (value,)
    return [part for part in parts if isinstance(part, np.ndarray)]


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_the_loop(name):
    for n in (0, 1, 2, 5, 64, 101):
        if n < 2 and "atom" in name:
            continue
        kernel, given = CASES[name](np.random.default_rng(n), n)
        assert kernel._plain_func is not kernel.py_func
        # The loops go by the first vector (`symmetric_product`: by v); the others may be longer.
        if name not in AS_THEY_ARE:
            given[1:] = [np.append(a, 7.0) if np.ndim(a) == 1 else a for a in given[1:]]
        if name == "shrink":
            given[0] = np.append(given[0], 7.0)
            given[1] = given[1][:-1]
        mine, loops = deepcopy(given), deepcopy(given)
        answer, expected = kernel.interpreted(*mine), twin(kernel.py_func)(*loops)
        if expected is not None:
            assert answer == pytest.approx(expected, rel=1e-12, abs=1e-12)
        for a, b in zip(mine, loops, strict=True):
            for one, other in zip(arrays_in(a), arrays_in(b), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


def test_what_is_not_a_number_comes_through():
    x, upper = np.array([np.nan, 2.0]), np.array([1.0, 1.0])
    vector.clip_above.interpreted(x, upper)
    assert np.isnan(x[0])
    assert x[1] == 1.0
    assert np.isnan(vector.dot.interpreted(np.array([np.nan, 1.0]), np.ones(2)))
    scores = np.array([[1.0, np.nan, 3.0, 3.0], [np.nan, np.nan, np.nan, -1.0]])
    assert tableau.place_of_greatest.interpreted(scores, 0, 4) == 2
    assert tableau.place_of_greatest.interpreted(scores, 1, 4) == -1
    lp, work = some_tableau(np.random.default_rng(3), 4)
    work.table[tableau.LEVEL, 0] = np.inf
    assert np.isnan(residuals._residuals.interpreted(lp, work))
    out = np.zeros(2)
    vector.shrink.interpreted(np.ones(2), np.array([np.nan, 0.5]), out)
    assert out.tolist() == [0.0, 0.5]
