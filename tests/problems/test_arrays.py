"""Problems in .npz and .mat files: every objective and set comes back as it was written; what cannot be is refused."""

import tracemalloc

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from file_checks import refused_in_one_line

import drsub_fast as ds
from drsub_fast.problems.arrays import OBJECTIVES, SETS
from drsub_fast.problems.files import read_problem, write_problem

N = 4
RNG = np.random.default_rng(7)
W = np.round(RNG.random((N, 3)) * (RNG.random((N, 3)) < 0.7), 3)
Z = RNG.random((6, N))
H = -(Z.T @ Z)
ADJACENCY = np.triu(RNG.random((N, N)), 1)
GRAPH = np.triu(np.ones((N, N)), 1) * (RNG.random((N, N)) < 0.6)
FLID = ds.Multilinear.flid(RNG.random(N), W)


def oracle_value(P, d):
    """max <d, v> over P, by HiGHS where it serves the set: its answers need no compilation."""
    solver = P.solver(P.upper)
    return d @ (P.lmo(d) if solver is None else solver.maximize(d, P.upper))


OBJECTIVE_CASES = {
    "quadratic": ds.Quadratic(H, np.ones(N), 0.5),
    "softmax": ds.Softmax(Z.T @ Z, unit_box=False),
    "softmax-factor": ds.Softmax(factor=np.random.default_rng(1).standard_normal((40, 3))),
    "coverage": ds.Multilinear.coverage([{0, 1}, {1, 2}, {2}, {0, 3}], weights=[1.0, 2.0, 4.0, 0.5]),
    "facility-location": ds.Multilinear.facility_location(W),
    "flid": FLID,
    "cut": ds.Multilinear.cut(ADJACENCY),
    "table": ds.Multilinear.from_function(lambda S: min(len(S), 2), n=N),
    "mean-field": ds.MeanField(FLID),
    "mean-field-cut": ds.MeanField(ds.Multilinear.cut(ADJACENCY)),
    "spectral": ds.Spectral([np.outer(z, z) + np.eye(N) for z in Z[:N]]),
    "spectral-factors": ds.Spectral(factors=Z[:N], offset=2.0 * np.eye(N)),
    "price-optimization": ds.PriceOptimization(
        np.ones(N), H * np.outer([1, -1, 1, 1], [1, -1, 1, 1]), cost=0.1 * np.ones(N), start=np.ones(N),
        signs=[1, -1, 1, 1],
    ),
    "stability-number": ds.StabilityNumber(GRAPH + GRAPH.T),
    "logistic-nonconvex": ds.LogisticNonconvex(Z, [1, -1, 1, 1, -1, -1], 0.2, 0.7, "capped"),
    "nonnegative-pca": ds.NonnegativePCA(Z),
}  # fmt: skip

EDGES = [(0, 0), (0, 1), (1, 1), (1, 1)]
SET_CASES = {
    "polytope": ds.Polytope(W.T, np.ones(3), np.full(N, 0.9)),
    "polytope-sparse": ds.Polytope(scipy.sparse.csr_array(W.T), np.ones(3), np.ones(N)),
    "polytope-no-rows": ds.Polytope(np.zeros((0, N)), np.zeros(0), np.ones(N)),
    "budget": ds.Budget(1.5, np.ones(N)),
    "box": ds.Box(np.arange(1.0, N + 1)),
    "knapsack": ds.Knapsack([1.0, 2.0, 0.0, 4.0], 3.0, np.ones(N)),
    "simplex": ds.Simplex(N, 2.0),
    "partition-matroid": ds.PartitionMatroid([0, 2, 0, 2], [1.0, 1.0, 2.0], 0.75),
    "ball": ds.Ball(0.7, N),
    "ball-below-bounds": ds.Ball(0.7, N).with_upper([0.5, 0.1, 0.7, 0.7]),
    "general-polytope": ds.GeneralPolytope(
        -W.T, np.zeros(3), [[1.0, 1.0, 0.0, 0.0]], [0.5], lower=-0.25 * np.ones(N), upper=np.ones(N)
    ),
    "general-polytope-equations": ds.GeneralPolytope(A_eq=np.ones((1, N)), b_eq=[1.0], upper=np.ones(N)),
    "matching-polytope": ds.MatchingPolytope(EDGES, 2, 2, [1.0, 2.0, 1.0, 1.5], [1.0, 1.0, 0.5, 1.0]),
    "laminar-matroid": ds.LaminarMatroid([range(N), [0, 1]], [2.0, 0.5], [1.0, 1.0, 0.5, 1.0]),
}


