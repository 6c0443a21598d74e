"""pyslurm's process: whatever it does, the call ends in time and says what happened."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.errors import SlurmCommandError, SlurmUnavailableError
from slurm_ext.slurm.deadline import Deadline
from slurm_ext.slurm.native_process import MOST_STARTS, STORM_S, Child, ChildOptions
from tests.live import wait_until

from . import pythons


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Those in it end with the test."""
    found: list[Child] = []
    yield found
    for one in found:
        one.close()


def gone(pid: int | None) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def test_a_conversation(tmp_path: Path, children: list[Child]) -> None:
    child = pythons.child(tmp_path, jobs=[{"id": 5, "state": "PENDING", "user_id": 0}])
    children.append(child)
    assert child.pid is None
    assert child.version() == (25, 11, 2)
    (line,) = child.ask("jobs")
    assert line.startswith("5\t[null,")
    assert json.loads(child.ask("statistics")[0]) == ["REQUEST_JOB_INFO", 7]
    assert child.ask("jobs", ids=[5, 6]) == [line]
    pid = child.pid
    child.close()
    assert gone(pid)
    assert child.ask("jobs") == [line]  # another one is started


FAULTS = {
    "hang": r"jobs: no answer within 0\.3 s, its process was ended",
    "segfault": r"its process ended \(killed by SIGSEGV\)",
    "exit": r"its process ended \(exit status 3\): error: something odd",
    "refused": r"Unable to contact slurm controller .*\(1800\); is slurmctld running",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_call(tmp_path: Path, children: list[Child], fault: str) -> None:
    child = pythons.child(tmp_path, jobs=[])
    children.append(child)
    child.version()
    pid = child.pid
    child.close()
    pythons.world(tmp_path, jobs=[], partitions=fault)
    with pytest.raises(SlurmUnavailableError, match=FAULTS[fault].replace("jobs:", "partitions:")):
        child.ask("partitions", limit_s=0.3 if fault == "hang" else None)
    assert gone(pid)
    assert (child.pid is None) == (fault != "refused")


def test_memory_is_bounded(tmp_path: Path, children: list[Child]) -> None:
    child = pythons.child(tmp_path, memory_mib=2048, partitions="memory")
    children.append(child)
    with pytest.raises(SlurmCommandError, match="MemoryError"):
        child.ask("partitions")
    assert child.ask("jobs") == []


@pytest.mark.parametrize("text", ["", "{", "NoSuchKey=1"])
def test_a_bad_slurm_conf_ends_the_child_and_is_named(
    tmp_path: Path, children: list[Child], text: str
) -> None:
    child = pythons.child(tmp_path)
    children.append(child)
    (tmp_path / "slurm.conf").write_text(text)
    with pytest.raises(SlurmUnavailableError, match=r"start: .*status 1.*configuration file"):
        child.ask("jobs")
    pythons.world(tmp_path)  # repaired
    assert child.ask("jobs") == []


def test_no_pyslurm_and_no_python(tmp_path: Path, children: list[Child]) -> None:
    children.append(pythons.child(tmp_path, pythons.without(tmp_path)))
    with pytest.raises(SlurmUnavailableError, match=r"has no pyslurm; install"):
        children[0].ask("jobs")
    with pytest.raises(SlurmUnavailableError, match=r"not found; set slurm.native_python"):
        Child(ChildOptions("/nowhere/python"), {}).ask("jobs")


def test_a_child_killed_from_outside_is_started_again(
    tmp_path: Path, children: list[Child]
) -> None:
    child = pythons.child(tmp_path)
    children.append(child)
    child.version()
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(SlurmUnavailableError, match="killed by SIGKILL"):
        child.ask("jobs")
    assert child.ask("jobs") == []


def test_a_stopped_child_ends_at_the_deadline(tmp_path: Path, children: list[Child]) -> None:
    child = pythons.child(tmp_path)
    children.append(child)
    child.version()
    pid = child.pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(SlurmUnavailableError, match="no answer within"):
        child.ask("jobs", limit_s=0.3)
    assert gone(pid)


def test_it_dies_with_the_parents_pipe(tmp_path: Path, children: list[Child]) -> None:
    child = pythons.child(tmp_path)
    children.append(child)
    child.version()
    process = child._process
    assert process
    assert process.stdin
    process.stdin.close()
    wait_until(lambda: process.poll() is not None, bool, 10, "the child's end")


def test_one_storm_a_minute(tmp_path: Path, children: list[Child]) -> None:
    now = [1000.0]
    child = pythons.child(tmp_path, clock=lambda: now[0], partitions="exit")
    children.append(child)
    for _ in range(MOST_STARTS):
        with pytest.raises(SlurmUnavailableError, match="exit status 3"):
            child.ask("partitions")
    with pytest.raises(SlurmUnavailableError, match=r"3 times within a minute; not again for 60 s"):
        child.ask("jobs")
    now[0] += STORM_S
    assert child.ask("jobs") == []


def test_a_look_that_has_used_its_time_is_not_begun(tmp_path: Path, children: list[Child]) -> None:
    now = [0.0]
    deadline = Deadline(lambda: now[0])
    options = ChildOptions(pythons.with_fake(tmp_path), str(pythons.world(tmp_path)))
    child = Child(options, {}, deadline)
    children.append(child)
    with deadline.within(5):
        assert child.ask("jobs") == []
        now[0] = 5
        with pytest.raises(SlurmUnavailableError, match="used up"):
            child.ask("jobs")


STRANGE: dict[str, tuple[str, str]] = {
    "cut": ("write(b'\\0\\0\\1\\0' + b'x' * 9)", "ended in the middle of an answer"),
    "nothing": ("pass", r"its process ended \(exit status 0\)"),
    "long": ("write(b'\\xff\\xff\\xff\\xff')", "announces an answer of 4095 MiB"),
    "no json": ("write(b'\\0\\0\\0\\3abc')", "no JSON"),
    "no ascii": ("write(b'\\0\\0\\0\\3\\xff\\xff\\xff')", "no JSON"),
    "nested": ("write(b'\\0\\0\\xc3\\x50' + b'[' * 50000)", "no JSON"),
    "list": ("write(b'\\0\\0\\0\\2[]')", "another question"),
    "other id": ("write(b'\\0\\0\\0\\x08{\"id\":7}')", "another question"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_answers(tmp_path: Path, children: list[Child], name: str) -> None:
    body, said = STRANGE[name]
    read = "import sys, struct\nr = sys.stdin.buffer\nr.read(struct.unpack('!I', r.read(4))[0])\n"
    python = pythons.program(tmp_path, f"{read}write = sys.stdout.buffer.write\n{body}\n")
    child = pythons.child(tmp_path, python)
    children.append(child)
    with pytest.raises(SlurmUnavailableError, match=said):
        child.ask("jobs")
    assert child.pid is None


def test_a_trickle_ends_at_the_deadline(tmp_path: Path, children: list[Child]) -> None:
    body = (
        "import sys, time\nsys.stdout.buffer.write(b'\\0\\1\\0\\0')\n"
        "while True:\n    sys.stdout.buffer.write(b'x')\n    sys.stdout.buffer.flush()\n"
        "    time.sleep(.01)\n"
    )
    deadline = Deadline()
    options = ChildOptions(pythons.program(tmp_path, body), str(pythons.world(tmp_path)))
    child = Child(options, {}, deadline)
    children.append(child)
    begun = time.monotonic()
    with (
        deadline.within(0.5),
        pytest.raises(SlurmUnavailableError, match=r"no answer within 0\.\d+ s"),
    ):
        child.ask("jobs")
    assert time.monotonic() - begun < 10
    assert child.pid is None


def test_a_100_mb_answer_is_read_whole(tmp_path: Path, children: list[Child]) -> None:
    jobs: list[dict[str, Any]] = [{"id": 1, "state": "PENDING", "comment": "x" * (100 << 20)}]
    child = pythons.child(tmp_path, jobs=jobs)
    children.append(child)
    (line,) = child.ask("jobs")
    assert len(line) > 100 << 20
