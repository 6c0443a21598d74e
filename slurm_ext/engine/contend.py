"""From annotated and plain jobs to the contenders an allocation divides the servers among."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_ext.model.annotation import Annotation, Scaling, Speed
from slurm_ext.model.job import Job, NodeShare
from slurm_ext.model.reshape import reshaped

from .allocation import Contender, Slice
from .durations import limit_of
from .parts.speed import rate
from .settings import Context
from .view import JobView

SLOWEST, FASTEST = 1e-9, 1e9
"""Units of work per second: from one in thirty years on."""

LIMIT_MARGIN = 1.2
"""A job is given fewer GPUs only if it would need so much less than its time limit."""


def curve(job: Job, annotation: Annotation, ctx: Context) -> Speed:
    """Declared speed, else a learned one."""
    declared = annotation.speed
    if declared.table or declared.theta:
        return declared
    return ctx.curves.get(job.key, Speed())


def believable(speed: Speed, counts: Sequence[int]) -> bool:
    """Whether a curve says something that can be calculated with at all these GPU counts."""
    return all(SLOWEST <= rate(speed, gpus) <= FASTEST for gpus in counts)


def as_submitted(job: Job, ctx: Context) -> Job:
    """A running job asking for what its user asked for, our pin to its nodes taken off."""
    entry, request = ctx.ledger.get(job.key), job.request
    if entry is None:
        return job
    if entry.shape is not None and entry.original_shape is not None:
        request = reshaped(request, entry.original_shape)
    if entry.pinned and set(entry.pinned) == set(request.required_nodes):
        request = replace(request, required_nodes=entry.original_required)
    return replace(job, request=request)


def held_gpus(job: Job) -> int:
    return sum(share.gpus for share in job.alloc)


def plain(view: JobView, line: int, most: int) -> Contender:
    """A job that gets what it asks for or waits; an array as many tasks as could run at once."""
    gpus = view.job.request.gpus
    tasks = max(1, min(view.job.array_count, most // max(1, gpus)))
    length_s = float(view.duration_s)
    return Contender(view.key, line, view.job.user, gpus * tasks, length_s, length_s)


def scalable(
    job: Job, annotation: Annotation, counts: tuple[int, ...], ctx: Context, line: int,
    at: dict[str, int], now_s: int,
) -> Contender:  # fmt: skip
    """A job that may have another size; ``counts`` are its allowed ones, ``at`` numbers servers.

    Work and its remainder by its own reports, else by the expected run time.
    """
    asked = job.request.gpus
    speed = curve(job, annotation, ctx)
    service_s, left_s = _seconds(job, annotation, speed, ctx, now_s)
    known = replace(
        annotation, speed=speed,
        scaling=Scaling(annotation.scaling.kind, counts[0], counts[-1],
                        annotation.scaling.powers_of_two, annotation.scaling.logical_workers),
    )  # fmt: skip
    gpus = held_gpus(job)
    ran_s = _ran_s(job, now_s)
    return Contender(
        job.key, line, job.user, asked, service_s, max(1.0, left_s), _slices(job.alloc, at),
        attained_s=float(ran_s), attained_gpu_s=float(ran_s * gpus), started_s=job.start_s,
        restarts=job.restarts, annotation=known,
    )  # fmt: skip


def in_time(job: Job, annotation: Annotation, gpus: int, ctx: Context, now_s: int) -> bool:
    """Whether what is left ends within the job's time limit on so many GPUs, from a new start.

    The limit was set for the size asked for. Where nothing tells how long the job takes, less than
    that is too little.
    """
    asked = job.request.gpus
    if job.limit_s is None or gpus >= asked:
        return True
    speed = curve(job, annotation, ctx)
    _, left_s = _seconds(job, annotation, speed, ctx, now_s)
    if not annotation.work:
        estimate = ctx.estimates.get(job.key)
        if estimate is None or estimate.level == "limit":
            return False
        left_s += max(0.0, estimate.p90_s - estimate.p50_s)
    slower = rate(speed, asked) / rate(speed, gpus)
    return annotation.checkpoint.restart_s + left_s * slower * LIMIT_MARGIN <= job.limit_s


def _seconds(
    job: Job, annotation: Annotation, speed: Speed, ctx: Context, now_s: int
) -> tuple[float, float]:
    """Run time of the whole job and of what is left of it, on the GPUs it asks for.

    What its user claims counts up to the time limit, and no longer once the job has outlived it:
    then the rest of the limit is left.
    """
    base = rate(speed, job.request.gpus)
    limit_s = float(limit_of(job, ctx.backfill.default_limit_s))
    service_s = limit_s
    estimate = ctx.estimates.get(job.key)
    if annotation.work and base:
        service_s = min(limit_s, annotation.work / base)
    elif estimate is not None:
        service_s = min(limit_s, estimate.p50_s)
    faster = rate(speed, held_gpus(job)) / base if base and job.alloc else 1.0
    left_s = service_s - _ran_s(job, now_s) * faster
    told = ctx.progress.get(job.key)
    if told is not None and told.reports and annotation.work and base:
        left_s = min(limit_s, (annotation.work - told.reports[-1].step) / base)
    if left_s <= 0:
        left_s = max(0.0, limit_s - _ran_s(job, now_s))
    return service_s, left_s


def _ran_s(job: Job, now_s: int) -> int:
    return now_s - job.start_s if held_gpus(job) and job.start_s is not None else 0


def _slices(alloc: tuple[NodeShare, ...], at: dict[str, int]) -> tuple[Slice, ...]:
    return tuple(Slice(at[s.node], s.gpus, s.cpus, s.mem_mib) for s in alloc if s.gpus)


def may_change(view: JobView) -> str:
    """Why an annotated waiting job is left as it was submitted, or nothing."""
    if view.job.array_tasks:
        return "tasks of an array share one request"
    if view.entry is not None and view.entry.failed_starts:
        return "Slurm did not start it in another shape"
    return ""


def settled(view: JobView) -> bool:
    """Whether the job keeps its size because it has started before."""
    scaling = view.annotation.scaling if view.annotation is not None else None
    return scaling is not None and scaling.kind == "moldable" and view.job.restarts > 0
