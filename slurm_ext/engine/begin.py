"""Which planned preemptions and resizes are carried out now, within every limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Mode, Plan, Resize
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Observation
from slurm_ext.model.reshape import unshapeable
from slurm_ext.model.restart import Outcome, Restart, RestartStage

from .nodes import with_nodes
from .preempt import immovable
from .settings import Context

HOUR_S = 3600

NOT_ENFORCED = "not in mode enforce"

_BAD = frozenset(
    str(o) for o in (Outcome.NO_ANSWER, Outcome.REFUSED, Outcome.OLD_SHAPE, Outcome.LEFT_ALONE)
)


def begun(obs: Observation, plan: Plan, ctx: Context) -> list[Restart]:
    """Restarts to begin, in planned order; a preemption whole or not at all."""
    return judged(obs, plan, ctx)[0]


def judged(obs: Observation, plan: Plan, ctx: Context) -> tuple[list[Restart], dict[JobKey, str]]:
    """Restarts to begin, and why others that are worth it are not; by gainer or resized job."""
    obs = with_nodes(obs, ctx.ledger, ctx.memory.fixed_nodes)
    jobs = {job.key: job for job in obs.jobs}
    room = Room(ctx)
    found: list[Restart] = []
    refused: dict[JobKey, str] = {}
    for proposal in plan.preempt:
        if not proposal.worth or proposal.key not in jobs:
            continue
        victims = [jobs[v.key] for v in proposal.victims if v.key in jobs]
        why = "" if enforced(jobs[proposal.key], plan.modes) else NOT_ENFORCED
        for job in victims:
            why = why or refusal(job, obs, plan, ctx, preempt=True)
        if len(victims) == len(proposal.victims) and not (why := why or room.take(len(victims))):
            found += [_restart(v, ctx, obs.now_s, proposal.gain_gpu_s, proposal.key)
                      for v in victims]  # fmt: skip
        refused[proposal.key] = why
    taken = {one.job_id for one in found}
    for resize in plan.resizes:
        if resize.key not in jobs or resize.key.job_id in taken:
            continue
        job = jobs[resize.key]
        why = (
            refusal(job, obs, plan, ctx, preempt=False)
            or unshapeable(job.request, resize.shape)
            or ("another job waits for it" if depended_on(job, obs) else "")
            or room.take(1)
        )
        if not why:
            found.append(_restart(job, ctx, obs.now_s, resize.gain_gpu_s, None, resize))
        refused[resize.key] = why
    return found, {key: why for key, why in refused.items() if why}


@dataclass(slots=True)
class Room:
    """How many more restarts may be begun."""

    ctx: Context
    used: int = 0

    def take(self, count: int) -> str:
        """Why so many more may not be begun; if nothing, they count."""
        if not self.ctx.restart.enabled:
            return "restarts are switched off (preemption.enabled)"
        if self.ctx.paused:
            return "paused"
        going = sum(one.active and not one.ready for one in self.ctx.restarts)
        coming = sum(one.active and not one.stopped for one in self.ctx.restarts)
        settings, after = self.ctx.restart, self.used + count
        if going + after > settings.max_at_once:
            return f"{going + self.used} are under way (restart.max_at_once)"
        if self.ctx.past.requeues + coming + after > settings.max_per_hour:
            return f"{settings.max_per_hour} within the hour (guard.max_requeues_per_hour)"
        self.used = after
        return ""


def refusal(job: Job, obs: Observation, plan: Plan, ctx: Context, *, preempt: bool) -> str:
    """Why a running job may not be restarted now, or nothing."""
    annotation = ctx.annotations.get(job.key)
    if annotation is None or not _asked_for(annotation, preempt=preempt):
        return "not annotated"
    if why := immovable(job, ctx, obs.now_s):
        return why
    if not enforced(job, plan.modes):
        return NOT_ENFORCED
    if any(one.job_id == job.job_id and one.active for one in ctx.restarts):
        return "being restarted"
    if ctx.ledger.get(job.key) is not None and ctx.ledger[job.key].surrendered:
        return "left to Slurm for good"
    mine = [one for one in ctx.past.over if one.job_id == job.job_id]
    if any(obs.now_s - one.since_s < ctx.restart.retry_after_s for one in mine if _bad(one)):
        return "its last restart failed"
    recent = [one for one in mine if one.stopped and obs.now_s - one.begun_s < HOUR_S]
    if len(recent) >= ctx.restart.max_per_job_hour:
        return f"{len(recent)} times within the hour (restart.max_per_job_hour)"
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
    job: Job, ctx: Context, now_s: int, gain_gpu_s: float, gainer: JobKey | None,
    resize: Resize | None = None,
) -> Restart:  # fmt: skip
    submits = [one.first_submit_s or one.key.submit_s for one in ctx.past.over
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
