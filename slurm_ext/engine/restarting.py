"""What restarts under way mean for a decision: who leaves soon, who goes first, whose room is kept.

A job that is stopped for another one leaves room for that one alone: the gainer goes first in the
order until it runs, and the job that made room waits for that. A job that comes back in another
shape is planned in that shape, first in the order, and nothing is written for it until it is ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Decision, Reason, Stage
from slurm_ext.model.job import Job, JobKey, NodeShare
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation
from slurm_ext.model.reshape import reshaped, shape_of, unshapeable
from slurm_ext.model.restart import Restart, RestartStage
from slurm_ext.model.units import EpochS

from .allow import Allowance
from .contend import as_submitted
from .explain import reason
from .policy import NodePreference
from .pool import Pool, demand_of
from .search import place
from .settings import Context
from .view import JobView

END_S = 5
"""What a job is taken to need to end after its requeue; KillWait (30 s) at most."""


def by_job(restarts: Iterable[Restart]) -> dict[int, Restart]:
    """Restarts under way by job id (a requeue changes the submit time)."""
    return {one.job_id: one for one in restarts if one.active}


def leaving(
    jobs: Sequence[Job],
    restarts: Sequence[Restart],
    annotations: Mapping[JobKey, Annotation],
    now_s: EpochS,
) -> dict[JobKey, EpochS]:
    """When jobs that are being stopped will have left their nodes."""
    going = by_job(restarts)
    found: dict[JobKey, EpochS] = {}
    for job in jobs:
        one = going.get(job.job_id)
        if one is None or one.stage in (RestartStage.QUEUED, RestartStage.TRIAL):
            continue
        annotation = annotations.get(job.key)
        grace_s = annotation.checkpoint.grace_s if annotation and not one.stopped else 0
        found[job.key] = max(now_s + 1, one.since_s + grace_s + END_S)
    return found


def favoured(restarts: Sequence[Restart]) -> frozenset[int]:
    """Ids of jobs that go first: room has been or is being made for them."""
    found: set[int] = set()
    for one in restarts:
        if one.active and one.gainer is not None and not one.ready:
            found.add(one.gainer.job_id)
        elif one.active and one.wanted is not None and one.stopped:
            found.add(one.job_id)
    return frozenset(found)


def coming_back(view: JobView, restarts: Mapping[int, Restart]) -> JobView:
    """The view of a job that comes back, with its place in line; in another shape if wanted. One
    that Slurm did not start in that, or that it refuses, is left as submitted."""
    one = restarts.get(view.key.job_id)
    if one is None:
        return view
    view = replace(view, first_submit_s=one.first_submit_s or one.key.submit_s)
    if one.wanted is None or not one.stopped:
        return view
    submitted = shape_of(view.job.request)
    failed = view.entry is not None and view.entry.failed_starts
    if failed or view.let_go or submitted == one.wanted:
        return view
    if unshapeable(view.job.request, one.wanted):
        return view
    job = replace(view.job, request=reshaped(view.job.request, one.wanted))
    return replace(view, job=job, shape=one.wanted, submitted=submitted)


def unready(restarts: Sequence[Restart]) -> frozenset[int]:
    """Ids of jobs for which nothing may be written yet."""
    return frozenset(one.job_id for one in restarts if one.active and one.stopped and not one.ready)


def adopted(job: Job, entry: LedgerEntry | None) -> LedgerEntry:
    """The ledger entry that makes Slurm's delay after a requeue a lease of ours.

    Slurm lets a requeued job wait for about two minutes; that lapses by itself as any lease does.
    """
    base = entry or LedgerEntry(job.key, job.address)
    return replace(base, key=job.key, address=job.address, lease_until_s=job.begin_s)


def with_adopted(
    obs: Observation, ledger: Mapping[JobKey, LedgerEntry], restarts: Sequence[Restart]
) -> Mapping[JobKey, LedgerEntry]:
    """The ledger with jobs in their delay after our requeue: to be planned as leased ones.

    Not those that made room for another job, which must start first.
    """
    going = {one.job_id: one for one in restarts if one.active and one.stopped}
    if not going:
        return ledger
    found = dict(ledger)
    for job in obs.jobs:
        one = going.get(job.job_id)
        if one is None or not job.state.pending or job.begin_s is None:
            continue
        entry = found.get(job.key)
        if entry is not None and entry.lease_until_s is not None:
            continue
        if one.ready or one.gainer is None:
            found[job.key] = adopted(job, entry)
    return found


STEPS = {
    RestartStage.SIGNAL: "its checkpoint signal is sent",
    RestartStage.SAVING: "signalled, waits for its checkpoint or the end of its grace",
    RestartStage.REQUEUE: "it is put back into the queue",
    RestartStage.ENDING: "put back into the queue, still ends on its nodes",
    RestartStage.QUEUED: "back in the queue, not let go yet",
    RestartStage.REVIVE: "it failed in its new shape and is put back into the queue",
    RestartStage.TRIAL: "runs again, its first progress is waited for",
}


def step_of(one: Restart) -> str:
    """What a restart is doing, in words."""
    if one.stage is RestartStage.QUEUED and one.ready:
        return "back in the queue, waits for its turn"
    return STEPS.get(one.stage, one.outcome)


def purpose_of(one: Restart) -> str:
    """What a restart is for, in words."""
    if one.gainer is not None:
        return f"for job {one.gainer.job_id}"
    shape = one.wanted
    return "in its old shape" if shape is None else f"with {shape.gpus} GPUs"


def tell(decisions: dict[JobKey, Decision], restarts: Sequence[Restart], now_s: EpochS) -> None:
    """Put restarts into the reasons of the jobs they concern, first."""
    going = by_job(restarts)
    if not going:
        return
    for_whom: dict[int, list[str]] = {}
    for one in going.values():
        if one.gainer is not None and not one.ready:
            for_whom.setdefault(one.gainer.job_id, []).append(one.address)
    for key, decision in decisions.items():
        told: list[Reason] = []
        if (found := going.get(key.job_id)) is not None:
            told.append(reason(
                "restarting", Stage.PREEMPT, purpose=purpose_of(found), step=step_of(found),
                for_s=max(0, now_s - found.since_s),
            ))  # fmt: skip
        if victims := for_whom.get(key.job_id):
            told.append(reason("gets_room", Stage.PREEMPT, victims=", ".join(victims)))
        if told:
            decisions[key] = replace(decision, reasons=(*told, *decision.reasons))


def keep_growth(
    obs: Observation, ctx: Context, pool: Pool, preference: NodePreference
) -> tuple[NodeShare, ...]:
    """Take out of the pool what jobs need beside what they still hold, to come back larger.

    Nothing where the new shape does not fit any more.
    """
    going = by_job(ctx.restarts)
    taken: list[NodeShare] = []
    for job in obs.jobs:
        one = going.get(job.job_id)
        if one is None or one.wanted is None or not job.alloc or one.stage is RestartStage.TRIAL:
            continue
        mark = pool.checkpoint()
        pool.give(job.alloc)
        wanted = replace(job, request=reshaped(as_submitted(job, ctx).request, one.wanted))
        demand = demand_of(wanted.request, memory_counts=pool.memory_counts)
        allowed = Allowance(pool, obs).of(wanted, obs.now_s, wanted.limit_s or 0)
        found = () if allowed.missing_required else place(
            pool, pool.free, demand, allowed.nodes, preference, required=allowed.required
        )  # fmt: skip
        pool.rollback(mark)
        extra = _beyond(found[0].shares, job.alloc) if found else ()
        pool.take(extra)
        taken += extra
    return tuple(taken)


def _beyond(wanted: Sequence[NodeShare], held: Sequence[NodeShare]) -> tuple[NodeShare, ...]:
    has = {share.node: share for share in held}
    found = []
    for share in wanted:
        own = has.get(share.node)
        if own is None:
            found.append(share)
            continue
        extra = NodeShare(
            share.node, max(0, share.cpus - own.cpus), max(0, share.mem_mib - own.mem_mib),
            max(0, share.gpus - own.gpus), 0, share.gpu_type,
        )  # fmt: skip
        if extra.gpus or extra.cpus or extra.mem_mib:
            found.append(extra)
    return tuple(found)
