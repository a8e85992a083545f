"""Fully corrective Frank-Wolfe where f is not quadratic: Newton steps on the model over the hull of the atoms."""

import numpy as np
import pytest
import scipy
from scipy.optimize import minimize

import drsub_fast as ds
from drsub_fast.solvers.atoms import (
    END,
    _drop_atom,
    _gather,
    add_atom,
    add_atom_to,
    atom_dot,
    atoms_size,
    find_atom,
    has_room,
    open_atoms,
)
from drsub_fast.solvers.fully_corrective import _mix_in
from drsub_fast.solvers.multi_start import CORRECTIVE, SPECTRAL, local_solver

N = 14


def random_kernel(n, seed, rank=None):
    rng = np.random.default_rng(seed)
    if rank is not None:
        B = rng.standard_normal((n, rank))
        return B @ B.T
    U, _ = np.linalg.qr(rng.standard_normal((n, n)))
    L = (U * rng.uniform(0.0, 6.0, n)) @ U.T
    return (L + L.T) / 2


def concave(A):
    """sum log(1 + (Ax)_i) - 0.3 |x|^2, given as a Python function."""

    def value_and_gradient(x):
        y = 1.0 + A @ x
        return float(np.log(y).sum() - 0.3 * x @ x), A.T @ (1.0 / y) - 0.6 * x

    return ds.CallableObjective(value_and_gradient, n=A.shape[1])


def objectives():
    rng = np.random.default_rng(2)
    W = rng.random((N, 3))
    signs = np.where(rng.random(3 * N) < 0.5, -1.0, 1.0)
    return {
        "softmax": ds.Softmax(random_kernel(N, 2)),
        "factor": ds.Softmax(factor=rng.standard_normal((40, 6))),
        "mean field": ds.MeanField(ds.Multilinear.flid(W.sum(axis=1), W)),
        "multilinear": ds.Multilinear.flid(W.sum(axis=1), W),
        "logistic": ds.LogisticNonconvex(rng.standard_normal((3 * N, N)), signs),
        "python": concave(W.T),
    }


