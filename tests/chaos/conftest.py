"""Clusters of their own for the fault tests, and daemons that may die."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from minislurm import Cluster, MissingProgramsError, NodeGroup, Partition, Spec

from tests.chaos.rig import Frail
from tests.integration.harness import Slurm

SPEC = Spec(
    name="chaos",
    groups=(NodeGroup(name="n", count=4),),
    partitions=(Partition("gpu", default=True), Partition("side", nodes="n[3-4]")),
    sched="tuned",
    priority="multifactor",
)


@contextmanager
def running(spec: Spec = SPEC) -> Iterator[Slurm]:
    """A cluster in a directory of its own; gone without a trace afterwards."""
    if os.geteuid() != 0:
        pytest.skip("the mini-Slurm must be started as root")
    base = Path(tempfile.mkdtemp(prefix="ch-", dir="/tmp"))
    base.chmod(0o755)
    cluster = Cluster(base / "c", spec)
    try:
        try:
            cluster.up()
        except MissingProgramsError as error:
            pytest.skip(f"no Slurm on this machine: {error}")
        yield Slurm(cluster)
    finally:
        cluster.down(purge=True, grace=1.0)
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="session")
def chaos_cluster() -> Iterator[Slurm]:
    """Four nodes n1 to n4 of eight GPUs."""
    with running() as slurm:
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
