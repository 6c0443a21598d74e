"""More GPUs the less time a job has left, all jobs at once (heSRPT)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.allocation import Contender, Ended, Grant, Servers
from slurm_ext.model.job import JobKey

from .elastic import lay_out, least_gpus, most_gpus, worth_changing

ROUND = 2**0.5
"""A share is rounded to the nearer power of two, in proportion."""


def shares(count: int, efficiency: float) -> list[float]:
    """Shares of the cluster for so many jobs, the one with most time left first; they sum to 1.

    Optimal for the mean time in the system if speed grows as GPUs to the power ``efficiency``
    (0 <= efficiency < 1) and no more jobs arrive: Berg, Vesilo, Harchol-Balter, heSRPT, 2020.
    """
    power = 1 / (1 - efficiency)
    return [(i / count) ** power - ((i - 1) / count) ** power for i in range(1, count + 1)]


def sized(jobs: Sequence[Contender], gpus: int, efficiency: float) -> dict[JobKey, int]:
    """GPUs per job: the smallest size for each, least time left first, then towards the shares.

    Sizes are doublings of a job's smallest one. Jobs not named wait.
    """
    order = sorted(jobs, key=lambda j: (j.remaining_s, j.line))
    sizes: dict[JobKey, int] = {}
    total, served = gpus, []
    for job in order:
        if least_gpus(job) <= gpus:
            sizes[job.key] = least_gpus(job)
            gpus -= least_gpus(job)
            served.append(job)
    wanted = [share * total * ROUND for share in reversed(shares(len(served), efficiency))]
    for limits in (wanted, [float(total)] * len(served)):  # what is left over: the shortest first
        for job, most in zip(served, limits, strict=True):
            size = sizes[job.key]
            while 2 * size <= min(most, most_gpus(job)) and size <= gpus:
                gpus -= size
                size *= 2
            sizes[job.key] = size
    return sizes


@dataclass(frozen=True, slots=True)
class LeastTimeMost:
    """heSRPT over all jobs, anew at every change and every ``period_s``.

    ``efficiency``: speed grows as GPUs to this power. ``hysteresis``: when nobody waits, sizes
    change only if the time saved outweighs the restarts.
    """

    period_s: float = 600.0
    efficiency: float = 0.5
    hysteresis: bool = True

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        free = servers.total_gpus
        sizes = sized(jobs, free, self.efficiency)
        if self.hysteresis and not worth_changing(jobs, sizes, free):
            sizes = {j.key: j.gpus_held for j in jobs if j.held}
        order = sorted(jobs, key=lambda j: (j.remaining_s, j.line))
        return lay_out([(j, sizes[j.key]) for j in order if sizes.get(j.key)], servers)

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return self.period_s if jobs else None
