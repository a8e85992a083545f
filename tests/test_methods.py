"""One record a method: who adds one finds it wherever methods are run or shown."""

import sys
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy.optimize import minimize

import drsub_fast as ds
from drsub_fast import methods
from drsub_fast.cli.command import main
from drsub_fast.solvers.greedy_vertex import greedy_vertex
from drsub_fast.solvers.record import METHODS, Method, MethodName, Options, register_method

F = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0])
P = ds.Box([1.0, 1.0])


def one_exact_step(f, P, *, x0=None, max_iter=1, tol=None, lmo="auto", **options):
    """A method of somebody else."""
    return ds.frank_wolfe(f, P, x0=x0, step_size="exact", max_iter=max_iter, tol=tol, lmo=lmo, **options)


@pytest.fixture
def added(monkeypatch):
    """The name of a method that one record has added."""
    monkeypatch.setitem(METHODS, "one-exact-step", None)  # is taken away afterwards
    register_method(Method("one-exact-step", one_exact_step, "One exact step", is_local=True))
    return "one-exact-step"


def test_a_new_method_is_run_by_all_who_run_methods(added):
    expected = one_exact_step(F, P).value
    assert ds.maximize(F, P, method=added).value == expected
    assert ds.maximize_many([(F, P)], added, n_jobs=1)[0].value == expected
    stacked = ds.maximize_stacked(H=F.H[None], h=F.h, upper=P.upper, method=added, n_jobs=1)
    assert stacked.value[0] == pytest.approx(expected, rel=1e-12)
    assert stacked.method == added
    r = minimize(lambda x: -F.value(x), np.zeros(2), jac=lambda x: -F.gradient(x), bounds=[(0, 1)] * 2,
                 method=ds.scipy_method(added))  # fmt: skip
    assert -r.fun == pytest.approx(expected, rel=1e-12)
    two = ds.two_phase_frank_wolfe(F, P, subroutine=added, max_iter=1)
    assert two.phases[0].value == expected
    assert ds.maximize(F, P, method="two-phase-frank-wolfe", subroutine=added, max_iter=1).value == two.value
    with pytest.raises(TypeError, match=r"takes no option 'step'; its options are .*max_iter"):
        ds.maximize(F, P, method=added, step=1.0)


def test_options_of_a_new_method_reach_the_command(tmp_path, capsys, monkeypatch):
    def stretched(f, P, *, max_iter=10, stretch=1.0, mode="plain", twice=False):
        r = ds.frank_wolfe(f, P, max_iter=max_iter)
        return replace(r, note=f"{stretch!r} {mode!r} {twice!r}")

    monkeypatch.setitem(METHODS, "stretched", None)
    register_method(Method("stretched", stretched, "Stretched"))
    ds.write_problem(tmp_path / "p.npz", F, P)
    argv = [
        "solve",
        str(tmp_path / "p.npz"),
        "--method",
        "stretched",
        "--stretch",
        "2.5",
        "--mode",
        "odd",
        "--twice",
        "true",
    ]
    assert main(argv) == 0
    assert "2.5 'odd' True" in capsys.readouterr().out
    assert main(["solve", str(tmp_path / "p.npz"), "--method", "frank-wolfe", "--step-size", "exact"]) == 0
    assert main(["solve", str(tmp_path / "p.npz"), "--method", "frank-wolfe", "--stretch", "2"]) == 2
    assert "has no option --stretch; it has --max-iter" in capsys.readouterr().err


