"""Preemption plans: whom to requeue so that a blocked job starts now, if that is worth it.

A plan only: nothing here writes to Slurm. Only running jobs whose owner annotated them as
preemptible are ever considered, and the job that gains must not be preemptible itself, so that
such jobs do not chase each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import (
    Decision,
    Preemption,
    Reason,
    Stage,
    Verdict,
    Victim,
)
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.observation import Observation
from slurm_ext.model.units import EpochS

from .displace import Displacement, Movable, cheapest
from .explain import reason
from .parts.preemption import RequeueCost
from .planner import Planner
from .restarting import favoured
from .settings import Context
from .view import JobView


def spared(job: Job, annotation: Annotation | None, ctx: Context, now_s: EpochS) -> str:
    """Why a running job can be no victim, or nothing."""
    if annotation is None or not annotation.preemptible:
        return "not annotated as preemptible"
    if any(one.job_id == job.job_id and one.active for one in ctx.restarts):
        return "being restarted"
    return immovable(job, ctx, now_s)


def immovable(job: Job, ctx: Context, now_s: EpochS) -> str:
    """Why a running job can not be restarted, whatever its annotation; or nothing."""
    if not job.state.running or job.state.completing:
        return "not running"
    if job.array_job_id or job.array_task_id is not None:
        return "an array task"
    if not job.batch or job.cron or job.het_job_id:
        return "interactive, scrontab or heterogeneous"
    if not job.requeueable:
        return "not known to be requeueable"
    if job.reservation:
        return "in a reservation"
    if ctx.unmanaged_partitions.intersection(job.partitions):
        return "in a partition that is not managed"
    if ctx.jobs.optout and ctx.jobs.optout in job.comment:
        return "opted out"
    if job.start_s is None or now_s - job.start_s < ctx.preemption.min_runtime_s:
        return "has not run long enough"
    if job.restarts >= ctx.preemption.max_restarts:
        return "requeued often enough"
    return ""


def proposals(
    obs: Observation,
    ctx: Context,
    planner: Planner,
    views: Sequence[JobView],
    running: Sequence[Job],
) -> tuple[Preemption, ...]:
    """Plans for the first ``preemption.jobs`` blocked jobs, each tried on what the others leave.

    Empty unless ``preemption.enabled``. The pool is left as it was.
    """
    if not ctx.preemption.enabled:
        return ()
    costs = {
        job.key: ctx.policy.preemption.cost(
            job, ctx.annotations[job.key], obs.now_s, ctx.progress.get(job.key)
        )
        for job in running
        if not spared(job, ctx.annotations.get(job.key), ctx, obs.now_s)
    }
    jobs = {job.key: job for job in running if job.key in costs}
    found: list[Preemption] = []
    mark = planner.pool.checkpoint()
    for view, decision in _blocked(planner, views, ctx):
        proposal = _proposal(view, decision, ctx, planner, jobs, costs)
        found.append(proposal)
        if proposal.worth and proposal.placement is not None:
            for victim in proposal.victims:
                planner.pool.give(jobs.pop(victim.key).alloc)
            planner.pool.take(proposal.placement.shares)
    planner.pool.rollback(mark)
    return tuple(found)


def _blocked(
    planner: Planner, views: Sequence[JobView], ctx: Context
) -> Iterator[tuple[JobView, Decision]]:
    """The first jobs that wait for room, in their order."""
    left = ctx.preemption.jobs
    served = favoured(ctx.restarts)
    for view in views:
        decision = planner.decisions[view.key]
        stuck = any(r.code == "no_release_helps" for r in decision.reasons)
        if decision.verdict is not Verdict.WAIT or not (stuck or decision.start_s is not None):
            continue
        if view.annotation is not None and view.annotation.preemptible:
            continue
        if view.key.job_id in served:
            continue
        if not left:
            return
        left -= 1
        yield view, decision


def _proposal(
    view: JobView,
    decision: Decision,
    ctx: Context,
    planner: Planner,
    jobs: dict[JobKey, Job],
    costs: dict[JobKey, RequeueCost],
) -> Preemption:
    movable = [Movable(k, costs[k].total_gpu_s, j.alloc) for k, j in jobs.items()]
    best = cheapest(
        planner.pool, planner.shape(view).demand, planner.allowed(view), ctx.policy.placement,
        movable, most=ctx.preemption.max_victims,
    )  # fmt: skip
    if best is None or not best.movable:
        why = reason("preempt_none", Stage.PREEMPT, candidates=len(movable))
        return Preemption(view.key, False, (), why)
    now_s = planner.obs.now_s
    start_s = decision.start_s
    soonest_s = now_s + _grace_s(best, ctx)
    promised_s = start_s if start_s is not None else now_s + ctx.backfill.default_limit_s
    gpus = max(1, view.job.request.gpus)
    gain_gpu_s = float(max(0, promised_s - soonest_s) * gpus)
    worth = gain_gpu_s >= ctx.preemption.min_gain * best.cost and gain_gpu_s > 0
    victims = tuple(_victim(jobs[m.key], costs[m.key]) for m in best.movable)
    return Preemption(
        view.key, worth, victims, _why(worth, victims, best.cost, gain_gpu_s, ctx),
        best.placement, best.cost, gain_gpu_s, best.optimal,
    )  # fmt: skip


def _grace_s(best: Displacement, ctx: Context) -> int:
    graces = (ctx.annotations[m.key].checkpoint for m in best.movable)
    return max((c.grace_s for c in graces if c.signal), default=0)


def _victim(job: Job, cost: RequeueCost) -> Victim:
    return Victim(
        job.key, job.address, tuple(s.node for s in job.alloc), sum(s.gpus for s in job.alloc),
        cost.lost_gpu_s, cost.grace_gpu_s, cost.restart_gpu_s,
    )  # fmt: skip


def _why(
    worth: bool, victims: Sequence[Victim], cost_gpu_s: float, gain_gpu_s: float, ctx: Context
) -> Reason:
    code = "preempt_worth" if worth else "preempt_dear"
    return reason(
        code, Stage.PREEMPT, victims=", ".join(v.address for v in victims),
        cost_gpu_s=round(cost_gpu_s), gain_gpu_s=round(gain_gpu_s),
        min_gain=ctx.preemption.min_gain,
    )  # fmt: skip
