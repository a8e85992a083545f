"""A result whose bound is computed when it is first read behaves like any other."""

import copy
import pickle
import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.result import Certificate


@pytest.fixture
def answer():
    f = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
    return ds.frank_wolfe(f, ds.Box([1.0, 1.0]))


def put_off(r, bound):
    """The same result with a bound that is computed when it is first read."""
    return replace(r, certificate=Certificate(r.certificate.given, bound, r.certificate.problem))


def test_the_bound_is_computed_once(answer):
    calls = []

    def bound():
        calls.append(None)
        return 0.75

    r = put_off(answer, bound)
    assert calls == []
    assert r.upper_bound == 0.75
    assert r.upper_bound == 0.75
    assert len(calls) == 1


def test_a_bound_that_is_read_is_never_above_the_known_one(answer):
    assert put_off(answer, lambda: answer.upper_bound + 1.0).upper_bound == answer.upper_bound


@pytest.mark.parametrize("error", [TypeError, ArithmeticError, np.linalg.LinAlgError, MemoryError])
def test_reading_a_bound_never_raises(answer, caplog, error):
    def bound():
        raise error("broken")

    r = put_off(answer, bound)
    assert r.upper_bound == answer.upper_bound
    assert "broken" in caplog.text
    assert r.upper_bound == answer.upper_bound
    assert len(caplog.records) == 1


@pytest.mark.parametrize("act", [
    repr, str, copy.copy, copy.deepcopy, replace, lambda r: pickle.loads(pickle.dumps(r)),
    lambda r: r == replace(r, note="mine"), lambda r: r._repr_html_(), lambda r: r.message,
])  # fmt: skip
def test_reading_a_result_computes_nothing(answer, act):
    def bound():
        raise AssertionError("computed")

    act(put_off(answer, bound))


@pytest.mark.parametrize("make", [lambda r: pickle.loads(pickle.dumps(r)), copy.copy, copy.deepcopy, replace])
def test_copies_hold_the_bound(answer, make):
    r = put_off(answer, lambda: 0.75)
    assert make(r) == r
    assert r.upper_bound == 0.75
    copied = make(r)
    assert copied == r
    assert copied.upper_bound == 0.75
    np.testing.assert_array_equal(copied.x, answer.x)


def test_copies_can_be_proved_and_pickles_say_how(answer):
    r = ds.maximize(ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0]), ds.Box([1.0, 1.0]))
    assert copy.deepcopy(r).prove().status is ds.Status.OPTIMAL
    with pytest.raises(ValueError, match="does not hold its problem"):
        pickle.loads(pickle.dumps(r)).prove()


def test_proving_goes_on_from_what_is_known():
    f, P = ds.instances.quadratic_uniform(10, 5, seed=1)
    r = ds.frank_wolfe(f, P, max_iter=1)
    before = repr(r)
    q = r.prove()
    assert q.status is ds.Status.OPTIMAL
    assert r.best_value <= q.value <= q.upper_bound <= q.value * (1.0 + 1e-6)
    assert q.upper_bound <= r.upper_bound
    assert q.value == pytest.approx(f.value(q.x), rel=1e-12)
    assert q.value == pytest.approx(ds.global_maximum(f, P).value, rel=1e-6)
    assert repr(r) == before
    short = ds.maximize(f, P).prove(time_limit=0.0)
    assert short.value <= short.upper_bound < np.inf


def test_proving_an_f_that_is_not_what_was_declared_proves_nothing():
    convex = ds.CallableObjective(
        lambda x: (x.sum() ** 2, np.full(2, 2.0 * x.sum())), 2, dr_submodular=True, nonnegative=True
    )
    r = ds.maximize(convex, ds.Box([1.0, 1.0]))
    assert r.value == 4.0
    assert r.guarantee.ratio is None
    q = r.prove(time_limit=0.2)
    assert q.upper_bound == np.inf
    assert q.status is not ds.Status.OPTIMAL


@pytest.mark.parametrize("options", [{"gap": -1.0}, {"gap": np.nan}, {"time_limit": -1.0}])
def test_limits_of_a_proof_are_checked(answer, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        answer.prove(**options)


def test_tight_bounds_take_what_the_limit_left(monkeypatch):
    seen = []
    monkeypatch.setattr("drsub_fast.methods.upper_bound", lambda *_, **limits: seen.append(limits) or np.inf)
    f, P = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0]), ds.Box([1.0, 1.0])
    for options in ({}, {"time_limit": 100.0}):
        assert ds.maximize(f, P, bound="tight", **options).upper_bound < np.inf
    assert seen[0]["time_limit"] == 10.0
    assert 0.0 < seen[1]["time_limit"] < 100.0


