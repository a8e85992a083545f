"""The subcommand ``choose``: its tables against `greedy_map_stacked`, resuming, what it refuses."""

import numpy as np
import pytest

import drsub_fast as ds
from drsub_fast.batch import choice_files, choices
from drsub_fast.cli.command import main


@pytest.fixture
def candidates(tmp_path, monkeypatch):
    """Candidates of 40 users in four kinds of files, and the choices for them; pieces are of a few users."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 13, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    features = rng.standard_normal((offsets[-1], 5)).astype(np.float32)
    arrays = {"features": features, "quality": 2.0 * rng.random(offsets[-1]), "groups": rng.integers(0, 4, offsets[-1])}
    arrays["features"][offsets[7]] = np.nan
    np.savez(tmp_path / "flat.npz", **arrays, offsets=offsets, per_group=2)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, array in (arrays | {"offsets": offsets}).items():
        np.save(folder / f"{name}.npy", np.asfortranarray(array))
    padded = {name: np.zeros((40, 12, *array.shape[1:]), array.dtype) for name, array in arrays.items()}
    for b in range(40):
        for name, array in arrays.items():
            padded[name][b, : lengths[b]] = array[offsets[b] : offsets[b + 1]]
    np.savez(tmp_path / "padded.npz", **padded, lengths=lengths)
    monkeypatch.setattr(choices, "HELD", 3 * 12 * 40)
    monkeypatch.setattr(choice_files, "_ROWS", 17)
    return (
        tmp_path,
        arrays | {"offsets": offsets},
        ds.greedy_map_stacked(**arrays, offsets=offsets, size=4, per_group=2),
    )


def read(path):
    with np.load(path) as file:
        return dict(file)


@pytest.mark.parametrize("name", ["flat.npz", "padded.npz", "folder", "flat.parquet"])
def test_files_are_chosen_from_as_arrays(candidates, name, capsys):
    folder, arrays, expected = candidates
    if name == "flat.parquet":
        write_parquet(folder / name, arrays)
    per_group = [] if name == "flat.npz" else ["--per-group", "2"]
    out = folder / "answers.npz"
    assert main(["choose", str(folder / name), "--size", "4", "--out", str(out), "--jobs", "2", *per_group]) == 1
    found = read(out)
    np.testing.assert_array_equal(found["items"], expected.items)
    np.testing.assert_array_equal(found["value"], expected.value)
    np.testing.assert_array_equal(found["count"], expected.counts)
    assert found["status"].tolist() == expected.status_names().tolist()
    assert found["message"].tolist() == [expected.messages.get(i, "") for i in range(40)]
    captured = capsys.readouterr()
    assert "40 users in" in captured.out
    assert "1 users failed: user 7" in captured.err
    assert not (folder / "answers.npz.checkpoint").exists()


def write_parquet(path, arrays):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    user = np.repeat(np.arange(40), np.diff(arrays["offsets"]))
    features = pyarrow.array(list(arrays["features"]))
    columns = {"user": user, "features": features, "quality": arrays["quality"], "groups": arrays["groups"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=50)


def test_parquet_tables_have_lists_of_items(candidates):
    folder, _, expected = candidates
    parquet = pytest.importorskip("pyarrow.parquet")
    out = folder / "answers.parquet"
    assert main(["choose", str(folder / "flat.npz"), "--size", "4", "--out", str(out)]) == 1
    table = parquet.read_table(out)
    assert table["items"].to_pylist() == expected.items.tolist()
    assert table["count"].to_pylist() == expected.counts.tolist()


def test_an_interrupted_run_is_resumed(candidates, monkeypatch):
    folder, _, expected = candidates
    out, made, run = folder / "answers.npz", [], choices.run_choices
    arguments = ["choose", str(folder / "flat.npz"), "--size", "4", "--out", str(out), "--jobs", "1"]

    def interrupted(*given):
        made.append(given)
        if len(made) > 9:
            raise KeyboardInterrupt
        return run(*given)

    with monkeypatch.context() as patch:
        patch.setattr(choices, "run_choices", interrupted)
        assert main(arguments) == 130
    assert not out.exists()
    assert main(arguments) == 2  # without --resume
    before = len(made)
    monkeypatch.setattr(choices, "run_choices", lambda *given: made.append(given) or run(*given))
    assert main([*arguments, "--resume"]) == 1
    assert 0 < len(made) - before < 40
    np.testing.assert_array_equal(read(out)["items"], expected.items)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"features": np.ones((3, 2))}, "with offsets"),
        ({"features": np.ones((3, 2)), "offsets": [0, 2]}, "from 0 to the 3 candidates"),
        ({"features": np.ones((3, 2)), "offsets": [0, 3], "weights": np.ones(3)}, "weights means nothing here"),
        ({"features": np.ones((3, 2)), "offsets": [0, 3], "quality": np.ones(2)}, "quality has the shape"),
        ({"features": np.ones((3, 2)), "offsets": [0, 3], "groups": np.ones(3)}, "groups and per_group go together"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, capsys, arrays, words):
    np.savez(tmp_path / "bad.npz", **arrays)
    assert main(["choose", str(tmp_path / "bad.npz"), "--size", "2", "--out", str(tmp_path / "out.npz")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        choice_files.read_choice_stack(tmp_path / "none.npz")


def test_damaged_and_foreign_files_are_refused(tmp_path, capsys):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 no more")
    (tmp_path / "text.csv").write_text("user,features\n")
    pyarrow.parquet.write_table(pyarrow.table({"user": [1, 1]}), tmp_path / "narrow.parquet")
    pyarrow.parquet.write_table(
        pyarrow.table({"user": [1, 1], "features": [[1.0], [1.0, 2.0]]}), tmp_path / "odd.parquet"
    )
    for name, words in (
        ("cut.parquet", "cut.parquet"), ("text.csv", "give an .npz file"), ("narrow.parquet", "no column features"),
        ("odd.parquet", "has not 1 entries"), ("none.npz", "none.npz"),
    ):  # fmt: skip
        assert main(["choose", str(tmp_path / name), "--size", "2", "--out", str(tmp_path / "out.npz")]) == 2
        assert words in capsys.readouterr().err
