"""Joining a job with what we know of it: managed or not, eligible or not, expected duration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slurm_ext.model.annotation import Annotation
from slurm_ext.model.decision import Mode, Reason, Shape, Stage
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job, JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation
from slurm_ext.model.reshape import given_back, reshaped
from slurm_ext.model.units import EpochS

from . import features
from .durations import planned_s
from .settings import Context
from .standing import standing

_MODE_RANK = {Mode.OBSERVE: 0, Mode.ORDER: 1, Mode.ENFORCE: 2}

SLURM_LIMIT_PREFIXES = ("QOS", "Assoc", "MaxGRES", "MaxJobs", "MaxCpu", "MaxMem", "MaxNode")
SLURM_LIMIT_REASONS = frozenset(
    {
        "PartitionTimeLimit", "PartitionNodeLimit", "PartitionDown", "PartitionInactive",
        "PartitionConfig", "AccountNotAllowed", "InvalidAccount", "InvalidQOS", "Licenses",
        "JobArrayTaskLimit", "BadConstraints", "FrontEndDown", "NodeDown", "Cleaning",
        "DeadLine", "NotAllowed", "QOSNotAllowed",
    }
)  # fmt: skip
"""Pending reasons that only Slurm (or an administrator) can lift; ``squeue(1)``."""

REQUEUE_DELAY_S = 130
"""Slurm makes a requeued job wait for about the life of a credential (120 s by default)."""
SPECIAL_FLAGS = frozenset({"SPECIAL_EXIT", "REVOKED", "RESV_DEL_HOLD"})


@dataclass(frozen=True, slots=True)
class JobView:
    """One pending job as the policy sees it.

    ``duration_s``: run time to plan with (limit, or a learned quantile). ``eligible_s``: when Slurm
    may start it at the earliest (now, or the user's begin). ``leased``: our own StartTime is what
    keeps it waiting. ``held_by_us`` likewise for a hold. ``natural_priority``: Slurm's priority
    without our SiteFactor. ``let_go``: released by us and not yet seen running, still in grace.
    ``estimate``, ``annotation``, ``attained_gpu_s``: what else is known, as in the context.
    ``shape``: what it is to start with, if that is not what its user asked for; then ``job`` asks
    for that, and ``submitted`` is what the user asked for. ``first_submit_s``: when its user
    submitted it; a requeue writes another submit time, which is that of ``key``.
    """

    job: Job
    mode: Mode
    duration_s: int
    eligible_s: EpochS
    natural_priority: int
    entry: LedgerEntry | None = None
    leased: bool = False
    held_by_us: bool = False
    let_go: bool = False
    estimate: Estimate | None = None
    annotation: Annotation | None = None
    attained_gpu_s: float = 0.0
    shape: Shape | None = None
    submitted: Shape | None = None
    first_submit_s: EpochS = 0
    key: JobKey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.job.key)  # read a dozen times a cycle
        if not self.first_submit_s:
            object.__setattr__(self, "first_submit_s", self.job.key.submit_s)

    @property
    def user_begin_s(self) -> EpochS:
        """The begin time the user asked for, 0 for none."""
        if self.entry is not None and (self.leased or self.let_go):
            return self.entry.original_begin_s
        return self.job.begin_s or 0


@dataclass(frozen=True, slots=True)
class Aside:
    """A job that is not planned, with the reason; ``ours``: still managed (so ours to undo)."""

    job: Job
    reason: Reason
    managed: bool
    entry: LedgerEntry | None = None


def look_at(job: Job, obs: Observation, ctx: Context) -> JobView | Aside:
    """Sort one pending job: a view to plan with, or aside with the reason."""
    entry = entry_of(job, ctx)
    foreign = _not_ours(job, ctx, entry)
    if foreign is not None:
        return Aside(job, foreign, False, entry)
    leased = entry is not None and entry.lease_until_s is not None
    held_by_us = entry is not None and entry.held
    if entry is not None and entry.deferred_since_s is not None and not (leased or held_by_us):
        spell_s = max(0, obs.now_s - entry.deferred_since_s)
        entry = replace(entry, deferred_s=entry.deferred_s + spell_s, deferred_since_s=None)
    let_go = (
        entry is not None
        and entry.released_s is not None
        and not leased
        and not held_by_us
        and abs(obs.now_s - entry.released_s) <= ctx.levers.start_grace_s
    )
    job = _as_asked(job, entry, let_go=let_go)
    user_begin = entry.original_begin_s if entry is not None and leased else (job.begin_s or 0)
    waiting = _ineligible(job, obs.now_s, ctx, user_begin, ours=leased or held_by_us)
    if waiting is not None:
        return Aside(job, waiting, True, entry)
    applied = (
        job.site_factor if job.site_factor is not None else (entry.site_factor if entry else 0)
    )
    estimate = ctx.estimates.get(job.key)
    return JobView(
        job=job,
        mode=_mode(job, ctx),
        duration_s=planned_s(
            job.limit_s, estimate, ctx.backfill.durations, ctx.backfill.default_limit_s
        ),
        eligible_s=max(obs.now_s, user_begin),
        natural_priority=job.priority - applied,
        entry=entry,
        leased=leased,
        held_by_us=held_by_us,
        let_go=let_go,
        estimate=estimate,
        annotation=ctx.annotations.get(job.key),
        attained_gpu_s=ctx.attained_gpu_s.get(job.key, 0.0),
    )


def pinnable(job: Job, entry: LedgerEntry | None) -> bool:
    """Whether a start may name nodes: tasks of an array share one list, and a job that Slurm could
    not start where we said asks for something that is not modelled."""
    return not job.array_tasks and not (entry is not None and entry.failed_starts)


def entry_of(job: Job, ctx: Context) -> LedgerEntry | None:
    """Our entry for a pending job with the marks that really stand."""
    return standing(ctx.ledger.get(job.key), job, notes=ctx.levers.undo_notes)


def _as_asked(job: Job, entry: LedgerEntry | None, *, let_go: bool) -> Job:
    """The job with the user's own node lists and shape instead of ours.

    One that has been let go starts in the shape it was given.
    """
    if entry is None or not (entry.pinned or entry.excluded or entry.shape):
        return job
    request = job.request
    if entry.shape is not None and entry.original_shape is not None and not let_go:
        request = reshaped(request, given_back(request, entry.shape, entry.original_shape))
    if entry.pinned:
        request = replace(request, required_nodes=entry.original_required)
    if entry.excluded:
        request = replace(request, excluded_nodes=entry.original_excluded)
    return replace(job, request=request)


def _mode(job: Job, ctx: Context) -> Mode:
    """The most careful mode of the job's partitions."""
    if len(job.partitions) == 1:
        return ctx.mode_of(job.partitions[0])
    modes = [ctx.mode_of(p) for p in job.partitions] or [ctx.mode]
    return min(modes, key=lambda m: _MODE_RANK[m])


def _reason(code: str, **facts: str | int | float | None) -> Reason:
    return Reason(code, Stage.VIEW, tuple(facts.items()))


def _not_ours(job: Job, ctx: Context, entry: LedgerEntry | None) -> Reason | None:
    """Jobs never touched (design, section 4), each with its reason code."""
    if ctx.unmanaged_partitions and not ctx.unmanaged_partitions.isdisjoint(job.partitions):
        return _reason("partition_unmanaged", partition=",".join(job.partitions))
    if ctx.jobs.optout and ctx.jobs.optout in job.comment:
        return _reason("opted_out", marker=ctx.jobs.optout)
    if entry is not None and entry.surrendered:
        return _reason("surrendered", because=entry.surrendered)
    if job.held and not (entry is not None and entry.held):
        return _reason("held", reason=job.reason)
    code = _special(job, ctx)
    if code is None:
        return None
    details = {
        "unplannable": ",".join(job.request.unplannable),
        "features_unplannable": job.request.features,
    }
    return _reason(code, detail=details.get(code, job.reason), reason=job.reason)


def _special(job: Job, ctx: Context) -> str | None:
    """Kinds of jobs that are left to Slurm whatever they ask."""
    if job.cron:
        return "cron_job"
    if job.het_job_id:
        return "het_job"
    if job.reservation and not job.reservation.startswith("slurm_ext_"):
        return "in_reservation"
    if not job.batch and ctx.jobs.interactive == "leave":
        return "interactive"
    if job.state.flags and job.state.flags & SPECIAL_FLAGS:
        return "special_state"
    if job.reason in ("JobHoldMaxRequeue", "ReservationDeleted"):
        return "held"
    if job.request.unplannable:
        return "unplannable"
    if job.request.features and features.parse(job.request.features) is None:
        return "features_unplannable"
    return None


def _ineligible(
    job: Job, now_s: EpochS, ctx: Context, user_begin: EpochS, *, ours: bool
) -> Reason | None:
    if job.reason in ("Dependency", "DependencyNeverSatisfied"):
        return _reason("dependency", dependency=job.dependency, reason=job.reason)
    # One interval of foresight: otherwise Slurm starts the job before we have looked at it.
    if user_begin > now_s + ctx.levers.interval_s + 1:
        if job.restarts and 0 < user_begin - job.key.submit_s <= REQUEUE_DELAY_S:
            # A requeue rewrites the submit time.
            return _reason("requeue_delay", begin_s=user_begin, for_s=user_begin - now_s)
        return _reason("begin_time", begin_s=user_begin)
    if ours:
        return None
    if job.reason in SLURM_LIMIT_REASONS or job.reason.startswith(SLURM_LIMIT_PREFIXES):
        return _reason("limit_in_slurm", reason=job.reason)
    return None
