"""slurmctld, munged or the configuration of the cluster goes away under the daemon."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from minislurm import MiniSlurmError

from tests.chaos.rig import Frail, Queue, Wish, read
from tests.integration.harness import Slurm, wait_for

pytestmark = pytest.mark.slurm

Make = Callable[..., Frail]
QUICK = {
    "cycle__call_timeout_s": 2,
    "cycle__observe_timeout_s": 3,
    "cycle__backoff_max_s": 4,
    "cycle__stale_s": 5,
    "levers__frontier": "wide",
}


@pytest.fixture
def queue(slurm: Slurm) -> Queue:
    """Seven jobs, room for four at a time."""
    queue = Queue(slurm)
    for number in range(7):
        wish = Wish(admin_comment="ops note" if number % 3 == 0 else "")
        queue.add(wish, "--gpus-per-node=8", run_s=2)
    return queue


@pytest.fixture
def whole(slurm: Slurm) -> Iterator[None]:
    """Whatever a test does to the cluster's daemons is put right again."""
    yield
    for name in ("munged", "slurmctld"):
        states = {d["name"]: d for d in slurm.cluster.status()["daemons"]}
        if states[name]["stopped"]:
            slurm.cluster.kill(name, "CONT")
        elif not states[name]["alive"]:
            slurm.cluster.restart(name)
    wait_for(lambda: not slurm.run("scontrol", "ping", check=False).returncode, 20, "an answer")
    # A batch launch that slurmctld forgot in its death drains the node (seen on 24.11).
    slurm.run("scontrol", "update", "nodename=ALL", "state=resume", check=False)


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

    def kill_slurmctld(self) -> None:
        mark, slurm = f"saved-{uuid4()}", self.queue.slurm
        slurm.update(self.running[0], Comment=mark)
        state = slurm.cluster.layout.state / "job_state"
        wait_for(lambda: mark.encode() in state.read_bytes(), 20, "job state on disk")
        slurm.cluster.kill("slurmctld")

    def go_on(self) -> None:
        """What ran before must still run; then it ends."""
        assert set(self.queue.slurm.states(self.running).values()) == {"RUNNING"}
        self.gate.touch()


@pytest.fixture
def crowded(slurm: Slurm, tmp_path: Path) -> Iterator[Crowded]:
    queue, gate = Queue(slurm), tmp_path / "gate"
    running = [queue.add(Wish(), "--gpus-per-node=8", "--time=10", until=gate) for _ in range(4)]
    slurm.wait_state(running, {"RUNNING"}, 15)
    for comment in ("", "ops note", ""):
        queue.add(Wish(admin_comment=comment), "--gpus-per-node=8", run_s=2)
    yield Crowded(queue, gate, running)
    gate.touch()


def failing(beside: Frail) -> str:
    """What the status says to be wrong, or empty."""
    failure = beside.status().get("failure")
    return failure["error"] if failure else ""


def alive(pid: str) -> str:
    """The command and state of a process, empty once it has ended."""
    try:
        state = Path("/proc", pid, "stat").read_text().split()
    except OSError:
        return ""
    return "" if state[2] == "Z" else f"{state[1]} {state[2]}"


def assert_recovers(beside: Frail, queue: Queue, deadline_s: float = 25) -> None:
    pid = beside.process.pid if beside.process else 0
    wait_for(beside.healthy, deadline_s, "healthy again", beside.log)
    assert beside.process is not None
    assert beside.process.pid == pid
    assert failing(beside) == ""
    queue.end(60)
    queue.check_always(10)
    assert not beside.tracebacks(), beside.tracebacks()


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
def test_slurmctld_silent_for_fifteen_seconds(slurm: Slurm, frail: Make, queue: Queue) -> None:
    beside = frail(**QUICK).start()
    slurm.cluster.kill("slurmctld", "STOP")
    error = wait_for(lambda: failing(beside), 20, "the status says so", beside.log)
    assert "no answer" in error or "scontrol ping" in error, error

    def failed() -> int:
        return len(beside.rows("SELECT 1 FROM cycle WHERE error != ''"))

    wait_for(lambda: failed() >= 3, 25, "backs off and tries again", beside.log)
    sent = len(beside.actions())
    last = beside.rows("SELECT max(cycle) AS n FROM cycle")[0]["n"]
    slurm.cluster.kill("slurmctld", "CONT")
    wait_for(lambda: beside.cycle() > last, 25, "a good cycle", beside.log)
    # Nothing of the time of silence was sent afterwards: what is new belongs to new cycles.
    assert all(a["cycle"] > last for a in beside.actions()[sent:])
    assert_recovers(beside, queue)


