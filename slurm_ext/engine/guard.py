"""The limits on what we may do: checked after planning, before anything is reconciled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurm_ext.model.decision import Decision, Mode, Reason, Stage, Verdict
from slurm_ext.model.job import JobKey
from slurm_ext.model.ledger import LedgerEntry
from slurm_ext.model.observation import Observation
from slurm_ext.model.units import EpochS

from .explain import reason
from .settings import Context, Memory
from .view import JobView

BREAKER_S = 900
"""How long a partition stays in ``order`` after the idle-waste breaker fell."""


def deferred_s(entry: LedgerEntry, now_s: EpochS) -> int:
    """Seconds a job has been deferred in all."""
    since = entry.deferred_since_s
    return entry.deferred_s + (0 if since is None else max(0, now_s - since))


def overdue(entry: LedgerEntry | None, ctx: Context, now_s: EpochS) -> bool:
    """Whether a job has been deferred as long as it may be; then it belongs to Slurm."""
    if entry is None or ctx.guard.max_deferral_s <= 0:
        return False
    return deferred_s(entry, now_s) > ctx.guard.max_deferral_s


MAX_FAILED_STARTS = 3
"""So often a job may be let go in vain; after the first time it is no longer pinned."""


def surrender(entry: LedgerEntry | None, ctx: Context, now_s: EpochS) -> Reason | None:
    """Why a job must be left to Slurm for good, or None."""
    if entry is None:
        return None
    if overdue(entry, ctx, now_s):
        return reason("max_deferral", Stage.GUARD, deferred_s=deferred_s(entry, now_s))
    if entry.failed_starts >= MAX_FAILED_STARTS:
        return reason("not_started", Stage.GUARD, times=entry.failed_starts)
    return None


def effective_modes(obs: Observation, ctx: Context, memory: Memory) -> dict[str, Mode]:
    """The mode in force per partition: as configured, lowered while the breaker is open."""
    modes: dict[str, Mode] = {}
    for partition in obs.partitions:
        mode = ctx.mode_of(partition.name)
        if ctx.paused:
            mode = Mode.OBSERVE
        elif partition.name in memory.broken and mode is Mode.ENFORCE:
            mode = Mode.ORDER
        modes[partition.name] = mode
    return modes


def next_memory(
    obs: Observation,
    ctx: Context,
    views: Sequence[JobView],
    decisions: Mapping[JobKey, Decision],
) -> Memory:
    """Waste counters for the next cycle, and breakers that fall or are mended now.

    Room stands idle when a job in our hands is to be started, cycle after cycle, and is not seen
    running although the grace is over.
    """
    wanting = _wanting(obs, ctx, views, decisions)
    patience_s = ctx.levers.start_grace_s + 2 * ctx.levers.interval_s
    idle: dict[str, int] = {}
    for v in views:
        since_s = wanting.get(v.key)
        if since_s is not None and obs.now_s - since_s > patience_s:
            for name in v.job.partitions:
                idle[name] = idle.get(name, 0) + v.job.request.gpus
    broken = {p: s for p, s in ctx.memory.broken.items() if obs.now_s - s < BREAKER_S}
    waste: dict[str, int] = {}
    for name, gpus in idle.items():
        if gpus < ctx.guard.idle_waste_gpus:
            continue
        count = ctx.memory.waste.get(name, 0) + 1
        if ctx.guard.idle_waste_cycles and count > ctx.guard.idle_waste_cycles:
            broken[name] = obs.now_s
        else:
            waste[name] = count
    return Memory(waste, broken, wanting)


def _wanting(
    obs: Observation, ctx: Context, views: Sequence[JobView], decisions: Mapping[JobKey, Decision]
) -> dict[JobKey, EpochS]:
    return {
        v.key: ctx.memory.wanting.get(v.key, obs.now_s)
        for v in views
        if v.mode is Mode.ENFORCE and decisions[v.key].verdict in (Verdict.START, Verdict.STARTING)
    }
