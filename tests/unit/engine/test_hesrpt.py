"""Shares by the time left (heSRPT), and the sizes they are rounded to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.parts.hesrpt import LeastTimeMost, shares, sized
from slurm_ext.model.job import JobKey

from .test_elastic import JOBS, elastic, pool


@pytest.mark.parametrize(
    ("count", "efficiency", "expected"),
    [(1, 0.5, [1.0]), (2, 0.0, [0.5, 0.5]), (2, 0.5, [0.25, 0.75]), (4, 0.5, [1, 3, 5, 7])],
)
def test_shares(count: int, efficiency: float, expected: list[float]) -> None:
    assert shares(count, efficiency) == pytest.approx([x / sum(expected) for x in expected])


def flow_s(sizes: tuple[float, float], share: float, efficiency: float) -> float:
    """Sum of the two times in the system when the shorter job has this share until it ends."""
    short, long = sizes
    first_s = short / share**efficiency
    return 2 * first_s + max(0.0, long - first_s * (1 - share) ** efficiency)


@given(st.floats(0.1, 0.9), st.floats(1.0, 10.0), st.floats(0.01, 0.99))
def test_no_other_share_is_better_for_two_jobs(p: float, longer: float, share: float) -> None:
    _, best = shares(2, p)
    if longer >= flow_of_other(p, best, share):
        assert flow_s((1.0, longer), best, p) <= flow_s((1.0, longer), share, p) + 1e-9


def flow_of_other(p: float, *tried: float) -> float:
    """Work of the longer job from which on the shorter one ends first under all these shares."""
    return max(((1 - share) / share) ** p for share in tried)


@given(rows=JOBS, gpus=st.integers(1, 64), p=st.floats(0, 0.95))
def test_sizes_are_within_all_limits_and_least_time_left_comes_first(
    rows: list[tuple[float, int]], gpus: int, p: float
) -> None:
    jobs = [elastic(i, left_s, most) for i, (left_s, most) in enumerate(rows)]
    sizes = sized(jobs, gpus, p)
    assert sum(sizes.values()) <= gpus
    order = sorted(jobs, key=lambda j: (j.remaining_s, j.line))
    assert list(sizes) == [j.key for j in order[:gpus]]
    alike = [(j.remaining_s, sizes[j.key]) for j in order[:gpus] if rows[j.line][1] == 16]
    assert [size for _, size in alike] == sorted((size for _, size in alike), reverse=True)
    for job in order[:gpus]:
        assert sizes[job.key] & (sizes[job.key] - 1) == 0
        assert sizes[job.key] <= rows[job.line][1]


def test_a_short_job_gets_more_than_a_long_one_and_nothing_is_left_over() -> None:
    jobs = [elastic(0, 900.0), elastic(1, 100.0), elastic(2, 500.0)]
    sizes = sized(jobs, 8, 0.5)
    assert [sizes[JobKey(i, 0)] for i in range(3)] == [2, 4, 2]


def test_nothing_changes_for_less_than_its_cost() -> None:
    jobs = [elastic(0, 20.0, held=4, restart_s=100)]
    (kept,) = LeastTimeMost().grants(jobs, pool(8), 0, ())
    assert kept.gpus == 4
    (grown,) = LeastTimeMost(hysteresis=False).grants(jobs, pool(8), 0, ())
    assert grown.gpus == 8
