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

from tests.live import crowd
from tests.manual import live_commands

pytestmark = [pytest.mark.docker, pytest.mark.timeout(2400)]

DOCKER = Path(__file__).resolve().parents[2] / "docker"


def docker_works() -> bool:
    if shutil.which("docker") is None:
        return False

    def answers(*words: str) -> bool:
        return subprocess.run(["docker", *words], capture_output=True, check=False).returncode == 0

    has_compose = shutil.which("docker-compose") is not None or answers("compose", "version")
    return has_compose and answers("info")


class Containers:
    """The running cluster, seen from its login host."""

    def __init__(self, suite: str) -> None:
        # Of its own: neither a user's cluster nor that of another run goes down with this one.
        self.suite, self.project = suite, f"slurm-ext-test-{os.getpid()}"
        self._ids: dict[str, str] = {}

    def make(self, verb: str, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [str(DOCKER / "cluster"), verb, *words], capture_output=True, text=True, check=False,
            env={**os.environ, "SUITE": self.suite, "PROJECT": self.project,
                 "TIMEOUT": str(int(180 * crowd()))}, timeout=600 * crowd(),
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def on(self, host: str, *words: str) -> str:
        code, said = self.ask(host, *words)
        assert code == 0, said
        return said

    def ask(self, host: str, *words: str) -> tuple[int, str]:
        """Exit code of a command on a host, and what it said; errors only if it fails."""
        done = subprocess.run(
            ["docker", "exec", self.container(host), *words], capture_output=True, text=True,
            check=False, timeout=120 * crowd(),
        )  # fmt: skip
        return done.returncode, done.stdout + (done.stderr if done.returncode else "")

    def docker(self, *words: str) -> None:
        subprocess.run(["docker", *words], check=True, capture_output=True, timeout=120 * crowd())

    def container(self, host: str) -> str:
        """Its id, also while it does not run; names differ between versions of compose."""
        if host not in self._ids:
            labels = (f"project={self.project}", f"service={host}")
            filters = [f"--filter=label=com.docker.compose.{label}" for label in labels]
            shown = subprocess.run(
                ["docker", "ps", "-aq", *filters], check=True, capture_output=True, text=True
            ).stdout
            (self._ids[host],) = shown.split()
        return self._ids[host]

    def submit(self, *words: str, run_s: int = 1, user: str = "alice") -> int:
        minutes = 5 + run_s // 60
        options = ("--parsable", "-o", "/dev/null", "-c", "2", "-t", str(minutes), *words)
        code, said = self.try_sbatch(*options, f"--wrap=sleep {run_s}", user=user)
        assert code == 0, said
        return int(said.strip())

    def try_sbatch(self, *words: str, user: str = "alice") -> tuple[int, str]:
        """Exit code of sbatch for a user of the login host, and what it said."""
        as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        return self.ask("login", *as_user, "env", "-C", "/tmp", "sbatch", *words)

    def state(self, job_id: int) -> str:
        shown = self.on("login", "sacct", "-nPX", "-j", str(job_id), "-o", "State")
        return shown.split("\n")[0]

    def nodes_of(self, jobs: list[int]) -> set[str]:
        """Where single-node jobs ran."""
        words = ("sacct", "-nPX", "-o", "NodeList", "-j", ",".join(map(str, jobs)))
        return set(self.on("login", *words).split())

    def node_state(self, name: str) -> str:
        return self.on("login", "sinfo", "-hn", name, "-o", "%t").strip()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask("daemon", "slurm-ext", "status", "--json")[1])
        return found


def wait(what: str, done: Callable[[], bool], limit_s: float = 120) -> None:
    """``limit_s`` is for a quiet machine and grows with its load."""
    begun_s = time.monotonic()
    while not done():
        waited_s = time.monotonic() - begun_s
        assert waited_s < limit_s * crowd(), f"not within {waited_s:.0f} s: {what}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Containers]:
    if not docker_works():
        pytest.skip("needs docker, docker-compose and a running dockerd")
    found = Containers(os.environ.get("SUITE", "bookworm"))
    found.make("down", check=False)
    try:
        found.make("up")
        # Healthy parts may still lack what they hear from each other, such as users' accounts.
        wait("a user may submit", lambda: found.try_sbatch("--test-only", "--wrap=true")[0] == 0)
        yield found
    finally:
        found.make("down", check=False)


