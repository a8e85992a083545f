"""The solver for AMPL: real Pyomo drives it, .nl files as text and binary are read alike, what it cannot is said."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.cli.command import main
from drsub_fast.problems.nl import open_nl, program_of_nl

pyo = pytest.importorskip("pyomo.environ")
COMMAND = Path(sys.executable).with_name("drsub-fast")


def model(change=lambda M: None):
    """max 2 x + 3 y + z - x^2 - x y - (y + z)^2 / 2 + 7 with x + y + z <= 2 and x - z >= -1, on [0, 1]^3."""
    M = pyo.ConcreteModel()
    M.x = pyo.Var(range(3), bounds=(0, 1))
    x, y, z = (M.x[i] for i in range(3))
    M.o = pyo.Objective(expr=2 * x + 3 * y + z - x**2 - x * y - (y + z) ** 2 / 2 + 7, sense=pyo.maximize)
    M.c = pyo.Constraint(expr=x + y + z <= 2)
    M.d = pyo.Constraint(expr=x - z >= -1)
    change(M)
    return M


def write(folder, change=lambda M: None):
    path = folder / "m.nl"
    model(change).write(str(path))
    return path


def value_of(x):
    x, y, z = x
    return 2 * x + 3 * y + z - x * x - x * y - (y + z) ** 2 / 2 + 7


def best():
    grid = np.linspace(0, 1, 41)
    points = [(x, y, z) for x in grid for y in grid for z in grid if x + y + z <= 2 and x - z >= -1]
    return max(map(value_of, points))


def solved(path, *words):
    """(message, x, code) of the .sol file."""
    assert main([str(path), "-AMPL", *words]) == 0
    lines = path.with_suffix(".sol").read_text().split("\n")
    end = lines.index("Options")
    n_options = int(lines[end + 1])
    sizes = [int(word) for word in lines[end + 2 + n_options : end + 6 + n_options]]
    x = [float(word) for word in lines[end + 6 + n_options : end + 6 + n_options + sizes[3]]]
    return " ".join(lines[:end]), x, int(re.search(r"objno \d+ (\d+)", "\n".join(lines))[1])


def binary(text):
    """A text file as a binary one, by the layout of each segment."""
    lines = text.split("\n")
    out = [("\n".join(["b" + lines[0][1:], *lines[1:10]]) + "\n").encode()]
    body = iter(line.partition("#")[0].split() for line in lines[10:] if line.strip())

    def whole(word):
        out.append(struct.pack("<i", int(word)))

    def entries(size):
        for _ in range(size):
            i, value = next(body)
            out.append(struct.pack("<id", int(i), float(value)))

    def expression():
        left = 1
        while left:
            word, *_ = next(body)
            out.append(word[:1].encode())
            left -= 1
            if word[0] == "n":
                out.append(struct.pack("<d", float(word[1:])))
                continue
            whole(word[1:])
            if word[0] == "o":
                size = 2
                if word == "o54":
                    (size,) = next(body)
                    whole(size)
                left += int(size) if word == "o54" else 1 if word in ("o16", "o43") else 2

    for words in body:
        letter, counts = words[0][0], [word for word in (words[0][1:], *words[1:]) if word]
        out.append(letter.encode())
        for word in counts:
            whole(word)
        if letter in "COV":
            expression()
        elif letter in "JGxd":
            entries(int(counts[-1]))
        elif letter == "k":
            for _ in range(int(counts[0])):
                whole(next(body)[0])
        elif letter in "rb":
            n = int(lines[1].split()[1 if letter == "r" else 0])
            for _ in range(n):
                kind, *numbers = next(body)
                out.append(kind.encode() + b"".join(struct.pack("<d", float(word)) for word in numbers))
    return b"".join(out)


def test_text_and_binary_files_are_read_alike(tmp_path):
    path = write(tmp_path)
    text = path.read_text()
    message, x, code = solved(path)
    assert (code, len(x)) == (0, 3)
    assert value_of(x) >= best() - 1e-4
    assert message.startswith(f"drsub-fast {ds.__version__}: ")
    assert f"objective {value_of(x):.6g}"[:12] in message
    one = program_of_nl(open_nl(path))
    path.write_bytes(binary(text))
    other = program_of_nl(open_nl(path))
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.toarray() if hasattr(a, "toarray") else a, b.toarray() if hasattr(b, "toarray") else b)
    assert solved(path)[1:] == (x, 0)
    problem = ds.read_problem(path)
    assert problem.f.value(np.zeros(3)) == pytest.approx(7.0)


@pytest.mark.parametrize("cut", range(11))
@pytest.mark.parametrize("kind", ["text", "binary"])
def test_files_that_are_cut_are_refused(tmp_path, capsys, kind, cut):
    path = write(tmp_path)
    data = path.read_bytes() if kind == "text" else binary(path.read_text())
    path.write_bytes(data[: len(data) * cut // 11])
    path.with_suffix(".sol").unlink(missing_ok=True)
    if main([str(path), "-AMPL"]):
        assert re.search(r"line \d+", capsys.readouterr().err)
    else:
        text = path.with_suffix(".sol").read_text()
        assert re.search(r"(line|byte) \d+|ends", text)
        assert re.search(r"objno 0 500", text)


def swap(expression, sense=pyo.maximize):
    def change(M):
        M.del_component("o")
        M.o = pyo.Objective(expr=expression(*(M.x[i] for i in range(3))), sense=sense)

    return change


def constrain(expression):
    return lambda M: setattr(M, "more", pyo.Constraint(expr=expression(*(M.x[i] for i in range(3)))))


def integer(M):
    M.x[1].domain = pyo.Integers


@pytest.mark.parametrize(
    ("change", "words", "code"),
    [
        (swap(lambda x, y, z: pyo.log(1 + x) + y), "line .*log of a variable is nonlinear", 500),
        (swap(lambda x, y, z: x**3 + y), r"power \(\^ 3\)", 500),
        (swap(lambda x, y, z: x * y * z), "degree 3", 500),
        (swap(lambda x, y, z: y / (1 + x)), "division by a variable", 500),
        (swap(lambda x, y, z: x * y), r"not DR-submodular when maximised.*H\[0, 1\] = 1", 500),
        (swap(lambda x, y, z: x**2 - y**2, pyo.minimize), "not DR-submodular when minimised", 500),
        (constrain(lambda x, y, z: x * y <= 1), "constraint . is quadratic: linear constraints", 500),
        (constrain(lambda x, y, z: x + z >= 9), "the set is empty", 200),
        (lambda M: M.x[1].setlb(2), r"the set is empty: the bounds of x1 cross: 2 > 1", 200),
        (integer, "integer or binary: continuous variables", 500),
    ],
)
def test_what_cannot_be_solved_is_said_in_the_sol_file(tmp_path, change, words, code):
    message, x, found = solved(write(tmp_path, change))
    assert re.search(words, message)
    assert (x, found) == ([], code)


@pytest.mark.parametrize(
    ("expression", "at"),
    [
        (lambda x, y, z: -((x + 2 * y - 1) ** 2) / 4 + pyo.log(2) * z + 3 * (1 - x) * (x + 1), (0.2, 0.7, 0.4)),
        (lambda x, y, z: (x - x) * y + 2 - (z - 3) ** 2 + x**1 + y**0, (0.2, 0.7, 0.4)),
    ],
)
def test_expressions_are_multiplied_out(tmp_path, expression, at):
    p = program_of_nl(open_nl(write(tmp_path, swap(lambda x, y, z: expression(x, y, z) - 0.1 * (x + y + z) ** 2))))
    x = np.array(at)
    value = pyo.value(expression(*at)) - 0.1 * sum(at) ** 2
    assert 0.5 * x @ (p.H @ x) + p.h @ x + p.c == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("word", ["require_dr=False", "require_dr=0", "require_dr=no"])
def test_require_dr_accepts_any_sign(tmp_path, word):
    path = write(tmp_path, swap(lambda x, y, z: x * y - z))
    assert "require_dr=False accepts any sign" in solved(path)[0]
    assert "require_dr=False accepts any sign" in solved(path, "require_dr=true")[0]
    message, x, code = solved(path, word)
    assert (message.split(":")[0], code) == (solved(path)[0].split(":")[0], 0)
    assert x[0] * x[1] - x[2] == pytest.approx(1.0, rel=1e-9)
    assert "value 'maybe'" in solved(path, "require_dr=maybe")[0]


def test_options_come_from_words_and_from_the_variable(tmp_path, monkeypatch):
    path = write(tmp_path)
    monkeypatch.setenv("drsub_fast_options", "method=frank-wolfe max_iter=3")
    few = solved(path.with_suffix(""))[1]
    monkeypatch.setenv("drsub_fast_options", "method frank-wolfe max_iter 3000")
    many = solved(path)[1]
    assert value_of(many) > value_of(few)
    assert solved(path, "max_iter=3")[1] == few
    monkeypatch.delenv("drsub_fast_options")
    for word in ("nonsense=3", "max_iter=x", "method=fastest", "tol", "objno=4", "callback=3"):
        message, x, code = solved(path, word)
        assert word.partition("=")[0] in message
        assert (x, code) == ([], 500)


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert main([str(tmp_path / "none"), "-AMPL"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_pyomo_drives_the_command():
    solver = pyo.SolverFactory("asl", executable=str(COMMAND), solver="drsub-fast")
    solver.options["max_iter"] = 200
    M = model()
    done = solver.solve(M)
    assert str(done.solver.termination_condition) == "optimal"
    assert pyo.value(M.o) >= best() - 1e-4
    assert pyo.value(M.c) <= 2 + 1e-9
    M = model(swap(lambda x, y, z: x**2 + y**2 + x * y - 3 * x - z + 2 * x * z, pyo.minimize))
    assert str(solver.solve(M).solver.termination_condition) == "optimal"
    out = subprocess.run([COMMAND, "-v"], capture_output=True, text=True, check=True, env=os.environ).stdout
    assert out == f"drsub-fast {ds.__version__}\n"
