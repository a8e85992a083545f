"""The disk cache: trouble costs time, never the answer."""

import contextlib
import logging
import os
import subprocess
import sys

import pytest

from drsub_fast.engine import store

SOURCES, STAMP, NAME = "e" * 64, "f" * 64, "a.kernel"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DRSUB_FAST_CACHE_DIR", str(tmp_path))
    store.folders.cache_clear()
    yield tmp_path / "drsub_fast"
    store.folders.cache_clear()


def test_what_is_stored_is_found(folder):
    assert not store.holds(NAME, SOURCES)
    assert store.load(NAME, SOURCES, STAMP) is None
    store.save(NAME, SOURCES, STAMP, b"code")
    assert store.holds(NAME, SOURCES)
    assert store.load(NAME, SOURCES, STAMP) == b"code"
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_files_that_changed_places_or_names_are_not_used(folder):
    for name, code in ((NAME, b"code"), ("b.kernel", b"other code")):
        store.save(name, SOURCES, STAMP, code)
    (folder / NAME).rename(folder / "c.kernel")
    (folder / "b.kernel").rename(folder / NAME)
    (folder / "c.kernel").rename(folder / "b.kernel")
    for name in (NAME, "b.kernel", "c.kernel"):
        assert not store.holds(name, SOURCES)
        assert store.load(name, SOURCES, STAMP) is None
    store.save(NAME, SOURCES, STAMP, b"code")
    assert store.load(NAME, SOURCES, STAMP) == b"code"


def test_code_of_another_compiler_or_of_other_sources_is_not_used(folder):
    store.save(NAME, SOURCES, STAMP, b"code")
    assert store.load(NAME, SOURCES, "0" * 64) is None
    assert not store.holds(NAME, "0" * 64)
    assert store.load(NAME, "0" * 64, STAMP) is None


def test_no_flipped_bit_and_no_missing_byte_reaches_the_loader(folder):
    store.save(NAME, SOURCES, STAMP, bytes(range(256)))
    path = folder / NAME
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        assert store.load(NAME, SOURCES, STAMP) is None
    for length in (0, 1, 20, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert store.load(NAME, SOURCES, STAMP) is None
    path.write_bytes(b"something else")
    assert store.load(NAME, SOURCES, STAMP) is None
    store.save(NAME, SOURCES, STAMP, b"new")
    assert store.load(NAME, SOURCES, STAMP) == b"new"


def test_a_folder_in_the_place_of_a_file_is_left_alone(folder, caplog):
    store.folders()
    (folder / NAME).mkdir()
    with caplog.at_level(logging.WARNING, "drsub_fast"):
        store.save(NAME, SOURCES, STAMP, b"code")
    assert "cannot be stored" in caplog.text
    assert store.load(NAME, SOURCES, STAMP) is None


def test_a_full_disk_is_said_and_leaves_nothing(folder, caplog, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    store.folders()
    monkeypatch.setattr(os, "replace", full)
    with caplog.at_level(logging.WARNING, "drsub_fast"):
        store.save(NAME, SOURCES, STAMP, b"code")
        store.save(NAME, SOURCES, STAMP, b"code")
    assert caplog.text.count("cannot be stored") == 1  # not once a kernel
    assert "No space left on device" in caplog.text
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_used(folder, caplog, monkeypatch, tmp_path, mode):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    store.save(NAME, SOURCES, STAMP, b"code")
    folder.chmod(mode)
    store.folders.cache_clear()
    with caplog.at_level(logging.WARNING, "drsub_fast"):
        assert store.load(NAME, SOURCES, STAMP) is None
    assert "other users can write there" in caplog.text
    assert folder not in store.folders()[0]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_a_file_that_others_can_write_to_is_not_loaded(folder):
    store.save(NAME, SOURCES, STAMP, b"code")
    (folder / NAME).chmod(0o666)
    assert store.load(NAME, SOURCES, STAMP) is None
    store.save(NAME, SOURCES, STAMP, b"code")
    assert store.load(NAME, SOURCES, STAMP) == b"code"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_a_folder_below_one_that_everybody_can_write_to_is_not_used(folder, tmp_path):
    store.folders()
    tmp_path.chmod(0o777)
    store.folders.cache_clear()
    assert folder not in store.folders()[0]
    tmp_path.chmod(0o700)


def test_names_tell_signatures_and_forms_apart():
    names = {
        store.file_name("drsub_fast.engine.vector", "dot", 7, form, text)
        for form in ("linked", "whole")
        for text in ("a", "b")
    }
    assert len(names) == 4


DAMAGE = {
    "flipped": lambda path: path.write_bytes(path.read_bytes()[:-9] + b"damaged!\n"),
    "short": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "foreign": lambda path: path.write_bytes(b"\x7fELF of somebody else"),
    "unreadable": lambda path: path.chmod(0),
    "pickle": None,
}

SCRIPT = """
import numpy as np
from drsub_fast.engine.vector import slope
print(slope(np.arange(3.0), np.ones(3), np.zeros(3)))
"""


def _run(folder):
    environment = os.environ | {"DRSUB_FAST_CACHE_DIR": str(folder.parent), "DRSUB_FAST_COMPILE": "now"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _answer(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_costs_time_not_the_answer(folder, damage):
    assert _answer(_run(folder)) == ("3.0\n", "")
    (path,) = folder.glob("*.kernel")
    sound = path.read_bytes()
    if damage == "pickle":  # whole, but not what the loader expects
        magic, name, sources, stamp, *_ = sound.split(b"\n")
        path.unlink()
        store.folders()
        store.save(path.name, sources.decode(), stamp.decode(), b"no pickle")
        assert magic.startswith(b"drsub_fast kernel")
        assert name.decode() == path.name
        assert sources.decode() == store.source_digest("drsub_fast.engine.vector")
    else:
        DAMAGE[damage](path)
    assert _answer(_run(folder))[0] == "3.0\n"
    assert len(path.read_bytes()) == len(sound) or os.geteuid() == 0


def test_eight_processes_share_an_empty_folder(folder):
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(_run(folder)) for _ in range(8)]
        assert [_answer(process) for process in processes] == [("3.0\n", "")] * 8
    assert sorted(path.suffix for path in folder.iterdir()) == [".kernel", ".txt"]
