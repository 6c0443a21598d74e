"""One mini-Slurm for the whole session, cleaned between tests; daemons beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Param, Partition, Spec

from .harness import Daemon, Slurm, running

SHARED = Spec(
    name="shared",
    groups=(
        NodeGroup(name="a", count=2, features="air"),
        NodeGroup(name="b", count=2, features="ib"),
    ),
    partitions=(
        Partition("gpu", default=True),
        Partition("early", nodes="a[1-2]"),
        Partition("late", nodes="b[1-2]"),
    ),
    sched="tuned",
    priority="multifactor",
    # A node that a test puts down stays down until the test resumes it.
    params=(Param("Licenses", "sim:4"), Param("ReturnToService", "1")),
)


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Slurm]:
    """Four nodes of eight GPUs, tuned, multifactor; nodes a1 a2 (air) and b1 b2 (ib)."""
    with running(SHARED) as slurm:
        yield slurm


@pytest.fixture
def slurm(shared_cluster: Slurm) -> Slurm:
    """The shared cluster, empty and idle."""
    shared_cluster.clean()
    return shared_cluster


@pytest.fixture
def daemon(slurm: Slurm, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons beside the shared cluster; they end with the test."""
    started: list[Daemon] = []

    def start(**settings: object) -> Daemon:
        one = Daemon(slurm, tmp_path / f"d{len(started)}", **settings)
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.__exit__()
