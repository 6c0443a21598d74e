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
from slurm_ext.daemon.metrics import Metrics, size_of
from slurm_ext.daemon.metrics_port import TcpMetrics
from slurm_ext.daemon.runner import Runner
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.job import BaseState, JobState
from slurm_ext.model.observation import Observation
from slurm_ext.slurm.tally import TALLY
from tests.builders import job, node, observation
from tests.fake import FakeSlurm

NOW = int(time.time())
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


def test_a_requeue_counts_with_the_gpu_time_of_its_run(tmp_path: Path) -> None:
    metrics = Metrics()
    again = replace(look(), jobs=(replace(job(1, gpus=2, submit=NOW), restarts=1),))
    run(metrics, tmp_path, look(running=True), again)
    assert read(metrics, "requeues_total") == 1
    assert read(metrics, "requeued_gpu_seconds_total") == 2 * 10


def test_free_and_stranded_gpus_are_worked_out_when_asked_for(tmp_path: Path) -> None:
    metrics = Metrics()
    full = replace(node("n2"), cpus_alloc=node("n2").cpus)  # eight GPUs, no CPU left
    obs = observation([node("n1"), full], [job(2, gpus=1, nodes=99)], now=NOW)
    run(metrics, tmp_path, obs)
    assert read(metrics, "free_gpus", use="any") == 16
    assert read(metrics, "stranded_gpus", cause="cpus") == 8
    assert read(metrics, "stranded_gpus", cause="memory") == 0


def test_promises_count_by_what_became_of_them(tmp_path: Path) -> None:
    metrics = Metrics()
    now = int(time.time())
    blocked = observation([node("n1", used=range(6))], [
        replace(job(1, gpus=6, on={"n1": 6}, end=now + 50), start_s=now - 50),
        job(2, gpus=8, submit=now - 50),
    ], now=now)  # fmt: skip
    started = replace(job(2, gpus=8, submit=now - 50, on={"n1": 8}), start_s=now + 300)
    later = observation([node("n1", used=range(8))], [started], now=now + 301)
    run(metrics, tmp_path, blocked, later)
    assert read(metrics, "promises_total", outcome="late") == 1
    assert read(metrics, "promises_late_seconds_total") > 0


def test_versions_policy_and_calls_are_told(tmp_path: Path) -> None:
    TALLY.note("squeue", "ok", 0.5)
    metrics = Metrics()
    run(metrics, tmp_path, look())
    found = samples(metrics.text())
    assert any(name == "slurm_ext_build_info" and ("policy", "fifo") in labels
               for name, labels in found)  # fmt: skip
    assert read(metrics, "slurm_calls_total", command="squeue", outcome="ok") >= 1


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
