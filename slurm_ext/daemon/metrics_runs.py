"""What became of runs between two looks: ended, or requeued."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from slurm_ext.model.job import Job, JobKey


class Seen(NamedTuple):
    """News of one look. ``ended``: (GPUs, seconds from submission to end) of each job.

    ``lost_gpu_s``: GPU-seconds of the runs that were requeued, up to the last look at them.
    """

    ended: tuple[tuple[int, int], ...]
    requeues: int
    lost_gpu_s: int


class _Run(NamedTuple):
    restarts: int
    gpus: int
    ran_s: int


@dataclass(slots=True)
class Runs:
    """Remembers what ran and what has ended; the first look only remembers.

    Runs go by job id: a requeue changes the submit time.
    """

    _ended: set[JobKey] | None = None
    _running: dict[int, _Run] = field(default_factory=dict)

    def look(self, jobs: Iterable[Job], now_s: int) -> Seen:
        """The news since the last look. slurmctld shows ended jobs for MinJobAge."""
        ended, over = set(), []
        running = {}
        requeues = lost_gpu_s = 0
        for job in jobs:
            gpus = sum(share.gpus for share in job.alloc) or job.request.gpus
            before = self._running.get(job.job_id)
            if before is not None and job.restarts > before.restarts:
                requeues += job.restarts - before.restarts
                lost_gpu_s += before.gpus * before.ran_s
            if job.state.ended and job.end_s and job.start_s:
                ended.add(job.key)
                if self._ended is not None and job.key not in self._ended:
                    over.append((gpus, max(0, job.end_s - job.key.submit_s)))
            elif job.alloc and job.start_s:
                running[job.job_id] = _Run(job.restarts, gpus, max(0, now_s - job.start_s))
        self._ended, self._running = ended, running
        return Seen(tuple(over), requeues, lost_gpu_s)
