"""Stranded GPUs and packing: the same submissions with the daemon and without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Partition, Spec

from tests.live import soon

from .conftest import running
from .harness import Daemon, Slurm, share_line, wait_for

pytestmark = pytest.mark.slurm

LONG_S = 600
QUIET_S = 4.0

Submission = Callable[[Slurm], list[int]]
PLACES = Spec(
    name="places",
    groups=(
        NodeGroup(name="small", count=1, cpus=16, sockets=1),
        NodeGroup(name="large", count=1, cpus=32, sockets=1),
        NodeGroup(name="pair", count=2, gpus=(("a100", 4),), cpus=16, sockets=1),
        NodeGroup(name="twin", count=2, gpus=(("a100", 2),), cpus=24, sockets=1, mem=24_000),
    ),
    partitions=(
        Partition("strand", nodes="small1,large1", default=True),
        Partition("pack", nodes="pair[1-2]"),
        Partition("twin", nodes="twin[1-2]"),
    ),
    sched="tuned",
)


@pytest.fixture(scope="module")
def places_cluster() -> Iterator[Slurm]:
    with running(PLACES) as slurm:
        yield slurm


@pytest.fixture
def places(places_cluster: Slurm) -> Slurm:
    places_cluster.clean()
    return places_cluster


@pytest.fixture(params=["alone", "daemon"])
def beside(request: pytest.FixtureRequest, places: Slurm, tmp_path: Path) -> Iterator[str]:
    """``alone``: Slurm without us; ``daemon``: with a daemon in enforce."""
    if request.param == "alone":
        yield "alone"
        return
    with Daemon(places, tmp_path / "d", policy__name="fifo") as daemon:
        yield "daemon"
        daemon.wait_cycles(2)
        assert daemon.errors() == []
        print(f"\n  {share_line(daemon.starts())}")


def stranding(slurm: Slurm) -> list[int]:
    options = (soon(3), "--partition=strand", "--time=10", "--gpus-per-node=1", "--mem=1000")
    cpus = [12] + [1] * 15
    return [slurm.submit(*options, f"--cpus-per-task={n}", run_s=LONG_S) for n in cpus]


def packing(slurm: Slurm) -> list[int]:
    options = (soon(3), "--partition=pack", "--time=10", "--mem=1000")
    return [slurm.submit(*options, f"--gpus-per-node={n}", run_s=LONG_S) for n in (1, 2, 2)]


def twins(slurm: Slurm) -> list[int]:
    options = ("--partition=twin", "--time=10", "--gpus-per-node=1")
    two = [
        slurm.submit(*options, soon(3), "--cpus-per-task=10", "--mem=10000", run_s=LONG_S)
        for _ in range(2)
    ]
    slurm.wait_state(two, {"RUNNING"}, 20)
    big = slurm.submit(*options, soon(3), "--cpus-per-task=20", "--mem=20000", run_s=LONG_S)
    return [*two, big]


def settle(slurm: Slurm, jobs: list[int], beside: str) -> dict[int, str]:
    """Job -> node once all run; without a daemon, once no job has started for a while."""
    since, last = time.monotonic(), 0

    def settled() -> dict[int, str]:
        nonlocal since, last
        queue = slurm.queue(jobs)
        nodes = {int(j): r["nodes"] for j, r in queue.items() if r["state"] == "RUNNING"}
        if len(nodes) != last:
            since, last = time.monotonic(), len(nodes)
        quiet = beside == "alone" and time.monotonic() - since > QUIET_S
        return nodes if len(nodes) == len(jobs) or quiet else {}

    return wait_for(settled, 30, "the queue to settle", lambda: slurm.describe(jobs))


def test_no_gpu_is_stranded(places: Slurm, beside: str) -> None:
    jobs = stranding(places)
    nodes = settle(places, jobs, beside)
    print(f"\nstranded GPUs, {beside}: {len(nodes)} of 16 run, the wide job on {nodes[jobs[0]]}")
    if beside == "daemon":
        assert nodes[jobs[0]] == "large1"


def test_small_jobs_are_packed(places: Slurm, beside: str) -> None:
    a, b, c = jobs = packing(places)
    nodes = settle(places, jobs, beside)
    print(f"\npacking, {beside}: A {nodes.get(a)}, B {nodes.get(b)}, C {nodes.get(c)}")
    if beside == "daemon":
        assert nodes[a] == nodes[b]
        assert nodes[c] != nodes[a]


def test_twins_leave_room_for_the_big_job(places: Slurm, beside: str) -> None:
    one, two, big = jobs = twins(places)
    nodes = settle(places, jobs, beside)
    print(f"\ntwins, {beside}: {nodes.get(one)}, {nodes.get(two)}, big job {nodes.get(big)}")
    if beside == "daemon":
        assert nodes[one] == nodes[two]
        assert nodes[big] != nodes[one]
