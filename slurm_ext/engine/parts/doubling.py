"""Doubling: every job gets one GPU, then whoever gains most per GPU has its number doubled.

Capes et al., Dynamic Scheduling of MPI-based Distributed Deep Learning Training Jobs, 2018. Ring
all-reduce falls off between powers of two, so adding one GPU at a time stops too early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.allocation import Contender, Ended, Grant, Servers
from slurm_ext.model.job import JobKey

from .elastic import lay_out, least_gpus, most_gpus, time_left_s, worth_changing


def doubled(
    jobs: Sequence[Contender], gpus: int, *, fit: bool = True, first: int | None = None
) -> dict[JobKey, int]:
    """GPUs per job; ``jobs`` in the order in which they get their first ones.

    ``first``: how many those are, None: the smallest size each job may have. Jobs not named wait.
    """
    sizes: dict[JobKey, int] = {}
    by_key = {j.key: j for j in jobs}
    for job in jobs:
        start = first or least_gpus(job)
        if start <= gpus:
            sizes[job.key] = start
            gpus -= start
    while True:
        best, best_gain = None, 0.0
        for key, size in sizes.items():  # ties: the earlier
            if size > gpus or 2 * size > most_gpus(by_key[key]):
                continue
            job = by_key[key]
            saved_s = time_left_s(job, size, fit=fit) - time_left_s(job, 2 * size, fit=fit)
            if saved_s / size > best_gain:
                best, best_gain = key, saved_s / size
        if best is None:
            return sizes
        gpus -= sizes[best]
        sizes[best] *= 2


@dataclass(frozen=True, slots=True)
class Doubling:
    """The doubling heuristic over all jobs, anew at every change and every ``period_s``.

    ``fit``: declared speeds are smoothed by the ring model. ``explore_s`` > 0: a new job first
    walks through 1, 2, 4, … GPUs in that time, with its largest size set aside. ``hysteresis``:
    when nobody waits, sizes change only if the time saved outweighs the restarts.
    """

    period_s: float = 600.0
    fit: bool = True
    explore_s: float = 0.0
    hysteresis: bool = True

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        free = servers.total_gpus
        order = sorted(jobs, key=lambda j: j.line)
        exploring: list[Contender] = []
        known: list[Contender] = []
        needed = 0  # by known jobs for their first GPUs
        for job in order:
            if not self._explores(job):
                known.append(job)
                needed += least_gpus(job) if needed + least_gpus(job) <= free else 0
            elif most_gpus(job) <= free - needed:
                exploring.append(job)
                free -= most_gpus(job)
        sizes = doubled(known, free, fit=self.fit)
        if self.hysteresis and not worth_changing(known, sizes, free, fit=self.fit):
            sizes = {j.key: j.gpus_held for j in known if j.held}
        targets = [(j, most_gpus(j)) for j in exploring]
        targets += [(j, sizes[j.key]) for j in known if sizes.get(j.key)]
        active = {j.key: self._stage(j) for j in exploring}
        return [
            g._replace(active=active[g.key]) if g.key in active else g
            for g in lay_out(targets, servers)
        ]

    def _explores(self, job: Contender) -> bool:
        return job.attained_s < self.explore_s and most_gpus(job) > least_gpus(job)

    def _stage(self, job: Contender) -> int:
        """GPUs the job works on while it explores: equal time on each doubling."""
        least, most = least_gpus(job), most_gpus(job)
        stages = (most // least).bit_length()
        stage = int(job.attained_s * stages // self.explore_s)
        return min(most, least << stage)

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        waits = [self.period_s]
        for job in jobs:
            if self._explores(job):
                least, most = least_gpus(job), most_gpus(job)
                step_s = self.explore_s / (most // least).bit_length()
                waits.append(step_s - job.attained_s % step_s)
        return min(waits) if jobs else None
