"""Jobs that start, change or are requeued behind the daemon's back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.rig import Frail, Queue, Seen, Wish, choice, hosts, read
from tests.integration.harness import Slurm, wait_for

pytestmark = pytest.mark.slurm

Make = Callable[..., Frail]


def seen(slurm: Slurm, job: int) -> Seen:
    return read(slurm)[job]


def wait_seen(
    slurm: Slurm, job: int, what: str, true: Callable[[Seen], object], deadline_s: float = 25
) -> Seen:
    wait_for(lambda: true(seen(slurm, job)), deadline_s, f"{job}: {what}",
             lambda: seen(slurm, job))  # fmt: skip
    return seen(slurm, job)


def blocker(queue: Queue) -> int:
    """Takes all four nodes until it is cancelled."""
    job = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=120)
    wait_seen(queue.slurm, job, "blocks", lambda s: s.state == "RUNNING")
    return job


def started_meanwhile(
    slurm: Slurm, beside: Frail, tmp_path: Path, point: str, *options: str
) -> tuple[int, Seen, Seen]:
    """A job of two nodes starts by other hands while the daemon is about to write to it."""
    mark = tmp_path / "mark"
    queue = Queue(slurm)
    block = blocker(queue)
    job = queue.add(
        Wish(nodes=2), "--gpus-per-node=8", "--time=10", *options, until=tmp_path / "never"
    )
    beside.launch(point, mark)
    if "ReqNodeList" in point or "required" in point:
        wait_seen(slurm, job, "leased", lambda s: "[slurm_ext;" in s.admin_comment)
        slurm.run("scancel", str(block))
        wait_for(mark.exists, 20, "about to pin", beside.log)
        # Elsewhere than planned: so a pin that arrives late would take nodes away.
        planned = hosts(seen(slurm, job).required)
        assert not planned
        slurm.update(job, StartTime="now", ReqNodeList="n[3-4]")
    else:
        wait_for(mark.exists, 20, "about to hold", beside.log)
        slurm.run("scancel", str(block))
    before = wait_seen(slurm, job, "runs", lambda s: s.state == "RUNNING", 8)
    mark.unlink()
    written = beside.cycle()
    wait_for(lambda: beside.cycle() >= written + 3, 20, "the write is over", beside.log)
    return job, before, seen(slurm, job)


@pytest.mark.parametrize("partition", ["gpu", "gpu,side"])
@pytest.mark.parametrize(
    "point", choice(["send:wait:ReqNodeList=n", "patch:wait:required_nodes=('"], 2)
)
def test_a_late_pin_takes_no_nodes_from_a_running_job(
    slurm: Slurm, frail: Make, tmp_path: Path, point: str, partition: str
) -> None:
    beside = frail(levers__lease_s=30, levers__frontier="wide")
    _, before, after = started_meanwhile(slurm, beside, tmp_path, point, f"--partition={partition}")
    assert (after.state, after.nodes, after.node_count) == ("RUNNING", before.nodes, "2")
    assert after.priority == before.priority > 0
    assert not beside.tracebacks(), beside.tracebacks()


@pytest.mark.parametrize("point", choice(["send:wait:'hold'", "patch:wait:hold=True"], 2))
def test_a_late_hold_is_no_trap_for_a_running_job(
    slurm: Slurm, frail: Make, tmp_path: Path, point: str
) -> None:
    beside = frail(levers__defer="hold", levers__frontier="wide")
    job, before, after = started_meanwhile(slurm, beside, tmp_path, point)
    assert (after.state, after.nodes) == ("RUNNING", before.nodes)
    assert after.priority > 0, after
    beside.stop()
    slurm.run("scontrol", "requeue", str(job))
    again = wait_seen(slurm, job, "requeued", lambda s: s.pending)
    assert not again.held, again


def pinned_and_running(slurm: Slurm, beside: Frail) -> int:
    queue = Queue(slurm)
    block = blocker(queue)
    beside.start()
    job = queue.add(Wish(), "--gpus-per-node=8", "--requeue", run_s=60)
    wait_seen(slurm, job, "leased", lambda s: "[slurm_ext;" in s.admin_comment)
    slurm.run("scancel", str(block))
    one = wait_seen(slurm, job, "runs", lambda s: s.state == "RUNNING")
    assert one.required == one.nodes, f"not pinned: {one}"
    return job


def test_a_requeued_job_loses_our_pin(slurm: Slurm, frail: Make) -> None:
    beside = frail(levers__frontier="wide")
    job = pinned_and_running(slurm, beside)
    slurm.run("scontrol", "requeue", str(job))
    one = wait_seen(slurm, job, "pending, unpinned", lambda s: s.pending and not s.required)
    assert one.admin_comment == "", one
    assert not one.held, one


def test_a_job_requeued_without_a_daemon_is_unpinned_by_recover(slurm: Slurm, frail: Make) -> None:
    beside = frail(levers__frontier="wide")
    job = pinned_and_running(slurm, beside)
    beside.kill()
    slurm.run("scontrol", "requeue", str(job))
    wait_seen(slurm, job, "pending", lambda s: s.pending)
    beside.command("recover", "--fail-open")
    one = seen(slurm, job)
    assert (one.pending, one.required, one.admin_comment) == (True, "", ""), one


def test_a_job_requeueheld_by_its_owner_stays_held(slurm: Slurm, frail: Make) -> None:
    beside = frail(levers__frontier="wide")
    job = pinned_and_running(slurm, beside)
    slurm.run("scontrol", "requeuehold", str(job))
    wait_seen(slurm, job, "held, unpinned", lambda s: s.held and not s.required)
    beside.wait_cycles(3)
    assert seen(slurm, job).held, seen(slurm, job)


def test_a_hold_of_the_user_in_place_of_ours_is_the_users(slurm: Slurm, frail: Make) -> None:
    """We died between noting our hold and setting it; then the user set one."""
    queue = Queue(slurm)
    blocker(queue)
    job = queue.add(Wish(), "--gpus-per-node=8")
    beside = frail(levers__defer="hold", levers__frontier="wide")
    beside.launch("commit_intents:after:hold=True")
    assert beside.wait_dead(20) == 9, beside.log()
    slurm.run("scontrol", "uhold", str(job))
    beside.start()
    beside.wait_cycles(2)
    beside.stop()
    assert seen(slurm, job).held, seen(slurm, job)


def test_a_hold_of_the_user_in_place_of_ours_survives_recover(slurm: Slurm, frail: Make) -> None:
    queue = Queue(slurm)
    blocker(queue)
    job = queue.add(Wish(), "--gpus-per-node=8")
    beside = frail(levers__defer="hold", levers__frontier="wide")
    beside.launch("commit_intents:after:hold=True")
    assert beside.wait_dead(20) == 9, beside.log()
    slurm.run("scontrol", "uhold", str(job))
    beside.command("recover", "--fail-open")
    assert seen(slurm, job).held, seen(slurm, job)


def test_node_list_of_the_user_in_place_of_our_pin_is_the_users(slurm: Slurm, frail: Make) -> None:
    """We died between noting our pin and setting it; then the user named a node."""
    queue = Queue(slurm)
    block = blocker(queue)
    job = queue.add(Wish(), "--gpus-per-node=8")
    beside = frail(levers__lease_s=30, levers__frontier="wide")
    beside.launch("commit_intents:after:required_nodes=('")
    wait_seen(slurm, job, "leased", lambda s: "[slurm_ext;" in s.admin_comment)
    slurm.run("scancel", str(block))
    assert beside.wait_dead(20) == 9, beside.log()
    slurm.update(job, ReqNodeList="n3")
    beside.command("recover", "--fail-open")
    one = seen(slurm, job)
    assert one.required == "n3", one
    assert one.admin_comment == "", one


def test_a_new_begin_of_the_user_on_a_leased_job_is_kept(slurm: Slurm, frail: Make) -> None:
    queue = Queue(slurm)
    blocker(queue)
    job = queue.add(Wish(), "--gpus-per-node=8")
    beside = frail(levers__frontier="wide").start()
    wait_seen(slurm, job, "leased", lambda s: "[slurm_ext;" in s.admin_comment)
    begin_s = int(time.time()) + 60
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(begin_s))
    slurm.update(job, StartTime=stamp)
    beside.wait_cycles(3)
    beside.stop()
    assert seen(slurm, job).eligible_s == begin_s, seen(slurm, job)
