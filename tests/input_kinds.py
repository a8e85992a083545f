"""A thousand kinds of input, good and bad, each with the kinds of argument that it can be."""

import array
import datetime
import decimal
import fractions
import math
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse

import drsub_fast as ds

N = 2
H, h = -np.array([[1.0, 0.5], [0.5, 2.0]]), np.ones(N)
F = ds.Quadratic(H, h)
P = ds.Polytope([[1.0, 1.0]], [1.5], [1.0, 1.0])
BOX = ds.Box(np.ones(N))
SOFTMAX = ds.Softmax(np.array([[2.0, 0.5], [0.5, 2.0]]))
COVERAGE = ds.Multilinear.coverage([{0, 1}, {1}])
RESULT = ds.frank_wolfe(F, P, max_iter=2)
FOLDER = Path(tempfile.mkdtemp())
PROBLEM = FOLDER / "problem.npz"
ds.write_problem(PROBLEM, F, P)


def pair(x):
    """A Python objective."""
    return float(x.sum()), np.ones(N)


class Liar:
    """Says that it is an array, and is none."""

    shape, ndim, dtype = (2,), 1, np.dtype(float)

    def __len__(self):
        return 2


def _endless():
    items = []
    items.append(items)
    return items


def scalars():
    """(value, kinds that it is of)."""
    numbers = [
        0,
        1,
        2,
        3,
        0.0,
        0.5,
        1.0,
        1e-300,
        5e-324,
        1e300,
        1e308,
        fractions.Fraction(1, 3),
        np.float32(0.5),
        np.int64(2),
        np.uint8(1),
        np.longdouble(0.5),
        np.float16(1),
        np.array(1.0),
        np.array(2),
        np.int8(1),
        10,
        1e-9,
        1e9,
    ]
    for value in numbers:
        whole = not isinstance(value, np.ndarray) and isinstance(value, (int, np.integer))
        yield value, {"number", "count"} if whole else {"number"}
    for value in (-1, -0.5, -1e308, -5e-324, -10, np.int64(-1)):
        yield value, {"number", "negative"}
    nothing = [
        math.nan,
        math.inf,
        -math.inf,
        np.float64("nan"),
        np.float32("inf"),
        np.array(np.nan),
        -(10**400),
        fractions.Fraction(10**400),
        1j,
        np.complex128(1),
        np.complex64(2j),
        "",
        "abc",
        "1",
        "0.5",
        b"1",
        b"",
        np.str_("x"),
        np.bytes_(b"x"),
        Ellipsis,
        NotImplemented,
        object(),
        type,
        int,
        float,
        len,
        math,
        slice(1),
        {"a": 1},
        np.datetime64("2020-01-01"),
        np.timedelta64(1, "s"),
        np.datetime64("NaT"),
        datetime.date(2020, 1, 1),
        datetime.timedelta(1),
        np.ma.masked,
        ValueError("x"),
        ds.Quadratic,
        np.dtype(float),
        np.random.default_rng(0),
        Liar(),
        warnings,
        pair.__code__,
        Path,
        np.array("x"),
        np.array(None),
        np.array(1j),
        np.array(np.datetime64("2020")),
        open,
        print,
    ]
    for value in nothing:
        yield value, ({"function"} if callable(value) else set()) | ({"text"} if isinstance(value, str) else set())
    for value in (decimal.Decimal("0.5"), memoryview(b"ab"), bytearray(b"ab")):  # numpy makes numbers of them
        yield value, {"number?"}
    for value in (True, False, np.True_, np.False_):
        yield value, {"flag"}
    for value in (set(), {}, frozenset(), range(0)):
        yield value, {"empty", "iterator"}
    yield np.void(b"a"), {"empty", "iterator"}
    yield {1.0}, {"items"}
    yield None, {"none"}
    for value in (10**12, 2**63, 2**64, 10**30, 10**400, -(10**12), -(2**63)):
        yield value, {"seed"} if value == 10**400 else {"number", "seed"} if value > 0 else {"number", "negative"}
    for text in (
        "auto",
        "highs",
        "frank-wolfe",
        "exact",
        "raise",
        "smooth",
        "\0",
        "é",
        "a" * 10000,
        "../x",
        "nan",
        "True",
    ):
        yield text, {"text"}
    for value in (lambda: 1, lambda x: x, lambda *a, **k: None, max, _endless, iter([1]), (i for i in range(2))):
        yield value, {"function"} if callable(value) else {"iterator", "empty"}  # once it has been read
    for value in (F, SOFTMAX, COVERAGE, ds.CallableObjective(pair, N)):
        yield value, {"objective"}
    for value in (P, BOX, ds.Budget(1, [1, 1]), ds.Simplex(2), ds.Ball(1.0, 2)):
        yield value, {"set"}
    for value in (ds.Quadratic([[-1.0]], [1.0]), ds.Box([1.0]), ds.Box([1.0] * 5)):
        yield value, {"other size"}
    yield RESULT, {"result"}
    yield ds.read_problem(PROBLEM), {"problem"}


