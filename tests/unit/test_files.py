"""Input files that are none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from slurm_ext import files
from slurm_ext.daemon.config import load
from slurm_ext.daemon.topology import in_file


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100)
    assert files.read_up_to(path, 30) == b"x" * 30
    assert files.read_up_to(path, 1000) == b"x" * 100


def test_a_pipe_without_a_writer_is_empty(fifo: Path) -> None:
    assert files.read_up_to(fifo, 10) == b""
    assert load(fifo).files == (str(fifo),)
    assert in_file(fifo, str.upper) == ""


def test_what_a_command_writes_into_a_pipe_is_read(fifo: Path) -> None:
    with subprocess.Popen(["sh", "-c", f"exec >{fifo}; echo one; echo two"]):
        descriptor = os.open(fifo, os.O_RDONLY)  # waits for the writer
        assert files.read_up_to(f"/dev/fd/{descriptor}", 100) == b"one\ntwo\n"
        os.close(descriptor)


def test_a_pipe_that_stays_open_is_given_up(fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIPE_S", 0.01)
    writer = os.open(fifo, os.O_RDWR)
    with pytest.raises(OSError, match=r"did not end in 0\.01 s"):
        files.read_up_to(fifo, 10)
    os.close(writer)
