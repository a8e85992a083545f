"""drsub-fast batch: stacks, folders, failures, resuming."""

import argparse

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch_command import FAILURES, add_batch

METHOD = ["--method", "nonmonotone-frank-wolfe", "--max-iter", "20"]


def command(*arguments):
    """Exit status of the subcommand."""
    parser = argparse.ArgumentParser()
    add_batch(parser.add_subparsers())
    args = parser.parse_args(["batch", *map(str, arguments), *METHOD])
    return args.run(args)


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


@pytest.mark.parametrize("out", ["out.csv", "out"])
def test_an_unknown_kind_of_output_is_refused_first(tmp_path, out):
    with pytest.raises(ValueError, match=r"written as \.npz or \.parquet"):
        command(tmp_path, "--out", tmp_path / out)


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no problem files"):
        command(tmp_path / "empty", "--out", tmp_path / "out.npz")
