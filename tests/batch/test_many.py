"""Many problems by executors: order, laziness, errors, checkpoints, lost workers, interrupts."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import drsub_fast as ds
from drsub_fast.engine.threads import one_blas_thread

OPTIONS = {"method": "frank-wolfe", "max_iter": 20}


def quadratic(n, seed):
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    return ds.Quadratic((H + H.T) / 2, n * rng.random(n) / 2)


def problems(count, seed=0):
    """Quadratics of several sizes over boxes and budgets."""
    for i in range(count):
        n = 3 + i % 4
        yield quadratic(n, seed + i), ds.Box(np.full(n, 0.5)) if i % 2 else ds.Budget(1.0, np.ones(n))


def values(results):
    return [r.value for r in results]


def serial(count):
    return [ds.frank_wolfe(f, P, max_iter=20).value for f, P in problems(count)]


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_are_those_of_single_solves_in_order(n_jobs):
    assert values(ds.maximize_many(problems(40), n_jobs=n_jobs, chunk_size=3, **OPTIONS)) == serial(40)


def test_any_executor_serves():
    with ThreadPoolExecutor(2) as executor:
        assert values(ds.maximize_many(problems(20), executor=executor, **OPTIONS)) == serial(20)
        assert executor.submit(int, "7").result() == 7  # still open
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        assert values(ds.maximize_many(problems(6), executor=executor, **OPTIONS)) == serial(6)


def test_problems_are_consumed_a_bounded_number_ahead():
    taken = itertools.count()
    endless = ((next(taken), problem)[1] for problem in itertools.cycle(list(problems(4))))
    results = ds.maximize_iter(endless, n_jobs=2, chunk_size=2, **OPTIONS)
    assert values(itertools.islice(results, 10)) == (serial(4) * 3)[:10]
    results.close()
    assert next(taken) <= 10 + 2 * 3 * 2 + 2


def test_a_problem_may_bring_options_of_its_own():
    f, P = quadratic(3, 0), ds.Box(np.ones(3))
    short, long = ds.maximize_many([(f, P, {"max_iter": 2}), (f, P)], **OPTIONS)
    assert (short.n_iter, long.n_iter) == (2, 20)


def test_a_bad_problem_is_recorded_and_the_others_go_on():
    def broken(x):
        raise ZeroDivisionError("no value here")

    batch = list(problems(5))
    batch[2] = (ds.CallableObjective(broken, n=3), ds.Box(np.ones(3)))
    batch[3] = (quadratic(3, 0), ds.Box(np.ones(4)))
    results = ds.maximize_many(batch, n_jobs=2, **OPTIONS)
    assert [r.status is ds.Status.FAILED for r in results] == [False, False, True, True, False]
    assert "ZeroDivisionError: no value here" in results[2].message
    assert "the objective has 3 variables, the set 4" in results[3].message
    assert np.isnan(results[2].x).all()
    assert results[2].x.shape == (3,)
    with pytest.raises(ZeroDivisionError) as caught:
        ds.maximize_many(batch, n_jobs=1, on_error="raise", **OPTIONS)
    assert "problem 2" in caught.value.__notes__[0]


@pytest.mark.parametrize("item", [quadratic(3, 0), (quadratic(3, 0),), (1, 2, 3)])
def test_an_item_that_is_no_problem_is_refused(item):
    with pytest.raises(TypeError, match="a problem is a pair"):
        ds.maximize_many([item])


def test_an_unknown_method_is_refused_at_once():
    with pytest.raises(ValueError, match="unknown method"):
        ds.maximize_iter([], method="magic")


def test_objects_and_results_survive_pickling():
    f, P = quadratic(4, 0), ds.Polytope(np.ones((2, 4)), np.ones(2))
    result = ds.two_phase_frank_wolfe(f, P)
    copies = pickle.loads(pickle.dumps((f, P, ds.Softmax(np.eye(3)), result)))
    again = ds.two_phase_frank_wolfe(copies[0], copies[1])
    assert again.value == result.value == copies[3].value
    assert copies[3].status is result.status


def test_what_a_solve_remembers_does_not_change_the_pickle():
    f, P = quadratic(4, 0), ds.Box(np.ones(4))
    before = pickle.dumps((f, P))
    ds.two_phase_frank_wolfe(f, P)
    assert len(pickle.dumps((f, P))) == len(before)


def test_workers_use_one_blas_thread_and_the_limit_is_lifted_afterwards():
    def threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    seen = []

    def objective(x):
        seen.append(threads())
        return 1.0 - x @ x, -2.0 * x

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        ds.maximize_many([(ds.CallableObjective(objective, n=2), ds.Box([1.0, 1.0]))], n_jobs=1, **OPTIONS)
        with one_blas_thread(), one_blas_thread():
            pass
        assert threads() == before
    assert all(inside == {1} for inside in seen)


def test_a_checkpoint_is_resumed_and_that_of_other_problems_refused(tmp_path):
    calls = tmp_path / "calls"  # what is recorded may not be part of the problem
    calls.mkdir()

    def problem(i):
        def objective(x):
            (calls / str(i)).touch()
            return i + 1.0 - x @ x, -2.0 * x

        return ds.CallableObjective(objective, n=2), ds.Box([1.0, 1.0])

    stream = (problem(i) for i in range(10))
    options = {"n_jobs": 1, "chunk_size": 2, "checkpoint": tmp_path / "kept", "method": "frank-wolfe", "max_iter": 2}
    first = ds.maximize_iter(stream, **options)
    begun = [next(first).value for _ in range(5)]
    first.close()
    done = set(calls.iterdir())
    for path in done:
        path.unlink()
    results = ds.maximize_many([problem(i) for i in range(10)], **options | {"chunk_size": 7})
    assert values(results)[:5] == begun
    assert values(results) == [i + 1.0 for i in range(10)]
    assert not done & set(calls.iterdir())
    with pytest.raises(ds.CheckpointError, match="other problems"):
        ds.maximize_many(problems(10), **options)
    with pytest.raises(ds.CheckpointError, match="longer batch"):
        ds.maximize_many([problem(i) for i in range(4)], **options)
    with pytest.raises(ds.CheckpointError, match="other inputs"):
        ds.maximize_many([problem(i) for i in range(10)], **options | {"max_iter": 3})


#: From problem 10 on, the objectives wait until standard input ends.
SCRIPT = """
import faulthandler, signal, sys, threading
faulthandler.dump_traceback_later(200, exit=True)  # a run that hangs says where
import drsub_fast as ds

