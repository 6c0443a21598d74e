"""The sorted list of pending jobs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.engine.pool import demand_of
from slurm_ext.model.job import JobKey, Request
from slurm_ext.sim.record import SimJob
from slurm_ext.sim.waiting import WaitingJobs
from slurm_ext.sim.workload import TraceJob

DEMAND = demand_of(Request())


def job(job_id: int, priority: int) -> SimJob:
    spec = TraceJob(job_id, 0, 10, 1)
    return SimJob(spec, JobKey(job_id, 0), Request(), DEMAND, 10, priority, 10)


def line(*priorities: int) -> tuple[WaitingJobs, list[SimJob]]:
    waiting, made = WaitingJobs(), [job(i, p) for i, p in enumerate(priorities)]
    for one in made:
        waiting.add(one)
    return waiting, made


def ids(found: list[SimJob]) -> list[int]:
    return [j.key.job_id for j in found]


def test_priority_then_id() -> None:
    waiting, _ = line(5, 9, 5, 7)
    assert ids(list(waiting)) == [1, 3, 0, 2]


def test_the_first_few() -> None:
    waiting, _ = line(5, 9, 5, 7)
    assert ids(waiting.first(2)) == [1, 3]


def test_a_job_is_found_although_its_priority_has_changed() -> None:
    waiting, made = line(5, 9)
    made[0].site_factor = 100
    waiting.remove(made[0])
    assert made[0] not in waiting
    waiting.add(made[0])
    assert ids(list(waiting)) == [0, 1]


def test_removing_what_is_not_there_does_nothing() -> None:
    waiting, _ = line(5)
    waiting.remove(job(7, 1))
    assert len(waiting) == 1


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 20), max_size=80), st.sets(st.integers(0, 79)))
def test_jobs_removed_on_the_way_do_not_hide_others(priorities: list[int], gone: set[int]) -> None:
    waiting, made = line(*priorities)
    walked = []
    for one in waiting:
        walked.append(one)
        if one.key.job_id in gone:
            waiting.remove(one)
    assert ids(walked) == sorted(range(len(made)), key=lambda i: (-made[i].priority, i))
    assert all(one.key.job_id not in gone for one in waiting)
