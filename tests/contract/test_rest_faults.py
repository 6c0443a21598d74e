"""What a real slurmrestd does with bad tokens and a dead controller, and what we make of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from minislurm import Cluster

from slurm_ext.errors import SlurmUnavailableError
from slurm_ext.slurm.choose import NativeSettings, RestSettings, open_port
from slurm_ext.slurm.cli import CliOptions, CliSlurm
from slurm_ext.slurm.fallback import Fallback
from slurm_ext.slurm.rest import RestOptions, RestSlurm
from slurm_ext.slurm.rest_token import Token
from tests.live import wait_until

from .conftest import HAS_REST, NO_REST, runner
from .driver import Driver, settled

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_REST, reason=NO_REST),
]


def tcp(cluster: Cluster, token: str, limit_s: float = 30) -> RestSlurm:
    commands = runner(cluster)
    port = cluster.status()["ports"]["slurmrestd"]
    options = RestOptions(f"http://127.0.0.1:{port}", limit_s=limit_s)
    cli = CliSlurm(CliOptions(timeout_s=30), commands)
    return RestSlurm(options, Token(lambda: token, "root"), commands, cli)


def good_token(driver: Driver, *options: str) -> str:
    return driver.run("scontrol", "token", *options).strip().removeprefix("SLURM_JWT=")


def test_over_tcp_the_same_is_seen_as_by_the_commands(
    contract_cluster: Cluster, driver: Driver
) -> None:
    driver.submit("-H", "--gpus=3", "-a", "0-4%2")
    running = driver.submit("-N2", "-n2", "-c4", "--gres=gpu:2", "-J", "naïve ✓")
    slurm = tcp(contract_cluster, good_token(driver))
    wait_until(
        lambda: {job.job_id: job.state.running for job in slurm.observe().jobs},
        lambda seen: seen.get(running, False),
        30,
        "a running job",
    )
    settled(slurm)
    assert slurm.crosscheck() == []


@pytest.mark.parametrize("kind", ["garbage", "cut", "ended"])
def test_bad_tokens(contract_cluster: Cluster, driver: Driver, kind: str) -> None:
    good = good_token(driver, "lifespan=1" if kind == "ended" else "lifespan=60")
    token = {"garbage": "a.b.c", "cut": good[:-9], "ended": good}[kind]
    slurm = tcp(contract_cluster, token)
    said = wait_until(lambda: _error(slurm), bool, 10, "a refusal")
    assert "token" in said
    assert token not in said


def test_a_stopped_controller_ends_the_call_at_its_deadline(
    contract_cluster: Cluster, driver: Driver
) -> None:
    slurm = tcp(contract_cluster, good_token(driver), limit_s=1.5)
    slurm.observe()
    contract_cluster.kill("slurmctld", "STOP")
    try:
        with pytest.raises(SlurmUnavailableError, match=r"no answer within 1.5 s"):
            slurm.observe()
    finally:
        contract_cluster.kill("slurmctld", "CONT")
    wait_until(lambda: _error(slurm), lambda said: not said, 30, "an answer again")


def _error(slurm: RestSlurm) -> str:
    """What a look fails with, or an empty text."""
    try:
        slurm.observe()
    except SlurmUnavailableError as error:
        return str(error)
    return ""


@pytest.fixture
def both(contract_cluster: Cluster, driver: Driver) -> Callable[[], Fallback]:
    url = f"unix:{contract_cluster.layout.rest_socket}"
    rest = RestSettings(url=url, user="root", token_command="scontrol token lifespan=600")

    def opened() -> Fallback:
        return open_port(
            backend="rest", bin_dir="", slurm_conf=str(contract_cluster.layout.conf),
            format="text", call_timeout_s=30, observe_timeout_s=30, rest=rest,
            native=NativeSettings(),
        )  # fmt: skip

    return opened


def test_a_killed_slurmrestd_costs_no_cycle(
    contract_cluster: Cluster, both: Callable[[], Fallback]
) -> None:
    port = both()
    texts = [one.text for one in port.check() if one.works]
    assert texts == ["used", "works, stands by in case rest fails"]
    contract_cluster.kill("slurmrestd")
    try:
        assert len(port.observe().nodes) == 4
        assert port.current == "cli"
        assert port.check()[0].works is False
    finally:
        contract_cluster.restart("slurmrestd")
    assert port.observe().nodes
    assert port.current == "cli"  # it rests before it is asked again
    fresh = both()
    fresh.observe()
    assert fresh.current == "rest"
