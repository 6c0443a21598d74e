"""Predictors inside a simulation."""

from __future__ import annotations

import pytest

from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.errors import TraceError
from slurm_ext.sim.foresee import LastTwo, UserMean
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import jobs, starts


def job(run_s: int, user: str = "a", gpus: int = 1, limit_s: int | None = None) -> TraceJob:
    return TraceJob(1, 0, run_s, gpus, limit_s, user=user)


def test_the_mean_of_the_users_jobs_of_that_size_then_of_all_of_that_size() -> None:
    known = UserMean()
    assert known.estimate(job(1)) is None
    for done in (job(10), job(30), job(50, user="b"), job(99, gpus=2)):
        known.ended(done)
    mine, others = known.estimate(job(1)), known.estimate(job(1, user="c"))
    assert mine is not None
    assert (mine.point_s, mine.n, mine.level) == (20, 2, "user+size")
    assert others is not None
    assert (others.point_s, others.level) == (30, "size")
    assert known.estimate(job(1, gpus=4)) is None


def test_only_the_two_last_jobs_of_the_user_count() -> None:
    known = LastTwo()
    for run_s in (1000, 10, 30):
        known.ended(job(run_s))
    found = known.estimate(job(1))
    assert found is not None
    assert (found.p50_s, found.n) == (20, 2)
    assert known.estimate(job(1, user="b")) is None


def test_one_run_alone_is_not_enough() -> None:
    known = LastTwo()
    known.ended(job(10))
    assert known.estimate(job(1)) is None


def test_nothing_is_expected_to_outlast_its_limit() -> None:
    known = LastTwo()
    known.ended(job(1000))
    known.ended(job(1000))
    found = known.estimate(job(1, limit_s=60))
    assert found is not None
    assert found.point_s == 60


@pytest.mark.parametrize(("durations", "expected"), [("limit", 30), ("last2", 4)])
def test_a_hole_that_the_limit_does_not_fit_is_filled_by_what_was_learned(
    durations: str, expected: int
) -> None:
    # Job 3 waits for the whole pool; job 4 says 1000 s, but its user's last jobs took 2 s.
    rows = [
        TraceJob(1, 0, 2, 1, 1000, user="a"), TraceJob(5, 0, 2, 1, 1000, user="a"),
        TraceJob(2, 1, 19, 6, 20, user="b"),
        TraceJob(3, 3, 10, 8, 10, user="c"), TraceJob(4, 4, 2, 2, 1000, user="a"),
    ]  # fmt: skip
    scenario = Scenario("ideal", "fifo", "easy", durations=durations)
    found = run(scenario, Workload.of("x", rows), ClusterSpec.count_only(8))
    assert starts(found)[3] == expected


def test_unknown_durations_are_named() -> None:
    with pytest.raises(TraceError, match="limit, history, last2"):
        run(Scenario(durations="oracle"), jobs((0, 1, 1)), ClusterSpec.count_only(8))
