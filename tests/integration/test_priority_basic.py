"""Beside priority/basic: no factors, no SiteFactor, ``sprio`` refuses to answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from minislurm import NodeGroup, Spec

from tests.live import soon

from .conftest import running
from .harness import Daemon, Slurm

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with running(Spec(name="basic", groups=(NodeGroup(count=1),), priority="basic")) as slurm:
        yield slurm


def test_jobs_are_steered_and_given_back(cluster: Slurm, tmp_path: Path) -> None:
    assert cluster.run("sprio", check=False).returncode == 1
    whole = ("--gpus-per-node=8", "--cpus-per-task=1", "--mem=100")
    filler = cluster.submit(*whole, run_s=300)
    cluster.wait_state([filler], {"RUNNING"}, 20)
    with Daemon(cluster, tmp_path / "d", policy__name="multifactor") as daemon:
        jobs = [cluster.submit(*whole, soon(2), run_s=1) for _ in range(2)]
        daemon.wait_seen(jobs)
        daemon.wait_cycles(2)
        assert daemon.errors() == []
    daemon.command("recover", "--fail-open")
    assert {cluster.show(job, "AdminComment")["AdminComment"] for job in jobs} <= {"", "(null)"}
    cluster.run("scancel", str(filler))
    cluster.wait_completed(jobs, 40)
