"""Batches on a real Dask cluster: workers that die, runs that go on from what another one has done."""

import os
import signal
import time
from contextlib import closing
from itertools import islice

import numpy as np
import pytest

import drsub_fast as ds

distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")


@pytest.fixture
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", protocol="tcp") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill_a_worker(client):
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        pytest.skip("this cluster has not started a worker anew")
    # One that was killed before may still be counted, and does not answer.
    alive = client.run(os.getpid, on_error="ignore")
    os.kill(next(iter(alive.values())), signal.SIGKILL)


def slow_value(x):
    time.sleep(0.002)
    return 1.0 - x @ x, -2.0 * x


def slow_batch():
    f = ds.CallableObjective(slow_value, n=2)
    return [(f, ds.Box([1.0 + i, 1.0]), {"max_iter": 20 + i}) for i in range(30)]


def slow_stream(client, **options):
    executor = client.get_executor()
    return ds.maximize_iter(slow_batch(), "frank-wolfe", executor=executor, n_jobs=2, chunk_size=2, **options)


def steps(results):
    return [r.n_iter for r in results]


EXPECTED = steps(ds.frank_wolfe(f, P, **options) for f, P, options in slow_batch())


def test_a_cluster_that_loses_a_worker_loses_nothing(client):
    with closing(slow_stream(client)) as stream:
        results = [next(stream)]
        kill_a_worker(client)
        results += stream
    assert steps(results) == EXPECTED
    assert all(r.status is not ds.Status.FAILED for r in results)


def test_a_run_that_was_stopped_goes_on_from_its_checkpoint_though_both_lose_a_worker(client, tmp_path):
    with closing(slow_stream(client, checkpoint=tmp_path)) as stream:
        first = [next(stream)]
        kill_a_worker(client)
        first += islice(stream, 7)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("chunk-*.npz")}
    assert steps(first) == EXPECTED[:8]
    assert len(kept) >= 4
    kill_a_worker(client)
    with closing(slow_stream(client, checkpoint=tmp_path)) as stream:
        assert steps(stream) == EXPECTED
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in kept.items())


def test_a_stack_does_not_mind_a_lost_worker(client, tmp_path):
    rng = np.random.default_rng(3)
    arrays = {"H": -np.eye(3) - rng.random((40, 1, 1)), "h": 3.0 * rng.random((40, 3)), "upper": np.ones(3)}
    options = {"method": "frank-wolfe", "max_iter": 8}
    expected = ds.maximize_stacked(**arrays, **options, n_jobs=1)
    for _ in range(2):  # the second takes what the first has left in the checkpoint
        kill_a_worker(client)
        executor = client.get_executor(pure=False)
        result = ds.maximize_stacked(**arrays, **options, executor=executor, checkpoint=tmp_path)
        for name in ("x", "value", "fw_gap", "upper_bound", "status"):
            assert np.array_equal(getattr(result, name), getattr(expected, name))


def test_choices_for_many_users_on_a_cluster_change_no_bit(client):
    V = np.random.default_rng(5).standard_normal((30, 12, 5))
    one = ds.greedy_map_stacked(features=V, size=4, n_jobs=1)
    other = ds.greedy_map_stacked(features=V, size=4, executor=client)
    assert other.value.tobytes() == one.value.tobytes()
    np.testing.assert_array_equal(other.items, one.items)
