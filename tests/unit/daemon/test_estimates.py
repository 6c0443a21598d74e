"""The daemon's use of what was learnt: loading, refusing, reloading, sharing estimates."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.accounting import artefact
from slurm_ext.accounting.artefact import Head, save
from slurm_ext.accounting.features import Features, of_job
from slurm_ext.accounting.predict import Samples, Settings
from slurm_ext.daemon import estimates
from slurm_ext.daemon.config import Config, load
from slurm_ext.daemon.estimates import Estimator, bucket
from slurm_ext.daemon.runner import Runner
from slurm_ext.daemon.snapshot import snapshot
from slurm_ext.model.job import Job
from tests.builders import NOW, job, node, observation
from tests.fake import FakeSlurm

DAY_S = 86400


def write(path: Path, run_s: int = 600, fitted_s: int = NOW, cluster: str = "test") -> None:
    """An artefact of user u1, whose jobs of 8 GPUs all ran this long."""
    samples = Samples()
    for _ in range(20):
        samples.learn(of_job(job(1, gpus=8)), run_s)
    save(path, samples, Head(cluster, fitted_s, fitted_s, 20, 0.8, 0.5, 20, Settings()))


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return load(Path("/dev/null"), {"state.dir": str(tmp_path)})


def ask(estimator: Estimator, config: Config, *jobs: Job, now: int = NOW) -> dict[int, float]:
    found = estimator.of(jobs, config, "test", now)
    return {key.job_id: one.p50_s for key, one in found.items()}


def test_pending_jobs_get_what_was_learnt(settings: Config) -> None:
    write(settings.artefact_path)
    estimator = Estimator()
    assert ask(estimator, settings, job(1, gpus=8), job(2, gpus=8)) == {1: 600, 2: 600}
    assert (estimator.state.jobs, estimator.state.estimated) == (2, 2)


def test_ended_jobs_get_none(settings: Config) -> None:
    write(settings.artefact_path)
    assert ask(Estimator(), settings, job(1, gpus=8, state="COMPLETED")) == {}


def test_running_job_is_given_what_it_has_run(settings: Config) -> None:
    write(settings.artefact_path)
    running = job(1, gpus=8, on={"n1": 8}, start_s=NOW - 1000)
    (found,) = Estimator().of([running], settings, "test", NOW).values()
    assert (found.beyond, found.p10_s > 1000, found.p90_s <= 3600) == (True, True, True)


def test_estimate_of_a_running_job_is_never_behind_it(settings: Config) -> None:
    write(settings.artefact_path)
    estimator = Estimator()
    for elapsed_s in range(0, 4000, 7):
        running = job(1, gpus=8, on={"n1": 8}, start_s=NOW - elapsed_s)
        (found,) = estimator.of([running], settings, "test", NOW).values()
        assert elapsed_s <= found.p10_s <= found.p50_s <= found.p90_s <= max(3600, elapsed_s)


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda p: None, "missing"),
        (lambda p: p.write_bytes(b"rubbish"), "cannot be used"),
        (lambda p: write(p, fitted_s=NOW - 15 * DAY_S), "15 days ago"),
        (lambda p: write(p, fitted_s=NOW + DAY_S), "in the future"),
        (lambda p: write(p, cluster="other"), "is of cluster other"),
    ],
    ids=["missing", "damaged", "stale", "future", "other cluster"],
)
def test_unusable_artefact_means_limits_and_one_line_in_the_log(
    settings: Config,
    prepare: Callable[[Path], None],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    prepare(settings.artefact_path)
    estimator = Estimator()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert ask(estimator, settings, job(1, gpus=8)) == {}
    assert says in estimator.state.problem
    assert len(caplog.records) == 1


def test_artefact_that_grows_stale_is_dropped(settings: Config) -> None:
    write(settings.artefact_path)
    estimator = Estimator()
    assert ask(estimator, settings, job(1, gpus=8))
    assert ask(estimator, settings, job(1, gpus=8), now=NOW + 15 * DAY_S) == {}


def test_new_artefact_is_taken_and_old_estimates_go(settings: Config) -> None:
    write(settings.artefact_path, 600)
    estimator = Estimator()
    assert ask(estimator, settings, job(1, gpus=8)) == {1: 600}
    write(settings.artefact_path, 900)
    assert ask(estimator, settings, job(1, gpus=8)) == {1: 900}


def test_artefact_that_vanishes_is_dropped(settings: Config) -> None:
    write(settings.artefact_path)
    estimator = Estimator()
    ask(estimator, settings, job(1, gpus=8))
    settings.artefact_path.unlink()
    assert ask(estimator, settings, job(1, gpus=8)) == {}


def test_damaged_file_is_read_once(settings: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.artefact_path.write_bytes(b"rubbish")
    reads: list[Path] = []
    real = artefact.read
    monkeypatch.setattr(estimates, "read", lambda p: (reads.append(p), real(p))[1])
    estimator = Estimator()
    for _ in range(5):
        ask(estimator, settings, job(1, gpus=8))
    assert len(reads) == 1


def test_other_path_is_taken_after_a_reload(settings: Config, tmp_path: Path) -> None:
    write(settings.artefact_path, 600)
    write(tmp_path / "other.npz", 900)
    estimator = Estimator()
    ask(estimator, settings, job(1, gpus=8))
    other = {"state.dir": str(tmp_path), "history.artefact": str(tmp_path / "other.npz")}
    assert ask(estimator, load(Path("/dev/null"), other), job(1, gpus=8)) == {1: 900}


def test_use_false_reads_nothing(tmp_path: Path) -> None:
    write(tmp_path / "durations.npz")
    config = load(Path("/dev/null"), {"state.dir": str(tmp_path), "history.use": False})
    estimator = Estimator()
    assert ask(estimator, config, job(1, gpus=8)) == {}
    assert estimator.state.problem == "history.use is false"


def counted(estimator: Estimator, monkeypatch: pytest.MonkeyPatch) -> list[Features]:
    asked: list[Features] = []
    assert estimator.model is not None
    real = type(estimator.model).estimate

    def spy(self: artefact.Durations, request: Features, elapsed_s: float = 0.0) -> object:
        asked.append(request)
        return real(self, request, elapsed_s)

    monkeypatch.setattr(type(estimator.model), "estimate", spy)
    return asked


def test_equal_requests_share_one_estimate_over_the_cycles(
    settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings.artefact_path)
    estimator = Estimator()
    ask(estimator, settings)
    asked = counted(estimator, monkeypatch)
    # Names differ by a number only: one stem.
    jobs = [job(i, gpus=1 + i % 2, name=f"train_{i}") for i in range(200)]
    for _ in range(3):
        assert len(ask(estimator, settings, *jobs)) == 200
    assert len(asked) == 2


def test_running_jobs_are_estimated_anew_only_as_time_grows(
    settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings.artefact_path, 3000)
    estimator = Estimator()
    ask(estimator, settings)
    asked = counted(estimator, monkeypatch)
    for now in range(NOW, NOW + 600, 10):  # 60 cycles of a job that has run for 15 to 25 minutes
        ask(estimator, settings, job(1, gpus=8, on={"n1": 8}, start_s=NOW - 900), now=now)
    assert len(asked) <= 1 + bucket(1500) - bucket(900)


def test_forgotten_requests_leave_no_trace(settings: Config) -> None:
    write(settings.artefact_path)
    estimator = Estimator()
    ask(estimator, settings, *(job(i, gpus=i % 9, name="abcdefghi"[i % 9]) for i in range(90)))
    ask(estimator, settings, job(1, gpus=8))
    assert len(estimator._known) == 1


def test_what_does_not_fit_into_the_budget_comes_in_the_next_cycles(
    settings: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings.artefact_path)
    clock = iter(range(10_000))
    monkeypatch.setattr(estimates.time, "monotonic", lambda: next(clock))
    estimator = Estimator(budget_s=5)
    jobs = [job(i, gpus=1 + i) for i in range(8)]
    running = job(99, gpus=1, name="x", on={"n1": 1}, start_s=NOW - 5)
    first = ask(estimator, settings, *jobs, running)
    assert (len(first), estimator.state.waiting) == (5, 4)
    assert 99 in first  # running jobs are not made to wait
    assert len(ask(estimator, settings, *jobs, running)) == 9


def test_replaced_within_the_same_size_is_noticed(settings: Config) -> None:
    path = settings.artefact_path
    write(path, 600)
    estimator = Estimator()
    ask(estimator, settings, job(1, gpus=8))
    before = path.stat()
    write(path, 900)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ask(estimator, settings, job(1, gpus=8)) == {1: 900}


@pytest.mark.parametrize(("elapsed_s", "number"), [(0, 0), (29, 0), (30, 1), (34, 1), (35, 2)])
def test_buckets(elapsed_s: int, number: int) -> None:
    assert bucket(elapsed_s) == number


def test_a_cycle_plans_with_them_and_shows_them(settings: Config) -> None:
    write(settings.artefact_path, fitted_s=int(time.time()))
    now = int(time.time())
    seen = observation([node("n1", gpus=4)], [job(1, gpus=8, submit=now - 9)], now=now)
    runner = Runner(settings, FakeSlurm(seen), None, dry_run=True)
    shown = snapshot(runner.run(), settings)
    assert shown["history"]["problem"] == ""
    assert (shown["history"]["estimated"], shown["history"]["jobs"]) == (1, 1)
    assert shown["jobs"][0]["estimate"]["p50_s"] == 600


def test_status_says_why_limits_are_used(settings: Config) -> None:
    now = int(time.time())
    seen = observation([node("n1")], [job(1, gpus=8, submit=now - 9)], now=now)
    shown = snapshot(Runner(settings, FakeSlurm(seen), None, dry_run=True).run(), settings)
    assert "missing; run `slurm-ext history fit`" in shown["history"]["problem"]
    assert shown["jobs"][0]["estimate"] is None
