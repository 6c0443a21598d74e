"""The cluster of docker/compose.yaml, built and run: hosts of their own, and what can go wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

DOCKER = Path(__file__).resolve().parents[2] / "docker"
NAME = "slurm-ext-{suite}_{host}_1"


def docker_works() -> bool:
    if shutil.which("docker") is None or shutil.which("docker-compose") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


class Containers:
    """The running cluster, seen from its login host."""

    def __init__(self, suite: str) -> None:
        self.suite = suite

    def make(self, verb: str, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [str(DOCKER / "cluster"), verb, *words], capture_output=True, text=True, check=False,
            env={**os.environ, "SUITE": self.suite}, timeout=600,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def on(self, host: str, *words: str) -> str:
        return self.make("sh", host, *words)

    def docker(self, *words: str) -> None:
        subprocess.run(["docker", *words], check=True, capture_output=True, timeout=120)

    def container(self, host: str) -> str:
        return NAME.format(suite=self.suite, host=host)

    def submit(self, *words: str, run_s: int = 1, user: str = "alice") -> int:
        said = self.on(
            "login", "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
            "env", "-C", "/tmp", "sbatch", "--parsable", "-o", "/dev/null", "-c", "2", "-t", "5",
            *words, f"--wrap=sleep {run_s}",
        )  # fmt: skip
        return int(said.strip())

    def state(self, job_id: int) -> str:
        shown = self.on("login", "sacct", "-nPX", "-j", str(job_id), "-o", "State")
        return shown.split("\n")[0]

    def status(self) -> dict[str, Any]:
        shown = self.make("sh", "daemon", "slurm-ext", "status", "--json", check=False)
        found: dict[str, Any] = json.loads(shown)
        return found


def wait(what: str, done: Callable[[], bool], limit_s: float = 120) -> None:
    ends_s = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < ends_s, f"not within {limit_s} s: {what}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Containers]:
    if not docker_works():
        pytest.skip("needs docker, docker-compose and a running dockerd")
    found = Containers(os.environ.get("SUITE", "bookworm"))
    found.make("down", check=False)
    try:
        found.make("up")
        yield found
    finally:
        found.make("down", check=False)


def test_jobs_run_through_the_daemon_on_all_nodes(cluster: Containers) -> None:
    jobs = [cluster.submit("--gpus-per-node=8", run_s=20) for _ in range(5)]
    wait("jobs end", lambda: all(cluster.state(job) == "COMPLETED" for job in jobs))
    shown = cluster.on("login", "sacct", "-nPX", "-o", "NodeList", "-j", ",".join(map(str, jobs)))
    assert set(shown.split()) == {"n1", "n2", "n3", "n4"}
    assert cluster.status()["starts"]["total"] >= 4


def test_commands_of_the_readme_work_inside(cluster: Containers) -> None:
    assert "Slurm" in cluster.on("daemon", "slurm-ext", "doctor")
    assert "gpu" in cluster.on("daemon", "slurm-ext", "plan")
    assert "GPUs" in cluster.on("daemon", "slurm-ext", "top", "--once")


def test_a_node_cut_off_gets_no_job_and_comes_back(cluster: Containers) -> None:
    network = f"slurm-ext-{cluster.suite}_default"
    cluster.on("ctld", "scontrol", "update", "NodeName=n4", "State=DOWN", "Reason=cut")
    cluster.docker("network", "disconnect", network, cluster.container("n4"))
    jobs = [cluster.submit("--gpus-per-node=8", run_s=1) for _ in range(4)]
    wait("jobs end elsewhere", lambda: all(cluster.state(job) == "COMPLETED" for job in jobs))
    shown = cluster.on("login", "sacct", "-nPX", "-o", "NodeList", "-j", ",".join(map(str, jobs)))
    assert "n4" not in shown
    cluster.docker("network", "connect", "--alias", "n4", network, cluster.container("n4"))
    cluster.on("ctld", "scontrol", "update", "NodeName=n4", "State=RESUME")
    wait("n4 is back", lambda: "idle" in cluster.on("login", "sinfo", "-hn", "n4", "-o", "%t"))


def test_the_daemon_waits_for_a_restarted_controller(cluster: Containers) -> None:
    before = cluster.status()["cycle"]
    cluster.docker("restart", "-t", "5", cluster.container("ctld"))
    wait("the controller answers", lambda: "UP" in cluster.make(
        "sh", "login", "scontrol", "ping", check=False))  # fmt: skip
    job = cluster.submit("--gpus-per-node=4", run_s=1)
    wait("the job ends", lambda: cluster.state(job) == "COMPLETED")
    wait("the daemon goes on", lambda: cluster.status().get("cycle", 0) > before)


def test_nothing_stays_held_when_the_daemon_dies(cluster: Containers) -> None:
    running = [cluster.submit("--gpus-per-node=8", run_s=45) for _ in range(4)]
    waiting = [cluster.submit("--gpus-per-node=4", run_s=1) for _ in range(3)]
    wait("they run", lambda: all(cluster.state(job) == "RUNNING" for job in running))
    cluster.docker("kill", "-s", "KILL", cluster.container("daemon"))
    wait("Slurm goes on alone", lambda: all(cluster.state(j) == "COMPLETED" for j in waiting))
    cluster.docker("start", cluster.container("daemon"))
    wait("the daemon is back", lambda: bool(cluster.status().get("jobs") is not None))