def test_jobs_run_through_the_daemon_on_all_nodes(cluster: Containers) -> None:
    jobs = [cluster.submit("--gpus-per-node=8", run_s=5) for _ in range(5)]
    wait("jobs end", lambda: all(cluster.state(job) == "COMPLETED" for job in jobs))
    assert cluster.nodes_of(jobs) == {"n1", "n2", "n3", "n4"}
    assert cluster.status()["starts"]["total"] >= 4


def test_commands_of_the_manual_work_inside(cluster: Containers) -> None:
    running = cluster.submit("--gpus-per-node=8", "-N4", "--requeue", run_s=3000)
    wait("it runs", lambda: cluster.state(running) == "RUNNING")
    waiting = cluster.submit("--gpus-per-node=1", run_s=1)
    wait("it is seen", lambda: str(waiting) in {j["id"] for j in cluster.status()["jobs"]})
    failed = {}
    for words in live_commands(waiting, running):
        full = [f"/tmp/{word}" if word.endswith(".gz") else word for word in words]
        if words[0] == "requeue":
            full += ["--set", "guard.min_runtime_before_requeue_s=0"]
        code, said = cluster.ask("daemon", "slurm-ext", *full)
        if code:
            failed[" ".join(words)] = said
    cluster.on("ctld", "scancel", str(running), str(waiting))
    assert failed == {}


def test_a_node_cut_off_loses_its_job_and_comes_back(cluster: Containers) -> None:
    network = f"{cluster.project}_default"
    cut = cluster.submit("--gpus-per-node=1", "--nodelist=n4", "--requeue", run_s=3000)
    wait("it runs", lambda: cluster.state(cut) == "RUNNING")
    cluster.docker("network", "disconnect", network, cluster.container("n4"))
    wait("n4 is down", lambda: "down" in cluster.node_state("n4"))
    wait("its job is queued again", lambda: cluster.state(cut) == "PENDING")
    jobs = [cluster.submit("--gpus-per-node=8", run_s=1) for _ in range(4)]
    wait("jobs end elsewhere", lambda: all(cluster.state(job) == "COMPLETED" for job in jobs))
    assert "n4" not in cluster.nodes_of(jobs)
    cluster.docker("network", "connect", "--alias", "n4", network, cluster.container("n4"))
    wait("n4 is back", lambda: cluster.node_state("n4") == "idle")
    cluster.on("ctld", "scancel", str(cut))
    assert cluster.status()["failure"] is None


def test_the_daemon_waits_for_a_restarted_controller(cluster: Containers) -> None:
    before = cluster.status()["cycle"]
    cluster.docker("restart", "-t", "5", cluster.container("ctld"))
    wait("the controller answers", lambda: "UP" in cluster.ask("login", "scontrol", "ping")[1])
    job = cluster.submit("--gpus-per-node=4", run_s=1)
    wait("the job ends", lambda: cluster.state(job) == "COMPLETED")
    wait("the daemon goes on", lambda: cluster.status().get("cycle", 0) > before)


def test_nothing_stays_held_when_the_daemon_dies(cluster: Containers) -> None:
    running = [cluster.submit("--gpus-per-node=8", run_s=20) for _ in range(4)]
    waiting = [cluster.submit("--gpus-per-node=4", run_s=1) for _ in range(3)]
    wait("they run", lambda: all(cluster.state(job) == "RUNNING" for job in running))
    cluster.docker("kill", "-s", "KILL", cluster.container("daemon"))
    wait("Slurm goes on alone", lambda: all(cluster.state(j) == "COMPLETED" for j in waiting))
    cluster.docker("start", cluster.container("daemon"))
    wait("the daemon is back", lambda: bool(cluster.status().get("jobs") is not None))
