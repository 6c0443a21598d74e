"""The steps of a restart: what is seen of the job decides what comes next. Nothing is sent here.

Signal, answer or end of the grace, requeue, new shape, back in the queue, running again. Every
stage can be entered again after a crash: what is to be sent is sent again, which does no harm (a
second signal writes a second checkpoint; a requeue is bound to the job's submit time, which it
changes; shapes are absolute). A restart loses at most what the job has done since its newest
checkpoint: where that is more than the restart is worth, the job is left running.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.job import BaseState, Job
from slurm_ext.model.progress import Progress
from slurm_ext.model.restart import Outcome, Restart, RestartStage
from slurm_ext.model.units import EpochS

from .settings import RestartSettings

COOL_S = 5
"""Not at once: the node has just revoked the job's credential, and one made in the same second is
refused ("Killing non-startable batch job: Job credential revoked", seen on 22.05)."""

LOST_REQUEUE_S = 60
"""A job that still runs so long after its requeue was sent has not been requeued."""

NOTHING = Progress()

FAILED = frozenset({BaseState.FAILED, BaseState.OUT_OF_MEMORY, BaseState.BOOT_FAIL})


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of the job of a restart now.

    ``job`` None: gone. ``gainer_waits``: the job it makes room for is still in the queue.
    ``allowed``: restarts may still be begun here (mode ``enforce``, not paused).
    """

    now_s: EpochS
    job: Job | None
    annotation: Annotation | None
    progress: Progress = NOTHING
    gainer_waits: bool = False
    allowed: bool = True


_BEFORE = frozenset(
    {RestartStage.SIGNAL, RestartStage.SAVING, RestartStage.REQUEUE, RestartStage.REVIVE}
)


def advance(one: Restart, seen: Sight, settings: RestartSettings) -> Restart:
    """The restart after this look; the same object if nothing has changed."""
    job = seen.job
    if not one.active:
        return one
    if job is None or job.state.ended:
        return _gone(one, seen)
    if one.stage in _BEFORE:
        return _before(one, job, seen, settings)
    if one.stage is RestartStage.ENDING:
        return _ending(one, job, seen)
    if one.stage is RestartStage.TRIAL:
        return _trial(one, job, seen)
    return _queued(one, job, seen, settings)


def told(one: Restart, now_s: EpochS, *, ok: bool, benign: bool, detail: str) -> Restart:
    """The restart after Slurm's answer to what its stage had to send.

    ``benign``: the job has started or ended meanwhile; the next look says what it means.
    """
    if benign and not ok:
        return one
    match one.stage:
        case RestartStage.SIGNAL:
            if not ok:
                return over(one, Outcome.REFUSED, now_s, detail)
            return replace(one, stage=RestartStage.SAVING, since_s=now_s)
        case RestartStage.REQUEUE | RestartStage.REVIVE:
            if not ok:
                return over(replace(one, requeued_s=None), Outcome.REFUSED, now_s, detail)
            return replace(one, stage=RestartStage.ENDING, since_s=now_s, requeued_s=now_s)
    return one


def over(one: Restart, outcome: Outcome, now_s: EpochS, detail: str = "") -> Restart:
    """The restart, ended."""
    return replace(
        one, stage=RestartStage.OVER, since_s=now_s, outcome=str(outcome),
        detail=detail or one.detail,
    )  # fmt: skip


def lost_gpu_s(job: Job, annotation: Annotation | None, progress: Progress, now_s: EpochS) -> float:
    """GPU-seconds that a requeue at this moment would undo: since the newest checkpoint told of.

    A job that tells nothing is taken by its annotation: what it saves on a signal is saved.
    """
    gpus = max(1, sum(share.gpus for share in job.alloc))
    ran_s = max(0, now_s - job.start_s) if job.start_s is not None else 0
    checkpoint = progress.last_checkpoint
    if checkpoint is not None and checkpoint.run == job.restarts:
        return gpus * min(max(0.0, now_s - checkpoint.at_s), ran_s)
    if any(report.run == job.restarts for report in progress.reports):
        return float(gpus * ran_s)  # it tells what it does, and told of no checkpoint
    saving = annotation.checkpoint if annotation is not None else None
    if saving is None:
        return float(gpus * ran_s)
    if saving.signal:
        return 0.0
    return float(gpus * (min(ran_s, saving.interval_s) if saving.interval_s else ran_s))


