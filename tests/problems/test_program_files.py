"""Files of quadratic programs: reader and writer are inverse, what is doubtful is refused with its line."""

import gzip
import random

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import drsub_fast as ds

H = -np.array([[1.0, 2.0, 0.0], [2.0, 0.0, 3e-10], [0.0, 3e-10, 1e-10]])
F = ds.Quadratic(H, [1.0, 0.0, 3.0], 0.25)
ROWS = ds.Polytope([[1.0, 0.0, 1e-10], [0.1, 0.0, 1.0 / 3.0]], [1.5, 2.0], [1.0, 2.0, 3.0])
NAMES = ("cost", "b", "c_1")
TEXTS = (".mps", ".lp", ".qplib", ".mps.gz", ".lp.gz", ".qplib.gz", ".qps")


def dense(A):
    return A.toarray() if scipy.sparse.issparse(A) else A


@pytest.mark.parametrize("kind", [".npz", ".mat", *TEXTS])
@pytest.mark.parametrize("minimize", [False, True])
def test_reader_and_writer_are_inverse(tmp_path, kind, minimize):
    """To the last bit: order, small entries, a variable without a linear term or row, names and the sense."""
    path, again = tmp_path / f"one{kind}", tmp_path / f"two{kind}"
    for P in (ROWS, ds.Box([1.0, 2.0, 3.0])):
        ds.write_problem(path, F, P, names=NAMES, minimize=minimize)
        problem = ds.read_problem(path)
        assert (problem.names, problem.minimize, problem.shift) == (NAMES, minimize, None)
        assert np.array_equal(dense(problem.f.H), H)
        assert np.array_equal(problem.f.h, F.h)
        assert problem.f.c == F.c
        assert np.array_equal(problem.P.upper, P.upper)
        if P is ROWS:
            assert np.array_equal(dense(problem.P.A), ROWS.A)
            assert np.array_equal(problem.P.b, ROWS.b)
        ds.write_problem(again, problem)
        assert ds.read_problem(again).names == NAMES


@pytest.mark.parametrize("kind", TEXTS)
def test_equations_and_lower_bounds_come_back_in_their_coordinates(tmp_path, kind):
    P = ds.GeneralPolytope(
        [[1.0, -1.0, 0.0]], [0.3], [[1.0, 2.0, 1.0]], [1.0], lower=[0.0, 0.0, -0.5], upper=np.ones(3)
    )
    ds.write_problem(tmp_path / f"p{kind}", F, P)
    problem = ds.read_problem(tmp_path / f"p{kind}")
    x = np.array([0.2, 0.15, 0.5])
    assert np.array_equal(problem.shift, P.lower)
    assert problem.f.value(x - P.lower) == pytest.approx(F.value(x), rel=1e-14)
    assert problem.P.contains(x - P.lower)


def test_bounds_are_found_in_chains_of_rows(tmp_path, shared_data):
    path = tmp_path / "chain.lp"
    path.write_text("Maximize\n 2x + y - [x^2]/2\nsubject to\n x - y <= 0\nbounds\n 0 <= y <= 1\nend\n")
    assert ds.read_problem(path).P.upper == pytest.approx([1.0, 1.0], rel=1e-12)
    path.write_text("Maximize\n x + y\nsubject to\n x - y <= 0\nend\n")
    with pytest.raises(ValueError, match=r"chain\.lp: no upper bound on x, y, and no rows imply one"):
        ds.read_problem(path)
    for name, n in (("sc50a", 48), ("kb2", 41)):
        problem = ds.read_problem(shared_data / "netlib" / f"{name}.mps")
        assert problem.f.n == n
        assert np.isfinite(problem.P.upper).all()


