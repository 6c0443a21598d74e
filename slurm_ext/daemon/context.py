"""From the configuration to what the engine understands."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slurm_ext.engine.policy import reads_factors
from slurm_ext.engine.settings import (
    BackfillSettings,
    Context,
    GuardSettings,
    JobSettings,
    LeverSettings,
    Memory,
    PreemptionSettings,
    RestartSettings,
)
from slurm_ext.engine.topology import UNKNOWN, Topology
from slurm_ext.model.decision import Mode
from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.progress import Progress
from slurm_ext.model.restart import Restart
from slurm_ext.policies import for_daemon

from .annotations import Annotations
from .config import Config, plain


def wants_factors(config: Config) -> bool:
    """Whether a look must show Slurm's own factors of each waiting job.

    :raises PolicyError: unknown policy or parameter, or one that is only simulated.
    """
    return reads_factors(for_daemon(config.policy.name, config.policy.parameters).ordering)


def context(
    config: Config,
    *,
    ledger: Mapping[JobKey, LedgerEntry],
    memory: Memory,
    paused: bool,
    can_note: bool,
    estimates: Mapping[JobKey, Estimate] = MappingProxyType({}),
    attained_gpu_s: Mapping[JobKey, float] = MappingProxyType({}),
    annotations: Annotations | None = None,
    topology: Topology = UNKNOWN,
    progress: Mapping[JobKey, Progress] = MappingProxyType({}),
    restarts: tuple[Restart, ...] = (),
) -> Context:
    """Everything decide() needs besides the observation.

    :raises PolicyError: unknown policy or parameter, or one that is only simulated.
    """
    levers, guard, backfill = config.levers, config.guard, config.backfill
    modes: dict[str, Mode] = {n: config.mode_of(n) for n in config.partitions}
    return Context(
        policy=for_daemon(config.policy.name, config.policy.parameters),
        mode=config.mode,
        partition_modes=modes,
        unmanaged_partitions=frozenset(n for n in config.partitions if not config.manages(n)),
        ledger=ledger,
        memory=memory,
        backfill=BackfillSettings(
            kind=backfill.kind,
            fences=backfill.fences,
            depth=backfill.depth,
            durations=backfill.durations,
            max_slip_s=backfill.max_slip_s,
            slack_fraction=backfill.slack_fraction,
            default_limit_s=backfill.default_limit_s,
        ),
        levers=LeverSettings(
            defer=levers.defer,
            lease_s=levers.lease_s,
            renew_at=levers.renew_at,
            pin=levers.pin,
            pin_ttl_s=levers.pin_ttl_s,
            start_grace_s=levers.start_grace_s,
            site_factor=levers.site_factor,
            ladder=levers.ladder,
            reserve_min_nodes=levers.reserve_min_nodes,
            frontier=levers.frontier,
            frontier_max_jobs=levers.frontier_max_jobs,
            undo_notes=levers.undo_notes == "auto" and can_note,
            interval_s=max(1, round(config.cycle.interval_s)),
        ),
        guard=GuardSettings(
            max_starts_per_cycle=guard.max_starts_per_cycle,
            max_patches_per_cycle=guard.max_patches_per_cycle,
            max_deferral_s=guard.max_deferral_s,
            idle_waste_cycles=guard.idle_waste_cycles,
            idle_waste_gpus=guard.idle_waste_gpus,
        ),
        preemption=PreemptionSettings(
            **plain(config.preemption), min_runtime_s=guard.min_runtime_before_requeue_s
        ),
        restart=RestartSettings(
            **plain(config.restart),
            min_gain=config.preemption.min_gain,
            max_per_hour=guard.max_requeues_per_hour,
        ),
        jobs=JobSettings(config.jobs.optout, config.jobs.interactive),
        estimates=estimates,
        attained_gpu_s=attained_gpu_s,
        annotations=annotations.good if annotations is not None else {},
        bad_annotations=annotations.bad if annotations is not None else {},
        topology=topology,
        gpu_speeds={name: float(x) for name, x in config.topology.gpu_speeds.items()},
        progress=progress,
        restarts=restarts,
        paused=paused,
    )
