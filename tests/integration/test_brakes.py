"""The hold lever, pause, resume, recover, signals, a second daemon: on jobs we hold back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live import soon

from .harness import Daemon, Slurm, wait_for

pytestmark = pytest.mark.slurm

SMALL = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100", "--time=10")
WHOLE = ("--nodes=4", "--cpus-per-task=1", "--mem=100")
FIELDS = ("Priority", "EligibleTime", "ReqNodeList", "AdminComment", "Reason")


def crowd(slurm: Slurm, daemon: Daemon, until: Path | None = None) -> tuple[list[int], list[int]]:
    """(filler and whole-cluster job, small jobs we hold back behind the promise)."""
    filler = slurm.submit(*WHOLE, "--gpus-per-node=6", "--time=5", run_s=300, until=until)
    slurm.wait_state([filler], {"RUNNING"}, 20)
    begin = soon(2)
    whole = slurm.submit(*WHOLE, "--gpus-per-node=8", begin)
    small = [slurm.submit(*SMALL, begin) for _ in range(4)]
    wait_for(
        lambda: {a["job_id"] for a in daemon.actions() if a["state"] == "ok"} >= set(small),
        20, "all small jobs deferred", daemon.log,
    )  # fmt: skip
    return [filler, whole], small


def future_begin(slurm: Slurm, jobs: list[int]) -> list[int]:
    """Those whose EligibleTime is still to come."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    return [job for job in jobs if slurm.show(job, "EligibleTime")["EligibleTime"] > now]


def start_times(slurm: Slurm, jobs: list[int]) -> list[str]:
    return [slurm.show(job, "StartTime")["StartTime"] for job in jobs]


def runs_freely(slurm: Slurm, blocked: list[int], jobs: list[int]) -> None:
    """Without the big job ahead of them (Slurm's own backfill respects it) nothing stops these."""
    slurm.run("scancel", str(blocked[1]))
    slurm.wait_completed(jobs, 20)


def test_hold_lever_keeps_the_order_and_leaves_nothing_held(
    slurm: Slurm, daemon: Callable[..., Daemon], tmp_path: Path
) -> None:
    beside = daemon(policy__name="fifo", levers__defer="hold")
    (filler, whole), small = crowd(slurm, beside, until=tmp_path / "gate")
    (tmp_path / "gate").touch()
    assert {a["lever"] for a in beside.actions(*small)} >= {"hold"}
    slurm.wait_completed([filler, whole, *small], 60)
    (first,) = start_times(slurm, [whole])
    assert all(first <= later for later in start_times(slurm, small))
    assert slurm.held() == []
    assert beside.errors() == []


def test_sigterm_releases_what_we_hold(slurm: Slurm, daemon: Callable[..., Daemon]) -> None:
    beside = daemon(policy__name="fifo", levers__defer="hold")
    blocked, small = crowd(slurm, beside)
    wait_for(lambda: set(map(str, small)) <= set(slurm.held()), 10, "all small ones held")
    assert beside.stop(signal.SIGTERM) == 0
    assert slurm.held() == []
    runs_freely(slurm, blocked, small)


def test_sigint_gives_leases_back(slurm: Slurm, daemon: Callable[..., Daemon]) -> None:
    beside = daemon(policy__name="fifo")
    _, small = crowd(slurm, beside)
    assert future_begin(slurm, small) == small
    assert beside.stop(signal.SIGINT) == 0
    # The jobs' own --begin may still be some seconds ahead; a lease would be many.
    wait_for(lambda: not future_begin(slurm, small), 5, "the leases to be taken back")
    assert slurm.marked() == []


def test_leases_lapse_after_sigterm(slurm: Slurm, daemon: Callable[..., Daemon]) -> None:
    beside = daemon(policy__name="fifo", levers__lease_s=6, levers__renew_at=0.5)
    blocked, small = crowd(slurm, beside)
    assert beside.stop(signal.SIGTERM) == 0
    assert future_begin(slurm, small) == small
    wait_for(lambda: not future_begin(slurm, small), 6 + 1, "the leases to lapse", exact=True)
    runs_freely(slurm, blocked, small)


