"""The two schedulers of the simulated Slurm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.settings import PROMPT
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import ONE, TWO, jobs, patch, simulation, starts, until

NO_BACKFILL = replace(PROMPT, bf_interval_s=1 << 30)


# -- the main scheduler ----------------------------------------------------------------------


def test_the_first_blocked_job_closes_its_partition() -> None:
    workload = jobs((0, 100, 6), (1, 10, 8), (2, 10, 1))
    assert starts(simulation(workload, settings=NO_BACKFILL).run()) == [0, 100, 110]


def test_another_partition_stays_open() -> None:
    two = ClusterSpec((ONE.groups[0], replace(ONE.groups[0], partition="p2", prefix="m")))
    rows = [TraceJob(1, 0, 100, 6, 100), TraceJob(2, 1, 10, 8, 10),
            TraceJob(3, 2, 10, 1, 10, partition="p2")]  # fmt: skip
    workload = Workload.of("two", rows)
    assert starts(simulation(workload, two, NO_BACKFILL).run()) == [0, 100, 2]


def test_a_job_that_names_its_nodes_closes_only_these() -> None:
    sim = until(simulation(jobs((0, 100, 6), (0, 10, 8), (0, 10, 1)), TWO, NO_BACKFILL), -1)
    for _ in range(3):
        sim.step()  # three submits
    patch(sim, 2, required_nodes=("n1",))
    assert starts(sim.run()) == [0, 100, 0]


def test_submit_delay() -> None:
    settings = replace(PROMPT, submit_delay_s=3)
    assert starts(simulation(jobs((10, 5, 1)), settings=settings).run()) == [13]


def test_passes_after_events_look_at_few_jobs_and_the_whole_pass_at_all() -> None:
    settings = replace(NO_BACKFILL, queue_depth=1, sched_interval_s=60)
    workload = jobs((0, 500, 8), (0, 70, 8), (1, 10, 8), (2, 10, 8))
    sim = until(simulation(workload, TWO, settings), 5)
    patch(sim, 3, required_nodes=("n1",))  # closes n1 only, but is all that is looked at
    assert starts(sim.run()) == [0, 1, 500, 120]


# -- backfill --------------------------------------------------------------------------------


def test_backfill_lets_short_jobs_pass_and_no_others() -> None:
    workload = jobs((0, 100, 6), (1, 10, 8), (2, 40, 1), (3, 90, 1))
    result = simulation(workload).run()
    assert starts(result) == [0, 100, 30, 110]


def test_backfill_goes_by_limits() -> None:
    workload = jobs((0, 50, 6, 200), (1, 10, 8), (2, 150, 1))
    assert starts(simulation(workload).run()) == [0, 180, 30]


@pytest.mark.parametrize(
    ("plans", "expected"),
    [(1, [0, 0, 100, 280, 30]), (0, [0, 0, 100, 200, 250])],
    ids=["EASY", "as Slurm does"],
)
def test_easy_plans_for_one_job_and_slurm_for_all(plans: int, expected: list[int]) -> None:
    # The last job would put off the planned start of the fourth, but not that of the third.
    workload = jobs((0, 100, 8), (0, 100, 8), (1, 100, 16), (1, 50, 24), (2, 250, 8))
    three = ClusterSpec.uniform(3)
    assert starts(simulation(workload, three, replace(PROMPT, plans=plans)).run()) == expected


def test_a_planned_start_takes_whole_nodes() -> None:
    # The plan of job 2 takes n1 from 100 on, although two GPUs of it stay free.
    workload = jobs((0, 100, 6), (0, 10, 6), (1, 200, 2))
    assert starts(simulation(workload).run()) == [0, 100, 100]


def test_nothing_is_planned_beyond_the_window() -> None:
    settings = replace(PROMPT, bf_window_s=50)
    workload = jobs((0, 100, 6), (1, 10, 8), (2, 300, 1))
    assert starts(simulation(workload, settings=settings).run()) == [0, 330, 30]


def test_no_more_jobs_are_tested_than_set() -> None:
    settings = replace(PROMPT, bf_max_job_test=1)
    workload = jobs((0, 100, 6), (1, 10, 8), (2, 40, 1))
    assert starts(simulation(workload, settings=settings).run()) == [0, 100, 110]
