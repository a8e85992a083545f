"""Checkpoints: damaged, foreign and exchanged files, locks, results as arrays and JSON."""

import errno
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from itertools import islice

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch.checkpoint import Checkpoint
from drsub_fast.batch.result_arrays import pack, unpack
from drsub_fast.batch.workers import Here, Store, run_chunks
from drsub_fast.engine.fingerprints import fingerprint


def content(i):
    return np.arange(3.0) + 10.0 * i


def twice(first, numbers):
    return {"doubled": 2.0 * numbers}


def solve(folder, contents=None, inputs="inputs", stop=None):
    """The doubled contents of five chunks, by a checkpoint; ``stop`` ends the run after so many."""
    contents = [content(i) for i in range(5)] if contents is None else contents
    with closing(Checkpoint(folder, inputs, {"size": 3})) as checkpoint:
        store = Store(checkpoint, dict, dict)
        chunks = ((3 * i, numbers) for i, numbers in enumerate(contents))
        answers = run_chunks(chunks, twice, Here(), ahead=1, store=store)
        with closing(answers):
            return [answer["doubled"].tolist() for answer in islice(answers, stop)]


EXPECTED = [(2.0 * content(i)).tolist() for i in range(5)]


@pytest.fixture
def folder(tmp_path):
    """A finished checkpoint."""
    assert solve(tmp_path / "checkpoint") == EXPECTED
    return tmp_path / "checkpoint"


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def test_a_run_that_stopped_anywhere_ends_in_the_same_bytes(folder, tmp_path):
    for stop in range(1, 5):
        other = tmp_path / f"stopped {stop}"
        assert solve(other, stop=stop) == EXPECTED[:stop]
        assert solve(other) == EXPECTED
        assert bytes_of(other) == bytes_of(folder)


def test_what_a_killed_run_leaves_is_taken_up(folder, tmp_path):
    early = tmp_path / "early"
    early.mkdir()
    for name in ("lock", "manifest.json.partial"):
        (early / name).write_bytes(b"half")
    assert solve(early) == EXPECTED
    (folder / "chunk-00000003.npz").unlink()
    (folder / "chunk-00000003.npz.partial").write_bytes(b"half a chunk")
    assert solve(folder) == EXPECTED
    assert not list(folder.glob("*.partial"))


