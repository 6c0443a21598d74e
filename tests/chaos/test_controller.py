"""slurmctld, munged or the configuration of the cluster goes away under the daemon."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos.absence import QUICK, Crowded, Make, assert_recovers, failing
from tests.chaos.rig import Queue, Wish, read
from tests.integration.harness import Slurm, wait_for

pytestmark = pytest.mark.slurm


@pytest.mark.usefixtures("whole")
def test_slurmctld_killed_and_restarted(slurm: Slurm, frail: Make, crowded: Crowded) -> None:
    beside = frail(**QUICK).start()
    crowded.kill_slurmctld()
    error = wait_for(lambda: failing(beside), 20, "the status says so", beside.log)
    assert "scontrol ping" in error, error
    assert not beside.healthy()
    slurm.cluster.restart("slurmctld")
    wait_for(beside.healthy, 25, "healthy again", beside.log)
    crowded.go_on()
    assert_recovers(beside, crowded.queue)


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("signame", ["STOP", "KILL"])
def test_munged_gone(slurm: Slurm, frail: Make, queue: Queue, signame: str) -> None:
    beside = frail(**QUICK).start()
    slurm.cluster.kill("munged", signame)
    error = wait_for(lambda: failing(beside), 25, "the status says so", beside.log)
    assert "munge" in error.lower(), error
    if signame == "STOP":
        slurm.cluster.kill("munged", "CONT")
    else:
        slurm.cluster.restart("munged")
    assert_recovers(beside, queue)


@pytest.mark.usefixtures("whole")
def test_the_daemon_starts_before_slurmctld_answers(
    slurm: Slurm, frail: Make, crowded: Crowded
) -> None:
    crowded.kill_slurmctld()
    beside = frail(**QUICK).launch()
    wait_for(lambda: "scontrol ping" in beside.log(), 20, "says what is missing", beside.log)
    slurm.cluster.restart("slurmctld")
    wait_for(beside.healthy, 25, "waits instead of giving up", beside.log)
    crowded.go_on()
    assert_recovers(beside, crowded.queue)


def test_a_partition_goes_down_and_comes_back(slurm: Slurm, frail: Make, queue: Queue) -> None:
    beside = frail(**QUICK).start()
    slurm.run("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    beside.wait_cycles(3)
    queue.check_always(10)
    slurm.run("scontrol", "update", "PartitionName=gpu", "State=UP")
    assert_recovers(beside, queue)


@pytest.mark.parametrize("helper", ["daemon", "restart", "recover"])
def test_a_pin_to_a_dead_node_is_taken_back(
    slurm: Slurm, frail: Make, tmp_path: Path, helper: str
) -> None:
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=120)
    slurm.wait_state([block], {"RUNNING"}, 15)
    job = queue.add(Wish(), "--gpus-per-node=8")
    mark = tmp_path / "mark"
    beside = frail(levers__pin_ttl_s=4, levers__start_grace_s=2, levers__frontier="wide")
    beside.launch("send:wait:ReqNodeList=n", mark)
    wait_for(lambda: queue.marked() == [job], 20, "leased", beside.log)
    slurm.run("scancel", str(block))
    wait_for(mark.exists, 20, "about to pin", beside.log)
    slurm.run("scontrol", "update", "NodeName=n[1-4]", "State=DRAIN", "Reason=test")
    mark.unlink()
    try:
        required = wait_for(lambda: read(slurm)[job].required, 10, "pinned", beside.log)
        if helper != "daemon":
            beside.kill()
        others = [f"n{number}" for number in range(1, 5) if f"n{number}" != required]
        slurm.run("scontrol", "update", f"NodeName={','.join(others)}", "State=RESUME")
        if helper == "restart":
            beside.start()
        elif helper == "recover":
            beside.command("recover", "--fail-open")
        slurm.wait_completed([job], 30)
        assert read(slurm)[job].nodes != required
        assert not beside.tracebacks(), beside.tracebacks()
    finally:
        slurm.run("scontrol", "update", "NodeName=n[1-4]", "State=RESUME", check=False)


def test_slurm_conf_changes_under_the_daemon(slurm: Slurm, frail: Make, queue: Queue) -> None:
    conf = slurm.cluster.layout.conf
    old = conf.read_text()
    beside = frail(**QUICK).start()
    try:
        # One partition loses half of its nodes, another one appears.
        new = old.replace("PartitionName=side Nodes=n[3-4]", "PartitionName=side Nodes=n4")
        assert new != old
        conf.write_text(new + "PartitionName=fresh Nodes=n[1-2] MaxTime=UNLIMITED\n")
        slurm.run("scontrol", "reconfigure")
        beside.wait_cycles(3)
        fresh = queue.add(Wish(), "--partition=fresh", "--gpus-per-node=8")
        beside.wait_seen([fresh])
        assert_recovers(beside, queue)
    finally:
        conf.write_text(old)
        slurm.run("scontrol", "reconfigure")


@pytest.mark.usefixtures("whole")
def test_a_node_is_removed_from_slurm_conf(slurm: Slurm, frail: Make, queue: Queue) -> None:
    conf = slurm.cluster.layout.conf
    old = conf.read_text()
    beside = frail(**QUICK).start()
    queue.end(60)
    try:
        new = re.sub(
            r"(?m)^NodeName=n\[1-4\](.*)Port=\[(\d+)-(\d+)\]",
            lambda m: f"NodeName=n[1-3]{m[1]}Port=[{m[2]}-{int(m[3]) - 1}]",
            old,
        )
        new = new.replace("Nodes=n[3-4]", "Nodes=n3")
        assert new != old
        conf.write_text(new)
        slurm.cluster.kill("n4", "TERM")
        slurm.cluster.kill("slurmctld", "TERM")
        wait_for(lambda: failing(beside), 20, "slurmctld ends", beside.log)
        slurm.cluster.restart("slurmctld")
        for _ in range(5):
            queue.add(Wish(), "--gpus-per-node=8")
        assert_recovers(beside, queue)
    finally:
        conf.write_text(old)
        slurm.cluster.restart("slurmctld")
        slurm.cluster.restart("n4")
