"""drsub-fast batch: stacks, folders, failures, resuming."""

import argparse
import csv
import errno
import io
import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch.stack_files import FileArray, read_stack
from drsub_fast.batch.tables import open_table
from drsub_fast.cli import batch
from drsub_fast.cli.batch import FAILURES, _cluster, add_arguments, run
from drsub_fast.cli.progress import MinuteLines

METHOD = ["--method", "nonmonotone-frank-wolfe", "--max-iter", "20"]


def command(*arguments):
    """Exit status of the subcommand."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args([*map(str, arguments), *METHOD]))


def stack(count=12, n=4):
    rng = np.random.default_rng(0)
    H = -rng.random((count, n, n))
    return {"H": (H + H.transpose(0, 2, 1)) / 2, "h": n * rng.random((count, n)) / 2, "upper": np.ones(n)}


def write_folder(folder, arrays):
    folder.mkdir()
    for i in range(len(arrays["h"])):
        np.savez(folder / f"p{i:02d}.npz", H=arrays["H"][i], h=arrays["h"][i], ub=arrays["upper"])


def expected(arrays):
    return ds.maximize_stacked(**arrays, method="nonmonotone-frank-wolfe", max_iter=20, n_jobs=1)


def test_a_stack_is_solved(tmp_path, capsys):
    arrays = stack()
    np.savez(tmp_path / "stack.npz", **arrays)
    assert command(tmp_path / "stack.npz", "--out", tmp_path / "out.npz", "--jobs", 2) == 0
    with np.load(tmp_path / "out.npz") as table:
        assert np.array_equal(table["x"], expected(arrays).x)
        assert set(table["status"]) == {"COMPLETED"}
    out = capsys.readouterr().out
    assert out.startswith("12 problems in ")
    assert "COMPLETED     12" in out
    assert "worst gap" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npz", "stack.npz"]


def test_a_stack_of_any_kind_is_solved(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {
        "W": rng.random((5, 4, 2)),
        "weights": 0.5 + rng.random((5, 4)),
        "budget": np.ones(5),
        "upper": np.ones(4),
    }
    kinds = {"objective": "facility-location", "set": "knapsack"}
    np.savez(tmp_path / "stack.npz", **kinds, **arrays)
    assert command(tmp_path / "stack.npz", "--out", tmp_path / "out.npz") == 0
    with np.load(tmp_path / "out.npz") as table:
        assert np.array_equal(table["value"], expected(kinds | arrays).value)


def test_a_folder_is_solved_to_the_same_values(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    import pyarrow.parquet

    arrays = stack()
    write_folder(tmp_path / "problems", arrays)
    assert command(tmp_path / "problems", "--out", tmp_path / "out.parquet", "--jobs", 1) == 0
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert table["value"] == expected(arrays).value.tolist()
    assert np.array_equal(table["x"], expected(arrays).x)
    assert table["name"][3].endswith("p03.npz")


def test_failures_are_listed_and_change_the_exit_status(tmp_path, capsys):
    arrays = stack()
    write_folder(tmp_path / "problems", arrays)
    (tmp_path / "problems" / "p05.npz").write_bytes(b"nothing")
    assert command(tmp_path / "problems", "--out", tmp_path / "out.npz", "--jobs", 1) == FAILURES
    assert "1 problems failed" in capsys.readouterr().err
    with np.load(tmp_path / "out.npz") as table:
        assert table["status"].tolist().index("FAILED") == 5
        assert "p05.npz" in table["message"][5]
        start = table["x_start"]
        assert start[5] == start[6]
        assert np.array_equal(table["x"][start[6] : start[7]], expected(arrays).x[6])
    arrays["h"][2, 1] = np.nan
    np.savez(tmp_path / "stack.npz", **arrays)
    assert command(tmp_path / "stack.npz", "--out", tmp_path / "out.npz") == FAILURES
    with np.load(tmp_path / "out.npz") as table:
        assert "h[1] = nan" in table["message"][2]


def write_mixed_folder(folder):
    """Problems of several kinds, few of which need loops of their own."""
    rng = np.random.default_rng(2)
    W = rng.random((5, 3))
    graph = np.array([[0, 1, 0, 0, 1], [1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1], [1, 0, 0, 1, 0]])
    problems = {
        "a.npz": (ds.Multilinear.cut(graph), ds.Budget(2.0, np.ones(5))),
        "b.mat": (ds.PriceOptimization(np.full(5, 4.0), -np.ones((5, 5))), ds.Knapsack(np.arange(1.0, 6.0), 4.0)),
        "c.npz": (ds.NonnegativePCA(W.T), ds.PartitionMatroid([0, 1, 0, 1, 0], 1.0)),
        "d.mat": (ds.Multilinear.flid(W.sum(axis=1), W), ds.Budget(2.0, np.ones(5))),
        "e.npz": (ds.StabilityNumber(graph), ds.Knapsack(np.ones(5), 1.0)),
    }
    folder.mkdir()
    for name, (f, P) in problems.items():
        ds.write_problem(folder / name, f, P)
    return list(problems.values())


def test_a_folder_of_mixed_kinds_is_solved(tmp_path):
    problems = write_mixed_folder(tmp_path / "problems")
    assert command(tmp_path / "problems", "--out", tmp_path / "out.npz", "--jobs", 1) == 0
    expected = [ds.nonmonotone_frank_wolfe(f, P, max_iter=20) for f, P in problems]
    with np.load(tmp_path / "out.npz") as table:
        assert set(table["status"]) == {"COMPLETED"}
        assert table["value"] == pytest.approx([result.value for result in expected], rel=1e-12)
        assert np.allclose(table["x"], [result.x for result in expected], rtol=0.0, atol=1e-12)


def test_points_are_in_the_coordinates_of_the_files(tmp_path):
    folder = tmp_path / "problems"
    folder.mkdir()
    lower = np.array([0.25, 0.5])
    np.savez(folder / "a.npz", H=-np.eye(2), h=2.0 * np.ones(2), ub=np.ones(2), lb=lower)
    np.savez(folder / "b.npz", H=-np.eye(2), h=-2.0 * np.ones(2), ub=np.ones(2), lb=lower)
    assert command(folder, "--out", tmp_path / "out.npz", "--jobs", 1) == 0
    with np.load(tmp_path / "out.npz") as table:
        assert np.array_equal(table["x"][1], lower)
        assert (table["x"][0] > lower).all()
        assert table["value"] == pytest.approx([2.0 * x.sum() - x @ x / 2 for x in table["x"][:1]] + [-1.65625])


def test_a_file_that_is_no_archive_is_a_problem_that_failed(tmp_path, capsys):
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    assert command(tmp_path / "broken.npz", "--out", tmp_path / "out.npz") == FAILURES
    assert "1 problems failed" in capsys.readouterr().err


@pytest.fixture(scope="module")
def cluster():
    """A scheduler in this process, with two worker processes."""
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", protocol="tcp") as cluster:
        yield cluster


def tables_agree(one, other):
    with np.load(one) as a, np.load(other) as b:
        return all(np.array_equal(a[name], b[name]) for name in ("x", "value", "status", "n_iter", "name"))


def test_a_cluster_gives_the_same_results(cluster, tmp_path):
    np.savez(tmp_path / "stack.npz", **stack())
    write_mixed_folder(tmp_path / "problems")
    for name in ("stack.npz", "problems"):
        assert command(tmp_path / name, "--out", tmp_path / "here.npz", "--jobs", 1) == 0
        assert command(tmp_path / name, "--out", tmp_path / "there.npz", "--dask", cluster.scheduler_address) == 0
        assert tables_agree(tmp_path / "here.npz", tmp_path / "there.npz")


def test_a_bad_problem_of_a_stack_fails_alone_on_a_cluster(cluster, tmp_path):
    arrays = stack()
    arrays["h"][2, 1] = np.nan
    np.savez(tmp_path / "stack.npz", **arrays)
    out = tmp_path / "out.npz"
    assert command(tmp_path / "stack.npz", "--out", out, "--dask", cluster.scheduler_address) == FAILURES
    with np.load(out) as table:
        assert "problem 2: h[1] = nan" in table["message"][2]
        assert np.isnan(table["x"]).any(axis=1).tolist() == [i == 2 for i in range(12)]


def test_a_worker_that_dies_is_no_loss(cluster, tmp_path):
    np.savez(tmp_path / "stack.npz", **stack(count=60))
    options = (tmp_path / "stack.npz", "--out", tmp_path / "there.npz", "--dask", cluster.scheduler_address)
    # A stopped worker sits on the tasks it is given, so that some are lost with it.
    victim = cluster.workers[0].pid
    os.kill(victim, signal.SIGSTOP)
    checkpoint, seen = tmp_path / "there.npz.checkpoint", []

    def kill_after_the_first_chunk():
        deadline = time.monotonic() + 60.0
        while not any(checkpoint.glob("chunk-*.npz")) and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append(len(list(checkpoint.glob("chunk-*.npz"))))
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_after_the_first_chunk)
    killer.start()
    assert command(*options) == 0
    killer.join()
    assert 1 <= seen[0] < 15  # chunks of 4 problems
    assert command(tmp_path / "stack.npz", "--out", tmp_path / "here.npz", "--jobs", 1) == 0
    assert tables_agree(tmp_path / "here.npz", tmp_path / "there.npz")


def test_a_scheduler_that_cannot_be_reached_is_named(tmp_path):
    dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
    np.savez(tmp_path / "stack.npz", **stack())
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.5s"}),
        pytest.raises(OSError, match=r"127\.0\.0\.1:1"),
    ):
        command(tmp_path / "stack.npz", "--out", tmp_path / "out.npz", "--dask", "tcp://127.0.0.1:1")


def test_a_cluster_that_fails_is_named_with_what_to_do(cluster):
    from distributed import KilledWorker

    for error in (CancelledError(), KilledWorker("task", SimpleNamespace(address="tcp://worker"), 3)):
        with pytest.raises(ConnectionError, match="--resume goes on"), _cluster(cluster.scheduler_address, None):
            raise error


def test_a_cluster_without_workers_is_waited_for_with_a_word(capsys):
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", protocol="tcp") as empty,
        _cluster(empty.scheduler_address, None) as options,
    ):
        assert options["n_jobs"] is None
    assert "has no workers yet" in capsys.readouterr().err


def test_a_run_that_was_stopped_is_resumed_only_when_asked(tmp_path):
    arrays = stack()
    np.savez(tmp_path / "stack.npz", **arrays)
    folder = tmp_path / "out.npz.checkpoint"
    ds.maximize_stacked(**arrays, method="nonmonotone-frank-wolfe", max_iter=20, checkpoint=folder)
    (folder / "chunk-00000003.npz").unlink()
    options = (tmp_path / "stack.npz", "--out", tmp_path / "out.npz")
    with pytest.raises(ds.CheckpointError, match="give --resume"):
        command(*options)
    assert command(*options, "--resume") == 0
    with np.load(tmp_path / "out.npz") as table:
        assert np.array_equal(table["value"], expected(arrays).value)


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_a_full_disk_is_said_with_its_file_and_the_run_can_be_resumed(suffix, tmp_path, monkeypatch, capsys):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    np.savez(tmp_path / "stack.npz", **stack())
    out, folder = tmp_path / f"out.{suffix}", tmp_path / f"out.{suffix}.checkpoint"
    with monkeypatch.context() as full:

        def no_room(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr(os, "fsync", no_room)
        with pytest.raises(OSError, match=f"No space left on device: '{folder}") as caught:
            command(tmp_path / "stack.npz", "--out", out)
        assert caught.value.errno == errno.ENOSPC
    assert f"--resume goes on from {folder}" in capsys.readouterr().err
    assert not out.exists()
    assert command(tmp_path / "stack.npz", "--out", out, "--resume") == 0
    assert out.exists()
    assert not folder.exists()


@pytest.mark.parametrize("out", ["out.xlsx", "out"])
def test_an_unknown_kind_of_output_is_refused_first(tmp_path, out):
    with pytest.raises(ValueError, match=r"written as \.npz or \.parquet or \.csv"):
        command(tmp_path, "--out", tmp_path / out)


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no problem files"):
        command(tmp_path / "empty", "--out", tmp_path / "out.npz")


def stack_files(folder, arrays):
    """The same stack stored, packed, and as a folder."""
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "packed.npz", **arrays)
    (folder / "folder").mkdir()
    for name, array in arrays.items():
        np.save(folder / "folder" / f"{name}.npy", array)
    return [folder / name for name in ("stored.npz", "packed.npz", "folder")]


@pytest.mark.parametrize("layout", ["rows", "columns", "swapped"])
def test_a_stack_is_read_in_pieces_from_every_kind_of_file(tmp_path, layout):
    arrays = stack(count=130)
    change = {"rows": lambda a: a, "columns": np.asfortranarray, "swapped": lambda a: a.astype(">f8")}[layout]
    for path in stack_files(tmp_path, {name: change(array) for name, array in arrays.items()}):
        stored, kinds = read_stack(path)
        assert (stored.count, set(stored.shared), kinds) == (130, {"upper"}, {"objective": None, "set": None})
        pieces = list(stored.pieces(stored.size(1 << 20, 64)))
        assert [first for first, _ in pieces] == list(range(0, 130, 3))  # 64 pieces at least, were there as many
        for name in ("H", "h"):
            assert np.array_equal(np.concatenate([piece[name] for _, piece in pieces]), arrays[name])


def test_files_of_a_stack_give_the_same_bytes(tmp_path):
    outs = []
    for path in stack_files(tmp_path, stack(count=20)):
        outs.append(tmp_path / f"{path.name}.out.npz")
        assert command(path, "--out", outs[-1], "--jobs", 1) == 0
    assert len({out.read_bytes() for out in outs}) == 1


def test_a_stack_is_read_once_and_no_further_than_the_piece_in_work(tmp_path, monkeypatch):
    def fill(self, stream, room, fill=FileArray._fill):
        read.append(len(room))
        fill(self, stream, room)

    np.savez(tmp_path / "stack.npz", **stack(count=4000))
    stored, _ = read_stack(tmp_path / "stack.npz")
    read = []
    monkeypatch.setattr(FileArray, "_fill", fill)
    pieces = stored.read(stored.size(4000, 64))
    next(pieces)
    assert 0 < sum(read) <= 4000
    assert sum(1 for _ in pieces) > 100
    assert sum(read) == 4000 * 8 * (4 * 4 + 4)


@pytest.mark.parametrize("where", ["header", "middle", "end"])
def test_damage_to_a_stack_is_named_with_its_file(tmp_path, where, capsys):
    stored, _, folder = stack_files(tmp_path, stack(count=500))
    whole = (folder / "H.npy").read_bytes()
    (folder / "H.npy").write_bytes({"header": b"X" + whole[1:], "middle": whole[:-8], "end": whole + b"0"}[where])
    with pytest.raises(ValueError, match=r"^[^:]*H\.npy: H cannot be read"):
        command(folder, "--out", tmp_path / "out.npz")
    assert not list(tmp_path.glob("out*"))
    damaged = bytearray(stored.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    stored.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"^[^:]*stored\.npz: H cannot be read: Bad CRC"):
        command(stored, "--out", tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_arrays_without_a_problem_are_named(tmp_path):
    np.save(tmp_path / "H.npy", -np.ones((3, 2, 2)))
    with pytest.raises(ValueError, match="holds no stack: the arrays are H"):
        command(tmp_path, "--out", tmp_path / "out.npz")
    np.save(tmp_path / "h.npy", np.ones((4, 2)))
    np.save(tmp_path / "upper.npy", np.ones(2))
    with pytest.raises(ValueError, match="the stacks have different lengths"):
        command(tmp_path, "--out", tmp_path / "out.npz")


def test_options_are_those_of_solve(tmp_path):
    arrays = stack()
    np.savez(tmp_path / "stack.npz", **arrays)
    write_folder(tmp_path / "problems", arrays)
    options = ("--method", "multi-start", "--n-starts", 2, "--seed", 5, "--tol", 1e-3, "--max-iter", 9)
    single = {"method": "multi-start", "n_starts": 2, "seed": 5, "tol": 1e-3, "max_iter": 9}
    expected = ds.maximize_stacked(**arrays, **single, n_jobs=1)
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    for source in ("stack.npz", "problems"):
        for limit in ((), ("--time-limit", 1e6)):
            out = tmp_path / "out.npz"
            arguments = [tmp_path / source, "--out", out, "--jobs", 1, *options, *limit]
            assert run(parser.parse_args(list(map(str, arguments)))) == 0
            with np.load(out) as table:
                assert np.allclose(table["value"], expected.value, rtol=1e-12)
    with pytest.raises(ValueError, match="nonmonotone-frank-wolfe has no option --n-starts"):
        command(tmp_path / "stack.npz", "--out", tmp_path / "out.npz", "--n-starts", 3)


def test_whatever_one_file_does_is_its_own_failure(tmp_path, monkeypatch):
    write_folder(tmp_path / "problems", stack())

    def read(path, read=batch.read_problem, **options):
        if path.name in failures:
            raise failures[path.name]
        return read(path, **options)

    failures = {"p00.npz": MemoryError(), "p03.npz": ZeroDivisionError("by zero"), "p11.npz": PermissionError("no")}
    monkeypatch.setattr(batch, "read_problem", read)
    assert command(tmp_path / "problems", "--out", tmp_path / "out.npz", "--jobs", 1) == FAILURES
    with np.load(tmp_path / "out.npz") as table:
        assert np.flatnonzero(table["status"] == "FAILED").tolist() == [0, 3, 11]
        assert "p03.npz: ZeroDivisionError: by zero" in table["message"][3]
        assert table["value"][[1, 2, 10]].tolist() == expected(stack()).value[[1, 2, 10]].tolist()


def test_minimised_files_have_values_of_their_own_sense(tmp_path):
    f, P = ds.Quadratic([[-2.0]], [3.0]), ds.Box([1.0])
    for name, minimize in (("a.npz", False), ("b.npz", True)):
        ds.write_problem(tmp_path / name, f, P, minimize=minimize)
    out = tmp_path / "out.npz"
    assert command(tmp_path / "a.npz", tmp_path / "b.npz", "--out", out, "--jobs", 1) == 0
    with np.load(out) as table:
        assert table["sense"].tolist() == ["maximize", "minimize"]
        assert table["value"][0] == -table["value"][1] > 0
        assert table["upper_bound"][1] <= table["value"][1]


def test_extras_are_asked_for_before_the_work(tmp_path, monkeypatch):
    np.savez(tmp_path / "stack.npz", **stack())
    for module, arguments, words in (
        ("pyarrow", ["--out", tmp_path / "out.parquet"], "Parquet files need pyarrow"),
        ("distributed", ["--out", tmp_path / "out.npz", "--dask", "tcp://127.0.0.1:1"], "--dask needs distributed"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ds.UnsupportedError, match=words):
            command(tmp_path / "stack.npz", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["stack.npz"]
    (tmp_path / "out.npz").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        command(tmp_path / "stack.npz", "--out", tmp_path / "out.npz")


def test_a_table_takes_the_place_of_the_old_one_when_it_is_whole(tmp_path):
    results = expected(stack())
    for name in ("table.npz", "table.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
        path = tmp_path / name
        ds.write_results(path, results)
        before = path.read_bytes()
        with pytest.raises(TypeError, match="must be a Result"), open_table(path) as add:
            add([*results, 3])
        assert path.read_bytes() == before
        with open_table(path) as add:
            add(results[:5])
            add(results[5:])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.npz", "table.parquet"]
    with np.load(tmp_path / "table.npz", allow_pickle=False) as table:
        assert np.array_equal(table["x"], results.x)
    with pytest.raises(ValueError, match="value is a column of every table"):
        ds.write_results(tmp_path / "table.npz", results, value=np.ones(12))
    with pytest.raises(ValueError, match="name must be 12 numbers or texts"):
        ds.write_results(tmp_path / "table.npz", results, name=["one"])


def test_tables_of_comma_separated_values(tmp_path):
    """Of a stack, of results of several sizes, of one result; texts with commas and quotes; infinities and NaN."""

    def rows_of(name):
        with open(tmp_path / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    results = expected(stack())
    ds.write_results(tmp_path / "a.csv", results, name=[f'one, "{i}"' for i in range(len(results))])
    rows = rows_of("a.csv")
    assert [float(row["value"]) for row in rows] == results.value.tolist()
    assert [float(text) for text in rows[3]["x"].split()] == results.x[3].tolist()
    assert (rows[2]["name"], rows[2]["status"]) == ('one, "2"', results.status_names()[2])
    f = [ds.Quadratic(-np.eye(n), np.ones(n)) for n in (1, 3)]
    several = [ds.frank_wolfe(g, ds.Box(np.ones(g.n)), max_iter=1) for g in f]
    ds.write_results(tmp_path / "b.csv", [*several, replace(several[0], value=math.nan)])
    assert [len(row["x"].split()) for row in rows_of("b.csv")] == [1, 3, 1]
    assert rows_of("b.csv")[2]["value"] == "nan"
    ds.write_result(tmp_path / "c.csv", several[1])
    (row,) = rows_of("c.csv")
    assert float(row["value"]) == several[1].value
    assert [float(text) for text in row["x"].split()] == several[1].x.tolist()
    for call in (ds.write_result, ds.write_results):
        with pytest.raises(TypeError, match=rf"comes first, {call.__name__}\(path, result"):
            call(several[0], tmp_path / "d.csv")


def test_elsewhere_than_on_a_terminal_a_line_a_minute_says_how_far_it_is():
    times, stream = iter([0.0, 30.0, 61.0, 90.0, 125.0]), io.StringIO()
    count = MinuteLines(1000, stream, clock=lambda: next(times))
    for _ in range(4):
        count(100)
    assert stream.getvalue().splitlines() == [
        "drsub-fast: 200 of 1000 problems, 3.28 a second", "drsub-fast: 400 of 1000 problems, 3.12 a second"
    ]  # fmt: skip


PAUSE_AT_A_MODULE = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
class Pause:
    def find_spec(self, name, path=None, target=None):
        if name == "scipy":
            print("importing", flush=True)
            sys.stdin.read()
sys.meta_path.insert(0, Pause())
sys.argv, sys.orig_argv = ["-m", "info"], [sys.executable, "-m", "drsub_fast", "info"]
import drsub_fast
"""


def test_ctrl_c_during_imports_leaves_no_traceback():
    with subprocess.Popen(
        [sys.executable, "-c", PAUSE_AT_A_MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT
        assert process.stderr.read() == b""


def test_importing_the_package_elsewhere_leaves_ctrl_c_as_it_is():
    code = "import signal, drsub_fast; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], check=True)