def test_pause_gives_back_and_resume_defers_again(
    slurm: Slurm, daemon: Callable[..., Daemon]
) -> None:
    beside = daemon(policy__name="fifo")
    _, small = crowd(slurm, beside)
    beside.command("pause", "--why", "test")
    wait_for(lambda: not slurm.marked(), 10, "marks gone", beside.log)
    beside.wait_cycles(1)
    sent = len(beside.actions())
    # The users' own begin may still be ahead for a moment.
    wait_for(lambda: future_begin(slurm, small) == [], 10, "eligible again", beside.log)
    beside.wait_cycles(3)
    assert len(beside.actions()) == sent
    assert "paused by root" in beside.command("status").stdout
    beside.command("resume")
    wait_for(lambda: future_begin(slurm, small) == small, 10, "deferred again", beside.log)
    assert "paused" not in beside.command("status").stdout
    assert beside.errors() == []


def test_recover_undoes_what_a_killed_daemon_left(
    slurm: Slurm, daemon: Callable[..., Daemon]
) -> None:
    beside = daemon(policy__name="fifo")
    blocked, small = crowd(slurm, beside)
    assert beside.command("recover", "--fail-open", check=False).returncode == 5
    beside.signal(signal.SIGKILL)
    assert beside.process is not None
    beside.process.wait(10)
    assert future_begin(slurm, small) == small
    said = beside.command("recover", "--fail-open").stdout
    assert "jobs given back" in said
    wait_for(lambda: not future_begin(slurm, small), 10, "the users' own begin")
    assert slurm.marked() == []
    runs_freely(slurm, blocked, small)


def test_recover_works_from_the_notes_alone(slurm: Slurm, daemon: Callable[..., Daemon]) -> None:
    beside = daemon(policy__name="fifo", levers__defer="hold")
    blocked, small = crowd(slurm, beside)
    beside.signal(signal.SIGKILL)
    assert beside.process is not None
    beside.process.wait(10)
    for path in beside.journal_path.parent.glob("journal.db*"):
        path.unlink()
    assert set(map(str, small)) <= set(slurm.held())
    beside.command("recover", "--fail-open")
    assert slurm.held() == []
    runs_freely(slurm, blocked, small)


def test_restart_changes_nothing_that_is_still_wanted(
    slurm: Slurm, daemon: Callable[..., Daemon]
) -> None:
    beside = daemon(policy__name="fifo", levers__lease_s=300)
    _, small = crowd(slurm, beside)
    beside.wait_cycles(2)
    before = {job: slurm.show(job, *FIELDS) for job in small}
    sent = len(beside.actions())
    beside.signal(signal.SIGKILL)
    assert beside.process is not None
    beside.process.wait(10)
    beside.start()
    beside.wait_cycles(4)
    assert {job: slurm.show(job, *FIELDS) for job in small} == before
    assert beside.actions()[sent:] == []


def test_second_daemon_is_refused(slurm: Slurm, daemon: Callable[..., Daemon]) -> None:
    beside = daemon(mode="observe")
    done = beside.command("serve", check=False)
    assert done.returncode == 5
    assert str(beside.process.pid if beside.process else "") in done.stderr
    beside.wait_cycles(1)


def test_broken_file_keeps_the_old_configuration(
    slurm: Slurm, daemon: Callable[..., Daemon]
) -> None:
    beside = daemon(mode="observe", policy__name="fifo")
    digest = beside.status()["daemon"]["config"]
    good = beside.config_path.read_text()
    beside.config_path.write_text(good + "\n[levers\nlease_s = 'x'\n")
    beside.signal(signal.SIGHUP)
    wait_for(lambda: "reload refused" in beside.log(), 10, "a refusal in the log", beside.log)
    beside.wait_cycles(2)
    assert beside.status()["daemon"]["config"] == digest
    assert beside.status()["policy"] == "fifo"
    beside.write_config(policy__name="sjf")
    beside.signal(signal.SIGHUP)
    wait_for(lambda: beside.status()["policy"] == "sjf", 10, "the new policy", beside.log)