def feasible_set(kind, n):
    if kind == "box":
        return ds.Box(np.linspace(0.3, 1.0, n))
    if kind == "budget":
        return ds.Budget(n / 4, np.ones(n))
    rng = np.random.default_rng(4)
    return ds.Polytope(rng.uniform(0.01, 1.0, (n // 2, n)), np.full(n // 2, n / 8), np.ones(n))


def check(f, P, result, tol=None):
    """The result is what it says it is: feasible, its value, a small gap; and f never fell on the way."""
    assert result.status is ds.Status.CONVERGED
    assert P.contains(result.x)
    scale = 1.0 + abs(result.value)
    assert result.value == pytest.approx(f.value(result.x), rel=1e-12, abs=1e-12)
    g = f.gradient(result.x)
    upper = np.minimum(P.upper, 1.0) if f.unit_box else P.upper
    tol = 1e-6 * scale if tol is None else tol  # the default is 1e-6 of the rise of f
    assert g @ (P.lmo(g, upper) - result.x) <= tol + 1e-9 * scale
    assert (np.diff(result.trace.value) >= -1e-13 * scale).all()


@pytest.mark.parametrize("kind", ["box", "budget", "polytope"])
@pytest.mark.parametrize("name", objectives())
def test_the_gap_is_closed_in_few_oracle_calls(name, kind):
    f = objectives()[name]
    P = feasible_set(kind, f.n)
    result = ds.fully_corrective_frank_wolfe(f, P)
    check(f, P, result)
    assert result.n_lmo == result.n_iter + 1 <= 2 * f.n + 10
    tight = ds.fully_corrective_frank_wolfe(f, P, tol=1e-9)
    check(f, P, tight, 1e-9)
    assert tight.n_lmo <= result.n_lmo + 6


@pytest.mark.parametrize("n", [60, 100])
def test_a_large_interior_optimum_takes_about_as_many_calls_as_it_has_fractions(n):
    f, P = ds.Softmax(random_kernel(n, n)), ds.Budget(20.0, np.ones(n))
    result = ds.fully_corrective_frank_wolfe(f, P)
    check(f, P, result)
    n_fractional = np.count_nonzero((result.x > 1e-9) & (result.x < 1.0 - 1e-9))
    assert n_fractional > 0.4 * n
    assert result.n_lmo <= 1.5 * n_fractional


@pytest.mark.parametrize("kind", ["budget", "polytope"])
def test_the_maximum_of_a_concave_function(kind):
    W = np.random.default_rng(5).random((3, N))
    f, P = concave(W), feasible_set(kind, N)
    result = ds.fully_corrective_frank_wolfe(f, P, tol=1e-9)
    rows, sides = (np.ones((1, N)), np.array([P.k])) if kind == "budget" else (P.A, P.b)
    best = minimize(
        lambda x: -f.value(x), np.zeros(N), jac=lambda x: -f.gradient(x), method="SLSQP", bounds=[(0.0, 1.0)] * N,
        constraints={"type": "ineq", "fun": lambda x: sides - rows @ x, "jac": lambda x: -rows},
        options={"ftol": 1e-12},
    )  # fmt: skip
    assert result.value == pytest.approx(-best.fun, rel=1e-8)
    np.testing.assert_allclose(result.x, best.x, atol=1e-4)


def test_differences_of_the_gradient_do_for_a_hessian():
    kernel = ds.Softmax(random_kernel(N, 7))
    python = ds.CallableObjective(kernel.value_and_gradient, n=N)
    P = feasible_set("polytope", N)
    exact, measured = (ds.fully_corrective_frank_wolfe(f, P, tol=1e-8) for f in (kernel, python))
    assert measured.value == pytest.approx(exact.value, rel=1e-10)
    assert abs(measured.n_iter - exact.n_iter) <= 3


def test_kernels_that_are_singular_on_the_way():
    rng = np.random.default_rng(11)
    outcomes = set()
    for trial in range(150):
        n = int(rng.integers(2, 20))
        f = ds.Softmax(random_kernel(n, trial, rank=int(rng.integers(1, n + 1))))
        P = ds.Budget(rng.uniform(0.5, n), np.ones(n)) if trial % 2 else ds.Box(np.ones(n))
        result = ds.fully_corrective_frank_wolfe(f, P)
        outcomes.add(result.status)
        if result.status is ds.Status.CONVERGED:
            check(f, P, result)
    assert ds.Status.CONVERGED in outcomes
    assert outcomes <= {ds.Status.CONVERGED, ds.Status.STALLED}


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_units_of_f_do_not_matter(scale):
    W = np.random.default_rng(3).random((3, N))
    f, P = concave(W), feasible_set("polytope", N)

    def scaled(x):
        value, gradient = f.value_and_gradient(x)
        return scale * value, scale * gradient

    g = ds.CallableObjective(scaled, n=N)
    plain = ds.fully_corrective_frank_wolfe(f, P)
    other = ds.fully_corrective_frank_wolfe(g, P, tol=1e-6 * scale)
    assert other.value == pytest.approx(scale * plain.value, rel=1e-9)
    assert abs(other.n_iter - plain.n_iter) <= 2


def store_of_atoms(n):
    floats, integers = atoms_size(n)
    return open_atoms(n, np.zeros(floats), np.zeros(integers, np.int64))


def combined(atoms, n):
    x = np.zeros(n)
    for i in range(atoms.count[0]):
        add_atom_to(atoms, i, atoms.weight[i], x)
    return x


def test_the_atoms_combine_to_the_iterate_even_when_their_store_is_full():
    n = 2
    rng = np.random.default_rng(1)
    atoms = store_of_atoms(n)
    for count in range(1, n + 5):
        point, share = rng.random(n), 1.0 if count == 1 else 0.3
        x = (1.0 - share) * combined(atoms, n) + share * point
        _mix_in(atoms, point, share, x)
        p = atoms.count[0]
        assert p <= n + 2
        assert atoms.weight[:p].sum() == pytest.approx(1.0)
        np.testing.assert_allclose(combined(atoms, n), x, atol=1e-15)
    add_atom(atoms, x, False)
    p = atoms.count[0]
    _mix_in(atoms, x.copy(), 0.5, x)  # one that is there already
    assert atoms.count[0] == p


def test_atoms_of_many_variables_keep_what_is_not_zero():
    n = 600
    rng = np.random.default_rng(2)
    atoms, kept = store_of_atoms(n), []
    for step in range(900):
        point = rng.random(n) * (rng.random(n) < (0.9 if step % 100 == 50 else 0.02)) * (step != 7)
        if not has_room(atoms, point):
            break
        assert find_atom(atoms, point) == -1
        add_atom(atoms, point, False)
        kept.append(point)
        if step % 3 == 2:  # an atom is dropped: the last one takes its place
            i = int(rng.integers(len(kept)))
            _drop_atom(atoms, i)
            last = kept.pop()
            if i < len(kept):
                kept[i] = last
        if step % 100 == 99:
            _gather(atoms)
            assert atoms.count[END] == sum(max(1, np.count_nonzero(point)) for point in kept)
    assert len(kept) == atoms.count[0] > 500
    direction = rng.random(n)
    for i in (0, 7, 100, len(kept) - 1):
        assert find_atom(atoms, kept[i]) == i
        assert atom_dot(atoms, i, direction) == pytest.approx(kept[i] @ direction, rel=1e-12)
    assert find_atom(atoms, kept[3] * (1.0 + 1e-9)) == -1


def test_a_start_at_a_vertex_and_a_full_store_of_atoms():
    f = ds.Softmax(random_kernel(3, 1))
    P = ds.Box(np.ones(3))
    for corner in np.ndindex(2, 2, 2):
        result = ds.fully_corrective_frank_wolfe(f, P, x0=np.array(corner, float), tol=1e-10)
        check(f, P, result, 1e-10)


def test_a_callback_and_a_chunked_run_change_nothing():
    f, P = ds.Softmax(random_kernel(40, 4)), ds.Budget(10.0, np.ones(40))
    whole = ds.fully_corrective_frank_wolfe(f, P)
    seen = []
    chunked = ds.fully_corrective_frank_wolfe(f, P, callback=lambda progress: seen.append(progress.value))
    np.testing.assert_array_equal(whole.x, chunked.x)
    assert len(seen) >= whole.n_iter - 1


def test_sparse_atoms_and_spectral_steps_agree_on_many_variables(interpreted):
    n, rng = 600, np.random.default_rng(3)
    R = scipy.sparse.random(n, n, density=0.005, random_state=4)
    H = -(R + R.T + scipy.sparse.diags_array(0.5 + rng.random(n)))
    f, P = ds.Quadratic(H, 0.5 + rng.random(n)), ds.Budget(3.0, np.ones(n))
    corrective = ds.fully_corrective_frank_wolfe(f, P, max_iter=60)
    spectral = ds.projected_gradient(f, P, step_size="spectral", max_iter=60)
    assert P.contains(corrective.x)
    assert f.value(corrective.x) == pytest.approx(corrective.value, rel=1e-12)
    assert corrective.value == pytest.approx(spectral.value, rel=2e-3)
    assert local_solver(f, P) is SPECTRAL
    assert local_solver(ds.Quadratic(-np.eye(5), np.ones(5)), ds.Box(np.ones(5))) is CORRECTIVE
