"""slurmctld lives but answers nobody: stopped for half a minute, or just while we write."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.chaos.absence import (
    LEASE_S,
    QUICK,
    Crowded,
    Make,
    alive,
    assert_recovers,
    children,
    failed_cycles,
    failing,
)
from tests.chaos.rig import Frail, Queue, Wish, read
from tests.integration.harness import Slurm, wait_for

pytestmark = pytest.mark.slurm

SILENCE_S = 30
SHORTEST_TRY_S = 3 + 1  # the time-out of a look, and the first pause
COMMANDS_OF_A_LOOK, FILES_OF_A_COMMAND = 3, 5


def idle_through(beside: Frail, silence_s: float) -> None:
    """``silence_s`` with slurmctld stopped: it keeps trying, one look at a time."""
    assert beside.process is not None
    pid, end = beside.process.pid, time.monotonic() + silence_s
    files = len(os.listdir(f"/proc/{pid}/fd"))
    most = 0

    def over() -> bool:
        nonlocal most
        assert beside.process is not None
        assert beside.process.poll() is None, beside.log()
        assert failing(beside), "the status says that all is well"
        most = max(most, len(children(pid)))
        return time.monotonic() > end

    wait_for(over, silence_s + 5, "the silence is over")
    assert 1 <= most <= COMMANDS_OF_A_LOOK, most
    more = COMMANDS_OF_A_LOOK * FILES_OF_A_COMMAND
    assert len(os.listdir(f"/proc/{pid}/fd")) <= files + more


@pytest.mark.usefixtures("whole")
def test_slurmctld_silent_for_three_leases(slurm: Slurm, frail: Make, crowded: Crowded) -> None:
    beside = frail(**QUICK).start()
    queue = crowded.queue
    wait_for(lambda: queue.marked() == crowded.waiting, 20, "leases stand", beside.log)
    slurm.cluster.kill("slurmctld", "STOP")
    error = wait_for(lambda: failing(beside), 20, "the status says so", beside.log)
    assert "no answer within" in error, error
    idle_through(beside, SILENCE_S)
    assert failed_cycles(beside) in range(3, SILENCE_S // SHORTEST_TRY_S + 3)
    assert beside.log_path.read_text().count("no answer within") <= failed_cycles(beside) + 1
    sent = len(beside.actions())
    last = beside.rows("SELECT max(cycle) AS n FROM cycle")[0]["n"]
    slurm.cluster.kill("slurmctld", "CONT")
    # The leases of before have long lapsed: whatever stands now is new, and a lease long at most.
    queue.check_always(LEASE_S)
    wait_for(lambda: beside.cycle() > last + 2, 25, "goes on planning", beside.log)
    assert all(a["cycle"] > last for a in beside.actions()[sent:]), "sent late"
    assert queue.marked() == crowded.waiting
    queue.check_always(LEASE_S)
    crowded.go_on()
    assert_recovers(beside, queue)
    assert {row["job_id"] for row in beside.starts()} >= set(crowded.waiting)


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("defer", ["lease", "hold"])
def test_slurmctld_falls_silent_while_we_write(
    slurm: Slurm, frail: Make, crowded: Crowded, tmp_path: Path, defer: str
) -> None:
    """The commands time out at our end, yet slurmctld may carry them out once it wakes."""
    mark = tmp_path / "mark"
    beside = frail(levers__defer=defer, **QUICK).launch("send:wait:Command", mark)
    wait_for(mark.exists, 20, "about to write", beside.log)
    slurm.cluster.kill("slurmctld", "STOP")
    mark.unlink()
    wait_for(lambda: failing(beside), 25, "the write failed", beside.log)
    slurm.cluster.kill("slurmctld", "CONT")
    crowded.go_on()
    assert_recovers(beside, crowded.queue)


@pytest.mark.usefixtures("whole")
def test_no_command_of_ours_outlives_us(slurm: Slurm, frail: Make, tmp_path: Path) -> None:
    """A hold that is on its way when we are killed must not arrive after a recover."""
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=120)
    slurm.wait_state([block], {"RUNNING"}, 15)
    queue.add(Wish(), "--gpus-per-node=8")
    mark = tmp_path / "mark"
    beside = frail(levers__defer="hold", **{**QUICK, "cycle__call_timeout_s": 20})
    beside.launch("send:wait:'hold'", mark)
    wait_for(mark.exists, 20, "about to hold", beside.log)
    slurm.cluster.kill("slurmctld", "STOP")
    mark.unlink()
    assert beside.process is not None
    children = Path(f"/proc/{beside.process.pid}/task/{beside.process.pid}/children")
    pids = wait_for(lambda: children.read_text().split(), 10, "scontrol runs", beside.log)
    beside.kill()
    wait_for(lambda: not any(map(alive, pids)), 3, "scontrol ended", lambda: list(map(alive, pids)))
    slurm.cluster.kill("slurmctld", "CONT")
    beside.command("recover", "--fail-open")
    assert queue.left_behind(read(slurm)) == []