def _gone(one: Restart, seen: Sight) -> Restart:
    """The job has ended. Where its new shape seems to be the reason it is put back, once."""
    job, now_s = seen.job, seen.now_s
    if job is None or job.state.base not in FAILED or not seen.allowed or one.shape is None:
        return over(one, Outcome.ENDED, now_s)
    if one.stage is RestartStage.REVIVE and now_s - one.since_s <= LOST_REQUEUE_S:
        return one
    started = one.stage is RestartStage.TRIAL or (one.stage is RestartStage.QUEUED and one.ready)
    progress = any(report.run > one.run for report in seen.progress.reports)
    if not started or one.returned or progress:
        return over(one, Outcome.ENDED, now_s)
    ran_s = (job.end_s or now_s) - (job.start_s or now_s)
    return replace(
        one, key=job.key, stage=RestartStage.REVIVE, since_s=now_s, run=job.restarts,
        returned=True, ready=False, lost_gpu_s=one.lost_gpu_s + one.shape.gpus * max(0, ran_s),
        detail=f"{job.state.base} in its new shape",
    )  # fmt: skip


def _before(one: Restart, job: Job, seen: Sight, settings: RestartSettings) -> Restart:
    """The job has not been stopped yet, as far as we know."""
    now_s = seen.now_s
    if job.restarts > one.run or not job.state.running:
        # The requeue went through before a crash, or somebody else's, or a node failed.
        if one.stage is not RestartStage.REQUEUE:
            one = replace(one, lost_gpu_s=0.0)
        return _ending(replace(one, requeued_s=one.requeued_s or now_s,
                               stage=RestartStage.ENDING, since_s=now_s), job, seen)  # fmt: skip
    if job.key != one.key:
        return over(one, Outcome.ENDED, now_s, "another job has its id")
    if not seen.allowed or seen.annotation is None:
        return over(one, Outcome.DROPPED, now_s, "paused, or not in mode enforce any more")
    if one.gainer is not None and not seen.gainer_waits:
        return over(one, Outcome.DROPPED, now_s, "the job it made room for waits no longer")
    if one.stage is not RestartStage.SAVING:
        return one
    newest = seen.progress.last_checkpoint
    if newest is not None and newest.at_s != one.answer_before_s and newest.run == one.run:
        lost = lost_gpu_s(job, seen.annotation, seen.progress, now_s)
        return replace(one, stage=RestartStage.REQUEUE, since_s=now_s, answered_s=now_s,
                       lost_gpu_s=lost)  # fmt: skip
    if now_s - one.since_s < seen.annotation.checkpoint.grace_s:
        return one
    lost = lost_gpu_s(job, seen.annotation, seen.progress, now_s)
    if lost * settings.min_gain > one.gain_gpu_s:
        return over(one, Outcome.NO_ANSWER, now_s, f"{lost:.0f} GPU-seconds would be lost")
    return replace(one, stage=RestartStage.REQUEUE, since_s=now_s, lost_gpu_s=lost)


def _ending(one: Restart, job: Job, seen: Sight) -> Restart:
    now_s = seen.now_s
    if job.state.pending:
        return replace(one, stage=RestartStage.QUEUED, since_s=now_s)
    if job.state.running and job.restarts > one.run:
        return _back(one, job, now_s)
    if job.state.running and now_s - one.since_s > LOST_REQUEUE_S:
        return over(one, Outcome.REFUSED, now_s, "it was not requeued")
    return one


def _queued(one: Restart, job: Job, seen: Sight, settings: RestartSettings) -> Restart:
    now_s = seen.now_s
    if job.state.running:
        return _back(one, job, now_s)
    if not job.state.pending:
        return one
    waited_s = now_s - one.since_s
    if not one.ready:
        if waited_s < COOL_S or (seen.gainer_waits and waited_s < settings.keep_room_s):
            return one
        return replace(one, ready=True, since_s=now_s)
    if one.shape is None or waited_s < settings.come_back_s:
        return one
    if not one.returned:
        why = "it did not start in its new shape"
        return replace(one, returned=True, since_s=now_s, detail=why)
    return over(one, Outcome.LEFT_ALONE, now_s)


def _back(one: Restart, job: Job, now_s: EpochS) -> Restart:
    one = replace(one, back_s=one.back_s or now_s)
    if one.shape is None:
        return over(one, Outcome.DONE, now_s)
    if one.returned or sum(share.gpus for share in job.alloc) != one.shape.gpus:
        return over(one, Outcome.OLD_SHAPE, now_s)
    return replace(one, stage=RestartStage.TRIAL, since_s=now_s)


def _trial(one: Restart, job: Job, seen: Sight) -> Restart:
    """It counts as back once it has made progress, or has run longer than its restart takes."""
    if not job.state.running:
        return one
    if any(report.run > one.run for report in seen.progress.reports):
        return over(one, Outcome.DONE, seen.now_s)
    saving = seen.annotation.checkpoint if seen.annotation is not None else None
    patience_s = 60 + (saving.restart_s if saving is not None else 0)
    return over(one, Outcome.DONE, seen.now_s) if seen.now_s - one.since_s > patience_s else one
