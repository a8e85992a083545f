"""What a file says is used or refused: names that mean something elsewhere, text between fields, keywords as names."""

import gzip
import re

import numpy as np
import pytest
import scipy.io

import drsub_fast as ds

H, h, ONES = -np.eye(2), np.full(2, 3.0), np.ones(2)
QUADRATIC = {"H": H, "h": h}
BOX = QUADRATIC | {"upper": ONES}
POLYTOPE = BOX | {"A": [[1.0, 2.0]], "b": [1.5]}


def write(path, entries):
    if path.suffix == ".npz":
        np.savez(path, **entries)
    else:
        scipy.io.savemat(path, entries)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        (BOX, "Box"),
        (BOX | {"k": 1.0}, "Budget"),
        (BOX | {"weights": [1.0, 2.0], "budget": 1.0}, "Knapsack"),
        (BOX | {"radius": 1.0}, "Ball"),
        (QUADRATIC | {"n": 2, "total": 1.0}, "Simplex"),
        (BOX | {"groups": [0, 0], "capacities": [1.0]}, "PartitionMatroid"),
        (BOX | {"A_eq": [[1.0, 1.0]], "b_eq": [1.0]}, "GeneralPolytope"),
        (QUADRATIC | {"A": [[1.0, -1.0]], "b": [0.5], "Aeq": [[1, 1]], "beq": [1.0], "ub": ONES}, "GeneralPolytope"),
        (QUADRATIC | {"A_ub": [[1.0, 2.0]], "b_ub": [1.5], "ub": ONES}, "Polytope"),
        (BOX | {"sense": "max", "n": 2, "note": "mine", "seed": 3.0, "x0": ONES}, "Box"),
    ],
)  # fmt: skip
def test_entries_say_which_set_they_make(tmp_path, suffix, entries, kind):
    problem = ds.read_problem(write(tmp_path / f"p{suffix}", entries))
    assert type(problem.P).__name__ == kind
    x = ds.maximize(problem.f, problem.P).x
    for A, b, equal in (("A", "b", 0), ("A_ub", "b_ub", 0), ("A_eq", "b_eq", 1), ("Aeq", "beq", 1)):
        if A in entries:
            slack = np.array(entries[b]) - np.array(entries[A]) @ x
            assert slack.min() >= -1e-9
            assert not equal or abs(slack).max() <= 1e-9


