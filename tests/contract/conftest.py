"""One real mini-Slurm for the contract, and every adapter that must keep it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest
from minislurm import Cluster, MissingProgramsError, NodeGroup, Param, Partition, Spec, programs

from slurm_ext.slurm.cli import CliOptions, CliSlurm
from slurm_ext.slurm.native import NativeSlurm
from slurm_ext.slurm.native_process import ChildOptions
from slurm_ext.slurm.port import SlurmPort
from slurm_ext.slurm.rest import RestOptions, RestSlurm
from slurm_ext.slurm.rest_reader import MAX_JOBS
from slurm_ext.slurm.rest_token import Token, from_command
from slurm_ext.slurm.run import Runner
from tests.live import booted

from .driver import Driver

REST_TRIED = ((22, 5), (24, 11), (25, 11), (26, 5))
HAVE_STATES = (24, 5)
"""From this release on slurmrestd lists the states of all jobs."""


def _has_rest() -> bool:
    """slurmrestd with auth/jwt, of a release it was tried with."""
    try:
        if programs.major(programs.slurm_version()) not in REST_TRIED:
            return False
        programs.require(accounting=False, users=False, rest=True)
        programs.require_plugin("auth_jwt")
    except MissingProgramsError:
        return False
    return True


HAS_REST = _has_rest()
NO_REST = (
    "no slurmrestd of a release it was tried with, or no auth/jwt "
    "(packages slurmrestd, slurm-wlm-jwt-plugin)"
)

NATIVE_PYTHON = os.environ.get("SLURM_EXT_NATIVE_PYTHON", "")


def _native_missing() -> str:
    """Why pyslurm cannot be tried with the Slurm of this machine, or empty."""
    if not NATIVE_PYTHON:
        return "SLURM_EXT_NATIVE_PYTHON names no Python with pyslurm"
    ask = "import os; os.environ['PYSLURM_DISABLE_AUTO_INIT'] = '1'; import pyslurm; "
    argv = [NATIVE_PYTHON, "-c", f"{ask}print(pyslurm.__version__)"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            return f"{NATIVE_PYTHON}: {done.stderr.strip().splitlines()[-1]}"
        release = programs.major(done.stdout.strip())
        if release > programs.major(programs.slurm_version()):
            return f"pyslurm {done.stdout.strip()} is newer than this Slurm"
    except (MissingProgramsError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ""


NO_NATIVE = _native_missing()

SPEC = Spec(
    name="contract",
    groups=(NodeGroup(name="n", count=4),),
    partitions=(Partition("gpu", default=True), Partition("short", nodes="n[1-2]", max_time="60")),
    sched="tuned",
    priority="multifactor",
    params=(Param("Licenses", "sim:4"), Param("KillWait", "2"), Param("MinJobAge", "60")),
    rest=HAS_REST,
)


def runner(cluster: Cluster) -> Runner:
    return Runner(timeout_s=30, environ=Driver(cluster.env).env)


def cli_text(cluster: Cluster) -> SlurmPort:
    """Details are asked for job by job, as on a long queue: the short one here would not do it."""
    return CliSlurm(CliOptions(timeout_s=30, single_share=1.0), runner(cluster))


def cli_json(cluster: Cluster) -> SlurmPort:
    return CliSlurm(CliOptions(format="json", timeout_s=30), runner(cluster))


def rest(cluster: Cluster, max_jobs: int = MAX_JOBS) -> SlurmPort:
    """slurmrestd on its socket; it runs as nobody, so the token says who asks."""
    if not HAS_REST:
        pytest.skip(NO_REST)
    commands = runner(cluster)
    token = Token(from_command(commands, ["scontrol", "token", "lifespan=600"]), "root")
    url = f"unix:{cluster.layout.rest_socket}"
    options = RestOptions(url, limit_s=30, max_jobs=max_jobs)
    return RestSlurm(options, token, commands, CliSlurm(CliOptions(timeout_s=30), commands))


def rest_states(cluster: Cluster) -> SlurmPort:
    """Every queue is a long one: states first."""
    if programs.major(programs.slurm_version()) < HAVE_STATES:
        pytest.skip("/jobs/state/ came with Slurm 24.05")
    return rest(cluster, max_jobs=0)


def native(cluster: Cluster) -> SlurmPort:
    """pyslurm in its own process; the first look tells which jobs are no arrays."""
    if NO_NATIVE:
        pytest.skip(NO_NATIVE)
    commands = runner(cluster)
    options = ChildOptions(NATIVE_PYTHON, str(cluster.layout.conf), limit_s=30)
    return NativeSlurm(options, commands, CliSlurm(CliOptions(timeout_s=30), commands))


ADAPTERS: dict[str, Callable[[Cluster], SlurmPort]] = {
    "cli-text": cli_text,
    "cli-json": cli_json,
    "native": native,
    "rest": rest,
    "rest-states": rest_states,
}
"""Another adapter joins the contract by a line here."""


@pytest.fixture(scope="session")
def contract_cluster() -> Iterator[Cluster]:
    with booted(SPEC) as cluster:
        yield cluster


@pytest.fixture
def driver(contract_cluster: Cluster) -> Driver:
    """The cluster, empty and idle."""
    one = Driver(contract_cluster.env)
    one.clean()
    return one


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.native) if name == "native" else name
        for name in sorted(ADAPTERS)
    ]
)
def port(request: pytest.FixtureRequest, driver: Driver, contract_cluster: Cluster) -> SlurmPort:
    return ADAPTERS[request.param](contract_cluster)
