"""How long a job is taken to run: its limit, or a learned quantile below it."""

from __future__ import annotations

from slurm_ext.model.estimate import Estimate
from slurm_ext.model.job import Job
from slurm_ext.model.units import EpochS

OVERRUN_S = 60
"""A completing job, or one just past its expected end, is taken to end within a minute."""

CORRECTIONS_S = (
    60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000,
)  # fmt: skip
"""How far past its prediction a job is next taken to run, once it has outlived it.

Source: EASY++ (Tsafrir, Etsion, Feitelson 2007): corrections in growing steps, never past the
limit.
"""


def limit_of(job: Job, default_limit_s: int) -> int:
    """Seconds after which Slurm ends the job."""
    return default_limit_s if job.limit_s is None else job.limit_s


def planned_s(
    limit_s: int | None, estimate: Estimate | None, durations: str, default_limit_s: int
) -> int:
    """Run time of a waiting job in seconds. ``durations``: ``limit``, ``p50`` or ``p90``."""
    # A job of no length would leave its room to the next one at the same moment.
    most = max(1, limit_s if limit_s is not None else default_limit_s)
    if durations == "limit" or estimate is None:
        return most
    wanted = estimate.p50_s if durations == "p50" else estimate.p90_s
    return max(1, min(most, round(wanted)))


def limit_end_s(job: Job, now_s: EpochS, default_limit_s: int) -> EpochS:
    """When Slurm ends an occupying job at the latest; it may have passed."""
    if job.end_s is not None:
        return job.end_s
    if job.start_s is None:
        return now_s + default_limit_s
    return job.start_s + limit_of(job, default_limit_s)


def expected_end_s(
    job: Job,
    now_s: EpochS,
    default_limit_s: int,
    durations: str = "limit",
    estimate: Estimate | None = None,
    late: str = "steps",
) -> EpochS:
    """When an occupying job is expected to be gone.

    A job past its limit is expected to go on for as long as it already has overrun: a promise that
    stood "in a minute" for ever would keep everybody else waiting. One past its prediction gets
    the next of the growing corrections (``late`` = ``steps``), or is taken to run to its ``limit``.
    """
    if job.state.completing:
        return now_s + OVERRUN_S
    end_s = limit_end_s(job, now_s, default_limit_s)
    if end_s <= now_s:
        return now_s + max(OVERRUN_S, now_s - end_s)
    if durations == "limit" or estimate is None or job.start_s is None:
        return end_s
    predicted_s = job.start_s + planned_s(None, estimate, durations, end_s - job.start_s)
    if predicted_s > now_s:
        return min(end_s, predicted_s)
    if late == "limit":
        return end_s
    late_s = now_s - predicted_s
    more_s = next((c for c in CORRECTIONS_S if c > late_s), end_s - predicted_s)
    return min(end_s, predicted_s + more_s)
