"""``forecast``, against an in-memory Slurm, a snapshot and a daemon's socket."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import replay, run
from slurm_ext.cli.main import main
from slurm_ext.daemon.publish import Publisher
from tests.builders import job, node, observation
from tests.fake import FakeSlurm


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A full node until 600 s from now, two jobs behind each other, one that never fits."""
    now = int(time.time())
    jobs = [
        job(9, gpus=8, on={"n1": 8}, end=now + 600),
        job(1, gpus=8, limit=300, submit=now - 9, user="eve\x1b[31m"),
        job(2, gpus=8, limit=300, submit=now - 8),
        job(3, gpus=16, submit=now - 7),
    ]
    found = FakeSlurm(observation([node("n1", used=range(8))], jobs, now=now))
    for module in (replay, run):
        monkeypatch.setattr(module, "connect", lambda config: found)
    monkeypatch.setattr(replay, "can_write_notes", lambda port: True)
    path = tmp_path / "c.toml"
    path.write_text(f'[state]\ndir = "{tmp_path}/state"\nrun_dir = "{tmp_path}/run"\n')
    return path


def call(config: Path, *words: str) -> int:
    return main(["forecast", *words, "--config", str(config)])


def asked(config: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert call(config, "--json", *words) == 0
    return json.loads(capsys.readouterr().out)


def test_all_waiting_jobs(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = asked(config, capsys)
    in_s = {j["id"]: j["forecast"] and j["forecast"]["p50_s"] - data["at_s"] for j in data["jobs"]}
    assert in_s == {"1": 600, "2": 900, "3": None}


def test_one_job_as_a_table(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(config, "1") == 0
    shown = capsys.readouterr().out
    assert "00:10:00" in shown
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2


def test_a_job_that_never_fits_says_so(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(config, "3") == 0
    assert "never" in capsys.readouterr().out


def test_an_unknown_job(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(config, "77") == 1
    assert "not in the queue" in capsys.readouterr().err


def test_from_a_snapshot(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.json"
    assert main(["snapshot", str(file), "--config", str(config)]) == 0
    capsys.readouterr()
    assert len(asked(config, capsys, "--from", str(file))["jobs"]) == 3


def test_a_running_daemon_is_asked_first(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    assert main(["plan", "--json", "--config", str(config)]) == 0
    told = json.loads(capsys.readouterr().out)
    told["jobs"][0]["forecast"] = {"p50_s": 70, "p90_s": 90}
    with Publisher(tmp_path / "run") as publisher:
        publisher.publish(lambda: told, 1, {})
        assert asked(config, capsys)["jobs"][0]["forecast"] == {"p50_s": 70, "p90_s": 90}
