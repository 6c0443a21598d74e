"""Reading progress beside the cycles."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from slurm_ext.daemon import progress_files
from slurm_ext.daemon.config_sections import ProgressConfig
from slurm_ext.daemon.progress_files import ProgressFiles
from slurm_ext.model.job import Job
from slurm_ext.model.progress import Progress
from tests.builders import job
from tests.live import wait_for


def config(spool: Path | str = "", **fields: object) -> ProgressConfig:
    values: dict[str, object] = {
        "spool_dir": str(spool), "workdir": True, "interval_s": 0, "max_files": 10, **fields,
    }  # fmt: skip
    return ProgressConfig(**values)  # type: ignore[arg-type]


def runs(job_id: int) -> Job:
    return job(job_id, on={"n1": 1}, gpus=1, uid=os.geteuid())


def write(directory: Path, job_id: int, step: int) -> None:
    directory.mkdir(exist_ok=True)
    line = {"v": 1, "t": 1.0, "event": "progress", "step": step}
    (directory / f"{job_id}.jsonl").write_text(json.dumps(line) + "\n")


def steps(files: ProgressFiles, jobs: list[Job], workdir: Path, settings: ProgressConfig,
          count: int = 1) -> dict[int, float]:  # fmt: skip
    """What the jobs have told, once so many have."""
    dirs = {j.job_id: str(workdir) for j in jobs}

    def look() -> dict[int, float]:
        found = files.read(jobs, dirs, settings)
        return {k.job_id: p.reports[-1].step for k, p in found.items() if p.reports}

    return wait_for(lambda: found if len(found := look()) >= count else None, 10, "reports") or {}


def test_the_spool_goes_before_the_directory_of_the_job(tmp_path: Path) -> None:
    write(tmp_path / "spool", 1, 11)
    write(tmp_path / ".slurm_ext", 1, 12)
    write(tmp_path / ".slurm_ext", 2, 13)
    found = steps(ProgressFiles(), [runs(1), runs(2)], tmp_path, config(tmp_path / "spool"), 2)
    assert found == {1: 11, 2: 13}


def test_all_come_to_their_turn(tmp_path: Path) -> None:
    for job_id in (1, 2, 3):
        write(tmp_path / ".slurm_ext", job_id, job_id)
    jobs = [runs(i) for i in (1, 2, 3)]
    found = steps(ProgressFiles(), jobs, tmp_path, config(max_files=1), 3)
    assert found == {1: 1, 2: 2, 3: 3}


def test_what_ended_is_forgotten(tmp_path: Path) -> None:
    write(tmp_path / ".slurm_ext", 1, 1)
    files = ProgressFiles()
    assert steps(files, [runs(1)], tmp_path, config())
    assert files.read([], {}, config()) == {}


@pytest.mark.parametrize("workdir", ["", "relative", "/nul\0byte"])
def test_directories_that_are_none(workdir: str) -> None:
    assert ProgressFiles().read([runs(1)], {1: workdir}, config()) == {}


def test_a_directory_that_hangs_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / ".slurm_ext", 2, 2)
    real, gate = progress_files.read_progress, threading.Event()

    def reading(directory: Path, job_id: int, uid: int) -> Progress:
        if job_id == 1:
            gate.wait(30)
        return real(directory, job_id, uid)

    monkeypatch.setattr(progress_files, "read_progress", reading)
    monkeypatch.setattr(progress_files, "HANGS_S", 0.01)
    try:
        assert steps(ProgressFiles(), [runs(1), runs(2)], tmp_path, config()) == {2: 2}
    finally:
        gate.set()