WORDS = {
    "k": 1.0, "weights": ONES, "budget": 1.0, "groups": [0, 0], "capacities": [1.0], "radius": 1.0, "total": 1.0,
    "A_eq": [[1.0, 1.0]], "b_eq": [1.0], "L": np.eye(2), "factor": np.eye(2), "unit_box": 1.0, "adjacency": H,
    "W": ONES,
    "sense": "min", "objsense": -1.0, "LB": 0.5 * ONES, "Upper": 0.5 * ONES, "ub": ONES, "A_ub": [[1.0, 1.0]],
    "f": ONES, "l": 0.5 * ONES, "extension": "cut", "edges": [[0, 0], [0, 1]],
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
@pytest.mark.parametrize("name", WORDS)
def test_a_name_that_means_something_elsewhere_is_refused(tmp_path, suffix, name):
    """Beside a set and an objective that are given by name, so that it cannot be used."""
    entries = POLYTOPE | {"objective": "quadratic", "set": "polytope", name: WORDS[name]}
    if name == "f":
        del entries["h"]
    with pytest.raises(ValueError, match=rf"p{suffix}: .*\b{name}\b|h is missing"):
        ds.read_problem(write(tmp_path / f"p{suffix}", entries))


@pytest.mark.parametrize("name", ["lb", "lower"])
@pytest.mark.parametrize("entries", [BOX, POLYTOPE, POLYTOPE | {"set": "general-polytope"}])
def test_lower_bounds_are_kept_under_both_names(tmp_path, name, entries):
    problem = ds.read_problem(write(tmp_path / "p.npz", entries | {"h": -h, name: [0.25, 0.5]}))
    x = problem.to_original(ds.maximize(problem.f, problem.P).x)
    assert x == pytest.approx([0.25, 0.5])
    both = write(tmp_path / "both.npz", entries | {"lb": [0.25, 0.5], "lower": [0.0, 0.0]})
    with pytest.raises(ValueError, match="lb and lower are both there"):
        ds.read_problem(both)


def test_an_object_matters_only_where_it_is_needed(tmp_path):
    info = np.array({"by": "me"}, dtype=object)
    assert ds.read_problem(write(tmp_path / "p.npz", BOX | {"info": info})).f.n == 2
    for name in ("h", "upper", "H", "k"):
        with pytest.raises(ValueError, match=f"{name} cannot be read: Object arrays"):
            ds.read_problem(write(tmp_path / "p.npz", BOX | {name: info}))


def test_parts_of_a_sparse_matrix_are_not_dropped(tmp_path):
    parts = {"A.data": [1.0, 1.0], "A.indices": [0, 0], "A.indptr": [0, 1, 2], "A.shape": [1, 2]}
    for name in ("A.indptr", "A.indices"):
        entries = BOX | {part: array for part, array in parts.items() if part != name}
        with pytest.raises(ValueError, match=f"{name} is missing"):
            ds.read_problem(write(tmp_path / "p.npz", entries))
    with pytest.raises(ValueError, match=r"save A\.tocsc"):
        ds.read_problem(write(tmp_path / "p.npz", BOX | {"b": [1.0], "A.format": "csr"} | parts))


def test_stacks_drop_no_entry_either(tmp_path, capsys):
    from drsub_fast.cli.command import main

    stack = {"H": np.array([H, H]), "h": np.array([h, h]), "upper": ONES}
    info = np.array({"by": "me"}, dtype=object)

    def values(entries):
        out = tmp_path / "out.npz"
        code = main(["batch", str(write(tmp_path / "s.npz", stack | entries)), "--out", str(out), "--jobs", "1"])
        if code:
            return capsys.readouterr().err
        with np.load(out) as found:
            return found["x"].sum(axis=1)

    assert values({"info": info, "names": "a\nb"}) == pytest.approx([2.0, 2.0])
    assert values({"k": np.array([1.0, 0.5])}) == pytest.approx([1.0, 0.5])
    assert values({"weights": np.array([ONES, 2 * ONES]), "budget": 1.0}) == pytest.approx([1.0, 0.5])
    for name, value in {"A": [[1.0, 1.0]], "radius": 1.0, "L": np.eye(2), "minimize": 1, "shift": ONES,
                        "unit_box": True, "k": info}.items():  # fmt: skip
        assert name in values({"set": "box", "objective": "quadratic", name: value})


def fixed(*fields):
    """A line of an MPS file with fields at their columns."""
    line = ""
    for column, text in zip((1, 4, 14, 24, 39, 49), fields, strict=False):
        line = line.ljust(column) + text
    return line + "\n"


HEAD = "NAME t\nROWS\n N  c\n L  a row\nCOLUMNS\n" + fixed("", "my x", "c", "-1.0", "a row", "1.0")


@pytest.mark.parametrize(
    ("line", "side"),
    [
        (fixed("", "rhs", "a row", "5.25"), 5.25),
        (fixed("", "rhs", "a row", "5.25", "$ a comment"), 5.25),
        (fixed("", "rhs", "$ a row", "5.25"), None),
        (fixed("", "rhs", "a row  8", "5.25"), None),
        (fixed("", "rhs      x", "a row", "5.25"), None),
        (fixed("", "rhs", "a row", "1234567890.25"), None),
        (fixed("", "rhs", "a row", "5.25") .replace("5.25", "5.25        7"), None),
        (fixed("", "rhs", "a row", "5 25"), None),
        (fixed("", "rhs", "c", "5.25", "a row", "1234567890123.5"), None),
        (fixed("", "", "a row", "5.25", "", "", ) + " " * 70 + "9\n", None),
        (fixed("x", "rhs", "a row", "5.25"), None),
    ],
)  # fmt: skip
def test_old_mps_files_have_nothing_between_their_fields(tmp_path, line, side):
    """Names with blanks make the file one of columns; what is cut or stands elsewhere is refused."""
    path = tmp_path / "p.mps"
    path.write_text(HEAD + "RHS\n" + line + "ENDATA\n")
    if side is None:
        with pytest.raises(ValueError, match=r"p\.mps: "):
            ds.read_problem(path)
    else:
        assert ds.read_problem(path).P.upper == [side]


MPS = "NAME t\nROWS\n N C\n L R\nCOLUMNS\n X C -1 R 1\n Y C -3\n Y R 1\nRHS\n RHS R 5\nENDATA\n"


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("R 1\n Y", "R 1 $ first\n Y", 15.0), ("C -3", "C -3 $second", 15.0), ("L R", "L R $ third", 15.0),
        ("RHS R 5", "RHS R 5 $ = 5", 15.0), ("NAME t", "* r\xe9gion", 15.0), ("NAME t", "NAME r\xe9gion", 15.0),
        ("R 5", "R 5.0D+00", 15.0), ("ENDATA\n", "ENDATA\n* the end\n\n", 15.0),
        ("ENDATA\n", "ENDATA\nBOUNDS\n UP B Y 1\n", None), ("RHS\n", "RHS R 2\n", None), ("ROWS\n", "ROWS x\n", None),
        ("ENDATA", "QSECTION R\n X X 1\nENDATA", None), ("ENDATA", "QSECTION C\n X X 1\nENDATA", 15.0),
        ("ROWS", "OBJSENSE MIN\n MAX\nROWS", None), ("R 5", "R 5 $R 6", 15.0), ("R 5", "R 1,5", None),
        ("R 5", "R 5\n RHS2 C 3", None), ("RHS R", "R", 15.0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".mps", ".mps.gz"])