VECTORS = [
    [1, 2],
    [1.0, 1.0],
    (0.5, 0.25),
    [0, 1],
    [1, 0],
    [0, 0],
    [1e300, 1e300],
    [1e-300, 5e-324],
    [-1, 1],
    [-1.0, -2.0],
    [0.1, -0.0],
    [1e308, 1e308],
    [3],
    [1, 2, 3],
    [1.0] * 10,
]
BAD_ENTRIES = [
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    1j,
    "1",
    b"1",
    "",
    None,
    object(),
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"),
    np.ma.masked,
    len,
    {},
    set(),
    Ellipsis,
    datetime.date(2020, 1, 1),
    fractions.Fraction(10**400),
    np.datetime64("NaT"),
    np.float64("nan"),
    1e308 * 10,
    "nan",
]


def arrays():
    """(value, kinds): vectors, matrices and stacks, good and bad."""
    kinds_of = {1: "vector", 2: "matrix", 3: "stack", 0: "number"}
    good = [np.array(v, float) for v in VECTORS]
    good += [np.outer(v, v) for v in good] + [-np.outer(v, v) for v in good if np.isfinite(np.outer(v, v)).all()]
    good += [np.diag(v) for v in good if v.ndim == 1] + [
        np.eye(2),
        -np.eye(2),
        np.zeros((2, 2)),
        np.ones((1, 2)),
        np.ones((2, 1)),
    ]
    good += [
        np.zeros((2, 3)),
        np.ones((3, 2)),
        np.zeros((2, 2, 2)),
        np.ones((3, 2, 2)),
        np.zeros((1, 2, 1)),
        np.zeros((2,) * 5),
    ]
    good += [np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[1.0, 2.0], [0.0, 1.0]]), np.triu(np.ones((2, 2)), 1)]
    makers = (
        lambda a: a,
        lambda a: a.tolist(),
        lambda a: a.astype(np.float32),
        lambda a: a.astype(">f8"),
        np.asfortranarray,
        lambda a: np.ma.array(a),
        lambda a: np.lib.stride_tricks.as_strided(a, a.shape, a.strides),
        lambda a: a.astype(object),
        lambda a: a.astype(np.longdouble),
    )
    for base in good:
        for make in makers:
            with np.errstate(all="ignore"):
                made = make(base)
            finite = np.isfinite(np.asarray(made, float)).all()
            labels = {"labels"} if isinstance(made, list) and base.ndim == 2 else set()
            yield made, {kinds_of.get(base.ndim, "stack")} if finite else labels
    for base in ([0.0, 1.0], [[-1.0, 0.0], [0.0, -1.0]], [[1.0, 1.0]]):
        for entry in BAD_ENTRIES:
            bad = np.empty(np.shape(base), object)
            bad[...] = base
            bad[(0,) * bad.ndim] = entry
            yield bad, set()
            yield bad.tolist(), {"lists"} if bad.ndim == 2 else set()
        real = np.array(base)
        masked = np.ma.array(real, mask=np.zeros(real.shape, bool))
        masked.mask[(0,) * real.ndim] = True
        for bad in (
            masked,
            real.astype("M8[D]"),
            real.astype("m8[s]"),
            real.astype(complex),
            real.astype("S4"),
            np.zeros(real.shape, [("a", float)]),
            np.zeros(real.shape, "V8"),
            [masked, masked],
            real * math.nan,
            np.full(real.shape, None),
        ):
            yield bad, set()
        yield [real, [1.0]], {"labels"} if real.ndim == 1 else set()
        for texts in (real.astype(str), real.astype(str).astype(object)):
            yield texts, {"texts"} if real.ndim == 1 else set()
        for bad in (real[..., :0], real[:0]):
            yield bad, {"empty", "matrix"} if bad.ndim == 2 else {"empty"}
    for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
        sparse = scipy.sparse.eye(2).asformat(form)
        yield sparse, {"sparse"}
        yield -sparse, {"sparse"}
        yield sparse * math.nan, set()
        yield sparse * 1j, set()
        yield sparse * math.inf if form not in ("lil", "dok") else sparse * math.nan, set()
    yield scipy.sparse.csr_array((0, 2)), {"sparse"}
    yield scipy.sparse.csr_array((2, 3)), {"sparse"}
    yield scipy.sparse.csr_array((3, 1)), {"sparse"}
    yield scipy.sparse.eye(2, dtype=bool).tocsr(), {"sparse"}
    for value in (array.array("d", [1.0, 2.0]), range(2), range(1, 3), memoryview(np.ones(2)), np.array([True, False])):
        yield value, {"vector"}
    for value in (
        _endless(),
        [[1.0], [1.0, 2.0]],
        [[]],
        [],
        (),
        [[[]]],
        np.zeros(0),
        np.zeros((0, 0)),
        np.zeros((0, 2)),
        np.zeros((2, 0)),
    ):
        yield value, {"empty", "matrix"}


def items():
    """(value, kinds): collections of things."""
    for value in ((), []):
        yield value, {"items", "empty"}
    for value in ([0], [1, 0], {0}, range(2), np.array([0, 1]), {0: "a"}):
        yield value, {"items"}
    for value in ([-1], [2], [0.5], [10**30], [0, 2**63], [True, False]):
        yield value, {"vector but no items"}
    yield "01", {"text"}
    for value in ([[0]], [[0, 1]]):
        yield value, {"matrix"}
    for value in (["a"], [None], [0, None], {"a"}, [np.nan], b"01", [1j], [np.timedelta64(1)]):
        yield value, set()


def values():
    """All of them."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*scalars(), *arrays(), *items()]
