"""The GPU indices Slurm takes against those predicted, for jobs of all kinds coming and going."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from minislurm import NodeGroup, Partition, Spec

from slurm_ext.daemon.config import load
from slurm_ext.daemon.topology import read_topology
from slurm_ext.engine.parts.placement import Weighted
from slurm_ext.engine.pool import Pool, demand_of
from slurm_ext.engine.search import place
from slurm_ext.model.job import Job
from slurm_ext.slurm.cli import CliOptions, CliSlurm
from slurm_ext.slurm.run import Runner
from slurm_ext.topology.site import SiteTopology

from .conftest import running
from .harness import Slurm

pytestmark = pytest.mark.slurm

PAIRS = ((0, 2), (1, 3), (4, 6), (5, 7))
SPEC = Spec(
    name="picks",
    groups=(
        NodeGroup(name="bare", count=2, cpus=64),
        NodeGroup(name="linked", count=1, cpus=64, links=PAIRS),
    ),
    partitions=(
        Partition("bare", nodes="bare[1-2]", default=True),
        Partition("linked", nodes="linked1"),
    ),
)
BATCH = 3


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with running(SPEC) as cluster:
        yield cluster


def options(rng: random.Random) -> list[str]:
    """One of Slurm's three ways to ask for GPUs, with some CPUs."""
    gpus = rng.choice((1, 1, 2, 2, 3, 4))
    way = rng.choice((f"--gres=gpu:{gpus}", f"--gpus-per-node={gpus}", f"--gpus={gpus}"))
    # Held at submission, a job without a node count shows an estimate in its place.
    return [way, "--nodes=1", "--ntasks=1", f"--cpus-per-task={rng.choice((1, 2, 4, 8))}"]


@dataclass
class Tally:
    """How many jobs got what was predicted."""

    jobs: int = 0
    nodes: int = 0
    indices: int = 0
    wrong: list[str] = field(default_factory=list)

    def count(self, predicted: tuple[str, int] | None, job: Job, asked: str) -> None:
        if predicted is None or not job.alloc:
            return
        actual = (job.alloc[0].node, job.alloc[0].gpu_mask)
        self.jobs += 1
        self.nodes += predicted[0] == actual[0]
        self.indices += predicted == actual
        if predicted != actual:
            self.wrong.append(f"{asked}: {predicted[0]} {predicted[1]:#x}, not {actual[1]:#x}")


def mixed_queue(slurm: Slurm, site: SiteTopology, partition: str, rounds: int) -> Tally:
    """Batches of jobs, predicted together and let go onto the node predicted, beside others."""
    rng = random.Random(partition)
    port = CliSlurm(CliOptions(timeout_s=30), Runner(timeout_s=30, environ=slurm.env))
    tally, alive = Tally(), list[int]()
    for _ in range(rounds):
        asked = {}
        for _ in range(BATCH):
            argv = options(rng)
            job = slurm.submit("--hold", f"--partition={partition}", *argv, run_s=600)
            asked[job] = " ".join(argv)
        predicted = predict(port, site, partition, list(asked))
        for job, found in predicted.items():
            if found is not None:  # a job that waits would keep the others waiting, too
                slurm.update(job, ReqNodeList=found[0])
                slurm.run("scontrol", "release", str(job))
                slurm.wait_state([job], {"RUNNING"}, 30)
        jobs = {j.job_id: j for j in port.observe().jobs}
        for job, found in predicted.items():
            tally.count(found, jobs[job], asked[job])
        alive += asked
        gone = [j for j in alive if rng.random() < 0.4 or predicted.get(j, "") is None]
        alive = [j for j in alive if j not in gone]
        if gone:
            slurm.run("scancel", *map(str, gone))
            slurm.wait_state(gone, {"CANCELLED"}, 30)
    return tally


def predict(
    port: CliSlurm, site: SiteTopology, partition: str, jobs: list[int]
) -> dict[int, tuple[str, int] | None]:
    """Node and GPU mask of each job, placed in this order on what is free now."""
    obs = port.observe()
    pool = Pool(obs.nodes, [j for j in obs.jobs if j.state.occupies], obs.controller, topology=site)
    allowed = np.array([partition in n.partitions for n in pool.nodes], dtype=np.bool_)
    by_id = {j.job_id: j for j in obs.jobs}
    found: dict[int, tuple[str, int] | None] = {}
    for job in jobs:
        placed = place(pool, pool.free, demand_of(by_id[job].request), allowed, Weighted())
        if not placed:
            found[job] = None
            continue
        pool.take(placed[0].shares)
        share = placed[0].shares[0]
        found[job] = (share.node, share.gpu_mask)
    return found


@pytest.mark.parametrize("partition", ["bare", "linked"])
def test_slurm_takes_the_gpus_predicted(slurm: Slurm, partition: str, tmp_path: Path) -> None:
    config = tmp_path / "slurm_ext.toml"
    gres_conf = Path(slurm.env["SLURM_CONF"]).with_name("gres.conf")
    config.write_text(f'[topology]\ngres_conf = "{gres_conf}"\n')
    tally = mixed_queue(slurm, read_topology(load(config).topology), partition, rounds=4)
    print(f"\n  {partition}: {tally.indices} of {tally.jobs} picks as predicted; {tally.wrong}")
    assert tally.nodes == tally.jobs >= 6
    assert tally.indices >= 0.9 * tally.jobs
