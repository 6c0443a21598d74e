"""Which planned preemptions and resizes are carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from slurm_ext.engine.begin import begun, judged
from slurm_ext.engine.settings import Context, PreemptionSettings, RestartSettings
from slurm_ext.model.annotation import Annotation, Checkpoint, Scaling
from slurm_ext.model.decision import (
    Mode,
    Placement,
    Plan,
    Preemption,
    Reason,
    Resize,
    Shape,
    Stage,
    Victim,
)
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Observation
from slurm_ext.model.progress import Progress, Report
from slurm_ext.model.restart import Past, Restart, RestartStage
from tests.builders import NOW, context, job, node, observation

SAVES = Annotation(preemptible=True, checkpoint=Checkpoint(signal="USR1"))
GROWS = Annotation(scaling=Scaling("elastic", 1, 8), checkpoint=Checkpoint(signal="USR1"))
YOUNG = PreemptionSettings(min_runtime_s=0)
WHY = Reason("x", Stage.PREEMPT)
URGENT = job(9, gpus=8)


def runs(job_id: int = 1, **fields: object) -> Job:
    return job(job_id, on={"n1": 4}, gpus=4, requeueable=True, **fields)


def seen(*jobs: Job) -> Observation:
    return observation([node("n1")], [*jobs, URGENT])


def plan(*victims: Job, worth: bool = True, modes: Mapping[str, Mode] | None = None) -> Plan:
    named = tuple(Victim(v.key, v.address, ("n1",), 4, 0.0, 0.0, 0.0) for v in victims)
    proposal = Preemption(URGENT.key, worth, named, WHY, Placement(()), 1.0, 900.0)
    return Plan(NOW, "fifo", {}, preempt=(proposal,), modes=modes or {"gpu": Mode.ENFORCE})


def resizing(one: Job, shape: Shape) -> Plan:
    wish = Resize(one.key, one.address, 4, shape, 900.0, 10.0, WHY)
    return Plan(NOW, "fifo", {}, resizes=(wish,), modes={"gpu": Mode.ENFORCE})


def ctx(*jobs: Job, annotation: Annotation = SAVES, **fields: object) -> Context:
    values: dict[str, object] = {
        "annotations": {j.key: annotation for j in jobs}, "preemption": YOUNG, **fields,
    }  # fmt: skip
    return context(**values)  # type: ignore[arg-type]


def past(*outcomes: str, ago_s: int = 100, requeued: bool = True) -> Past:
    rows = [
        Restart(JobKey(1, NOW - 5000), "1", RestartStage.OVER, NOW - ago_s, NOW - ago_s, 4, 0, 1.0,
                requeued_s=NOW - ago_s if requeued else None, outcome=outcome)
        for outcome in outcomes
    ]  # fmt: skip
    return Past(len(rows), tuple(rows))


def going(job_id: int, **fields: object) -> Restart:
    values: dict[str, object] = {
        "key": JobKey(job_id, NOW - 1000), "address": str(job_id), "stage": RestartStage.SAVING,
        "begun_s": NOW - 10, "since_s": NOW - 10, "gpus": 4, "run": 0, "gain_gpu_s": 1.0, **fields,
    }  # fmt: skip
    return Restart(**values)  # type: ignore[arg-type]


def test_a_preemption_begins_with_the_signal() -> None:
    one = runs()
    told = Progress((Report(NOW - 30.0, 0, 5.0, checkpoint=True),))
    (found,) = begun(seen(one), plan(one), ctx(one, progress={one.key: told}))
    assert (found.key, found.stage, found.gainer) == (one.key, RestartStage.SIGNAL, URGENT.key)
    assert (found.gpus, found.gain_gpu_s, found.answer_before_s) == (4, 900.0, NOW - 30.0)


def test_without_a_signal_it_begins_with_the_requeue() -> None:
    one = runs()
    quiet = replace(SAVES, checkpoint=Checkpoint(interval_s=60))
    (found,) = begun(seen(one), plan(one), ctx(one, annotation=quiet))
    assert found.stage is RestartStage.REQUEUE


def test_a_resize_begins_with_the_signal() -> None:
    one = runs()
    wanted = Shape(1, 8, 1, 1)
    (found,) = begun(seen(one), resizing(one, wanted), ctx(one, annotation=GROWS))
    assert (found.shape, found.gainer, found.stage) == (wanted, None, RestartStage.SIGNAL)


def test_the_first_submission_is_kept_over_restarts() -> None:
    one = runs()
    (found,) = begun(seen(one), plan(one), ctx(one))
    assert found.first_submit_s == one.key.submit_s
    (found,) = begun(seen(one), plan(one), ctx(one, past=past("done")))
    assert found.first_submit_s == NOW - 5000


def test_no_resize_that_slurm_cannot_make() -> None:
    one = runs()
    wanted = Shape(1, 8, 2, 1)
    assert begun(seen(one), resizing(one, wanted), ctx(one, annotation=GROWS)) == []


@pytest.mark.parametrize(
    ("dependency", "free"),
    [("", True), ("afterok:1(unfulfilled)", False), ("afterany:7:1", False),
     ("afterok:11(unfulfilled)", True)],
)  # fmt: skip
def test_no_resize_of_what_others_wait_for(dependency: str, free: bool) -> None:
    one, other = runs(), job(5, dependency=dependency)
    found = begun(seen(one, other), resizing(one, Shape(1, 8, 1, 1)), ctx(one, annotation=GROWS))
    assert bool(found) is free


@pytest.mark.parametrize(
    ("fields", "annotation"),
    [
        pytest.param({}, Annotation(), id="not-preemptible"),
        pytest.param({}, GROWS, id="elastic-is-not-preemptible"),
        pytest.param({"requeueable": False}, SAVES, id="no-requeue"),
        pytest.param({"requeueable": None}, SAVES, id="requeue-not-shown"),
        pytest.param({"array_job_id": 1, "array_task_id": 0}, SAVES, id="array-task"),
        pytest.param({"batch": False}, SAVES, id="interactive"),
        pytest.param({"cron": True}, SAVES, id="cron"),
        pytest.param({"het_job_id": 1}, SAVES, id="het"),
        pytest.param({"reservation": "x"}, SAVES, id="reservation"),
        pytest.param({"comment": "slurm_ext:off"}, SAVES, id="opted-out"),
        pytest.param({"flags": ("COMPLETING",)}, SAVES, id="completing"),
        pytest.param({"restarts": 3}, SAVES, id="restarted-often"),
        pytest.param({"partitions": ("gpu", "side")}, SAVES, id="also-in-another-partition"),
    ],
)
def test_never_touched(fields: dict[str, object], annotation: Annotation) -> None:
    one = replace(runs(), **fields) if "flags" not in fields else runs(**fields)
    assert begun(seen(one), plan(one), ctx(one, annotation=annotation)) == []


def test_without_an_annotation_never() -> None:
    one = runs()
    assert begun(seen(one), plan(one), ctx()) == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"restart": RestartSettings(enabled=False)}, id="switched-off"),
        pytest.param({"paused": True}, id="paused"),
        pytest.param({"preemption": PreemptionSettings()}, id="too-young"),
        pytest.param({"restart": RestartSettings(max_per_hour=0)}, id="no-requeues-at-all"),
        pytest.param({"restarts": (going(1),)}, id="under-way"),
        pytest.param({"restarts": tuple(map(going, (5, 6, 7, 8)))}, id="enough-at-once"),
    ],
)
def test_limits(changed: dict[str, object]) -> None:
    one = runs()
    assert begun(seen(one), plan(one), ctx(one, **changed)) == []


@pytest.mark.parametrize(
    ("before", "free"),
    [
        pytest.param(past("done"), True, id="once-within-the-hour"),
        pytest.param(past("done", "done"), False, id="twice-within-the-hour"),
        pytest.param(past("done", "done", ago_s=3601), True, id="twice-before-that"),
        pytest.param(past("dropped", "dropped", requeued=False), True, id="never-stopped"),
        pytest.param(past("no_answer", requeued=False), False, id="no-answer"),
        pytest.param(past("old_shape"), False, id="did-not-come-back"),
        pytest.param(past("left_alone", ago_s=3600), True, id="failed-long-ago"),
        pytest.param(Past(20), False, id="budget-of-the-hour"),
    ],
)
def test_budgets(before: Past, free: bool) -> None:
    one = runs()
    assert bool(begun(seen(one), plan(one), ctx(one, past=before))) is free


@pytest.mark.parametrize("mode", [Mode.ORDER, Mode.OBSERVE])
def test_other_modes_only_propose(mode: Mode) -> None:
    one = runs()
    assert begun(seen(one), plan(one, modes={"gpu": mode}), ctx(one)) == []


def test_only_what_is_worth_it() -> None:
    one = runs()
    assert begun(seen(one), plan(one, worth=False), ctx(one)) == []


def test_a_set_of_victims_whole_or_not_at_all() -> None:
    first, second = runs(1), runs(2)
    both = ctx(first, second)
    assert len(begun(seen(first, second), plan(first, second), both)) == 2
    assert begun(seen(first, second), plan(first, second), ctx(first)) == []
    tight = replace(both, restart=RestartSettings(max_at_once=1))
    assert begun(seen(first, second), plan(first, second), tight) == []


def test_why_a_restart_is_not_begun() -> None:
    one = runs()
    worth = resizing(one, Shape(1, 8, 1, 1))
    off = ctx(one, annotation=GROWS, restart=RestartSettings(enabled=False))
    assert "preemption.enabled" in judged(seen(one), worth, off)[1][one.key]
    spent = ctx(one, annotation=GROWS, past=Past(20))
    assert "max_requeues_per_hour" in judged(seen(one), worth, spent)[1][one.key]
    assert judged(seen(one), plan(one), ctx(one, past=past("done", "done"))) == (
        [], {URGENT.key: "2 times within the hour (restart.max_per_job_hour)"}
    )  # fmt: skip
