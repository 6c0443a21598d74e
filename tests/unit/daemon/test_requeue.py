"""What may be requeued, and what happens then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.daemon.config import load
from slurm_ext.daemon.journal import Journal
from slurm_ext.daemon.requeue import delayed, refusal, requeue
from slurm_ext.model.job import Job
from tests.builders import NOW, job, node, observation
from tests.fake import FakeSlurm

GUARD = load(
    Path("/dev/null"),
    {"guard.min_runtime_before_requeue_s": 50, "guard.max_requeues_per_hour": 2},
).guard


def running(job_id: int = 1, **fields: object) -> Job:
    return job(job_id, on={"n1": 1}, gpus=1, **fields)


@pytest.mark.parametrize(
    ("found", "part"),
    [
        pytest.param(job(1), "not running", id="pending"),
        pytest.param(running(flags=("COMPLETING",)), "not running", id="completing"),
        pytest.param(running(batch=False), "interactive", id="interactive"),
        pytest.param(running(cron=True), "scrontab", id="cron"),
        pytest.param(running(het_job_id=1), "heterogeneous", id="het"),
        pytest.param(running(requeueable=False), "--no-requeue", id="no-requeue"),
        pytest.param(replace(running(), start_s=NOW - 49), "min_runtime", id="too-young"),
        pytest.param(running(), "", id="fine"),
    ],
)
def test_refusal(found: Job, part: str) -> None:
    why = refusal(found, GUARD, NOW, done_this_hour=0)
    assert part in why
    assert bool(why) is bool(part)


def test_the_budget_of_an_hour(tmp_path: Path) -> None:
    jobs = [running(i) for i in (1, 2, 3)]
    fake = FakeSlurm(observation([node("n1")], jobs))
    with Journal(tmp_path / "j.db") as journal:
        results = {r.key.job_id: r.done for r in requeue(fake, journal, jobs, GUARD, NOW)}
        assert results == {1: True, 2: True, 3: False}
        assert requeue(fake, journal, jobs[:1], GUARD, NOW + 60)[0].done is False
        assert requeue(fake, journal, jobs[:1], GUARD, NOW + 4000)[0].done is True


@pytest.mark.parametrize(("begin", "taken_off"), [(NOW + 121, True), (NOW + 9000, False)])
def test_only_slurms_own_delay_is_taken_off(begin: int, taken_off: bool) -> None:
    again = job(1, begin=begin, submit=NOW, restarts=1)
    assert bool(delayed([again], [running().key], NOW)) is taken_off
