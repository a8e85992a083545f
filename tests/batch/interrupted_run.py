"""A batch again and again, each time with Ctrl-C at another place; prints what is wrong with the answers.

Python handles a signal in the main thread, after the call of a function in C or at the start of one in Python: there a
profile function raises it, wherever locks of threads are at work.
"""

import faulthandler
import json
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import drsub_fast as ds

COUNT, STACKED = 6, 8
LOCKS = {"threading.py", "_base.py", "thread.py", "workers.py", "checkpoint.py"}


def problem(i):
    def evaluate(x):
        time.sleep(2e-4)
        return i + 1.0 - x @ x, -2.0 * x

    return ds.CallableObjective(evaluate, n=2), ds.Box([1.0, 1.0])


def many(folder):
    problems = [problem(i) for i in range(COUNT)]
    options = {"method": "frank-wolfe", "max_iter": 1, "chunk_size": 1, "n_jobs": 2}
    return [result.value for result in ds.maximize_many(problems, checkpoint=folder, **options)]


def stack(folder):
    h = np.arange(1.0, 2 * STACKED + 1).reshape(STACKED, 2)
    arrays = {"H": np.tile(-np.eye(2), (STACKED, 1, 1)), "h": h, "upper": np.ones((STACKED, 2))}
    options = {"objective": "quadratic", "set": "box", "method": "frank-wolfe", "max_iter": 1}
    value = ds.maximize_stacked(n_jobs=2, checkpoint=folder, **options, **arrays).value
    return value[~np.isnan(value)].tolist()


class Interrupter:
    """Raises SIGINT at the given one of the places."""

    def __init__(self, at):
        self.seen, self.at = 0, at

    def __call__(self, frame, event, _):
        if event in ("call", "c_return") and Path(frame.f_code.co_filename).name in LOCKS:
            self.seen += 1
            if self.seen == self.at:
                signal.raise_signal(signal.SIGINT)


def run(batch, folder, at):
    """The answers of an interrupted run, and the number of places it has passed."""
    interrupter = Interrupter(at)
    sys.setprofile(interrupter)
    try:
        return batch(folder), interrupter.seen
    except KeyboardInterrupt:  # before the batch began
        return [], interrupter.seen
    finally:
        sys.setprofile(None)


def main(kind, points):
    batch = {"many": many, "stack": stack}[kind]
    logging.disable()
    sys.setswitchinterval(1e-5)
    expected, folder = batch(None), Path(tempfile.mkdtemp())
    faulthandler.dump_traceback_later(120, exit=True)
    _, places = run(batch, folder, None)
    wrong, lengths = [], set()
    for at in np.linspace(1, places, points).astype(int).tolist():
        shutil.rmtree(folder)
        answers, _ = run(batch, folder, at)
        lengths.add(len(answers))
        if answers != expected[: len(answers)]:
            wrong.append((at, "answers", answers))
        resumed = batch(folder)
        if resumed != expected:
            wrong.append((at, "resumed", resumed))
    print(json.dumps({"places": places, "lengths": sorted(lengths), "wrong": wrong}))


main(sys.argv[1], int(sys.argv[2]))
