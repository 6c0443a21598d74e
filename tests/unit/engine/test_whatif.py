"""What-if questions."""

from __future__ import annotations

import pytest

from slurm_ext.engine.pool import demand_of
from slurm_ext.engine.whatif import changed, what_if
from slurm_ext.errors import SlurmExtError
from slurm_ext.model.decision import Verdict
from slurm_ext.model.job import JobKey, Request
from slurm_ext.model.observation import Observation
from tests.builders import NOW, context, job, node, observation


def crowded() -> Observation:
    jobs = [
        job(9, gpus=4, on={"n1": 4}, end=NOW + 600),
        job(1, gpus=8, limit=1200, submit=NOW - 90),
        job(2, gpus=4, limit=7200, submit=NOW - 80),
        job(3, gpus=8, limit=60, submit=NOW - 70),
    ]
    return observation([node("n1", used=range(4))], jobs)


@pytest.mark.parametrize(
    ("changes", "verdict", "start"),
    [
        ({"limit": "10m"}, Verdict.START, 0),
        ({"limit": "11m"}, Verdict.WAIT, None),
        ({"gpus": "1"}, Verdict.WAIT, None),
        ({"gpus": "9"}, Verdict.NEVER, None),
        ({"nodes": "2"}, Verdict.NEVER, None),
        ({"cpus": "65"}, Verdict.NEVER, None),
        ({"mem": "500G"}, Verdict.NEVER, None),
        ({"type": "any", "limit": "10"}, Verdict.START, 0),
        ({"partition": "gpu", "limit": "10:00"}, Verdict.START, 0),
    ],
)
def test_what_if(changes: dict[str, str], verdict: Verdict, start: int | None) -> None:
    other = what_if(crowded(), context(), JobKey(2, NOW - 80), changes)
    decision = other.plan.decisions[JobKey(2, NOW - 80)]
    assert decision.verdict is verdict
    assert (None if decision.start_s is None else decision.start_s - NOW) == start


@pytest.mark.parametrize(
    "changes", [{"colour": "red"}, {"gpus": "two"}, {"limit": "soon"}, {"limit": "-5"}]
)
def test_questions_that_make_no_sense(changes: dict[str, str]) -> None:
    with pytest.raises(SlurmExtError, match="--what-if"):
        changed(job(1, gpus=1), changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu": "1"}, "did you mean gpus"),
        ({"type": "a10"}, "did you mean a100"),
        ({"partition": "gpus"}, "did you mean gpu"),
        ({"nodes": "0"}, "at least 1"),
        ({"gpus": "9" * 30}, "whole number"),
        ({"mem": "0"}, "MiB"),
        ({"mem": "lots"}, "MiB"),
        ({"limit": "0"}, "minutes"),
        ({"limit": "9" * 30}, "minutes"),
    ],
)
def test_a_wrong_question_is_answered_with_the_right_one(
    changes: dict[str, str], said: str
) -> None:
    with pytest.raises(SlurmExtError, match=said):
        what_if(crowded(), context(), JobKey(2, NOW - 80), changes)


@pytest.mark.parametrize(
    ("request_", "changes", "cpus", "mem_mib"),
    [
        (Request(cpus=32, cpus_per_task=32), {"cpus": "4"}, 4, 0),
        (Request(cpus=32, gpus_per_node=2, cpus_per_gpu=16), {"cpus": "4"}, 4, 0),
        (Request(cpus=64, nodes_min=2, nodes_max=2, tasks=2), {"cpus": "4"}, 4, 0),
        (Request(cpus=8, min_cpus_node=8, tasks=4, cpus_per_task=2), {"cpus": "4"}, 4, 0),
        (Request(mem_whole_node=True), {"mem": "2G"}, 1, 2048),
        (Request(mem_per_cpu_mib=900, cpus=4), {"mem": "1000"}, 4, 1000),
        (Request(nodes_min=2, nodes_max=2, tasks=2, cpus=16), {"nodes": "3"}, 8, 0),
        (Request(nodes_min=2, nodes_max=2, tasks=2, cpus=16), {"nodes": "1", "cpus": "4"}, 4, 0),
    ],
)
def test_what_is_asked_per_node_is_what_the_search_is_for(
    request_: Request, changes: dict[str, str], cpus: int, mem_mib: int
) -> None:
    demand = demand_of(changed(job(1, request=request_), changes).request)
    assert (demand.cpus, demand.mem_mib, demand.whole_mem) == (cpus, mem_mib, False)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("90s", 90), ("2h", 7200), ("1d", 86400), ("1:30:00", 5400),
     ("30:30", 1830), ("1-02:00:00", 93600), ("1-02:00", 93600)],
)  # fmt: skip
def test_limits_are_written_as_for_sbatch(text: str, seconds: int) -> None:
    assert changed(job(1), {"limit": text}).limit_s == seconds


def test_fewer_cpus_than_tasks_cannot_be() -> None:
    with pytest.raises(SlurmExtError, match="4 tasks"):
        changed(job(1, request=Request(tasks=4, cpus=4)), {"cpus": "2"})


def test_slurms_refusal_of_the_old_request_does_not_bind_the_new_one() -> None:
    assert changed(job(1, reason="PartitionTimeLimit"), {"limit": "1h"}).reason == ""
    assert changed(job(1, reason="AssocGrpGRES"), {"limit": "1h"}).reason == "AssocGrpGRES"


def test_a_running_job_is_not_asked_about() -> None:
    with pytest.raises(SlurmExtError, match="does not wait"):
        what_if(crowded(), context(), JobKey(9, NOW - 1000), {"gpus": "1"})


@pytest.mark.parametrize(
    ("request_", "gpus", "expected"),
    [
        (Request(gpus_total=12, nodes_max=None), "4", 4),
        (Request(gpus_per_task=2, tasks=4), "3", 3),
        (Request(gpus_per_node=2, nodes_min=2), "4", 8),
    ],
)
def test_gpus_change_in_the_jobs_own_terms(request_: Request, gpus: str, expected: int) -> None:
    assert changed(job(1, request=request_), {"gpus": gpus}).request.gpus == expected
