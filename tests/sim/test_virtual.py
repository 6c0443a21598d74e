"""The order of a virtual machine (A-SRPT)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.engine.parts.virtual import finished_s
from slurm_ext.model.job import JobKey
from slurm_ext.sim.cluster import ClusterSpec
from slurm_ext.sim.outcome import JobOutcome, SimResult
from slurm_ext.sim.physics import NO_COST
from slurm_ext.sim.scenario import Scenario, run
from slurm_ext.sim.workload import TraceJob, Workload
from tests.sim.helpers import check_conserved, jobs, starts


def driven(workload: Workload, cluster: str = "pool:8") -> SimResult:
    scenario = Scenario("ideal", "a-srpt", cost=NO_COST)
    return run(scenario, workload.with_limits("exact"), ClusterSpec.parse(cluster))


def test_the_virtual_machine_preempts_for_shorter_remaining_work() -> None:
    rows = [(JobKey(1, 0), 10.0), (JobKey(2, 2), 3.0), (JobKey(3, 3), 9.0)]
    assert finished_s(rows) == {JobKey(1, 0): 13.0, JobKey(2, 2): 5.0, JobKey(3, 3): 22.0}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=10))
def test_the_virtual_machine_is_never_idle_while_it_has_work(rows: list[tuple[int, int]]) -> None:
    given_jobs = [(JobKey(i, at_s), float(work)) for i, (at_s, work) in enumerate(rows)]
    done_s = finished_s(given_jobs)
    left = dict(given_jobs)
    for now_s in range(max(map(int, done_s.values())) + 1):  # second by second
        ready = [k for k in left if k.submit_s <= now_s]
        if ready:
            first = min(ready, key=lambda k: (left[k], k))
            left[first] -= 1
            if not left[first]:
                assert done_s[first] == now_s + 1
                del left[first]
    assert not left


def test_jobs_are_offered_once_the_virtual_machine_has_finished_them() -> None:
    # Half of the GPUs: half of the run time; all of them: as long as the run.
    assert starts(driven(jobs((0, 100, 4)))) == [50]
    assert starts(driven(jobs((0, 100, 8)))) == [100]


def test_a_job_that_does_not_fit_is_not_overtaken() -> None:
    rows = jobs((0, 1000, 4), (501, 40, 8), (510, 400, 2))
    assert starts(driven(rows)) == [500, 1500, 1540]  # the last fits beside the first, but waits


def two_nodes(comm: float, patience: float = 100.0) -> JobOutcome:
    """A job of two GPUs while each of two nodes has one GPU free; the first node until 2200."""
    fillers = [TraceJob(i, 0, 1600, 3) for i in (1, 2)]
    wide = TraceJob(3, 1300, 100, 2, comm=comm)
    rows = Workload.of("x", [*fillers, wide]).with_limits("exact")
    scenario = Scenario("ideal", "a-srpt", cost=NO_COST, parameters={"patience": patience})
    return run(scenario, rows, ClusterSpec.parse("2x4")).jobs[2]


@pytest.mark.parametrize(
    ("comm", "nodes", "start_s"), [(0.0, 2, 1325), (0.05, 2, 1325), (0.5, 1, 2200)]
)
def test_only_heavy_communication_waits_for_one_node(comm: float, nodes: int, start_s: int) -> None:
    found = two_nodes(comm)
    assert (len(found.nodes), found.first_start_s) == (nodes, start_s)


@pytest.mark.parametrize(("patience", "start_s"), [(0.0, 1325), (1.0, 1350), (4.0, 1425)])
def test_waiting_for_one_node_is_bounded_by_the_virtual_time(patience: float, start_s: int) -> None:
    assert two_nodes(0.5, patience).first_start_s == start_s


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 60), st.sampled_from([1, 2, 4, 8])),
        min_size=1, max_size=10,
    )
)  # fmt: skip
def test_every_job_ends_and_none_is_stopped(rows: list[tuple[int, int, int]]) -> None:
    workload = jobs(*rows)
    result = driven(workload, "2x4")
    check_conserved(result, workload, 8)
    assert not any(o.restarts for o in result.jobs)
