"""When occupied resources come back, and the earliest moment a blocked job could start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from slurm_ext.model.decision import Placement
from slurm_ext.model.job import Job, NodeShare
from slurm_ext.model.units import FOREVER_S, EpochS

from .allow import Allowance
from .policy import NodePreference
from .pool import Demand, Free, Pool
from .search import place

OVERRUN_S = 60
"""A completing job, or one just past its expected end, is taken to end within a minute."""


@dataclass(frozen=True, slots=True)
class Release:
    """Shares that come back at ``end_s``."""

    end_s: EpochS
    shares: tuple[NodeShare, ...]


@dataclass(slots=True)
class Barrier:
    """A promise in force: from ``start_s`` on only ``extra`` is free for others."""

    start_s: EpochS
    extra: Free


def expected_end_s(job: Job, now_s: EpochS, default_limit_s: int) -> EpochS:
    """When an occupying job is expected to be gone (its limit until estimates exist).

    A job that is past that is expected to go on for as long as it already has overrun: a promise
    that stood "in a minute" for ever would keep everybody else waiting.
    """
    if job.state.completing:
        return now_s + OVERRUN_S
    if job.end_s is not None:
        end_s = job.end_s
    elif job.start_s is not None:
        limit_s = job.limit_s if job.limit_s is not None else default_limit_s
        end_s = job.start_s + limit_s
    else:
        end_s = now_s + default_limit_s
    return end_s if end_s > now_s else now_s + max(OVERRUN_S, now_s - end_s)


def releases(jobs: Iterable[Job], now_s: EpochS, default_limit_s: int) -> list[Release]:
    """Releases of all occupying jobs, earliest first; suspended jobs never release."""
    found = [
        Release(expected_end_s(j, now_s, default_limit_s), j.alloc)
        for j in jobs
        if j.alloc and j.state.base != "SUSPENDED"
    ]
    return sorted(found, key=lambda r: r.end_s)


def shadow(
    pool: Pool,
    timeline: Sequence[Release],
    job: Job,
    demand: Demand,
    duration_s: int,
    allowance: Allowance,
    preference: NodePreference,
    barriers: Sequence[Barrier],
    now_s: EpochS,
) -> tuple[EpochS, Placement, Free] | None:
    """Earliest start of a blocked job if every release holds.

    Returns (start, placement, what is free then besides it), or None if no release helps.
    Source: EASY backfilling, Lifka 1995; shadow time and extra nodes.
    """
    free = pool.free.copy()
    moments = [
        *((r.end_s, r.shares) for r in timeline),
        *((s, ()) for s in allowance.reservation_ends(now_s)),
    ]
    moments.sort(key=lambda m: m[0])
    for start_s, group in groupby(moments, key=lambda m: m[0]):
        for _, shares in group:
            for share in shares:
                pool.apply(free, share, +1)
        if start_s >= FOREVER_S:
            break
        usable = _under_barriers(free, barriers, start_s, duration_s)
        allowed = allowance.of(job, start_s, duration_s)
        found = place(pool, usable, demand, allowed.nodes, preference, required=allowed.required)
        if found:
            for share in found[0].shares:
                pool.apply(free, share, -1)
            return start_s, found[0], free
    return None


def _under_barriers(
    free: Free, barriers: Sequence[Barrier], start_s: EpochS, duration_s: int
) -> Free:
    for barrier in barriers:
        if start_s + duration_s > barrier.start_s:
            free = free.minimum(barrier.extra)
    return free
