"""Right-sizing: what was asked for against what was used, as suggestions only.

Time limits here, CPUs and memory in :mod:`~slurm_ext.accounting.sizing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from statistics import median

import numpy as np

from slurm_ext.accounting.features import stem
from slurm_ext.accounting.record import Attempt, Outcome

LEAST_JOBS = 5
MARGIN = 1.2
STEP_S = 900
WORTH = 0.7
"""A suggestion is made where it is at most this share of the usual limit."""


@dataclass(frozen=True, slots=True)
class LimitAdvice:
    """One kind of work of one user; seconds.

    ``suggested_s``: p95 of its run times plus a fifth, rounded up to a quarter of an hour.
    ``reserved_gpu_h``: GPU-hours promised beyond the run time, in which backfill could not count on
    these GPUs; ``freed_gpu_h``: what of it the suggestion would have given back.
    ``timeouts``: attempts that reached their limit (too short, so nothing is suggested).
    """

    user: str
    account: str
    stem: str
    jobs: int
    gpus: float
    limit_s: float
    used_s: float
    suggested_s: int | None
    timeouts: int
    reserved_gpu_h: float
    freed_gpu_h: float


def limit_advice(attempts: Iterable[Attempt], *, least: int = LEAST_JOBS) -> list[LimitAdvice]:
    """Kinds of work with enough finished jobs with a limit, the most GPU-hours freed first."""
    groups: dict[tuple[str, str, str], list[Attempt]] = {}
    for attempt in attempts:
        if attempt.limit_s and attempt.end_s is not None and attempt.run_s > 0:
            key = (attempt.user, attempt.account, stem(attempt.name))
            groups.setdefault(key, []).append(attempt)
    found = [
        _advice(key, rows)
        for key, rows in groups.items()
        if sum(r.outcome == Outcome.ENDED for r in rows) >= least
    ]
    return sorted(found, key=lambda a: (-a.freed_gpu_h, -a.reserved_gpu_h, a.user, a.stem))


def _advice(key: tuple[str, str, str], rows: list[Attempt]) -> LimitAdvice:
    done = [r for r in rows if r.outcome == Outcome.ENDED]
    timeouts = sum(r.state == "TIMEOUT" for r in rows)
    limit_s = median(r.limit_s or 0 for r in done)
    used_s = float(np.quantile([r.run_s for r in done], 0.95))
    better_s = max(STEP_S, ceil(used_s * MARGIN / STEP_S) * STEP_S)
    suggested = better_s if better_s <= WORTH * limit_s and not timeouts else None
    reserved = sum(r.gpus_alloc * max(0, (r.limit_s or 0) - r.run_s) for r in done)
    freed = 0
    if suggested is not None:
        freed = sum(r.gpus_alloc * max(0, (r.limit_s or 0) - max(suggested, r.run_s)) for r in done)
    return LimitAdvice(
        *key, len(done), median(r.gpus_alloc for r in done), limit_s, used_s, suggested, timeouts,
        reserved / 3600, freed / 3600,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LimitShare:
    """How much of their limits jobs use: quantiles of limit / run time, and jobs counted."""

    jobs: int
    p10: float
    p50: float
    p90: float


def overestimate(attempts: Iterable[Attempt]) -> LimitShare | None:
    """Limit over run time of jobs that ended by themselves; None without any."""
    ratios = [
        a.limit_s / max(1, a.run_s) for a in attempts if a.limit_s and a.outcome == Outcome.ENDED
    ]
    if not ratios:
        return None
    p10, p50, p90 = np.quantile(ratios, (0.1, 0.5, 0.9))
    return LimitShare(len(ratios), float(p10), float(p50), float(p90))


@dataclass(frozen=True, slots=True)
class Total:
    """GPU-hours of all kinds of work of one user or account; ``jobs`` finished ones."""

    jobs: int
    reserved_gpu_h: float
    freed_gpu_h: float


def totals(advice: Iterable[LimitAdvice], *, by: str) -> dict[str, Total]:
    """What shorter limits would give back, by ``user`` or ``account``, the most first."""
    found: dict[str, Total] = {}
    for one in advice:
        name = getattr(one, by)
        old = found.get(name, Total(0, 0.0, 0.0))
        found[name] = Total(
            old.jobs + one.jobs, old.reserved_gpu_h + one.reserved_gpu_h,
            old.freed_gpu_h + one.freed_gpu_h,
        )  # fmt: skip
    return dict(sorted(found.items(), key=lambda item: (-item[1].freed_gpu_h, item[0])))


ADVICE_HEADS = (
    "USER", "WORK", "JOBS", "GPUS", "LIMIT", "P95 USED", "COULD BE", "GPU-H FREED", "TIMEOUTS",
)  # fmt: skip


def advice_row(advice: LimitAdvice, shown: Callable[[int], str]) -> tuple[object, ...]:
    """One line under :data:`ADVICE_HEADS`; ``shown`` writes seconds."""
    better = "as it is" if advice.suggested_s is None else shown(advice.suggested_s)
    return (
        advice.user, advice.stem, advice.jobs, f"{advice.gpus:g}", shown(int(advice.limit_s)),
        shown(int(advice.used_s)), better, f"{advice.freed_gpu_h:.1f}", advice.timeouts,
    )  # fmt: skip
