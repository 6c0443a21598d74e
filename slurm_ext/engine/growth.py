"""Which running elastic jobs should come back in another size, and whether that is worth it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Resize, Shape, Stage
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Observation
from slurm_ext.model.progress import Progress
from slurm_ext.model.reshape import reshaped

from .allocation import Contender
from .contend import as_submitted, held_gpus
from .explain import reason
from .parts.elastic import time_left_s
from .planner import Planner
from .pool import demand_of
from .restart import lost_gpu_s
from .search import place
from .settings import Context
from .sizes import at_size, sizes
from .view import JobView


def resizes(
    obs: Observation,
    ctx: Context,
    planner: Planner,
    running: Sequence[Job],
    contenders: Mapping[JobKey, Contender],
    granted: Mapping[JobKey, int],
    starved: Sequence[JobView],
) -> list[Resize]:
    """Restarts whose gain is ``preemption.min_gain`` times their cost, both in GPU-seconds.

    A job grows only if nobody waits for want of room, and shrinks only if somebody does: then the
    gain is the wait that is saved, until the next expected end, less what the job itself loses.
    """
    found = []
    for job in running:
        contender = contenders.get(job.key)
        if contender is None or job.key not in granted:
            continue
        annotation, held = ctx.annotations[job.key], held_gpus(job)
        shape = _shape(job, contender, granted[job.key], ctx, planner)
        if shape is None or (shape.gpus > held) == bool(starved):
            continue
        saved_s = time_left_s(contender, held) - time_left_s(contender, shape.gpus)
        gain = saved_s * held
        if starved:
            waits = sum(v.job.request.gpus for v in starved if granted.get(v.key))
            gain += _next_end_s(planner, obs.now_s) * min(waits, held - shape.gpus)
        cost = _cost_gpu_s(job, annotation, shape, ctx, obs.now_s)
        if gain < ctx.restart.min_gain * cost or gain <= 0:
            continue
        if shape.gpus > held and not _room(obs, ctx, planner, job, shape):
            continue
        found.append(Resize(
            job.key, job.address, held, shape, gain, cost,
            reason("resize", Stage.ALLOCATE, gpus=shape.gpus, held=held,
                   gain_gpu_s=round(gain), cost_gpu_s=round(cost)),
        ))  # fmt: skip
    return found


def _shape(
    job: Job, contender: Contender, gpus: int, ctx: Context, planner: Planner
) -> Shape | None:
    """The largest allowed shape of at most so many GPUs; None if that is what it has."""
    asked = as_submitted(job, ctx)
    largest = int(planner.pool.capacity.gpus.sum(axis=0).max(initial=0))
    annotation = contender.annotation
    for count in reversed(sizes(annotation.scaling, asked.request.gpus, gpus)):
        shape = at_size(asked.request, annotation, count, largest)
        if not isinstance(shape, str):
            return shape if count != held_gpus(job) else None
    return None


def _cost_gpu_s(job: Job, annotation: Annotation, shape: Shape, ctx: Context, now_s: int) -> float:
    """Start-up, time to save, and work since the last checkpoint where none is written first."""
    saving = annotation.checkpoint
    cost = float(saving.restart_s * shape.gpus)
    if not saving.signal:
        cost += lost_gpu_s(job, annotation, ctx.progress.get(job.key, Progress()), now_s)
    return cost


def _next_end_s(planner: Planner, now_s: int) -> int:
    return min((r.end_s - now_s for r in planner.timeline if r.end_s > now_s), default=0)


def _room(obs: Observation, ctx: Context, planner: Planner, job: Job, shape: Shape) -> bool:
    """Whether it fits beside all others with its own room given back; then that is taken."""
    pool = planner.pool
    pool.give(job.alloc)
    wanted = replace(job, request=reshaped(as_submitted(job, ctx).request, shape))
    allowed = planner.allowance.of(wanted, obs.now_s, wanted.limit_s or 0)
    demand = demand_of(wanted.request, memory_counts=pool.memory_counts)
    found = () if allowed.missing_required else place(
        pool, pool.free, demand, allowed.nodes, ctx.policy.placement, required=allowed.required
    )  # fmt: skip
    pool.take(found[0].shares if found else job.alloc)
    return bool(found)
