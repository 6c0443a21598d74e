"""Progress files: what a job writes, and what a reader makes of files it cannot trust."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext import report
from slurm_ext.daemon.progress import MAX_READ, read_progress
from slurm_ext.model.progress import Progress, Report

UID = os.geteuid()


@pytest.fixture(autouse=True)
def in_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [n for n in os.environ if n.startswith(("SLURM_", "RANK", "OMPI_", "PMI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_EXT_SPOOL", str(tmp_path))


def read(directory: Path, uid: int = UID) -> Progress:
    return read_progress(directory, 7, uid)


def test_what_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    reporter = report.Reporter(min_interval_s=0)
    assert reporter.progress(10, samples_per_s=99.5, loss=-0.5, batch_size=256)
    assert reporter.checkpoint(12.5, gpus=2)
    found = read(tmp_path)
    first, second = found.reports
    assert first == Report(first.at_s, 3, 10.0, False, 8, 99.5, -0.5, 256)
    assert found.last_checkpoint == second == Report(second.at_s, 3, 12.5, True, 2)
    assert (found.bad_lines, found.problem) == (0, "")


def test_progress_is_thinned_and_checkpoints_are_not(tmp_path: Path) -> None:
    reporter = report.Reporter(min_interval_s=3600)
    assert [reporter.progress(step) for step in (1, 2)] == [True, False]
    assert [reporter.checkpoint(step) for step in (1, 2)] == [True, True]
    assert [r.step for r in read(tmp_path).reports] == [1, 1, 2]


def test_numbers_that_are_none_are_left_out(tmp_path: Path) -> None:
    assert report.Reporter().progress(1, samples_per_s=float("inf"), loss=float("nan"))
    (found,) = read(tmp_path).reports
    assert (found.samples_per_s, found.loss) == (None, None)


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
def test_only_the_first_rank_writes(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "1")
    assert not report.Reporter().checkpoint(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("job", ["", "7/../../etc/x", "x"])
def test_outside_of_a_job_nothing_is_written(
    job: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", job)
    assert not report.Reporter().checkpoint(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", [None, "many", object(), float("nan"), 10**400])
def test_nothing_is_ever_raised(step: object, tmp_path: Path) -> None:
    report.Reporter().checkpoint(step)  # type: ignore[arg-type]
    assert read(tmp_path).reports == ()


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "7.jsonl").mkdir()
    assert not report.Reporter().checkpoint(1)
    assert not report.Reporter("/proc/nowhere").checkpoint(1)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("x")
    (tmp_path / "7.jsonl").symlink_to(target)
    assert not report.Reporter().checkpoint(1)
    assert target.read_text() == "x"


def test_a_long_file_keeps_its_newer_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_FILE", 4000)
    reporter = report.Reporter()
    for step in range(200):
        reporter.checkpoint(step)
    steps = [r.step for r in read(tmp_path).reports]
    assert steps == list(range(int(steps[0]), 200))
    assert 10 < len(steps) < 60
    assert (tmp_path / "7.jsonl").stat().st_size <= 4000
    assert os.listdir(tmp_path) == ["7.jsonl"]


def test_from_a_shell_with_the_file_alone(tmp_path: Path) -> None:
    alone = tmp_path / "report.py"
    shutil.copy(report.__file__, alone)
    argv = [sys.executable, str(alone), "--step", "5", "--checkpoint"]
    subprocess.run(argv, check=True, cwd=tmp_path)
    assert [(r.step, r.checkpoint) for r in read(tmp_path).reports] == [(5.0, True)]


def test_without_a_spool_it_is_beside_the_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SLURM_EXT_SPOOL")
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(tmp_path))
    report.Reporter().checkpoint(1)
    assert len(read(tmp_path / ".slurm_ext").reports) == 1


GOOD = {"v": 1, "t": 1.0, "event": "progress", "step": 5}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[1,2]",
        b"\xff\xfe",
        b"[" * 4000,
        b'"' + b"x" * 5000 + b'"',
        json.dumps({**GOOD, "v": 2}).encode(),
        json.dumps({**GOOD, "step": "5"}).encode(),
        json.dumps({**GOOD, "step": -1}).encode(),
        json.dumps({**GOOD, "step": True}).encode(),
        json.dumps({**GOOD, "step": 10**300}).encode(),
        b'{"v":1,"t":1,"event":"progress","step":NaN}',
        b'{"v":1,"t":1,"event":"progress","step":1e999}',
        json.dumps({**GOOD, "event": {"a": 1}}).encode(),
        json.dumps({**GOOD, "t": None}).encode(),
    ],
)
def test_a_bad_line_costs_only_itself(line: bytes, tmp_path: Path) -> None:
    good = json.dumps(GOOD).encode()
    (tmp_path / "7.jsonl").write_bytes(b"\n".join([good, line, good, b""]))
    found = read(tmp_path)
    assert [r.step for r in found.reports] == [5.0, 5.0]
    assert found.bad_lines == 1


def test_optional_numbers_that_are_none_are_not_said(tmp_path: Path) -> None:
    odd = {**GOOD, "gpus": "4", "loss": [], "batch_size": 1e300, "samples_per_s": -1, "run": {}}
    (tmp_path / "7.jsonl").write_text(json.dumps(odd) + "\n")
    assert read(tmp_path).reports == (Report(1.0, 0, 5.0),)


def test_a_line_still_being_written_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "7.jsonl").write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD))
    assert len(read(tmp_path).reports) == 1


def test_of_a_huge_file_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "7.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: no disk is filled
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + json.dumps(GOOD).encode() + b"\n")
    found = read(tmp_path)
    assert len(found.reports) == 1
    assert MAX_READ < 1 << 20


def test_no_file_is_no_problem(tmp_path: Path) -> None:
    assert read(tmp_path) == Progress()
    assert read(tmp_path / "nowhere") == Progress()


def test_the_file_of_another_user_does_not_count(tmp_path: Path) -> None:
    report.Reporter().checkpoint(1)
    assert read(tmp_path, UID + 1).problem == f"belongs to uid {UID}, the job to uid {UID + 1}"
    assert read(tmp_path, UID + 1).reports == ()


def test_links_pipes_and_directories_do_not_count(tmp_path: Path) -> None:
    path, real = tmp_path / "7.jsonl", tmp_path / "real"
    real.write_text(json.dumps(GOOD) + "\n")
    for make in (lambda: path.symlink_to(real), lambda: os.mkfifo(path), path.mkdir):
        make()
        assert read(tmp_path).reports == ()
        assert read(tmp_path).problem
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    link = tmp_path / "spool"
    link.symlink_to(tmp_path)
    assert read(link).problem
