"""Which planned preemptions and resizes are carried out now, within every limit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Mode, Plan, Resize
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Observation
from slurm_ext.model.reshape import unshapeable
from slurm_ext.model.restart import Outcome, Restart, RestartStage

from .preempt import immovable
from .settings import Context

HOUR_S = 3600

_BAD = frozenset(
    str(o) for o in (Outcome.NO_ANSWER, Outcome.REFUSED, Outcome.OLD_SHAPE, Outcome.LEFT_ALONE)
)


@dataclass(frozen=True, slots=True)
class Past:
    """What was restarted before: requeues of the last hour, and restarts that are over."""

    requeues: int = 0
    over: Sequence[Restart] = ()


def begun(obs: Observation, plan: Plan, ctx: Context, past: Past) -> list[Restart]:
    """Restarts to begin, in planned order; a preemption whole or not at all."""
    if not ctx.restart.enabled or ctx.paused:
        return []
    jobs = {job.key: job for job in obs.jobs}
    room = Room(ctx, past)
    found: list[Restart] = []
    for proposal in plan.preempt:
        if not proposal.worth or proposal.key not in jobs:
            continue
        victims = [jobs.get(v.key) for v in proposal.victims]
        if any(
            job is None or refusal(job, obs, plan, ctx, past, preempt=True) for job in victims
        ) or not enforced(jobs[proposal.key], plan.modes):
            continue
        if not room.take(len(victims)):
            continue
        for victim in victims:
            assert victim is not None
            found.append(_restart(victim, ctx, past, obs.now_s, proposal.gain_gpu_s, proposal.key))
    taken = {one.job_id for one in found}
    for resize in plan.resizes:
        job = jobs.get(resize.key)
        if job is None or job.job_id in taken or refusal(job, obs, plan, ctx, past, preempt=False):
            continue
        if unshapeable(job.request, resize.shape) or depended_on(job, obs) or not room.take(1):
            continue
        found.append(_restart(job, ctx, past, obs.now_s, resize.gain_gpu_s, None, resize))
    return found


@dataclass(slots=True)
class Room:
    """How many more restarts may be begun."""

    ctx: Context
    past: Past
    used: int = 0

    def take(self, count: int) -> bool:
        """Whether so many more may be begun; then they count."""
        going = sum(one.active and not one.ready for one in self.ctx.restarts)
        coming = sum(one.active and not one.stopped for one in self.ctx.restarts)
        settings, after = self.ctx.restart, self.used + count
        if going + after > settings.max_at_once:
            return False
        if self.past.requeues + coming + after > settings.max_per_hour:
            return False
        self.used = after
        return True


def refusal(
    job: Job, obs: Observation, plan: Plan, ctx: Context, past: Past, *, preempt: bool
) -> str:
    """Why a running job may not be restarted now, or nothing."""
    annotation = ctx.annotations.get(job.key)
    if annotation is None or not _asked_for(annotation, preempt=preempt):
        return "not annotated"
    if why := immovable(job, ctx, obs.now_s):
        return why
    if not enforced(job, plan.modes):
        return "not in mode enforce"
    if any(one.job_id == job.job_id and one.active for one in ctx.restarts):
        return "being restarted"
    if ctx.ledger.get(job.key) is not None and ctx.ledger[job.key].surrendered:
        return "left to Slurm for good"
    mine = [one for one in past.over if one.job_id == job.job_id]
    if any(obs.now_s - one.since_s < ctx.restart.retry_after_s for one in mine if _bad(one)):
        return "its last restart failed"
    recent = [one for one in mine if one.stopped and obs.now_s - one.begun_s < HOUR_S]
    if len(recent) >= ctx.restart.max_per_job_hour:
        return "restarted often enough within the hour"
    return ""


def depended_on(job: Job, obs: Observation) -> bool:
    """Whether another job waits for this one.

    Should it fail in its new shape, Slurm would never start what is to follow its success, although
    the job itself is put back.
    """
    mark = re.compile(rf"[:,?+]{job.array_job_id or job.job_id}\b")
    return any(other.dependency and mark.search(other.dependency) for other in obs.jobs)


def enforced(job: Job, modes: Mapping[str, Mode]) -> bool:
    """Whether every partition of the job is in mode ``enforce``."""
    return bool(job.partitions) and all(modes.get(p) is Mode.ENFORCE for p in job.partitions)


def _asked_for(annotation: Annotation, *, preempt: bool) -> bool:
    return annotation.preemptible if preempt else annotation.scaling.kind == "elastic"


def _bad(one: Restart) -> bool:
    return one.outcome in _BAD


def _restart(
    job: Job, ctx: Context, past: Past, now_s: int, gain_gpu_s: float, gainer: JobKey | None,
    resize: Resize | None = None,
) -> Restart:  # fmt: skip
    submits = [one.first_submit_s or one.key.submit_s for one in past.over
               if one.job_id == job.job_id]  # fmt: skip
    signal = ctx.annotations[job.key].checkpoint.signal
    newest = ctx.progress[job.key].last_checkpoint if job.key in ctx.progress else None
    return Restart(
        key=job.key,
        address=job.address,
        stage=RestartStage.SIGNAL if signal else RestartStage.REQUEUE,
        begun_s=now_s,
        since_s=now_s,
        gpus=sum(share.gpus for share in job.alloc),
        run=job.restarts,
        gain_gpu_s=gain_gpu_s,
        gainer=gainer,
        shape=resize.shape if resize is not None else None,
        answer_before_s=newest.at_s if newest is not None else 0.0,
        first_submit_s=min(submits, default=job.key.submit_s),
    )
