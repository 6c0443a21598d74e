"""What the tests share that take slurmctld or munged away from under the daemon."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.chaos.rig import Frail, Queue, Wish
from tests.integration.harness import Slurm, wait_for

Make = Callable[..., Frail]
LEASE_S = 10
QUICK = {
    "levers__lease_s": LEASE_S,
    "cycle__call_timeout_s": 2,
    "cycle__observe_timeout_s": 3,
    "cycle__backoff_max_s": 4,
    "cycle__stale_s": 5,
    "levers__frontier": "wide",
}


@dataclass(frozen=True)
class Crowded:
    """Four jobs on all the nodes until ``gate`` appears, three behind them.

    slurmctld writes its state up to five seconds late: a job that ended in those before a kill
    runs again afterwards, without a process, and holds its node until its time limit. So when
    slurmctld dies here, nothing has started or ended since it last wrote.
    """

    queue: Queue
    gate: Path
    running: list[int]

    @classmethod
    def on(cls, slurm: Slurm, gate: Path) -> Crowded:
        queue = Queue(slurm)
        whole = ("--gpus-per-node=8", "--time=10")
        running = [queue.add(Wish(), *whole, until=gate) for _ in range(4)]
        slurm.wait_state(running, {"RUNNING"}, 15)
        for comment in ("", "ops note", ""):
            queue.add(Wish(admin_comment=comment), "--gpus-per-node=8", run_s=2)
        return cls(queue, gate, running)

    @property
    def waiting(self) -> list[int]:
        return [job for job in self.queue.wishes if job not in self.running]

    def kill_slurmctld(self) -> None:
        """``kill -9`` once it has written what it knows now."""
        mark, slurm = f"saved-{uuid4()}", self.queue.slurm
        slurm.update(self.running[0], Comment=mark)
        state = slurm.cluster.layout.state / "job_state"

        def saved() -> bool:
            try:
                return mark.encode() in state.read_bytes()
            except FileNotFoundError:  # the old one goes a moment before the new one comes
                return False

        wait_for(saved, 20, "job state on disk")
        slurm.cluster.kill("slurmctld")

    def go_on(self) -> None:
        """What ran before must still run; then it ends."""
        assert set(self.queue.slurm.states(self.running).values()) == {"RUNNING"}
        self.gate.touch()


def failing(beside: Frail) -> str:
    """What the status says to be wrong, or empty."""
    failure = beside.status().get("failure")
    return failure["error"] if failure else ""


def failed_cycles(beside: Frail) -> int:
    return len(beside.rows("SELECT 1 FROM cycle WHERE error != ''"))


def alive(pid: str) -> str:
    """The command and state of a process, empty once it has ended."""
    try:
        state = Path("/proc", pid, "stat").read_text().split()
    except OSError:
        return ""
    return "" if state[2] == "Z" else f"{state[1]} {state[2]}"


def children(pid: int) -> list[str]:
    """Pids of the processes that this one, by any of its threads, has started and not reaped."""
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended meanwhile
            found += task.read_text().split()
    return found


def assert_recovers(beside: Frail, queue: Queue, deadline_s: float = 25) -> None:
    """The same process is healthy again, and all jobs end COMPLETED as their users wished."""
    pid = beside.process.pid if beside.process else 0
    wait_for(beside.healthy, deadline_s, "healthy again", beside.log)
    assert beside.process is not None
    assert beside.process.pid == pid
    assert failing(beside) == ""
    queue.end(60)
    queue.check_always(LEASE_S)
    assert not beside.tracebacks(), beside.tracebacks()
