"""Preemption plans: who may be a victim, what it costs, when it is worth it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_ext.engine.cycle import decide
from slurm_ext.engine.parts.preemption import LostWork
from slurm_ext.engine.settings import BackfillSettings, PreemptionSettings
from slurm_ext.model.annotation import Annotation, Checkpoint
from slurm_ext.model.decision import Plan
from slurm_ext.model.job import Job
from tests.builders import NOW, context, job, node, observation

HOUR_S = 3600
SAVES = Annotation(preemptible=True, checkpoint=Checkpoint(interval_s=600, restart_s=60))
ON = PreemptionSettings(enabled=True)


def running(job_id: int, name: str, gpus: int, **fields: object) -> Job:
    values: dict[str, object] = {
        "cpus": 1, "end": NOW + 10 * HOUR_S, "start_s": NOW - HOUR_S, "requeueable": True, **fields,
    }  # fmt: skip
    return job(job_id, on={name: gpus}, gpus=gpus, **values)  # type: ignore[arg-type]


def plan(
    held: list[Job],
    annotations: dict[int, Annotation],
    *waiting: Job,
    settings: PreemptionSettings = ON,
) -> Plan:
    """Jobs that fill one or two 8-GPU nodes, and what waits."""
    names = sorted({s.node for j in held for s in j.alloc})
    nodes = [node(n, used=range(8), cpus_used=4) for n in names]
    jobs = [*held, *waiting]
    ctx = context(
        preemption=settings, annotations={j.key: annotations[j.job_id] for j in jobs
                                          if j.job_id in annotations},
    )  # fmt: skip
    return decide(observation(nodes, jobs), ctx).plan


def victims(found: Plan) -> list[int]:
    return sorted(v.key.job_id for p in found.preempt for v in p.victims)


def test_the_cheapest_victim_makes_room() -> None:
    held = [running(1, "n1", 8), running(2, "n2", 8, start_s=NOW - 1900)]
    dear = replace(SAVES, checkpoint=Checkpoint(restart_s=60))
    found = plan(held, {1: SAVES, 2: dear}, job(9, gpus=8))
    assert victims(found) == [1]
    (one,) = found.preempt
    assert one.worth
    assert one.cost_gpu_s == 8 * (600 + 60)
    assert one.gain_gpu_s == 8 * 10 * HOUR_S
    assert one.placement is not None
    assert one.placement.nodes == ("n1",)


def test_off_by_default() -> None:
    found = plan([running(1, "n1", 8)], {1: SAVES}, job(9, gpus=8), settings=PreemptionSettings())
    assert found.preempt == ()


@pytest.mark.parametrize(
    ("fields", "annotation"),
    [
        pytest.param({}, None, id="no-annotation"),
        pytest.param({}, replace(SAVES, preemptible=False), id="not-preemptible"),
        pytest.param({"array_job_id": 1, "array_task_id": 3}, SAVES, id="array-task"),
        pytest.param({"requeueable": False}, SAVES, id="no-requeue"),
        pytest.param({"requeueable": None}, SAVES, id="requeue-not-shown"),
        pytest.param({"batch": False}, SAVES, id="interactive"),
        pytest.param({"reservation": "theirs"}, SAVES, id="reservation"),
        pytest.param({"het_job_id": 1, "het_offset": 0}, SAVES, id="het"),
        pytest.param({"cron": True}, SAVES, id="cron"),
        pytest.param({"comment": "slurm_ext:off"}, SAVES, id="opted-out"),
        pytest.param({"start_s": NOW - 1799}, SAVES, id="too-young"),
        pytest.param({"restarts": 3}, SAVES, id="restarted-often"),
        pytest.param({"state": "SUSPENDED"}, SAVES, id="suspended"),
        pytest.param({"flags": ("COMPLETING",)}, SAVES, id="completing"),
    ],
)
def test_never_a_victim(fields: dict, annotation: Annotation | None) -> None:  # type: ignore[type-arg]
    known = {1: annotation} if annotation is not None else {}
    found = plan([running(1, "n1", 8, **fields)], known, job(9, gpus=8))
    assert victims(found) == []
    assert [p.reason.code for p in found.preempt] == ["preempt_none"]


def test_a_preemptible_job_preempts_nobody() -> None:
    assert plan([running(1, "n1", 8)], {1: SAVES, 9: SAVES}, job(9, gpus=8)).preempt == ()


def test_too_dear_is_shown_but_not_worth_it() -> None:
    soon = running(1, "n1", 8, end=NOW + 900)
    (one,) = plan([soon], {1: SAVES}, job(9, gpus=8)).preempt
    assert not one.worth
    assert one.reason.code == "preempt_dear"
    assert [v.key.job_id for v in one.victims] == [1]


def test_two_blocked_jobs_do_not_share_a_victim() -> None:
    settings = replace(ON, jobs=2)
    held = [running(1, "n1", 8), running(2, "n2", 8)]
    ctx = context(preemption=settings, backfill=BackfillSettings(fences=2),
                  annotations={j.key: SAVES for j in held})  # fmt: skip
    nodes = [node(n, used=range(8), cpus_used=1) for n in ("n1", "n2")]
    waiting = [job(8, gpus=8), job(9, gpus=8)]
    found = decide(observation(nodes, [*held, *waiting]), ctx).plan
    assert [[v.key.job_id for v in p.victims] for p in found.preempt] == [[1], [2]]


def test_planning_changes_nothing_else() -> None:
    held, waiting = [running(1, "n1", 8)], job(9, gpus=8)
    with_it = plan(held, {1: SAVES}, waiting)
    without = plan(held, {1: SAVES}, waiting, settings=PreemptionSettings())
    assert replace(with_it, preempt=()) == without


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        (Checkpoint(restart_s=30), (4 * 7200.0, 0.0, 120.0)),
        (Checkpoint(interval_s=600, restart_s=30), (2400.0, 0.0, 120.0)),
        (Checkpoint(interval_s=9000, restart_s=30), (4 * 7200.0, 0.0, 120.0)),
        (Checkpoint(signal="USR1", grace_s=60, restart_s=30), (0.0, 240.0, 120.0)),
    ],
)
def test_what_a_requeue_costs(checkpoint: Checkpoint, expected: tuple[float, ...]) -> None:
    held = running(1, "n1", 4, start_s=NOW - 7200)
    assert LostWork().cost(held, Annotation(checkpoint=checkpoint), NOW) == expected


def test_without_trust_a_signal_saves_nothing() -> None:
    held = running(1, "n1", 4, start_s=NOW - 7200)
    asked = Annotation(checkpoint=Checkpoint(signal="USR1", restart_s=0))
    assert LostWork(count_on_signal=False).cost(held, asked, NOW).total_gpu_s == 4 * 7200