def test_the_answer_and_the_best_point_are_two_arrays():
    f, P = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0]), ds.Box([1.0, 1.0])
    for method in ("auto", *ds.METHODS):
        r = ds.maximize(f, P, method=method)
        for one in (r, *r.phases):
            assert not np.shares_memory(one.x, one.best_x), method


def test_reading_and_comparing(answer):
    r = put_off(answer, lambda: 0.75)
    assert r == r
    assert "certificate=Certificate(2)" in repr(r)
    assert r.ratio == pytest.approx(answer.value / 0.75)
    assert "certificate=Certificate(0.75)" in repr(r)
    with pytest.raises(FrozenInstanceError):
        r.value = 1.0
    with pytest.raises(AttributeError, match="no attribute 'lower'"):
        getattr(r, "lower")  # noqa: B009


def test_results_are_compared_by_their_entries(answer):
    assert answer == replace(answer)
    assert answer == replace(answer, x=answer.x.copy())
    assert answer != replace(answer, x=answer.x + 1e-9)
    assert answer != answer.value
    assert replace(answer, fw_gap=float("nan")) == replace(answer, fw_gap=float("nan"))
    assert answer.trace == replace(answer.trace, value=answer.trace.value.copy())
    assert answer.trace != replace(answer.trace, value=answer.trace.value[:-1])


@pytest.mark.parametrize("make", [
    lambda: ds.map_dpp(np.eye(3) * 2.0, size=2),
    lambda: ds.greedy(ds.Multilinear.cut(1.0 - np.eye(3)), size=1),
    lambda: ds.maximize_stacked(h=np.ones((2, 3)), H=np.zeros((3, 3)), upper=np.ones(3), max_iter=3),
    lambda: ds.Quadratic(-np.eye(2), np.ones(2)).check_dr(),
])  # fmt: skip
def test_every_record_is_equal_to_its_copy_and_has_a_text(make):
    record = make()
    assert record == copy.deepcopy(record)
    assert str(record)


def test_print_shows_a_short_table(answer):
    r = put_off(replace(answer, certificate=Certificate(np.inf, None, answer.certificate.problem)), lambda: 0.75)
    assert "proven bound     not computed: r.upper_bound computes one" in str(r)
    assert r.upper_bound == 0.75
    text = str(r)
    assert text.startswith("frank-wolfe: ")
    assert f"value            {answer.value:.6g}" in text
    assert "proven bound     0.75: the value is" in text
    assert max(map(len, text.splitlines())) <= 100
    assert len(text.splitlines()) == 8


def test_print_of_many_variables_is_short():
    f = ds.Quadratic(np.zeros((500, 500)), np.r_[3.0, np.ones(1), np.zeros(498)])
    text = str(ds.frank_wolfe(f, ds.Budget(3.0, np.ones(500)), max_iter=2))
    assert "500 entries, " in text
    assert len(text) < 1500


def test_notebooks_show_the_same_table_escaped(answer):
    html = replace(answer, note="x < y & z")._repr_html_()
    assert "x &lt; y &amp; z" in html
    assert f"<td style='text-align:left'>{answer.value:.6g}</td>" in html


def test_plot_draws_value_bound_and_gap(answer, tmp_path):
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    left, right = answer.plot()
    np.testing.assert_array_equal(left.lines[0].get_ydata(), answer.trace.value)
    assert {line.get_label() for line in left.lines} == {"value of the iterate", "value returned", "proven bound"}
    assert right.get_yscale() == "log"
    left.figure.savefig(tmp_path / "run.png")
    assert answer.plot((left, right)) == (left, right)
    pyplot.close("all")


def test_plot_without_matplotlib_says_what_to_install(answer, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'drsub_fast\[plot\]', or pip install '\.\[plot\]'"):
        answer.plot()


@pytest.mark.parametrize(("f", "text"), [
    (ds.Multilinear.coverage([{0}, {0, 1}]), "Multilinear.coverage(n=2)"),
    (ds.Multilinear.facility_location(np.ones((3, 2))), "Multilinear.facility_location(n=3)"),
    (ds.Multilinear.flid([1.0, 2.0], np.ones((2, 1))), "Multilinear.flid(n=2)"),
    (ds.Multilinear.cut(1.0 - np.eye(4)), "Multilinear.cut(n=4)"),
    (ds.Multilinear.from_function(len, 2), "Multilinear.from_table(n=2)"),
    (ds.Multilinear.sampled(len, 2), "Multilinear.sampled(n=2)"),
    (ds.MeanField(ds.Multilinear.coverage([{0}])), "MeanField(Multilinear.coverage(n=1))"),
])  # fmt: skip
def test_an_objective_is_called_as_it_was_made(f, text):
    assert repr(f) == text
    assert f(np.full(f.n, 0.5)) == f.value(np.full(f.n, 0.5))
