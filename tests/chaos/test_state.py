"""The daemon's own files: full disk, read-only, damaged, locked."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos.rig import SLACK_S, Frail, Queue, Wish, choice, read
from tests.integration.harness import Slurm, wait_for

pytestmark = pytest.mark.slurm

Make = Callable[..., Frail]
LEASE_S = 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte for the state directory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)],
                          check=False, capture_output=True)  # fmt: skip
    if made.returncode:
        pytest.skip("no mount here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


@pytest.fixture
def queue(slurm: Slurm) -> Queue:
    """One long job on all nodes, three that wait."""
    queue = Queue(slurm)
    block = queue.add(Wish(nodes=4), "--gpus-per-node=8", run_s=300)
    slurm.wait_state([block], {"RUNNING"}, 15)
    for _ in range(3):
        queue.add(Wish(), "--gpus-per-node=8")
    return queue


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    fd = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        while os.write(fd, b"x" * 512):
            pass
    os.close(fd)
    return ballast


def leased(queue: Queue) -> list[str]:
    return [x for x in queue.left_behind(read(queue.slurm)) if ": begins" in x]


def test_full_disk_under_the_ledger(frail: Make, queue: Queue, small_disk: Path) -> None:
    beside = frail(state__dir=str(small_disk / "state"), levers__frontier="wide")
    beside.journal_path = small_disk / "state" / "journal.db"
    beside.start()
    wait_for(lambda: leased(queue), 20, "leases stand", beside.log)
    ballast = fill(small_disk)
    wait_for(lambda: not beside.healthy(), 30, "says that it cannot go on", beside.log)
    rpcs = queue.slurm.rpc_counts().get("REQUEST_UPDATE_JOB", 0)
    wait_for(lambda: not leased(queue), LEASE_S + SLACK_S + 2, "leases lapse",
             lambda: (leased(queue), beside.log()), exact=True)  # fmt: skip
    failure = str(beside.status()["failure"])
    assert "free space" in failure, failure
    assert queue.slurm.rpc_counts().get("REQUEST_UPDATE_JOB", 0) == rpcs, beside.log()
    ballast.unlink()
    wait_for(beside.healthy, 30, "works again", beside.log)
    wait_for(lambda: leased(queue), 30, "leases stand again", beside.log)
    assert not beside.tracebacks(), beside.tracebacks()


def test_full_disk_under_the_ledger_keeps_no_job_held(
    frail: Make, queue: Queue, small_disk: Path
) -> None:
    """Nothing lapses here and the daemon lives, so it must give back what it cannot note."""
    beside = frail(
        state__dir=str(small_disk / "state"), levers__frontier="wide", levers__defer="hold"
    )
    beside.journal_path = small_disk / "state" / "journal.db"
    beside.start()
    wait_for(queue.slurm.held, 20, "holds stand", beside.log)
    fill(small_disk)
    wait_for(lambda: not queue.slurm.held(), LEASE_S + 20, "holds given back", beside.log)
    assert not beside.tracebacks(), beside.tracebacks()


def test_full_disk_at_start(frail: Make, queue: Queue, small_disk: Path) -> None:
    fill(small_disk)
    beside = frail(state__dir=str(small_disk / "state"))
    beside.launch()
    assert beside.wait_dead(20) in (1, 6), beside.log()
    assert "space" in beside.log(), beside.log()
    assert not beside.tracebacks(), beside.tracebacks()
    assert not leased(queue)


def test_recover_with_a_full_disk(frail: Make, queue: Queue, small_disk: Path) -> None:
    beside = frail(state__dir=str(small_disk / "state"), levers__frontier="wide")
    beside.journal_path = small_disk / "state" / "journal.db"
    beside.start()
    wait_for(lambda: leased(queue), 20, "leases stand", beside.log)
    beside.kill()
    fill(small_disk)
    beside.command("recover", "--fail-open")
    assert queue.left_behind(read(queue.slurm)) == []


def test_read_only_state_directory(frail: Make, queue: Queue, small_disk: Path) -> None:
    beside = frail(state__dir=str(small_disk / "state"), levers__frontier="wide")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    beside.launch()
    assert beside.wait_dead(20) in (1, 6), beside.log()
    assert "ead-only file system" in beside.log(), beside.log()
    assert not beside.tracebacks(), beside.tracebacks()
    assert not leased(queue)


@pytest.mark.parametrize("defer", choice(["hold", "lease"], 2))
def test_state_directory_turns_read_only(
    frail: Make, queue: Queue, small_disk: Path, defer: str
) -> None:
    """What an ext4 does on an error; the notes and the old ledger are still there to be read."""
    beside = frail(
        state__dir=str(small_disk / "state"), levers__frontier="wide", levers__defer=defer
    )
    beside.journal_path = small_disk / "state" / "journal.db"
    beside.start()
    wait_for(lambda: queue.left_behind(read(queue.slurm)), 20, "deferred", beside.log)
    beside.kill()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    said = beside.command("recover", "--fail-open", check=False)
    assert "Traceback" not in said.stderr, said.stderr
    assert queue.left_behind(read(queue.slurm)) == [], said.stdout + said.stderr


@pytest.mark.parametrize("verb", [("serve",), ("cycle",), ("recover", "--fail-open")])
def test_nobody_works_beside_a_running_daemon(
    frail: Make, queue: Queue, verb: tuple[str, ...]
) -> None:
    beside = frail(levers__frontier="wide").start()
    wait_for(lambda: leased(queue), 20, "leases stand", beside.log)
    said = beside.command(*verb, check=False)
    assert said.returncode == 5, (said.returncode, said.stderr)
    assert beside.process is not None
    assert f"process {beside.process.pid} on {os.uname().nodename}" in said.stderr, said.stderr
    beside.wait_cycles(1)
    assert leased(queue)


@pytest.mark.parametrize("damage", choice(["random", "empty", "cut"], 2))
def test_damaged_journal_is_set_aside(frail: Make, queue: Queue, damage: str) -> None:
    """The notes in the jobs take its place."""
    beside = frail(levers__frontier="wide").start()
    wait_for(lambda: leased(queue), 20, "leases stand", beside.log)
    beside.kill()
    path = beside.journal_path
    for other in path.parent.glob("journal.db-*"):
        other.unlink()
    size = path.stat().st_size
    content = {"random": os.urandom(size), "cut": path.read_bytes()[:100] + os.urandom(3000),
               "empty": b""}[damage]  # fmt: skip
    path.write_bytes(content)
    beside.command("recover", "--fail-open")
    assert queue.left_behind(read(queue.slurm)) == []
    beside.start()
    wait_for(lambda: leased(queue), 20, "leases stand again", beside.log)
    if damage != "empty":
        assert list(path.parent.glob("journal.db.damaged-*"))
    assert not beside.tracebacks(), beside.tracebacks()
