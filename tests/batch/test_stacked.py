"""Stacked problems: the answers of single solves, errors by problem, broadcasting, checkpoints of arrays."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch.checkpoint import Checkpoint
from drsub_fast.batch.problem_stack import ProblemStack
from drsub_fast.batch.stack_loop import solve_stack
from drsub_fast.engine import jit
from drsub_fast.solvers.continuous_greedy import additive_loop

N, B = 6, 40
METHODS = {
    "frank-wolfe": {},
    "fully-corrective-frank-wolfe": {},
    "monotone-frank-wolfe": {},
    "multi-start": {"n_starts": 4, "seed": 3},
    "nonmonotone-frank-wolfe": {},
    "projected-gradient": {},
    "two-phase-frank-wolfe": {},
}


def stack(seed=0, count=B, n=N):
    """Random quadratics with H (count, n, n), h, and bounds."""
    rng = np.random.default_rng(seed)
    H = -rng.random((count, n, n))
    H = (H + H.transpose(0, 2, 1)) / 2
    return {"H": H, "h": n * rng.random((count, n)) / 3, "upper": 0.1 + rng.random((count, n))}


def polytopes(seed=1, count=B, n=N, m=4):
    rng = np.random.default_rng(seed)
    return {"A": 0.01 + rng.random((count, m, n)), "b": np.ones((count, m))}


def solve(arrays, method="nonmonotone-frank-wolfe", **options):
    return ds.maximize_stacked(**arrays, method=method, **{"n_jobs": 1, "max_iter": 30} | options)


def assert_same(result, i, single):
    assert np.array_equal(result.x[i], single.x)
    assert result.value[i] == single.value
    assert result.upper_bound[i] == single.upper_bound
    assert result.status[i] is single.status
    assert (result.n_iter[i], result.n_lmo[i]) == (single.n_iter, single.n_lmo)
    assert result.fw_gap[i] == single.fw_gap
    assert result[i].guarantee == result.guarantee[i] == single.guarantee


@pytest.mark.parametrize("method", METHODS)
def test_boxes_are_solved_as_single_problems_are(method):
    arrays = stack()
    result = solve(arrays, method, trace=True, **METHODS[method])
    for i in range(B):
        f, P = ds.Quadratic(arrays["H"][i], arrays["h"][i]), ds.Box(arrays["upper"][i])
        single = ds.maximize(f, P, bound="cheap", method=method, max_iter=30, **METHODS[method])
        assert_same(result, i, single)
        stop = len(single.trace.value)
        assert np.array_equal(result.trace_value[i, :stop], single.trace.value)
        assert np.array_equal(result.trace_fw_gap[i, :stop], single.trace.fw_gap, equal_nan=True)
        assert np.isnan(result.trace_value[i, stop:]).all()
    assert not result.messages


def test_polytopes_are_solved_as_single_problems_are():
    arrays = {**stack(), **polytopes()}
    for upper in (arrays["upper"], None):
        result = solve(arrays | {"upper": upper})
        for i in range(0, B, 3):
            P = ds.Polytope(arrays["A"][i], arrays["b"][i], None if upper is None else upper[i])
            single = ds.nonmonotone_frank_wolfe(ds.Quadratic(arrays["H"][i], arrays["h"][i]), P, max_iter=30)
            assert_same(result, i, single)


def test_guarantees_go_with_their_problems(interpreted):
    arrays = stack(count=6)
    arrays["c"] = np.where(np.arange(6) < 2, -5.0, 50.0)  # f(0) < 0 in two of them
    result = solve(arrays)
    assert not result.guaranteed[:2].any()
    assert result.guaranteed[2:].any()
    assert all("< 0 was met" in guarantee.statement for guarantee in result.guarantee[:2])
    order = np.array([5, 0, 3])
    assert list(result[order].guarantee) == list(result.guarantee[order])
    for copied in (pickle.loads(pickle.dumps(solve(arrays))), solve(arrays)[:]):
        assert list(copied.guarantee) == list(result.guarantee)
        assert pickle.loads(pickle.dumps(copied[4])).guarantee == result.guarantee[4]
    with ThreadPoolExecutor(1) as pool:
        assert list(solve(arrays, executor=pool).guarantee) == list(result.guarantee)
    arrays["H"][3, 0, 0] = 1.0
    assert solve(arrays)[3].guarantee.ratio is None


def test_a_stack_says_how_many_starts_it_takes(interpreted):
    result = solve(stack(count=2), "multi-start")
    assert result.n_starts == result[:1].n_starts == 16
    assert "16 a problem" in str(result)
    assert solve(stack(count=2)).n_starts == 1


SECOND_PHASES = [
    {"method": "two-phase-frank-wolfe"},
    {"method": "two-phase-frank-wolfe", "subroutine": "fully-corrective-frank-wolfe"},
    {"method": "multi-start", "n_starts": 3},
]


@pytest.mark.parametrize("options", SECOND_PHASES)
def test_a_second_phase_gives_the_bound_and_the_gap_of_single_problems(options):
    options = options | {"max_iter": 30}
    rng = np.random.default_rng(2)
    factor = 14.0 * rng.normal(size=(20, N, N))
    L = factor @ factor.transpose(0, 2, 1)
    L = (L + L.transpose(0, 2, 1)) / 2
    sets = {"A": 0.01 + rng.random((20, 4, N)), "b": np.full((20, 4), 2.0)}
    low_rank = {"factor": 20.0 * rng.normal(size=(3, 40, 5)), "upper": np.full(40, 0.004)}
    better = won = 0
    for arrays, unit_box in (({"L": L, **sets}, True), ({"L": L, **sets}, False), (low_rank, True)):
        result = ds.maximize_stacked(**arrays, unit_box=unit_box, n_jobs=1, **options)
        problems = ProblemStack(None, None, {"unit_box": unit_box, **arrays})
        for i in range(problems.count):
            single = ds.maximize(*problems.single(i), bound="cheap", **options)
            assert result.upper_bound[i] == pytest.approx(single.upper_bound, rel=1e-12)
            assert result.fw_gap[i] == pytest.approx(single.fw_gap, rel=1e-9, abs=1e-12)
            assert result.n_lmo[i] == single.n_lmo
            assert result[i].guarantee == single.guarantee
            better += single.upper_bound < single.phases[0].upper_bound
            won += single.phase == 2
    assert better >= 20
    assert won >= 1


def test_the_oracle_outside_the_kernel_serves_a_stack():
    arrays = {**stack(count=3), **polytopes(count=3)}
    by_solver, by_kernel = solve(arrays, lmo="highs"), solve(arrays)
    assert np.allclose(by_solver.value, by_kernel.value, rtol=1e-9)


def test_budgets_are_solved_as_single_problems_are():
    arrays = stack() | {"k": np.linspace(0.0, 2.0, B)}
    result = solve(arrays)
    for i in range(0, B, 5):
        f, P = ds.Quadratic(arrays["H"][i], arrays["h"][i]), ds.Budget(arrays["k"][i], arrays["upper"][i])
        assert_same(result, i, ds.nonmonotone_frank_wolfe(f, P, max_iter=30))


def test_softmax_kernels_are_solved_as_single_problems_are():
    factor = np.random.default_rng(2).normal(size=(8, N, N))
    L = factor @ factor.transpose(0, 2, 1)
    L = (L + L.transpose(0, 2, 1)) / 2
    L[5] -= 3.0 * np.eye(N)
    upper = np.full(N, 2.0)
    result = solve({"L": L, "upper": upper})
    for i in (0, 3, 7):
        single = ds.nonmonotone_frank_wolfe(ds.Softmax(L[i]), ds.Box(upper), max_iter=30)
        assert result.value[i] == pytest.approx(single.value, rel=1e-12)
        assert result.x[i].max() <= 1.0
        assert result.status[i] is single.status
    assert "not positive semidefinite" in result.messages[5]


def test_arrays_without_a_stack_axis_serve_all_problems():
    arrays = stack()
    shared = {"H": arrays["H"][0], "h": arrays["h"], "upper": arrays["upper"][0]}
    repeated = shared | {"H": np.repeat(arrays["H"][:1], B, 0), "upper": np.repeat(arrays["upper"][:1], B, 0)}
    assert np.array_equal(solve(shared).x, solve(repeated).x)
    assert np.array_equal(solve(shared | {"c": 1.5}).value, solve(repeated | {"c": np.full(B, 1.5)}).value)


def test_every_number_of_workers_gives_the_same_bits():
    arrays = stack(count=300)
    one = solve(arrays, "two-phase-frank-wolfe")
    for n_jobs in (2, 5, None):
        other = solve(arrays, "two-phase-frank-wolfe", n_jobs=n_jobs)
        for name in ("x", "value", "fw_gap", "upper_bound", "status", "n_iter", "n_lmo"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_other_types_and_layouts_are_converted_without_a_new_specialisation():
    arrays = stack()
    expected = solve(arrays)
    compiled = len(getattr(solve_stack, "signatures", ()))
    read_only = {name: array.copy() for name, array in arrays.items()}
    for array in read_only.values():
        array.flags.writeable = False
    fortran = {name: np.asfortranarray(array) for name, array in arrays.items()}
    swapped = {name: array.astype(">f8") for name, array in arrays.items()}
    strided = {name: np.repeat(array, 2, axis=0)[::2] for name, array in arrays.items()}
    lists = {name: array.tolist() for name, array in arrays.items()}
    for variant in (read_only, fortran, swapped, strided, lists):
        assert np.array_equal(solve(variant).x, expected.x)
    assert len(getattr(solve_stack, "signatures", ())) == compiled


def test_a_bad_problem_is_recorded_and_the_others_go_on():
    arrays = stack()
    expected = solve(arrays)
    arrays["H"][7, 2, 3] = arrays["H"][7, 3, 2] = 0.2
    arrays["h"][11, 4] = np.nan
    arrays["upper"][13, 0] = -1.0
    arrays["H"][17, 0, 1] -= 0.5
    result = solve(arrays, n_jobs=2)
    assert list(result.messages) == [7, 11, 13, 17]
    assert result.messages[7].startswith("problem 7: H[2, 3] = 0.2 is positive")
    assert result.messages[11].startswith("problem 11: h[4] = nan is not finite")
    assert result.messages[13].startswith("problem 13: upper[0] = -1 is negative")
    assert "is not symmetric" in result.messages[17]
    bad = np.isin(np.arange(B), list(result.messages))
    assert (result.status[bad] == ds.Status.FAILED).all()
    assert np.isnan(result.x[bad]).all()
    assert np.isnan(result.value[bad]).all()
    assert np.array_equal(result.x[~bad], expected.x[~bad])
    for n_jobs in (1, 3):
        with pytest.raises(ValueError, match=r"problem 7: H\[2, 3\] = 0.2 is positive"):
            solve(arrays, on_error="raise", n_jobs=n_jobs)


def test_a_rounding_asymmetry_is_averaged_away_as_in_a_single_solve():
    arrays = stack(count=2)
    arrays["H"][1, 0, 1] *= 1.0 + 1e-13
    result = solve(arrays)
    single = ds.nonmonotone_frank_wolfe(
        ds.Quadratic(arrays["H"][1], arrays["h"][1]), ds.Box(arrays["upper"][1]), max_iter=30
    )
    assert_same(result, 1, single)


def test_short_steps_take_the_curvature_bound_of_each_problem():
    arrays = stack(count=5)
    result = solve(arrays, "frank-wolfe", step_size="short", max_iter=20)
    given = solve(arrays, "frank-wolfe", step_size="short", max_iter=20, curvature=np.full(5, 7.0))
    for i in range(5):
        f, P = ds.Quadratic(arrays["H"][i], arrays["h"][i]), ds.Box(arrays["upper"][i])
        assert_same(result, i, ds.frank_wolfe(f, P, step_size="short", max_iter=20))
        assert_same(given, i, ds.frank_wolfe(f, P, step_size="short", max_iter=20, curvature=7.0))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"H": None}, TypeError, "give one of H and factor"),
        ({"H": None, "h": None}, TypeError, "objective is missing"),
        ({"upper": None}, TypeError, "set is missing"),
        ({"h": np.ones((3, N))}, ValueError, "different lengths"),
        ({"h": np.ones(N + 1)}, ValueError, "h has shape"),
        ({"upper": np.ones((B, N), complex)}, TypeError, "upper is complex"),
        ({"L": np.eye(N)}, TypeError, "no objective has all of H, h, L"),
        ({"h": np.ones((B, N, 1))}, ValueError, "h must have 1 axes"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        solve(stack() | changes)


@pytest.mark.parametrize("options", [{"method": "magic"}, {"on_error": "ignore"}, {"lmo": "x"}, {"n_jobs": 0}])
def test_unknown_options_are_refused(options):
    with pytest.raises(ValueError, match=r"unknown|must be at least"):
        ds.maximize_stacked(**stack(), **options)


def test_an_answer_is_read_by_index_and_by_slice():
    result = solve(stack())
    answer = result[-1]
    assert answer.value == result.value[B - 1]
    assert answer.status is ds.Status.COMPLETED
    assert answer.message.endswith(ds.Status.COMPLETED.value)
    part = result[10:20]
    assert len(part) == 10
    assert np.array_equal(part.x, result.x[10:20])
    assert np.array_equal(pickle.loads(pickle.dumps(result)).value, result.value)


def test_an_answer_says_what_code_ran_it(monkeypatch, tmp_path):
    arrays = stack(count=3)
    for mode, compiled in (("never", False), ("now", True)):
        if jit.COMPILE != "never":
            monkeypatch.setattr(jit, "COMPILE", mode)
            for kernel in (solve_stack, additive_loop):  # as in a new process
                monkeypatch.setattr(kernel, "_code", {})
                monkeypatch.setattr(kernel, "entries", {})
        elif compiled:
            continue
        # By one loop, one by one, in pieces.
        for options in ({}, {"time_limit": 60.0}, {"checkpoint": tmp_path / mode}):
            assert solve(arrays, **options).compiled is compiled
        result = solve(arrays)
        assert result[1:].compiled is compiled
        assert (", compiled" if compiled else ", in plain Python") in str(result)
        assert solve(arrays, checkpoint=tmp_path / mode).compiled is None


def test_an_empty_stack_has_an_empty_answer():
    result = solve({name: array[:0] for name, array in stack().items()})
    assert len(result) == 0
    assert result.compiled is None
    assert result.x.shape == (0, N)


def test_a_checkpoint_is_resumed_and_that_of_other_inputs_refused(tmp_path, monkeypatch):
    arrays = stack(count=1000)
    arrays["h"][3, 0] = np.inf
    expected = solve(arrays, trace=True)
    stored = []

    def store_some(self, index, problems, chunk, store=Checkpoint.store):
        if len(stored) == 20:
            raise KeyboardInterrupt
        stored.append(index)
        store(self, index, problems, chunk)

    monkeypatch.setattr(Checkpoint, "store", store_some)
    partial = solve(arrays, trace=True, checkpoint=tmp_path)
    assert (partial.status == ds.Status.INTERRUPTED).sum() > 500
    monkeypatch.undo()
    (tmp_path / "chunk-00000044.npz.partial").write_bytes(b"half of a chunk")
    finished = solve(arrays, trace=True, checkpoint=tmp_path, n_jobs=2)
    again = solve(arrays, trace=True, checkpoint=tmp_path)
    for result in (finished, again):
        for name in ("x", "value", "fw_gap", "upper_bound", "n_iter", "n_lmo", "trace_value", "trace_fw_gap"):
            assert np.array_equal(getattr(result, name), getattr(expected, name), equal_nan=True)
        assert (result.status == expected.status).all()
        assert result.messages == expected.messages
    for other, words in ((arrays | {"h": arrays["h"] + 1.0}, "other problems"), (arrays | {"c": 1.0}, "other inputs")):
        with pytest.raises(ds.CheckpointError, match=words):
            solve(other, trace=True, checkpoint=tmp_path)
    with pytest.raises(ds.CheckpointError, match="other inputs"):
        solve(arrays, trace=True, checkpoint=tmp_path, max_iter=31)


def test_a_folder_that_is_no_checkpoint_and_a_broken_chunk_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ds.CheckpointError, match="holds no checkpoint"):
        solve(stack(), checkpoint=tmp_path)
    folder = tmp_path / "new"
    solve(stack(), checkpoint=folder)
    (folder / "chunk-00000001.npz").write_bytes(b"PK nonsense")
    with pytest.raises(ds.CheckpointError, match="chunk-00000001"):
        solve(stack(), checkpoint=folder)


def test_short_steps_without_a_curvature_bound_fail_alone():
    # f of the first problem is -inf at the corner of its box, so that no bound on its curvature is known.
    B = np.arange(8.0).reshape(4, 2)
    L = np.stack([B @ B.T, np.eye(4)])
    options = {"L": L, "upper": np.ones(4), "method": "frank-wolfe", "step_size": "short", "n_jobs": 1}
    r = ds.maximize_stacked(**options)
    assert r.status_names().tolist() == ["FAILED", "CONVERGED"]
    assert list(r.messages) == [0]
    assert "curvature=" in r.messages[0]
    assert np.isfinite(ds.maximize_stacked(curvature=[2.0, 3.0], **options).value).all()
