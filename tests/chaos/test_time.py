"""Frozen past the lease, odd time zones, and a restart that changes nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.conftest import SPEC
from tests.chaos.rig import SLACK_S, Frail, Queue, Wish, choice, read
from tests.integration.harness import Slurm, running, wait_for

pytestmark = pytest.mark.slurm

Make = Callable[..., Frail]
LEASE_S = 10


def blocked(slurm: Slurm, count: int = 3, nodes: int = 1) -> tuple[int, Queue]:
    """One job on all nodes, and some that wait for it."""
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=300)
    slurm.wait_state([block], {"RUNNING"}, 15)
    for _ in range(count):
        queue.add(Wish(nodes=nodes), "--gpus-per-node=8", run_s=15)
    return block, queue


def leased(queue: Queue) -> list[str]:
    return [x for x in queue.left_behind(read(queue.slurm)) if ": begins" in x]


@pytest.mark.parametrize("point", ["entries:wait:3", "patch:wait:required_nodes=('"])
def test_frozen_past_the_lease(slurm: Slurm, frail: Make, tmp_path: Path, point: str) -> None:
    """Slurm goes on alone; what was planned before the sleep harms nobody afterwards."""
    block, queue = blocked(slurm, count=2, nodes=2)
    mark = tmp_path / "mark"
    beside = frail(levers__frontier="wide", cycle__stale_s=5, cycle__observe_timeout_s=3)
    beside.launch(point, mark)
    jobs = [job for job in queue.wishes if job != block]
    if point.startswith("patch"):
        wait_for(lambda: leased(queue), 20, "leases stand", beside.log)
        slurm.run("scancel", str(block))
    wait_for(mark.exists, 20, "in the middle of a cycle", beside.log)
    os.kill(beside.process.pid, signal.SIGSTOP)  # type: ignore[union-attr]
    slurm.run("scancel", str(block), check=False)
    # Its lease is over: Slurm starts it by itself.
    slurm.wait_state(jobs, {"RUNNING"}, LEASE_S + 2 * SLACK_S)
    before = {job: read(slurm)[job].nodes for job in jobs}
    mark.unlink()
    os.kill(beside.process.pid, signal.SIGCONT)  # type: ignore[union-attr]
    beside.wait_cycles(3)
    after = read(slurm)
    assert {job: after[job].nodes for job in jobs} == before
    assert all(after[job].node_count == "2" and after[job].priority > 0 for job in jobs)
    assert not beside.tracebacks(), beside.tracebacks()
    if point.startswith("entries"):
        assert "nothing sent" in beside.log_path.read_text()


@pytest.mark.parametrize("defer", ["lease", "hold"])
def test_a_restart_changes_nothing_that_is_wanted(slurm: Slurm, frail: Make, defer: str) -> None:
    _, queue = blocked(slurm, count=6)
    beside = frail(levers__lease_s=60, levers__frontier="wide", levers__defer=defer).start()
    wait_for(lambda: len(queue.marked()) >= 6, 20, "all deferred", beside.log)
    beside.wait_cycles(2)
    waiting = {j: s for j, s in read(slurm).items() if s.pending}
    sent = len(beside.actions())
    assert beside.stop() == 0
    beside.start()
    beside.wait_cycles(3)
    new = beside.actions()[sent:]
    if defer == "lease":
        assert [(a["lever"], a["why"]) for a in new] == []
        assert {j: s for j, s in read(slurm).items() if s.pending} == waiting
    else:  # an orderly end gives holds back; a new daemon sets each once
        assert {a["lever"] for a in new} <= {"hold", "restore", "rank"}
        assert sum(a["lever"] == "hold" for a in new) <= 6
    assert queue.wishes


def test_a_restart_after_a_kill_changes_nothing_that_is_wanted(slurm: Slurm, frail: Make) -> None:
    _, queue = blocked(slurm, count=6)
    beside = frail(levers__lease_s=60, levers__frontier="wide", levers__defer="hold").start()
    wait_for(lambda: len(queue.marked()) >= 6, 20, "all held", beside.log)
    beside.wait_cycles(2)
    sent = len(beside.actions())
    beside.kill()
    beside.start()
    beside.wait_cycles(3)
    assert [(a["lever"], a["why"]) for a in beside.actions()[sent:]] == []


@pytest.fixture(scope="module", params=choice(["Pacific/Chatham", "America/St_Johns"], 2))
def odd_cluster(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """A cluster whose clocks show a time zone with quarters of an hour."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        with running(SPEC) as slurm:
            slurm.env["TZ"] = request.param
            yield slurm
    time.tzset()


def test_leases_end_at_the_right_moment_in_an_odd_time_zone(
    odd_cluster: Slurm, tmp_path: Path
) -> None:
    _, queue = blocked(odd_cluster, count=2)
    now_s = int(time.time())
    job = queue.add(Wish(begin_s=now_s + 40), "--gpus-per-node=8")
    beside = Frail(odd_cluster, tmp_path / "d", levers__lease_s=LEASE_S,
                   levers__frontier="wide")  # fmt: skip
    try:
        beside.start()
        wait_for(lambda: leased(queue), 20, "leases stand", beside.log)
        beside.wait_cycles(2)
        seen = queue.check_always(LEASE_S)
        now_s = int(time.time())
        ends = [seen[j].eligible_s or 0 for j, w in queue.wishes.items()
                if seen[j].pending and not w.begin_s]  # fmt: skip
        assert all(now_s - SLACK_S <= end <= now_s + LEASE_S + SLACK_S for end in ends), ends
        beside.kill()
        wait_for(lambda: not leased(queue), LEASE_S + SLACK_S, "leases lapse",
                 lambda: leased(queue), exact=True)  # fmt: skip
        beside.command("recover", "--fail-open")
        assert read(odd_cluster)[job].eligible_s == queue.wishes[job].begin_s
    finally:
        if beside.process is not None and beside.process.poll() is None:
            beside.kill()
