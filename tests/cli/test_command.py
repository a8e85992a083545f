"""The command line, in this process and once as a command."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from file_checks import refused_in_one_line

import drsub_fast as ds
from drsub_fast.cli.command import main
from drsub_fast.experiments import synthetic
from drsub_fast.instances import quadratic_uniform, softmax_uniform
from drsub_fast.problems.files import read_problem, write_problem

QUICK = ["--methods", "nonmonotone-frank-wolfe", "--repeats", "1", "--jobs", "2"]


@pytest.fixture
def quadratic_file(tmp_path):
    f, P = quadratic_uniform(6, 4, seed=1, c=0.5)
    path = tmp_path / "problem.npz"
    np.savez(path, H=f.H, h=f.h, c=f.c, A=P.A, b=P.b, ub=P.upper)
    return path


def test_paper_writes_table_csv_and_figures(tmp_path, capsys):
    out = tmp_path / "results"
    assert main(["paper", "--families", "1", "softmax-uniform", "--no-global", "--out", str(out), *QUICK]) == 0
    printed = capsys.readouterr().out
    for family in ("quadratic-uniform", "softmax-uniform"):
        assert f"{family}: function value, mean ± deviation of 1 repeat" in printed
        with (out / f"{family}.csv").open() as stream:
            assert len(list(csv.DictReader(stream))) == 15
        for kind in ("png", "pdf"):
            assert (out / f"{family}.{kind}").exists()
    assert "30 of 30 instances" in printed


@pytest.mark.parametrize(
    ("options", "methods"),
    [
        ([], [*synthetic.PAPER_METHODS, "multi-start"]),
        (["--quick"], [*synthetic.PAPER_METHODS]),
        (["--quick", "--methods", "multi-start"], ["multi-start"]),
    ],
)
def test_multi_start_is_an_extra_curve_save_in_a_quick_run(tmp_path, monkeypatch, options, methods):
    asked = []
    monkeypatch.setattr(synthetic, "run_families", lambda *args: asked.append(list(args[3])) or (row for row in ()))
    assert main(["paper", "--families", "1", "--out", str(tmp_path), *options]) == 0
    assert asked == [methods]


def test_an_interrupt_keeps_what_is_done(tmp_path, capsys, monkeypatch):
    run_instance, calls = synthetic.run_instance, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) > 5:  # the first instance of a family is solved once ahead
            raise KeyboardInterrupt
        return run_instance(*args)

    monkeypatch.setattr(synthetic, "run_instance", interrupted)
    monkeypatch.setattr(synthetic, "_series", {})
    argv = ["paper", "--families", "1", "2", "--no-global", "--out", str(tmp_path), *QUICK[:-1], "1"]
    assert main(argv) == 130
    printed = capsys.readouterr()
    assert "4 of 30 instances" in printed.out
    assert "quadratic-uniform: function value" in printed.out
    assert "interrupted" in printed.err
    with (tmp_path / "quadratic-uniform.csv").open() as stream:
        assert len(list(csv.DictReader(stream))) == 4
    assert not (tmp_path / "quadratic-exponential.csv").exists()


def test_solve_prints_and_writes_json(quadratic_file, tmp_path, capsys):
    out = tmp_path / "result.json"
    argv = ["solve", str(quadratic_file), "--method", "two-phase-frank-wolfe", "--max-iter", "30", "--out", str(out)]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    f, P = quadratic_uniform(6, 4, seed=1, c=0.5)
    expected = ds.two_phase_frank_wolfe(f, P, max_iter=30)
    stored = json.loads(out.read_text())
    assert stored["value"] == pytest.approx(expected.value, rel=1e-12)
    assert f.value(stored["x"]) == pytest.approx(stored["value"], rel=1e-12)
    assert len(stored["trace_value"]) == len(expected.trace.value)
    for word in ("value", "fw_gap", "upper bound", "guarantee", "status", "Quadratic(n=6) over Polytope(m=4, n=6)"):
        assert word in printed


def test_solve_prints_the_point_in_the_words_of_the_file(tmp_path, capsys):
    path = tmp_path / "p.lp"
    path.write_text("Maximize\n obj: 2 a + b + [ - a^2 ] / 2\nSubject To\n c: a - b <= 0\nBounds\n 0 <= b <= 1\n"
                    " 3 <= d <= 4\n 0 <= e <= 1\nEnd\n")  # fmt: skip
    assert main(["solve", str(path), "--bound", "tight"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["x"].startswith("d = 3, a = 1, b = 1")
    assert lines["x"].endswith("the others 0")
    assert lines["value"] == "2.5"
    np.savez(tmp_path / "zero.npz", H=-np.eye(2), h=-np.ones(2), upper=np.ones(2))
    assert main(["solve", str(tmp_path / "zero.npz"), "--bound", "cheap"]) == 0
    assert "\nx           0\n" in capsys.readouterr().out


def test_solve_reads_matlab_files_and_writes_npz(tmp_path, capsys):
    f, P = softmax_uniform(5, 3, seed=2)
    problem, out = tmp_path / "problem.mat", tmp_path / "result.npz"
    scipy.io.savemat(problem, {"L": f.L, "A": scipy.sparse.csc_matrix(P.A), "b": P.b, "unit_box": 0, "note": "text"})
    assert main(["solve", str(problem), "--method", "nonmonotone-frank-wolfe", "--out", str(out)]) == 0
    assert "Softmax(n=5)" in capsys.readouterr().out
    expected = ds.nonmonotone_frank_wolfe(f, P)
    with np.load(out) as stored:
        assert stored["value"] == pytest.approx(expected.value, rel=1e-9)
        assert stored["trace_fw_gap"].shape == (101,)


def test_readers_take_boxes_factors_and_columns(tmp_path):
    path = tmp_path / "box.npz"
    np.savez(path, factor=np.eye(3)[:, :2], upper=np.ones((3, 1)))
    problem = read_problem(path)
    f, P = problem.f, problem.P
    assert repr(P) == "Box(n=3)"
    assert f.unit_box
    assert np.array_equal(f.L, np.diag([1.0, 1.0, 0.0]))


def test_other_objectives_and_sets_are_solved(tmp_path, capsys):
    W = np.random.default_rng(4).random((5, 3))
    f, P = ds.Multilinear.flid(W.sum(axis=1), W), ds.Budget(2.0, np.ones(5))
    path, out = tmp_path / "flid.npz", tmp_path / "result.json"
    np.savez(path, objective="flid", utilities=W.sum(axis=1), W=W, set="budget", k=2, upper=np.ones(5))
    assert main(["solve", str(path), "--method", "nonmonotone-frank-wolfe", "--out", str(out)]) == 0
    assert "over Budget(k=2, n=5)" in capsys.readouterr().out
    assert json.loads(out.read_text())["value"] == pytest.approx(ds.nonmonotone_frank_wolfe(f, P).value, rel=1e-12)


def test_a_stability_number_is_bounded_over_the_simplex(tmp_path, capsys):
    # A cycle of five has stable sets of two vertices.
    cycle = np.roll(np.eye(5), 1, axis=0)
    path, out = tmp_path / "cycle.mat", tmp_path / "result.json"
    scipy.io.savemat(path, {"objective": "stability-number", "graph": cycle + cycle.T, "set": "simplex", "n": 5})
    assert main(["solve", str(path), "--method", "frank-wolfe", "--max-iter", "200", "--out", str(out)]) == 0
    assert "StabilityNumber(n=5) over Simplex(n=5, total=1)" in capsys.readouterr().out
    assert -1.0 <= json.loads(out.read_text())["value"] <= -0.5


def test_lower_bounds_are_moved_to_zero_and_back(tmp_path, capsys):
    f, P = quadratic_uniform(4, 3, seed=3)
    problem, out, lower = tmp_path / "shifted.npz", tmp_path / "result.npz", np.array([0.1, 0.0, 0.05, 0.0])
    np.savez(problem, H=f.H, h=f.h, A=P.A, b=P.b, ub=P.upper, lb=lower)
    assert main(["solve", str(problem), "--method", "nonmonotone-frank-wolfe", "--out", str(out)]) == 0
    with np.load(out) as stored:
        assert (stored["x"] >= lower - 1e-12).all()
        assert P.contains(stored["x"])
        assert f.value(stored["x"]) == pytest.approx(float(stored["value"]), rel=1e-12)


def test_programs_in_mps_files_are_solved(tmp_path, capsys):
    f, P = quadratic_uniform(4, 3, seed=3)
    path = tmp_path / "problem.mps"
    write_problem(path, f, P)
    assert main(["solve", str(path), "--method", "nonmonotone-frank-wolfe"]) == 0
    assert f"{ds.nonmonotone_frank_wolfe(f, P).value:.8g}" in capsys.readouterr().out


GOOD = {"H": -np.eye(2), "h": np.ones(2), "A": np.ones((1, 2)), "b": np.ones(1)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"H": np.eye(2)}, r"H\[0, 0\] = 1 is positive"),
        ({"H": None}, "give one of H and factor"),
        ({"H": None, "h": None}, "one of H .* is needed, .* found A, b"),
        ({"L": np.eye(2)}, "found H and L"),
        ({"h": None}, "h is missing: the linear term, a vector"),
        ({"h": np.ones(3)}, "h has 3 entries, expected 2"),
        ({"h": np.ones((2, 2))}, r"h must be a vector, got shape \(2, 2\)"),
        ({"c": np.ones(2)}, "c must be a number"),
        ({"b": None, "upper": np.ones(2)}, "A and b"),
        ({"b": None, "set": "polytope"}, "a polytope needs b"),
        ({"A": None, "b": None}, "no feasible set"),
        ({"A": np.ones((1, 3))}, "2 variables, the set 3"),
        ({"lb": np.array([0.0, 2.0]), "ub": np.ones(2)}, r"bounds of x\[1\] cross"),
        ({"H": None, "h": None, "L": np.eye(2), "lb": np.array([0.0, 0.5])}, r"lb\[1\] = 0.5: only a quadratic"),
        ({"ub": np.array([1.0, np.nan])}, r"\[1\] = nan is not finite"),
    ],
)
def test_bad_problems_are_one_line_and_status_2(change, message, tmp_path, capsys):
    refused_in_one_line(tmp_path / "bad.npz", GOOD | change, message, capsys)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["solve", "missing.npz"], "No such file"),
        (["solve", "problem.txt"], "unknown kind of file '.txt'"),
        (["solve", "p.npz", "--method", "simplex"], "invalid choice: 'simplex'"),
        (["solve", "p.npz", "--out", "x.txt"], "written as .npz, .json, .csv"),
        (["solve", "p.npz", "--method", "nonmonotone-frank-wolfe", "--tol", "1e-3"], "no option --tol"),
        (["paper", "--families", "5"], "unknown family '5'"),
        (["paper", "--families", "debates"], "needs --data FILE"),
        (["paper", "--families", "debates", "--data", "missing.jsonl"], "No such file"),
        (["paper", "--repeats", "0"], "not a positive number"),
        (["paper", "--repeats", "21"], "the paper has 20 repeats"),
    ],
)
def test_usage_errors_are_one_line_and_status_2(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_broken_files_are_named(tmp_path, capsys):
    for name in ("broken.npz", "broken.mat", "broken.mps", "broken.qplib"):
        path = tmp_path / name
        path.write_bytes(b"x" * 300)
        assert main(["solve", str(path)]) == 2
        error = capsys.readouterr().err
        assert str(path) in error
        assert error.count("\n") == 1


def test_options_of_the_method_with_proof_reach_it(quadratic_file, tmp_path, capsys):
    options = ["--method", "global-maximum", "--gap", "0.5", "--max-nodes", "2"]
    assert main(["solve", str(quadratic_file), *options]) == 0
    assert main(["batch", str(quadratic_file), "--out", str(tmp_path / "o.npz"), "--jobs", "1", *options]) == 0
    assert main(["solve", str(quadratic_file), "--max-nodes", "2"]) == 2
    assert "method auto has no option --max-nodes" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_said_before_the_work(quadratic_file, tmp_path, capsys):
    assert main(["solve", str(quadratic_file), "--out", str(tmp_path / "none" / "o.npz")]) == 2
    printed = capsys.readouterr()
    assert "No such folder" in printed.err
    assert printed.out == ""


def test_require_dr_false_reads_quadratics_of_any_sign(tmp_path, capsys):
    f, P = ds.Quadratic([[1.0, 0.5], [0.5, -2.0]], [1.0, 1.0], require_dr=False), ds.Box([1.0, 1.0])
    ds.write_problem(tmp_path / "p.lp", f, P)
    np.savez(tmp_path / "stack.npz", H=np.stack([f.H, f.H]), h=f.h, upper=P.upper)
    assert main(["solve", str(tmp_path / "p.lp")]) == 2
    assert "require_dr=False accepts any sign" in capsys.readouterr().err
    assert main(["solve", str(tmp_path / "p.lp"), "--require-dr", "false"]) == 0
    assert "2.0625" in capsys.readouterr().out
    for source in ("p.lp", "stack.npz"):
        out = tmp_path / f"{source}.out.npz"
        assert main(["batch", str(tmp_path / source), "--out", str(out), "--jobs", "1"]) == 1
        assert main(["batch", str(tmp_path / source), "--out", str(out), "--jobs", "1", "--require-dr", "no"]) == 0
        assert np.load(out)["value"] == pytest.approx(2.0625)
    assert main(["solve", str(tmp_path / "p.lp"), "--require-dr", "perhaps"]) == 2


def test_info(capsys):
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    for word in ("python", "numba", "highspy", "kernel cache", "processors"):
        assert word in printed


def test_help_and_info_import_no_experiment_and_no_compiler():
    code = "import sys; from drsub_fast.cli.command import main; main([sys.argv[1]]); print(*sys.modules)"
    for argument in ("info", "--help"):
        printed = subprocess.run(
            [sys.executable, "-c", code, argument], capture_output=True, text=True, check=True
        ).stdout
        modules = printed.splitlines()[-1].split()
        assert not [name for name in modules if name.startswith(("numba", "llvmlite", "drsub_fast.experiments"))]


def test_help_is_not_an_error(capsys):
    assert main(["--help"]) == 0
    assert "solve" in capsys.readouterr().out


def test_the_command_in_a_process_of_its_own(quadratic_file):
    run = subprocess.run(
        [sys.executable, "-m", "drsub_fast", "solve", str(quadratic_file), "--method", "nonmonotone-frank-wolfe"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0].split()[0] == "problem"
    assert run.stderr == ""


def test_the_version_is_that_of_the_package(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"drsub-fast {ds.__version__}\n"
