"""History from a real slurmdbd: what ended is read once, learnt from, and told again."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from minislurm import NodeGroup, Spec, User

from slurm_ext.accounting.artefact import load
from slurm_ext.accounting.features import Features
from slurm_ext.accounting.fit import fit
from slurm_ext.accounting.record import Attempt, Outcome
from slurm_ext.accounting.sacct import Skipped, read_dump, read_window
from slurm_ext.accounting.sacct_json import differences, parse_json
from slurm_ext.accounting.store import Store
from slurm_ext.accounting.sync import sync
from slurm_ext.cli import history
from slurm_ext.slurm.run import Runner
from slurm_ext.slurm.times import stamp

from .conftest import running
from .harness import Daemon, Slurm, wait_for

pytestmark = pytest.mark.slurm

USER = "hi-user1"
SPEC = Spec(
    name="history",
    groups=(NodeGroup(count=2),),
    accounting=True,
    sched="tuned",
    users=(User(USER),),
)
SMALL = ("--gpus-per-node=1", "--cpus-per-task=1", "--mem=100")
HOSTILE = "a|b\n9|9|root|forged"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with running(SPEC) as slurm:
        yield slurm


@pytest.fixture(scope="module")
def runner(cluster: Slurm) -> Runner:
    return Runner(environ={**os.environ, **cluster.env})


@pytest.fixture(scope="module")
def done(cluster: Slurm, runner: Runner) -> dict[str, int]:
    """A finished job, a hostile one, a cancelled one, a requeued one; known to slurmdbd."""
    began = int(time.time())
    jobs = {
        "plain": cluster.submit(*SMALL, "--job-name=train_1", run_s=1, user=USER),
        "hostile": cluster.submit(*SMALL, f"--job-name={HOSTILE}", run_s=1, user=USER),
        "cancelled": cluster.submit(*SMALL, run_s=60, user=USER),
        "requeued": cluster.submit(*SMALL, run_s=60, user=USER),
    }
    long = [jobs["cancelled"], jobs["requeued"]]
    cluster.wait_state(long, {"RUNNING"}, 30)
    # An attempt cut off within its first second is no attempt: let these two become older.
    wait_for(lambda: int(time.time()) > began + 3, 20, "three seconds")
    cluster.run("scontrol", "requeue", str(jobs["requeued"]))
    cluster.run("scancel", str(jobs["cancelled"]))
    cluster.wait_ended([jobs["plain"], jobs["hostile"], jobs["cancelled"]], 60)

    def recorded() -> bool:
        found = {a.job_id for a in window(runner) if not a.open}
        return found >= set(jobs.values())

    wait_for(recorded, 60, "all in slurmdbd", lambda: window(runner))
    return jobs


def window(runner: Runner) -> list[Attempt]:
    now_s = int(time.time())
    return read_window(runner, now_s - 3600, now_s)[0]


def by_job(attempts: list[Attempt], job_id: int) -> list[Attempt]:
    return [a for a in attempts if a.job_id == job_id]


def test_attempts_are_what_happened(runner: Runner, done: dict[str, int]) -> None:
    found = window(runner)
    (plain,) = by_job(found, done["plain"])
    assert (plain.state, plain.outcome, plain.user) == ("COMPLETED", Outcome.ENDED, USER)
    assert (plain.gpus_req, plain.gpus_alloc, plain.limit_s) == (1, 1, 60)
    assert 1 <= plain.run_s <= 5
    (cancelled,) = by_job(found, done["cancelled"])
    assert (cancelled.state, cancelled.outcome) == ("CANCELLED", Outcome.CENSORED)
    assert cancelled.killed_by_uid == 0
    first = by_job(found, done["requeued"])[0]
    assert (first.state, first.outcome) == ("REQUEUED", Outcome.CENSORED)


def test_hostile_name_stays_a_name(runner: Runner, done: dict[str, int]) -> None:
    (made,) = by_job(window(runner), done["hostile"])
    assert (made.name, made.user) == (HOSTILE, USER)
    assert {a.user for a in window(runner)} == {USER}


def test_text_and_json_agree(runner: Runner, done: dict[str, int]) -> None:
    now_s = int(time.time())
    span = ("-S", stamp(now_s - 3600), "-E", stamp(now_s))
    answer: dict[str, Any] = json.loads(runner.ask(["sacct", "--json", "-D", "-X", "-a", *span]))
    assert differences(window(runner), list(parse_json(answer, Skipped()))) == []


def test_dump_of_the_whole_is_read_but_for_broken_lines(
    runner: Runner, done: dict[str, int], tmp_path: Path
) -> None:
    columns = "JobID,User,State,Submit,Start,End,Elapsed,Timelimit,AllocTRES,JobName"
    path = tmp_path / "dump"
    path.write_text(runner.ask(["sacct", "-P", "-X", "-D", "-a", f"--format={columns}"]))
    skipped = Skipped()
    found = {a.job_id for a in read_dump(path, skipped)}
    assert set(done.values()) <= found
    assert 9 not in found  # the forged line has too few fields


def test_second_sync_adds_only_what_is_new(
    cluster: Slurm, runner: Runner, done: dict[str, int], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "h.db") as store:
        first = sync(store, runner, int(time.time()), since_s=int(time.time()) - 3600)
        assert first.stopped == ""
        assert first.total >= len(done)
        assert sync(store, runner, int(time.time())).new == 0
        more = cluster.submit(*SMALL, "--job-name=train_2", run_s=1, user=USER)
        cluster.wait_completed([more], 30)
        seen: list[int] = []

        def arrived() -> bool:
            seen.append(sync(store, runner, int(time.time())).new)
            return store.count("job_id = ? AND end_s IS NOT NULL", (more,)) == 1

        wait_for(arrived, 30, "the new job in the store", lambda: list(store.attempts()))
        assert sum(seen) == 1


def test_learnt_from_what_was_read(runner: Runner, done: dict[str, int], tmp_path: Path) -> None:
    now_s = int(time.time())
    with Store.open(tmp_path / "h.db") as store:
        sync(store, runner, now_s, since_s=now_s - 3600)
        head = fit(store, tmp_path / "d.npz", now_s)
    assert head.cluster == "history"
    loaded = load(tmp_path / "d.npz", now_s, cluster="history")
    job = Features(USER, "lab", "gpu", "normal", "train_#", gpus=1, cpus=1, limit_s=60)
    found = loaded.estimate(job)
    assert found is not None
    assert 1 <= found.point_s <= 5
    assert found.level.startswith("user")


def test_predict_of_a_running_job_by_the_verbs(
    cluster: Slurm, done: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = cluster.submit(*SMALL, "--job-name=train_77", run_s=20, user=USER)
    cluster.wait_state([job], {"RUNNING"}, 30)
    (tmp_path / "c.toml").touch()

    def verb(*words: str) -> Any:
        parser = argparse.ArgumentParser()
        history.add_parser(parser.add_subparsers())
        options = ["--json", "--config", str(tmp_path / "c.toml")]
        options += ["--set", f"state.dir={tmp_path}"]
        options += ["--set", f"slurm.slurm_conf={cluster.env['SLURM_CONF']}"]
        args = parser.parse_args(["history", *words, *options])
        assert args.run(args) == 0
        return json.loads(capsys.readouterr().out)

    assert verb("sync")["stopped"] == ""
    verb("fit")
    found = verb("predict", str(job))
    assert (found["job"]["user"], found["job"]["stem"], found["job"]["gpus"]) == (
        USER,
        "train_#",
        1,
    )
    assert found["elapsed_s"] <= found["estimate"]["p50_s"] <= 60
    assert verb("report")["attempts"] >= len(done)
    cluster.run("scancel", str(job))


def test_slurmdbd_down_keeps_what_is_there(
    cluster: Slurm, runner: Runner, done: dict[str, int], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "h.db") as store:
        now_s = int(time.time())
        before = sync(store, runner, now_s, since_s=now_s - 3600)
        cluster.cluster.kill("slurmdbd")
        try:
            report = sync(store, runner, int(time.time()))
        finally:
            cluster.cluster.restart("slurmdbd")
        assert "what is stored is kept" in report.stopped
        assert report.total == before.total
        assert store.covered() == before.covered
        assert sync(store, runner, int(time.time())).stopped == ""


def test_daemon_plans_with_what_was_learnt_and_why_tells_it(
    cluster: Slurm, done: dict[str, int], tmp_path: Path
) -> None:
    daemon = Daemon(cluster, tmp_path, policy__name="sjf")
    blocker = cluster.submit("--nodes=2", "--gpus-per-node=8", run_s=60, user=USER)
    cluster.wait_state([blocker], {"RUNNING"}, 30)
    with daemon:
        job = cluster.submit(*SMALL, "--job-name=train_9", run_s=1, user=USER)
        daemon.wait_seen([job])
        before = daemon.status()
        assert "missing" in before["history"]["problem"]
        daemon.command("history", "sync")
        daemon.command("history", "fit")

        def planned() -> Any:
            return daemon.decisions()[str(job)]["estimate"]

        estimate = wait_for(planned, 20, "an estimate of the job", daemon.log)
        row = daemon.decisions()[str(job)]
        assert estimate["level"].startswith("user")
        assert row["terms"]["expected_s"] == estimate["point_s"] < row["limit_s"]
        assert daemon.status()["history"]["problem"] == ""
        assert "expected run time in all" in daemon.command("why", str(job)).stdout
        assert "learnt 0 h ago" in daemon.command("status").stdout
        (tmp_path / "state" / "durations.npz").write_bytes(b"rubbish")
        wait_for(lambda: planned() is None, 20, "planning with limits again", daemon.log)
        assert "cannot be used" in daemon.status()["history"]["problem"]
        assert daemon.log().count("planning with time limits") == 2  # missing, then rubbish
    cluster.run("scancel", str(blocker), str(job))


def test_what_steps_recorded_comes_with_the_attempts(
    cluster: Slurm, runner: Runner, done: dict[str, int], tmp_path: Path
) -> None:
    eat = "python3 -c 'import time; a = bytearray(300 << 20); time.sleep(4)'"
    job = cluster.submit(
        *SMALL, "--acctg-freq=task=1", "--time=1", script=f"#!/bin/sh\n{eat}\n", user=USER
    )
    cluster.wait_completed([job], 60)

    def used() -> Any:
        with Store.open(tmp_path / "h.db") as store:
            now_s = int(time.time())
            assert sync(store, runner, now_s, since_s=now_s - 3600).stopped == ""
            found = [one for key, one in store.used().items() if key[1] == job]
            return found and found[0].mem_mib and found[0]

    one = wait_for(used, 30, "the use of the job in the store")
    assert 250 < one.mem_mib < 400
    assert one.cpu_s <= 10
