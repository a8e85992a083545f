"""Programs from elsewhere: SciPy's minimize, bounds and constraints; MPS, LP and QPLIB files."""

import zipfile

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import Bounds, LinearConstraint

import drsub_fast as ds
from drsub_fast.problems.files import read_problem, write_problem
from drsub_fast.problems.standard_form import set_of_rows, standard_form

INF = np.inf


def convex_problem(seed=0, n=4, m=3):
    """A minimisation with a positive Hessian, so that its negative is DR-submodular."""
    rng = np.random.default_rng(seed)
    H = rng.random((n, n)) + n * np.eye(n)
    H = H + H.T
    h = -n * rng.random(n) * 3
    A, b = rng.random((m, n)), np.ones(m)
    return H, h, A, b


def test_a_polytope_comes_from_bounds_and_constraints():
    A = np.array([[1.0, 2.0], [3.0, 0.0]])
    P = ds.Polytope.from_scipy([(0, None), (0, 1)], [LinearConstraint(A, ub=[2.0, 3.0])])
    assert np.array_equal(P.A, A)
    assert np.array_equal(P.upper, [1.0, 1.0])
    assert P.is_down_closed
    flipped = ds.Polytope.from_scipy(Bounds(0, [1, 1]), LinearConstraint(-A[:1], lb=[-2.0]))
    assert np.array_equal(flipped.A, A[:1])
    assert ds.Polytope.from_scipy(Bounds(0, [1, 2])).m == 0


@pytest.mark.parametrize(
    ("bounds", "constraint", "words"),
    [
        ([(0, 1), (0.5, 1)], None, r"lb\[1\] = 0.5"),
        ([(0, 1), (None, 1)], None, r"lb\[1\] = -inf"),
        ([(0, 1), (0, None)], None, r"no upper bound on x\[1\]"),
        ([(0, 1), (0, 1)], LinearConstraint([[1.0, -2.0]], ub=0.5), r"A\[0, 1\] = -2 is negative"),
        ([(0, 1), (0, 1)], LinearConstraint([[1.0, 1.0]], lb=0.5, ub=1.0), "row 0 has a lower side, 0.5"),
        ([(0, 1), (0, 1)], LinearConstraint([[1.0, 1.0]], lb=1.0, ub=1.0), "row 0 is an equation"),
        ([(0, 1), (0, 1)], LinearConstraint([[1.0, -1.0]], ub=-0.5), "row 0 excludes the lower bounds"),
        ([(0, 1), (0, 1)], LinearConstraint([[1.0, 1.0]], ub=-1.0), "the set is empty"),
        ([(0, 1), (0, 1)], LinearConstraint([[1.0, 1.0, 1.0]], ub=1.0), "bounds must be 3 pairs"),
    ],
)
def test_what_is_not_down_closed_is_refused_with_the_reason(bounds, constraint, words):
    with pytest.raises(ValueError, match=words):
        ds.Polytope.from_scipy(bounds, [] if constraint is None else [constraint])


def test_sides_that_the_bounds_imply_do_not_spoil_a_down_closed_set():
    A = np.array([[1.0, 1.0], [1.0, -1.0]])
    P, reasons = set_of_rows(A, np.array([0.0, -5.0]), np.array([1.5, 5.0]), np.zeros(2), np.ones(2))
    assert not reasons
    assert np.array_equal(P.A, A[:1])


@pytest.mark.parametrize(
    ("row", "total", "upper", "kind"),
    [
        ([1.0, 1.0, 1.0], 1.0, [1.0, 1.0, 1.0], ds.Simplex),
        ([2.0, 2.0, 2.0], 6.0, [INF, INF, 3.0], ds.Simplex),
        ([1.0, 1.0, 2.0], 1.0, [1.0, 1.0, 1.0], ds.GeneralPolytope),
        ([1.0, 1.0, 0.0], 1.0, [1.0, 1.0, 1.0], ds.GeneralPolytope),
        ([1.0, 1.0, 1.0], 1.0, [1.0, 0.5, 1.0], ds.GeneralPolytope),
    ],
)
@pytest.mark.parametrize("shift", [0.0, -0.25])
def test_one_sum_as_an_equation_is_a_simplex(row, total, upper, kind, shift):
    lower, row = np.full(3, shift), np.array([row])
    sides = np.array([total]) + row @ lower
    P, reasons = set_of_rows(row, sides, sides, lower, np.array(upper) + shift)
    assert type(P) is kind
    assert reasons == ("row 0 is an equation",)
    for vertex in np.diag(total / row[0, :2]):
        x = np.append(vertex, 0.0)
        assert P.contains(x) == bool((x <= upper).all())


