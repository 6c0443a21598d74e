"""Predicted run times inside a simulation: from jobs that have ended before, nothing else."""

from __future__ import annotations

from typing import Protocol

from slurm_ext.model.estimate import Estimate

from .workload import TraceJob


class Foresight(Protocol):
    """Predicts run times; the daemon's own predictor learns more than these."""

    def ended(self, job: TraceJob) -> None:
        """Learn from a job that has ended."""
        ...

    def estimate(self, job: TraceJob) -> Estimate | None:
        """What is expected of a job, at most its limit; None: nothing is known."""
        ...


class UserMean:
    """Mean run time of a user's ended jobs of equal size, else of all ended jobs of that size.

    As the baselines of Hu et al. (SC 2021) use it.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int], tuple[int, float]] = {}

    def ended(self, job: TraceJob) -> None:
        for key in ((job.user, job.gpus), ("", job.gpus)):
            count, total_s = self._sums.get(key, (0, 0.0))
            self._sums[key] = (count + 1, total_s + job.run_s)

    def estimate(self, job: TraceJob) -> Estimate | None:
        for level, key in (("user+size", (job.user, job.gpus)), ("size", ("", job.gpus))):
            count, total_s = self._sums.get(key, (0, 0.0))
            if count:
                return _point(job, total_s / count, count, level)
        return None


class LastTwo:
    """Mean of a user's two last ended jobs; before there are two, nothing is known.

    Tsafrir, Etsion, Feitelson, IEEE TPDS 18(6), 2007.
    """

    def __init__(self) -> None:
        self._last: dict[str, list[int]] = {}

    def ended(self, job: TraceJob) -> None:
        self._last[job.user] = [*self._last.get(job.user, [])[-1:], job.run_s]

    def estimate(self, job: TraceJob) -> Estimate | None:
        last = self._last.get(job.user, [])
        return _point(job, sum(last) / 2, 2, "user") if len(last) == 2 else None


def _point(job: TraceJob, mean_s: float, count: int, level: str) -> Estimate:
    if job.limit_s is not None:
        mean_s = min(mean_s, job.limit_s)
    return Estimate(mean_s, mean_s, mean_s, mean_s, count, level)


FORESIGHTS: dict[str, type[UserMean] | type[LastTwo]] = {"history": UserMean, "last2": LastTwo}
