"""Jobs in the order in which one fast machine would have finished them, and no place worth waiting.

After Luo, Liu, Lee, Shroff, Prediction-Assisted Online Distributed Deep Learning Workload
Scheduling in GPU Clusters, INFOCOM 2025 (A-SRPT), as recalled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from slurm_ext.engine.allocation import Contender, Ended, Grant, Servers
from slurm_ext.model.job import JobKey

from .packing import consolidated, scattered


def finished_s(jobs: Iterable[tuple[JobKey, float]]) -> dict[JobKey, float]:
    """When one machine finishes each job by shortest remaining time (Schrage 1968).

    ``jobs``: each with the seconds it takes there; it comes at its submit time. Of equal remaining
    times the earlier key goes first.
    """
    arrivals = sorted((key.submit_s, key, work_s) for key, work_s in jobs)
    waiting: list[tuple[float, JobKey]] = []
    found: dict[JobKey, float] = {}
    now_s = 0.0
    for submit_s, key, work_s in [*arrivals, (float("inf"), None, 0.0)]:
        while waiting and now_s < submit_s:
            left_s, first = heappop(waiting)
            if now_s + left_s <= submit_s:
                now_s += left_s
                found[first] = now_s
            else:
                heappush(waiting, (left_s - (submit_s - now_s), first))
                now_s = float(submit_s)
        if key is not None:
            now_s = max(now_s, float(submit_s))
            heappush(waiting, (work_s, key))
    return found


@dataclass(frozen=True, slots=True)
class VirtualOrder:
    """Nothing is stopped; a job is offered once the virtual machine has finished it.

    That machine does the work of all GPUs: a job takes its GPU time over the GPUs there are. Who
    comes first and does not fit keeps all behind it waiting. A job with heavy communication waits
    for as few servers as possible, but not longer than ``patience`` times its virtual time in the
    system; the others take GPUs wherever they are.
    """

    patience: float = 1.0

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        done_s = self._virtual(jobs, servers, past)
        free = list(servers.gpus)
        found = [Grant(j.key, j.held) for j in jobs if j.held]
        for grant in found:
            for s in grant.slices:
                free[s.server] -= s.gpus
        ready = [j for j in jobs if not j.held and done_s[j.key] <= now_s]
        size = max(servers.gpus)
        for job in sorted(ready, key=lambda j: (done_s[j.key], j.line)):
            slices = consolidated(free, job.gpus, size)
            if not slices and not self._waits(job, done_s[job.key], now_s):
                slices = scattered(free, job.gpus)
            if not slices:
                break
            for s in slices:
                free[s.server] -= s.gpus
            found.append(Grant(job.key, slices))
        return found

    def _waits(self, job: Contender, done_s: float, now_s: int) -> bool:
        heavy = job.annotation.communication == "heavy"
        return heavy and now_s < self._until_s(job, done_s)

    def _until_s(self, job: Contender, done_s: float) -> float:
        return done_s + self.patience * (done_s - job.key.submit_s)

    def _virtual(
        self, jobs: Sequence[Contender], servers: Servers, past: Sequence[Ended]
    ) -> dict[JobKey, float]:
        total = servers.total_gpus
        known = [(j.key, j.service_s * j.gpus / total) for j in jobs]
        known += [(p.key, p.service_s * p.gpus / total) for p in past]
        return finished_s(known)

    def wake_s(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> float | None:
        """When the virtual machine ends a job, or somebody has waited enough for few servers."""
        done_s = self._virtual(jobs, servers, past)
        waiting = [j for j in jobs if not j.held]
        moments = [done_s[j.key] for j in waiting]
        moments += [self._until_s(j, done_s[j.key]) for j in waiting]
        return min((m for m in moments if m > now_s), default=None)

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None