@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("defer", ["lease", "hold"])
def test_slurmctld_falls_silent_while_we_write(
    slurm: Slurm, frail: Make, queue: Queue, tmp_path_factory: pytest.TempPathFactory, defer: str
) -> None:
    """The commands time out at our end, yet slurmctld may carry them out once it wakes."""
    mark = tmp_path_factory.mktemp("mark") / "mark"
    beside = frail(levers__defer=defer, **QUICK).launch("send:wait=1:Command", mark)
    wait_for(mark.exists, 20, "about to write", beside.log)
    slurm.cluster.kill("slurmctld", "STOP")
    wait_for(lambda: failing(beside), 25, "the write failed", beside.log)
    slurm.cluster.kill("slurmctld", "CONT")
    assert_recovers(beside, queue)


@pytest.mark.usefixtures("whole")
def test_no_command_of_ours_outlives_us(slurm: Slurm, frail: Make, tmp_path: Path) -> None:
    """A hold that is on its way when we are killed must not arrive after a recover."""
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=120)
    slurm.wait_state([block], {"RUNNING"}, 15)
    queue.add(Wish(), "--gpus-per-node=8")
    mark = tmp_path / "mark"
    beside = frail(levers__defer="hold", **{**QUICK, "cycle__call_timeout_s": 20})
    beside.launch("send:wait=1:'hold'", mark)
    wait_for(mark.exists, 20, "about to hold", beside.log)
    slurm.cluster.kill("slurmctld", "STOP")
    assert beside.process is not None
    children = Path(f"/proc/{beside.process.pid}/task/{beside.process.pid}/children")
    pids = wait_for(lambda: children.read_text().split(), 10, "scontrol runs", beside.log)
    beside.kill()
    wait_for(lambda: not any(map(alive, pids)), 3, "scontrol ended", lambda: list(map(alive, pids)))
    slurm.cluster.kill("slurmctld", "CONT")
    beside.command("recover", "--fail-open")
    assert queue.left_behind(read(slurm)) == []


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
    beside.launch("send:wait=2:ReqNodeList=n", mark)
    wait_for(lambda: queue.marked() == [job], 20, "leased", beside.log)
    slurm.run("scancel", str(block))
    wait_for(mark.exists, 20, "about to pin", beside.log)
    slurm.run("scontrol", "update", "NodeName=n[1-4]", "State=DRAIN", "Reason=test")
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
        slurm.cluster.kill("slurmctld", "TERM")
        wait_for(lambda: failing(beside), 20, "slurmctld ends", beside.log)
        with suppress(MiniSlurmError):  # it misses the node that is no more
            slurm.cluster.restart("slurmctld", timeout=6)
        for _ in range(5):
            queue.add(Wish(), "--gpus-per-node=8")
        assert_recovers(beside, queue)
    finally:
        conf.write_text(old)
        slurm.cluster.kill("slurmctld", "TERM")
        wait_for(
            lambda: not next(d["alive"] for d in slurm.cluster.status()["daemons"]
                             if d["name"] == "slurmctld"), 20, "slurmctld ends",
        )  # fmt: skip
        slurm.cluster.restart("slurmctld")
        slurm.cluster.restart("n4")
