"""The steps of a restart: what is seen decides what comes next."""

from __future__ import annotations

import pytest

from slurm_ext.engine.restart import COOL_S, Sight, advance, lost_gpu_s, told
from slurm_ext.engine.settings import RestartSettings
from slurm_ext.model.annotation import Annotation, Checkpoint
from slurm_ext.model.decision import Shape
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.progress import Progress, Report
from slurm_ext.model.restart import Restart, RestartStage
from tests.builders import NOW, job

SAVES = Annotation(preemptible=True, checkpoint=Checkpoint(signal="USR1", grace_s=60))
LARGE = Shape(1, 8, 1, 8)
GAINER = JobKey(9, NOW - 50)
PATIENT = RestartSettings(keep_room_s=120, come_back_s=600, min_gain=2.0)


def one(stage: RestartStage = RestartStage.SAVING, **fields: object) -> Restart:
    values: dict[str, object] = {
        "key": JobKey(1, NOW - 1000), "address": "1", "stage": stage, "begun_s": NOW - 10,
        "since_s": NOW - 10, "gpus": 4, "run": 0, "gain_gpu_s": 1000.0, "gainer": GAINER,
        **fields,
    }  # fmt: skip
    return Restart(**values)  # type: ignore[arg-type]


def resize(stage: RestartStage, **fields: object) -> Restart:
    return one(stage, gainer=None, shape=LARGE, requeued_s=NOW - 5, **fields)


def runs(**fields: object) -> Job:
    return job(1, on={"n1": 4}, gpus=4, **fields)


def waits(**fields: object) -> Job:
    return job(1, gpus=4, submit=NOW - 1, **{"restarts": 1, **fields})


def told_of(at_s: float, *, run: int = 0, checkpoint: bool = True) -> Progress:
    return Progress((Report(at_s, run, 10.0, checkpoint),))


def look(found: Job | None, **fields: object) -> Sight:
    values: dict[str, object] = {"annotation": SAVES, "gainer_waits": True, **fields}
    return Sight(NOW, found, **values)  # type: ignore[arg-type]


def step(before: Restart, seen: Sight, settings: RestartSettings = PATIENT) -> tuple[str, str]:
    after = advance(before, seen, settings)
    return str(after.stage), after.outcome


