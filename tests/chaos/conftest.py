"""Clusters of their own for the fault tests, and daemons that may die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Partition, Spec

from tests.chaos.rig import Frail
from tests.integration.harness import Slurm, running

SPEC = Spec(
    name="chaos",
    groups=(NodeGroup(name="n", count=4),),
    partitions=(Partition("gpu", default=True), Partition("side", nodes="n[3-4]")),
    sched="tuned",
    priority="multifactor",
)


@pytest.fixture(scope="session")
def chaos_cluster() -> Iterator[Slurm]:
    """Four nodes n1 to n4 of eight GPUs."""
    with running(SPEC) as slurm:
        yield slurm


@pytest.fixture
def slurm(chaos_cluster: Slurm) -> Slurm:
    """The shared cluster, empty and idle."""
    chaos_cluster.clean()
    return chaos_cluster


@pytest.fixture
def frail(slurm: Slurm, tmp_path: Path) -> Iterator[Callable[..., Frail]]:
    """Makes (does not start) daemons beside the cluster; they end with the test."""
    made: list[Frail] = []

    def make(**settings: object) -> Frail:
        defaults: dict[str, object] = {"levers__lease_s": 10, "cycle__interval_s": 1}
        one = Frail(slurm, tmp_path / f"d{len(made)}", **{**defaults, **settings})
        made.append(one)
        return one

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.kill()
