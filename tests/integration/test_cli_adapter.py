"""The CLI adapter against a real Slurm that is hostile, hung, or not there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.model.decision import JobPatch, Lever
from slurm_ext.model.job import Job
from slurm_ext.slurm.cli import CliOptions, CliSlurm
from slurm_ext.slurm.run import Runner

from .harness import Slurm, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def adapter(slurm: Slurm, timeout_s: float = 30, **environ: str) -> CliSlurm:
    env = {**slurm.env, **environ}
    return CliSlurm(CliOptions(timeout_s=timeout_s), Runner(timeout_s=timeout_s, environ=env))


def job(cli: CliSlurm, job_id: int) -> Job:
    return next(one for one in cli.observe().jobs if one.job_id == job_id)


def started(cli: CliSlurm, job_id: int) -> Job:
    wait_for(lambda: job(cli, job_id).state.running, 30, f"job {job_id} runs")
    return job(cli, job_id)


HOSTILE = {
    "lines": "a\nb\r\nc",
    "controls": "\x01\x02\x1b[31m\x7f\ttab",
    "separators": "|~,:;%\x1f\x1e<SEP>",
    "assignment": "x JobId=1 UserId=root(0) ReqNodeList=a1",
    "scontrol lines": "x\n   ReqNodeList=a1 ExcNodeList=(null)\n   NumNodes=1-9 NumCPUs=64",
    "blank": "   ",
    "quotes": "\"'`$(id)`'\"\\",
    "marks": "scontrol: show hostnames x\nm0123456789abcdefx0\n",
    "unicode": "naïve ✓ \u202e",
}


def test_hostile_names_and_comments(slurm: Slurm) -> None:
    cli = adapter(slurm)
    ids = {
        name: slurm.submit("-H", "-J", text, "--comment", text) for name, text in HOSTILE.items()
    }
    odd = slurm.submit("-H", "-J", "bytes\udcff\udcfe")
    long = slurm.submit("-H")
    text = "é" * 30_000
    slurm.update(long, Comment=text[:500], AdminComment=text)  # Comment ends at 1024 bytes
    seen = {one.job_id: one for one in cli.observe().jobs}
    for name, job_id in ids.items():
        assert seen[job_id].name == HOSTILE[name]
        assert seen[job_id].comment == HOSTILE[name]
        assert seen[job_id].held
    assert (seen[long].comment, seen[long].admin_comment) == (text[:500], text)
    assert seen[odd].name == "bytes\\xff\\xfe"
    assert not any("columns" in problem.detail for problem in cli.observe().problems)
    # Only the one that imitates the lines we read loses its details.
    without = {i for i, one in seen.items() if "details_not_read" in one.request.unplannable}
    assert without == {ids["scontrol lines"]}


def fake_block(victim: int, node: str) -> str:
    return (
        f"x\n\nJobId={victim} JobName=fake\n   UserId=root(0)\n"
        "   ReqNodeList=(null) ExcNodeList=(null)\n   NodeList=" + node + "\n"
        "   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n"
        f"     Nodes={node} CPU_IDs=0 Mem=10 GRES=gpu:a100:2(IDX:6-7)\n"
        "   MinCPUsNode=1 MinMemoryNode=10M MinTmpDiskNode=0\n"
        "   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)"
    )


def test_a_forged_block_cannot_take_a_victims_gpus_away(slurm: Slurm) -> None:
    cli = adapter(slurm)
    victim = started(cli, slurm.submit("--gres=gpu:a100:2", "-w", "a1", run_s=600))
    mask = victim.alloc[0].gpu_mask
    assert mask.bit_count() == 2
    forger = slurm.submit("-H", "--comment", fake_block(victim.job_id, "a1"))
    second = slurm.submit("-H", "-J", fake_block(victim.job_id, "a1"))
    seen = {one.job_id: one for one in cli.observe().jobs}
    assert seen[victim.job_id].alloc == victim.alloc
    assert seen[victim.job_id].request.unplannable == ()
    assert seen[forger].alloc == ()
    assert seen[second].request.unplannable == ("details_not_read",)


def test_a_running_forger_keeps_occupying_with_counts_only(slurm: Slurm) -> None:
    cli = adapter(slurm)
    name = "x\n   ReqNodeList=a2 ExcNodeList=(null)\n     Nodes=b2 CPU_IDs=0 Mem=1 GRES="
    forger = slurm.submit("--gres=gpu:a100:3", "-w", "a1", "-J", name, run_s=600)
    one = started(cli, forger)
    assert [(s.node, s.gpus, s.gpu_mask) for s in one.alloc] == [("a1", 3, 0)]
    assert any(problem.subject == str(forger) for problem in cli.observe().problems)


REQUESTS = (
    ("--gpus=12",), ("-n3", "--gpus-per-task=2"), ("--gpus=2", "--cpus-per-gpu=3"),
    ("--gpus=2", "--mem-per-gpu=300"), ("-N1-4", "--gpus-per-node=2"),
    ("-N2-4", "-n8", "--mem-per-cpu=100"), ("--exclusive", "--mem=0", "-N2"),
    ("--exclusive=user",), ("--gpus-per-socket=1", "--sockets-per-node=2", "--gpus=2"),
    ("-C", "air"), ("-L", "sim:2"), ("--contiguous", "-N2"), ("-N2", "--ntasks-per-node=4", "-c2"),
    ("-x", "a1,b1", "-w", "a2"), ("--no-requeue", "--nice=33"), ("--gres=gpu",),
    ("--gpus=4", "--ntasks-per-gpu=2"), ("-a", "0-467%7"), ("-a", "0-10:2,50"),
    ("--deadline=now+2hours", "-t", "10"), ("-b", "now+1hour"), ("--mincpus=8", "-n4"),
    ("--gpus=4", "--gpus-per-node=2", "-N2"), ("-p", "gpu,late"), ("--mem=1537M",), ("-t", "0"),
    ("-t", "2-12"),
)  # fmt: skip


def test_text_and_json_agree_on_all_kinds_of_requests(slurm: Slurm) -> None:
    cli = adapter(slurm)
    for options in REQUESTS:
        slurm.submit("-H", *options)
    slurm.submit("-N1", "--gres=gpu:1", ":", "-N1", "--gres=gpu:2", run_s=600)
    held = slurm.submit("-N2", "-n3", "--gpus=3", run_s=600)
    slurm.submit("-d", f"afterok:{held}")
    slurm.submit("-a", "0-5%2", "--gres=gpu:a100:1", run_s=600)
    slurm.submit(script="#!/bin/sh\nexit 3\n")
    started(cli, held)
    # Jobs start between the reads: compare until a quiet moment.
    wait_for(lambda: not cli.crosscheck(), 20, "text and JSON agree", cli.crosscheck)


def test_separately_changed_tasks_stay_separate(slurm: Slurm) -> None:
    """Plain squeue would fold them back into the array and hide what was changed."""
    cli = adapter(slurm)
    array = slurm.submit("-H", "-a", "0-9")
    slurm.update(f"{array}_7", ExcNodeList="a1")
    tasks = {one.address: one for one in cli.observe().jobs if one.array_job_id == array}
    assert set(tasks) == {str(array), f"{array}_7"}
    assert tasks[f"{array}_7"].request.excluded_nodes == ("a1",)
    assert tasks[str(array)].array_count == 9


def test_users_environment_changes_nothing(slurm: Slurm) -> None:
    cli = adapter(
        slurm, SQUEUE_FORMAT="%i", SQUEUE_FORMAT2="jobid", SQUEUE_STATES="R", SLURM_CLUSTERS="x",
        SLURM_TIME_FORMAT="relative", TZ="Asia/Tokyo", SQUEUE_SORT="-i", SINFO_FORMAT="%n",
    )  # fmt: skip
    one = job(cli, slurm.submit("-H"))
    assert abs(one.key.submit_s - time.time()) < 60


@pytest.fixture
def thaw(slurm: Slurm) -> Iterator[list[str]]:
    """Names of daemons to be continued at the end."""
    frozen: list[str] = []
    yield frozen
    for name in frozen:
        slurm.cluster.kill(name, "CONT")
    wait_for(
        lambda: slurm.run("scontrol", "ping", check=False).returncode == 0, 30, "Slurm answers"
    )


@pytest.mark.parametrize("name", ["slurmctld", "munged"])
def test_a_stopped_daemon_is_a_time_out(slurm: Slurm, thaw: list[str], name: str) -> None:
    cli = adapter(slurm, timeout_s=1.5)
    one = job(cli, slurm.submit("-H"))
    slurm.cluster.kill(name, "STOP")
    thaw.append(name)
    patch = JobPatch(one.key, one.address, Lever.RANK, site_factor=1)
    for call in (
        cli.observe,
        cli.controller,
        lambda: cli.look([one.key]),
        lambda: cli.patch([patch]),
    ):
        begun = time.monotonic()
        with pytest.raises(SlurmUnavailableError, match=r"no answer within 1\.5 s"):
            call()
        assert time.monotonic() - begun < 10
    assert children_of_this_process() == []


def children_of_this_process() -> list[str]:
    """Slurm commands that still run as our children."""
    me = os.getpid()
    files = [Path(f"/proc/{me}/task/{task}/children") for task in os.listdir(f"/proc/{me}/task")]
    found = [pid for file in files if file.exists() for pid in file.read_text().split()]
    names = [Path(f"/proc/{pid}/comm") for pid in found]
    shown = [name.read_text().strip() for name in names if name.exists()]
    return [name for name in shown if name in ("squeue", "scontrol", "sinfo", "sprio", "sdiag")]


def test_no_controller(slurm: Slurm, tmp_path: Path) -> None:
    conf = Path(slurm.env["SLURM_CONF"]).read_text()
    lines = [line for line in conf.splitlines() if not line.startswith("SlurmctldPort")]
    (tmp_path / "slurm.conf").write_text("\n".join([*lines, "SlurmctldPort=1"]) + "\n")
    for file in Path(slurm.env["SLURM_CONF"]).parent.glob("gres.conf"):
        (tmp_path / "gres.conf").write_text(file.read_text())
    cli = adapter(slurm, timeout_s=3, SLURM_CONF=str(tmp_path / "slurm.conf"))
    with pytest.raises(SlurmUnavailableError, match="slurmctld"):
        cli.observe()


def test_no_configuration(slurm: Slurm, tmp_path: Path) -> None:
    cli = adapter(slurm, timeout_s=20, SLURM_CONF=str(tmp_path / "none"))
    with pytest.raises((SlurmUnavailableError, SlurmCommandError)):
        cli.controller()


def test_missing_commands(slurm: Slurm, tmp_path: Path) -> None:
    cli = adapter(slurm, PATH=str(tmp_path))
    for call in (cli.observe, cli.controller, cli.rpc_counts):
        with pytest.raises(SlurmUnavailableError, match=r"not found in .*; install"):
            call()
