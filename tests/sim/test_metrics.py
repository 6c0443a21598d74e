"""Figures of a run by hand, and their intervals."""

from __future__ import annotations

import pytest

from slurm_ext.sim.errors import SimulationError
from slurm_ext.sim.metrics import Interval, Metrics, bootstrap, intervals, measure
from slurm_ext.sim.outcome import JobOutcome, SimResult
from slurm_ext.sim.workload import TraceJob


def measured(*rows: tuple[int, int, int, int], state: str = "COMPLETED") -> Metrics:
    """Rows of (submit, start, run, gpus) on 4 GPUs."""
    outcomes = tuple(
        JobOutcome(TraceJob(i, s, run, gpus), start, start, start + run, state=state)
        for i, (s, start, run, gpus) in enumerate(rows, 1)
    )
    return measure(SimResult("x", 4, outcomes, 0))


def test_means_and_percentiles() -> None:
    found = measured((0, 0, 100, 4), (0, 100, 100, 2), (50, 200, 50, 1))
    assert found.jct_mean_s == pytest.approx(500 / 3)
    assert (found.jct_median_s, found.wait_median_s) == (200, 100)
    assert found.jct_p95_s == pytest.approx(200)
    assert found.wait_mean_s == pytest.approx(250 / 3)


def test_makespan_runs_from_the_first_submit() -> None:
    assert measured((20, 30, 100, 1)).makespan_s == 110


def test_utilisation_is_gpu_time_over_capacity() -> None:
    assert measured((0, 0, 100, 4), (0, 100, 100, 2)).utilisation == pytest.approx(600 / 800)


@pytest.mark.parametrize(
    ("start", "run", "expected"), [(0, 1, 1.0), (100, 100, 2.0), (99, 1, 10.0), (4, 5, 1.0)]
)
def test_slowdown_has_a_floor_of_ten_seconds(start: int, run: int, expected: float) -> None:
    assert measured((0, start, run, 1)).slowdown_mean == pytest.approx(expected)


def test_killed_jobs_count_with_the_time_they_ran() -> None:
    outcome = JobOutcome(TraceJob(1, 0, 1000, 4), 0, 0, 100, state="TIMEOUT")
    found = measure(SimResult("x", 4, (outcome,), 0))
    assert (found.killed, found.utilisation, found.wait_mean_s) == (1, 1.0, 0.0)


def test_deadlines_are_missed_by_who_ends_later_or_is_killed() -> None:
    rows = [(100, 100, "COMPLETED"), (100, 101, "COMPLETED"), (200, 50, "TIMEOUT"), (0, 9, "X")]
    outcomes = tuple(
        JobOutcome(TraceJob(i, 0, 50, 1, deadline_s=d), 0, 0, end, state=state)
        for i, (d, end, state) in enumerate(rows)
    )
    found = measure(SimResult("x", 4, outcomes, 0))
    assert (found.deadlines, found.missed) == (3, 2)


def test_lost_work_is_in_gpu_hours() -> None:
    outcome = JobOutcome(TraceJob(1, 0, 100, 4), 0, 0, 4000, restarts=2, lost_s=1800)
    found = measure(SimResult("x", 4, (outcome,), 0))
    assert (found.restarts, found.lost_gpu_h) == (2, 2.0)


def test_nothing_to_measure() -> None:
    with pytest.raises(SimulationError, match="no job"):
        measured()


def test_bootstrap_of_one_value_is_that_value() -> None:
    assert bootstrap([5.0]) == Interval(5.0, 5.0, 5.0)


def test_bootstrap_is_deterministic_and_around_the_mean() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = bootstrap(values, seed=7)
    assert found == bootstrap(values, seed=7)
    assert 1.0 < found.low < found.mean == 3.5 < found.high < 6.0


def test_bootstrap_covers_the_true_mean_about_as_often_as_it_says() -> None:
    from random import Random

    rng = Random(1)
    hits = 0
    for seed in range(200):
        found = bootstrap([rng.gauss(10, 2) for _ in range(20)], seed=seed, rounds=300)
        hits += found.low <= 10 <= found.high
    assert 0.87 <= hits / 200 <= 0.98


def test_bootstrap_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        bootstrap([])


def test_intervals_name_every_figure() -> None:
    row = measured((0, 0, 100, 4))
    assert set(intervals([row, row])) == set(row.as_dict())
