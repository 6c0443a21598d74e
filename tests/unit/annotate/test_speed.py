"""What a job's reports say of its speed and its remaining work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.annotate.speed import (
    lost_on_stop,
    observed,
    remaining,
    seconds_per_unit,
    weighted_median,
)
from slurm_ext.model.annotation import Annotation
from slurm_ext.model.progress import Progress, Report


def run(
    gpus: int, rate: float, *, run: int = 0, start: float = 0, first: float = 0
) -> list[Report]:
    """Twenty reports, one a second, at a constant rate."""
    return [Report(start + i, run, first + i * rate, gpus=gpus) for i in range(20)]


def test_each_size_has_its_own_speed() -> None:
    reports = run(2, 5.0) + run(4, 9.0, run=1, start=100, first=90)
    assert observed(reports) == {2: pytest.approx(5.0), 4: pytest.approx(9.0)}


def test_a_size_seen_too_short_is_not_believed() -> None:
    assert observed(run(2, 5.0)[:5]) == {}


def test_checkpoints_and_slow_starts_do_not_count() -> None:
    reports = [*run(2, 5.0)[:10], *(Report(20 + i, 0, 46 + 5.0 * i, gpus=2) for i in range(15))]
    assert observed(reports) == {2: pytest.approx(5.0)}


def test_a_restart_from_an_older_checkpoint_is_no_speed() -> None:
    reports = run(2, 5.0) + run(2, 5.0, run=1, start=200, first=40)
    assert observed(reports) == {2: pytest.approx(5.0)}


def test_what_goes_backwards_is_left_out() -> None:
    good = run(2, 5.0)
    reports = [*good, Report(5.0, 0, 500.0, gpus=2), Report(6.0, 0, 1.0, gpus=2)]
    assert observed(reports) == {2: pytest.approx(5.0)}


def test_without_gpus_there_is_no_point() -> None:
    assert observed(run(0, 5.0)) == {}


def test_several_jobs_give_one_point_a_size() -> None:
    progresses = [Progress(tuple(run(2, rate))) for rate in (4.0, 5.0, 10.0)]
    progresses.append(Progress(tuple(run(1, 2.0))))
    assert seconds_per_unit(progresses) == [(1, pytest.approx(0.5)), (2, pytest.approx(0.2))]


def test_what_is_left_and_what_would_be_lost() -> None:
    reports = (Report(1, 0, 10, checkpoint=True), Report(2, 0, 14))
    assert remaining(Annotation(work=100), Progress(reports)) == 86
    assert remaining(Annotation(work=5), Progress(reports)) == 0
    assert remaining(Annotation(), Progress(reports)) is None
    assert remaining(Annotation(work=5), Progress()) is None
    assert lost_on_stop(Progress(reports)) == 4
    assert lost_on_stop(Progress(reports[1:])) == 14
    assert lost_on_stop(Progress()) == 0


def test_the_median_needs_values() -> None:
    with pytest.raises(ValueError, match="no values"):
        weighted_median([])


WEIGHTED = st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e3)), min_size=1, max_size=20)


@given(WEIGHTED)
def test_half_the_weight_is_on_either_side_of_the_median(pairs: list[tuple[float, float]]) -> None:
    found = weighted_median(pairs)
    total = sum(weight for _, weight in pairs)
    assert sum(w for v, w in pairs if v < found) <= total / 2 * (1 + 1e-9)
    assert sum(w for v, w in pairs if v > found) <= total / 2 * (1 + 1e-9)


STEPS = st.floats(0, 1e15, allow_nan=False)


@given(st.lists(st.builds(Report, STEPS, st.integers(0, 3), STEPS, gpus=st.integers(0, 4))))
def test_speeds_are_positive_numbers_whatever_is_reported(reports: list[Report]) -> None:
    assert all(0 < rate < float("inf") for rate in observed(reports).values())
