"""The course of a run, its fairness and plots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slurm_ext.cli.main import main
from slurm_ext.sim.metrics import measure
from slurm_ext.sim.outcome import JobOutcome, SimResult, Span
from slurm_ext.sim.plots import lanes_of
from slurm_ext.sim.series import series
from slurm_ext.sim.workload import TraceJob


def ran(*rows: tuple[int, int, int, int, int], gpus: int = 4) -> SimResult:
    """(submit, run, gpus, start, end) of each job."""
    jobs = tuple(
        JobOutcome(TraceJob(i, submit, run, n), start, start, end)
        for i, (submit, run, n, start, end) in enumerate(rows, 1)
    )
    return SimResult("x", gpus, jobs, 0)


TWO = ran((0, 10, 4, 0, 10), (0, 10, 2, 10, 20))


def test_the_course_counts_used_waiting_and_wanted() -> None:
    course = series(TWO)
    assert course.at_s.tolist() == [0, 10, 20]
    assert course.used.tolist() == [4, 2, 0]
    assert course.waiting.tolist() == [1, 0, 0]
    assert course.wanted.tolist() == [2, 0, 0]
    assert course.asked.tolist() == [6, 2, 0]


def test_means_between_moments() -> None:
    course = series(TWO)
    found = course.mean_between(course.asked, np.array([0.0, 5.0, 0.0]), np.array([20.0, 15, 0]))
    assert found.tolist() == [4.0, 4.0, 6.0]


def test_gpus_that_stand_idle_beside_a_waiting_job_are_stranded() -> None:
    # Three of four GPUs idle for 10 s while a job waits for two of them.
    found = measure(ran((0, 10, 1, 0, 10), (0, 10, 2, 10, 20)))
    assert found.stranded_gpu_h == pytest.approx(20 / 3600)
    assert found.fragmentation == pytest.approx(20 / 40)


def test_a_job_that_gets_its_equal_share_is_treated_fairly() -> None:
    # Two jobs, each for the whole cluster, one after the other: who waits is not yet unfair.
    found = measure(ran((0, 10, 4, 0, 10), (0, 10, 4, 10, 20)))
    assert found.ftf_worst == pytest.approx(20 / 15)  # contention 2, then 1: 1.5 on average
    assert found.ftf_unfair == 0.5
    assert found.jain == pytest.approx(1.5**2 / (2 * 1.25))


def test_stretches_of_a_stopped_job_count_with_what_they_held() -> None:
    job = JobOutcome(TraceJob(1, 0, 10, 4), 0, 20, 25, spans=(Span(0, 5, 4), Span(20, 25, 2)))
    assert series(SimResult("x", 4, (job,), 0)).used.tolist() == [4, 0, 2, 0]


def test_lanes_are_never_used_twice() -> None:
    drawn = lanes_of(ran((0, 10, 2, 0, 10), (0, 20, 1, 0, 20), (0, 5, 3, 10, 15)))
    assert [lanes for *_, lanes in drawn] == [[(2, 1)], [(0, 2)], [(0, 2), (3, 1)]] or [
        lanes for *_, lanes in drawn
    ] == [[(0, 2)], [(2, 1)], [(0, 2), (3, 1)]]


def test_plots_and_page_from_the_command_line(tmp_path: Path) -> None:
    code = main([
        "sim", "compare", "--policies", "fifo,srtf", "--jobs", "30", "--cluster", "2x8",
        "--plots", str(tmp_path / "plots"), "--html", str(tmp_path / "page.html"),
    ])  # fmt: skip
    assert code == 0
    names = sorted(p.name for p in (tmp_path / "plots").iterdir())
    assert names == sorted(f"{n}.{k}" for n in ("jct", "course", "sizes", "gantt")
                           for k in ("png", "svg"))  # fmt: skip
    assert all(p.stat().st_size > 1000 for p in (tmp_path / "plots").iterdir())
    text = (tmp_path / "page.html").read_text()
    assert text.count("data:image/png;base64,") == 4
    assert "JCT mean" in text
    assert "http" not in text.replace("http-equiv", "")
