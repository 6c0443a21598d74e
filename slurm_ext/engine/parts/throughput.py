"""Elastic sizes that make the most of the cluster now: exactly, and greedily one GPU at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slurm_ext.engine.allocation import Contender, Ended, Grant, Servers

from .elastic import lay_out, least_gpus, most_gpus, relative_speed, time_left_s


def best_sizes(gains: Sequence[Sequence[float]], gpus: int) -> list[int]:
    """Sizes with the greatest sum of gains, by dynamic programming (Saxena et al. 2020).

    ``gains[j][g - 1]``: gain of job j on g GPUs, ``-inf`` where it cannot run. Every job gets at
    least one GPU; equal sums give the earlier job fewer. O(jobs x gpus x largest size).

    :raises ValueError: no division of the GPUs gives every job a size it can have.
    """
    worst = float("-inf")
    best = np.full(gpus + 1, worst)
    best[0] = 0.0
    chosen: list[np.ndarray] = []
    for row in gains:
        after = np.full(gpus + 1, worst)
        size = np.zeros(gpus + 1, dtype=np.int64)
        for g, gain in enumerate(row[:gpus], 1):
            if gain == worst:
                continue
            reached = best[: gpus + 1 - g] + gain
            better = reached > after[g:]
            after[g:][better] = reached[better]
            size[g:][better] = g
        best = after
        chosen.append(size)
    left = int(np.argmax(best))
    if best[left] == worst:
        raise ValueError("not every job can have a size")
    sizes: list[int] = []
    for size in reversed(chosen):
        sizes.append(int(size[left]))
        left -= sizes[-1]
    return sizes[::-1]


@dataclass(frozen=True, slots=True)
class MaxThroughput:
    """The greatest sum of speed-ups over one GPU, for the earliest jobs that all get their least.

    Saxena et al., Effective Elastic Scaling of Deep Learning Workloads, MASCOTS 2020.
    """

    period_s: float = 600.0

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        chosen: list[Contender] = []
        left = servers.total_gpus
        for job in sorted(jobs, key=lambda j: j.line):
            if least_gpus(job) > left:
                break
            chosen.append(job)
            left -= least_gpus(job)
        if not chosen:
            return []
        sizes = best_sizes([_gains(job) for job in chosen], servers.total_gpus)
        return lay_out(list(zip(chosen, sizes, strict=True)), servers)

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return self.period_s if jobs else None


def _gains(job: Contender) -> list[float]:
    least, most = least_gpus(job), most_gpus(job)
    base = relative_speed(job, least)
    found = [float("-inf")] * most
    for gpus in range(least, most + 1):
        found[gpus - 1] = relative_speed(job, gpus) / base
    return found


@dataclass(frozen=True, slots=True)
class MarginalGain:
    """One GPU more at a time to the job whose remaining time it shortens most.

    Peng et al., Optimus, EuroSys 2018. Jobs get their least in order of submission first.
    ``by_share``: the gain is the share of the remaining time saved, not the time. ``scatter``:
    small jobs first on the emptiest servers, as the artifact of Pollux has it.
    """

    period_s: float = 600.0
    by_share: bool = False
    fit: bool = False
    scatter: bool = False

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        left = servers.total_gpus
        sizes: list[int] = []
        order = sorted(jobs, key=lambda j: j.line)
        for job in order:
            sizes.append(least_gpus(job) if least_gpus(job) <= left else 0)
            left -= sizes[-1]
        gains = [self._gain(j, s) if s else 0.0 for j, s in zip(order, sizes, strict=True)]
        while left and gains:
            best = max(range(len(gains)), key=gains.__getitem__)
            if gains[best] <= 0:
                break
            sizes[best] += 1
            left -= 1
            gains[best] = self._gain(order[best], sizes[best])
        return lay_out(list(zip(order, sizes, strict=True)), servers, scatter=self.scatter)

    def _gain(self, job: Contender, size: int) -> float:
        if size >= most_gpus(job):
            return 0.0
        now_s = time_left_s(job, size, fit=self.fit)
        saved_s = now_s - time_left_s(job, size + 1, fit=self.fit)
        return round(saved_s / now_s if self.by_share else saved_s, 9)  # equal jobs tie

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return self.period_s if jobs else None
