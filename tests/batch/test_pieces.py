"""Stacks in pieces: by executors of several kinds, with a checkpoint; messages by the number of the problem."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch.pieces import HELD, SENT, stack_in_memory
from drsub_fast.batch.workers import Here

B, N = 70, 4


def stack():
    rng = np.random.default_rng(3)
    H = -rng.random((B, N, N))
    return {"H": (H + H.transpose(0, 2, 1)) / 2, "h": N * rng.random((B, N)) / 2, "upper": np.ones(N), "c": 1.0}


def solve(arrays, **options):
    return ds.maximize_stacked(**arrays, **{"method": "frank-wolfe", "max_iter": 8} | options)


def assert_same(one, other):
    for name in ("x", "value", "fw_gap", "upper_bound", "n_iter", "n_lmo"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
    assert (one.status == other.status).all()
    assert (one.messages, one.method) == (other.messages, other.method)


def test_threads_processes_and_loky_give_the_same_answers():
    arrays = stack()
    arrays["h"][[2, 69], 1] = np.nan
    expected = solve(arrays, n_jobs=1)
    assert list(expected.messages) == [2, 69]
    with ThreadPoolExecutor(2) as pool:
        assert_same(solve(arrays, executor=pool), expected)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert_same(solve(arrays, executor=pool), expected)
        assert pool.submit(int, "7").result() == 7  # still open
    assert_same(solve(arrays, executor=Here()), expected)


def test_joblib_brings_an_executor():
    joblib = pytest.importorskip("joblib", reason="needs joblib")
    pool = joblib.externals.loky.get_reusable_executor(max_workers=1)
    try:
        assert_same(solve(stack(), executor=pool), solve(stack(), n_jobs=1))
    finally:
        pool.shutdown()


def test_a_checkpoint_of_an_executor_serves_threads_and_the_other_way_round(tmp_path):
    expected = solve(stack(), n_jobs=1)
    assert_same(solve(stack(), executor=Here(), checkpoint=tmp_path), expected)
    (tmp_path / "chunk-00000003.npz").unlink()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("chunk-*")}
    assert_same(solve(stack(), n_jobs=2, checkpoint=tmp_path), expected)
    assert all((tmp_path / name).read_bytes() == content for name, content in before.items())


def test_traces_and_curvatures_go_with_their_problems():
    options = {"step_size": "short", "curvature": np.linspace(1.0, 9.0, B), "trace": True}
    expected, pieces = solve(stack(), n_jobs=1, **options), solve(stack(), executor=Here(), **options)
    assert_same(pieces, expected)
    assert np.array_equal(pieces.trace_value, expected.trace_value, equal_nan=True)
    assert np.array_equal(pieces.trace_fw_gap, expected.trace_fw_gap, equal_nan=True)


def test_an_error_is_raised_with_the_number_of_its_problem():
    arrays = stack()
    arrays["h"][41, 3] = np.inf
    with pytest.raises(ValueError, match=r"problem 41: h\[3\] = inf"):
        solve(arrays, executor=Here(), on_error="raise")


class Interrupted(Here):
    """An executor that is interrupted at its fifth task."""

    tasks = 0

    def submit(self, function, /, *args, **kwargs):
        self.tasks += 1
        if self.tasks == 5:
            raise KeyboardInterrupt
        return super().submit(function, *args, **kwargs)


def test_ctrl_c_returns_what_is_done():
    expected, result = solve(stack(), n_jobs=1), solve(stack(), executor=Interrupted(), n_jobs=1)
    done = result.status != ds.Status.INTERRUPTED
    count = int(done.sum())
    assert 0 < count < B
    assert done[:count].all()
    assert np.array_equal(result.x[:count], expected.x[:count])
    assert list(result.messages) == list(range(count, B))


def test_a_time_limit_is_that_of_each_problem():
    # A limit that never ends a run changes the loop that solves the problems, and no answer.
    assert np.allclose(solve(stack(), n_jobs=1, time_limit=1e9).value, solve(stack(), n_jobs=1).value, rtol=1e-12)
    with pytest.raises(ValueError, match="time_limit"):
        solve(stack(), time_limit=-1.0)


def test_pieces_are_small_in_bytes_and_many():
    def size(count, n, limit=SENT, pieces=64):
        return stack_in_memory({}, {"H": np.broadcast_to(0.0, (count, n, n))}).size(limit, pieces)

    assert size(10, 3) == 1
    assert size(6400, 3) == 100
    assert size(6400, 3, pieces=16) == 400
    assert size(10**7, 16) * 16 * 16 * 8 <= SENT < (size(10**7, 16) + 1) * 16 * 16 * 8
    assert size(10**7, 16, HELD) > size(10**7, 16)
    assert size(4, 2000) == 1  # one that is larger than the limit is still a piece
