"""One real mini-Slurm for the contract, and every adapter that must keep it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from minislurm import Cluster, MissingProgramsError, NodeGroup, Param, Partition, Spec

from slurm_ext.slurm.cli import CliOptions, CliSlurm
from slurm_ext.slurm.port import SlurmPort
from slurm_ext.slurm.run import Runner

from .driver import Driver

SPEC = Spec(
    name="contract",
    groups=(NodeGroup(name="n", count=4),),
    partitions=(Partition("gpu", default=True), Partition("short", nodes="n[1-2]", max_time="60")),
    sched="tuned",
    priority="multifactor",
    params=(Param("Licenses", "sim:4"), Param("KillWait", "2"), Param("MinJobAge", "60")),
)

Environ = Mapping[str, str]


def cli_text(environ: Environ) -> SlurmPort:
    """Details are asked for job by job, as on a long queue: the short one here would not do it."""
    options = CliOptions(timeout_s=30, single_share=1.0)
    return CliSlurm(options, Runner(timeout_s=30, environ=environ))


def cli_json(environ: Environ) -> SlurmPort:
    return CliSlurm(CliOptions(format="json", timeout_s=30), Runner(timeout_s=30, environ=environ))


ADAPTERS: dict[str, Callable[[Environ], SlurmPort]] = {"cli-text": cli_text, "cli-json": cli_json}
"""Another adapter joins the contract by a line here."""


@pytest.fixture(scope="session")
def contract_cluster() -> Iterator[Cluster]:
    if os.geteuid() != 0:
        pytest.skip("the mini-Slurm must be started as root")
    base = Path(tempfile.mkdtemp(prefix="contract-", dir="/tmp"))
    base.chmod(0o755)
    cluster = Cluster(base / "c", SPEC)
    try:
        try:
            cluster.up()
        except MissingProgramsError as error:
            pytest.skip(f"no Slurm on this machine: {error}")
        yield cluster
    finally:
        cluster.down(purge=True)
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def driver(contract_cluster: Cluster) -> Driver:
    """The cluster, empty and idle."""
    one = Driver(contract_cluster.env)
    one.clean()
    return one


@pytest.fixture(params=sorted(ADAPTERS))
def port(request: pytest.FixtureRequest, driver: Driver) -> SlurmPort:
    return ADAPTERS[request.param](driver.env)
