"""What a cycle decides about each job, with the reasons, and what is to be written for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from .job import JobKey, NodeShare
from .units import EpochS, Fact


class Mode(StrEnum):
    """How far we may go in a partition."""

    OBSERVE = "observe"
    ORDER = "order"
    ENFORCE = "enforce"


class Verdict(StrEnum):
    """The one outcome of a cycle for a job."""

    START = "start"  # now, on the placement given
    STARTING = "starting"  # let go in an earlier cycle, not yet seen running
    WAIT = "wait"  # eligible, but not now
    NEVER = "never"  # cannot run on this cluster as asked
    INELIGIBLE = "ineligible"  # Slurm itself would not start it now (held, dependency, begin)
    UNMANAGED = "unmanaged"  # not ours to steer; the reason says why
    RUNNING = "running"


class Stage(StrEnum):
    """The part of the cycle a reason comes from."""

    VIEW = "view"
    ORDER = "order"
    ALLOCATE = "allocate"
    PLACE = "place"
    BACKFILL = "backfill"
    PREEMPT = "preempt"
    GUARD = "guard"
    RECONCILE = "reconcile"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why not (or why so): a stable code, where it arose, the numbers, what would change it."""

    code: str
    stage: Stage
    facts: tuple[tuple[str, Fact], ...] = ()
    would_change: str = ""


class Term(NamedTuple):
    """One named number of the ordering key; lower sorts first."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes for one job with what it takes on each; ``score`` lower is better."""

    shares: tuple[NodeShare, ...]
    score: tuple[float, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(share.node for share in self.shares)


@dataclass(frozen=True, slots=True)
class Fence:
    """A promise to a blocked job: it can start at ``start_s`` on these nodes if limits hold.

    ``held_s``: from when on room is kept for it; later than ``start_s`` only with slack, which
    means "no later than then".
    """

    key: JobKey
    start_s: EpochS
    placement: Placement
    held_s: EpochS = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """The one decision for one job.

    ``rank`` 0 is first among the managed pending jobs; -1 for jobs that are not ranked.
    ``alternatives`` are other placements that were possible, best first.
    ``start_s`` is the planned start (now for START; the fence for a fenced job).
    ``tasks`` counts the array tasks let go together.
    """

    key: JobKey
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    rank: int = -1
    terms: tuple[Term, ...] = ()
    placement: Placement | None = None
    alternatives: tuple[Placement, ...] = ()
    start_s: EpochS | None = None
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class Victim:
    """A running job that would be requeued, with what that costs in GPU-seconds."""

    key: JobKey
    address: str
    nodes: tuple[str, ...]
    gpus: int
    lost_gpu_s: float
    grace_gpu_s: float
    restart_gpu_s: float


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom to requeue so that the blocked job ``key`` starts now; carried out step by step.

    ``gain_gpu_s``: its GPUs times the wait that is saved. ``worth``: the gain is the configured
    multiple of the cost. ``optimal``: no cheaper set exists (else the cheapest that was found).
    """

    key: JobKey
    worth: bool
    victims: tuple[Victim, ...]
    reason: Reason
    placement: Placement | None = None
    cost_gpu_s: float = 0.0
    gain_gpu_s: float = 0.0
    optimal: bool = True


class Shape(NamedTuple):
    """What a job asks of Slurm, as it may be changed while it waits (scontrol(1) update).

    ``tasks`` and ``cpus`` of the whole job; ``mem_node_mib`` per node, 0: left as it is.
    """

    nodes: int
    gpus_per_node: int
    tasks: int
    cpus: int
    mem_node_mib: int = 0

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class Resize:
    """A running elastic job that should checkpoint, stop and come back in another shape.

    ``gain_gpu_s`` and ``cost_gpu_s``: what that saves and what it costs; the gain is already the
    configured multiple of the cost.
    """

    key: JobKey
    address: str
    gpus_now: int
    shape: Shape
    gain_gpu_s: float
    cost_gpu_s: float
    reason: Reason


class Forecast(NamedTuple):
    """When a job will probably start: by ``p50_s`` with even odds, by ``p90_s`` nine in ten."""

    p50_s: EpochS
    p90_s: EpochS


class Lever(StrEnum):
    """The ways to steer a job, safest first (one patch may combine those of one call)."""

    RANK = "rank"
    LEASE = "lease"  # StartTime = now + lease
    HOLD = "hold"  # scontrol hold
    RELEASE = "release"  # begin restored, pins of ours set or cleared in the same call
    RESTORE = "restore"  # everything of ours undone, the user's values back
    SIGNAL = "signal"  # the job's own checkpoint signal
    REQUEUE = "requeue"


@dataclass(frozen=True, slots=True)
class JobPatch:
    """One difference to be written for one job, in absolute values (never increments).

    Fields left None are not touched. ``begin_s`` 0 means "now". ``required_nodes`` empty
    clears. ``admin_comment`` is the whole new text. ``nodes``: what the job asks for now, beside a
    ``shape``, if Slurm may not show it.
    """

    key: JobKey
    address: str
    lever: Lever
    site_factor: int | None = None
    begin_s: EpochS | None = None
    required_nodes: tuple[str, ...] | None = None
    excluded_nodes: tuple[str, ...] | None = None
    hold: bool | None = None
    shape: Shape | None = None
    nodes: int | None = None
    admin_comment: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReservationSpec:
    """A whole-node reservation of ours; always short, always NO_HOLD_JOBS_AFTER."""

    name: str
    start_s: EpochS
    duration_s: int
    nodes: tuple[str, ...]
    users: tuple[str, ...]
    flags: tuple[str, ...] = ("NO_HOLD_JOBS_AFTER",)


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole outcome of one decide(): one decision a job, fences, patches, when to wake.

    ``forecasts`` of all jobs that wait for room. ``preempt`` and ``resizes``: proposals, each
    carried out step by step over several cycles. ``modes``: the mode in force per partition
    after the guard (it may lower one).
    ``wake_at_s``: look again no later than this (None: the ordinary interval).
    ``stats``: counters of the cycle for status and metrics.
    """

    now_s: EpochS
    policy: str
    decisions: Mapping[JobKey, Decision]
    order: tuple[JobKey, ...] = ()
    fences: tuple[Fence, ...] = ()
    forecasts: Mapping[JobKey, Forecast] = field(default_factory=dict)
    patches: tuple[JobPatch, ...] = ()
    reserve: tuple[ReservationSpec, ...] = ()
    unreserve: tuple[str, ...] = ()
    preempt: tuple[Preemption, ...] = ()
    resizes: tuple[Resize, ...] = ()
    modes: Mapping[str, Mode] = field(default_factory=dict)
    wake_at_s: EpochS | None = None
    stats: Mapping[str, float] = field(default_factory=dict)