def test_more_than_the_sum_is_no_simplex():
    A = np.array([[1.0, 1.0], [1.0, 0.0]])
    P, _ = set_of_rows(A, np.array([1.0, -INF]), np.array([1.0, 0.5]), np.zeros(2), np.ones(2))
    assert type(P) is ds.GeneralPolytope


def test_shifted_programs_keep_their_values():
    H, h, A, b = convex_problem(3)
    lower, upper = np.array([-1.0, 0.2, 0.0, -0.5]), np.ones(4)
    problem = standard_form(H, h, 1.0, A, np.full(3, -INF), b + 3.0, lower, upper, minimize=True)
    assert problem.minimize
    y = np.full(4, 0.3)
    x = problem.to_original(y)
    assert np.array_equal(x, lower + y)
    assert problem.f.value(y) == pytest.approx(-(x @ H @ x / 2 + h @ x + 1.0))
    assert problem.P.contains(y) == bool((A @ x <= b + 3.0).all())


def test_wrong_signs_of_a_hessian_are_named_entry_by_entry():
    H = np.array([[1.0, -2.0], [-2.0, 1.0]])
    rows = (np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match=r"minimised.* negative: H\[0, 1\] = -2; require_dr=False accepts"):
        standard_form(H, np.zeros(2), 0.0, *rows, minimize=True)
    with pytest.raises(ValueError, match=r"positive: H\[0, 0\] = 1, H\[1, 1\] = 1; require_dr=False accepts"):
        standard_form(H, np.zeros(2), 0.0, *rows, minimize=False)


@pytest.mark.parametrize("suffix", [".lp", ".mps"])
@pytest.mark.parametrize("sparse", [False, True])
def test_mps_and_lp_files_come_back_as_they_were_written(tmp_path, suffix, sparse):
    H, h, A, b = convex_problem(5)
    f = ds.Quadratic(-H, -h, 2.5)
    P = ds.Polytope(scipy.sparse.csc_array(A) if sparse else A, b, np.full(4, 0.7))
    path = tmp_path / f"program{suffix}"
    write_problem(path, f, P)
    problem = read_problem(path)
    assert np.allclose(problem.f.H, f.H, rtol=1e-12)
    assert np.allclose(problem.f.h, f.h, rtol=1e-12)
    assert problem.f.c == f.c
    assert np.allclose(problem.P.A.toarray(), A, rtol=1e-12)
    assert np.array_equal(problem.P.upper, P.upper)
    assert not problem.reasons


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".lp"])
def test_problem_files_come_back_as_they_were_written(tmp_path, suffix):
    H, h, A, b = convex_problem(5)
    f, x = ds.Quadratic(-H, -h, 2.5), np.full(4, 0.1)
    for P in (ds.Box(np.full(4, 0.7)), ds.Polytope(scipy.sparse.csc_array(A), b, np.full(4, 0.7))):
        path = tmp_path / f"problem{suffix}"
        write_problem(path, f, P)
        problem = read_problem(path)
        assert problem.f.value(x) == pytest.approx(f.value(x), rel=1e-12)
        assert np.array_equal(problem.P.upper, P.upper)
        assert type(problem.P) is type(P)


def test_programs_in_text_have_rows_and_bounds(tmp_path):
    f = ds.Quadratic(-np.eye(2), np.ones(2))
    with pytest.raises(TypeError, match="over Budget"):
        write_problem(tmp_path / "problem.lp", f, ds.Budget(1.0, np.ones(2)))


LP = """minimize
 obj: - x - 2 y + 1 + [ 2 x ^2 + 4 x * y + 2 y ^2 ] / 2
subject to
 c1: x + y <= 1.5
 c2: x - y >= -10
bounds
 0.5 <= x <= 1
 0 <= y <= 1
{extra}end
"""