@pytest.mark.parametrize(
    ("before", "seen", "expected"),
    [
        pytest.param(one(), look(runs()), ("saving", ""), id="grace-goes-on"),
        *(
            pytest.param(
                one(stage), look(runs(submit=NOW - 5)), ("over", "ended"), id=f"other-{stage}"
            )
            for stage in (RestartStage.SIGNAL, RestartStage.SAVING, RestartStage.REQUEUE)
        ),
        pytest.param(
            one(), look(runs(), progress=told_of(NOW - 3)), ("requeue", ""), id="answered"
        ),
        pytest.param(
            one(answer_before_s=NOW - 3.0), look(runs(), progress=told_of(NOW - 3)),
            ("saving", ""), id="an-old-checkpoint-is-no-answer",
        ),
        pytest.param(
            one(), look(runs(), progress=told_of(NOW - 3, run=7)), ("saving", ""),
            id="a-checkpoint-of-another-run-is-no-answer",
        ),
        pytest.param(
            one(since_s=NOW - 60), look(runs()), ("requeue", ""), id="grace-over-tells-nothing"
        ),
        pytest.param(
            one(since_s=NOW - 60, gain_gpu_s=400.0),
            look(runs(), progress=told_of(NOW - 70, checkpoint=False)),
            ("over", "no_answer"), id="grace-over-too-much-would-be-lost",
        ),
        pytest.param(
            one(since_s=NOW - 60, gain_gpu_s=500.0),
            look(runs(), progress=told_of(NOW - 70, checkpoint=False)),
            ("requeue", ""), id="grace-over-but-worth-the-loss",
        ),
        pytest.param(one(), look(None), ("over", "ended"), id="gone"),
        pytest.param(
            one(), look(job(1, state="COMPLETED")), ("over", "ended"), id="ends-in-its-grace"
        ),
        pytest.param(
            one(), look(runs(), allowed=False), ("over", "dropped"), id="paused-before-the-requeue"
        ),
        pytest.param(
            one(), look(runs(), gainer_waits=False), ("over", "dropped"), id="gainer-has-started"
        ),
        pytest.param(
            one(RestartStage.REQUEUE), look(runs()), ("requeue", ""), id="requeue-is-sent-again"
        ),
        pytest.param(
            one(RestartStage.REQUEUE), look(waits()), ("queued", ""), id="requeued-before-a-crash"
        ),
        pytest.param(
            one(RestartStage.REQUEUE), look(runs(flags=("COMPLETING",), state="UNKNOWN")),
            ("ending", ""), id="ending-before-a-crash",
        ),
        pytest.param(one(), look(waits()), ("queued", ""), id="requeued-by-somebody-else"),
        pytest.param(
            one(RestartStage.ENDING), look(runs()), ("ending", ""), id="not-seen-ended-yet"
        ),
        pytest.param(
            one(RestartStage.ENDING, since_s=NOW - 61), look(runs()), ("over", "refused"),
            id="requeue-without-effect",
        ),
        pytest.param(
            one(RestartStage.QUEUED, since_s=NOW - 100), look(waits()), ("queued", ""),
            id="lets-the-gainer-go-first",
        ),
        pytest.param(
            one(RestartStage.QUEUED), look(runs(restarts=1)), ("over", "done"), id="back"
        ),
        pytest.param(
            resize(RestartStage.QUEUED), look(job(1, on={"n1": 8}, gpus=8, restarts=1)),
            ("trial", ""), id="back-larger",
        ),
        pytest.param(
            resize(RestartStage.QUEUED), look(runs(restarts=1)), ("over", "old_shape"),
            id="slurm-would-not-change-it",
        ),
        pytest.param(
            resize(RestartStage.QUEUED, returned=True), look(runs(restarts=1)),
            ("over", "old_shape"), id="back-as-it-was",
        ),
        pytest.param(
            resize(RestartStage.QUEUED, ready=True, since_s=NOW - 600), look(waits()),
            ("queued", ""), id="does-not-come-back",
        ),
        pytest.param(
            resize(RestartStage.QUEUED, ready=True, since_s=NOW - 600, returned=True),
            look(waits()), ("over", "left_alone"), id="does-not-come-back-twice",
        ),
        pytest.param(
            resize(RestartStage.TRIAL), look(runs(restarts=1)), ("trial", ""), id="trial-goes-on"
        ),
        pytest.param(
            resize(RestartStage.TRIAL), look(runs(restarts=1), progress=told_of(NOW - 1, run=1)),
            ("over", "done"), id="trial-makes-progress",
        ),
        pytest.param(
            resize(RestartStage.TRIAL), look(job(1, state="FAILED")), ("revive", ""),
            id="fails-in-its-new-shape",
        ),
        pytest.param(
            resize(RestartStage.QUEUED, ready=True), look(job(1, state="OUT_OF_MEMORY")),
            ("revive", ""), id="fails-at-once",
        ),
        pytest.param(
            resize(RestartStage.TRIAL, returned=True), look(job(1, state="FAILED")),
            ("over", "ended"), id="fails-in-its-old-shape",
        ),
        pytest.param(
            resize(RestartStage.TRIAL),
            look(job(1, state="FAILED"), progress=told_of(NOW - 1, run=1)),
            ("over", "ended"), id="fails-after-progress",
        ),
        pytest.param(
            resize(RestartStage.TRIAL), look(job(1, state="CANCELLED")), ("over", "ended"),
            id="cancelled-in-its-new-shape",
        ),
        pytest.param(
            resize(RestartStage.TRIAL), look(job(1, state="FAILED"), allowed=False),
            ("over", "ended"), id="fails-while-paused",
        ),
        pytest.param(
            resize(RestartStage.REVIVE, run=1), look(job(1, state="FAILED")), ("revive", ""),
            id="put-back-again",
        ),
        pytest.param(
            resize(RestartStage.REVIVE, run=1), look(waits(restarts=2)), ("queued", ""),
            id="put-back-before-a-crash",
        ),
        pytest.param(
            one(RestartStage.OVER, outcome="done"), look(runs()), ("over", "done"), id="over"
        ),
    ],
)  # fmt: skip
def test_next_step(before: Restart, seen: Sight, expected: tuple[str, str]) -> None:
    assert step(before, seen) == expected