OBJECTIVE_CASES |= {f"example of {name}": kind.example_of(N) for name, kind in OBJECTIVES.items()}
SET_CASES |= {f"example of {name}": kind.example_of(N) for name, kind in SETS.items()}


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
@pytest.mark.parametrize("name", OBJECTIVE_CASES)
def test_objectives_come_back_as_they_were_written(tmp_path, name, suffix):
    f = OBJECTIVE_CASES[name]
    path = tmp_path / f"problem{suffix}"
    write_problem(path, f, ds.Box(np.ones(f.n)))
    g = read_problem(path).f
    assert type(g) is type(f)
    assert type(g.params) is type(f.params)
    assert (g.n, g.unit_box) == (f.n, f.unit_box)
    rng = np.random.default_rng(3)
    for _ in range(3):
        x = rng.random(f.n)
        (value, grad), (read_value, read_grad) = f.value_and_gradient(x), g.value_and_gradient(x)
        assert read_value == pytest.approx(value, rel=1e-13)
        assert read_grad == pytest.approx(grad, rel=1e-12, abs=1e-13)


def test_what_belongs_to_a_kind_beyond_its_values_comes_back(tmp_path):
    path, box = tmp_path / "problem.npz", ds.Box(np.ones(N))
    write_problem(path, OBJECTIVE_CASES["price-optimization"], box)
    assert np.array_equal(read_problem(path).f.prices(np.ones(N)), [2.0, 0.0, 2.0, 2.0])
    write_problem(path, OBJECTIVE_CASES["stability-number"], box)
    assert np.array_equal(read_problem(path).f.graph, GRAPH + GRAPH.T)
    write_problem(path, OBJECTIVE_CASES["logistic-nonconvex"], box)
    f = read_problem(path).f
    assert np.array_equal(f.Z, Z)
    assert f.y.tolist() == [1, -1, 1, 1, -1, -1]


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
@pytest.mark.parametrize("name", SET_CASES)
def test_sets_come_back_as_they_were_written(tmp_path, name, suffix):
    P, f = SET_CASES[name], OBJECTIVE_CASES["quadratic"]
    path = tmp_path / f"problem{suffix}"
    write_problem(path, f, P)
    Q = read_problem(path).P
    assert type(Q) is type(P)
    assert scipy.sparse.issparse(getattr(Q, "A", None)) == scipy.sparse.issparse(getattr(P, "A", None))
    assert np.array_equal(Q.upper, P.upper)
    rng = np.random.default_rng(4)
    points = [rng.random(N) * rng.random() for _ in range(20)] + [0.5 * P.upper]
    assert [Q.contains(x) for x in points] == [P.contains(x) for x in points]
    for _ in range(5):
        d = rng.standard_normal(N)
        assert oracle_value(Q, d) == pytest.approx(oracle_value(P, d), rel=1e-12)


def test_files_by_hand(tmp_path):
    """Column vectors, sparse matrices and numbers as MATLAB has them; names with bounds of both spellings."""
    path = tmp_path / "problem.mat"
    scipy.io.savemat(path, {
        "objective": "coverage", "sets": scipy.sparse.csc_matrix([[1.0, 1, 0], [0, 1, 1]]),
        "element_weights": np.array([[1.0], [2.0], [4.0]]),
        "set": "knapsack", "weights": np.array([[1.0], [2.0]]), "budget": 2, "ub": np.ones((2, 1)), "note": "",
    })  # fmt: skip
    f, P, *_ = read_problem(path)
    assert (f.set_value([0]), f.set_value([1]), f.set_value([0, 1])) == (3.0, 6.0, 7.0)
    assert oracle_value(P, np.array([1.0, 3.0])) == 3.0
    scipy.io.savemat(path, {
        "objective": "stability-number", "graph": [[0, 1], [1, 0]], "set": "simplex", "n": 2,
    })  # fmt: skip
    assert repr(read_problem(path)[:2]) == "(StabilityNumber(n=2), Simplex(n=2, total=1))"
    np.savez(path.with_suffix(".npz"), objective=-2.5, set=3, H=-np.eye(2), h=np.ones(2), upper=np.ones(2))
    assert repr(read_problem(path.with_suffix(".npz"))[:2]) == "(Quadratic(n=2), Box(n=2))"