def test_lines_of_mps_files_are_used_or_refused(tmp_path, suffix, old, new, value):
    path = tmp_path / f"p{suffix}"
    data = MPS.replace(old, new, 1).encode("latin-1")
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    if value is None:
        with pytest.raises(ValueError, match=r"p\.mps"):
            ds.read_problem(path)
    else:
        problem = ds.read_problem(path)
        assert ds.maximize(problem.f, problem.P).value == pytest.approx(value)


KEYWORDS = (
    "end", "bounds", "bound", "max", "min", "maximize", "st", "bin", "binary", "gen", "general", "integer", "semi",
    "free", "sos1", "minimum",
)  # fmt: skip


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_of_lp_files_are_names_where_an_expression_goes_on(tmp_path, name):
    """max 2 a + 3 NAME with a + NAME <= 6, NAME - a <= 2, and NAME <= 3.5 in the bounds."""
    path = tmp_path / "p.lp"
    path.write_text(f"Maximize\n obj: 2 a + 3 {name}\nSubject To\n c1: a + {name} <= 6\n {name} - a <= 2\n"
                    f" {name} + a\n >= 0\nBounds\n {name} <= 3.5\nEnd\n")  # fmt: skip
    problem = ds.read_problem(path)
    assert problem.names == ("a", name)
    assert ds.maximize(problem.f, problem.P).value == pytest.approx(2 * 2.5 + 3 * 3.5)


LP = "Maximize\n obj: 1.5 x + 2 y\nSubject To\n c: x + y <= 3\nBounds\n x <= 2\nEnd\n"


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("End\n", "End\n\\ the end\n\n", 6.0), ("End\n", "End\n x <= 1\n", None), ("End\n", "End\nBounds\n", None),
        ("End\n", "End x <= 1\n", None), ("Maximize", "\\ r\xe9gion\nMaximize", 6.0), ("1.5 x", "1.5D+00 x", None),
        ("<= 3", "<= 3.0D+00", None), ("1.5 x", "1,5 x", None), ("2 y", "2 y + 1,5", None),
        ("2 y", "2 y + 1_000", None),
        ("1.5 x", "1.5e+00x", 6.0), ("<= 3", "<= 3;", None), ("2 y", "2 inf", None), ("<= 3", "<= 3 z", None),
        ("End", "Generals\nBinaries\nSemi-Continuous\nSOS\nEnd", 6.0), ("End", "Semi-Continuous\n x\nEnd", None),
        ("End", "Generals\n x\nEnd", None), ("x <= 2", "x <= 2 y <= 1", None), ("Bounds", "Bounds\n y <= 1e30", 6.0),
        ("x", "x[1,2]", 6.0), ("<= 3", "<= 3 <= 2", None), ("Subject To", "+ z\nSubject To", None),
        ("2 y", "2y + 0x10", None), ("2 y", "2 y + 3d1", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".lp", ".lp.gz"])
def test_text_of_lp_files_is_used_or_refused(tmp_path, suffix, old, new, value):
    path = tmp_path / f"p{suffix}"
    data = (re.sub(r"\bx\b", new, LP) if old == "x" else LP.replace(old, new, 1)).encode("latin-1")
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    if value is None:
        with pytest.raises(ValueError, match=r"p\.lp"):
            ds.read_problem(path)
    else:
        problem = ds.read_problem(path)
        assert ds.maximize(problem.f, problem.P).value == pytest.approx(value)