MPS = (
    "NAME p\nROWS\n N cost\n L r\n E s\nCOLUMNS\n x cost -1.0 r 1.0\n x s 1.0\n y r 1.0 s 1.0\n"
    "RHS\n RHS r 1.5\n RHS s 1.0\nBOUNDS\n UP B x 1.0\n UP B y 1.0\nENDATA\n"
)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("r 1.5", "r abc", r"line 11: .*'abc' is not a number"),
        ("r 1.5", "r 1e400", r"line 11: .*1e400 is beyond the range"),
        ("r 1.5", "r 1e-400", r"line 11: .*below the range"),
        ("r 1.5", "r nan", "line 11: .*'nan' is not a number"),
        (" E s", " E r", r"line 5: the row 'r' comes twice"),
        ("UP B x", "UP B z", r"line 14: there is no column 'z'"),
        ("UP B x 1.0", "UP B x -1.0", "two ways"),
        ("UP B y", "UP B x", r"line 15: the upper bound of 'x'.*twice"),
        ("UP B y", "BV B y", "line 15: |integer"),
        ("ENDATA\n", "", "the file ends before ENDATA"),
        ("RHS\n", "SOS\n", r"line 10: the section 'SOS' is not supported"),
        ("x s 1.0", "x r 1.0", r"A\[0, 0\] is given twice"),
    ],
)
def test_faults_of_mps_files_are_named_by_line(tmp_path, old, new, words):
    path = tmp_path / "p.mps"
    path.write_text(MPS)
    assert ds.read_problem(path).names == ("x", "y")
    path.write_text(MPS.replace(old, new, 1))
    with pytest.raises(ValueError, match=words) as caught:
        ds.read_problem(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("kind", [".mps", ".lp", ".qplib", ".npz", ".lp.gz"])
def test_damaged_files_are_refused_with_their_path(tmp_path, kind):
    """Flipped bits, cuts and words out of place: a problem, or a ValueError that begins with the path."""
    rng, path = random.Random(5), tmp_path / f"p{kind}"
    ds.write_problem(path, F, ROWS, names=NAMES)
    whole = path.read_bytes()
    messages = []
    for _ in range(150):
        data = bytearray(whole)
        i = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[i] ^= 1 << rng.randrange(8)
        elif rng.random() < 0.5:
            del data[i:]
        else:
            data[i : i + 4] = rng.choice((b" nan", b"-1 9", b"\xff\xff\xff\xff", b"1e9999"))
        path.write_bytes(data)
        try:
            problem = ds.read_problem(path)
        except ValueError as error:
            messages.append(str(error))
        else:
            assert problem.f.n == problem.P.n
    assert len(messages) > 50
    assert all(message.startswith(f"{path}: ") for message in messages)
    assert not [message for message in messages if message.count(": line ") > 1 or "line 2: line" in message]


def test_a_damaged_mat_file_ends_no_process(tmp_path):
    path = tmp_path / "p.mat"
    ds.write_problem(path, F, ROWS)
    data = bytearray(path.read_bytes())
    for damaged in (data[:150], data[: len(data) // 2], b"", b"nothing of the kind" * 20):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"p\.mat: "):
            ds.read_problem(path)


def test_an_npz_file_cannot_promise_more_than_it_holds(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, H=np.zeros((2, 2), "M8[s]"), h=np.ones(2), upper=np.ones(2))
    with pytest.raises(ValueError, match=r"p\.npz: H cannot be read as an array of numbers: it is dates"):
        ds.read_problem(path)
    parts = {"A.data": [1.0], "A.indices": [0.5], "A.indptr": [0, 1, 1], "A.shape": [1, 2]}
    np.savez(path, H=-np.eye(2), h=np.ones(2), b=[1.0], upper=np.ones(2), **parts)
    with pytest.raises(ValueError, match=r"A\.indices must be a vector of integers"):
        ds.read_problem(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"not an \.npz file"):
        ds.read_problem(path)


def test_a_truncated_gzip_file_is_damaged(tmp_path):
    path = tmp_path / "p.lp.gz"
    path.write_bytes(gzip.compress(b"maximize\n x\nend\n" * 50)[:-9])
    with pytest.raises(ValueError, match=r"p\.lp\.gz: "):
        ds.read_problem(path)


def test_results_of_minimisations_are_written_in_their_sense(tmp_path):
    path, out = tmp_path / "p.lp", tmp_path / "r.npz"
    path.write_text(
        "minimize\n obj: - x - 2 y + [ x ^ 2 ] / 2\nsubject to\n r: x + y <= 1.5\nbounds\n x <= 1\n y <= 1\nend\n"
    )
    problem = ds.read_problem(path)
    result = ds.frank_wolfe(problem.f, problem.P, max_iter=20, step_size="exact")
    ds.write_result(out, result, problem)
    with np.load(out) as stored:
        assert str(stored["sense"]) == "minimize"
        assert float(stored["value"]) == -result.value < 0.0
        assert float(stored["lower_bound"]) <= float(stored["value"])
        assert stored["names"].tolist() == ["x", "y"]


ANY_SIGN = np.array([[1.0, -0.5, 0.0], [-0.5, 0.0, 2e-10], [0.0, 2e-10, -3.0]])


@pytest.mark.parametrize("kind", [".npz", ".mat", *TEXTS])
@pytest.mark.parametrize("minimize", [False, True])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_quadratics_of_any_sign_come_back_by_require_dr(tmp_path, kind, minimize, make):
    path = tmp_path / f"any{kind}"
    f = ds.Quadratic(make(ANY_SIGN), [1.0, 0.0, 3.0], 0.25, require_dr=False)
    for P in (ROWS, ds.Box([1.0, 2.0, 3.0]), ds.GeneralPolytope([[1.0, 0.0, 1.0]], [2.0], lower=[-1.0, 0.0, 0.0],
                                                                upper=np.ones(3))):  # fmt: skip
        ds.write_problem(path, f, P, minimize=minimize)
        problem = ds.read_problem(path, require_dr=False)
        assert np.array_equal(dense(problem.f.H), ANY_SIGN)
        assert (problem.f.require_dr, problem.minimize) == (False, minimize)
        x, shift = np.array([0.2, 0.4, 0.6]), 0.0 if problem.shift is None else problem.shift
        assert problem.f.value(x - shift) == pytest.approx(f.value(x), rel=1e-14)
        if kind in TEXTS:
            with pytest.raises(ValueError, match=r"any\..*H\[.*; require_dr=False accepts any sign"):
                ds.read_problem(path)
        else:
            assert not ds.read_problem(path).f.require_dr


@pytest.mark.parametrize("kind", [".npz", ".mat"])
def test_arrays_without_a_word_of_it_take_any_sign_by_require_dr(tmp_path, kind):
    path = tmp_path / f"plain{kind}"
    arrays = {"H": ANY_SIGN, "h": np.ones((1, 3)), "lb": -np.ones((1, 3)), "ub": np.ones((1, 3))}
    arrays = {name: array.ravel() if kind == ".npz" and name != "H" else array for name, array in arrays.items()}
    (np.savez if kind == ".npz" else lambda path, **arrays: scipy.io.savemat(path, arrays))(path, **arrays)
    with pytest.raises(ValueError, match="require_dr=False accepts any sign"):
        ds.read_problem(path)
    problem = ds.read_problem(path, require_dr=False)
    assert np.array_equal(problem.f.H, ANY_SIGN)
    assert np.array_equal(problem.shift, -np.ones(3))


def test_require_dr_is_true_or_false_and_changes_no_other_problem(tmp_path):
    with pytest.raises(TypeError, match="require_dr must be True or False"):
        ds.read_problem(tmp_path / "p.npz", require_dr=0)
    f, P = ds.Softmax(2.0 * np.eye(3)), ds.Box(np.ones(3))
    ds.write_problem(tmp_path / "p.npz", f, P)
    assert np.array_equal(ds.read_problem(tmp_path / "p.npz", require_dr=False).f.L, f.L)
    ds.write_problem(tmp_path / "p.lp", F, ROWS)
    assert ds.read_problem(tmp_path / "p.lp", require_dr=False).f.require_dr


def test_rounding_noise_on_the_sign_of_a_file_is_no_sign(tmp_path):
    path = tmp_path / "noise.lp"
    path.write_text("Maximize\n x + y + [ - x^2 - y^2 + 1e-17 x * y ] / 2\nbounds\n x <= 1\n y <= 1\nend\n")
    assert ds.read_problem(path).f.H.max() == 0.0