def test_an_lp_file_is_turned_into_a_maximisation_from_zero(tmp_path):
    path = tmp_path / "small.lp"
    path.write_text(LP.format(extra=""))
    problem = read_problem(path)
    assert (problem.P.m, problem.minimize) == (1, True)
    assert np.array_equal(problem.shift, [0.5, 0.0])
    # At x = (0.5, 0): -0.5 + 1 + 0.25
    assert problem.f.value(np.zeros(2)) == pytest.approx(-0.75)
    path.write_text(LP.format(extra="general\n x\n"))
    with pytest.raises(ValueError, match=r"integer variables are not supported: 'x'"):
        read_problem(path)
    path.write_text("nothing of the kind")
    with pytest.raises(ValueError, match="line 1: the file does not begin"):
        read_problem(path)
    with pytest.raises(FileNotFoundError):
        read_problem(tmp_path / "absent.mps")


QPLIB = """name # a comment
QCL
maximize # sense
2 # variables
1 # rows
2 # nonzeros of H
1 1 -2.0
2 1 -1.0
1.0 # default of the linear term
1
2 3.0
0.5 # constant
2 # nonzeros of A
1 1 1.0
1 2 1.0
1.0E+20 # infinity
-1.0E+20
0
1.5
0
0.0
0
1.0
1
2 0.75
0.0 # starting points
0
"""


def test_a_qplib_file_is_read(tmp_path):
    path = tmp_path / "small.qplib"
    path.write_text(QPLIB)
    problem = read_problem(path)
    assert np.array_equal(problem.f.H, [[-2.0, -1.0], [-1.0, 0.0]])
    assert np.array_equal(problem.f.h, [1.0, 3.0])
    assert (problem.f.c, problem.minimize, problem.reasons) == (0.5, False, ())
    assert np.array_equal(problem.P.upper, [1.0, 0.75])
    assert np.array_equal(problem.P.b, [1.5])


def test_a_simplex_program_is_solved_by_the_method_for_convex_sets(shared_data, tmp_path):
    with zipfile.ZipFile(shared_data / "QPLIB_2712.qplib.zip") as archive:
        archive.extractall(tmp_path)
    problem = read_problem(next(tmp_path.rglob("*.qplib")))
    assert problem.minimize
    assert not problem.P.is_down_closed
    r = ds.mualem_feldman(problem.f, problem.P, max_iter=30)
    start = problem.P.min_max_norm_point()
    assert start.max() == pytest.approx(1.0 / 200.0)
    assert problem.P.contains(r.x)
    assert r.value == pytest.approx(problem.f.value(r.x), rel=1e-12)
    assert r.value > problem.f.value(start)
    assert r.value < 0.0
    assert r.guarantee.ratio is None  # the premise f >= 0 was seen not to hold


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("QCL", "QBL", "type QBL is not supported"),
        ("QCL", "QCQ", "type QCQ is not supported"),
        ("1 1 -2.0", "1 1", "entries of H"),
        ("0.5 # constant", "half", "the constant: 'half' is not a number"),
        ("2 0.75\n0.0 # starting points\n0\n", "", "the file ends before upper bounds"),
        ("1 1 -2.0", "1 1 2.0", r"positive: H\[0, 0\] = 2"),
    ],
)
def test_a_faulty_qplib_file_is_refused(tmp_path, old, new, words):
    path = tmp_path / "faulty.qplib"
    path.write_text(QPLIB.replace(old, new))
    with pytest.raises(ValueError, match=words):
        read_problem(path)


def test_qplib_2712_is_dr_submodular_over_a_simplex(shared_data, tmp_path):
    with zipfile.ZipFile(shared_data / "QPLIB_2712.qplib.zip") as archive:
        archive.extractall(tmp_path)
    problem = read_problem(next(tmp_path.rglob("*.qplib")))
    assert problem.f.n == 200
    assert problem.minimize
    assert problem.reasons == ("row 0 is an equation",)
    assert type(problem.P) is ds.Simplex
    v = problem.P.lmo(problem.f.gradient(np.zeros(200)))
    assert v.sum() == pytest.approx(1.0)
