"""What Prometheus is told."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slurm_ext.daemon.config import load
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.metrics import Metrics, TcpMetrics, size_of
from slurm_ext.daemon.runner import Runner
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.job import BaseState, JobState
from slurm_ext.model.observation import Observation
from tests.builders import job, node, observation
from tests.fake import FakeSlurm

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: bytes) -> Samples:
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text.decode())
        for s in family.samples
    }


def read(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics.text())[f"slurm_ext_{name}", tuple(sorted(labels.items()))]


def look(*, running: bool = False, ended: bool = False) -> Observation:
    now = int(time.time())
    small = job(1, gpus=2, submit=now - 100)
    large = job(2, gpus=8, submit=now - 50)
    if running:
        small = replace(job(1, gpus=2, submit=now - 100, on={"n1": 2}), start_s=now - 10)
    if ended:
        small = replace(
            small, state=JobState(BaseState.COMPLETED), start_s=now - 90, end_s=now - 10
        )
    used = range(6) if not running else range(8)
    return observation([node("n1", used=used)], [small, large], now=now)


def run(metrics: Metrics, tmp_path: Path, *looks: Observation) -> None:
    slurm = FakeSlurm(looks[0])
    config = load(Path("/dev/null"), {"mode": "enforce", "policy.name": "fifo"})
    with Journal(tmp_path / "journal.db") as journal:
        runner = Runner(config, slurm, journal)
        for one in looks:
            slurm.obs = one
            metrics.cycle(runner.run())


def test_gpus_jobs_and_waiting_by_size(tmp_path: Path) -> None:
    metrics = Metrics()
    run(metrics, tmp_path, look())
    assert read(metrics, "gpus", state="total") == 8
    assert read(metrics, "gpus", state="used") == 6
    assert read(metrics, "jobs", verdict="wait") == 1
    assert read(metrics, "waiting_gpus", size="5-8") == 8
    assert read(metrics, "oldest_wait_seconds", size="5-8") == 50
    assert read(metrics, "cycles_total", outcome="ok") == 1
    assert read(metrics, "partition_mode", partition="gpu", mode="enforce") == 1


def test_a_start_counts_once_with_its_wait(tmp_path: Path) -> None:
    metrics = Metrics()
    run(metrics, tmp_path, look(), look(running=True), look(running=True))
    found = samples(metrics.text())
    starts = {k: v for k, v in found.items() if k[0] == "slurm_ext_starts_total"}
    assert sum(starts.values()) == 1
    assert read(metrics, "wait_seconds_sum", size="2-4") == 90


def test_only_ends_that_were_watched_count(tmp_path: Path) -> None:
    metrics = Metrics()
    run(metrics, tmp_path, look(ended=True))
    assert ("slurm_ext_job_completion_seconds_count", (("size", "2-4"),)) not in samples(
        metrics.text()
    )
    metrics = Metrics()
    run(metrics, tmp_path, look(), look(ended=True))
    assert read(metrics, "job_completion_seconds_sum", size="2-4") == 90


def test_failures_count(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.failed()
    assert read(metrics, "cycles_total", outcome="failed") == 1


@pytest.mark.parametrize(
    ("gpus", "name"),
    [(0, "0"), (1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-8"), (16, "9-16"), (17, "17-64"),
     (65, "65+")],
)  # fmt: skip
def test_size_classes(gpus: int, name: str) -> None:
    assert size_of(gpus) == name


def test_the_port_serves_metrics_and_nothing_else() -> None:
    with TcpMetrics("127.0.0.1", 0, Metrics().text) as served:
        where = f"http://127.0.0.1:{served.port}"
        with urllib.request.urlopen(f"{where}/metrics") as answer:
            assert b"slurm_ext_cycles" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{where}/v1/status")
        refused.value.close()
    assert refused.value.code == 404


def test_a_port_in_use_is_said_with_a_remedy() -> None:
    with (
        TcpMetrics("127.0.0.1", 0, lambda: b"") as first,
        pytest.raises(SlurmExtError, match=rf"metrics\.port {first.port} .*another metrics\.port"),
        TcpMetrics("127.0.0.1", first.port, lambda: b""),
    ):
        pass
