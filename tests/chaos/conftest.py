"""Clusters of their own for the fault tests, and daemons that may die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Param, Partition, Spec

from tests.chaos.absence import Crowded
from tests.chaos.rig import Frail, Queue, Wish
from tests.integration.harness import Slurm, running, wait_for

SPEC = Spec(
    name="chaos",
    groups=(NodeGroup(name="n", count=4),),
    partitions=(Partition("gpu", default=True), Partition("side", nodes="n[3-4]")),
    sched="tuned",
    priority="multifactor",
    # No job of a long storm may be forgotten before its end has been judged.
    params=(Param("MinJobAge", "7200"),),
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


@pytest.fixture
def crowded(slurm: Slurm, tmp_path: Path) -> Iterator[Crowded]:
    """All nodes taken until a file appears, and three jobs waiting."""
    one = Crowded.on(slurm, tmp_path / "gate")
    yield one
    one.gate.touch()
