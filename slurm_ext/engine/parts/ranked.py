"""Preemptive scheduling by rank: who is first gets what it asked for, whoever runs now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.engine.allocation import Contender, Ended, Grant, Servers

from .packing import Placer
from .ranks import Rank


@dataclass(frozen=True, slots=True)
class Ranked:
    """Every job gets its requested GPUs in the order of ``rank``, or waits.

    A job that does not fit is passed over. ``scatter``: GPUs may come from any number of
    servers, else from as few as possible.
    """

    rank: Rank
    scatter: bool = False

    def grants(
        self, jobs: Sequence[Contender], servers: Servers, now_s: int, past: Sequence[Ended]
    ) -> list[Grant]:
        keys = self.rank.keys(jobs, now_s, past)
        order = [
            job for _, job in sorted(zip(keys, jobs, strict=True), key=lambda p: (p[0], p[1].line))
        ]
        placer = Placer(servers, order, scatter=self.scatter)
        left = servers.total_gpus
        for position, job in enumerate(order):
            if not left:
                break
            if job.gpus <= left and placer.place(position, job):
                left -= job.gpus
        return placer.done()

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return self.rank.review_in_s(jobs, past)
