"""What-if questions."""

from __future__ import annotations

import pytest

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
        ({"type": "h100"}, Verdict.NEVER, None),
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
