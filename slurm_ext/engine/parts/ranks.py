"""Orders over running and waiting jobs; a lower key goes first, ties by line."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slurm_ext.engine.allocation import Contender, Ended

Key = tuple[float, ...]
FloatArray = npt.NDArray[np.float64]


class Rank(Protocol):
    """Gives every contender its key."""

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]: ...

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        """Seconds until a running job's key may pass another's by running on; None: never."""
        ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """First come, first served."""

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        return [()] * len(jobs)

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class ShortestRemaining:
    """Least expected time to the end; ``times_gpus``: least GPU time (SRSF)."""

    times_gpus: bool = False

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        return [(j.remaining_s * (j.gpus if self.times_gpus else 1),) for j in jobs]

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None  # who runs has the lowest key and only lowers it


@dataclass(frozen=True, slots=True)
class AttainedQueues:
    """Discretised least attained service (Gu et al., Tiresias, NSDI 2019).

    A job starts in the first queue and moves down each time its service passes one of ``limits``:
    GPU-seconds with ``times_gpus`` (2D-LAS), else seconds. Within a queue: first start, then line;
    who has never started comes after. ``promote`` > 0: a job that has waited that many times as
    long as it has run goes back to the first queue; 0: never.
    """

    limits: tuple[float, ...] = (3250.0, 7200.0)
    times_gpus: bool = True
    promote: float = 0.0

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        return [(float(self._queue(j, now_s)), float(j.line)) for j in jobs]

    def _service(self, job: Contender) -> float:
        return job.attained_gpu_s if self.times_gpus else job.attained_s

    def _queue(self, job: Contender, now_s: int) -> int:
        waits = self.promote and not job.held and job.started_s is not None
        if waits and now_s - job.since_s >= self.promote * job.attained_s:
            return 0
        return bisect_right(self.limits, self._service(job))

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        waits = []
        for job in jobs:
            queue = bisect_right(self.limits, self._service(job))
            if queue < len(self.limits):
                rate = max(1, job.gpus_held) if self.times_gpus else 1
                waits.append((self.limits[queue] - self._service(job)) / rate)
        return min(waits, default=None)


@dataclass(frozen=True, slots=True)
class Gittins:
    """Gittins index in the queues of 2D-LAS (Gu et al., Tiresias, NSDI 2019).

    Queues as in :class:`AttainedQueues`; within a queue the highest index goes first: the chance
    to end within the next quantum over the expected use of it, given the GPU-seconds had, by the
    GPU-seconds of the last ``window`` ended jobs. The quantum reaches to the end of the queue; in
    the last one it is as much again as the job has had. With fewer than ``least`` samples of jobs
    that took longer the index is 0.
    """

    limits: tuple[float, ...] = (3250.0, 7200.0)
    window: int = 10_000
    least: int = 5

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        samples = np.sort([p.gpus * p.service_s for p in past[-self.window :]])
        sums = np.concatenate(([0.0], np.cumsum(samples)))
        found: list[Key] = []
        for job in jobs:
            queue = bisect_right(self.limits, job.attained_gpu_s)
            had = job.attained_gpu_s
            until = self.limits[queue] if queue < len(self.limits) else 2 * had
            index = self._index(samples, sums, had, until - had)
            found.append((float(queue), -index, float(job.line)))
        return found

    def _index(self, samples: FloatArray, sums: FloatArray, had: float, quantum: float) -> float:
        """P(S - had <= quantum | S > had) / E[min(S - had, quantum) | S > had]."""
        first = int(np.searchsorted(samples, had, side="right"))
        longer = len(samples) - first
        if longer < self.least:
            return 0.0
        last = int(np.searchsorted(samples, had + quantum, side="right"))
        within = float(sums[last] - sums[first]) - had * (last - first)
        use = (within + quantum * (len(samples) - last)) / longer
        return (last - first) / longer / use if use else 0.0

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return AttainedQueues(self.limits).review_in_s(jobs, past)


@dataclass(frozen=True, slots=True)
class ShortestAtSpeed:
    """Least time to the end at the speed of now; of a waiting job, at the best to expect."""

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        return [(j.remaining_s / j.speed,) for j in jobs]

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class LeastAttained:
    """Least GPU time had so far (LAS without queues): for rounds, where it cannot thrash."""

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        return [(j.attained_gpu_s,) for j in jobs]

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class UserShares:
    """Max-min fairness between users: whose earlier jobs have fewest GPUs goes first.

    Progressive filling (Bertsekas and Gallager, Data Networks, 1992): a user's first job counts
    nothing before it, the second the GPUs of the first, and so on.
    """

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        before: dict[str, int] = {}
        found: dict[int, Key] = {}
        for job in sorted(jobs, key=lambda j: j.line):
            found[job.line] = (float(before.get(job.user, 0)),)
            before[job.user] = before.get(job.user, 0) + job.gpus
        return [found[j.line] for j in jobs]

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class FinishTimeFairness:
    """Who would end latest against a run of its own goes first (Mahajan et al., Themis, 2020).

    rho = (age + remaining time) / run time as requested; an equal share would stretch all run times
    by the same factor, which does not change the order.
    """

    def keys(self, jobs: Sequence[Contender], now_s: int, past: Sequence[Ended]) -> list[Key]:
        return [(-(now_s - j.key.submit_s + j.remaining_s) / max(1.0, j.service_s),) for j in jobs]

    def review_in_s(self, jobs: Sequence[Contender], past: Sequence[Ended]) -> float | None:
        return None
