"""The verbs, run in this process against an in-memory Slurm."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from slurm_ext.cli import admin, replay, run
from slurm_ext.cli.main import build_parser, main
from slurm_ext.cli.tables import run_times
from slurm_ext.daemon.estimates import HistoryState
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.lock import DaemonLock
from tests.builders import job, node, observation
from tests.fake import FakeSlurm


@pytest.fixture
def state(tmp_path: Path) -> Path:
    config = tmp_path / "c.toml"
    config.write_text(
        f'mode = "enforce"\n[state]\ndir = "{tmp_path}/state"\nrun_dir = "{tmp_path}/run"\n'
    )
    return config


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    now = int(time.time())
    found = FakeSlurm(observation([node("n1")], [job(1, gpus=8, submit=now - 9)], now=now))
    for module in (run, admin):
        monkeypatch.setattr(module, "connect", lambda config: found)
        monkeypatch.setattr(module, "can_write_notes", lambda port: True)
    return found


def call(state: Path, *words: str) -> int:
    return main([*words, "--config", str(state)])


def test_plan_touches_nothing(
    state: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(state, "plan") == 0
    assert "fits now on n1" in capsys.readouterr().out
    assert fake.sent == []
    assert not (state.parent / "state").exists()


def test_plan_json_is_json(
    state: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(state, "plan", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["jobs"][0]["verdict"] == "start"


def test_cycle_acts_and_dry_run_does_not(state: Path, fake: FakeSlurm) -> None:
    assert call(state, "cycle", "--dry-run") == 0
    assert fake.sent == []
    assert call(state, "cycle") == 0
    assert len(fake.sent) == 1


def test_a_refusal_gives_exit_code_1(state: Path, fake: FakeSlurm) -> None:
    fake.refuse = {1}
    assert call(state, "cycle") == 1


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch, fake: FakeSlurm) -> FakeSlurm:
    monkeypatch.setattr(replay, "connect", lambda config: fake)
    monkeypatch.setattr(replay, "can_write_notes", lambda port: True)
    return fake


def test_why_tells_verdict_rank_and_what_would_change(
    state: Path, explained: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(state, "why", "1", "--what-if", "gpus=9") == 0
    out = capsys.readouterr().out
    assert "job 1: start, rank 0 of 1" in out
    assert "with gpus=9: never" in out


def test_why_json(state: Path, explained: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(state, "why", "1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "start"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("99", "not in the queue"),
        ("", "which job"),
        (" ", "which job"),
        ("2", "has ended"),
        ("x\x1b[2J", "not in"),
    ],
)
def test_why_of_what_does_not_wait(
    state: Path, explained: FakeSlurm, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    ended = job(2, state="COMPLETED")
    explained.obs = replace(explained.obs, jobs=(*explained.obs.jobs, ended))
    assert call(state, "why", name) == 1
    err = capsys.readouterr().err
    assert said in err
    assert "\x1b" not in err


def test_snapshot_and_replay(
    state: Path, explained: FakeSlurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.json.gz"
    assert call(state, "snapshot", str(file)) == 0
    assert main(["replay", str(file)]) == 0
    assert "the same plan" in capsys.readouterr().out


def test_slurm_down_gives_exit_code_3(
    state: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.down = True
    assert call(state, "plan") == 3
    assert "does not answer" in capsys.readouterr().err


def test_a_second_daemon_gives_exit_code_5(
    state: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = state.parent / "state"
    directory.mkdir()
    with DaemonLock(directory / "daemon.lock", cluster="", now_s=0):
        assert call(state, "cycle") == 5
        assert call(state, "recover", "--fail-open") == 5
    assert "held by process" in capsys.readouterr().err


def test_recover_gives_back(state: Path, fake: FakeSlurm) -> None:
    call(state, "cycle")
    assert fake.obs.jobs[0].begin_s is not None
    assert call(state, "recover", "--fail-open") == 0
    assert fake.obs.jobs[0].begin_s is None


def test_recover_without_fail_open_spares_a_living_daemon(
    state: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    call(state, "cycle")
    (state.parent / "run").mkdir()
    (state.parent / "run" / "heartbeat").write_text(f"{int(time.time())} 30\n")
    assert call(state, "recover") == 0
    assert fake.obs.jobs[0].begin_s is not None
    assert "alive" in capsys.readouterr().out


def test_pause_and_resume(state: Path, fake: FakeSlurm) -> None:
    call(state, "cycle")
    assert call(state, "pause", "--why", "test") == 0
    with Journal.open_readonly(state.parent / "state" / "journal.db") as journal:
        assert journal.paused(int(time.time())) is not None
    call(state, "cycle")
    assert fake.obs.jobs[0].begin_s is None
    assert call(state, "resume") == 0


def test_pause_without_a_journal_says_what_to_do(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(state, "pause") == 6
    assert "--config" in capsys.readouterr().err


def test_status_without_a_daemon(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(state, "status") == 1
    assert "slurm-ext serve" in capsys.readouterr().err


def test_config_problems_come_all_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('mode = "sometimes"\n[cycle]\ninterval = 3\n')
    assert main(["config", "check", "--config", str(bad)]) == 2
    err = capsys.readouterr().err
    assert "mode" in err
    assert "interval_s" in err


def test_an_unknown_policy_is_named_with_its_neighbour(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(state, "config", "check", "--set", "policy.name=fifoo") == 7
    assert "did you mean 'fifo'" in capsys.readouterr().err


def test_policy_parameters_are_checked(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["config", "check", "--set", "policy.name=sjf", "--set"]
    assert call(state, *words, "policy.parameters.aging_s=600") == 0
    assert call(state, *words, "policy.parameters.agin_s=600") == 7


def test_config_show_can_be_loaded_again(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(state, "config", "show") == 0
    shown = tmp_path / "shown.toml"
    shown.write_text(capsys.readouterr().out)
    assert main(["config", "check", "--config", str(shown)]) == 0


@pytest.mark.parametrize(
    "words", [["--help"], ["serve", "--help"], ["plan", "--help"], ["recover", "--help"],
              ["doctor", "--help"], ["config", "show", "--help"], ["topology", "--help"]]
)  # fmt: skip
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == 0
    assert "usage: slurm-ext" in capsys.readouterr().out


@pytest.mark.parametrize("hours", ["nan", "inf", "-5", "0", "1e300", "soon"])
def test_pauses_that_are_none(state: Path, hours: str) -> None:
    with pytest.raises(SystemExit) as ended:
        call(state, "pause", f"--hours={hours}")
    assert ended.value.code == 2


def test_an_override_is_one_value(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(state, "config", "check", "--set", 'mode="observe"\nx=1') == 2
    assert "mode" in capsys.readouterr().err


def test_commands_from_nowhere_are_said_so(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(state, "plan", "--set", "slurm.bin_dir=/nonexistent") == 3
    assert "no scontrol there" in capsys.readouterr().err


def test_a_socket_path_that_is_too_long(
    tmp_path: Path, fake: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / ("x" * 120)
    words = ["serve", "--set", f"state.dir={tmp_path}/s", "--set", f"state.run_dir={deep}"]
    assert main(words) == 1
    assert "state.run_dir" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("history", "says"),
    [
        (HistoryState("d.npz: missing"), "run times: time limits (d.npz: missing)"),
        (
            HistoryState("", 1000, 50, None, 4, 3),
            "run times: learnt 2 h ago from 50 attempts; 3 of 4 jobs estimated",
        ),
        (
            HistoryState("", 1000, 50, 0.71, 4, 3, 1),
            "run times: learnt 2 h ago from 50 attempts (71% of last week's within p10-p90; "
            "80% is right); 3 of 4 jobs estimated, 1 in the next cycle",
        ),
    ],
)
def test_what_run_times_are_planned_with(history: HistoryState, says: str) -> None:
    assert run_times({"history": asdict(history), "at_s": 8200}) == says


@pytest.mark.parametrize("option", ["--json", "--csv", "--html"])
def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    nowhere = str(tmp_path / "no" / "such")
    assert main(["sim", "run", "--jobs", "2", option, nowhere]) == 1
    assert f"{nowhere}: No such file or directory; name another path" in capsys.readouterr().err


@pytest.mark.parametrize("load", ["nan", "inf", "0"])
def test_a_load_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str], load: str) -> None:
    assert main(["sim", "run", "--jobs", "2", "--load", load]) == 2
    assert "load: above 0 and finite" in capsys.readouterr().err
