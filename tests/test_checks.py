"""What may be an array, a number, a count: everything else is refused with the name of the argument."""

import decimal
import fractions

import numpy as np
import pytest
import scipy.sparse

import drsub_fast as ds
from drsub_fast._checks import as_array, as_count, as_flag, as_function, as_items, as_real, as_seed, one_of
from drsub_fast.objectives.base import register_objective
from drsub_fast.sets.base import register_set

MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (MASKED, TypeError, r"h has masked entries: fill them, e.g. by h\.filled\(0\.0\)"),
        ([MASKED, MASKED], TypeError, "h has masked entries"),
        ([1.0, np.ma.masked], TypeError, "h has masked entries"),
        (np.array(["2001-01-01"] * 2, "datetime64[D]"), TypeError, "it is dates"),
        (np.array([1, 2], "timedelta64[s]"), TypeError, "it is durations"),
        ([np.timedelta64(1, "s"), 1.0], TypeError, r"h\[0\] is a timedelta64|it is durations"),
        (np.zeros(2, [("a", float)]), TypeError, "of type"),
        (np.array([1.0, 2.0 + 1.0j]), TypeError, "complex"),
        (np.array([1.0, 2.0j], dtype=object), TypeError, r"h\[1\] is a complex"),
        (["1.0", "2.0"], TypeError, "it is text"),
        (np.array(["1.0", 2.0], dtype=object), TypeError, r"h\[0\] is a str"),
        ([b"1", b"2"], TypeError, "it is text"),
        ([1.0, None], TypeError, r"h\[1\] is a NoneType"),
        ([[1.0], [2.0, 3.0]], TypeError, "h cannot be read"),
        ({1.0, 2.0}, TypeError, "is a set"),
        (None, TypeError, "is a NoneType"),
        (scipy.sparse.eye(2), TypeError, r"sparse matrix; pass a dense array, e\.g\. h\.toarray"),
        ([10**400, 1], ValueError, "beyond the range of floats"),
        ([fractions.Fraction(10**400), 1], ValueError, "beyond the range of floats"),
        (np.array([np.finfo(np.longdouble).max, 1.0]), ValueError, r"h\[0\] = inf is not finite"),
        ([1.0, np.nan], ValueError, r"h\[1\] = nan"),
        (np.ones((1, 2)), ValueError, r"must be a vector \(1 axes\), got shape \(1, 2\)"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(data, error, words):
    with pytest.raises(error, match=words):
        as_array(data, "h", 1)


def test_a_list_that_holds_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises((TypeError, ValueError), match="h "):
        as_array(endless, "h", 1)


@pytest.mark.parametrize(
    "data",
    [
        [1, 2],
        (1.0, 2),
        np.array([1, 2], np.uint8),
        np.ma.array([1.0, 2.0], mask=False),
        np.array([1, 2], dtype=">f4"),
        [fractions.Fraction(1), decimal.Decimal(2)],
        np.array([1.0, 2.0])[::-1][::-1],
        range(1, 3),
    ],
)
def test_what_numbers_are_made_of_does_not_matter(data):
    array = as_array(data, "h", 1)
    assert array.dtype == np.float64
    assert array.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "value",
    ["1", None, True, 1j, np.datetime64(1, "s"), [1.0], np.ones(1), np.timedelta64(1, "s"), np.ma.masked, MASKED],
)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match="tol must be a number, got"):
        as_real(value, "tol")


def test_numbers_have_a_range():
    for value in (10**400, fractions.Fraction(10**400)):
        with pytest.raises(ValueError, match="tol is beyond the range of floats"):
            as_real(value, "tol")
    with pytest.raises(ValueError, match="tol = nan is not finite"):
        as_real(np.nan, "tol", lower=0.0)
    with pytest.raises(ValueError, match="n_jobs is above"):
        as_count(10**12, "n_jobs")
    with pytest.raises(ValueError, match="n_jobs = -1 must be at least 0"):
        as_count(-1, "n_jobs")
    with pytest.raises(TypeError, match="n_jobs must be an integer, got float"):
        as_count(2.0, "n_jobs")
    assert as_seed(10**40) == 10**40
    assert as_real(np.array(2), "tol") == 2.0


def test_flags_functions_and_names_are_what_they_say():
    with pytest.raises(TypeError, match="stack must be True or False, got int"):
        as_flag(1, "stack")
    assert as_flag(np.True_, "stack") is True
    with pytest.raises(TypeError, match="callback must be a function or None, got int"):
        as_function(3, "callback")
    with pytest.raises(TypeError, match="function must be a function, got NoneType"):
        as_function(None, "function", optional=False)
    with pytest.raises(TypeError, match="method must be a text, one of 'a', 'b'; got list"):
        one_of([1], "method", ("a", "b"))


def test_items_are_integers_of_the_ground_set():
    assert as_items({2, 0}, 3).tolist() == [0, 2]
    assert as_items(iter(()), 3).size == 0
    for items, error in (([-1], ValueError), ([3], ValueError), ([0.5], ValueError), ([True], TypeError),
                         ("01", TypeError), (3, TypeError), ([[0]], ValueError), ([None], TypeError)):  # fmt: skip
        with pytest.raises(error, match="items"):
            as_items(items, 3)


def test_the_parts_of_a_problem_are_told_apart():
    f, P = ds.Quadratic(-np.eye(2), np.ones(2)), ds.Box(np.ones(2))
    for arguments, words in (((P, f), "exchanged"), ((None, P), "f must be an objective, got NoneType"),
                             ((f, None), "P must be a feasible set"), ((len, P), "CallableObjective around it"),
                             ((ds.Quadratic, P), "got type")):  # fmt: skip
        for solve in (ds.maximize, ds.frank_wolfe, ds.two_phase_frank_wolfe, ds.multi_start):
            with pytest.raises(TypeError, match=words):
                solve(*arguments)
    with pytest.raises(TypeError, match="callback must be a function or None, got int"):
        ds.frank_wolfe(f, P, callback=3)


def test_a_misspelt_operation_is_named():
    for register in (register_objective, register_set):
        with pytest.raises(ValueError, match="unknown operation 'evalute'; choose from"):
            register(object, evalute=len)


def test_coverage_reads_matrices_of_any_maker_and_no_words():
    class Frame:
        """What a data frame shows of itself: a shape, an array, an iterator over its headers."""

        shape = (2, 2)

        def __array__(self, dtype=None, copy=None):
            return np.array([[1.0, 0.0], [1.0, 1.0]])

        def __iter__(self):
            return iter(["ab", "cd"])

    assert ds.Multilinear.coverage(Frame()).set_value([0, 1]) == 2.0
    with pytest.raises(ValueError, match=r"sets\[0, 1\] = nan is not finite"):
        ds.Multilinear.coverage(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match=r"sets\[0, 0\] = nan"):
        ds.Multilinear.coverage(scipy.sparse.csr_array([[np.nan, 0.0]]))
    for words in ("ab", ["ab", "cd"], {"a": [1]}, [1, 2]):
        with pytest.raises(TypeError, match="sets"):
            ds.Multilinear.coverage(words)


def test_the_nearest_matrix_of_huge_entries_has_finite_entries():
    huge = np.array([[1e308, 1e307], [1e307, 1e308]])
    assert ds.nearest_psd(huge) == pytest.approx(huge, rel=1e-12)
    with pytest.raises(ValueError, match="not finite"):
        ds.nearest_psd(np.array([[0.0, 1.7e308], [1.7e308, 1.7e308]]))