MANIFESTS = [
    b"", b"[]", b"null", b"{}", b"3", b'"text"', b"\xff\xfe", b"[" * 100_000,
    *(json.dumps({"format": 2, "inputs": "inputs", "layout": layout, "check": fingerprint("inputs", layout)}).encode()
      for layout in ({}, [], None, "size", {"size": 0}, {"size": "3"}, {"size": 2.5}, {"size": True}, {"other": 3})),
    json.dumps({"format": 2, "inputs": "inputs", "layout": {"size": 4}, "check": "wrong"}).encode(),
    json.dumps({"format": 1, "inputs": "inputs", "layout": {"size": 3}}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("text", MANIFESTS, ids=range(len(MANIFESTS)))
def test_a_manifest_that_is_none_is_named(folder, text):
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(ds.CheckpointError, match=r"manifest\.json"):
        solve(folder)


def test_every_flipped_byte_of_a_chunk_is_found_or_harmless(folder):
    path = folder / "chunk-00000002.npz"
    whole = path.read_bytes()
    errors = []
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            assert solve(folder) == EXPECTED
        except ds.CheckpointError as error:
            errors.append(str(error))
    assert len(errors) > 50
    assert all("chunk-00000002.npz" in error for error in errors)
    for cut in range(0, len(whole), 40):
        path.write_bytes(whole[:cut])
        with pytest.raises(ds.CheckpointError, match="chunk-00000002"):
            solve(folder)


def test_chunks_that_are_exchanged_or_have_other_rows_are_refused(folder):
    one, other = folder / "chunk-00000001.npz", folder / "chunk-00000002.npz"
    before = one.read_bytes()
    one.write_bytes(other.read_bytes())
    with pytest.raises(ds.CheckpointError, match=r"chunk-00000001\.npz holds the answers to other problems"):
        solve(folder)
    with np.load(other) as arrays:
        np.savez(other, **{name: arrays[name] for name in arrays.files} | {"doubled": np.zeros(3)})
    one.write_bytes(before)
    with pytest.raises(ds.CheckpointError, match=r"chunk-00000002\.npz cannot be read: its content has changed"):
        solve(folder)


def test_equal_problems_in_other_places_are_other_problems(tmp_path):
    twins = [content(0), content(1), content(0)]
    solve(tmp_path / "a", twins)
    (tmp_path / "a" / "chunk-00000002.npz").write_bytes((tmp_path / "a" / "chunk-00000000.npz").read_bytes())
    with pytest.raises(ds.CheckpointError, match="other problems"):
        solve(tmp_path / "a", twins)


def test_other_problems_options_and_lengths_are_refused(folder):
    with pytest.raises(ds.CheckpointError, match="other inputs or options"):
        solve(folder, inputs="others")
    with pytest.raises(ds.CheckpointError, match="other problems"):
        solve(folder, [content(i + 1) for i in range(5)])
    with pytest.raises(ds.CheckpointError, match="longer batch"):
        solve(folder, [content(i) for i in range(4)])


@pytest.mark.parametrize("name", ["chunk-abc.npz", "chunk-1.npz", "chunk-00000001.npz.bak", "chunk--0000001.npz"])
def test_a_file_that_is_no_chunk_is_named(folder, name):
    (folder / name).write_bytes(b"")
    with pytest.raises(ds.CheckpointError, match=name):
        solve(folder)


class Trap:
    """Something that a pickle runs."""

    def __reduce__(self):
        return (os.mkdir, ("sprung",))


def test_nothing_in_the_folder_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    f, P = ds.Quadratic([[-1.0]], [1.0]), ds.Box([1.0])
    options = {"method": "frank-wolfe", "max_iter": 2, "n_jobs": 1, "checkpoint": "folder"}
    ds.maximize_many([(f, P)], **options)
    path = tmp_path / "folder" / "chunk-00000000.npz"
    with np.load(path) as arrays:
        kept = {name: arrays[name] for name in arrays.files}
    for trap in (np.frombuffer(pickle.dumps(Trap()), np.uint8), np.array([Trap()], object)):
        np.savez(path, **kept | {"results": trap})
        with pytest.raises(ds.CheckpointError, match="chunk-00000000"):
            ds.maximize_many([(f, P)], **options)
    assert not (tmp_path / "sprung").exists()


def test_results_are_the_same_after_a_file():
    f, P = ds.Quadratic([[-1.0, -0.5], [-0.5, -2.0]], [1.0, 1.0]), ds.Box([1.0, 1.0])
    results = [ds.two_phase_frank_wolfe(f, P, max_iter=5), ds.multi_start(f, P, n_starts=2, max_iter=3)]
    again = unpack(pack(results))
    for one, other in zip(results, again, strict=True):
        assert repr(other) == repr(one)
        assert np.array_equal(other.x, one.x)
        assert np.array_equal(other.trace.value, one.trace.value)
        assert np.array_equal(other.trace.fw_gap, one.trace.fw_gap, equal_nan=True)
        assert [phase.value for phase in other.phases] == [phase.value for phase in one.phases]
        assert (other.status, other.message, other.guarantee) == (one.status, one.message, one.guarantee)


HOLDER = """
import sys
from contextlib import closing
from drsub_fast.batch.checkpoint import Checkpoint
with closing(Checkpoint(sys.argv[1], "inputs", {"size": 3})):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_folder_in_use_is_refused_until_its_process_ends(tmp_path):
    folder = tmp_path / "checkpoint"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(ds.CheckpointError, match=f"in use by process {holder.pid} on "):
            solve(folder)
        holder.kill()
    assert solve(folder) == EXPECTED


def test_two_batches_of_one_process_do_not_share_a_folder(tmp_path):
    with (
        closing(Checkpoint(tmp_path, "inputs", {"size": 3})),
        pytest.raises(ds.CheckpointError, match="another batch of this process"),
    ):
        Checkpoint(tmp_path, "inputs", {"size": 3})
    assert solve(tmp_path) == EXPECTED


def test_of_runs_that_begin_at_once_one_goes_on(tmp_path):
    outcomes, gate = [], threading.Barrier(4, timeout=300.0)

    def run():
        gate.wait()
        try:
            outcomes.append(solve(tmp_path / "new") == EXPECTED)
        except ds.CheckpointError as error:
            outcomes.append("in use" in str(error))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300.0)
    assert outcomes == [True] * 4
    assert solve(tmp_path / "new") == EXPECTED


@pytest.mark.parametrize("executor", [Here, partial(ThreadPoolExecutor, 2)])
def test_what_is_handed_out_is_on_the_disk(tmp_path, monkeypatch, executor):
    store_at_once = Checkpoint.store

    def store_slowly(self, *chunk):
        time.sleep(0.05)
        store_at_once(self, *chunk)

    monkeypatch.setattr(Checkpoint, "store", store_slowly)
    chunks = ((3 * i, content(i)) for i in range(5))
    with closing(Checkpoint(tmp_path, "inputs", {"size": 3})) as checkpoint, executor() as pool:
        results = run_chunks(chunks, twice, pool, ahead=2, store=Store(checkpoint, dict, dict))
        for i, answer in enumerate(results):
            assert i in checkpoint.indices()
            assert answer["doubled"].tolist() == EXPECTED[i]
    assert i == 4


def test_an_interrupt_hands_out_what_was_solved_before(tmp_path):
    def task(first, numbers):
        if first == 9:
            raise KeyboardInterrupt
        return {"doubled": 2.0 * numbers}

    chunks, answers = ((3 * i, content(i)) for i in range(5)), []
    with closing(Checkpoint(tmp_path, "inputs", {"size": 3})) as checkpoint, suppress(KeyboardInterrupt):
        for answer in run_chunks(chunks, task, Here(), ahead=1, store=Store(checkpoint, dict, dict)):
            answers.append(answer["doubled"].tolist())
    assert answers == EXPECTED[:3]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_between_two_chunks_neither_loses_one_nor_hands_it_out_twice(when, tmp_path, monkeypatch):
    class Interrupted(deque):
        left = 2

        def popleft(self):
            type(self).left -= 1
            if self.left == 0 and when == "before":
                raise KeyboardInterrupt
            first = super().popleft()
            if self.left == 0:
                raise KeyboardInterrupt
            return first

    monkeypatch.setattr("drsub_fast.batch.workers.deque", Interrupted)
    chunks, answers = ((3 * i, content(i)) for i in range(5)), []
    with closing(Checkpoint(tmp_path, "inputs", {"size": 3})) as checkpoint, suppress(KeyboardInterrupt):
        for answer in run_chunks(chunks, twice, Here(), ahead=3, store=Store(checkpoint, dict, dict)):
            answers.append(answer["doubled"].tolist())
    assert Interrupted.left < 1
    assert len(answers) >= 2
    assert answers == EXPECTED[: len(answers)]


@pytest.mark.parametrize("stop", [1, 3, None])
def test_a_full_disk_is_said_wherever_the_run_ends(tmp_path, monkeypatch, stop):
    def full(self, index, problems, arrays):
        raise OSError("No space left on device")

    monkeypatch.setattr(Checkpoint, "store", full)
    with pytest.raises(OSError, match="No space left"):
        solve(tmp_path / "new", stop=stop)


def test_of_threads_that_ask_for_a_folder_at_once_one_gets_it(tmp_path, monkeypatch):
    asked, gate = [], threading.Barrier(2, timeout=300.0)
    open_file = os.open

    def slow_open(*args):
        # The first waits here until the other one has asked, too, or is kept from it.
        with suppress(threading.BrokenBarrierError):
            gate.wait(timeout=0.2)
        return open_file(*args)

    monkeypatch.setattr("drsub_fast.batch.checkpoint.os.open", slow_open)

    def ask():
        try:
            asked.append(Checkpoint(tmp_path / "new", "inputs", {"chunk_size": 1}))
        except ds.CheckpointError as error:
            asked.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300.0)
    assert sorted(type(answer).__name__ for answer in asked) == ["Checkpoint", "str"]
    assert "in use" in next(answer for answer in asked if isinstance(answer, str))


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ds.CheckpointError, match="cannot be used as the folder"):
        solve(tmp_path / "file")


def test_a_folder_on_a_full_disk_is_not_said_to_be_in_use(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left.*lock") as told:
            Checkpoint(tmp_path, "inputs", {"size": 1})
    assert told.value.errno == errno.ENOSPC
    Checkpoint(tmp_path, "inputs", {"size": 1}).close()  # the lock is gone, and there is room


def with_closure(scale):
    return ds.CallableObjective(lambda x: (scale * x.sum(), np.full(2, scale)), n=2)


def with_default(scale):
    def function(x, scale=scale):
        return scale * x.sum(), np.full(2, scale)

    return ds.CallableObjective(function, n=2)


@pytest.mark.parametrize("make", [with_closure, with_default])
def test_functions_that_differ_by_a_constant_are_other_problems(tmp_path, make):
    def run(scale, **options):
        problems = [(make(scale), ds.Box([1.0, 1.0]))]
        return ds.maximize_many(problems, "frank-wolfe", n_jobs=1, checkpoint=tmp_path, **options)[0].value

    assert run(1.0) == run(1.0) == 2.0
    with pytest.raises(ds.CheckpointError, match="other problems"):
        run(100.0)
    with pytest.raises(ds.CheckpointError, match="other inputs or options"):
        run(1.0, callback=lambda progress: progress.n_iter > 3)


def test_what_no_later_run_could_know_is_refused(tmp_path):
    lines = (1.0 for _ in range(9))
    f = ds.CallableObjective(lambda x: (next(lines) * x.sum(), np.ones(2)), n=2)
    with pytest.raises(ds.CheckpointError, match="generator has no content"):
        ds.maximize_many([(f, ds.Box([1.0, 1.0]))], "frank-wolfe", n_jobs=1, checkpoint=tmp_path)


def test_what_makes_threads_wait_is_no_part_of_a_problem(tmp_path):
    def run():
        lock, event = threading.RLock(), threading.Event()

        def evaluate(x):
            with lock:
                return x.sum() + event.is_set(), np.ones(2)

        f = ds.CallableObjective(evaluate, n=2)
        return ds.maximize_many([(f, ds.Box([1.0, 1.0]))], "frank-wolfe", n_jobs=1, checkpoint=tmp_path)[0].value

    assert run() == run() == 2.0