@pytest.mark.parametrize(
    ("since_s", "gainer_waits", "ready"),
    [
        pytest.param(NOW - COOL_S + 1, False, False, id="credential-just-revoked"),
        pytest.param(NOW - COOL_S, False, True, id="cooled-off"),
        pytest.param(NOW - 119, True, False, id="keeps-the-room"),
        pytest.param(NOW - 120, True, True, id="gainer-takes-too-long"),
    ],
)
def test_when_a_job_may_start_again(since_s: int, gainer_waits: bool, ready: bool) -> None:
    before = one(RestartStage.QUEUED, since_s=since_s, requeued_s=NOW - 200)
    assert advance(before, look(waits(), gainer_waits=gainer_waits), PATIENT).ready is ready


@pytest.mark.parametrize(
    ("before", "ok", "stage", "outcome"),
    [
        pytest.param(one(RestartStage.SIGNAL), True, "saving", "", id="signal"),
        pytest.param(one(RestartStage.SIGNAL), False, "over", "refused", id="signal-refused"),
        pytest.param(one(RestartStage.REQUEUE), True, "ending", "", id="requeue"),
        pytest.param(one(RestartStage.REQUEUE), False, "over", "refused", id="requeue-refused"),
    ],
)
def test_what_slurm_says(before: Restart, ok: bool, stage: str, outcome: str) -> None:
    after = told(before, NOW, ok=ok, benign=False, detail="denied")
    assert (str(after.stage), after.outcome) == (stage, outcome)
    assert after.detail == ("" if ok else "denied")


@pytest.mark.parametrize("stage", [RestartStage.SIGNAL, RestartStage.REQUEUE])
def test_what_comes_too_late_is_left_to_the_next_look(stage: RestartStage) -> None:
    before = one(stage)
    assert told(before, NOW, ok=False, benign=True, detail="gone") is before


def test_a_job_that_does_not_come_back_returns_to_its_size_once() -> None:
    first = resize(RestartStage.QUEUED, ready=True, since_s=NOW - 600)
    assert first.wanted == LARGE
    after = advance(first, look(waits()), PATIENT)
    assert (after.wanted, after.since_s) == (None, NOW)


@pytest.mark.parametrize(
    ("progress", "annotation", "lost_s"),
    [
        pytest.param(told_of(NOW - 20), SAVES, 20, id="since-the-checkpoint"),
        pytest.param(told_of(NOW - 9999), SAVES, 60, id="never-more-than-it-has-run"),
        pytest.param(told_of(NOW + 500), SAVES, 0, id="its-clock-is-ahead"),
        pytest.param(told_of(NOW - 5, checkpoint=False), SAVES, 60, id="told-of-no-checkpoint"),
        pytest.param(Progress(), SAVES, 0, id="tells-nothing-saves-on-a-signal"),
        pytest.param(
            Progress(), Annotation(checkpoint=Checkpoint(interval_s=30)), 30, id="saves-by-itself"
        ),
        pytest.param(Progress(), None, 60, id="not-annotated"),
    ],
)
def test_lost_work(progress: Progress, annotation: Annotation | None, lost_s: float) -> None:
    assert lost_gpu_s(runs(), annotation, progress, NOW) == 4 * lost_s


def test_the_loss_is_settled_at_the_answer() -> None:
    after = advance(one(), look(runs(), progress=told_of(NOW - 3)), PATIENT)
    assert after.lost_gpu_s == pytest.approx(12)
    assert after.answered_s == NOW
