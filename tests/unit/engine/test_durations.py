"""How long jobs are taken to run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.durations import expected_end_s, planned_s
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import JobState
from tests.builders import NOW, job

GUESS = Estimate(100, 300, 900, 300, 9, "user")


@pytest.mark.parametrize(
    ("limit", "durations", "estimate", "expected"),
    [
        (3600, "limit", GUESS, 3600),
        (3600, "p50", GUESS, 300),
        (3600, "p90", GUESS, 900),
        (600, "p90", GUESS, 600),
        (3600, "p90", None, 3600),
        (None, "limit", None, 7000),
        (None, "p50", GUESS, 300),
        (3600, "p50", GUESS._replace(p50_s=0.2), 1),
    ],
)
def test_of_a_waiting_job(
    limit: int | None, durations: str, estimate: Estimate | None, expected: int
) -> None:
    assert planned_s(limit, estimate, durations, 7000) == expected


@pytest.mark.parametrize(
    ("elapsed", "expected"),
    [
        pytest.param(60, 240, id="as predicted"),
        pytest.param(300, 60, id="just outlived: a minute more"),
        pytest.param(370, 230, id="a minute was not enough: five"),
        pytest.param(1000, 200, id="then fifteen"),
        pytest.param(3000, 600, id="never past the limit"),
        pytest.param(3700, 100, id="past the limit: as long as it is late"),
    ],
)
def test_corrections_grow(elapsed: int, expected: int) -> None:
    start = NOW - elapsed
    running = job(1, on={"n1": 1}, limit=3600, start_s=start, end=start + 3600)
    assert expected_end_s(running, NOW, 7000, "p50", GUESS) - NOW == expected


def test_by_limits_an_estimate_counts_for_nothing() -> None:
    running = job(1, on={"n1": 1}, end=NOW + 500)
    assert expected_end_s(running, NOW, 7000, "limit", GUESS) == NOW + 500


def test_a_completing_job_ends_within_a_minute() -> None:
    running = job(1, on={"n1": 1}, end=NOW + 5000)
    completing = replace(running, state=JobState(running.state.base, frozenset({"COMPLETING"})))
    assert expected_end_s(completing, NOW, 7000, "p50", GUESS) == NOW + 60


def test_without_any_end_the_default_limit_counts() -> None:
    running = replace(job(1, on={"n1": 1}, limit=None), end_s=None)
    assert expected_end_s(running, NOW, 7000) == NOW - 60 + 7000
    assert expected_end_s(replace(running, start_s=None), NOW, 7000) == NOW + 7000
