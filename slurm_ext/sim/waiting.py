"""The pending jobs of the simulated Slurm that may start now, highest priority first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from .record import SimJob

_Entry = tuple[int, int, SimJob]


class WaitingJobs:
    """Kept sorted by (priority, age of the record); ties go to the lower job id."""

    __slots__ = ("_entries", "_where")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._where: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, job: SimJob) -> bool:
        return job.key.job_id in self._where

    def __iter__(self) -> Iterator[SimJob]:
        """In order; jobs may be removed meanwhile. In chunks: most walks are short."""
        size = 8
        chunk = self._entries[:size]
        while chunk:
            for entry in chunk:
                yield entry[2]
            size *= 4
            start = bisect_right(self._entries, chunk[-1])
            chunk = self._entries[start : start + size]

    def first(self, count: int) -> list[SimJob]:
        """The first of them, as a copy."""
        return [entry[2] for entry in self._entries[:count]]

    def add(self, job: SimJob) -> None:
        self._where[job.key.job_id] = -job.priority
        insort(self._entries, (-job.priority, job.key.job_id, job))

    def remove(self, job: SimJob) -> None:
        """Take a job out, if it is there; its priority may have changed meanwhile."""
        rank = self._where.pop(job.key.job_id, None)
        if rank is not None:
            # (rank, id) sorts before (rank, id, job) and is unique
            del self._entries[bisect_left(self._entries, (rank, job.key.job_id))]
