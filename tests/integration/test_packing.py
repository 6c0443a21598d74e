"""Stranded GPUs and packing: where the daemon places what Slurm alone may put elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Partition, Spec

from tests.live import soon

from .conftest import running
from .harness import Daemon, Slurm, share_line

pytestmark = pytest.mark.slurm

LONG_S = 600
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


@pytest.fixture(autouse=True)
def daemon(places: Slurm, tmp_path: Path) -> Iterator[Daemon]:
    """In enforce, beside every test."""
    with Daemon(places, tmp_path / "d", policy__name="fifo") as daemon:
        yield daemon
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


def settle(slurm: Slurm, jobs: list[int]) -> dict[int, str]:
    """Job -> node once all run."""
    slurm.wait_state(jobs, {"RUNNING"}, 30)
    return {int(job): row["nodes"] for job, row in slurm.queue(jobs).items()}


def test_no_gpu_is_stranded(places: Slurm) -> None:
    jobs = stranding(places)
    assert settle(places, jobs)[jobs[0]] == "large1"


def test_small_jobs_are_packed(places: Slurm) -> None:
    a, b, c = jobs = packing(places)
    nodes = settle(places, jobs)
    assert nodes[a] == nodes[b]
    assert nodes[c] != nodes[a]


def test_twins_leave_room_for_the_big_job(places: Slurm) -> None:
    one, two, big = jobs = twins(places)
    nodes = settle(places, jobs)
    assert nodes[one] == nodes[two]
    assert nodes[big] != nodes[one]
