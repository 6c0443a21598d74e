"""The verbs over a made-up dump: what they print, and their exit codes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import pytest

from slurm_ext.accounting.sacct import HistoryError
from slurm_ext.accounting.steps import FIELDS
from slurm_ext.cli import history
from slurm_ext.errors import ConfigError, SlurmExtError
from tests.unit.accounting.helpers import ran, row


def call(state: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    history.add_parser(parser.add_subparsers(required=True))
    config = state / "empty.toml"
    config.touch()
    argv = ["history", *words, "--config", str(config), "--set", f'state.dir="{state}"']
    args = parser.parse_args(argv)
    code: int = args.run(args)
    return code


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with a dump of 60 jobs of two users, the last an hour ago."""
    begin = int(time.time()) - 61 * 3600
    rows = [
        ran(i + 1, begin + i * 3600, 600 + i, User=("ann", "bob")[i % 2], TimelimitRaw=600)
        for i in range(60)
    ]
    lines = ["|".join(row()), *("|".join(r.values()) for r in rows), "broken|line"]
    (tmp_path / "dump").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def synced(state: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert call(state, "sync", "--dump", str(state / "dump")) == 0
    assert call(state, "fit") == 0
    capsys.readouterr()
    return state


def test_sync_from_a_dump(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(state, "sync", "--dump", str(state / "dump")) == 0
    said = capsys.readouterr().out
    assert "60 new attempts, 60 in all" in said
    assert "left out 1: wrong number of fields, e.g. broken|line" in said


def test_fit_says_how_good_it_would_have_been(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(state, "sync", "--dump", str(state / "dump"))
    assert call(state, "fit") == 0
    assert "of 60 run times" in capsys.readouterr().out


def test_predict_a_made_up_job(synced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--user=ann", "--name=train", "--gpus=2", "--time=10:00:00", "--json")
    assert call(synced, "predict", *words) == 0
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert 600 <= found["p10_s"] <= found["point_s"] <= 660
    assert found["n"] == 30


def test_predict_in_words(synced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(synced, "predict", "--user=bob", "--name=train", "--gpus=2", "--time=600") == 0
    assert "by 30 samples sharing user+" in capsys.readouterr().out


def test_predict_without_a_fit(state: Path) -> None:
    with pytest.raises(SlurmExtError, match="history fit"):
        call(state, "predict", "--user=ann")


def test_predict_whom(synced: Path) -> None:
    with pytest.raises(ConfigError, match="name a JOB"):
        call(synced, "predict")


def test_report(synced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(synced, "report", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [a["suggested_s"] for a in found["limits"]] == [900, 900]
    assert found["skipped"] == {"wrong number of fields": 1}
    assert set(found["usage"]["user"]) == {"ann", "bob"}


def test_report_as_tables(synced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(synced, "report", "--user=ann") == 0
    said = capsys.readouterr().out
    assert "GPU-H FREED" in said
    assert "bob" not in said


def test_eval_of_the_own_store(synced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(synced, "eval") == 0
    said = capsys.readouterr().out
    assert "| own | weighted, nearest | 42 |" in said
    assert "Rule: " in said


@pytest.mark.parametrize("verb", ["fit", "eval", "report"])
def test_no_history_yet(tmp_path: Path, verb: str) -> None:
    with pytest.raises(HistoryError, match="history sync"):
        call(tmp_path, verb)


def test_since_must_be_a_date(state: Path) -> None:
    with pytest.raises(ConfigError, match="--since"):
        call(state, "sync", "--since", "yesterday")


def test_plots_of_the_own_store(synced: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="extra plot")
    assert call(synced, "eval", "--plots", str(synced / "plots")) == 0
    assert (synced / "plots" / "own.png").read_bytes().startswith(b"\x89PNG")


def test_plots_without_matplotlib_say_what_to_install(
    synced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(HistoryError, match="pip install"):
        call(synced, "eval", "--plots", str(synced / "plots"))


def test_artefact_where_the_configuration_says(state: Path) -> None:
    call(state, "sync", "--dump", str(state / "dump"))
    assert call(state, "fit", "--set", f'history.artefact="{state}/other.npz"') == 0
    assert (state / "other.npz").exists()


def test_report_of_what_steps_recorded(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin = int(time.time()) - 9 * 3600
    columns = [*row(), *FIELDS[4:]]
    lines = ["|".join(dict.fromkeys(columns))]
    for i in range(6):
        job = ran(i + 1, begin + i * 3600, 600) | {
            "TotalCPU": "10:00",
            "TRESUsageInTot": "",
            "TRESUsageInAve": "",
        }
        lines.append("|".join(job.values()))
        lines.append("|".join((job | {
            "JobIDRaw": f"{i + 1}.batch", "TRESUsageInTot": "mem=100M"}).values()))  # fmt: skip
    (state / "steps").write_text("\n".join(lines) + "\n")
    call(state, "sync", "--dump", str(state / "steps"))
    capsys.readouterr()
    assert call(state, "report", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["sizes"]
    assert (found["busy_cpus"], found["cpus_suggested"], found["peak_mib"]) == (1.0, 2, 100)
    assert call(state, "report") == 0
    assert "GIB-H FREED" in capsys.readouterr().out
