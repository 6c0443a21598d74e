"""What the engine may be told; the daemon fills this from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_ext.model.annotation import Annotation, Speed
from slurm_ext.model.decision import Mode
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import JobKey, NodeShare, Request
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.progress import Progress
from slurm_ext.model.restart import Past, Restart
from slurm_ext.model.units import EpochS

from .policy import Policy
from .topology import UNKNOWN, Topology


@dataclass(frozen=True, slots=True)
class BackfillSettings:
    """``kind``: none (strict order), best_effort (skip what does not fit, no promise), easy (the
    first ``fences`` blocked jobs are promised a start, in the order of now), conservative (the
    first ``depth``, and a promise once made also stands against who comes later), slack (as that,
    but a promised start may move by ``max_slip_s`` or, if that is less, by ``slack_fraction`` of
    the expected wait; 0: no such part).

    ``durations``: what holes are planned with, ``limit``, ``p50`` or ``p90`` of the estimates.
    ``late``: a job that outlives its estimate is taken to run on by growing ``steps``, or to its
    ``limit``. All that pass a promised job put it off by no more than ``max_slip_s``, whatever the
    predictions (:mod:`slurm_ext.engine.bounds`).
    ``forecast``: whether the start of every waiting job is forecast.
    """

    kind: str = "easy"
    fences: int = 1
    default_limit_s: int = 7 * 86400
    durations: str = "limit"
    late: str = "steps"
    depth: int = 100
    max_slip_s: int = 3600
    slack_fraction: float = 0.0
    forecast: bool = True

    @property
    def promised(self) -> int:
        """How many blocked jobs are promised a start."""
        if self.kind == "easy":
            return self.fences
        return self.depth if self.kind in ("conservative", "slack") else 0


@dataclass(frozen=True, slots=True)
class LeverSettings:
    """How jobs are steered; names as in the configuration reference, section ``levers``."""

    defer: str = "lease"
    lease_s: int = 300
    renew_at: float = 0.34
    pin: bool = True
    pin_ttl_s: int = 60
    start_grace_s: int = 15
    site_factor: bool = True
    ladder: int = 8
    reserve_min_nodes: int = 0
    frontier: str = "narrow"
    frontier_max_jobs: int = 500
    undo_notes: bool = True
    interval_s: int = 30


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Limits on what one cycle may do; 0 means no limit for counts."""

    max_starts_per_cycle: int = 0
    max_patches_per_cycle: int = 0
    max_deferral_s: int = 6 * 3600
    idle_waste_cycles: int = 20
    idle_waste_gpus: int = 1


@dataclass(frozen=True, slots=True)
class PreemptionSettings:
    """Whether and for whom preemption is planned; names as in section ``preemption``.

    ``min_runtime_s`` is ``guard.min_runtime_before_requeue_s``.
    """

    enabled: bool = False
    jobs: int = 1
    max_victims: int = 8
    min_gain: float = 2.0
    max_restarts: int = 3
    min_runtime_s: int = 1800


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """What restarts are carried out; names as in section ``restart``.

    ``min_gain`` is ``preemption.min_gain``, ``max_per_hour`` (of all jobs together)
    ``guard.max_requeues_per_hour``.
    """

    enabled: bool = True
    max_at_once: int = 4
    max_per_job_hour: int = 2
    keep_room_s: int = 120
    come_back_s: int = 600
    retry_after_s: int = 3600
    min_gain: float = 2.0
    max_per_hour: int = 20


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Which jobs are ours at all."""

    optout: str = "slurm_ext:off"
    interactive: str = "leave"


class Promise(NamedTuple):
    """A start promised to a waiting job.

    ``first_s``: what was promised first; ``start_s``: what is planned now; ``held_s``: from when
    on the ``shares`` are kept for it (later than ``start_s`` only with slack). ``request``: for
    what it was made; a job that asks for something else is promised anew. ``bound_s``: by when it
    starts if all limits hold, on the ``bound_shares``; 0 where ``start_s`` goes by limits, too.
    """

    first_s: EpochS
    start_s: EpochS
    held_s: EpochS
    shares: tuple[NodeShare, ...]
    request: Request
    bound_s: EpochS = 0
    bound_shares: tuple[NodeShare, ...] = ()

    @property
    def slip_s(self) -> int:
        return max(0, self.start_s - self.first_s)


class Kept(NamedTuple):
    """How promises ended: jobs that started by their first promise, later, and by how much."""

    on_time: int = 0
    late: int = 0
    late_s: int = 0
    worst_s: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """What one cycle hands to the next besides the ledger (losing it is harmless).

    ``waste``: partition -> consecutive cycles in which GPUs that fit a job we hold back, or let
    go without seeing it start, stood idle. ``broken``: partitions the breaker lowered to
    ``order``, with the epoch second it did so. ``wanting``: job -> since when it is to start.
    ``promises`` of jobs not yet seen running; ``kept`` counts those that were. ``fixed_nodes``:
    ids of elastic jobs that waited with a fixed number of nodes.
    """

    waste: Mapping[str, int] = field(default_factory=dict)
    broken: Mapping[str, int] = field(default_factory=dict)
    wanting: Mapping[JobKey, int] = field(default_factory=dict)
    promises: Mapping[JobKey, Promise] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    fixed_nodes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Context:
    """Everything decide() needs besides the observation.

    ``estimates`` of pending and running jobs; a job without one is planned with its limit.
    ``annotations`` of jobs that carry a valid one; ``bad_annotations``: what is wrong with the
    others', which are plain jobs. ``attained_gpu_s``: GPU-seconds a job has had before its last
    requeue. ``topology``: links inside nodes and switches between them. ``gpu_speeds``: relative
    speed of GPU types (1 where not named). ``progress``: what running annotated jobs tell of
    themselves. ``restarts``: those under way, ``past``: those before. ``curves``: speeds learned
    from reports, of jobs whose annotation has none.
    """

    policy: Policy
    mode: Mode = Mode.OBSERVE
    partition_modes: Mapping[str, Mode] = field(default_factory=dict)
    unmanaged_partitions: frozenset[str] = frozenset()
    ledger: Mapping[JobKey, LedgerEntry] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    backfill: BackfillSettings = field(default_factory=BackfillSettings)
    levers: LeverSettings = field(default_factory=LeverSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    preemption: PreemptionSettings = field(default_factory=PreemptionSettings)
    restart: RestartSettings = field(default_factory=RestartSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    estimates: Mapping[JobKey, Estimate] = field(default_factory=dict)
    annotations: Mapping[JobKey, Annotation] = field(default_factory=dict)
    bad_annotations: Mapping[JobKey, str] = field(default_factory=dict)
    attained_gpu_s: Mapping[JobKey, float] = field(default_factory=dict)
    topology: Topology = UNKNOWN
    gpu_speeds: Mapping[str, float] = field(default_factory=dict)
    progress: Mapping[JobKey, Progress] = field(default_factory=dict)
    restarts: tuple[Restart, ...] = ()
    past: Past = field(default_factory=Past)
    curves: Mapping[JobKey, Speed] = field(default_factory=dict)
    paused: bool = False

    def mode_of(self, partition: str) -> Mode:
        """Configured mode of one partition (before the guard)."""
        return self.partition_modes.get(partition, self.mode)
