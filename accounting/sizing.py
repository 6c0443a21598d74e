"""Right-sizing of CPUs and memory: what was asked for against what steps recorded.

Suggestions only. Mean CPU use hides short peaks, so they are generous: the busiest of twenty
jobs' mean plus a fifth; of memory the highest peak ever seen plus a fifth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import fmean, median

import numpy as np

from slurm_ext.accounting.features import stem
from slurm_ext.accounting.record import Attempt, Outcome
from slurm_ext.accounting.report import LEAST_JOBS, MARGIN, WORTH
from slurm_ext.accounting.steps import Used
from slurm_ext.model.units import EpochS

SHORTEST_S = 60
"""Shorter jobs say little: start-up dominates, and memory is sampled every 30 s by default."""
STEP_MIB = 1024

Uses = Mapping[tuple[str, int, EpochS], Used]


@dataclass(frozen=True, slots=True)
class SizeAdvice:
    """One kind of work of one user.

    ``busy_cpus``: p95 over its jobs of CPU time / run time. ``peak_mib``: highest peak, None where
    memory is not recorded. ``*_asked``: medians. Suggestions None: as it is. ``freed_*_h``: core-
    and GiB-hours that the suggestions would have given back. ``gpu_util``: percent, or None.
    """

    user: str
    account: str
    stem: str
    jobs: int
    cpus_asked: float
    busy_cpus: float
    cpus_suggested: int | None
    mem_asked_mib: float
    peak_mib: int | None
    mem_suggested_mib: int | None
    freed_cpu_h: float
    freed_gib_h: float
    gpu_util: float | None


def size_advice(
    attempts: Iterable[Attempt], used: Uses, *, least: int = LEAST_JOBS
) -> list[SizeAdvice]:
    """Kinds of work with enough recorded jobs, the most core-hours freed first."""
    groups: dict[tuple[str, str, str], list[tuple[Attempt, Used]]] = {}
    for attempt in attempts:
        use = used.get((attempt.cluster, attempt.job_id, attempt.submit_s))
        if use is not None and attempt.outcome == Outcome.ENDED and attempt.run_s >= SHORTEST_S:
            ident = (attempt.user, attempt.account, stem(attempt.name))
            groups.setdefault(ident, []).append((attempt, use))
    found = [_advice(ident, rows) for ident, rows in groups.items() if len(rows) >= least]
    return sorted(found, key=lambda a: (-a.freed_cpu_h, -a.freed_gib_h, a.user, a.stem))


def _advice(ident: tuple[str, str, str], rows: list[tuple[Attempt, Used]]) -> SizeAdvice:
    cpus = median(a.cpus_alloc for a, _ in rows)
    busy = float(np.quantile([u.cpu_s / a.run_s for a, u in rows], 0.95))
    gpus = max(a.gpus_alloc for a, _ in rows)
    # One core a GPU at least: something must feed it.
    better_cpus = max(1, gpus, ceil(busy * MARGIN))
    cpus_suggested = better_cpus if better_cpus <= WORTH * cpus else None
    mem = median(a.mem_req_mib for a, _ in rows)
    peaks = [u.mem_mib for _, u in rows if u.mem_mib is not None]
    # A peak is a bound only if every job has one.
    peak = max(peaks) if len(peaks) == len(rows) else None
    mem_suggested = None
    if peak is not None:
        better_mib = max(STEP_MIB, ceil(peak * MARGIN / STEP_MIB) * STEP_MIB)
        mem_suggested = better_mib if better_mib <= WORTH * mem else None
    utils = [u.gpu_util for _, u in rows if u.gpu_util is not None]
    return SizeAdvice(
        *ident, len(rows), cpus, busy, cpus_suggested, mem, peak, mem_suggested,
        _freed(((a.cpus_alloc, a.run_s) for a, _ in rows), cpus_suggested),
        _freed(((a.mem_req_mib, a.run_s) for a, _ in rows), mem_suggested) / 1024,
        fmean(utils) if utils else None,
    )  # fmt: skip


def _freed(asked: Iterable[tuple[int, int]], suggested: int | None) -> float:
    """Units times hours above the suggestion."""
    if suggested is None:
        return 0.0
    return sum(max(0, amount - suggested) * run_s for amount, run_s in asked) / 3600


SIZE_HEADS = (
    "USER", "WORK", "JOBS", "CPUS", "BUSY", "COULD BE", "CPU-H FREED", "MEMORY", "PEAK",
    "COULD BE", "GIB-H FREED", "GPU UTIL",
)  # fmt: skip


def size_row(advice: SizeAdvice) -> tuple[object, ...]:
    """One line under :data:`SIZE_HEADS`."""
    util = "-" if advice.gpu_util is None else f"{advice.gpu_util:.0f} %"
    return (
        advice.user, advice.stem, advice.jobs, f"{advice.cpus_asked:g}", f"{advice.busy_cpus:.1f}",
        advice.cpus_suggested or "as it is", f"{advice.freed_cpu_h:.1f}",
        _gib(advice.mem_asked_mib), _gib(advice.peak_mib),
        "as it is" if advice.mem_suggested_mib is None else _gib(advice.mem_suggested_mib),
        f"{advice.freed_gib_h:.1f}", util,
    )  # fmt: skip


def _gib(mib: float | None) -> str:
    return "-" if mib is None else f"{mib / 1024:.1f} GiB"