GOOD = {
    "objective": "flid",
    "utilities": np.ones(2),
    "W": np.ones((2, 1)),
    "set": "budget",
    "k": 1,
    "upper": np.ones(2),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "flood"}, "unknown objective 'flood'; choose from 'coverage', 'cut', .*'flid'"),
        ({"objective": np.array(["flid", "cut"])}, "objective must be one text"),
        ({"objective": None}, r"one of H .* is needed, .* \(coverage, cut, .*\); found W, k"),
        ({"set": "bucket"}, "unknown set 'bucket'; choose from 'ball', 'box', 'budget'"),
        ({"set": None, "upper": None, "k": None}, r"no feasible set: .* \(ball, box, budget, .*\); found W"),
        ({"utilities": None}, "a flid needs utilities: its entries are utilities, W; found W, k, objective"),
        ({"set": None, "upper": None}, "a budget needs upper: its entries are k, upper; found W"),
        ({"k": None}, "a budget needs k: its entries are k, upper; found"),
        ({"k": np.ones(2)}, r"k must be a number, got shape \(2,\)"),
        ({"k": "two"}, "k must be a number, got 'two'"),
        ({"W": -np.ones((2, 1))}, r"W\[0, 0\] = -1 is negative"),
        ({"set": "simplex", "n": 2.5}, "n = 2.5 must be an integer"),
        ({"set": "simplex", "n": 3}, "the objective has 2 variables, the set 3"),
        ({"objective": "mean-field"}, "a mean-field needs extension"),
        ({"objective": "mean-field", "extension": "mean-field"}, "unknown extension 'mean-field'; choose from 'cover"),
        ({"objective": "spectral"}, "give either matrices"),
        ({"objective": "logistic-nonconvex", "Z": W, "y": [1] * N, "regularizer": "l2"}, "unknown regularizer 'l2'"),
        ({"lb": 0.5 * np.ones(2)}, r"lb\[0\] = 0.5: only a quadratic .* not Multilinear.* over Budget"),
        ({"W": None, "W.indptr": [0, 1], "W.indices": [9], "W.data": [1.0], "W.shape": [2, 1]}, "W is not a sparse"),
        ({"W": None, "W.indptr": [0, 1], "W.data": [1.0], "W.shape": [2, 1]}, "W.indices is missing"),
    ],
)  # fmt: skip
def test_bad_files_are_named_with_what_is_wrong(tmp_path, capsys, change, message):
    refused_in_one_line(tmp_path / "bad.npz", GOOD | change, message, capsys)


def parts(matrix, name):
    """A sparse matrix as entries of a file."""
    matrix = scipy.sparse.csc_matrix(matrix)
    return {f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "softmax", "W": None} | parts(scipy.sparse.eye_array(40_000), "L"),
         "L is a sparse 40000 x 40000 matrix, which is needed in full here: 12.8 GB"),
        ({"objective": "cut", "W": None} | parts(scipy.sparse.eye_array(40_000), "adjacency"),
         "adjacency is a sparse 40000 x 40000 matrix, which is needed in full"),
        ({"utilities": None} | parts(scipy.sparse.csc_array((40_000, 40_000)), "utilities"),
         r"utilities must be a vector, got shape \(40000, 40000\)"),
        ({"k": None} | parts(scipy.sparse.csc_array((10**9, 3)), "k"),
         r"k must be a number, got shape \(1000000000, 3\)"),
        ({"W": None, "W.indptr": [0, 0], "W.indices": np.zeros(0, int), "W.data": [], "W.shape": [10**9, 10**9]},
         "W is not a sparse matrix: 1000000000 columns need 1000000001 pointers, got 2"),
    ],
)  # fmt: skip
def test_sparse_matrices_are_looked_at_before_they_are_written_out(tmp_path, capsys, change, message):
    tracemalloc.start()
    refused_in_one_line(tmp_path / "bad.npz", GOOD | change, message, capsys)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **(GOOD | {"W": np.array([{}, {}], dtype=object)}))
    with pytest.raises(ValueError, match=r"bad\.npz: W cannot be read: Object arrays cannot be loaded"):
        read_problem(path)


def test_what_is_not_data_cannot_be_written(tmp_path):
    path, box = tmp_path / "problem.npz", ds.Box(np.ones(2))
    sampled = ds.Multilinear.sampled(len, n=2)
    called = ds.CallableObjective(lambda x: (x.sum(), np.ones(2)), n=2)
    for f in (called, sampled, ds.MeanField(sampled)):
        with pytest.raises(ds.UnsupportedError, match=r"cannot be written: a file holds arrays, .* flid"):
            write_problem(path, f, box)
    with pytest.raises(ds.UnsupportedError, match="bounds below its total"):
        write_problem(path, ds.Quadratic(-np.eye(2), np.ones(2)), ds.Simplex(2).with_upper([0.5, 1.0]))
    assert not path.exists()
