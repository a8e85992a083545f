"""Threads, forks, interrupts, other users of HiGHS, memory: each in a process of its own."""

import importlib.util
import os
import subprocess
import sys

import pytest

SETUP = """
import os, sys, threading, time
import numpy as np
import drsub_fast as ds

def problem(seed=0, n=6, m=3):
    rng = np.random.default_rng(seed)
    H = -rng.random((n, n))
    return ds.Quadratic((H + H.T) / 2, n * rng.random(n) / 2), ds.Polytope(0.01 + rng.random((m, n)), np.ones(m))

def solve(seed=0, **options):
    f, P = problem(seed)
    return ds.nonmonotone_frank_wolfe(f, P, max_iter=50, **options).value

def stack(count, n=6):
    rng = np.random.default_rng(0)
    H = -rng.random((count, n, n))
    return dict(H=(H + H.transpose(0, 2, 1)) / 2, h=n * rng.random((count, n)) / 2, upper=np.ones(n))
"""


def start(body, **environment):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path[1:]])} | environment
    command = [sys.executable, "-W", "error", "-c", SETUP + body]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(body, timeout=300, **environment):
    """Standard output of a script that has to end well and write nothing to standard error."""
    with start(body, **environment) as process:
        out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    assert err == ""
    return out


def layers():
    """Numba's threading layers that are installed."""
    modules = {"omp": "omppool", "tbb": "tbbpool", "workqueue": "workqueue"}
    for layer, module in modules.items():
        if importlib.util.find_spec(f"numba.np.ufunc.{module}") is None:
            yield pytest.param(layer, marks=pytest.mark.skip(reason=f"this Numba has no {layer} layer"))
        elif layer == "tbb" and importlib.util.find_spec("tbb") is None:
            yield pytest.param(layer, marks=pytest.mark.skip(reason="TBB is not installed"))
        else:
            yield layer


@pytest.mark.parametrize("layer", list(layers()))
def test_four_threads_solve_at_once_under_every_threading_layer(layer):
    out = run(
        """
answers = {}
def work(seed):
    answers[seed] = [solve(seed), *ds.maximize_stacked(**stack(50), method="nonmonotone-frank-wolfe", n_jobs=2).value]
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert [answers[s][0] for s in range(4)] == [solve(s) for s in range(4)]
assert all(answers[s][1:] == answers[0][1:] for s in range(4))
print("done")
""",
        NUMBA_THREADING_LAYER=layer,
    )
    assert out == "done\n"


def test_a_forked_child_solves_too():
    out = run(
        """
import warnings
layout = dict(method="nonmonotone-frank-wolfe", n_jobs=2)
before = [solve(), solve(lmo="highs"), ds.maximize_stacked(**stack(9), **layout).value[3]]
pid = os.fork()
again = [solve(), solve(lmo="highs"), ds.maximize_stacked(**stack(9), **layout).value[3]]
if pid == 0:
    os._exit(0 if again == before else 1)
end = time.monotonic() + 200
while (status := os.waitpid(pid, os.WNOHANG))[0] == 0:
    if time.monotonic() > end:
        os.kill(pid, 9)
        sys.exit("the child hangs")
    time.sleep(0.01)
print(status[1], again == before)
"""
    )
    assert out == "0 True\n"


@pytest.mark.parametrize("threads", [1, 4])
def test_another_user_of_highs_may_have_set_its_threads(threads):
    out = run(
        f"""
from highspy import _core
other = _core._Highs()
other.setOptionValue("output_flag", False)
other.setOptionValue("threads", {threads})
other.setOptionValue("parallel", "on")
infinity, one = np.array([np.inf]), np.ones(1)
other.passModel(1, 1, 1, 1, -1, 0.0, one, np.zeros(1), infinity, -infinity, one, np.array([0, 1], np.int32),
                np.zeros(1, np.int32), one, np.zeros(1, np.int32))
other.run()
assert abs(other.getSolution().col_value[0] - 1.0) < 1e-9
print(abs(solve(lmo="highs") - solve()) < 1e-9)
"""
    )
    assert out == "True\n"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_stack_returns_what_is_done(n_jobs):
    """Ctrl-C comes when the third piece has ended, and the workers wait until they are told."""
    out = run(f"""
import signal
from contextlib import contextmanager
from drsub_fast.batch import stacked, stack_run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
arrays = stack(1000)
options = dict(method="nonmonotone-frank-wolfe", n_jobs={n_jobs}, max_iter=10)
whole = ds.maximize_stacked(**arrays, **options)
told, stop = threading.Event(), stack_run.Turns.stop

def stop_and_tell(self, error=None):
    stop(self, error)
    told.set()

@contextmanager
def press(shown, total):
    pieces = []
    def count(done):
        pieces.append(done)
        if len(pieces) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        if len(pieces) >= 3:
            told.wait({0 if n_jobs == 1 else 200})
    yield count

stack_run.Turns.stop, stacked.progress_bar = stop_and_tell, press
result = ds.maximize_stacked(**arrays, **options)
done = result.status == ds.Status.COMPLETED
assert (result.status[~done] == ds.Status.INTERRUPTED).all()
assert np.isnan(result.value[~done]).all()
assert np.array_equal(result.value[done], whole.value[done])
print(0 < done.sum() < 1000)
""")
    assert out == "True\n"


def test_memory_stays_flat_over_a_thousand_solves():
    out = run(
        """
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
def block(seeds):
    for seed in seeds:
        solve(seed)
        if seed % 10 == 0:
            solve(seed, lmo="highs")
    ds.maximize_stacked(**stack(1000), method="nonmonotone-frank-wolfe", n_jobs=2)
block(range(300))
before = resident()
block(range(300, 1300))
print(resident() - before < 5.0)
"""
    )
    assert out == "True\n"


def test_a_solve_writes_nothing():
    out = run("""
solve()
solve(lmo="highs")
ds.maximize_many([problem()], method="nonmonotone-frank-wolfe", n_jobs=2)
""")
    assert out == ""


def test_solves_keep_blas_to_one_thread_and_give_the_others_back():
    out = run(
        """
from threadpoolctl import ThreadpoolController, threadpool_limits
controller = ThreadpoolController()

def blas_threads():
    return {library["num_threads"] for library in controller.info() if library["user_api"] == "blas"}

def look(progress):
    seen.append(blas_threads())

starts = sys.modules["drsub_fast.solvers.multi_start"]._Starts
solve_starts = starts._solve_by_kernel

def solve_and_look(self, n_jobs, bar):
    seen.append(blas_threads())
    solve_starts(self, n_jobs, bar)

starts._solve_by_kernel = solve_and_look
with threadpool_limits(limits=2, user_api="blas"):
    for n in (16, 64):
        seen = []
        ds.nonmonotone_frank_wolfe(ds.Softmax(2.0 * np.eye(n)), ds.Budget(4, np.ones(n)), max_iter=2, callback=look)
        ds.multi_start(ds.Softmax(2.0 * np.eye(n)), ds.Budget(4, np.ones(n)), n_starts=2)
        print(n, seen[0], seen[-1], blas_threads())
"""
    )
    assert out.splitlines() == ["16 {2} {2} {2}", "64 {1} {1} {2}"]