def told(*arguments):
    print("told", flush=True)
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, told)
gate = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), gate.set()), daemon=True).start()

def quadratic(i):
    def evaluate(x):
        if i >= 10:
            gate.wait()
        return 1.0 - x @ x, -2.0 * x
    return ds.CallableObjective(evaluate, n=2)

batch = [(quadratic(i), ds.Box([1.0 + i, 1.0])) for i in range(40)]
results = ds.maximize_many(
    batch, method="nonmonotone-frank-wolfe", max_iter=10, n_jobs=2, chunk_size=1, checkpoint=sys.argv[1] or None
)
print(len(results), repr([r.value for r in results]))
"""


def start_script(folder):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path[1:]])}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], stdin=pipe, stdout=pipe, env=environment)


def wait_for_chunks(process, folder, at_least):
    end = time.monotonic() + 200
    while len(list(folder.glob("chunk-*.npz"))) < at_least:
        assert process.poll() is None, "the batch ended early"
        assert time.monotonic() < end, "the batch makes no progress"
        time.sleep(0.01)


def run_script(folder):
    with start_script(folder) as process:
        return process.communicate(timeout=300)[0]


def test_a_killed_run_resumes_to_the_same_results(tmp_path):
    with start_script(tmp_path) as process:
        wait_for_chunks(process, tmp_path, 5)
        process.send_signal(signal.SIGKILL)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("chunk-*.npz")}
    assert 5 <= len(kept) <= 10
    resumed = run_script(tmp_path)
    assert resumed.startswith(b"40 ")
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in kept.items())
    assert len(list(tmp_path.glob("chunk-*.npz"))) == 40
    assert run_script(tmp_path / "fresh") == resumed


def test_an_interrupted_run_returns_and_checkpoints_what_is_done(tmp_path):
    with start_script(tmp_path) as process:
        wait_for_chunks(process, tmp_path, 5)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"told\n"
        out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    n_results = int(out.split()[0])
    assert 3 <= n_results < 40
    assert len(list(tmp_path.glob("chunk-*.npz"))) >= n_results