def test_a_new_method_is_an_option_of_the_command_and_a_curve_of_the_figures(added, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    ds.write_problem(tmp_path / "p.npz", F, P)
    assert main(["solve", str(tmp_path / "p.npz"), "--method", added, "--max-iter", "1"]) == 0
    assert f"{one_exact_step(F, P).value:.12g}" in capsys.readouterr().out
    argv = ["paper", "--families", "1", "--quick", "--no-global", "--methods", added, "--out", str(tmp_path)]
    assert main(argv) == 0
    assert added in capsys.readouterr().out
    assert list(tmp_path.glob("*.png"))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_function_of_a_module_is_a_curve_of_the_experiments(jobs, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "halved", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_methods", raising=False)
    solve = "def halved(f, P, *, max_iter=20):\n    return ds.frank_wolfe(f, P, max_iter=max_iter)\n"
    (tmp_path / "my_methods.py").write_text(f"import drsub_fast as ds\n\n\n{solve}")
    argv = ["paper", "--families", "1", "--quick", "--no-global", "--methods", "frank-wolfe", "--out", "out"]
    assert main([*argv, "--method", "my_methods:halved", "--jobs", jobs]) == 0
    assert "halved" in capsys.readouterr().out
    assert "halved" in (tmp_path / "out" / "quadratic-uniform.csv").read_text()
    for wrong, reason in (("my_methods", "MODULE:FUNCTION"), ("my_methods:none", "none"), ("nowhere:x", "nowhere")):
        assert main([*argv, "--method", wrong]) == 2
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mualem-feldman", "fully-corrective-frank-wolfe"])
def test_every_method_has_a_figure(name, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    argv = ["paper", "--families", "1", "--quick", "--no-global", "--methods", name, "--out", str(tmp_path)]
    assert main(argv) == 0
    assert list(tmp_path.glob("*.png"))


def test_records_agree_with_the_functions():
    for name, method in METHODS.items():
        assert method.name == name
        assert method.solve is getattr(ds, name.replace("-", "_"))
        assert set(method.needs) <= {"down-closed", "box", "projection"}
        assert method.label
    labels = {(method.marker, method.colour) for method in METHODS.values()}
    assert len(labels) == len(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_needs_is_what_it_refuses(name):
    simplex = ds.Simplex(2)
    if {"down-closed", "box"} & set(METHODS[name].needs):
        with pytest.raises(ds.UnsupportedError):
            ds.maximize(F, simplex, method=name)
    else:
        assert simplex.contains(ds.maximize(F, simplex, method=name).x)


def test_records_are_checked():
    with pytest.raises(ValueError, match="unknown need 'a ball'; choose from 'down-closed'"):
        register_method(Method("x", one_exact_step, "X", needs=("a ball",)))
    with pytest.raises(ValueError, match="'auto'"):
        register_method(Method("auto", one_exact_step, "X"))


def test_a_costly_monotone_extension_starts_at_the_greedy_choice(monkeypatch, interpreted):
    monkeypatch.setattr(methods, "_COSTLY", 0.0)
    rng = np.random.default_rng(5)
    gained = 0
    for _ in range(10):
        F, P = ds.Multilinear.facility_location(rng.random((15, 25)) ** 3), ds.Budget(4, np.ones(15))
        greedy = ds.greedy(F, P).value
        r = ds.maximize(F, P)
        assert r.value >= greedy - 1e-12
        assert "continuous greedy adds its 1 - 1/e bound" in r.message
        assert r.guarantee.holds
        assert ds.round_solution(F, P, r.x).value >= r.value - 1e-9
        gained += r.value > greedy + 1e-9
    assert gained > 0


@pytest.mark.parametrize(
    "P",
    [
        ds.Budget(3.5, np.ones(8)),
        ds.PartitionMatroid(np.arange(8) % 3, [1, 2, 1]),
        ds.Knapsack(np.linspace(0.5, 1.5, 8), 3.0, np.ones(8)),
        ds.MatchingPolytope([(i % 3, i % 4) for i in range(8)], 3, 4),
    ],
    ids=repr,
)
def test_the_greedy_vertex_is_a_set_that_nothing_fits_beside(P, interpreted):
    F = ds.Multilinear.coverage([{i, i + 1, 2 * i} for i in range(8)])
    x = greedy_vertex(F, P, np.ones(8))
    assert set(x) <= {0.0, 1.0}
    assert P.contains(x)
    if isinstance(P, ds.Budget):
        assert set(np.flatnonzero(x)) == set(ds.greedy(F, P).items)


def test_the_search_with_proof_is_a_method_by_name():
    f, P = ds.instances.quadratic_uniform(5, 3, seed=2)
    r = ds.maximize(f, P, method="global-maximum", seed=1)
    assert r.status is ds.Status.OPTIMAL
    assert r.value == pytest.approx(ds.global_maximum(f, P).value, rel=1e-6)
    assert ds.maximize_many([(f, P)], "global-maximum", n_jobs=1)[0].status is ds.Status.OPTIMAL
    assert ds.maximize(f, P, method="global-maximum", time_limit=0.0, gap=1e-3).upper_bound >= r.value
    for options in ({"x0": np.zeros(5)}, {"callback": print}, {"tol": 1e-3}, {"progress": True}, {"max_iter": 3}):
        with pytest.raises(TypeError, match=f"no option '{next(iter(options))}'; its options are gap, max_nodes"):
            ds.maximize(f, P, method="global-maximum", **options)


def test_the_names_and_options_of_type_checkers_are_those_of_the_records():
    assert {"auto", "global-maximum"} | set(METHODS) >= set(get_args(MethodName))
    for method in METHODS.values():
        own = set(method.options) - {"x0", "callback", "progress", "n_starts", "seed"}
        if method.name in get_args(MethodName):
            assert own <= set(Options.__annotations__), method.name


def test_a_record_is_passed_itself():
    mine = Method("not-registered", one_exact_step, "Mine")
    assert ds.maximize(F, P, method=mine).value == one_exact_step(F, P).value
    assert ds.maximize_many([(F, P)], mine, n_jobs=1)[0].value == one_exact_step(F, P).value
    with pytest.raises(TypeError, match="method 'not-registered' takes no option 'step'; its options are"):
        ds.maximize(F, P, method=mine, step=1)
